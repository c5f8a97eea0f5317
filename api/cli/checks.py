"""`sheaf test`: the linters, the type checker and the tests of a source checkout."""

import subprocess
import sys
from pathlib import Path

import typer

ROOT = Path(__file__).resolve().parents[2]

# What runs before the tests, quickest first; a failure does not keep the rest from running.
LINTERS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy",),
)

# The whole suite runs in several processes; a few tests are sooner done in one. What hangs in
# compiled code, which no time limit of a test interrupts, ends its process.
PARALLEL = (
    *("-n", "auto", "--maxprocesses", "4", "--dist", "loadgroup", "--durations", "25"),
    *("-o", "faulthandler_timeout=1300", "-o", "faulthandler_exit_on_timeout=true"),
)

# Lets everything after `test` through to pytest.
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def test(context: typer.Context) -> None:
    """Run linters, type checker and tests.

    With arguments, only pytest, with these arguments.
    """
    if not (ROOT / "tests").is_dir():
        typer.echo(f"sheaf test needs a source checkout; {ROOT} has no tests folder.", err=True)
        raise typer.Exit(2)
    raise typer.Exit(run_checks(context.args))


def run_checks(arguments: list[str]) -> int:
    """Run the checks one after the other and return the worst of their exit codes."""
    linted = {} if arguments else {" ".join(linter): _run(linter) for linter in LINTERS}
    tested = _run(("pytest", *(arguments or PARALLEL)))
    if failed := [name for name, code in linted.items() if code]:
        typer.echo(f"Also failed, see above: {', '.join(failed)}", err=True)
    return max(tested, *linted.values(), 0)


def _run(command: tuple[str, ...]) -> int:
    """Run a Python tool in the checkout; one that was killed counts as failed too."""
    print("==>", *command, flush=True)
    code = subprocess.run([sys.executable, "-m", *command], cwd=ROOT).returncode
    return code if code >= 0 else 128 - code
