"""Engines that answer queries in one pass over the events of each partition, in order."""
