"""Records in binary form, read into columns."""
