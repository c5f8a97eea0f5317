"""The options of a run, the same for commands, HTTP, clients, the Python module and the form."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from workloads.errors import SheafError
from workloads.syntax import UNITS
from workloads.workload import OnLimit, PartialLimit

OnError = OneOf["stop", "skip"]
MatchFormat = OneOf["text", "struct"]
Access = str  # how stored events are read
ENDINGS = (".parquet", ".arrow", ".csv", ".jsonl")  # of files of rows
LAKES = ("delta:", "iceberg:")  # before the folder of a table that rows go to
ACCESS = r"auto|scan|index(:[^,\s]+(\s*,\s*[^,\s]+)*)?"
Runner = OneOf["local", "spark", "stream", "oracle"]  # a stream is live, on Spark
Spelling = Callable[[str], str]

# Why an option is refused, by what runs; what is not named here is honoured.
_REFUSED: dict[Runner, dict[str, str]] = {
    "local": {},
    "spark": {
        "disorder": "Spark sorts all stored events by time, however late they are",
        "slice": "Spark spreads events over its tasks itself",
        "threads": "Spark has as many tasks at once as its master says",
        "partial_limit": "on Spark no operator sees all partial matches of a query",
    },
    "stream": {
        "tables": "rows of a live stream come batch by batch, in files of all queries",
        "slice": "a live stream takes events batch by batch, and new files at most as 'files' says",
        "threads": "Spark has as many tasks at once as its master says",
        "partial_limit": "on Spark no operator sees all partial matches of a query",
        "match": "a live stream writes matches as text",
        "access": "what comes is read as it comes",
    },
    "oracle": {
        "on_error": "the oracle takes rows that are events",
        "disorder": "the oracle sorts all events",
        "slice": "the oracle takes all events at once",
        "partial_limit": "the oracle holds none",
        "row_limit": "the oracle gives all rows",
        "threads": "the oracle has one",
        "match": "the oracle gives matches as text",
        "access": "the oracle reads all events",
    },
}


class OptionError(SheafError):
    """An option that says nothing sensible, or that what runs cannot honour."""


def as_flag(name: str) -> str:
    """What an option is called on the command line."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class RunSettings:
    """What a user may say of a run, whatever the door.

    `on_error` is what happens at a row that is no event. `disorder` is how late events can be, such
    as `10 s`; `slice` how many are in memory at a time. Partial matches of one key that an operator
    of a query holds are limited by `partial_limit`, at which `on_limit` happens, and the rows that
    a query gives by `row_limit`. `threads` run at once, one for each processor if none is said.
    Matches are written as JSON `text`, or as a `struct` of Arrow and Parquet. With `access` scan
    all stored events are read, with index only those that can matter; index:A,b also says which
    components' events are looked up in indexes, by their types or aliases. With `tables` each query
    has a file of its own beside that of all rows, with the columns that it names.
    """

    on_error: OnError = "stop"
    disorder: str | None = None
    slice: int | None = None
    partial_limit: int | None = None
    on_limit: OnLimit = "stop"
    row_limit: int | None = None
    threads: int | None = None
    match: MatchFormat = "text"
    access: Access = "auto"
    tables: bool = False

    def check(self, runner: Runner, spelled: Spelling = str, sink: str | None = None) -> None:
        """Refuse, with the reason, what this cannot honour; names are `spelled` as users do."""
        for name, why in _REFUSED[runner].items():
            if getattr(self, name) != getattr(DEFAULT, name):
                raise OptionError(f"{spelled(name)} is for {_able(name)}: {why}")
        for name in ("slice", "partial_limit", "row_limit", "threads"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise OptionError(f"{spelled(name)} is {value}, and has to be 1 or more")
        if re.fullmatch(ACCESS, self.access) is None:
            raise OptionError(
                f"{spelled('access')} is '{self.access}'; it can be auto, scan, index, or "
                "'index:A,b' with the types or aliases of components that are looked up"
            )
        if self.on_limit != "stop" and self.partial_limit is None:
            raise OptionError(
                f"{spelled('on_limit')} says what happens at {spelled('partial_limit')}; give both"
            )
        if self.match == "struct" and sink is not None and sink.endswith((".csv", ".jsonl")):
            raise OptionError(
                f"{spelled('match')} struct is for .parquet and .arrow, and '{sink}' is neither: "
                "CSV and JSON lines have matches as text"
            )
        if self.tables and (sink is None or not sink.endswith(ENDINGS) or sink.startswith(LAKES)):
            raise OptionError(
                f"{spelled('tables')} are files of each query beside that of all rows: say where "
                f"that is written, by a path that ends in {', '.join(ENDINGS)}"
            )
        self.late(spelled)

    def late(self, spelled: Spelling = str) -> int | None:
        """How late events can be, in nanoseconds."""
        if self.disorder is None:
            return None
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", self.disorder)
        if found is None or found[2] not in UNITS:
            raise OptionError(
                f"{spelled('disorder')} is '{self.disorder}'; write an amount and a unit, such as "
                f"'10 s' (units are {', '.join(UNITS)})"
            )
        amount = float(found[1]) * UNITS[found[2]]
        if amount >= 2**62:
            raise OptionError(f"{spelled('disorder')} is '{self.disorder}', longer than any stream")
        return round(amount)

    def partial(self, own: PartialLimit | None) -> PartialLimit | None:
        """The limit on partial matches; without one, the workload's own."""
        if self.partial_limit is None:
            return own
        return PartialLimit(self.partial_limit, self.on_limit)

    def stated(self) -> dict[str, Any]:
        """Those that are not as usual."""
        return {
            name: value for name, value in vars(self).items() if value != getattr(DEFAULT, name)
        }


DEFAULT = RunSettings()


def _able(name: str) -> str:
    """What honours an option, in words."""
    words: dict[Runner, str] = {
        "local": "the local engine",
        "spark": "Spark",
        "stream": "live streams",
    }
    able = [text for runner, text in words.items() if name not in _REFUSED[runner]]
    return f"{', '.join(able[:-1])} and {able[-1]}" if len(able) > 1 else able[0]
