"""Rows with a bit for each reader whose negations leave them."""
