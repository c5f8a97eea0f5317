"""What is in a file of events, and a first workload for them."""
