"""The tables as they are now; `api.store.migrations` says how they came to be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from api.store.columns import Json, Moment


class Base(DeclarativeBase):
    """What all tables have in common: moments and documents are kept as text."""

    type_annotation_map = {datetime: Moment, dict[str, Any]: Json}  # noqa: RUF012


class WorkloadRow(Base):
    """A workload by its name; what it says is in its versions."""

    __tablename__ = "workloads"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(Json)  # which holds any text that a document can
    created: Mapped[datetime]
    latest: Mapped[int]


class VersionRow(Base):
    """What a workload said from one change to the next."""

    __tablename__ = "workload_versions"

    workload: Mapped[str] = mapped_column(ForeignKey("workloads.id"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[datetime]
    queries: Mapped[int]
    document: Mapped[dict[str, Any]]
    text: Mapped[str | None] = mapped_column(Text)  # as it was posted, where that was YAML


class PlanRow(Base):
    """A plan, and the version of a workload that it was last made for."""

    __tablename__ = "plans"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(unique=True)
    workload: Mapped[str] = mapped_column(ForeignKey("workloads.id"), index=True)
    version: Mapped[int]
    created: Mapped[datetime]
    document: Mapped[dict[str, Any]]


class JobRow(Base):
    """A job: what was asked for, where it stands, and what came of it."""

    __tablename__ = "jobs"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(unique=True)
    plan: Mapped[str] = mapped_column(ForeignKey("plans.id"), index=True)
    request: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(index=True)
    stage: Mapped[str]
    reason: Mapped[str | None] = mapped_column(Json)
    created: Mapped[datetime]
    started: Mapped[datetime | None]
    finished: Mapped[datetime | None]
    done: Mapped[dict[str, Any] | None]
    restarts: Mapped[int | None]
    owner: Mapped[str | None]  # the name of the token that it was posted with


class KeyRow(Base):
    """An idempotency key: the request it came with, and what was answered or at least made."""

    __tablename__ = "idempotency_keys"

    key: Mapped[str] = mapped_column(primary_key=True)
    request: Mapped[str]
    run: Mapped[str]
    created: Mapped[datetime] = mapped_column(index=True)
    made: Mapped[str | None]
    status: Mapped[int | None]
    headers: Mapped[dict[str, Any] | None]
    body: Mapped[str | None] = mapped_column(Text)


class EventRow(Base):
    """Something that happened to a job, in the order of its numbers."""

    __tablename__ = "job_events"

    job: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[datetime]
    data: Mapped[dict[str, Any]]
