"""What estimators with a kernel share: rows in, a Gram matrix, and machines that a solver has certified."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from mercer.certificates.certificate import Certificate, worst_status
from mercer.certificates.solution import Solutions
from mercer.certificates.status import IndefiniteKernelWarning, Status
from mercer.data import Data, ObjectRows, Precomputed, Structured, Vectors
from mercer.data.arguments import check_flag, check_whole
from mercer.estimators.iterated import Iterated
from mercer.estimators.kernel_parameters import HoldsKernel
from mercer.estimators.labels import Labels, read_labels
from mercer.estimators.parameters import check_verbose, check_without_effect
from mercer.estimators.rows import check_rows, check_square, scaling_hint
from mercer.estimators.targets import check_targets
from mercer.estimators.told import check_sample_weight
from mercer.geometry import RKHSFunction
from mercer.gram import CachePolicy, Gram
from mercer.gram.backends import InMemoryRows
from mercer.kernels import Gamma, Kernel, Linear, as_kernel
from mercer.kernels.base import restored_rows
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.kernels.parameters import DISTANCE_RULES, gamma_or_rule, real, whole
from mercer.multiclass.coefficients import Coefficients, Group, PairCoefficients, columns_of, groups_of, summed
from mercer.multiclass.decision import decision_values
from mercer.problems import Problem
from mercer.solvers import Interruption, Limits, Solution, solve
from mercer.specs import QuadraticSpec

_GO_ON = {
    Status.MAX_ITER: "Raise max_iter, or fit again with warm_start=True to go on.",
    Status.TIME_LIMIT: "Raise max_seconds, or fit again with warm_start=True to go on.",
    Status.INTERRUPTED: "Fit again with warm_start=True to go on.",
}


class KernelMachine(HoldsKernel, BaseEstimator):
    """An estimator of rows that a kernel compares: numbers, kernel values, strings or sets."""

    kernel: str | Kernel | Callable[[Any, Any], Any]
    degree: int
    gamma: Gamma
    coef0: float
    memory_limit: int | None
    n_jobs: int | None
    verbose: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        structured = isinstance(self.kernel, Kernel) and self.kernel.is_structured
        tags.input_tags.sparse = not structured
        tags.input_tags.two_d_array = not structured
        tags.input_tags.string = structured
        tags.input_tags.pairwise = self._takes_values()
        return tags

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters; scikit-learn looks at the signature anew for every clone, a search clones a lot."""
        return cast(list[str], super()._get_param_names())

    def _kernel_asked_for(self) -> Kernel:
        if not isinstance(self.kernel, Kernel):  # whether or not the kernel has them, as scikit-learn does
            whole("degree", self.degree)
            gamma_or_rule(self.gamma, DISTANCE_RULES)
            real("coef0", self.coef0)
        return as_kernel(self.kernel, degree=self.degree, gamma=self.gamma, coef0=self.coef0)

    def _training_rows(self, X: Any, y: Any) -> tuple[Kernel, Data]:
        """The kernel as it was asked for, and the rows."""
        try:
            spec = self._kernel_asked_for()
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(str(error)) from error
        data = check_rows(self, X, spec, reset=True, y=y)
        if isinstance(spec, EvaluatedKernel):
            return spec, data
        if isinstance(data, Precomputed):
            check_square(data.shape)
        if isinstance(data, Precomputed) and (found := data.asymmetry()) is not None:
            i, j, apart = found
            raise ValueError(
                f"a precomputed kernel matrix must be symmetric, but row {i}, column {j} and row {j}, column {i} "
                f"differ by {apart:g}: give 0.5 * (K + K.T) where both mean the same."
            )
        if isinstance(data, Precomputed):
            data = _symmetric(data)
        return spec, data

    def _rows_of_classes(self, X: Any, y: Any, sample_weight: Any, class_weight: Any) -> tuple[Kernel, Data, Labels]:
        """The kernel with its parameters, the rows, and what is told of them."""
        spec, data = self._training_rows(X, y)
        labels = read_labels(y, sample_weight, class_weight, data.n)
        return spec.resolve(data, labels.uneven_weights), data, labels

    def _gram(
        self,
        kernel: Kernel,
        data: Data,
        rows: npt.NDArray[np.int64],
        *,
        keep: CachePolicy = CachePolicy.NONE,
    ) -> Gram:
        """The Gram matrix of the chosen rows."""
        gram = Gram(
            kernel,
            data,
            memory_limit=check_whole("memory_limit", self.memory_limit, unit="bytes", at_least=0),
            keep=keep,
            n_jobs=check_whole("n_jobs", self.n_jobs),
        )
        if self.verbose:
            for reason in (*kernel.reasons, gram.backend_reason):
                _say(reason)
        return gram if rows.size == data.n else gram.restrict(rows)

    def _warn_of_kernel(self, gram: Gram, besides: str = "", *, depth: int) -> None:
        """Say where the optimum is not proved, `besides` what that means; `depth` calls below the user's."""
        if not gram.is_convex:
            warnings.warn(
                f"{self.kernel_!r} is not known to be positive semidefinite on the training rows ({gram.diagnosis}). "
                f"{_UNKNOWN if gram.diagnosis.verdict == 'not refuted' else ''}"
                "The result satisfies the optimality conditions at best (`stationary`): it need not be the optimum"
                f"{besides}.",
                IndefiniteKernelWarning,
                stacklevel=depth,
            )

    def _check_is_fitted(self) -> None:
        if "kernel_" not in vars(self):  # scikit-learn takes as long to find out as a small machine to predict
            check_is_fitted(self, "kernel_")

    def _new_rows(self, X: Any) -> Data:
        self._check_is_fitted()
        return check_rows(self, X, self.kernel_, reset=False)


