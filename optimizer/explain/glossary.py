"""The words of plans and reports that a reader may not know, each with what it means."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.engines import ENGINES, Engine


@dataclass(frozen=True)
class Term:
    """A word and its meaning; `phrases` are other ways in which sentences of a plan write it."""

    id: str
    name: str
    section: str
    meaning: str
    phrases: tuple[str, ...] = ()


QUERIES, RUNS, SHARING, COSTS, RUNNING = (
    "Queries",
    "Engines",
    "Sharing",
    "Costs",
    "Running",
)


def _of_engine(engine: Engine) -> Term:
    """An engine under the name by which people know it."""
    name = engine.LABEL if engine.LABEL[0].isupper() else engine.NAME
    known = dict.fromkeys((engine.NAME, engine.LABEL, *engine.PHRASES))
    phrases = tuple(phrase for phrase in known if phrase != name)
    return Term(engine.NAME, name, RUNS, engine.MEANING, phrases)


TERMS = (
    Term(
        "symbol",
        "symbol",
        QUERIES,
        "An event type together with conditions on the event's own attributes, such as "
        "Payment[amount > 500]. Each is tested once for all queries.",
        ("symbols",),
    ),
    Term(
        "aggregates",
        "aggregates",
        QUERIES,
        "Rows with a count, a sum or the like over all matches of a window: what AGG asks for. The "
        "matches themselves are never made.",
    ),
    Term(
        "matches",
        "matches",
        QUERIES,
        "Rows with the events that fit a pattern: what RETURN asks for.",
    ),
    Term(
        "window",
        "window, slide",
        QUERIES,
        "The window is the time, or the number of events, within which a match must lie (WITHIN). "
        "The slide is how often aggregates are reported (SLIDE).",
    ),
    Term(
        "key",
        "key, partition",
        QUERIES,
        "The attributes that divide the stream (PARTITION BY): events with different values are "
        "never in one match, and can be worked on apart from each other.",
        ("partition key",),
    ),
    *map(_of_engine, ENGINES),
    Term(
        "starts",
        "starts",
        RUNS,
        "Events that can begin a match and whose window is still open. A-Seq, PreTree and "
        "Chop-Connect keep counters for each of them.",
        ("active starts",),
    ),
    Term(
        "visiting-events",
        "visiting events",
        RUNS,
        "Going through the events that a group reads, one by one, without what is done at each: "
        "done once for all queries of the group.",
        ("preparing events", "the same events"),
    ),
    Term(
        "group",
        "group",
        SHARING,
        "Queries that one engine runs together.",
    ),
    Term(
        "piece",
        "shared piece",
        SHARING,
        "A stretch of pattern that several queries have, computed once for all of them.",
    ),
    Term(
        "candidate",
        "candidate",
        SHARING,
        "A stretch of pattern that several queries have and that could be computed once. The "
        "solver chooses among candidates.",
    ),
    Term(
        "benefit",
        "benefit",
        SHARING,
        "How much less the whole plan costs with a candidate than without it. Below zero, sharing "
        "it would cost more than it saves.",
    ),
    Term(
        "conflict",
        "conflict",
        SHARING,
        "Two candidates that would take the same step of the same query: at most one of them can "
        "be used.",
    ),
    Term(
        "kinds",
        "prefix, suffix, substring",
        SHARING,
        "Where the candidate stands in its queries: at the beginning of their patterns, at the "
        "end, or anywhere. “events” means that only reading and preparing events is shared.",
        ("prefix cache", "suffix cluster", "shared middle"),
    ),
    Term(
        "bit-marking",
        "bit-marking",
        SHARING,
        "Queries with the same positive part and different negations share the joins of that part; "
        "each match is marked with the queries whose negations it passes.",
    ),
    Term(
        "solver",
        "solver",
        SHARING,
        "What chooses among candidates. Greedy is quick; CP-SAT and exhaustive search look for the "
        "best choice and can prove it, within a limit of time.",
        ("greedy",),
    ),
    Term(
        "optimal",
        "optimal",
        SHARING,
        "It is proven that no other choice of what to share costs less, by the plan's own costs.",
    ),
    Term(
        "feasible",
        "feasible",
        SHARING,
        "A plan that runs and gives the right results, but for which it is not proven that no "
        "other choice of what to share would cost less. The gap says how much that could be.",
    ),
    Term(
        "gap",
        "gap",
        SHARING,
        "How far the plan can be from the best one: the difference between what sharing saves here "
        "and the most that it could save.",
    ),
    Term(
        "cost",
        "cost",
        COSTS,
        "CPU time that the plan is expected to take for each second of the stream, on one core. "
        "“Query by query” is what the same queries take if nothing is shared.",
    ),
    Term(
        "measured",
        "cost model",
        COSTS,
        "“measured” counts what the kernels take, in time, by costs of single operations. “aseq” "
        "counts operations per window by the equations of the A-Seq thesis.",
        ("default costs", "cost model measured"),
    ),
    Term(
        "assumed",
        "assumed",
        COSTS,
        "Rates, selectivities and numbers of keys that nobody gave and no sample showed: default "
        "values stand for them, so costs are rough. A sample of events makes them better.",
    ),
    Term(
        "load",
        "part of a core",
        COSTS,
        "The cost as a part of one core at the stream's rate, and how many events a second one "
        "core could take at most, with the same mix of events.",
    ),
    Term(
        "operator",
        "operator",
        RUNNING,
        "A step of the work: reading, testing conditions, dividing by key, counting or joining, "
        "writing rows. Each has a cost, and takes and gives rows.",
    ),
    Term(
        "access",
        "access",
        RUNNING,
        "How stored events are read: all of them, or by statistics and indexes only the row groups "
        "of files that can matter to a query. The results are the same.",
    ),
    Term(
        "watermark",
        "watermark",
        RUNNING,
        "The time up to which a stream has been worked on: no event before it is taken any more, "
        "and the windows that end before it have been reported.",
    ),
    Term(
        "state",
        "state",
        RUNNING,
        "What a stream must remember between two batches: the events that open windows still reach "
        "back to.",
    ),
    Term(
        "fallback",
        "fallback",
        RUNNING,
        "Something that the run did in another way than planned, because the data or a device did "
        "not allow it. The results are the same.",
    ),
    Term(
        "claimed",
        "claimed by no operator",
        RUNNING,
        "CPU time of the run that belongs to no operator of the plan, such as starting up.",
    ),
)
BY_ID = {term.id: term for term in TERMS}
