"""Workloads and plans that were posted, in memory."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from optimizer.ir.query import BoundWorkload
from optimizer.physical.plan import Plan
from workloads.errors import SheafError


class UnknownIdError(SheafError):
    """Nothing is stored under this id."""


@dataclass(frozen=True)
class StoredWorkload:
    """A workload that has been checked; `document` is what it can be loaded from again."""

    id: str
    created: datetime
    bound: BoundWorkload
    document: Mapping[str, Any]


@dataclass(frozen=True)
class StoredPlan:
    """A plan and the workload it is for."""

    created: datetime
    workload: str
    plan: Plan


class Store:
    """Keeps what it is given until the process ends; safe to use from several threads.

    Ids follow from content: the same workload posted twice is stored once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workloads: dict[str, StoredWorkload] = {}
        self._plans: dict[str, StoredPlan] = {}

    def add_workload(self, bound: BoundWorkload, document: Mapping[str, Any]) -> StoredWorkload:
        stored = StoredWorkload(workload_id(document), _now(), bound, document)
        with self._lock:
            return self._workloads.setdefault(stored.id, stored)

    def add_plan(self, workload: StoredWorkload, plan: Plan) -> StoredPlan:
        with self._lock:
            return self._plans.setdefault(plan.id, StoredPlan(_now(), workload.id, plan))

    def workloads(self) -> list[StoredWorkload]:
        with self._lock:
            return list(self._workloads.values())

    def workload(self, id: str) -> StoredWorkload:
        with self._lock:
            found = self._workloads.get(id)
        if found is None:
            raise UnknownIdError(f"there is no workload '{id}'")
        return found

    def plan(self, id: str) -> StoredPlan:
        with self._lock:
            found = self._plans.get(id)
        if found is None:
            raise UnknownIdError(f"there is no plan '{id}'")
        return found


def workload_id(document: Mapping[str, Any]) -> str:
    """The workload's name as far as it goes into an address, and a digest of all of it."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    name = re.sub(r"[^a-z0-9]+", "-", str(document["name"]).lower())[:40].strip("-")
    return f"{name or 'workload'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _now() -> datetime:
    return datetime.now(UTC)
