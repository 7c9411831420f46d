"""SMO and Newton steps on blocks: by hand, and against the NumPy reference and the optimality conditions."""

import time
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

import reference
from cases import ISAS
from mercer import _core
from pairs import every_pair, first_on_every_isa

every_isa = pytest.mark.parametrize("isa", ISAS)
SOLVED, LIMIT, STALLED = reference.SOLVED, reference.LIMIT, reference.STALLED


@dataclass
class Block:
    """min 1/2 beta'K beta + q'beta in a box with a fixed sum for each group, and the current point of the solver."""

    K: np.ndarray
    q: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    starts: np.ndarray
    beta: np.ndarray

    def __post_init__(self):
        self.K, self.q, self.beta = (np.array(a, dtype=float) for a in (self.K, self.q, self.beta))
        self.lower, self.upper = (
            np.broadcast_to(np.asarray(a, dtype=float), self.q.shape).copy() for a in (self.lower, self.upper)
        )
        self.starts = np.asarray(self.starts, dtype=np.int64)
        self.gradient = self.K @ self.beta + self.q
        self.sums = self.group_sums()

    def group_sums(self):
        return np.array([self.beta[a:b].sum() for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)])

    def objective(self):
        return 0.5 * self.beta @ self.K @ self.beta + self.q @ self.beta

    def native(self, isa, newton, tol, max_iter, dtype=np.float64, n_threads=1, stop=None):
        n = self.q.size
        padded = np.zeros((n, -(-n // 16) * 16), dtype=dtype)
        padded[:, :n] = self.K
        box = {"lower": self.lower, "upper": self.upper, "group_starts": self.starts}
        how = {"tol": tol, "max_iter": max_iter, "n_threads": n_threads, "stop": stop}
        return _core.solve_block(isa, newton, padded, beta=self.beta, gradient=self.gradient, **box, **how)

    def twin(self, newton, tol, max_iter):
        solve = reference.newton_steps if newton else reference.pair_steps
        return solve(self.K, self.beta, self.gradient, self.lower, self.upper, self.starts, tol, max_iter)

    def copy(self):
        return Block(self.K, self.q, self.lower, self.upper, self.starts, self.beta)

    def violation(self):
        """The largest KKT violation, computed from the problem and not from the solver's gradient."""
        gradient, groups = self.K @ self.beta + self.q, None
        if self.starts.size > 1:
            groups = np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))
        return reference.largest_violation(
            self.beta, gradient, self.lower, self.upper, groups, max(0, self.starts.size - 1)
        )

    def check_feasible(self):
        assert (self.lower <= self.beta).all()
        assert (self.beta <= self.upper).all()
        size = np.abs(self.beta).sum() + 1.0
        np.testing.assert_allclose(self.group_sums(), self.sums, rtol=0, atol=1e-13 * size)
        scale = 1.0 + np.abs(self.q).max() + np.abs(self.K).max() * size
        np.testing.assert_allclose(self.gradient, self.K @ self.beta + self.q, rtol=0, atol=1e-11 * scale)


def random_block(n, starts, seed=0, rank=None, box=1.0):
    """A random block, strictly convex unless `rank` is below n; a third of the variables starts at each bound."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, 2 * n if rank is None else rank))
    lower = -box * rng.random(n)
    upper = box * rng.random(n)
    side = rng.integers(0, 3, n)
    beta = np.where(side == 0, lower, np.where(side == 1, upper, 0.0))
    return Block(A @ A.T, 3.0 * rng.normal(size=n), lower, upper, starts, beta)


# SMO steps by hand.


@every_isa
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_pair_step_by_hand(isa, dtype):
    # Rows 1 and -1 of opposite classes: curvature 1 + 1 + 2 = 4, slope 1 - (-1) = 2, so the step is 1/2.
    block = Block([[1, -1], [-1, 1]], [-1, 1], [0, -1], [1, 0], [0, 2], [0, 0])
    assert block.native(isa, False, 1e-9, 10, dtype) == (SOLVED, 1, 0.0)
    assert block.beta.tolist() == [0.5, -0.5]
    assert block.gradient.tolist() == [0.0, 0.0]


@every_isa
def test_a_pair_step_stops_at_the_nearer_bound(isa):
    block = Block([[1, -1], [-1, 1]], [-1, 1], [0, -0.25], [1, 0], [0, 2], [0, 0])
    assert block.native(isa, False, 1e-9, 10) == (SOLVED, 1, 0.0)
    assert block.beta.tolist() == [0.25, -0.25]
    assert block.gradient.tolist() == [-0.5, 0.5]


@every_isa
def test_the_partner_is_chosen_by_second_order(isa):
    # Variable 1 violates most (3), but 3^2 / (1 + 8) = 1 is less than 2^2 / (1 + 1) = 2 with variable 2.
    block = Block(np.diag([1.0, 8.0, 1.0]), [0, 3, 2], -10, 10, [0, 3], [0, 0, 0])
    assert block.native(isa, False, 1e-9, 1) == (LIMIT, 1, 2.0)
    assert block.beta.tolist() == [1.0, 0.0, -1.0]
    assert block.gradient.tolist() == [1.0, 3.0, 1.0]


@first_on_every_isa(first=range(20))
def test_ties_go_to_the_smaller_index(isa, first):
    n = 40
    q = np.zeros(n)
    q[[first, first + 1, first + 17]] = -1.0
    q[[first + 2, first + 3, first + 19]] = 1.0
    block = Block(np.eye(n), q, -1, 1, [0, n], np.zeros(n))
    assert block.native(isa, False, 1e-9, 1)[:2] == (LIMIT, 1)
    assert np.flatnonzero(block.beta).tolist() == [first, first + 2]


@every_isa
def test_equal_rows_of_opposite_classes_move_to_their_bounds(isa):
    # No curvature at all: the step is as long as the box allows.
    block = Block([[1, 1], [1, 1]], [-1, 1], [0, -7], [7, 0], [0, 2], [0, 0])
    end, n_iter, violation = block.native(isa, False, 1e-9, 10)
    assert (end, n_iter, violation) == (SOLVED, 1, 0.0)
    assert block.beta.tolist() == [7.0, -7.0]


@every_isa
def test_one_single_step_by_hand(isa):
    # Without groups: gains 2^2 / 4 = 1 and 3^2 / 1 = 9; -3 / 1 overshoots the bound -1.
    block = Block([[4, 0], [0, 1]], [-2, 3], -1, 1, [0], [0, 0])
    assert block.native(isa, False, 1e-9, 1) == (LIMIT, 1, 2.0)
    assert block.beta.tolist() == [0.0, -1.0]
    assert block.native(isa, False, 1e-9, 10) == (SOLVED, 1, 0.0)
    assert block.beta.tolist() == [0.5, -1.0]


@every_isa
def test_the_worst_group_moves(isa):
    block = Block(np.eye(4), [0, 1, 0, 5], -1, 1, [0, 2, 4], [0, 0, 0, 0])
    assert block.native(isa, False, 1e-9, 1) == (LIMIT, 1, 1.0)
    assert block.beta.tolist() == [0.0, 0.0, 1.0, -1.0]


@every_isa
@pytest.mark.parametrize("newton", [False, True])
def test_no_steps_are_made_where_none_are_allowed_or_needed(isa, newton):
    block = random_block(9, [0, 9])
    before = block.copy()
    end, n_iter, violation = block.native(isa, newton, 1e-9, 0)
    assert (end, n_iter) == (LIMIT, 0)
    assert violation == pytest.approx(before.violation())
    np.testing.assert_array_equal(block.beta, before.beta)
    assert block.native(isa, newton, 1e9, 100)[:2] == (SOLVED, 0)
    np.testing.assert_array_equal(block.beta, before.beta)


# Comparison with the NumPy reference.

GROUPS = {
    "no groups": lambda n: [0],
    "one": lambda n: [0, n],
    "two": lambda n: [0, n // 3, n],
    "three, one of them empty": lambda n: [0, n // 2, n // 2, n],
}
every_grouping = pytest.mark.parametrize("grouping", GROUPS)


@every_pair(isa=ISAS, grouping=GROUPS, n=[1, 2, 5, 8, 9, 17, 40])
def test_smo_steps_agree_with_the_reference(isa, grouping, n):
    native = random_block(n, GROUPS[grouping](n), seed=n)
    twin = native.copy()
    for _ in range(25):
        # Both start from the same point: a step leaves ties, and rounding would decide between them.
        native.beta[:], native.gradient[:] = twin.beta, twin.gradient
        actual, expected = native.native(isa, False, 1e-9, 1), twin.twin(False, 1e-9, 1)
        assert actual[:2] == expected[:2]
        assert actual[2] == pytest.approx(expected[2], rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(native.beta, twin.beta, rtol=0, atol=1e-13)
        np.testing.assert_allclose(native.gradient, twin.gradient, rtol=0, atol=1e-11)
        native.check_feasible()


@every_pair(isa=ISAS, grouping=GROUPS, box=[0.1, 1.0, 100.0])
def test_pair_steps_lower_the_objective_to_the_optimum(isa, grouping, box):
    block = random_block(30, GROUPS[grouping](30), seed=3, box=box)
    last, end = np.inf, LIMIT
    while end == LIMIT:
        end, n_iter, violation = block.native(isa, False, 1e-8, 50)
        assert n_iter <= 50
        assert block.objective() <= last + 1e-12 * (1.0 + abs(block.objective()))
        last = block.objective()
        block.check_feasible()
    assert end == SOLVED
    assert violation <= 1e-8
    assert block.violation() <= 1.1e-8


@every_isa
@every_grouping
def test_a_matrix_in_single_precision_is_that_matrix(isa, grouping):
    single = random_block(19, GROUPS[grouping](19), seed=5)
    single.K = single.K.astype(np.float32).astype(float)
    double = Block(single.K, single.q, single.lower, single.upper, single.starts, single.beta)
    single.gradient = double.gradient.copy()
    # Only a few steps: later, rounding of the gradient can change the path.
    (end, n_iter, violation), expected = (
        single.native(isa, False, 1e-9, 5, np.float32),
        double.native(isa, False, 1e-9, 5),
    )
    assert (end, n_iter) == expected[:2]
    assert violation == pytest.approx(expected[2], rel=1e-5)
    np.testing.assert_allclose(single.beta, double.beta, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(single.gradient, double.gradient, rtol=1e-5, atol=1e-5)
    single.gradient = single.K @ single.beta + single.q
    double.gradient = double.K @ double.beta + double.q
    # Newton steps allow for the float32 rounding and still find the optimum.
    assert single.native(isa, True, 1e-9, 1000, np.float32)[0] == SOLVED
    assert double.native(isa, True, 1e-9, 1000)[0] == SOLVED
    np.testing.assert_allclose(single.beta, double.beta, rtol=0, atol=1e-8)


# Newton steps.


def optimum_by_enumeration(block):
    """The best feasible point over all choices of variables at the lower bound, at the upper bound and free."""
    n, n_groups = block.q.size, block.starts.size - 1
    E = np.zeros((n, n_groups))
    for g, (a, b) in enumerate(zip(block.starts[:-1], block.starts[1:], strict=True)):
        E[a:b, g] = 1.0
    best, optimum = np.inf, None
    for sides in product((-1, 0, 1), repeat=n):
        side = np.array(sides)
        beta = np.where(side < 0, block.lower, np.where(side > 0, block.upper, 0.0))
        F = side == 0
        system = np.block([[block.K[np.ix_(F, F)], E[F]], [E[F].T, np.zeros((n_groups, n_groups))]])
        right = np.concatenate([-block.q[F] - block.K[F] @ beta, block.sums - E.T @ beta])
        beta[F] = np.linalg.lstsq(system, right, rcond=None)[0][: F.sum()]
        inside = ((block.lower - 1e-12 <= beta) & (beta <= block.upper + 1e-12)).all()
        if inside and np.allclose(E.T @ beta, block.sums, atol=1e-12):
            value = 0.5 * beta @ block.K @ beta + block.q @ beta
            if value < best:
                best, optimum = value, beta
    return optimum


def newton(block, isa, tol, n_stalls=0):
    """Call Newton steps until they end other than by a limit; after a stall, restart up to `n_stalls` times."""
    for _ in range(50):
        end, _, violation = block.native(isa, True, tol, 200)
        block.check_feasible()
        n_stalls -= end == STALLED
        if end == SOLVED or n_stalls < 0:
            break
    return end, violation


@every_grouping
@pytest.mark.parametrize("seed", range(6))
def test_newton_steps_find_the_optimum_of_small_problems(grouping, seed):
    first = random_block(5, GROUPS[grouping](5), seed=seed, box=[0.3, 3.0][seed % 2])
    expected = optimum_by_enumeration(first)
    for isa in ISAS:
        block = first.copy()
        end, violation = newton(block, isa, 1e-11)
        assert (end, violation <= 1e-11) == (SOLVED, True)
        np.testing.assert_allclose(block.beta, expected, rtol=0, atol=1e-10)
    twin = first.copy()
    assert twin.twin(True, 1e-10, 200)[0] == SOLVED
    np.testing.assert_allclose(twin.beta, expected, rtol=0, atol=1e-9)


@every_pair(isa=ISAS, grouping=GROUPS, n=[1, 2, 17, 64, 150], box=[0.01, 0.3, 1e3])
def test_newton_steps_solve_strictly_convex_problems(isa, grouping, n, box):
    block = random_block(n, GROUPS[grouping](n), seed=n, box=box)
    end, violation = newton(block, isa, 1e-9)
    assert end == SOLVED
    assert violation <= 1e-9
    # The gradient was updated, not recomputed.
    assert block.violation() <= 1e-9 + 1e-15 * np.abs(block.K).max() * n * box


@every_isa
@every_grouping
def test_newton_steps_agree_with_pair_steps(isa, grouping):
    one, other = (random_block(60, GROUPS[grouping](60), seed=11) for _ in range(2))
    newton(one, isa, 1e-10)
    other.native(isa, False, 1e-10, 10**6)
    np.testing.assert_allclose(one.beta, other.beta, rtol=0, atol=1e-9)


@every_pair(isa=ISAS, grouping=GROUPS, rank=[1, 3, 10])
def test_newton_steps_on_singular_matrices(isa, grouping, rank):
    block = random_block(30, GROUPS[grouping](30), seed=rank, rank=rank)
    end, _ = newton(block, isa, 1e-8, n_stalls=0)
    assert end == SOLVED
    assert block.violation() <= 1.1e-8
    other = random_block(30, GROUPS[grouping](30), seed=rank, rank=rank)
    other.native(isa, False, 1e-8, 10**6)
    assert block.objective() == pytest.approx(other.objective(), abs=1e-6)


@every_pair(isa=ISAS, grouping=GROUPS, n=[1, 17, 64, 150], box=[0.3, 1e3])
def test_newton_steps_on_a_matrix_in_single_precision(isa, grouping, n, box):
    block = random_block(n, GROUPS[grouping](n), seed=n, box=box)
    block.K = block.K.astype(np.float32).astype(float)
    block.gradient = block.K @ block.beta + block.q
    for _ in range(50):
        end, _, violation = block.native(isa, True, 1e-7, 200, np.float32)
        block.check_feasible()
        if end == SOLVED:
            break
    assert end == SOLVED
    assert violation <= 1e-7


@every_isa
@every_grouping
def test_hundreds_of_variables_change_sides_on_one_path(isa, grouping):
    """So many variables change sides that pending updates of the inverse are applied several times."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(431, 6)), np.where(rng.random(431) < 0.5, -1.0, 1.0)
    K = np.exp(-0.02 * ((X[:, None] - X) ** 2).sum(axis=-1)).astype(np.float32)
    C = 500.0
    block = Block(K, -y, np.where(y > 0, 0, -C), np.where(y > 0, C, 0), GROUPS[grouping](431), np.zeros(431))
    block.native(isa, False, 1e-6, 400)
    before, n_free = block.objective(), np.count_nonzero((block.beta > block.lower) & (block.beta < block.upper))
    end, n_iter, _ = block.native(isa, True, 1e-4, 3000, np.float32)
    block.check_feasible()
    assert end == SOLVED
    assert block.violation() <= 1.1e-4
    assert block.objective() < before
    twin = Block(K, -y, block.lower, block.upper, block.starts, np.zeros(431))
    twin.native(isa, False, 1e-4, 10**6)
    assert block.objective() == pytest.approx(twin.objective(), abs=1e-4 * C * 431)
    assert n_iter > 64, (n_iter, n_free)


@every_pair(isa=ISAS, grouping=["no groups", "two"], dtype=[np.float32, np.float64], gamma=[1.0, 0.1, 0.03])
def test_newton_steps_with_most_variables_free(isa, grouping, dtype, gamma):
    """If rows are far apart, a float32 factor is accurate enough; if they are close, float64 is needed."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(700, 4))
    squares = (X**2).sum(axis=1)
    K = np.exp(-gamma * (squares[:, None] + squares - 2.0 * X @ X.T)).astype(dtype)
    q = -K.astype(float) @ rng.normal(size=700)
    block = Block(K, q, -30.0, 30.0, GROUPS[grouping](700), np.zeros(700))
    other, before = block.copy(), block.objective()
    for one, n_threads in ((block, 1), (other, 2)):
        one.native(isa, False, 1e-3, 500)
        assert np.count_nonzero((one.lower < one.beta) & (one.beta < one.upper)) > 600
        assert one.native(isa, True, 1e-4, 5000, dtype, n_threads)[0] == SOLVED
    np.testing.assert_array_equal(block.beta, other.beta)
    block.check_feasible()
    assert block.violation() <= 1.1e-4
    assert block.objective() < before


@pytest.mark.full
@every_isa
def test_newton_steps_with_hundreds_of_variables_next_to_a_bound(isa):
    """All variables start 5e-324 above a bound, so that a Newton step takes many of them beyond it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(420, 460))
    block = Block(
        (X @ X.T / 460.0).astype(np.float32), 10.0 * rng.normal(size=420), 0.0, 1e-3, [0], np.full(420, 5e-324)
    )
    end, *_ = block.native(isa, True, 1e-4, 10_000, np.float32)
    block.check_feasible()
    assert end == SOLVED
    assert block.violation() <= 1.1e-4


