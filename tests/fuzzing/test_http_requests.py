"""Requests over all routes, right and spoilt: never an error of the service's.

They go to the app itself, without a network, so that anything can be sent. Each must be answered
within `PATIENCE`, never with 5xx, and a refusal must be a problem with a type.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from tests.fuzzing.duration import QUICK_SECONDS, SOAK_SECONDS, fuzz, soak
from workloads import bundled

PATIENCE = 120.0  # seconds; a busy machine may need some of them
FOLLOWED = 2.0  # seconds for which a job is followed

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "FOO")
PAGES = (
    "/", "/workloads/new", "/workloads/{workloads}", "/plans", "/plans/{plans}", "/compare",
    "/jobs", "/jobs/new", "/jobs/{jobs}", "/docs", "/signin", "/signout", "/pages/check",
    "/pages/suggestions", "/pages/layout", "/pages/colours",
    "/pages/files", "/pages/jobs/{jobs}/measures", "/static/page.js", "/openapi.json",
)  # fmt: skip
POSTED = ("/pages/check", "/pages/suggestions", "/pages/layout", "/signin", "/signout")
ODD_TEXTS = (
    "", "\0", "é" * 3, "\ud800", "../../etc/passwd", "x" * 3000, "%", "%ff", "'; DROP TABLE x;--",
    "{}", "null", "-1", "1e400", "9" * 4500, "NaN", "\r\nx: y", "\u202e", "*", "[", "**/*", "true",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**40, 1e308, 0.5, float("nan"), float("inf"), [], {}, [[]], [None],
    {"": None}, {"path": "x"}, {"rates": {"": -1}}, *ODD_TEXTS,
)  # fmt: skip
MEDIA = (
    "application/json", "application/yaml", "text/plain", "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded", "application/json; charset=utf-16", "", "x" * 200,
    "\xff/\xff",
)  # fmt: skip
HEADERS = (
    "accept", "authorization", "content-encoding", "content-length", "cookie", "expect", "host",
    "idempotency-key", "if-none-match", "last-event-id", "origin", "prefer", "range",
    "sec-fetch-site", "transfer-encoding", "x-forwarded-for", "x-request-id",
)  # fmt: skip
HEADER_VALUES = (
    "", "*", "*/*;q=x", "text/csv", "image/svg+xml, */*;q=0", "Bearer x", "Basic \xff", "gzip",
    "-1", "99999999999", "sheaf-token=\"\\", "sheaf-token=%%%", "100-continue", "a", "k" * 300,
    "W/\"x\"",
    "3.aggregates.1", "1.2.3", "9" * 400, "respond-async", "bytes=0-", "cross-site", "chunked",
    "\xfc",
)  # fmt: skip


@dataclass
class Call:
    """A request before it is sent."""

    method: str
    path: str
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Target:
    """A service, and what is in it: one of everything at least."""

    def __init__(self, folder: Path, worker: list[str]) -> None:
        (folder / "events.csv").write_text("ts,action,user,price\n1,View,u,1\n2,Buy,u,2\n")
        settings = Settings(
            data=folder / "data",
            roots=(folder,),
            planning_seconds=20,
            max_queued=2,
            max_queries=200,
            max_body=1 << 20,
        )
        self.source = str(folder / "events.csv")
        self.app = create_app(settings, worker)
        self._runner = asyncio.Runner()
        self._lifespan = self.app.router.lifespan_context(self.app)
        self._runner.run(self._lifespan.__aenter__())
        self.operations = [
            (method.upper(), path, operation)
            for path, methods in self.app.openapi()["paths"].items()
            for method, operation in methods.items()
        ]
        self.ids: dict[str, str] = {}

    def close(self) -> None:
        self._runner.run(self._lifespan.__aexit__(None, None, None))
        self._runner.close()

    def send(self, call: Call) -> Answer:
        return self._runner.run(asyncio.wait_for(self._send(call), PATIENCE))

    async def _send(self, call: Call) -> Answer:
        query = "&".join(f"{quote(name)}={quote(value)}" for name, value in _utf8(call.query))
        raw = quote(call.path.encode("utf-8", "surrogatepass"), safe="/%")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": call.method,
            "scheme": "http",
            "path": call.path.encode("utf-8", "replace").decode(),
            "raw_path": raw.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [
                (n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in call.headers
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        gone, is_sent = asyncio.Event(), False
        parts: list[bytes] = []
        start: dict[str, Any] = {}

        async def receive() -> dict[str, Any]:
            nonlocal is_sent
            if not is_sent:
                is_sent = True
                return {"type": "http.request", "body": call.body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        if call.path.endswith("/events"):  # which may have no end
            asyncio.get_running_loop().call_later(FOLLOWED, gone.set)
        await self.app(scope, receive, send)
        headers = {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in start["headers"]}
        return Answer(start["status"], headers, b"".join(parts))

    def made(self, kind: str) -> str:
        """The id of a thing of some kind, which is made again where it has been deleted."""
        known = self.ids.get(kind)
        if known is not None and self.send(Call("GET", f"/v1/{kind}/{known}")).status == 200:
            return known
        match kind:
            case "workloads":
                found = self._posted("/v1/workloads", EXAMPLE_WORKLOAD)
            case "plans":
                found = self._posted(f"/v1/workloads/{self.made('workloads')}/plans", {})
            case "jobs":
                found = self._posted(
                    "/v1/jobs", {"plan": self.made("plans"), "source": self.source}
                )
            case _:
                path = f"/v1/workloads/{self.made('workloads')}/plans"
                found = self._posted(path, {}, ("prefer", "respond-async"))
        if found is not None:
            self.ids[kind] = found
        return self.ids.get(kind, "none")

    def _posted(self, path: str, body: Any, *headers: tuple[str, str]) -> str | None:
        sent = [("content-type", "application/json"), *headers]
        answer = self.send(Call("POST", path, [], sent, json.dumps(body).encode()))
        return json.loads(answer.body)["id"] if answer.status in (201, 202) else None


def _utf8(pairs: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(n.encode("utf-8", "replace"), v.encode("utf-8", "surrogatepass")) for n, v in pairs]


# --- right requests ------------------------------------------------------------------------------


def right_call(target: Target, chance: random.Random) -> Call:
    """A request as the documentation has it, or one for a page."""
    if chance.random() < 0.15:
        page = chance.choice(PAGES)
        for kind in ("workloads", "plans", "jobs"):
            if f"{{{kind}}}" in page:
                page = page.replace(f"{{{kind}}}", target.made(kind))
        method = "POST" if page in POSTED else "GET"
        query = [
            (n, chance.choice(ODD_TEXTS))
            for n in ("a", "b", "from", "cursor", "after", "under", "at", "events")
        ]
        return Call(method, page, chance.sample(query, chance.randrange(3)), [], b"token=x&to=/")
    method, path, operation = chance.choice(target.operations)
    if "{id}" in path:
        path = path.replace("{id}", target.made(path.split("/")[2]))
    call = Call(method, path)
    for parameter in operation.get("parameters", ()):
        if parameter["in"] in ("query", "header") and chance.random() < 0.3:
            value = right_value(parameter["schema"], chance)
            where = call.query if parameter["in"] == "query" else call.headers
            where.append((parameter["name"], value))
    if method in ("POST", "PUT", "PATCH"):
        media, call.body = right_body(target, path, chance)
        call.headers.append(("content-type", media))
    return call


def right_value(schema: dict[str, Any], chance: random.Random) -> str:
    kinds = schema.get("anyOf", [schema])
    chosen = chance.choice(kinds)
    if "enum" in chosen:
        return str(chance.choice(chosen["enum"]))
    match chosen.get("type"):
        case "integer":
            return str(chance.choice((0, 1, 2, 100, 10**6)))
        case "boolean":
            return chance.choice(("true", "false"))
        case "null":
            return ""
        case _:
            return chance.choice(
                ("purchases", "abandoned", "u1", '{"user": "u1"}', "1", "text/csv")
            )


def right_body(target: Target, path: str, chance: random.Random) -> tuple[str, bytes]:
    if path.endswith("/plans"):
        wanted = [
            {},
            {"solver": chance.choice(("greedy", "exhaustive", "cpsat")), "sharing": False},
            {"statistics": {"rates": {"View": 3.5}, "keys": {"user": {"cardinality": 7}}}},
            {"sample": target.source},
        ]
        return "application/json", json.dumps(chance.choice(wanted)).encode()
    if path.startswith("/v1/jobs"):
        body: dict[str, Any] = {"plan": target.made("plans")}
        if path == "/v1/jobs":
            body |= {"source": target.source, "engine": chance.choice(("local", "spark"))}
            if chance.random() < 0.2:
                body |= {"mode": "stream", "stream": {"once": True, "every": 1.5}}
        return "application/json", json.dumps(body).encode()
    if chance.random() < 0.5:
        text = bundled.path(chance.choice(bundled.names())).read_bytes()
        return "application/yaml", text
    return "application/json", json.dumps(EXAMPLE_WORKLOAD).encode()


# --- spoilt ones ---------------------------------------------------------------------------------


def spoil(call: Call, chance: random.Random) -> None:
    """Change something about a request."""
    match chance.randrange(7):
        case 0:
            call.method = chance.choice(METHODS)
        case 1:
            parts = call.path.split("/")
            place = chance.randrange(len(parts) + 1)
            if chance.random() < 0.5:
                parts.insert(place, chance.choice(ODD_TEXTS))
            else:
                parts[place - 1] = chance.choice(ODD_TEXTS)
            call.path = "/".join(parts)
            if not call.path.startswith("/"):
                call.path = "/" + call.path
        case 2:
            names = [name for name, _ in call.query] or ["limit", "cursor", "query", "kind", "sort"]
            many = chance.choice((1, 1, 1, 3, 300))
            call.query += [(chance.choice(names), chance.choice(ODD_TEXTS)) for _ in range(many)]
        case 3:
            call.headers.append((chance.choice(HEADERS), chance.choice(HEADER_VALUES)))
        case 4:
            call.headers = [pair for pair in call.headers if pair[0] != "content-type"]
            call.headers.append(("content-type", chance.choice(MEDIA)))
        case 5:
            call.body = spoilt_bytes(call.body, chance)
        case _:
            call.body = spoilt_json(call.body, chance)


def spoilt_bytes(body: bytes, chance: random.Random) -> bytes:
    place, end = sorted(chance.randrange(len(body) + 1) for _ in range(2))
    match chance.randrange(6):
        case 0:
            return body[:place]
        case 1:
            return body[:place] + chance.randbytes(chance.randrange(8)) + body[place:]
        case 2:
            return body[:place] + body[end:]
        case 3:
            return body[:end] + body[place:end] * chance.randrange(4) + body[end:]
        case 4:
            odd = chance.choice(ODD_TEXTS).encode("utf-8", "surrogatepass")
            return body[:place] + odd + body[end:]
        case _:
            return chance.choice(
                (b"[" * 20_000, b"{" * 500, b"- " * 2_000, b"&a [*a, *a]", b"\xef\xbb\xbf")
            )


def spoilt_json(body: bytes, chance: random.Random) -> bytes:
    """The same document with odd values in some places; other bytes stay as they are."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return spoilt_bytes(body, chance)
    places: list[tuple[Any, Any]] = []

    def look(node: Any) -> None:
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        for name, value in list(pairs):
            places.append((node, name))
            if isinstance(value, dict | list):
                look(value)

    if isinstance(document, dict | list):
        look(document)
    for _ in range(chance.randrange(1, 3)):
        if not places:
            return json.dumps(chance.choice(ODD_VALUES)).encode()
        node, name = chance.choice(places)
        if isinstance(node, dict) and chance.random() < 0.3:
            node[str(chance.choice(ODD_TEXTS))] = chance.choice(ODD_VALUES)
        else:
            node[name] = chance.choice(ODD_VALUES)
    return json.dumps(document).encode()


