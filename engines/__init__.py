"""Executing a plan: reference, local engine, and Spark batch and streaming jobs."""
