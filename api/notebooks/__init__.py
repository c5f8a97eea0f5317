"""Workloads, rows and progress as notebooks show them."""
