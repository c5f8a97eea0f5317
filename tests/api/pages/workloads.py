"""Workloads that tests of the pages plan."""

from typing import Any

import httpx

from workloads.generators.query_groups import TICKERS, query_group


def plan_of(client: httpx.Client, document: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    posted = client.post("/v1/workloads", json=document)
    assert posted.status_code == 201, posted.text
    made = client.post(f"/v1/workloads/{posted.json()['id']}/plans", json=wanted)
    assert made.status_code == 201, made.text
    plan: dict[str, Any] = made.json()
    return plan


def many_queries(number: int) -> dict[str, Any]:
    """So many queries that have much in common."""
    pieces = [TICKERS[i : i + 3] for i in range(0, 18, 3)]
    queries = []
    for i in range(number):
        first, second = pieces[i % 6], pieces[(i // 6 + 1 + i) % 6]
        types = [*first, *(t for t in second if t not in first)]
        pattern = f"QUERY rule_{i:03d} PATTERN SEQ({', '.join(types)})"
        queries.append(f"{pattern} AGG COUNT(*) WITHIN {1 + i // 36 % 9} s")
    document, _ = query_group(1)
    return {**document, "name": "rules", "queries": queries}
