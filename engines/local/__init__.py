"""A workload on one machine: `run.py` over events in memory, `stream.py` slice by slice."""
