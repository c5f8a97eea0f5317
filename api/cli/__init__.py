"""The `sheaf` command."""
