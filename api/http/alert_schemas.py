"""What the service answers when it is asked how often queries gave rows."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from api.http import examples


class RuleAlerts(BaseModel):
    """The alerts of one query; of an aggregate, each window that is reported is one."""

    query: str
    title: str | None = Field(description="What a rule of Sigma or EQL says of itself.")
    level: str | None
    tags: str | None
    alerts: int
    by_day: dict[str, int] = Field(description="Days with alerts, in order; of UTC.")


class AlertsOut(BaseModel):
    """Alerts by query and day, the noisiest query first."""

    model_config = ConfigDict(json_schema_extra={"example": examples.ALERTS})

    job: str
    alerts: int
    days: list[str] = Field(
        description="All days with alerts; `day 3` is counted from the stream's 0 where times are "
        "no dates."
    )
    rules: list[RuleAlerts]
