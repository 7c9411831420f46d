"""A tree of median cuts: it divides rows into cells of about the same size, and finds the cell of a new row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data, Vectors
from mercer.data.rows import BLOCK_VALUES
from mercer.gram.backends import select_backend
from mercer.gram.threads import blas_threads
from mercer.kernels import Kernel, Linear
from mercer.solvers.loop import StopWork

OVERLAP = 0.1
"""Share of the rows nearest a cut that both sides are trained on."""

_SAMPLE = 256  # rows of a cut; 4,000 gave the same errors (benchmarks/NOTES.md, "cells")
_PIVOTS = 8  # rows whose mean is a centre of a cut; the mean of all rows of the sample would cost 16 times as much
_ROUNDS = 8  # of Lloyd's algorithm; the cut need not be the best one
_LEAST_SHARE = 0.05  # of the rows of a cut that each side must have, where ties do not allow halves
_SAME = 1e-12  # relative to the largest squared length: rows that are nearer count as equal

Check = Callable[[], None]


class Cell(NamedTuple):
    """The rows of a cell, ascending, and whether each has its home here: a new row like it would come to this cell."""

    rows: IndexArray
    is_home: npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, eq=False)
class MedianTree:
    """Cuts of the space of a kernel by planes, each through the median of the rows that it divides.

    A cut is a function t(x) = sum_j a_j k(x, z_j) of a few rows z_j, its pivots, and a threshold. Rows with
    t(x) <= threshold go to the first side.

    Attributes
    ----------
    kernel : Kernel
        The kernel k of the cuts; see :func:`kernel_of_cuts`.
    pivots : Data or None
        The pivots of all cuts, cut after cut; None if there is no cut.
    weights : ndarray of shape (n_pivots,)
        a_j of each pivot.
    edges : ndarray of int64 of shape (n_cuts + 1,)
        The pivots of cut c are those from edges[c] to edges[c + 1].
    thresholds : ndarray of shape (n_cuts,)
    sides : ndarray of int64 of shape (n_cuts, 2)
        Where the rows of each side go: the number of a cut, or -1 - k for cell k. Cut 0 is the first.
    rows : ndarray of int64 of shape (n_pivots,)
        The row of the data that each pivot was.
    """

    kernel: Kernel
    pivots: Data | None
    weights: FloatArray
    edges: IndexArray
    thresholds: FloatArray
    sides: IndexArray
    rows: IndexArray

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.thresholds.size + 1

    def cells_of(self, data: Data, *, n_jobs: int | None = None, check: Check | None = None) -> IndexArray:
        """Return the number of the cell of each row, (n,).

        Costs some 16 kernel values of the cuts for each row and each of log2(n_cells) cuts.
        """
        cell_of = np.zeros(data.n, dtype=np.int64)
        waiting = [(0, np.arange(data.n))] if self.thresholds.size else []
        while waiting:
            number, rows = waiting.pop()
            pivots = slice(self.edges[number], self.edges[number + 1])
            assert self.pivots is not None
            heights = _heights(
                self.kernel, data, rows, self.pivots.rows(pivots), self.weights[pivots], n_jobs=n_jobs, check=check
            )
            first = heights <= self.thresholds[number]
            for side, chosen in zip(self.sides[number].tolist(), (first, ~first), strict=True):
                if side < 0:
                    cell_of[rows[chosen]] = -1 - side
                elif chosen.any():
                    waiting.append((side, rows[chosen]))
        return cell_of


def divided(
    tree: MedianTree,
    data: Data,
    *,
    overlap: float = 0.0,
    margins: FloatArray | None = None,
    n_jobs: int | None = None,
    check: Check | None = None,
) -> tuple[list[Cell], FloatArray]:
    """Return the rows of each cell of a tree, and for each cut the distance up to which rows are on both sides.

    Without `margins`, the distances are those that `overlap` asks for: with the rows and the overlap that have grown
    the tree, the cells are the same but for ties. They divide other rows alike, part by part.
    """
    lengths = np.full(tree.thresholds.size, -1.0) if margins is None else margins
    cells = [Cell(np.arange(data.n), np.ones(data.n, dtype=bool))] * tree.n_cells
    waiting = [(0, cells[0])] if tree.thresholds.size else []
    while waiting:
        number, node = waiting.pop()
        pivots, threshold = slice(tree.edges[number], tree.edges[number + 1]), tree.thresholds[number]
        heights = np.empty(0)
        if node.rows.size:
            assert tree.pivots is not None
            heights = _heights(
                tree.kernel, data, node.rows, tree.pivots.rows(pivots), tree.weights[pivots], n_jobs=n_jobs, check=check
            )
        away = np.abs(heights - threshold)
        if margins is None:
            lengths[number] = _length_of_share(away, overlap)
        near = away <= lengths[number]
        first = heights <= threshold
        for side, inside in zip(tree.sides[number].tolist(), (first, ~first), strict=True):
            part = Cell(node.rows[inside | near], (node.is_home & inside)[inside | near])
            if side < 0:
                cells[-1 - side] = part
            else:
                waiting.append((side, part))
    return cells, lengths


def _length_of_share(distances: FloatArray, share: float) -> float:
    """Return a length that so large a share of the distances does not exceed, half way to the next one; -1 for none."""
    n_near = int(share * distances.size)
    if not n_near:
        return -1.0
    ordered = np.sort(distances)
    following = float(ordered[n_near]) if n_near < ordered.size else float(ordered[-1])
    return float(ordered[n_near - 1]) + 0.5 * (following - float(ordered[n_near - 1]))


def kernel_of_cuts(kernel: Kernel, data: Data) -> Kernel:
    """Return the kernel whose space is cut: that of the columns if the kernel reads columns of numbers, else its own.

    The distance in the space of a Gaussian kernel grows with the distance of the columns, but is the same for all rows
    that are far apart; planes between columns then divide the rows better.
    """
    return Linear() if isinstance(data, Vectors) and kernel.lower() is not None else kernel


def grow(
    kernel: Kernel,
    data: Data,
    cell_rows: int,
    *,
    overlap: float = OVERLAP,
    rows: IndexArray | None = None,
    n_jobs: int | None = None,
    check: Check | None = None,
) -> tuple[MedianTree, list[Cell]]:
    """Divide rows into cells in which at most `cell_rows` rows have their home.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the machine, with numbers for its parameters.
    data : Data
    cell_rows : int
    overlap : float, default 0.1
        Share of the rows of a cut, those nearest to it, that both sides are trained on.
    rows : ndarray of int64, optional
        The rows that are divided, ascending; all rows by default.
    n_jobs, check : optional
        Threads, and a function that is called between parts of the work. If it raises `StopWork`, the nodes that there
        are by then are cut no further, and become cells.

    Returns
    -------
    tree : MedianTree
    cells : list of Cell
        Every row has its home in one cell. A cell is larger than `cell_rows` if no plane divides its rows, because they
        are equal.

    Notes
    -----
    Nothing depends on random numbers of the caller: the same rows give the same tree. Costs for each of log2(n_cells)
    levels a pass over the rows with 16 kernel values each, and for each cut a matrix of 256 rows.
    """
    cut_kernel = kernel_of_cuts(kernel, data)
    growing = _Growing(cut_kernel, data, cell_rows, overlap, n_jobs, check)
    start = np.arange(data.n) if rows is None else rows
    with blas_threads(_SAMPLE**2):
        return growing.run(Cell(start, np.ones(start.size, dtype=bool)))


class _Growing:
    """The cuts and cells of a tree that is being grown."""

    def __init__(
        self, kernel: Kernel, data: Data, cell_rows: int, overlap: float, n_jobs: int | None, check: Check | None
    ) -> None:
        self.kernel, self.data, self.cell_rows, self.overlap = kernel, data, cell_rows, overlap
        self.about: dict[str, Any] = {"n_jobs": n_jobs, "check": check}
        self.random, self.is_stopped = np.random.default_rng(0), False
        self.pivots: list[Data] = []
        self.rows: list[IndexArray] = []
        self.weights: list[FloatArray] = []
        self.thresholds: list[float] = []
        self.sides: list[list[int]] = []
        self.cells: list[Cell] = []

    def run(self, all_rows: Cell) -> tuple[MedianTree, list[Cell]]:
        """Cut until every cell is small enough."""
        waiting: list[tuple[Cell, int, int]] = [(all_rows, -1, 0)]
        while waiting:
            node, above, side = waiting.pop()
            cut = self.cut_in_time(node)
            if cut is None:
                self.cells.append(node)
            else:
                self.sides.append([0, 0])
            if above >= 0:
                self.sides[above][side] = -len(self.cells) if cut is None else len(self.sides) - 1
            if cut is not None:
                number = len(self.sides) - 1
                waiting += [(part, number, k) for k, part in enumerate(cut)]
        pivots = self.pivots[0] if self.pivots else None
        for more in self.pivots[1:]:
            assert pivots is not None
            pivots = pivots.followed_by(more)
        tree = MedianTree(
            self.kernel,
            pivots,
            np.concatenate(self.weights) if self.weights else np.empty(0),
            np.cumsum([0, *(one.size for one in self.weights)]),
            np.array(self.thresholds),
            np.array(self.sides, dtype=np.int64).reshape(-1, 2),
            np.concatenate(self.rows) if self.rows else np.empty(0, dtype=np.int64),
        )
        return tree, self.cells

    def cut_in_time(self, node: Cell) -> tuple[Cell, Cell] | None:
        """Divide the rows of a node if they are too many; None if they are not, or after a stop."""
        if self.is_stopped or np.count_nonzero(node.is_home) <= self.cell_rows:
            return None
        try:
            return self.cut(node)
        except StopWork:
            self.is_stopped = True
            return None

    def cut(self, node: Cell) -> tuple[Cell, Cell] | None:
        """Divide the rows of a node by the median along the line between two centres; None if they are equal."""
        sample = node.rows
        if sample.size > _SAMPLE:
            sample = np.sort(self.random.choice(sample, _SAMPLE, replace=False))
        pivots = self._pivots(self.data.rows(sample))
        if pivots is None:
            return None
        chosen, weights = pivots
        centres = self.data.rows(sample[chosen])
        heights = _heights(self.kernel, self.data, node.rows, centres, weights, **self.about)
        threshold = middle(heights[node.is_home])
        if threshold is None:
            return None
        self.pivots.append(centres)
        self.rows.append(sample[chosen])
        self.weights.append(weights)
        self.thresholds.append(threshold)
        first = heights <= threshold
        near = np.zeros(first.size, dtype=bool)
        n_near = int(self.overlap * first.size)
        if n_near:
            near[np.argpartition(np.abs(heights - threshold), n_near - 1)[:n_near]] = True
        parts = [Cell(node.rows[inside | near], (node.is_home & inside)[inside | near]) for inside in (first, ~first)]
        return parts[0], parts[1]

    def _pivots(self, sample: Data) -> tuple[IndexArray, FloatArray] | None:
        """Return the rows of two centres and their weights, by Lloyd's algorithm in the kernel's space."""
        K = self._inner_products(sample)
        lengths = K.diagonal()
        to_mean = lengths - 2.0 * K.mean(axis=1) + K.mean()
        ends = [int(to_mean.argmax())]
        ends.append(int((lengths - 2.0 * K[ends[0]]).argmax()))
        far = lengths[ends[0]] + lengths[ends[1]] - 2.0 * K[ends[0], ends[1]]
        if not far > _SAME * np.abs(lengths).max(initial=0.0):
            return None
        second = lengths[ends[1]] - 2.0 * K[ends[1]] < lengths[ends[0]] - 2.0 * K[ends[0]]
        for _ in range(_ROUNDS):
            distances = _distances_to_means(K, second)
            closer = distances[1] < distances[0]
            if closer.all() or not closer.any() or np.array_equal(closer, second):
                break
            second = closer
        distances = _distances_to_means(K, second)
        groups = [np.flatnonzero(~second), np.flatnonzero(second)]
        nearest = [group[np.argsort(of_group[group], kind="stable")[:_PIVOTS]]
                   for group, of_group in zip(groups, distances, strict=True)]  # fmt: skip
        weights = [np.full(rows.size, sign / rows.size) for rows, sign in zip(nearest, (-1.0, 1.0), strict=True)]
        return np.concatenate(nearest), np.concatenate(weights)

    def _inner_products(self, sample: Data) -> FloatArray:
        """Return kernel values of the sample, in a form whose distances keep digits whatever the columns' offset is."""
        if isinstance(self.kernel, Linear) and isinstance(sample, Vectors):
            rows = sample.dense() if sample.p * sample.n <= BLOCK_VALUES else None
            if rows is not None:
                size = np.abs(rows).max(initial=0.0)
                rows = rows / size if size > 0.0 else rows
                rows = rows - rows.mean(axis=0)
                return rows @ rows.T
        return self.kernel.block(sample, sample)


