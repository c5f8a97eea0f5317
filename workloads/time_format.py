"""Formats of written times, such as `%d/%m/%Y %H:%M`: which directives there are and what they fit.

Names of months and days are English, in any case, whole or by their first three letters. A blank in
a format stands for any number of blanks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _names(names: tuple[str, ...]) -> str:
    longer = [f"{name[:3]}(?:{name[3:]})?" if name[3:] else name for name in names]
    return "|".join(longer)


# What each directive fits. A directive stands for one field of the time, at most once in a format.
_FIELDS = {
    "Y": r"\d{4}",
    "y": r"\d{2}",
    "m": r"\d{1,2}",
    "b": _names(MONTHS),
    "d": r"\d{1,2}",
    "j": r"\d{1,3}",
    "H": r"\d{1,2}",
    "I": r"\d{1,2}",
    "M": r"\d{1,2}",
    "S": r"\d{1,2}",
    "f": r"\d{1,9}",
    "p": "am|pm",
    "z": r"z|[+-]\d{2}(?::?\d{2})?",
}
_SYNONYMS = {"B": "b", "h": "b", "e": "d"}
_SHORTHANDS = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y"}
_TOKENS = re.compile(r"%.?|\s+|[^%\s]+", re.DOTALL)
_DIGITS_TOGETHER = {"m": r"\d{2}", "d": r"\d{2}", "H": r"\d{2}", "I": r"\d{2}"}
_DIGITS_TOGETHER |= {"M": r"\d{2}", "S": r"\d{2}", "j": r"\d{3}"}
DIRECTIVES = "%Y %y %m %b %B %d %e %j %H %I %p %M %S %f %z %a %A %F %T %R %D %%"


class TimeFormatError(ValueError):
    """What is wrong with a format."""


@dataclass(frozen=True)
class TimeFormat:
    """A format and the regular expression, with a group for each field, that it stands for."""

    text: str
    pattern: str
    fields: frozenset[str]

    @property
    def has_zone(self) -> bool:
        return "z" in self.fields

    @property
    def has_fraction(self) -> bool:
        return "f" in self.fields


@lru_cache(maxsize=64)
def time_format(text: str) -> TimeFormat:
    """The format that a text is; raises `TimeFormatError` where no time can be told by it."""
    pieces: list[str] = []
    fields: list[str] = []
    tokens = [
        part
        for token in _TOKENS.findall(text)
        for part in _TOKENS.findall(_SHORTHANDS.get(token, token))
    ]
    for place, token in enumerate(tokens):
        if token.isspace():
            pieces.append(r"\s+")
        elif not token.startswith("%"):
            pieces.append(re.escape(token))
        elif token == "%%":
            pieces.append("%")
        elif token in ("%a", "%A"):
            pieces.append(f"(?:{_names(_DAYS)})")
        else:
            name = _SYNONYMS.get(token[1:], token[1:])
            if name not in _FIELDS:
                raise TimeFormatError(f"there is no directive '{token}'; known are {DIRECTIVES}")
            if name in fields:
                raise TimeFormatError(f"'{token}' stands for what another directive gives")
            fields.append(name)
            follows = place + 1 < len(tokens) and tokens[place + 1].startswith("%")
            precedes = place > 0 and tokens[place - 1].startswith("%")
            # Digits without anything between them are of a fixed number.
            fits = _FIELDS[name]
            if follows or precedes:
                fits = _DIGITS_TOGETHER.get(name, fits)
            pieces.append(f"(?P<{name}>{fits})")
    found = frozenset(fields)
    _check(found)
    return TimeFormat(text, "(?i)^\\s*" + "".join(pieces) + "\\s*$", found)


def _check(fields: frozenset[str]) -> None:
    for one, other in (("Y", "y"), ("m", "b"), ("H", "I")):
        if {one, other} <= fields:
            raise TimeFormatError(f"'%{one}' and '%{other}' give the same; leave one out")
    if not fields & {"Y", "y"}:
        raise TimeFormatError("it has no year: add %Y or %y")
    if "j" not in fields and not (fields & {"m", "b"} and "d" in fields):
        raise TimeFormatError("it has no day: add %m or %b, and %d; or %j, the day of the year")
    if "j" in fields and fields & {"m", "b", "d"}:
        raise TimeFormatError("'%j' is the day of the year; leave out the month and %d, or %j")
    if ("I" in fields) != ("p" in fields):
        raise TimeFormatError("'%I' is an hour up to 12, and needs %p; '%H' is one up to 23")
    for part, whole in (("M", "HI"), ("S", "M"), ("f", "S")):
        if part in fields and not fields & set(whole):
            raise TimeFormatError(f"'%{part}' without '%{whole[0]}' tells no time")
