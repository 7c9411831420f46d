"""Several optimisers on one problem: their runs as a table, and a picture of their gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from mercer.data.result import Result, columns_of_rows
from mercer.optimisers.base import MeasuredProblem, Optimiser, Run, TraceRow
from mercer.plot import GapDisplay
from mercer.solvers.interruption import Interruption


@final
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result, Sequence[Run]):
    """The runs of several optimisers on one problem, in order; printed as a table.

    Attributes
    ----------
    runs : tuple of Run
    """

    runs: tuple[Run, ...]

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __getitem__(self, number):  # type: ignore[no-untyped-def]
        return self.runs[number]

    def plot(self, ax: Any = None) -> GapDisplay:
        """Draw relative gaps against seconds, and against kernel values; see :class:`mercer.plot.GapDisplay`.

        The picture needs the extra ``plot``. Runs without a bound of the optimum (perceptrons) are left out.

        Returns
        -------
        GapDisplay
        """
        return GapDisplay.from_runs(self.runs, ax=ax)

    def _columns(self) -> dict[str, Any]:
        """Return a row for each optimiser."""
        ends = columns_of_rows((run.certificate for run in self.runs), (*TraceRow._fields, "gap", "relative_gap"))
        names = {"optimiser": [repr(run.optimiser) for run in self.runs]}
        return {**names, "status": [str(run.status) for run in self.runs], **ends}

    def __str__(self) -> str:
        head = f"{'optimiser':<32}{'status':<12}{'steps':>10} {'unit':<8}{'seconds':>9}{'kernel values':>15}{'gap':>10}"
        rows = [
            f"{run.optimiser!r:<32}{run.status:<12}{run.certificate.n_steps:>10,} {run.optimiser.unit:<8}"
            f"{run.certificate.seconds:>9.3g}{run.certificate.n_kernel_values:>15,}{run.certificate.relative_gap:>10.2g}"
            for run in self.runs
        ]
        return "\n".join([head, *rows])


def compare(
    problem: MeasuredProblem,
    optimisers: Sequence[Optimiser],
    *,
    max_seconds: float | None = None,
    max_steps: int | None = None,
    tol_gap: float = 1e-4,
    random_state: int = 0,
) -> Comparison:
    """Run several optimisers on one problem, one after the other. Ctrl-C ends the present run and all later ones.

    Parameters
    ----------
    problem : MeasuredProblem
    optimisers : sequence of Optimiser
    max_seconds, max_steps, tol_gap, random_state
        Of each run; see :meth:`Optimiser.minimise`.

    Raises
    ------
    ValueError
        If there is no optimiser.
    TypeError
        If one of them is not an optimiser, or does not solve the problem; this is found out before the first run.

    Examples
    --------
    >>> from mercer.optimisers import PlattSMO, SecondOrderSMO, compare, kernel_svm
    >>> problem = kernel_svm([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], C=10.0)
    >>> comparison = compare(problem, [PlattSMO(), SecondOrderSMO()], tol_gap=1e-8)
    >>> [run.status.value for run in comparison]
    ['optimal', 'optimal']
    """
    chosen = list(optimisers) if isinstance(optimisers, Iterable) else [optimisers]
    if not chosen:
        raise ValueError("optimisers must hold at least one optimiser, such as PlattSMO(), got none.")
    for one in chosen:
        if not isinstance(one, Optimiser):
            example = f"{one.__name__}()" if isinstance(one, type) else "PlattSMO()"
            raise TypeError(f"optimisers must hold instances of Optimiser, such as {example}, got {one!r}.")
        one.check(problem)
    limits = {"max_seconds": max_seconds, "max_steps": max_steps, "tol_gap": tol_gap, "random_state": random_state}
    with Interruption():  # Ctrl-C ends all runs, each with its trace
        return Comparison(tuple(one.minimise(problem, **limits) for one in chosen))  # type: ignore[arg-type]
