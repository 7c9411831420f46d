"""Newton's method for softmax regression without a penalty, whose likelihood may have no maximum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer._typing import FloatArray
from mercer.problems import inner
from mercer.problems.softmax import beta_of
from mercer.solvers.loop import Step
from mercer.solvers.rows.row_solver import NEWTON_IDLE, StallCounter
from mercer.solvers.rows.softmax_newton import SoftmaxNewton, SweepValues

_PRECISE = 1e-9  # relative residual of a Newton system, whose solution makes the coefficients feasible
_NEAR = 0.01  # largest change of a decision value by a Newton step near a maximum; without a maximum it is about 1
_VANISHED = 1e-8  # share of the first loss below which a loss without a maximum of the likelihood is not followed
_SEPARATED = 0.99 * float(np.log(2.0))  # loss of a row below which its class has a probability above 1/2
_REFINEMENTS = 3  # Newton corrections of the coefficients


class LikelihoodNewton(SoftmaxNewton):
    """Newton steps without a penalty.

    The dual coefficients of a point are corrected by the change that a Newton step makes to them. Then the sums of
    beta_i x_i are 0, as they must be, and the duality gap is half the Newton decrement. If the likelihood has no
    maximum, the coefficients are 0, and the gap is the objective.
    """

    _change: FloatArray | None = None

    def steps(self, tol: float) -> Iterator[Step]:
        """Make Newton steps until the relative gap is at most `tol`, or the classes prove to be separable."""
        stalls, first = StallCounter(), None
        while True:
            swept = self.sweep()
            first = swept.primal if first is None else first
            direction = self.direction(swept, _PRECISE)
            change = self.times(direction)
            gap = 0.5 * inner(swept.v.ravel(), direction.ravel())
            is_near = float(np.abs(change).max(initial=0.0)) <= _NEAR
            relative = gap / swept.primal if swept.primal > 0.0 and is_near else 1.0
            yield Step(self.n_iter, relative, swept.primal)
            self._change = change if is_near else None
            if relative <= tol or not np.isfinite(gap) or gap <= tol * _VANISHED * first or self._separates():
                return
            if stalls.count(gap) > NEWTON_IDLE or not self.move(swept, direction, change):
                return
            self.n_iter += 1

    def _separates(self) -> bool:
        """Whether each row's own class has the largest decision value, so that larger weights are always better."""
        losses = self.shares()[1][self.part.charges > 0.0]
        return bool(losses.max(initial=0.0) < _SEPARATED)

    def solution(self) -> tuple[FloatArray, FloatArray]:
        """Return the weights, and feasible dual coefficients, which are 0 far from a maximum."""
        part, change = self.part, self._change
        if change is None:
            return self.w, np.zeros_like(self.z)
        shares = self.shares()[0]
        beta = beta_of(shares, part.codes, part.charges)
        all_shares = self.all_shares(shares)
        for number in range(_REFINEMENTS):
            if number:
                left = SweepValues(shares, beta, self.pulled(beta), 0.0, 0.0)
                change = self.times(self.direction(left, _PRECISE))
            away = change - np.einsum("ik,ik->i", all_shares, change)[:, None]
            beta = beta - part.charges[:, None] * all_shares * away
        return self.w, beta
