"""Training for several classes: machines for two classes that share one Gram matrix, or one joint machine."""

from __future__ import annotations

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
from mercer.data.user_warnings import warn_user
from mercer.gram import Gram
from mercer.multiclass.coefficients import Coefficients, Group, PairCoefficients, groups_of, summed, table_of
from mercer.multiclass.pairs import against_later, class_pairs, place_among_others
from mercer.problems import Problems, c_svc_each, has_width, joint
from mercer.solvers import Control, solve_each

SCHEMES = ("ovo", "ovr")
"""Schemes that combine machines for two classes."""

JOINT = "joint"
"""The scheme with one machine for all classes."""

_MOST_PAIRS = 250_000  # pairs of classes; so many machines take about a gigabyte of memory

Duals = Callable[[FloatArray, FloatArray, IndexArray], Problems]
"""Makes the problems of machines for two classes from concatenated signs, concatenated penalties and row counts."""

Margin = Callable[[FloatArray], float]
"""Computes from a machine's multipliers the margin by which it is divided."""


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
        The class with sign -1; None for all other classes.
    """

    rows: IndexArray
    signs: FloatArray
    positive: int
    negative: int | None


@final
class Tasks(Sequence[Task]):
    """The tasks of all machines, stored in concatenated arrays; a `Task` object is made on access.

    Attributes
    ----------
    parts : list of ndarray of int64
        Sets of rows. The rows of a machine are one of these sets, or two of them concatenated.
    pairs : ndarray of int64 of shape (n_machines, 2)
        Indices into `parts` for each machine; the second is -1 if the machine has one set.
    classes : list of pairs of int or None
        The positive and the negative class of each machine.
    sizes : ndarray of int64 of shape (n_machines,)
        Number of rows of each machine.
    rows, signs : ndarray
        Rows and signs of all machines, concatenated.
    """

    def __init__(
        self,
        parts: list[IndexArray],
        pairs: IndexArray,
        classes: list[tuple[int, int | None]],
        signs: FloatArray,
    ) -> None:
        self.parts, self.pairs, self.classes, self.signs = parts, pairs, classes, signs
        counts = np.array([*(part.size for part in parts), 0])  # index -1 selects the 0 at the end
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
    """Reduce a problem of several classes to problems of two classes.

    Two classes need one machine, with +1 for class 1. For more classes, one-versus-one ("ovo") makes a machine for each
    pair (i, j), i < j, with +1 for class i, on the rows of class i followed by those of class j. One-versus-rest
    ("ovr") makes a machine for each class, on all rows. The joint machine ("joint") has the tasks of "ovr" but solves
    them in one problem.
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
    """Return the row numbers sorted by class; rows of a class stay in their order."""
    return codes.astype(np.min_scalar_type(n_classes)).argsort(kind="stable")  # NumPy sorts short integers by radix


