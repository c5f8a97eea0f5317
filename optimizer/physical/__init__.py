"""The plan that runs: what is shared, what runs where, and why."""
