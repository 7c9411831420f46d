"""Verification of a model: its certificate and calibration are recomputed from the model file and the table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray, IndexArray
from mercer.approximate import Task, values_without_folds
from mercer.certificates import Certificate
from mercer.data import (
    Data,
    Result,
    Table,
    TableError,
    Vectors,
    bits_of,
    block_hashes,
    mixed_hashes,
    row_hashes,
)
from mercer.gram import BlockBackend, Gram
from mercer.multiclass import (
    FITTED_ON,
    FOLDS,
    Isotonic,
    Map,
    Sigmoid,
    calibrate,
    calibration_inputs,
    cross_fitted,
    fold_numbers,
)
from mercer.problems import Problems, c_svc_each
from mercer.solvers import Control, Limits, in_time
from mercer.solvers.paths import LooPass
from mercer.specs import ApproximateSpec, ForSVC, LinearSpec, QuadraticSpec, linear_values_by_folds
from mercer.studies.models.cell_checks import check_cells
from mercer.studies.models.claim_checks import recomputed
from mercer.studies.models.dual_checks import check_dual
from mercer.studies.models.model import Model, combined, grouped, grouped_parts, used_part
from mercer.studies.models.of_machine import NO_TABLE
from mercer.studies.models.row_reader import are_same_rows
from mercer.studies.models.streamed_checks import AnotherTableError, can_be_checked, check_in_parts
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.prediction_kind import Classes, Membership
from mercer.studies.tables.target_numbers import numbers

ALIKE = 1e-6
"""Difference up to which a recomputed probability counts as equal to the stored one; only three digits matter."""


ALIKE_BY_FOLDS = 1e-4
"""The same limit for calibration by folds, whose machines are solved only to their tolerance."""


COMPARED = (
    *("primal", "dual", "gap", "relative_gap", "kkt_violation", "gradient_violation", "dual_infeasibility"),
    *("exact_primal", "exact_dual"),  # of an approximate machine
)
"""The numbers of a certificate that a verification compares."""


@dataclass(frozen=True, repr=False)
class Verification(Result):
    """The result of recomputing the claims of a model from a table.

    Attributes
    ----------
    same_table : bool
        Whether the training rows are those of the model's training, cell by cell.
    stored, recomputed : Certificate or None
        The certificate in the model, and the recomputed one. The latter is None if it cannot be computed, or if the
        machine does not claim an optimum.
    findings : tuple of str
        A sentence for each disagreement; empty if everything agrees.
    """

    same_table: bool
    stored: Certificate | None
    recomputed: Certificate | None
    findings: tuple[str, ...]

    def __str__(self) -> str:
        return "verified: the model is what it says it is" if self.ok else "\n".join(self.findings)

    def _columns(self) -> dict[str, Any]:
        """Return the numbers of the certificate, as stored and as recomputed."""
        names = [
            name
            for name in COMPARED
            if any(getattr(one, name, None) is not None for one in (self.stored, self.recomputed))
        ]
        both = {"stored": self.stored, "recomputed": self.recomputed}
        return {"number": names} | {place: [getattr(one, name, None) for name in names] for place, one in both.items()}

    @property
    def ok(self) -> bool:
        """Whether everything agrees."""
        return not self.findings


@np.errstate(over="ignore", invalid="ignore")  # numbers made too large by manipulation are findings, not warnings
def verify(model: Model, table: Any) -> Verification:
    """Recompute the claims of a model from its training rows: objectives, gap and violation, encoding, probabilities.

    The rules of the encoding are computed again from the training rows, so that every number that affects a prediction
    is checked. Only coefficients are taken from the model, and multipliers if the coefficients do not determine a dual
    point. Kernel values are computed by NumPy in float64 and summed in longdouble. Labels, penalties and features come
    from the table. Every number that the file claims is compared with the recomputed one, within the rounding of the
    recomputation; only a number that is worse than claimed is a finding. The tolerances of the fit (`tol`, `tol_gap`)
    cannot be recomputed: a status is compared with the tolerances in the file, which you should inspect. For machines
    that minimise nothing, the stored state is compared with the rows. Probabilities of decision values are fitted
    again, on decision values of machines that are trained without each row, or without its fold.

    The cost is n times the number of support vectors in kernel values. With probabilities, the leave-one-out or
    cross-fitting pass of the fit is repeated.

    The table of a kernel machine that :meth:`mercer.SVC.fit_file` has trained on more rows than fit into memory may be
    an iterator over its parts, as :func:`mercer.studies.models.read_tables` returns it. It is read once, and its rows
    are encoded by the rules in the model, which are not computed again.
    """
    if model.training.n_streamed is not None and model.training.checksum != NO_TABLE and can_be_checked(model):
        return _verify_in_parts(model, table if isinstance(table, Iterator) else [table])
    if isinstance(table, Iterator) and model.training.n_streamed is None:
        raise TypeError(
            "verify needs the table as a whole for this model, whose rows were in memory: read_table reads it"
        )
    if not isinstance(table, Iterator):
        table = model.as_given(table)
    another = _another_table(model, table)
    if another:
        return Verification(False, model.certificate, None, (another,))
    part = model.training_part(table)
    contradicted = model.prediction_kind.contradicted(part)
    if contradicted:
        return Verification(True, model.certificate, None, (contradicted,))
    data, truth = model.training_rows(table, part), model.prediction_kind.truth(part)
    gram = Gram(model.kernel, data, backend=BlockBackend(model.kernel))
    engine = Gram(model.kernel, data)  # used only for its rounding bounds, not for its values
    findings, recomputed_parts = model.encoder.disagreements(part) + _check_support(model, data), []
    findings += model.kernel.disagreements(data, model.training.sample_weight)
    if model.cells is not None:
        try:
            of_all, of_cells = check_cells(model, gram, engine, truth)
        except ValueError as error:
            if "not finite" in str(error):
                raise
            return Verification(True, model.certificate, None, (f"there is no such machine of these rows: {error}",))
        findings += of_cells + _check_calibration(model, truth, engine)
        return Verification(True, model.certificate, of_all, tuple(dict.fromkeys(findings)))
    problems = grouped(model.machine_spec, model.prediction_kind.tasks(truth))
    for (rows, targets), parts in zip(problems, grouped_parts(model), strict=True):
        views = gram.restrict(rows), engine.restrict(rows)
        try:
            if isinstance(model.machine_spec, QuadraticSpec):
                certificate, part_findings = check_dual(model, model.machine_spec, parts, rows, targets, truth, *views)
            else:
                weights, point = model.row_weights(truth, rows, targets), model.point(parts, rows)
                certificate, part_findings = recomputed(
                    model.machine_spec, parts[0].certificate, targets, weights, *views, point
                )
        except ValueError as error:
            if "not finite" in str(error):
                raise
            return Verification(True, model.certificate, None, (f"there is no such machine of these rows: {error}",))
        recomputed_parts.append(certificate)
        findings += part_findings
    kind = model.prediction_kind
    is_approximate = isinstance(model.machine_spec, ApproximateSpec)
    if is_approximate and isinstance(kind, Membership) and kind.offset != -model.parts[0].bias:
        findings.append(f"the offset is {kind.offset:.9g} in the file, and that of the machine is another one")
    findings += _check_calibration(model, truth, engine)
    return Verification(True, model.certificate, combined(recomputed_parts), tuple(dict.fromkeys(findings)))


def _verify_in_parts(model: Model, tables: Iterable[Any]) -> Verification:
    """Recompute the claims of a machine that was trained on a file."""
    try:
        certificates, findings = check_in_parts(model, tables)
    except AnotherTableError as error:
        return Verification(False, model.certificate, None, (f"{_ANOTHER}: {error}",))
    return Verification(True, model.certificate, combined(certificates), tuple(dict.fromkeys(findings)))


def _check_calibration(model: Model, truth: npt.NDArray[Any], engine: Gram) -> list[str]:
    """Return a finding if probabilities differ from those refitted on leave-one-out or cross-fitted values."""
    claimed, prediction_kind, training = model.calibration, model.prediction_kind, model.training
    if claimed is None:
        return []
    assert isinstance(prediction_kind, Classes)
    by_folds = claimed.fitted_on == FITTED_ON[FOLDS]
    if claimed.folds is not None and claimed.folds.size != truth.size:
        return [f"its calibration names folds of {claimed.folds.size} rows, but there are {truth.size} training rows"]
    raw = in_time(partial(_without_folds if by_folds else _without_rows, model, truth, engine), None)
    if raw is None or np.isnan(raw).any():
        return ["the probabilities could not be recomputed, for Ctrl-C ended the pass over rows that were left out"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the recomputed violation shows it
        refitted = calibrate(
            raw,
            truth,
            len(prediction_kind.labels),
            scheme=prediction_kind.scheme,
            method=claimed.method,
            free=claimed.free,
            weights=training.sample_weight,
            class_weight=None if claimed.free else training.class_weight,
            fitted_on=claimed.fitted_on,
        )
    columns = calibration_inputs(raw, len(prediction_kind.labels), prediction_kind.scheme).T
    away = max(
        _difference(mine, theirs, column)
        for mine, theirs, column in zip(refitted.maps, claimed.maps, columns, strict=True)
    )
    findings = []
    if away > (ALIKE_BY_FOLDS if by_folds else ALIKE):
        doubt = " (with a kernel that is not positive semidefinite, another processor may come to another solution)"
        findings = [
            f"probabilities in the file and recomputed differ by up to {away:.3g}" + ("" if engine.is_convex else doubt)
        ]
    for name, theirs_n, mine_n in (
        ("rows that a map was fitted on", claimed.n_rows, refitted.n_rows),
        ("rows whose probabilities were moved", claimed.n_moved, refitted.n_moved),
    ):
        if theirs_n != mine_n:
            findings.append(f"the number of {name} is {theirs_n} in the file and {mine_n} recomputed")
    return findings


def _without_rows(model: Model, truth: npt.NDArray[Any], engine: Gram, check: Callable[[], None]) -> FloatArray:
    """Return the leave-one-out decision values of each row."""
    assert isinstance(model.prediction_kind, Classes)
    assert isinstance(model.machine_spec, QuadraticSpec)
    problems, starts, tasks = [], [], model.prediction_kind.tasks(truth)
    for task, part in zip(tasks, model.parts, strict=True):
        divisor = part.divisor if model.machine_spec.is_scaled else 1.0
        penalties = model.training.penalties(model.machine_spec.C, truth)[task.rows] / divisor
        machine_spec = ForSVC() if model.machine_spec.is_scaled else model.machine_spec
        problems.append(machine_spec.problem(task.targets, penalties, engine.restrict(task.rows)))
        starts.append(model.point((part,), task.rows).beta[:, 0] / divisor)
    parts, everything = [task.rows for task in tasks], np.arange(engine.n)
    return LooPass(problems, starts, parts, engine, everything, check=check).run()[0]


def _without_folds(model: Model, truth: npt.NDArray[Any], engine: Gram, check: Callable[[], None]) -> FloatArray:
    """Return the decision values of each row by machines trained without its fold."""
    machine_spec, divisors = model.machine_spec, np.ones(len(model.parts))
    assert isinstance(model.prediction_kind, Classes)
    assert model.calibration is not None
    folds = model.calibration.folds
    if model.way is not None:
        return values_without_folds_of(model, engine.data, truth, folds, check)
    tolerance = "tol_gap" if isinstance(machine_spec, LinearSpec) else "tol"
    control = Control(Limits(tol=max(getattr(part.certificate, tolerance) for part in model.parts)))
    if isinstance(machine_spec, LinearSpec):
        assert isinstance(engine.data, Vectors)
        classes = len(model.prediction_kind.labels), model.prediction_kind.scheme
        weigh = partial(_weights_of_task, model, truth)
        return linear_values_by_folds(machine_spec, engine.data, truth, *classes, weigh, control, folds, check)
    assert isinstance(machine_spec, QuadraticSpec)
    of_two = machine_spec if isinstance(machine_spec, ForSVC) else ForSVC()
    if machine_spec.is_scaled:
        divisors = np.array([part.divisor for part in model.parts])

    def duals(signs: FloatArray, penalties: FloatArray, sizes: IndexArray) -> Problems:
        scaled_penalties = penalties / divisors.repeat(sizes)
        return c_svc_each(signs, scaled_penalties, sizes, squared=of_two.squared, bias=of_two.bias, one_sided=True)

    return cross_fitted(
        engine,
        truth,
        len(model.prediction_kind.labels),
        model.training.penalties(machine_spec.C, truth),
        scheme=model.prediction_kind.scheme,
        duals=duals,
        control=control,
        folds=folds,
        check=check,
    ).raw


def values_without_folds_of(
    model: Model,
    data: Data,
    truth: npt.NDArray[Any],
    folds: IndexArray | None,
    check: Callable[[], None],
    control: Control | None = None,
    seconds_left: Callable[[], float | None] = lambda: None,
) -> FloatArray:
    """Return the decision values of the training rows of an approximate model by machines trained without their fold.

    Parameters
    ----------
    model : Model
    data : Data
        The training rows, encoded.
    truth : ndarray of int64
        Their class numbers.
    folds : ndarray of int64, optional
        Their folds; by default those of exact machines.
    check : callable
        It is called before each fold and at the end, and may raise.
    control : Control, optional
        What may end the training for a fold. Its limits are not used: tolerances are those of the model.
    seconds_left : callable
        Returns the time that is left.
    """
    assert model.way is not None
    spec, training, kind = model.machine_spec, model.training, cast(Classes, model.prediction_kind)
    exact = spec.exact if isinstance(spec, ApproximateSpec) else cast(QuadraticSpec, spec)
    by_class = np.ones(truth.size) if training.class_weight is None else training.class_weight[truth]
    task = Task(
        exact,
        model.kernel,
        data,
        np.arange(truth.size),
        truth,
        by_class if training.sample_weight is None else by_class * training.sample_weight,
        len(kind.labels),
        kind.scheme,
        penalties=training.penalties(exact.C, truth),
    )
    claims = [part.certificate for part in model.parts]
    limits = Limits(
        tol=next((one.tol for one in claims if one.tol is not None), 1e-3),
        tol_gap=next((one.tol_gap for one in claims if one.tol_gap is not None), None),
    )

    def of_fold(n_left: int) -> Control:
        return (control or Control()).with_limits(replace(limits, max_seconds=seconds_left()))

    if folds is None:
        folds = fold_numbers(truth, len(kind.labels))
    values = values_without_folds(model.way, task, folds, of_fold, check)
    check()
    return values


def _weights_of_task(model: Model, truth: npt.NDArray[Any], rows: IndexArray, targets: FloatArray) -> FloatArray:
    return model.row_weights(truth, rows, targets[:, None])


def _difference(one: Map, other: Map, values: FloatArray) -> float:
    """Return the largest difference between two maps: at `values`, or at all points if one map is isotonic."""
    at = values
    for one_map in (one, other):
        if isinstance(one_map, Isotonic):
            at = np.concatenate([at, one_map.values])  # both maps are linear between these points, and constant outside
    here, there = (
        replace(one_map, is_bound=False) if isinstance(one_map, Sigmoid) else one_map for one_map in (one, other)
    )
    return float(np.abs(here(at) - there(at)).max())


def _another_table(model: Model, table: Table) -> str:
    """Return why this is not the table of the model's training; "" if it is."""
    rows = model.training.rows
    if model.training.n_streamed is not None:
        of_machine = "; in Python, fit_file on the same file and then certificate_.verify() can"
        return (
            f"the model was trained on {model.training.n_streamed:,} rows of a file that was streamed, or that "
            "workers held, and the model file does not list all of them nor their dual coefficients, so this command "
            f"cannot recompute its certificate{of_machine if model.cells is None else ''}"
        )
    if model.training.checksum == NO_TABLE:
        return (
            "the model was saved from a fitted machine alone, so that its training rows are not known; in Python, "
            "certificate_.verify() of the machine recomputes its certificate, and save_model(path, as_model(machine, "
            "X, y)) writes a file that this command can check"
        )
    if isinstance(table, Table) and rows.max() >= table.n_rows:
        return f"{_ANOTHER}: it was trained on rows up to number {rows.max() + 1}, and this one has {table.n_rows}"
    try:
        checksum = model.training_part(table).checksum()
    except (TableError, IndexError) as error:
        return f"{_ANOTHER}: {error}"
    except ValueError as error:
        if isinstance(model.encoder, TableEncoder):
            raise
        return f"{_ANOTHER}: {error}"
    if checksum != model.training.checksum:
        return f"{_ANOTHER}: {_what_differs(model, table)}"
    column, weights = model.training.weight_column, model.training.sample_weight
    if column is None or weights is None:
        return ""
    if column not in table:
        return f"{_ANOTHER}: there is no column {column!r}, which held the weights of its rows"
    if not np.array_equal(numbers(table, column)[rows], weights):
        return f"{_ANOTHER}: the weights of its training rows in the column {column!r} differ"
    return ""


