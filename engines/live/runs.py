"""Queries that have come to a running stream at different times, each with a state of its own.

A query that is added begins behind the latest event there is, so that what it gives is what it
would give over a stream that began there. Queries that were added together are one generation.
"""

from __future__ import annotations

from collections.abc import Mapping

from engines.context import DEFAULT_OPTIONS, RunContext, RunOptions
from engines.events import Events
from engines.live.generation import Generation
from engines.live.run import Held, LiveRun
from engines.results import Results, empty_results, joined_results


class LiveGenerations:
    """Like `LiveRun`, for several generations; a state is in parts, by the generation's name."""

    def __init__(
        self,
        generations: Mapping[str, Generation],
        tick: int,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.context = RunContext(options)
        self._runs = {
            name: LiveRun(generation.program, tick, self.context, generation.since)
            for name, generation in generations.items()
        }

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The queries that have one state together, by the name of the first of them."""
        return {first: names for run in self._runs.values() for first, names in run.groups.items()}

    @property
    def held(self) -> dict[str, Held]:
        """What the state of each group holds, by the group's first query; bytes as last saved."""
        return {name: held for run in self._runs.values() for name, held in run.held.items()}

    @property
    def due(self) -> int | None:
        """The first time that may give rows, or let go of state, if no further event comes."""
        times = (run.due for run in self._runs.values())
        return min((time for time in times if time is not None), default=None)

    def add(self, events: Events, until: int | None) -> Results:
        """The rows that are certain once all events up to `until` have come; None: no more will."""
        found = [run.add(events, until) for run in self._runs.values()]
        return joined_results([empty_results(events.time_type), *found])

    def save(self) -> dict[str, bytes]:
        """The state of each generation that holds anything."""
        return {name: run.save() for name, run in self._runs.items() if not run.is_empty}

    def restore(self, parts: Mapping[str, bytes | memoryview]) -> None:
        """Go on with a saved state; generations that it has nothing of start afresh."""
        for name, run in self._runs.items():
            if name in parts:
                run.restore(parts[name])
            else:
                run.clear()
