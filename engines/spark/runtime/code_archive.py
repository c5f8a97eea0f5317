"""Sheaf's code on its way to the workers of a cluster."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from engines.spark.runtime import code_arrival as arrival

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "sheaf." if __name__.startswith("sheaf.") else ""  # as a wheel has it, or the tree
PACKAGES = tuple(_PREFIX + name for name in ("workloads", "optimizer", "kernels", "engines"))
_ENDINGS = (".py", ".cl", ".lark", ".properties", ".sh", ".typed")
# What numba has compiled here: known by the sources' content, and taken by processors of the same
# kind only.
_COMPILED = (".nbi", ".nbc")

# Takes the place of a package's __init__ in the archive.
_STUB = """\
import sheaf_arrival as _arrival
__path__ = [_arrival.unpacked(__file__.split(".zip")[0] + ".zip", {digest!r}) + {package!r}]
"""


def ship(session: SparkSession, folder: Path) -> None:
    """Have the session's workers find our packages; `folder` keeps the archive."""
    archive = pack_code(folder)
    session.sparkContext.addPyFile(str(archive))


def pack_code(folder: Path) -> Path:
    """An archive of our packages, which unpacks itself where it arrives."""
    files = dict(_files())
    digest = hashlib.sha256()
    for name, path in files.items():
        if path.suffix not in _COMPILED:
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    short = digest.hexdigest()[:16]
    archive = folder / f"sheaf-{short}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(arrival.__file__, "sheaf_arrival.py")
        for package in dict.fromkeys(name.partition(".")[0] for name in PACKAGES):
            stub = _STUB.format(digest=short, package=f"/{package}")
            packed.writestr(f"{package}/__init__.py", stub)
        for name, path in files.items():
            packed.write(path, arrival.CODE + name)
    return archive


def _files() -> Iterator[tuple[str, Path]]:
    """Our files by their names in the archive, always in the same order."""
    for package in PACKAGES:
        found = import_module(package).__file__
        assert found is not None, f"{package} has no file"
        root = Path(found).parent
        for path in sorted(root.rglob("*")):
            if path.suffix in (*_ENDINGS, *_COMPILED):
                yield f"{package.replace('.', '/')}/{path.relative_to(root)}", path
