"""The words of the query language and of workload files, each with what it means in a sentence.

Editors complete and explain them; a test holds them against the grammar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workloads import expressions as ex
from workloads.situations import relations

CLAUSES = {
    "QUERY": "`QUERY name`: the query's name, by which its rows are found.",
    "PATTERN": "`PATTERN SEQ(A a, !B b, C c)`: which events make a match.",
    "WHERE": "`WHERE a.x < b.x AND [user]`: what must hold of them.",
    "PARTITION": "`PARTITION BY user`: all events of a match have this in common.",
    "AGG": "`AGG COUNT(*), SUM(b.price)`: numbers over all matches, which are never constructed.",
    "GROUP": "`AGG COUNT(*) GROUP BY a.region`: aggregates for each value by itself.",
    "HAVING": "`AGG COUNT(*) HAVING COUNT(*) > 10`: which rows are given.",
    "RETURN": "`RETURN a.x, b`: a row for each match, with these values.",
    "LIMIT": "`LIMIT 10`: at most so many matches of each key and time.",
    "WITHIN": "`WITHIN 10 min`, `WITHIN 100 EVENTS`: how far apart events of a match may be.",
    "SLIDE": "`WITHIN 10 min SLIDE 1 min`: a row each so often, not at each event.",
    "SUPPRESS": "`SUPPRESS 10 min`: of a key's matches in that time only the first.",
    "KEEP": "`KEEP FIRST 5`: of all matches only these.",
    "STRATEGY": "`STRATEGY ANY | NEXT | STRICT | LATEST`: which events may be passed over.",
    "UNTIL": "`UNTIL E e`: an event that ends what waits.",
    "AFTER": "`AFTER MATCH SKIP PAST LAST EVENT`: where the next match may start.",
    "WINDOWS": "`WINDOWS FROM FIRST`: windows are counted from the first event.",
    "EMPTY": "`EMPTY ROWS`: windows without a match have rows too.",
    "INTO": "`INTO Name [ONLY]`: rows become events that other queries read.",
    "FUNNEL": "`FUNNEL SEQ(View v, Buy b)`: how far each key gets.",
    "STRICT": "`STRICT [ORDER | DEDUPLICATION | INCREASE]`: what may not lie between steps.",
    "EXCLUDE": "`EXCLUDE E e BETWEEN a AND b`: an event that must not lie between two steps.",
    "DEFINE": "`DEFINE Fast AS speed > 70 AT LEAST 5 s`: stretches of time in which it holds.",
    "FROM": "`FROM Type`: the events that situations are told by.",
    "EMIT": "`EMIT EARLY | COMPLETE`: when a match of situations is given.",
}
WORDS = {
    "SEQ": "`SEQ(A a, B b)`: events one after the other.",
    "AND": "`AND(A a, B b)`: events in any order; between conditions, both hold.",
    "OR": "`OR(A a, B b)`: one of them; between conditions, one holds.",
    "NOT": "The condition does not hold.",
    "ALL": "`ALL E e`: all events of a type as one group; `LIKE ALL (…)`: every text.",
    "ANY": "`ANY a`: an event of any type; `LIKE ANY (…)`: one of several texts.",
    "JOIN": "`JOIN(A l WITHIN 5 s, B r WITHIN 10 EVENTS)`: a window for each side.",
    "LEFT": "`LEFT JOIN(…)`: left events without a partner are given too.",
    "BY": "`PARTITION BY user`; of a funnel `BY v.country`, what its numbers are given by.",
    "AS": "`RETURN a.x AS name`.",
    "OF": "`WITHIN 10 EVENTS OF (A, B)`: which events count.",
    "IN": "`a.x IN (1, 2, 3)`.",
    "IS": "`a.x IS NULL`, `a.x IS NOT NULL`.",
    "NULL": "No value.",
    "TRUE": "A truth value.",
    "FALSE": "A truth value.",
    "BETWEEN": "`EXCLUDE E e BETWEEN a AND b`; `BETWEEN 5 s AND 10 s`, how long a situation lasts.",
    "DISTINCT": "`COUNT(DISTINCT a.x)`: how many different values.",
    "LIKE": "`a.x LIKE 'ab%'`: % is any text, _ any character.",
    "ILIKE": "`LIKE` in any case of letters.",
    "CONTAINS": "`a.x CONTAINS 'ab'`.",
    "STARTS": "`a.x STARTS WITH 'ab'`.",
    "ENDS": "`a.x ENDS WITH 'ab'`.",
    "MATCHES": "`a.x MATCHES '^a+$'`: a regular expression.",
    "WITH": "`STARTS WITH`, `ENDS WITH`.",
    "CIDR": "`a.ip IN CIDR ('10.0.0.0/8')`: an address of a network.",
    "NOCASE": "Texts are compared in any case of letters.",
    "MATCH": "`AFTER MATCH SKIP …`.",
    "SKIP": "`AFTER MATCH SKIP TO NEXT EVENT`, `AFTER MATCH SKIP PAST LAST EVENT`.",
    "PAST": "`AFTER MATCH SKIP PAST LAST EVENT`.",
    "TO": "`AFTER MATCH SKIP TO NEXT EVENT`.",
    "NEXT": "`STRATEGY NEXT`: the next event that fits is taken.",
    "LATEST": "`STRATEGY LATEST`: one partial match waits for each stage and key.",
    "EVENT": "`AFTER MATCH SKIP PAST LAST EVENT`.",
    "EVENTS": "`WITHIN 100 EVENTS`: a window of so many events.",
    "ROWS": "`EMPTY ROWS`.",
    "SESSION": "`WITHIN SESSION 5 min`: events with no longer pause between them.",
    "INCLUSIVE": "`WITHIN 5 min INCLUSIVE`: events just that far apart are in one window.",
    "ONLY": "`INTO Name ONLY`: rows are events for other queries, and no results.",
    "OPTIONAL": "`PARTITION BY (a.x, b.y) AS x OPTIONAL`: null is a value of the key.",
    "ORDER": "`STRICT ORDER`: no other step of the funnel lies between.",
    "DEDUPLICATION": "`STRICT DEDUPLICATION`: a step that comes again ends the funnel.",
    "INCREASE": "`STRICT INCREASE`: steps have different times.",
    "EARLY": "`EMIT EARLY`: as soon as a match is certain.",
    "COMPLETE": "`EMIT COMPLETE`: when all its situations have ended.",
    "AT": "`AT LEAST 5 s`, `AT MOST 1 min`: how long a situation lasts.",
    "LEAST": "`AT LEAST 5 s`.",
    "MOST": "`AT MOST 1 min`.",
    "GAP": "`GAP 30 s`: how long a condition may fail within a situation.",
}
FUNCTIONS = {
    **{name.upper(): "An aggregate." for name in ("sum", "avg", "min", "max", "count")},
    "FIRST": "The first value; `KEEP FIRST n`.",
    "LAST": "The last value; `KEEP LAST n`.",
    "PREV": "`prev(b.x)`: of the repetition, or event, before.",
    "VAR": "The variance of a sample.",
    "VAR_POP": "The variance of all.",
    "STDDEV": "The standard deviation of a sample.",
    "STDDEV_POP": "The standard deviation of all.",
    **dict.fromkeys(ex.VALUE_FUNCTIONS, "A function of a value."),
}
RELATIONS = tuple(relations.WORDS)
UNITS = ("ns", "us", "ms", "s", "min", "hour", "day")

# Keys of a workload file by what they stand in.
KEYS: Mapping[str, Mapping[str, str]] = {
    "": {
        "name": "The workload's name; by default that of its file.",
        "stream": "How rows are read as events.",
        "streams": "Several sources by their names, in place of `stream`.",
        "queries": "The queries: texts, or maps with `sql`, `eql` or `sigma`.",
        "statistics": "Rates, selectivities and keys, where they are known without looking.",
        "limits": "How many partial matches a key may have.",
        "suppress": "SUPPRESS of all queries for matches that do not say it, such as 10 min.",
        "rules": "Files of Sigma or EQL rules.",
        "optional": "Queries that are left out, and listed, where the events do not fit them.",
        "tests": "Events, and what they must raise.",
    },
    "stream": {
        "time": "The column that has an event's time.",
        "unit": "Of a time in numbers: s, ms, us or ns.",
        "format": "How times are written, such as `%d/%m/%Y %H:%M`.",
        "type": "The column that has an event's type.",
        "sequence": "The column that orders events of one time.",
        "types": "Types, each given by a condition, or by nothing where the type column says so.",
        "attributes": "Columns and what they hold: int, float, string, bool or time.",
        "lateness": "How late events of a live stream may be, such as 10 s.",
        "delimiter": "What is between the columns of CSV.",
        "missing_columns": "error, or ignore: columns that are not there are null.",
        "situations": "Situations that queries use by their names.",
    },
    "statistics": {
        "rates": "Events per second, by type.",
        "selectivities": "Which part of events or pairs a condition holds for.",
        "keys": "How many values a key has, and the share of the heaviest.",
        "ties": "The share of events that are simultaneous with another.",
        "events": "How many events the stream has.",
        "span": "In how many seconds.",
    },
    "limits": {
        "partial_matches": "How many partial matches of one key an operator holds.",
        "on_limit": "stop, or drop-oldest.",
    },
}
KINDS = ("int", "float", "string", "bool", "time")


def explained() -> Iterator[tuple[str, str]]:
    """Every word of queries, as it is usually written, with what it means."""
    for words in (CLAUSES, WORDS, FUNCTIONS):
        yield from words.items()
    for relation in RELATIONS:
        yield relation, "A relation between two situations."
