"""LIBLINEAR's model files: written for its ``predict``, and read from its ``train``."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray, IndexArray
from mercer.data import MAX_FEATURES, Dense, Vectors
from mercer.data.files import open_atomically
from mercer.estimators import LinearSVC, LinearSVR, LogisticRegression, OneClassSVM, PegasosSVC
from mercer.estimators._linear import LinearMachine
from mercer.estimators._restored import restored_linear, restored_machine
from mercer.kernels import Linear
from mercer.multiclass import table_of
from mercer.studies.files.libsvm_data import MAX_NUMBER, digits
from mercer.studies.models.libsvm_model import class_labels, integer_labels
from mercer.studies.models.model import Model
from mercer.studies.models.model_text import Layout, ModelHeader, ModelText
from mercer.studies.tables.prediction_kind import Classes, Membership, Quantity

_LOGISTIC = {"L2R_LR": "l2", "L2R_LR_DUAL": "l2", "L1R_LR": "l1"}
_MARGIN: dict[str, dict[str, Any]] = {
    "L2R_L2LOSS_SVC_DUAL": {},
    "L2R_L2LOSS_SVC": {},
    "L2R_L1LOSS_SVC_DUAL": {"loss": "hinge"},
    "L1R_L2LOSS_SVC": {"penalty": "l1"},
    "MCSVM_CS": {"multi_class": "crammer_singer"},
}
_REGRESSION = {
    "L2R_L2LOSS_SVR": "squared_epsilon_insensitive",
    "L2R_L2LOSS_SVR_DUAL": "squared_epsilon_insensitive",
    "L2R_L1LOSS_SVR_DUAL": "epsilon_insensitive",
}
_JOINT, _ONE_CLASS = "MCSVM_CS", "ONECLASS_SVM"
_WORDS = ("solver_type", "nr_class", "label", "nr_feature", "bias", "rho", "w")
_LAYOUT = Layout(
    "LIBLINEAR",
    frozenset(_WORDS),
    "w",
    "weights",
    "svm_type",
    "this is a model file of LIBSVM; LIBLINEAR's begin with solver_type (mercer.load_libsvm_model reads it)",
)


@dataclass(frozen=True, eq=False)
class _LiblinearModel:
    """The content of a LIBLINEAR model file.

    Attributes
    ----------
    solver : str
        What it calls its solver, which also names the machine.
    labels : ndarray of shape (n_classes,)
        Labels in the order of the columns of weights; empty without classes. A single column is positive for the first.
    normals : ndarray of shape (n_columns, p)
    biases : ndarray of shape (n_columns,)
    rho : float
        What is subtracted from the value of a one-class machine.
    """

    solver: str
    labels: IndexArray
    normals: FloatArray
    biases: FloatArray
    rho: float = 0.0


def save_liblinear_model(path: str | Path, machine: Any) -> None:
    """Write a linear machine to a LIBLINEAR model file; the file is complete or not written at all.

    Parameters
    ----------
    path : str or Path
        An existing file is replaced when the new one is complete.
    machine : linear machine, machine with the linear kernel, or Model
        `LinearSVC`, `LinearSVR`, `LogisticRegression`, `PegasosSVC`, `LeastSquaresClassifier`; or `SVC`, `NuSVC`,
        `SVR`, `NuSVR`, `QuantileSVR`, `OneClassSVM` with ``kernel="linear"``, whose classes are two or not told apart
        by pairs. Labels must be integers; text classes of a `Model` become 0, 1, ... in their order, and its rows are
        the encoded rows.

    Raises
    ------
    NotFittedError
        Before `fit`.
    TypeError, ValueError
        If the machine is not linear, or LIBLINEAR has no such scheme or labels.
    OSError
        If the file cannot be written.

    Notes
    -----
    LIBLINEAR then predicts the same classes and numbers, and for logistic regression of two classes or of each class
    against the rest the same probabilities. It has no softmax loss: such a machine is written as one of Crammer and
    Singer, which predicts the same classes and has no probabilities. The solver in the file is the nearest one of
    LIBLINEAR; it does not change predictions. Numbers have enough digits to give the same float64 when read. The file
    does not hold C, epsilon or the certificate.

    References
    ----------
    Fan, Chang, Hsieh, Wang & Lin (2008), LIBLINEAR; the layout is that of its ``save_model``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from mercer import LinearSVC, load_liblinear_model, save_liblinear_model
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = LinearSVC().fit(X, y)
    >>> save_liblinear_model("iris.linear", machine)
    >>> Path("iris.linear").read_text().splitlines()[:2]
    ['solver_type L2R_L2LOSS_SVC_DUAL', 'nr_class 3']
    >>> bool((load_liblinear_model("iris.linear").predict(X) == machine.predict(X)).all())
    True
    """
    machines = _of_model(machine) if isinstance(machine, Model) else _of_estimator(machine)
    if len(machines.normals) == 2 and machines.solver != _JOINT:
        raise AssertionError("two classes have one column")
    with open_atomically(path, "w") as file:
        file.write(f"solver_type {machines.solver}\nnr_class {max(2, machines.labels.size)}\n")
        if machines.labels.size:
            file.write(f"label {' '.join(map(str, machines.labels.tolist()))}\n")
        has_bias = bool(machines.biases.any())
        file.write(f"nr_feature {machines.normals.shape[1]}\nbias {1 if has_bias else -1}\n")
        if machines.solver == _ONE_CLASS:
            file.write(f"rho {digits(machines.rho)}\n")
        file.write("w\n")
        weights = np.vstack([machines.normals.T, machines.biases]) if has_bias else machines.normals.T
        file.writelines(f"{' '.join(map(digits, row.tolist()))} \n" for row in weights)


def load_liblinear_model(path: str | Path) -> LinearSVC | LinearSVR | LogisticRegression | OneClassSVM:
    """Read a LIBLINEAR model file as an estimator that predicts what LIBLINEAR predicts.

    Parameters
    ----------
    path : str or Path
        A model file of LIBLINEAR's ``train``, `save_liblinear_model` or another program.

    Returns
    -------
    LinearSVC, LinearSVR, LogisticRegression or OneClassSVM
        With `coef_`, `intercept_` and `classes_`, and without a solution and a certificate, which are not in the file.
        Logistic regression has probabilities. C, nu and epsilon have their default values, which only `fit` uses.

    Raises
    ------
    LibsvmFileError
        If a line is invalid; the message names it. It is a `ValueError`.
    OSError
        If the file cannot be read.

    Notes
    -----
    An untrusted file is safe to load: an invalid one is refused, and memory grows only with the data read. Classes are
    sorted, in whatever order the file has them. A row whose value is exactly 0 may get the other one of two classes.
    """
    content = _read(path)
    order = np.argsort(content.labels)
    normals, biases, classes = content.normals, content.biases, content.labels[order]
    if classes.size == 2:
        if len(normals) == 2:
            normals, biases = normals[:1] - normals[1:], biases[:1] - biases[1:]
        if order[0] == 0:  # the file's first class is the smaller one, for which mercer's values are negative
            normals, biases = -normals + 0.0, -biases + 0.0
    elif classes.size:
        normals, biases = normals[order], biases[order]
    if content.solver == _ONE_CLASS:
        # A row whose value is 0 is outside for LIBLINEAR but inside for mercer: the next larger number is the limit.
        level = np.nextafter(content.rho - biases[0], np.inf)
        support = Dense(np.ascontiguousarray(normals))
        return restored_machine(OneClassSVM(kernel="linear"), Linear(), support, support.p, np.ones(1), -float(level))
    machine: LinearSVC | LinearSVR | LogisticRegression
    if content.solver in _LOGISTIC:
        machine = LogisticRegression(penalty=_LOGISTIC[content.solver], multi_class="ovr")
    elif content.solver in _REGRESSION:
        machine = LinearSVR(loss=_REGRESSION[content.solver])
    else:
        machine = LinearSVC(**_MARGIN[content.solver])
    return restored_linear(machine, normals, biases, classes if classes.size else None)


def _read(path: str | Path) -> _LiblinearModel:
    """Read a model file.

    Raises
    ------
    LibsvmFileError
        If a line is invalid.
    """
    with open(path, "rb") as file:
        text = ModelText(path, file, _LAYOUT)
        header = ModelHeader.read(text)
        solver = header.choice("solver_type", (*_LOGISTIC, *_MARGIN, *_REGRESSION, _ONE_CLASS))
        n_classes = header.integers("nr_class", 1, at_least=2)[0]
        labels = np.zeros(0, dtype=np.int64)
        if solver in _REGRESSION or solver == _ONE_CLASS:
            if n_classes != 2:
                header.refuse("nr_class", f"nr_class is 2 in a model of {solver}, got {n_classes}")
            if "label" in header.entries and solver in _REGRESSION:
                header.refuse("label", f"label has no place in a model of {solver}")
        else:
            labels = np.array(header.integers("label", n_classes, at_least=-MAX_NUMBER - 1), dtype=np.int64)
            if np.unique(labels).size < labels.size:
                header.refuse("label", "a label stands twice")
        n_features = header.integers("nr_feature", 1, at_least=1, below=MAX_FEATURES)[0]
        bias = header.numbers("bias", 1)[0]
        rho = header.numbers("rho", 1)[0] if solver == _ONE_CLASS else 0.0
        n_columns = 1 if n_classes == 2 and solver != _JOINT else n_classes
        weights = _read_weights(text, n_features + (bias >= 0.0), n_columns)
    normals = np.ascontiguousarray(weights[:n_features].T)
    with np.errstate(over="ignore"):
        biases = bias * weights[n_features] if bias >= 0.0 else np.zeros(n_columns)
    if not np.isfinite(biases).all():
        header.refuse("bias", "the bias times its weight overflows")
    return _LiblinearModel(solver, labels, normals, biases, rho)


def _read_weights(text: ModelText, n_rows: int, n_columns: int) -> FloatArray:
    """Return the weights, (n_rows, n_columns)."""
    weights = array("d")
    for count in range(n_rows):
        words = text.words()
        if words is None:
            text.refuse(f"the file ends after {count} of {n_rows} lines of weights")
        if len(words) != n_columns:
            text.refuse(f"a line of weights must hold {n_columns} number(s), got {len(words)} word(s)")
        try:
            numbers = list(map(float, words))
        except ValueError:
            text.refuse(f"a line of weights must hold {n_columns} number(s)")
        if not np.isfinite(numbers).all():
            text.refuse("a number is NaN or infinite")
        weights.extend(numbers)
    while (words := text.words()) is not None:
        if words:
            text.refuse(f"there is more after {n_rows} lines of weights")
    return np.frombuffer(weights).reshape(n_rows, n_columns)


def _of_estimator(machine: Any) -> _LiblinearModel:
    is_linear = isinstance(machine, LinearMachine)
    if not is_linear and not isinstance(getattr(machine, "kernel_", None), Linear):
        check_is_fitted(machine)
        raise TypeError(
            f"machine must be a linear machine, one with the linear kernel, or a Model, got {machine!r}: LIBLINEAR has "
            "no kernels. save_libsvm_model writes those of LIBSVM."
        )
    check_is_fitted(machine, "coef_" if is_linear else "kernel_")
    normals = machine._dense_coef() if is_linear else machine.coef_
    normals = np.atleast_2d(normals.toarray() if hasattr(normals, "toarray") else normals).astype(np.float64)
    biases = np.broadcast_to(np.asarray(machine.intercept_, dtype=np.float64), len(normals))
    if hasattr(machine, "offset_"):
        return _LiblinearModel(
            _ONE_CLASS, np.zeros(0, dtype=np.int64), normals, 0.0 * biases, _level(machine.offset_[0])
        )
    if not hasattr(machine, "classes_"):
        squared = str(getattr(machine, "loss", "")).startswith("squared")
        return _of_numbers(normals, biases, squared=squared)
    scheme = "ovr" if is_linear else machine._scheme
    return _of_classes(_solver(machine), normals, biases, integer_labels(machine.classes_, "LIBLINEAR"), scheme)


def _level(offset: Any) -> float:
    return float(np.nextafter(offset, -np.inf))


def _solver(machine: Any) -> str:
    """Return the solver of LIBLINEAR that is nearest to a classifier's training."""
    is_sparse = getattr(machine, "penalty", "l2") == "l1"
    if isinstance(machine, LogisticRegression):
        joint = getattr(machine.spec_, "joint", False) and machine.classes_.size > 2
        return _JOINT if joint else "L1R_LR" if is_sparse else "L2R_LR"
    if is_sparse:
        return "L1R_L2LOSS_SVC"
    if getattr(machine, "multi_class", "ovr") == "crammer_singer":
        return _JOINT
    is_hinge = isinstance(machine, PegasosSVC) or getattr(machine, "loss", "squared_hinge") == "hinge"
    return "L2R_L1LOSS_SVC_DUAL" if is_hinge else "L2R_L2LOSS_SVC_DUAL"


