"""Aggregates of single events: columns folded by panes, and windows put together from these."""
