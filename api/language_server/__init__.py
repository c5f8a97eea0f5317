"""Workloads in editors: findings, completion, hover and formatting, over the checker."""
