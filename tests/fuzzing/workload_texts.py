"""Random workload texts: made by the grammar, with extreme names, numbers and nesting, and broken.

Everything comes from one `random.Random`, as `duration.fuzz` wants it. What binds and what does not
is left to chance: about half of what is made binds before it is broken.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import yaml

from workloads import bundled
from workloads.limits import MAX_BRACKETS, MAX_DEPTH, MAX_DOCUMENT_DEPTH, MAX_NUMBER_CHARACTERS

# What a hurried hand, a wrong tool or somebody curious puts into a text.
PIECES = (
    *"(),;!&|+^[]{}'\"\\.-*/=<>%:#@?~` \t\n\r\0é✓\ud7ff\U0001f600\u2028\x85\ufeff\x1b",
    *("SEQ(", "AND(", "OR(", "!SEQ(", "ALL ", "^999999999999", "^0", "WITHIN ", "RETURN ", "--"),
    *("1e999", "-1", "NULL", "TRUE", "9" * 400, "a.b.c", "''", "[user]", "IS NOT", "((((" * 50),
    *("NOT " * 200, "PATTERN", "QUERY", "SLIDE 0 s", "WITHIN 0 EVENTS", "COUNT(*)", "- " * 300),
    *("->", "SELECT * FROM t MATCH_RECOGNIZE (", "9" * 5000, "1e1000000", "1e-400", "\t- ", "*a"),
    *("&a ", "<<: *a", "!!timestamp ", "!!int x", "- - - - ", "? ", "{a: " * 30, "[" * 30, "---\n"),
)
NAMES = (
    *(
        "A",
        "B",
        "C",
        "page view",
        "add-to-cart",
        "País",
        "",
        " ",
        "time",
        "ts",
        "SEQ",
        "null",
        "on",
    ),
    *('say "hi"', "it's", "x" * 300, "\U0001f600", "0", "-- x", "a.b", "%s{}", "\x1b[31m", "é" * 3),
)
NUMBERS = (
    *("0", "1", "2", "5", "0.5", "1e3", "3.25", "007", "1e308", "1e309", "1e-400", "1e400", "1e99"),
    *("9223372036854775807", "9223372036854775808", "4611686018427387904", "1e18", "1e30", "1e31"),
    *(
        "9" * MAX_NUMBER_CHARACTERS,
        "9" * 5000,
        "0." + "1" * 400,
        "1e1000000",
        "1e99999999999999999",
    ),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, float("inf"), float("nan"), 10**30, 10**400, "", " ", "1e5"),
    *([], {}, [[]], {"": None}, [None], "on", "2024-01-01", "\t", "x" * 2000, "0x1f", "1:30"),
    *("a: b", "*a", "- x", "PATTERN", "10 s", "-5 s", "1e400 day", "ms", {"x": {"y": {"z": [1]}}}),
)


def made_document(chance: random.Random) -> dict[str, Any]:
    """A workload by the grammar; its queries are few, and now and then extreme."""
    wild = chance.choice((0.0, 0.01, 0.03, 0.1, 0.3))
    maker = _Maker(chance, wild)
    document: dict[str, Any] = {
        "name": maker.name() if chance.random() < wild else "made",
        "stream": {"time": "ts", "type": "kind", "sequence": "seq"},
        "queries": [maker.query(number) for number in range(chance.choice((1, 1, 2, 3)))],
    }
    stream = document["stream"]
    if not chance.randrange(4):
        stream["types"] = {"B": "x > 1", **{maker.name(): maker.type_condition() for _ in range(2)}}
    if not chance.randrange(4):
        stream["attributes"] = dict.fromkeys(("x", "y", "k"), "int")
    if not chance.randrange(4):
        stream["lateness"] = f"{maker.number()} {chance.choice(('s', 'ms', 'day'))}"
    if not chance.randrange(3):
        document["statistics"] = maker.statistics()
    if not chance.randrange(6):
        document["limits"] = {"partial_matches": chance.choice((1, 100, 10**30))}
    return document


class _Maker:
    """Draws parts of a workload; with the chance `wild` each is an extreme one."""

    def __init__(self, chance: random.Random, wild: float) -> None:
        self.chance = chance
        self.wild = wild

    def _odd(self) -> bool:
        return self.chance.random() < self.wild

    def name(self) -> str:
        return self.chance.choice(NAMES) if self._odd() else self.chance.choice("ABCD")

    def quoted(self) -> str:
        name = self.name()
        return name if re.fullmatch("[A-Z]", name) else '"' + name.replace('"', '""') + '"'

    def number(self) -> str:
        return self.chance.choice(NUMBERS) if self._odd() else str(self.chance.randint(0, 5))

    def statistics(self) -> dict[str, Any]:
        chance = self.chance
        found: dict[str, Any] = {
            "rates": {kind: chance.choice((0, 0.5, 3.0, 1e9)) for kind in "ABCD"},
            "keys": {"k": {"cardinality": chance.choice((1, 5, 1e9)), "heaviest": 0.5}},
        }
        if self._odd():
            found["rates"][self.name()] = chance.choice((1e308, 1e-308, *ODD_VALUES))
        if self._odd():
            found["selectivities"] = {"a.x < b.x": chance.choice((0, 1e-300, 1, 2, "x"))}
        if self._odd():
            found |= {"events": chance.choice((1, 1e300)), "span": chance.choice((1e-300, 5))}
        return found

    def query(self, number: int) -> str:
        chance = self.chance
        self.aliases: list[tuple[str, bool, bool]] = []  # with whether each is a group, is negated
        pattern = self.pattern(chance.choice((0, 1, 1, 2, 2, 3)), False)
        if not any(not negated for _, _, negated in self.aliases):
            pattern = f"SEQ({pattern}, {self.component(False)})"
        clauses = [f"PATTERN {pattern}"]
        conditions = [self.condition(chance.randint(0, 2)) for _ in range(chance.randint(0, 3))]
        if not chance.randrange(3):
            conditions.append("[k]" if not self._odd() else f"[k, {self.quoted()}, k]")
        if conditions:
            clauses.append("WHERE " + " AND ".join(conditions))
        if not chance.randrange(4):
            clauses.append("PARTITION BY " + chance.choice(("k", "k, x", self.quoted())))
        counted = bool(chance.randrange(2))
        clauses.append(self.aggregates() if counted else self.returned())
        unit = chance.choice(("ms", "s", "min", "EVENTS", "day"))
        clauses.append(f"WITHIN {self.amount()} {unit}")
        if counted and not chance.randrange(3):
            clauses.append(f"SLIDE {self.amount()} {unit}")
        if self._odd():
            chance.shuffle(clauses)
        named = f"q{number}" if not self._odd() else self.quoted()
        return "\n".join([f"QUERY {named}", *clauses])

    def amount(self) -> str:
        odd = not self.chance.randrange(40) or self._odd()
        return self.chance.choice(NUMBERS) if odd else str(self.chance.randint(1, 20))

    def component(self, negated: bool) -> str:
        alias = f"a{len(self.aliases)}"
        kind, shape = self.quoted(), self.chance.randrange(10)
        self.aliases.append((alias, shape in (0, 1, 2), negated))
        quantifier = {0: "+", 1: "^2" if not self._odd() else f"^{self.number()}"}.get(shape, "")
        return f"{'ALL ' if shape == 2 else ''}{kind}{quantifier} {alias}"

    def pattern(self, depth: int, negated: bool) -> str:
        chance = self.chance
        if self._odd() and not negated:
            deep = chance.choice((2, 5, 10, MAX_BRACKETS - 8, MAX_BRACKETS + 2, 500))
            word = chance.choice(("SEQ(", "AND(", "OR(", "(", "SEQ(A, !("))
            return word * deep + self.component(negated) + ")" * (deep * word.count("("))
        if depth <= 0:
            return self.component(negated)
        operator = chance.choice(("SEQ", "SEQ", "AND", "OR"))
        parts = [self.pattern(depth - 1, negated)]
        for _ in range(chance.randint(1, 2)):
            if operator != "OR" and not chance.randrange(4):
                parts.append("!" + self.pattern(depth - 2, True))
            else:
                parts.append(self.pattern(depth - 1, negated))
        if not chance.randrange(8):
            return "(" + {"SEQ": "; ", "AND": " & ", "OR": " | "}[operator].join(parts) + ")"
        return f"{operator}({', '.join(parts)})"

    def value(self, depth: int) -> str:
        chance = self.chance
        if self._odd():
            deep = chance.choice((20, MAX_DEPTH - 5, MAX_DEPTH + 5, 2_000))
            return chance.choice(
                (
                    "1" + " + 1" * deep,
                    "- " * deep + "1",
                    "(" * (deep // 4) + "1" + ")" * (deep // 4),
                    " * ".join([self.number()] * 20),
                    self.quoted(),
                    f"{self.quoted()}.{self.quoted()}",
                )
            )
        if depth > 0 and not chance.randrange(3):
            operator = chance.choice("+-*/%")
            return f"({self.value(depth - 1)} {operator} {self.value(depth - 1)})"
        if not chance.randrange(3):
            return self.number()
        alias, group, _ = chance.choice(self.aliases)
        if group and chance.randrange(3):
            function = chance.choice(("sum", "avg", "min", "max", "count", "first", "last"))
            return f"{function}({alias}.x)"
        return f"{alias}.{chance.choice(('x', 'x', 'y', 'k', 'time'))}"

    def condition(self, depth: int) -> str:
        chance = self.chance
        if self._odd():
            deep = chance.choice((10, 45, 150, MAX_DEPTH + 5))
            return chance.choice(
                (
                    "NOT " * deep + "1 < 2",
                    "NOT (" * min(deep, 45) + "1 < 2" + ")" * min(deep, 45),
                    " = ".join([self.value(0)] * min(deep, 250)),
                    "1 IN (" + ", ".join(["1"] * deep) + ")",
                    " OR ".join(f"1 < {n}" for n in range(deep)),
                )
            )
        match chance.randrange(8) if depth > 0 else 9:
            case 0:
                return f"NOT ({self.condition(depth - 1)})"
            case 1:
                return f"({self.condition(depth - 1)} OR {self.condition(depth - 1)})"
            case 2:
                return f"({self.condition(depth - 1)} AND {self.condition(depth - 1)})"
            case 3:
                word = chance.choice(("IN", "NOT IN"))
                return f"{self.value(0)} {word} ({', '.join(self.literals())})"
            case 4:
                return f"{self.value(0)} IS {chance.choice(('', 'NOT '))}NULL"
            case _:
                operator = chance.choice(("=", "!=", "<", "<=", ">", ">=", "=", "=="))
                return f"{self.value(depth)} {operator} {self.value(depth)}"

    def literals(self) -> list[str]:
        chance = self.chance
        odd = ("'u'", "NULL", "TRUE", "-1", "1.5", "''''")
        return [
            chance.choice(odd) if self._odd() else self.number()
            for _ in range(chance.randint(1, 3))
        ]

    def type_condition(self) -> str | None:
        aliases, self.aliases = getattr(self, "aliases", []), [("x", False, False)]
        try:
            return None if not self.chance.randrange(4) else self.condition(1).replace("x.", "")
        finally:
            self.aliases = aliases

    def aggregates(self) -> str:
        chance = self.chance
        found = ["COUNT(*)"]
        for _ in range(chance.randint(0, 2)):
            alias = self.positive()
            found.append(f"{chance.choice(('SUM', 'AVG', 'MIN', 'MAX', 'max'))}({alias}.x)")
        having = f" HAVING COUNT(*) > {self.number()}" if not chance.randrange(4) else ""
        return "AGG " + ", ".join(found) + having

    def positive(self) -> str:
        """An alias that an output may name; now and then another."""
        positive = [alias for alias, _, negated in self.aliases if not negated or self._odd()]
        return self.chance.choice(positive or ["a0"])

    def returned(self) -> str:
        alias = self.positive()
        choices = (alias, f"{alias}.x", f"{self.value(1)} AS v", f"{alias} AS {self.quoted()}")
        return "RETURN " + self.chance.choice(choices)


# --- breaking texts ----------------------------------------------------------------------------


def broken(text: str, chance: random.Random, others: list[str]) -> str:
    """The text after some accidents to its characters, tokens and lines."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        text = chance.choice(_ACCIDENTS)(text, chance, others)
    return text[:60_000]


