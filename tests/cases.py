"""The tables that the laws are tested on: a new kernel is one row here and inherits every law."""

from __future__ import annotations

from collections.abc import Callable as Function
from dataclasses import dataclass

import numpy as np

from mercer.kernels import RBF, Callable, Kernel, Linear, Polynomial, Sigmoid


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


def laplacian(A, B):
    """A module-level function, so that the kernel made of it pickles; for dense and sparse rows."""
    A, B = (rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows) for rows in (A, B))
    return np.exp(-np.abs(A[:, None].astype(float) - B).sum(axis=-1))


def squared(v):
    return float(v @ v)


KERNELS = [
    KernelCase("linear", Linear(), lambda x, z: x @ z, text="Linear()"),
    KernelCase(
        "cubic",
        Polynomial(3, 0.5, 1.0),
        lambda x, z: (0.5 * (x @ z) + 1) ** 3,
        text="Polynomial(degree=3, gamma=0.5, coef0=1.0)",
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
        text="Callable(laplacian)",
    ),
    KernelCase(
        "composite of a function",
        (2 * Callable(laplacian) + Linear()) ** 2 + 1,
        lambda x, z: (2 * np.exp(-np.abs(x - z).sum()) + x @ z) ** 2 + 1,
        proved=False,
        lowered=False,
        text="(2.0 * Callable(laplacian) + Linear()) ** 2 + 1.0",
    ),
]
