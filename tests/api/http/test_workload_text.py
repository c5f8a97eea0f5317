"""A workload's text as it was posted, places of mistakes in it, titles, and the order of lists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.client import Client
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.api.service import finished, is_problem

YAML = {"content-type": "application/yaml"}
TEXT = """\
# Who buys what they looked at: ünïcode too.
name: NAME
stream: {time: ts,   type: action}   # in one line, oddly spaced
queries:
  - |
    QUERY bought   -- a remark in the query
    PATTERN SEQ(View v, Buy b)
    WHERE [user]
    AGG COUNT(*) WITHIN 10 min
"""


@pytest.fixture(scope="module")
def client(pretend: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("service")
    app = create_app(Settings(data=folder / "data", roots=(Path.cwd(), folder)), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def posted(client: httpx.Client, text: str) -> Any:
    response = client.post("/v1/workloads", content=text.encode(), headers=YAML)
    assert response.status_code == 201, response.text
    return response.json()


def test_what_was_posted_is_given_back_to_the_letter(client: httpx.Client) -> None:
    text = TEXT.replace("NAME", "letters")
    body = posted(client, text)
    address = f"/v1/workloads/{body['id']}"
    assert body["text"] == client.get(address).json()["text"] == text
    for answer in (
        client.get(address, params={"format": "yaml"}),
        client.get(address, headers={"accept": "application/yaml"}),
    ):
        assert answer.headers["content-type"] == "application/yaml; charset=utf-8"
        assert answer.content == text.encode()
    assert client.get(address, headers={"accept": "*/*"}).json()["text"] == text
    with Client(str(client.base_url)) as sheaf:
        assert sheaf.workload_text(body["id"]) == text
    # The editor begins with it.
    page = client.get(f"/workloads/{body['id']}").text
    assert "# Who buys what they looked at: ünïcode too." in page
    assert "{time: ts,   type: action}   # in one line, oddly spaced" in page


def test_another_comment_is_a_new_version_and_the_old_text_stays(client: httpx.Client) -> None:
    text = TEXT.replace("NAME", "comments")
    first = posted(client, text)
    assert posted(client, text)["version"] == 1
    changed = text.replace("# Who buys", "# Those who buy")
    address = f"/v1/workloads/{first['id']}"
    second = client.put(address, content=changed.encode(), headers=YAML).json()
    assert (second["version"], second["document"]) == (2, first["document"])
    assert client.get(address, params={"version": 1, "format": "yaml"}).text == text
    assert client.get(address, params={"format": "yaml"}).text == changed
    # JSON has no comments to differ in: what says the same is the same version.
    assert client.put(address, json=first["document"]).json()["version"] == 2
    assert client.get(address, params={"format": "yaml"}).text == changed


def test_what_came_as_json_is_written_as_yaml_until_its_text_comes(client: httpx.Client) -> None:
    text = TEXT.replace("NAME", "from-json")
    document = posted(client, text)["document"] | {"name": "came-as-json"}
    body = client.post("/v1/workloads", json=document).json()
    address = f"/v1/workloads/{body['id']}"
    assert "text" not in client.get(address).json()
    written = client.get(address, params={"format": "yaml"}).text
    assert written.startswith("name: came-as-json\n")
    again = posted(client, text.replace("from-json", "came-as-json"))
    assert (again["version"], again["text"]) == (1, text.replace("from-json", "came-as-json"))
    assert client.get(address).json()["text"] == again["text"]


def test_a_finding_has_its_place_in_the_query_and_in_the_text(client: httpx.Client) -> None:
    text = TEXT.replace("NAME", "misplaced").replace("COUNT(*)", "SUM(x.price)")
    response = client.post("/v1/workloads", content=text.encode(), headers=YAML)
    found = is_problem(response, 422, "invalid-workload")["diagnostics"][0]
    column = len("AGG SUM(") + 1
    assert (found["line"], found["column"]) == (4, column)
    assert (found["file_line"], found["file_column"]) == (9, column + 4)


def test_rules_that_are_not_taken_are_listed(client: httpx.Client) -> None:
    text = """\
name: some rules
stream: {time: ts, sequence: n}
rules:
- sigma:
  - {title: fine, logsource: {category: c}, detection: {s: {x: 1}, condition: s}}
  - {title: odd, logsource: {category: c}, detection: {s: {"x|re": "(?=a)"}, condition: s}}
- eql:
  - {name: pair, query: "sequence by u [a where true] [b where true]"}
  - {name: drawn, query: "sequence by u [a where true] [b where nothing(x)]"}
"""
    body = posted(client, text)
    assert [query["name"] for query in body["queries"]] == ["fine", "pair"]
    assert [(r["format"], r["name"]) for r in body["refused"]] == [
        ("sigma", "odd"),
        ("eql", "drawn"),
    ]
    assert all(rule["reason"] for rule in body["refused"])
    again = client.put(f"/v1/workloads/{body['id']}", content=text.encode(), headers=YAML).json()
    assert again["refused"] == body["refused"]
    assert again["version"] == body["version"]
    assert client.get(f"/v1/workloads/{body['id']}").json()["refused"] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (TEXT.encode("cp1252"), r"byte 0xfc in line 1 \(byte 33 of the body\) is not UTF-8"),
        (TEXT.encode("utf-16"), "it begins as UTF-16 does; send it in UTF-8"),
    ],
)
def test_a_wrong_encoding_is_called_that(client: httpx.Client, content: bytes, said: str) -> None:
    for address in ("/v1/workloads", "/pages/check"):
        response = client.post(address, content=content, headers=YAML)
        problem = is_problem(response, 400, "invalid-encoding")
        assert problem["title"] == "The body is not text in UTF-8"
        assert re.search(said, problem["detail"])


def test_plans_and_jobs_have_titles_and_lists_begin_with_the_newest(client: httpx.Client) -> None:
    made = []
    for name in ("first", "second"):
        workload = posted(client, TEXT.replace("NAME", name))
        plan = client.post(f"/v1/workloads/{workload['id']}/plans", json={}).json()
        job = client.post("/v1/jobs", json={"plan": plan["id"], "source": "x.csv"}).json()
        assert plan["title"] == job["title"] == f"{name}, version 1"
        assert finished(client, job["id"])["title"] == job["title"]
        made.append({"workloads": workload["id"], "plans": plan["id"], "jobs": job["id"]})
    for kind in ("workloads", "plans", "jobs"):
        listed = client.get(f"/v1/{kind}").json()
        assert [one["id"] for one in listed[:2]] == [made[1][kind], made[0][kind]]
        oldest = client.get(f"/v1/{kind}", params={"order": "asc"}).json()
        assert [one["id"] for one in oldest[-2:]] == [made[0][kind], made[1][kind]]
        page = client.get(f"/v1/{kind}", params={"limit": 1})
        following = client.get(page.headers["link"].split(">")[0][1:]).json()
        assert [one["id"] for one in following] == [made[0][kind]]
    assert client.get("/v1/plans").json()[0]["title"] == "second, version 1"
