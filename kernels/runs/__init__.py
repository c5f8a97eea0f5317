"""Runs of events, each directly behind the one before."""
