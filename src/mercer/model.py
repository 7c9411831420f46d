"""A trained machine as a value: all that predicting and verifying need, and nothing that only training needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer import multiclass
from mercer.certificate import Certificate, combine
from mercer.data import Vectors, as_data
from mercer.decision import decision_values
from mercer.encoding import Missing, TableEncoder
from mercer.estimators import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, QuantileSVR
from mercer.gram import Gram
from mercer.intake import doubtful_columns
from mercer.kernels import Kernel
from mercer.outcome import Classes, Membership, Outcome, PartTask, Quantity
from mercer.problems import Problem, half_width, inner
from mercer.recipes import RECIPES, Recipe
from mercer.solution import Solution
from mercer.table import Table, TableError, TableWarning, as_table, listing, target_column

Machine: TypeAlias = SVC | NuSVC | SVR | NuSVR | QuantileSVR | OneClassSVM | SVDD
"""The machines that a model can be made of: those that a dual problem was solved and certified for."""

_CLASSIFIERS, _NOVELTY = (SVC, NuSVC), (OneClassSVM, SVDD)


@dataclass(frozen=True, eq=False)
class Part:
    """One machine of a model, as its dual problem was solved.

    Attributes
    ----------
    support : ndarray of int64
        Its support vectors, as positions in the model's `support_rows`. One that has two variables other than 0, one of
        each sign, is there twice.
    beta : ndarray of float64
        Their signed dual coefficients.
    bias : float
    half_width : float or None
        Half of the distance between the levels of its two groups: the margin rho of NuSVC, the epsilon of NuSVR. None
        for machines with one group or none.
    certificate : Certificate
        As computed when it was trained.
    """

    support: npt.NDArray[np.int64]
    beta: npt.NDArray[np.float64]
    bias: float
    half_width: float | None
    certificate: Certificate

    @property
    def divisor(self) -> float:
        """What decision values are divided by so that margins are held against 1: rho of NuSVC, where there is one."""
        found = self.half_width
        return found if found is not None and found > 2.0 * self.certificate.rounding else 1.0


@dataclass(frozen=True, eq=False)
class Training:
    """What a model was trained on, so that it can be verified against it.

    Attributes
    ----------
    rows : ndarray of int64
        Indices of the training rows in the table.
    checksum : str
        Of the cells of these rows in the columns that the model uses, the target included.
    class_weight : ndarray of float64, or None
        One weight a class; None where there are no classes.
    sample_weight : ndarray of float64, or None
        One weight a training row; None stands for all ones.
    """

    rows: npt.NDArray[np.int64]
    checksum: str
    class_weight: npt.NDArray[np.float64] | None = None
    sample_weight: npt.NDArray[np.float64] | None = None

    def penalties(self, C: float, truth: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """C_i of each training row, of which this is what it says."""
        # In the order of the fit, so that bounds are equal to the bit.
        by_row = np.full(truth.size, C) if self.class_weight is None else C * self.class_weight[truth]
        return by_row if self.sample_weight is None else by_row * self.sample_weight


@dataclass(frozen=True, eq=False)
class Model:
    """A trained support vector machine for the rows of a table.

    Attributes
    ----------
    encoder : TableEncoder
        From a table to a matrix, as learnt on the training rows.
    outcome : Outcome
        What it answers.
    recipe : Recipe
        What was solved.
    kernel : Kernel
    support_rows : ndarray of int64
        The support vectors of all parts, as positions among the training rows.
    support_vectors : Vectors
        The same, as encoded rows.
    parts : tuple of Part
    training : Training
    """

    encoder: TableEncoder
    outcome: Outcome
    recipe: Recipe
    kernel: Kernel
    support_rows: npt.NDArray[np.int64]
    support_vectors: Vectors
    parts: tuple[Part, ...]
    training: Training

    @property
    def target(self) -> str | None:
        """Column that it predicts; None where there is none."""
        return self.outcome.column

    @property
    def certificate(self) -> Certificate:
        """Certificate of the whole."""
        return combine([part.certificate for part in self.parts])

    def decision_values(self, table: Any) -> npt.NDArray[np.float64]:
        """Decision value of every part, (n, number of parts), in float64."""
        return self._values(as_data(self.encoder.transform(table)))

    def _values(self, data: Vectors) -> npt.NDArray[np.float64]:
        return decision_values(self.kernel, data, self.support_vectors, *self._machines)

    @property
    def _machines(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The coefficients and biases of all parts, as they decide."""
        beta = np.zeros((self.support_vectors.n, len(self.parts)))
        for column, part in enumerate(self.parts):
            np.add.at(beta[:, column], part.support, part.beta)
        biases = np.array([part.bias for part in self.parts])
        if self.recipe.is_scaled:
            divisors = np.array([part.divisor for part in self.parts])
            beta, biases = beta / divisors, biases / divisors
        return self.outcome.machines(beta, biases)

    def scores(self, table: Any) -> npt.NDArray[np.float64]:
        """What decides about each row: see `scores` of the model's `outcome`."""
        return self._scores(as_data(self.encoder.transform(table)))

    def _scores(self, data: Vectors) -> npt.NDArray[np.float64]:
        return self.outcome.scores(self._values(data), lambda: self.kernel.diag(data))

    def predict(self, table: Any) -> npt.NDArray[Any]:
        """Answer for each row of a table or data frame: its label, its number, or whether it is inside.

        Warns
        -----
        TableWarning
            If the table holds categories, or features of a sparse block, that no training row had.
        """
        self._warn_of_strangers(table)
        data = as_data(self.encoder.transform(table))
        found = self.outcome.predict(self.kernel, data, self.support_vectors, *self._machines)
        return self.outcome.answers(self._scores(data)) if found is None else found

    def answer(self, table: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """What `predict` says of each row, and the scores that decided it; warns as `predict` does."""
        self._warn_of_strangers(table)
        scores = self.scores(table)
        return self.outcome.answers(scores), scores

    def _warn_of_strangers(self, table: Any) -> None:
        for sentence in self.encoder.strangers(table):
            warnings.warn(sentence, TableWarning, stacklevel=3)

    def training_part(self, table: Table) -> Table:
        """The training rows of the table, with the columns that the model uses and the target."""
        return _used_part(table, self.encoder, self.outcome.column, self.training.rows)


def _used_part(table: Table, encoder: TableEncoder, target: str | None, rows: npt.NDArray[np.int64]) -> Table:
    if encoder.dense_block_ is not None:
        table = table.densified(encoder.dense_block_)
    names = [rule.name for rule in encoder.rules_]
    return table.take(rows).select(names if target is None else [*names, target])


def point_of(problem: Problem, rows: npt.NDArray[np.int64], beta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The point of a problem whose variables other than 0 are `beta`, each of one of these rows.

    Of a row with two variables, one of each sign, the positive one comes first in a problem.
    """
    point = np.zeros(problem.n)
    point[rows if problem.rows is None else np.where(beta > 0.0, rows, rows + problem.n_rows)] = beta
    return point


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The training rows of a table, encoded, and what a model has to remember of them.

    Attributes
    ----------
    encoder : TableEncoder
        As learnt on these rows.
    outcome : Outcome
        What is to be answered, as learnt on these rows.
    truth : ndarray
        What each row says: see `truth` of the outcome.
    X : ndarray or csr_array
        The encoded rows.
    rows : ndarray of int64
        Which rows of the table these are.
    checksum : str
        Of their cells.
    """

    encoder: TableEncoder
    outcome: Outcome
    truth: npt.NDArray[Any]
    X: Any
    rows: npt.NDArray[np.int64]
    checksum: str

    def model(
        self,
        recipe: Recipe,
        kernel: Kernel,
        solutions: list[Solution],
        class_weight: npt.NDArray[np.float64] | None = None,
        sample_weight: npt.NDArray[np.float64] | None = None,
    ) -> Model:
        """The model made of what was solved on these rows, a solution for each part."""
        tasks = self.outcome.tasks(self.truth)
        points = [_variables(one, task.rows) for task, one in zip(tasks, solutions, strict=True)]
        support_rows = np.unique(np.concatenate([rows for rows, _ in points]))
        parts = [
            Part(
                np.searchsorted(support_rows, rows),
                beta,
                float(one.bias),
                half_width(one.multipliers) if one.multipliers.size == 2 else None,
                one.certificate,
            )
            for (rows, beta), one in zip(points, solutions, strict=True)
        ]
        return Model(
            encoder=self.encoder,
            outcome=self.outcome,
            recipe=recipe,
            kernel=kernel,
            support_rows=support_rows,
            support_vectors=as_data(self.X).rows(support_rows),
            parts=tuple(parts),
            training=Training(self.rows, self.checksum, class_weight, sample_weight),
        )

    def model_of(self, machine: Machine, sample_weight: npt.NDArray[np.float64] | None = None) -> Model:
        """The model of an estimator that was fitted on these rows with these weights, by what it was fitted with."""
        if isinstance(machine, _CLASSIFIERS) and machine.machines_.scheme == multiclass.JOINT:
            raise ValueError(
                "a model holds machines for two classes each, but this one was fitted with multi_class='joint'; fit "
                "with 'ovo' or 'ovr', or pickle it."
            )
        settled, class_weight = _settled(self.outcome, machine)
        tasks, solutions = settled.tasks(self.truth), _solutions(machine)
        _check_rows(machine, solutions, tasks, self.X)
        if isinstance(machine, NuSVC) and machine.machines_.leanings is not None:
            raise ValueError(
                "a model cannot hold a NuSVC whose nu was lowered because class_weight made it infeasible: fit it with "
                f"nu={float(machine.nu_.min()):.6g} or less"
            )
        of_it = replace(self, outcome=settled)
        model = of_it.model(machine.recipe_, machine.kernel_, solutions, class_weight, sample_weight)
        gram, penalties = Gram(model.kernel, as_data(self.X)), model.training.penalties(model.recipe.C, self.truth)
        for task, one in zip(tasks, solutions, strict=True):
            view = gram.restrict(task.rows)
            _check_problem(one, model.recipe.problem(task.targets, penalties[task.rows], view), view)
        return model


def _settled(outcome: Outcome, machine: Machine) -> tuple[Outcome, npt.NDArray[np.float64] | None]:
    """The outcome as a fitted machine settles it, and its class weights, where it has some."""
    if isinstance(machine, _CLASSIFIERS):
        return replace(cast(Classes, outcome), scheme=machine.machines_.scheme), machine.class_weight_
    if isinstance(machine, _NOVELTY):
        ball = machine.squared_norm_ if isinstance(machine, SVDD) else None
        return Membership(float(machine.offset_[0]), ball), None
    return outcome, None


def _variables(
    solution: Solution, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The variables that are not 0, and the row of each, rising; where rows have two, the positive ones come first."""
    chosen = np.flatnonzero(solution.beta)
    side, place = np.divmod(chosen, len(rows))
    order = np.lexsort((rows[place], side))
    return rows[place[order]], solution.beta[chosen[order]]


def _solutions(machine: Machine) -> list[Solution]:
    found = machine.solution_
    return list(found) if isinstance(found, tuple) else [found]


_OTHERS = "X, y and sample_weight must be what the machine was fitted on, but rows or {} differ"


def _check_rows(machine: Machine, solutions: list[Solution], tasks: Iterable[PartTask], X: Any) -> None:
    if isinstance(machine, _CLASSIFIERS):
        fitted = [(one.rows, one.signs) for one in machine.machines_.tasks]
        asked = [(one.rows, one.targets) for one in tasks]
        if len(fitted) != len(asked) or not all(
            np.array_equal(a, b)
            for one, other in zip(fitted, asked, strict=True)
            for a, b in zip(one, other, strict=True)
        ):
            raise ValueError(_OTHERS.format("labels"))
    elif X.shape[0] * (2 if machine.recipe_.is_two_sided else 1) != solutions[0].beta.size:
        raise ValueError(_OTHERS.format("targets"))


def _check_problem(solution: Solution, problem: Problem, gram: Gram) -> None:
    """Refuse targets or weights that are not those of a fit, as far as that can be told."""
    if solution.evidence is not None:
        fitted = solution.evidence.problem
        if not np.allclose(fitted.linear, problem.linear, rtol=1e-12, atol=0.0):
            raise ValueError(_OTHERS.format("targets"))
        same = all(
            np.array_equal(getattr(fitted, name), getattr(problem, name)) for name in ("lower", "upper", "ridge")
        )
    else:
        beta, box = solution.beta, (problem.lower, problem.upper)
        dual, known = _dual(problem, gram, beta), solution.certificate.dual
        if not abs(dual - known) <= 1e-6 * max(1.0, abs(known)):
            raise ValueError(_OTHERS.format("targets"))
        n_bounded = np.count_nonzero(((beta <= box[0]) | (beta >= box[1])) & (beta != 0.0))
        same = bool(((box[0] <= beta) & (beta <= box[1])).all()) and n_bounded == solution.certificate.n_bounded
    if not same:
        raise ValueError(
            "sample_weight must be what the machine was fitted with, but its bounds are not those of these weights"
        )


def _dual(problem: Problem, gram: Gram, beta: npt.NDArray[np.float64]) -> float:
    """The dual objective, from the kernel values between support vectors."""
    chosen = np.flatnonzero(beta)
    ridge = 0.0 if problem.ridge is None else problem.ridge[chosen] * beta[chosen]
    rows = chosen if problem.rows is None else problem.rows[chosen]
    values = gram.restrict(rows).matvec(beta[chosen]) + ridge
    return -inner(beta[chosen], 0.5 * values + problem.linear[chosen])


def training_set(
    table: Any,
    target: str | None,
    learn: Callable[[str, npt.NDArray[Any]], Outcome] = Classes.learnt,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    missing: Missing = "error",
) -> TrainingSet:
    """Learn the encoding of a table from its training rows, and encode them.

    Parameters
    ----------
    table : Table or data frame
        All its columns but the target are used.
    target : str or None
        Column of classes or numbers, without missing cells in `rows`; None where there is no target.
    learn : callable, default=Classes.learnt
        Makes the outcome of the target's name and cells: `Classes.learnt` or `Quantity.learnt`.
    rows : ndarray of int, optional
        Rows to train on; all of them by default.
    missing : {"error", "impute"}, default="error"
        See `TableEncoder`.

    Raises
    ------
    TableError
        If the target does not exist, has missing cells or nothing that can be learnt, or the table cannot be encoded.
    """
    table = as_table(table)
    chosen = np.arange(table.n_rows) if rows is None else np.asarray(rows, dtype=np.int64)
    part = table.take(chosen)
    if target is None:
        outcome: Outcome = Membership(0.0)
    else:
        if part.missing(target).any():
            raise TableError(f"the target {target!r} has missing values in the training rows", "leave these rows out")
        outcome = learn(target, part[target])
    encoder = TableEncoder(missing=missing).fit(part if target is None else part.without([target]))
    checksum = _used_part(table, encoder, target, chosen).checksum()
    return TrainingSet(encoder, outcome, outcome.truth(part), encoder.transform(part), chosen, checksum)


def fit_model(
    table: Any,
    target: str | None,
    machine: Machine,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    keep: Iterable[str] = (),
    missing: Missing = "error",
) -> Model:
    """Encode a table, train a machine on it, and keep what predicting and verifying need.

    Columns that look like row identifiers or dates are left out, as on the command line. A target of numbers is
    standardised like columns of numbers, so `epsilon` and `tol` of a regressor are shares of its standard deviation,
    and `C` is the penalty of one; predictions are in the target's own unit.

    Parameters
    ----------
    table, rows, missing
        See `training_set`.
    target : str or None
        Column of classes for classifiers, of numbers for regressors; None for `OneClassSVM` and `SVDD`.
    machine : SVC, NuSVC, SVR, NuSVR, QuantileSVR, OneClassSVM or SVDD
        The parameters; it is not fitted itself, a copy of it is.
    keep : iterable of str
        Columns to use although they look like row identifiers or dates.

    Raises
    ------
    TableError
        If the table cannot be used; see `training_set`.
    ValueError
        For parameters that the machine refuses, and for a target where there is none, or none where there is one.
    TypeError
        For other machines.

    Warns
    -----
    TableWarning
        If columns are left out.
    """
    _check_machine(machine)
    if (target is None) is not isinstance(machine, _NOVELTY):
        needs = "no target: target must be None" if target is not None else "a target"
        raise ValueError(f"{type(machine).__name__} needs {needs}, got target={target!r}")
    table = _without_doubtful(as_table(table), target, rows, keep)
    learn = Classes.learnt if isinstance(machine, _CLASSIFIERS) else Quantity.learnt
    training = training_set(table, target, learn, rows=rows, missing=missing)
    return training.model_of(clone(machine).fit(training.X, training.outcome.as_y(training.truth)))


def _without_doubtful(
    table: Table, target: str | None, rows: npt.NDArray[np.int64] | None, keep: Iterable[str]
) -> Table:
    training = table if rows is None else table.take(np.asarray(rows, dtype=np.int64))
    doubtful = doubtful_columns(training.without({*([] if target is None else [target]), *keep}))
    for name, reason in doubtful.items():
        warnings.warn(
            f"column {name!r} was left out: {reason}; say keep=[{name!r}] to use it", TableWarning, stacklevel=3
        )
    return table.without(doubtful)


def as_model(machine: Machine, X: Any, y: Any = None, sample_weight: Any = None) -> Model:
    """The model of a machine that was fitted on arrays, for instance to save it to a file.

    Its columns are called after the features, or "0", "1", ... where these have no names, and its target "y".

    Parameters
    ----------
    machine : SVC, NuSVC, SVR, NuSVR, QuantileSVR, OneClassSVM or SVDD
        Fitted, with a kernel that is no Python function and not precomputed.
    X, y, sample_weight
        What it was fitted on; no y for `OneClassSVM` and `SVDD`.

    Raises
    ------
    ValueError
        If the rows, targets or weights are not those of the fit. Parameters that were set since then play no part.
    TypeError
        For other machines.
    """
    _check_machine(machine)
    check_is_fitted(machine, "kernel_")
    if not hasattr(machine, "recipe_"):
        raise ValueError(
            "a model remembers its training rows and certificate, and this machine, read from a file, has none: fit it "
            "again."
        )
    table = as_table(X if sparse.issparse(X) else np.asarray(X))
    if hasattr(machine, "feature_names_in_"):
        table = Table(tuple(map(str, machine.feature_names_in_)), table.columns, table.sparse)
    encoder = TableEncoder.identity(table)
    if isinstance(machine, _NOVELTY):
        outcome: Outcome = Membership(0.0)
    else:
        target = target_column(y)
        table = Table((*table.names, "y"), (*table.columns, target), table.sparse)
        outcome = Classes.learnt("y", target) if isinstance(machine, _CLASSIFIERS) else Quantity("y")
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    # A weight of 0 is absence: such a row is no training row.
    rows = np.arange(table.n_rows) if weights is None else np.flatnonzero(weights)
    used = table.take(rows)
    training = TrainingSet(encoder, outcome, outcome.truth(used), encoder.transform(used), rows, used.checksum())
    return training.model_of(machine, None if weights is None else weights[rows])


def _check_machine(machine: object) -> None:
    if type(machine).__name__ not in RECIPES or not isinstance(machine, Machine):
        raise TypeError(
            f"models are made of the machines {listing(list(RECIPES))}, whose dual solution a table can prove, but "
            f"machine is {type(machine).__name__}: keep it by pickle"
        )
