"""Quadratic duals solved in rational numbers, by Lemke's method with lexicographic pivots; for a dozen variables."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np


def exact_gram(X, kernel, gamma=1.0, degree=1, coef0=0.0):
    """Return kernel values as fractions: exact for "linear" and "poly", to 60 digits for "rbf"."""
    rows = [[Fraction(float(cell)) for cell in row] for row in X]
    gamma = Fraction(gamma)

    def value(x, z):
        if kernel != "rbf":
            product = sum(a * b for a, b in zip(x, z, strict=True))
            return product if kernel == "linear" else (gamma * product + Fraction(coef0)) ** degree
        exponent = gamma * sum((a - b) ** 2 for a, b in zip(x, z, strict=True))
        with localcontext() as context:
            context.prec = 60
            return Fraction((-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())

    return [[value(x, z) for z in rows] for x in rows]


def lemke(M, q):
    """Return z >= 0 with w = M z + q >= 0 and w'z = 0, for a positive semidefinite M."""
    n = len(q)
    if min(q) >= 0:
        return [Fraction(0)] * n
    table = [
        [Fraction(int(i == j)) for j in range(n)] + [-value for value in M[i]] + [Fraction(-1), q[i]] for i in range(n)
    ]
    basis, z0, last = list(range(n)), 2 * n, 2 * n + 1

    def pivot(row, column):
        divisor = table[row][column]
        table[row] = [value / divisor for value in table[row]]
        for i in range(n):
            if i != row and table[i][column]:
                factor = table[i][column]
                table[i] = [a - factor * b if b else a for a, b in zip(table[i], table[row], strict=True)]
        basis[row] = column

    row = min(range(n), key=lambda i: [table[i][last], *table[i][:n]])
    left = basis[row]
    pivot(row, z0)
    while left != z0:
        entering = left + n if left < n else left - n
        able = [i for i in range(n) if table[i][entering] > 0]

        def ratios(i, entering=entering):
            return [table[i][place] / table[i][entering] for place in (last, *range(n))]

        row = min(able, key=lambda i: (ratios(i)[0], basis[i] != z0, ratios(i)))
        left = basis[row]
        pivot(row, entering)
    z = [Fraction(0)] * n
    for i, variable in enumerate(basis):
        if n <= variable < 2 * n:
            z[variable - n] = table[i][last]
    return z


def solve_exactly(problem, K):
    """Return beta and the level of a problem with at most one group; `K` holds the kernel values of its rows."""
    n, has_group = problem.n, problem.groups is not None
    rows = np.arange(n) if problem.rows is None else problem.rows
    Q = [[K[rows[i]][rows[j]] for j in range(n)] for i in range(n)]
    for i in range(n if problem.ridge is not None else 0):
        Q[i][i] += Fraction(float(problem.ridge[i]))
    # From the finite bound of a variable, it can grow (sign 1) or fall (sign -1) up to its width.
    sign = [1 if np.isfinite(bound) else -1 for bound in problem.lower]
    base = [Fraction(float(problem.lower[i] if sign[i] > 0 else problem.upper[i])) for i in range(n)]
    boxed = [i for i in range(n) if np.isfinite(problem.lower[i]) and np.isfinite(problem.upper[i])]
    linear = [Fraction(float(value)) for value in problem.linear]
    size = n + len(boxed) + 2 * has_group
    M, q = [[Fraction(0)] * size for _ in range(size)], [Fraction(0)] * size
    for i in range(n):
        M[i][:n] = [sign[i] * Q[i][j] * sign[j] for j in range(n)]
        q[i] = sign[i] * (linear[i] + sum(Q[i][j] * base[j] for j in range(n)))
    for k, i in enumerate(boxed):
        M[i][n + k], M[n + k][i] = Fraction(1), Fraction(-1)
        q[n + k] = Fraction(float(problem.upper[i])) - Fraction(float(problem.lower[i]))
    if has_group:
        for i in range(n):
            M[i][-2], M[i][-1], M[-2][i], M[-1][i] = (Fraction(s * sign[i]) for s in (1, -1, -1, 1))
        q[-2] = sum(Fraction(float(value)) for value in problem.start) - sum(base)
        q[-1] = -q[-2]
    beta = [a + s * z for a, s, z in zip(base, sign, lemke(M, q)[:n], strict=True)]
    g = [linear[i] + sum(Q[i][j] * beta[j] for j in range(n)) for i in range(n)]
    if not has_group:
        return beta, Fraction(0)
    lower, upper = problem.lower.tolist(), problem.upper.tolist()
    grow = [g[i] for i in range(n) if beta[i] < upper[i]]
    shrink = [g[i] for i in range(n) if beta[i] > lower[i]]
    ends = ([min(grow)] if grow else []) + ([max(shrink)] if shrink else [])
    return beta, sum(ends) / max(1, len(ends))  # the middle where the conditions leave an interval
