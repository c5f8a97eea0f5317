"""The commands of `sheaf`, one a file; what is slow to import is imported when it is needed."""
