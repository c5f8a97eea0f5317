"""Options and arguments that are what they say as they stand, taken without what checks the others.

Typer has pydantic check every value, and loads it for that, which takes longer than a small run.
Whatever is not plain here, mistakes included, is left to it.
"""

from __future__ import annotations

from typing import Any, get_args, get_origin

from typer import _typing
from typer.core import _TyperParameter

_OTHERWISE = object()
_MOST_DIGITS = 15


def take_plain_values() -> None:
    """Have commands take plain values as they are."""
    checked = _TyperParameter.process_value

    def process_value(parameter: Any, context: Any, value: Any) -> Any:
        plain = _plain(parameter, value)
        if plain is _OTHERWISE:
            return checked(parameter, context, value)
        callback = parameter.callback
        return plain if callback is None else callback(context, parameter, plain)

    _TyperParameter.process_value = process_value  # type: ignore[method-assign,assignment]


def _plain(parameter: Any, value: Any) -> Any:
    """What a value means that needs no check, or that it is to be checked."""
    told = parameter.type_descriptor
    information = told.parameter_info
    if information.parser is not None or told.is_file:
        return _OTHERWISE
    several = parameter.multiple or parameter.nargs == -1
    if value is None:
        return _OTHERWISE if parameter.required else () if several else None
    if told.is_path:
        return _OTHERWISE
    if not several:
        return _single(told.annotation, information, value)
    if get_origin(told.annotation) is not list or (parameter.required and not value):
        return _OTHERWISE
    (kind,) = get_args(told.annotation)
    items = [_single(kind, information, item) for item in value]
    return _OTHERWISE if any(item is _OTHERWISE for item in items) else items


def _single(kind: Any, information: Any, value: Any) -> Any:
    if _typing.is_literal_type(kind):
        return value if value in _typing.literal_values(kind) else _OTHERWISE
    if kind is str and isinstance(value, str):
        return value
    if kind is not int or isinstance(value, bool):
        return _OTHERWISE
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _MOST_DIGITS:
        value = int(value)
    if not isinstance(value, int):
        return _OTHERWISE
    above = information.min is None or value >= information.min
    below = information.max is None or value <= information.max
    return value if above and below else _OTHERWISE
