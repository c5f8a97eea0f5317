"""The workloads that come with Sheaf, each with a stream that it finds matches in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.errors import SheafError, did_you_mean

if TYPE_CHECKING:
    from workloads.generators.spec import StreamSpec


def names() -> tuple[str, ...]:
    """The bundled workloads."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.yaml")))


def path(name: str) -> Path:
    """The workload's file."""
    _check(name)
    return Path(__file__).with_name(f"{name}.yaml")


def stream(name: str, events: int | None = None, seed: int | None = None) -> StreamSpec:
    """A stream that fits the workload, of the given length and seed if it shall not be its own."""
    # Imported here because it brings numpy along, which only those who ask for events wait for.
    from workloads.bundled.streams import STREAMS

    _check(name)
    spec = STREAMS[name]
    return replace(
        spec,
        events=spec.events if events is None else events,
        seed=spec.seed if seed is None else seed,
    )


def _check(name: str) -> None:
    if name not in names():
        hint = did_you_mean(name, names())
        raise SheafError(
            f"no bundled workload is called '{name}'; there are {', '.join(names())}"
            + (f" ({hint})" if hint else "")
        )
