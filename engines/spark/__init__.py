"""Plans as Spark jobs."""
