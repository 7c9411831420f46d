"""The kernels, problems and tables that general tests run on; a new kernel is one row here."""

from __future__ import annotations

from collections.abc import Callable as Function
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_circles, make_moons
from sklearn.gaussian_process import kernels as gaussian_process
from sklearn.metrics import pairwise
from sklearn.preprocessing import scale

from mercer import _core
from mercer.data import as_data
from mercer.kernels import (
    RBF,
    Bilinear,
    Callable,
    ChiSquared,
    Cosine,
    Dice,
    FeatureKernel,
    GeneralizedGaussian,
    Hamming,
    HistogramIntersection,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    Tanimoto,
    center,
    exp,
    normalize,
)
from mercer.kernels.program import NONNEGATIVE, PASSES, Op
from mercer.kernels.views import View
from mercer.problems import Problem, c_svc, epsilon_svr, nearest_points, nu_svc, nu_svr, one_class, quantile, svdd
from mercer.solvers.dual import single_precision, small_problems, working_set, working_set_sizes

ISAS = [isa for isa in ("baseline", "avx2", "avx512") if _core.has_isa(isa)]
"""Instruction sets that this machine has native code for."""

WAYS = ("one call", "whole", "working sets", "a set, then everything")
"""How problems are solved, from the smallest to the largest; see :func:`going`."""


@contextmanager
def going(way: str) -> Iterator[None]:
    """Make small problems use the solver path `way` of larger problems."""
    with pytest.MonkeyPatch.context() as patch:
        if way != "one call":
            patch.setattr(small_problems, "SMALL_PROBLEM", 0)
            patch.setattr(small_problems, "SMALL_AMONG_MANY", 0)
        if way == "a set, then everything":
            patch.setattr(working_set, "_MOST_MOVE", 0.0)
            patch.setattr(working_set, "_FEW_STEPS_EACH", np.inf)
        if way in ("working sets", "a set, then everything"):
            patch.setattr(working_set_sizes, "WHOLE_PROBLEM", 16)
            for module in (working_set_sizes, single_precision):
                patch.setattr(module, "EXACT_PROBLEM", 8)
            patch.setattr(working_set_sizes, "_WORKING_SETS", (24,))
        yield


@dataclass(frozen=True)
class KernelCase:
    """A kernel, and the textbook formula for one pair of rows that it must agree with."""

    name: str
    kernel: Kernel
    formula: Function[[np.ndarray, np.ndarray], float]
    proved: bool = True
    lowered: bool = True
    text: str = ""
    """What it prints, where that is a formula to check; an expression that makes it again."""
    peer: Function[[np.ndarray, np.ndarray], np.ndarray] | None = None
    """scikit-learn's function of two tables, where it has one."""
    p: int | None = None
    """Features of the rows that it takes, where only so many will do."""
    written: bool = True
    """Whether a model file can hold it: it has no Python function and no rows."""

    @property
    def plain(self):
        """Whether the kernel's program reads the rows directly, without a transformation."""
        return self.lowered and not any(isinstance(argument, View) for _, argument in self.kernel.lower())

    @property
    def movable(self):
        """Whether all passes of the kernel's program allow that a centre is subtracted from the rows."""
        return {op for op, _ in self.kernel.lower() if op in PASSES} <= {Op.DOT, Op.SQDIST, Op.L1}

    def rows(self, X):
        """Return the table, or one that the kernel takes."""
        return np.abs(X[:, : self.p]) if takes_no_negative(self.kernel.lower() or ()) else X[:, : self.p]


def takes_no_negative(program):
    """Return whether some pass of the program is undefined for negative entries."""
    return any(op in NONNEGATIVE for op, _ in program)


def laplacian(A, B):
    """The Laplacian kernel for dense and sparse rows, at module level so that it can be pickled."""
    A, B = (rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows) for rows in (A, B))
    return np.exp(-np.abs(A[:, None].astype(float) - B).sum(axis=-1))


