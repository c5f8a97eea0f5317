"""Queries, patterns and conditions as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import assert_never

from workloads.expressions import (
    ANY_ENTRY,
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    DurationLiteral,
    EntryTest,
    Equivalence,
    Expression,
    Function,
    IsNull,
    JointFunction,
    Literal,
    Logical,
    Membership,
    Nanoseconds,
    Negative,
    Not,
    TextTest,
    Value,
)
from workloads.situations.relations import print_relations
from workloads.situations.syntax import Definition, Situations
from workloads.sql.statement import Statement
from workloads.syntax import (
    FUNNEL_ROWS,
    MARKS,
    Aggregates,
    All,
    Between,
    Component,
    ConsecutivePlus,
    Duration,
    Exactly,
    Exclusion,
    Funnel,
    Grouping,
    Item,
    Join,
    JoinSide,
    Kept,
    Mark,
    Negation,
    One,
    Operation,
    Pattern,
    Plus,
    Quantifier,
    Query,
    Return,
    TiedKey,
)

RESERVED = frozenset(
    [
        "QUERY",
        "PATTERN",
        "WHERE",
        "PARTITION",
        "BY",
        "AGG",
        "HAVING",
        "RETURN",
        "LIMIT",
        "WITHIN",
        "SLIDE",
        "SEQ",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "ALL",
        "AS",
        "TRUE",
        "FALSE",
    ]
)
# Names that begin a clause where one can begin.
CLAUSE_NAMES = frozenset(
    [
        "SUPPRESS",
        "KEEP",
        "STRATEGY",
        "UNTIL",
        "AFTER",
        "WINDOWS",
        "EMPTY",
        "INTO",
        "OF",
        "JOIN",
        "LEFT",
        "FUNNEL",
        "STRICT",
        "EXCLUDE",
        "BETWEEN",
        "GROUP",
    ]
)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Binding strength of each kind of expression, as in grammar.lark.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)


def print_query(query: Query) -> str:
    """The query's text, a clause a line; in another language than Sheaf's, as it was written."""
    if isinstance(query.output, Statement):
        return query.text
    lines = []
    if query.name is not None:
        lines.append(f"QUERY {print_name(query.name)}")
    if isinstance(query.output, Situations):
        return "\n".join([*lines, *_situation_clauses(query, query.output)]) + "\n"
    pattern, until = without_until(query.pattern)
    word = "FUNNEL" if isinstance(query.output, Funnel) else "PATTERN"
    lines.append(f"{word} {print_pattern(pattern)}")
    if isinstance(query.output, Funnel):
        lines += map(print_strictness, query.output.strict)
        lines += map(_print_exclusion, query.output.exclusions)
    if query.where is not None:
        lines.append(f"WHERE {print_expression(query.where)}")
    if query.strategy != "any":
        lines.append(f"STRATEGY {query.strategy.upper()}")
    if until is not None:
        lines.append(f"UNTIL {print_pattern(until)}")
    if query.skip is not None:
        lines.append(f"AFTER MATCH SKIP {query.skip.upper()}")
    keys = [*map(print_path, query.partition_by), *map(_print_tied_key, query.tied_keys)]
    keys += [
        f"{print_expression(Literal(k.value))} AS {print_name(k.name)}" for k in query.key_labels
    ]
    if keys:
        lines.append("PARTITION BY " + ", ".join(keys))
    if isinstance(query.output, Funnel):
        lines += _funnel_outputs(query.output)
    else:
        lines.append(_print_output(query.output))
    if query.within is not None and not isinstance(query.pattern, Join):
        lines.append(_print_window(query, query.within))
    if query.slide is not None:
        lines[-1] += f" SLIDE {print_duration(query.slide)}"
    if query.from_first:
        lines.append("WINDOWS FROM FIRST")
    if query.empty_rows:
        lines.append("EMPTY ROWS")
    if query.into is not None:
        lines.append(f"INTO {print_name(query.into)}{' ONLY' if query.into_only else ''}")
    return "\n".join(lines) + "\n"


def without_until(pattern: Pattern) -> tuple[Pattern, Pattern | None]:
    """A pattern without what UNTIL says, and that."""
    match pattern:
        case Operation("SEQ", (*parts, Negation(until, until=True)), span):
            return Operation("SEQ", tuple(parts), span), until
        case _:
            return pattern, None


def _print_tied_key(key: TiedKey) -> str:
    text = f"({', '.join(map(print_expression, key.parts))}) AS {print_name(key.name)}"
    return f"{text} OPTIONAL" if key.optional else text


def _print_window(query: Query, within: Duration) -> str:
    text = "WITHIN " + ("SESSION " if query.session else "") + print_duration(within)
    if query.counted_types:
        text += f" OF ({', '.join(map(print_name, query.counted_types))})"
    return text


def print_strictness(strictness: str) -> str:
    """`STRICT ORDER`"""
    return "STRICT" if strictness == "deduplication" else f"STRICT {strictness.upper()}"


def _print_exclusion(exclusion: Exclusion) -> str:
    ends = f"{print_name(exclusion.first)} AND {print_name(exclusion.last)}"
    return f"EXCLUDE {print_pattern(exclusion.component)} BETWEEN {ends}"


def _funnel_outputs(funnel: Funnel) -> list[str]:
    lines = []
    if funnel.by:
        lines.append("BY " + ", ".join(map(print_expression, funnel.by)))
    if funnel.gives != FUNNEL_ROWS:
        lines.append("RETURN " + ", ".join(rows.upper() for rows in funnel.gives))
    return lines


def _print_side(side: JoinSide) -> str:
    return f"{print_pattern(side.component)} WITHIN {print_duration(side.within)}"


def _situation_clauses(query: Query, found: Situations) -> list[str]:
    lines = [] if found.source is None else [f"FROM {print_name(found.source)}"]
    lines.append("DEFINE " + ",\n       ".join(map(_print_definition, found.definitions)))
    constraints = [
        f"{print_name(c.left)} {print_relations(c.mask)} {print_name(c.right)}"
        for c in found.constraints
    ]
    if not constraints and found.single is not None:
        constraints = [print_name(found.single)]
    lines.append("PATTERN " + "\n    AND ".join(constraints))
    if query.where is not None:
        lines.append(f"WHERE {print_expression(query.where)}")
    if query.partition_by:
        lines.append("PARTITION BY " + ", ".join(map(print_path, query.partition_by)))
    lines.append("RETURN " + ", ".join(map(_print_item, found.items)))
    if query.within is not None:
        lines.append(f"WITHIN {print_duration(query.within)}")
    if found.emit != "early":
        lines.append(f"EMIT {found.emit.upper()}")
    if query.into is not None:
        lines.append(f"INTO {print_name(query.into)}{' ONLY' if query.into_only else ''}")
    return lines


def _print_definition(definition: Definition) -> str:
    kind = "" if definition.type is None else f" OF {print_name(definition.type)}"
    text = f"{print_name(definition.name)}{kind} AS {print_expression(definition.condition)}"
    least, most = definition.at_least, definition.at_most
    if least is not None and most is not None:
        text += f" BETWEEN {print_duration(least)} AND {print_duration(most)}"
    elif least is not None:
        text += f" AT LEAST {print_duration(least)}"
    elif most is not None:
        text += f" AT MOST {print_duration(most)}"
    return text if definition.gap is None else f"{text} GAP {print_duration(definition.gap)}"


def print_name(name: str) -> str:
    """A name as it must be written: in double quotes unless it is a plain word."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in RESERVED | CLAUSE_NAMES:
        return name
    return '"' + name.replace('"', '""') + '"'


