"""`mercer.plan`: the time, the memory and the support vectors of a fit, before it begins."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples

from mercer.approximate import Landmarks, way_of
from mercer.data.arguments import check_choice, check_seconds
from mercer.data.mixed_rows import table_of_columns
from mercer.data.result import Result
from mercer.estimators._linear_training import TrainedLinearMachine
from mercer.estimators._pilots import bytes_text, pilot_runs, what_ends_in_time
from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.model_selection.leave_one_out import leave_one_out, require_followed
from mercer.model_selection.search.kernel_search import KernelSearchCV
from mercer.model_selection.search.pipelines import machine_of, path_of, with_choice
from mercer.solvers import Interruption
from mercer.solvers.forecast import KERNEL_FIT, LEAVE_ONE_OUT, LINEAR_FIT, Forecast, Pilot, forecast
from mercer.solvers.progress import duration

_WORKS = ("fit", "leave_one_out")
_BYTES_PER_PAIR = 8  # of rows: two matrices in single precision, those of this kernel and of the next one


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """What a fit, a search or leave-one-out will take.

    Attributes
    ----------
    estimator : str
        Name of its class.
    work : {"fit", "search", "leave_one_out"}
    n_rows, n_features : int
        Shape of the rows; `n_features` is 0 for strings and sets.
    seconds : float
        Expected time.
    peak_bytes : int or None
        Expected peak memory beyond the input, as the certificate counts it; None if it is not known.
    n_support : int or None
        Expected number of support vectors; None for machines without.
    exponent : float
        The time grows as this power of the number of rows.
    solver, reason : str
        Which solver will be used for all rows, and why; "" if there is no choice.
    n_fits : int
        Number of fits of a search: settings times folds; otherwise 1.
    pilots : tuple of Pilot
        The same work on some of the rows, which the forecast is made from: `n_rows`, `seconds`, `n_support`,
        `peak_bytes`.
    plan_seconds : float
        What the plan itself took.
    advice : str
        If the work does not end within the estimator's `max_seconds` or `memory_limit`: what does. Otherwise "".
    """

    estimator: str
    work: str
    n_rows: int
    n_features: int
    seconds: float
    peak_bytes: int | None
    n_support: int | None
    exponent: float
    solver: str
    reason: str
    n_fits: int
    pilots: tuple[Pilot, ...] = field(repr=False)
    plan_seconds: float
    advice: str

    def __str__(self) -> str:
        about = [f"{'' if self.seconds < 0.1 else 'about '}{duration(self.seconds)}"]
        if self.peak_bytes is not None:
            about.append(f"{bytes_text(self.peak_bytes)} of memory beyond the input")
        if self.n_support is not None:
            about.append(f"{self.n_support:,} support vectors")
        lines = [f"{self._what}: {', '.join(about)}", *(f"{name}: {text}" for name, text in self._grounds().items())]
        return "\n".join(lines)

    @property
    def _what(self) -> str:
        columns = f" of {self.n_features:,} column{'s' * (self.n_features != 1)}" if self.n_features else ""
        kind = {"fit": "", "search": f" ({self.n_fits:,} fits)", "leave_one_out": ", leave-one-out"}[self.work]
        return f"{self.estimator}{kind} on {self.n_rows:,} rows{columns}"

    def _grounds(self) -> dict[str, str]:
        sizes = [f"{one.n_rows:,}" for one in self.pilots]
        rows = sizes[0] if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        grounds = {"solver": f"{self.solver}: {self.reason}"} if self.solver else {}
        grounds["pilots"] = (
            f"{len(sizes)} on {rows} rows took {duration(sum(one.seconds for one in self.pilots))}; "
            f"the time grows as n^{self.exponent:.2g}"
        )
        return grounds | ({"advice": self.advice} if self.advice else {})

    def _facts(self) -> dict[str, str]:
        support = "" if self.n_support is None else f"{self.n_support:,}"
        memory = "" if self.peak_bytes is None else bytes_text(self.peak_bytes)
        facts = {"work": self._what, "time": duration(self.seconds), "memory": memory, "support vectors": support}
        return {name: text for name, text in (facts | self._grounds()).items() if text}

    def _columns(self) -> dict[str, Sequence[Any]]:
        """Return a row for each pilot, and the last one for all rows."""
        expected = Pilot(self.n_rows, self.seconds, self.n_support, self.peak_bytes)
        rows = [*self.pilots, expected]
        return {
            "kind": [*(["pilot"] * len(self.pilots)), "forecast"],
            **{name: [getattr(one, name) for one in rows] for name in ("n_rows", "seconds", "n_support", "peak_bytes")},
        }


def plan(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    work: str = "fit",
    max_seconds: float | None = None,
) -> Plan:
    """Forecast the time, the memory and the number of support vectors of a fit, before it begins.

    Pilots do the same work on few rows, each on twice the rows of the one before, and end when they have taken 0.6
    seconds and a further one would take more than 2 % of the expected time. The forecast follows the last two of them.

    Parameters
    ----------
    estimator : estimator
        A machine of this library, a pipeline that one ends, or a :class:`mercer.KernelSearchCV`. It is cloned.
    X, y, sample_weight
        As for `fit`.
    work : {"fit", "leave_one_out"}, default="fit"
        "leave_one_out" plans :func:`mercer.leave_one_out`.
    max_seconds : float, optional
        Time limit of the pilots together.

    Returns
    -------
    Plan
        `seconds`, `peak_bytes`, `n_support`, `solver` and `reason`. It prints as a short text, and `to_frame()` has a
        row for each pilot and one for all rows.

    Raises
    ------
    ValueError
        As `fit` does, for parameters or rows that it refuses.
    KeyboardInterrupt
        For Ctrl-C.

    Notes
    -----
    On the benchmark's sets time and support vectors were forecast within a factor of 2; see docs/howto/how_large.md.
    Memory below some 50 MB follows the sizes of matrices in steps, and is forecast less well. The number of features,
    of classes, and kernels that are slow to evaluate are those of the pilots, so that they need no rules.

    Examples
    --------
    >>> import mercer
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(4000, random_state=0)
    >>> plan = mercer.plan(mercer.SVC(), X, y)
    >>> plan.solver, plan.to_frame()["kind"].tolist()[-1]
    ('working-set SMO', 'forecast')
    """
    check_choice("work", work, _WORKS)
    check_seconds(max_seconds)
    X, y = indexable(table_of_columns(X), y)
    is_search = isinstance(estimator, BaseSearchCV)
    began = time.perf_counter()
    decided, auto = with_choice(estimator.estimator if is_search else estimator, X, y, sample_weight)
    if auto is not None:
        estimator = clone(estimator).set_params(estimator=decided) if is_search else decided
    n_rows, machine = _num_samples(X), machine_of(estimator.estimator if is_search else estimator)
    fitted = list[Any]()

    def do(one: Any, part: Any, targets: Any, weights: Any) -> Any:
        given = {} if weights is None else {f"{path_of(one)}sample_weight": weights}
        if work == "fit":
            machine_of(one)._forecasts = False
            one.fit(part, *(() if targets is None else (targets,)), **given)
        else:
            one = leave_one_out(one, part, targets, weights)
        fitted[:] = [one]
        return machine_of(getattr(one, "best_estimator_", one))

    if work == "leave_one_out":
        require_followed(estimator)
    is_linear = isinstance(machine, TrainedLinearMachine) or getattr(machine, "approximation", None) is not None
    growth = LEAVE_ONE_OUT if work == "leave_one_out" else LINEAR_FIT if is_linear else KERNEL_FIT
    with Interruption() as interruption:
        chosen = None if is_search else _choice(estimator, X, y, sample_weight)
        runs = pilot_runs(estimator, X, y, do, sample_weight=sample_weight, path=path_of(estimator))
        made = forecast(n_rows, runs, growth=growth, max_seconds=max_seconds)
    if interruption.requested:
        raise KeyboardInterrupt
    solver, reason = ("", "") if chosen is None else chosen
    if auto is not None:
        solver, reason = (solver, f"{reason}; {auto}") if auto.way is None and solver else ("auto", str(auto))
    search = estimator if isinstance(estimator, KernelSearchCV) else None
    peak_bytes = made.peak_bytes if search is None else _bytes_of_search(search, made)
    n_fits = len(fitted[0].cv_results_["params"]) * fitted[0].n_splits_ if is_search else 1
    return Plan(
        estimator=type(machine).__name__,
        work="search" if is_search else work,
        n_rows=n_rows,
        n_features=X.shape[1] if getattr(X, "ndim", 1) == 2 or hasattr(X, "columns") else 0,
        seconds=made.seconds,
        peak_bytes=peak_bytes,
        n_support=_most_support(machine, made.n_support),
        exponent=made.exponent,
        solver=solver,
        reason=reason,
        n_fits=n_fits,
        pilots=made.pilots,
        plan_seconds=time.perf_counter() - began,
        advice=what_ends_in_time(machine, made, peak_bytes),
    )


def _most_support(machine: Any, n_support: int | None) -> int | None:
    """Return the expected number of support vectors; of landmarks, there are no more than were asked for."""
    way = getattr(machine, "approximation", None)
    way = None if way in (None, "auto") else way_of(way)
    return min(n_support, way.n_landmarks) if isinstance(way, Landmarks) and n_support is not None else n_support


def _choice(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[str, str]:
    """Return the solver of all rows and the reason for it, from a fit that makes no step."""
    machine = machine_of(estimator)
    names = machine.get_params(deep=False)
    if "max_iter" not in names or not hasattr(machine, "_control"):
        return "", ""
    if getattr(machine, "approximation", None) is not None:
        return "approximate", f"approximation={machine.approximation!r} is set"
    none = {"max_iter": 0, "callback": None, "verbose": 0, "warm_start": False, "probability": False}
    path = path_of(estimator)
    asked = clone(estimator).set_params(**{path + name: value for name, value in none.items() if name in names})
    machine_of(asked)._forecasts = False
    given = {} if sample_weight is None else {f"{path}sample_weight": sample_weight}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked.fit(X, *(() if y is None else (y,)), **given)
    solution = machine_of(asked)._solutions[0]
    return solution.solver, solution.reason


def _bytes_of_search(search: KernelSearchCV, made: Forecast) -> int:
    """Return the memory of the matrices of a search, within its limit, and of the machine that is fitted at its end."""
    limit = search._memory_of_all()
    matrices = min(DEFAULT_MEMORY_LIMIT if limit is None else limit, _BYTES_PER_PAIR * made.n_rows**2)
    return matrices + (made.peak_bytes or 0)
