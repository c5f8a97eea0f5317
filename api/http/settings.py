"""What whoever runs the service can set, by options of `sheaf serve` or by the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from api.http.middleware.tokens import Token, read_token_file, read_tokens
from api.planning.process_pool import DEFAULT_MEMORY
from workloads.errors import SheafError

PREFIX = "SHEAF_"


class SettingError(SheafError):
    """A setting that cannot be what it is."""


def default_data() -> Path:
    """Where services keep what they are given, unless told otherwise."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "sheaf"


def machine_memory() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _words(given: Any) -> Any:
    return given.split() if isinstance(given, str) else given


def _folders(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    found = tuple(Path(part) for part in given.split(os.pathsep) if part)
    for folder in found:
        if not folder.is_dir():
            raise ValueError(f"there is no folder '{folder}'")
    return found


def _limit(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    text = given.strip().lower()
    if text != "none" and not (text.isdigit() and int(text)):
        raise ValueError("it has to be a whole number from 1, or 'none'")
    return None if text == "none" else int(text)


def _tokens(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return read_tokens(given.replace(",", "\n").splitlines(), "SHEAF_TOKENS")


Seconds = Annotated[float, Field(gt=0, lt=1e9)]
Memory = Annotated[ByteSize, Field(gt=0)]  # bytes, or with a unit: `8 GB`
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]  # blanks between them


class Settings(BaseModel):
    """The service's settings; `data` is the folder where it keeps everything."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path = Field(default_factory=default_data)
    store: str | None = None  # a file of its own under `data`, unless this is a database's URL
    max_body: PositiveInt = 16 * 1024 * 1024  # bytes; a workload of 10,000 queries is some 3 MB
    max_queries: PositiveInt = 10_000  # of a workload
    max_candidates: PositiveInt = 100_000  # for sharing, of a plan
    planning_seconds: Seconds = 60  # that checking or planning a workload may take
    planning_memory: Memory = ByteSize(DEFAULT_MEMORY)  # that a process that plans may hold
    jobs_at_once: PositiveInt = 1  # a Spark job takes all the cores there are
    streams_at_once: PositiveInt = 2  # besides the other jobs, since they never end
    stream_restarts: PositiveInt = 5  # in a row without getting on, before a stream is given up
    max_queued: PositiveInt = 1000  # jobs that wait
    # Rows that a query of a job over stored events may give.
    row_limit: Annotated[PositiveInt | None, BeforeValidator(_limit)] = 10_000_000
    token_queued: PositiveInt = 200  # jobs that wait, that one token may have
    max_connections: PositiveInt = 512  # open at once, of which one address has at most:
    address_connections: PositiveInt = 256
    header_seconds: Seconds = 10  # that a client may take to send a request's header
    body_seconds: Seconds = 120  # and its body
    send_seconds: Seconds = 60  # for which a client may leave an answer unread
    # Longer than clients keep one: else some write to a closed one.
    keep_alive_seconds: Seconds = 30
    token_requests: PositiveInt = 16  # of one token, or without tokens one address, done at once
    token_waiting: PositiveInt = 200  # that wait meanwhile
    token_plans: PositiveInt = 2  # of one token, that check or plan workloads at once
    plans_at_once: PositiveInt = 6  # of all tokens
    token_followers: PositiveInt = 32  # of one token, that follow jobs
    job_memory: Memory = Field(default_factory=lambda: ByteSize(machine_memory() * 3 // 4))
    # Folders of sources and sinks.
    roots: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_folders)] = Field(
        default_factory=lambda: (Path.cwd(),)
    )
    webhooks: Words = ()  # beginnings of addresses that jobs may post rows to
    brokers: Words = ()  # of Kafka, as HOST:PORT, that streams may read and write
    masters: Words = ()  # of Spark, besides this machine
    connections: Path | None = None  # a file of those that jobs may name
    token_file: Path | None = None
    # Without any, all may do all.
    tokens: Annotated[tuple[Token, ...], NoDecode, BeforeValidator(_tokens)] = Field(
        default=(), repr=False
    )

    @model_validator(mode="before")
    @classmethod
    def _read_token_file(cls, given: dict[str, Any]) -> dict[str, Any]:
        if file := given.get("token_file"):
            return given | {"tokens": read_token_file(Path(file))}
        return given

    @property
    def database(self) -> str:
        return self.store or str(self.data / "sheaf.db")


class _OfEnvironment(Settings, BaseSettings):
    """Settings, of which those that are not given are read from the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True)


def from_environment(**given: Any) -> Settings:
    """The settings of `SHEAF_DATA` and the like; what is `given`, and not None, wins."""
    given = {name: value for name, value in given.items() if value is not None}
    if "tokens" in given:
        given["token_file"] = None
    try:
        return _OfEnvironment(**given)
    except ValidationError as error:
        found = error.errors()[0]
        name = f"{PREFIX}{found['loc'][0]}".upper()
        why = found["msg"].removeprefix("Value error, ")
        raise SettingError(f"{name} is '{found['input']}': {why}") from error
