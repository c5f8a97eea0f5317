"""Workloads over data frames of a Spark session that its user has made, batch and live."""