def _of_classes(
    solver: str, normals: FloatArray, biases: FloatArray, labels: IndexArray, scheme: str
) -> _LiblinearModel:
    if labels.size > 2 and scheme == "ovo":
        raise ValueError(
            "LIBLINEAR tells several classes apart by one value for each class, and this machine does by pairs: fit "
            "with multi_class='ovr', or use save_libsvm_model."
        )
    if labels.size > 2:
        return _LiblinearModel(solver, labels, normals, biases)
    if solver == _JOINT:  # two columns, whose difference decides
        return _LiblinearModel(solver, labels[::-1], normals * [[0.5], [-0.5]], biases * [0.5, -0.5])
    return _LiblinearModel(solver, labels[::-1], normals, biases)


def _of_numbers(normals: FloatArray, biases: FloatArray, *, squared: bool) -> _LiblinearModel:
    if len(normals) > 1:
        raise ValueError(f"LIBLINEAR predicts one number, and this machine predicts {len(normals)}.")
    solver = "L2R_L2LOSS_SVR_DUAL" if squared else "L2R_L1LOSS_SVR_DUAL"
    return _LiblinearModel(solver, np.zeros(0, dtype=np.int64), normals, biases)


def _of_model(model: Model) -> _LiblinearModel:
    if not isinstance(model.kernel, Linear):
        raise ValueError(
            f"LIBLINEAR has no kernels, and this model has {model.kernel!r}: save_libsvm_model writes those of LIBSVM."
        )
    assert isinstance(model.support_vectors, Vectors)
    kind, (machine_coefficients, biases) = model.prediction_kind, model.machines
    normals = np.asarray(model.support_vectors.float64().T @ table_of(machine_coefficients)).T
    spec: Any = model.machine_spec
    if isinstance(kind, Membership):
        if kind.squared_norm is not None:
            raise ValueError("LIBLINEAR has no SVDD, which this model is of.")
        return _LiblinearModel(_ONE_CLASS, np.zeros(0, dtype=np.int64), normals, 0.0 * biases, _level(kind.offset))
    if isinstance(kind, Quantity):  # in the target's unit
        return _of_numbers(kind.scale * normals, kind.in_unit(biases), squared=getattr(spec, "squared", False))
    assert isinstance(kind, Classes)
    is_logistic = spec.estimator == "LogisticRegression"
    joint = getattr(spec, "joint", is_logistic) and len(kind.labels) > 2
    solver = _JOINT if joint else "L2R_LR" if is_logistic else "L2R_L2LOSS_SVC_DUAL"
    return _of_classes(solver, normals, biases, class_labels(kind), kind.scheme)
