"""Aggregates without matches: queries compiled to linear counting automata (DESIGN section 5)."""
