"""Base classes of the machines whose dual problems are solved and certified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import sklearn
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate, worst_status
from mercer.certificates.solution import Solutions
from mercer.certificates.status import Status
from mercer.cluster import by_blocks
from mercer.data import Data, MixedRows, Precomputed, Vectors
from mercer.data.arguments import check_flag
from mercer.data.user_warnings import warn_user
from mercer.estimators._arrays import Regressor
from mercer.estimators._base import GO_ON, Iterated, KernelMachine, say
from mercer.estimators._neighbours import Prototypes
from mercer.estimators._pilots import warn_if_too_long
from mercer.estimators._validation import (
    check_sample_weight,
    check_targets,
    check_verbose,
    check_without_effect,
    rows_of_weight,
    scaling_hint,
)
from mercer.estimators._words import ReadsWords
from mercer.geometry import RKHSFunction
from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.kernels import Kernel, Linear
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.kernels.kernel import restored_rows
from mercer.multiclass.coefficients import Coefficients, Group, PairCoefficients, columns_of, groups_of, summed
from mercer.multiclass.decision import decision_values
from mercer.problems import Problem
from mercer.solvers import Limits, Solution, solve
from mercer.specs import QuadraticSpec


class DualMachine(ReadsWords, Iterated, KernelMachine):
    """One or several machines whose dual problems are solved and certified by :mod:`mercer.solvers`."""

    warm_start: bool
    _calibration_bytes = 0  # bytes; peak memory of the pass for the probabilities
    _silent = False  # True if the caller reports how the fit ended, so that the estimator does not warn

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore all attributes if the body raises, also if Ctrl-C comes while results are being stored."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before  # one assignment: a second Ctrl-C cannot leave a mixture of old and new attributes
            raise

    def _limits(self) -> Limits:
        check_without_effect(self)
        check_verbose(self.verbose)
        check_flag("warm_start", self.warm_start)
        return super()._limits()

    def _store_fit(
        self,
        solutions: Solutions,
        coefficients: Coefficients,
        biases: npt.NDArray[np.float64],
        data: Data,
        support: npt.NDArray[np.int64],
    ) -> None:
        """Store the machines in scikit-learn's attributes: signed coefficients (n_SV, n_machines), support vectors."""
        self._solutions = solutions
        self.support_ = support.astype(np.int32 if data.n < 2**31 else np.int64)
        self._hold(coefficients, biases, None if isinstance(data, Precomputed) else data.rows(support))
        self.shape_fit_ = data.shape
        self.fit_status_ = 0 if solutions.statuses.count(Status.OPTIMAL) == len(solutions) else 1

    def _hold(self, coefficients: Coefficients, biases: npt.NDArray[np.float64], support: Data | None) -> None:
        """Store what prediction needs: coefficients (n_SV, n_machines), biases and, unless precomputed, the support."""
        of_pairs = isinstance(coefficients, PairCoefficients)
        self._coefficients = coefficients if of_pairs else np.ascontiguousarray(coefficients)
        self.intercept_ = biases
        self.support_vectors_ = (
            as_scikit_learn_has_it(support.stored)
            if support is not None and not isinstance(support, Precomputed)
            else np.empty((0, 0))
        )

    def _go_on_from(self, last: DualMachine) -> None:
        """Copy the solution of a machine on the same rows, from which the next fit with `warm_start` starts."""
        for name in ("_rows", "_codes", "_solutions", "machines_"):
            if name in vars(last):
                setattr(self, name, getattr(last, name))

    def _solved(self) -> Solutions:
        """Return the solutions; raise AttributeError for a machine that was read from a file without them."""
        self._check_is_fitted()
        if not hasattr(self, "_solutions"):
            raise AttributeError(
                "this machine was not trained here: it was read from a file, or made by compact, and has what predicts "
                "and no more. Whether it is the optimum cannot be checked without the training data. Call fit to have "
                "a machine with a certificate."
            )
        return self._solutions

    @property
    def solution_(self) -> Solution | tuple[Solution, ...]:
        """The solution, or one for each machine."""
        solutions = self._solved()
        return solutions[0] if len(solutions) == 1 else tuple(solutions)

    @property
    def certificate_(self) -> Certificate:
        """The certificate of all machines together; its `parts` are the certificates of the single machines.

        Its peak memory is that of the whole fit, including the pass for the probabilities.
        """
        certificate = self._solved().certificate
        calibration_bytes = self._calibration_bytes
        return (
            certificate
            if calibration_bytes <= certificate.peak_memory_bytes
            else replace(certificate, peak_memory_bytes=calibration_bytes)
        )

    @property
    def coef_(self) -> Any:
        """Normal vectors of the machines, for the linear kernel only; read-only, and sparse if the rows are."""
        self._check_is_fitted()
        if not isinstance(self.kernel_, Linear):
            raise AttributeError(
                "coef_ exists for the linear kernel only; others have no normal vector in input space."
            )
        vectors = self.support_vectors_

        def product(one: Group) -> npt.NDArray[np.float64]:
            machine_vectors = vectors if one.vectors is None else vectors[one.vectors]
            return np.asarray(one.coefficients.T @ machine_vectors, dtype=np.float64).T

        groups, n_machines = groups_of(self._coefficients), self.intercept_.size
        normals = self._as_the_rows(summed(groups, product, vectors.shape[1], n_machines).T)
        (normals.data if sp.issparse(normals) else normals).flags.writeable = False
        return normals

    def _as_the_rows(self, table: npt.NDArray[np.float64]) -> Any:
        """Return the table, sparse if the support vectors are sparse; zeros are stored as in scikit-learn."""
        if not sp.issparse(self.support_vectors_):
            return np.ascontiguousarray(table)
        n, p = table.shape
        columns = np.tile(np.arange(p, dtype=np.int32), n)
        return as_scikit_learn_has_it(sp.csr_array((table.ravel(), columns, p * np.arange(n + 1)), shape=(n, p)))

    @property
    def function_(self) -> RKHSFunction | tuple[RKHSFunction, ...]:
        """The decision function without its bias, or a tuple with one for each machine."""
        self._check_is_fitted()
        support = self._support_rows()
        functions = []
        for rows, coefficients in columns_of(self._coefficients):
            functions.append(RKHSFunction(self.kernel_, support.rows(rows), coefficients))
        return functions[0] if len(functions) == 1 else tuple(functions)

    def _support_rows(self) -> Data:
        """Return the support vectors, or for a precomputed kernel their rows of the training matrix."""
        if not self.kernel_.takes_values:
            rows = restored_rows(self.kernel_, self.support_vectors_)
            trained = self._solutions[0].evidence if hasattr(self, "_solutions") else None
            if rows.has_given_values and trained is not None and isinstance(trained.data, MixedRows):
                return trained.data.rows(self.support_)  # with their kernel values, which the machine does not store
            return rows
        evidence = self._solved()[0].evidence
        if evidence is None:
            raise AttributeError(
                "function_ needs the kernel values between support vectors, but this machine was pickled, which leaves "
                "the precomputed matrix behind; fit again, and ask before pickling."
            )
        return evidence.data.rows(self.support_)

    def _prototypes(self, which: str) -> Prototypes:
        if which != "all":
            rows, indices = self._support_rows(), self.support_.astype(np.int64)
        else:
            evidence = self._solutions[0].evidence if hasattr(self, "_solutions") else None
            if evidence is None or isinstance(evidence.kernel, EvaluatedKernel):
                raise ValueError(
                    f"the training rows of this {type(self).__name__} are not at hand: it was pickled, read from a "
                    "file or trained by a search on kernel values. Take prototypes='support_vectors', or fit it again."
                )
            indices = np.asarray(self._rows, dtype=np.int64)
            rows = evidence.data.rows(indices)
        return Prototypes(rows, indices)

    def _of_rows(self, kernel: Kernel, data: Data) -> Self:
        """Return a copy that predicts for rows instead of for stored kernel values.

        The machine was fitted on stored values of `kernel` between the rows of `data`.
        """
        machine = copy(self)
        machine.kernel = machine.kernel_ = kernel
        vectors = data.rows(self.support_)
        if not isinstance(vectors, Precomputed):
            machine.support_vectors_ = as_scikit_learn_has_it(vectors.stored)
        if isinstance(data, Vectors):
            machine.n_features_in_ = data.p
        return machine

    def _raw_decision(self, data: Data) -> npt.NDArray[np.float64]:
        """Return the decision values of all machines, (m, n_machines)."""
        return self._values(data, self.intercept_)

    def _values(self, data: Data, biases: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the decision values with the given biases, (m, n_machines)."""
        if isinstance(data, InMemoryRows) and isinstance(self.kernel_, EvaluatedKernel):
            products = self._known_values(data.own_columns())
            if products is not None:
                return products + biases
        if isinstance(data, Precomputed) and not isinstance(self.kernel_, EvaluatedKernel):
            support: Data = data.standing_for(self.support_)
        else:
            support = self._support_rows()
        return decision_values(self.kernel_, data, support, self._coefficients, biases, n_jobs=self.n_jobs)

    def _expansion(self) -> tuple[Kernel, Data, FloatArray, FloatArray]:
        """Return the kernel, the support vectors, their coefficients (n_SV, n_machines) and the biases."""
        coefficients = self._coefficients
        dense = coefficients.dense() if isinstance(coefficients, PairCoefficients) else coefficients
        return self.kernel_, self._support_rows(), dense, self.intercept_

    def _known_values(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
        """Return the decision values without bias, (m, n_machines), that the solver stored for a matrix in memory.

        None if the solver did not store them.
        """
        products = self._solutions[0].known_products
        return None if products is None else products[rows, None]

    @property
    def _besides(self) -> str:
        """What else it means that the optimum is not proved."""
        return ", and margins have no geometric meaning"

    def _warn(self, gram: Gram, data: Data) -> None:
        """Warn if the fit is not optimal or used too much memory."""
        solutions = self._solutions
        if self.verbose:
            say(f"{solutions[0].solver}: {solutions[0].reason}")
        self._warn_of_kernel(gram, self._besides)
        if self._silent or (self._search is not None and self._search.requested):
            return
        if Status.UNVERIFIED in solutions.statuses:
            warn_user(f"{type(self).__name__}: {Status.UNVERIFIED.advice}", ConvergenceWarning)
            return
        if self.verbose:
            say(str(self.certificate_))
        self._warn_of_memory(solutions.peak_memory_bytes)
        if worst_status(solutions.statuses) not in (Status.OPTIMAL, Status.STATIONARY):
            certificate = self.certificate_
            go_on = GO_ON.get(certificate.status, "")
            hint = scaling_hint(data, getattr(self, "feature_names_in_", None))
            warn_user(
                f"{type(self).__name__} {certificate.ending} "
                + " ".join(part for part in (certificate.status.advice, go_on, hint) if part),
                ConvergenceWarning,
            )

    def _warn_of_memory(self, peak: int) -> None:
        """Warn if the fit used more memory than `memory_limit`."""
        if self.memory_limit and peak > self.memory_limit:
            warn_user(
                f"memory_limit={self.memory_limit:,} bytes is less than these rows need: the fit held {peak:,} at a "
                "time. memory_limit=0 asks for as little as goes, without a warning.",
                UserWarning,
            )


class SingleMachine(DualMachine):
    """An estimator that solves one problem over all rows: a regressor or a novelty detector."""

    spec_: QuadraticSpec

    def _train(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        machine_spec: QuadraticSpec | Callable[[FloatArray], QuadraticSpec],
        *,
        earlier: Solution | None = None,
        spent: float = 0.0,
    ) -> Data:
        """Solve the problem of `machine_spec`, or of its value at the weights, for the rows of positive weight.

        `y` holds a target for each row, or is "no_validation" for machines without targets. A fit may train several
        times: `earlier` is then the last solution on the same rows, and `spent` the seconds since the fit began. The
        work of `earlier` is added to the work of this solution. With a time limit, training starts at `earlier`: that
        is slower than a cold start, but a usable solution exists at any time.
        """
        control = self._control().after(spent, 0)
        last = None if control.limits.max_seconds is None else earlier
        spec, data = self._training_rows(X, y)
        weights = check_sample_weight(sample_weight, data.n)
        rows = rows_of_weight(weights)
        if not isinstance(machine_spec, QuadraticSpec):
            machine_spec = machine_spec(weights[rows])
        targets = np.zeros(data.n) if isinstance(y, str) else check_targets(y)
        if earlier is None:
            control = control.after(warn_if_too_long(self, X, y, sample_weight, data.n), 0)
        kernel = spec.resolve(data, None if sample_weight is None else weights)
        gram = self._gram(kernel, data, rows)
        problem = machine_spec.problem(targets[rows], machine_spec.C * weights[rows], gram)
        last = last or self._last_solution(problem, rows)
        start, before = (None, None) if last is None else (last.start_of(problem), last.product)
        solution = solve(problem, gram, control=control, start=start, before=before)
        if earlier is not None:
            solution = solution.after(earlier)
        self.spec_, self.kernel_ = machine_spec, kernel
        self._targets, self._weights = targets, None if sample_weight is None else weights
        self._take(problem, Solutions.of([solution]), data, rows)
        self._warn(gram, data)
        return data

    def _take(self, problem: Problem, solutions: Solutions, data: Data, rows: npt.NDArray[np.int64]) -> None:
        """Store the trained machine in scikit-learn's attributes."""
        self._rows, solution = rows, solutions[0]
        coefficients = problem.coefficients(solution.beta)
        used = np.flatnonzero(coefficients)
        self._store_fit(solutions, coefficients[used, None], np.array([solution.bias]), data, rows[used])
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
                "set warm_start=False for a cold start."
            )
        return last


class VectorRegressor(Regressor, SingleMachine):
    """A support vector regressor: `predict` returns the decision function."""

    @by_blocks
    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return f(x) for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (m, p)

        Returns
        -------
        ndarray of shape (m,)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` holds NaN or infinity, or if its features are not those of `fit`.

        Notes
        -----
        Costs m * n_SV kernel values, in double precision.
        """
        return self._raw_decision(self._new_rows(X))[:, 0]


def as_scikit_learn_has_it(rows: Any) -> Any:
    """Return CSR rows as `csr_matrix`, or as `csr_array` if scikit-learn is configured so; other rows unchanged."""
    if not sp.issparse(rows) or sklearn.get_config().get("sparse_interface") == "sparray":
        return rows
    return sp.csr_matrix(rows)
