"""LIBSVM's data files, also called svmlight: each line has a target and numbered features."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mercer._core import parse_svmlight
from mercer.data import CSR, as_data, parts
from mercer.data.files import open_atomically
from mercer.studies.files.file_formats import BYTE_ORDER_MARK, DAMAGED, compression_of, opened

MAX_NUMBER = 2**31 - 1
"""Largest feature number; LIBSVM and scikit-learn read feature numbers as C's int."""


_CHUNK_BYTES = 1 << 24  # bytes of text that are parsed at once


class LibsvmFileError(ValueError):
    """A file that is not a valid LIBSVM file; the message names the line.

    It is a `ValueError`, raised by `load_libsvm_data` and `load_libsvm_model`.
    """


def load_libsvm_data(
    path: str | Path, *, n_features: int | None = None, zero_based: bool = False, precomputed: bool = False
) -> tuple[Any, npt.NDArray[np.float64]]:
    """Read rows and targets from a LIBSVM (svmlight) data file.

    A line is ``target number:value number:value ...`` with ascending numbers. Text after a ``#`` is a comment, ``qid:``
    is ignored, empty lines are skipped, and a target alone is a row of zeros.

    Parameters
    ----------
    path : str or Path
        A file name; names that end in ``.gz`` or ``.bz2`` are decompressed.
    n_features : int, optional
        Number of columns; by default the largest feature number in the file. Give it if two files must have the same
        columns. With ``precomputed=True``, the number of training rows.
    zero_based : bool, default=False
        Whether the file counts features from 0. LIBSVM counts from 1: feature j becomes column j - 1.
    precomputed : bool, default=False
        Whether lines hold all kernel values, ``target 0:serial 1:k(x, x_1) ... K:k(x, x_K)``.

    Returns
    -------
    X : csr_array of shape (n, n_features), float64
        An ndarray with ``precomputed=True``.
    y : ndarray of shape (n,), float64

    Raises
    ------
    LibsvmFileError
        If a line has another form (the message names it), a number is NaN or infinite, a feature number exceeds
        `n_features`, kernel values are missing, serial numbers of a square matrix are not 1, 2, ..., or there are no
        rows.
    OSError
        If the file cannot be read.

    Notes
    -----
    Differences from scikit-learn's ``load_svmlight_file``: the function never guesses whether a file counts from 0 or
    from 1, and errors name the line. The parser is native; decompressing takes longer than parsing.

    Serial numbers in a file of rows to predict are ignored, as in LIBSVM.

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
    """Write rows and targets to a LIBSVM (svmlight) data file; the file is complete or not written at all.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, p)
        Finite numbers; zeros of a dense table are not written.
    y : array-like of shape (n,)
        Finite numbers: labels or targets.
    path : str or Path
        An existing file is replaced when the new one is complete.
    zero_based : bool, default=False
        Count features from 0. LIBSVM counts from 1.
    precomputed : bool, default=False
        Write kernel values, ``target 0:serial 1:k(x, x_1) ...``, including zeros. Row i has the serial number i,
        counted from 1: its column in a square matrix. In a file of rows to predict, serial numbers have no meaning.

    Raises
    ------
    ValueError
        If `X` or `y` hold text, NaN or infinity, or differ in length, or a feature number exceeds LIBSVM's limit.
    OSError
        If the file cannot be written.

    Notes
    -----
    Numbers have enough digits to give the same float64 when read. Trailing columns that are all 0 cannot be seen in
    the file: give `n_features` when it is read.

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
                    stored, row_values = values.indices[chosen], values.data[chosen]
                else:
                    stored = np.arange(data.p) if precomputed else np.flatnonzero(values[i])
                    row_values = values[i, stored]
                entries = [
                    f"{j + first}:{digits(value)}"
                    for j, value in zip(stored.tolist(), row_values.tolist(), strict=True)
                ]
                serial = [f"0:{part.start + i + 1}"] if precomputed else []
                file.write(" ".join([target, *serial, *entries]) + "\n")


class ParsedLines(NamedTuple):
    """The rows of some lines: their targets (n,), the matrix, and the first byte of the first line that is invalid.

    `fault` is -1 if all lines are valid. Values may be NaN or infinite; they are float32 if that is exact.
    """

    targets: npt.NDArray[np.float64]
    matrix: sparse.csr_array
    fault: int


