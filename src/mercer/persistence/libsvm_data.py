"""LIBSVM's data files, also called svmlight: a target and numbered features in a line of text."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from mercer.data import CSR, as_data
from mercer.data.base import parts
from mercer.persistence.atomic_write import open_atomically

MAX_NUMBER = 2**31 - 1
"""The largest number of a feature: LIBSVM and scikit-learn read them as C's int."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Bytes that some editors and spreadsheets put before a text in UTF-8."""

_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


class LibsvmFileError(ValueError):
    """A file that is not one of LIBSVM's, with the line that shows it.

    A `ValueError` of `load_libsvm_data` and `load_libsvm_model`; its message names file, line and what is wrong.
    """


def load_libsvm_data(
    path: str | Path, *, n_features: int | None = None, zero_based: bool = False, precomputed: bool = False
) -> tuple[Any, npt.NDArray[np.float64]]:
    """Read rows and targets from a LIBSVM (svmlight) data file.

    A line is ``target number:value number:value ...`` with rising numbers; what follows a ``#`` is comment, a
    ``qid:`` is skipped, empty lines do not count, and a target alone is a row of zeros.

    Parameters
    ----------
    path : str or Path
        Also compressed, where it ends in ``.gz`` or ``.bz2``.
    n_features : int, optional
        Columns of the table; by default the largest number of a feature in the file. Say it where two files are to have
        the same columns. With ``precomputed=True``, the number of training rows.
    zero_based : bool, default=False
        Whether the file counts features from 0. LIBSVM counts from 1: feature j becomes column j - 1.
    precomputed : bool, default=False
        Whether lines hold kernel values, ``target 0:serial 1:k(x, x_1) ... K:k(x, x_K)``, none left out.

    Returns
    -------
    X : csr_array of shape (n, n_features), float64
        An ndarray with ``precomputed=True``.
    y : ndarray of shape (n,), float64

    Raises
    ------
    LibsvmFileError
        If a line is of another form (it is named), a number is NaN or infinite, a feature's number is beyond
        `n_features`, kernel values are missing, serial numbers of a square matrix are not 1, 2, ..., or there are no
        rows.
    OSError
        If the file cannot be read.

    Notes
    -----
    Differs from scikit-learn's ``load_svmlight_file``: whether a file counts from 0 or from 1 is never guessed, and
    errors name the line. Reading is scikit-learn's: some 10 MB a second.

    Serial numbers in a file of rows to predict mean nothing, as for LIBSVM.

    Examples
    --------
    >>> from pathlib import Path
    >>> from mercer import load_libsvm_data, save_libsvm_data
    >>> save_libsvm_data([[0.0, 0.5], [2.0, 0.0]], [1, -1], "two.svm")
    >>> print(Path("two.svm").read_text(), end="")
    1 2:0.5
    -1 1:2
    >>> X, y = load_libsvm_data("two.svm")
    >>> X.toarray().tolist(), y.tolist()
    ([[0.0, 0.5], [2.0, 0.0]], [1.0, -1.0])
    """
    matrix, target = read_lines(path, zero_based=zero_based or precomputed)
    if not target.size:
        raise LibsvmFileError(f"{path} holds no rows")
    _refuse_where(path, ~np.isfinite(target), "the target is NaN or infinite")
    counted = np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data)), side="right") - 1
    _refuse_where(path, np.isin(np.arange(target.size), counted), "a value is NaN or infinite")
    first = 0 if zero_based else 1
    if precomputed:
        return _kernel_values(path, matrix, n_features), target
    if n_features is None:
        return matrix, target
    beyond = np.flatnonzero(matrix.indices >= n_features)
    rows = np.searchsorted(matrix.indptr, beyond, side="right") - 1
    _refuse_where(
        path,
        np.isin(np.arange(target.size), rows),
        f"there is a feature beyond number {n_features - 1 + first}, the last one with n_features={n_features}",
    )
    return sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), (target.size, n_features)), target


