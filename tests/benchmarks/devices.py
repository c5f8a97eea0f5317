"""Kernels on an OpenCL device and on the processor: the product, and joins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.benchmarks.measuring import Measured, Row, Size, measure
from tests.benchmarks.queries import WIDTH, called, drawn
from tests.benchmarks.streams import TYPES, uniform

if TYPE_CHECKING:
    from engines.devices import DeviceRequest


def by_device(size: Size) -> Iterator[Row]:
    """The product and the joins, compiled by numba for the processor and on an OpenCL device.

    It is the first device there is; where that is PoCL, it is the same processor, but all of its
    cores. Counting: sequences of 4 to 8 out of 20 types, a window of 1,000 events, a result at
    every trigger, without a key; OpenCL cuts the stream into stretches that it counts side by side.
    Finding matches: sequences of 3 out of 20 types as they come, up to columns of events; OpenCL
    joins the rows of the right side side by side.
    """
    from engines.devices import opencl_devices
    from tests.benchmarks.ways import warm_up

    warm_up()
    devices, why = opencl_devices()
    name = f"OpenCL, {devices[0].name}" if devices else "none"
    skipped = {} if devices else {"OpenCL": why}
    yield from _counting(size, name, skipped)
    yield from _joining(size, name, skipped)


def _counting(size: Size, name: str, skipped: dict[str, str]) -> Iterator[Row]:
    from engines.counting import product
    from tests.benchmarks.ways import counting, make_case

    sizes = {1: 1_000_000, 10: 400_000, 50: 200_000, 100: 100_000}
    for number, events in sizes.items() if size == "full" else ((10, 5_000),):
        case = make_case(drawn(number), uniform(TYPES, events))
        variants = {"numba": counting(product, case)}
        if not skipped:
            variants["OpenCL"] = counting(product, case, request=_on_device())
        yield Measured(
            "devices",
            f"window of {WIDTH:,} events; device: {name}",
            f"{called(number)}, {events:,} events",
            events,
            measure(variants, size),
            skipped,
        )


def _joining(size: Size, name: str, skipped: dict[str, str]) -> Iterator[Row]:
    from engines.device_kernels import DeviceKernels
    from tests.benchmarks.matching import sought

    for width in (100, 1_000) if size == "full" else (100,):
        events = 1_000_000 if size == "full" else 5_000
        text = (
            f"QUERY q PATTERN SEQ({TYPES[0]} a, {TYPES[1]} b, {TYPES[2]} c) RETURN a "
            f"WITHIN {width} ms"
        )
        table = uniform(TYPES, events)
        asked = sought(text, table)
        variants = {"numba": asked.by_tree(asked.chosen)}
        if not skipped:
            there = sought(text, table)
            there.picked.kernels = DeviceKernels(_on_device())
            variants["OpenCL"] = there.by_tree(asked.chosen)
        yield Measured(
            "devices",
            f"matches of 3 events; device: {name}",
            f"window of {width:,} events, {events:,} events",
            events,
            measure(variants, size),
            skipped,
        )


def _on_device() -> DeviceRequest:
    from engines.devices import DeviceRequest

    return DeviceRequest("opencl", insist=True)
