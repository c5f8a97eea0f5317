"""`./sheaf`: when it sets up, when it does not, and what an interruption leaves.

The interpreter it finds is a stand-in that notes what it is asked to install.
"""

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

STAND_IN = f"""#!/bin/sh
case " $* " in
  *" -m venv "*)
    for last do :; done
    mkdir -p "$last/bin" && cp "$0" "$last/bin/python"
    ;;
  *" -m api.setup "*) echo startup >>"$CALLS" ;;
  *" -m pip "*)
    for last do :; done
    echo "$last" >>"$CALLS"
    [ ! -e "$CALLS.broken" ] || {{ echo "no such package"; exit 1; }}
    ticks=0
    while [ -e "$CALLS.slow" ] && [ $ticks -lt 600 ]; do sleep 0.1; ticks=$((ticks + 1)); done
    venv=$(dirname "$(dirname "$0")")
    case " $* " in
      *" --editable "*)
        printf '#!/bin/sh\\nprintf "<%%s>" "$@"\\n' >"$venv/bin/sheaf"
        chmod +x "$venv/bin/sheaf"
        ;;
    esac
    ;;
  *) exec {shlex.quote(sys.executable)} "$@" ;;
esac
"""


class Checkout:
    """A folder with the wrapper and what it reads, and the stand-in on PATH."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "a checkout"
        self.folder.mkdir(parents=True)
        shutil.copy(ROOT / "sheaf", self.folder)
        (self.folder / "requirements.lock").write_text(
            "one==1 \\\n    --hash=sha256:1\nsetuptools==2 \\\n    --hash=sha256:2\nzwei==3\n"
        )
        (self.folder / "pyproject.toml").write_text("[project]\n")
        tools = place / "tools"
        tools.mkdir()
        (tools / "python3.12").write_text(STAND_IN)
        (tools / "python3.12").chmod(0o755)
        self.calls = place / "calls"
        self.environment = {
            "PATH": f"{tools}:/usr/bin:/bin",
            "CALLS": str(self.calls),
            "SHEAF_PYTHON": "python3.12",
        }

    def start(self, *arguments: str, by: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [by or self.folder / "sheaf", *arguments],
            env=self.environment,
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, by: Path | None = None) -> tuple[int, str, str]:
        process = self.start(*arguments, by=by)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def installed(self) -> list[str]:
        """What was installed and prepared so far: the last argument of each such call."""
        return [Path(line).name for line in self.calls.read_text().splitlines()]


ALL = ["build.lock", "requirements.lock", "a checkout", "startup"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def is_unlocked(folder: Path) -> bool:
    """Whether no set-up holds the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_first_use_sets_up_and_the_second_starts_at_once(checkout: Checkout) -> None:
    code, out, err = checkout.run("plan", "two words", "")
    assert (code, out) == (0, "<plan><two words><>")
    assert "first use" in err
    assert checkout.installed() == ALL
    assert checkout.run("plan") == (0, "<plan>", "")
    assert checkout.installed() == ALL


def test_it_runs_through_symlinks(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "relative").symlink_to("../a checkout/sheaf")
    (tmp_path / "absolute").symlink_to(tmp_path / "bin" / "relative")
    assert checkout.run("check", by=tmp_path / "absolute")[:2] == (0, "<check>")
    assert (checkout.folder / ".venv").is_dir()


def test_a_changed_lock_sets_up_afresh(checkout: Checkout) -> None:
    checkout.run()
    (checkout.folder / ".venv" / "old").write_text("")
    with (checkout.folder / "requirements.lock").open("a") as lock:
        lock.write("four==4\n")
    assert checkout.run("plan")[:2] == (0, "<plan>")
    assert checkout.installed() == ALL * 2
    assert not (checkout.folder / ".venv" / "old").exists()


def test_a_changed_project_file_installs_the_project_and_prepares_it(checkout: Checkout) -> None:
    checkout.run()
    (checkout.folder / "pyproject.toml").write_text("[project]\nname = 'sheaf'\n")
    assert checkout.run("plan")[:2] == (0, "<plan>")
    assert checkout.installed() == [*ALL, "a checkout", "startup"]


def test_a_folder_that_was_moved_is_set_up_afresh(checkout: Checkout, tmp_path: Path) -> None:
    checkout.run()
    checkout.folder = checkout.folder.rename(tmp_path / "moved")
    assert checkout.run("plan")[:2] == (0, "<plan>")
    assert len(checkout.installed()) == 2 * len(ALL)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_set_up_is_done_again_from_the_start(
    checkout: Checkout, how: signal.Signals
) -> None:
    slow = Path(f"{checkout.calls}.slow")
    slow.write_text("")
    process = checkout.start("plan")
    wait_until(checkout.calls.exists)
    process.send_signal(how)
    if how is signal.SIGKILL:
        process.wait(timeout=30)
    else:
        _, err = process.communicate(timeout=30)
        assert "set-up interrupted" in err
        wait_until(lambda: is_unlocked(checkout.folder))  # the step that was running has ended
    assert process.returncode != 0
    slow.unlink()
    process.communicate(timeout=30)
    checkout.calls.unlink()
    assert checkout.run("plan")[:2] == (0, "<plan>")
    assert checkout.installed() == ALL


def test_two_first_uses_at_once_set_up_once(checkout: Checkout) -> None:
    slow = Path(f"{checkout.calls}.slow")
    slow.write_text("")
    first = checkout.start("one")
    wait_until(checkout.calls.exists)
    second = checkout.start("two")
    assert second.stderr is not None
    assert "another set-up" in second.stderr.readline()
    slow.unlink()
    assert first.communicate(timeout=60)[0] == "<one>"
    assert second.communicate(timeout=60)[0] == "<two>"
    assert checkout.installed() == ALL


def test_a_failed_set_up_shows_the_log_and_is_tried_again(checkout: Checkout) -> None:
    broken = Path(f"{checkout.calls}.broken")
    broken.write_text("")
    code, out, err = checkout.run("plan")
    assert (code, out) == (1, "")
    assert "no such package" in err
    assert "set-up failed" in err
    broken.unlink()
    assert checkout.run("plan")[:2] == (0, "<plan>")


def test_only_hashed_packages_build_spark(checkout: Checkout) -> None:
    kept = checkout.calls.with_name("kept")
    keep = f'[ ! -f "$last" ] || cat "$last" >>"{kept}"; echo "$last"'
    stand_in = Path(checkout.environment["PATH"].split(":")[0], "python3.12")
    stand_in.write_text(STAND_IN.replace('echo "$last"', keep))
    checkout.run()
    lock = (checkout.folder / "requirements.lock").read_text()
    assert kept.read_text() == "setuptools==2 \\\n    --hash=sha256:2\n" + lock


def test_a_python_that_does_not_fit_is_named_with_what_would(checkout: Checkout) -> None:
    old = Path(checkout.environment["PATH"].split(":")[0], "old")
    old.write_text('#!/bin/sh\necho "Python 3.9.2"\n')
    old.chmod(0o755)
    checkout.environment["SHEAF_PYTHON"] = "old"
    code, _, err = checkout.run()
    assert code == 1
    assert "3.11, 3.12 or 3.13" in err
    assert f"{old} is Python 3.9.2" in err


def test_without_any_python_it_says_so(checkout: Checkout) -> None:
    checkout.environment["SHEAF_PYTHON"] = "python-of-nowhere"
    code, _, err = checkout.run()
    assert code == 1
    assert "Found: none." in err


def test_the_lock_of_this_checkout_names_setuptools_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "\nsetuptools==" in lock
    assert os.access(ROOT / "sheaf", os.X_OK)
