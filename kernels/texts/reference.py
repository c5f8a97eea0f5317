"""Numbers of texts as plain Python."""

from __future__ import annotations

import itertools

import numpy as np


def number_texts(
    offsets: np.ndarray,
    data: np.ndarray,
    name_offsets: np.ndarray,
    name_data: np.ndarray,
    numbers: np.ndarray,
    out: np.ndarray,
) -> None:
    """As `kernels.texts.cpu.number_texts`."""
    names = _texts(name_offsets, name_data)
    known = dict(zip(names, numbers.tolist(), strict=True))
    out[:] = [known.get(text, 0) for text in _texts(offsets, data)]


def _texts(offsets: np.ndarray, data: np.ndarray) -> list[bytes]:
    ends = offsets.tolist()
    return [data[a:b].tobytes() for a, b in itertools.pairwise(ends)]
