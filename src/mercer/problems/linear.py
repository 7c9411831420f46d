"""The problem that a linear machine solves, as a frozen value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.data.lazy import lazy_property
from mercer.gram.rows.table_rows import Block, LinearRows, charges_of
from mercer.problems.losses import LinearLoss
from mercer.problems.row_sums import SumsOverRows


class Bias(StrEnum):
    """Whether f has a bias, and whether the penalty counts its weight like those of the columns."""

    NONE = "none"
    PENALISED = "penalised"
    FREE = "free"


class Part(NamedTuple):
    """A block of rows with the targets and the charges of one problem, (m,) each."""

    block: Block
    targets: FloatArray
    charges: FloatArray


@dataclass(frozen=True, eq=False)
class LinearProblem(SumsOverRows):
    """A linear machine f(x) = <w, x> + b.

    **Solves**, with the share r of the l1 norm (`l1_ratio`),

        min  r ||w||_1 + (1 - r) / 2 ||w||^2 + sum_i C_i l(f(x_i); y_i),   C_i = C * weight of the row and of its class

    With a penalised bias, the table has one more column, whose values are `scaling`; its weight u is an element of w,
    and b = scaling * u. With a free bias, that column has values 1 and the penalty does not count its weight.

    Parameters
    ----------
    rows : LinearRows
    loss : LinearLoss
    C : float
        With C = inf and the hinge loss, no loss is allowed: the machine has the maximal margin.
    l1_ratio : float
        r in [0, 1]: 0 is the l2 penalty, 1 the l1 penalty, and values between are elastic nets.
    bias : Bias
    scaling : float
        Value of the column of a penalised bias, > 0.
    positive : int, optional
        For losses that classify: the number of the class whose target is +1; all others have -1.
    class_weights : ndarray of shape (n_classes,), optional
        For losses that classify: the factor of C of each class, by its number.
    stores_parts : bool
        Whether targets and charges are computed once and kept, 16 bytes for each row. Blocks read from a file are not.
    """

    rows: LinearRows
    loss: LinearLoss
    C: float = 1.0
    l1_ratio: float = 0.0
    bias: Bias = Bias.PENALISED
    scaling: float = 1.0
    positive: int | None = None
    class_weights: FloatArray | None = None
    stores_parts: bool = False

    @property
    def constant(self) -> float:
        """Value of the column of the bias; 0 without a bias."""
        return {Bias.NONE: 0.0, Bias.PENALISED: self.scaling, Bias.FREE: 1.0}[self.bias]

    @property
    def n_columns(self) -> int:
        """Number of columns, including that of the bias."""
        return self.rows.p + (self.bias is not Bias.NONE)

    @property
    def counted(self) -> FloatArray:
        """1 for every column whose weight the penalty counts and 0 for that of a free bias, (n_columns,)."""
        counted = np.ones(self.n_columns)
        if self.bias is Bias.FREE:
            counted[-1] = 0.0
        return counted

    @property
    def l1_weights(self) -> FloatArray:
        """Factor of |w_j| in the penalty, (n_columns,)."""
        return self.l1_ratio * self.counted

    @property
    def l2_weights(self) -> FloatArray:
        """Factor of w_j^2 / 2 in the penalty, (n_columns,)."""
        return (1.0 - self.l1_ratio) * self.counted

    def penalty(self, w: FloatArray) -> float:
        """Return the penalty of weights."""
        l2 = 0.5 * float(self.l2_weights @ np.square(w)) if self.l1_ratio < 1.0 else 0.0
        return l2 + (float(self.l1_weights @ np.abs(w)) if self.l1_ratio > 0.0 else 0.0)

    def penalty_excess(self, w: FloatArray, pull: FloatArray) -> float:
        """Return by how much penalty(w) - <pull, w> exceeds its minimum over w, as a sum of numbers >= 0.

        With the l1 penalty alone, |pull_j| must be at most 1.
        """
        l1, l2 = self.l1_weights, self.l2_weights
        inside = np.clip(pull, -l1, l1)
        apart = float((self.counted * (l1 * np.abs(w) - inside * w)).sum())
        if self.l1_ratio < 1.0:
            apart += 0.5 * float(self.counted @ np.square(l2 * w - (pull - inside))) / (1.0 - self.l1_ratio)
        return apart

    def parts(self) -> Iterator[Part]:
        """Return the blocks of rows with the targets and charges of this problem."""
        return iter(self._stored) if self._is_stored else self._parts(self.rows.blocks())

    def row_parts(self) -> Iterator[Part]:
        """Return the same parts, whose blocks may have no table."""
        return iter(self._stored) if self._is_stored else self._parts(self.rows.blocks_of_numbers())

    @property
    def _is_stored(self) -> bool:
        return self.stores_parts and self.rows.keeps_blocks

    @lazy_property
    def _stored(self) -> tuple[Part, ...]:
        return tuple(self._parts(self.rows.blocks()))

    def _parts(self, blocks: Iterator[Block]) -> Iterator[Part]:
        return map(self.part_of, blocks)

    def part_of(self, block: Block) -> Part:
        """Return a block of rows with its targets and charges."""
        if not self.loss.classifies:
            return Part(block, block.labels, charges_of(self.C, block.weights))
        factors = None if self.class_weights is None else self.class_weights[block.labels.astype(np.intp)]
        targets = np.where(block.labels == self.positive, 1.0, -1.0)
        return Part(block, targets, charges_of(self.C, block.weights, factors))

    def split(self, w: FloatArray) -> tuple[FloatArray, float]:
        """Return the normal vector (p,) and the bias b of a solution of shape (n_columns,)."""
        if self.bias is Bias.NONE:
            return w, 0.0
        return w[:-1], float(w[-1] * self.constant)
