"""The commands, as they are typed."""

import json
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from api.cli.main import app
from engines.results import writers as results
from optimizer.plan.plan import VERSION
from workloads import bundled
from workloads.generators import write_events

Sheaf = Callable[..., Result]

MIXED = """
name: mixed
stream: {time: ts, unit: s, type: step, sequence: seq}
queries:
  - |
    QUERY cycles
    PATTERN SEQ(Washing w, Operating o)
    PARTITION BY id
    AGG COUNT(*)
    WITHIN 1 hour
  - |
    QUERY unwashed
    PATTERN SEQ(Operating a, !Washing w, Operating b)
    WHERE [id]
    RETURN a.ts, b.ts
    WITHIN 1 hour
"""


@pytest.fixture
def sheaf() -> Sheaf:
    def invoke(*arguments: str | Path) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return invoke


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(
        bundled.stream("hospital", events=300), tmp_path_factory.mktemp("events") / "e.parquet"
    )


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED)
    return path


# --- check -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", bundled.names())
def test_bundled_workloads_are_found_by_name(sheaf: Sheaf, name: str) -> None:
    result = sheaf("check", name)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{name}: ok, ")
    assert result.stderr == ""


def test_check_counts_what_a_workload_has(sheaf: Sheaf, mixed: Path) -> None:
    assert sheaf("check", mixed).stdout == (
        "mixed: ok, 2 queries (1 AGG, 1 RETURN), 2 types, keys: id\n"
    )


def test_check_explains_every_query(sheaf: Sheaf, mixed: Path) -> None:
    text = sheaf("check", mixed, "--explain").stdout
    assert "QUERY cycles" in text
    assert "QUERY unwashed" in text
    assert "form: " in text


