"""A workload over stored events as one Spark job."""