_UNKNOWN = (
    "With more than 2,000 rows (a matrix in memory: 5,000) this is not checked; if you know it, say so by "
    "mercer.kernels.Precomputed(is_psd=True) or Callable(function, is_psd=True). "
)

_TOLD = 1e-12  # relative asymmetry from which on there is a warning


def _symmetric(data: Precomputed) -> Precomputed:
    """The rows of a symmetric matrix, with a warning where the given one was not, by more than its last digits."""
    made = data.symmetric()
    if made is not data:
        apart, largest = 2.0 * float(abs(data.array - made.array).max()), float(abs(made.array).max())
        if apart > _TOLD * largest:
            warnings.warn(
                f"the precomputed kernel matrix is not quite symmetric: K and K.T differ by up to {apart:.3g}, as "
                "rounding makes them differ. The mean of both is used.",
                UserWarning,
                stacklevel=5,
            )
    return made


class DualMachine(Iterated, KernelMachine):
    """A machine, or several, whose duals the solvers of :mod:`mercer.solvers` have solved and certified."""

    warm_start: bool
    _held_for_probabilities = 0  # bytes at a time
    _silent = False  # whether somebody else tells how the fit ended
    _search: Interruption | None = None  # what stops the search that the fit is part of, and tells of it

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Have whatever ends a fit early, Ctrl-C while it stores among it, leave the machine as it was before."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before  # at once: a second Ctrl-C finds one or the other
            raise

    def _limits(self) -> Limits:
        check_without_effect(self)
        check_verbose(self.verbose)
        check_flag("warm_start", self.warm_start)
        return super()._limits()

    def _keep(
        self,
        solutions: Solutions,
        coefficients: Coefficients,
        biases: npt.NDArray[np.float64],
        data: Data,
        support: npt.NDArray[np.int64],
    ) -> None:
        """Store machines under scikit-learn's names: their signed coefficients (n_SV, n_machines) and support rows."""
        self._solutions = solutions
        self.support_ = support.astype(np.int32 if data.n < 2**31 else np.int64)
        self._hold(coefficients, biases, None if isinstance(data, Precomputed) else data.rows(support))
        self.shape_fit_ = data.shape
        self.fit_status_ = 0 if solutions.statuses.count(Status.OPTIMAL) == len(solutions) else 1

    def _hold(self, coefficients: Coefficients, biases: npt.NDArray[np.float64], support: Data | None) -> None:
        """Store what predicts: coefficients (n_SV, n_machines), biases, and support vectors where there are some."""
        of_pairs = isinstance(coefficients, PairCoefficients)
        self._coefficients = coefficients if of_pairs else np.ascontiguousarray(coefficients)
        self.intercept_ = biases
        self.support_vectors_ = (
            as_scikit_learn_has_it(support.stored)
            if isinstance(support, (ObjectRows, Structured, Vectors))
            else np.empty((0, 0))
        )

    def _go_on_from(self, last: DualMachine) -> None:
        """Have the next fit, with `warm_start`, go on from that of another machine on the same rows."""
        for name in ("_rows", "_codes", "_solutions", "machines_"):
            if name in vars(last):
                setattr(self, name, getattr(last, name))

    def _solved(self) -> Solutions:
        """The solutions, of which a machine that somebody else has trained has none."""
        self._check_is_fitted()
        if not hasattr(self, "_solutions"):
            raise AttributeError(
                "this machine was not trained here but read from a file that holds what predicts and no more: without "
                "the training data nobody can tell whether it is the optimum. Call fit to have a machine with a "
                "certificate."
            )
        return self._solutions

    @property
    def solution_(self) -> Solution | tuple[Solution, ...]:
        """The solution, or one for each machine."""
        solutions = self._solved()
        return solutions[0] if len(solutions) == 1 else tuple(solutions)

    @property
    def certificate_(self) -> Certificate:
        """The certificate of the whole; its `parts` are those of the machines.

        Its peak memory is that of the whole fit, the pass for probabilities included.
        """
        found = self._solved().certificate
        held = self._held_for_probabilities
        return found if held <= found.peak_memory_bytes else replace(found, peak_memory_bytes=held)

    @property
    def coef_(self) -> Any:
        """Normal vectors of the machines, for the linear kernel; read-only, and sparse where the rows are."""
        self._check_is_fitted()
        if not isinstance(self.kernel_, Linear):
            raise AttributeError(
                "coef_ exists for the linear kernel only; others have no normal vector in input space."
            )
        vectors = self.support_vectors_

        def product(one: Group) -> npt.NDArray[np.float64]:
            own = vectors if one.vectors is None else vectors[one.vectors]
            return np.asarray(one.coefficients.T @ own, dtype=np.float64).T

        groups, n_machines = groups_of(self._coefficients), self.intercept_.size
        normals = self._as_the_rows(summed(groups, product, vectors.shape[1], n_machines).T)
        (normals.data if sp.issparse(normals) else normals).flags.writeable = False
        return normals

    def _as_the_rows(self, table: npt.NDArray[np.float64]) -> Any:
        """Return a table sparse where the support vectors are, with all its values stored, as scikit-learn has it."""
        if not sp.issparse(self.support_vectors_):
            return np.ascontiguousarray(table)
        n, p = table.shape
        columns = np.tile(np.arange(p, dtype=np.int32), n)
        return as_scikit_learn_has_it(sp.csr_array((table.ravel(), columns, p * np.arange(n + 1)), shape=(n, p)))

    @property
    def function_(self) -> RKHSFunction | tuple[RKHSFunction, ...]:
        """The decision function without its bias, or one for each machine."""
        self._check_is_fitted()
        support = self._support_rows()
        functions = []
        for own, coefficients in columns_of(self._coefficients):
            functions.append(RKHSFunction(self.kernel_, support.rows(own), coefficients))
        return functions[0] if len(functions) == 1 else tuple(functions)

    def _support_rows(self) -> Data:
        """The support vectors; kernel values among them are where the certificate has its evidence."""
        if not self.kernel_.takes_values:
            return restored_rows(self.kernel_, self.support_vectors_)
        evidence = self._solved()[0].evidence
        if evidence is None:
            raise AttributeError(
                "function_ needs the kernel values between support vectors, but this machine was pickled, which leaves "
                "the precomputed matrix behind; fit again, and ask before pickling."
            )
        return evidence.data.rows(self.support_)

    def _of_rows(self, kernel: Kernel, data: Data) -> Self:
        """The same machine on new rows as they are, where it was fitted on held values of `kernel` between `data`."""
        machine = copy(self)
        machine.kernel = machine.kernel_ = kernel
        kept = data.rows(self.support_)
        if isinstance(kept, (ObjectRows, Structured, Vectors)):
            machine.support_vectors_ = as_scikit_learn_has_it(kept.stored)
        if isinstance(data, Vectors):
            machine.n_features_in_ = data.p
        return machine

    def _raw_decision(self, data: Data) -> npt.NDArray[np.float64]:
        """Decision values of all machines, (m, n_machines)."""
        return self._values(data, self.intercept_)

    def _values(self, data: Data, biases: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Decision values with these biases, (m, n_machines)."""
        if isinstance(data, InMemoryRows) and isinstance(self.kernel_, EvaluatedKernel):
            known = self._known_values(data.own_columns())
            if known is not None:
                return known + biases
        if isinstance(data, Precomputed) and not isinstance(self.kernel_, EvaluatedKernel):
            support: Data = data.standing_for(self.support_)
        else:
            support = self._support_rows()
        return decision_values(self.kernel_, data, support, self._coefficients, biases, n_jobs=self.n_jobs)

    def _known_values(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
        """Decision values without bias, (m, n_machines), where solvers have kept those of rows of a held matrix."""
        known = self._solutions[0].held_values
        return None if known is None else known[rows, None]

    @property
    def _besides(self) -> str:
        """What else it means that the optimum is not proved."""
        return ", and margins have no geometric meaning"

    def _warn(self, gram: Gram, data: Data, *, depth: int) -> None:
        """Say how it ended; `depth` calls below the user's."""
        solutions = self._solutions
        if self.verbose:
            _say(f"{solutions[0].solver}: {solutions[0].reason}")
        self._warn_of_kernel(gram, self._besides, depth=depth + 1)
        if self._silent or (self._search is not None and self._search.requested):
            return
        if Status.UNVERIFIED in solutions.statuses:
            warnings.warn(f"{type(self).__name__}: {Status.UNVERIFIED.advice}", ConvergenceWarning, stacklevel=depth)
            return
        if self.verbose:
            _say(str(self.certificate_))
        self._warn_of_memory(solutions.peak_memory_bytes, depth=depth + 1)
        if worst_status(solutions.statuses) not in (Status.OPTIMAL, Status.STATIONARY):
            certificate = self.certificate_
            go_on = _GO_ON.get(certificate.status, "")
            hint = scaling_hint(data, getattr(self, "feature_names_in_", None))
            warnings.warn(
                f"{type(self).__name__} ended as `{certificate.status}`: KKT violation {certificate.kkt_violation:.3g} "
                f"(tolerance {certificate.tol:g}), relative duality gap {certificate.relative_gap:.3g}. "
                + " ".join(part for part in (certificate.status.advice, go_on, hint) if part),
                ConvergenceWarning,
                stacklevel=depth,
            )

    def _warn_of_memory(self, peak: int, *, depth: int) -> None:
        """Say where the fit held more than it should; `depth` calls below the user's."""
        if self.memory_limit and peak > self.memory_limit:
            warnings.warn(
                f"memory_limit={self.memory_limit:,} bytes is less than these rows need: the fit held {peak:,} at a "
                "time. memory_limit=0 asks for as little as goes, without a warning.",
                UserWarning,
                stacklevel=depth,
            )


class SingleMachine(DualMachine):
    """One machine of one problem, for all rows: a regressor, or what one class looks like."""

    spec_: QuadraticSpec

    def _train(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        machine_spec: QuadraticSpec,
        *,
        earlier: Solution | None = None,
        spent: float = 0.0,
    ) -> Data:
        """Solve the recipe's problem for the rows whose weight is not 0, and keep the machine.

        `y` is a target for each row, or "no_validation" where there is none. Where the same fit has begun to train on
        the same rows, `spent` seconds ago, the work of the `earlier` solution counts as this one's. Under a time limit
        this one also starts there, which takes longer than a start of its own but leaves a machine at any time.
        """
        limits, listener = self._limits(), self._listener()
        last = None
        if limits.max_seconds is not None:
            limits, last = replace(limits, max_seconds=max(0.0, limits.max_seconds - spent)), earlier
        spec, data = self._training_rows(X, y)
        weights = check_sample_weight(sample_weight, data.n)
        rows = np.flatnonzero(weights > 0.0)
        if not rows.size:
            raise ValueError("sample_weight must be positive in one row at least, but all weights are zero.")
        targets = np.zeros(data.n) if isinstance(y, str) else check_targets(y)
        kernel = spec.resolve(data, None if sample_weight is None else weights)
        gram = self._gram(kernel, data, rows)
        problem = machine_spec.problem(targets[rows], machine_spec.C * weights[rows], gram)
        last = last or self._last_solution(problem, rows)
        start, before = (None, None) if last is None else (last.start_of(problem), last.product)
        solution = solve(
            problem,
            gram,
            limits=limits,
            start=start,
            callback=listener,
            before=before,
            interruption=Interruption(self._search),
        )
        if earlier is not None:
            solution = solution.after(earlier)
        self.spec_, self.kernel_ = machine_spec, kernel
        self._targets, self._weights = targets, None if sample_weight is None else weights
        self._take(problem, Solutions.of([solution]), data, rows)
        self._warn(gram, data, depth=4)
        return data

    def _take(self, problem: Problem, solutions: Solutions, data: Data, rows: npt.NDArray[np.int64]) -> None:
        """Store the trained machine under scikit-learn's names."""
        self._rows, solution = rows, solutions[0]
        coefficients = problem.coefficients(solution.beta)
        used = np.flatnonzero(coefficients)
        self._keep(solutions, coefficients[used, None], np.array([solution.bias]), data, rows[used])
        self.n_iter_ = solution.n_iter

    def _hold(self, coefficients: Coefficients, biases: npt.NDArray[np.float64], support: Data | None) -> None:
        super()._hold(coefficients, biases, support)
        assert not isinstance(coefficients, PairCoefficients)
        self.dual_coef_ = self._as_the_rows(coefficients.T)
        self.n_support_ = np.array([len(coefficients)], dtype=np.int32)

    def _last_solution(self, problem: Problem, rows: npt.NDArray[np.int64]) -> Solution | None:
        if not self.warm_start or not hasattr(self, "_rows"):
            return None
        last = self._solutions[0]
        if last.beta.size != problem.n or not np.array_equal(self._rows, rows):
            raise ValueError(
                "warm_start=True goes on from the last fit and needs the same rows, zero weights and kind of machine; "
                "set warm_start=False to start anew."
            )
        return last


def as_scikit_learn_has_it(rows: Any) -> Any:
    """Return CSR rows as a matrix, unless scikit-learn's configuration asks for arrays; other rows as they are."""
    if not sp.issparse(rows) or sklearn.get_config().get("sparse_interface") == "sparray":
        return rows
    return sp.csr_matrix(rows)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
