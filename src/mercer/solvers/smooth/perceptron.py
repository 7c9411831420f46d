"""The perceptron: misclassified rows are added to the normal vector, pass after pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.status import Status
from mercer.gram import Gram
from mercer.kernels.kernel import finite
from mercer.solvers.control import Control
from mercer.solvers.loop import SolverMonitor, Step, drive


@dataclass(frozen=True)
class Separation:
    """The result that a perceptron can claim; it does not minimise an objective.

    Attributes
    ----------
    n_mistakes, n_passes : int
    criterion : float
        The sum of -y f(x) over the rows with y f(x) <= 0, each with its weight.
    separated : bool
        Whether every row has y f(x) > 0, so that a further pass would change nothing.
    """

    n_mistakes: int
    n_passes: int
    criterion: float
    separated: bool


@dataclass(eq=False)
class Learnt:
    """A trained perceptron and the record of its training.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
        Number of mistakes of each row.
    values : ndarray of shape (n,)
        f(x_i) = sum_j weights_j alpha_j y_j k(x_j, x_i).
    weights : ndarray of shape (n,)
        Step of f for a mistake of each row.
    w : ndarray of shape (p,) or None
        The normal vector, in the primal form.
    n_mistakes, n_passes : int
    stopped : Status or None
        Reason why training was stopped before its last pass, or None.
    """

    alpha: FloatArray
    values: FloatArray
    weights: FloatArray
    w: FloatArray | None = None
    n_mistakes: int = 0
    n_passes: int = 0
    stopped: Status | None = None

    def criterion(self, y: FloatArray) -> float:
        """The perceptron criterion: the weighted sum of -y f(x) over the rows with y f(x) <= 0."""
        return float(self.weights @ np.maximum(0.0, -y * self.values))

    def separates(self, y: FloatArray) -> bool:
        """Whether every row has y f(x) > 0, so that a further pass would change nothing."""
        return bool((y * self.values > 0.0).all())


def learn(
    y: FloatArray,
    gram: Gram,
    *,
    weights: FloatArray,
    rows: Any = None,
    max_passes: int,
    control: Control,
    began: float | None = None,
) -> Learnt:
    """Run the (batch) perceptron over the rows in order, until a pass has no mistake or `max_passes` are done.

    A row is a mistake if y f(x) <= 0; then its weight (> 0) times y k(x, .) is added to f. If `rows` (n, p) are given,
    the primal form updates w; otherwise the dual form updates the counts alpha. Both make the same mistakes, up to
    rounding. The tolerances of `control` have no effect; see
    :func:`mercer.solvers.loop.ProgressMonitor` for it and `began`.

    Notes
    -----
    Each mistake costs n kernel values, which the Gram matrix may cache within its memory limit, or n p multiplications
    in the primal form.
    """
    w = None if rows is None else np.zeros(rows.shape[1])
    machine = Learnt(np.zeros(y.size), np.zeros(y.size), weights, w)
    monitor = SolverMonitor(control, stage="perceptron", began=began)
    machine.stopped = drive(passes(machine, y, gram, rows, max_passes), monitor)
    return machine


def passes(machine: Learnt, y: FloatArray, gram: Gram, rows: Any, max_passes: int) -> Iterator[Step]:
    """Make the passes of :func:`learn` on `machine`, and yield after every mistake."""
    while machine.n_passes < max_passes:
        before, at = machine.n_mistakes, 0
        while True:
            wrong = np.flatnonzero(y[at:] * machine.values[at:] <= 0.0)
            if not wrong.size:
                break
            at += int(wrong[0])
            machine.alpha[at] += 1.0
            machine.n_mistakes += 1
            step = machine.weights[at] * y[at]
            if machine.w is None:
                machine.values += step * gram.block(np.array([at]))[0]
            else:
                row = rows[[at]]
                machine.w += step * (row.toarray() if hasattr(row, "toarray") else row)[0]
                machine.values = rows @ machine.w
            finite(gram.kernel, machine.values)
            at += 1
            yield Step(machine.n_mistakes, float(wrong.size), machine.criterion(y))
        machine.n_passes += 1
        if machine.n_mistakes == before:
            return


_BYTES = 64 << 20  # decision values of the machines that are trained together; 64 MiB


def loo_values(
    learnt: Learnt, y: FloatArray, gram: Gram, *, max_passes: int, check: Callable[[], None] = lambda: None
) -> FloatArray:
    """Return, for every row i, f(x_i) of the machine trained without row i.

    A row that was never a mistake did not change f, so the machine without it is the same. For each other row, training
    is repeated without it; many such machines are trained together.

    Parameters
    ----------
    learnt : Learnt
        The result of :func:`learn` on the same rows, in at most `max_passes` and not stopped early.
    check : callable, optional
        Called between blocks of work; an exception that it raises ends the computation.

    Notes
    -----
    For each row that was a mistake, the cost is n additions for every mistake of the training without it.
    """
    values = learnt.values.copy()
    mistaken = np.flatnonzero(learnt.alpha)
    width = max(1, _BYTES // (8 * y.size))
    for first in range(0, mistaken.size, width):
        out = mistaken[first : first + width]
        f = np.zeros((out.size, y.size))
        going = np.ones(out.size, dtype=bool)
        for _ in range(max_passes):
            erred = np.zeros(out.size, dtype=bool)
            for at in range(y.size):
                wrong = going & (y[at] * f[:, at] <= 0.0) & (out != at)
                if wrong.any():
                    f[wrong] += learnt.weights[at] * y[at] * gram.block(np.array([at]))[0]
                    erred |= wrong
                    check()
            going &= erred
            if not going.any():
                break
        values[out] = f[np.arange(out.size), out]
    return finite(gram.kernel, values)
