"""Queries as trees of joins over buffers: compiled kernels, each common fragment built once."""
