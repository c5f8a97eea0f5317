"""Outcomes of tests as JUnit XML, which systems for continuous integration show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from api.rule_tests.run_tests import TestOutcome

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(workload: str, file: str | None, outcomes: Sequence[TestOutcome]) -> bytes:
    """A suite for the workload, with a case for each of its tests."""
    numbers = {
        "tests": str(len(outcomes)),
        "failures": str(sum(outcome.status == "failed" for outcome in outcomes)),
        "errors": str(sum(outcome.status == "error" for outcome in outcomes)),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }
    suites = ElementTree.Element("testsuites", numbers)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _clean(workload), **numbers})
    for outcome in outcomes:
        about = {
            "classname": _clean(workload),
            "name": _clean(outcome.name),
            "time": f"{outcome.seconds:.3f}",
        }
        if file is not None:
            about["file"] = _clean(file)
        if outcome.line is not None:
            about["line"] = str(outcome.line)
        case = ElementTree.SubElement(suite, "testcase", about)
        if outcome.status != "passed":
            kind = "failure" if outcome.status == "failed" else "error"
            message = {"message": _clean(outcome.reasons[0].splitlines()[0])}
            said = ElementTree.SubElement(case, kind, message)
            said.text = _clean("\n".join(outcome.reasons))
    ElementTree.indent(suites)
    found: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return found + b"\n"


def write_junit(
    path: Path, workload: str, file: str | None, outcomes: Sequence[TestOutcome]
) -> None:
    """Write what `junit_xml` gives to a file."""
    path.write_bytes(junit_xml(workload, file, outcomes))


def _clean(text: str) -> str:
    """The text without characters that XML does not have."""
    return _NOT_XML.sub("\ufffd", text)
