"""Broken queries and broken documents: an error that names its place, never a crash.

`-m soak` goes on for ten minutes.
"""

import random
import time

import pytest
import yaml

from optimizer.bind.binder import bind
from workloads import bundled
from workloads.errors import QueryError, SheafError
from workloads.loading import parse_document
from workloads.parser import parse_query

# What a hurried hand, a wrong tool or somebody curious puts into a text.
PIECES = [
    *"(),;!&|+^[]'\"\\.-*/=<>% \t\n\r\0é✓\ud7ff\U0001f600",
    *("SEQ(", "AND(", "OR(", "!SEQ(", "ALL ", "^999999999999", "^0", "WITHIN ", "RETURN ", "--"),
    *("1e999", "-1", "NULL", "TRUE", "9" * 400, "a.b.c", "''", "[user]", "IS NOT", "((((" * 50),
    *("NOT " * 200, "PATTERN", "QUERY", "SLIDE 0 s", "WITHIN 0 EVENTS", "COUNT(*)", "- " * 300),
]


def queries() -> list[str]:
    found = []
    for name in bundled.names():
        document = yaml.safe_load(bundled.path(name).read_text())
        found += [str(query) for query in document["queries"]]
    return found


def broken(text: str, chance: random.Random, others: list[str]) -> str:
    """The text after some accidents."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at, to = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        match chance.randrange(6):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[to:]
            case 2:
                text = text[:at] + text[at:to] * 2 + text[to:]
            case 3:
                text = text[:at] + text[to:] + text[at:to]
            case 4:
                other = chance.choice(others)
                text = text[:at] + other[chance.randint(0, len(other)) :]
            case 5:
                text = text[:at] + chr(chance.choice((0, 9, 127, 160, 0x2028, 0xFEFF, 0x1F600)))
    return text[:20_000]


def error_of(text: str) -> QueryError | None:
    try:
        parse_query(text)
    except QueryError as error:
        return error
    return None


def break_queries(seed: int, seconds: float, most: int) -> None:
    chance, texts = random.Random(seed), queries()
    end = time.monotonic() + seconds
    for _ in range(most):
        text = broken(chance.choice(texts), chance, texts)
        found = error_of(text)
        if found is not None:
            assert 0 <= found.span.start <= found.span.end <= len(text) + 1  # the end, as a place
            assert found.message in found.diagnostic(text, "q").render()
        if time.monotonic() > end:
            return


def break_documents(seed: int, seconds: float, most: int) -> None:
    chance = random.Random(seed)
    texts = [bundled.path(name).read_text() for name in bundled.names()]
    short = ["\n".join(text.splitlines()[:60]) for text in texts]
    end = time.monotonic() + seconds
    for _ in range(most):
        text = broken(chance.choice(short), chance, texts)
        try:
            workload, findings = parse_document(text)
            if workload is not None:
                bind(workload, None, findings)
        except SheafError:
            pass  # it was seen, and said
        if time.monotonic() > end:
            return


def test_a_broken_query_is_an_error_with_a_place() -> None:
    break_queries(1, 6, 2_000)


def test_a_broken_document_is_an_error() -> None:
    break_documents(2, 6, 300)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3, 7))
def test_many_broken_texts_are_errors(seed: int) -> None:
    break_queries(seed, 100, 10**9)
    break_documents(seed, 50, 10**9)
