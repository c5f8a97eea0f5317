"""`suppress: 10 min` of a workload, of an entry of rules or of a rule.

It is written as SUPPRESS into each query that may have the clause and does not say it itself; so
the document of a workload, a plan and a printed query show it, and nothing behind the loader knows
of defaults.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workloads.errors import QueryError, SheafError, shown
from workloads.imported_rules import ImportedRules, NamedRule, RefusedRule
from workloads.parser import parse_part, query_of
from workloads.printing import print_duration, print_query
from workloads.syntax import Duration, Join, Query, Return

REMEDY = "write an amount and a unit, such as 10 min, or none"
_NEVER = "none"
_MOST_CHARACTERS = 60
_MOST_NANOSECONDS = 2**62


class SuppressionError(SheafError):
    """A value of `suppress` that is no length of time; its remedy is `REMEDY`."""


def read_suppression(value: Any, default: Duration | None = None) -> Duration | None:
    """The length of time that is meant, `default` where nothing is said; None for `none`."""
    if value is None:
        return default
    if isinstance(value, str) and len(value) <= _MOST_CHARACTERS:
        if value.strip().lower() == _NEVER:
            return None
        try:
            found: Duration = parse_part(value, "duration", 0, len(value))
        except QueryError:
            pass
        else:
            is_whole = found.size == int(found.size)
            if not found.is_count and is_whole and 0 < found.size < _MOST_NANOSECONDS:
                return Duration(found.amount, found.unit)
    raise SuppressionError(f"'suppress' is {shown(value)}, not a length of time")


def takes_suppression(query: Query) -> bool:
    """May the query have SUPPRESS, and does it say nothing of it?

    What a query gives to others (INTO) is no alert: leaving rows out would change what those mean.
    """
    output = query.output
    if not isinstance(output, Return) or output.suppress is not None or query.notation is not None:
        return False
    return query.into is None and not query.session and not isinstance(query.pattern, Join)


def with_suppression(query: Query, span: Duration | None) -> Query:
    """The query with SUPPRESS behind its own text, where it may have it; raises `QueryError`."""
    if span is None or not takes_suppression(query):
        return query
    # Places of clauses are those in the author's text, which has no such clause.
    longer = query_of(f"{query.text.rstrip()}\nSUPPRESS {print_duration(span)}")
    return replace(longer, clause_spans=query.clause_spans)


def suppressed_rules(found: ImportedRules, format: str, default: Duration | None) -> ImportedRules:
    """Rules with what each has under `suppress`, or the default; refused where that is wrong."""
    taken: list[NamedRule] = []
    refused = list(found.refused)
    for rule in found.rules:
        try:
            span = read_suppression(rule.suppress, default)
            if span is not None and rule.suppress is not None and not takes_suppression(rule.query):
                raise SuppressionError(
                    "it has 'suppress', which is for rules whose alerts are matches, not counts"
                )
        except SuppressionError as error:
            name = str(rule.query.name)
            refused.append(RefusedRule(format, name, rule.place, f"{error}; {REMEDY}"))
            continue
        taken.append(rule if span is None else replace(rule, query=_printed(rule.query, span)))
    return replace(found, rules=tuple(taken), refused=tuple(refused))


def _printed(query: Query, span: Duration) -> Query:
    """A rule's query, which has no text but the printed one."""
    output = query.output
    if not isinstance(output, Return) or not takes_suppression(query):
        return query
    changed = replace(query, output=replace(output, suppress=span))
    return replace(changed, text=print_query(changed))
