"""The temporary folder of a process."""

import signal
import subprocess
import sys
from pathlib import Path

HOLD = """
from engines.spark.runtime.scratch import scratch_folder
folder = scratch_folder(lambda: print("closing", flush=True))
(folder / "inner").mkdir()
print(folder, flush=True)
input()
"""


def hold(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a scratch folder under `parent` and waits for a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={"TMPDIR": str(parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_is_removed_at_exit_after_the_callback(tmp_path: Path) -> None:
    process, folder = hold(tmp_path)
    assert folder.parent == tmp_path
    assert folder.is_dir()
    output, _ = process.communicate("\n", timeout=30)
    assert output == "closing\n"
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    killed, left = hold(tmp_path)
    living, kept = hold(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    assert left.is_dir()
    last, own = hold(tmp_path)
    assert set(tmp_path.iterdir()) == {kept, own}
    for process in (living, last):
        process.communicate("\n", timeout=30)
