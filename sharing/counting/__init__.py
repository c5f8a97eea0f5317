"""Sharing among queries that are counted: candidates, benefits, conflicts, groups."""
