"""Examples of every answer, for the documentation; tests hold them to the answers' schemas, and the
plan and the account of a job to what the service says of this workload."""

from __future__ import annotations

from typing import Any

from optimizer.cost.unit_costs import VERSION as UNIT_COSTS
from optimizer.plan.plan import VERSION

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

WORKLOAD_ID = "shop-8d9001d3"
PLAN_ID = "plan-ae53f61105de"
_OF = {"workload": WORKLOAD_ID, "workload_version": 1}
_TIMES = {"created": "2026-03-01T09:30:00Z", "changed": "2026-03-01T09:30:00Z"}

INDEX: dict[str, Any] = {
    "id": "index-1bd31ccadf1f",
    "status": "succeeded",
    "source": {"path": "events.parquet"},
    "on": ["price"],
    "progress": 1.0,
    "created": "2026-03-01T09:30:00Z",
    "ended": "2026-03-01T09:30:02Z",
    "reason": None,
    "files": [
        {
            "file": "events.parquet",
            "rows": 1_000_000,
            "bytes": 5_124_000,
            "of_bytes": 18_730_112,
            "on": ["price"],
            "seconds": 1.6,
            "new": True,
        }
    ],
}

WORKLOAD_SUMMARY: dict[str, Any] = {
    "id": WORKLOAD_ID,
    "name": "shop",
    "version": 1,
    "queries": 2,
    **_TIMES,
}
WORKLOAD_OUT: dict[str, Any] = {
    "id": WORKLOAD_ID,
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
    "unit": "nanoseconds per second of stream",
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
    "version": VERSION,
    "id": PLAN_ID,
    "title": "shop, version 1",
    **_OF,
    "queries": ["purchases", "abandoned"],
    "solver": "greedy",
    "model": "measured",
    "status": "optimal",
    "objective": 0.0,
    "bound": 0.0,
    "cost": {"separate": 16832.98, "shared": 16832.98, "unit": "nanoseconds per second of stream"},
    "candidates": [],
    "chosen": [],
    "groups": [
        {
            "queries": ["purchases"],
            "engine": "product",
            "device": "cpu",
            "why": "counted alone: no other query has its key, and a window in the same unit; the "
            "sliding product takes 373 ns per event by default costs, 66% of it "
            "visiting events",
            "segments": [["View", "Cart", "Buy"]],
            "uses": {"purchases": [0]},
            "cost": {
                "separate": 16802.91,
                "shared": 16802.91,
                "unit": "nanoseconds per second of stream",
            },
        },
        {
            "queries": ["abandoned"],
            "engine": "deferred-trees",
            "device": "cpu",
            "why": "constructs its matches; it has no piece in common with others of its "
            "key and window; chosen again on the events at hand, as rates or keys "
            "are only assumed",
            "tree": {
                "operator": "NEG",
                "parts": [{"event": "Cart c", "alias": "c"}],
                "negation": {"event": "Buy b", "alias": "b"},
            },
            "cost": {
                "separate": 30.07,
                "shared": 30.07,
                "unit": "nanoseconds per second of stream",
            },
        },
    ],
    "operators": [
        {
            "id": "scan-b09914e01175",
            "kind": "scan",
            "inputs": [],
            "detail": {"time": "ts", "type": "action", "unit": "ms"},
            "schema": {
                "ts": "time",
                "action": "string",
                "item": "any",
                "price": "any",
                "user": "any",
            },
            "order": [],
            "partitioning": {"kind": "any", "by": []},
            "state": {"bound": "none"},
            "cost": 0.0,
        },
        {
            "id": "conditions-e40002af028d",
            "kind": "conditions",
            "inputs": ["scan-b09914e01175"],
            "detail": {"symbols": ["Buy", "Cart", "View"]},
            "schema": {
                "ts": "time",
                "action": "string",
                "item": "any",
                "price": "any",
                "user": "any",
            },
            "order": [],
            "partitioning": {"kind": "any", "by": []},
            "state": {"bound": "none"},
            "cost": 0.0,
        },
        {
            "id": "counter-2084b482e707",
            "kind": "counter",
            "inputs": ["events-29f28b7f4970", "events-8b2cb47733ff", "events-52f7af74a113"],
            "detail": {"engine": "product", "device": "cpu", "queries": ["purchases"]},
            "schema": {"query": "string", "end": "time", "count": "count"},
            "order": ["end"],
            "partitioning": {"kind": "key", "by": ["user"]},
            "state": {"bound": "window", "size": 600000000000},
            "cost": 16802.91,
            "rows": 15.0,
        },
    ],
    "rates": {"View": 27.0, "Cart": 3.0, "Buy": 15.0},
    "assumed": ["keys: user"],
    "obstacles": [],
    "statistics": {
        "selectivities": {},
        "keys": {"user": {"cardinality": 10.0, "heaviest": 0.1}},
        "source": "given",
        "unit_costs": "defaults",
    },
    "unit_costs": {"version": UNIT_COSTS, "source": "defaults", "nanoseconds": {"seen": 10.6}},
    "forms": {},
    "sharing": True,
    "spark": {"spread": "auto"},
    "document": WORKLOAD,
}
PLAN_SUMMARY: dict[str, Any] = {
    "id": PLAN_ID,
    "title": "shop, version 1",
    **_OF,
    "created": "2026-03-01T09:30:00Z",
    "queries": 2,
    **{name: PLAN[name] for name in ("solver", "model", "sharing", "status", "cost")},
}
JOB: dict[str, Any] = {
    "id": "job-1-5f3a9c1b",
    "title": "shop, version 1",
    "plan": PLAN_ID,
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
    "progress": {"done": 38, "known": 100},
    "created": "2026-03-01T09:30:00Z",
    "started": "2026-03-01T09:30:01Z",
    "finished": None,
}
OPERATORS: dict[str, Any] = {
    "job": JOB["id"],
    "plan": PLAN_ID,
    "status": "succeeded",
    "operators": [
        {
            "id": "scan-b09914e01175",
            "kind": "scan",
            "about": "in the order of ts",
            "queries": 2,
            "rows_in": 120000,
            "rows_out": 120000,
            "cpu_seconds": 0.015096,
            "predicted_seconds": 0.0,
        },
        {
            "id": "conditions-e40002af028d",
            "kind": "conditions",
            "about": "3 symbols",
            "queries": 2,
            "rows_in": 120000,
            "rows_out": 120000,
            "cpu_seconds": 0.002481,
            "predicted_seconds": 0.0,
        },
        {
            "id": "partition-70051de2f9e6",
            "kind": "partition",
            "about": "by user",
            "queries": 2,
            "rows_in": 240000,
            "rows_out": 167957,
            "cpu_seconds": 0.013425,
            "predicted_seconds": 0.0,
        },
        {
            "id": "counter-2084b482e707",
            "kind": "counter",
            "about": "product: purchases",
            "queries": 1,
            "rows_in": 120000,
            "rows_out": 38798,
            "cpu_seconds": 0.057928,
            "predicted_seconds": 0.044359,
            "predicted_rows": 39599.67,
        },
        {
            "id": "output-3327aa6970d9",
            "kind": "output",
            "about": "purchases: SEQ(View v, Cart c, Buy b)",
            "queries": 1,
            "rows_in": 38798,
            "rows_out": 77596,
            "cpu_seconds": 0.002713,
            "predicted_seconds": 0.0,
            "predicted_rows": 39599.67,
        },
        {
            "id": "negation-6d7c27d0d02c",
            "kind": "negation",
            "about": "NEG(Cart, !Buy)",
            "queries": 1,
            "rows_in": 47957,
            "rows_out": 30,
            "cpu_seconds": 0.000693,
            "predicted_seconds": 7.9e-05,
            "predicted_rows": 17.599853,
        },
        {
            "id": "output-e33602b2f729",
            "kind": "output",
            "about": "abandoned: SEQ(Cart c, !Buy b)",
            "queries": 1,
            "rows_in": 30,
            "rows_out": 30,
            "cpu_seconds": 0.00247,
            "predicted_seconds": 0.0,
            "predicted_rows": 17.599853,
        },
        {
            "id": "sink-aggregates",
            "kind": "sink",
            "about": "aggregates",
            "queries": 1,
            "rows_in": 77596,
            "rows_out": 77596,
            "cpu_seconds": 0.027667,
            "predicted_seconds": 0.0,
            "predicted_rows": 39599.67,
        },
        {
            "id": "sink-matches",
            "kind": "sink",
            "about": "matches",
            "queries": 1,
            "rows_in": 30,
            "rows_out": 30,
            "cpu_seconds": 5.2e-05,
            "predicted_seconds": 0.0,
            "predicted_rows": 17.599853,
        },
    ],
    "cpu_seconds": 0.3825,
    "predicted_seconds": 0.044439,
    "unclaimed_seconds": 0.26,
    "fallbacks": [],
    "trees": [
        {
            "what": "chosen",
            "batch": 1,
            "queries": ["abandoned"],
            "reason": "these are the first events",
            "old": {},
            "new": {"abandoned": "NEG(c, !b)"},
        }
    ],
    "read": {"bytes": 2_460_000, "row_groups": 6, "of": 123, "events": 98_304},
    "access": {
        "method": "index",
        "why": "6 of 123 row groups can matter, by the statistics in their files",
        "by": ["footers"],
        "row_groups": 6,
        "of": 123,
        "bytes": 2_460_000,
        "of_bytes": 50_900_000,
        "events": 98_304,
        "of_events": 2_000_000,
    },
    "access_text": "index (footers): 6 of 123 row groups, 4.9 % of 2,000,000 events, 2.46 MB of "
    "50.9 MB",
    "gone": {},
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

ALERTS: dict[str, Any] = {
    "job": JOB["id"],
    "alerts": 6,
    "days": ["2025-03-01", "2025-03-02", "2025-03-04"],
    "rules": [
        {
            "query": "paid",
            "title": "Paid",
            "level": "low",
            "tags": None,
            "alerts": 4,
            "by_day": {"2025-03-01": 1, "2025-03-02": 2, "2025-03-04": 1},
        }
    ],
}
