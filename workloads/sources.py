"""Several sources as one stream: what each calls its columns, and what they are called together.

The events of all sources have the columns `time`, `type`, `sequence` and `source`, in place of what
each source calls them, and besides the attributes of every source: null where it has none such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from workloads import expressions as ex
from workloads.workload import (
    NANOSECONDS,
    AttributeKind,
    DefinedSituation,
    MissingColumns,
    Source,
    Stream,
    TimeUnit,
)

TIME, TYPE, SEQUENCE, SOURCE = "time", "type", "sequence", "source"
_NUMBERS = ("int", "float")


class SourceClash(NamedTuple):
    """Two sources that cannot be read as one stream, and where the later one says so."""

    message: str
    hint: str
    at: tuple[str, ...]


def joined(sources: Mapping[str, Source]) -> tuple[Stream, tuple[SourceClash, ...]]:
    """The stream that sources make together, and what keeps them from being one."""
    clashes: list[SourceClash] = []
    streams = [source.stream for source in sources.values()]
    is_ordered = all(stream.sequence is not None for stream in streams)
    units: list[TimeUnit] = [stream.unit for stream in streams]
    late = [stream.lateness for stream in streams if stream.lateness is not None]
    ignores = any(stream.missing_columns == "ignore" for stream in streams)
    missing: MissingColumns = "ignore" if ignores else "error"
    whole = Stream(
        time=TIME,
        type=TYPE if any(stream.type is not None for stream in streams) else None,
        unit=min(units, key=NANOSECONDS.__getitem__),
        sequence=SEQUENCE if is_ordered else None,
        lateness=max(late, default=None),
        missing_columns=missing,
        sources=sources,
    )
    for name, source in sources.items():
        clashes += _badly_renamed(name, source, whole)
    attributes = _attributes(sources, whole, clashes)
    types = _types(sources, whole, clashes)
    situations = _situations(sources, whole, clashes)
    whole = replace(whole, types=types, attributes=attributes, situations=situations)
    return whole, tuple(clashes)


def roles(own: Stream, whole: Stream) -> dict[str, str]:
    """The columns of a source that all sources have under one name, by that name."""
    found = {TIME: own.time}
    if own.type is not None:
        found[TYPE] = own.type
    if own.sequence is not None and whole.sequence is not None:
        found[SEQUENCE] = own.sequence
    return found


def late_by(stream: Stream, lateness: int) -> Stream:
    """The stream whose events, of whatever source, are as late as that, in nanoseconds."""
    each = {n: replace(own.stream, lateness=lateness) for n, own in stream.sources.items()}
    return _with_own(replace(stream, lateness=lateness), each)


def without_missing(stream: Stream) -> Stream:
    """The stream in which columns that are not there are null, whatever it says of them."""
    each = {n: replace(own.stream, missing_columns="ignore") for n, own in stream.sources.items()}
    return _with_own(replace(stream, missing_columns="ignore"), each)


def _with_own(stream: Stream, own: Mapping[str, Stream]) -> Stream:
    sources = {name: replace(stream.sources[name], stream=one) for name, one in own.items()}
    return replace(stream, sources=sources)


def common_name(column: str, source: Source, whole: Stream) -> str:
    """What a column of a source, or a field by its path, is called in the whole stream."""
    names = {**source.rename, **{own: role for role, own in roles(source.stream, whole).items()}}
    parts = column.split(".")
    for end in range(len(parts), 0, -1):
        if (name := names.get(".".join(parts[:end]))) is not None:
            return ".".join([name, *parts[end:]])
    return column


def is_of(source: str) -> ex.Expression:
    """That an event is of a source."""
    return ex.Comparison("=", ex.Attribute("", SOURCE), ex.Literal(source))


def _badly_renamed(name: str, source: Source, whole: Stream) -> Iterator[SourceClash]:
    at = ("streams", name, "rename")
    taken = {own: role for role, own in roles(source.stream, whole).items()}
    for own, new in source.rename.items():
        if own in taken:
            yield SourceClash(
                f"streams.{name} renames '{own}', which is its {taken[own]} column and called "
                f"'{taken[own]}' together with those of the other sources",
                f"leave it out, and write alias.{taken[own]} in queries",
                (*at, own),
            )
        elif new in (TIME, TYPE, SEQUENCE, SOURCE):
            yield SourceClash(
                f"streams.{name} renames '{own}' to '{new}', which every event has already",
                "give it another name",
                (*at, own),
            )
    news = list(source.rename.values())
    for own, new in source.rename.items():
        if news.count(new) > 1 and own == next(o for o, n in source.rename.items() if n == new):
            yield SourceClash(
                f"streams.{name} renames two columns to '{new}'", "give each a name", at
            )


def _attributes(
    sources: Mapping[str, Source], whole: Stream, clashes: list[SourceClash]
) -> dict[str, AttributeKind]:
    """The attributes of all sources; of numbers that are whole in one of them only, as reals."""
    found: dict[str, AttributeKind] = {}
    first: dict[str, str] = {}
    for name, source in sources.items():
        own = {column: role for role, column in roles(source.stream, whole).items()}
        for column, kind in source.stream.attributes.items():
            if column in own:
                continue
            common = common_name(column, source, whole)
            before = found.setdefault(common, kind)
            if before == kind:
                first.setdefault(common, name)
            elif before in _NUMBERS and kind in _NUMBERS:
                found[common] = "float"
            else:
                clashes.append(
                    SourceClash(
                        f"'{common}' is {kind} in streams.{name} and {before} in "
                        f"streams.{first[common]}",
                        f"rename one of them, such as 'rename: {{{column}: {name}_{column}}}'",
                        ("streams", name, "attributes", column),
                    )
                )
    if found:
        found[SOURCE] = "string"
    return found


def _types(
    sources: Mapping[str, Source], whole: Stream, clashes: list[SourceClash]
) -> dict[str, ex.Expression | None]:
    """The types of all sources in one name space, and each source's name for all of its events.

    A type that type columns say is one type, whichever source says it. One that is given by a
    condition is of its source alone.
    """
    found: dict[str, ex.Expression | None] = {}
    first: dict[str, str] = {}
    for name, source in sources.items():
        for type_, condition in source.stream.types.items():
            given = None if condition is None else _of_source(name, condition, source, whole)
            if type_ in found and not (given is None and found[type_] is None):
                clashes.append(
                    SourceClash(
                        f"the type '{type_}' is declared by streams.{first[type_]} and by "
                        f"streams.{name}, and not by the type columns of both",
                        f"give it a name of its own in one of them, such as {name}_{type_}",
                        ("streams", name, "types", type_),
                    )
                )
            found.setdefault(type_, given)
            first.setdefault(type_, name)
    for name in sources:
        if name in found:
            clashes.append(
                SourceClash(
                    f"'{name}' is a source, whose name stands for all of its events, and a type "
                    f"that streams.{first[name]} declares",
                    "give the source or the type another name",
                    ("streams", name),
                )
            )
        found.setdefault(name, is_of(name))
    return found


def _of_source(name: str, condition: ex.Expression, source: Source, whole: Stream) -> ex.Expression:
    """A condition on events of a source, asked of those of all."""
    renamed = _renamed(condition, source, whole)
    return ex.Logical("AND", (is_of(name), *ex.conjuncts(renamed)))


def _renamed(condition: ex.Expression, source: Source, whole: Stream) -> ex.Expression:
    return ex.with_names(condition, lambda a: common_name(a.name, source, whole))


def _situations(
    sources: Mapping[str, Source], whole: Stream, clashes: list[SourceClash]
) -> dict[str, DefinedSituation]:
    found: dict[str, DefinedSituation] = {}
    for name, source in sources.items():
        for situation, defined in source.stream.situations.items():
            if situation in found:
                clashes.append(
                    SourceClash(
                        f"the situation '{situation}' is defined by two sources",
                        "give one of them another name",
                        ("streams", name, "situations", situation),
                    )
                )
            condition = _renamed(defined.condition, source, whole)
            found[situation] = replace(defined, condition=condition, of=defined.of or name)
    return found
