"""Situations: derived once for all queries of a key, and joined by their relations."""
