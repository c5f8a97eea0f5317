"""How stored events are read, as a sentence: what decided it, and how much is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def access_text(access: Mapping[str, Any]) -> str:
    """`index (footers): 6 of 123 row groups, 4.9 % of 2,000,000 events, 2.5 MB of 50.9 MB`."""
    if access["method"] == "scan":
        return f"scan: {access['why']}"
    summed = access.get("summed")
    said = f"; {summed_text(summed)}" if summed else ""
    if access.get("probes"):
        said += f"; {probes_text(access)}"
    part = access["events"] / max(access["of_events"], 1)
    return (
        f"index ({', '.join(access['by'])}): {access['row_groups']:,} of {access['of']:,} row "
        f"groups, {100 * part:.2g} % of {access['of_events']:,} events, "
        f"{size_text(access['bytes'])} of {size_text(access['of_bytes'])}{said}"
    )


def summed_text(summed: Mapping[str, Any]) -> str:
    """`1,858 of 1,954 blocks are summed up for hourly`."""
    names = ", ".join(summed["queries"])
    return f"{summed['blocks']:,} of {summed['of']:,} blocks are summed up for {names}"


def probes_text(access: Mapping[str, Any]) -> str:
    """`probes A[x > 5] (12 entries), B[x > 7] (3 entries), no choice costs less by estimate`."""
    probes = ", ".join(f"{p['symbol']} ({p['entries']:,} entries)" for p in access["probes"])
    expected, bound = access.get("expected", 0), access.get("bound", 0)
    if expected <= bound:
        return f"probes {probes}, no choice of them costs less by estimate"
    gap = 100 * (expected - bound) / expected
    return f"probes {probes}, at most {gap:.2g} % above the cheapest choice by estimate"


def size_text(size: float) -> str:
    """Bytes to three digits: `2.51 MB`."""
    for unit, name in _SIZES:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:,.0f} bytes"
