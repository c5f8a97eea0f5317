"""The archives that let Spark start faster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines.spark.runtime import startup
from engines.spark.runtime.startup import archives, make_archives, startup_options

MAKE = """
import sys
sys.prefix = sys.argv[1]
from engines.spark.runtime.startup import make_archives, startup_options
make_archives()
print(*startup_options())
"""


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    """Where the archives would be: a folder that is empty."""
    both = tmp_path / "java.jsa", tmp_path / "spark.jsa"
    monkeypatch.setattr(startup, "archives", lambda: both)
    return both


def test_without_archives_there_are_no_options(places: tuple[Path, Path]) -> None:
    places[0].write_text("as of a set-up that was interrupted")
    assert startup_options() == []


def test_archives_that_exist_are_used_and_not_made_again(places: tuple[Path, Path]) -> None:
    places[1].write_text("kept")
    make_archives()
    assert places[1].read_text() == "kept"
    assert f"-XX:SharedArchiveFile={places[0]}:{places[1]}" in startup_options()


def test_another_java_has_no_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHEAF_JAVA_HOME", "/somewhere")
    assert archives() is None
    assert startup_options() == []


@pytest.mark.soak
@pytest.mark.spark
def test_archives_are_made_where_java_is(tmp_path: Path) -> None:
    place = tmp_path / "a place"
    done = subprocess.run(
        [sys.executable, "-c", MAKE, str(place)],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (java,) = place.glob("share/sheaf/java-*/java.jsa")
    (spark,) = place.glob("share/sheaf/java-*/spark-*.jsa")
    assert f"-XX:SharedArchiveFile={java}:{spark}" in done.stdout
    command = [str(java.parent / "bin" / "java"), f"-XX:SharedArchiveFile={java}", "-Xshare:on"]
    checked = subprocess.run([*command, "-Xlog:cds", "-version"], capture_output=True, text=True)
    assert f"Opened shared archive file {java}" in checked.stdout
    assert spark.stat().st_size > java.stat().st_size
