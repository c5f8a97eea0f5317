"""Constructed matches, aggregated window by window."""
