"""The contenders: each is given the same rows in memory, in the form that suits it best, before the clock runs."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

CACHE_MEGABYTES = 2000


@dataclass(frozen=True)
class Task:
    """What to train.

    Attributes
    ----------
    X : ndarray or csr_matrix of float32, (n, p)
    y : ndarray of shape (n,)
        Classes 0 .. k-1, int64, or targets, float64.
    kernel : {"rbf", "linear"}
    C, gamma : float
    machine : str
    parameter : float
        See :class:`benchmarks.problems.Problem`.
    alone : bool
        Whether mercer's solver is timed alone, without the estimator around it.
    threads : int
    """

    X: Any
    y: npt.NDArray[Any]
    kernel: str
    C: float
    gamma: float
    machine: str
    parameter: float
    alone: bool
    threads: int

    def settings(self, tol: float) -> dict[str, Any]:
        """Return the arguments that the machine's class has in all libraries."""
        shared = {"kernel": self.kernel, "gamma": self.gamma}
        params: dict[str, dict[str, Any]] = {
            "SVC": {"C": self.C, "tol": tol},
            "NuSVC": {"nu": self.parameter, "tol": tol},
            "SVR": {"C": self.C, "epsilon": self.parameter, "tol": tol},
            "NuSVR": {"C": self.C, "nu": self.parameter, "tol": tol},
            "OneClassSVM": {"nu": self.parameter, "tol": tol},
            "KernelRidge": {"alpha": self.parameter},
        }
        return {**shared, **params[self.machine]}


@dataclass(frozen=True)
class Model:
    """What a contender found.

    Attributes
    ----------
    support : ndarray of int64, (n_SV,)
    coefficients : ndarray of shape (n_SV, n_machines)
        Signed: of the pair (i, j), i < j, positive for rows of class i; of two classes, positive for class 1.
    intercepts : ndarray of shape (n_machines,)
    claims : dict
        What the contender says about the result: `status`, `violation`, `dual`.
    """

    support: IndexArray
    coefficients: FloatArray
    intercepts: FloatArray
    claims: dict[str, Any]


class Contender(ABC):
    """A library with its input prepared; only `fit` and `predict` are timed."""

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def fit(self, tol: float) -> None:
        """Train to a tolerance; the result is kept, the one before it is dropped first."""

    @abstractmethod
    def model(self) -> Model:
        """Return what the last fit found."""


class Estimator(Contender):
    """An estimator with scikit-learn's interface."""

    machine: Any = None

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.X = self.prepare(task.X)

    def prepare(self, X: Any) -> Any:
        """Return rows in the form that this contender takes best."""
        return X

    @abstractmethod
    def make(self, tol: float) -> Any:
        """Return the estimator, untrained."""

    def fit(self, tol: float) -> None:
        self.machine = None
        self.machine = self.make(tol).fit(self.X, self.task.y)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the classes of new rows that went through :meth:`prepare`."""
        return np.asarray(self.machine.predict(X))

    def decision(self, X: Any) -> FloatArray:
        """Return the decision values of rows, for two classes."""
        return np.asarray(self.machine.decision_function(X), dtype=np.float64)

    def claims(self) -> dict[str, Any]:
        """Return what the estimator says about its result."""
        return {"status": "converged" if getattr(self.machine, "fit_status_", 0) == 0 else "not converged"}

    def model(self) -> Model:
        machine = self.machine
        dual = machine.dual_coef_
        if self.task.machine == "KernelRidge":
            return Model(np.arange(dual.size), dual[:, None], np.zeros(1), self.claims())
        dual = np.asarray(dual.toarray() if sp.issparse(dual) else dual, dtype=np.float64)
        support = np.asarray(machine.support_, dtype=np.int64)
        one = not hasattr(machine, "classes_")
        coefficients = dual.T if one else _by_pair(dual, self.task.y[support], machine.classes_.size)
        intercepts = np.asarray(machine.intercept_, dtype=np.float64).ravel()
        return Model(support, coefficients, intercepts, self.claims())


class Mercer(Estimator):
    """This project, on float32 rows; with `alone`, its solver without the estimator."""

    def make(self, tol: float) -> Any:
        import mercer

        return getattr(mercer, self.task.machine)(**self.task.settings(tol), n_jobs=self.task.threads)

    def fit(self, tol: float) -> None:
        self._train(tol)
        self._certificate()  # all of it: objectives in float64 are computed when it is first read

    def _train(self, tol: float) -> None:
        if not self.task.alone:
            return super().fit(tol)
        from mercer.multiclass import training
        from mercer.solvers import Control, Limits

        t = self.task
        self.machine = None
        n_classes = int(t.y.max()) + 1
        gram = self._gram()
        self.machine = training.train(gram, t.y, n_classes, t.C, control=Control(Limits(tol=tol)))
        return None

    def _gram(self) -> Any:
        from mercer import RBF, Linear
        from mercer.data import as_data
        from mercer.gram import Gram

        t = self.task
        kernel = RBF(gamma=t.gamma) if t.kernel == "rbf" else Linear()
        return Gram(kernel, as_data(self.X), n_jobs=t.threads)

    def model(self) -> Model:
        if not self.task.alone:
            return super().model()
        beta = self.machine.coefficients
        support = np.flatnonzero(beta.any(axis=1))
        return Model(support, beta[support], self.machine.biases, self.claims())

    def claims(self) -> dict[str, Any]:
        return _claims(self._certificate())

    def _certificate(self) -> Any:
        return self.machine.certificate if self.task.alone else self.machine.certificate_

    def limit(self) -> Callable[[], object]:
        """Return what evaluates K[:, SV] once, with the engine's own tiles, in the precision that fits begin in."""
        support, gram = np.unique(self.model().support), self._gram()
        ones, out = np.ones(support.size), np.zeros(self.task.y.size)
        return lambda: list(gram.accumulate(out, support, ones, single=True))