def parse_lines(text: bytes, first: int, start: int = 0) -> ParsedLines:
    """Parse lines from byte `start` on, whose features are counted from `first`, 0 or 1.

    Lines are of the form that :func:`load_libsvm_data` describes. The time is that of one pass over the text.
    """
    targets, ends, columns, values, largest, fits_float, fault = parse_svmlight(text, start, first)
    stored = values.astype(np.float32) if fits_float else values
    kind = np.int32 if max(largest + 1, values.size) < 2**31 else np.int64
    indices = columns.astype(kind, copy=False), ends.astype(kind, copy=False)
    return ParsedLines(targets, sparse.csr_array((stored, *indices), (targets.size, largest + 1)), fault)


def read_lines(
    path: str | Path, *, zero_based: bool, raw: bytes | None = None
) -> tuple[sparse.csr_array, npt.NDArray[np.float64]]:
    """Read a float64 matrix, with features counted from 0 or from 1, and the targets.

    `raw` is the content, if it has been read from a pipe.

    Raises
    ------
    LibsvmFileError
        If a line has another form; the message names the line.
    OSError
        If the file cannot be read.
    """
    first = 0 if zero_based else 1
    parts = []
    with _opened(path) if raw is None else io.BytesIO(raw) as file:
        for number, text, start in _whole_lines(path, file):
            part = parse_lines(text, first, start)
            if part.fault >= 0:
                line = text[part.fault :].partition(b"\n")[0]
                fault = line_fault(line, first) or f"{shown(line)} cannot be read"
                number += text.count(b"\n", 0, part.fault)
                raise LibsvmFileError(f"{path}, line {number}: {fault}")
            parts.append(part)
    if not parts:
        return sparse.csr_array((0, 0)), np.zeros(0)
    width = max(part.matrix.shape[1] for part in parts)
    for part in parts:
        part.matrix.resize(part.matrix.shape[0], width)
    matrix = sparse.vstack([part.matrix for part in parts], format="csr", dtype=np.float64)
    return sparse.csr_array(matrix), np.concatenate([part.targets for part in parts])


def _whole_lines(path: str | Path, file: Any) -> Iterator[tuple[int, bytes, int]]:
    """Yield the content of a file in pieces of whole lines: number of the first line, text, and first byte in it."""
    number, rest, start = 1, b"", 0
    while True:
        try:
            more = file.read(_CHUNK_BYTES)
        except DAMAGED as error:
            raise LibsvmFileError(f"{path} cannot be read: {error}") from error
        cut = more.rfind(b"\n") + 1
        if more and not cut:
            rest += more
            continue
        text, rest = rest + more[:cut] if more else rest, more[cut:]
        if number == 1:
            start = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
        if text:
            yield number, text, start
            number, start = number + text.count(b"\n"), 0
        if not more:
            return


def digits(value: float) -> str:
    """Return a number with enough digits to be read exactly, at most 17; whole numbers have no decimal point."""
    return repr(value).removesuffix(".0")


def _opened(path: str | Path) -> Any:
    return opened(path, compression_of(Path(path)))


def line_fault(line: bytes, first: int) -> str | None:
    """Return what is wrong with a line of features that are counted from `first`; None if it is valid."""
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
    """Return a part of a file in a short form for messages."""
    return repr(cell if len(cell) <= 40 else cell[:37] + b"...").removeprefix("b")


def _refuse_where(path: str | Path, bad: npt.NDArray[np.bool_], fault: str) -> None:
    """Raise an error for the first bad row, with its line number."""
    if not bad.any():
        return
    row = int(bad.argmax())
    with _opened(path) as file:
        filled = (number for number, line in enumerate(file, 1) if line.partition(b"#")[0].split())
        number = next(number for count, number in enumerate(filled) if count == row)
    raise LibsvmFileError(f"{path}, line {number}: {fault}")


def _kernel_values(path: str | Path, matrix: sparse.csr_array, n_features: int | None) -> npt.NDArray[np.float64]:
    """Return the kernel values without the column of serial numbers."""
    n = matrix.shape[0]
    n_values = matrix.shape[1] - 1 if n_features is None else n_features
    if n_values < 1:
        raise LibsvmFileError(f"{path} holds no kernel values: each line must be `target 0:serial 1:value 2:value ...`")
    short = np.diff(matrix.indptr) != n_values + 1
    # Numbers ascend, so a line with the right count of numbers has all of them.
    _refuse_where(
        path, short, f"it must hold 0:serial and {n_values} kernel values, with numbers 1 to {n_values}, none left out"
    )
    if matrix.shape[1] != n_values + 1:
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
    """Return the targets as text."""
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