# --- the test ------------------------------------------------------------------------------------


def check(call: Call, answer: Answer) -> str:
    """What an answer comes to; raises where it is none that the service should give."""
    assert answer.status < 500, (call, answer.status, answer.body[:2000])
    if answer.status < 400:
        return "done"
    if answer.headers["content-type"].startswith("text/html"):
        assert not call.path.startswith("/v1/"), call
        return "refused"
    assert answer.headers["content-type"] == "application/problem+json", (call, answer)
    problem = json.loads(answer.body)
    assert problem["type"].startswith("urn:sheaf:problem:"), problem
    assert (problem["status"], bool(problem["title"])) == (answer.status, True), problem
    return "refused"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("fuzzed")
    worker = Path(__file__).parents[1] / "api" / "pretend.py"
    results = folder / "results"
    results.mkdir()
    from tests.api.service import write_rows

    write_rows(results)
    made = Target(folder, [sys.executable, str(worker), str(results)])
    yield made
    made.close()


def one_request(target: Target, chance: random.Random) -> str:
    call = right_call(target, chance)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        spoil(call, chance)
    return check(call, target.send(call))


def test_no_request_is_an_error_of_the_services(target: Target) -> None:
    outcomes = fuzz(lambda chance: one_request(target, chance), cases=300, at_least=QUICK_SECONDS)
    assert outcomes["done"] > 20
    assert outcomes["refused"] > 20