def _what_differs(model: Model, table: Table) -> str:
    """Return how the rows of a table differ from the training rows, as far as the support vectors in the file tell."""
    differ, target = "the cells of its training rows differ", model.prediction_kind.column
    if model.machine_spec.own_vectors is not None or not model.support_rows.size:
        return differ
    if not isinstance(model.support_vectors, Vectors):
        return differ
    order = np.argsort(model.training.rows[model.support_rows])
    at = model.training.rows[model.support_rows][order]
    try:
        hashes = _row_hashes(model.encoder.transform(used_part(table, model.encoder, None, np.arange(table.n_rows))))
    except (TableError, ValueError):
        return differ
    theirs = _row_hashes(model.support_vectors.float64())[order]
    wrong = hashes[at] != theirs
    if not wrong.any():
        others = f"{differ}, but not those of its support vectors"
        return others if target is None else f"{others}: other rows or the target {target!r} were changed"
    first = int(wrong.argmax())
    row, later = int(at[first]), at[first:]
    for place in np.flatnonzero(hashes == theirs[first]).tolist():
        moved = later + (place - row)
        if moved.max() < table.n_rows and (hashes[moved] == theirs[first:]).all():
            count = "1 row was" if abs(place - row) == 1 else f"{abs(place - row):,} rows were"
            way = "added" if place > row else "removed"
            return f"{count} {way} before row {row + 1:,}, which is row {place + 1:,} now"
    same = np.isin(theirs, hashes)
    if same.all():
        return f"its rows are in another order, first row {row + 1:,}"
    first = int((~same).argmax())
    return f"{int((~same).sum()):,} of its {at.size:,} support vectors are not in it, first row {int(at[first]) + 1:,}"


def _row_hashes(X: Any) -> npt.NDArray[np.uint64]:
    """Return a hash of each encoded row."""
    if sp.issparse(X):
        return row_hashes(block_hashes(sp.csr_array(X, dtype=np.float64)))
    hashes = np.zeros(len(X), dtype=np.uint64)
    for place, column in enumerate(np.asarray(X, dtype=np.float64).T):
        hashes += np.where(column == 0.0, np.uint64(0), mixed_hashes(bits_of(column), place + 1))
    return hashes


_ANOTHER = "this is not the table that the model was trained on"


def _check_support(model: Model, data: Data) -> list[str]:
    """Return a finding if the support vectors in the file differ from the training rows at their positions."""
    if model.machine_spec.own_vectors is not None:
        return []
    if not are_same_rows(data.rows(model.support_rows), model.support_vectors):
        return ["the support vectors in the file are not the training rows that they claim to be"]
    return []
