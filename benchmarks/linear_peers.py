"""The contenders of `make bench-linear`: each gets the rows in its own form before the clock runs, and returns w."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .linear_problems import EPSILON, Workload

FloatArray = npt.NDArray[np.float64]

CLASSES = ("squared_hinge", "hinge", "logistic")

MOST_UNKNOWNS = 4_000
"""Largest number of unknowns for which scikit-learn gets its solver that forms the matrix of second derivatives."""


class LinearContender(ABC):
    """A library with its input prepared; only `fit` is timed.

    Attributes
    ----------
    ladder : tuple of float
        Tolerances to ask for, the loosest first, until the result is good enough.
    compiles : bool
        Whether its first runs compile code, so that only the time limit ends them.
    """

    ladder: tuple[float, ...] = (1e-2, 1e-4, 1e-6, 1e-8)
    compiles = False

    def __init__(self, workload: Workload, X: Any, y: npt.NDArray[Any], threads: int, limit: float = 60.0) -> None:
        self.workload, self.y, self.threads, self.limit = workload, y, threads, limit
        self.X = self.prepare(X)

    @classmethod
    @abstractmethod
    def takes(cls, workload: Workload) -> bool:
        """Whether it solves this problem."""

    def prepare(self, X: Any) -> Any:
        """Return the rows in the form that it takes best."""
        return X.astype(np.float64)

    @abstractmethod
    def fit(self, tol: float) -> FloatArray:
        """Return w, (n_machines, p)."""

    def claims(self) -> dict[str, Any]:
        """Return what it says about its last result."""
        return {}


class Mercer(LinearContender):
    """This project, on float32 rows; its tolerance is the relative duality gap."""

    ladder = (1e-4,)
    machine: Any = None

    @classmethod
    def takes(cls, workload: Workload) -> bool:
        return True

    def prepare(self, X: Any) -> Any:
        return X

    def fit(self, tol: float) -> FloatArray:
        import mercer

        one = self.workload
        params: dict[str, Any] = {
            "fit_intercept": False,
            "penalty": one.penalty,
            "tol_gap": tol,
            "n_jobs": self.threads,
        }
        params |= {"max_seconds": self.limit}
        if one.loss in ("logistic", "softmax"):
            how = "softmax" if one.loss == "softmax" else "ovr"
            machine = mercer.LogisticRegression(prior_variance=one.C, tol=tol, multi_class=how, **params)
        elif one.is_regression:
            machine = mercer.LinearSVR(loss=one.loss, C=one.C, epsilon=EPSILON, **params)
        else:
            machine = mercer.LinearSVC(loss=one.loss, C=one.C, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.machine = machine.fit(self.X, self.y)
        return np.atleast_2d(self.machine.coef_)

    def claims(self) -> dict[str, Any]:
        certificate = self.machine.certificate_
        numbers = {name: getattr(certificate, name, None) for name in ("primal", "dual", "relative_gap")}
        return {**numbers, "status": str(certificate.status), "bytes": getattr(certificate, "peak_memory_bytes", None)}


class Liblinear(LinearContender):
    """LIBLINEAR through its own Python module, by one of its solvers."""

    ladder = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
    solver: int
    problem: tuple[str, str]

    @classmethod
    def takes(cls, workload: Workload) -> bool:
        return (workload.loss, workload.penalty) == cls.problem

    def prepare(self, X: Any) -> Any:
        from liblinear import liblinear

        rows = sp.csr_matrix(X, dtype=np.float64) if sp.issparse(X) else X.astype(np.float64)
        targets = self.y.astype(np.float64)
        return liblinear.problem(targets, rows)

    def fit(self, tol: float) -> FloatArray:
        from liblinear import liblinearutil

        tube = f"-p {EPSILON:g}" if self.workload.is_regression else ""
        model = liblinearutil.train(
            self.X, liblinearutil.parameter(f"-s {self.solver} -c {self.workload.C:.17g} -e {tol:g} {tube} -q")
        )
        n_machines = 1 if self.workload.is_regression or model.nr_class == 2 else model.nr_class
        w = np.ctypeslib.as_array(model.w, shape=(model.nr_feature * n_machines,)).reshape(-1, n_machines).T.copy()
        if self.workload.is_regression:
            return w
        labels = np.array(model.get_labels(), dtype=np.int64)
        return (w if labels[0] == 1 else -w) if n_machines == 1 else w[np.argsort(labels)]


class ScikitLearn(LinearContender):
    """scikit-learn's machine of the loss; of two solvers the better one counts."""

    variant = 0

    @classmethod
    def takes(cls, workload: Workload) -> bool:
        return workload.penalty == "l2" and not (cls.variant and workload.loss in ("hinge", "epsilon_insensitive"))

    def fit(self, tol: float) -> FloatArray:
        from sklearn.linear_model import LogisticRegression
        from sklearn.multiclass import OneVsRestClassifier
        from sklearn.svm import LinearSVC, LinearSVR

        one, shared = self.workload, {"fit_intercept": False, "tol": tol, "max_iter": 1_000_000}
        dual = one.loss in ("hinge", "epsilon_insensitive") or bool(self.variant)
        if one.loss in ("logistic", "softmax"):
            q = self.X.shape[1] * (self.y.max() + 1 if one.loss == "softmax" else 1)
            newton = "newton-cholesky" if q <= MOST_UNKNOWNS else "newton-cg"
            machine: Any = LogisticRegression(C=one.C, solver=(newton, "lbfgs")[self.variant], **shared)
            if one.loss == "logistic" and self.y.max() > 1:
                machine = OneVsRestClassifier(machine)
        elif one.is_regression:
            machine = LinearSVR(C=one.C, loss=one.loss, epsilon=EPSILON, dual=dual, random_state=0, **shared)
        else:
            machine = LinearSVC(C=one.C, loss=one.loss, dual=dual, random_state=0, **shared)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(self.X, self.y)
        if hasattr(machine, "estimators_"):
            return np.vstack([part.coef_ for part in machine.estimators_])
        return np.atleast_2d(machine.coef_)


