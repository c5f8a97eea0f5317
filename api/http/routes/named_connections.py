"""`/v1/connections`: what jobs may name as a source or a sink, besides files."""

from __future__ import annotations

from typing import Annotated
from typing import Literal as OneOf

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from api.connections import Connections
from api.http.routes.state import connections, handed
from engines.input.event_paths import CONNECTION

router = APIRouter(prefix="/v1/connections", tags=["jobs"])


class ConnectionOut(BaseModel):
    """A connection, without where it leads."""

    name: str
    path: str  # as a job says it; what is open stands in capitals
    kind: OneOf["kafka", "table", "path", "jdbc"]
    mode: OneOf["batch", "stream"]  # of the jobs that can take it

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "clicks",
                "path": "connection:clicks/TOPIC",
                "kind": "kafka",
                "mode": "stream",
            }
        }
    )


@router.get("")
def list_connections(
    connections: Annotated[Connections, handed(connections)],
) -> list[ConnectionOut]:
    """The connections of the service, which whoever runs it has named."""
    return [
        ConnectionOut(
            name=name,
            path=f"{CONNECTION}{name}" + (f"/{found.open}" if found.open else ""),
            kind=found.kind,
            mode="stream" if found.is_live else "batch",
        )
        for name, found in connections.by_name.items()
    ]
