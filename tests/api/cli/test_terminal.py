"""What commands show on a terminal, and elsewhere."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from api.cli import completion
from api.cli.main import app
from api.cli.terminal import colour
from api.cli.terminal.first_rows import QueryRows, lines_each, print_first_rows
from api.cli.terminal.progress import TimeLeft, compilation_noticed, shown_seconds, stage_text

COMMAND = [sys.executable, "-c", "from api.cli.entry_point import main; main()"]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

WORKLOAD = """
name: pays
stream: {time: at, type: kind, unit: ms}
queries:
  - |
    QUERY shifts PATTERN SEQ(Login a, Pay b) PARTITION BY customer
    RETURN a.country, b.amount, b.note WITHIN 1 hour
  - |
    QUERY totals PATTERN SEQ(Login a, Pay b) PARTITION BY customer
    AGG COUNT(*), SUM(b.amount) WITHIN 1 hour
  - QUERY nothing PATTERN SEQ(Pay a, Login b) PARTITION BY customer AGG COUNT(*) WITHIN 1 ms
"""
NOTE = "a note that goes on and on, longer than any line of a terminal of eighty columns can be"


@pytest.fixture
def paid(tmp_path: Path) -> Path:
    (tmp_path / "pays.yaml").write_text(WORKLOAD)
    lines = ["at,kind,customer,country,amount,note"]
    for number in range(40):
        at = f"2025-03-01T12:{number:02}:26.235"
        lines.append(f"{at},Login,customer-{number:04},Liechtenstein,,")
        lines.append(f'{at[:-3]}935,Pay,customer-{number:04},,1234567.5,"{NOTE}"')
    (tmp_path / "pays.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def on_a_terminal(folder: Path, *arguments: str, width: int = 80, **more: str) -> tuple[int, str]:
    """The exit code of a command, and what it writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**environment, "TERM": "xterm-256color", **more},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # it has ended
            break
        if not part:
            break
        said += part
    os.close(ours)
    return process.wait(), said.decode()


# --- the first rows of each query ----------------------------------------------------------------


def test_a_run_shows_the_rows_of_each_query_on_a_terminal(paid: Path) -> None:
    code, said = on_a_terminal(paid, "run", "pays.yaml", "--events", "pays.csv")
    assert code == 0
    lines = ESCAPES.sub("", said.rpartition("query ")[2]).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert re.fullmatch(r"shifts +40  customer=customer-0000 at .*", lines[1])
    (totals,) = [line for line in lines if line.startswith("totals ")]
    assert re.match(r"totals +80  customer=customer-0000 at 2025-03-01T12:00:26.935", totals)
    assert any(line.split() == ["nothing", "0"] for line in lines)
    assert re.fullmatch(r"80 events · 120 rows · [\d.]+ s · plan-[0-9a-f]+ \(.*\)", lines[-1]), (
        lines[-1]
    )


def test_a_run_is_whole_and_plain_in_a_pipe(paid: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "run", "pays.yaml", "--events", "pays.csv"],
        cwd=paid,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout + done.stderr
    assert "…" not in done.stdout
    assert done.stdout.count(f"b.note={NOTE}") == lines_each(3)
    assert "COUNT(*) = 1, SUM(b.amount) = 1,234,567.5\n" in done.stdout
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["rows_by_query"] == {"shifts": 40, "totals": 80, "nothing": 0}


def test_the_report_is_a_line_on_a_terminal_where_it_is_asked_for(paid: Path) -> None:
    code, said = on_a_terminal(paid, "run", "pays.yaml", "--events", "pays.csv", "--report")
    assert code == 0
    assert json.loads(said.splitlines()[-1])["events"] == 80


def test_a_long_line_is_cut_on_a_terminal_alone() -> None:
    row = {"query": "q", "key": None, "time": 1, "match": {"a.note": NOTE * 8}}
    rows = [QueryRows("q", 1, [row])]

    def shown(console: Console) -> list[str]:
        with console.capture() as found:
            print_first_rows(rows, console, 1)
        return found.get().splitlines()[1:]

    narrow = shown(Console(width=80, force_terminal=True, no_color=True))
    assert len(narrow) == 3
    assert narrow[-1].endswith("…\x1b[0m") or narrow[-1].endswith("…")
    assert shown(Console(width=80, force_terminal=False)) == [
        f"q         1  at 1: a.note={NOTE * 8}"
    ]


# --- progress ------------------------------------------------------------------------------------


def test_time_left_follows_the_speed_and_the_part_never_falls() -> None:
    now = [0.0]
    left = TimeLeft(lambda: now[0])
    left.tell(0.0)
    assert left.seconds is None
    now[0] = 10.0
    left.tell(0.25)
    assert left.seconds == pytest.approx(30)
    now[0] = 15.0
    assert left.seconds == pytest.approx(25)
    left.tell(0.1)
    assert left.part == 0.25
    assert left.seconds == pytest.approx(25)
    now[0] = 100.0  # the next part is late
    assert left.seconds == pytest.approx(3)
    left.tell(1.0)
    assert left.seconds == 0


def test_seconds_are_said_as_people_say_them() -> None:
    assert [shown_seconds(s) for s in (0.2, 8, 59.4, 60, 200, 7500)] == [
        "1 s", "8 s", "59 s", "1 min", "3 min 20 s", "2 h 5 min",
    ]  # fmt: skip


