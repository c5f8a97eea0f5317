"""The trees of a choice as documents: written out, with marks where something is made once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from optimizer.trees import labels_of
from optimizer.trees.document import to_document
from optimizer.trees.pieces import Reading
from optimizer.trees.renamed import renamed
from optimizer.trees.tree import Tree
from sharing.detection.conflicts import At
from sharing.detection.problem import Problem
from sharing.detection.readers import Reader

SHARED = "shared"  # the mark of a subtree: the candidate that it is


class Trees:
    """The best trees over some nodes."""

    def __init__(self, problem: Problem, made: Collection[int]) -> None:
        self._problem, self._made = problem, frozenset(made)
        self._known: dict[int, Tree] = {}

    def document(self, number: int, marks: Mapping[int, str]) -> dict[str, Any]:
        """The tree of a reading; the nodes in it are marked with their names."""
        reading = self._problem.readings[number]
        return self._written_out(number, reading, {}, marks)

    def served(self) -> dict[int, frozenset[At]]:
        """The places that each node serves, directly or inside another."""
        found: dict[int, set[At]] = {}

        def visit(reader: Reader, reading: int, offset: int) -> None:
            for i in reader.best(self._made).taken:
                node, piece = reader.occurrences[i]
                found.setdefault(node, set()).add(At(reading, offset + piece.first))
                visit(self._problem.nodes[node].reader, reading, offset + piece.first)

        for number, root in enumerate(self._problem.roots):
            visit(root, number, 0)
        return {node: frozenset(places) for node, places in found.items()}

    def readers(self) -> dict[int, int]:
        """How many trees read each node directly: those of readings, and of nodes that are read."""
        found: dict[int, int] = {}
        open_: list[Reader] = list(self._problem.roots)
        while open_:
            reader = open_.pop()
            for i in reader.best(self._made).taken:
                node = reader.occurrences[i].node
                if node not in found:
                    open_.append(self._problem.nodes[node].reader)
                found[node] = found.get(node, 0) + 1
        return found

    def _written_out(
        self, number: int, reading: Reading, names: Mapping[str, str], marks: Mapping[int, str]
    ) -> dict[str, Any]:
        """A reader's tree under a reading's aliases, with those of its nodes in their places."""
        reader = self._problem.readers[number]
        document = to_document(renamed(self._tree(number), names), labels_of(reading.asked))

        def replaced(node: Any) -> Any:
            match node:
                case {"shared": str(i), "aliases": [*_]}:
                    inner, piece = reader.occurrences[int(i)]
                    own = self._problem.nodes[inner].piece.aliases
                    here = (names.get(alias, alias) for alias in piece.aliases)
                    again = len(self._problem.roots) + inner
                    found = self._written_out(
                        again, reading, dict(zip(own, here, strict=True)), marks
                    )
                    return found | {SHARED: marks[inner]} if inner in marks else found
                case {"parts": [*_]}:
                    return {key: replaced(value) for key, value in node.items()}
                case [*parts]:
                    return [replaced(part) for part in parts]
                case _:
                    return node

        made: dict[str, Any] = replaced(document)
        return made

    def _tree(self, number: int) -> Tree:
        if number not in self._known:
            reader = self._problem.readers[number]
            self._known[number] = reader.tree(reader.best(self._made).taken).tree
        return self._known[number]
