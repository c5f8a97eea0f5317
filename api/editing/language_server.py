"""`sheaf lsp`: a language server for workload files, over standard input and output."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from api.editing.completion import completions, meaning_at
from api.editing.formatting import formatted
from api.editing.workload_text import WorkloadText

if TYPE_CHECKING:
    from pygls.workspace import TextDocument

KINDS = {
    "keyword": lsp.CompletionItemKind.Keyword,
    "function": lsp.CompletionItemKind.Function,
    "type": lsp.CompletionItemKind.Class,
    "alias": lsp.CompletionItemKind.Variable,
    "attribute": lsp.CompletionItemKind.Field,
    "key": lsp.CompletionItemKind.Property,
    "value": lsp.CompletionItemKind.Value,
}


def language_server(events: str | None = None) -> LanguageServer:
    """A server that knows the columns of events at a path besides what workloads name."""
    server = LanguageServer("sheaf", version("sheaf"))

    def opened(uri: str) -> tuple[TextDocument, WorkloadText]:
        document = server.workspace.get_text_document(uri)
        return document, _workload(document.source, _path(uri), events)

    def show_findings(uri: str) -> None:
        document, workload = opened(uri)
        found = [
            lsp.Diagnostic(
                _range(document, finding.start, finding.end),
                finding.message + (f"\n{finding.hint}" if finding.hint else ""),
                severity=lsp.DiagnosticSeverity.Error,
                source="sheaf",
            )
            for finding in workload.findings
        ]
        server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri, found, document.version)
        )

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
        show_findings(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
        show_findings(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: lsp.DidCloseTextDocumentParams) -> None:
        server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(params.text_document.uri, [])
        )

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", '"'])
    )
    def complete(params: lsp.CompletionParams) -> lsp.CompletionList:
        document, workload = opened(params.text_document.uri)
        offset = document.offset_at_position(params.position)
        items = [
            lsp.CompletionItem(
                word.written,
                kind=KINDS[word.kind],
                documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, word.meaning),
                sort_text=f"{number:05}",
            )
            for number, word in enumerate(completions(workload, offset))
        ]
        return lsp.CompletionList(is_incomplete=False, items=items)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document, workload = opened(params.text_document.uri)
        offset = document.offset_at_position(params.position)
        said = meaning_at(workload, offset)
        if said is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, said))

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def lay_out(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        document, workload = opened(params.text_document.uri)
        return [
            lsp.TextEdit(_range(document, change.start, change.end), change.text)
            for change in formatted(workload)
        ]

    return server


@lru_cache(16)
def _workload(text: str, file: str | None, events: str | None) -> WorkloadText:
    """What is known of a text is kept: completion and hover ask for it again."""
    return WorkloadText(text, file, events)


def _path(uri: str) -> str | None:
    parts = urlsplit(uri)
    return url2pathname(parts.path) if parts.scheme == "file" else None


def _range(document: TextDocument, start: int, end: int) -> lsp.Range:
    """Characters of a document in lines and columns as its editor counts them."""
    text = document.source

    def position(offset: int) -> lsp.Position:
        before = text[:offset]
        line = before.count("\n")
        return lsp.Position(line, offset - (before.rfind("\n") + 1))

    given = lsp.Range(position(start), position(end))
    return document.position_codec.range_to_client_units(document.lines, given)
