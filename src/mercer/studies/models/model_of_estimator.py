"""Models of machines: a machine is fitted on a table, or was fitted on given arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from mercer.certificates import QuadraticEvidence, Solution, dual_objective
from mercer.data import (
    Data,
    Precomputed,
    Table,
    TableError,
    TableWarning,
    Vectors,
    as_table,
    fingerprint_table,
    listing,
    refuse_mixed_column,
    target_column,
    warn_user,
)
from mercer.estimators import RBFNetworkClassifier
from mercer.gram import Gram
from mercer.kernels import as_kernel, as_rows, mixed_rows, symbols_of_table
from mercer.multiclass import JOINT
from mercer.problems import Problem, inner
from mercer.specs import QuadraticSpec
from mercer.studies.models.assembling import (
    CLASSIFIERS,
    NOVELTY,
    Dual,
    as_it_was_fitted,
    check_probabilities,
    model_of_cells,
    model_of_dual,
    model_of_other,
    solutions_of,
)
from mercer.studies.models.cell_checks import check_cells
from mercer.studies.models.claim_checks import AGREEMENT, Slack, recomputed
from mercer.studies.models.fitted_state import Other, approximated, check_rows, has_cells, is_approximate, trained
from mercer.studies.models.from_file import model_of_file
from mercer.studies.models.model import Model, grouped, grouped_parts
from mercer.studies.models.of_machine import model_of_machine
from mercer.studies.models.row_reader import RowReader, are_same_rows, listed_rows, reader_of
from mercer.studies.models.table_kernels import cell_columns, cell_kernel, named_columns, reader_of_table
from mercer.studies.models.training_set import TrainingSet, encode_training_rows
from mercer.studies.tables.column_checks import examine_text, suspicious_columns
from mercer.studies.tables.encoding import Kind, Missing, TableEncoder
from mercer.studies.tables.kinds import find_kinds
from mercer.studies.tables.prediction_kind import (
    Classes,
    Membership,
    PartTask,
    PredictionKind,
    Quantity,
)
from mercer.studies.tables.target_numbers import numbers

Machine: TypeAlias = Dual | Other
"""The machines that can become a model: classifiers, regressors and novelty detectors."""

_OTHERS = "X, y and sample_weight must be what the machine was fitted on, but rows or {} differ"


def fit_model(
    table: Any,
    target: str | None,
    machine: Machine,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    sample_weight: Any = None,
    keep: Iterable[str] = (),
    missing: Missing = "error",
    encoder: TableEncoder | None = None,
    checkpoint: Any = None,
) -> Model:
    """Encode a table, train a machine on it, and return a model with the data for prediction and verification.

    Columns that look like row identifiers are not used, dates become parts of dates, and free text becomes weights of
    its words, as on the command line. A target of numbers is
    standardised like columns of numbers: so `epsilon` and `tol` of a regressor are in units of its standard deviation,
    and `C` is the penalty of one unit. Predictions are in the unit of the target.

    Parameters
    ----------
    table, rows
        See `encode_training_rows`.
    target : str or None
        Column of classes for classifiers, of numbers for regressors; None for `OneClassSVM` and `SVDD`.
    machine : any machine of mercer
        Its parameters are used; a copy of it is fitted.
    sample_weight : str or array-like of shape (n_rows,), optional
        How often each row of the table counts, >= 0: a column of the table, which is not a feature then, or numbers. A
        row of weight 0 is not used, as if it were not in the table. The model remembers the name of the column.
    keep : iterable of str
        Columns that are used although they look like row identifiers.
    missing : {"error", "impute"}, default="error"
        See `TableEncoder`.
    encoder : TableEncoder, optional
        An encoder that is not fitted yet, in place of `keep` and `missing`: all columns are used, as it says.
    checkpoint : str or PathLike, optional
        As for `fit` of the machine.

    Raises
    ------
    TableError
        If the table cannot be used; see `encode_training_rows`.
    ValueError
        For parameters that the machine refuses; for a missing target, or a target that the machine does not take.
    TypeError
        If the machine is not one of mercer's.

    Warns
    -----
    TableWarning
        If columns are not used, or for a guess of what they hold.
    """
    training, row_weights, machine = _encoded(table, target, machine, rows, sample_weight, keep, missing, encoder)
    fitted = _fitted(clone(machine), training, row_weights, checkpoint)
    model = _model_of(training, fitted, row_weights)
    column = sample_weight if isinstance(sample_weight, str) else None
    return replace(model, training=replace(model.training, weight_column=column))


def encoded_rows(
    table: Any,
    target: str | None,
    machine: Machine,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    sample_weight: Any = None,
    encoder: TableEncoder | None = None,
) -> tuple[Machine, Any, Any, Any]:
    """Return the machine, rows, targets and weights that `fit_model` fits; the parameters are those of it.

    The kernel of the machine names its columns if it reads the cells; the rows are then a dict of columns. Targets are
    None for novelty detectors, and weights without `sample_weight`.
    """
    training, weights, machine = _encoded(table, target, machine, rows, sample_weight, (), "error", encoder)
    y = None if target is None else training.prediction_kind.as_y(training.truth)
    X = training.X
    if isinstance(training.encoder, RowReader):
        X = training.encoder.columns_of(as_table(table).take(training.rows))
    return machine, X, y, weights


def _encoded(
    table: Any,
    target: str | None,
    machine: Machine,
    rows: npt.NDArray[np.int64] | None,
    sample_weight: Any,
    keep: Iterable[str],
    missing: Missing,
    encoder: TableEncoder | None,
) -> tuple[TrainingSet, npt.NDArray[np.float64] | None, Machine]:
    """Return the encoded training rows, their weights, and the machine with the columns that its kernel reads."""
    _check_machine(machine)
    if (target is None) is not isinstance(machine, NOVELTY):
        needs = "no target: target must be None" if target is not None else "a target"
        raise ValueError(f"{type(machine).__name__} needs {needs}, got target={target!r}")
    refuse_mixed_column(table, target)
    table, weights = as_table(table), None
    if sample_weight is not None:
        weights = _weights_of(machine, sample_weight, table, target)
        rows = np.arange(table.n_rows) if rows is None else np.asarray(rows, dtype=np.int64)
        rows = rows[weights[rows] > 0.0]
        if not rows.size:
            raise TableError("no row is left: every row that could be used has a weight of 0")
    column = sample_weight if isinstance(sample_weight, str) else None
    if column is not None:
        table = table.without([column])
    kernel = cell_kernel(getattr(machine, "kernel", None), table, target)
    if encoder is None:
        read_as_cells = () if kernel is None else cell_columns(kernel)
        if kernel is not None:
            named = {target, *(name for _, names in kernel.named_columns for name in names)}
            table = table.select([name for name in table.names if name in named])
            keep = [*keep, *named_columns(as_kernel(cast(Any, machine).kernel))]
        keep = [name for name in keep if name not in read_as_cells]
        examined, kinds = _examined(table.without(read_as_cells), target, rows, keep)
        table = table.select([name for name in table.names if name in examined or name in read_as_cells])
        kernel = cell_kernel(getattr(machine, "kernel", None), table, target)
        encoder = TableEncoder(missing=missing, kinds=kinds)
    reader: TableEncoder | RowReader = encoder
    if kernel is not None:
        chosen = table if rows is None else table.take(np.asarray(rows, dtype=np.int64))
        reader = reader_of_table(kernel, chosen, encoder)
        machine = clone(machine).set_params(kernel=kernel)
    learn = Quantity.learnt if is_regressor(machine) else Classes.learnt
    if target is not None and not is_regressor(machine):
        table = table.as_written(target)
    training = encode_training_rows(table, target, learn, rows=rows, encoder=reader)
    return training, None if weights is None else weights[training.rows], machine


def as_model(machine: Machine, X: Any = None, y: Any = None, sample_weight: Any = None) -> Model:
    """Return the model of a fitted machine, which predicts tables and can be saved to a file.

    Its columns have the names of the features, or "0", "1", ... if there are no names. Its target is named "y". With
    the data of the fit, `mercer verify` can check the model with the table of these rows.

    Parameters
    ----------
    machine : any machine of mercer
        A fitted machine whose kernel is not a Python function.
    X, y, sample_weight : optional
        The data of the fit; no y for `OneClassSVM` and `SVDD`.

    Raises
    ------
    ValueError
        If the rows, targets or weights are not those of the fit (parameters that were set since then play no part), or
        if rows are objects that only a function reads.
    TypeError
        If the machine is not one of mercer's.
    """
    _check_machine(machine)
    check_is_fitted(machine)
    if getattr(machine, "_of_lazy_table", False) and X is not None:
        raise ValueError(
            f"this {type(machine).__name__} was trained on a lazy table, whose rows workers hold: its model does not "
            "list them. Call as_model(machine) without X and y."
        )
    check_rows(machine)
    if getattr(machine, "training_file_", None) is not None and X is None:
        return model_of_file(cast(Any, machine))
    if not hasattr(machine, "spec_") and not isinstance(machine, RBFNetworkClassifier):
        raise ValueError(
            "a model remembers its training rows and certificate. A machine that was read from a file, or that has "
            "learnt a stream by partial_fit, lacks them: fit it again."
        )
    if X is None:
        return model_of_machine(machine)
    data = _read_by_kernel(machine, X)
    if data is not None:
        table = listed_rows(data)
    else:
        table = as_table(_as_numbers(machine, X))
        if hasattr(machine, "feature_names_in_"):
            table = Table(tuple(map(str, machine.feature_names_in_)), table.columns, table.sparse)
    encoder: TableEncoder | RowReader = TableEncoder.identity(table)
    if data is not None:
        encoder = reader_of(machine.kernel_, data)
    if isinstance(machine, NOVELTY):
        prediction_kind: PredictionKind = Membership(0.0)
    else:
        target = target_column(_one_target(y))
        if "y" in table:
            raise ValueError("the target of a model is called 'y', and so is a column of X: rename that column")
        table = Table((*table.names, "y"), (*table.columns, target), table.sparse)
        prediction_kind = Quantity("y") if is_regressor(machine) else _classes_of(machine, target)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    # A weight of 0 counts as absence: such a row is not a training row.
    rows = np.arange(table.n_rows) if weights is None else np.flatnonzero(weights)
    used = table.take(rows)
    encoded = data.rows(rows) if data is not None else encoder.transform(used)
    training = TrainingSet(encoder, prediction_kind, prediction_kind.truth(used), encoded, rows, used.checksum())
    model = _model_of(training, machine, None if weights is None else weights[rows])
    return replace(model, seal=getattr(machine, "seal_", None))


def _read_by_kernel(machine: Any, X: Any) -> Data | None:
    """Return the rows of a fit as the kernel reads them if they are not rows of numbers, otherwise None."""
    kernel = getattr(machine, "kernel_", None)
    if kernel is None or not (kernel.takes_values or kernel.is_structured or kernel.named_columns):
        return None
    is_table = hasattr(machine, "n_features_in_") and not kernel.takes_values and not kernel.is_structured
    if is_table:
        return None
    read = mixed_rows(kernel, X, fitted=True, training=True) if kernel.named_columns else None
    rows = as_rows(kernel, X) if read is None else read
    return rows.symmetric() if isinstance(rows, Precomputed) else rows


def _as_numbers(machine: Any, X: Any) -> Any:
    """Return the rows of a fit as a table of numbers, with numbers for symbols and fingerprints."""
    kernel = getattr(machine, "kernel_", None)
    if kernel is not None and kernel.takes_symbols:
        X = symbols_of_table(X)
    if kernel is not None and kernel.takes_fingerprints:
        X = fingerprint_table(X, machine.n_features_in_)
    return X if sparse.issparse(X) else np.asarray(X)


def _weights_of(machine: Any, sample_weight: Any, table: Table, target: str | None) -> npt.NDArray[np.float64]:
    """Return one weight for each row of a table."""
    if not has_fit_parameter(machine, "sample_weight"):
        raise ValueError(f"{type(machine).__name__} takes no weights of rows, got sample_weight={sample_weight!r}")
    if isinstance(sample_weight, str):
        if sample_weight == target:
            raise TableError(f"the target {target!r} cannot be the column of weights as well")
        weights = numbers(table, sample_weight)
        named = f"the column {sample_weight!r} of weights"
    else:
        weights, named = np.asarray(sample_weight, dtype=np.float64), "sample_weight"
    if weights.shape != (table.n_rows,):
        raise ValueError(f"sample_weight must have shape ({table.n_rows},), one weight a row, got {weights.shape}")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        value = f"{weights[bad[0]]:g}"
        if isinstance(sample_weight, str) and np.isnan(weights[bad[0]]):
            value = "nothing" if table.missing(sample_weight)[bad[0]] else repr(table[sample_weight][bad[0]])
        more = f", and {bad.size - 1:,} more do not" if bad.size > 1 else ""
        raise TableError(
            f"{named} must hold a finite number >= 0 in every row, but row {table.row_numbers(bad[:1])[0]} holds "
            f"{value}{more}",
            "mend these cells; a weight of 0 leaves a row out",
        )
    return weights


def _fitted(
    machine: Any, training: TrainingSet, sample_weight: npt.NDArray[np.float64] | None, checkpoint: Any = None
) -> Any:
    """Return the machine, fitted on these rows so that its class numbers are those of the training set."""
    kind, y = training.prediction_kind, training.prediction_kind.as_y(training.truth)
    if isinstance(kind, Classes) and kind.labels.tolist() != sorted(kind.labels.tolist()):
        # Estimators sort labels alphabetically; here "9" comes before "10". Class numbers have the same order in both.
        y, weights = training.truth, getattr(machine, "class_weight", None)
        if isinstance(weights, dict):
            place = {label: code for code, label in enumerate(kind.labels.tolist())}
            machine.set_params(class_weight={place.get(label, label): weight for label, weight in weights.items()})
    given = {} if checkpoint is None else {"checkpoint": checkpoint}
    return machine.fit(training.X, y, *([] if sample_weight is None else [sample_weight]), **given)


def _classes_of(machine: Any, target: npt.NDArray[Any]) -> Classes:
    """Return the classes of a target, in the order of a fitted machine if it has the same ones."""
    learnt = Classes.learnt("y", target)
    target_classes = Classes.learnt("y", target_column(machine.classes_))
    if len(target_classes.labels) == len(machine.classes_) and np.array_equal(target_classes.labels, learnt.labels):
        return as_it_was_fitted(machine, learnt)
    if not isinstance(machine, Dual):  # for the others, the rows of each machine are compared later
        raise ValueError(_OTHERS.format("labels"))
    return learnt.as_booleans() if machine.classes_.dtype == bool else learnt


def _check_machine(machine: object) -> None:
    if not isinstance(machine, Machine):
        raise TypeError(
            f"models are made of the machines {listing([one.__name__ for one in get_args(Machine)])}, but machine is "
            f"{type(machine).__name__}: keep it by pickle, or give the machine inside it and the rows that it was "
            "fitted on"
        )


def _examined(
    table: Table, target: str | None, rows: npt.NDArray[np.int64] | None, keep: Iterable[str]
) -> tuple[Table, dict[str, Kind]]:
    """Return the table without columns that look like row identifiers, and what columns hold; warns of both."""
    training = table if rows is None else table.take(np.asarray(rows, dtype=np.int64))
    features = training if target is None else training.without([target])
    kinds, notes = find_kinds(features)
    doubtful = suspicious_columns(features, {*kinds, *training.select([*keep]).names})
    for name in features.names:
        if name not in kinds:
            examine_text(features, features, name)
    for note in notes:
        warn_user(f"{note.text}; encoder=TableEncoder(kinds=...) says otherwise", TableWarning)
    for name, reason in doubtful.items():
        warn_user(f"column {name!r} was left out: {reason}; say keep=[{name!r}] to use it", TableWarning)
    return table.without(doubtful), kinds


def _one_target(y: Any) -> Any:
    if y is None:
        raise ValueError("y must be what the machine was fitted on, got None")
    shape = np.shape(y)
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(f"a model answers one target, got y of shape {shape}: fit a machine for each target")
    return np.ravel(y) if len(shape) == 2 else y


def _model_of(training: TrainingSet, machine: Machine, sample_weight: npt.NDArray[np.float64] | None = None) -> Model:
    """Return the model of an estimator that was fitted on these rows and weights, with the parameters of the fit."""
    check_probabilities(machine)
    if has_cells(machine):
        return _checked_cells(model_of_cells(training, approximated(machine), sample_weight), training)
    if not isinstance(machine, Dual) or is_approximate(machine):
        return _model_of_other(training, machine, sample_weight)
    check_rows(machine)
    kind = training.prediction_kind
    if isinstance(machine, CLASSIFIERS):
        kind = replace(cast(Classes, kind), scheme=machine.machines_.scheme)
    tasks, solutions = kind.tasks(training.truth), solutions_of(machine)
    _check_rows(machine, solutions, tasks, training.data.n)
    model = model_of_dual(training, machine, sample_weight)
    machine_spec = machine.spec_
    assert isinstance(machine_spec, QuadraticSpec)
    gram, penalties = Gram(model.kernel, training.data), model.training.penalties(machine_spec.C, training.truth)
    for (rows, targets), one in zip(grouped(machine_spec, tasks), solutions, strict=True):
        view = gram.restrict(rows)
        _check_problem(one, machine_spec.problem(targets, penalties[rows], view), view)
    return model


def _checked_cells(model: Model, training: TrainingSet) -> Model:
    """Return the model of cells if its cells are of these rows, otherwise raise ValueError."""
    if model.cells is None or model.cells.home.size != training.data.n:
        raise ValueError(_OTHERS.format("targets"))
    gram = Gram(model.kernel, training.data)
    if check_cells(model, gram, gram, training.truth)[1] or not are_same_rows(
        training.data.rows(model.support_rows), model.support_vectors
    ):
        raise ValueError(_OTHERS.format("targets"))
    return model


def _model_of_other(
    training: TrainingSet, machine: Other, sample_weight: npt.NDArray[np.float64] | None = None
) -> Model:
    """Return the model of a machine that does not solve a box-constrained problem, if these are its rows."""
    state, data = trained(machine), training.data
    prediction_kind = training.prediction_kind
    if isinstance(prediction_kind, Classes):
        prediction_kind = replace(prediction_kind, scheme=state.scheme)
    tasks = prediction_kind.tasks(training.truth)
    beta, rows = state.point.beta, state.rows
    if beta.shape[1] != len(tasks) or state.vectors.p != data.p or (rows is not None and rows[-1:] >= data.n):
        raise ValueError(_OTHERS.format("targets"))
    if isinstance(prediction_kind, Membership):
        prediction_kind = Membership(-float(state.point.bias[0]))
        training = replace(training, prediction_kind=prediction_kind)
    if state.duals is not None and state.duals.shape != (len(tasks), data.n):
        raise ValueError(_OTHERS.format("targets"))
    if rows is not None and not are_same_rows(state.vectors, data.rows(rows)):
        raise ValueError(_OTHERS.format("targets"))
    state = state if rows is not None else replace(state, vectors=cast(Vectors, state.vectors.like(data)))
    model = model_of_other(training, state, sample_weight)
    gram = Gram(model.kernel, data)
    for (rows_of, targets), own_parts in zip(grouped(model.machine_spec, tasks), grouped_parts(model), strict=True):
        view, certificate = gram.restrict(rows_of), own_parts[0].certificate
        try:
            point, weights = model.point(own_parts, rows_of), model.row_weights(training.truth, rows_of, targets)
            _, findings = recomputed(model.machine_spec, certificate, targets, weights, view, view, point)
        except ValueError as error:
            raise ValueError(f"{_OTHERS.format('targets')}: {error}") from error
        if findings:
            raise ValueError(f"{_OTHERS.format('targets')}: {findings[0]}")
    return model


def _check_rows(machine: Dual, solutions: list[Solution], tasks: Iterable[PartTask], n: int) -> None:
    if isinstance(machine, CLASSIFIERS):
        fitted = [(one.rows, one.signs) for one in machine.machines_.tasks]
        asked = [(one.rows, one.targets) for one in tasks]
        if machine.machines_.scheme == JOINT and len(asked) == 2:  # the second one determines the first
            asked = asked[1:]
        if len(fitted) != len(asked) or not all(
            np.array_equal(a, b)
            for one, other in zip(fitted, asked, strict=True)
            for a, b in zip(one, other, strict=True)
        ):
            raise ValueError(_OTHERS.format("labels"))
    elif n * (2 if machine.spec_.is_two_sided else 1) != solutions[0].beta.size:
        raise ValueError(_OTHERS.format("targets"))


def _has_rows(evidence: QuadraticEvidence, gram: Gram) -> bool:
    """Return whether the rows of a fit equal these rows; True if they cannot be compared."""
    fitted_rows = (
        None if evidence.idx is None else evidence.idx[: gram.n]
    )  # for rows with two variables, the first of each
    fitted, given = (
        data if idx is None else data.rows(idx) for data, idx in ((evidence.data, fitted_rows), (gram.data, gram.idx))
    )
    if type(fitted) is not type(given) or isinstance(given, Precomputed):
        return True  # the dual objective compares kernel values
    return are_same_rows(fitted, given)


def _check_problem(solution: Solution, problem: Problem, gram: Gram) -> None:
    """Refuse targets, weights or rows that differ from those of the fit, as far as this can be checked."""
    if solution.evidence is not None:
        if not _has_rows(solution.evidence, gram):
            raise ValueError(_OTHERS.format("targets"))
        fitted = solution.evidence.problem
        if not np.allclose(fitted.linear, problem.linear, rtol=1e-12, atol=0.0):
            raise ValueError(_OTHERS.format("targets"))
        same = all(
            np.array_equal(getattr(fitted, name), getattr(problem, name)) for name in ("lower", "upper", "ridge")
        )
    else:
        beta, box = solution.beta, (problem.lower, problem.upper)
        dual, stated_dual = _dual(problem, gram, beta), dual_objective(solution.certificate, beta)
        slack = Slack.of(solution.certificate.decision_error or 0.0, float(np.abs(beta).sum()), gram)
        if not abs(dual - stated_dual) <= AGREEMENT * abs(stated_dual) + slack.dual:
            raise ValueError(_OTHERS.format("targets"))
        # With several outputs, rows are counted: a row is bounded if none of its variables is free.
        free = problem.by_output((box[0] < beta) & (beta < box[1])).reshape(-1, problem.n_outputs).any(axis=1)
        used = problem.by_output(beta != 0.0).reshape(-1, problem.n_outputs).any(axis=1)
        n_bounded = np.count_nonzero(used & ~free)
        same = bool(((box[0] <= beta) & (beta <= box[1])).all()) and n_bounded == solution.certificate.n_bounded
    if not same:
        raise ValueError(
            "sample_weight must be what the machine was fitted with, but its bounds are not those of these weights"
        )


def _dual(problem: Problem, gram: Gram, beta: npt.NDArray[np.float64]) -> float:
    """Return the dual objective, from the kernel values between support vectors."""
    if problem.n_outputs > 1:
        values = gram.matvec(problem.by_output(beta)).ravel()
        return -inner(beta, 0.5 * values + problem.linear)
    chosen = np.flatnonzero(beta)
    ridge = 0.0 if problem.ridge is None else problem.ridge[chosen] * beta[chosen]
    rows = chosen if problem.rows is None else problem.rows[chosen]
    values = gram.restrict(rows).matvec(beta[chosen]) + ridge
    return -inner(beta[chosen], 0.5 * values + problem.linear[chosen])
