"""LIBSVM's model files as text: the content, writing, and reading of untrusted files.

Nothing in a file is executed. Numbers in the header do not allocate memory: memory grows only with the data read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from operator import le
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mercer._typing import FloatArray, IndexArray
from mercer.data import CSR, MAX_FEATURES, Dense, Vectors
from mercer.kernels import RBF, Kernel, Linear, Polynomial, Precomputed, Sigmoid, as_kernel
from mercer.studies.files.libsvm_data import MAX_NUMBER, LibsvmFileError, digits
from mercer.studies.models.model_text import Layout, ModelHeader, ModelText

CLASSIFIERS = ("c_svc", "nu_svc")
KINDS = (*CLASSIFIERS, "one_class", "epsilon_svr", "nu_svr")

KERNELS: dict[type[Kernel], tuple[str, str, tuple[str, ...]]] = {
    Linear: ("linear", "linear", ()),
    Polynomial: ("polynomial", "poly", ("degree", "gamma", "coef0")),
    RBF: ("rbf", "rbf", ("gamma",)),
    Sigmoid: ("sigmoid", "sigmoid", ("gamma", "coef0")),
    Precomputed: ("precomputed", "precomputed", ()),
}
"""LIBSVM's and scikit-learn's name of a kernel, and its parameters."""

LEFT_BEHIND = ("probA", "probB", "prob_density_marks")
"""Header lines of probability estimates, which are checked but not used."""

MAX_COEFFICIENT_BYTES = 2**31
"""Largest number of bytes for the coefficients of all pairs of classes, which may be many times the file size."""

_WORDS = (
    *("svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv", "rho", "label", "nr_sv", "SV"),
    *LEFT_BEHIND,
)
_LAYOUT = Layout(
    "LIBSVM",
    frozenset(_WORDS),
    "SV",
    "support vectors",
    "solver_type",
    "this is a model file of LIBLINEAR, which has no support vectors; LIBSVM's begin with svm_type "
    "(mercer.load_liblinear_model reads it)",
)


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """The content of a LIBSVM model file.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    kernel : Kernel
    rho : ndarray of shape (n_pairs,)
        Minus the biases of the class pairs (0, 1), (0, 2), ..., (1, 2), ...
    labels, n_support : ndarray of shape (n_classes,)
        Labels in the order of the classes, and the number of support vectors of each; only for classifiers.
    coefficients : ndarray of shape (n_SV, n_classes - 1)
        Signed coefficients against the other classes in order, positive in the first class of a pair. Support vectors
        are sorted by class. One column if there are no classes.
    support : Vectors, or ndarray of int64 of shape (n_SV,)
        The support vectors, or for kernel values their indices among the training rows, counted from 0.
    left_behind : tuple of str
        Header lines that were not used.
    """

    kind: str
    kernel: Kernel
    rho: FloatArray
    labels: IndexArray
    n_support: IndexArray
    coefficients: FloatArray
    support: Vectors | IndexArray
    left_behind: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file."""
        name, _, parameters = KERNELS[type(self.kernel)]
        yield f"svm_type {self.kind}\n"
        yield f"kernel_type {name}\n"
        for parameter in parameters:
            yield f"{parameter} {digits(float(getattr(self.kernel, parameter)))}\n"
        yield f"nr_class {max(2, self.labels.size)}\n"
        yield f"total_sv {len(self.coefficients)}\n"
        yield f"rho {_joined(self.rho)}\n"
        if self.labels.size:
            yield f"label {' '.join(map(str, self.labels.tolist()))}\n"
            yield f"nr_sv {' '.join(map(str, self.n_support.tolist()))}\n"
        yield "SV\n"
        for coefficients, vector in zip(self.coefficients, self._vectors(), strict=True):
            yield f"{_joined(coefficients)} {vector}\n"

    def _vectors(self) -> Iterator[str]:
        if not isinstance(self.support, Vectors):
            yield from (f"0:{row + 1}" for row in self.support.tolist())
            return
        rows = self.support.float64()
        matrix = rows if sparse.issparse(rows) else sparse.csr_array(rows)
        for start, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            entries = zip(matrix.indices[start:end].tolist(), matrix.data[start:end].tolist(), strict=True)
            yield " ".join(f"{j + 1}:{digits(value)}" for j, value in entries)


def _joined(values: FloatArray) -> str:
    return " ".join(map(digits, values.tolist()))


