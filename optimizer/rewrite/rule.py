"""What a rewrite rule is, and what it is told about the node it looks at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from optimizer.ir.pattern import (
    And,
    Neg,
    Or,
    Pattern,
    Proj,
    Seq,
    events,
)
from workloads.expressions import Expression
from workloads.workload import Stream


@dataclass
class Names:
    """Gives out aliases that are in no use: the original one and apostrophes."""

    taken: set[str]
    copies: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(pattern: Pattern) -> Names:
        return Names({event.alias for event in events(pattern)})

    def fresh(self, alias: str) -> str:
        """A name that nothing has yet."""
        name = alias + "'"
        while name in self.taken:
            name += "'"
        self.taken.add(name)
        return name

    def copy(self, alias: str) -> str:
        """The name of the component's positive copy: the same in every alternative."""
        if alias not in self.copies:
            self.copies[alias] = self.fresh(alias)
        return self.copies[alias]


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Where a node stands: its ancestors, root first, and the conditions of the body."""

    ancestors: tuple[Pattern, ...]
    conditions: tuple[Expression, ...]
    names: Names
    alternatives: int  # of the whole pattern
    triggers: bool = False  # is the query evaluated at each event that can end a match?
    stream: Stream | None = None  # what its types and its time are, where that is known

    @property
    def is_root(self) -> bool:
        return not self.ancestors

    @property
    def parent(self) -> Pattern | None:
        return self.ancestors[-1] if self.ancestors else None

    @property
    def is_positive(self) -> bool:
        """Is it in no negation?"""
        return not any(isinstance(node, Neg) for node in self.ancestors)

    @property
    def in_seq(self) -> bool:
        """Will it be a part of a SEQ once the ORs and one-part ANDs around it are resolved?"""
        for node in reversed(self.ancestors):
            if isinstance(node, (Or, Proj)) or (isinstance(node, And) and len(node.parts) == 1):
                continue
            return isinstance(node, Seq)
        return False

    def below(self, node: Pattern) -> NodeContext:
        """The place of a part of the node that stands here."""
        return replace(self, ancestors=(*self.ancestors, node))

    def disjunct(self, node: Pattern) -> Pattern:
        """The part of the ORs at the root that the node stands in."""
        return next((n for n in self.ancestors if not isinstance(n, Or)), node)


@dataclass(frozen=True, slots=True)
class Edit:
    """A rewritten node together with all the body's conditions, where these change too."""

    pattern: Pattern
    conditions: tuple[Expression, ...]
    alternatives: int = 0  # how many more the whole pattern has by it


class Rule(Protocol):
    """A module of `optimizer/rewrite/rules`: a name, and a function from a node to what replaces
    it.
    """

    @property
    def NAME(self) -> str: ...  # noqa: N802

    def rewrite(self, node: Pattern, place: NodeContext) -> Pattern | Edit | None:
        """The rewritten node; None where the rule does not apply."""