def _insert(text: str, chance: random.Random, others: list[str]) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + chance.choice(PIECES) + text[at:]


def _cut(text: str, chance: random.Random, others: list[str]) -> str:
    at, to = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
    return text[:at] + text[to:]


def _repeat(text: str, chance: random.Random, others: list[str]) -> str:
    at, to = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
    return text[:to] + text[at:to] * chance.choice((1, 1, 3)) + text[to:]


def _splice(text: str, chance: random.Random, others: list[str]) -> str:
    other = chance.choice(others)
    return text[: chance.randint(0, len(text))] + other[chance.randint(0, len(other)) :]


def _byte(text: str, chance: random.Random, others: list[str]) -> str:
    raw = bytearray(text.encode(errors="replace"))
    for _ in range(min(len(raw), chance.choice((1, 1, 5)))):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    return raw.decode(errors=chance.choice(("replace", "ignore")))


def _tokens(text: str, chance: random.Random, others: list[str]) -> str:
    found = re.findall(r"\w+|\s+|[^\w\s]", text)
    if len(found) < 2:
        return text
    for _ in range(chance.choice((1, 2, 5))):
        at, to = chance.randrange(len(found)), chance.randrange(len(found))
        match chance.randrange(4):
            case 0:
                found[at], found[to] = found[to], found[at]
            case 1:
                found[at] = found[to]
            case 2:
                found[at] = ""
            case 3:
                found[at] = chance.choice((*NUMBERS, *PIECES))
    return "".join(found)


