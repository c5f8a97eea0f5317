"""Finding and choosing what a workload's queries can compute once."""
