"""Sigma rules as queries, by pySigma."""
