"""Machines with fewer support vectors, and a proved bound on the change of their decision values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.certificates.recomputation import long_product
from mercer.data.arguments import check_number
from mercer.estimators import SVDD
from mercer.estimators._dual import DualMachine
from mercer.estimators._every_row import EveryRowMachine
from mercer.estimators._restored import with_vectors
from mercer.export.machine_formulas import final_model
from mercer.export.table_formulas import is_table_model
from mercer.gram import Gram
from mercer.kernels.kernel import restored_rows
from mercer.multiclass import PairCoefficients, pairs_with
from mercer.multiclass.coefficients import Coefficients

_NOISE = 1e-10  # share of k(x, x): a vector whose distance from the span of the others is smaller is not added
_GROWTH = 64  # rows by which the memory of a factor grows
_STRICTER = 0.5  # factor of the working tolerance if the proof, which counts rounding, fails
_MOST_ROUNDS = 8  # how often the working tolerance is lowered
_SAFETY = 8.0  # times the usual error of a kernel value, as in certificates/roundoff.py


@dataclass(frozen=True, eq=False)
class Compaction:
    """What :func:`compact` has done.

    Attributes
    ----------
    n_vectors_before, n_vectors : int
        Numbers of support vectors.
    bounds : ndarray of shape (n_machines,)
        For each machine for two classes, or output: a decision value changes by at most this times sqrt(k(x, x)).
    """

    n_vectors_before: int
    n_vectors: int
    bounds: FloatArray

    def __str__(self) -> str:
        return (
            f"{self.n_vectors} of {self.n_vectors_before} support vectors; decision values change by at most "
            f"{self.bounds.max(initial=0.0):.3g} sqrt(k(x, x))"
        )


def compact(model: Any, tol: float) -> Any:
    """Return a machine with fewer support vectors whose decision values are almost the same, by a proved bound.

    Parameters
    ----------
    model : estimator
        A fitted machine with support vectors or training rows and a kernel that is proved positive semidefinite; or a
        pipeline that ends in one, or a search for one.
    tol : float
        Largest change of a decision value, for every row x, as a multiple of sqrt(k(x, x)); > 0. For the Gaussian and
        other kernels with k(x, x) = 1 it is the largest change itself.

    Returns
    -------
    estimator
        A fitted copy, with `compaction_` (:class:`mercer.export.Compaction`): the numbers of vectors, and a bound for
        each machine for two classes. It has no certificate, because it is not the optimum. Its support vectors are
        some of the machine's own. If no vector can be left out, all remain and the bounds are 0.

    Raises
    ------
    TypeError
        If the model has no support vectors.
    ValueError
        If the kernel is not proved positive semidefinite, is one of given values, or `tol` is not positive.
    NotFittedError
        Before `fit`.

    Notes
    -----
    *The bound.* Let f = sum_i a_i k(s_i, .) be the machine without its bias, and g = sum_i b_i k(s_i, .) the one
    returned, where b_i is 0 for most i. Both are elements of the kernel's space H. For every x, by the reproducing
    property and the inequality of Cauchy and Schwarz,

        |f(x) - g(x)| = |<f - g, k(x, .)>| <= ||f - g|| sqrt(k(x, x)),    ||f - g||^2 = (a - b)' K (a - b).

    The bias is the same, so that this bounds the change of the decision value. ``compaction_.bounds`` are these norms,
    computed from the final coefficients with sums in extended precision. The error of a kernel value is at most e
    sqrt(k(s_i, s_i) k(s_j, s_j)), so that e (sum_i |a_i - b_i| sqrt(k(s_i, s_i)))^2 is added to the square; e is eight
    times the error that the library's proofs of rounding count (docs/proofs/rounding.md). Therefore no bound is below
    about 1e-7 times the sum of the coefficients that change. It is a bound of exact decision values; those of both
    machines are rounded when they are computed. The scores of an `SVDD` are twice the sum, so its bound is twice the
    norm.

    Classes change only where the decision values that decide them are below their bounds. With one-versus-one, the
    bounds are those of the machines for pairs of classes, and not of scores, which count votes.

    *The vectors* are chosen one after the other, each the one that lowers the squared norms most when f is projected on
    the span of those chosen (orthogonal matching pursuit); b is the projection. Costs n_SV kernel values and n_SV m
    multiplications for the m-th vector, and 8 n_SV m bytes; the proof costs n_SV^2 kernel values.

    References
    ----------
    Burges (1996), Simplified support vector decision rules, for the norm; Pati, Rezaiifar & Krishnaprasad (1993) for
    the choice.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVC, compact
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> machine = SVC(gamma=0.5).fit(X, X[:, 0] * X[:, 1] > 0.0)
    >>> small = compact(machine, tol=0.01)
    >>> bool(small.n_support_.sum() < 0.5 * machine.n_support_.sum())
    True
    >>> bool(np.abs(small.decision_function(X) - machine.decision_function(X)).max() < 0.01)
    True
    """
    check_number("tol", tol, above=0.0, finite=True)
    model = final_model(model)
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        *steps, (name, machine) = model.steps
        other = clone(model)
        other.steps = [*steps, (name, compact(machine, tol))]
        other.__dict__.update({key: value for key, value in vars(model).items() if key not in vars(other)})
        return other
    if not isinstance(model, DualMachine | EveryRowMachine):
        hint = ""
        if is_table_model(model):
            hint = " A model of a table has the certificate of its machine: make the machine compact, and export that."
        raise TypeError(
            f"compact takes machines with support vectors or training rows, such as SVC and KernelRidge, got "
            f"{type(model).__name__}.{hint}"
        )
    check_is_fitted(model, "kernel_")
    kernel = model.kernel_
    if kernel.takes_values or not kernel.is_psd:
        raise ValueError(
            f"compact needs a kernel of rows that is proved positive semidefinite, got {kernel!r}: only then is the "
            "change of decision values bounded by a norm."
        )
    vectors = restored_rows(kernel, model.support_vectors_ if isinstance(model, DualMachine) else model.X_fit_)
    scale = 2.0 if isinstance(model, SVDD) else 1.0
    coefficients, chosen = model._coefficients, np.arange(vectors.n)
    bounds = _no_change(coefficients)
    if vectors.n:
        gram = Gram(kernel, vectors, n_jobs=model.n_jobs)
        chosen, coefficients, bounds = _chosen_vectors(gram, coefficients, tol / scale)
    codes = np.zeros(0, dtype=np.int64)
    if hasattr(model, "classes_") and isinstance(model, DualMachine):
        codes = np.repeat(np.arange(model.classes_.size), model.n_support_)[chosen]
    other = with_vectors(model, vectors.rows(chosen), coefficients, codes)
    other.compaction_ = Compaction(vectors.n, chosen.size, scale * bounds)
    return other


def _chosen_vectors(gram: Gram, coefficients: Coefficients, tol: float) -> tuple[IndexArray, Coefficients, FloatArray]:
    """Return the vectors that remain, their coefficients, and the proved bounds."""
    projections = _projections(gram, coefficients)
    is_chosen = np.zeros(gram.n, dtype=bool)
    working = 0.9 * tol
    for _ in range(_MOST_ROUNDS):
        _select(gram, projections, is_chosen, working)
        if is_chosen.all():
            break
        tables = [one.table(gram) for one in projections]
        if all((bounds <= tol).all() for _, bounds in tables):
            chosen = np.flatnonzero(is_chosen)
            bounds = _joined_bounds(coefficients, projections, tables)
            return chosen, _joined(coefficients, projections, tables, chosen), bounds
        working *= _STRICTER
    return np.arange(gram.n), coefficients, _no_change(coefficients)


def _no_change(coefficients: Coefficients) -> FloatArray:
    """Return the bound 0 for each machine."""
    return np.zeros(coefficients.n_machines if isinstance(coefficients, PairCoefficients) else coefficients.shape[1])


class _Projection:
    """The projection of some machines on the span of chosen vectors among those that they use.

    Attributes
    ----------
    rows : ndarray of int64 of shape (n,)
        The vectors that the machines use.
    machines : ndarray of int64 of shape (T,)
    """

    def __init__(self, gram: Gram, rows: IndexArray, machines: IndexArray, coefficients: FloatArray) -> None:
        self.rows, self.machines, self._coefficients = rows, machines, coefficients
        view = gram.restrict(rows)
        self._residual = view.matvec(coefficients)
        self.squares = np.einsum("it,it->t", coefficients, self._residual)
        self._left = view.diag()
        self._least = _NOISE * self._left
        self._factor = np.empty((_GROWTH, rows.size))
        self._shares: list[FloatArray] = []
        self._chosen: list[int] = []
        self._can_be_chosen = self._left > 0.0

    def gains(self, tol: float) -> FloatArray:
        """Return by how much each vector would lower the squared norms of the machines that are not near enough."""
        is_far = self.squares > tol**2
        gains = np.zeros(self.rows.size)
        free = self._can_be_chosen
        if is_far.any() and free.any():
            gains[free] = np.square(self._residual[np.ix_(free, is_far)]).sum(axis=1) / self._left[free]
        return gains

    def add(self, place: int, values: FloatArray) -> None:
        """Add a vector to the span; `values` are its kernel values with all rows of this projection."""
        m = len(self._chosen)
        if m == len(self._factor):
            self._factor = np.vstack([self._factor, np.empty((max(_GROWTH, m // 2), self.rows.size))])
        row = values - self._factor[:m, place] @ self._factor[:m]
        row /= np.sqrt(self._left[place])
        share = self._residual[place] / np.sqrt(self._left[place])
        self._factor[m] = row
        self._residual -= np.multiply.outer(row, share)
        self.squares = self.squares - share**2
        self._left = self._left - row**2
        self._can_be_chosen &= self._left > self._least
        self._can_be_chosen[place] = False
        self._chosen.append(place)
        self._shares.append(share)

    def accepts(self, place: int) -> bool:
        """Whether the vector is far enough from the span of those chosen."""
        return bool(self._can_be_chosen[place])

    def table(self, gram: Gram) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of the projections, (n, T), and the proved bounds of the distances, (T,)."""
        table = np.zeros_like(self._coefficients)
        if self._chosen:
            triangle = self._factor[: len(self._chosen)][:, self._chosen]
            table[self._chosen] = solve_triangular(triangle, np.array(self._shares), check_finite=False)
        change = self._coefficients - table
        view = gram.restrict(self.rows)
        squares = np.einsum("it,it->t", change.astype(np.longdouble), long_product(view, change)).astype(np.float64)
        mass = np.sqrt(view.magnitudes()) @ np.abs(change)
        error = _SAFETY * (view.roundoff + 1.0) * np.finfo(np.float64).eps * mass**2
        return table, np.sqrt(np.maximum(squares, 0.0) + error)


