"""What goes wrong while choosing what to share.

SheafError
└── SharingError
    ├── MissingStatisticError  a benefit model needs a number that nobody gave
    └── BudgetError            an exact solver has no steps left
"""

from __future__ import annotations

from workloads.errors import SheafError


class SharingError(SheafError):
    """Something that stops the choice of what to share."""


class MissingStatisticError(SharingError):
    """A benefit model needs a statistic that was not given."""


class BudgetError(SharingError):
    """An exact solver would need more steps than it was given."""
