"""Solvers that choose what is shared; each says how good its answer is, and whether it is
proven.
"""