class Ball(Mercer):
    """This project's SVDD with the ball that the one-class machine of the same task describes, for such kernels."""

    def make(self, tol: float) -> Any:
        from mercer import SVDD

        t, scale = self.task, self._scale
        return SVDD(1.0 / scale, kernel=t.kernel, gamma=t.gamma, tol=tol / scale, n_jobs=t.threads)

    @property
    def _scale(self) -> float:
        """What the coefficients of the one-class machine sum to; those of the ball sum to 1."""
        return self.task.parameter * self.task.y.size

    def model(self) -> Model:
        model = super().model()
        return replace(model, coefficients=model.coefficients * self._scale)


class OneThread(Mercer):
    """This project on one thread."""

    def __init__(self, task: Task) -> None:
        super().__init__(replace(task, threads=1))


class Tight(Mercer):
    """This project at a thousandth of the tolerance."""

    def fit(self, tol: float) -> None:
        super().fit(1e-3 * tol)


def _claims(certificate: Any) -> dict[str, Any]:
    return {
        "status": str(certificate.status),
        "violation": float(
            certificate.gradient_violation if certificate.kkt_violation is None else certificate.kkt_violation
        ),
        "rounding": float(certificate.decision_error),
        "dual": float(certificate.dual),
        "engine_bytes": int(certificate.peak_memory_bytes),
    }


class ScikitLearn(Estimator):
    """LIBSVM as scikit-learn has it; it computes in float64 and is given that, so that it need not convert."""

    def prepare(self, X: Any) -> Any:
        return X.astype(np.float64)

    def make(self, tol: float) -> Any:
        from sklearn import kernel_ridge, svm

        if self.task.machine == "KernelRidge":
            return kernel_ridge.KernelRidge(**self.task.settings(tol))
        return getattr(svm, self.task.machine)(**self.task.settings(tol), cache_size=CACHE_MEGABYTES)


class Intelex(Estimator):
    """oneDAL through scikit-learn-intelex; it computes in the type of its input."""

    dtype: type[np.floating] = np.float32

    def __init__(self, task: Task) -> None:
        import daal4py

        daal4py.daalinit(task.threads)
        super().__init__(task)

    def prepare(self, X: Any) -> Any:
        return X.astype(self.dtype)

    def make(self, tol: float) -> Any:
        from sklearnex import svm

        return getattr(svm, self.task.machine)(**self.task.settings(tol), cache_size=CACHE_MEGABYTES)

    def claims(self) -> dict[str, Any]:
        accelerated = hasattr(self.machine, "_onedal_estimator")
        return {**super().claims(), "computed_by": "oneDAL" if accelerated else "scikit-learn"}


