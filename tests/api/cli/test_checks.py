"""`sheaf test` runs the right things and reports the worst of them; `sheaf bench` passes on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli import checks
from api.cli.main import app

Ran = list[tuple[str, ...]]


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, int]], Ran]:
    """Replaces running a tool by an exit code of one's choice, and records what would have run."""

    def arrange(codes: dict[str, int]) -> Ran:
        ran: Ran = []

        def run(command: tuple[str, ...]) -> int:
            ran.append(command)
            return codes.get(command[0], 0)

        monkeypatch.setattr(checks, "_run", run)
        return ran

    return arrange


def test_without_arguments_everything_runs_and_pytest_last(
    outcomes: Callable[[dict[str, int]], Ran],
) -> None:
    ran = outcomes({})
    assert CliRunner().invoke(app, ["test"]).exit_code == 0
    assert ran == [*checks.LINTERS, ("pytest", *checks.PARALLEL)]


def test_arguments_go_to_pytest_alone(outcomes: Callable[[dict[str, int]], Ran]) -> None:
    ran = outcomes({})
    arguments = ["-k", "one or two", "--help", "-x", "tests/api"]
    assert CliRunner().invoke(app, ["test", *arguments]).exit_code == 0
    assert ran == [("pytest", *arguments)]


@pytest.mark.parametrize(
    ("codes", "worst", "named"),
    [
        ({"mypy": 2}, 2, "mypy"),
        ({"ruff": 1}, 1, "ruff check, ruff format --check"),
        ({"pytest": 5, "ruff": 1}, 5, "ruff check"),
        ({"pytest": 1}, 1, ""),
    ],
)
def test_the_exit_code_is_the_worst_and_failed_linters_are_named_at_the_end(
    outcomes: Callable[[dict[str, int]], Ran], codes: dict[str, int], worst: int, named: str
) -> None:
    ran = outcomes(codes)
    result = CliRunner().invoke(app, ["test"])
    assert result.exit_code == worst
    assert named in result.output
    assert len(ran) == len(checks.LINTERS) + 1


def test_a_tool_that_is_killed_counts_as_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "killed.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    assert checks._run(("killed",)) == 128 + 9


def test_without_a_checkout_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    result = CliRunner().invoke(app, ["test"])
    assert result.exit_code == 2
    assert "needs a source checkout" in result.output


def test_benchmarks_are_those_of_the_checkout(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert CliRunner().invoke(app, ["bench", "lenght", "--small", "--json"]).exit_code == 1
    assert "did you mean 'length'?" in capfd.readouterr().err


def test_without_a_checkout_benchmarks_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    result = CliRunner().invoke(app, ["bench", "length"])
    assert result.exit_code == 2
    assert "needs a source checkout" in result.output
