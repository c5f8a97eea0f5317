"""`/v1/jobs/{id}/why`: the nearest miss over HTTP, and the box on a job's page."""

from pathlib import Path
from typing import Any

import httpx

from api.client import Client
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.api.service import is_problem

WORKLOAD = {
    "name": "cards",
    "stream": {"time": "ts", "unit": "s", "type": "kind"},
    "queries": [
        "QUERY paid PATTERN SEQ(Reset r, !Login l, Payment p) PARTITION BY card "
        "RETURN r, p WITHIN 1 hour"
    ],
    "tests": [
        {"name": "none", "events": [{"ts": 0, "kind": "Login", "card": "a"}], "expect": "none"}
    ],
}


def test_a_job_says_why_a_query_gives_no_row(tmp_path: Path) -> None:
    source = tmp_path / "events.csv"
    source.write_text("ts,kind,card\n0,Reset,a\n5,Login,a\n9,Payment,a\n")
    app = create_app(Settings(data=tmp_path / "data", roots=(tmp_path,)))
    with serving(app) as address, Client(address) as client:
        workload = client.post_workload(WORKLOAD)
        plan = client.plan(workload.id)
        job = client.wait(client.launch(plan.id, source, engine="local").id)
        with httpx.Client(base_url=address, timeout=120) as http:

            def ask(**given: Any) -> httpx.Response:
                return http.get(f"/v1/jobs/{job.id}/why", params=given)

            stored = http.get(f"/v1/workloads/{workload.id}").json()
            assert stored["document"]["tests"] == WORKLOAD["tests"]
            found = ask(query="paid", key="a").json()
            miss = found["misses"][0]
            assert (found["matched"], miss["kind"], miss["what"]) == (False, "negation", "!Login l")
            assert miss["by"] == [
                {"alias": "l", "time": 5, "values": {"kind": "Login", "card": "a"}}
            ]
            text = ask(query="paid", format="text")
            assert text.headers["content-type"].startswith("text/plain")
            assert "fails  negation !Login l" in text.text
            is_problem(ask(query="pay"), 404, "not-found")
            is_problem(ask(query="paid", at="soon"), 422, "invalid-request")
            is_problem(ask(), 422, "invalid-request")
            behind = {"query": "paid", "time": 9, "start": 0, "end": 9, "key": '{"card": "a"}'}
            answer = http.get(f"/v1/jobs/{job.id}/behind", params=behind)
            assert (answer.json()["matches"], answer.json()["note"]) == (0, None)
            for odd in ({"key": "a"}, {"match": "[1]"}, {"end": "soon"}):
                refused = http.get(f"/v1/jobs/{job.id}/behind", params=behind | odd)
                is_problem(refused, 422, "invalid-request")
            assert 'id="why"' in http.get(f"/jobs/{job.id}").text
            source.unlink()
            is_problem(ask(query="paid"), 422, "source-not-found")
