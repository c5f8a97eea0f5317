"""Set-up compiles what engines call: no run waits for a compiler."""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

from api import setup
from engines.input.event_table import from_table
from engines.spark.stream.checkpoint import last_batch
from tests import strategies
from tests.differential.test_counting import table_of
from tests.running import How, run_local


def compiled_functions():
    """All compiled functions of kernels that are loaded, by name."""
    return {
        f"{name}.{key}": found
        for name, module in list(sys.modules.items())
        if name.startswith("kernels")
        for key, found in vars(module).items()
        if isinstance(found, Dispatcher) and found.py_func.__module__ == name
    }


def signatures():
    return {name: list(map(str, f.signatures)) for name, f in compiled_functions().items()}


class Signatures(dict):
    """Of each compiled function; too long to be printed."""

    __repr__ = object.__repr__


@pytest.fixture(scope="module")
def prepared():
    """What there is after set-up."""
    setup.compile_kernels()
    return Signatures(signatures())


def test_set_up_meets_no_error(capfd):
    setup.compile_kernels()
    assert "Traceback" not in capfd.readouterr().err


def test_every_module_of_kernels_is_compiled(prepared):
    modules = [module.__name__ for module in setup.kernel_modules()]
    assert "kernels.chopconnect.cpu" in modules
    unused = [
        module
        for module in modules
        if not any(found for name, found in prepared.items() if name.startswith(f"{module}."))
    ]
    assert unused == []


@pytest.mark.parametrize(
    "how",
    [How(), How(sharing=False), How(counting=False), How(detection="stepwise", counting=False)],
    ids=["planned", "unshared", "constructed", "stepwise"],
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    strategies.workloads(max_queries=3).flatmap(
        lambda found: st.tuples(
            st.just(found),
            strategies.event_rows(sequence=strategies.has_sequence(found), max_size=12),
        )
    )
)
def test_runs_compile_nothing(prepared, how, case):
    workload, rows = case
    table = table_of(rows, strategies.has_sequence(workload))
    run_local(workload, from_table(table, workload.stream), how=how)
    found = signatures()
    new = {name: kinds for name, kinds in found.items() if kinds != prepared.get(name, [])}
    assert new == {}, new


def test_what_was_compiled_is_forgotten(tmp_path):
    cache = tmp_path / "product" / "__pycache__"
    cache.mkdir(parents=True)
    for name in ("cpu.slide-1.py311.nbi", "cpu.slide-1.py311.1.nbc", "cpu.cpython-311.pyc"):
        (cache / name).touch()
    setup.forget_kernels(tmp_path)
    assert [path.name for path in cache.iterdir()] == ["cpu.cpython-311.pyc"]


def test_the_stream_that_set_up_runs_gives_rows_and_goes_on(spark, tmp_path):
    setup.run_stream(spark, tmp_path)
    batches = {file.name[:9] for file in (tmp_path / "out").rglob("*.parquet")}
    assert len(batches) > 1
    assert last_batch(str(tmp_path / "checkpoint")) > 2
    for kind in ("aggregates", "matches"):
        assert any((tmp_path / "out" / kind).iterdir())
