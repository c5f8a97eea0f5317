"""Sequences of which one partial match waits at each stage for each key."""
