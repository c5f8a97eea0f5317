"""What operations cost on this machine, measured by trials."""
