"""All backends of a kernel are called alike."""

import inspect

import pytest

from kernels.table import KERNELS


@pytest.mark.parametrize("name", KERNELS)
def test_the_backends_of_a_kernel_have_one_signature(name):
    backends = KERNELS[name]
    assert {"numba", "python"} <= backends.keys()
    signatures = {inspect.signature(function) for function in backends.values()}
    assert len(signatures) == 1
