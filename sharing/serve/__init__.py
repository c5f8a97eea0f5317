"""Which candidates serve which places: the choice where a candidate need not serve all it could."""

from __future__ import annotations

from collections.abc import Mapping

from sharing.serve import cpsat, exhaustive, greedy
from sharing.serve.places import Served, Server, Variants, as_variants

SERVERS: Mapping[str, Server] = {
    "greedy": greedy.greedy,
    "cpsat": cpsat.cpsat,
    "exhaustive": exhaustive.exhaustive,
}

__all__ = ["SERVERS", "Served", "Server", "Variants", "as_variants"]