@soak
def test_no_request_is_an_error_of_the_services_for_long(target: Target) -> None:
    fuzz(lambda chance: one_request(target, chance), seconds=SOAK_SECONDS)


# --- bytes on the wire ----------------------------------------------------------------------


def spoilt_stream(address: str, chance: random.Random) -> str:
    """Send a request whose bytes have been changed; it is answered, or the connection is closed."""
    body = json.dumps(EXAMPLE_WORKLOAD).encode()
    length = chance.choice((len(body), len(body), 0, -1, 10**6, 10**30))
    wanted = [
        b"GET /v1/jobs HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /v1/plans HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/workloads HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % length + body,
        b"POST /v1/workloads HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n",
        b"POST /pages/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n"
        b"content-length: 3\r\n\r\n",
    ]
    content = chance.choice(wanted)
    for _ in range(chance.randrange(1, 4)):
        content = spoilt_bytes(content, chance)
    at = urlsplit(address)
    parts = []
    with (
        socket.create_connection((at.hostname, at.port), timeout=PATIENCE) as client,
        suppress(ConnectionError),
    ):
        client.sendall(content)
        if chance.random() < 0.5:
            client.shutdown(socket.SHUT_WR)
        while part := client.recv(1 << 16):
            parts.append(part)
    answer = b"".join(parts)
    if not answer:
        return "closed"
    first = answer.split(b"\r\n", 1)[0]
    assert first.startswith(b"HTTP/1.1 "), (content[:500], answer[:500])
    assert not re.search(rb"HTTP/1\.1 5\d\d ", answer), (content[:500], answer[:2000])
    return "answered"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(
        data=tmp_path_factory.mktemp("wire") / "data",
        header_seconds=0.3,
        body_seconds=0.3,
        keep_alive_seconds=0.3,
    )
    with serving(create_app(settings)) as found:
        yield found


def test_no_bytes_on_the_wire_leave_a_connection_open(address: str) -> None:
    outcomes = fuzz(lambda chance: spoilt_stream(address, chance), cases=40)
    assert outcomes["answered"]


@soak
def test_no_bytes_on_the_wire_leave_a_connection_open_for_long(address: str) -> None:
    fuzz(lambda chance: spoilt_stream(address, chance), seconds=SOAK_SECONDS)
