"""Workloads in editors: findings, completion, meanings, layout and colours, for the language server
and the editor's page."""