def read_model(path: str | Path, *, n_features: int | None, zero_based: bool) -> LibsvmModel:
    """Read a model file.

    Raises
    ------
    LibsvmFileError
        If a line is invalid; the message names it.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:
        text = ModelText(path, file, _LAYOUT)
        header = ModelHeader.read(text)
        kind = header.choice("svm_type", KINDS)
        kernel = _kernel(header)
        n_classes = header.integers("nr_class", 1, at_least=2)[0]
        if kind not in CLASSIFIERS and n_classes != 2:
            header.refuse("nr_class", f"nr_class is 2 in a model of {kind}, got {n_classes}")
        n_support = header.integers("total_sv", 1, at_least=0)[0]
        rho = np.array(header.numbers("rho", n_classes * (n_classes - 1) // 2))
        if n_classes > 2 and 8 * n_support * rho.size > MAX_COEFFICIENT_BYTES:
            header.refuse(
                "total_sv",
                f"{n_support} support vectors of {n_classes} classes would take more than "
                f"{MAX_COEFFICIENT_BYTES >> 30} GiB for their coefficients",
            )
        labels = counts = np.zeros(0, dtype=np.int64)
        if kind in CLASSIFIERS:
            labels = np.array(header.integers("label", n_classes, at_least=-MAX_NUMBER - 1))
            counts = np.array(header.integers("nr_sv", n_classes, at_least=0, below=n_support + 1), dtype=np.int64)
            if np.unique(labels).size < labels.size:
                header.refuse("label", "a label stands twice")
            if counts.sum() != n_support:
                header.refuse("nr_sv", f"the counts sum to {counts.sum()}, and total_sv is {n_support}")
        left_behind = _left_behind(header, kind)
        values = isinstance(kernel, Precomputed)
        coefficients, matrix = _read_support(text, n_support, n_classes - 1, values, 0 if zero_based else 1)
    support = _serials(path, matrix, n_features) if values else _vectors(path, matrix, n_features)
    return LibsvmModel(kind, kernel, rho, labels, counts, coefficients, support, left_behind)


def _kernel(header: ModelHeader) -> Kernel:
    """Return the kernel with its parameters; other parameters are ignored, as in LIBSVM."""
    names = {theirs: (ours, parameters) for theirs, ours, parameters in KERNELS.values()}
    name, parameters = names[header.choice("kernel_type", tuple(names))]
    given: dict[str, Any] = {}
    for key in parameters:
        given[key] = header.integers(key, 1, at_least=0)[0] if key == "degree" else header.numbers(key, 1)[0]
        if key == "gamma" and given[key] < 0.0:
            header.refuse(key, f"gamma must be >= 0, got {given[key]:g}")
    return as_kernel(name, **given)


def _left_behind(header: ModelHeader, kind: str) -> tuple[str, ...]:
    """Return the keys of probability estimates; refuse other lines that do not belong to this kind of model."""
    if kind not in CLASSIFIERS:
        for key in ("label", "nr_sv"):
            if key in header.entries:
                header.refuse(key, f"{key} has no place in a model of {kind}")
    for key in LEFT_BEHIND:
        if key in header.entries:
            header.numbers(key, None)
    return tuple(key for key in LEFT_BEHIND if key in header.entries)


def _read_support(
    text: ModelText, n_support: int, n_coefficients: int, values: bool, first: int
) -> tuple[FloatArray, sparse.csr_array]:
    """Return the coefficients, and the matrix of support vectors (or one column of serial numbers)."""
    coefficients, stored, numbers, starts = array("d"), array("d"), array("q"), array("q", [0])
    begins = text.number + 1
    first = 0 if values else first
    for count in range(n_support):
        words = text.words()
        if words is None:
            text.refuse(f"the file ends after {count} of {n_support} support vectors")
        if len(words) < n_coefficients:
            text.refuse(f"a support vector must begin with {n_coefficients} coefficient(s), got {len(words)} word(s)")
        index = _read_vector(text, words, n_coefficients, coefficients, stored)
        if index and (index[0] < first or index[-1] >= MAX_FEATURES or any(map(le, index[1:], index))):
            hint = " (a file that counts from 0 takes zero_based=True)" if index[0] == 0 else ""
            text.refuse(f"feature numbers must rise, from {first} to {MAX_FEATURES - 1} at most{hint}")
        if values and index != [0]:
            text.refuse("a support vector of kernel values must be 0:serial")
        numbers.extend(index)
        starts.append(len(numbers))
    while (words := text.words()) is not None:
        if words:
            text.refuse(f"there is more after {n_support} support vectors")
    weights = np.frombuffer(coefficients) if coefficients else np.zeros(0)
    entries = np.frombuffer(stored) if stored else np.zeros(0)
    ends = np.frombuffer(starts, dtype=np.int64)
    for read_numbers, rows in ((weights, np.arange(0, weights.size + 1, n_coefficients)), (entries, ends)):
        bad = np.flatnonzero(~np.isfinite(read_numbers))
        if bad.size:
            text.refuse("a number is NaN or infinite", begins + int(np.searchsorted(rows, bad[0], side="right")) - 1)
    columns = (np.frombuffer(numbers, dtype=np.int64) if numbers else np.zeros(0, dtype=np.int64)) - first
    shape = (n_support, int(columns.max(initial=-1)) + 1)
    return weights.reshape(n_support, n_coefficients), sparse.csr_array((entries, columns, ends), shape)


def _read_vector(text: ModelText, words: list[bytes], n_coefficients: int, coefficients: Any, stored: Any) -> list[int]:
    """Append the coefficients and values of a line to the arrays, and return its feature numbers."""
    try:
        coefficients.extend(map(float, words[:n_coefficients]))
        if len(words) == n_coefficients:
            return []
        index, entries = zip(*(word.split(b":") for word in words[n_coefficients:]), strict=True)
        stored.extend(map(float, entries))
        return list(map(int, index))
    except ValueError:
        text.refuse(f"a support vector must be {n_coefficients} coefficient(s) and then number:value, such as 7:0.5")


def _vectors(path: str | Path, matrix: sparse.csr_array, n_features: int | None) -> Vectors:
    n, p = matrix.shape
    if n_features is not None and n_features < p:
        raise LibsvmFileError(f"{path} has a feature of number {p}, beyond n_features={n_features}")
    if n_features is None and not p:
        raise LibsvmFileError(f"{path} has no support vector that says how many features there are: give n_features")
    shape = (n, p if n_features is None else n_features)
    wide = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape)
    return Dense(wide.toarray()) if 2 * wide.nnz >= n * shape[1] else CSR(wide)


def _serials(path: str | Path, matrix: sparse.csr_array, n_features: int | None) -> IndexArray:
    most = MAX_NUMBER if n_features is None else n_features
    bad = np.flatnonzero((matrix.data != np.rint(matrix.data)) | (matrix.data < 1) | (matrix.data > most))
    if bad.size:
        serial = matrix.data[bad[0]]
        raise LibsvmFileError(f"{path}: serial numbers must be integers from 1 to {most}, got {serial:g}")
    return matrix.data.astype(np.int64) - 1