@every_isa
def test_newton_steps_with_more_groups_than_vectors_are_multiplied_at_a_time(isa):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(480, 960))
    K = (A @ A.T / 960.0).astype(np.float32)
    block = Block(K, rng.normal(size=480), -100.0, 100.0, np.arange(0, 481, 3), np.zeros(480))
    end, *_ = block.native(isa, True, 1e-4, 3000, np.float32)
    block.check_feasible()
    assert end == SOLVED
    assert block.violation() <= 1.1e-4


@every_isa
@pytest.mark.parametrize("labels", ["same", "opposite"])
def test_newton_steps_with_every_row_twice(isa, labels):
    rng = np.random.default_rng(0)
    X = np.vstack([x := rng.normal(size=(20, 3)), x])
    y = np.where(rng.random(20) < 0.5, -1.0, 1.0)
    y = np.concatenate([y, y if labels == "same" else -y])
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1))
    block = Block(K, -y, np.where(y > 0, 0, -5.0), np.where(y > 0, 5.0, 0), [0, 40], np.zeros(40))
    end, _ = newton(block, isa, 1e-9)
    assert end == SOLVED
    assert block.violation() <= 1e-9
    twin = Block(K, -y, block.lower, block.upper, [0, 40], np.zeros(40))
    assert twin.twin(True, 1e-8, 500)[0] == SOLVED
    assert block.objective() == pytest.approx(twin.objective(), abs=1e-7)


