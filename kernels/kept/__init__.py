"""Counters that are kept from batch to batch: what is new arrives, what is old leaves."""
