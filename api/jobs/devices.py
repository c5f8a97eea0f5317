"""The devices that people may name, and what is used where they leave it open."""

from __future__ import annotations

from typing import Literal as OneOf

Device = OneOf["auto", "cpu", "opencl"]


def chosen_device(wanted: Device) -> OneOf["cpu", "opencl"]:
    """The device to plan for; one that is asked for by name must be there."""
    if wanted == "cpu":  # without looking for others, which takes a moment
        return "cpu"
    from engines.devices import choose

    return choose(wanted)