def _lines(text: str, chance: random.Random, others: list[str]) -> str:
    found = text.split("\n")
    at = chance.randrange(len(found))
    match chance.randrange(4):
        case 0:
            del found[at]
        case 1:
            found.insert(at, found[chance.randrange(len(found))])
        case 2:
            found[at] = chance.choice((" ", "  ", "\t", "- ", "# ", "    ")) + found[at]
        case 3:
            found[at] = found[at].lstrip()
    return "\n".join(found)


Accident = Callable[[str, random.Random, list[str]], str]
_ACCIDENTS: tuple[Accident, ...] = (
    _insert,
    _cut,
    _repeat,
    _splice,
    _byte,
    _tokens,
    _tokens,
    _lines,
)


def rearranged(document: Any, chance: random.Random) -> Any:
    """The document with some values replaced, moved, wrapped or left out."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        holder, key = _spot(document, chance)
        if holder is None:
            return document
        match chance.randrange(5):
            case 0:
                holder[key] = chance.choice(ODD_VALUES)
            case 1:
                del holder[key]
            case 2:
                deep = chance.choice((1, 2, MAX_DOCUMENT_DEPTH + 2, 60))
                for _ in range(deep):
                    holder[key] = [holder[key]] if chance.randrange(2) else {"x": holder[key]}
            case 3:
                other, there = _spot(document, chance)
                if other is not None:
                    holder[key] = json.loads(json.dumps(other[there]))
            case 4:
                if isinstance(holder, dict):
                    holder[chance.choice((*NAMES, "rates", "types", "keys"))] = holder[key]
                else:
                    holder.insert(key, chance.choice(ODD_VALUES))
    return document


def _spot(document: Any, chance: random.Random) -> tuple[Any, Any]:
    """A list or map of the document, and a key of it; None where there is none."""
    spots: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting and len(spots) < 5_000:
        node = waiting.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            spots.append((node, key))
            if isinstance(value, (dict, list)):
                waiting.append(value)
    return chance.choice(spots) if spots else (None, None)


def bundled_texts() -> list[str]:
    """The bundled workloads, the long ones cut, and one with aliases."""
    texts = [bundled.path(name).read_text(encoding="utf-8") for name in bundled.names()]
    short = ["\n".join(text.splitlines()[:60]) for text in texts]
    return [*short, _ALIASES]


_ALIASES = """\
stream: &s {time: ts, type: kind}
statistics:
  rates: &r {A: 1.5, B: 2}
  keys: {k: &k {cardinality: 5, heaviest: 0.5}, j: *k, l: {<<: *k, cardinality: 3}}
  selectivities: {"a.x < b.x": 0.5}
