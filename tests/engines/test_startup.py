"""The cache that lets Spark start faster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines import startup
from engines.startup import make_startup_cache, startup_options

MAKE = """
import sys
sys.prefix = sys.argv[1]
from engines.startup import make_startup_cache, startup_options
make_startup_cache()
print(*startup_options())
"""


def test_without_a_cache_there_are_no_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(startup, "startup_cache", lambda: tmp_path / "none.aot")
    assert startup_options() == []


def test_a_cache_that_exists_is_used_and_not_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "spark.aot"
    cache.write_text("kept")
    monkeypatch.setattr(startup, "startup_cache", lambda: cache)
    make_startup_cache()
    assert cache.read_text() == "kept"
    assert f"-XX:AOTCache={cache}" in startup_options()


def test_another_java_gets_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHEAF_JAVA_HOME", "/somewhere")
    assert startup.startup_cache() is None
    assert startup_options() == []


@pytest.mark.soak
@pytest.mark.spark
def test_the_cache_is_made_where_java_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAKE, str(tmp_path)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (cache,) = tmp_path.glob("share/sheaf/java-*/spark-*.aot")
    assert f"-XX:AOTCache={cache}" in done.stdout
    assert cache.stat().st_size > 50_000_000
