"""Groups of events of a Kleene pattern."""
