"""A schema registry as Confluent's: schemas by the numbers that messages begin with.

A number stands for one schema for ever, so each process asks once for each.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from engines.limits import EventsError

SECONDS = 10.0  # for which an answer is waited
TRIES = 3
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"


class NoSchemaError(Exception):
    """The registry has no schema of a number."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema's text, of the kind that is said, and the texts that it refers to, those first."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()  # the name by which it is referred to, its text


@dataclass(frozen=True)
class Registry:
    """A registry at an address, which may have a user and a password in it."""

    url: str = field(repr=False)
    tries: ClassVar[int] = TRIES

    @property
    def place(self) -> str:
        """Where it is, for people."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def schema(self, number: int) -> RegisteredSchema:
        """The schema of a number; raises `NoSchemaError` where there is none."""
        return _schema(self, number)

    def latest(self, subject: str) -> RegisteredSchema:
        """The schema that a subject has now."""
        found = self.ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if found is None:
            raise EventsError(
                f"the schema registry at {self.place} has no subject '{subject}'; register the "
                "schema of its messages, or say what they are like by --schema or attributes"
            )
        return self.schema(int(found["id"]))

    def ask(self, path: str) -> Mapping[str, Any] | None:
        """What it answers; None where it says that there is no such thing."""
        parts = urlsplit(self.url)
        address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            who = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(who).decode()}"
        request = urllib.request.Request(address.rstrip("/") + path, headers=headers)
        why: Exception | str = "no answer"
        for tried in range(self.tries):
            if tried:
                time.sleep(2.0 ** (tried - 1))
            try:
                with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                    found = json.load(answer)
                if isinstance(found, dict):
                    return found
                why = "its answer is no object"
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                why = f"it answers {error.code}"
                if error.code < 500 and error.code != 429:
                    break
            except (OSError, ValueError) as error:
                why = getattr(error, "reason", None) or error
        raise EventsError(
            f"the schema registry at {self.place} cannot be asked for {path}: {why}; check its "
            "address and whether it may be reached from where Spark's tasks run"
        )


def check_address(url: str) -> str:
    """The address of a registry, if it can be one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EventsError("a schema registry's address is http://HOST:PORT or https://…")
    return url


@lru_cache(maxsize=1000)
def _schema(registry: Registry, number: int) -> RegisteredSchema:
    found = registry.ask(f"/schemas/ids/{number}")
    if found is None:
        raise NoSchemaError(number)
    kind = str(found.get("schemaType") or AVRO)
    form = "?format=serialized" if kind == PROTOBUF else ""  # descriptors in place of source text
    if form:
        found = registry.ask(f"/schemas/ids/{number}{form}") or found
    references = dict(_references(registry, found, form))
    return RegisteredSchema(kind, str(found["schema"]), tuple(references.items()))


def _references(
    registry: Registry, found: Mapping[str, Any], form: str
) -> Iterator[tuple[str, str]]:
    """All that a schema refers to, directly or not; what is referred to comes first."""
    for reference in found.get("references") or ():
        name, subject = str(reference["name"]), quote(str(reference["subject"]), safe="")
        path = f"/subjects/{subject}/versions/{int(reference['version'])}{form}"
        other = registry.ask(path)
        if other is None:
            raise EventsError(
                f"the schema registry at {registry.place} has no {path}, which a schema refers to"
            )
        yield from _references(registry, other, form)
        yield name, str(other["schema"])
