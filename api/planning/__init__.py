"""Planning for the service: checked workloads, processes that plan, plans made before."""
