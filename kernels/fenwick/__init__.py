"""Counts of sequences whose neighbours are compared, by Fenwick trees over ranks."""