def chebyshev(A, B):
    """The Chebyshev distance, for which the library has no special case."""
    A, B = (rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows) for rows in (A, B))
    return np.abs(A[:, None].astype(float) - B).max(axis=-1)


def tilt(rows):
    """One positive feature of each row, for dense and sparse rows."""
    return 1.0 + np.asarray(abs(rows.astype(float)).sum(axis=1)).ravel()


def corners(rows):
    """Three features of each row, for dense and sparse rows."""
    X = (rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)).astype(float)
    return np.column_stack([X[:, 0] * X[:, 1], X.sum(axis=1), X[:, -1] ** 2])


ANCHORS = np.random.default_rng(7).normal(size=(5, 4))


def centred(x, z):
    """The Gaussian kernel with gamma = 0.3, centred at the mean of the anchors."""

    def k(a, b):
        return np.exp(-0.3 * ((a - b) ** 2).sum(axis=-1))

    return k(x, z) - k(x, ANCHORS).mean() - k(z, ANCHORS).mean() + k(ANCHORS[:, None], ANCHORS).mean()


def chi2(x, z):
    """The chi-squared distance of two rows."""
    return sum((a - b) ** 2 / (a + b) for a, b in zip(x, z, strict=True) if a + b > 0)


def tanimoto(x, z):
    """The sum of minima divided by the sum of maxima."""
    return np.minimum(x, z).sum() / np.maximum(x, z).sum() if (x + z).any() else 1.0


def dice(x, z):
    """Twice the sum of minima divided by the sum of all entries."""
    return 2.0 * np.minimum(x, z).sum() / (x + z).sum() if (x + z).any() else 1.0


def matern(nu):
    """scikit-learn's function."""
    return gaussian_process.Matern(1.5, nu=nu)


def squared(v):
    return float(v @ v)


