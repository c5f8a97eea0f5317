"""The kernels and their backends, each under one name with one signature.

`numba` is compiled for the CPU; `python` says what a kernel computes, one window at a time, and is
what the others are tested against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernels import (
    aseq,
    aseq_reference,
    chopconnect,
    chopconnect_reference,
    product,
    product_reference,
    twostep,
    twostep_reference,
    windows,
    windows_reference,
)

Kernel = Callable[..., int]

KERNELS: Mapping[str, Mapping[str, Kernel]] = MappingProxyType(
    {
        "product": {"numba": product.slide_product, "python": product_reference.slide_product},
        # Also PreTree, whose trees have more than one branch.
        "aseq": {"numba": aseq.count_prefixes, "python": aseq_reference.count_prefixes},
        "chopconnect": {"numba": chopconnect.connect, "python": chopconnect_reference.connect},
        "twostep": {"numba": twostep.construct, "python": twostep_reference.construct},
        "most_in_window": {
            "numba": windows.most_in_window,
            "python": windows_reference.most_in_window,
        },
    }
)
