"""Matches of sequences that nothing else ties, listed in order."""
