"""The pages as they are sent: headers, signing in, what an editor asks for."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.middleware.tokens import read_tokens
from api.http.pages.routes import BLANK
from api.http.schemas import EXAMPLE_WORKLOAD
from api.http.settings import Settings
from api.http.yaml_text import as_yaml
from api.planning.service import check_text
from tests.api.service import is_problem, posted_job, posted_plan
from workloads import bundled

SECRET = "a-secret-of-planners"
HTML = {"accept": "text/html"}
ASSETS = Path(__file__).parents[3] / "api" / "http" / "pages" / "static"


@pytest.fixture
def guarded(pretend: list[str], tmp_path: Path) -> Iterator[httpx.Client]:
    """A service that asks for tokens, as a browser sees it."""
    tokens = read_tokens([f"ann plan {SECRET}", f"ron read {'r' * 20}"], "here")
    settings = Settings(data=tmp_path / "guarded", tokens=tokens)
    with (
        serving(create_app(settings, pretend)) as address,
        httpx.Client(base_url=address, timeout=60, headers=HTML) as client,
    ):
        yield client


def every_page(client: httpx.Client) -> list[str]:
    """The address of a page of each kind."""
    plan = posted_plan(client)
    job = posted_job(client, "fine")
    return [
        "/",
        "/data",
        "/workloads/new",
        "/workloads/new?from=shop",
        f"/workloads/{plan['workload']}",
        "/plans",
        f"/plans?workload={plan['workload']}",
        f"/plans/{plan['id']}",
        f"/compare?a={plan['id']}&b={plan['id']}",
        "/compare",
        "/jobs",
        f"/jobs/new?plan={plan['id']}",
        f"/jobs/{job['id']}",
        "/docs",
        "/glossary",
    ]


# --- what is sent --------------------------------------------------------------------------------


def test_pages_take_nothing_from_elsewhere_and_have_no_scripts_within(client: httpx.Client) -> None:
    for path in every_page(client):
        response = client.get(path)
        assert response.status_code == 200, path
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-frame-options"] == "DENY"
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', response.text):
            assert address.startswith(("/", "#", "?")), (path, address)
            assert not address.startswith("//")
        assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=|<style", response.text), path


def test_scripts_and_styles_name_no_host(client: httpx.Client) -> None:
    for path in ASSETS.iterdir():
        addresses = re.findall(r"https?://[\w.]+", path.read_text())
        assert set(addresses) <= {"http://www.w3.org"}, path.name  # SVG's name, which nobody calls
        assert "innerHTML" not in path.read_text()


def test_assets_are_kept_for_good_under_the_address_of_their_content(client: httpx.Client) -> None:
    address = re.search(r'href="(/static/[^"]*sheaf\.css)"', client.get("/").text)
    assert address is not None
    found = client.get(address[1])
    assert found.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in found.headers["cache-control"]
    older = client.get("/static/000000000000/sheaf.css")
    assert older.content == found.content
    assert older.headers["cache-control"] == "no-cache"
    is_problem(client.get("/static/x/none.css"), 404, "not-found")
    is_problem(client.get("/static/x/..%2fassets.py"), 404, "not-found")


def test_names_are_texts_and_not_markup(client: httpx.Client) -> None:
    document = EXAMPLE_WORKLOAD | {"name": "<script>alert(1)</script>"}
    id = client.post("/v1/workloads", json=document).json()["id"]
    for path in ("/", f"/workloads/{id}"):
        text = client.get(path).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)" in text


def test_what_is_not_there_is_a_page_that_says_so(client: httpx.Client) -> None:
    for path in ("/workloads/none", "/plans/none", "/jobs/none", "/compare?a=none"):
        response = client.get(path)
        assert response.status_code == 404
        assert response.headers["content-type"].startswith("text/html")
        assert "none" in response.text
    page = client.get("/no/such", headers={"accept": "text/html,*/*"})
    assert (page.status_code, "No page is at /no/such" in page.text) == (404, True)
    for path, accept in (("/v1/none", "text/html"), ("/no/such", "*/*")):
        is_problem(client.get(path, headers={"accept": accept}), 404, "not-found")
    assert client.get("/workloads/new?from=none").status_code == 422
    assert client.get("/?cursor=x").status_code == 422


def test_every_term_on_a_page_or_in_a_script_is_in_the_glossary(client: httpx.Client) -> None:
    known = client.get("/pages/glossary").json()
    anchors = set(re.findall(r'<div id="([^"]*)"><dt>', client.get("/glossary").text))
    assert {term["id"] for term in known} == anchors
    used = set()
    for path in every_page(client):
        used |= set(re.findall(r'data-term="([^"]*)"', client.get(path).text))
    assert {"cost", "gap", "optimal", "candidate"} <= used
    for path in ASSETS.glob("*.js"):
        used |= set(re.findall(r'\bterm\("([\w-]+)"', path.read_text()))
    assert used <= anchors


def test_plans_and_jobs_are_headed_by_their_workload_and_its_version(client: httpx.Client) -> None:
    job = posted_job(client, "fine")
    title = f"{EXAMPLE_WORKLOAD['name']}, version 1"
    heading = re.search(r"<h1>(.*?)</h1>", client.get(f"/plans/{job['plan']}").text)
    assert heading is not None
    assert heading[1] == f'{title} <span class="id code">{job["plan"]}</span>'
    text = re.sub(r"<[^>]*>", "", client.get(f"/jobs/{job['id']}").text)
    assert re.search(rf"^\s*{title} \w+ {job['id']}$", text, re.MULTILINE)
    for path in ("/plans", "/jobs", "/compare", f"/jobs/new?plan={job['plan']}"):
        assert title in client.get(path).text, path


def test_plans_of_different_workloads_are_not_compared(client: httpx.Client) -> None:
    first = posted_plan(client)
    other = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"name": "other"}).json()
    second = client.post(f"/v1/workloads/{other['id']}/plans", json={}).json()
    text = client.get(f"/compare?a={first['id']}&b={second['id']}").text
    assert "These are plans of different workloads" in text
    assert 'data-alike="no"' in text
    same = client.get(f"/compare?a={first['id']}&b={first['id']}").text
    assert "different workloads" not in same
    assert "Compare the latest two" not in client.get("/plans").text


def test_costs_are_told_as_part_of_a_core(client: httpx.Client) -> None:
    plan = posted_plan(client)
    rate = sum(plan["rates"].values())
    text = client.get(f"/plans/{plan['id']}").text
    assert f"of a core at {rate:g} events/s; one core takes " in text


def test_one_query_of_a_plan_is_told_in_full(client: httpx.Client) -> None:
    plan = posted_plan(client)
    name = plan["queries"][0]
    facts = client.get(f"/pages/plans/{plan['id']}/query", params={"name": name}).json()
    assert (facts["name"], facts["text"][:5]) == (name, "QUERY")
    unknown = client.get(f"/pages/plans/{plan['id']}/query", params={"name": "none"})
    is_problem(unknown, 404, "not-found")


def test_workloads_come_in_pages_with_the_newest_first(client: httpx.Client) -> None:
    for number in range(23):
        client.post("/v1/workloads", json=EXAMPLE_WORKLOAD | {"name": f"w{number}"})
    first = client.get("/").text
    following = re.search(r'rel="next" href="(\?cursor=\d+)"', first)
    assert following is not None
    names = re.findall(r">(w\d+)</a>", first + client.get(f"/{following[1]}").text)
    assert names == [f"w{number}" for number in reversed(range(23))]


def test_the_reference_has_every_call(client: httpx.Client) -> None:
    page = client.get("/docs").text
    document = client.get("/openapi.json").json()
    for path, item in document["paths"].items():
        for method in item:
            anchor = f'id="{method}-{path.strip("/")}'.translate({ord("{"): None, ord("}"): None})
            assert anchor.replace("/", "-") + '"' in page
    assert not any(path.startswith("/pages") for path in document["paths"])


# --- tokens --------------------------------------------------------------------------------------


def test_pages_show_the_way_in_and_programs_a_problem(guarded: httpx.Client) -> None:
    shown = guarded.get("/plans?workload=x")
    assert (shown.status_code, shown.headers["www-authenticate"]) == (401, "Bearer")
    assert 'name="token"' in shown.text
    assert 'name="to" value="/plans?workload=x"' in shown.text
    is_problem(guarded.get("/v1/plans"), 401, "unauthorized")
    is_problem(guarded.get("/", headers={"accept": "*/*"}), 401, "unauthorized")


def test_a_token_is_kept_where_no_script_and_no_other_site_reaches_it(
    guarded: httpx.Client,
) -> None:
    wrong = guarded.post("/signin", data={"token": "no", "to": "/plans"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    assert 'value="/plans"' in wrong.text
    right = guarded.post("/signin", data={"token": f" {SECRET} ", "to": "/plans"})
    assert (right.status_code, right.headers["location"]) == (303, "/plans")
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert SECRET not in cookie
    assert "ann" in guarded.get("/plans").text
    assert guarded.get("/v1/plans").status_code == 200
    assert guarded.post("/v1/workloads", json=EXAMPLE_WORKLOAD).status_code == 201
    is_problem(guarded.post("/v1/jobs", json={}), 403, "forbidden")  # a planner runs nothing
    guarded.post("/signout")
    assert guarded.get("/plans").status_code == 401


def test_a_header_wins_over_the_cookie(guarded: httpx.Client) -> None:
    guarded.post("/signin", data={"token": SECRET})
    reader = {"authorization": f"Bearer {'r' * 20}"}
    assert guarded.get("/v1/plans", headers=reader).status_code == 200
    is_problem(
        guarded.post("/v1/workloads", json=EXAMPLE_WORKLOAD, headers=reader), 403, "forbidden"
    )
    is_problem(guarded.get("/pages/files", headers=reader), 403, "forbidden")


def test_signing_in_leads_to_this_service_alone(guarded: httpx.Client) -> None:
    for to in ("//evil.example", "https://evil.example", "/\\evil.example", "x", "/ a", "/\n/a"):
        answer = guarded.post("/signin", data={"token": SECRET, "to": to})
        assert answer.headers["location"] == "/", to


def test_a_page_of_another_site_changes_nothing(client: httpx.Client) -> None:
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ):
        response = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD, headers=headers)
        assert "another site" in is_problem(response, 403, "forbidden")["detail"]
    assert client.get("/v1/workloads").json() == []


def test_our_own_pages_and_programs_may(client: httpx.Client) -> None:
    own = {"origin": str(client.base_url).rstrip("/")}
    for headers in ({}, own, {"sec-fetch-site": "same-origin", **own}, {"sec-fetch-site": "none"}):
        assert client.post("/v1/workloads", json=EXAMPLE_WORKLOAD, headers=headers).is_success


# --- the editor and the forms --------------------------------------------------------------------


def checked(client: httpx.Client, text: str) -> Any:
    response = client.post("/pages/check", content=text.encode())
    assert response.status_code == 200, response.text
    return response.json()


def test_mistakes_have_their_place_in_the_whole_text(client: httpx.Client) -> None:
    text = bundled.path("shop").read_text().replace("bk.price > 50", "bk.prce > 50")
    text = text.replace("SEQ(BKindle bk, !SEQ", "SEQ(BKindel bk, !SEQ")
    found = checked(client, text)
    assert found["ok"] is False
    lines = text.splitlines()
    words = {
        lines[f["line"] - 1][f["column"] - 1 : f["column"] - 1 + f["width"]]: f["hint"]
        for f in found["findings"]
    }
    assert words == {"bk.prce": "did you mean 'price'?", "BKindel bk": "did you mean 'BKindle'?"}
    assert client.get("/v1/workloads").json() == []


def test_mistakes_are_listed_in_the_order_of_their_lines(client: httpx.Client) -> None:
    text = bundled.path("shop").read_text().replace("bk.price > 50", "bk.prce > 50")
    text = text.replace("SEQ(BKindle bk, !SEQ", "SEQ(BKindel bk, !SEQ").replace(
        "unit: ms", "unit: mz"
    )
    places = [found["line"] or 0 for found in checked(client, text)["findings"]]
    assert places == sorted(places)
    text = "queries: [PATTERN SEQ(A a) WITHIN 1 mn]\nstraem: {time: t, type: k}\n"
    places = [found["line"] or 0 for found in checked(client, text)["findings"]]
    assert places == sorted(places)


def test_mistakes_in_a_line_of_json_are_found_in_it(client: httpx.Client) -> None:
    query = "PATTERN SEQ(A a, B b) AGG COUNT(*) WITHIN 1 mn"
    text = f'{{"stream": {{"time": "t", "type": "k"}},\n "queries": ["{query}"]}}'
    (finding,) = checked(client, text)["findings"]
    assert finding["line"] == 2
    assert text.splitlines()[1][finding["column"] - 1 :].startswith("mn")


def test_what_is_missing_is_said_at_the_beginning(client: httpx.Client) -> None:
    (finding, *_) = checked(client, "# shop\nqueries: [x]")["findings"]
    assert (finding["line"], finding["column"]) == (2, 1)
    assert "stream" in finding["message"]
    is_problem(client.post("/pages/check", content=b"\xff"), 400, "invalid-encoding")


def test_starting_points_have_no_mistakes(client: httpx.Client) -> None:
    for text in (BLANK, *(bundled.path(name).read_text() for name in bundled.names())):
        found = checked(client, text)
        assert found["ok"], found
        assert found["queries"] == len(yaml.safe_load(text)["queries"])


@pytest.mark.parametrize("name", bundled.names())
def test_a_stored_workload_is_shown_as_it_can_be_stored_again(name: str) -> None:
    _, document = check_text(bundled.path(name).read_text())
    assert check_text(as_yaml(document))[1] == document


def test_files_of_events_are_offered_and_no_others(client: httpx.Client, tmp_path: Path) -> None:
    for name in ("a.parquet", "b.csv", ".hidden.csv", "notes.txt", "deep/er/c.jsonl", ".git/d.csv"):
        path = tmp_path / "events" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = client.get("/pages/files", params={"under": str(tmp_path / "events")}).json()["files"]
    here = str(tmp_path / "events")
    assert sorted(path.removeprefix(here) for path in found) == [
        "/a.parquet",
        "/b.csv",
        "/deep/er/c.jsonl",
    ]


def test_what_a_process_measured_is_given_line_by_line(
    client: httpx.Client, tmp_path: Path
) -> None:
    id = posted_job(client, "waits")["id"]
    address = f"/pages/jobs/{id}/measures"
    assert client.get(address).json() == {"measures": [], "next": 0}
    path = tmp_path / "data" / "jobs" / id / "measures"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text('{"at": 1}\n{"at": 2}\n{"at"')
    first = client.get(address).json()
    assert first["measures"] == [{"at": 1}, {"at": 2}]
    path.write_text('{"at": 1}\n{"at": 2}\n{"at": 3}\n')
    assert client.get(address, params={"after": first["next"]}).json()["measures"] == [{"at": 3}]
    is_problem(client.get("/pages/jobs/none/measures"), 404, "not-found")
    client.delete(f"/v1/jobs/{id}")
