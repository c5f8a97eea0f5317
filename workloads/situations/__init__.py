"""Queries with `DEFINE`: situations, and how Allen's relations tie them."""
