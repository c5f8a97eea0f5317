"""`sheaf check --explain`: each query's way to its planning form and its normal form, by rule."""

from __future__ import annotations

import re
from collections.abc import Sequence

from optimizer.ir.keys import ComponentKey
from optimizer.ir.pattern import Or, print_pattern
from optimizer.ir.query import BoundWorkload, Query, Window, is_about_situations, is_funnel
from optimizer.plan.window_texts import shown_pattern
from optimizer.rewrite.body import Body, disjuncts
from optimizer.rewrite.driver import RuleStep
from optimizer.rewrite.normalize import NormalForm, normalize
from optimizer.rewrite.symbols import SymbolTable, symbol_table
from workloads.expressions import Expression, Literal, Logical
from workloads.printing import print_expression, print_name
from workloads.workload import print_nanoseconds

_WIDTH = 100
_SHOWN_DISJUNCTS = 12


def explain_workload(workload: BoundWorkload) -> str:
    """Every query's rewriting, then the symbols of all of them."""
    normalized = [normalize(query, stream=workload.stream) for query in workload.queries]
    table = symbol_table(n.rewritten for n in normalized)
    parts = [explain_query(n) for n in normalized]
    return "\n\n".join([*parts, _symbols(table, workload.name)])


def explain_query(normalized: NormalForm) -> str:
    """One query: its body, the rules that applied with the body after each, and its form.

    The steps to the form in which it is planned and run come first; the others only explain it.
    """
    query = normalized.query
    lines = [f"QUERY {print_name(query.name)}"]
    if is_about_situations(query) or is_funnel(query):
        lines += _wrapped([shown_pattern(query)], "  ")
    else:
        lines += _body(Body(query.pattern, query.conditions), "  ")
    lines += [f"  {line}" for line in _frame(query)]
    planned = len(normalized.planning.trace)
    lines += _steps(normalized.trace[:planned], 1)
    lines.append(f"  planned and run {'in this form' if planned else 'as written'}")
    lines += _wrapped(_fixed(normalized.planning.query), "  key: ")
    if len(normalized.trace) > planned:
        lines.append("  rewritten further, to explain it:")
        lines += _steps(normalized.trace[planned:], planned + 1)
    count = len(disjuncts(normalized.body.pattern))
    several = f", {count:,} disjuncts" if count != 1 else ""
    unchanged = "" if normalized.trace else ", as written"
    lines.append(f"  form: {normalized.form}{several}{unchanged}")
    lines += _wrapped(normalized.notes, "  note: ")
    symbols = [str(entry.symbol) for entry in symbol_table([normalized.rewritten])]
    lines += _wrapped([", ".join(symbols)] if symbols else [], "  symbols: ")
    return "\n".join(lines)


def _steps(steps: Sequence[RuleStep], first: int) -> list[str]:
    lines: list[str] = []
    for number, step in enumerate(steps, first):
        lines.append(f"  {number}. {step.rule}")
        lines += _body(step.body, "     ")
    return lines


def _fixed(query: Query) -> list[str]:
    """The key that results have, where conditions fix a part of it; else nothing."""
    if not query.fixed_key:
        return []
    named = query.result_key
    parts = [print_name(n) if v is None else f"{print_name(n)} = {_text(v)}" for n, v in named]
    by = f"by {', '.join(map(print_name, query.key))}" if query.key else "not at all"
    return [f"{', '.join(parts)}; the events are partitioned {by}"]


def _text(value: str) -> str:
    return print_expression(Literal(value))


def _frame(query: Query) -> list[str]:
    parts = [*map(print_name, query.key), *(_tied(key) for key in query.tied_key)]
    key = f"PARTITION BY {', '.join(parts)}" if parts else ""
    within = "" if query.window.is_endless else f"WITHIN {_within(query.window)}"
    slide = "" if query.slide is None else f"SLIDE {_amount(query.window, query.slide)}"
    grouped = [f"{g.alias}.{g.attribute} AS {print_name(g.name)}" for g in query.groups]
    groups = f"GROUP BY {', '.join(grouped)}" if grouped else ""
    return [" ".join(filter(None, [key, groups, within, slide]))]


def _tied(key: ComponentKey) -> str:
    columns = ", ".join(f"{alias}.{column}" for alias, column in key.columns)
    return f"({columns}) AS {print_name(key.name)}{' OPTIONAL' if key.optional else ''}"


def _within(window: Window) -> str:
    if window.is_inclusive:
        return f"{_amount(window, window.size - 1)} INCLUSIVE"
    return _amount(window, window.size)


def _amount(window: Window, size: int) -> str:
    return f"{size} EVENTS" if window.is_count else print_nanoseconds(size)


def _body(body: Body, indent: str) -> list[str]:
    """The pattern, an OR at the root a part a line, and the conditions."""
    parts = disjuncts(body.pattern)
    texts = [print_pattern(part) for part in parts]
    if isinstance(body.pattern, Or) and len(parts) > 1:
        shown = texts[:_SHOWN_DISJUNCTS]
        lines = [line for text in shown for line in _wrapped([text], f"{indent}OR ")]
        lines[0] = lines[0].replace("OR ", "   ", 1)
        if len(texts) > len(shown):
            lines.append(f"{indent}OR … {len(texts) - len(shown):,} more")
    else:
        lines = _wrapped([print_pattern(body.pattern)], indent)
    if body.conditions:
        where = " AND ".join(map(_condition, body.conditions))
        lines += _wrapped([where], f"{indent}WHERE ")
    return lines


def _condition(condition: Expression) -> str:
    """A conjunct; the primed aliases of copies without the quotes that a query would need."""
    text = re.sub(r"\"([^\"]+'+)\"\.", r"\1.", print_expression(condition))
    return f"({text})" if isinstance(condition, Logical) else text


def _wrapped(texts: Sequence[str], first: str) -> list[str]:
    """Each text behind `first`, cut at commas and ANDs, its further lines indented below."""
    lines: list[str] = []
    for text in texts:
        line = first
        for piece in re.split(r"(?<=,) |(?= AND )(?<!,)", text):
            if len(line) + len(piece) >= _WIDTH and line.strip() != first.strip():
                lines.append(line.rstrip())
                line = " " * len(first) + "  " + piece.lstrip()
            else:
                line += piece if line == first or piece.startswith(" ") else f" {piece}"
        lines.append(line)
    return lines


def _symbols(table: SymbolTable, name: str) -> str:
    lines = [f"symbols of {name}: {len(table):,}"]
    for entry in table:
        queries = ", ".join(print_name(query) for query in entry.queries)
        lines += _wrapped([f"{entry.symbol}: {queries}"], f"  {entry.id:>3}  ")
    return "\n".join(lines)
