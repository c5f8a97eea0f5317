"""What queries ask for, looked for among events that Spark reads and filters itself.

A sample has most of it. What is not in the sample is looked for in all events as they are read,
before any is left out, by a metric that Spark keeps beside the job: nothing is read twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engines.columns.occurrences import Occurrences, TypeAttribute

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

MAX_METRICS = 500  # more would make a plan that Spark takes long to compile


@dataclass
class ObservedOccurrences:
    """What has occurred in a sample, and what Spark has seen beyond it."""

    of_sample: Occurrences
    _observation: Observation | None = None
    _types: tuple[str, ...] = ()
    _pairs: tuple[TypeAttribute, ...] = ()
    _unknown: tuple[set[str], set[TypeAttribute]] = field(default_factory=lambda: (set(), set()))

    def watched(self, events: DataFrame, places: dict[str, str]) -> DataFrame:
        """The same events, which Spark looks at where something is missing in the sample.

        Columns are called as `places` says. Types that a condition makes are not looked for.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        stream = self.of_sample.stream
        types, pairs = self.of_sample.missing()
        if not types and not pairs:
            return events
        stated = {name for name, condition in stream.types.items() if condition is not None}
        if stream.type is not None and len(types) + len(pairs) <= MAX_METRICS:
            self._types = tuple(sorted(types - stated))
            self._pairs = tuple(sorted(p for p in pairs if p[0] not in stated and p[1] in places))
        self._unknown = (types - set(self._types), pairs - set(self._pairs))
        if stream.type is None or not (self._types or self._pairs):
            return events
        kind = sf.col(places[stream.type]).cast("string")

        def is_there(type_: str, name: str | None = None) -> Column:
            test = kind == sf.lit(type_)
            if name is not None:
                column = sf.col(places[name])
                test = test & column.isNotNull()
                if events.schema[places[name]].dataType.simpleString() in ("double", "float"):
                    test = test & ~sf.isnan(column)
            return sf.max(sf.coalesce(test, sf.lit(False)))

        metrics = [is_there(type_).alias(f"t{i}") for i, type_ in enumerate(self._types)]
        metrics += [is_there(*pair).alias(f"p{i}") for i, pair in enumerate(self._pairs)]
        self._observation = Observation()
        return events.observe(self._observation, *metrics)

    def notes(self, events: int) -> list[str]:
        """What no event had, once the job is done."""
        occurred = self.of_sample
        if occurred.events < events:  # what was not looked for beyond the sample is not said
            occurred.types |= self._unknown[0]
            occurred.pairs |= self._unknown[1]
        occurred.events = events
        if self._observation is not None and events:
            seen = self._observation.get
            occurred.merge(
                {
                    "types": [t for i, t in enumerate(self._types) if seen[f"t{i}"]],
                    "pairs": [p for i, p in enumerate(self._pairs) if seen[f"p{i}"]],
                }
            )
        return occurred.notes()
