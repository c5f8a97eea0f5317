"""Start from data in a real browser: choose or upload, look at columns, go on in the editor."""

from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.api.pages.driver import Browser

pytestmark = pytest.mark.slow

EVENTS = """Event Time,Customer ID,event,amount (€)
2025-03-01T10:00:00,c1,page view,0
2025-03-01T10:00:30,c2,page view,0
2025-03-01T10:01:00,c1,add-to-cart,2.5
2025-03-01T10:09:00,c2,add-to-cart,4.5
"""


def test_a_file_is_uploaded_looked_at_and_becomes_a_workload(
    page: Browser, address: str, client: httpx.Client, tmp_path: Path
) -> None:
    (tmp_path / "my clicks.csv").write_text(EVENTS)
    page.open(f"{address}/")
    page.click(".card.link[href='/data']")
    page.until(lambda: page.count("#choose"))
    page.type("#upload input", str(tmp_path / "my clicks.csv"))
    page.reads("#about", "All 4 rows, with times from 2025-03-01 10:00:00 to 2025-03-01 10:09:00.")
    names = page.texts("#columns tbody td:first-child")
    assert [name.strip() for name in names] == [
        "Event Time the time",
        "Customer ID the key",
        "event the type",
        "amount (€) summed up",
    ]
    assert "page view, add-to-cart" in page.texts("#columns tbody td:nth-child(5)")
    text = page.text("#first")
    page.size(375, 812)
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.run("return document.querySelector('#columns td.examples').offsetWidth > 150")
    page.size(1280, 900)

    page.click("#open")
    page.reads("#verdict", "1 query over 2 event types, no errors")
    assert (
        page.run("return document.querySelector('.sheet textarea').value").strip() == text.strip()
    )
    page.click("#editor button[type=submit]")
    page.reads("h1", "my_clicks version 1")
    assert client.get("/v1/uploads").json()[0]["name"].endswith("-my_clicks.csv")


def test_a_file_under_the_root_is_chosen_and_a_wrong_one_refused(
    page: Browser, address: str, tmp_path: Path
) -> None:
    (tmp_path / "e.csv").write_text("ts,kind,user\n1,Login,a\n2,Payment,a\n3,Login,b\n")
    page.open(f"{address}/data?path={tmp_path}/none.csv")
    page.reads("#choose .alert", "There is no file")
    page.fill("#choose [name=path]", f"{tmp_path}/e.csv")
    page.click("#choose button")
    page.reads("#doubts", "no times of recent years")
    page.until(lambda: "e.csv" in page.address, "an address that can be kept")
    assert [c for c in page.complaints() if "422" not in c] == []


def test_events_are_indexed_and_the_index_removed(
    page: Browser, address: str, tmp_path: Path
) -> None:
    rows = {"ts": list(range(5_000)), "kind": ["A"] * 5_000, "x": list(range(5_000))}
    pq.write_table(pa.table(rows), tmp_path / "e.parquet", row_group_size=1_000)
    page.open(f"{address}/data?path={tmp_path}/e.parquet")
    page.reads("#about", "All 5,000 rows")
    page.fill("#index-on", "y")
    page.click("#index button")
    page.reads("#builds", "has no column 'y' to index")
    page.fill("#index-on", "x")
    page.click("#index button")
    page.reads("#builds", "1 file, 5,000 events")
    assert (tmp_path / ".sheaf-index" / "e.parquet.json").exists()
    assert page.barriers() == []
    for said in ("Remove", "Remove the index?"):
        page.until(lambda said=said: said in page.texts("#builds tbody tr:first-child button"))
        page.click("#builds tbody tr:first-child button")
    page.until(lambda: not (tmp_path / ".sheaf-index").exists())
