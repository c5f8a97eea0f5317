"""Partners of events in a join."""
