"""Searching rows for a pattern of variables whose conditions read the match so far."""
