"""Situations: stretches in which a condition holds, and choices of them by their relations."""
