"""The A-Seq thesis' twelve query groups, made again from its recipe (section 5.3, experiment 2).

The groups themselves are not printed. What is: groups 1-3 have 8 queries, 4-6 have 12, 7-9 have
16 and 10-12 have 20; eight substrings of length 2 to 3 are made first, queries are random
combinations of them, and the frequency of the connect event types, the first of each substring,
is controlled so that sharing pays, which it does in all groups but 3, 5 and 6. Streams have
20 stocks and around 10,000 events; windows are 1,000 ms, as in the experiment before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.generators.distributions import SpecError
from workloads.generators.rates import uniform_rates, with_shares
from workloads.generators.spec import StreamSpec

GROUPS = 12
# The thesis names seventeen stocks; three more make the twenty that its streams have.
TICKERS = (
    *("DELL", "IPIX", "QQQ", "AMAT", "MSFT", "CSCO", "INTC", "ORCL", "YHOO", "RIMM"),
    *("AMAZ", "FB", "IBM", "VMW", "GOOG", "LNKD", "NTAP", "SUNW", "HPQ", "EBAY"),
)

_SIZES = (8, 8, 8, 12, 12, 12, 16, 16, 16, 20, 20, 20)
_NOT_WORTH_SHARING = (3, 5, 6)
# Eight substrings that take each stock once, so that no stock occurs twice in a query.
_SUBSTRING_LENGTHS = (2, 2, 2, 2, 3, 3, 3, 3)
_RATE = 1000.0
_WINDOW_MS = 1000
# By equation 4.4 sharing a substring of length l pays while about l > N0 * f: while fewer than l
# connect events fall into one window. One event in a thousand is one in a window here.
_CONNECT_SHARE = 0.001


def query_group(
    number: int, seed: int = 0, connect_share: float | None = None
) -> tuple[dict[str, Any], StreamSpec]:
    """Group 1 to 12 as a workload document, and the stream that goes with it.

    `connect_share` is the share of each connect event type among all events; left out, it is one
    in a thousand, or no less than that of other types for the groups where sharing did not pay.
    """
    if not 1 <= number <= GROUPS:
        raise SpecError(f"query groups are numbered 1 to {GROUPS}, not {number}")
    if connect_share is None and number not in _NOT_WORTH_SHARING:
        connect_share = _CONNECT_SHARE
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,))))
    substrings = _substrings(rng)
    patterns = _patterns(rng, substrings, _SIZES[number - 1])
    rates = uniform_rates(TICKERS, _RATE)
    if connect_share is not None:
        rates = with_shares(rates, {substring[0]: connect_share for substring in substrings})
    spec = StreamSpec(rates=rates, events=10_000, seed=seed, unit="ms", type="symbol")
    return _workload(number, patterns, rates), spec


def _substrings(rng: np.random.Generator) -> list[tuple[str, ...]]:
    tickers = [TICKERS[i] for i in rng.permutation(len(TICKERS))]
    ends = np.cumsum(_SUBSTRING_LENGTHS)
    return [
        tuple(tickers[end - length : end])
        for length, end in zip(_SUBSTRING_LENGTHS, ends, strict=True)
    ]


def _patterns(
    rng: np.random.Generator, substrings: list[tuple[str, ...]], count: int
) -> list[tuple[str, ...]]:
    """Different queries of two to four substrings each, drawn anew until all are shared."""
    while True:
        choices = [
            tuple(int(i) for i in rng.permutation(len(substrings))[: rng.integers(2, 5)])
            for _ in range(count)
        ]
        uses = np.bincount([i for choice in choices for i in choice], minlength=len(substrings))
        if len(set(choices)) == count and uses.min() >= 2:
            return [tuple(t for i in choice for t in substrings[i]) for choice in choices]


def _workload(
    number: int, patterns: list[tuple[str, ...]], rates: dict[str, float]
) -> dict[str, Any]:
    return {
        "name": f"query_group_{number}",
        "stream": {
            "time": "ts",
            "unit": "ms",
            "type": "symbol",
            "types": dict.fromkeys(TICKERS),
            "attributes": {"symbol": "string"},
        },
        "statistics": {"rates": rates},
        "queries": [
            f"QUERY g{number}_q{i}\n"
            f"PATTERN SEQ({', '.join(pattern)})\n"
            "AGG COUNT(*)\n"
            f"WITHIN {_WINDOW_MS} ms\n"
            for i, pattern in enumerate(patterns, start=1)
        ],
    }
