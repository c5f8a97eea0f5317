"""The wheel's layout: one package, `sheaf`, with the folders of this tree inside it.

In the tree the folders stand side by side and import each other by their own names. Installed,
names such as `api` would collide with other projects', so that a wheel has `sheaf.api`, and imports
to match. An editable install, which is what `./sheaf` makes, leaves everything as it is.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("workloads", "optimizer", "sharing", "kernels", "engines", "api")


class WheelLayout(BuildHookInterface[Any]):
    """Puts the folders under one name, into a wheel that is not editable."""

    _draft: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._draft = Path(tempfile.mkdtemp(prefix="sheaf-wheel-"))
        lay_out(Path(self.root), self._draft)
        build_data["force_include"][str(self._draft)] = "sheaf"
        for name, place in self.metadata.core.scripts.items():
            self.metadata.core.scripts[name] = f"sheaf.{place}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._draft is not None:
            shutil.rmtree(self._draft)


def lay_out(root: Path, target: Path) -> None:
    """Write the package as it is installed."""
    modules = {_module(root, path) for path in _files(root) if path.suffix == ".py"}
    for path in _files(root):
        placed = target / path.relative_to(root)
        placed.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".py":
            placed.write_text(moved(path.read_text(encoding="utf-8"), modules), encoding="utf-8")
        else:
            shutil.copyfile(path, placed)
    (target / "sheaf.py").rename(target / "__init__.py")


def moved(source: str, modules: set[str]) -> str:
    """A module's source with `sheaf.` before every module of ours that it imports or names."""
    lines = source.splitlines(keepends=True)
    places = sorted(_places(ast.parse(source), lines, modules), reverse=True)
    for row, column, written in places:
        encoded = lines[row].encode()
        lines[row] = (encoded[:column] + written.encode() + encoded[column:]).decode()
    return "".join(lines)


def _places(tree: ast.AST, lines: list[str], modules: set[str]) -> Iterator[tuple[int, int, str]]:
    """Where something is to be written: row, byte in it, and what."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if module in modules:
                yield node.lineno - 1, node.col_offset + len("from "), "sheaf."
            case ast.Import(names=names):
                for name in names:
                    if name.name in modules:
                        yield name.lineno - 1, name.col_offset, "sheaf."
                        if "." not in name.name and name.asname is None:  # the name that is bound
                            assert name.end_col_offset is not None
                            yield name.lineno - 1, name.end_col_offset, f" as {name.name}"
            case ast.Constant(value=str(text)) if "." in text and text in modules:
                yield node.lineno - 1, node.col_offset + 1, "sheaf."
            case _:
                pass


def _files(root: Path) -> Iterator[Path]:
    yield root / "sheaf.py"
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _module(root: Path, path: Path) -> str:
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    return name.removesuffix(".__init__")
