"""Limits on the partial matches that a query holds, and the errors that a run ends with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from workloads.errors import SheafError, TooLargeError, UnsupportedError
from workloads.workload import PartialLimit as PartialLimit


class EventsError(SheafError):
    """Events that cannot be read; says which file, row and column, and what to do."""


class BadRowError(EventsError):
    """One row that cannot be an event; says which file, row and column."""


class ResultsError(SheafError):
    """Results that cannot be written."""


class StateError(SheafError):
    """A saved state that cannot be gone on with."""


def named_error(error: UnsupportedError, query: str) -> SheafError:
    """The error with the query's name in front, where it does not say it yet."""
    text = str(error)
    if text.startswith(f"query {query} "):
        return error
    kind = TooLargeError if isinstance(error, TooLargeError) else UnsupportedError
    return kind(f"query {query}: {text}")


class PartialLimitError(SheafError):
    """A query has reached the limit, and is to be stopped."""

    def __init__(self, query: str, found: str, limit: PartialLimit) -> None:
        super().__init__(
            f"query {query} is stopped: {found}, and the limit is {limit.most:,}; raise the limit, "
            "let the oldest be dropped (--on-limit drop-oldest), shorten its window, partition it "
            "by a key, or add conditions"
        )


def row_limit_reason(query: str, limit: int) -> str:
    """Why a query is stopped that has more rows than it may give."""
    return (
        f"query {query} is stopped: it has more rows than the {limit:,} that it may give; raise "
        "--row-limit, shorten its window, partition it by a key, or add conditions"
    )


STOPPED_TOO = "whose rows it reads, is stopped"


def maker_stopped_reason(query: str, maker: str) -> str:
    """Why a query is stopped that would read only some of another's rows."""
    return f"query {query} is stopped: query {maker}, {STOPPED_TOO}"


@dataclass
class Ledger:
    """What limits did to the queries of a run: those that are stopped, with the reason, and how
    many partial matches of others were dropped."""

    stopped: dict[str, str] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Limits:
    """How much is done at once, and how much is too much."""

    chunk: int = 1 << 18  # partial matches that are looked at together
    join: int = 30_000_000  # extensions of one partial match
    held: int = 30_000_000  # matches that are held to leave out equal ones
    work: int = 20_000_000_000  # partial matches that a query makes in all
    listed: int = 1_000_000_000  # matches that a query lists in order, in one slice
    search: int = 8  # candidates that are tried before a search by value is worth it


def refuse(query: str, why: str) -> NoReturn:
    """Raise the error that says what of a query grew too large, and what to do."""
    raise TooLargeError(
        f"query {query} is too large for the local engine: {why}; "
        "shorten its window, partition it by a key, or add conditions"
    )
