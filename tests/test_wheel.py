"""The wheel: one package, which runs by itself and takes no other project's names."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from hatch_build import PACKAGES, moved

ROOT = Path(__file__).parents[1]

WORKLOAD = {
    "name": "cards",
    "stream": {"time": "ts", "unit": "s", "type": "kind"},
    "queries": [
        "QUERY pairs PATTERN SEQ(A a, B b) RETURN a.x, b.x WITHIN 10 s",
        "QUERY texts PATTERN A a WHERE a.name CONTAINS 'o' RETURN a.x WITHIN 10 s",
    ],
}
EVENTS = [
    {"ts": 1, "kind": "A", "x": 1, "name": "foo"},
    {"ts": 2, "kind": "B", "x": 2, "name": "bar"},
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with nothing of ours but the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def python(installed: Path, *arguments: str) -> str:
    """What Python says, with what the wheel depends on but without this tree."""
    path = os.pathsep.join((str(installed), sysconfig.get_path("purelib")))
    done = subprocess.run(
        [sys.executable, "-P", "-S", *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, "HOME": str(installed.parent)},
        cwd=installed.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_has_one_package_and_its_command(installed: Path) -> None:
    names = {path.name for path in installed.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"sheaf"}
    (entry_points,) = installed.glob("*.dist-info/entry_points.txt")
    assert "sheaf = sheaf.api.cli.entry_point:main" in entry_points.read_text()
    for package in PACKAGES:
        assert (installed / "sheaf" / package / "__init__.py").is_file()
    assert (installed / "sheaf/workloads/grammar.lark").is_file()


@pytest.mark.slow
def test_it_runs_without_the_tree(installed: Path) -> None:
    folder = installed.parent
    (folder / "w.json").write_text(json.dumps(WORKLOAD))
    (folder / "e.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    run = ["run", str(folder / "w.json"), "--events", str(folder / "e.jsonl")]
    command = (
        "import sys; from sheaf.api.cli.entry_point import main; sys.argv[0] = 'sheaf'; main()"
    )
    python(installed, "-c", command, *run, "--out", str(folder / "o.jsonl"))
    rows = [json.loads(line) for line in (folder / "o.jsonl").read_text().splitlines()]
    assert [(row["query"], row["match"]) for row in rows] == [
        ("pairs", {"a": {"x": 1}, "b": {"x": 2}}),
        ("texts", {"a": {"x": 1}}),
    ]
    ours = (
        "import sys, sheaf; sheaf.load('shop').plan(); sheaf.Client; "
        f"print([name for name in sys.modules if name.partition('.')[0] in {PACKAGES!r}])"
    )
    assert python(installed, "-c", ours) == "[]\n"


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_it_is_installed_in_an_empty_environment_and_shows_itself(tmp_path: Path) -> None:
    """With what it depends on from the package index, in a folder with nothing of ours."""
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    venv.create(tmp_path / "env", with_pip=True)
    programs, folder = tmp_path / "env" / "bin", tmp_path / "elsewhere"
    folder.mkdir()
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "COLUMNS": "120",
    } | {name: value for name, value in os.environ.items() if "proxy" in name.lower()}

    def typed(*command: str) -> str:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        if command[0] == "pip" and done.returncode != 0 and "No matching" in done.stderr:
            pytest.skip("the package index cannot be reached")
        assert done.returncode == 0, done.stderr
        return done.stdout

    typed("pip", "install", "--quiet", built)
    shown = typed("sheaf", "demo", "--events", "2000")
    assert "rows of results" in shown
    assert "the same" in shown  # of the live stream
    _, _, then = shown.partition("Read on")
    assert "./sheaf" not in then
    assert "docs/" not in then
    command = next(line for line in then.splitlines() if "sheaf plan" in line).split(" > ")[0]
    assert typed(*command.split()).startswith("<svg")


def test_what_is_imported_and_named_moves() -> None:
    modules = {"api", "api.cli", "kernels"}
    assert moved("from api.cli import x\n", modules) == "from sheaf.api.cli import x\n"
    assert moved("import kernels\n", modules) == "import sheaf.kernels as kernels\n"
    assert moved("import api.cli as c, json\n", modules) == "import sheaf.api.cli as c, json\n"
    assert moved("X = ('ü', 'api.cli', 'api')\n", modules) == "X = ('ü', 'sheaf.api.cli', 'api')\n"
    assert moved("from apifox import x\n", modules) == "from apifox import x\n"
