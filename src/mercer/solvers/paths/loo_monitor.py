"""Progress reports of a leave-one-out pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

from mercer.certificates.solution import Limits
from mercer.certificates.status import Status
from mercer.solvers import Interruption
from mercer.solvers.control import Control
from mercer.solvers.loop import REPORT_SECONDS, ProgressMonitor
from mercer.solvers.progress import StageProgress


@final
class PassMonitor(ProgressMonitor[float]):
    """The monitor of a pass, whose steps are shares of its work."""

    def __init__(
        self,
        interruption: Interruption,
        max_seconds: float | None = None,
        callback: Callable[[StageProgress], object] | None = None,
    ) -> None:
        super().__init__(Control(Limits(max_seconds=max_seconds), interruption=interruption))
        self.callback = callback
        self.share = 0.0  # largest share of the work reported so far
        self._due = self.began + REPORT_SECONDS

    def update(self, share: float) -> Status | None:
        """Report that this share of the work is done. The reported share never falls, even if more work is found."""
        now = time.perf_counter()
        self.share = share = max(share, self.share)
        if now >= self._due or share >= 1.0:
            self._due = now + REPORT_SECONDS
            left = (now - self.began) * (1.0 / share - 1.0) if share > 0.0 else None
            if left is not None and self.seconds_left is not None:
                left = min(left, self.seconds_left)
            progress = StageProgress("leave-one-out", round(100 * share), 100, left)
            if self.callback is not None and self.callback(progress):
                self.control.interruption.request()
        return self.stop_reason
