"""What a query about situations looks for: definitions, durations, and relations between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from optimizer.ir.pattern import ANY_TYPE, Symbol
from workloads.expressions import Logical
from workloads.printing import print_expression, print_name
from workloads.situations.relations import print_relations
from workloads.situations.syntax import Emit
from workloads.workload import print_nanoseconds

Edge = OneOf["start", "end"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A condition that holds for a while: `symbol`'s, asked of all events of `member`.

    A situation ends, too, where the next event is more than `gap` nanoseconds away.
    """

    symbol: Symbol
    member: Symbol
    gap: int | None = None

    def __str__(self) -> str:
        gap = "" if self.gap is None else f" GAP {print_nanoseconds(self.gap)}"
        return f"{self.of}{self.condition}{gap}"

    @property
    def of(self) -> str:
        """The type of its events, where they have one."""
        return "" if self.member.type == ANY_TYPE else f"OF {print_name(self.member.type)} "

    @property
    def condition(self) -> str:
        """What is asked of an event."""
        asked = self.symbol.predicates
        return print_expression(asked[0] if len(asked) == 1 else Logical("AND", asked))


@dataclass(frozen=True, slots=True)
class Situation:
    """A name for situations of a definition that last so many nanoseconds at least and at most."""

    name: str
    definition: Definition
    at_least: int | None = None
    at_most: int | None = None

    def __str__(self) -> str:
        definition = self.definition
        text = f"{print_name(self.name)} {definition.of}AS {definition.condition}"
        least, most = self.at_least, self.at_most
        if least is not None and most is not None:
            text += f" BETWEEN {print_nanoseconds(least)} AND {print_nanoseconds(most)}"
        elif least is not None:
            text += f" AT LEAST {print_nanoseconds(least)}"
        elif most is not None:
            text += f" AT MOST {print_nanoseconds(most)}"
        gap = definition.gap
        return text if gap is None else f"{text} GAP {print_nanoseconds(gap)}"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One of the relations of `mask` holds between two situations, known by their places."""

    left: int
    right: int
    mask: int


@dataclass(frozen=True, slots=True)
class ReturnEdge:
    """`A.start` or `A.end`: a field of the name's object, or a value under a `name` of its own."""

    situation: int
    edge: Edge
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ReturnAggregate:
    """`avg(B.speed) AS v`: the value of that name among the items that are read of events."""

    name: str


ReturnedItem = ReturnEdge | ReturnAggregate


@dataclass(frozen=True, slots=True)
class Temporal:
    """Situations and what ties them.

    `implied` has, for every two places in ascending order, the relations that the constraints leave
    possible between them: a join may use them, while when a match is certain rests on what is
    written. `returned` is what each match gives, in order.
    """

    situations: tuple[Situation, ...]
    constraints: tuple[Constraint, ...]
    implied: tuple[tuple[int, int, int], ...]
    emit: Emit
    returned: tuple[ReturnedItem, ...]

    @property
    def edge(self) -> Edge | None:
        """The moments that it gives of each situation, in place of matches."""
        return self.emit if self.emit in ("start", "end") else None

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """Each definition once."""
        return tuple(dict.fromkeys(s.definition for s in self.situations))

    def fields(self) -> dict[str, tuple[ReturnedItem, ...]]:
        """What a match has at its top, by name: the edges of a situation, or one value."""
        found: dict[str, tuple[ReturnedItem, ...]] = {}
        for item in self.returned:
            name = item.name
            if name is None:
                assert isinstance(item, ReturnEdge)
                name = self.situations[item.situation].name
            found[name] = (*found.get(name, ()), item)
        return found

    def edges(self) -> list[str]:
        """The starts and ends that it gives, as written."""
        found = []
        for item in self.returned:
            if isinstance(item, ReturnEdge):
                text = f"{print_name(self.situations[item.situation].name)}.{item.edge}"
                found.append(text if item.name is None else f"{text} AS {print_name(item.name)}")
        return found

    def __str__(self) -> str:
        names = [print_name(situation.name) for situation in self.situations]
        ties = [
            f"{names[c.left]} {print_relations(c.mask)} {names[c.right]}" for c in self.constraints
        ]
        defined = ", ".join(map(str, self.situations))
        emit = "" if self.emit == "early" else f" EMIT {self.emit.upper()}"
        return f"DEFINE {defined} PATTERN {' AND '.join(ties) or names[0]}{emit}"
