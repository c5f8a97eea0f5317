"""What whoever runs the service can set, by options of `sheaf serve` or by the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api.http.middleware.tokens import Token, read_token_file, read_tokens
from api.planning.process_pool import DEFAULT_MEMORY
from workloads.errors import SheafError


class SettingError(SheafError):
    """A setting that cannot be what it is."""


@dataclass(frozen=True)
class Settings:
    """The service's settings; `data` is the folder where it keeps everything."""

    data: Path
    store: str | None = None  # a file of its own under `data`, unless this is a database's URL
    max_body: int = 16 * 1024 * 1024  # bytes; a workload of 10,000 queries is some 3 MB
    max_queries: int = 10_000  # of a workload
    max_candidates: int = 100_000  # for sharing, of a plan
    planning_seconds: float = 60  # that checking or planning a workload may take
    planning_memory: int = DEFAULT_MEMORY  # bytes that a process that plans may hold
    jobs_at_once: int = 1  # a Spark job takes all the cores there are
    streams_at_once: int = 2  # besides the other jobs, since they never end
    stream_restarts: int = 5  # in a row without getting on, before a stream is given up
    max_queued: int = 1000  # jobs that wait
    row_limit: int | None = 10_000_000  # rows that a query of a job over stored events may give
    token_queued: int = 200  # of them, that one token may have
    max_connections: int = 512  # open at once, of which one address has at most:
    address_connections: int = 256
    header_seconds: float = 10  # that a client may take to send a request's header
    body_seconds: float = 120  # and its body
    send_seconds: float = 60  # for which a client may leave an answer unread
    keep_alive_seconds: float = 30  # longer than clients keep one: else some write to a closed one
    token_requests: int = 16  # of one token, or without tokens one address, done at once
    token_waiting: int = 200  # that wait meanwhile
    token_plans: int = 2  # of one token, that check or plan workloads at once
    plans_at_once: int = 6  # of all tokens
    token_followers: int = 32  # of one token, that follow jobs
    job_memory: int = field(default_factory=lambda: machine_memory() * 3 // 4)  # bytes, of each
    roots: tuple[Path, ...] = field(default_factory=lambda: (Path.cwd(),))  # of sources and sinks
    webhooks: tuple[str, ...] = ()  # beginnings of addresses that jobs may post rows to
    brokers: tuple[str, ...] = ()  # of Kafka, as HOST:PORT, that streams may read and write
    masters: tuple[str, ...] = ()  # of Spark, besides this machine
    tokens: tuple[Token, ...] = field(default=(), repr=False)  # without any, all may do all

    @property
    def database(self) -> str:
        return self.store or str(self.data / "sheaf.db")


def default_data(environment: Mapping[str, str]) -> Path:
    """Where services keep what they are given, unless told otherwise."""
    home = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "sheaf"


def from_environment(environment: Mapping[str, str] = os.environ, **given: Any) -> Settings:
    """The settings of `SHEAF_DATA` and the like; what is `given`, and not None, wins."""
    found: dict[str, Any] = {"data": default_data(environment)}
    for name, read in _VARIABLES.items():
        if text := environment.get(f"SHEAF_{name.upper()}"):
            try:
                found[name] = read(text)
            except ValueError as error:
                raise SettingError(f"SHEAF_{name.upper()} is '{text}': {error}") from error
    if file := environment.get("SHEAF_TOKEN_FILE"):
        found["tokens"] = read_token_file(Path(file))
    elif text := environment.get("SHEAF_TOKENS"):
        found["tokens"] = read_tokens(text.replace(",", "\n").splitlines(), "SHEAF_TOKENS")
    return Settings(**found | {name: value for name, value in given.items() if value is not None})


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError("it has to be a whole number from 1")
    return int(text)


def _limit(text: str) -> int | None:
    if text.strip().lower() == "none":
        return None
    try:
        return _positive(text.strip())
    except ValueError:
        raise ValueError("it has to be a whole number from 1, or 'none'") from None


def machine_memory() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([MG]B)?", text.strip())
    if found is None or not float(found[1]):
        raise ValueError("write a number of bytes, or one with MB or GB, such as 8 GB")
    return int(float(found[1]) * {"MB": 1e6, "GB": 1e9, None: 1}[found[2]])


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError("it has to be a number of seconds")
    return value


def _folders(text: str) -> tuple[Path, ...]:
    found = tuple(Path(part) for part in text.split(os.pathsep) if part)
    for folder in found:
        if not folder.is_dir():
            raise ValueError(f"there is no folder '{folder}'")
    return found


_VARIABLES: dict[str, Callable[[str], Any]] = {
    "data": Path,
    "store": str,
    "max_body": _positive,
    "max_queries": _positive,
    "max_candidates": _positive,
    "planning_seconds": _seconds,
    "planning_memory": _bytes,
    "jobs_at_once": _positive,
    "streams_at_once": _positive,
    "stream_restarts": _positive,
    "max_queued": _positive,
    "row_limit": _limit,
    "token_queued": _positive,
    "max_connections": _positive,
    "address_connections": _positive,
    "header_seconds": _seconds,
    "body_seconds": _seconds,
    "send_seconds": _seconds,
    "keep_alive_seconds": _seconds,
    "token_requests": _positive,
    "token_waiting": _positive,
    "token_plans": _positive,
    "plans_at_once": _positive,
    "token_followers": _positive,
    "job_memory": _bytes,
    "roots": _folders,
    "webhooks": lambda text: tuple(text.split()),
    "brokers": lambda text: tuple(text.split()),
    "masters": lambda text: tuple(text.split()),
}
