"""Kernel values by sums and products of arrays of any library, on the device where its rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, final

import numpy as np

from mercer._typing import FloatArray
from mercer.data import Data, Dense
from mercer.gram.backends import MAX_EXPONENT_SPAN, exponent_span_of
from mercer.gram.places import Place
from mercer.kernels import Kernel
from mercer.kernels.program import NONNEGATIVE, PASSES, Op, Step, interpret
from mercer.kernels.views import After, Columns, Directions, Projected, View, seen

_MOST_VALUES = 1 << 21  # kernel values of a tile, 16 MiB: a tile takes less than 0.2 s on one core
_MOST_TERMS = 1 << 28  # terms of the sums of a tile, for the same reason
_TILES = 4  # tiles that are in memory at a time
_OF_BITS = (Op.MINIMUM, Op.TANIMOTO, Op.DICE)
"""Passes that need only inner products if all entries are 0 or 1."""
_MEMORY = 1 << 28  # bytes of these tiles if the machine has no memory_limit


@final
class ArrayKernel:
    """The values of a kernel between rows on a device and the vectors of a machine, in float64, tile by tile.

    The vectors are copied to the device once, which is the only transfer.

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel.
    vectors : Data
        Rows on the host, (n, p).
    place : Place
    memory_limit : int, optional
        Most bytes of the tiles.

    Raises
    ------
    TypeError
        If the kernel or the vectors cannot be evaluated by sums and products of dense rows.
    """

    def __init__(self, kernel: Kernel, vectors: Data, place: Place, memory_limit: int | None = None) -> None:
        program = kernel.lower()
        if program is None or not any(op in PASSES for op, _ in program):
            raise TypeError(
                f"{kernel!r} is not made of sums and products of columns, so that {place.name} cannot evaluate it: "
                "give a NumPy array or the like, and the host does."
            )
        if not isinstance(vectors, Dense):
            raise TypeError(
                f"{place.name} computes with dense rows, but the machine has {type(vectors).__name__} rows: train it "
                "on dense rows (X.toarray()), or predict on the host."
            )
        # Strict libraries refuse subclasses of float, such as a gamma that was found in data.
        program = tuple((op, float(value) if isinstance(value, float) else value) for op, value in program)
        self._kernel, self._program, self._place = kernel, program, place
        self.n, self.p = vectors.shape
        room = (_MEMORY if memory_limit is None else memory_limit) // (8 * _TILES)
        values = min(_MOST_VALUES, _MOST_TERMS // max(1, self.p), room)
        self._height = max(1, values // max(1, self.n))
        self._by_differences = exponent_span_of(program, vectors) > MAX_EXPONENT_SPAN
        self._vectors: dict[Step, Any] = {}  # by pass: the features that it reads
        self._centres: dict[Step, Any] = {}
        self._bits = set[Step]()  # passes over vectors of zeros and ones
        for step in program:
            if step[0] not in PASSES or step in self._vectors:
                continue
            self._refuse_view(step[1])
            features = seen(step[1], vectors).float64()
            if step[0] is Op.SQDIST:  # distances do not change, and keep more digits
                centre = features.mean(axis=0)
                self._centres[step] = place.put(centre)
                features = features - centre
            self._vectors[step] = place.put(features)
            if step[0] in _OF_BITS and ((features == 0.0) | (features == 1.0)).all():
                self._bits.add(step)

    def tiles(self, X: Any) -> Iterator[tuple[slice, Any]]:
        """Yield slices of the rows of X and their kernel values, (height, n)."""
        xp = self._place.xp
        for first in range(0, X.shape[0], self._height):
            rows = slice(first, min(first + self._height, X.shape[0]))
            part = X[rows, :]
            with np.errstate(all="ignore"):  # for a library that computes with NumPy; `times` looks at the results
                values = interpret(self._program, partial(self._tile, part), xp)
            yield rows, values

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

    def _tile(self, X: Any, step: Step) -> Any:
        """Return the tile of a pass."""
        xp, op = self._place.xp, step[0]
        if step not in self._vectors:  # of a constant, which needs the shape alone
            return self._place.xp.zeros((X.shape[0], self.n), dtype=xp.float64, device=self._place.device)
        left, right = self._seen(step[1], X), self._vectors[step]
        if op in NONNEGATIVE and left.shape[0] and bool(xp.any(left < 0.0)):
            raise ValueError(f"{self._kernel!r} is not defined for negative entries, but X has some.")
        if op is Op.DOT:
            return left @ right.mT
        if op is Op.SUM:
            return _outer_sum(xp.sum(left, axis=1), xp.sum(right, axis=1))
        if op is Op.SQDIST:
            left = left - self._centres[step]
            if not self._by_differences:
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
