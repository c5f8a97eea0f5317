"""Aggregates without matches: queries compiled to linear counting automata.

See docs/design.md#counting-is-linear.
"""
