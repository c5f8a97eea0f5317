"""Commands load what they need, and no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from api.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("loaded:", *sorted(sys.modules))
"""


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    path = tmp_path_factory.mktemp("events") / "shop.parquet"
    loaded("generate", "shop", "--out", str(path), "--events", "500")
    return str(path)


def test_checking_a_workload_loads_no_arrays_and_no_engine() -> None:
    modules = loaded("check", "shop")
    assert not modules & {"numpy", "pyarrow", "numba", "pandas", "fastapi", "networkx", "ortools"}
    assert "pydantic" not in modules
    assert not [name for name in modules if name.startswith(("engines", "kernels", "sharing"))]


def test_a_local_run_loads_no_service_no_spark_and_no_pandas(events, tmp_path) -> None:
    modules = loaded("run", "shop", "--events", events, "--out", str(tmp_path / "rows.parquet"))
    assert "kernels.product.cpu" in modules
    assert not modules & {"pandas", "fastapi", "pyspark", "networkx", "ortools", "pyarrow.dataset"}
    assert not modules & {"pydantic", "numba.np.arraymath", "numba.cpython.unicode"}


def test_a_run_without_pandas_gives_the_rows_of_one_with_it(events, tmp_path) -> None:
    from api.cli.workload_files import open_workload
    from api.planning.plan_on_events import plan_on_events
    from engines.execution import EventSource, RowSink
    from engines.run import run

    out = {name: tmp_path / f"{name}.jsonl" for name in ("command", "module")}
    loaded("run", "shop", "--events", events, "--out", str(out["command"]))
    workload, _ = open_workload("shop")
    plan = plan_on_events(workload, events)
    run(plan, EventSource(events), RowSink(str(out["module"])))
    for kind in ("aggregates", "matches"):
        command, module = (path.with_suffix(f".{kind}.jsonl").read_text() for path in out.values())
        assert command == module
        assert command


ENDING = """
import atexit, sys, threading, time
from api.cli.quick_start import leave
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
atexit.register(print, "exit function")
print("text", end=" ")
leave(3)
"""


def test_a_process_that_leaves_at_once_has_ended_all_it_began() -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stdout == "text thread\nexit function\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--threads", "none"), "--threads"),
        (("--threads", "-1"), "--threads"),
        (("--match", "picture"), "--match"),
        (("--slice",), "--slice"),
    ],
)
def test_what_is_no_plain_value_is_refused_by_its_name(given, said) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "run", "shop", *given], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert said in done.stderr.splitlines()[-1] or said in done.stderr.partition("Traceback")[0]
