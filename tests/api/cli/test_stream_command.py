"""`sheaf run --stream` says what it needs before anything is started."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli.main import app

runner = CliRunner()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stream"], "--stream is for --engine spark"),
        (["--engine", "spark", "--stream"], "--stream needs --checkpoint DIR"),
        (["--engine", "spark", "--stream", "--out", "o"], "--stream needs --checkpoint DIR"),
        (["--engine", "spark", "--once"], "are for --stream"),
        (["--checkpoint", "c"], "are for --stream"),
        (
            ["--engine", "spark", "--stream", "--checkpoint", "c", "--out", "o", "--finish"],
            "give --once too",
        ),
        (
            ["--engine", "spark", "--stream", "--checkpoint", "c", "--out", "o"],
            "there is no folder 'nowhere'",
        ),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = runner.invoke(app, ["run", "shop", "--events", "nowhere", *arguments])
    assert found.exit_code == 1
    assert said in found.output
    assert not list(tmp_path.iterdir())
