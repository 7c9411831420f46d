"""Sums over the rows of a problem, which are in memory, in a file, or with workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mercer.cluster import join
from mercer.gram.rows.placed_rows import PlacedRows
from mercer.gram.rows.table_rows import Block, LinearRows


class SumsOverRows:
    """A problem with rows, over which it sums functions of its blocks."""

    rows: LinearRows

    def parts(self) -> Iterator[Any]:
        """Return the blocks of rows with what the problem adds to them."""
        raise NotImplementedError

    def row_parts(self) -> Iterator[Any]:
        """Return the same parts, whose blocks may have no table."""
        return self.parts()

    def part_of(self, block: Block) -> Any:
        """Return a block of rows with what the problem adds to it."""
        raise NotImplementedError

    def total(
        self,
        of_part: Callable[..., Any],
        *arguments: Any,
        check: Callable[[], None] | None = None,
        reads_table: bool = True,
    ) -> Any:
        """Return the sum of ``of_part(part, *arguments)`` over the parts; see :func:`mercer.cluster.join`.

        Parameters
        ----------
        of_part : callable
            A function of a module, since it and its arguments may travel to workers. It may change arguments in place
            only if they are numbers of the rows, at the positions of the part.
        *arguments
        check : callable, optional
            Called while workers work, and before each block that is read here; raises to stop.
        reads_table : bool
            Whether it needs the tables of the blocks; a file need not read them otherwise.
        """
        if isinstance(self.rows, PlacedRows):
            return self.rows.total(partial(_of_block, self, of_part, arguments), check)
        sums = None
        for part in self.parts() if reads_table else self.row_parts():
            if check is not None:
                check()
            sums = join(sums, of_part(part, *arguments))
        return sums

    def each(self, of_part: Callable[..., None], *arguments: Any, reads_table: bool = True) -> None:
        """Call ``of_part(part, *arguments)``, which changes numbers of the rows, for all parts; see :meth:`total`."""
        if isinstance(self.rows, PlacedRows):
            self.rows.each(partial(_of_block, self, of_part, arguments))
            return
        for part in self.parts() if reads_table else self.row_parts():
            of_part(part, *arguments)

    @property
    def total_charge(self) -> float:
        """Sum of the charges of all rows."""
        return float(self.total(_charge, reads_table=False))


def _charge(part: Any) -> float:
    return float(part.charges.sum())


def _of_block(problem: SumsOverRows, of_part: Callable[..., Any], arguments: tuple[Any, ...], block: Block) -> Any:
    return of_part(problem.part_of(block), *arguments)
