"""Trees of joins that are chosen on the events, as what is known of them beforehand is assumed."""

from __future__ import annotations

from optimizer.engines.spec import Device
from optimizer.engines.trees import refusal as refusal
from optimizer.engines.trees import refusal_together as refusal_together

NAME = "deferred-trees"
LABEL = "a tree of joins that is chosen on the events"
MEANING = (
    "Matches are made by joining events two sets at a time. The order of joins is chosen when the "
    "run has seen some events, because rates or keys were only assumed for the plan."
)
PHRASES: tuple[str, ...] = (
    "trees chosen on the events",
    "a tree of joins that is chosen on the events",
)
DEVICES: tuple[Device, ...] = ("cpu", "opencl")
