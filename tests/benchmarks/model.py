"""How well the measured cost model predicts: random workloads on every engine that takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tests.benchmarks.measuring import Measured, Row, Said, Size

WORKLOADS = 40
FIRST_SEED = 20_000  # calibration draws its own from 0 on: what is checked was not fitted
NEAR = 1.15  # an engine is as good as the fastest if it takes at most so many times as long
_SECONDS = 0.5  # for each engine and workload


def by_model(size: Size) -> Iterator[Row]:
    """The cost model 'measured': predicted and measured time of random workloads on all engines.

    1 to 50 sequences of 2 to 8 types, windows of 50 to 5,000 events, rates uniform, skewed or with
    rare STARTs, some with keys, negations, sums or slides. A line ends with the engine that the
    model picks. Unit costs are those of 'sheaf calibrate' if it has run here, else they are
    measured first, on other workloads.
    """
    from engines.calibration.calibrate import calibrate, measurements
    from engines.calibration.machine_costs import known
    from engines.calibration.trials import drawn
    from optimizer.cost.unit_costs import nanoseconds

    unit_costs = known()
    if unit_costs.is_default:
        unit_costs = calibrate(*(() if size == "full" else (0.5,))).unit_costs
    many, enough = (WORKLOADS, _SECONDS) if size == "full" else (3, 0.01)
    predicted: list[float] = []
    measured: list[float] = []
    regrets: list[float] = []
    for seed in range(FIRST_SEED, FIRST_SEED + many):
        trial = drawn(seed)
        found = measurements(trial, enough)
        expected = {m.engine: nanoseconds(m.operations, unit_costs) for m in found}
        taken = {m.engine: m.nanoseconds for m in found}
        # Where nothing is chopped, Chop-Connect is no choice; its time is predicted all the same.
        choices = [e for e in expected if e != "chopconnect" or trial.lengths]
        picked = min(choices, key=lambda engine: expected[engine])
        predicted += expected.values()
        measured += taken.values()
        regrets.append(taken[picked] / min(taken[engine] for engine in choices))
        yield Measured(
            "model",
            "each workload on each engine",
            f"{trial.name}: {picked}",
            1,
            {engine: each / 1e9 for engine, each in taken.items()},
        )
    correlation = spearman(predicted, measured)
    near = sum(regret <= NEAR for regret in regrets) / many
    factor = float(np.exp(np.median(np.abs(np.log(np.divide(predicted, measured))))))
    yield Said(
        "model",
        f"Predicted and measured times of {many} workloads on all engines ({len(measured)} pairs) "
        f"have a rank correlation of {correlation:.3f}, and half are within a factor of "
        f"{factor:.2f}. The picked engine is the fastest, or within {NEAR - 1:.0%} of it, in "
        f"{near:.0%}; at worst it takes {max(regrets):.2f} times as long.",
        {
            "workloads": many,
            "pairs": len(measured),
            "rank correlation": correlation,
            "median factor": factor,
            "picked well": near,
            "worst": max(regrets),
        },
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of ranks; of equal numbers each has the mean of their ranks."""
    ranks = np.stack([_ranks(np.array(first)), _ranks(np.array(second))])
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: np.ndarray = (last - (counts - 1) / 2)[place]
    return means
