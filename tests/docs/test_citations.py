"""What sources and pages cite is in the repository: pages, and their sections."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def sources() -> list[Path]:
    """The files of every package, and of the tests, in which pages are cited by their path."""
    packages = [path.parent for path in ROOT.glob("*/__init__.py")]
    found = (path for package in packages for path in sorted(package.rglob("*")))
    return [path for path in found if path.suffix in (".py", ".cl", ".lark", ".js")]


def anchors(page: str) -> set[str]:
    """The sections of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing(target: str, folder: Path) -> str | None:
    """What a citation such as `docs/design.md#spark` names and nobody finds."""
    name, _, section = target.partition("#")
    path = folder / name
    if not path.exists():
        return f"no {target}"
    if section and section not in anchors(path.read_text(encoding="utf-8")):
        return f"no section {target}"
    return None


def test_a_citation_of_nothing_is_found() -> None:
    assert missing("docs/design.md#the-cost-model", ROOT) is None
    assert missing("docs/design.md#no-such-section", ROOT) is not None
    assert missing("docs/nowhere.md", ROOT) is not None


def test_what_sources_cite_is_there() -> None:
    cited = [
        (path, target)
        for path in sources()
        if path != Path(__file__).resolve()
        for target in re.findall(r"\bdocs/[\w.-]+\.md(?:#[\w-]+)?", path.read_text("utf-8"))
    ]
    assert cited
    assert [f"{p}: {lost}" for p, target in cited if (lost := missing(target, ROOT))] == []


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            yield page.name + target if target.startswith("#") else target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_pages_link_to_is_there(page: Path) -> None:
    assert [lost for target in links(page) if (lost := missing(target, page.parent))] == []
