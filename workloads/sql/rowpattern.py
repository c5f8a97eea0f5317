"""Row patterns: what stands between the brackets of PATTERN, as values and from its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

from workloads.errors import QueryError, Span
from workloads.sql.lexer import Token

MAX_PERMUTED = 6
MAX_REPEATED = 10_000  # n and m of {n,m}


@dataclass(frozen=True, slots=True)
class Variable:
    """A row that is mapped to the variable of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one behind the other; without parts, the empty pattern."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the parts, an earlier one before a later one."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The part from `least` to `most` times (None: any number), greedy or reluctant."""

    part: RowPattern
    least: int
    most: int | None
    greedy: bool = True


@dataclass(frozen=True, slots=True)
class Excluded:
    """`{- part -}`: its rows are matched, and not given."""

    part: RowPattern


@dataclass(frozen=True, slots=True)
class Anchor:
    """`^`: before the first row of the partition; `$`: behind the last."""

    at_start: bool


RowPattern: TypeAlias = Variable | Sequence | Choice | Repeat | Excluded | Anchor
EMPTY = Sequence(())


def parts_of(pattern: RowPattern) -> tuple[RowPattern, ...]:
    """The direct parts."""
    match pattern:
        case Sequence(parts) | Choice(parts):
            return parts
        case Repeat(part) | Excluded(part):
            return (part,)
        case Variable() | Anchor():
            return ()


def walk(pattern: RowPattern) -> Iterator[RowPattern]:
    """The pattern and everything below it."""
    yield pattern
    for part in parts_of(pattern):
        yield from walk(part)


def variables(pattern: RowPattern) -> tuple[str, ...]:
    """The variables of a pattern, in the order in which they first stand in it."""
    return tuple(dict.fromkeys(p.name for p in walk(pattern) if isinstance(p, Variable)))


def print_row_pattern(pattern: RowPattern) -> str:
    """The pattern as it may be written, permutations written out."""
    match pattern:
        case Variable(name):
            return name if name.isidentifier() and name == name.upper() else f'"{name}"'
        case Sequence(parts):
            return " ".join(_grouped(part, Choice) for part in parts) or "()"
        case Choice(parts):
            return " | ".join(map(print_row_pattern, parts))
        case Repeat(part, least, most, greedy):
            known = {(0, 1): "?", (0, None): "*", (1, None): "+"}
            bounds = f"{{{least}}}" if least == most else f"{{{least},{most or ''}}}"
            mark = known.get((least, most), bounds)
            return _grouped(part, Choice, Sequence, Repeat) + mark + ("" if greedy else "?")
        case Excluded(part):
            return f"{{- {print_row_pattern(part)} -}}"
        case Anchor(at_start):
            return "^" if at_start else "$"


def _grouped(part: RowPattern, *loose: type) -> str:
    text = print_row_pattern(part)
    return f"({text})" if isinstance(part, loose) and text != "()" else text


def canonical_name(token: Token) -> str:
    """A variable's name: in upper case, or as written where it is quoted."""
    return token.text if token.kind == "quoted" else token.text.upper()


class PatternReader:
    """Reads the tokens between the brackets of PATTERN."""

    def __init__(self, tokens: list[Token], at: int) -> None:
        """`at` is the first token behind the opening bracket."""
        self._tokens, self.at = tokens, at

    def read(self) -> RowPattern:
        """The pattern up to the closing bracket, which is not taken."""
        parts = [self._sequence()]
        while self._is("|") or self._is("||"):
            if self._token.text == "||":
                parts.append(EMPTY)
            self.at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    @property
    def _token(self) -> Token:
        return self._tokens[self.at]

    def _is(self, mark: str) -> bool:
        return self._token.kind == "mark" and self._token.text == mark

    def _take(self, mark: str) -> None:
        if not self._is(mark):
            raise QueryError(
                f"unexpected {_named(self._token)} in the pattern; expected '{mark}'",
                self._token.span,
            )
        self.at += 1

    def _sequence(self) -> RowPattern:
        parts: list[RowPattern] = []
        while self._token.is_name or (
            self._token.kind == "mark" and self._token.text in ("(", "{-", "^", "$")
        ):
            parts.append(self._quantified())
        if not parts and not (self._is(")") or self._is("|") or self._is("||") or self._is("-}")):
            raise QueryError(
                f"unexpected {_named(self._token)} in the pattern",
                self._token.span,
                "a variable, '(', '{-', '^', '$' or PERMUTE may stand here",
            )
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quantified(self) -> RowPattern:
        part = self._primary()
        token = self._token
        if token.kind != "mark" or token.text not in ("?", "*", "+", "{"):
            return part
        self.at += 1
        least, most = {"?": (0, 1), "*": (0, None), "+": (1, None), "{": (0, None)}[token.text]
        if token.text == "{":
            least, most = self._bounds(token.span)
        greedy = True
        if self._is("?"):
            greedy = False
            self.at += 1
        if self._token.kind == "mark" and self._token.text in ("?", "*", "+", "{"):
            raise QueryError(
                "two quantifiers in a row", self._token.span, "put what the first is of in brackets"
            )
        return Repeat(part, least, most, greedy)

    def _bounds(self, opened: Span) -> tuple[int, int | None]:
        least = self._number()
        if self._is(","):
            self.at += 1
            most = self._number()
            if least is None and most is None:
                pass  # {,} is any number
        else:
            most = least
            if least is None:
                raise QueryError("a quantifier without a number", self._token.span, "such as {2,5}")
        self._take("}")
        whole = Span(opened.start, self._tokens[self.at - 1].span.end)
        if most is not None and (least or 0) > most:
            raise QueryError(
                f"no number is from {least} to {most}", whole, "the first is the least, as {2,5}"
            )
        if most == 0:
            raise QueryError("a part that is repeated 0 times", whole, "leave it out")
        if max(least or 0, most or 0) > MAX_REPEATED:
            raise QueryError(f"more than {MAX_REPEATED:,} repetitions", whole, "write fewer")
        return least or 0, most

    def _number(self) -> int | None:
        token = self._token
        if token.kind != "number":
            return None
        if not token.text.isdigit():
            raise QueryError("a number of repetitions is whole", token.span)
        self.at += 1
        return int(token.text[:30])

    def _primary(self) -> RowPattern:
        token = self._token
        self.at += 1
        if token.is_name:
            if token.upper == "PERMUTE" and self._is("("):
                return self._permuted(token)
            return Variable(canonical_name(token))
        if token.text == "^":
            return Anchor(True)
        if token.text == "$":
            return Anchor(False)
        if token.text == "{-":
            inner = self.read()
            self._take("-}")
            return Excluded(inner)
        inner = self.read()
        self._take(")")
        return inner

    def _permuted(self, token: Token) -> RowPattern:
        self._take("(")
        parts = [self.read()]
        while self._is(","):
            self.at += 1
            parts.append(self.read())
        self._take(")")
        if len(parts) > MAX_PERMUTED:
            raise QueryError(
                f"PERMUTE of {len(parts)} parts; at most {MAX_PERMUTED} are taken", token.span
            )
        return Choice(tuple(Sequence(order) for order in permutations(parts)))


def _named(token: Token) -> str:
    return "end of the text" if token.kind == "end" else f"'{token.text[:40]}'"
