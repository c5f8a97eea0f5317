"""Unit costs as `sheaf calibrate` keeps them for this machine, and the defaults where it did not.

They are in the user's cache, in a file whose name says for which machine and versions they hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

from optimizer.cost.unit_costs import DEFAULTS, UnitCosts, UnitCostsError
from workloads.errors import SheafError


class CalibrationError(SheafError):
    """Costs that could not be measured or kept."""


@cache
def machine() -> str:
    """What costs depend on: the system, the processor, and the versions that compile kernels."""
    parts = [
        platform.system(),
        platform.machine(),
        _processor(),
        f"python {platform.python_version()}",
        f"numba {version('numba')}",
        f"sheaf {version('sheaf')}",
    ]
    return ", ".join(part for part in parts if part)


def _processor() -> str:
    """The processor's model, where the system tells."""
    with contextlib.suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def cache_file() -> Path | None:
    """Where this machine's unit costs are kept; None for a user who has no place for them.

    `SHEAF_CACHE` names the folder, else it is the user's cache.
    """
    name = re.sub(r"[^a-z0-9.]+", "-", machine().lower()).strip("-")
    if folder := os.environ.get("SHEAF_CACHE"):
        return Path(folder, f"calibration-{name}.json")
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder, "sheaf", f"calibration-{name}.json")
    with contextlib.suppress(RuntimeError):  # a user without a home
        return Path.home() / ".cache" / "sheaf" / f"calibration-{name}.json"
    return None


def save(unit_costs: UnitCosts) -> Path:
    """Keep unit costs for this machine; a reader finds the old file or the new one, no part."""
    path = cache_file()
    if path is None:
        raise CalibrationError("there is no place for the costs; set SHEAF_CACHE to a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".calibration-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(unit_costs.to_document(), file, indent=1)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return path


def known() -> UnitCosts:
    """What operations take here: as calibrated, else the defaults; `is_default` tells which."""
    path = cache_file()
    if path is None:
        return DEFAULTS
    try:
        return UnitCosts.from_document(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, UnitCostsError):
        return DEFAULTS  # no file, or one of another version: the next calibration replaces it
