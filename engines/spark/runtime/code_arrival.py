"""Sheaf's code where a cluster's worker finds it: unpacked once for each machine and version.

This file travels as the module `sheaf_arrival` in an archive that Spark puts on the path of Python
workers, and imports nothing of ours. Packages of that archive call `unpacked`: they are then read
from a folder that stays, so that compiled kernels stay with them from job to job.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

CODE = "sheaf_code/"


def unpacked(archive: str, digest: str) -> str:
    """The folder with the packages of an archive, made unless it is there.

    Any number of processes may do so at once: each makes its own copy and the first rename wins.
    """
    parent = Path(tempfile.gettempdir())
    folder = parent / f"sheaf-code-{os.getuid()}-{digest}"
    if not folder.is_dir():
        draft = Path(tempfile.mkdtemp(prefix=".sheaf-code-", dir=parent))
        try:
            with zipfile.ZipFile(archive) as packed:
                for name in packed.namelist():
                    if name.startswith(CODE):
                        packed.extract(name, draft)
            try:
                (draft / CODE).rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    # Anyone may make folders there, and what is in this one will be run.
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; remove it, or set TMPDIR")
    return str(folder)
