"""The perceptron: rows that are misclassified are added to the normal vector, pass after pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.solution import Limits
from mercer.certificates.status import Status
from mercer.gram import Gram
from mercer.kernels.base import finite
from mercer.losses.iteration import Step, iterate
from mercer.solvers.base import Callback
from mercer.solvers.interruption import Interruption


@dataclass(frozen=True)
class Separation:
    """What a perceptron claims, which minimises nothing.

    Attributes
    ----------
    n_mistakes, n_passes : int
    criterion : float
        The sum of -y f(x) over the rows with y f(x) <= 0, each with its weight.
    separated : bool
        Whether every row has y f(x) > 0: a further pass would change nothing.
    """

    n_mistakes: int
    n_passes: int
    criterion: float
    separated: bool


@dataclass(eq=False)
class Learnt:
    """A perceptron, and how it came about.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
        How often each row was a mistake.
    values : ndarray of shape (n,)
        f(x_i) = sum_j weights_j alpha_j y_j k(x_j, x_i).
    weights : ndarray of shape (n,)
        How far a mistake of each row moves f.
    w : ndarray of shape (p,) or None
        The normal vector, in the primal form.
    n_mistakes, n_passes : int
    stopped : Status or None
        What ended it before its passes were over.
    """

    alpha: FloatArray
    values: FloatArray
    weights: FloatArray
    w: FloatArray | None = None
    n_mistakes: int = 0
    n_passes: int = 0
    stopped: Status | None = None

    def criterion(self, y: FloatArray) -> float:
        """The perceptron criterion: the sum of -y f(x) over the rows with y f(x) <= 0, each with its weight."""
        return float(self.weights @ np.maximum(0.0, -y * self.values))

    def separates(self, y: FloatArray) -> bool:
        """Whether every row has y f(x) > 0: a further pass would change nothing."""
        return bool((y * self.values > 0.0).all())


def learn(
    y: FloatArray,
    gram: Gram,
    *,
    weights: FloatArray,
    rows: Any = None,
    max_passes: int,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    interruption: Interruption | None = None,
    began: float | None = None,
) -> Learnt:
    """Run the (batch) perceptron over the rows in their order, until a pass has no mistake or `max_passes` are over.

    A row is a mistake when y f(x) <= 0; then f moves by its weight, > 0, times y k(x, .). In the primal form, `rows`
    (n, p) being given, w is kept; in the dual one, the counts alpha. Both make the same mistakes, but for rounding.
    `interruption` and `began` are those of :func:`mercer.losses.iteration.iterate`.

    Notes
    -----
    Each mistake costs n kernel values, which are kept within the Gram matrix's memory limit where it keeps rows; or n p
    multiplications.
    """
    w = None if rows is None else np.zeros(rows.shape[1])
    machine = Learnt(np.zeros(y.size), np.zeros(y.size), weights, w)
    ended = iterate(
        _passes(machine, y, gram, rows, max_passes),
        Limits(max_seconds=max_seconds),
        callback=callback,
        stage="perceptron",
        interruption=interruption,
        began=began,
    )
    machine.stopped = ended.status
    return machine


def _passes(machine: Learnt, y: FloatArray, gram: Gram, rows: Any, max_passes: int) -> Iterator[Step]:
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


_BYTES = 64 << 20  # of decision values of machines that go through the rows together


def left_out(
    learnt: Learnt, y: FloatArray, gram: Gram, *, max_passes: int, check: Callable[[], None] = lambda: None
) -> FloatArray:
    """Return f(x_i) of the machine that learns from the rows without row i, for every i.

    A row that never was a mistake changed nothing: without it the same mistakes are made, and f is the same. Without
    one that was, all are made anew, many machines going through the rows together.

    Parameters
    ----------
    learnt : Learnt
        By :func:`learn`, from the same rows, in at most `max_passes`, and not stopped.
    check : callable, optional
        Called between pieces of work; what it raises ends it.

    Notes
    -----
    For each row that was a mistake, costs n additions for every mistake without it.
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
