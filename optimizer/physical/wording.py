"""How plans speak of numbers and of names."""

from __future__ import annotations

from collections.abc import Sequence

LISTED = 6
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def cpu(nanoseconds: float) -> str:
    """Time on one core, to three digits: `41.2 µs`."""
    for size, unit in _UNITS:
        if abs(nanoseconds) >= size * 0.9995:
            return f"{digits(nanoseconds / size)} {unit}"
    return f"{digits(nanoseconds)} ns" if nanoseconds else "0"


def rate(value: float) -> str:
    """Rows or events in a second."""
    if value >= 1e6:
        return f"{value:,.2e}"
    return digits(value) if value >= 0.001 or value == 0 else f"{value:.0e}"


def digits(value: float) -> str:
    """To three digits, without zeros at the end."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{float(text):,.6f}".rstrip("0").rstrip(".") if "e" in text else text


def amount(value: float, unit: str) -> str:
    """A cost or a benefit in the unit of a plan's costs."""
    return cpu(value) if unit.startswith("nanoseconds") else f"{number(value)} {unit}"


def number(value: float) -> str:
    """A number for people: whole ones as they are, others to four digits."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:,.4g}"


def times(more: float, less: float) -> str:
    """How much more that is."""
    return f"{digits(more / less)} times as much" if less else "more"


def some(names: Sequence[str], most: int | None = LISTED) -> str:
    """The first of many names; all of them where `most` is None."""
    more = 0 if most is None else len(names) - most
    if more <= 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {more:,} more"
