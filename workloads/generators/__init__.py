"""Seeded streams of events, with the knobs that the experiments of this field turn.

spec = StreamSpec(
    rates=zipf_rates(numbered_types(20), total=1000, skew=1.0),
    attributes={"price": Attribute(Uniform(0, 100)), "user": Attribute(Keys(500, prefix="u"))},
    events=1_000_000,
    seed=7,
)
write_events(spec, "events.parquet")
"""

from workloads.generators.columns import schema
from workloads.generators.distributions import (
    Constant,
    Distribution,
    Integers,
    Keys,
    OneOfValues,
    SpecError,
    Uniform,
)
from workloads.generators.files import write_events
from workloads.generators.rates import numbered_types, uniform_rates, with_shares, zipf_rates
from workloads.generators.selectivity import constant_for
from workloads.generators.spec import Attribute, Phase, StreamSpec
from workloads.generators.stream import generate, generate_table

__all__ = [
    "Attribute",
    "Constant",
    "Distribution",
    "Integers",
    "Keys",
    "OneOfValues",
    "Phase",
    "SpecError",
    "StreamSpec",
    "Uniform",
    "constant_for",
    "generate",
    "generate_table",
    "numbered_types",
    "schema",
    "uniform_rates",
    "with_shares",
    "write_events",
    "zipf_rates",
]