def _projections(gram: Gram, coefficients: Coefficients) -> list[_Projection]:
    """Return one projection for all machines; of machines for pairs of classes, one for each."""
    if not isinstance(coefficients, PairCoefficients):
        return [_Projection(gram, np.arange(gram.n), np.arange(coefficients.shape[1]), coefficients)]
    return [
        _Projection(gram, rows, np.array([machine]), values[:, None])
        for machine, (rows, values) in enumerate(coefficients.columns())
        if rows.size
    ]


def _select(gram: Gram, projections: list[_Projection], is_chosen: BoolArray, tol: float) -> None:
    """Choose vectors until all projections are near enough, or none can be improved."""
    while True:
        gains = np.zeros(gram.n)
        for one in projections:
            gains[one.rows] += one.gains(tol)
        gains[is_chosen] = 0.0
        best = int(gains.argmax())
        if not gains[best] > 0.0:
            return
        is_chosen[best] = True
        values = gram.block(np.array([best]), None)[0]
        for one in projections:
            place = int(np.searchsorted(one.rows, best))
            if place < one.rows.size and one.rows[place] == best and one.accepts(place):
                one.add(place, values[one.rows])


def _joined(
    coefficients: Coefficients,
    projections: list[_Projection],
    tables: list[tuple[FloatArray, FloatArray]],
    chosen: IndexArray,
) -> Coefficients:
    """Return the coefficients of the chosen vectors, in the layout of the machine."""
    if not isinstance(coefficients, PairCoefficients):
        return tables[0][0][chosen]
    classes = np.arange(coefficients.counts.size).repeat(coefficients.counts)
    machines = pairs_with(coefficients.counts.size)[classes]  # machine of each entry of the table
    table = np.zeros_like(coefficients.table)
    for one, (projected, _) in zip(projections, tables, strict=True):
        rows, places = np.nonzero(machines[one.rows] == one.machines[0])
        table[one.rows[rows], places] = projected[rows, 0]
    counts = np.bincount(classes[chosen], minlength=coefficients.counts.size)
    return PairCoefficients(table[chosen], counts)


def _joined_bounds(
    coefficients: Coefficients, projections: list[_Projection], tables: list[tuple[FloatArray, FloatArray]]
) -> FloatArray:
    bounds = _no_change(coefficients)
    for one, (_, bounds_of_machine) in zip(projections, tables, strict=True):
        bounds[one.machines] = bounds_of_machine
    return bounds
