"""Events from files: batches, columns, faults in rows, lateness."""
