"""What a workload finds in a data frame: a data frame for each query, and one of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from engines.results.html_tables import html_table
from engines.results.wide import AggregateColumn, query_columns
from engines.spark.frames.rows import FrameRows
from optimizer.ir.query import Query
from workloads.errors import NoQueryError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class FrameResults(Mapping[str, "DataFrame"]):
    """Data frames of Spark, by the name of the query; nothing runs before one is asked for rows.

    Each is computed with all queries of the plan. Who asks several of them keeps the rows with
    `persist`, so that they are computed once.
    """

    def __init__(self, queries: tuple[Query, ...], found: DataFrame, landing: FrameRows) -> None:
        self._queries = {query.name: query for query in queries}
        self._found, self._landing = found, landing

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    def __getitem__(self, name: str) -> DataFrame:
        """A query's rows: its key, times, and a column for each aggregate or returned value."""
        from pyspark.sql import functions as sf

        if name not in self._queries:
            raise NoQueryError(name, self._queries)
        mine = self._found.where(sf.col("query") == name)
        columns = query_columns(self._queries[name])
        chosen = [sf.col("keys")[key].alias(as_) for key, as_ in columns.keys.items()]
        chosen += [sf.col(time).alias(as_) for time, as_ in columns.times.items()]
        chosen += [_aggregate(name, column) for column in columns.aggregates]
        places = {} if self._landing.structs is None else self._landing.structs.places
        for column in columns.matches:
            first, *rest = column.path
            value = sf.col("match")[places.get(name, {}).get(first, first)]
            for field in rest:
                value = value.getField(field)
            chosen.append(value.alias(column.name))
        if not columns.aggregates and not columns.matches:
            chosen.append(sf.col("text").alias("match"))
        return mine.select(*chosen)

    def __repr__(self) -> str:
        """The queries with the names of their columns, a line each; Spark is asked nothing."""
        lines = ["data frames, by query"]
        for name, query in self._queries.items():
            columns = query_columns(query)
            values = [each.name for each in columns.aggregates]
            values += [each.name for each in columns.matches]
            names = [*columns.keys.values(), *columns.times.values(), *(values or ["match"])]
            lines.append(f"  {name}: {', '.join(names)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The queries with the columns of their rows; nothing runs for it."""
        listed = [(name, self[name].schema.simpleString()) for name in self]
        return html_table(("query", "columns"), listed, "data frames, by query")

    @property
    def rows(self) -> DataFrame:
        """The rows of all queries, with one for each aggregate of a window."""
        from pyspark.sql import functions as sf

        found, aggregates = self._found, self._landing.aggregates
        texts = ["text"] * self._has_texts
        if aggregates:
            names = sf.create_map(
                *(
                    part
                    for query, written in aggregates.items()
                    for part in (sf.lit(query), sf.array(*map(sf.lit, written)))
                )
            )
            sides = sf.arrays_zip(
                sf.element_at(names, sf.col("query")).alias("aggregate"),
                sf.col("values").alias("value"),
                sf.col("counts").alias("count"),
                sf.col("exacts").alias("exact"),
            )
            found = found.withColumn("side", sf.explode_outer(sides))
        parts = ("aggregate", "value", "count", "exact") if aggregates else ()
        return found.select(
            *("query", "key", "start", "end", "time"),
            *(["seq"] if aggregates else []),
            *(sf.col("side")[part].alias(part) for part in parts),
            *(["match"] if self._landing.structs is not None else []),
            *texts,
        )

    @property
    def _has_texts(self) -> bool:
        structs = {} if self._landing.structs is None else self._landing.structs.queries
        return any(q not in structs and q not in self._landing.aggregates for q in self._queries)

    def persist(self) -> FrameResults:
        """The same, whose rows Spark keeps once they are computed; not for a live stream."""
        return FrameResults(tuple(self._queries.values()), self._found.persist(), self._landing)

    def unpersist(self) -> None:
        """Have Spark forget the rows."""
        self._found.unpersist()


def _aggregate(query: str, column: AggregateColumn) -> Column:
    from pyspark.sql import functions as sf

    value = sf.get("values", sf.lit(column.place))
    if not column.is_count:
        return value.alias(column.name)
    count, exact = sf.get("counts", sf.lit(column.place)), sf.get("exacts", sf.lit(column.place))
    said = (
        f"query {query}: a count is beyond 64 bits, and its column has whole numbers; it is in "
        "the column 'value' of all rows (`rows`), as a double"
    )
    checked = sf.when(exact | count.isNotNull(), count).otherwise(sf.raise_error(sf.lit(said)))
    return checked.cast("bigint").alias(column.name)
