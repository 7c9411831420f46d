"""Base class of the linear machines that :mod:`mercer.solvers.rows` trains: their parameters, limits and attributes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.certificates.certificate import combine
from mercer.certificates.linear import LinearEvidence
from mercer.certificates.solution import TraceRow
from mercer.certificates.status import Status
from mercer.data.arguments import check_choice, check_flag, check_number, check_whole
from mercer.data.user_warnings import warn_user
from mercer.estimators._base import GO_ON, Iterated, say
from mercer.estimators._linear import WithSparseCoefficients
from mercer.estimators._linear_rows import LinearTable
from mercer.estimators._validation import check_verbose, check_without_effect
from mercer.gram.rows import DeviceRows
from mercer.problems.joint_linear import JointLinearProblem
from mercer.problems.softmax import DualsOfWeights
from mercer.solvers import Control, Limits
from mercer.solvers.rows import Bias, LinearProblem, LinearRows, LinearSolution, solve_each

_RATIOS = {"l2": 0.0, "l1": 1.0}  # of the l1 norm, by `penalty`
PENALTIES = (*_RATIOS, "elasticnet")
BIASES = (Bias.PENALISED.value, Bias.FREE.value)
_DEFAULT_TOL = 1e-4  # default of `tol`, here and in scikit-learn
_LEAST_GAP = 1e-10  # relative; the smallest gap that `tol` asks for, because rounding hides smaller ones

_ON_A_DEVICE = (
    "On a device all sums are in float64, and on the host small problems are solved in longdouble: center and scale "
    "the columns, or give mercer.to_host(X)."
)
_LABEL_ARRAYS = 5  # arrays of length n: labels and their codes, weights, and the rows of positive weight
_MOST_SCALING = 1e150  # largest intercept_scaling, and the inverse of the smallest: squares do not overflow


class LinearSolutions(tuple[LinearSolution, ...]):
    """The solutions of several machines, one for each class.

    Attributes
    ----------
    solver, reason : str
        Those of the first machine; its shape decides for all.
    """

    @property
    def solver(self) -> str:
        """Name of the algorithm."""
        return self[0].solver

    @property
    def reason(self) -> str:
        """Why it was chosen."""
        return self[0].reason


class TrainedLinearMachine(Iterated, WithSparseCoefficients):
    """A linear machine that is trained to a certified duality gap."""

    tol_gap: float
    penalty: str
    l1_ratio: float | None
    fit_intercept: bool
    intercept_scaling: float
    bias: str
    memory_limit: int | None
    n_jobs: int | None
    warm_start: bool
    dual: bool | str
    max_seconds: float | None
    fit: Any
    _other_names_of_C: ClassVar[dict[str, float]] = {}  # other parameters with the meaning of C, and their defaults
    _solutions: LinearSolutions
    _goes_on = False  # True if the next fit starts at the last solutions even without `warm_start`
    _silent = False  # True if the caller reports how the fit ended, so that the estimator does not warn

    def C_path(self, X: Any, y: Any, grid: Iterable[float], sample_weight: Any = None) -> list[Self]:
        """Train a machine for each C of a grid, each from the solution for the next smaller C.

        Every machine is trained to `tol_gap` and has a certificate of its own, so that the results are those of
        separate fits, which take longer. :class:`mercer.KernelSearchCV` chooses C by cross-validation.

        Parameters
        ----------
        X, y, sample_weight
            See :meth:`fit`.
        grid : iterable of float
            The values of C, > 0, in any order; of `LinearSVC`, inf is one.

        Returns
        -------
        list
            Fitted copies of this machine with the parameter `C` set, in the order of `grid`. This machine is not
            changed.

        Raises
        ------
        TypeError
            If `grid` is a single number.
        ValueError
            As :meth:`fit`, or if `grid` is empty.

        Warns
        -----
        ConvergenceWarning
            As :meth:`fit`. `max_seconds` is for the whole path: after it, or after Ctrl-C, the machines for larger C
            are those of the last solution, and their certificates say how far they are from the optimum.
        """
        if not isinstance(grid, Iterable):
            raise TypeError(f"grid must hold values of C, such as [0.1, 1.0, 10.0], got {grid!r}.")
        values = list(grid)
        if not values:
            raise ValueError("grid must hold at least one value of C, got none.")
        control, began = self._control(), time.perf_counter()
        machines: dict[float, Self] = {}
        last: Self = self
        with control.interruption:
            for C in sorted({check_number("C", one, above=0.0) for one in values}):
                machine = clone(self).set_params(C=C, callback=self.callback, **self._other_names_of_C)
                if self.max_seconds is not None:
                    machine.max_seconds = max(0.0, self.max_seconds - (time.perf_counter() - began))
                machine.warm_start, machine._search = last is not self or self.warm_start, control.interruption
                machine._solutions = getattr(last, "_solutions", ())
                last = machines[C] = machine.fit(X, y, sample_weight)
        for machine in machines.values():
            machine.set_params(warm_start=self.warm_start, max_seconds=self.max_seconds)
            del machine._search
        if control.interruption.requested:
            n_optimal = sum(one.certificate_.status is Status.OPTIMAL for one in machines.values())
            warn_user(
                f"C_path was interrupted: {n_optimal} of {len(machines)} machines are optimal.",
                ConvergenceWarning,
            )
        return [machines[float(C)] for C in values]

    def _limits(self) -> Limits:
        check_without_effect(self)
        check_verbose(self.verbose)
        check_flag("warm_start", self.warm_start)
        limits = self._checked_limits()
        gap = float(self.tol_gap)
        if limits.tol < _DEFAULT_TOL:
            gap = min(gap, max(limits.tol, _LEAST_GAP))
        return replace(limits, tol=gap, tol_gap=gap)

    def _checked_limits(self) -> Limits:
        """Check the parameters that limit a fit; return them as they were set."""
        check_number("tol_gap", self.tol_gap, above=0.0, finite=True)
        check_whole("memory_limit", self.memory_limit, unit="bytes", at_least=0)
        check_whole("n_jobs", self.n_jobs)
        return super()._limits()

    def _bias(self) -> tuple[Bias, float]:
        """Check the parameters of the bias; return its kind and the value of its column."""
        wanted = check_choice("bias", self.bias, BIASES)
        scaling = check_number("intercept_scaling", self.intercept_scaling, above=0.0, finite=True)
        if not 1.0 / _MOST_SCALING <= scaling <= _MOST_SCALING:
            raise InvalidParameterError(
                f"intercept_scaling must be between {1.0 / _MOST_SCALING:g} and {_MOST_SCALING:g}, so that its square "
                f"is a number of float64, got {self.intercept_scaling!r}. bias='free' penalises no bias."
            )
        return (Bias(wanted) if check_flag("fit_intercept", self.fit_intercept) else Bias.NONE), scaling

    def _l1_ratio(self) -> float:
        """Check the parameters of the penalty; return the share of the l1 norm."""
        penalty, ratio = check_choice("penalty", self.penalty, PENALTIES), self.l1_ratio
        if ratio is None:
            if penalty not in _RATIOS:
                raise InvalidParameterError('penalty="elasticnet" needs l1_ratio, the share of the l1 norm, got None.')
            return _RATIOS[penalty]
        number = check_number("l1_ratio", ratio, at_least=0.0, finite=True)
        if number > 1.0:
            raise InvalidParameterError(f"l1_ratio must be at most 1, got {ratio!r}.")
        if penalty == "l1" and number != 1.0:
            raise InvalidParameterError(f'penalty="l1" means l1_ratio=1, got l1_ratio={ratio!r}. Set one of them.')
        return number

    def _check_dual(self) -> None:
        if not (isinstance(self.dual, str) and self.dual == "auto"):
            check_flag("dual", self.dual)

    def _solve(self, problems: Sequence[Any], control: Control) -> LinearSolutions:
        """Solve the problems, one for each output; `max_seconds` is for all of them together."""
        starts = self._starts(problems)
        return LinearSolutions(
            solve_each(problems, control, starts=starts, memory_limit=self.memory_limit, n_jobs=self.n_jobs)
        )

    def _go_on_from(self, last: TrainedLinearMachine) -> None:
        """Take the solutions of a machine on the same rows, from which the next fit starts."""
        self._solutions, self._goes_on = last._solutions, True

    def _starts(self, problems: Sequence[LinearProblem | JointLinearProblem]) -> Sequence[LinearSolution | None]:
        """Return the last solutions if `warm_start` is set and they have the shape of these problems."""
        goes_on, self._goes_on = self.warm_start or self._goes_on, False
        last: Sequence[LinearSolution] = getattr(self, "_solutions", ()) if goes_on else ()
        first = problems[0]
        shape = (first.n_columns, first.n_classes) if isinstance(first, JointLinearProblem) else (first.n_columns,)
        fits = len(last) == len(problems) and last[0].w.shape == shape and len(last[0].beta) == first.rows.n
        return last if fits else [None] * len(problems)

    def _store(
        self,
        problems: Sequence[Any],
        solutions: LinearSolutions,
        table: LinearTable,
    ) -> None:
        """Store the trained machines in scikit-learn's attributes."""
        parts: list[Any] = [problem.split(one.w) for problem, one in zip(problems, solutions, strict=True)]
        normals, biases = np.vstack([normal for normal, _ in parts]), np.hstack([bias for _, bias in parts])
        self._hold(normals, biases, solutions, problems[0].rows, table)

    def _hold(
        self, normals: FloatArray, biases: FloatArray, solutions: LinearSolutions, rows: LinearRows, table: LinearTable
    ) -> None:
        """Store normal vectors (n_outputs, p), biases (n_outputs,) and what is known of the fit."""
        self._solutions = solutions
        self.coef_, self.intercept_ = normals, biases if self.fit_intercept else 0.0  # as scikit-learn
        self.n_iter_ = max(one.n_iter for one in solutions)
        self.trace_: list[TraceRow] = [row for one in solutions for row in one.trace]
        self.certificate_ = combine([one.certificate for one in solutions])
        of_labels = 0 if rows.limits_numbers else 8 * _LABEL_ARRAYS * rows.n
        peak_bytes = self.certificate_.peak_memory_bytes + table.copied_bytes + rows.memory_bytes + of_labels
        self.certificate_ = replace(self.certificate_, peak_memory_bytes=peak_bytes)

    @property
    def solution_(self) -> LinearSolution | LinearSolutions:
        """The solution, or one for each class."""
        check_is_fitted(self, "coef_")
        return self._solutions[0] if len(self._solutions) == 1 else self._solutions

    def _duals(self) -> FloatArray | None:
        """Return the dual coefficients of the rows of positive weight, (n_outputs, n); None if none are held."""
        if isinstance(self._solutions[0].beta, DualsOfWeights):
            return None
        rows = self._used_rows
        duals = [np.asarray(one.beta[:])[rows] for one in self._solutions]
        if duals[0].ndim > 1:  # a joint machine, of which the second of two classes determines the first
            duals = [*duals[0].T[1 if duals[0].shape[1] == 2 else 0 :]]
        return np.array(duals)

    def _warn(self) -> None:
        """Warn if the fit is not optimal or used too much memory."""
        certificate, name = self.certificate_, type(self).__name__
        if self.verbose:
            say(f"{self._solutions.solver}: {self._solutions.reason}")
            say(str(certificate))
        if self._silent or (self._search is not None and self._search.requested):
            return
        if self.memory_limit and certificate.peak_memory_bytes > self.memory_limit:
            warn_user(
                f"memory_limit={self.memory_limit:,} bytes is less than these rows need: the fit held "
                f"{certificate.peak_memory_bytes:,} at a time. Raise the limit, or train from a file by `fit_file`.",
                UserWarning,
            )
        if certificate.status is not Status.OPTIMAL:
            warn_user(f"{name} {certificate.ending} {self._advice()}", ConvergenceWarning)

    def _advice(self) -> str:
        """What the status of the fit means, and what to do about it."""
        status = self.certificate_.status
        parts = [self.certificate_.advice, GO_ON.get(status)]
        evidence = self._solutions[0].certificate.evidence
        if status is Status.STALLED and isinstance(evidence, LinearEvidence):
            is_there = isinstance(evidence.problem.rows, DeviceRows)
            parts.append(_ON_A_DEVICE if is_there else None)
        return " ".join(part for part in parts if part)