def test_check_reports_every_error_with_its_place(sheaf: Sheaf, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(MIXED.replace("COUNT(*)", "COUNTS(*)").replace("a.ts", "x.ts"))
    result = sheaf("check", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "unknown aggregate 'counts'" in result.stderr
    assert "unknown alias 'x'" in result.stderr
    assert f"{path}:9, query cycles, line 4, column 5" in result.stderr
    assert "^" in result.stderr


def test_check_goes_on_after_a_workload_with_errors(
    sheaf: Sheaf, tmp_path: Path, mixed: Path
) -> None:
    result = sheaf("check", tmp_path / "nothing.yaml", mixed)
    assert result.exit_code == 1
    assert "mixed: ok" in result.stdout
    assert "there is no file" in result.stderr


@pytest.mark.parametrize("content", ["", "[1, 2]", "a: [", "\x00"])
def test_check_says_what_is_no_workload(sheaf: Sheaf, tmp_path: Path, content: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(content)
    result = sheaf("check", path)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")


def test_a_folder_is_no_workload(sheaf: Sheaf, tmp_path: Path) -> None:
    result = sheaf("check", tmp_path)
    assert result.exit_code == 1
    assert "is a folder" in result.stderr


# --- plan --------------------------------------------------------------------------------------


def test_plan_shows_text_by_default(sheaf: Sheaf, mixed: Path) -> None:
    result = sheaf("plan", mixed)
    assert result.exit_code == 0
    assert "mixed, 2 queries" in result.stdout
    assert "of CPU for each second of stream" in result.stdout


def test_plan_shows_one_querys_way(sheaf: Sheaf, mixed: Path) -> None:
    shown = sheaf("plan", mixed, "--query", "unwashed").stdout
    assert shown.startswith("unwashed of mixed (plan-")
    assert "cycles" not in shown.partition("what it goes through")[0]
    wrong = sheaf("plan", mixed, "--query", "unwahsed")
    assert wrong.exit_code == 1
    assert "did you mean 'unwashed'?" in wrong.stderr
    assert sheaf("plan", mixed, "--query", "unwashed", "--format", "svg").exit_code == 1


def test_plan_by_the_thesis_model_adds_up(sheaf: Sheaf) -> None:
    counted = Path(__file__).parents[2] / "plans" / "shared.yaml"
    plan = json.loads(sheaf("plan", counted, "--model", "aseq", "--format", "json").stdout)
    assert plan["cost"]["unit"] == "nanoseconds per second of stream"
    chosen = [c for c in plan["candidates"] if c["id"] in plan["chosen"]]
    assert {c["unit"] for c in chosen} == {"operations per window"}
    assert all(c["benefit"] > 0 for c in chosen)
    assert not {other for c in chosen for other in c["conflicts"]} & set(plan["chosen"])
    saved = plan["cost"]["separate"] - plan["cost"]["shared"]
    assert plan["objective"] == pytest.approx(saved)
    assert plan["objective"] <= plan["bound"]


def test_plan_as_json_has_what_the_interface_names(sheaf: Sheaf, mixed: Path) -> None:
    plan = json.loads(sheaf("plan", mixed, "--format", "json", "--solver", "exhaustive").stdout)
    assert (plan["workload"], plan["solver"], plan["model"]) == ("mixed", "exhaustive", "measured")
    assert plan["status"] in ("optimal", "feasible")
    assert plan["cost"].keys() >= {"separate", "shared"}
    assert [group["queries"] for group in plan["groups"]] == [["cycles"], ["unwashed"]]


def test_plan_without_sharing_has_a_group_for_each_query(sheaf: Sheaf) -> None:
    counted = Path(__file__).parents[2] / "plans" / "measured.yaml"
    shared, alone = (
        json.loads(sheaf("plan", counted, "--format", "json", *more).stdout)
        for more in ((), ("--no-sharing",))
    )
    assert any(len(group["queries"]) > 1 for group in shared["groups"])
    assert all(len(group["queries"]) == 1 for group in alone["groups"])
    assert (shared["sharing"], alone["sharing"]) == (True, False)


def test_plan_as_a_picture(sheaf: Sheaf, mixed: Path) -> None:
    assert ET.fromstring(sheaf("plan", mixed, "--format", "svg").stdout).tag.endswith("svg")


def test_plan_measures_rates_from_events(sheaf: Sheaf, mixed: Path, events: Path) -> None:
    plan = json.loads(sheaf("plan", mixed, "--events", events, "--format", "json").stdout)
    table = pq.read_table(events)
    seconds = table["ts"].to_pylist()[-1] - table["ts"].to_pylist()[0]
    washed = table["step"].to_pylist().count("Washing")
    assert plan["rates"]["Washing"] == pytest.approx(washed / seconds)
    assert plan["cost"]["unit"] == "nanoseconds per second of stream"


def test_plan_compares_with_an_older_plan(sheaf: Sheaf, mixed: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(sheaf("plan", mixed, "--format", "json").stdout)
    assert "the same as plan-" in sheaf("plan", mixed, "--from", old).stderr
    document = MIXED.replace("QUERY unwashed", "QUERY dirty")
    mixed.write_text(document)
    result = sheaf("plan", mixed, "--from", old)
    assert "queries added: dirty\n  queries removed: unwashed" in result.stderr


@pytest.mark.parametrize("content", ["{", "[]", "{}", f'{{"version": {VERSION}}}'])
def test_what_is_no_plan_is_an_error(
    sheaf: Sheaf, mixed: Path, tmp_path: Path, content: str
) -> None:
    old = tmp_path / "old.json"
    old.write_text(content)
    result = sheaf("plan", mixed, "--from", old)
    assert result.exit_code == 1
    assert "not a plan" in result.stderr


# --- run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_run_shows_rows_and_ends_with_a_report(
    sheaf: Sheaf, mixed: Path, events: Path, engine: str
) -> None:
    result = sheaf("run", mixed, "--events", events, "--engine", engine)
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stderr.splitlines()[-1])
    shown = [line.split()[:2] for line in result.stdout.splitlines() if line[0] != " "]
    assert shown[0] == ["query", "rows"]
    assert {name: int(number) for name, number in shown[1:]} == report["rows_by_query"]
    assert [name for name, _ in shown[1:]] == ["cycles", "unwashed"]
    assert report["events"] == 300
    assert report["seconds"].keys() >= {"read", "plan", "run", "write"}
    assert report["events_per_second"] > 0
    assert (report["engine"], report["device"]) == (engine, "cpu")
    # The run is planned on its own events, and the reference follows no plan but the queries.
    sample = ["--events", events] if engine == "local" else []
    planned = json.loads(sheaf("plan", mixed, *sample, "--format", "json").stdout)
    assert report["plan"] == planned["id"]
    operators = [o["id"] for o in planned["operators"]]
    assert [o["id"] for o in report["operators"]] == operators


@pytest.mark.parametrize("order", ["", "sequence: n, "])
def test_a_run_without_rows_says_which_types_never_occur(
    sheaf: Sheaf, tmp_path: Path, order: str
) -> None:
    (tmp_path / "e.csv").write_text("ts,kind,n\n1,login,1\n2,payment,2\n")
    workload = tmp_path / "w.yaml"
    types = 'types: {Late: "ts > 9", Login: , payment: }'
    workload.write_text(
        f"name: w\nstream: {{time: ts, type: kind, {order}{types}}}\n"
        "queries:\n- QUERY q PATTERN SEQ(Login l, payment p, Late t) RETURN l WITHIN 1 s\n"
    )
    result = sheaf("run", workload, "--events", tmp_path / "e.csv")
    *notes, report = result.stderr.splitlines()
    assert notes == [
        "note: query q: no event has 'Login'; did you mean 'login'?",
        "note: query q: no event is 'Late', which is ts > 9",
    ]
    assert json.loads(report)["rows"] == {"aggregates": 0, "matches": 0}
    assert json.loads(report)["notes"] == [note.removeprefix("note: ") for note in notes]
    workload.write_text(workload.read_text().replace("Login", "login").replace("> 9", "> 1"))
    assert "note" not in sheaf("run", workload, "--events", tmp_path / "e.csv").stderr.split("{")[0]


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_run_writes_both_kinds_to_files_of_their_own(
    sheaf: Sheaf, mixed: Path, events: Path, tmp_path: Path, ending: str
) -> None:
    result = sheaf("run", mixed, "--events", events, "--out", tmp_path / f"out{ending}")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split() == [
        str(tmp_path / f"out.aggregates{ending}"),
        str(tmp_path / f"out.matches{ending}"),
    ]
    assert {path.name for path in tmp_path.iterdir()} == {
        "mixed.yaml",
        f"out.aggregates{ending}",
        f"out.matches{ending}",
    }


def test_run_writes_one_kind_to_the_path_itself(
    sheaf: Sheaf, mixed: Path, events: Path, tmp_path: Path
) -> None:
    mixed.write_text(MIXED[: MIXED.index("  - |\n    QUERY unwashed")])
    assert sheaf("run", mixed, "--events", events, "--out", tmp_path / "o.csv").exit_code == 0
    assert (tmp_path / "o.csv").read_text().startswith('"query","key","time","seq"')


def test_engines_agree_on_files(sheaf: Sheaf, mixed: Path, events: Path, tmp_path: Path) -> None:
    for engine in ("local", "oracle"):
        out = tmp_path / f"{engine}.jsonl"
        assert (
            sheaf("run", mixed, "--events", events, "--engine", engine, "--out", out).exit_code == 0
        )
    for kind in ("aggregates", "matches"):
        local, oracle = (tmp_path / f"{e}.{kind}.jsonl" for e in ("local", "oracle"))
        assert local.read_text() == oracle.read_text() != ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--events", "nothing.parquet"], "there is no file 'nothing.parquet'"),
        (["--events", "{events}", "--out", "out.xlsx"], "not to 'out.xlsx'"),
        (["--events", "{events}", "--out", "no/such/out.csv"], "there is no folder 'no/such'"),
    ],
)
def test_run_says_what_is_wrong(
    sheaf: Sheaf, mixed: Path, events: Path, arguments: list[str], message: str
) -> None:
    result = sheaf("run", mixed, *(a.format(events=events) for a in arguments))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("error: ")


