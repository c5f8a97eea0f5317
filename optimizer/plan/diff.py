"""What changed from one plan to the next, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.explain.text import amount, some
from optimizer.plan.plan import Plan, PlanCandidate

SharedPattern = tuple[tuple[str, ...], frozenset[str]]


@dataclass(frozen=True)
class Change:
    """The difference between two plans.

    `kept` are operators with the same id, which go on as they are; pieces are what is shared, with
    the queries that it is shared by.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    shared: tuple[PlanCandidate, ...]
    unshared: tuple[PlanCandidate, ...]
    engines: tuple[tuple[str, str, str], ...]  # query, before, now
    kept: int
    made: int
    dropped: int


def change(old: Plan, new: Plan) -> Change:
    """What is different in the new plan."""
    before, now = _chosen(old), _chosen(new)
    were = {query: group.engine for group in old.groups for query in group.queries}
    are = {query: group.engine for group in new.groups for query in group.queries}
    ids = {o.id for o in old.operators}, {o.id for o in new.operators}
    return Change(
        added=tuple(name for name in new.queries if name not in were),
        removed=tuple(name for name in old.queries if name not in are),
        shared=tuple(c for piece, c in now.items() if piece not in before),
        unshared=tuple(c for piece, c in before.items() if piece not in now),
        engines=tuple(
            (name, were[name], engine)
            for name, engine in are.items()
            if name in were and were[name] != engine
        ),
        kept=len(ids[0] & ids[1]),
        made=len(ids[1] - ids[0]),
        dropped=len(ids[0] - ids[1]),
    )


def render_change(old: Plan, new: Plan) -> str:
    """What changed, a line for each kind of change."""
    return "\n".join(_lines(old, new)) + "\n"


def _chosen(plan: Plan) -> dict[SharedPattern, PlanCandidate]:
    chosen = set(plan.chosen)
    return {(c.pattern, frozenset(c.queries)): c for c in plan.candidates if c.id in chosen}


def _lines(old: Plan, new: Plan) -> Iterator[str]:
    if old.id == new.id:
        yield f"the same as {old.id}"
        return
    yield f"compared with {old.id}:"
    found = change(old, new)
    if found.added:
        yield f"  queries added: {some(found.added)}"
    if found.removed:
        yield f"  queries removed: {some(found.removed)}"
    lost = {c.pattern: c for c in found.unshared}
    gained = {c.pattern: c for c in found.shared}
    removed = set(found.removed)
    for pattern in [p for p in gained if p in lost]:
        if text := _from_to(lost[pattern], gained[pattern], removed):
            yield f"  shared by others than before: {', '.join(pattern)}: {text}"
    for pattern in [p for p in gained if p not in lost]:
        yield f"  newly shared: {', '.join(pattern)}: by {some(gained[pattern].queries)}"
    for pattern in [p for p in lost if p not in gained]:
        yield f"  no longer shared: {', '.join(pattern)}: by {some(lost[pattern].queries)}"
    by_engines: dict[tuple[str, str], list[str]] = {}
    for name, was, now in found.engines:
        by_engines.setdefault((was, now), []).append(name)
    for (was, now), names in by_engines.items():
        yield f"  engine {was} to {now}: {some(names)}"
    yield (
        f"  operators: {found.kept:,} stay as they are, {found.made:,} are new, "
        f"{found.dropped:,} go"
    )
    if old.cost.unit == new.cost.unit:
        unit = new.cost.unit
        before, now_ = amount(old.cost.shared, unit), amount(new.cost.shared, unit)
        yield f"  cost: {now_}" + (" as before" if before == now_ else f", and {before} before")
    else:
        yield f"  cost: by {old.model} before and {new.model} now, which do not compare"
    if old.statistics != new.statistics or old.rates != new.rates:
        yield "  statistics: others than before"


def _from_to(lost: PlanCandidate, gained: PlanCandidate, removed: set[str]) -> str:
    """Which queries came to a piece, and which left it and are still there."""
    before, now = set(lost.queries) - removed, set(gained.queries)
    parts = [f"with {some(sorted(now - before))} too"] if now - before else []
    parts += [f"without {some(sorted(before - now))}"] if before - now else []
    return ", ".join(parts)
