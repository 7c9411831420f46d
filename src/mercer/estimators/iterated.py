"""Base class of iterative estimators: their limits and progress reports."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

from sklearn.utils._param_validation import InvalidParameterError

from mercer.data.arguments import WHOLE, check_callback, check_number, check_seconds
from mercer.solvers import Limits, Progress

_PAUSE = 5.0  # seconds between two lines of progress, for verbose=1


class Iterated:
    """An estimator with a tolerance, limits, a callback and progress on stderr."""

    tol: float
    tol_gap: float | None = None  # for estimators without this parameter
    max_iter: int
    max_seconds: float | None
    verbose: int
    callback: Callable[[Progress], object] | None

    def _limits(self) -> Limits:
        if isinstance(self.max_iter, bool) or not isinstance(self.max_iter, WHOLE) or self.max_iter < -1:
            raise InvalidParameterError(f"max_iter must be an integer >= 0, or -1 for no limit, got {self.max_iter!r}.")
        return Limits(
            tol=check_number("tol", self.tol, above=0.0, finite=True),
            tol_gap=None if self.tol_gap is None else check_number("tol_gap", self.tol_gap, above=0.0, finite=True),
            max_iter=int(self.max_iter),
            max_seconds=check_seconds(self.max_seconds),
        )

    def _listener(self) -> Callable[[Progress], object] | None:
        """Return the function that gets progress reports, or None if neither `verbose` nor `callback` is set."""
        check_callback(self.callback)
        return _Reporter(self.verbose, self.callback) if self.verbose or self.callback is not None else None


class _Reporter:
    """Write progress to stderr, as often as `verbose` asks for, and pass it to the user's callback."""

    def __init__(self, verbose: int, callback: Callable[[Progress], object] | None) -> None:
        self._pause = 0.0 if verbose > 1 else _PAUSE if verbose else math.inf
        self._callback, self._shown = callback, time.monotonic()

    def __call__(self, progress: Progress) -> object:
        now = time.monotonic()
        if now - self._shown >= self._pause:
            self._shown = now
            print(
                f"{progress.seconds:8.1f} s  {progress.stage}  step {progress.n_iter}  "
                f"violation {progress.violation:.3g} (tolerance {progress.tol:g})",
                file=sys.stderr,
            )
        return None if self._callback is None else self._callback(progress)
