"""The same as `kernels.orders.cpu`, with lists and dictionaries."""

from __future__ import annotations

import numpy as np


def number_pairs(
    first: np.ndarray, second: np.ndarray, firsts: int, seconds: int
) -> tuple[np.ndarray, int]:
    """As `kernels.orders.cpu.number_pairs`."""
    found: dict[tuple[int, int], int] = {}
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    numbers = [-1 if min(p) < 0 else found.setdefault(p, len(found)) for p in pairs]
    return np.array(numbers, np.int32), len(found)


def sort_by_code(codes: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """As `kernels.orders.cpu.sort_by_code`."""
    rows = [[i for i, code in enumerate(codes) if code == c] for c in range(number)]
    parts = [part for part in rows if part]
    return _order(parts), _starts(parts)


def cut_order(
    order: np.ndarray, starts: np.ndarray, low: int, high: int
) -> tuple[np.ndarray, np.ndarray]:
    """As `kernels.orders.cpu.cut_order`."""
    rows = [order[starts[p] : starts[p + 1]].tolist() for p in range(len(starts) - 1)]
    parts = [kept for part in rows if (kept := [row - low for row in part if low <= row < high])]
    return _order(parts), _starts(parts)


def find_blocks(
    order: np.ndarray, starts: np.ndarray, ticks: np.ndarray, sequence: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As `kernels.orders.cpu.find_blocks`."""
    rows = order.tolist()
    partition = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    moments = [
        (p, int(ticks[row]), None if sequence is None else int(sequence[row]))
        for p, row in zip(partition.tolist(), rows, strict=True)
    ]
    block = [moments.index(moment) for moment in moments]
    after = [max(i for i, m in enumerate(moments) if m == moment) + 1 for moment in moments]
    end = [len(rows)]
    return partition, ticks[order], np.array(block + end), np.array(after + end)


def _order(parts: list[list[int]]) -> np.ndarray:
    return np.array([row for part in parts for row in part], np.int64)


def _starts(parts: list[list[int]]) -> np.ndarray:
    return np.cumsum([0, *map(len, parts)])
