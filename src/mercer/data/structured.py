"""Rows that are strings, lists of tokens or sets, in the place of rows of features."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from threading import RLock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from mercer.data.checks import Rows, row_index
from mercer.data.rows import Data
from mercer.data.user_warnings import warn_user

Derived = TypeVar("Derived")

STRINGS, TOKENS, SETS = "strings", "lists of tokens", "sets"
_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((str,), STRINGS),
    ((list, tuple, np.ndarray), TOKENS),
    ((set, frozenset), SETS),
)

_MAKING = RLock()  # threads that evaluate blocks wait for each other where they derive the same from the rows


def _renew_lock() -> None:
    """Replace the lock in a forked process, where the thread that holds it may not exist."""
    global _MAKING
    _MAKING = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class Structured(Data):
    """Rows that are strings, lists of tokens, or sets of tokens, with their letters numbered.

    A letter is a character of a string (a Unicode code point) or a token: anything that can be hashed. Rows are
    views: :meth:`rows` shares the letters and what kernels have derived from them (counts of substrings, say).

    Parameters
    ----------
    rows : sequence of str, of lists of tokens, or of sets
        All of one kind; bytes are strings of ASCII letters.

    Attributes
    ----------
    kind : {"strings", "lists of tokens", "sets"}
    index : ndarray of int64
        Which of the numbered rows these are.

    Raises
    ------
    ValueError, TypeError
        If rows are of another kind, or of several; if tokens cannot be hashed.
    """

    def __init__(self, rows: Sequence[Any]) -> None:
        self._take(_Store(_row_array(rows), None), np.arange(len(rows)))

    def _take(self, store: _Store, index: npt.NDArray[np.int64]) -> None:
        self._store, self.index, self.kind = store, index, store.kind
        lengths = store.lengths[index]
        self.shape = index.size, int(lengths.max(initial=0))
        self.dtype = np.dtype(np.float64)
        self.nbytes = 4 * int(lengths.sum())
        self.copied_bytes = store.letters.nbytes

    @classmethod
    def _of(cls, store: _Store, index: npt.NDArray[np.int64]) -> Structured:
        rows = object.__new__(cls)
        rows._take(store, index)
        return rows

    def __repr__(self) -> str:
        return f"Structured(n={self.n}, kind={self.kind!r})"

    @property
    def stored(self) -> npt.NDArray[np.object_]:
        """The rows themselves, in an array of objects."""
        return self._store.rows[self.index]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of letters in each row, (n,)."""
        return self._store.lengths[self.index]

    @property
    def alphabet(self) -> tuple[Hashable, ...]:
        """The letters that occur in these rows: characters in their order, tokens in that of their first place."""
        occurs = np.zeros(len(self._store.numbers), dtype=bool)
        for i in self.index:
            occurs[self._store.letters[self._store.starts[i] : self._store.starts[i + 1]]] = True
        letters = tuple(letter for letter, number in self._store.numbers.items() if occurs[number])
        return tuple(sorted(letters)) if self.kind == STRINGS else letters  # type: ignore[type-var]

    @property
    def letters(self) -> npt.NDArray[np.int32]:
        """Letters of all numbered rows, one row after the other."""
        return self._store.letters

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where the numbered rows start among the letters, and where the last one ends."""
        return self._store.starts

    @property
    def numbers(self) -> dict[Hashable, int]:
        """The number of each letter."""
        return self._store.numbers

    @property
    def whole(self) -> Structured:
        """All numbered rows, of which these are some."""
        return Structured._of(self._store, np.arange(self._store.lengths.size))

    def derived(self, key: Hashable, make: Callable[[Structured], Derived]) -> Derived:
        """Return what `make` finds out about all numbered rows; it is found once, and kept under its key."""
        with _MAKING:
            if key not in self._store.derived:
                self._store.derived[key] = make(self.whole)
        value: Derived = self._store.derived[key]
        return value

    def rows(self, idx: Rows) -> Structured:
        """Return the chosen rows; their letters are shared, never copied."""
        return Structured._of(self._store, self.index[row_index(idx)])

    def like(self, other: Data) -> Structured:
        """Return these rows with letters numbered as those of `other`, which are numbered along with them."""
        if not isinstance(other, Structured):
            raise TypeError(f"{self.kind} cannot be used beside {other!r}")
        if other.kind != self.kind:
            raise TypeError(f"{self.kind} cannot be used beside {other.kind}")
        if self._store.holds(other._store):
            return self
        base = other._store
        _warn_of_case(self, base.numbers)
        return Structured._of(_Store(self.stored, base), np.arange(self.n) + base.lengths.size)

    def followed_by(self, other: Data) -> Structured:
        """Return these rows followed by those of `other`, with new numbers if they do not share theirs."""
        if not isinstance(other, Structured):
            raise TypeError(f"{self.kind} cannot be followed by {other!r}")
        if other._store is self._store:
            return self._of(self._store, np.concatenate([self.index, other.index]))
        return Structured([*self.stored, *other.stored])

    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return None: letters are not numbers."""
        del column_names
        return None


