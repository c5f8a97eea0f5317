"""Prefix counts for each active START: A-Seq and PreTree."""
