"""Workloads in editors: findings at their place, completion, hover, formatting, and the server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from api.editing.completion import completions, components, meaning_at
from api.editing.formatting import formatted
from api.editing.textmate import query_grammar, yaml_injection
from api.editing.workload_text import WorkloadText
from workloads import bundled, vocabulary

ROOT = Path(__file__).parents[3]
EDITORS = ROOT / "docs" / "editors"
HEAD = """name: cards
stream:
  time: ts
  type: kind
  types: {Reset: , Payment: , Big: "kind = 'Payment' AND amount > 500"}
  attributes:
    amount: float
    card: string
queries:
"""


def marked(text: str) -> tuple[WorkloadText, list[str]]:
    """A workload, and the characters that are marked as wrong."""
    workload = WorkloadText(HEAD + text)
    return workload, [workload.text[f.start : f.end] for f in workload.findings]


@pytest.mark.parametrize(
    ("queries", "wrong"),
    [
        ("  - |\n    QUERY q\n    PATTERN Paymnt p RETURN p WITHIN 1 min\n", "Paymnt p"),
        ("  - QUERY q PATTERN Payment p\n    RETURN p.amont WITHIN 1 min\n", "p.amont"),
        ("  - >\n    QUERY q\n    PATTERN Payment p\n    RETURN p.amont WITHIN 1 min\n", "p.amont"),
        (
            "  - 'QUERY q PATTERN Payment p WHERE p.card = ''''''x'' AND\n"
            "    p.amont > 1 RETURN p WITHIN 1 min'\n",
            "p.amont",
        ),
        (
            '  - "QUERY \\"q q\\" PATTERN Payment p\\n RETURN p.amont WITHIN 1 min"\n',
            "p.amont",
        ),
        ("  - {name: q, sql: 'SELEKT'}\n", "SELEKT"),
    ],
)
def test_a_finding_is_where_the_query_has_it_in_every_style(queries: str, wrong: str) -> None:
    workload, found = marked(queries)
    assert found == [wrong], workload.loaded[1]


def test_findings_of_the_document_are_at_their_place() -> None:
    assert marked("  - QUERY q PATTERN Reset r RETURN r WITHIN 1 min\nqeries: 1\n")[1] == ["qeries"]
    broken = WorkloadText("name: x\n\tstream: 1\n").findings
    assert [(f.start, f.hint) for f in broken] == [(8, "indent with spaces")]
    (missing,) = WorkloadText("queries: [QUERY q PATTERN A a RETURN a WITHIN 1 s]").findings
    assert "'stream' is missing" in missing.message


def test_rules_are_found_beside_the_file(tmp_path: Path) -> None:
    text = "stream: {time: ts}\nrules: [{eql: nosuch.eql}]\n"
    findings = WorkloadText(text, str(tmp_path / "w.yaml")).findings
    assert any(str(tmp_path) in f.message or "nosuch.eql" in f.message for f in findings)


def test_bundled_workloads_have_no_findings() -> None:
    for name in bundled.names():
        text = bundled.path(name).read_text(encoding="utf-8")
        workload = WorkloadText(text, str(bundled.path(name)))
        assert workload.findings == []
        assert len(workload.queries) > 3
        for query in workload.queries:  # each is found again in the file
            kept = text[query.start : query.end]
            assert kept.split() == query.text.split(), name


def offered(text: str, kind: str, events: str | None = None) -> list[str]:
    """What is completed where the text has a `^`."""
    offset = text.index("^")
    workload = WorkloadText(text.replace("^", "", 1), events=events)
    return [w.written for w in completions(workload, offset) if w.kind == kind]


def test_types_aliases_columns_and_words_are_completed(tmp_path: Path) -> None:
    query = "  - |\n    QUERY q\n    PATTERN SEQ(Reset r, Payment+ ps, !Big)\n    WHERE ^"
    assert offered(HEAD + query, "alias") == ["r", "ps"]
    assert offered(HEAD + query, "attribute") == ["amount", "card"]
    assert {"AND", "WITHIN", "RETURN"} <= set(offered(HEAD + query, "keyword"))
    assert "SUM" in offered(HEAD + query, "function")
    assert offered(HEAD + query.replace("^", "r.^"), "attribute") == ["amount", "card"]
    assert offered(HEAD + query.replace("^", "r.^"), "keyword") == []
    events = tmp_path / "e.csv"
    events.write_text("ts,kind,a b\n1,Reset,2\n")
    assert '"a b"' in offered(HEAD + query.replace("^", "r.^"), "attribute", str(events))
    pattern = "  - |\n    QUERY q\n    PATTERN SEQ(^"
    assert offered(HEAD + pattern, "type") == ["Reset", "Payment", "Big"]
    within = HEAD + "  - QUERY q PATTERN Reset r RETURN r WITHIN 5 ^"
    assert "min" in offered(within, "keyword")
    assert "SEQ" not in offered(within, "keyword")
    below = HEAD + "  - |\n    QUERY q\n    ^\n  - QUERY p PATTERN Reset r RETURN r WITHIN 1 s\n"
    assert "PATTERN" in offered(below, "keyword")


def test_keys_and_values_of_the_document_are_completed() -> None:
    assert "queries: " in offered("name: x\n^", "key")
    assert "lateness: " in offered("name: x\nstream:\n  time: ts\n  ^", "key")
    assert offered("stream:\n  attributes:\n    x: ^", "value") == list(vocabulary.KINDS)
    assert offered("stream:\n  unit: ^", "value") == ["s", "ms", "us", "ns"]
    assert offered("stream:\n  attributes:\n    ^", "key") == []


def test_words_are_explained() -> None:
    text = HEAD + "  - |\n    QUERY q\n    PATTERN SEQ(Big b, Reset r) WHERE b.amount > 1\n    AGG"
    workload = WorkloadText(text)

    def said(word: str) -> str:
        return meaning_at(workload, text.rindex(word) + 1) or ""

    assert "which events make a match" in said("PATTERN")
    assert said("Big") == "**Big**: `kind = 'Payment' AND amount > 500`"
    assert said("b.amount") == "**b**: An event of type `Big`. `kind = 'Payment' AND amount > 500`"
    assert said("amount") == "**amount**: A column: float."
    assert "time" in said("time: ts")
    assert meaning_at(workload, text.index("cards")) is None


def test_components_are_told_while_a_query_is_written() -> None:
    (query,) = WorkloadText(HEAD + '  - PATTERN SEQ(Reset r, ALL "a b" x, Big').queries
    assert components(query) == [("Reset", "r"), ("a b", "x"), ("Big", None)]


def test_queries_are_laid_out_and_comments_stay() -> None:
    text = (
        HEAD + "  - |\n    query q pattern Reset r\n      within 1 min return r\n"
        "  - |\n    query p -- why\n    pattern Reset r return r within 1 min\n"
        "  - |\n    QUERY broken\n"
    )
    workload = WorkloadText(text)
    (change,) = formatted(workload)
    made = text[: change.start] + change.text + text[change.end :]
    clauses = ("QUERY q", "PATTERN Reset r", "RETURN r", "WITHIN 1 min")
    assert "".join(f"    {clause}\n" for clause in clauses) + "  - |\n    query p" in made
    assert made.endswith(text[change.end :])
    assert formatted(WorkloadText(made)) == []


@pytest.mark.parametrize(
    ("file", "made"),
    [
        ("sheaf.tmLanguage.json", query_grammar()),
        ("sheaf-in-yaml.tmLanguage.json", yaml_injection()),
    ],
)
def test_the_grammars_of_editors_are_those_of_the_language(file: str, made: dict[str, Any]) -> None:
    path = EDITORS / file
    if os.environ.get("REGENERATE"):
        path.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8")) == made


def test_every_word_is_coloured_and_names_are_not() -> None:
    patterns = [(p["name"], re.compile(p["match"])) for p in query_grammar()["patterns"]]

    def scope(word: str) -> str | None:
        return next((name for name, match in patterns if match.fullmatch(word)), None)

    for word in (*vocabulary.CLAUSES, *vocabulary.WORDS, *vocabulary.RELATIONS):
        assert (scope(word) or "").startswith("keyword"), word
        assert scope(word.lower()) == scope(word)
    for name in vocabulary.FUNCTIONS:
        if name not in vocabulary.WORDS:
            assert any(match.match(f"{name}(") for kind, match in patterns if "function" in kind)
    assert scope("amount") is None
    # A query may have the name of a clause.
    name = next(kind for kind, match in patterns if match.match("QUERY funnel", 6))
    assert name == "entity.name.function.sheaf"
    assert scope("'it''s'") == "string.quoted.single.sheaf"


def test_an_editor_talks_to_the_server(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("ts,kind,amount,card,extra\n1,Reset,2.5,c,x\n")
    text = (
        HEAD.replace("cards", "ünïcode 𝕏") + "  - QUERY q PATTERN Rest r RETURN r.x WITHIN 1 min\n"
    )
    uri = (tmp_path / "w.yaml").as_uri()
    document = lsp.TextDocumentIdentifier(uri)
    row = text[: text.index("Rest r")].count("\n")
    column = text.index("Rest r") - text.rindex("\n", 0, text.index("Rest r")) - 1

    async def talk() -> None:
        client = LanguageClient("test", "1")
        heard: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()

        @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def hear(given: lsp.PublishDiagnosticsParams) -> None:
            heard.put_nowait(given)

        command = "from api.cli.entry_point import main; main()"
        events = str(tmp_path / "events.csv")
        await client.start_io(sys.executable, "-c", command, "lsp", "--events", events, cwd=ROOT)
        await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
        client.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "yaml", 1, text))
        )
        found = (await heard.get()).diagnostics
        assert [(d.range.start.line, d.range.start.character) for d in found] == [(row, column)]
        assert "did you mean 'Reset'?" in found[0].message
        changed = text.replace("Rest", "Reset").replace("r.x", "r.extra")
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(2, uri),
                [lsp.TextDocumentContentChangeWholeDocument(changed)],
            )
        )
        assert not (await heard.get()).diagnostics
        place = lsp.Position(row, column + len("Reset r RETURN r."))
        offered = await client.text_document_completion_async(lsp.CompletionParams(document, place))
        assert isinstance(offered, lsp.CompletionList)
        assert "extra" in [item.label for item in offered.items]
        hover = await client.text_document_hover_async(
            lsp.HoverParams(document, lsp.Position(row, column + 1))
        )
        assert hover is not None
        assert "Reset" in hover.contents.value  # type: ignore[union-attr]
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()

    asyncio.run(asyncio.wait_for(talk(), 60))