def save_libsvm_data(X: Any, y: Any, path: str | Path, *, zero_based: bool = False, precomputed: bool = False) -> None:
    """Write rows and targets to a LIBSVM (svmlight) data file, all of it or nothing.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, p)
        Finite numbers; zeros of a dense table are left out.
    y : array-like of shape (n,)
        Finite numbers: labels or targets.
    path : str or Path
        An existing file is replaced, once the new one is complete.
    zero_based : bool, default=False
        Count features from 0. LIBSVM counts from 1.
    precomputed : bool, default=False
        Write kernel values, ``target 0:serial 1:k(x, x_1) ...``, with nothing left out. Row i has the serial number i,
        counted from 1, which is its column in a square matrix, and means nothing in one of rows to predict.

    Raises
    ------
    ValueError
        If `X` or `y` hold text, NaN or infinity, or differ in length, or a feature's number is larger than LIBSVM
        reads.
    OSError
        If the file cannot be written.

    Notes
    -----
    Numbers are written with as many digits as it takes to read the same float64 again. Last columns that hold
    nothing but 0 leave no trace: give `n_features` where the file is read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from mercer import save_libsvm_data
    >>> save_libsvm_data([[2.0, 0.0], [0.0, 2.0]], [1, -1], "kernel.svm", precomputed=True)
    >>> print(Path("kernel.svm").read_text(), end="")
    1 0:1 1:2 2:0
    -1 0:2 1:0 2:2
    """
    data = as_data(X)
    problem = data.finite_problem()
    if problem is not None:
        raise ValueError(f"X must be finite, but {problem}.")
    targets = _targets(y, data.n)
    first = 0 if zero_based and not precomputed else 1
    largest = first + (int(data.matrix.indices.max(initial=0)) if isinstance(data, CSR) else data.p - 1)
    if largest > MAX_NUMBER:
        raise ValueError(f"X has a feature of number {largest}, and {MAX_NUMBER} is the largest that LIBSVM reads.")
    with open_atomically(path, "w") as file:
        for part in parts(data.n, data.row_entries):
            values: Any = data.rows(part).float64()
            if precomputed and sparse.issparse(values):
                values = values.toarray()
            for i, target in enumerate(targets[part]):
                if sparse.issparse(values):
                    chosen = slice(values.indptr[i], values.indptr[i + 1])
                    stored, found = values.indices[chosen], values.data[chosen]
                else:
                    stored = np.arange(data.p) if precomputed else np.flatnonzero(values[i])
                    found = values[i, stored]
                entries = [
                    f"{j + first}:{digits(value)}" for j, value in zip(stored.tolist(), found.tolist(), strict=True)
                ]
                serial = [f"0:{part.start + i + 1}"] if precomputed else []
                file.write(" ".join([target, *serial, *entries]) + "\n")


def read_lines(
    path: str | Path, *, zero_based: bool, raw: bytes | None = None
) -> tuple[sparse.csr_array, npt.NDArray[np.float64]]:
    """Read a matrix whose columns are features counted from 0 or from 1, as said, and the targets.

    Content that has been read from a pipe is passed as `raw`.

    Raises
    ------
    LibsvmFileError
        Naming the line that is of another form.
    OSError
        If the file cannot be read.
    """
    with _opened(path) if raw is None else io.BytesIO(raw) as file:
        lines = _Lines(file)
        try:
            matrix, target = load_svmlight_file(lines, zero_based=zero_based)
        except (ValueError, OverflowError) as error:
            fault = _fault(lines.line, 0 if zero_based else 1) or str(error)
            raise LibsvmFileError(f"{path}, line {lines.number}: {fault}") from error
        except (EOFError, zlib.error) as error:
            raise LibsvmFileError(f"{path} cannot be read: {error}") from error
    return sparse.csr_array(matrix), target


def digits(value: float) -> str:
    """A number with as many digits as it takes to read it again, at most 17; whole numbers without a point."""
    return repr(value).removesuffix(".0")


