"""The pattern and plan representation, rewrite rules, statistics, cost models and the planner."""
