"""Databases to test on: a file of SQLite, and a PostgreSQL server of the tests' own."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_numbers = itertools.count(1)


def server_programs() -> Path | None:
    """The folder with PostgreSQL's `initdb` and `postgres`, which Debian keeps off PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


@contextmanager
def postgresql() -> Iterator[Callable[[], str] | None]:
    """A server that listens on a socket alone; gives what makes an empty database, or None."""
    programs = server_programs()
    if programs is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="sheaf-postgresql-"))
    user = None
    if os.getuid() == 0:  # as whom the server refuses to run
        user = "postgres" if "postgres" in {u.pw_name for u in pwd.getpwall()} else "nobody"
        shutil.chown(folder, user)
    data, log = folder / "data", folder / "log"
    try:
        common = {"user": user, "cwd": folder}
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "sheaf", "-A", "trust", "-N", "-E", "UTF8"],
            stdout=subprocess.DEVNULL,
            check=True,
            **common,
        )
        control = [programs / "pg_ctl", "-D", data, "-l", log, "-w", "-s"]
        subprocess.run([*control, "-o", f"-k {folder} -h '' -F", "start"], check=True, **common)
        try:
            yield lambda: _new_database(folder)
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, **common)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _new_database(folder: Path) -> str:
    import psycopg

    name = f"test{next(_numbers)}"
    with psycopg.connect(host=str(folder), user="sheaf", dbname="postgres", autocommit=True) as c:
        c.execute(f"CREATE DATABASE {name}")
    return f"postgresql://sheaf@/{name}?host={folder}"