def print_path(name: str) -> str:
    """A column, or a field of a struct by its path."""
    return ".".join(map(print_name, name.split("."))) if _is_path(name) else print_name(name)


def _is_path(name: str) -> bool:
    return "." in name and all(name.split("."))


def print_pattern(pattern: Pattern) -> str:
    match pattern:
        case Component(kind, alias, quantifier):
            edge = pattern.edge
            named = print_name(kind) if edge is None else f"{edge}({print_name(kind)})"
            if pattern.source is not None:
                named = f"{print_name(pattern.source)}.{named}"
            if pattern.repeated is not None:
                named = f"({print_pattern(pattern.repeated)})"
            return _print_component(named, alias, quantifier, pattern.optional)
        case Negation(part):
            return "!" + print_pattern(part)
        case Operation(operator):
            inner = (_print_part(mark, part) for mark, part in pattern.marked_parts)
            return f"{operator}({', '.join(inner)})"
        case Join(left, right, outer):
            return f"{'LEFT ' if outer else ''}JOIN({_print_side(left)}, {_print_side(right)})"
        case _:
            assert_never(pattern)


def _print_part(mark: Mark | None, part: Pattern) -> str:
    return print_pattern(part) if mark is None else f"{MARKS[mark]} {print_pattern(part)}"


