"""Where events are: a path, or a path for each source of a workload that has several."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from engines.limits import EventsError
from workloads.errors import did_you_mean

EventPath: TypeAlias = str | Mapping[str, str]

CONNECTION = "connection:"  # before a name that whoever runs Sheaf has given a source elsewhere


def shown_path(path: EventPath) -> str:
    """Where events are, for people."""
    if isinstance(path, str):
        return path
    return ", ".join(f"{name}={place}" for name, place in path.items())


def each_path(path: EventPath) -> tuple[str, ...]:
    """All paths that events are read from."""
    return (path,) if isinstance(path, str) else tuple(path.values())


def given_paths(values: Sequence[str], sources: Collection[str]) -> EventPath:
    """The path, or those of sources, written as `--events PATH` or `--events NAME=PATH`."""
    if not sources:
        if len(values) == 1:  # with all its marks: folders are called year=2024
            return values[0]
        raise EventsError(
            f"--events is given {len(values)} times, and the workload has one stream: give one "
            "file, folder or glob, or name its sources under 'streams'"
        )
    found: dict[str, str] = {}
    for value in values:
        name, mark, place = value.partition("=")
        if not mark:
            return value
        if name in found:
            raise EventsError(f"--events is given twice for '{name}'; give a folder or a glob")
        found[name] = place
    return found


def one_path(path: EventPath) -> str:
    """The path of a stream that has no sources; raises `EventsError` where several are given."""
    if isinstance(path, str):
        return path
    raise EventsError(
        f"events are given for {_listed(path)}, and the workload has one stream: give one path, or "
        "name its sources under 'streams'"
    )


def paths_by_source(path: EventPath, sources: Collection[str]) -> dict[str, str]:
    """The path of each source, in the order of the workload.

    Raises `EventsError` unless there is one for each and none for another.
    """
    names = list(sources)
    example = " ".join(f"--events {name}=PATH" for name in names)
    if isinstance(path, str):
        raise EventsError(
            f"the workload reads events of {_listed(names)}, and '{path}' is the path of one of "
            f"them: say which is whose ({example})"
        )
    for name in path:
        if name not in names:
            hint = did_you_mean(name, names) or f"there are {_listed(names)}"
            raise EventsError(f"events are given for '{name}', which is no source; {hint}")
    missing = [name for name in names if name not in path]
    if missing:
        raise EventsError(f"no events are given for {_listed(missing)}; say where: {example}")
    return {name: path[name] for name in names}


def _listed(names: Mapping[str, str] | list[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)