class Intelex64(Intelex):
    """The same in float64."""

    dtype = np.float64


class IntelexDense(Intelex):
    """The same in float32, on sparse rows made dense."""

    def prepare(self, X: Any) -> Any:
        return X.toarray().astype(self.dtype) if sp.issparse(X) else super().prepare(X)


class LibSVM(Contender):
    """LIBSVM itself, through its own Python module; its threads, if any, are OpenMP's."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        os.environ["OMP_NUM_THREADS"] = str(task.threads)  # read when the library is loaded, below
        from libsvm import svmutil

        self._svm = svmutil
        self._rows = svmutil.svm_problem(task.y.astype(np.float64), task.X.astype(np.float64))
        self._machine: Any = None

    def fit(self, tol: float) -> None:
        t = self.task
        self._machine = None
        kind = {"linear": 0, "rbf": 2}[t.kernel]
        number = {"SVC": 0, "NuSVC": 1, "OneClassSVM": 2, "SVR": 3, "NuSVR": 4}[t.machine]
        other = f"-{'p' if t.machine == 'SVR' else 'n'} {t.parameter:.17g}" if number else ""
        options = f"-s {number} -t {kind} -c {t.C:.17g} {other} -g {t.gamma:.17g} -e {tol:.17g} -m {CACHE_MEGABYTES} -q"
        self._machine = self._svm.svm_train(self._rows, self._svm.svm_parameter(options))

    def model(self) -> Model:
        machine = self._machine
        support = np.array(machine.get_sv_indices(), dtype=np.int64) - 1
        theirs = np.array(machine.get_sv_coef(), dtype=np.float64).T  # (k-1, n_SV)
        if self.task.machine not in ("SVC", "NuSVC"):
            return Model(support, theirs.T, -np.array([machine.rho[0]]), {"status": "converged"})
        codes = np.array(machine.get_labels(), dtype=np.int64)  # in the order of their first rows
        position = np.empty_like(codes)
        position[codes] = np.arange(codes.size)
        intercepts = -np.array([machine.rho[i] for i in range(codes.size * (codes.size - 1) // 2)])
        columns = _by_pair(theirs, position[self.task.y[support]], codes.size, flip_two=False)
        order, signs = _pairs_in_order(codes)
        return Model(support, columns[:, order] * signs, intercepts[order] * signs, {"status": "converged"})


def _by_pair(dual: FloatArray, codes: IndexArray, n_classes: int, *, flip_two: bool = True) -> FloatArray:
    """Turn LIBSVM's layout, (k-1, n_SV), into a column for each pair of classes (i, j), i < j.

    Of the row of a support vector of class i, entry j-1 is its coefficient against class j > i, entry j against j < i.
    For two classes scikit-learn's sign is that of class 1 already.
    """
    if n_classes == 2 and flip_two:
        return np.ascontiguousarray(dual.T)
    pairs = list(combinations(range(n_classes), 2))
    columns = np.zeros((codes.size, len(pairs)))
    for column, (i, j) in enumerate(pairs):
        columns[codes == i, column] = dual[j - 1, codes == i]
        columns[codes == j, column] = dual[i, codes == j]
    return columns


def _pairs_in_order(codes: IndexArray) -> tuple[IndexArray, FloatArray]:
    """Find, for each pair of classes, the column and sign it has where the classes come in the order `codes`."""
    column_of = {}
    for column, (a, b) in enumerate(combinations(codes.tolist(), 2)):
        column_of[min(a, b), max(a, b)] = (column, 1.0 if a < b else -1.0)
    pairs = [column_of[pair] for pair in combinations(range(codes.size), 2)]
    signs = np.array([sign for _, sign in pairs])
    return np.array([column for column, _ in pairs]), signs if codes.size > 2 else -signs


CONTENDERS: dict[str, type[Contender]] = {
    "mercer": Mercer,
    "mercer SVDD": Ball,
    "mercer 1 thread": OneThread,
    "mercer tol=1e-6": Tight,
    "scikit-learn": ScikitLearn,
    "intelex32": Intelex,
    "intelex64": Intelex64,
    "intelex32 dense": IntelexDense,
    "libsvm": LibSVM,
}

INTELEX = ("intelex32", "intelex64", "intelex32 dense")
"""The ways to run scikit-learn-intelex; the best of them counts."""
