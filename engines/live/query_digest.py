"""What tells a query's state from that of others, in this version of Sheaf and in later ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from optimizer.ir.produced import chains_of
from optimizer.ir.query import Query


def query_digest(query: Query, forms: Mapping[str, str], queries: tuple[Query, ...]) -> str:
    """The digest of a query and of what its state is made of, without its name.

    Of one that reads rows of others it is of all of its chain.
    """
    said = written((replace(query, name=""), forms[query.name]))
    for chain in chains_of(queries):
        if query.name in chain:
            others = tuple(replace(q, name="") for q in queries if q.name in chain)
            said += written((others, tuple(forms[name] for name in chain)))
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def state_name(query: Query) -> str:
    """What the part of a state is called that is a query's alone, whatever its name."""
    said = written(replace(query, name=""))
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def written(value: Any) -> str:
    """The value as text; of data classes without what has its default.

    A later version that adds a field, with a default that changes nothing, writes the same.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = []
        for field in fields(value):
            own = getattr(value, field.name)
            default = field.default
            if default is MISSING and field.default_factory is not MISSING:
                default = field.default_factory()
            if field.compare and (default is MISSING or own != default):
                parts.append(f"{field.name}={written(own)}")
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(written, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{written(k)}: {written(v)}' for k, v in value.items())}}}"
    if isinstance(value, frozenset | set):
        return f"{{{', '.join(sorted(map(written, value)))}}}"
    return repr(value)