class _Lines:
    """The lines of a file, of which the last one that was read is remembered."""

    def __init__(self, file: Any) -> None:
        self.file, self.number, self.line = file, 0, b""

    def __iter__(self) -> Iterator[bytes]:
        for number, line in enumerate(self.file, 1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            self.number, self.line = number, line
            if b"_" in line.partition(b"#")[0]:  # Python reads 1_000 as a number, LIBSVM does not
                raise ValueError("there is an underscore")
            yield line

    def read(self) -> bytes:
        """What a file must have to be taken for one."""
        return self.file.read()


def _opened(path: str | Path) -> Any:
    return _OPEN.get(Path(path).suffix.lower(), open)(path, "rb")


def _fault(line: bytes, first: int) -> str | None:
    """What is wrong with a line."""
    cells = line.partition(b"#")[0].split()
    if cells and not _reads(float, cells[0]):
        return f"the target {shown(cells[0])} is no number"
    last = first - 1
    for cell in cells[1:]:
        number, colon, value = cell.partition(b":")
        if number == b"qid":
            continue
        if not colon or not _reads(int, number) or not _reads(float, value):
            return f"{shown(cell)} is no number:value, such as 7:0.5"
        if int(number) < first:
            hint = " (a file that counts from 0 takes zero_based=True)" if number == b"0" else ""
            return f"feature number {shown(number)} is below {first}{hint}"
        if int(number) > MAX_NUMBER:
            return f"feature number {shown(number)} is larger than {MAX_NUMBER}, the largest that there may be"
        if int(number) <= last:
            return f"feature number {shown(number)} follows {last}, but numbers must rise"
        last = int(number)
    return None


def _reads(kind: Callable[[bytes], object], cell: bytes) -> bool:
    try:
        kind(cell)
    except ValueError:
        return False
    return b"_" not in cell


def shown(cell: bytes) -> str:
    """A piece of a file, as a message can show it."""
    return repr(cell if len(cell) <= 40 else cell[:37] + b"...").removeprefix("b")


def _refuse_where(path: str | Path, bad: npt.NDArray[np.bool_], fault: str) -> None:
    """Refuse the first row that is bad, by the number of its line."""
    if not bad.any():
        return
    row = int(bad.argmax())
    with _opened(path) as file:
        held = (number for number, line in enumerate(file, 1) if line.partition(b"#")[0].split())
        number = next(number for count, number in enumerate(held) if count == row)
    raise LibsvmFileError(f"{path}, line {number}: {fault}")


def _kernel_values(path: str | Path, matrix: sparse.csr_array, n_features: int | None) -> npt.NDArray[np.float64]:
    """The kernel values, without the column of serial numbers."""
    n = matrix.shape[0]
    n_values = matrix.shape[1] - 1 if n_features is None else n_features
    short = np.diff(matrix.indptr) != n_values + 1
    # Numbers rise, so that as many as there are columns can only be all of them.
    _refuse_where(
        path, short, f"it must hold 0:serial and {n_values} kernel values, with numbers 1 to {n_values}, none left out"
    )
    if not n_values or matrix.shape[1] != n_values + 1:
        raise LibsvmFileError(f"{path} holds kernel values with numbers other than 1 to {n_values}")
    table = matrix.data.reshape(n, n_values + 1)
    serial, values = table[:, 0], np.ascontiguousarray(table[:, 1:])
    if n == n_values and np.array_equal(np.sort(serial), np.arange(1, n + 1)):
        _refuse_where(
            path,
            serial != np.arange(1, n + 1),
            "serial numbers of a square matrix must be 1, 2, ... in this order, so that row i is column i: sort lines",
        )
    return values


def _targets(y: Any, n: int) -> list[str]:
    """The targets as they are written."""
    values = np.asarray(y)
    if values.dtype.kind not in "biuf" or values.ndim != 1:
        raise ValueError(f"y must hold one number a row, got {values.dtype} of shape {values.shape}.")
    if values.size != n:
        raise ValueError(f"y must hold one number for each of the {n} rows of X, got {values.size}.")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(f"y must hold finite numbers, got {values[bad[0]]} in row {bad[0]}.")
    if values.dtype.kind == "f":
        return [digits(value) for value in values.astype(np.float64).tolist()]
    return [str(int(value)) for value in values.tolist()]
