"""Texts as numbers."""
