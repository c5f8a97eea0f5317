"""Partial matches bound depth first, one component after the other in any order."""