queries:
  - &q |
    QUERY one
    PATTERN SEQ(A a, B b)
    WHERE a.x < b.x AND [k]
    AGG COUNT(*) WITHIN 1 s
  - >
    QUERY two PATTERN SEQ(A a, B b)
    RETURN a, b WITHIN 1 s
"""


def query_text(chance: random.Random, known: list[str]) -> str:
    """The text of one query, broken."""
    query = _Maker(chance, chance.choice((0.0, 0.02, 0.2))).query(1)
    return broken(query, chance, known)


def workload_text(chance: random.Random, known: list[str]) -> tuple[str, str]:
    """A text, and the ending of the file that it is for: `.yaml` or `.json`."""
    how = chance.randrange(8)
    if how == 0:
        return broken(chance.choice(known), chance, known), ".yaml"
    if how == 1:
        try:
            document = rearranged(yaml.load(chance.choice(known), Loader=yaml.CSafeLoader), chance)
        except (RecursionError, ValueError):
            return "", ".yaml"
    else:
        document = made_document(chance)
        if how == 2:
            document = rearranged(document, chance)
    ending = ".json" if not chance.randrange(3) else ".yaml"
    text = _written(document, chance, ending)
    return (broken(text, chance, known) if how == 3 else text), ending


def _written(document: Any, chance: random.Random, ending: str) -> str:
    if ending == ".json":
        with suppress(ValueError):  # a part that was put into itself can only be said in YAML
            return json.dumps(document, ensure_ascii=bool(chance.randrange(2)))
    style = chance.choice(("|", None, '"', "'", ">"))
    flow = chance.choice((False, False, None, True))
    return yaml.dump(
        document,
        Dumper=yaml.CSafeDumper,
        default_style=style if style != "|" else None,
        default_flow_style=flow,
        allow_unicode=bool(chance.randrange(2)),
        width=chance.choice((20, 80, 10_000)),
    )
