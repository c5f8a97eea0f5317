"""A limit on the partial matches that a query holds, and what became of it.

A partial match is what an operator of a query's tree has put together and keeps until more comes:
two events or more, or a group. Each operator may hold so many of one key at a time. Single events
are not counted, nor what is found of a negation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from workloads.errors import SheafError
from workloads.model import PartialLimit

__all__ = ["Ledger", "PartialLimit", "PartialLimitError"]


class PartialLimitError(SheafError):
    """A query has reached the limit, and is to be stopped."""

    def __init__(self, query: str, found: str, limit: PartialLimit) -> None:
        super().__init__(
            f"query {query} is stopped: {found}, and the limit is {limit.most:,}; raise the limit, "
            "let the oldest be dropped (--on-limit drop-oldest), shorten its window, partition it "
            "by a key, or add conditions"
        )


@dataclass
class Ledger:
    """What limits did to the queries of a run: those that are stopped, with the reason, and how
    many partial matches of others were dropped."""

    stopped: dict[str, str] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
