"""The canonical form of queries: patterns, predicates and outputs as frozen values."""