KERNELS = [
    KernelCase("linear", Linear(), lambda x, z: x @ z, text="Linear()", peer=pairwise.linear_kernel),
    KernelCase(
        "cubic",
        Polynomial(3, 0.5, 1.0),
        lambda x, z: (0.5 * (x @ z) + 1) ** 3,
        text="Polynomial(degree=3, gamma=0.5, coef0=1.0)",
        peer=lambda A, B: pairwise.polynomial_kernel(A, B, degree=3, gamma=0.5, coef0=1.0),
    ),
    KernelCase("homogeneous", Polynomial(2, 1.0), lambda x, z: (x @ z) ** 2),
    KernelCase("unproved polynomial", Polynomial(3, 1.0, -0.5), lambda x, z: (x @ z - 0.5) ** 3, proved=False),
    KernelCase("degree 0", Polynomial(0, 0.5, -1.0), lambda x, z: 1.0),
    KernelCase("gaussian", RBF(gamma=0.5), lambda x, z: np.exp(-0.5 * squared(x - z)), text="RBF(gamma=0.5)"),
    KernelCase("gaussian by sigma", RBF(sigma=2), lambda x, z: np.exp(-squared(x - z) / 8), text="RBF(gamma=0.125)"),
    KernelCase("gaussian by width", RBF(width=2), lambda x, z: np.exp(-squared(x - z) / 4), text="RBF(gamma=0.25)"),
    KernelCase("flat gaussian", RBF(gamma=0), lambda x, z: 1.0),
    KernelCase(
        "sigmoid",
        Sigmoid(0.5, -0.25),
        lambda x, z: np.tanh(0.5 * (x @ z) - 0.25),
        proved=False,
        text="Sigmoid(gamma=0.5, coef0=-0.25)",
        peer=lambda A, B: pairwise.sigmoid_kernel(A, B, gamma=0.5, coef0=-0.25),
    ),
    KernelCase(
        "sum",
        RBF(gamma=0.5) + 2.0 * Linear(),
        lambda x, z: np.exp(-0.5 * squared(x - z)) + 2 * (x @ z),
        text="RBF(gamma=0.5) + 2.0 * Linear()",
    ),
    KernelCase(
        "power of a shift",
        (Linear() + 1.0) ** 2,
        lambda x, z: (x @ z + 1) ** 2,
        text="(Linear() + 1.0) ** 2",
    ),
    KernelCase(
        "product of three",
        Linear() * RBF(gamma=0.25) * Polynomial(2, 1.0, 1.0),
        lambda x, z: (x @ z) * np.exp(-0.25 * squared(x - z)) * (x @ z + 1) ** 2,
        text="Linear() * RBF(gamma=0.25) * Polynomial(degree=2, gamma=1.0, coef0=1.0)",
    ),
    KernelCase(
        "nest",
        ((RBF(gamma=1.0) + (Linear() + 0.5)) * (3 * (Linear() * Linear())) + 1) ** 2 * 0.1,
        lambda x, z: 0.1 * ((np.exp(-squared(x - z)) + x @ z + 0.5) * 3 * (x @ z) ** 2 + 1) ** 2,
        text="0.1 * ((RBF(gamma=1.0) + (Linear() + 0.5)) * (3.0 * (Linear() * Linear())) + 1.0) ** 2",
    ),
    KernelCase("power of a power", (Linear() ** 2) ** 3, lambda x, z: (x @ z) ** 6, text="(Linear() ** 2) ** 3"),
    KernelCase("power 0", Sigmoid(1.0) ** 0, lambda x, z: 1.0, text="Sigmoid(gamma=1.0, coef0=0.0) ** 0"),
    KernelCase("unproved sum", Linear() + Sigmoid(1.0), lambda x, z: x @ z + np.tanh(x @ z), proved=False),
    KernelCase(
        "function",
        Callable(laplacian),
        lambda x, z: np.exp(-np.abs(x - z).sum()),
        proved=False,
        lowered=False,
        written=False,
        text="Callable(laplacian)",
    ),
    KernelCase(
        "composite of a function",
        (2 * Callable(laplacian) + Linear()) ** 2 + 1,
        lambda x, z: (2 * np.exp(-np.abs(x - z).sum()) + x @ z) ** 2 + 1,
        proved=False,
        lowered=False,
        written=False,
        text="(2.0 * Callable(laplacian) + Linear()) ** 2 + 1.0",
    ),
    KernelCase(
        "laplacian",
        Laplacian(gamma=0.5),
        lambda x, z: np.exp(-0.5 * np.abs(x - z).sum()),
        text="Laplacian(gamma=0.5)",
        peer=lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.5),
    ),
    KernelCase("hamming", Hamming(gamma=0.5), lambda x, z: np.exp(-0.5 * (x != z).sum()), text="Hamming(gamma=0.5)"),
    KernelCase(
        "chi-squared",
        ChiSquared(sigma=1.0),
        lambda x, z: np.exp(-0.5 * chi2(x, z)),
        text="ChiSquared(gamma=0.5)",
        peer=lambda A, B: pairwise.chi2_kernel(A, B, gamma=0.5),
    ),
    KernelCase("histogram intersection", HistogramIntersection(), lambda x, z: np.minimum(x, z).sum()),
    KernelCase(
        "tanimoto",
        Tanimoto(),
        tanimoto,
        text="Tanimoto()",
    ),
    KernelCase("dice", Dice(), dice, text="Dice()"),
    KernelCase(
        "rational quadratic",
        RationalQuadratic(1.5, 0.7),
        lambda x, z: (1 + squared(x - z) / (2 * 0.7 * 1.5**2)) ** -0.7,
        text="RationalQuadratic(length_scale=1.5, alpha=0.7)",
        peer=gaussian_process.RationalQuadratic(1.5, 0.7),
    ),
    KernelCase("matern 1/2", Matern(1.5, 0.5), lambda x, z: np.exp(-np.sqrt(squared(x - z)) / 1.5), peer=matern(0.5)),
    KernelCase(
        "matern 3/2",
        Matern(1.5),
        lambda x, z: (1 + (3 * squared(x - z)) ** 0.5 / 1.5) * np.exp(-((3 * squared(x - z)) ** 0.5) / 1.5),
        text="Matern(length_scale=1.5, nu=1.5)",
        peer=matern(1.5),
    ),
    KernelCase(
        "matern 5/2",
        Matern(1.5, 2.5),
        lambda x, z: (
            (1 + (5 * squared(x - z)) ** 0.5 / 1.5 + 5 * squared(x - z) / 3 / 1.5**2)
            * np.exp(-((5 * squared(x - z)) ** 0.5) / 1.5)
        ),
        peer=matern(2.5),
    ),
    KernelCase(
        "cosine",
        Cosine(),
        lambda x, z: x @ z / max(1e-300, np.sqrt(squared(x) * squared(z))),
        text="Cosine()",
        peer=pairwise.cosine_similarity,
    ),
    KernelCase(
        "bilinear",
        Bilinear(np.diag([1.0, 0.0, 2.0, 0.5]) + 0.25),
        lambda x, z: x @ (np.diag([1.0, 0.0, 2.0, 0.5]) + 0.25) @ z,
        p=4,
    ),
    KernelCase(
        "feature map",
        FeatureKernel(corners),
        lambda x, z: corners(x[None])[0] @ corners(z[None])[0],
        text="FeatureKernel(corners)",
        written=False,
    ),
    KernelCase(
        "f(x) k f(z)",
        FeatureKernel(tilt) * RBF(gamma=0.5),
        lambda x, z: tilt(x[None])[0] * tilt(z[None])[0] * np.exp(-0.5 * squared(x - z)),
        text="FeatureKernel(tilt) * RBF(gamma=0.5)",
        written=False,
    ),
    KernelCase(
        "generalised gaussian",
        GeneralizedGaussian(chebyshev, sigma=1.0),
        lambda x, z: np.exp(-0.5 * np.abs(x - z).max()),
        proved=False,
        lowered=False,
        text="GeneralizedGaussian(chebyshev, gamma=0.5)",
        written=False,
    ),
    KernelCase(
        "exponential",
        exp(0.25 * Linear() + RBF(gamma=1.0)),
        lambda x, z: np.exp(0.25 * (x @ z) + np.exp(-squared(x - z))),
        text="exp(0.25 * Linear() + RBF(gamma=1.0))",
    ),
    KernelCase(
        "normalised",
        normalize(Polynomial(2, 1.0, 1.0)),
        lambda x, z: (x @ z + 1) ** 2 / (squared(x) + 1) / (squared(z) + 1),
        text="normalize(Polynomial(degree=2, gamma=1.0, coef0=1.0))",
    ),
    KernelCase(
        "centred",
        center(RBF(gamma=0.3)).resolve(as_data(ANCHORS)),
        centred,
        p=4,
        text="center(RBF(gamma=0.3))",
    ),
    KernelCase(
        "some columns",
        RBF(gamma=0.5).on([3, 0]),
        lambda x, z: np.exp(-0.5 * squared((x - z)[[0, 3]])),
    ),
    KernelCase(
        "a kernel for each group of columns",
        0.5 * Laplacian(gamma=0.5).on([1, 2])
        + RBF(gamma=0.5).on([0]) * Hamming(gamma=1.0).on([3])
        + Linear().on([0, 2]),
        lambda x, z: (
            0.5 * np.exp(-0.5 * np.abs(x - z)[1:3].sum())
            + np.exp(-0.5 * (x[0] - z[0]) ** 2) * np.exp(-1.0 * (x[3] != z[3]))
            + x[[0, 2]] @ z[[0, 2]]
        ),
        text="0.5 * Laplacian(gamma=0.5).on([1, 2]) + RBF(gamma=0.5).on([0]) * Hamming(gamma=1.0).on([3])"
        " + Linear().on([0, 2])",
    ),
    KernelCase(
        "all passes at once",
        ChiSquared(gamma=0.2) * HistogramIntersection()
        + normalize(Laplacian(gamma=0.1) + RBF(gamma=0.1))
        + Linear()
        + Tanimoto() * Dice(),
        lambda x, z: (
            np.exp(-0.2 * chi2(x, z)) * np.minimum(x, z).sum()
            + 0.5 * (np.exp(-0.1 * np.abs(x - z).sum()) + np.exp(-0.1 * squared(x - z)))
            + x @ z
            + tanimoto(x, z) * dice(x, z)
        ),
    ),
]


