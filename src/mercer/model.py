"""A trained machine as a value: all that predicting and verifying need, and nothing that only training needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import check_is_fitted

from mercer.calibration import Calibration
from mercer.certificate import Certificate, combine
from mercer.claims import recomputed
from mercer.data import Vectors, as_data
from mercer.encoding import Missing, TableEncoder
from mercer.estimators import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, QuantileSVR, RBFNetworkClassifier
from mercer.gram import Gram
from mercer.intake import doubtful_columns
from mercer.kernels import Kernel
from mercer.machines.certificate import LossCertificate
from mercer.machines.certificate import combine as combine_losses
from mercer.multiclass import JOINT, SCHEMES
from mercer.outcome import Classes, Membership, Outcome, PartTask, Quantity
from mercer.problems import Problem, half_width, inner
from mercer.recipes import DualRecipe, Point, Recipe
from mercer.selection.sealed import Seal
from mercer.solution import Solution
from mercer.table import Table, TableError, TableWarning, as_table, listing, target_column
from mercer.trained import Other, trained

Dual: TypeAlias = SVC | NuSVC | SVR | NuSVR | QuantileSVR | OneClassSVM | SVDD
"""Machines that a box problem was solved and certified for."""

Machine: TypeAlias = Dual | Other
"""The machines that a model can be made of: all that classify, estimate or tell strangers."""

_CLASSIFIERS, _NOVELTY = (SVC, NuSVC), (OneClassSVM, SVDD)


@dataclass(frozen=True, eq=False)
class Part:
    """One machine of a model, or one output of a machine with several, as it was found.

    Attributes
    ----------
    support : ndarray of int64
        Its support vectors, as positions in the model's `support_rows`. One that has two variables other than 0, one of
        each sign, is there twice.
    beta : ndarray of float64
        Their signed coefficients.
    bias : float
    half_width : float or None
        Half of the distance between the levels of its two groups: the margin rho of NuSVC, the epsilon of NuSVR. None
        for machines with one group or none.
    certificate : Certificate, LossCertificate, Separation or None
        What it claims, as computed when it was trained. Of the outputs of one problem, the first has it. None where
        nothing is claimed.
    multipliers : ndarray of float64 or None
        A dual point at the support vectors, where the coefficients do not tell it (`GradientKernelSVC`).
    """

    support: npt.NDArray[np.int64]
    beta: npt.NDArray[np.float64]
    bias: float
    half_width: float | None
    certificate: Any
    multipliers: npt.NDArray[np.float64] | None = None

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
    """A trained machine for the rows of a table.

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
        The support vectors of all parts, as positions among the training rows; empty where they are none of these (the
        centres of a network, the w of a linear machine).
    support_vectors : Vectors
        The same, as encoded rows.
    parts : tuple of Part
    training : Training
    calibration : Calibration or None
        What makes probabilities of decision values, where the machine was fitted with ``probability=True``.
    seal : Seal or None
        The record of the test part that it was judged by, where that was under seal.
    """

    encoder: TableEncoder
    outcome: Outcome
    recipe: Recipe
    kernel: Kernel
    support_rows: npt.NDArray[np.int64]
    support_vectors: Vectors
    parts: tuple[Part, ...]
    training: Training
    calibration: Calibration | None = None
    seal: Seal | None = None

    @property
    def target(self) -> str | None:
        """Column that it predicts; None where there is none."""
        return self.outcome.column

    @property
    def certificate(self) -> Any:
        """Certificate of the whole; None of a machine that claims no optimum."""
        return combined([part.certificate for part in self.parts])

    def decision_values(self, table: Any) -> npt.NDArray[np.float64]:
        """Decision value of every part, (n, number of parts), in float64."""
        return self._values(as_data(self.encoder.transform(table)))

    def _values(self, data: Vectors) -> npt.NDArray[np.float64]:
        return self.recipe.values(self.kernel, data, self.support_vectors, *self._machines)

    def point(self, parts: tuple[Part, ...], rows: npt.NDArray[np.int64]) -> Point:
        """The point of a problem whose outputs these parts are, on these of the training rows.

        Raises
        ------
        ValueError
            If a part has support vectors that are none of these rows.
        """
        n_vectors, vectors = self.support_vectors.n, self.support_vectors
        beta = np.zeros((n_vectors, len(parts)))
        multipliers = None if parts[0].multipliers is None else np.zeros(n_vectors)
        for column, part in enumerate(parts):
            beta[part.support, column] = part.beta
            if multipliers is not None:
                multipliers[part.support] = part.multipliers
        bias = np.array([part.bias for part in parts])
        if self.recipe.own_vectors is not None:
            return Point(beta, bias, vectors)
        place = np.full(len(self.training.rows), -1)
        place[rows] = np.arange(rows.size)
        used = np.unique(np.concatenate([part.support for part in parts]))
        where = place[self.support_rows[used]]
        if (where < 0).any():
            raise ValueError("a machine has support vectors of classes that it does not tell apart")
        found = np.zeros((rows.size, len(parts)))
        found[where] = beta[used]
        if multipliers is None:
            return Point(found, bias)
        duals = np.zeros(rows.size)
        duals[where] = multipliers[used]
        return Point(found, bias, multipliers=duals)

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

    @property
    def has_probabilities(self) -> bool:
        """Whether it knows the probability of each class."""
        return self.calibration is not None or self.recipe.probabilities(np.zeros((1, len(self.parts)))) is not None

    def probabilities(self, table: Any) -> npt.NDArray[np.float64]:
        """Probability of each class, (n, n_classes), in the order of the outcome's labels.

        Raises
        ------
        ValueError
            If it knows none.
        """
        make = self.recipe.probabilities if self.calibration is None else self.calibration.probabilities
        found = make(self.decision_values(table))
        if found is None:
            raise ValueError(
                f"this {self.recipe.machine} knows no probabilities: fit an SVC or a NuSVC with probability=True, or a "
                "KernelLogisticRegression."
            )
        return found

    def predict(self, table: Any) -> npt.NDArray[Any]:
        """Answer for each row of a table or data frame: its label, its number, or whether it is inside.

        Warns
        -----
        TableWarning
            If the table holds categories, or features of a sparse block, that no training row had.
        """
        self._warn_of_strangers(table)
        data = as_data(self.encoder.transform(table))
        if not self.recipe.is_sum:
            return self.outcome.answers(self._scores(data))
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


def combined(claims: list[Any]) -> Any:
    """The claim of a whole whose parts claim these; None where there is no certificate."""
    known = [one for one in claims if one is not None]
    if known and isinstance(known[0], Certificate):
        return combine(known)
    return combine_losses(known) if known and isinstance(known[0], LossCertificate) else None


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
        """The model made of what was solved on these rows, a solution for each part, or one for all."""
        tasks, n = self.outcome.tasks(self.truth), len(self.truth)
        if recipe.is_whole:
            betas = solutions[0].beta.reshape(n, len(tasks)).T
            certificates = [solutions[0].certificate, *[None] * (len(tasks) - 1)]
            parts = [
                Part(rows, beta[rows], 0.0, None, one)
                for beta, one in zip(betas, certificates, strict=True)
                for rows in [np.flatnonzero(beta)]
            ]
        else:
            parts = [
                Part(
                    *_variables(one, task.rows),
                    float(one.bias),
                    half_width(one.multipliers) if recipe.has_width else None,
                    one.certificate,
                )
                for task, one in zip(tasks, solutions, strict=True)
            ]
        rows = np.unique(np.concatenate([part.support for part in parts]))
        vectors = as_data(self.X).rows(rows)
        return self._assembled(recipe, kernel, rows, vectors, parts, class_weight, sample_weight)

    def _assembled(
        self,
        recipe: Recipe,
        kernel: Kernel,
        support_rows: npt.NDArray[np.int64],
        vectors: Vectors,
        parts: list[Part],
        class_weight: npt.NDArray[np.float64] | None,
        sample_weight: npt.NDArray[np.float64] | None,
    ) -> Model:
        """The model of parts whose `support` are training rows, of which these are the vectors, or vectors."""
        if recipe.own_vectors is None:
            parts = [replace(part, support=np.searchsorted(support_rows, part.support)) for part in parts]
        return Model(
            encoder=self.encoder,
            outcome=self.outcome,
            recipe=recipe,
            kernel=kernel,
            support_rows=support_rows,
            support_vectors=vectors,
            parts=tuple(parts),
            training=Training(self.rows, self.checksum, class_weight, sample_weight),
        )

    def model_of(self, machine: Machine, sample_weight: npt.NDArray[np.float64] | None = None) -> Model:
        """The model of an estimator that was fitted on these rows with these weights, by what it was fitted with."""
        by_two = isinstance(machine, _CLASSIFIERS) and machine.machines_.scheme in SCHEMES
        if hasattr(machine, "calibration_") and not by_two:
            raise ValueError(
                "a model holds the probabilities of an SVC or NuSVC of machines for two classes, and not those of this "
                f"{type(machine).__name__}: fit it with probability=False, or keep it by pickle"
            )
        if not isinstance(machine, Dual):
            return self._model_of_other(machine, sample_weight)
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
        recipe = machine.recipe_
        assert isinstance(recipe, DualRecipe)
        gram, penalties = Gram(model.kernel, as_data(self.X)), model.training.penalties(recipe.C, self.truth)
        for (rows, targets), one in zip(grouped(recipe, tasks), solutions, strict=True):
            view = gram.restrict(rows)
            _check_problem(one, recipe.problem(targets, penalties[rows], view), view)
        return replace(model, calibration=getattr(machine, "calibration_", None))

    def _model_of_other(self, machine: Other, sample_weight: npt.NDArray[np.float64] | None = None) -> Model:
        """The model of a machine that is no solution of a box problem."""
        found, data = trained(machine), as_data(self.X)
        outcome = self.outcome
        if isinstance(outcome, Classes):
            if not np.array_equal(outcome.labels, Classes.learnt("y", target_column(machine.classes_)).labels):
                raise ValueError(_OTHERS.format("labels"))
            outcome = replace(outcome, scheme=found.scheme)
        tasks = outcome.tasks(self.truth)
        beta, rows = found.point.beta, found.rows
        if beta.shape[1] != len(tasks) or found.vectors.p != data.p or (rows is not None and rows[-1:] >= data.n):
            raise ValueError(_OTHERS.format("targets"))
        if rows is not None and not _same_rows(found.vectors, data.rows(rows)):
            raise ValueError(_OTHERS.format("targets"))
        multipliers, claims = found.point.multipliers, [*found.claims, *[None] * len(tasks)]
        parts = []
        for column, (bias, claim) in enumerate(zip(found.point.bias.tolist(), claims, strict=False)):
            used = beta[:, column] != 0.0
            if multipliers is not None:
                used |= multipliers[:, column] != 0.0
            own = np.flatnonzero(used)
            dual = None if multipliers is None else multipliers[own, column]
            parts.append(Part(own if rows is None else rows[own], beta[own, column], bias, None, claim, dual))
        used_rows = np.zeros(0, dtype=np.int64)
        vectors: Any = found.vectors.like(data)
        if rows is not None:
            used_rows = np.unique(np.concatenate([part.support for part in parts]))
            vectors = data.rows(used_rows)
        of_it = replace(self, outcome=outcome)
        model = of_it._assembled(
            found.recipe, found.kernel, used_rows, vectors, parts, found.class_weight, sample_weight
        )
        gram, weights = Gram(model.kernel, data), model.training.penalties(1.0, self.truth)
        for (rows_of, targets), own_parts in zip(grouped(model.recipe, tasks), grouped_parts(model), strict=True):
            view, claim = gram.restrict(rows_of), own_parts[0].certificate
            try:
                point = model.point(own_parts, rows_of)
                _, findings = recomputed(model.recipe, claim, targets, weights[rows_of], view, view, point)
            except ValueError as error:
                raise ValueError(f"{_OTHERS.format('targets')}: {error}") from error
            if findings:
                raise ValueError(f"{_OTHERS.format('targets')}: {findings[0]}")
        return model


def grouped(recipe: Recipe, tasks: Sequence[PartTask]) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """The rows and the targets of each problem: (n,), or (n, n_parts) of one whose outputs are all the parts.

    Targets of machines without a box problem are (n, 1) where there is one problem for each part.
    """
    if recipe.is_whole:
        return [(tasks[0].rows, np.column_stack([task.targets for task in tasks]))]
    if isinstance(recipe, DualRecipe):
        return [(task.rows, task.targets) for task in tasks]
    return [(task.rows, task.targets[:, None]) for task in tasks]


def grouped_parts(model: Model) -> list[tuple[Part, ...]]:
    """The parts of each problem."""
    return [model.parts] if model.recipe.is_whole else [(part,) for part in model.parts]


def _same_rows(one: Vectors, other: Vectors) -> bool:
    difference = one.float64() - other.float64() if type(one) is type(other) else None
    return difference is not None and (not difference.size or not abs(difference).max() > 0.0)


def _settled(outcome: Outcome, machine: Dual) -> tuple[Outcome, npt.NDArray[np.float64] | None]:
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


def _solutions(machine: Dual) -> list[Solution]:
    found = machine.solution_
    return list(found) if isinstance(found, tuple) else [found]


_OTHERS = "X, y and sample_weight must be what the machine was fitted on, but rows or {} differ"


def _check_rows(machine: Dual, solutions: list[Solution], tasks: Iterable[PartTask], X: Any) -> None:
    if isinstance(machine, _CLASSIFIERS):
        fitted = [(one.rows, one.signs) for one in machine.machines_.tasks]
        asked = [(one.rows, one.targets) for one in tasks]
        if machine.machines_.scheme == JOINT and len(asked) == 2:  # of which the second says it all
            asked = asked[1:]
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
        # Of several outputs, rows are counted: bounded where none of their variables is free.
        free = problem.by_output((box[0] < beta) & (beta < box[1])).reshape(-1, problem.n_outputs).any(axis=1)
        used = problem.by_output(beta != 0.0).reshape(-1, problem.n_outputs).any(axis=1)
        n_bounded = np.count_nonzero(used & ~free)
        same = bool(((box[0] <= beta) & (beta <= box[1])).all()) and n_bounded == solution.certificate.n_bounded
    if not same:
        raise ValueError(
            "sample_weight must be what the machine was fitted with, but its bounds are not those of these weights"
        )


def _dual(problem: Problem, gram: Gram, beta: npt.NDArray[np.float64]) -> float:
    """The dual objective, from the kernel values between support vectors."""
    if problem.n_outputs > 1:
        values = gram.matvec(problem.by_output(beta)).ravel()
        return -inner(beta, 0.5 * values + problem.linear)
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
    machine : any machine of mercer
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
    learn = Quantity.learnt if is_regressor(machine) else Classes.learnt
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
    machine : any machine of mercer
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
    check_is_fitted(machine, "n_features_in_")
    if not hasattr(machine, "recipe_") and not isinstance(machine, RBFNetworkClassifier):
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
        target = target_column(_one_target(y))
        table = Table((*table.names, "y"), (*table.columns, target), table.sparse)
        outcome = Quantity("y") if is_regressor(machine) else Classes.learnt("y", target)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    # A weight of 0 is absence: such a row is no training row.
    rows = np.arange(table.n_rows) if weights is None else np.flatnonzero(weights)
    used = table.take(rows)
    training = TrainingSet(encoder, outcome, outcome.truth(used), encoder.transform(used), rows, used.checksum())
    model = training.model_of(machine, None if weights is None else weights[rows])
    return replace(model, seal=getattr(machine, "seal_", None))


def _one_target(y: Any) -> Any:
    if y is None:
        raise ValueError("y must be what the machine was fitted on, got None")
    shape = np.shape(y)
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(f"a model answers one target, got y of shape {shape}: fit a machine for each target")
    return np.ravel(y) if len(shape) == 2 else y


def _check_machine(machine: object) -> None:
    if not isinstance(machine, Machine):
        raise TypeError(
            f"models are made of the machines {listing([one.__name__ for one in get_args(Machine)])}, but machine is "
            f"{type(machine).__name__}: keep it by pickle, or give the machine inside it and the rows that it was "
            "fitted on"
        )
