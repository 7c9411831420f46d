"""Kernel values by sums and products of arrays of any library, on the device where its rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, final

import numpy as np

from mercer._typing import FloatArray
from mercer.data import Data, Dense
from mercer.data.lazy import lazy_property
from mercer.gram.backends import MAX_EXPONENT_SPAN
from mercer.gram.native import distance_sensitivity, most_factors
from mercer.gram.places import Place
from mercer.gram.rows.device_table import DeviceTable
from mercer.kernels import Kernel
from mercer.kernels.program import NONNEGATIVE, PASSES, Op, Step, interpret
from mercer.kernels.views import After, Columns, Directions, Projected, View

_MOST_VALUES = 1 << 21  # kernel values of a tile, 16 MiB: a tile takes less than 0.2 s on one core
_MOST_TERMS = 1 << 28  # terms of the sums of a tile, for the same reason
_TILES = 4  # tiles that are in memory at a time
_OF_BITS = (Op.MINIMUM, Op.TANIMOTO, Op.DICE)
"""Passes that need only inner products if all entries are 0 or 1."""
_MEMORY = 1 << 28  # bytes of these tiles if the machine has no memory_limit


@final
class ArrayKernel:
    """The values of a kernel between rows on a device, in float64, tile by tile.

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel.
    vectors : Data or DeviceTable
        The vectors of a machine, (n, p), which are copied to the device once: this is the only transfer. Or training
        rows that are there.
    place : Place
    memory_limit : int, optional
        Most bytes of the tiles.

    Attributes
    ----------
    values_per_tile : int

    Raises
    ------
    TypeError
        If the kernel or the vectors cannot be evaluated by sums and products of dense rows.
    """

    def __init__(
        self, kernel: Kernel, vectors: Data | DeviceTable, place: Place, memory_limit: int | None = None
    ) -> None:
        program = kernel.lower()
        if program is None or not any(op in PASSES for op, _ in program):
            raise TypeError(
                f"{kernel!r} is not made of sums and products of columns, so that {place.name} cannot evaluate it: "
                "give a NumPy array or the like, and the host does."
            )
        if not isinstance(vectors, Dense | DeviceTable):
            raise TypeError(
                f"{place.name} computes with dense rows, but the machine has {type(vectors).__name__} rows: train it "
                "on dense rows (X.toarray()), or predict on the host."
            )
        # Strict libraries refuse subclasses of float, such as a gamma that was found in data.
        program = tuple((op, float(value) if isinstance(value, float) else value) for op, value in program)
        self._kernel, self._program, self._place = kernel, program, place
        self.n, self.p = vectors.shape
        room = (_MEMORY if memory_limit is None else memory_limit) // (8 * _TILES)
        self.values_per_tile = max(1, min(_MOST_VALUES, _MOST_TERMS // max(1, self.p), room))
        self._steps = dict.fromkeys(step for step in program if step[0] in PASSES)
        for _, view in self._steps:
            self._refuse_view(view)
        self._rows = vectors if isinstance(vectors, DeviceTable) else DeviceTable(place.put(vectors.float64()), place)
        self._centres = {step: self._centre(step) for step in self._steps if step[0] is Op.SQDIST}
        self._bits = {step for step in self._steps if step[0] in _OF_BITS and self._are_bits(step)}
        self._span = sum(distance_sensitivity(program, step) * self._largest_square(step) for step in self._centres)
        self._by_differences = self._span > MAX_EXPONENT_SPAN

    @lazy_property
    def _vectors(self) -> dict[Step, Any]:
        """The features of all vectors, by the pass that reads them."""
        rows = self._rows.values(slice(None))
        return {step: self._read(step, rows) for step in self._steps}

    @lazy_property
    def roundoff(self) -> float:
        """About the relative error of a value, in units of roundoff; see :func:`mercer.gram.native.roundoff_of`."""
        width = max(self._read(step, self._rows.values(slice(0, 1))).shape[1] for step in self._steps)
        roundoff = (1.0 + 0.25 * width**0.5) * most_factors(self._program)
        if any(op is Op.TANH for op, _ in self._program):
            products = [step for step in self._steps if step[0] is Op.DOT]
            roundoff += sum(distance_sensitivity(self._program, one) * self._largest_square(one) for one in products)
        return roundoff + (0.0 if self._by_differences else 2.0 * self._span)

    def _blocks(self, step: Step) -> Iterator[Any]:
        """Yield the features of the vectors that a pass reads, block by block and without a centre."""
        return (self._seen(step[1], block) for _, block in self._rows.blocks())

    def _centre(self, step: Step) -> Any:
        """Return the mean of the features, which distances do not change with, and keep more digits around."""
        sums = [self._place.xp.sum(block, axis=0) for block in self._blocks(step)]
        return sum(sums[1:], sums[0]) / max(1, self.n) if sums else self._place.put(np.zeros(self.p))

    def _are_bits(self, step: Step) -> bool:
        return all(bool(self._place.xp.all((block == 0.0) | (block == 1.0))) for block in self._blocks(step))

    def _largest_square(self, step: Step) -> float:
        """Return the largest squared length of the features, from the centre if they have one."""
        largest, xp = 0.0, self._place.xp
        for block in self._blocks(step):
            apart = block - self._centres[step] if step in self._centres else block
            largest = max(largest, float(xp.max(xp.sum(apart * apart, axis=1))))
        return largest

    def tiles(self, X: Any) -> Iterator[tuple[slice, Any]]:
        """Yield slices of the rows of X and their kernel values, (height, n)."""
        height = max(1, self.values_per_tile // max(1, self.n))
        for first in range(0, X.shape[0], height):
            rows = slice(first, min(first + height, X.shape[0]))
            yield rows, self.block(X[rows, :])

    def block(self, left: Any, right: Any = None) -> Any:
        """Return the kernel values between rows, (left rows, right rows); with all vectors if there is no `right`."""
        with np.errstate(all="ignore"):  # for a library that computes with NumPy; `times` looks at the results
            return interpret(self._program, partial(self._tile, left, right), self._place.xp)

    def diagonal(self, X: Any) -> Any:
        """Return k(x, x) of rows."""
        with np.errstate(all="ignore"):
            return interpret(self._program, partial(self._itself, X), self._place.xp)

    def times(self, X: Any, vectors: FloatArray) -> Any:
        """Return the kernel values between the rows of X and all vectors, times `vectors`, (m, t).

        Raises
        ------
        ValueError
            If values are not finite.
        """
        xp, right = self._place.xp, self._place.put(vectors)
        parts = [values @ right for _, values in self.tiles(X)]
        out = xp.concat(parts, axis=0) if parts else self._place.put(np.zeros((0, vectors.shape[1])))
        if not bool(xp.all(xp.isfinite(out))):
            raise ValueError(
                f"values of {self._kernel!r} are not finite: they overflow double precision, or the rows hold NaN or "
                "infinity; scale the columns (for example to mean 0 and variance 1)"
            )
        return out

    def _refuse_view(self, view: View | float) -> None:
        parts = (view.first, view.then) if isinstance(view, After) else (view,)
        for part in parts:
            if isinstance(part, After):
                self._refuse_view(part)
            elif isinstance(part, View) and not isinstance(part, (Columns, Directions, Projected)):
                raise TypeError(
                    f"{self._kernel!r} reads rows through a function of Python, which {self._place.name} cannot call: "
                    "predict on the host."
                )

    def _seen(self, view: View | float, X: Any) -> Any:
        """Return the features that a pass reads; see :func:`mercer.kernels.views.seen`."""
        xp = self._place.xp
        match view:
            case After():
                return self._seen(view.then, self._seen(view.first, X))
            case Columns():
                return xp.take(X, self._place.put(np.array(view.chosen, dtype=np.int64)), axis=1)
            case Projected():
                return X @ self._place.put(np.array(view.matrix))
            case Directions():
                largest = xp.max(xp.abs(X), axis=1, keepdims=True)
                scaled = X / xp.where(largest > 0.0, largest, xp.ones_like(largest))
                length = xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))
                return scaled / xp.where(length > 0.0, length, xp.ones_like(length))
        return X

    def _read(self, step: Step, X: Any) -> Any:
        """Return the features of rows that a pass reads, minus the centre."""
        features = self._seen(step[1], X)
        if step[0] in NONNEGATIVE and features.shape[0] and bool(self._place.xp.any(features < 0.0)):
            raise ValueError(f"{self._kernel!r} is not defined for negative entries, but X has some.")
        return features - self._centres[step] if step in self._centres else features

    def _itself(self, X: Any, step: Step) -> Any:
        """Return the values of a pass between each row and itself."""
        xp, op = self._place.xp, step[0]
        nothing = xp.zeros((X.shape[0],), dtype=xp.float64, device=self._place.device)
        if step not in self._steps:
            return nothing
        features = self._read(step, X)
        if op is Op.DOT:
            return xp.sum(features * features, axis=1)
        if op in (Op.SUM, Op.MINIMUM):
            return (2.0 if op is Op.SUM else 1.0) * xp.sum(features, axis=1)
        return xp.ones_like(nothing) if op in _OF_BITS else nothing

    def _tile(self, X: Any, others: Any, step: Step) -> Any:
        """Return the tile of a pass."""
        xp, op = self._place.xp, step[0]
        if step not in self._steps:  # of a constant, which needs the shape alone
            shape = X.shape[0], self.n if others is None else others.shape[0]
            return xp.zeros(shape, dtype=xp.float64, device=self._place.device)
        left = self._read(step, X)
        right = self._vectors[step] if others is None else self._read(step, others)
        if op is Op.DOT:
            return left @ right.mT
        if op is Op.SUM:
            return _outer_sum(xp.sum(left, axis=1), xp.sum(right, axis=1))
        if op is Op.SQDIST and not self._by_differences:
            squares = _outer_sum(xp.sum(left * left, axis=1), xp.sum(right * right, axis=1))
            distances = squares - 2.0 * (left @ right.mT)
            return xp.where(distances < 0.0, xp.zeros_like(distances), distances)
        if op in _OF_BITS:
            are_bits = step in self._bits and bool(xp.all((left == 0.0) | (left == 1.0)))
            least = left @ right.mT if are_bits else self._by_columns(Op.MINIMUM, left, right)
            if op is Op.MINIMUM:
                return least
            sums = _outer_sum(xp.sum(left, axis=1), xp.sum(right, axis=1))
            above, below = (least, sums - least) if op is Op.TANIMOTO else (2.0 * least, sums)
            one = xp.ones_like(sums)
            return xp.where(sums > 0.0, above / xp.where(sums > 0.0, below, one), one)
        return self._by_columns(op, left, right)

    def _by_columns(self, op: Op, left: Any, right: Any) -> Any:
        """Return a sum over the columns of a function of two numbers, which takes no more memory than a tile."""
        term = _terms(self._place.xp)[op]
        total = self._place.xp.zeros((left.shape[0], right.shape[0]), dtype=left.dtype, device=self._place.device)
        for column in range(left.shape[1]):
            total = total + term(left[:, column][:, None], right[:, column][None, :])
        return total


def _outer_sum(left: Any, right: Any) -> Any:
    return left[:, None] + right[None, :]


def _terms(xp: Any) -> dict[Op, Callable[[Any, Any], Any]]:
    """Return the terms of the passes that are sums over columns of something else than products."""

    def chi2(x: Any, z: Any) -> Any:
        both, apart = x + z, x - z
        return xp.where(both > 0.0, apart * apart / xp.where(both > 0.0, both, xp.ones_like(both)), xp.zeros_like(both))

    return {
        Op.SQDIST: lambda x, z: (x - z) * (x - z),
        Op.L1: lambda x, z: xp.abs(x - z),
        Op.CHI2: chi2,
        Op.HAMMING: lambda x, z: xp.astype(x != z, xp.float64),
        Op.MINIMUM: xp.minimum,
    }
