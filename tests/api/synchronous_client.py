"""Writes the client that waits from the one that awaits, run by `python -m` and this name."""

import subprocess
import sys
import tempfile
from pathlib import Path

from unasync import Rule, unasync_files

CLIENT = Path(__file__).parents[2] / "api" / "client"
HEAD = '"""The client for programs that wait for each answer; unasync writes it from the other."""'
WORDS = {
    "AsyncClient": "Client",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "aiter_lines": "iter_lines",
    "aread": "read",
    "asyncio": "time",
}


def written() -> str:
    """The module `api.client.synchronous`, as it follows from `asynchronous`."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "awaits", "synchronous.py")
        source.parent.mkdir()
        source.write_bytes((CLIENT / "asynchronous.py").read_bytes())
        unasync_files([str(source)], [Rule("/awaits/", "/waits/", WORDS)])
        text = Path(folder, "waits", "synchronous.py").read_text()
    _, _, body = text.partition('"""\n')
    text = HEAD + "\n" + body
    named = ["--stdin-filename", str(CLIENT / "synchronous.py"), "-"]
    # Two imports have become the same, and loops can be shorter than those that await.
    for command in (["check", "--fix-only", "--unsafe-fixes", "--quiet"], ["format", "--quiet"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *named],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


if __name__ == "__main__":
    (CLIENT / "synchronous.py").write_text(written())
