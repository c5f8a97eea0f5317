"""A workload over events that keep coming: batch by batch, with a state that can be saved."""
