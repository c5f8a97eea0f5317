"""Aggregates of single events: folds of columns, pane by pane, and windows put together of panes."""
