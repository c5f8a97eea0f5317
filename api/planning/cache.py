"""Plans that were asked for before: to the same question planning has one answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

MAX_CACHED_PLANS = 10_000


class PlanCache:
    """Which plan a question was answered with, for the questions asked last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[Hashable, str] = OrderedDict()

    def get(self, question: Hashable) -> str | None:
        with self._lock:
            found = self._plans.get(question)
            if found is not None:
                self._plans.move_to_end(question)
            return found

    def put(self, question: Hashable, plan: str) -> None:
        with self._lock:
            self._plans[question] = plan
            self._plans.move_to_end(question)
            while len(self._plans) > MAX_CACHED_PLANS:
                self._plans.popitem(last=False)
