"""A schema registry over HTTP, as small as can be, with schemas that tests give it."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Schemas:
    """Subjects with their versions; numbers of schemas begin with 1."""

    subjects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    failures: int = 0  # that come before the next answer
    user: str | None = None  # with the password behind a colon, where one is asked for
    address: str = ""
    number: int = 0

    def add(
        self,
        subject: str,
        schema: Any,
        kind: str = "AVRO",
        refers: tuple[tuple[str, str], ...] = (),
    ) -> int:
        """Register a schema; it refers to the last versions of other subjects by names."""
        self.number += 1
        text = schema if isinstance(schema, str) else json.dumps(schema)
        references = [
            {"name": name, "subject": other, "version": len(self.subjects[other])}
            for name, other in refers
        ]
        entry = {"id": self.number, "schema": text, "references": references}
        if kind != "AVRO":  # which registries leave out
            entry["schemaType"] = kind
        self.subjects.setdefault(subject, []).append(entry)
        return self.number

    def answer(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        path, _, form = path.partition("?")
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                each = (entry for entries in self.subjects.values() for entry in entries)
                found = next((entry for entry in each if str(entry["id"]) == number), None)
            case ["subjects", subject, "versions", version]:
                entries = self.subjects.get(subject, [])
                place = len(entries) if version == "latest" else int(version)
                found = entries[place - 1] if entries else None
            case _:
                found = None
        if found is not None and found.get("schemaType") == "PROTOBUF":
            assert "latest" in path or form in ("", "format=serialized")
            if not form:  # the source, which is no descriptor
                found = {**found, "schema": 'syntax = "proto3";'}
        return found


@contextmanager
def registry() -> Iterator[Schemas]:
    """A registry for as long as the block runs, at its `address`."""
    schemas = Schemas()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, found = 200, None
            wanted = None
            if schemas.user is not None:
                wanted = "Basic " + base64.b64encode(schemas.user.encode()).decode()
            if schemas.failures:
                schemas.failures -= 1
                status = 503
            elif wanted is not None and self.headers.get("Authorization") != wanted:
                status = 401
            elif (found := schemas.answer(self.path)) is None:
                status = 404
            body = json.dumps(found or {"error_code": status}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    schemas.address = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield schemas
    finally:
        server.shutdown()
        server.server_close()


def framed(number: int, body: bytes) -> bytes:
    """A message as Confluent's serializers write it."""
    return b"\x00" + number.to_bytes(4, "big") + body
