"""Rules of other systems, taken as queries: what importers give, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workloads.expressions import Expression
from workloads.syntax import Query

MOST_SAID = 20  # rules that are named


@dataclass(frozen=True)
class NamedRule:
    """A rule that was taken: its query, what it says of itself, and the file that it is from.

    `suppress` is what it has under that key, as written.
    """

    query: Query
    about: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    suppress: Any = None


@dataclass(frozen=True)
class RefusedRule:
    """A rule that was not taken, and why; the `format` is empty where it is not known any more."""

    format: str
    name: str
    place: str
    reason: str

    def render(self) -> str:
        where = ", ".join(part for part in (self.place, self.name) if part)
        what = f"{self.format} rule" if self.format else "rule"
        return f"{what} not taken: {where or 'unnamed'}: {self.reason}"


def refusals(refused: Sequence[RefusedRule]) -> list[str]:
    """A sentence for each rule that was not taken; of very many for the first."""
    said = [rule.render() for rule in refused[:MOST_SAID]]
    if more := len(refused) - len(said):
        said.append(f"{more:,} more rules were not taken; 'sheaf check' lists them all")
    return said


@dataclass(frozen=True)
class ImportedRules:
    """Rules as queries, the types of events that they read, and those that were refused."""

    rules: tuple[NamedRule, ...] = ()
    types: Mapping[str, Expression] = field(default_factory=dict)
    refused: tuple[RefusedRule, ...] = ()
    is_strict: bool = False  # such as stand among queries: one that events do not fit is an error


def unique_name(wanted: str, taken: set[str]) -> str:
    """The name, with a number behind it where another query has it; it is taken from then on."""
    name, number = wanted, 2
    while name in taken:
        name = f"{wanted} {number}"
        number += 1
    taken.add(name)
    return name
