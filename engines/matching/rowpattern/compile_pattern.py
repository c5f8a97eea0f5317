"""Row patterns as instructions, for the kernel and for the search that asks row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.rowpattern.cpu import (
    AT_END,
    AT_START,
    CHECK,
    FORGETS,
    FOUND,
    JUMP,
    PLAIN,
    REMEMBERS,
    SPLIT,
    TAKE,
    PatternCode,
)
from workloads.errors import TooLargeError
from workloads.sql import rowpattern as rp

MAX_INSTRUCTIONS = 200_000


@dataclass
class CompiledPattern:
    """Instructions; of those that take a row, the variable and whether the row is left out.

    `memory` says how far a failure tells of others, see the kernel.
    """

    names: Sequence[str]
    operation: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    excluded: list[bool] = field(default_factory=list)
    memory: int = REMEMBERS

    def code(self, skipped: frozenset[str] | None) -> PatternCode:
        """The instructions as arrays; `skipped` are the variables of AFTER MATCH SKIP."""
        wanted = skipped or frozenset()
        takes = zip(self.operation, self.left, strict=True)
        marked = [what == TAKE and self.names[variable] in wanted for what, variable in takes]
        return PatternCode(
            np.array(self.operation, np.int64),
            np.array(self.left, np.int64),
            np.array(self.right, np.int64),
            np.array(marked, np.bool_),
        )

    def add(self, operation: int, left: int = 0, right: int = 0, excluded: bool = False) -> int:
        if len(self.operation) >= MAX_INSTRUCTIONS:
            raise TooLargeError(
                f"the pattern has more than {MAX_INSTRUCTIONS:,} parts when its repetitions are "
                "written out; repeat less often"
            )
        self.operation.append(operation)
        self.left.append(left)
        self.right.append(right)
        self.excluded.append(excluded)
        return len(self.operation) - 1


def compiled(pattern: rp.RowPattern, names: Sequence[str]) -> CompiledPattern:
    """The instructions of a pattern; variables are numbers in `names`."""
    made = CompiledPattern(names)
    _compile(made, pattern, False)
    made.add(FOUND)
    return made


def _compile(made: CompiledPattern, pattern: rp.RowPattern, excluded: bool) -> None:
    match pattern:
        case rp.Variable(name):
            made.add(TAKE, made.names.index(name), 0, excluded)
        case rp.Sequence(parts):
            for part in parts:
                _compile(made, part, excluded)
        case rp.Choice(parts):
            ends = []
            for part in parts[:-1]:
                split = made.add(SPLIT)
                made.left[split] = split + 1
                _compile(made, part, excluded)
                ends.append(made.add(JUMP))
                made.right[split] = len(made.operation)
            _compile(made, parts[-1], excluded)
            for end in ends:
                made.left[end] = len(made.operation)
        case rp.Excluded(part):
            _compile(made, part, True)
        case rp.Anchor(at_start):
            made.add(AT_START if at_start else AT_END)
        case rp.Repeat(part, least, most, greedy):
            _repeat(made, part, least, most, greedy, excluded)


def _repeat(
    made: CompiledPattern,
    part: rp.RowPattern,
    least: int,
    most: int | None,
    greedy: bool,
    excluded: bool,
) -> None:
    for _ in range(least):
        _compile(made, part, excluded)
    empty = may_be_empty(part)
    if empty and most != least:
        made.memory = max(made.memory, FORGETS if _is_empty_last(part) else PLAIN)
    splits = []
    for _ in range(1 if most is None else most - least):
        splits.append(made.add(SPLIT))
        _compile(made, part, excluded)
        if empty:
            made.add(CHECK, splits[-1])
    if most is None:
        made.add(JUMP, splits[0])
    for split in splits:
        _branch(made, split, greedy)


def _branch(made: CompiledPattern, split: int, greedy: bool) -> None:
    into, beyond = split + 1, len(made.operation)
    made.left[split], made.right[split] = (into, beyond) if greedy else (beyond, into)


def may_be_empty(pattern: rp.RowPattern) -> bool:
    """Can it match without a row?"""
    match pattern:
        case rp.Variable():
            return False
        case rp.Sequence(parts):
            return all(map(may_be_empty, parts))
        case rp.Choice(parts):
            return any(map(may_be_empty, parts))
        case rp.Excluded(part):
            return may_be_empty(part)
        case rp.Anchor():
            return True
        case rp.Repeat(part, least):
            return least == 0 or may_be_empty(part)


def _is_empty_last(pattern: rp.RowPattern) -> bool:
    """Does a pattern that may be empty prefer all else to that?"""
    match pattern:
        case rp.Variable() | rp.Anchor():
            return True
        case rp.Sequence(parts):
            return all(map(_is_empty_last, parts))
        case rp.Choice(parts):
            return not any(map(may_be_empty, parts[:-1])) and _is_empty_last(parts[-1])
        case rp.Excluded(part):
            return _is_empty_last(part)
        case rp.Repeat(part, least, most, greedy):
            return (greedy or least == most) and (not may_be_empty(part) or _is_empty_last(part))
