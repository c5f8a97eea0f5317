"""Which windows are evaluated, and what they hold at most."""
