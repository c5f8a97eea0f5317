"""`(SEQ(B b, C c))+ g`: a chain of matches, each wholly before the next.

A query is added whose rows are the matches of what is repeated, for the query of the chain alone.
In that query the chain is a group of these rows. What is asked of one repetition alone goes along;
everything else reads fields of the rows: `b.x` is `g.b_x`. A negated chain, `!(SEQ(B b, C c))+`, is
what it repeats, negated: where that does not occur there is no chain of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from optimizer.bind.patterns import components_of, has_chain
from optimizer.ir.produced import START
from workloads import expressions as ex
from workloads import syntax as sx
from workloads.errors import QueryError, Span
from workloads.workload import AttributeKind, Stream, Workload

_BY_ITSELF = "give it a query of its own with INTO Made, and write 'Made+ m' here"


@dataclass
class _Chain:
    """A chain, and what its query reads of each repetition: `fields`, by alias and attribute."""

    component: sx.Component
    type: str
    taken: frozenset[str]
    fields: dict[tuple[str, str], tuple[str, Span]] = field(default_factory=dict)

    @property
    def repeated(self) -> sx.Pattern:
        assert self.component.repeated is not None
        return self.component.repeated

    def read(self, attribute: ex.Attribute) -> ex.Attribute:
        """An attribute of a component inside, as one of a repetition."""
        place = (attribute.alias, attribute.name)
        if place not in self.fields:
            name = "_".join(place).replace(".", "_")
            while name in self.taken or any(name == known for known, _ in self.fields.values()):
                name += "_"
            self.fields[place] = (name, attribute.span)
        return replace(attribute, alias=self.component.name, name=self.fields[place][0])


def with_repetitions(
    workload: Workload, columns: Mapping[str, AttributeKind] | None
) -> tuple[Workload, dict[int, list[QueryError]]]:
    """The workload with a query for each chain behind its own; errors are by query."""
    stream = workload.stream
    names = {*stream.attributes, *(columns or ()), stream.time, stream.type, stream.sequence}
    queries: list[sx.Query] = []
    added: list[sx.Query] = []
    errors: dict[int, list[QueryError]] = {}
    for number, query in enumerate(workload.queries):
        query = _with_plain_negations(query)
        if not has_chain(query.pattern):
            queries.append(query)
            continue
        taken = frozenset(name for name in (*names, *query.partition_by) if name is not None)
        wrong = list(_wrong(query, stream))
        made: list[sx.Query] = []
        if not wrong:
            try:
                query, made = _apart(query, taken)
            except QueryError as error:
                wrong.append(error)
        if wrong:
            errors[number] = wrong
        queries.append(query)
        added += made
    return replace(workload, queries=(*queries, *added)), errors


# --- negated chains -------------------------------------------------------------------------------


def _with_plain_negations(query: sx.Query) -> sx.Query:
    """The query with what they repeat in the place of negated chains of one or more.

    Not where something is asked of several repetitions: such a chain may be absent for that.
    """
    where = () if query.where is None else ex.walk(query.where)
    calls = (node for node in where if isinstance(node, ex.Call))
    asked = {alias for call in calls for alias in ex.aliases(call)}
    return replace(query, pattern=_plain(query.pattern, asked))


def _plain(pattern: sx.Pattern, asked: set[str]) -> sx.Pattern:
    match pattern:
        case sx.Negation(sx.Component(repeated=repeated) as chain) if repeated is not None:
            names = {component.name for component in components_of(repeated)}
            least_one = isinstance(chain.quantifier, sx.Plus) and not chain.optional
            return replace(pattern, part=repeated) if least_one and not names & asked else pattern
        case sx.Negation(part):
            return replace(pattern, part=_plain(part, asked))
        case sx.Operation(_, parts):
            return replace(pattern, parts=tuple(_plain(part, asked) for part in parts))
        case sx.Component() | sx.Join():
            return pattern


# --- what is not taken ----------------------------------------------------------------------------


def _wrong(query: sx.Query, stream: Stream) -> Iterator[QueryError]:
    chains = [c for c in components_of(query.pattern) if c.repeated is not None]
    span = chains[0].span
    if isinstance(query.output, sx.Funnel):
        yield QueryError("a FUNNEL has steps of single components", span, _BY_ITSELF)
    if query.strategy != "any":
        yield QueryError(
            f"STRATEGY {query.strategy.upper()} stands in a query with a chain of matches",
            query.strategy_span,
            "leave STRATEGY out: which matches a chain has is asked of all",
        )
    if query.within is not None and (query.session or query.within.is_count):
        what = "SESSION" if query.session else "a number of events"
        yield QueryError(
            f"WITHIN {what} stands in a query with a chain of matches",
            query.within.span,
            "use a window in time, as in WITHIN 10 min",
        )
    for key in query.tied_keys:
        yield QueryError(
            "a key that differs by component stands in a query with a chain of matches",
            key.span,
            _BY_ITSELF,
        )
    yield from _misplaced(query.pattern, stream)
    names = set[str]()
    for chain in chains:
        yield from _wrong_chain(chain)
    for component in _all_components(query.pattern):
        if component.name in names:
            yield QueryError(
                f"the name '{component.name}' is used twice",
                component.span,
                "give each component and each chain an alias of its own",
            )
        names.add(component.name)


def _all_components(pattern: sx.Pattern) -> Iterator[sx.Component]:
    for component in components_of(pattern):
        yield component
        if component.repeated is not None:
            yield from _all_components(component.repeated)


def _misplaced(pattern: sx.Pattern, stream: Stream) -> Iterator[QueryError]:
    match pattern:
        case sx.Negation(part):
            for chain in _chains(part):
                yield QueryError(
                    "a chain of matches stands in a negation",
                    chain.span,
                    "negate what is repeated, or a chain of one or more of it, of which nothing is "
                    "asked by prev() or an aggregate",
                )
        case sx.Operation("AND", parts):
            for number, part in enumerate(parts):
                others = [c for i, p in enumerate(parts) if i != number for c in _all_components(p)]
                for chain in _chains(part):
                    yield from _in_conjunction(chain, others, stream)
                yield from _misplaced(part, stream)
        case sx.Operation():
            for mark, part in pattern.marked_parts:
                if mark is not None and _chains(part):
                    yield QueryError(
                        f"'{sx.MARKS[mark]}' stands before a chain of matches",
                        part.span,
                        "leave it out, or name what must not be there: SEQ(A a, !N n, …)",
                    )
                yield from _misplaced(part, stream)
        case sx.Component() | sx.Join():
            for chain in _chains(pattern) if isinstance(pattern, sx.Join) else ():
                yield QueryError("a chain of matches stands in a JOIN", chain.span, _BY_ITSELF)


def _in_conjunction(
    chain: sx.Component, others: list[sx.Component], stream: Stream
) -> Iterator[QueryError]:
    """No event is used twice in an AND, which only types tell of events inside of repetitions."""
    inside = [component.type for component in _all_components(chain) if component is not chain]
    for other in others:
        both = other.type in inside
        unclear = [name for name in (other.type, *inside) if not _is_by_column(name, stream)]
        if other.repeated is None and (both or unclear):
            yield QueryError(
                f"an event of the chain may be '{other.name}' too, and an AND uses none twice",
                chain.span,
                "let the two have different types of the type column, or " + _BY_ITSELF,
            )
            return


def _is_by_column(name: str, stream: Stream) -> bool:
    """Do events of a type differ from those of all others of which that holds?"""
    return stream.type is not None and name.upper() != "ANY" and stream.types.get(name) is None


def _chains(pattern: sx.Pattern) -> list[sx.Component]:
    return [c for c in components_of(pattern) if c.repeated is not None]


def _wrong_chain(chain: sx.Component) -> Iterator[QueryError]:
    quantifier = chain.quantifier
    chosen = isinstance(quantifier, sx.Plus) or (
        isinstance(quantifier, sx.Between) and not quantifier.consecutive
    )
    if not chosen or chain.optional:
        yield QueryError(
            "a chain of matches has one or more of them, with anything between",
            chain.span,
            "repeat it by '+', '{n,m}' or '{n,}'"
            + ("; OR(…) of patterns with and without it for '?' and '*'" if chain.optional else ""),
        )
    match chain.repeated:
        case sx.Operation():
            yield from _wrong_repeated(chain.repeated)
        case sx.Component(repeated=None):
            yield QueryError(
                "brackets around a single component that is repeated",
                chain.span,
                "leave them out: E+ e",
            )
        case _:
            yield QueryError("a chain is of SEQ, AND or OR", chain.span, "write (SEQ(B b, C c))+ g")


def _wrong_repeated(pattern: sx.Pattern) -> Iterator[QueryError]:
    match pattern:
        case sx.Component():
            if pattern.repeated is not None:
                yield QueryError("a chain stands in a chain", pattern.span, _BY_ITSELF)
            elif pattern.optional:
                yield QueryError(
                    "an optional component stands in what is repeated",
                    pattern.span,
                    "write OR(…) of patterns with and without it",
                )
        case sx.Operation(operator, parts):
            inside = parts[1:-1] if operator == "SEQ" else ()
            for part in parts:
                if not isinstance(part, sx.Negation):
                    yield from _wrong_repeated(part)
                elif part not in inside:
                    yield QueryError(
                        "a negation in what is repeated looks beyond a repetition",
                        part.span,
                        "put it between two parts of a SEQ",
                    )
                elif chains := _chains(part):
                    yield QueryError("a chain stands in a chain", chains[0].span, _BY_ITSELF)
        case sx.Join() | sx.Negation():
            yield QueryError("a JOIN stands in a chain", pattern.span, _BY_ITSELF)


# --- the query of a chain, and the one that is added ---------------------------------------------


def _apart(query: sx.Query, taken: frozenset[str]) -> tuple[sx.Query, list[sx.Query]]:
    """The query with groups of rows in the place of chains, and the queries of these rows."""
    chains = [_Chain(c, f"{c.name} of {query.name}", taken) for c in _chains(query.pattern)]
    reader = _Reader(chains)
    asked: dict[str, list[ex.Expression]] = {chain.type: [] for chain in chains}
    kept: list[ex.Expression] = []
    keys: list[ex.Expression] = []
    for part in ex.conjuncts(query.where) if query.where is not None else ():
        if isinstance(part, ex.Equivalence):
            keys.append(part)
        elif (chain := reader.asked_of(part)) is not None:
            asked[chain.type].append(part)
        else:
            kept.append(reader.condition(part))
    assert isinstance(query.output, sx.Aggregates | sx.Return)
    types = {chain.component.name: chain.type for chain in chains}
    outer = replace(
        query,
        pattern=_with_types(query.pattern, types),
        where=_all([*keys, *kept]),
        output=_output(query.output, reader),
    )
    return outer, [_query(query, chain, [*keys, *asked[chain.type]]) for chain in chains]


class _Reader:
    """Reads what is inside of chains from outside."""

    def __init__(self, chains: list[_Chain]) -> None:
        self._inside = {c.name: chain for chain in chains for c in components_of(chain.repeated)}
        self._chains = {chain.component.name for chain in chains}
        self._hidden: dict[str, str] = {}  # why a component has no single value in a repetition
        self._either: set[str] = set()
        for chain in chains:
            self._look(chain.repeated, either=False)

    def _look(self, pattern: sx.Pattern, either: bool) -> None:
        match pattern:
            case sx.Component():
                if pattern.quantifier != sx.ONE:
                    self._hidden[pattern.name] = "a group in each repetition"
                if either:
                    self._either.add(pattern.name)
            case sx.Negation(part):
                absent = "what does not occur in a repetition"
                self._hidden |= {c.name: absent for c in components_of(part)}
            case sx.Operation(operator, parts):
                for part in parts:
                    self._look(part, either or operator == "OR")
            case sx.Join():
                return

    def asked_of(self, condition: ex.Expression) -> _Chain | None:
        """The chain of which a condition is about each repetition by itself."""
        chains = [self._inside.get(alias) for alias in sorted(ex.aliases(condition))]
        if not chains or any(chain is not chains[0] for chain in chains):
            return None
        # Of single components these ask over all repetitions, and of the one before.
        calls = (node for node in ex.walk(condition) if isinstance(node, ex.Call))
        called = {alias for call in calls for alias in ex.aliases(call)}
        return chains[0] if called <= self._hidden.keys() else None

    def condition(self, condition: ex.Expression) -> ex.Expression:
        """A condition about several repetitions, or about one and what is outside."""
        for node in ex.walk(condition):
            if isinstance(node, ex.Attribute) and node.alias in self._either:
                raise QueryError(
                    f"'{node.alias}' is of an OR, and absent in some repetitions",
                    node.span,
                    "write OR(…) of chains, or compare it with what is in the same repetition",
                )
        return self.value(condition)

    def value(self, value: ex.Expression) -> ex.Expression:
        """A value with fields of repetitions for the attributes of what is inside."""
        return ex.transform(value, self._read)

    def _read(self, node: ex.Expression) -> ex.Expression:
        if not isinstance(node, ex.Attribute):
            return node
        if node.alias in self._chains and node.name not in (START, "time"):
            raise QueryError(
                f"'{node.alias}' is a chain, and has no '{node.name}'",
                node.span,
                f"{node.alias}.start and {node.alias}.time are of each repetition; name what is "
                "in it by its own alias",
            )
        if node.alias not in self._inside:
            return node
        if node.alias in self._hidden:
            raise QueryError(
                f"'{node.alias}' is {self._hidden[node.alias]}, and has no single value there",
                node.span,
                _BY_ITSELF,
            )
        return self._inside[node.alias].read(node)

    def item(self, item: sx.Item) -> sx.Item:
        """An item of RETURN."""
        if item.value is None:
            raise QueryError(
                "RETURN * stands in a query with a chain of matches", item.span, _SINGLE
            )
        if isinstance(item.value, str):
            if item.value in self._inside or item.value in self._chains:
                raise QueryError(f"'{item.value}' is returned as a whole", item.span, _SINGLE)
            return item
        if item.name is not None:
            for attribute in _outside_calls(item.value):
                if attribute.alias in self._inside:
                    written = f"{attribute.alias}.{attribute.name}"
                    raise QueryError(
                        f"'{written}' has a value for each repetition",
                        attribute.span,
                        f"return {written}, or aggregate it, as in max({written}) AS {item.name}",
                    )
        return replace(item, value=self.value(item.value))


def _outside_calls(value: ex.Expression) -> Iterator[ex.Attribute]:
    inside = [n for call in ex.walk(value) if isinstance(call, ex.Call) for n in ex.walk(call)]
    for node in ex.walk(value):
        if isinstance(node, ex.Attribute) and not any(node is each for each in inside):
            yield node


_SINGLE = "name attributes, such as b.id: a list of them is given for the chain"


def _output(output: sx.Aggregates | sx.Return, reader: _Reader) -> sx.Aggregates | sx.Return:
    if isinstance(output, sx.Return):
        return replace(output, items=tuple(map(reader.item, output.items)))
    for group in output.groups:
        if reader.value(group.attribute) != group.attribute:
            raise QueryError(
                "rows are split by what is in a chain, of which there are many values",
                group.span,
                "GROUP BY an attribute of a single component",
            )
    having = None if output.having is None else reader.value(output.having)
    return replace(output, items=tuple(map(reader.value, output.items)), having=having)


def _with_types(pattern: sx.Pattern, types: Mapping[str, str]) -> sx.Pattern:
    match pattern:
        case sx.Component(repeated=None) | sx.Join():
            return pattern
        case sx.Component():
            name = pattern.name
            return replace(pattern, type=types[name], alias=name, repeated=None)
        case sx.Negation(part):
            return replace(pattern, part=_with_types(part, types))
        case sx.Operation(_, parts):
            return replace(pattern, parts=tuple(_with_types(part, types) for part in parts))


def _query(query: sx.Query, chain: _Chain, where: list[ex.Expression]) -> sx.Query:
    """What gives a row for each match of what is repeated."""
    items = tuple(
        sx.Item(ex.Attribute(alias, name, span), field, span)
        for (alias, name), (field, span) in chain.fields.items()
    )
    assert query.name is not None
    return sx.Query(
        name=chain.type,
        pattern=chain.repeated,
        within=query.within,
        output=sx.Return(items),
        where=_all(where),
        partition_by=query.partition_by,
        into=chain.type,
        text=query.text,
        span=query.span,
        partition_spans=query.partition_spans,
        number=query.number,
        part_of=query.name,
    )


def _all(parts: list[ex.Expression]) -> ex.Expression | None:
    if len(parts) > 1:
        return ex.Logical("AND", tuple(parts))
    return parts[0] if parts else None