def together(a: Structured, b: Structured) -> tuple[Structured, Structured]:
    """Return both sides as views of the same numbered rows.

    Parameters
    ----------
    a, b : Structured

    Returns
    -------
    a, b : Structured
        The same rows, which kernels may compare by number.
    """
    if b._store is not a._store and b._store.holds(a._store):
        return Structured._of(b._store, a.index), b
    a = a.like(b)
    return a, Structured._of(a._store, b.index)


def _warn_of_case(rows: Structured, numbers: dict[Hashable, int]) -> None:
    """Warn if no letter of the strings is among the numbered ones, but in the other case (upper or lower) all are."""
    if rows.kind != STRINGS or not rows.n or not numbers:
        return
    letters = [letter for letter in rows.alphabet if isinstance(letter, str)]
    if (
        letters
        and not any(letter in numbers for letter in letters)
        and all(one.swapcase() in numbers for one in letters)
    ):
        warn_user(
            f"each row has letters only in the other case, upper or lower, than the rows beside it: {letters[0]!r} for "
            f"{letters[0].swapcase()!r}. They differ: convert the rows, as in [row.upper() for row in X]"
        )


def as_structured(X: Any) -> Structured:
    """Return strings, lists of tokens or sets as data.

    Parameters
    ----------
    X : sequence, one-dimensional array, string column of a table, or table of one such column

    Raises
    ------
    ValueError, TypeError
        If rows are neither strings nor lists of tokens nor sets, or not all of one kind; if X is one string.

    Examples
    --------
    >>> as_structured(["car", "cat"])
    Structured(n=2, kind='strings')
    """
    if isinstance(X, Structured):
        return X
    if isinstance(X, (str, bytes, set, frozenset, dict)):
        raise ValueError(f"X must be a list of rows, got one {type(X).__name__}: put it into a list")
    X = listed_column(X)
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) != 1:
        raise ValueError(
            f"X must be a list or column of strings, lists of tokens or sets, got shape {tuple(shape)}; "
            "rows of a table of bits are fingerprints, for Tanimoto()"
        )
    return Structured(list(X))


def listed_column(X: Any) -> Any:
    """Return the objects of a column as a list: of a series or array, or of a table with one column; others unchanged.

    A column of numbers is unchanged.
    """
    if hasattr(X, "to_pylist") and not hasattr(X, "column_names"):
        return X.to_pylist()  # an array of Arrow
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if issparse(X) or not shape or shape[0] == 0 or len(shape) > 2 or shape[1:] not in ((), (1,)):
        return X
    cells = X if len(shape) == 1 else np.asarray(X, dtype=object)[:, 0]
    first = next(iter(cells))
    if not any(hasattr(first, name) for name in ("__len__", "GetNumBits", "GetLength")):  # vectors of RDKit
        return X
    return [cell.to_list() if hasattr(cell, "to_list") else cell for cell in cells]


