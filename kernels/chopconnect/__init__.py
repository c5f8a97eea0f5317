"""Counts of segments for each active START, connected: Chop-Connect."""