def middle(heights: FloatArray) -> float | None:
    """Return the number that divides the heights into halves, or as nearly as ties allow; None if it cannot.

    It lies half way between two different heights, so that rounding does not move a row to the other side.

    Examples
    --------
    >>> middle(np.array([3.0, 1.0, 2.0, 8.0])), middle(np.array([1.0, 1.0, 1.0, 8.0])), middle(np.ones(4))
    (2.5, 4.5, None)
    """
    ordered = np.sort(heights)
    steps = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # a cut before each of these divides the rows
    if not steps.size:
        return None
    best = int(steps[np.abs(2 * steps - heights.size).argmin()])
    if min(best, heights.size - best) < _LEAST_SHARE * heights.size:
        return None
    below, above = float(ordered[best - 1]), float(ordered[best])
    between = below + 0.5 * (above - below)
    return between if below <= between < above else below


def _distances_to_means(K: FloatArray, second: npt.NDArray[np.bool_]) -> list[FloatArray]:
    """Return the squared distances of all rows to the mean of each group, less k(x, x)."""
    distances = []
    for member in (~second, second):
        share = member / np.count_nonzero(member)
        products = K @ share
        distances.append(share @ products - 2.0 * products)
    return distances


def _heights(
    kernel: Kernel,
    data: Data,
    rows: IndexArray,
    pivots: Data,
    weights: FloatArray,
    *,
    n_jobs: int | None,
    check: Check | None,
) -> FloatArray:
    """Return t(x) of the chosen rows, in parts between which `check` is called."""
    backend, _ = select_backend(kernel, pivots, n_jobs=n_jobs)
    left = data.like(pivots)
    heights = np.empty(rows.size)
    step = max(1, 4 * backend.values_per_call // max(1, pivots.n))
    for first in range(0, rows.size, step):
        part = slice(first, first + step)
        heights[part] = backend.matvec(left, rows[part], pivots, None, weights[:, None])[:, 0]
        if check is not None:
            check()
    return heights