@dataclass(frozen=True, eq=False)
class Machines:
    """Trained machines for two classes that together make a classifier, or the joint machine.

    Attributes
    ----------
    scheme : {"ovo", "ovr", "joint"}
    n_classes : int
    tasks : Tasks
        The classes and rows behind each column of decision values.
    solutions : Solutions
        One solution for each task; a single solution for the joint machine.
    n : int
        Number of training rows.
    margins : ndarray of shape (n_machines,), optional
        The margin by which every machine is divided; None for no division.
    leanings : ndarray of shape (n_machines,), optional
        Shift t in (-1, 1) of every machine: f becomes (1 - |t|) f + t.
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
        rows, entries = self.support()
        beta = np.zeros((self.n, len(self.tasks)))
        beta[rows] = table_of(entries)
        return beta

    @property
    def _joint_coefficients(self) -> FloatArray:
        by_class = self.solutions[0].beta.reshape(self.n, self.n_classes)
        return by_class if self.n_classes > 2 else by_class[:, 1:] - by_class[:, :1]

    def support(self, codes: IndexArray | None = None) -> tuple[IndexArray, Coefficients]:
        """Return the rows with nonzero coefficients, and these coefficients.

        Parameters
        ----------
        codes : ndarray of int64 of shape (n,), optional
            The class of each row. If given, the rows are sorted by class; with one-versus-one they always are.

        Returns
        -------
        rows : ndarray of int64 of shape (n_SV,)
        coefficients : ndarray of shape (n_SV, n_machines), or PairCoefficients
            Signed coefficients of every decision value.
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
        coefficients = np.zeros((rows.size, len(self.tasks)))
        coefficients[places[of_used], self._machines_of(used)] = self.solutions.beta[used]
        if self.margins is not None or self.leanings is not None:
            coefficients = self._as_they_predict(coefficients)
            remaining = coefficients.any(axis=1)  # a constant machine has no support vectors
            rows, coefficients = rows[remaining], coefficients[remaining]
        return rows, coefficients

    def _support_of_pairs(
        self, used: IndexArray, of_used: IndexArray, is_support: npt.NDArray[np.bool_]
    ) -> tuple[IndexArray, PairCoefficients]:
        """Return what :meth:`support` does for one-versus-one.

        `used` are the variables with nonzero values, and `of_used` are their rows.
        """
        by_class = [part[is_support[part]] for part in self.tasks.parts]
        rows, counts = np.concatenate(by_class), np.array([part.size for part in by_class])
        places = np.empty(self.n, dtype=np.int64)
        places[rows] = np.arange(rows.size)
        at = places[of_used]
        class_of = np.arange(self.n_classes).repeat(counts)[at]
        other = self.tasks.pairs[self._machines_of(used)].sum(axis=1) - class_of
        table = np.zeros((rows.size, self.n_classes - 1))
        table[at, place_among_others(class_of, other)] = self.solutions.beta[used]
        coefficients = PairCoefficients(table, counts)
        if self.margins is not None or self.leanings is not None:
            coefficients = coefficients.changed(self._as_they_predict)
            remaining = (coefficients.table != 0.0).any(axis=1)
            rows, coefficients = rows[remaining], coefficients.of_rows(remaining)
        return rows, coefficients

    def _by_class(self, rows: IndexArray, codes: IndexArray | None) -> IndexArray:
        return rows if codes is None else rows[_order_by_class(codes[rows], self.n_classes)]

    def _machines_of(self, variables: IndexArray) -> IndexArray:
        return np.arange(len(self.tasks)).repeat(self.tasks.sizes)[variables]

    def known_products(self, rows: IndexArray) -> FloatArray | None:
        """Return the decision values without biases, (m, n_machines), that solvers stored for a matrix in memory.

        None if a solver did not store them.
        """
        if self.solutions.prepared is not None:
            return self._as_they_predict(self.solutions.prepared.values[:, rows].T)
        columns = [solution.known_products for solution in self.solutions]
        products = [column[rows] for column in columns if column is not None]
        return self._as_they_predict(np.column_stack(products)) if len(products) == len(self.tasks) else None

    def _as_they_predict(self, linear: FloatArray, machines: IndexArray | slice = slice(None)) -> FloatArray:
        """Apply `margins` and `leanings` to coefficients or to decision values without biases."""
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
        """Certificate of all machines together."""
        return self.solutions.certificate

    def values(
        self, gram: Gram, trained: IndexArray, rows: IndexArray, check: Callable[[], None] | None = None
    ) -> FloatArray:
        """Return decision values of rows of a Gram matrix, (m, n_machines).

        Parameters
        ----------
        gram : Gram
        trained : ndarray of int64
            The training rows of these machines, among the rows of the matrix.
        rows : ndarray of int64 of shape (m,)
        check : callable, optional
            See :meth:`mercer.gram.Gram.matvec`.
        """
        of_trained, coefficients = self.support()
        support = trained[of_trained]

        def product(one: Group) -> FloatArray:
            values = np.zeros((gram.n, one.coefficients.shape[1]))
            values[support if one.vectors is None else support[one.vectors]] = one.coefficients
            return gram.matvec(values, rows, check)

        return summed(groups_of(coefficients), product, rows.size, len(self.tasks)) + self.biases

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
    control: Control | None = None,
    warm_start: Machines | None = None,
) -> Machines:
    """Train machines for `n_classes` classes on one Gram matrix.

    Parameters
    ----------
    gram : Gram
        Gram matrix of the n training rows. With a row cache, kernel values that machines share are computed once; see
        :class:`mercer.gram.Gram`.
    codes : array-like of int of shape (n,)
        Class of each row, 0 .. n_classes - 1; every class must occur.
    C : float or array-like of shape (n,)
        Penalty of each row.
    scheme : {"ovo", "ovr", "joint"}
        See :func:`make_tasks`.
    duals : callable, optional
        Makes the problems of machines for two classes; by default the problems of C-SVC.
    margin : callable, optional
        Computes the margin by which each machine is divided; by default machines are not divided.
    control : Control, optional
        `max_seconds` limits all machines together, `max_iter` limits each machine.
    warm_start : Machines, optional
        Machines for the same rows and classes, trained with other values of C or kernel parameters.

    Returns
    -------
    Machines
        All machines, also if the time limit or Ctrl-C ended the training early. The remaining machines then take no
        step: their coefficients are 0 or those of the warm start, and their certificates say how far they are from the
        optimum. Only the certificate of a warm start costs kernel values.

    Raises
    ------
    ValueError
        If kernel values overflow, or C is not positive.
    InseparableError
        If C is infinite and two classes cannot be separated.

    Notes
    -----
    The machines do not depend on each other or on their order; see :func:`mercer.solvers.solve` for the cost of each.
    If the kernel is not proved to be positive semidefinite, the whole Gram matrix is checked first, up to 2,000 rows:
    if it is positive semidefinite, so are the Gram matrices of all class pairs.
    """
    labels = np.asarray(codes, dtype=np.int64)
    penalties = np.empty(labels.shape)
    penalties[...] = C
    control = control or Control()
    tasks = make_tasks(labels, n_classes, scheme) if warm_start is None else warm_start.tasks
    if scheme == JOINT:
        joint_problem = joint(labels, n_classes, penalties)
        problems = Problems(joint_problem, [joint_problem.n])
    else:
        problems = duals(tasks.signs, penalties[tasks.rows], tasks.sizes)
    with control.interruption:
        solutions = solve_each(
            problems,
            gram,
            tasks.parts,
            tasks.pairs[: len(problems)],
            control=control,
            after=None if warm_start is None else warm_start.solutions,
        )
    margins = None if margin is None else _margins(margin, solutions)
    return Machines(scheme, n_classes, tasks, solutions, labels.size, margins)


