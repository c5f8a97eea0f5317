"""Events in the order of their keys."""
