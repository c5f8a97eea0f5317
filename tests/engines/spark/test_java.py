"""The Java home made from the wheel."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engines.spark.runtime import java
from engines.spark.runtime.java import JavaNotFoundError, java_home, make_java_home


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A JDK whose `java` prints its arguments, one to a line."""
    jdk = tmp_path / "a wheel's jdk"
    for folder in ("bin", "lib", "conf"):
        (jdk / folder).mkdir(parents=True)
    (jdk / "release").write_text('JAVA_VERSION="25"\n')
    (jdk / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (jdk / "bin" / "java").chmod(0o755)
    (jdk / "bin" / "jcmd").write_text("")
    return jdk


def run(home: Path, *arguments: str) -> str:
    command = [str(home / "bin" / "java"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_launcher_drops_what_the_wheel_cannot_take_and_keeps_the_rest(
    wheel: Path, tmp_path: Path
) -> None:
    home = make_java_home(wheel, tmp_path / "made")
    given = ["-Xmx1g", java.UNWANTED[0], "-Da=two words", java.UNWANTED[1], "", "*", "$HOME"]
    assert run(home, *given).split("\n")[:-1] == ["-Xmx1g", "-Da=two words", "", "*", "$HOME"]


def test_the_rest_of_the_jdk_is_linked(wheel: Path, tmp_path: Path) -> None:
    home = make_java_home(wheel, tmp_path / "made")
    for name in ("lib", "conf", "release", "bin/jcmd"):
        assert (home / name).resolve() == (wheel / name).resolve()


def test_a_home_is_made_once(wheel: Path, tmp_path: Path) -> None:
    home = make_java_home(wheel, tmp_path / "made")
    (home / "kept").write_text("")
    assert make_java_home(wheel, tmp_path / "made") == home
    assert (home / "kept").exists()


def test_many_at_once_make_one_home_and_leave_nothing_else(wheel: Path, tmp_path: Path) -> None:
    made: list[Path] = []
    together = threading.Barrier(8)

    def make() -> None:
        together.wait()
        made.append(make_java_home(wheel, tmp_path / "made"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert list((tmp_path / "made").iterdir()) == [made[0]]
    assert run(made[0], "-version") == "-version\n"


def test_a_jdk_that_has_moved_gets_a_home_of_its_own(wheel: Path, tmp_path: Path) -> None:
    first = make_java_home(wheel, tmp_path / "made")
    moved = wheel.rename(tmp_path / "moved")
    second = make_java_home(moved, tmp_path / "made")
    assert second != first
    assert run(second, "-version") == "-version\n"


def test_where_the_packages_are_read_only_the_users_cache_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A file where a folder is needed fails for every user, root included.
    (tmp_path / "share").write_text("")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SHEAF_JAVA_HOME", raising=False)
    assert java_home().parent == tmp_path / "cache" / "sheaf"


def test_without_a_writable_folder_the_error_says_where_it_tried_and_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(java, "_places", lambda: [tmp_path / "file" / "sheaf"])
    monkeypatch.delenv("SHEAF_JAVA_HOME", raising=False)
    with pytest.raises(JavaNotFoundError, match=r"file/sheaf.*\n.*SHEAF_JAVA_HOME"):
        java_home()


def test_a_given_java_home_is_taken(
    monkeypatch: pytest.MonkeyPatch, wheel: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHEAF_JAVA_HOME", str(wheel))
    assert java_home() == wheel


def test_a_given_java_home_without_java_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHEAF_JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match="no executable bin/java"):
        java_home()


def test_the_bundled_java_starts_with_the_arguments_spark_passes() -> None:
    command = [str(java_home() / "bin" / "java"), *java.UNWANTED, "-version"]
    environment = {"PATH": os.defpath}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert 'version "25' in done.stderr