def looks_structured(X: Any) -> bool:
    """Return whether X is plainly a list or column of strings, lists of tokens or sets, and no table.

    Parameters
    ----------
    X : object

    Returns
    -------
    bool
        By its first row; of lists in a list, which may be a table, False.
    """
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and isinstance(X[0], (str, bytes, set, frozenset))
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 1 or shape[0] == 0 or issparse(X):
        return False
    return isinstance(next(iter(X)), (str, bytes, list, tuple, set, frozenset))


class _Store:
    """Numbered rows: those of `base` first, where there is one, then others.

    Letters that `base` numbers have the same numbers here.
    """

    rows: npt.NDArray[np.object_]
    kind: str
    letters: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]

    def __init__(self, rows: npt.NDArray[np.object_], base: _Store | None) -> None:
        self.base = base
        self.kind = base.kind if base is not None and not rows.size else _kind(rows)
        self.numbers: dict[Hashable, int] = {} if base is None else dict(base.numbers)
        letters, lengths = _numbered(rows, self.kind, self.numbers)
        if base is not None:
            rows = np.concatenate([base.rows, rows])
            letters = np.concatenate([base.letters, letters])
            lengths = np.concatenate([base.lengths, lengths])
        self.rows, self.letters, self.lengths = rows, letters, lengths
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.derived: dict[Hashable, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        # What kernels have derived is native memory, and can be derived again.
        return self.__dict__ | {"derived": {}}

    def holds(self, other: _Store) -> bool:
        """Whether rows of the other store have the same numbers, and their letters too, in this one."""
        return self is other or (self.base is not None and self.base.holds(other))


def _numbered(
    rows: npt.NDArray[np.object_], kind: str, numbers: dict[Hashable, int]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Number the letters of the rows, new ones last; return the letters of all rows, and the rows' lengths."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=rows.size)
    if kind == STRINGS:
        points = np.frombuffer("".join(rows).encode("utf-32-le", "surrogatepass"), dtype="<u4")
        distinct, places = np.unique(points, return_inverse=True)
        codes = [numbers.setdefault(chr(point), len(numbers)) for point in distinct]
        return np.array(codes, dtype=np.int32)[places], lengths
    try:
        flat = [numbers.setdefault(token, len(numbers)) for token in _tokens(rows)]
    except TypeError as error:
        raise TypeError(f"tokens must be hashable, such as strings, numbers or tuples: {error}") from error
    return np.array(flat, dtype=np.int32), lengths


def _tokens(rows: Iterable[Any]) -> Iterable[Any]:
    return chain.from_iterable(row.tolist() if isinstance(row, np.ndarray) else row for row in rows)


def _row_array(rows: Sequence[Any]) -> npt.NDArray[np.object_]:
    array = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        array[i] = _decoded(i, row) if isinstance(row, bytes) else row
    return array


def _decoded(i: int, row: bytes) -> str:
    try:
        return row.decode("ascii")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"row {i} holds bytes that are not ASCII ({error}): decode the rows, as in row.decode()"
        ) from None


def _kind(rows: npt.NDArray[np.object_]) -> str:
    kind_of_all = STRINGS
    for i, row in enumerate(rows):
        kind = next((name for types, name in _KINDS if isinstance(row, types)), None)
        if kind is None or (isinstance(row, np.ndarray) and row.ndim != 1):
            raise ValueError(
                f"every row must be a string, a list of tokens or a set, but row {i} is {_short(row)} of type "
                f"{type(row).__name__}"
            )
        kind_of_all = kind if i == 0 else kind_of_all
        if kind != kind_of_all:
            raise ValueError(f"rows must be of one kind, but row 0 is one of {kind_of_all} and row {i} one of {kind}")
    return kind_of_all


def _short(row: object) -> str:
    text = repr(row)
    return text if len(text) <= 40 else text[:40] + "..."