@first_on_every_isa(seed=range(12))
def test_newton_steps_never_raise_the_objective(isa, seed):
    """Many rows are equal, so the free variables outnumber the kernel's rank and 1 is not in the range of K_FF."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 60))
    X, y = np.round(rng.normal(size=(n, 2))), np.where(rng.random(n) < 0.5, -1.0, 1.0)
    block = Block((0.5 * X @ X.T) ** 2, -y, np.where(y > 0, 0, -0.1), np.where(y > 0, 0.1, 0), [0, n], np.zeros(n))
    assert block.native(isa, False, 1e-6, 10**5)[0] == SOLVED
    before = block.objective()
    end, violation = newton(block, isa, 1e-12)
    assert block.objective() <= before + 1e-14 * (1.0 + abs(before))
    assert (end, violation <= 1e-12) == (SOLVED, True)


@every_isa
def test_newton_steps_that_rounding_leads_uphill_are_taken_back(isa):
    """The kernel has rank 3 up to rounding and the box is large, so steps in the null space are long."""
    raised = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(20, 120))
        X, y = rng.normal(size=(n, rng.integers(1, 4))), np.where(rng.random(n) < 0.5, -1.0, 1.0)
        X *= 10.0 ** rng.uniform(-1, 1.5)
        C = 10.0 ** rng.uniform(2, 6)
        K = (X @ X.T).astype(np.float32)
        block = Block(K, -y, np.where(y > 0, 0, -C), np.where(y > 0, C, 0), [0, n], np.zeros(n))
        block.native(isa, False, 1e-6, 20 * n)
        before, end, steps = block.objective(), LIMIT, 0
        while end == LIMIT and steps < 60:
            end, steps = block.native(isa, True, 1e-10, 1)[0], steps + 1
            raised.append((block.objective() - before) / abs(before))
            before = block.objective()
    assert max(raised) < 1e-6, max(raised)


@every_isa
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scales", ["even", "uneven"])
def test_newton_steps_with_many_more_free_variables_than_the_rank(isa, dtype, scales):
    """Hundreds of pivots of the factor are rounding errors; the objective must fall nevertheless."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), np.where(rng.random(300) < 0.5, -1.0, 1.0)
    X *= 1.0 if scales == "even" else 10.0 ** rng.uniform(-1, 1, (300, 1))
    K, C = (1.0 + X @ X.T) ** 2, 1e5
    block = Block(K, -y, np.where(y > 0, 0, -C), np.where(y > 0, C, 0), [0, 300], np.zeros(300))
    block.native(isa, False, 1e-6, 20_000)  # these steps leave most variables free
    assert ((block.beta > block.lower) & (block.beta < block.upper)).sum() > 150
    before = block.objective()
    block.native(isa, True, 1e-6, 2000, dtype)
    assert block.objective() < 2.0 * before  # both below 0
    if dtype is np.float64:
        assert ((block.beta > block.lower) & (block.beta < block.upper)).sum() < 60
        assert block.violation() <= 1e-4


