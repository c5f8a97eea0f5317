"""Which stored events a query can need: symbols that every match has, in their order."""
