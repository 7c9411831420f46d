"""LIBSVM's model files: written for its ``svm-predict``, and read from its ``svm-train``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray, IndexArray
from mercer.data import Precomputed as GivenValues
from mercer.data import Vectors, as_data, warn_user
from mercer.data.files import open_atomically
from mercer.estimators import SVC, SVR, NuSVC, NuSVR, OneClassSVM, QuantileSVR
from mercer.estimators._linear import LinearMachine
from mercer.estimators._restored import restored_classifier, restored_machine
from mercer.kernels import Kernel, Linear, Precomputed
from mercer.multiclass import PairCoefficients, class_pairs, pairs_with, place_among_others, table_of
from mercer.studies.models.libsvm_text import CLASSIFIERS, KERNELS, LibsvmModel, read_model
from mercer.studies.models.model import Model
from mercer.studies.tables.prediction_kind import Classes, Quantity

_MACHINES = {"c_svc": SVC, "nu_svc": NuSVC, "one_class": OneClassSVM, "epsilon_svr": SVR, "nu_svr": NuSVR}
_KINDS = {**{machine: kind for kind, machine in _MACHINES.items()}, QuantileSVR: "epsilon_svr"}


def save_libsvm_model(path: str | Path, machine: Any) -> None:
    """Write a machine to a LIBSVM model file for ``svm-predict``; the file is complete or not written at all.

    Parameters
    ----------
    path : str or Path
        An existing file is replaced when the new one is complete.
    machine : SVC, NuSVC, SVR, NuSVR, QuantileSVR, OneClassSVM, a linear machine, a search of these, or Model
        A fitted machine with a linear, polynomial, Gaussian, sigmoid or precomputed kernel. Classifiers of several
        classes must use pairs (``multi_class="ovo"``), and labels must be integers. A `QuantileSVR` is written as an
        epsilon-SVR. A linear machine (`LinearSVC`, `LinearSVR`, `LogisticRegression`, ...) may have any scheme; it is
        written with the linear kernel, and its normal vectors are the support vectors. Text classes of a `Model`
        become 0, 1, ... in their order; its rows are the encoded rows.

    Raises
    ------
    NotFittedError
        Before `fit`.
    TypeError
        If LIBSVM has no such machine.
    ValueError
        If LIBSVM has no such kernel, scheme or labels.
    OSError
        If the file cannot be written.

    Notes
    -----
    Numbers have enough digits to give the same float64 when read. Features are counted from 1. Two classes are written
    in descending order, so that decision values keep their sign. If votes are tied, LIBSVM chooses the first class, and
    mercer the class with the larger sum of decision values; ``decision_function_shape="ovo"`` shows the values of all
    pairs. Linear machines of each class against the rest become pairs, whose values are the differences of their
    values: the class with the largest value wins all of its pairs. The file does not hold C, nu, epsilon or the
    certificate.

    References
    ----------
    Chang & Lin (2011), LIBSVM; the layout is that of its ``svm_save_model``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from mercer import SVC, load_libsvm_model, save_libsvm_model
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = SVC(C=10.0).fit(X, y)
    >>> save_libsvm_model("iris.model", machine)
    >>> Path("iris.model").read_text().splitlines()[0]
    'svm_type c_svc'
    >>> bool((load_libsvm_model("iris.model").predict(X) == machine.predict(X)).all())
    True
    """
    if not isinstance(path, str | Path):
        raise TypeError(
            f"path must be the name of a file, got {type(path).__name__}: write save_libsvm_model(path, machine)"
        )
    machine = getattr(machine, "best_estimator_", machine)
    if isinstance(machine, Pipeline):
        raise TypeError(
            "LIBSVM's files hold no transformers: save the last step of the pipeline, and transform rows before, or "
            "write the whole pipeline with save_model(path, pipeline)."
        )
    libsvm_model = _of_model(machine) if isinstance(machine, Model) else _of_estimator(machine)
    with open_atomically(path, "w") as file:
        file.writelines(libsvm_model.lines())


def load_libsvm_model(
    path: str | Path, *, n_features: int | None = None, zero_based: bool = False
) -> SVC | NuSVC | SVR | NuSVR | OneClassSVM:
    """Read a LIBSVM model file as an estimator that predicts what LIBSVM predicts.

    Parameters
    ----------
    path : str or Path
        A model file of ``svm-train``, `save_libsvm_model` or another program.
    n_features : int, optional
        Number of columns of the rows to predict, which is not in the file; by default the largest feature number among
        the support vectors. With a precomputed kernel, the number of training rows; by default the largest one used.
    zero_based : bool, default=False
        Whether the machine was trained on a data file that counts features from 0.

    Returns
    -------
    SVC, NuSVC, SVR, NuSVR or OneClassSVM
        It has `classes_`, `support_vectors_`, `dual_coef_`, `intercept_`, `n_support_`, `kernel_` and the kernel's
        parameters. Attributes that are not in the file raise an error: `support_` (except for a precomputed kernel),
        `solution_` and `certificate_`. C, nu and epsilon have their default values, which are used only by `fit`.

    Raises
    ------
    LibsvmFileError
        If a line is invalid; the message names it. It is a `ValueError`.
    OSError
        If the file cannot be read.

    Warns
    -----
    UserWarning
        If the file holds probability estimates, which are not used: classes and decision values do not depend on them.

    Notes
    -----
    Reading takes about 0.1 s per MB, and memory in proportion to the file. An untrusted file is safe to load: an
    invalid one is refused. Classes are sorted, in whatever order the file has them. Tied votes are decided by
    confidence, as in all machines of mercer. LIBSVM writes support vectors with 8 digits, so its machine in memory and
    in its file differ by about 1e-8.
    """
    libsvm_model = read_model(path, n_features=n_features, zero_based=zero_based)
    if libsvm_model.left_behind:
        warn_user(
            f"the probability estimates of {path} ({', '.join(libsvm_model.left_behind)}) are left behind: classes and "
            "decision values do not depend on them.",
            UserWarning,
        )
    _, name, parameters = KERNELS[type(libsvm_model.kernel)]
    machine = _MACHINES[libsvm_model.kind](
        kernel=name, **{key: getattr(libsvm_model.kernel, key) for key in parameters}
    )
    if libsvm_model.kind in CLASSIFIERS:
        return _classifier(machine, libsvm_model, n_features)
    # A row whose score equals rho is outside for LIBSVM but inside for mercer: the next larger number is used as limit.
    level = np.nextafter(libsvm_model.rho[0], np.inf) if libsvm_model.kind == "one_class" else libsvm_model.rho[0]
    coefficients = libsvm_model.coefficients[:, 0]
    return restored_machine(
        machine,
        libsvm_model.kernel,
        libsvm_model.support,
        _width(libsvm_model, n_features),
        coefficients,
        -float(level),
    )


def _width(libsvm_model: LibsvmModel, n_features: int | None) -> int:
    """Return the number of columns of the rows to predict."""
    if isinstance(libsvm_model.support, Vectors):
        return libsvm_model.support.p
    return int(libsvm_model.support.max(initial=0)) + 1 if n_features is None else n_features


def _classifier(machine: Any, libsvm_model: LibsvmModel, n_features: int | None) -> Any:
    """Return the classifier with sorted classes, and with the signs of its machines changed accordingly."""
    k = libsvm_model.labels.size
    in_file = np.argsort(libsvm_model.labels)  # class number here -> position in the file
    codes = np.repeat(np.argsort(in_file), libsvm_model.n_support)
    order = np.argsort(codes, kind="stable")
    codes, duals = codes[order], libsvm_model.coefficients[order]
    # In LIBSVM, values are positive for the class that comes first in the file. In mercer, they are positive for the
    # smaller class, or for class 1 if there are two classes.
    a, b = class_pairs(k).T
    p, q = in_file[a], in_file[b]
    signs = np.where(p < q, 1.0, -1.0) * (-1.0 if k == 2 else 1.0)
    theirs = pairs_with(k)[p, place_among_others(p, q)]
    biases = -signs * libsvm_model.rho[theirs]
    others = ~np.eye(k, dtype=bool)
    # For each class, the other classes in mercer's order.
    against = np.broadcast_to(in_file, (k, k))[others].reshape(k, k - 1)
    columns = place_among_others(in_file[:, None], against)
    table = signs[pairs_with(k)][codes] * np.take_along_axis(duals, columns[codes], axis=1)
    coefficients = table if k == 2 else PairCoefficients(table, np.bincount(codes, minlength=k))
    support = (
        libsvm_model.support.rows(order) if isinstance(libsvm_model.support, Vectors) else libsvm_model.support[order]
    )
    width = _width(libsvm_model, n_features)
    return restored_classifier(
        machine, libsvm_model.kernel, support, width, coefficients, biases + 0.0, libsvm_model.labels[in_file], codes
    )


def _of_estimator(machine: Any) -> LibsvmModel:
    if isinstance(machine, LinearMachine):
        check_is_fitted(machine, "coef_")
        normals = np.atleast_2d(machine._dense_coef())
        biases = np.broadcast_to(np.asarray(machine.intercept_, dtype=np.float64), len(normals))
        return _of_linear(
            normals, biases, integer_labels(machine.classes_) if hasattr(machine, "classes_") else None, "ovr"
        )
    kind = _KINDS.get(type(machine))
    if kind is None:
        raise TypeError(
            f"machine must be one that LIBSVM has ({', '.join(one.__name__ for one in _KINDS)}), a linear machine or a "
            f"Model, got {type(machine).__name__}."
        )
    check_is_fitted(machine, "kernel_")
    _check_kernel(machine.kernel_)
    support = _support(machine)
    if kind in CLASSIFIERS:
        _check_scheme(machine._scheme, machine.classes_.size)
        kernel, machine_coefficients, biases = machine.kernel_, machine._coefficients, machine.intercept_
        labels = integer_labels(machine.classes_)
        if isinstance(machine_coefficients, PairCoefficients):
            return _of_pairs(kind, kernel, support, machine_coefficients, biases, labels)
        positive = np.repeat([False, True], machine.n_support_)
        return _of_two(kind, kernel, support, machine_coefficients, biases, labels, positive)
    none = np.zeros(0, dtype=np.int64)
    # As in load_libsvm_model: the limit is shifted so that the same rows are inside.
    rho = np.nextafter(machine.offset_, -np.inf) if kind == "one_class" else -machine.intercept_
    return LibsvmModel(kind, machine.kernel_, rho + 0.0, none, none, machine._coefficients, support)


def _support(machine: Any) -> Vectors | IndexArray:
    if isinstance(machine.kernel_, Precomputed):
        return np.asarray(machine.support_, dtype=np.int64)
    return as_data(machine.support_vectors_)


def _of_model(model: Model) -> LibsvmModel:
    _check_kernel(model.kernel)
    vectors: Any = model.support_vectors
    if isinstance(vectors, GivenValues):
        vectors = vectors.own_columns()
    prediction_kind, (machine_coefficients, biases) = model.prediction_kind, model.machines
    if model.machine_spec.is_linear:
        assert isinstance(model.support_vectors, Vectors)
        normals = np.asarray(model.support_vectors.float64().T @ table_of(machine_coefficients)).T
        if isinstance(prediction_kind, Classes):
            return _of_linear(normals, biases, class_labels(prediction_kind), prediction_kind.scheme)
        if isinstance(prediction_kind, Quantity):  # in the target's unit
            normals, biases = prediction_kind.scale * normals, prediction_kind.in_unit(biases)
        return _of_linear(normals, biases, None, "ovr")
    kind = _KINDS_OF_MODELS.get(model.machine_spec.machine)
    if kind is None:
        raise ValueError(f"LIBSVM has no {model.machine_spec.machine}, which this model is of.")
    if not isinstance(prediction_kind, Classes):
        coefficients, none = table_of(machine_coefficients), np.zeros(0, dtype=np.int64)
        if isinstance(prediction_kind, Quantity):  # in the target's unit
            coefficients, biases = prediction_kind.scale * coefficients, prediction_kind.in_unit(biases)
        # As in load_libsvm_model: the limit is shifted so that the same rows are inside.
        rho = np.nextafter(-biases, -np.inf) if kind == "one_class" else -biases
        return LibsvmModel(kind, model.kernel, rho + 0.0, none, none, coefficients, vectors)
    _check_scheme(prediction_kind.scheme, len(prediction_kind.labels))
    labels, support = class_labels(prediction_kind), vectors
    if isinstance(machine_coefficients, PairCoefficients):
        return _of_pairs(kind, model.kernel, support, machine_coefficients, biases, labels)
    return _of_two(kind, model.kernel, support, machine_coefficients, biases, labels, machine_coefficients[:, 0] > 0.0)


_KINDS_OF_MODELS = {one.__name__: kind for one, kind in _KINDS.items()}


def class_labels(prediction_kind: Classes) -> IndexArray:
    """Return the labels of a model's classes in LIBSVM's files: 0, 1, ... for text.

    Raises
    ------
    ValueError
        If they are not integers of 32 bits.
    """
    return np.arange(len(prediction_kind.labels)) if prediction_kind.is_text else integer_labels(prediction_kind.labels)


def _of_linear(normals: FloatArray, biases: FloatArray, labels: IndexArray | None, scheme: str) -> LibsvmModel:
    """Return the LIBSVM model of linear machines, from their normal vectors (n_machines, p); no labels for numbers."""
    vectors = as_data(np.ascontiguousarray(normals))
    assert isinstance(vectors, Vectors)
    if labels is None:
        none = np.zeros(0, dtype=np.int64)
        return LibsvmModel("epsilon_svr", Linear(), -biases + 0.0, none, none, np.ones((1, 1)), vectors)
    k = labels.size
    if k == 2:
        return _of_two("c_svc", Linear(), vectors, np.ones((1, 1)), biases, labels, np.array([True]))
    first, second = class_pairs(k).T
    if scheme == "ovo":
        # The vector of a pair belongs to its first class, and has a coefficient in the machine of this pair alone.
        table, counts = np.zeros((first.size, k - 1)), np.bincount(first, minlength=k)
        table[np.arange(first.size), place_among_others(first, second)] = 1.0
    else:
        # The vector of a class is added in pairs where the class is the first one, and subtracted in the others.
        table, counts = np.where(np.arange(k)[:, None] <= np.arange(k - 1), 1.0, -1.0), np.ones(k, dtype=np.int64)
        biases = biases[first] - biases[second]
    return LibsvmModel("c_svc", Linear(), -biases + 0.0, labels, counts, table, vectors)


def _of_pairs(
    kind: str,
    kernel: Kernel,
    support: Vectors | IndexArray,
    coefficients: PairCoefficients,
    biases: FloatArray,
    labels: IndexArray,
) -> LibsvmModel:
    """Return the LIBSVM model of pairwise machines for three or more classes, in the order of mercer's classes."""
    order = coefficients.vectors
    chosen = support if order is None else _chosen(support, order)
    return LibsvmModel(kind, kernel, -biases + 0.0, labels, coefficients.counts, coefficients.table, chosen)


