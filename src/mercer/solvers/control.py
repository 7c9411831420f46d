"""What may end a fit, as one value: its limits, its callback and Ctrl-C."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import final

from mercer.certificates.solution import Limits
from mercer.certificates.status import Status
from mercer.data.files import Checkpoint
from mercer.solvers.interruption import Interruption
from mercer.solvers.solver import Callback, Progress


@final
@dataclass(frozen=True)
class Control:
    """What may end a fit: its limits, its callback and Ctrl-C.

    The estimator makes one control for each fit, and every function down to the solver gets the whole value. A control
    must not be used for a second fit, because a request to its interruption stays.

    Attributes
    ----------
    limits : Limits, optional
        Tolerances and limits; if several machines are trained, `max_seconds` is for all of them together and `max_iter`
        is for each.
    callback : callable, optional
        Called with a :class:`Progress` about every 50 ms; a true value stops the solver.
    interruption : Interruption, optional
        The request to stop, by Ctrl-C or by the caller. A caller that enters it stops more than one solver by one
        Ctrl-C.
    checkpoint : Checkpoint, optional
        Folder where solvers write the points that they have reached, and from which they continue.

    Examples
    --------
    >>> control = Control(Limits(max_seconds=3.0, max_iter=10))
    >>> control.after(seconds=1.0, n_iter=4).limits
    Limits(tol=0.001, tol_gap=None, max_iter=6, max_seconds=2.0)
    """

    limits: Limits = field(default_factory=Limits)
    callback: Callback | None = None
    interruption: Interruption = field(default_factory=Interruption)
    checkpoint: Checkpoint | None = None

    def with_limits(self, limits: Limits) -> Control:
        """Return the control with other limits."""
        return replace(self, limits=limits)

    def after(self, seconds: float, n_iter: int) -> Control:
        """Return the control with the limits that remain after this time and these steps."""
        return self.with_limits(self.limits.after(seconds, n_iter))

    def in_part(self, name: str) -> Control:
        """Return the control of a part of the work, whose states in the checkpoint do not mix with those of others."""
        return self if self.checkpoint is None else replace(self, checkpoint=self.checkpoint.part(name))

    def out_of_time(self, began: float) -> Status | None:
        """Return the status that ends work begun at `began` (of `time.perf_counter`); None if the work may continue."""
        if self.interruption.requested:
            return Status.INTERRUPTED
        if self.limits.max_seconds is not None and time.perf_counter() - began >= self.limits.max_seconds:
            return Status.TIME_LIMIT
        return None

    def is_stopped_at(self, progress: Progress) -> bool:
        """Call the callback and return whether it stops the fit: this machine, and those that come after it."""
        if self.callback is None or not self.callback(progress):
            return False
        if not self.interruption.requested:  # a second request would skip the certificate
            self.interruption.request()
        return True

    def for_machine(self, number: int, n_machines: int) -> Control:
        """Return the control of one machine of several, whose progress reports name the machine."""
        callback = self.callback
        if callback is None or n_machines == 1:
            return self
        stage = f"machine {number + 1} of {n_machines}"
        return replace(self, callback=lambda progress: callback(replace(progress, stage=stage)))
