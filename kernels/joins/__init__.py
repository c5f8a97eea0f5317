"""Joins of rows within a window."""
