"""Notebooks: what cells show, the cell magic, the bar, and the examples of the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell

import sheaf
from api.notebooks.progress import NotebookBar, notebook_bar
from engines.execution import QUIET
from tests.test_public import EVENTS, WORKLOAD
from workloads.errors import SheafError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A shell as a notebook's kernel has it, with the extension loaded."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events.csv").write_text(EVENTS)
    given = InteractiveShell(config=None, history_length=0, history_load_length=0, colors="nocolor")
    given.history_manager.enabled = False
    given.run_line_magic("load_ext", "sheaf")
    yield given
    given.history_manager.end_session()
    given.restore_sys_module_state()


def run(shell: InteractiveShell, cell: str) -> Any:
    done = shell.run_cell(cell)
    done.raise_error()
    return done.result


def html(shell: InteractiveShell, value: Any) -> str:
    shown, _ = shell.display_formatter.format(value)
    assert isinstance(shown["text/html"], str)
    return shown["text/html"]


def test_a_cell_is_a_workload_that_runs(shell: InteractiveShell) -> None:
    cell = f"%%sheaf events.csv --as found\n{json.dumps(WORKLOAD)}"
    results = run(shell, cell)
    assert results["pairs"].num_rows == 1
    assert shell.user_ns["found"] is results
    plan = run(shell, cell.replace("--as", "--plan --as"))
    assert isinstance(plan, sheaf.Plan)
    shown, _ = shell.display_formatter.format(plan)
    assert shown["image/svg+xml"] == plan.svg()
    assert isinstance(run(shell, f"%%sheaf\n{json.dumps(WORKLOAD)}"), sheaf.Plan)


def test_a_cell_is_a_query_over_a_stream(shell: InteractiveShell) -> None:
    shell.user_ns["cards"] = sheaf.load(WORKLOAD)
    shell.user_ns["rows"] = pa.table({"ts": [1, 2], "kind": ["Reset", "Payment"], "amount": [0, 4]})
    query = "QUERY q PATTERN SEQ(Reset r, Payment p) RETURN p.amount WITHIN 5 s"
    results = run(shell, f"%%sheaf rows --workload cards\n{query}")
    assert results["q"].column("p_amount").to_pylist() == [4]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--workload", "expected one argument"),
        ("a b", "unrecognized arguments: b"),
        ("'a", "No closing quotation"),
        ("--as 1x", "'1x' is no name of a variable"),
        ("evnts", "there is no variable 'evnts', and no file; did you mean 'events'?"),
    ],
)
def test_a_line_that_cannot_be_read_says_how_it_is_written(
    shell: InteractiveShell, line: str, said: str
) -> None:
    shell.user_ns["events"] = pa.table({"ts": [1]})
    done = shell.run_cell(f"%%sheaf {line}\nname: x")
    assert isinstance(done.error_in_exec, SheafError)
    assert said in str(done.error_in_exec)


def test_a_mistake_has_its_place(shell: InteractiveShell) -> None:
    cell = "%%sheaf\nstream: {time: ts, type: kind}\nqueries:\n- QUERY q PATTERN SEQ(A a RETURN a"
    error = shell.run_cell(cell).error_in_exec
    assert isinstance(error, SheafError)
    assert "query q, line 1, column 25" in str(error)


def test_workloads_results_and_tables_show_as_html(shell: InteractiveShell, tmp_path: Path) -> None:
    workload = sheaf.load(WORKLOAD)
    shown = html(shell, workload)
    assert "cards: 2 queries over events" in shown
    assert "a.amount &lt; b.amount" in shown
    results = workload.plan().run("events.csv")
    shown = html(shell, results)
    assert "4 events, 5 rows" in shown
    assert '<td style="text-align:left">pairs</td><td style="text-align:right">1</td>' in shown
    assert html(shell, results["pairs"]).partition("1 row")[2] in shown
    assert "2025-03-01T08:00:00" in html(
        shell, pa.table({"key": pa.array(["2025-03-01T08:00:00"]).cast(pa.timestamp("ns"))})
    )
    many = html(shell, pa.table({"key": ["<i>"] * 12}))
    assert "12 rows, the first 10" in many
    assert many.count("&lt;i&gt;") == 10
    written = workload.plan().run("events.csv", tmp_path / "rows.jsonl")
    assert "rows.matches.jsonl" in html(shell, written)


class Screen:
    """What a cell shows, at one place."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, html: str) -> Screen:
        self.shown.append(html)
        return self

    update = __call__


def test_a_bar_appears_when_a_run_lasts_and_goes_when_it_ends() -> None:
    now = 0.0
    screen = Screen()
    bar = NotebookBar("spark", screen, lambda: now)
    bar.on_stage("start")
    assert screen.shown == []
    now = 1.0
    bar.on_stage("start")
    bar.on_stage("run")
    assert screen.shown == ["<progress></progress> starting Spark"]
    now = 2.0
    bar.on_progress(0.25)
    now = 5.0
    bar.on_progress(0.5)
    assert screen.shown[-1] == '<progress max="1" value="0.500"></progress> running, about 4 s left'
    bar.end()
    assert screen.shown[-1] == ""


def test_a_run_in_a_kernel_has_a_bar(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Kernel:
        kernel = None

    monkeypatch.setattr("IPython.get_ipython", Kernel)
    monkeypatch.setattr("api.notebooks.progress.FIRST_SECONDS", 0)
    shown: list[str] = []

    def display(html: Any, display_id: bool) -> Screen:
        shown.append(html.data)
        return Screen()

    monkeypatch.setattr("IPython.display.display", display)
    sheaf.run(WORKLOAD, "events.csv")
    assert len(shown) == 1
    assert shown[0].startswith("<progress")


def test_no_bar_is_shown_outside_of_notebooks() -> None:
    with notebook_bar("local") as monitor:
        assert monitor is QUIET


def cells(name: str) -> list[str]:
    """The code of a notebook, which has no outputs and nothing of a run in it."""
    document = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    return ["".join(cell["source"]) for cell in code]


def executed(shell: InteractiveShell, name: str, said: pytest.CaptureFixture[str]) -> None:
    for cell in cells(name):
        done = shell.run_cell(cell)
        assert done.success, cell
        shell.display_formatter.format(done.result)
        assert "Traceback" not in said.readouterr().err, cell


def test_the_local_example_runs(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    executed(shell, "local.ipynb", capsys)
    given = shell.user_ns
    assert given["results"]["given_back"].num_rows > 10
    assert given["results"]["bought"].num_rows > 1000
    assert given["dear"]["dear"].num_rows > 10


def test_the_pyspark_example_runs(
    shell: InteractiveShell, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    executed(shell, "pyspark.ipynb", capsys)
    assert "tried_then_spent" in html(shell, shell.user_ns["found"])
    assert shell.user_ns["found"]["tried_then_spent"].count() > 3