def print_component(
    kind: str, alias: str | None, quantifier: Quantifier, optional: bool = False
) -> str:
    return _print_component(print_name(kind), alias, quantifier, optional)


def _print_component(text: str, alias: str | None, quantifier: Quantifier, optional: bool) -> str:
    match quantifier:
        case One():
            text += "?" if optional else ""
        case Plus():
            text += "*" if optional else "+"
        case ConsecutivePlus():
            text += ":*" if optional else ":+"
        case Between(least, most, consecutive):
            text += ":" if consecutive else ""
            text += f"{{{0 if optional else least},{'' if most is None else most}}}"
        case Exactly(count):
            text += f"^{count}"
        case All():
            text = "ALL " + text
        case _:
            assert_never(quantifier)
    return text if alias is None else f"{text} {print_name(alias)}"


def print_duration(duration: Duration) -> str:
    text = f"{print_decimal(duration.amount)} {duration.unit}"
    return f"{text} INCLUSIVE" if duration.inclusive else text


def print_decimal(amount: Decimal) -> str:
    return f"{amount:f}"


def _print_grouping(group: Grouping) -> str:
    text = print_expression(group.attribute)
    plain = group.name == group.attribute.name
    return text if plain else f"{text} AS {print_name(group.name)}"


def _print_output(output: Aggregates | Return | Situations) -> str:
    match output:
        case Situations():
            raise AssertionError("printed by clauses of its own")
        case Aggregates(items, having):
            text = "AGG " + ", ".join(map(print_aggregate, items))
            if output.groups:
                text += " GROUP BY " + ", ".join(map(_print_grouping, output.groups))
            return text if having is None else f"{text} HAVING {print_aggregate(having)}"
        case Return(items, limit):
            text = "RETURN " + ", ".join(map(_print_item, items))
            if limit is not None:
                text += f" LIMIT {limit}"
            if output.suppress is not None:
                text += f"\nSUPPRESS {print_duration(output.suppress)}"
            if output.keep:
                text += f"\nKEEP {print_kept(output.keep)}"
            return text
        case _:
            assert_never(output)


def print_kept(keep: Iterable[Kept]) -> str:
    """`FIRST 4, LAST 2`"""
    return ", ".join(f"{kept.end.upper()} {kept.number}" for kept in keep)


def print_aggregate(expression: Expression) -> str:
    """An expression with its aggregate functions in capitals, as AGG and HAVING have them."""
    return _print(expression, 0, upper=True)


def _print_item(item: Item) -> str:
    value = item.value
    if value is None:
        return "*"
    text = print_name(value) if isinstance(value, str) else print_expression(value)
    return text if item.name is None else f"{text} AS {print_name(item.name)}"


def print_expression(expression: Expression) -> str:
    try:
        return expression.known_text
    except AttributeError:
        return expression.keep("known_text", _print(expression, 0, upper=False))


