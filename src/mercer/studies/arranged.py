"""Rows that a study must not part: copies, groups that a column names, and the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mercer.data import Result, Table, TableError, check_choice, hashes_of_each, text_hash
from mercer.model_selection import Arrangement, EqualRows, InTime, Together, content_ranks, equal_rows
from mercer.studies.examination import NearCopies, near_copies
from mercer.studies.tables import DateOrder, Labels, Truth, times_of

Copies = Literal["together", "apart"]
"""What is done about copies of rows: they stay on one side of the seal and of folds, or are rows of their own."""

GROUPS = "its values say which rows belong together"
TIME = "it is the order of the rows in time"
"""Reasons why the columns that arrange the rows are not used to predict."""


@dataclass(frozen=True, eq=False, repr=False)
class Arranged(Result):
    """The arrangement of the rows of a study, and what it comes from.

    Attributes
    ----------
    arrangement : Together or InTime
        Of the rows whose target is known.
    equal : EqualRows
        Which of these rows are equal in the columns used.
    groups, time : str or None
        The column that names groups, and the column of time.
    copies : {"together", "apart"}
    near : NearCopies or None
        Groups of nearly equal rows that stay together although no column was said to name them.
    named : ndarray of int64, or None
        The group of each row if there are groups and a time. A group is on the side of its last time.
    """

    arrangement: Arrangement
    equal: EqualRows
    groups: str | None
    time: str | None
    copies: Copies
    near: NearCopies | None = None
    named: npt.NDArray[np.int64] | None = None

    def __str__(self) -> str:
        given = [f"{name}={value!r}" for name, value in (("groups", self.groups), ("time", self.time)) if value]
        return f"Arranged({', '.join([*given, f'copies {self.copies}'])})"

    def _columns(self) -> dict[str, Any]:
        """Return the unit of each row, within which rows stay together."""
        units = self.units
        return {"unit": list(range(len(self.equal.groups))) if units is None else units.tolist()}

    @property
    def keeps_copies(self) -> bool:
        """Whether there are copies that stay together."""
        return self.copies == "together" and self.time is None and self.equal.are_copies

    @property
    def units(self) -> npt.NDArray[np.int64] | None:
        """The group of each row, for intervals; None if every row is alone."""
        if isinstance(self.arrangement, Together) and not self.arrangement.are_single:
            return self.arrangement.groups
        return self.named

    def of(self, rows: npt.NDArray[np.int64]) -> Arranged:
        """Return the arrangement of only these rows."""
        equal = replace(self.equal, groups=Together(self.equal.groups).of(rows).groups)
        named = None if self.named is None else self.named[rows]
        return replace(self, arrangement=self.arrangement.of(rows), equal=equal, named=named)

    def strata(self, truth: Truth, at_least: int) -> npt.NDArray[np.int64]:
        """Return the stratum of each row, by which splits are stratified."""
        if isinstance(truth, Labels) or not isinstance(self.arrangement, Together):
            return truth.strata(at_least)
        of_groups = replace(truth, values=self.arrangement.middles(truth.values))
        return np.asarray(of_groups.strata(at_least)[self.arrangement.groups])


class Arranger:
    """Arranges the rows of a table by columns.

    Parameters
    ----------
    table : Table
    truth : Labels or Quantities
    groups, time : str, optional
        Columns. With both, a group is as late as its last row.
    copies : {"together", "apart"}
    date_order : {"dmy", "mdy"}, optional
        How dates such as 3/4/2024 in the column of time are read.
    """

    def __init__(
        self,
        table: Table,
        truth: Truth,
        groups: str | None,
        time: str | None,
        copies: Copies,
        date_order: DateOrder | None = None,
    ) -> None:
        check_choice("copies", copies, ("together", "apart"))
        if groups is not None and groups == time:
            raise TableError(
                f"column {groups!r} cannot name the groups and the time of rows at once", "name another one"
            )
        for name in filter(None, (groups, time)):
            if name == truth.target:
                raise TableError(f"the target {name!r} cannot say how rows are split", "name another column")
            if (missing := table.missing(name)[truth.rows]).any():
                row = int(truth.rows[int(np.argmax(missing))]) + 1
                raise TableError(
                    f"column {name!r} says how rows are split, but is missing in row {row}",
                    "fill it in, or leave the row out",
                )
        self.used, self.groups, self.time, self.copies = table.take(truth.rows), groups, time, copies
        self.truth = truth
        self.date_order = date_order

    def by(self, columns: Sequence[str], *, find_near: bool = True) -> Arranged:
        """Return the arrangement in which rows are copies that are equal in these columns.

        Unless it was said which rows belong together, groups of nearly equal rows are looked for, if `find_near`.
        """
        seen = self.used.select(columns)
        equal = equal_rows(seen)
        if self.time is not None:
            moments = times_of(self.used, self.time, self.date_order)
            if self.groups is None:
                return Arranged(InTime(moments), equal, None, self.time, self.copies)
            named = Together.by(self.used[self.groups].astype(str)).groups
            order = InTime.of_groups(moments, named)
            return Arranged(order, equal, self.groups, self.time, self.copies, named=named)
        keys, near, hashes = [], None, content_ranks(seen)
        if self.groups is not None:
            keys = [self.used[self.groups].astype(str)]
            hashes = hashes_of_each(keys[0], text_hash)
        if self.copies == "together" and equal.are_copies:
            keys.append(equal.groups)
        if self.copies == "together" and self.groups is None and find_near:
            near = near_copies(self.used, columns, self.truth, equal.groups, hashes)
            keys += [] if near is None else [near.groups]
        # The cells of rows that are alone have no part in their split.
        together = Together.by(*keys, hashes=hashes) if keys else Together(np.arange(self.used.n_rows))
        return Arranged(together, equal, self.groups, self.time, self.copies, near)
