"""Matches that are kept as what they can be made of, and listed in order when they are wanted."""