@dataclass(frozen=True)
class ProblemCase:
    """A quadratic problem made from labels -1 and +1."""

    name: str
    problem: Function[[np.ndarray], Problem]


def targets(y):
    """Targets of a regression, made from labels."""
    return 2.0 * y + np.cos(3.0 * np.arange(y.size))


PROBLEMS = [
    ProblemCase("C-SVC", lambda y: c_svc(y, 2.0)),
    ProblemCase("C-SVC, small C", lambda y: c_svc(y, 1e-8)),
    ProblemCase("C-SVC, large C", lambda y: c_svc(y, 1e4)),
    ProblemCase("C-SVC, weights", lambda y: c_svc(y, 10.0 ** (np.arange(y.size) % 5 - 2.0))),
    ProblemCase("nearest points", nearest_points),
    ProblemCase("bias-free", lambda y: c_svc(y, 2.0).without_bias()),
    ProblemCase("squared hinge", lambda y: c_svc(y, 2.0, squared=True)),
    ProblemCase("squared hinge, bias-free", lambda y: c_svc(y, 2.0, squared=True).without_bias()),
    ProblemCase("epsilon-SVR", lambda y: epsilon_svr(targets(y), 2.0, 0.3)),
    ProblemCase("epsilon-SVR, weights", lambda y: epsilon_svr(targets(y), 10.0 ** (np.arange(y.size) % 5 - 2.0), 0.3)),
    ProblemCase("epsilon-SVR, bias-free", lambda y: epsilon_svr(targets(y), 2.0, 0.3).without_bias()),
    ProblemCase("epsilon-SVR, no tube", lambda y: epsilon_svr(targets(y), 2.0, 0.0)),
    ProblemCase("squared epsilon-SVR", lambda y: epsilon_svr(targets(y), 2.0, 0.3, squared=True)),
    ProblemCase("squared epsilon-SVR, no tube", lambda y: epsilon_svr(targets(y), 2.0, 0.0, squared=True)),
    ProblemCase("nu-SVR", lambda y: nu_svr(targets(y), 2.0, 0.6)),
    ProblemCase("nu-SVC", lambda y: nu_svc(y, 1.0, 0.4)),
    ProblemCase("nu-SVC, weights", lambda y: nu_svc(y, 1.0 + np.arange(y.size) % 3, 0.3)),
    ProblemCase("one-class", lambda y: one_class(1.0 + np.arange(y.size) % 3, 0.4)),
    ProblemCase("SVDD", lambda y: svdd(1.0 + np.arange(y.size) % 2, 0.2)),
    ProblemCase("minimal enclosing ball", lambda y: svdd(1.0 + np.arange(y.size) % 2, np.inf)),
    ProblemCase("quantile regression", lambda y: quantile(targets(y), 2.0, 0.3)),
]


