"""Where compiled kernels are kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import compiled_cache
from kernels.compiled_cache import SETTING, use_own_folder


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Source that this user may not write to; by a pretence, since the superuser may always."""
    source = tmp_path / "source"
    (source / "product").mkdir(parents=True)
    may = os.access
    monkeypatch.setattr(
        compiled_cache.os,  # type: ignore[attr-defined]
        "access",
        lambda path, mode: not Path(path).is_relative_to(source) and may(path, mode),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(compiled_cache.tempfile, "tempdir", None)  # type: ignore[attr-defined]
    monkeypatch.setenv(SETTING, "")
    return source


def test_who_may_write_beside_the_source_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "")
    use_own_folder(tmp_path)
    assert not os.environ[SETTING]


def test_others_have_a_folder_of_their_own(read_only: Path, tmp_path: Path) -> None:
    use_own_folder(read_only)
    folder = tmp_path / "cache" / "sheaf" / "kernels"
    assert os.environ[SETTING] == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_setting_wins(read_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "elsewhere")
    use_own_folder(read_only)
    assert os.environ[SETTING] == "elsewhere"


def test_a_folder_that_others_can_write_to_is_not_taken(read_only: Path, tmp_path: Path) -> None:
    open_to_all = tmp_path / "cache" / "sheaf" / "kernels"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    use_own_folder(read_only)
    assert os.environ[SETTING] == str(tmp_path / f"sheaf-kernels-{os.getuid()}")


KERNEL = """
import kernels, numba, numpy as np

@numba.njit(cache=True)
def middle(values):
    return np.sort(values)[values.size // 2]
"""
CALLER = """
import called, numba, numpy as np

@numba.njit
def doubled(values):
    return 2 * called.middle(values)

values = np.array([5, 1, 3])
print(called.middle(values), doubled(values), len(called.middle.stats.cache_hits))
"""


def test_what_is_compiled_may_call_what_was_loaded(tmp_path: Path) -> None:
    """The loaded kernel's LLVM code is read then, which loading it left unread."""
    (tmp_path / "called.py").write_text(KERNEL)
    places = os.pathsep.join([str(tmp_path), *sys.path])
    said = [
        subprocess.run(
            [sys.executable, "-c", CALLER],
            env=os.environ | {SETTING: str(tmp_path), "PYTHONPATH": places},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert said == ["3 6 0\n", "3 6 1\n"]  # compiled, then loaded