@every_isa
def test_no_variable_enters_if_the_free_variables_cannot_be_solved(isa):
    """The kernel is nearly constant, so the float32 factor gives no direction: no variable may enter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    squares = (X * X).sum(axis=1)
    y = np.where(X[:, 0] + rng.normal(size=600) > 0.0, 1.0, -1.0)
    K = np.exp(-0.01 * np.maximum(0.0, squares[:, None] + squares - 2.0 * X @ X.T)).astype(np.float32)
    block = Block(K, -y, np.where(y > 0.0, 0.0, -1e4), np.where(y > 0.0, 1e4, 0.0), [0, 600], np.zeros(600))
    _, _, violation = block.native(isa, False, 1e-3, 1200, np.float32)[:3]
    assert violation > 10.0
    end, n_iter, less = block.native(isa, True, 0.1 * violation, 2000, np.float32)[:3]
    assert end == SOLVED
    assert less <= 0.1 * violation
    assert n_iter < 320  # it takes 264 steps; 386 if one variable enters at a time before the factor is given up


@every_isa
def test_newton_steps_without_bounds_solve_the_linear_system(isa):
    rng = np.random.default_rng(0)
    A, q = rng.normal(size=(20, 40)), rng.normal(size=20)
    block = Block(A @ A.T, q, -np.inf, np.inf, [0], np.zeros(20))
    assert newton(block, isa, 1e-11)[0] == SOLVED
    np.testing.assert_allclose(block.beta, np.linalg.solve(block.K, -q), rtol=1e-9)
    tied = Block(A @ A.T, q, -np.inf, np.inf, [0, 8, 20], rng.normal(size=20))
    assert newton(tied, isa, 1e-11)[0] == SOLVED
    gradient = tied.K @ tied.beta + q
    assert np.ptp(gradient[:8]) <= 1e-10
    assert np.ptp(gradient[8:]) <= 1e-10


@every_isa
def test_newton_steps_stay_finite_without_a_minimum(isa):
    # Equal rows of opposite classes without a bound: the objective has no minimum.
    block = Block([[1, 1], [1, 1]], [-1, 1], [0, -np.inf], [np.inf, 0], [0, 2], [1.0, -1.0])
    end, n_iter, _ = block.native(isa, True, 1e-9, 100)
    assert end in (LIMIT, STALLED)
    assert n_iter <= 100
    assert np.isfinite(block.beta).all()


@every_isa
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_variables_whose_joint_violation_is_too_large_enter(isa, dtype):
    # The gradient of the free variable is 0; those at the bounds are 0.75 below and above it, 1.5 apart.
    block = Block(np.eye(3), [-0.5, -0.75, -0.25], 0.0, 1.0, [0, 3], [0.5, 0.0, 1.0])
    assert block.native(isa, True, 1.0, 10, dtype)[0] == SOLVED
    assert block.violation() <= 1.0
    block.check_feasible()


@every_isa
def test_more_variables_become_free_than_one_call_can_hold(isa):
    # All start at a bound and all end free.
    rng = np.random.default_rng(0)
    A = rng.normal(size=(200, 400))
    K = A @ A.T / 400
    block = Block(K, -K @ (1.0 + rng.random(200)), 0.0, 10.0, [0], np.zeros(200))
    assert newton(block, isa, 1e-10)[0] == SOLVED
    assert ((block.beta > 0.0) & (block.beta < 10.0)).all()


@every_isa
@every_grouping
def test_newton_steps_continue_after_a_limit(isa, grouping):
    at_once, by_single_steps = (random_block(40, GROUPS[grouping](40), seed=2) for _ in range(2))
    newton(at_once, isa, 1e-10)
    for _ in range(2000):
        end, n_iter, _ = by_single_steps.native(isa, True, 1e-10, 1)
        assert n_iter <= 1
        if end != LIMIT:
            break
    assert end == SOLVED
    np.testing.assert_allclose(by_single_steps.beta, at_once.beta, rtol=0, atol=1e-9)


def many_free_block(starts, n=2300):
    """A block on which SMO is slow; most variables are free, and a tenth reaches a bound."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    squares = (X**2).sum(axis=1)
    K = np.exp(-0.3 * (squares[:, None] + squares - 2.0 * X @ X.T)).astype(np.float32)
    q = -K.astype(float) @ rng.normal(size=n) + 0.01 * rng.normal(size=n)
    return Block(K, q, -2.0, 2.0, starts, 0.1 * rng.normal(size=n))


