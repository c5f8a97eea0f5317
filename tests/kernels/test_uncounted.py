"""Kernels that count no references compile by themselves, whatever was compiled before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["kernels.reversible.cpu"])
def test_it_compiles_where_nothing_has_been(module: str, tmp_path: Path) -> None:
    code = f"from {module} import warm; warm()"
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=fresh, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(tmp_path.rglob("*.nbi"))
