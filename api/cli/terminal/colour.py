"""Colour for texts that people read on a terminal; `NO_COLOR` switches it off."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

import typer


def is_coloured(err: bool = False) -> bool:
    """Whether a text to standard output, or to standard error, is to have colours."""
    return (sys.stderr if err else sys.stdout).isatty() and not _is_off()


def _is_off() -> bool:
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def echo_error(text: str) -> None:
    """An error, or several, to standard error."""
    typer.echo(diagnostics(text) if is_coloured(err=True) else text, err=True)


def diagnostics(text: str) -> str:
    """Errors as `check` says them: message, place, line with carets, help."""
    return _by_line(text, _diagnostic)


def plan_text(text: str) -> str:
    """A plan's text for a terminal: headings, costs, and the tree of what runs."""
    return text if _is_off() else _by_line(text, _plan_line)


def _by_line(text: str, coloured: Callable[[str], str]) -> str:
    return "\n".join(coloured(line) for line in text.split("\n"))


def _diagnostic(line: str) -> str:
    if line.startswith(("error:", "warning:", "note:")):
        word, colon, rest = line.partition(":")
        tone = "red" if word == "error" else "yellow"
        return typer.style(word + colon, fg=tone, bold=True) + typer.style(rest, bold=True)
    if line.lstrip().startswith("-->"):
        return typer.style(line, fg="cyan")
    if (found := re.fullmatch(r"(\s*\|\s*)(\^+)", line)) is not None:
        return found[1] + typer.style(found[2], fg="red", bold=True)
    if (found := re.fullmatch(r"(\s*help:)(.*)", line)) is not None:
        return typer.style(found[1], fg="green") + found[2]
    return line


def _plan_line(line: str) -> str:
    if (found := re.fullmatch(r"(plan-[0-9a-f]+)(:.*)", line)) is not None:
        return typer.style(found[1], fg="cyan", bold=True) + typer.style(found[2], bold=True)
    if (found := re.fullmatch(r"([a-z]+)(\s{2,}\S.*)", line)) is not None:  # cost, sharing, …
        return typer.style(found[1], bold=True) + found[2]
    if line and not line[0].isspace():  # a heading, whose lines follow
        return typer.style(line, bold=True)
    if (found := re.fullmatch(r"([^│├└]*?)([│├└─\s]*[├└]─ )(.*)", line)) is not None:
        return found[1] + typer.style(found[2], dim=True) + _operator(found[3])
    if (found := re.fullmatch(r"(  )([\w\"](?:[\w\"+,]| (?! ))*)(: .*)", line)) is not None:
        return found[1] + typer.style(found[2], fg="cyan") + found[3]
    return line


def _operator(text: str) -> str:
    """An operator of the tree: the name of its query stands out."""
    if (found := re.fullmatch(r"(\S+)(  .*|: (?:SEQ|AND|OR)\(.*)", text)) is not None:
        return typer.style(found[1], fg="cyan") + found[2]
    return text
