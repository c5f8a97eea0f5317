"""A machine's states, and the edges between them that the letters of a stream give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from optimizer.automaton import Machine, Position, Symbols
from optimizer.ir.pattern import Symbol

ANY = -1  # whatever else occurs at the same time


class Letters(NamedTuple):
    """The letters of a stream.

    `stays` are the sets of symbols that occur at one time; `moves` are an event's own symbols
    together with the number of the set that it occurs in.
    """

    moves: Sequence[tuple[Symbols, int]]
    stays: Sequence[Symbols]


class Edge(NamedTuple):
    """A way from state to state; `alias` is the component that an event is used for."""

    source: int
    target: int
    alias: str | None = None


@dataclass
class Explored:
    """A machine's states, and the edges that each letter of the stream gives.

    `after[i]` are the states that state i leads to, itself included.
    """

    machine: Machine
    states: list[Position]
    moves: dict[tuple[Symbol, int], list[Edge]]  # by symbol and stay letter, or ANY
    stays: dict[int, list[Edge]]  # by stay letter; those that leave every state alone are left out
    finals: list[int]
    after: list[list[int]]


def explore(machine: Machine, letters: Letters) -> Explored:
    """All states that the stream's letters can lead to, and the edges between them."""
    watched = machine.watched_symbols
    sets = {i: present & watched for i, present in enumerate(letters.stays)}
    variants = {
        (symbol, sets[stay]): None
        for symbols, stay in letters.moves
        for symbol in symbols & machine.symbols
    }
    numbers: dict[Position, int] = {machine.start: 0}
    states = [machine.start]

    def number(state: Position) -> int:
        if state not in numbers:
            numbers[state] = len(states)
            states.append(state)
        return numbers[state]

    by_set: dict[Symbols, list[Symbol]] = defaultdict(list)
    for symbol, present in variants:
        by_set[present].append(symbol)
    steps: dict[tuple[Symbol, Symbols], list[Edge]] = {variant: [] for variant in variants}
    stays: dict[Symbols, list[Edge]] = {present: [] for present in sets.values()}
    done = 0
    while done < len(states):
        for present, symbols in by_set.items():
            for step in machine.steps(states[done], frozenset(symbols), present):
                steps[step.symbol, present].append(Edge(done, number(step.target), step.alias))
        for present, edges in stays.items():
            after = machine.stay(states[done], present)
            if after is not None:
                edges.append(Edge(done, number(after)))
        done += 1
    identity = [Edge(i, i) for i in range(len(states))]
    moves = _by_letter(steps, sets)
    changing = {i: stays[present] for i, present in sets.items() if stays[present] != identity}
    return Explored(
        machine,
        states,
        moves,
        changing,
        [i for i, state in enumerate(states) if machine.is_final(state)],
        _reached(len(states), [*moves.values(), *changing.values()]),
    )


def _by_letter(
    steps: dict[tuple[Symbol, Symbols], list[Edge]], sets: dict[int, Symbols]
) -> dict[tuple[Symbol, int], list[Edge]]:
    """Edges by symbol alone where it does not matter what else occurs, else by stay letter too."""
    by_symbol: dict[Symbol, dict[Symbols, list[Edge]]] = defaultdict(dict)
    for (symbol, present), edges in steps.items():
        by_symbol[symbol][present] = edges
    found: dict[tuple[Symbol, int], list[Edge]] = {}
    for symbol, variants in by_symbol.items():
        distinct = list(variants.values())
        if all(edges == distinct[0] for edges in distinct):
            found[symbol, ANY] = distinct[0]
        else:
            for i, present in sets.items():
                if present in variants:
                    found[symbol, i] = variants[present]
    return found


def _reached(size: int, letters: list[list[Edge]]) -> list[list[int]]:
    following: dict[int, set[int]] = defaultdict(set)
    for edges in letters:
        for edge in edges:
            following[edge.source].add(edge.target)
    found = []
    for i in range(size):
        seen, todo = {i}, [i]
        while todo:
            for j in following[todo.pop()] - seen:
                seen.add(j)
                todo.append(j)
        found.append(sorted(seen))
    return found
