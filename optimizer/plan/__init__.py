"""Plans: groups, operators, checks, and the difference between two plans."""
