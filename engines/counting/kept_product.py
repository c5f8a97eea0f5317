"""The sliding product of a live stream's keys, kept between batches: negations and values too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from engines.counting.compile import Tables
from engines.counting.letters import CountingPlan
from engines.counting.product import CompiledTables
from engines.counting.tables import Letters
from kernels.kept.cpu import BASE, END, ROWS, KeptRows, TimedGroups
from kernels.stacks.cpu import KeptStacks, advance_stacks

Int64s = npt.NDArray[np.int64]


class KeptProduct:
    """The stacks of each key, see `kernels.stacks`."""

    def __init__(
        self, plan: CountingPlan, queries: Int64s, width: int, slide: int, compiled: CompiledTables
    ) -> None:
        self._plan, self._compiled = plan, compiled
        self._queries, self.width, self.slide, self.head = queries, width, slide, 0
        self._letters: int | None = None  # how many the tables are for
        self._tables: Tables
        self._stacks: KeptStacks
        self._runs = self._stop = 0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._stacks)

    def fits(self, letters: Letters) -> bool:
        return self._letters in (None, len(letters.moves))

    def size(self, runs: int) -> int:
        back = self._tables.back
        return runs * (len(back.start_counts) + len(back.start_values))

    def most_rows(self, runs: int) -> int:
        return len(self._queries) * (runs if self.slide else 1)

    def compile(self, letters: Letters) -> None:
        if self._letters is not None:
            return
        self._letters = len(letters.moves)
        tables = self._compiled.tables(self._plan, tuple(self._queries.tolist()), letters)
        self._tables, back, front = tables, tables.back, tables.front
        none, one = np.zeros(0, np.int64), np.zeros(1, np.int64)
        self._stacks = KeptStacks(
            counts=np.zeros((0, len(back.start_counts)), np.uint64),
            values=np.zeros((0, len(back.start_values))),
            first=none,
            last=none,
            middle=none,
            before=one,
            behind=one,
            front_counts=np.zeros((1, int(front.logged.sum())), np.uint64),
            front_values=np.zeros((1, int(front.logged_values.sum()))),
        )

    def make_room(self, runs: int, groups: int) -> None:
        if runs > len(self._stacks.first):
            self._make_runs(2 * runs)
        self._runs = runs
        held, size = self._stop - self.head, len(self._stacks.before)
        if held + groups > size:
            self._make_rings(1 << (held + groups).bit_length())

    def _make_runs(self, runs: int) -> None:
        new = runs - len(self._stacks.first)
        back, stacks = self._tables.back, self._stacks
        self._stacks = stacks._replace(
            counts=np.concatenate([stacks.counts, np.tile(back.start_counts, (new, 1))]),
            values=np.concatenate([stacks.values, np.tile(back.start_values, (new, 1))]),
            first=np.append(stacks.first, np.full(new, -1)),
            last=np.append(stacks.last, np.full(new, -1)),
            middle=np.append(stacks.middle, np.zeros(new, np.int64)),
        )

    def _make_rings(self, size: int) -> None:
        numbers = np.arange(self.head, self._stop)
        stacks, old = self._stacks, numbers % len(self._stacks.before)

        def moved(ring: npt.NDArray[Any]) -> npt.NDArray[Any]:
            found = np.zeros((size, *ring.shape[1:]), ring.dtype)
            found[numbers % size] = ring[old]
            return found

        self._stacks = stacks._replace(
            before=moved(stacks.before),
            behind=moved(stacks.behind),
            front_counts=moved(stacks.front_counts),
            front_values=moved(stacks.front_values),
        )

    def advance(
        self, groups: TimedGroups, progress: Int64s, limit: int, quiet: bool, out: KeptRows
    ) -> bool:
        used = slice(0, self._runs)
        stacks = self._stacks._replace(
            counts=self._stacks.counts[used],
            values=self._stacks.values[used],
            first=self._stacks.first[used],
            last=self._stacks.last[used],
            middle=self._stacks.middle[used],
        )
        slide = 0 if quiet else self.slide
        done = advance_stacks(
            groups, progress, limit, quiet, stacks, *self._tables, self.width, slide, out
        )
        self._stop = int(progress[BASE] + progress[END])
        made = slice(0, int(progress[ROWS]))
        out.query[made] = self._queries[out.query[made]]
        return done