class ScikitLearnOther(ScikitLearn):
    """The same by its other solver."""

    variant = 1


class SnapML(LinearContender):
    """snapml on several threads; its tolerance is on the change of coefficients."""

    ladder = (1e-2, 1e-3, 1e-4, 1e-6)

    @classmethod
    def takes(cls, workload: Workload) -> bool:
        return workload.penalty == "l2" and workload.loss in CLASSES and workload.table != "20 newsgroups"

    def prepare(self, X: Any) -> Any:
        return X

    def fit(self, tol: float) -> FloatArray:
        import snapml

        shared = {"fit_intercept": False, "regularizer": 1.0 / self.workload.C, "tol": tol, "max_iter": 100_000}
        shared |= {"n_jobs": self.threads, "normalize": False}
        if self.workload.loss == "logistic":
            machine = snapml.LogisticRegression(dual=True, **shared)
        else:
            machine = snapml.SupportVectorMachine(loss=self.workload.loss, **shared)
        machine.fit(self.X, self.y.astype(np.float64))
        return np.atleast_2d(np.asarray(machine.coef_, dtype=np.float64))


class Skglm(LinearContender):
    """skglm's logistic regression with the l1 penalty."""

    compiles = True

    @classmethod
    def takes(cls, workload: Workload) -> bool:
        return (workload.loss, workload.penalty) == ("logistic", "l1")

    def prepare(self, X: Any) -> Any:
        X = X.astype(np.float64)
        return sp.csc_matrix(X) if sp.issparse(X) else np.asfortranarray(X)

    def fit(self, tol: float) -> FloatArray:
        from skglm import SparseLogisticRegression

        alpha = 1.0 / (self.workload.C * len(self.y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine = SparseLogisticRegression(alpha=alpha, tol=tol, fit_intercept=False, max_iter=200)
            return np.atleast_2d(machine.fit(self.X, self.y).coef_)


class Celer(Skglm):
    """celer's logistic regression with the l1 penalty."""

    compiles = False

    def fit(self, tol: float) -> FloatArray:
        from celer import LogisticRegression

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine = LogisticRegression(C=self.workload.C, tol=tol, fit_intercept=False, max_iter=200)
            return np.atleast_2d(machine.fit(self.X, self.y).coef_)


_SOLVERS = {
    0: ("logistic", "l2"),
    2: ("squared_hinge", "l2"),
    1: ("squared_hinge", "l2"),
    7: ("logistic", "l2"),
    3: ("hinge", "l2"),
    5: ("squared_hinge", "l1"),
    6: ("logistic", "l1"),
    11: ("squared_epsilon_insensitive", "l2"),
    12: ("squared_epsilon_insensitive", "l2"),
    13: ("epsilon_insensitive", "l2"),
}

CONTENDERS: dict[str, type[LinearContender]] = {
    "mercer": Mercer,
    **{
        f"liblinear -s {solver}": type(f"Liblinear{solver}", (Liblinear,), {"solver": solver, "problem": problem})
        for solver, problem in _SOLVERS.items()
    },
    "scikit-learn": ScikitLearn,
    "scikit-learn, other solver": ScikitLearnOther,
    "snapml": SnapML,
    "skglm": Skglm,
    "celer": Celer,
}


def contenders_of(workload: Workload) -> list[str]:
    """Return the names of those that solve this problem, mercer first."""
    return [name for name, kind in CONTENDERS.items() if kind.takes(workload)]
