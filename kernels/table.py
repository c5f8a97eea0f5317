"""The kernels and their backends, each under one name with one signature.

`numba` is compiled for the CPU; `opencl` runs on a device of pyopencl, which it takes as its first
argument; `python` says what a kernel computes, one window at a time, and is what the others are
tested against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from kernels import (
    aseq,
    aseq_reference,
    chains,
    chains_opencl,
    chains_reference,
    chopconnect,
    chopconnect_reference,
    joins,
    joins_opencl,
    joins_reference,
    panes,
    panes_reference,
    product,
    product_opencl,
    product_reference,
    reversible,
    reversible_opencl,
    reversible_reference,
    texts,
    texts_reference,
    twostep,
    twostep_reference,
    windows,
    windows_reference,
)
from kernels.baselines import reference as baselines
from kernels.baselines.configurations import find_by_configurations
from kernels.baselines.nested import find_nested
from kernels.baselines.stacks import find_by_stacks

Kernel = Callable[..., object]

KERNELS: Mapping[str, Mapping[str, Kernel]] = MappingProxyType(
    {
        "product": {
            "numba": product.slide_product,
            "opencl": product_opencl.slide_product,
            "python": product_reference.slide_product,
        },
        "panes": {"numba": panes.slide_panes, "python": panes_reference.slide_panes},
        "reversible": {
            "numba": reversible.slide_reversible,
            "opencl": reversible_opencl.slide_reversible,
            "python": reversible_reference.slide_reversible,
        },
        # Also PreTree, whose trees have more than one branch.
        "aseq": {"numba": aseq.count_prefixes, "python": aseq_reference.count_prefixes},
        "chopconnect": {"numba": chopconnect.connect, "python": chopconnect_reference.connect},
        "twostep": {"numba": twostep.construct, "python": twostep_reference.construct},
        "count_pairs": {
            "numba": joins.count_pairs,
            "opencl": joins_opencl.count_pairs,
            "python": joins_reference.count_pairs,
        },
        "fill_pairs": {
            "numba": joins.fill_pairs,
            "opencl": joins_opencl.fill_pairs,
            "python": joins_reference.fill_pairs,
        },
        "probe": {
            "numba": joins.probe,
            "opencl": joins_opencl.probe,
            "python": joins_reference.probe,
        },
        "latest_starts": {
            "numba": joins.latest_starts,
            "opencl": joins_opencl.latest_starts,
            "python": joins_reference.latest_starts,
        },
        "places_from": {
            "numba": joins.places_from,
            "opencl": joins_opencl.places_from,
            "python": joins_reference.places_from,
        },
        "match_codes": {"numba": joins.match_codes, "python": joins_reference.match_codes},
        "group_rows": {"numba": joins.group_rows, "python": joins_reference.group_rows},
        "count_chains": {
            "numba": chains.count_chains,
            "opencl": chains_opencl.count_chains,
            "python": chains_reference.count_chains,
        },
        "fill_chains": {
            "numba": chains.fill_chains,
            "opencl": chains_opencl.fill_chains,
            "python": chains_reference.fill_chains,
        },
        "number_texts": {"numba": texts.number_texts, "python": texts_reference.number_texts},
        "most_of_letters": {
            "numba": windows.most_of_letters,
            "python": windows_reference.most_of_letters,
        },
        "boundaries": {"numba": windows.boundaries, "python": windows_reference.boundaries},
        "stacks": {"numba": find_by_stacks, "python": baselines.find_by_stacks},
        "configurations": {
            "numba": find_by_configurations,
            "python": baselines.find_by_configurations,
        },
        "nested": {"numba": find_nested, "python": baselines.find_nested},
    }
)


def kernel(name: str, backend: str, device: Any = None) -> Kernel:
    """A kernel of a backend, on a device where it needs one: all of a name are called alike."""
    found = KERNELS[name][backend]
    return partial(found, device) if backend == "opencl" else found
