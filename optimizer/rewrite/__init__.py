"""Rewriting patterns by rules: the driver, the rules, and the normal form they lead to."""