def _margins(margin: Margin, solutions: Solutions) -> FloatArray:
    """Return the divisor of each machine: its margin, or 1 if the margin is 0 up to rounding."""
    divisors = np.array([margin(solution.multipliers) for solution in solutions])
    roundings = [0.0 if one.certified is None else one.certified.decision_error or 0.0 for one in solutions]
    empty = ~np.array(list(map(has_width, divisors.tolist(), roundings)))
    if empty.any():
        warn_user(
            f"the margin rho of {np.count_nonzero(empty)} of {divisors.size} machines is 0, so that they separate "
            "nothing: weighted means of their two classes coincide. Use a larger nu, or another kernel.",
            ConvergenceWarning,
        )
    return np.where(empty, 1.0, divisors)


def class_scores(raw: FloatArray, n_classes: int, scheme: str) -> FloatArray:
    """Turn decision values of the machines into one score for each class; the class with the largest score wins.

    For one-versus-rest and joint, the scores are the decision values. For one-versus-one, they are votes plus a
    confidence that breaks ties: s / (3 (|s| + 1)), where s is the sum of the class's decision values. The confidence is
    less than half a vote. Two classes have one column, positive for class 1.

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
        confidence[i] += np.add.accumulate(values, axis=0)[-1]  # this sum does not depend on the other rows
        confidence[i + 1 :] -= values
    return np.ascontiguousarray((votes + confidence / (3.0 * (np.abs(confidence) + 1.0))).T)


def ranking_scores(raw: FloatArray, n_classes: int, scheme: str) -> FloatArray:
    """Return a score for each class that ranks rows by how much they are like rows of this class.

    For one-versus-one, it is the decision value of the class against the class that is closest to winning over it.
    :func:`class_scores` count votes there, and rank rows with equally many votes only by their decision values; so an
    area under a ROC curve is smaller by votes. The other schemes have the scores of :func:`class_scores`.

    Parameters and returned value are those of :func:`class_scores`.

    Examples
    --------
    >>> print(ranking_scores(np.array([[0.5, -0.1, 2.0]]), 3, "ovo"))
    [[-0.1 -0.5 -2. ]]
    """
    if n_classes == 2 or scheme != "ovo":
        return class_scores(raw, n_classes, scheme)
    smallest = np.full((n_classes, raw.shape[0]), np.inf)
    for i, values in enumerate(against_later(np.ascontiguousarray(raw.T), n_classes)):
        np.minimum(smallest[i], values.min(axis=0), out=smallest[i])
        np.minimum(smallest[i + 1 :], -values, out=smallest[i + 1 :])
    return np.ascontiguousarray(smallest.T)


def winners(scores: FloatArray) -> IndexArray:
    """Return the class with the largest score of each row; the smaller class if scores are equal."""
    if scores.ndim == 1:
        return (scores > 0.0).astype(np.int64)
    return np.argmax(scores, axis=1).astype(np.int64)
