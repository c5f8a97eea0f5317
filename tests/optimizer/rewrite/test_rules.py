"""Each rule against its golden file, and both sides of every example executed.

A file of `tests/fixtures/rules` is named for its rule and holds examples: a line with the pattern
and its conditions, and a line `->` with the body after the rule, alone, was applied until it no
longer changed anything; `=` where it does not apply. A line `# after: …` names rules that are
applied first. `REGENERATE=1 pytest tests/optimizer` writes the second lines anew; read the
difference before you commit it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from optimizer.ir.query import Query
from optimizer.rewrite.body import Body, positive_aliases, print_body
from optimizer.rewrite.driver import rewrite
from optimizer.rewrite.rule import Rule
from optimizer.rewrite.rules import ALTERNATIVES, PHASES, PLANNING, RULES
from tests.optimizer.rewriting import bound, letters, results, with_body

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
OUTPUTS = (
    "AGG COUNT(*) WITHIN 5 ms",
    "AGG COUNT(*) WITHIN 9 ms SLIDE 2 ms",
    "RETURN {} WITHIN 6 ms",
)
UNCHANGED = "="
STREAM = bound("A a").stream


def examples(path: Path) -> list[tuple[str, str]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith("#")]
    return list(zip(kept[::2], kept[1::2], strict=True))


def prepared(path: Path, query: Query) -> Body:
    """The query's body after the rules that its golden file names."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    names = first.removeprefix("# after:").split(",") if first.startswith("# after:") else []
    return applied([name.strip() for name in names], Body(query.pattern, query.conditions), query)


def applied(names: list[str], body: Body, query: Query) -> Body:
    """The body after the rules of those names alone."""
    off = [rule.NAME for rule in RULES if rule.NAME not in names]
    phases = (*PHASES, ALTERNATIVES)
    return rewrite(body, phases, off, query.is_triggered, STREAM).body


def shown(path: Path, text: str) -> str:
    query = parsed(text, "AGG COUNT(*) WITHIN 9 ms SLIDE 1 ms")
    before = prepared(path, query)
    after = applied([path.stem], before, query)
    return f"-> {print_body(after)}" if after != before else UNCHANGED


def parsed(text: str, rest: str) -> Query:
    pattern, _, where = text.partition(" WHERE ")
    return bound(pattern, where, rest).queries[0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.NAME)
def test_every_rule_has_a_golden_file(rule: Rule) -> None:
    assert len(examples(FIXTURES / f"{rule.NAME}.txt")) >= 2


def test_every_golden_file_has_a_rule() -> None:
    assert {path.stem for path in FIXTURES.glob("*.txt")} == {rule.NAME for rule in RULES}


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_a_rule_does_what_its_golden_file_says(path: Path) -> None:
    if os.environ.get("REGENERATE"):
        regenerate(path)
    found = [(text, shown(path, text)) for text, _ in examples(path)]
    assert found == examples(path)


def regenerate(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(lines):
        if line.startswith("->") or line == UNCHANGED:
            lines[i] = shown(path, lines[i - 1])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def streams() -> list[str]:
    """Short streams with ties, the same in every run."""
    chance = random.Random(20)
    words = []
    for _ in range(12):
        word = "".join(chance.choices("abcdxabc", k=6))
        cut = chance.randrange(5)
        words.append(f"{word[:cut]}({word[cut : cut + 2]}){word[cut + 2 :]}")
    return words


STREAMS = streams()


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_both_sides_of_every_example_give_the_same_rows(path: Path) -> None:
    for text, _ in examples(path):
        pattern, _, where = text.partition(" WHERE ")
        positive = sorted(positive_aliases(parsed(text, OUTPUTS[0]).pattern))
        for rest in OUTPUTS:
            workload = bound(pattern, where, rest.format(", ".join(positive)))
            query = workload.queries[0]
            other = with_body(query, applied([path.stem], prepared(path, query), query))
            if other == query:
                continue
            for word in STREAMS:
                assert results(workload, query, letters(word)) == results(
                    workload, other, letters(word)
                ), (text, rest, word)


def test_the_phases_name_each_rule_once_a_phase() -> None:
    for phase in (*PHASES, *PLANNING, ALTERNATIVES):
        names = [rule.NAME for rule in phase]
        assert len(set(names)) == len(names)
    assert len({rule.NAME for rule in RULES}) == len(RULES) == 17


def test_a_rule_that_trades_one_work_for_another_is_not_applied_always() -> None:
    always = {rule.NAME for phase in PLANNING for rule in phase}
    assert always.isdisjoint(rule.NAME for rule in ALTERNATIVES)
    assert always < {rule.NAME for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.NAME)
def test_a_rule_says_what_it_does_on_its_first_line(rule: Rule) -> None:
    documentation = rule.__doc__ or ""
    assert "->" in documentation.splitlines()[0] or "NEVER" in documentation.splitlines()[0]
    assert "holds" in documentation or "recondition" in documentation