def blobs(n=40, p=3, seed=0, distance=1.0):
    """Two overlapping clouds."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return rng.normal(size=(n, p)) + distance * y[:, None] / 2, y


def hostile_tables():
    """Small tables with labels -1 and +1 that are difficult for solvers, by name."""
    X, y = blobs()
    rng = np.random.default_rng(1)
    conflict = np.vstack([X[:10], X[:10]]), np.concatenate([np.ones(10), -np.ones(10)])
    grid = np.array([[a, b] for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)])
    return {
        "overlapping": (X, y),
        "separable": blobs(distance=8.0),
        "two rows": (np.array([[0.0, 1.0], [1.0, -1.0]]), np.array([1.0, -1.0])),
        "two equal rows": (np.ones((2, 2)), np.array([1.0, -1.0])),
        "one against many": (X, np.where(np.arange(40) == 7, 1.0, -1.0)),
        "all rows equal": (np.full((12, 2), 0.3), np.where(np.arange(12) < 5, 1.0, -1.0)),
        "every row twice, labels disagree": conflict,
        "every row three times": (np.repeat(X[:12], 3, axis=0), np.repeat(y[:12], 3)),
        "grid": (grid, np.where(grid.prod(axis=1) + rng.normal(size=9) > 0, 1.0, -1.0)),
        "constant columns": (np.hstack([X, np.ones((40, 2)), np.zeros((40, 1))]), y),
        "nothing but constants": (np.full((10, 3), 5.0), np.where(np.arange(10) % 2 == 0, 1.0, -1.0)),
        "more columns than rows": (rng.normal(size=(12, 60)) / 8, y[:12]),
        "one column": (X[:, :1], y),
        "one column a thousand times larger": (X * [1e3, 1.0, 1.0], y),
        "far from the origin": (X + 1e3, y),
        "subnormal": (X * 1e-310, y),
        "tiny": (X * 1e-100, y),
        "huge": (X * 1e30, y),
    }


def real_and_hard_tables(n=200):
    """Tables of at most about `n` rows with labels -1 and +1: real ones, and generated ones that are hard, by name."""
    rng = np.random.default_rng(0)

    def pair(loaded, one, other, scaled=False):
        X, y = loaded
        rows = rng.permutation(np.flatnonzero((y == one) | (y == other)))[:n]
        X = X[rows].astype(float)
        return scale(X) if scaled else X, np.where(y[rows] == one, 1.0, -1.0)

    def noisy(X, signs, flips=0.1):
        return X, np.where(rng.random(len(X)) < flips, -1.0, 1.0) * np.where(signs > 0, 1.0, -1.0)

    iris, wine, cancer, digits = (
        load(return_X_y=True) for load in (load_iris, load_wine, load_breast_cancer, load_digits)
    )
    X = rng.normal(size=(n, 2))
    moons, circles = (make(n, noise=0.25, random_state=0) for make in (make_moons, make_circles))
    turn = np.linspace(0.5, 3.0, n // 2)
    arm = turn[:, None] * np.column_stack([np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)])
    heavy = rng.standard_t(1.5, size=(n, 6))
    few = rng.normal(size=(24, 300))
    return {
        "iris, separable": pair(iris, 0, 1),
        "iris": pair(iris, 1, 2),
        "wine": pair(wine, 0, 1),
        "wine, scaled": pair(wine, 1, 2, scaled=True),
        "breast cancer": pair(cancer, 0, 1),
        "breast cancer, scaled": pair(cancer, 0, 1, scaled=True),
        "digits 3 and 8": pair((digits[0] / 16, digits[1]), 3, 8),
        "digits 1 and 7": pair(digits, 1, 7),
        "moons": (moons[0], 2.0 * moons[1] - 1),
        "circles": (circles[0], 2.0 * circles[1] - 1),
        "exclusive or": noisy(X, X.prod(axis=1)),
        "spirals": noisy(np.vstack([arm, -arm]), np.repeat([-1.0, 1.0], n // 2), 0.02),
        "nothing to learn": noisy(X, X[:, 0], 0.5),
        "labels disagree": (np.vstack([X[: n // 2]] * 2), np.repeat([-1.0, 1.0], n // 2)),
        "heavy tails": noisy(heavy, heavy[:, 0]),
        "more columns than rows": noisy(few, few[:, 0]),
        "one against many": (X, np.where(np.arange(n) == 3, 1.0, -1.0)),
        "unbalanced": noisy(X, X[:, 0] - 1.5, 0.03),
        "integers with ties": noisy(np.round(X), np.round(X).sum(axis=1) + 0.5),
        "constant columns": noisy(np.hstack([X, np.full((n, 2), 3.0)]), X[:, 1]),
    }
