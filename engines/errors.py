"""What goes wrong with events, results and engines.

SheafError
├── EventsError   events that cannot be read as the workload's stream says
└── ResultsError  results that cannot be written where they should go
"""

from workloads.errors import SheafError


class EventsError(SheafError):
    """Events that cannot be read; says which file, row and column, and what to do."""


class ResultsError(SheafError):
    """Results that cannot be written."""
