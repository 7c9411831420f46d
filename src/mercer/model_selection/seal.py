"""A test part under seal: it gives one clean estimate, and remembers every later look."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import numpy as np

from mercer.model_selection.splits import stratified_holdout

Result = TypeVar("Result")


@dataclass(frozen=True)
class Opening:
    """One look at the test part: what for, when, and whether it was the first."""

    purpose: str
    time: datetime
    number: int

    @property
    def clean(self) -> bool:
        """Whether nothing could have been chosen with knowledge of the test part: only the first look is clean."""
        return self.number == 1


@dataclass
class Seal:
    """The record of a test part; every look adds an entry.

    Attributes
    ----------
    n_test : int
        Number of sealed rows.
    sealed_at : datetime
    openings : tuple of Opening
        Every look so far, the first one first.
    """

    n_test: int
    sealed_at: datetime
    openings: tuple[Opening, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether the test part was opened at most once."""
        return len(self.openings) <= 1

    def note(self, purpose: str) -> Opening:
        """Record a look."""
        opening = Opening(purpose, datetime.now(UTC), len(self.openings) + 1)
        self.openings += (opening,)
        return opening

    def __str__(self) -> str:
        rows = f"test part of {self.n_test} {'row' if self.n_test == 1 else 'rows'}, sealed {_moment(self.sealed_at)}"
        if not self.openings:
            return f"{rows}: never opened"
        openings = "; ".join(f"{one.purpose}, {_moment(one.time)}" for one in self.openings)
        if self.clean:
            return f"{rows}: opened once ({openings})"
        return f"{rows}: opened {len(self.openings)} times ({openings}); after the first look it is no longer clean"


def _moment(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True)
class Unsealed(Generic[Result]):
    """What a look at the test part gave, with the record of the look."""

    value: Result
    opening: Opening


class SealedTest:
    """Rows set aside for a single, final estimate.

    The rows are handed only to the function given to `open`, and each opening is recorded; `rest` is free to use.

    Parameters
    ----------
    rest, test : ndarray of int
        The rows that are free to use, and those that are sealed; both sorted, and together all rows.

    Attributes
    ----------
    rest : ndarray of int
    n_test : int
        Number of sealed rows.
    openings : tuple of Opening
        Every look so far.
    seal : Seal
        The record of all looks, which can be stored with a model.

    Examples
    --------
    >>> import numpy as np
    >>> sealed = SealedTest.stratified(np.array([0, 1] * 20), test_size=0.25)
    >>> sealed.open(len, "count the rows").value
    10
    >>> sealed.open(len, "count them again").opening.clean
    False
    """

    def __init__(self, rest: np.ndarray, test: np.ndarray) -> None:
        self._n = len(rest) + len(test)
        self.rest, self._test = rest, test
        self.seal = Seal(len(self._test), datetime.now(UTC))

    @classmethod
    def stratified(cls, codes: np.ndarray, *, test_size: float = 0.25, seed: int = 0) -> SealedTest:
        """Seal a share of the rows of each class; the same seed seals the same rows."""
        return cls(*stratified_holdout(codes, test_size, seed))

    @property
    def n_test(self) -> int:
        """Number of sealed rows."""
        return len(self._test)

    @property
    def sealed_at(self) -> datetime:
        """When that was."""
        return self.seal.sealed_at

    @property
    def openings(self) -> tuple[Opening, ...]:
        """Every look so far, the first one first."""
        return self.seal.openings

    def restrict(self, rows: np.ndarray) -> SealedTest:
        """Return the seal restricted to some rows (ascending indices), which are renumbered; no row changes sides."""
        position = np.full(self._n, -1)
        position[rows] = np.arange(len(rows))
        part = copy(self)
        part._n = len(rows)
        part.rest, part._test = (positions[positions >= 0] for positions in (position[self.rest], position[self._test]))
        part.seal = Seal(len(part._test), self.sealed_at, self.openings)
        return part

    def check(self, accept: Callable[[np.ndarray], object]) -> None:
        """Let `accept` raise if it finds sealed rows that cannot be used; whatever it returns stays under the seal."""
        accept(self._test.copy())

    def open(self, evaluate: Callable[[np.ndarray], Result], purpose: str) -> Unsealed[Result]:
        """Call `evaluate` with the indices of the sealed rows, and record that it was done.

        The look is recorded before the call: one that fails has been a look as well.
        """
        opening = self.seal.note(purpose)
        return Unsealed(evaluate(self._test.copy()), opening)
