"""Tables of many shapes for the grid of linear machines: dense, sparse, one-hot and text, all made from a seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

ENTRIES = 12  # values of a sparse row
WORDS = 25  # words of a message on average
GROUPS = 12  # categories of a row of a one-hot table, at most
NOISE = 0.5  # deviation of what is added to the scores of the classes, in deviations of the scores

Table = tuple[Any, npt.NDArray[Any]]


def dense(n: int, p: int) -> npt.NDArray[np.float32]:
    """Return normal columns that share some common factors."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((n, p), dtype=np.float32)
    count = min(p, 10)
    X += rng.standard_normal((n, count), dtype=np.float32) @ rng.standard_normal((count, p), dtype=np.float32) / 3
    return X


def sparse(n: int, p: int, entries: int = ENTRIES) -> sp.csr_array:
    """Return rows with a few normal numbers in columns that are equally likely."""
    rng = np.random.default_rng(12)
    columns = rng.integers(0, p, (n, min(entries, p)))
    return _csr(columns, rng.standard_normal(columns.shape), p)


def one_hot(n: int, p: int) -> sp.csr_array:
    """Return indicators of categories: in every group of columns, just one is 1, so that the columns are dependent."""
    rng = np.random.default_rng(13)
    ends = np.linspace(0, p, min(GROUPS, max(1, p // 3)) + 1).astype(np.int64)
    sizes = np.diff(ends)
    columns = ends[:-1] + (sizes * rng.random((n, sizes.size)) ** 2).astype(np.int64)  # the first are frequent
    return _csr(columns, np.ones(columns.shape), p)


def text(n: int, p: int) -> sp.csr_array:
    """Return tf-idf of short messages, whose words follow Zipf's law."""
    rng = np.random.default_rng(14)
    lengths = rng.poisson(WORDS, n) + 3
    odds = np.cumsum(1.0 / np.arange(2.0, p + 2.0))
    words = np.searchsorted(odds, odds[-1] * rng.random(lengths.sum()))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    counts = sp.csr_array((np.ones(words.size), words, ends), shape=(n, p))
    counts.sum_duplicates()
    return sp.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(counts), dtype=np.float32)


def _csr(columns: npt.NDArray[np.int64], values: npt.NDArray[np.float64], p: int) -> sp.csr_array:
    n, width = columns.shape
    rows = sp.csr_array((values.astype(np.float32).ravel(), columns.ravel(), width * np.arange(n + 1)), shape=(n, p))
    rows.sum_duplicates()
    return rows


KINDS: dict[str, Callable[[int, int], Any]] = {"dense": dense, "sparse": sparse, "one-hot": one_hot, "text": text}


def labelled(X: Any, n_classes: int) -> Table:
    """Return rows with classes of a linear rule and noise, or with numbers if there are no classes."""
    rng = np.random.default_rng(15)
    p = X.shape[1]
    scores = X @ rng.standard_normal((p, max(1, n_classes - (n_classes == 2)))).astype(np.float32)
    scores = scores / (scores.std(axis=0) + 1e-6)
    scores += NOISE * rng.standard_normal(scores.shape)
    if n_classes == 0:
        return X, scores[:, 0].astype(np.float64)
    y = (scores[:, 0] > np.median(scores[:, 0])).astype(np.int64) if n_classes == 2 else scores.argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)  # every class has a row
    return X, y


def table_name(kind: str, n: int, p: int, n_classes: int) -> str:
    """Return what a table is called; 0 classes stand for numbers."""
    return f"{kind} {n:,} × {p:,}, {f'{n_classes} classes' if n_classes else 'numbers'}"


def _made(make: Callable[[int, int], Any], n: int, p: int, n_classes: int) -> Table:
    return labelled(make(n, p), n_classes)


ROWS, COLUMNS, CLASSES = (20, 200, 5_000, 200_000), (3, 45, 300, 1_500, 2_500, 50_000), (2, 3, 23, 0)
MOST_NUMBERS = 60_000_000  # values of a dense table


def fits(kind: str, n: int, p: int, n_classes: int) -> bool:
    """Whether there is such a table: few enough numbers, and columns and rows enough for what it is."""
    if n_classes > n // 3:
        return False
    if kind == "dense":
        return n * p <= MOST_NUMBERS
    return p >= (300 if kind == "text" else 45)


def _tables() -> dict[str, Callable[[], Table]]:
    tables = {}
    for kind, make in KINDS.items():
        for n in ROWS:
            for p in COLUMNS:
                for n_classes in CLASSES:
                    if fits(kind, n, p, n_classes):
                        tables[table_name(kind, n, p, n_classes)] = partial(_made, make, n, p, n_classes)
    for kind, n, p, n_classes in ODD:
        tables[table_name(kind, n, p, n_classes)] = partial(_made, KINDS[kind], n, p, n_classes)
    tables[MANY_ENTRIES] = partial(_made, partial(sparse, entries=90), 8_000, 30_000, 8)
    return tables


ODD = [
    ("dense", 200, 220, 2),
    ("dense", 60, 1_500, 2),
    ("dense", 60, 1_500, 3),
    ("dense", 60, 2_500, 3),
    ("dense", 400, 1_500, 2),
    ("dense", 60_000, 100, 10),
    ("sparse", 50_000, 300, 2),
    ("one-hot", 30_000, 120, 2),
    ("text", 400, 10_017, 2),
    ("text", 7_400, 50_000, 23),
]
"""Tables between those of the grid, on which machines were slow or wrong."""

MANY_ENTRIES = "sparse 8,000 × 30,000 with 90 entries a row, 8 classes"

TABLES: dict[str, Callable[[], Table]] = _tables()
"""How each table is made."""
