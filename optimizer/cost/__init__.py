"""Cost models: each one small file, with its unit in the docstring."""
