"""A general solver of quadratic programs, Clarabel, as the reference that the optimisers are tested against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lstsq

from mercer._typing import FloatArray
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.coordinate_ascent import Quadratic
from mercer.optimisers.kernel_machine import KernelSVM
from mercer.optimisers.linear_machine import LinearMachine, LinearPoint
from mercer.solvers.interruption import Interruption
from mercer.solvers.paths.loo_extended import MAX_ROWS, ActiveSet, LongGram

_TOLERANCE = 1e-10  # of Clarabel: absolute and relative gap, and feasibility


class Program(NamedTuple):
    """min 1/2 x'Px + q'x  s.t.  Ex = e,  Gx <= h; P has its upper triangle only."""

    P: Any
    q: FloatArray
    E: Any
    e: FloatArray
    G: Any
    h: FloatArray


class GeneralQP(Optimiser):
    """An interior-point method for any convex quadratic program: Clarabel (needs the extra ``qp``).

    The problem is written as a quadratic program, a kernel SVM in its dual form and a linear one in its primal form.
    It is solved in a single step, which Ctrl-C ends, but `max_seconds` does not. A `CoefficientMachine` is not
    solved: it would be a quadratic program with a dense constraint for every row, which takes minutes for 2,000 rows.

    Notes
    -----
    Cost: O(n^3) for a machine with a kernel, O(n p^2) for a linear one, each some ten to thirty times; memory O(n^2).
    Guarantee: polynomial time, to about ten digits where the numbers of the problem have similar sizes; the gap of the
    run says what was reached. Variables of a kernel SVM are scaled to at most 1. Its solution is then polished: with
    up to 250 rows by an active-set method in extended precision, else by solving the conditions of its free support
    vectors as a linear system.

    References
    ----------
    Goulart & Chen (2024), Clarabel: an interior-point solver for conic programs with quadratic objectives.
    """

    name = "general QP solver"
    needs = "an SVM or a quadratic function"

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether the problem is a quadratic program."""
        is_linear = isinstance(problem, LinearMachine) and problem.is_svm
        return is_linear or isinstance(problem, KernelSVM | Quadratic)

    def steps(self, problem: MeasuredProblem, rng: np.random.Generator) -> Iterator[Step]:
        """Yield the solution, as step 1."""
        del rng
        if isinstance(problem, KernelSVM):
            gram = problem.gram.afresh()
            K = np.array(gram.block())
            scale = float(problem.C.max())
            x, multipliers = _solve(_of_kernel_svm(problem, K, scale))
            point = _polished(problem, K, scale * x, scale * multipliers)
            yield Step(1, _exact(problem, point), gram.n_values)
        elif isinstance(problem, LinearMachine):
            x, multipliers = _solve(_of_linear_svm(problem))
            yield Step(1, LinearPoint(x[: problem.rows.shape[1]], problem.y * multipliers[: problem.y.size]))
        else:
            assert isinstance(problem, Quadratic)
            p = problem.b.size
            none = sp.csc_array((0, p)), np.zeros(0)
            yield Step(1, _solve(Program(sp.triu(sp.csc_array(problem.A)), -problem.b, *none, *none))[0])


def _of_kernel_svm(problem: KernelSVM, K: FloatArray, scale: float) -> Program:
    """Return min 1/2 beta'K beta - y'beta within the box, with sum 0 if there is a bias.

    The variables are beta / scale, and the objective is divided by the larger one of 1 and scale times the largest
    kernel value, so that no number is much larger than 1.
    """
    n, signs = problem.y.size, sp.diags_array(problem.y)
    unit = max(1.0, scale * float(np.abs(K).max()))
    E = sp.csc_array(np.ones((int(problem.has_bias), n)))
    G, h = sp.vstack([-signs, signs]), np.concatenate([np.zeros(n), problem.C / scale])
    return Program(sp.triu(sp.csc_array(K * (scale / unit))), -problem.y / unit, E, np.zeros(E.shape[0]), G, h)


def _exact(problem: KernelSVM, point: FloatArray) -> FloatArray:
    """Return the optimum near a point by an active-set method in extended precision; the point if rows are many."""
    if problem.y.size > MAX_ROWS:
        return point
    solver = ActiveSet(problem.problem, LongGram.of(problem.gram), np.arange(problem.y.size))
    return solver.solve(point, lambda: None).beta.astype(np.float64)


def _polished(problem: KernelSVM, K: FloatArray, beta: FloatArray, multipliers: FloatArray) -> FloatArray:
    """Return beta with bounded variables exactly at their bounds and the conditions of the free ones solved again.

    An interior-point method ends near the bounds, and all rows would count as free support vectors. A variable is at a
    bound if the bound's multiplier is larger than the distance from it.
    """
    alpha, (at_0, at_C) = problem.y * beta, multipliers.reshape(2, -1)
    snapped = problem.y * np.where(at_0 > alpha, 0.0, np.where(at_C > problem.C - alpha, problem.C, alpha))
    free = np.flatnonzero((at_0 <= alpha) & (at_C <= problem.C - alpha))
    # y - K beta = b on the free rows, and beta adds up to 0.
    border = np.ones((free.size, int(problem.has_bias)))
    system = np.block([[K[np.ix_(free, free)], border], [border.T, np.zeros((border.shape[1],) * 2)]])
    missing = np.append((problem.y - K @ snapped)[free], [-snapped.sum()] * border.shape[1])
    change = lstsq(system, missing, lapack_driver="gelsy")[0][: free.size]  # also if rows are equal
    polished = snapped.copy()
    polished[free] += change
    inside = (problem.problem.lower <= polished) & (polished <= problem.problem.upper)
    return polished if inside.all() else snapped


def _of_linear_svm(problem: LinearMachine) -> Program:
    """Return min 1/2 ||w||^2 + C'xi with y_i <w, x_i> >= 1 - xi_i and xi >= 0."""
    (n, q), identity = problem.rows.shape, sp.eye_array(problem.y.size)
    P = sp.block_diag([sp.eye_array(q), sp.csc_array((n, n))])
    margins = sp.diags_array(problem.y) @ sp.csr_array(problem.rows)
    G = sp.block_array([[-margins, -identity], [None, -identity]])
    none = sp.csc_array((0, q + n)), np.zeros(0)
    return Program(P, np.concatenate([np.zeros(q), problem.C]), *none, G, np.concatenate([-np.ones(n), np.zeros(n)]))


def _solve(program: Program) -> tuple[FloatArray, FloatArray]:
    """Return the solution, and the multipliers of the inequalities."""
    try:
        import clarabel
    except ImportError as error:
        raise ImportError("GeneralQP needs Clarabel: pip install 'mercer[qp]'.") from error
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.direct_solve_method = "faer"
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    n_equal, n_bounds = program.e.size, program.h.size
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(program.P),
        program.q,
        sp.vstack([program.E, program.G], format="csc"),
        np.concatenate([program.e, program.h]),
        [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(n_bounds)],
        settings,
    )
    with Interruption() as interruption:
        solver.set_termination_callback(lambda progress: interruption.requested)
        solution = solver.solve()
    return np.array(solution.x), np.array(solution.z)[n_equal:]
