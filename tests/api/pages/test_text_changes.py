"""What changed between two texts, as the page of a workload's versions shows it."""

import httpx

from api.http.pages.text_changes import MAX_LINES, changed_lines
from api.http.schemas import EXAMPLE_WORKLOAD

BEFORE = "\n".join(f"line {i}" for i in range(1, 21))


def test_lines_that_changed_are_shown_with_three_around_them() -> None:
    after = BEFORE.replace("line 10\n", "row 10\nnew\n")
    shown = changed_lines(BEFORE, after)
    assert shown is not None
    assert [(line.kind, line.before, line.after) for line in shown] == [
        ("left out", None, None),
        ("same", 7, 7),
        ("same", 8, 8),
        ("same", 9, 9),
        ("removed", 10, None),
        ("added", None, 10),
        ("added", None, 11),
        ("same", 11, 12),
        ("same", 12, 13),
        ("same", 13, 14),
        ("left out", None, None),
    ]
    assert [line.parts[0][0] for line in shown if line.kind == "left out"] == ["6", "7"]


def test_words_that_differ_are_marked_in_lines_that_are_much_alike() -> None:
    shown = changed_lines("    WITHIN 10 min", "    WITHIN 15 min")
    assert shown is not None
    assert [line.parts for line in shown] == [
        (("    WITHIN ", False), ("10", True), (" min", False)),
        (("    WITHIN ", False), ("15", True), (" min", False)),
    ]
    other = changed_lines("WITHIN 10 min", "PARTITION BY user")
    assert other is not None
    assert [line.parts for line in other] == [
        (("WITHIN 10 min", False),),
        (("PARTITION BY user", False),),
    ]


def test_texts_that_are_the_same_or_too_long() -> None:
    assert changed_lines(BEFORE, BEFORE) == []
    assert changed_lines("a\n" * MAX_LINES, "b\n") is None


def test_versions_of_a_workload_have_a_page_of_what_changed(client: httpx.Client) -> None:
    id = client.post("/v1/workloads", json=EXAMPLE_WORKLOAD).json()["id"]
    assert "Nothing: the two texts are the same." in client.get(f"/workloads/{id}/changes").text
    text = client.get(f"/v1/workloads/{id}", headers={"accept": "application/yaml"}).text
    assert "WITHIN 10 min" in text
    changed = text.replace("WITHIN 10 min", "WITHIN 15 min -- <b>", 1)
    headers = {"content-type": "application/yaml"}
    assert client.put(f"/v1/workloads/{id}", content=changed, headers=headers).status_code == 200
    text = client.get(f"/workloads/{id}/changes?before=1&after=2").text
    assert "1 line removed, 1 line added." in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert (
        f'href="/workloads/{id}/changes?before=1&amp;after=2"'
        in client.get(f"/workloads/{id}").text
    )
    assert client.get(f"/workloads/{id}/changes?before=9").status_code == 404
    assert client.get("/workloads/none/changes").status_code == 404
