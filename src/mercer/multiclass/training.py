"""More than two classes, by machines for two that share one Gram matrix, or by one for all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import final

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate
from mercer.certificates.solution import Solutions
from mercer.gram import Gram
from mercer.multiclass.coefficients import Coefficients, PairCoefficients, table_of
from mercer.multiclass.pairs import against_later, class_pairs, place_among_others
from mercer.problems import Problems, c_svc_each, has_width, joint
from mercer.solvers import Interruption, Limits, solve_each
from mercer.solvers.base import Callback

SCHEMES = ("ovo", "ovr")
"""Of machines for two classes."""

JOINT = "joint"
"""Of one machine for all classes."""

_MOST_PAIRS = 250_000  # of classes: so many machines, of 6 rows a class, take 2 s and a gigabyte

Duals = Callable[[FloatArray, FloatArray, IndexArray], Problems]
"""Makes the problems of machines for two classes, of signs and penalties one after the other, and numbers of rows."""

Margin = Callable[[FloatArray], float]
"""What a machine is to be divided by so that margins are held against 1, by its multipliers."""


@dataclass(frozen=True, eq=False)
class Task:
    """One machine for two classes: its rows among the training rows, and their signs.

    Attributes
    ----------
    rows : ndarray of int64
    signs : ndarray of float, -1 and +1
    positive : int
        The class with sign +1.
    negative : int or None
        The class with sign -1; None where it is all the others.
    """

    rows: IndexArray
    signs: FloatArray
    positive: int
    negative: int | None


@final
class Tasks(Sequence[Task]):
    """Machines for two classes, their rows one after the other; each task is made when it is asked for.

    Attributes
    ----------
    parts : list of ndarray of int64
        Sets of rows; a machine's are those of one or two of them, one after the other.
    pairs : ndarray of int64 of shape (n_machines, 2)
        Which; the second is -1 where one is all.
    classes : list of pairs of int or None
        The positive and the negative class of each.
    sizes : ndarray of int64 of shape (n_machines,)
        Numbers of rows.
    rows, signs : ndarray
        Of all machines.
    """

    def __init__(
        self,
        parts: list[IndexArray],
        pairs: IndexArray,
        classes: list[tuple[int, int | None]],
        signs: FloatArray,
    ) -> None:
        self.parts, self.pairs, self.classes, self.signs = parts, pairs, classes, signs
        counts = np.array([*(part.size for part in parts), 0])  # the last one is none
        first, second = pairs.T
        self.sizes = counts[first] + counts[second]
        self.rows = np.concatenate([parts[k] for k in pairs.ravel().tolist() if k >= 0])
        self._edges = list(accumulate(self.sizes.tolist(), initial=0))

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, number: int) -> Task:  # type: ignore[override]
        chosen = slice(self._edges[number], self._edges[number + 1])
        return Task(self.rows[chosen], self.signs[chosen], *self.classes[number])


def make_tasks(codes: IndexArray, n_classes: int, scheme: str) -> Tasks:
    """Reduce a problem of several classes to problems of two.

    Two classes make one machine, with +1 for class 1. More make, by one-versus-one ("ovo"), a machine for each pair
    (i, j), i < j, with +1 for class i, on the rows of class i and then those of class j; by one-versus-rest ("ovr"), a
    machine for each class, on all rows. The joint machine ("joint") tells apart what the latter do, in one problem.
    """
    if n_classes > 2 and scheme == "ovo":
        n_pairs = n_classes * (n_classes - 1) // 2
        if n_pairs > _MOST_PAIRS:
            raise ValueError(
                f"There are {n_classes:,} classes, which are {n_pairs:,} pairs with a machine each: more than "
                f"{_MOST_PAIRS:,} are not trained. Where they are quantities, use SVR (--task regression in the "
                "shell); where they are not, multi_class='ovr' (--multi-class ovr) trains a machine a class."
            )
        parts, pairs = class_rows(codes, n_classes), class_pairs(n_classes)
        sizes = np.array([part.size for part in parts])[pairs]
        signs = np.array([1.0, -1.0] * len(pairs)).repeat(sizes.ravel())
        return Tasks(parts, pairs, pairs.tolist(), signs)
    positive = [(1, 0)] if n_classes == 2 else [(k, None) for k in range(n_classes)]
    signs = np.where(codes == np.array([[k] for k, _ in positive]), 1.0, -1.0).ravel()
    return Tasks([np.arange(codes.size)], np.array([[0, -1]] * len(positive)), positive, signs)  # type: ignore[arg-type]


def class_rows(codes: IndexArray, n_classes: int) -> list[IndexArray]:
    """Return the rows of each class, in order."""
    order = _order_by_class(codes, n_classes)
    edges = accumulate(np.bincount(codes, minlength=n_classes).tolist(), initial=0)
    return [order[first:end] for first, end in pairwise(edges)]


def _order_by_class(codes: IndexArray, n_classes: int) -> IndexArray:
    """By class, in order within each."""
    return codes.astype(np.min_scalar_type(n_classes)).argsort(kind="stable")  # short: by radix


@dataclass(frozen=True, eq=False)
class Machines:
    """Trained machines for two classes that together tell several apart, or the joint machine.

    Attributes
    ----------
    scheme : {"ovo", "ovr", "joint"}
    n_classes : int
    tasks : Tasks
        What each column of decision values tells apart.
    solutions : Solutions
        One for each task; of the joint machine, a single one.
    n : int
        Number of training rows.
    margins : ndarray of shape (n_machines,), optional
        What every machine is divided by; None where solutions are the machines.
    leanings : ndarray of shape (n_machines,), optional
        How far every machine is moved towards a constant, t in (-1, 1): f becomes (1 - |t|) f + t.
    """

    scheme: str
    n_classes: int
    tasks: Tasks
    solutions: Solutions
    n: int
    margins: FloatArray | None = None
    leanings: FloatArray | None = None

    @property
    def coefficients(self) -> FloatArray:
        """Signed dual coefficients of every decision value over all training rows, (n, n_machines)."""
        if self.scheme == JOINT:
            return self._joint_coefficients
        rows, found = self.support()
        beta = np.zeros((self.n, len(self.tasks)))
        beta[rows] = table_of(found)
        return beta

    @property
    def _joint_coefficients(self) -> FloatArray:
        by_class = self.solutions[0].beta.reshape(self.n, self.n_classes)
        return by_class if self.n_classes > 2 else by_class[:, 1:] - by_class[:, :1]

    def support(self, codes: IndexArray | None = None) -> tuple[IndexArray, Coefficients]:
        """Return the rows with a coefficient other than 0, in order or by class, and these coefficients.

        Parameters
        ----------
        codes : ndarray of int64 of shape (n,), optional
            The class of each row, by which they are sorted; where machines are for pairs, they are in any case.

        Returns
        -------
        rows : ndarray of int64 of shape (n_SV,)
        coefficients : ndarray of shape (n_SV, n_machines), or PairCoefficients
            Signed, of every decision value.
        """
        if self.scheme == JOINT:
            of_all = self._joint_coefficients
            rows = self._by_class(np.flatnonzero(of_all.any(axis=1)), codes)
            return rows, of_all[rows]
        used = self.solutions.beta.nonzero()[0]
        of_used = self.tasks.rows[used]
        is_support = np.zeros(self.n, dtype=bool)
        is_support[of_used] = True
        if self.scheme == "ovo" and self.n_classes > 2:
            return self._support_of_pairs(used, of_used, is_support)
        rows = self._by_class(np.flatnonzero(is_support), codes)
        places = np.empty(self.n, dtype=np.int64)
        places[rows] = np.arange(rows.size)
        found = np.zeros((rows.size, len(self.tasks)))
        found[places[of_used], self._machines_of(used)] = self.solutions.beta[used]
        if self.margins is not None or self.leanings is not None:
            found = self._as_they_predict(found)
            kept = found.any(axis=1)  # a constant machine has no support vectors
            rows, found = rows[kept], found[kept]
        return rows, found

    def _support_of_pairs(
        self, used: IndexArray, of_used: IndexArray, is_support: npt.NDArray[np.bool_]
    ) -> tuple[IndexArray, PairCoefficients]:
        """The same where each part is a class: of variables other than 0, and the rows that they are of."""
        by_class = [part[is_support[part]] for part in self.tasks.parts]
        rows, counts = np.concatenate(by_class), np.array([part.size for part in by_class])
        places = np.empty(self.n, dtype=np.int64)
        places[rows] = np.arange(rows.size)
        at = places[of_used]
        own = np.arange(self.n_classes).repeat(counts)[at]
        other = self.tasks.pairs[self._machines_of(used)].sum(axis=1) - own
        table = np.zeros((rows.size, self.n_classes - 1))
        table[at, place_among_others(own, other)] = self.solutions.beta[used]
        found = PairCoefficients(table, counts)
        if self.margins is not None or self.leanings is not None:
            found = found.changed(self._as_they_predict)
            kept = (found.table != 0.0).any(axis=1)
            rows, found = rows[kept], found.of_rows(kept)
        return rows, found

    def _by_class(self, rows: IndexArray, codes: IndexArray | None) -> IndexArray:
        return rows if codes is None else rows[_order_by_class(codes[rows], self.n_classes)]

    def _machines_of(self, variables: IndexArray) -> IndexArray:
        return np.arange(len(self.tasks)).repeat(self.tasks.sizes)[variables]

    def held_values(self, rows: IndexArray) -> FloatArray | None:
        """Decision values without biases at rows of a held matrix, (m, n_machines), where solvers have kept them."""
        if self.solutions.held is not None:
            return self._as_they_predict(self.solutions.held.values[:, rows].T)
        columns = [solution.held_values for solution in self.solutions]
        known = [column[rows] for column in columns if column is not None]
        return self._as_they_predict(np.column_stack(known)) if len(known) == len(self.tasks) else None

    def _as_they_predict(self, linear: FloatArray, machines: IndexArray | slice = slice(None)) -> FloatArray:
        """What is linear in each machine that solves a problem, for those that predict."""
        linear = linear if self.margins is None else linear / self.margins[machines]
        return linear if self.leanings is None else linear * (1.0 - np.abs(self.leanings[machines]))

    @property
    def biases(self) -> FloatArray:
        """Bias of every decision value, (n_machines,)."""
        if self.scheme == JOINT:
            return np.zeros(len(self.tasks))
        biases = self.solutions.biases
        biases = biases if self.margins is None else biases / self.margins
        return biases if self.leanings is None else biases * (1.0 - np.abs(self.leanings)) + self.leanings

    @property
    def certificate(self) -> Certificate:
        """Certificate of the whole."""
        return self.solutions.certificate

    def scores(self, raw: FloatArray) -> FloatArray:
        """Turn decision values of the machines, (m, n_machines), into scores; see :func:`class_scores`."""
        return class_scores(raw, self.n_classes, self.scheme)


def train(
    gram: Gram,
    codes: npt.ArrayLike,
    n_classes: int,
    C: npt.ArrayLike,
    *,
    scheme: str = "ovo",
    duals: Duals = c_svc_each,
    margin: Margin | None = None,
    limits: Limits | None = None,
    warm_start: Machines | None = None,
    callback: Callback | None = None,
    interruption: Interruption | None = None,
) -> Machines:
    """Train machines for `n_classes` classes on one Gram matrix.

    Parameters
    ----------
    gram : Gram
        Of the n training rows. One that keeps rows evaluates shared kernel values once; see :class:`mercer.gram.Gram`.
    codes : array-like of int of shape (n,)
        Class of each row, 0 .. n_classes - 1, all present.
    C : float or array-like of shape (n,)
        Penalty of each row.
    scheme : {"ovo", "ovr", "joint"}
        See :func:`make_tasks`.
    duals : callable, optional
        Makes the problems of machines for two classes; by default those of C-SVC.
    margin : callable, optional
        What each machine is divided by; by default they are what solves their problems.
    limits : Limits, optional
        `max_seconds` and `max_iter` are for all machines together and for each machine, respectively.
    warm_start : Machines, optional
        Of the same rows and classes, for other values of C or kernel parameters.
    callback : callable, optional
        See :func:`mercer.solvers.solve`.
    interruption : Interruption, optional
        Entered by the caller, where one Ctrl-C shall stop more than this.

    Returns
    -------
    Machines
        All of them, even when the time limit or Ctrl-C ended the training early: the machines after that take no step
        and cost no kernel values. They are what they started from, all coefficients 0 or the warm start (whose
        certificate does cost its kernel values, once), and their certificates say how far from the optimum that is.

    Raises
    ------
    ValueError
        If kernel values overflow, or C is not positive.
    InseparableError
        If C is infinite and two classes cannot be separated.

    Notes
    -----
    The machines are independent of each other and of their order; see :func:`mercer.solvers.solve` for what each
    costs. Of a kernel without a proof, the whole Gram matrix is looked at first, up to 2,000 rows: where it is
    positive semidefinite, so are those of all class pairs.
    """
    labels = np.asarray(codes, dtype=np.int64)
    penalties = np.empty(labels.shape)
    penalties[...] = C
    limits = limits or Limits()
    tasks = make_tasks(labels, n_classes, scheme) if warm_start is None else warm_start.tasks
    if scheme == JOINT:
        whole = joint(labels, n_classes, penalties)
        problems = Problems(whole, [whole.n])
    else:
        problems = duals(tasks.signs, penalties[tasks.rows], tasks.sizes)
    with interruption or Interruption() as shared:
        solutions = solve_each(
            problems,
            gram,
            tasks.parts,
            tasks.pairs[: len(problems)],
            limits=limits,
            after=None if warm_start is None else warm_start.solutions,
            callback=callback,
            interruption=shared,
        )
    margins = None if margin is None else _margins(margin, solutions)
    return Machines(scheme, n_classes, tasks, solutions, labels.size, margins)


def _margins(margin: Margin, solutions: Solutions) -> FloatArray:
    """What to divide each machine by: its margin, or 1 where rounding cannot tell that from 0."""
    found = np.array([margin(solution.multipliers) for solution in solutions])
    roundings = [0.0 if one.certified is None else one.certified.rounding for one in solutions]
    empty = ~np.array(list(map(has_width, found.tolist(), roundings)))
    if empty.any():
        warnings.warn(
            f"the margin rho of {np.count_nonzero(empty)} of {found.size} machines is 0, so that they separate "
            "nothing: weighted means of their two classes coincide. Use a larger nu, or another kernel.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return np.where(empty, 1.0, found)


def class_scores(raw: FloatArray, n_classes: int, scheme: str) -> FloatArray:
    """Turn decision values of machines for two classes into one score a class; the largest score wins.

    One-versus-rest and joint: the decision values themselves. One-versus-one: votes, with ties broken by confidence: to
    a class's number of won pairs comes the sum s of its decision values, squeezed to s / (3 (|s| + 1)), which is less
    than half a vote. Two classes have one column, positive for class 1.

    Parameters
    ----------
    raw : ndarray of shape (m, n_machines)

    Returns
    -------
    ndarray of shape (m,) for two classes, (m, n_classes) for more
    """
    if n_classes == 2:
        return raw[:, 0]
    if scheme != "ovo":
        return raw
    votes = np.zeros((n_classes, raw.shape[0]))
    confidence = np.zeros_like(votes)
    for i, values in enumerate(against_later(np.ascontiguousarray(raw.T), n_classes)):
        won = values > 0.0
        votes[i] += np.count_nonzero(won, axis=0)
        votes[i + 1 :] += ~won
        confidence[i] += np.add.accumulate(values, axis=0)[-1]  # in order, whatever rows are beside
        confidence[i + 1 :] -= values
    return np.ascontiguousarray((votes + confidence / (3.0 * (np.abs(confidence) + 1.0))).T)


def winners(scores: FloatArray) -> IndexArray:
    """Return the class with the largest score of each row, the smaller one at a tie."""
    if scores.ndim == 1:
        return (scores > 0.0).astype(np.int64)
    return np.argmax(scores, axis=1).astype(np.int64)
