"""Which kernels join: those compiled for the processor, or those on an OpenCL device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from engines.devices import give_up, opencl_handle
from engines.how import How
from kernels import chains, joins
from kernels.table import kernel


@dataclass
class JoinKernels:
    """The functions of `kernels.joins` and `kernels.chains` that take rows by the thousand."""

    count_pairs: Callable[..., joins.Pairs] = joins.count_pairs
    fill_pairs: Callable[..., Any] = joins.fill_pairs
    probe: Callable[..., Any] = joins.probe
    latest_starts: Callable[..., Any] = joins.latest_starts
    places_from: Callable[..., Any] = joins.places_from
    count_chains: Callable[..., Any] = chains.count_chains
    fill_chains: Callable[..., Any] = chains.fill_chains


NAMES = tuple(each.name for each in fields(JoinKernels))
CPU = JoinKernels()


def join_kernels(how: How) -> JoinKernels:
    """The kernels to join with.

    Where the device fails, or is missing, that is an error if it was asked for by name; else a
    warning, and the processor goes on from there.
    """
    device = opencl_handle(how)
    if device is None:
        return CPU
    found = JoinKernels()
    for name in NAMES:
        setattr(found, name, _reporting(found, name, device, how))
    return found


def _reporting(found: JoinKernels, name: str, device: Any, how: How) -> Callable[..., Any]:
    on_device = kernel(name, "opencl", device)

    def run(*given: Any) -> Any:
        try:
            return on_device(*given)
        except Exception as error:  # drivers fail in many ways: out of memory, …
            give_up(how, f"the OpenCL device failed: {error}")
        for each in NAMES:  # once is enough
            setattr(found, each, getattr(CPU, each))
        return getattr(CPU, name)(*given)

    return run
