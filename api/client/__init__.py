"""Sheaf's service from Python: `Client`, and `AsyncClient` for programs that await.

from api.client import Client

with Client("http://127.0.0.1:8000") as sheaf:
    workload = sheaf.post_workload("queries.yaml")
    plan = sheaf.plan(workload.id)
    job = sheaf.wait(sheaf.launch(plan.id, "events.parquet").id)
    table = sheaf.table(job.id, "aggregates")
"""

from api.client.asynchronous import AsyncClient
from api.client.errors import ClientError, JobError, ServiceError, UnreachableError
from api.client.events import Event
from api.client.plan import Plan
from api.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Event",
    "JobError",
    "Plan",
    "ServiceError",
    "UnreachableError",
]
