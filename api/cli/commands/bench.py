"""`sheaf bench`: the benchmarks of a source checkout."""

from __future__ import annotations

import os
import subprocess
import sys

import typer

from api.cli import checks

# Lets everything after `bench` through to the benchmarks.
PASS_ON = checks.PASS_ON


def bench(context: typer.Context) -> None:
    """Measure what is faster than what.

    `bench --help` names the benchmarks of a checkout.
    """
    root = checks.ROOT
    if not (root / "tests" / "benchmarks").is_dir():
        typer.echo(
            f"sheaf bench needs a source checkout; {root} has no tests/benchmarks folder.", err=True
        )
        raise typer.Exit(2)
    command = [sys.executable, "-P", "-m", "tests.benchmarks", "bench", *context.args]
    # Paths among the arguments are relative to where the command was called.
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(root)}, check=False)
    raise typer.Exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
