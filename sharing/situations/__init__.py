"""What queries about situations have in common, and which of it is computed once."""
