"""Run a fuzzer for a number of cases or of seconds, and say which seed failed.

A fuzzer is a function that makes one case from a `random.Random`, tries it, raises where Sheaf did
anything but succeed or refuse with a reason, and returns a word for what came of it ("ok",
"refused"). Everything random in a case must come from that `Random`.

    def test_quick() -> None:
        outcomes = fuzz(one_case, cases=200, at_least=QUICK_SECONDS)
        assert outcomes["ok"]  # not everything was refused

    @soak
    def test_long() -> None:
        fuzz(one_case, seconds=SOAK_SECONDS)

`SHEAF_FUZZ_SECONDS=600 pytest -m soak FILE` runs each fuzzer for ten minutes in place of thirty.
`SHEAF_FUZZ_SEED=17 pytest FILE` runs the one case of that seed, as a failure prints it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

import pytest

Case = Callable[[random.Random], str]
Test = TypeVar("Test", bound=Callable[..., Any])

# Where changes are accepted, a minute each; elsewhere, as long as the cases take.
QUICK_SECONDS = 60.0 if "CI" in os.environ else 0.0
SOAK_SECONDS = float(os.environ.get("SHEAF_FUZZ_SECONDS", "1800"))


def soak(test: Test) -> Test:
    """The test, marked `soak`, with time enough for `SOAK_SECONDS` and a last slow case."""
    marked: Test = pytest.mark.soak(pytest.mark.timeout(SOAK_SECONDS + 300)(test))
    return marked


def fuzz(
    case: Case,
    *,
    cases: int | None = None,
    seconds: float | None = None,
    at_least: float = 0.0,
    case_cpu_seconds: float = 60,
) -> Counter[str]:
    """How often the cases came to each outcome; ends at `cases` or `seconds`, or where one fails.

    More than `cases` are tried for `at_least` so many seconds.
    What a case raises goes on with a note of its seed. So does `CpuLimit`, where a case used more
    than `case_cpu_seconds` of this process. Seeds are the same each time where `CI` is set, and new
    ones elsewhere, as those of Hypothesis.
    """
    assert cases is not None or seconds is not None, "a fuzzer needs an end"
    chosen = os.environ.get("SHEAF_FUZZ_SEED")
    first = int(chosen or (0 if "CI" in os.environ else random.SystemRandom().getrandbits(40)))
    most = 1 if chosen else cases
    end = None if seconds is None else time.monotonic() + seconds
    enough = 0.0 if chosen else time.monotonic() + at_least
    outcomes: Counter[str] = Counter()
    for number in count():
        over = most is not None and number >= most and time.monotonic() >= enough
        if over or (end is not None and number and time.monotonic() > end):
            break
        seed = first + number
        try:
            with _cpu_limit(case_cpu_seconds):
                outcomes[case(random.Random(seed))] += 1
        except BaseException as error:  # also one that ends the test from outside
            error.add_note(f"case {number + 1}: SHEAF_FUZZ_SEED={seed} runs it alone")
            raise
    print(f"seeds {first} to {first + outcomes.total() - 1}: {dict(outcomes)}")
    return outcomes


class CpuLimit(BaseException):
    """A case computed for too long; no `except Exception` of the code under test hides it."""


@contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise CpuLimit(f"more than {seconds:g} s of CPU for one case")

    # CPU, for a busy machine must not fail a case; and another timer than that of pytest-timeout.
    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
