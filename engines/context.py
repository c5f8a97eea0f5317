"""What a run carries from batch to batch: options, limits, its account and its findings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from engines.account import Account, Fallbacks
from engines.devices import DeviceRequest
from engines.joins.scan import Limits
from engines.partial import Ledger, PartialLimit
from optimizer.physical.groups import Device

if TYPE_CHECKING:
    from engines.trees.adaptive import Adaptive


@dataclass(frozen=True)
class RunOptions:
    """What a user may choose of a run apart from its plan.

    `device` takes the place of the plan's. `insist`: an OpenCL device that is missing or fails is
    an error, and not a fallback to the CPU. With `adaptive` trees change when the stream does.
    `partial` limits the partial matches that a query holds.
    """

    device: Device | None = None
    insist: bool = False
    adaptive: bool = True
    partial: PartialLimit | None = None
    limits: Limits = field(default_factory=Limits)


DEFAULT_OPTIONS = RunOptions()


@dataclass
class Counts:
    """What was done: pairs of rows that were tried, rows that were made, operators that ran, and
    buffers that were read again."""

    tried: int = 0
    made: int = 0
    ran: int = 0
    reused: int = 0


@dataclass
class RunContext:
    """The state of a run that is no operator's.

    `adaptive` has the trees of the batches before, `ledger` the queries that were stopped at a
    limit, which are left out from then on.
    """

    options: RunOptions = DEFAULT_OPTIONS
    account: Account = field(default_factory=Account)
    fallbacks: Fallbacks = field(default_factory=Fallbacks)
    ledger: Ledger = field(default_factory=Ledger)
    counts: Counts = field(default_factory=Counts)
    is_whole: bool = False  # are the events that are run over all there are?
    adaptive: Adaptive = field(init=False)

    def __post_init__(self) -> None:
        from engines.trees.adaptive import Adaptive

        self.adaptive = Adaptive()

    @property
    def limits(self) -> Limits:
        return self.options.limits

    def take(self) -> dict[str, Any]:
        """What has been counted and found out since it was last asked, as plain values."""
        found = {
            "account": self.account.totals(),
            "fallbacks": list(self.fallbacks),
            "decisions": [asdict(decision) for decision in self.adaptive.decisions],
        }
        self.account.clear()
        self.fallbacks.clear()
        self.adaptive.decisions.clear()
        return found

    def device_of(self, planned: Device) -> DeviceRequest:
        """The device that a unit is to run on."""
        device = self.options.device or planned
        return DeviceRequest(device, self.options.insist, self.fallbacks)