def print_literal(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int():
            return str(value)
        case float():
            # The grammar has no word for infinity; a number past the largest float is one.
            return repr(value).replace("inf", "1e999")
        case _:
            assert_never(value)


def _print(expression: Expression, loosest: int, upper: bool) -> str:
    """The expression, in parentheses where it binds looser than its place allows."""
    text, strength = _bare(expression, upper)
    return text if strength >= loosest else f"({text})"


def _bare(expression: Expression, upper: bool) -> tuple[str, int]:
    def sub(part: Expression, loosest: int) -> str:
        return _print(part, loosest, upper)

    match expression:
        case Literal(value):
            negative = type(value) in (int, float) and str(value).startswith("-")
            return print_literal(value), _UNARY if negative else _ATOM
        case Attribute("", name):
            return print_name(name), _ATOM
        case Attribute(alias, name):
            return f"{print_name(alias)}.{print_path(name)}", _ATOM
        case DurationLiteral(amount, unit):
            return f"{print_decimal(amount)} {unit}", _ATOM
        case Nanoseconds(operand, tick):
            return f"nanoseconds({sub(operand, _OR)}, {tick})", _ATOM
        case Negative(operand):
            return "-" + _after_minus(sub(operand, _ATOM)), _UNARY
        case Arithmetic(operator, left, right):
            strength = _SUM if operator in "+-" else _PRODUCT
            return f"{sub(left, strength)} {operator} {sub(right, strength + 1)}", strength
        case Call("count distinct", argument) if argument is not None:
            name = "COUNT" if upper else "count"
            return f"{name}(DISTINCT {_begun(sub(argument, _OR))})", _ATOM
        case Call(function, argument):
            # Capitals only where the parser's lower case gives the name back.
            capital = upper and function.isascii()
            name = print_name(function.upper() if capital else function)
            inner = "*" if argument is None else sub(argument, _OR)
            return f"{name}({inner})", _ATOM
        case Comparison(operator, left, right):
            return f"{sub(left, _SUM)} {operator} {sub(right, _SUM)}", _COMPARE
        case Membership(operand, values, negated):
            listed = ", ".join(print_literal(v.value) for v in values)
            word = "NOT IN" if negated else "IN"
            return f"{sub(operand, _SUM)} {word} ({listed})", _COMPARE
        case Function(name, operand, constants):
            return f"{name}({', '.join([sub(operand, _OR), *map(str, constants)])})", _ATOM
        case EntryTest(listed, condition):
            return f"{ANY_ENTRY}({sub(listed, _OR)}, {sub(condition, _OR)})", _ATOM
        case JointFunction(name, arguments):
            return f"{name}({', '.join(sub(a, _OR) for a in arguments)})", _ATOM
        case TextTest():
            return _print_text_test(expression, sub), _COMPARE
        case IsNull(operand, negated):
            return f"{sub(operand, _SUM)} IS {'NOT ' if negated else ''}NULL", _COMPARE
        case Not(operand):
            inner_not = isinstance(operand, Not)
            return "NOT " + sub(operand, _NOT if inner_not else _COMPARE), _NOT
        case Logical("AND", parts):
            return " AND ".join(sub(part, _NOT) for part in parts), _AND
        case Logical(_, parts):
            return " OR ".join(sub(part, _AND) for part in parts), _OR
        case Equivalence(names):
            return "[" + ", ".join(map(print_path, names)) + "]", _ATOM
        case _:
            assert_never(expression)


def _print_text_test(test: TextTest, sub: Callable[[Expression, int], str]) -> str:
    operator = f"NOT {test.operator}" if test.negated else test.operator
    listed = ", ".join(
        print_literal(p.value) if isinstance(p, Literal) else sub(p, _SUM) for p in test.patterns
    )
    if test.operator == "IN CIDR":
        listed = f"({listed})"
    elif len(test.patterns) > 1:
        listed = f"{'ALL' if test.every else 'ANY'} ({listed})"
    return f"{sub(test.operand, _SUM)} {operator} {listed}"


def _begun(text: str) -> str:
    """Behind DISTINCT a value begins with a name, a number, a text or a bracket."""
    return text if text[0].isalnum() or text[0] in "_\"'(" else f"({text})"


def _after_minus(text: str) -> str:
    """Two minus signs in a row would start a comment."""
    return " " + text if text.startswith("-") else text
