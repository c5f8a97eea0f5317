"""A workload over a live stream as one Spark job."""
