"""What the editor's page asks the service: words, layout, colours."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings

YAML = {"content-type": "application/yaml"}
TEXT = """\
name: clicks
stream: {time: ts, type: kind, attributes: {price: float}}
queries:
  - QUERY q PATTERN SEQ(View v, Buy b) WHERE v."""


@pytest.fixture(scope="module")
def client(pretend: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "events.csv").write_text("ts,kind,price,shop\n1,View,2.5,north\n")
    app = create_app(Settings(data=folder / "data", roots=(folder,)), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        client.headers["x-events"] = str(folder / "events.csv")
        yield client


def words(client: httpx.Client, events: Path | str | None) -> list[str]:
    asked = {"at": len(TEXT)} | ({} if events is None else {"events": str(events)})
    answer = client.post("/pages/suggestions", params=asked, content=TEXT, headers=YAML)
    assert answer.status_code == 200, answer.text
    return [word["written"] for word in answer.json()["words"]]


def test_columns_of_a_sample_are_offered(client: httpx.Client) -> None:
    assert words(client, None) == ["price"]
    assert words(client, client.headers["x-events"]) == ["ts", "kind", "price", "shop"]


def test_a_sample_elsewhere_is_not_read(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("ts,kind,secret\n1,View,2\n")
    assert words(client, tmp_path / "events.csv") == ["price"]
    assert words(client, "not/there.csv") == ["price"]


def test_a_place_behind_the_end_is_the_end(client: httpx.Client) -> None:
    answer = client.post("/pages/suggestions?at=99999", content=TEXT, headers=YAML)
    assert [word["written"] for word in answer.json()["words"]] == ["price"]


def test_a_layout_and_what_to_colour(client: httpx.Client) -> None:
    text = TEXT.replace("- QUERY", "- |\n    QUERY").replace(
        "WHERE v.", "AGG COUNT(*) WITHIN 1 s\n"
    )
    (change,) = client.post("/pages/layout", content=text, headers=YAML).json()["changes"]
    assert text[change["start"] : change["end"]].startswith("QUERY q PATTERN")
    assert change["text"].startswith("QUERY q\n    PATTERN")
    assert client.post("/pages/layout", content="{", headers=YAML).json() == {"changes": []}
    colours = client.get("/pages/colours").json()
    assert {"name": "comment.line.double-dash.sheaf", "match": "--.*$"} in colours
