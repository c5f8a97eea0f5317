"""What long work is at, in a few words, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def report_stage(stage: str) -> None:
    """Tell who listens; in most processes nobody does."""
    for told in _listeners:
        told(stage)


def listen(told: Callable[[str], None]) -> None:
    """Be told from now on, in this process."""
    _listeners.append(told)
