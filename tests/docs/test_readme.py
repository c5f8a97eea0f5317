"""The README's five minutes: what it says to type gives what it shows."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner, Result

from api.cli.main import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLAN_ID = re.compile(r"plan-[0-9a-f]{12}")  # follows every letter of a plan's file


class Shown(NamedTuple):
    """A command of the README, and what is below it."""

    arguments: list[str]
    output: str


COMMANDS = {
    command.split()[0]: Shown(command.split(), output)
    for command, output in re.findall(r"```\n\$ \./sheaf ([^\n]+)\n(.*?)```", README, re.S)
}


@pytest.fixture(autouse=True)
def _beside_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the README's files, on a terminal as wide as the README."""
    workload = re.findall(r"```yaml\n(.*?)```", README, re.S)[0]
    (tmp_path / "cards.yaml").write_text(workload)
    wrong = workload.replace("large.amount >", "large.amout >").replace("!Login l", "!Logn l")
    assert wrong != workload
    (tmp_path / "wrong.yaml").write_text(wrong)
    events = re.search(r"```\n(ts,kind,card,amount\n.*?)```", README, re.S)
    assert events is not None
    (tmp_path / "events.csv").write_text(events[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def typed(name: str) -> Result:
    return CliRunner().invoke(app, COMMANDS[name].arguments)


def test_mistakes_are_those_that_are_shown() -> None:
    found = typed("check")
    assert found.exit_code == 1
    assert found.stderr.strip() == COMMANDS["check"].output.strip()


def test_the_plan_is_the_one_that_is_shown_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHEAF_CACHE", str(tmp_path))  # where no costs were measured
    found = typed("plan")
    assert found.exit_code == 0
    shown, rest = COMMANDS["plan"].output.split("…\n")
    assert rest == ""
    assert PLAN_ID.sub("plan", found.stdout).startswith(PLAN_ID.sub("plan", shown))
    drawn = CliRunner().invoke(app, ["plan", "cards.yaml", "--format", "svg"])
    kept = (ROOT / "docs" / "cards-plan.svg").read_text(encoding="utf-8")
    assert PLAN_ID.sub("plan", drawn.stdout) == PLAN_ID.sub("plan", kept)


@pytest.mark.slow
def test_the_rows_are_those_that_are_shown() -> None:
    found = typed("run")
    assert found.exit_code == 0
    *rows, said = COMMANDS["run"].output.strip().splitlines()
    assert found.stdout.strip().splitlines() == rows
    assert re.fullmatch(r"8 events · 11 rows · [\d.]+ s · plan-\w+ \(.*\)", said)
