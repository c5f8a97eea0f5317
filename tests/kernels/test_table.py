"""All backends of a kernel are called alike."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import kernels
from kernels.references import REFERENCES
from kernels.registry import KERNELS, kernel


@pytest.mark.parametrize("name", KERNELS)
def test_the_backends_of_a_kernel_have_one_signature(name):
    backends = [kernel(name, backend) for backend in KERNELS[name]]
    assert "numba" in KERNELS[name]
    assert len({inspect.signature(each) for each in (*backends, REFERENCES[name])}) == 1


def test_every_reference_is_of_a_kernel():
    assert REFERENCES.keys() == KERNELS.keys()


def test_what_runs_loads_no_reference():
    code = (
        "import sys, engines.local.run; print(*(m for m in sys.modules if m.startswith('kernels')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "kernels.registry" in done.stdout
    assert "reference" not in done.stdout


def test_every_kernel_on_opencl_stands_in_the_table():
    there = {path.parent.name for path in Path(kernels.__file__).parent.glob("*/opencl.py")}
    functions = [backends["opencl"] for backends in KERNELS.values() if "opencl" in backends]
    assert {function.__module__.split(".")[1] for function in functions} == there


def test_an_opencl_backend_is_given_its_device(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "kernels.registry.KERNELS", {"any": {"opencl": lambda *given: seen.append(given)}}
    )
    kernel("any", "opencl", "a device")(1, 2)
    assert seen == [("a device", 1, 2)]
