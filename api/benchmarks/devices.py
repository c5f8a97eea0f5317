"""The product's kernel on an OpenCL device and on the processor."""

from __future__ import annotations

from collections.abc import Iterator

from api.benchmarks.measuring import Measured, Row, Size, measure
from api.benchmarks.queries import WIDTH, called, drawn
from api.benchmarks.streams import TYPES, uniform


def by_device(size: Size) -> Iterator[Row]:
    """The product compiled by numba for the processor, and on the first OpenCL device.

    Where that is PoCL, it is the same processor. Sequences of 4 to 8 out of 20 types, a window of
    1,000 events, a result at every trigger, without a key: OpenCL cuts the stream into stretches
    that it counts side by side.
    """
    from api.benchmarks.ways import counting, make_case, warm_up
    from engines.counting import product
    from engines.devices import opencl_devices
    from engines.how import How

    warm_up()
    devices, why = opencl_devices()
    name = f"OpenCL, {devices[0].name}" if devices else "none"
    sizes = {1: 1_000_000, 10: 400_000, 50: 200_000, 100: 100_000}
    for number, events in sizes.items() if size == "full" else ((10, 5_000),):
        case = make_case(drawn(number), uniform(TYPES, events))
        variants = {"numba": counting(product, case)}
        if devices:
            how = How(device="opencl", insist=True)
            variants["OpenCL"] = counting(product, case, how=how)
        yield Measured(
            "devices",
            f"window of {WIDTH:,} events; device: {name}",
            f"{called(number)}, {events:,} events",
            events,
            measure(variants, size),
            {} if devices else {"OpenCL": why},
        )
