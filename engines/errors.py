"""What goes wrong with events, results and engines.

SheafError
├── EventsError        events that cannot be read as the workload's stream says
│   └── BadRowError    one row of them, which could be left out
├── ResultsError       results that cannot be written where they should go
├── StateError         a saved state that cannot be gone on with
├── JobError           what Spark says went wrong with a job (spark/batch.py)
├── JavaNotFoundError  no Java to run Spark on (java.py)
├── JvmStartError      a Java that does not start (jvm.py)
├── MasterError        what is no master that a job can run on (session.py)
├── NoSessionError     a master that gives no session now (session.py)
└── SessionInUseError  a second Spark session at the same time (session.py)
"""

from workloads.errors import SheafError, TooLargeError, UnsupportedError


class EventsError(SheafError):
    """Events that cannot be read; says which file, row and column, and what to do."""


class BadRowError(EventsError):
    """One row that cannot be an event; says which file, row and column."""


class ResultsError(SheafError):
    """Results that cannot be written."""


class StateError(SheafError):
    """A saved state that cannot be gone on with."""


def named_error(error: UnsupportedError, query: str) -> SheafError:
    """The error with the query's name in front, where it does not say it yet."""
    text = str(error)
    if text.startswith(f"query {query} "):
        return error
    kind = TooLargeError if isinstance(error, TooLargeError) else UnsupportedError
    return kind(f"query {query}: {text}")
