"""Databases to test on: a file of SQLite, and a PostgreSQL server of the tests' own."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
    """What makes an empty database on a server of our own; None where there is no PostgreSQL."""
    with postgresql_server() as server:
        yield None if server is None else server.new_database


@dataclass(frozen=True)
class PostgresqlServer:
    """A server that listens on a socket alone."""

    folder: Path
    control: list[str | Path]
    user: str | None

    def start(self) -> None:
        options = f"-k {self.folder} -h '' -F"
        subprocess.run(
            [*self.control, "-o", options, "start"], check=True, user=self.user, cwd=self.folder
        )

    def stop(self) -> None:
        command = [*self.control, "-m", "immediate", "stop"]
        subprocess.run(command, check=False, user=self.user, cwd=self.folder)

    def kill(self) -> None:
        """End it without a chance to clean up."""
        leader = (self.folder / "data" / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        for pid in (leader, *children):  # which would hold on to its memory
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        # Where nobody reaps it, the next server would take it for alive.
        for lock in (self.folder / "data" / "postmaster.pid", *self.folder.glob(".s.*.lock")):
            lock.unlink()

    def new_database(self) -> str:
        """The URL of an empty database."""
        return _new_database(self.folder)


@contextmanager
def postgresql_server() -> Iterator[PostgresqlServer | None]:
    """A server of our own, or None where there is no PostgreSQL."""
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
        server = PostgresqlServer(folder, control, user)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _new_database(folder: Path) -> str:
    import psycopg

    name = f"test{next(_numbers)}"
    with psycopg.connect(host=str(folder), user="sheaf", dbname="postgres", autocommit=True) as c:
        c.execute(f"CREATE DATABASE {name}")
    return f"postgresql://sheaf@/{name}?host={folder}"
