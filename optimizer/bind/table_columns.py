"""The columns of a stream as SQL names them: case matters only where two differ in nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workloads.errors import QueryError, Span, did_you_mean
from workloads.workload import AttributeKind, Stream


class TableColumns:
    """Columns by name; where the events are not at hand, any name may be one of them."""

    def __init__(
        self,
        stream: Stream,
        columns: Mapping[str, AttributeKind] | None,
        further: Iterable[str] = (),
    ) -> None:
        self._stream = stream
        self._known = None if columns is None else list(columns)
        self._folded: dict[str, list[str]] = {}
        own = [c for c in (stream.time, stream.type, stream.sequence) if c is not None]
        for name in dict.fromkeys([*(columns or ()), *own, *stream.attributes, *further]):
            self._folded.setdefault(name.lower(), []).append(name)

    @property
    def time(self) -> str:
        """The column of the stream's times."""
        return self._stream.time

    def find(self, name: str, span: Span) -> str:
        """The column of a name, as the events have it."""
        alike = self._folded.get(name.lower(), [])
        if name in alike or (not alike and self._known is None):
            return name
        if len(alike) == 1:
            return alike[0]
        if alike:
            raise QueryError(
                f"'{name}' may be any of {', '.join(alike)}", span, "write it as the column has it"
            )
        if name.lower() == "time":
            return self._stream.time
        known = self._known or []
        if any(name.startswith(column + ".") for column in known):
            return name  # a field of a struct
        if self._stream.missing_columns == "ignore":
            return name
        hint = did_you_mean(name, known) or "the events have " + ", ".join(known[:12])
        raise QueryError(f"no event has a column '{name}'", span, hint)
