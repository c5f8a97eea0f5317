"""Searching rows for a pattern of variables whose conditions are known row by row."""
