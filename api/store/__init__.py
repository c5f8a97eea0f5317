"""What the service keeps: workloads in all their versions, plans, jobs."""

from api.store.database import Database, StoreError, open_database
from api.store.workloads import (
    NeededError,
    Page,
    Store,
    StoredPlan,
    StoredWorkload,
    UnknownIdError,
    workload_id,
)

__all__ = [
    "Database",
    "NeededError",
    "Page",
    "Store",
    "StoreError",
    "StoredPlan",
    "StoredWorkload",
    "UnknownIdError",
    "open_database",
    "workload_id",
]
