"""Tokens and roles: who may do what, and what is said to those who may not."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.cli.commands.serve import is_loopback
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.middleware.tokens import TokenError, needed, read_tokens
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings, from_environment
from tests.api.service import is_problem

SECRETS = {"read": "r" * 20, "plan": "p" * 20, "run": "x" * 20}
LINES = [f"someone-{role} {role} {secret}" for role, secret in SECRETS.items()]


@pytest.fixture
def address(pretend: list[str], tmp_path: Path) -> Iterator[str]:
    settings = Settings(data=tmp_path / "data", tokens=read_tokens(LINES, "here"))
    with serving(create_app(settings, pretend)) as address:
        yield address


def client(address: str, secret: str | None) -> httpx.Client:
    headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
    return httpx.Client(base_url=address, timeout=60, headers=headers)


def test_each_role_may_do_its_own_and_what_comes_before(address: str) -> None:
    reader, planner, runner = (client(address, SECRETS[r]) for r in ("read", "plan", "run"))
    with reader, planner, runner:
        is_problem(reader.post("/v1/workloads", json=EXAMPLE_WORKLOAD), 403, "forbidden")
        id = planner.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()["id"]
        assert reader.get(f"/v1/workloads/{id}").status_code == 200
        plan = planner.post(f"/v1/workloads/{id}/plans").json()["id"]
        job = {"plan": plan, "source": "fine"}
        problem = is_problem(planner.post("/v1/jobs", json=job), 403, "forbidden")
        assert "needs the role 'run'" in problem["detail"]
        made = runner.post("/v1/jobs", json=job).json()["id"]
        assert reader.get(f"/v1/jobs/{made}").status_code == 200
        is_problem(reader.delete(f"/v1/jobs/{made}"), 403, "forbidden")
        assert runner.post(f"/v1/jobs/{made}/cancel").status_code in (200, 202)


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", "Basic cnVubmVy", "Bearer ø"])
def test_without_a_token_nothing_is_shown(address: str, header: str | None) -> None:
    headers: Any = {} if header is None else {"authorization": header.encode()}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as stranger:
        for path in ("/v1/workloads", "/v1/jobs", "/metrics", "/v1/nothing", "/"):
            response = stranger.get(path)
            is_problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
        is_problem(stranger.post("/v1/workloads", content=b"{"), 401, "unauthorized")
        for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
            assert stranger.get(path).status_code == 200


def test_one_persons_key_is_not_anothers(address: str) -> None:
    key = {"idempotency-key": "k"}
    with client(address, SECRETS["plan"]) as one, client(address, SECRETS["run"]) as other:
        first = one.post("/v1/workloads", json=EXAMPLE_WORKLOAD, headers=key)
        mine = EXAMPLE_WORKLOAD | {"name": "mine"}
        second = other.post("/v1/workloads", json=mine, headers=key)
        assert (first.status_code, second.status_code) == (201, 201)
        assert second.json()["name"] == "mine"


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/healthz", None),
        ("GET", "/v1/jobs/x/results", "read"),
        ("GET", "/healthz/x", "read"),
        ("PUT", "/v1/workloads/x", "plan"),
        ("POST", "/v1/jobs", "run"),
        ("DELETE", "/v1/jobs/x", "run"),
        ("PATCH", "/anything", "plan"),
    ],
)
def test_what_a_request_needs(method: str, path: str, role: str | None) -> None:
    assert needed(method, path) == role


# --- configuration -------------------------------------------------------------------------------


def test_tokens_come_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(SECRETS["run"].encode()).hexdigest()
    path = tmp_path / "tokens"
    path.write_text(f"# who may do what\n\n{LINES[0]}\nci run sha256:{digest}\n")
    monkeypatch.setenv("SHEAF_TOKEN_FILE", str(path))
    found = from_environment()
    assert [(t.name, t.role) for t in found.tokens] == [("someone-read", "read"), ("ci", "run")]
    assert found.tokens[1].digest == digest
    assert from_environment(tokens=()).tokens == ()
    monkeypatch.delenv("SHEAF_TOKEN_FILE")
    monkeypatch.setenv("SHEAF_TOKENS", f"{LINES[0]},{LINES[1]}")
    both = from_environment()
    assert [t.role for t in both.tokens] == ["read", "plan"]
    assert not any(secret in repr(both) for secret in SECRETS.values())
    monkeypatch.setenv("SHEAF_TOKENS", SECRETS["run"])
    with pytest.raises(TokenError) as refused:
        from_environment()
    assert SECRETS["run"] not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a run", "NAME ROLE TOKEN"),
        (f"a admin {'s' * 20}", "not one of read, plan, run"),
        ("a run s3cret", "at least 16"),
        ("a run sha256:s3cret", "64 hexadecimal"),
        (f"a run {'s' * 20}\na read {'t' * 20}", "the same name"),
    ],
)
def test_tokens_that_cannot_be_are_said_and_not_shown(line: str, said: str) -> None:
    with pytest.raises(TokenError, match=said) as caught:
        read_tokens(line.splitlines(), "here")
    assert "s3cret" not in str(caught.value)


def test_a_token_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHEAF_TOKEN_FILE", "/no/such/file")
    with pytest.raises(TokenError, match="cannot be read"):
        from_environment()


@pytest.mark.parametrize(
    ("host", "only_here"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("127.9.9.9", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_only_the_loopback_is_this_machine_alone(host: str, only_here: bool) -> None:
    assert is_loopback(host) == only_here
