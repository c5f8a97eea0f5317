"""What is wrong with a tree."""

from __future__ import annotations

from workloads.errors import SheafError


class TreeError(SheafError):
    """A tree that does not evaluate its query, or a request that no tree fulfils."""


class TooEarlyError(TreeError):
    """A tree that decides something before all that it depends on is known."""
