"""Which folder may import which, read from the import statements themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "kernels": set(),
    "workloads": set(),
    "optimizer": {"workloads"},
    "sharing": {"optimizer", "workloads"},
    "engines": {"optimizer", "kernels", "workloads"},
    "api": {"workloads", "optimizer", "sharing", "kernels", "engines"},
}


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every absolute import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name.split(".")[0]) for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield node.lineno, module.split(".")[0]
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield node.lineno, module.split(".")[0]


def violations(package: str, source: str) -> list[str]:
    """The imports of ours that a file of `package` must not have, with their lines."""
    forbidden = (ALLOWED.keys() | {"tests"}) - ALLOWED[package] - {package}
    return [
        f"line {line}: {package} must not import {name}"
        for line, name in imported(source)
        if name in forbidden
    ]


def test_every_import_follows_the_arrows() -> None:
    found = [
        f"{path.relative_to(ROOT)}, {violation}"
        for package in ALLOWED
        for path in sorted((ROOT / package).rglob("*.py"))
        for violation in violations(package, path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_nothing_imports_the_public_module() -> None:
    files = [path for package in ALLOWED for path in sorted((ROOT / package).rglob("*.py"))]
    assert [
        str(p) for p in files if any(name == "sheaf" for _, name in imported(p.read_text()))
    ] == []


def test_engines_are_registered_on_both_sides() -> None:
    from engines.counting.rows import RUNNERS
    from engines.matching.passes.run import RUNNERS as PASSES
    from optimizer.engines import COUNTING, PASSING

    assert {engine.NAME for engine in COUNTING} == RUNNERS.keys()
    assert {engine.NAME for engine in PASSING} == PASSES.keys()


def test_every_package_that_is_shipped_is_checked() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages == ALLOWED.keys()


def test_nothing_imports_api() -> None:
    assert not any("api" in allowed for allowed in ALLOWED.values())


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("kernels", "import workloads"),
        ("kernels", "from optimizer.ir import Seq"),
        ("workloads", "import json, optimizer.ir as ir"),
        ("optimizer", "def plan():\n    from sharing import mine\n"),
        ("sharing", "from kernels import count"),
        ("engines", "if TYPE_CHECKING:\n    import api.store\n"),
        ("engines", "from sharing.solvers.candidates import greedy"),
        ("optimizer", "import importlib\nimportlib.import_module('engines.local')"),
        ("api", "from tests.oracle import count"),
    ],
)
def test_a_violation_is_found(package: str, source: str) -> None:
    assert len(violations(package, source)) == 1


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("kernels", "import numpy\nfrom kernels.count import reference\nfrom . import count"),
        ("engines", "from optimizer.ir import Seq\nimport kernels, workloads.workload"),
        ("api", "import engines.spark.runtime.session"),
        ("optimizer", "text = 'import api'"),
    ],
)
def test_what_the_arrows_allow_is_not_a_violation(package: str, source: str) -> None:
    assert violations(package, source) == []
