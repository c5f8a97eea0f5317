"""Examples of every answer, for the documentation; a test holds them to the answers' schemas."""

from __future__ import annotations

from typing import Any

WORKLOAD = {
    "name": "shop",
    "stream": {"time": "ts", "unit": "ms", "type": "action"},
    "statistics": {"rates": {"View": 27.0, "Cart": 3.0, "Buy": 15.0}},
    "queries": [
        "QUERY purchases PATTERN SEQ(View v, Cart c, Buy b) PARTITION BY user\n"
        "AGG COUNT(*), SUM(b.price) WITHIN 10 min",
        "QUERY abandoned PATTERN SEQ(Cart c, !Buy b) WHERE [user]\n"
        "RETURN c.item, c.price WITHIN 5 min",
    ],
}

_OF = {"workload": "shop-94a7b3f1", "workload_version": 1}
_TIMES = {"created": "2026-03-01T09:30:00Z", "changed": "2026-03-01T09:30:00Z"}

WORKLOAD_SUMMARY: dict[str, Any] = {
    "id": "shop-94a7b3f1",
    "name": "shop",
    "version": 1,
    "queries": 2,
    **_TIMES,
}
WORKLOAD_OUT: dict[str, Any] = {
    "id": "shop-94a7b3f1",
    "name": "shop",
    "version": 1,
    "latest": 1,
    **_TIMES,
    "queries": [
        {
            "name": "purchases",
            "kind": "aggregate",
            "pattern": "SEQ(View v, Cart c, Buy b)",
            "key": ["user"],
            "window": "10 min",
        }
    ],
    "types": ["Buy", "Cart", "View"],
    "document": WORKLOAD,
}
_CANDIDATE = {
    "id": "c-5f0d1e",
    "pattern": ["View", "Cart"],
    "queries": ["purchases", "visits"],
    "kind": "prefix",
    "benefit": 120.5,
    "conflicts": [],
    "conflicting": 0,
    "why": "chosen",
}
TASK: dict[str, Any] = {
    "id": "task-5f3a9c1b77de",
    **_OF,
    "status": "running",
    "stage": "choosing what to share",
    "seconds": 3.2,
    "limit": 60.0,
    "reason": None,
    "plan": None,
    "created": "2026-03-01T09:30:00Z",
    "finished": None,
}
EXPLAIN: dict[str, Any] = {
    **_OF,
    "queries": [
        {
            "name": "purchases",
            "pattern": "SEQ(View v, SEQ(Cart c, Buy b))",
            "form": "DNF",
            "normalized": "SEQ(View v, Cart c, Buy b)",
            "conditions": [],
            "rules": ["flatten_seq"],
            "notes": [],
        }
    ],
    "candidates": [_CANDIDATE],
    "obstacles": ["View, Cart: visits and trips do not share it: they differ in the window"],
    "assumed": [],
}
PLAN: dict[str, Any] = {
    "version": 2,
    "id": "plan-1f0c9a3b77de",
    **_OF,
    "queries": ["purchases", "visits"],
    "solver": "greedy",
    "model": "aseq",
    "status": "feasible",
    "objective": 120.5,
    "bound": 120.5,
    "cost": {"separate": 400.0, "shared": 279.5, "unit": "operations per window"},
    "candidates": [_CANDIDATE],
    "chosen": ["c-5f0d1e"],
    "groups": [
        {
            "queries": ["purchases", "visits"],
            "engine": "product",
            "why": "counted together: they have one key, window and slide",
            "segments": [["View", "Cart"], ["Buy"]],
            "uses": {"purchases": [0, 1], "visits": [0]},
        }
    ],
    "operators": [
        {
            "id": "scan-5f0d1e77aa01",
            "kind": "scan",
            "inputs": [],
            "detail": {"time": "ts"},
            "schema": {"time": "int64", "type": "string", "user": "string", "price": "double"},
            "order": ["time"],
        }
    ],
    "rates": {"View": 27.0, "Cart": 3.0, "Buy": 15.0},
    "assumed": [],
    "obstacles": [],
    "document": WORKLOAD,
}
PLAN_SUMMARY: dict[str, Any] = {
    "id": PLAN["id"],
    **_OF,
    "created": "2026-03-01T09:30:00Z",
    "solver": "greedy",
    "model": "aseq",
    "status": "feasible",
    "queries": 2,
    "cost": PLAN["cost"],
}
JOB: dict[str, Any] = {
    "id": "job-1-5f3a9c1b",
    "plan": "plan-1f0c9a3b77de",
    **_OF,
    "source": {"path": "events.parquet"},
    "sink": {"path": "results.csv"},
    "mode": "batch",
    "engine": "spark",
    "device": "auto",
    "master": "local[*]",
    "status": "running",
    "position": None,
    "stage": "run",
    "reason": None,
    "progress": {"done": 3, "known": 8},
    "created": "2026-03-01T09:30:00Z",
    "started": "2026-03-01T09:30:01Z",
    "finished": None,
}
OPERATORS: dict[str, Any] = {
    "job": "job-1-5f3a9c1b",
    "plan": "plan-1f0c9a3b77de",
    "status": "running",
    "until": 1_740_821_400_000,
    "operators": [
        {
            "id": "scan-5f0d1e77aa01",
            "kind": "scan",
            "about": "in the order of ts",
            "queries": 2,
            "rows_in": 120_000,
            "rows_out": 120_000,
        },
        {
            "id": "partition-210deebca9e2",
            "kind": "partition",
            "about": "by user",
            "queries": 2,
            "rows_in": 119_400,
            "rows_out": 118_900,
            "state": {"events": 500, "queries": 2},
        },
        {
            "id": "engine-5281f4c94a96",
            "kind": "engine",
            "about": "product: purchases, visits",
            "queries": 2,
            "rows_in": 118_900,
            "rows_out": 5_120,
            "state": {"events": 9_800, "bytes": 78_400, "queries": 2},
        },
    ],
    "gone": {"abandoned": 17},
}
JOB_CHANGED: dict[str, Any] = {
    "job": "job-1-5f3a9c1b",
    "plan": "plan-77de1f0c9a3b",
    "workload_version": 2,
    "kept": ["purchases"],
    "afresh": ["abandoned"],
    "removed": [],
}
RESULTS: dict[str, Any] = {
    "job": "job-1-5f3a9c1b",
    "total": {"aggregates": 1, "matches": 1},
    "offset": 0,
    "limit": 10_000,
    "aggregates": [
        {
            "query": "purchases",
            "key": {"user": "u1"},
            "time": 1_200,
            "seq": None,
            "aggregate": "COUNT(*)",
            "value": 2.0,
            "count": 2,
            "exact": True,
        }
    ],
    "matches": [
        {
            "query": "abandoned",
            "key": {"user": "u1"},
            "start": 900,
            "end": 900,
            "time": 300_900,
            "match": {"c": {"item": "case", "price": 9.5}},
        }
    ],
}
