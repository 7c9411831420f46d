"""Progress reports of a leave-one-out pass, and its end by a time limit, a callback or Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from mercer.solvers import Interruption
from mercer.solvers.progress import StageProgress

_SIGN_OF_LIFE_SECONDS = 0.05  # seconds; shortest time between two calls of a callback


class Ended(Exception):  # noqa: N818
    """Raised by a `check` to end the pass early and keep the values found so far; this is not an error."""


class ProgressMonitor:
    """Reports the progress of a pass, and ends the pass on request or at its deadline."""

    def __init__(
        self,
        interruption: Interruption,
        deadline: float | None,
        verbose: int,
        callback: Callable[[StageProgress], object] | None,
    ) -> None:
        self.interruption, self.deadline, self.verbose, self.callback = interruption, deadline, verbose, callback
        self.stopped = ""  # reason of the early end
        self.printed = -1  # per cent; progress last printed
        self.share = 0.0  # largest share of the work reported so far
        self.began = self.told = time.perf_counter()

    def check(self) -> None:
        """Raise Ended if the pass was interrupted or its deadline has passed."""
        if self.interruption.requested:
            self.stopped = "interrupted"
        elif self.deadline is not None and time.perf_counter() >= self.deadline:
            self.stopped = "time limit"
        if self.stopped:
            raise Ended

    def tell(self, share: float) -> None:
        """Report that this share of the work is done. The reported share never falls, even if more work is found."""
        now = time.perf_counter()
        self.share = share = max(share, self.share)
        if now < self.told + _SIGN_OF_LIFE_SECONDS and share < 1.0:
            return
        self.told = now
        left = (now - self.began) * (1.0 / share - 1.0) if share > 0.0 else None
        if left is not None and self.deadline is not None:
            left = min(left, max(0.0, self.deadline - now))
        progress = StageProgress("leave-one-out", round(100 * share), 100, left)
        if self.verbose and progress.done > self.printed:
            self.printed = progress.done
            print(f"leave-one-out: {progress.done} % done, about {left or 0.0:.0f} s left", file=sys.stderr)
        if self.callback is not None and self.callback(progress):
            self.interruption.request()
