"""Explaining what queries give: the run behind an explanation, and who asks for it."""
