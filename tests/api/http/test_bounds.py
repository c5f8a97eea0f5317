"""Slow clients, many connections, large and packed bodies, floods: each is bounded, and said so."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from api.http.app import create_app
from api.http.connection import MAX_HEADER_BYTES
from api.http.embedded_server import serving
from api.http.middleware.tokens import read_tokens
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from api.planning.process_pool import BusyError, CancelToken
from api.planning.tasks import MAX_OWNED_TASKS, Tasks
from tests.api.service import PATIENCE, is_problem, posted_job, posted_plan, until

QUICK = {"header_seconds": 0.5, "body_seconds": 1.0, "send_seconds": 1.0}
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD_OF_POST = (
    b"POST /v1/workloads HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"content-length: 100000\r\n\r\n"
)


@contextmanager
def service(tmp_path: Path, pretend: list[str], **more: Any) -> Iterator[str]:
    settings = Settings(data=tmp_path / "data", roots=(Path.cwd(), tmp_path), **more)
    with serving(create_app(settings, pretend)) as address:
        yield address


@contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    at = urlsplit(address)
    with socket.create_connection((at.hostname, at.port), timeout=PATIENCE) as found:
        yield found


def heard(client: socket.socket) -> bytes:
    """All that comes until the service closes the connection."""
    parts = []
    try:
        while part := client.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def problem_in(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    said = json.loads(body)
    assert said["detail"]
    assert int(head.split()[1]) == said["status"]
    return said["status"], said["type"].rpartition(":")[2]


def drip(client: socket.socket, content: bytes, pause: float) -> None:
    """Send a byte at a time, until nobody listens."""
    try:
        for byte in content:
            client.sendall(bytes([byte]))
            time.sleep(pause)
    except OSError:
        pass


def test_a_client_that_drips_its_header_or_its_body_is_let_go(
    tmp_path: Path, pretend: list[str]
) -> None:
    with service(tmp_path, pretend, **QUICK) as address:
        for beginning, rest in (
            (b"", b"GET / HTTP/1.1\r\nx: " + b"y" * 400),
            (HEAD_OF_POST, b" " * 400),
        ):
            with connected(address) as client:
                client.sendall(beginning)
                sender = threading.Thread(target=drip, args=(client, rest, 0.05))
                sender.start()
                answer = heard(client)
                sender.join()
            assert problem_in(answer) == (408, "too-slow")
            assert httpx.get(f"{address}/healthz").status_code == 200


def test_a_client_that_says_nothing_or_no_http_is_let_go(
    tmp_path: Path, pretend: list[str]
) -> None:
    with service(tmp_path, pretend, **QUICK) as address:
        with connected(address) as client:
            assert heard(client) == b""
        for nonsense in (
            b"\x16\x03\x01\x00\xff" * 10,
            b"GET\r\n\r\n",
            b"GET / HTTP/1.1\r\nx\r\n\r\n",
        ):
            with connected(address) as client:
                client.sendall(nonsense)
                assert problem_in(heard(client)) == (400, "invalid-http")
        with connected(address) as client:
            client.sendall(b"GET / HTTP/1.1\r\nx: " + b"y" * (2 * MAX_HEADER_BYTES))
            assert problem_in(heard(client)) == (400, "invalid-http")
        # Between two requests a connection is kept for longer.
        with connected(address) as client:
            for _ in range(2):
                client.sendall(GET)
                answer = b""
                while not answer.endswith(b'{"status":"ok"}'):
                    answer += client.recv(1 << 16) or pytest.fail("the connection was closed")
                assert answer.startswith(b"HTTP/1.1 200")
                time.sleep(1.0)


def is_reset_in_the_end(client: socket.socket, ask: bytes) -> bool:
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            client.sendall(ask)
            time.sleep(0.05)
    except ConnectionError:
        return True
    return False


def test_a_client_that_does_not_read_is_let_go(tmp_path: Path, pretend: list[str]) -> None:
    with service(tmp_path, pretend, **QUICK) as address:
        with httpx.Client(base_url=address, timeout=60) as client:
            # A document of a megabyte, which is asked for again and again and never read.
            queries = [
                f"QUERY q{n} PATTERN SEQ(View v, Buy b) WHERE v.x = '{'x' * 60_000}' "
                "AGG COUNT(*) WITHIN 1 min"
                for n in range(16)
            ]
            body = EXAMPLE_WORKLOAD | {"queries": queries}
            id = client.post("/v1/workloads", json=body).json()["id"]
        ask = f"GET /v1/workloads/{id} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
        with connected(address) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            assert is_reset_in_the_end(slow, ask)  # since nothing was taken
        assert httpx.get(f"{address}/healthz").status_code == 200


def test_connections_are_limited_and_given_back(tmp_path: Path, pretend: list[str]) -> None:
    limits = {"max_connections": 8, "address_connections": 6}
    with service(tmp_path, pretend, **limits) as address:
        with ExitStack() as stack:
            for _ in range(40):
                one = stack.enter_context(connected(address))
                with suppress(OSError):  # those that are too many are closed at once
                    one.sendall(GET[:10])
            until(lambda: refused(address) == (429, "too-many-requests"))
            # Another address is served meanwhile.
            other = httpx.HTTPTransport(local_address="127.0.0.2")
            with httpx.Client(transport=other) as client:
                assert client.get(f"{address}/healthz").status_code == 200
        until(lambda: httpx.get(f"{address}/healthz").status_code == 200)
    limits = {"max_connections": 4, "address_connections": 6}
    with service(tmp_path, pretend, **limits) as address, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connected(address)).sendall(GET[:10])
        until(lambda: refused(address) == (503, "unavailable"))


def refused(address: str) -> tuple[int, str] | None:
    """What a connection more is told; None if it is served."""
    with connected(address) as client:
        client.sendall(GET[:-2] + b"connection: close\r\n\r\n")
        answer = heard(client)
    return None if answer.startswith(b"HTTP/1.1 200") or not answer else problem_in(answer)


def test_packed_bodies_are_refused_before_they_are_read(tmp_path: Path, pretend: list[str]) -> None:
    with service(tmp_path, pretend) as address, httpx.Client(base_url=address) as client:
        bomb = gzip.compress(b" " * 10_000_000)
        for encoding in ("gzip", "deflate, gzip", "br", "zstd"):
            answer = client.post(
                "/v1/workloads", content=bomb, headers={"content-encoding": encoding}
            )
            assert encoding in is_problem(answer, 415, "unsupported-encoding")["detail"]
        plain = {"content-encoding": "identity"}
        assert client.post("/v1/workloads", json=EXAMPLE_WORKLOAD, headers=plain).status_code == 201


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b'{"plan": ' * 50_000,
        b"\xbe\xbf",
        b'{"plan": "x", "source": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"plan": "x", "source": {"path": ' + b"9" * 5_000 + b"}}",
    ],
)
def test_deep_and_odd_json_is_refused(tmp_path: Path, pretend: list[str], content: bytes) -> None:
    with service(tmp_path, pretend) as address, httpx.Client(base_url=address) as client:
        for path in ("/v1/jobs", "/v1/workloads"):
            for headers in ({"content-type": "application/json"}, {}):
                answer = client.post(path, content=content, headers=headers)
                assert answer.status_code in (400, 422), answer.text
                assert answer.headers["content-type"] == "application/problem+json"


# --- one client and the others -------------------------------------------------------------------

TOKENS = read_tokens(["ada run aaaaaaaaaaaaaaaa", "bob run bbbbbbbbbbbbbbbb"], "the test's own")


def token(letter: str) -> dict[str, str]:
    return {"authorization": f"Bearer {letter * 16}"}


def test_a_flood_of_one_token_stops_nobody_else(
    tmp_path: Path, pretend: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Semaphore(0), threading.Event()

    def plan_slowly(*_: Any) -> Any:
        begun.release()
        assert go.wait(PATIENCE)
        raise BusyError("it was only a test")

    limits = {"token_plans": 2, "token_waiting": 5, "plans_at_once": 4}
    with (
        service(tmp_path, pretend, tokens=TOKENS, **limits) as address,
        httpx.Client(base_url=address, headers=token("b"), timeout=60) as bob,
    ):
        plan = posted_plan(bob)
        monkeypatch.setattr("api.http.routes.workloads.plan_document", plan_slowly)
        monkeypatch.setattr("api.http.routes.workloads.is_quick", lambda *_: True)
        where = f"{address}/v1/workloads/{plan['workload']}/plans"
        statuses: list[int] = []

        def flood(number: int) -> None:
            body = {"statistics": {"rates": {"View": number}}}
            answer = httpx.post(where, json=body, headers=token("a"), timeout=60)
            statuses.append(answer.status_code)
            if answer.status_code == 429:
                assert answer.headers["retry-after"]

        threads = [threading.Thread(target=flood, args=(n,)) for n in range(60)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE)
        # Two are under way, five wait, the others are refused.
        until(lambda: len(statuses) == 53)
        assert set(statuses) == {429}
        assert not begun.acquire(blocking=False)
        assert bob.get("/v1/jobs").status_code == 200
        assert bob.get(f"/v1/plans/{plan['id']}").status_code == 200
        ada = httpx.get(f"{address}/v1/plans", headers=token("a"))
        assert ada.status_code == 200  # her reads go on too
        theirs = threading.Thread(
            target=lambda: bob.post(where, json={"statistics": {"rates": {"View": 1000}}})
        )
        theirs.start()
        assert begun.acquire(timeout=PATIENCE)  # his planning does not wait for hers
        go.set()
        for thread in (*threads, theirs):
            thread.join()


def test_followers_are_limited_by_token(tmp_path: Path, pretend: list[str]) -> None:
    with (
        service(tmp_path, pretend, tokens=TOKENS, token_followers=2) as address,
        httpx.Client(base_url=address, headers=token("a"), timeout=60) as client,
    ):
        id = posted_job(client, "waits")["id"]
        events = f"{address}/v1/jobs/{id}/events"
        with ExitStack() as stack:
            for _ in range(2):
                answer = stack.enter_context(httpx.stream("GET", events, headers=token("a")))
                assert answer.status_code == 200
            is_problem(httpx.get(events, headers=token("a")), 429, "too-many-requests")
            with httpx.stream("GET", events, headers=token("b")) as answer:
                assert answer.status_code == 200
            assert client.get(f"/v1/jobs/{id}").status_code == 200
        client.post(f"/v1/jobs/{id}/cancel")


def test_owners_of_tasks_take_turns() -> None:
    tasks, go, done = Tasks(), threading.Event(), []

    def work(name: str) -> Any:
        def do(watched: CancelToken) -> str:
            assert go.wait(PATIENCE)
            done.append(name)
            return f"plan-{name}"

        return do

    begun = [tasks.begin("w", 1, work("ada"), "ada") for _ in range(MAX_OWNED_TASKS)]
    with pytest.raises(BusyError, match="25 workloads of ada wait"):
        tasks.begin("w", 1, work("ada"), "ada")
    begun += [tasks.begin("w", 1, work("bob"), "bob") for _ in range(2)]
    go.set()
    until(lambda: all(task.is_over for task in begun))
    tasks.close()
    # Two of hers had begun; then theirs alternate, which two threads may put a place apart.
    assert done[:8].count("bob") == 2
