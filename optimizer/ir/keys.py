"""Keys by which engines part events besides the columns of a query's key.

For each they take an event once for each value that the event is looked at under, in a column that
they add; whether a component may be bound to it there is a condition on another added column.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from optimizer.ir.pattern import Symbol
from workloads import expressions as ex
from workloads.expressions import Attribute, Comparison, Expression, Literal


@dataclass(frozen=True, slots=True)
class ComponentKey:
    """A key of which each component has a column of its own, by alias; results call it `name`."""

    name: str
    columns: tuple[tuple[str, str], ...]
    optional: bool = False  # null is a value like others

    def column(self, alias: str) -> str:
        """The column of a component."""
        return dict(self.columns)[alias]

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns that components name, each once."""
        return tuple(sorted({column for _, column in self.columns}))

    # Engines take an event once for each value that it has in one of these columns. Then the key
    # is a column that they add, and that a component's own column has the value is a condition on
    # the event alone.

    @property
    def added_column(self) -> str:
        """The column that has the value under which an event is taken."""
        # A dot would be read as a path into a struct.
        columns = ", ".join(self.read_columns).replace(".", "/")
        return f"{_ADDED}{self.name}({columns})" + ("?" if self.optional else "")

    def member_column(self, column: str) -> str:
        """The column that says whether that value is the one of a component's own column."""
        return f"{self.added_column} is {column.replace('.', '/')}"

    def membership(self, alias: str) -> Expression:
        """What an event must satisfy to be taken for a component."""
        name = self.member_column(self.column(alias))
        return Comparison("=", Attribute("", name), Literal(True))


@dataclass(frozen=True, slots=True)
class GroupKey:
    """What aggregates are split by: an attribute of a component that every match has.

    Its rows are those of the query with one value more asked of that component, for each value that
    its `symbol` has. Engines take events once for each group that has such an event less than
    `within` away from them in their partition `by` other keys; everywhere in it where that is None.
    """

    name: str
    alias: str
    attribute: str
    symbol: Symbol
    by: tuple[str, ...]
    within: int | None  # nanoseconds
    optional: ClassVar[bool] = False  # null is no value

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns that components name, by alias: it is one."""
        return ((self.alias, self.attribute),)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns that its values are in."""
        return (self.attribute,)

    @property
    def tested_columns(self) -> frozenset[str]:
        """The columns that say which events have a value: its own, and those of the symbol.

        The symbol is as the query was bound: rules may have found a condition of it to be constant.
        """
        return frozenset({self.attribute}).union(*map(ex.attributes, self.symbol.predicates))

    @property
    def added_column(self) -> str:
        """The column that has the group for which an event is taken."""
        # Two keys of one name that are not alike are told apart by the digest.
        text = repr((self.symbol, self.by, self.within is None))
        digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        named = f"{self.symbol.type}/{self.attribute}".replace(".", "/").replace("(", "[")
        return f"{_ADDED}{self.name}({named} {digest})"

    def member_column(self, column: str) -> str:
        """The column that says whether an event's own value is the one of the group."""
        return f"{self.added_column} is {column.replace('.', '/')}"

    @property
    def membership(self) -> Expression:
        """What an event must satisfy to be taken for the component."""
        name = self.member_column(self.attribute)
        return Comparison("=", Attribute("", name), Literal(True))


AddedKey: TypeAlias = ComponentKey | GroupKey


def wider_key(one: AddedKey, other: AddedKey) -> AddedKey:
    """Of two keys that add the same columns the one that takes events of both."""
    if isinstance(one, GroupKey) and isinstance(other, GroupKey):
        return one if one.within is None or one.within >= (other.within or 0) else other
    return one


_ADDED = "#key:"  # no column of events begins with it
ADDED_TO_ROWS = "#row:"  # nor with this, which tells what a row is that is kept for later


def is_added(name: str) -> bool:
    """Is it a column that is none of the events, but added to them?"""
    return name.startswith((_ADDED, ADDED_TO_ROWS))


def key_name(name: str) -> str:
    """What results call an attribute of a key."""
    return name[len(_ADDED) : name.rindex("(")] if name.startswith(_ADDED) else name