def _of_two(
    kind: str,
    kernel: Kernel,
    support: Vectors | IndexArray,
    coefficients: FloatArray,
    biases: FloatArray,
    labels: IndexArray,
    positive: npt.NDArray[np.bool_],
) -> LibsvmModel:
    """Return the LIBSVM model of a machine for two classes; the second class is written first."""
    order = np.argsort(~positive, kind="stable")
    counts = np.bincount(~positive, minlength=2)
    chosen = _chosen(support, order)
    return LibsvmModel(kind, kernel, -biases + 0.0, labels[::-1], counts, coefficients[order], chosen)


def _chosen(support: Vectors | IndexArray, order: IndexArray) -> Vectors | IndexArray:
    return support.rows(order) if isinstance(support, Vectors) else support[order]


def _check_kernel(kernel: Kernel) -> None:
    if type(kernel) not in KERNELS:
        names = ", ".join(theirs for theirs, _, _ in KERNELS.values())
        raise ValueError(
            f"a LIBSVM model file knows the kernels {names}, and not {kernel!r}: fit with one of these, or with "
            "kernel='precomputed' on the values of yours."
        )


def _check_scheme(scheme: str, n_classes: int) -> None:
    if scheme != "ovo" and n_classes > 2:
        raise ValueError(
            f"LIBSVM tells several classes apart by pairs of them, and this machine was fitted with "
            f"multi_class={scheme!r}: fit with multi_class='ovo'."
        )


def integer_labels(classes: npt.NDArray[Any], program: str = "LIBSVM") -> IndexArray:
    """Return the classes as the integer labels of LIBSVM or LIBLINEAR."""
    numbers = classes.dtype.kind in "iuf"
    if not numbers or (classes != np.rint(classes)).any() or np.abs(classes.astype(np.float64)).max() >= 2**31:
        raise ValueError(
            f"{program}'s labels are integers of 32 bits, and the classes are {classes.tolist()}: fit on y encoded as "
            "integers, for instance by sklearn.preprocessing.LabelEncoder."
        )
    return classes.astype(np.int64)