@pytest.mark.full
@first_on_every_isa(starts=[[0], [0, 1300], [0, 600, 1300]])
def test_newton_steps_with_many_free_variables(isa, starts):
    block = many_free_block(starts, 1300)
    other = block.copy()
    before = block.objective()
    end, n_iter, _ = block.native(isa, True, 1e-5, 5000, np.float32)
    assert end == SOLVED
    assert n_iter > 30  # some variables have reached their bounds
    assert block.violation() <= 2e-5
    assert block.objective() < before
    block.check_feasible()
    other.native(isa, True, 1e-5, 5000, np.float32, n_threads=2)
    np.testing.assert_array_equal(block.beta, other.beta)


@pytest.mark.parametrize(
    ("n", "n_calls"),
    [*((2300, n_calls) for n_calls in (0, 1, 3, 8)), *((1500, n_calls) for n_calls in (0, 1))],
)
def test_long_newton_steps_can_be_stopped(n, n_calls):
    block = many_free_block([0, n], n)
    before, asked = block.objective(), []

    def stop():
        asked.append(time.perf_counter())
        return len(asked) > n_calls

    end, *_ = block.native(ISAS[-1], True, 1e-5, 5000, np.float32, stop=stop)
    assert end == LIMIT
    assert len(asked) == n_calls + 1
    # The stop function is called at most every ten milliseconds; the first call may be late, as threads wait.
    assert (np.diff(asked) > 0.004).all()
    assert block.objective() <= before
    block.check_feasible()
    np.testing.assert_allclose(block.gradient, block.K @ block.beta + block.q, atol=1e-3)


def test_an_exception_of_the_stop_function_is_passed_on():
    def raising():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        many_free_block([0, 2300]).native(ISAS[-1], True, 1e-5, 5000, np.float32, stop=raising)