def test_an_attribute_that_the_events_lack_is_found(
    sheaf: Sheaf, mixed: Path, events: Path
) -> None:
    mixed.write_text(MIXED.replace("a.ts", "a.wart"))
    result = sheaf("run", mixed, "--events", events)
    assert result.exit_code == 1
    assert "unknown attribute 'wart'" in result.stderr
    assert "did you mean 'ward'?" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "shop"],
        ["run", "shop", "--events", "x", "--engine", "steam"],
        ["plan"],
        ["plan", "shop", "--solver", "luck"],
        ["fly"],
    ],
)
def test_wrong_usage_exits_with_2(sheaf: Sheaf, arguments: list[str]) -> None:
    result = sheaf(*arguments)
    assert result.exit_code == 2
    assert "Usage" in result.stderr


# --- the others --------------------------------------------------------------------------------


def test_generate_writes_a_stream(sheaf: Sheaf, tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        result = sheaf("generate", "shop", "--events", 50, "--seed", 3, "--out", tmp_path / name)
        assert result.exit_code == 0
        assert "50 events" in result.stdout
    assert pq.read_table(tmp_path / "a.parquet") == pq.read_table(tmp_path / "b.parquet")


def test_generate_says_which_workloads_there_are(sheaf: Sheaf, tmp_path: Path) -> None:
    result = sheaf("generate", "shops", "--out", tmp_path / "a.parquet")
    assert result.exit_code == 1
    assert "driving, funnels, hospital, machines, shop, stocks" in result.stderr


def test_the_version_is_told(sheaf: Sheaf) -> None:
    assert sheaf("--version").stdout == f"sheaf {version('sheaf')}\n"


def test_help_names_every_command(sheaf: Sheaf) -> None:
    text = sheaf("--help").stdout
    for command in ("demo", "test", "check", "plan", "run", "serve", "generate"):
        assert command in text


def started(*arguments: str | Path, **more: Any) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", "from api.cli.main import main; main()", *map(str, arguments)]
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def test_slow_packages_are_not_imported_to_check() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from api.cli.main import app;"
        f"CliRunner().invoke(app, ['check', {str(bundled.path('shop'))!r}]);"
        "print([m for m in ('pyspark', 'numba', 'pyarrow', 'fastapi', 'pandas', 'ortools')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_output_that_nobody_reads_is_no_error() -> None:
    process = started("plan", "stocks", "--format", "json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.wait(timeout=60)
    assert process.stderr.read() == ""
    process.stderr.close()


def test_serve_answers_and_stops_when_told(tmp_path: Path) -> None:
    process = started("serve", "--port", "0", "--data", tmp_path / "data")
    assert process.stderr is not None
    try:
        line = ""
        while "Uvicorn running on" not in line:
            line = process.stderr.readline()
            assert line, "the service ended"
        (address,) = re.findall(r"http://[\w.:]+", line)
        assert httpx.get(f"{address}/readyz").json() == {"status": "ok"}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_an_interrupted_run_leaves_no_partial_files(
    sheaf: Sheaf, mixed: Path, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(table: object, path: Path) -> None:
        path.write_text("half of it")
        raise KeyboardInterrupt

    monkeypatch.setitem(results._WRITERS, ".csv", interrupted)
    result = sheaf("run", mixed, "--events", events, "--out", tmp_path / "out.csv")
    assert result.exit_code not in (0, None)
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == [mixed]
