"""Random workloads of queries that read one another's rows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from optimizer.bind.binder import load_bound
from optimizer.ir.query import BoundWorkload

# Each of what makes events P, Q, of what reads P, and of what reads those that read P.
MAKING = (
    "PATTERN SEQ(A a, B b) {key} RETURN a.x, b.x AS u {window} INTO P",
    "PATTERN SEQ(A a, !C c, B b) {key} RETURN b.x, a.y AS u {window} INTO P",
    "PATTERN SEQ(A a, B b, !C c) {key} RETURN b.x, a.y AS u {window} INTO P",
    "PATTERN AND(A a, B b) WHERE a.x <= b.x {key} RETURN a.x, b.y AS u {window} INTO P",
    "PATTERN OR(A a, B b) {key} RETURN a.x, b.x AS u {window} INTO P",
    "PATTERN SEQ(A+ a, B b) {key} RETURN b.x, max(a.x) AS u {window} INTO P",
    "PATTERN A a WHERE a.x > 0 {key} RETURN a.x, a.y AS u {window} INTO P",
    "PATTERN A a {key} RETURN a.x, a.x + a.y AS u LIMIT 1 {window} INTO P",
)
READING = (
    "PATTERN SEQ(P p, C c) {key} RETURN p.x, p.start, p.time, c.y {window}",
    "PATTERN SEQ(C c, P p) {key} RETURN p.u, c.x AS v {window}",
    "PATTERN SEQ(P p, P r) WHERE p.x <= r.x {key} RETURN p.start, r.u {window}",
    "PATTERN SEQ(A a, !P p, C c) {key} RETURN a.x, c.x AS v {window}",
    "PATTERN SEQ(P p, !C c, A a) {key} RETURN p.x, a.x AS v {window}",
    "PATTERN SEQ(A a, !C c, P p) {key} RETURN p.x, a.x AS v {window}",
    "PATTERN SEQ(A a, !P p) {key} RETURN a.x {window}",
    "PATTERN SEQ(!C c, P p) {key} RETURN p.x {window}",
    "PATTERN SEQ(A a, !SEQ(P p, B b), C c) {key} RETURN a.x, c.x AS v {window}",
    "PATTERN AND(P p, C c) {key} RETURN p.x, c.x AS v {window}",
    "PATTERN OR(SEQ(P p, C c), SEQ(A a, P r)) {key} RETURN p.x, r.u, a.y {window}",
    "PATTERN SEQ(C+ c, P p) {key} RETURN p.x, max(c.x) AS v {window}",
    "PATTERN SEQ(A a, AND(P p, B b)) {key} RETURN p.x, a.x AS v {window}",
    "PATTERN P p WHERE p.x > 0 {key} RETURN p.x, p.start {window}",
    "PATTERN SEQ(A a, C? c, P p) {key} RETURN a.x AS v, p.u {window}",
    "PATTERN SEQ(A a, !B b, C* c, P p) {key} RETURN a.x AS v, p.u {window}",
    "PATTERN SEQ(P? p, A a) {key} RETURN a.x AS v {window}",
    "PATTERN P+ p {key} RETURN count(p.x) AS v, max(p.u) AS most {window}",
    "PATTERN SEQ(A a, P+ p, C c) {key} RETURN a.x, p.x, p.start {window}",
    "PATTERN SEQ(P{{2,3}} p, B b) WHERE p.x >= prev(p.x) {key} RETURN p.u, b.x {window}",
    "PATTERN SEQ(A a, P* p, !C c, P r) {key} RETURN a.x, p.x, r.x AS v {window}",
    "PATTERN (SEQ(A a, B b))+ g WHERE a.x <= b.x {key} RETURN a.x, b.y, g.start {window}",
    "PATTERN SEQ(A a, (SEQ(B b, !A n, C c))+ g) WHERE b.x >= prev(c.x) AND a.x <= c.x {key} "
    "RETURN b.x, max(c.y) AS v {window}",
    "PATTERN SEQ((OR(P p, C c)){{2,3}} g, A a) {key} RETURN p.x, a.x AS v {window}",
)
AGGREGATING = (
    "PATTERN P p {key} AGG COUNT(*), SUM(p.x) {window} {slide}",
    "PATTERN SEQ(P p, C c) {key} AGG COUNT(*), MAX(p.u) {window} {slide}",
    "PATTERN SEQ(C c, P p) {key} AGG COUNT(*), MIN(c.x) {window} {slide}",
    "PATTERN SEQ(A a, !P p, C c) {key} AGG COUNT(*) {window} {slide}",
    "PATTERN SEQ(P p, !B b, C c) {key} AGG COUNT(*) HAVING COUNT(*) > 1 {window} {slide}",
    "PATTERN SEQ(P+ p, C c) {key} AGG COUNT(*), SUM(p.x) {window} {slide}",
    "PATTERN P+ p {key} AGG COUNT(*), MIN(p.u) {window} {slide}",
    "PATTERN SEQ(P p, C c, !B b) {key} AGG COUNT(*) {window} {slide}",
    "PATTERN SEQ((SEQ(A a, B b))+ g, C c) {key} AGG COUNT(*), SUM(b.x) {window} {slide}",
)
COUNTING = (
    "PATTERN SEQ(A a, B b) {key} AGG COUNT(*), SUM(a.x) {window} {slide} INTO N",
    "PATTERN A a {key} AGG MAX(a.x) {window} {slide} INTO N",
)
OF_COUNTS = (
    "PATTERN SEQ(N n, C c) WHERE n.value > 1 {key} RETURN n.value, n.time, c.x {window}",
    "PATTERN SEQ(C c, N n) {key} RETURN n.count, n.aggregate, c.x {window}",
    "PATTERN SEQ(N n, N m) WHERE n.value < m.value {key} AGG COUNT(*) {window} {slide}",
    "PATTERN N n WHERE n.count > 1 {key} AGG COUNT(*), MAX(n.value) {window} {slide}",
    "PATTERN SEQ(A a, !N n, C c) {key} RETURN a.x, c.y {window}",
    "PATTERN N+ n {key} RETURN sum(n.value) AS total {window}",
)
LAST = (
    "PATTERN SEQ(R r, C c) {key} RETURN r.start, c.x {window}",
    "PATTERN SEQ(A a, !R r, C c) {key} RETURN a.x {window}",
    "PATTERN SEQ(P p, R r) {key} RETURN p.start, r.start AS began {window}",
    "PATTERN R r {key} AGG COUNT(*) {window} {slide}",
)


@st.composite
def chains(draw: st.DrawFn, sequence: bool | None = None, wide: int = 6) -> BoundWorkload:
    """Two to six queries, in any order."""
    is_keyed = draw(st.booleans())

    def text(choices: tuple[str, ...]) -> str:
        keyed = is_keyed and draw(st.booleans())
        return draw(st.sampled_from(choices)).format(
            key="PARTITION BY k" if keyed else "",
            window=f"WITHIN {draw(st.integers(1, wide))} ms",
            slide=draw(st.sampled_from(("", "SLIDE 2 ms", "SLIDE 3 ms"))),
        )

    def keyed(choices: tuple[str, ...]) -> str:
        """Of what others may partition by the key."""
        made = text(choices)
        if is_keyed and "PARTITION" not in made:
            place = min(made.index(word) for word in (" RETURN", " AGG") if word in made)
            made = f"{made[:place]} PARTITION BY k{made[place:]}"
        return made

    texts = [keyed(MAKING)]
    texts += [text(draw(st.sampled_from((READING, AGGREGATING)))) for _ in range(2)]
    if draw(st.booleans()):
        texts += [keyed(COUNTING), text(OF_COUNTS)]
    if draw(st.booleans()):
        made = keyed(("PATTERN SEQ(P p, B b) {key} RETURN p.x {window} INTO R",))
        texts += [made, text(LAST)]
    named = [f"QUERY q{number} {made}" for number, made in enumerate(draw(st.permutations(texts)))]
    stream: dict[str, Any] = {"time": "ts", "type": "kind", "unit": "ms"}
    if draw(st.booleans()) if sequence is None else sequence:
        stream["sequence"] = "seq"
    if draw(st.integers(0, 3)) == 0:
        types = {name: f"kind = '{name}'" for name in ("A", "B", "C")}
        stream = {**stream, "types": types}
        del stream["type"]
    return load_bound({"name": "w", "stream": stream, "queries": named})