def test_spark_is_named_while_it_starts() -> None:
    assert stage_text("start", "spark") == "starting Spark"
    assert stage_text("start", "local") == "starting"


def test_compiling_for_long_is_noticed_and_loading_is_not() -> None:
    import threading

    import numba

    told = threading.Event()
    compiled = numba.njit(lambda x: x + 1)
    with compilation_noticed(told.set, seconds=0):
        compiled(1)
        assert told.wait(30)
    told.clear()
    with compilation_noticed(told.set, seconds=0):
        compiled(1)
        assert not told.wait(0.1)


# --- colour, JSON, help --------------------------------------------------------------------------


def test_errors_and_plans_have_colour_on_a_terminal(paid: Path) -> None:
    (paid / "wrong.yaml").write_text(WORKLOAD.replace("SEQ(Pay a", "SEQ(Pay a,"))
    code, said = on_a_terminal(paid, "check", "pays.yaml", "wrong.yaml")
    assert code == 1
    assert "pays: \x1b[32m\x1b[1mok\x1b[0m, 3 queries" in said
    assert "\x1b[31m\x1b[1merror:\x1b[0m" in said
    code, plain = on_a_terminal(paid, "check", "pays.yaml", "wrong.yaml", NO_COLOR="1")
    assert "\x1b[3" not in plain
    assert ESCAPES.sub("", said) == plain
    _, plan = on_a_terminal(paid, "plan", "pays.yaml")
    assert "\x1b[1mcost\x1b[0m " in plan


def test_colour_changes_no_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    plan = CliRunner().invoke(app, ["plan", "shop", "--verbose"]).stdout
    assert colour.plan_text(plan) != plan
    assert ESCAPES.sub("", colour.plan_text(plan)) == plan


def answered(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(app, arguments).stdout)


def test_json_is_had_of_every_command(paid: Path) -> None:
    good, bad = answered("check", "shop", str(paid / "pays.csv"), "--json")
    assert (good["ok"], good["name"], bad["ok"]) == (True, "shop", False)
    assert bad["errors"][0]["message"]
    file = paid / "e.csv"
    assert answered("generate", "shop", "--events", "5", "--out", str(file), "--json") == {
        "file": str(file),
        "events": 5,
    }
    assert {device["kind"] for device in answered("devices", "--json")} >= {"cpu"}
    assert answered("plan", "shop", "--json") == answered("plan", "shop", "--format", "json")
    ran = answered("run", str(paid / "pays.yaml"), "--events", str(paid / "pays.csv"), "--json")
    assert ran["rows_by_query"] == {"shifts": 40, "totals": 80, "nothing": 0}
    assert ran["first"]["totals"][0]["value"] == 1
    assert ran["first"]["nothing"] == ran["files"] == []


def commands(of: Any, name: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = getattr(of, "commands", None)
    if inner is None:
        return [name]
    return [name, *(found for key, one in inner.items() for found in commands(one, (*name, key)))]


def test_help_is_readable_at_80_columns() -> None:
    import typer

    for name in commands(typer.main.get_command(app)):
        if name in (("bench",), ("test",)):  # which hand it on
            continue
        text = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "80"}).stdout
        assert "Usage:" in text
        assert "<bool>" not in text
        assert not re.search(r"\w\.\.\.$", text, re.MULTILINE), text  # cut
        assert max(map(len, text.splitlines())) <= 80


def test_help_has_the_options_of_streams_in_a_section_of_their_own() -> None:
    for name in (["run"], ["job", "launch"]):
        text = CliRunner().invoke(app, [*name, "--help"], env={"COLUMNS": "80"}).stdout
        own, _, live = text.partition("\nLive streams:\n")
        assert "  --checkpoint DIR " in live
        assert "  --engine " in own
        assert "  --json " in own
        assert "-h, --help" in own


# --- completion, ports ---------------------------------------------------------------------------


def test_workloads_are_completed(paid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(paid)
    (paid / "shelf").mkdir()
    (paid / "shelf" / "one.yaml").touch()
    assert completion.workload_names("sh") == ["shop", "shelf/"]
    assert completion.workload_names("shelf/") == ["shelf/one.yaml"]
    assert completion.workload_names("pa") == ["pays.yaml"]


def test_ids_are_completed_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from api.client import Client
    from api.http.app import create_app
    from api.http.embedded_server import serving
    from api.http.settings import Settings
    from workloads import bundled

    monkeypatch.setenv("SHEAF_DATA", str(tmp_path))
    monkeypatch.delenv("SHEAF_SERVER", raising=False)
    assert completion.plan_ids("") == []
    with serving(create_app(Settings(data=tmp_path))) as address, Client(address) as client:
        plan = client.plan(client.post_workload(bundled.path("stocks")).id)
        assert completion.plan_ids("plan-") == [plan.id]
        monkeypatch.setenv("SHEAF_SERVER", address)
        assert completion.plan_ids("") == [plan.id]
        assert completion.job_ids("") == []
    assert completion.plan_ids("") == []  # nobody answers


def test_a_port_in_use_is_said_in_a_line() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = CliRunner().invoke(app, ["serve", "--port", str(port)])
    assert done.exit_code == 1
    assert done.stderr == (
        f"error: port {port} of 127.0.0.1 is in use; end what listens there, or take another, "
        f"such as --port {port + 1}\n"
    )
