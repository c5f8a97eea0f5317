"""What can go wrong between a client and the service.

SheafError
└─ ClientError
   ├─ UnreachableError   nobody answers at that address
   ├─ ServiceError       the service answered with a problem
   └─ JobError           a job that was waited for has failed or was cancelled
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workloads.errors import SheafError


class ClientError(SheafError):
    """Something that was asked of a service did not happen."""


class UnreachableError(ClientError):
    """Nobody answers at the service's address, or not in time."""


class ServiceError(ClientError):
    """The service's answer is a problem; `kind` tells problems apart, whatever they say.

    `diagnostics` are the errors of a workload, each with its query, line, column and hint.
    """

    def __init__(
        self, status: int, kind: str, title: str, detail: str, diagnostics: Sequence[Any] = ()
    ) -> None:
        super().__init__(f"{title}: {detail}" if detail else title)
        self.status, self.kind, self.title, self.detail = status, kind, title, detail
        self.diagnostics = tuple(diagnostics)


class JobError(ClientError):
    """A job is over and has no results; the message is the reason that it gives."""
