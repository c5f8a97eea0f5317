"""Queries in EQL, the Event Query Language of Elastic, read as queries of Sheaf."""
