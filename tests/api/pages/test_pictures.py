"""The pictures of pages in the docs: each shows what it is there for.

`SHEAF_PICTURES=docs/images ./sheaf test tests/api/pages/test_pictures.py -m 'soak or not soak'`
takes them anew.
"""

import os
import random
import time
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from tests.api.pages.driver import Browser
from tests.api.pages.workloads import plan_of
from tests.api.service import finished, until
from workloads import bundled
from workloads.generators.query_groups import query_group

pytestmark = pytest.mark.slow

WIDTH = 1180


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures go: to where they are asked for, or away."""
    return Path(os.environ.get("SHEAF_PICTURES", tmp_path)).absolute()


def taken(page: Browser, path: Path, height: int) -> None:
    page.size(WIDTH, height)
    time.sleep(0.5)  # what fades has faded
    page.picture(path)
    assert path.stat().st_size > 10_000


def test_a_plan_shows_who_shares_what_with_a_query(
    page: Browser, address: str, client: httpx.Client, pictures: Path
) -> None:
    document, _ = query_group(10)
    plan = plan_of(client, {**document, "name": "tickers"})
    page.size(WIDTH, 1000)
    page.open(f"{address}/plans/{plan['id']}")
    page.until(lambda: page.count("#picture g.query"), "the picture")
    page.fill("#find", "g10_q5")
    page.reads("#way", "g10_q5")
    page.run("document.querySelector('#picture-section').scrollIntoView()")
    assert page.count("#picture .edge") > 20
    assert "shares" in page.text("#way").lower()
    taken(page, pictures / "plan.png", 1000)


def test_the_editor_shows_a_mistake_at_its_place_and_words_to_go_on_with(
    page: Browser, address: str, pictures: Path
) -> None:
    page.size(WIDTH, 780)
    page.open(f"{address}/workloads/new?from=shop")
    page.reads("#verdict", "no errors")
    text = bundled.path("shop").read_text().replace("VKindle, BKindle)", "VKindle, BKindel)", 1)
    page.fill(".sheet textarea", text)
    page.reads("#verdict", "to correct")
    page.click("#findings button")
    page.reads("#findings li", "did you mean")
    mistake = text.index("BKindel")
    end = text.index("[user]", mistake)
    page.run(
        "const t = document.querySelector('.sheet textarea');"
        "t.focus(); t.setSelectionRange(arguments[0], arguments[0])",
        end,
    )
    page.press(*"bk.")
    page.until(lambda: "price" in page.texts("#suggestions li b"), "columns to go on with")
    taken(page, pictures / "editor.png", 780)


def batches(client: httpx.Client, job: str) -> int:
    stream = client.get(f"/v1/jobs/{job}").json().get("stream") or {}
    return int(stream.get("batches") or 0)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_stream_shows_what_it_does_as_it_runs(
    page: Browser, tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance, begun = random.Random(7), 1_772_355_600_000
    folder = tmp_path / "live"
    folder.mkdir()

    def arrive(number: int) -> None:
        """The events of half a minute."""
        times = sorted(begun + number * 30_000 + chance.randrange(30_000) for _ in range(2000))
        rows = {
            "ts": pa.array(times, pa.timestamp("ms")),
            "action": chance.choices(["View", "Cart", "Buy", "Login"], [9, 4, 2, 1], k=2000),
            "user": [f"u{chance.randrange(40)}" for _ in times],
            "price": [round(chance.random() * 100, 2) for _ in times],
        }
        pq.write_table(pa.table(rows), tmp_path / "next.parquet")
        (tmp_path / "next.parquet").rename(folder / f"{number:03d}.parquet")

    stream = {"time": "ts", "unit": "ms", "type": "action", "lateness": "5 s"}
    document = {
        "name": "shop",
        "stream": stream,
        "queries": [
            "QUERY bought PATTERN SEQ(View v, Cart c, Buy b) PARTITION BY user "
            "AGG COUNT(*), AVG(b.price) WITHIN 1 min SLIDE 10 s",
            "QUERY viewed_then_bought PATTERN SEQ(View v, Buy b) PARTITION BY user "
            "AGG COUNT(*) WITHIN 1 min SLIDE 10 s",
            "QUERY left_behind PATTERN SEQ(Cart c, !Buy b) PARTITION BY user "
            "RETURN c.price WITHIN 30 s",
        ],
    }
    arrive(0)
    settings = Settings(data=tmp_path / "real", roots=(tmp_path,))
    with serving(create_app(settings)) as real, httpx.Client(base_url=real, timeout=60) as client:
        plan = plan_of(client, document)
        body = {
            "plan": plan["id"],
            "source": {"path": "live"},
            "engine": "spark",
            "mode": "stream",
            "stream": {"every": 1},
        }
        posted = client.post("/v1/jobs", json=body)
        assert posted.status_code == 201, posted.text
        job = posted.json()["id"]
        page.size(WIDTH, 1090)
        page.open(f"{real}/jobs/{job}")
        for number in range(1, 15):
            arrive(number)
            deadline = time.monotonic() + 120  # Spark starts, and takes its time for the first
            while batches(client, job) <= number / 2:
                assert time.monotonic() < deadline
                time.sleep(0.5)
            time.sleep(1)
        until(lambda: page.count("#over-time svg text") > 0)
        assert "running" in page.text("#status")
        taken(page, pictures / "job.png", 1400)
        client.post(f"/v1/jobs/{job}/cancel")
        finished(client, job)
        page.open("about:blank")
