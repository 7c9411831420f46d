"""The optimisers of the lectures: each reaches the optimum of each of its problems, and every gap is true."""

import builtins
import importlib.util
import math
import pickle
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import reference
from mercer import SVC, GradientKernelSVC, LogisticRegression
from mercer.kernels import Linear, Polynomial
from mercer.optimisers import (
    BatchSubgradient,
    CoefficientMachine,
    CoordinateAscent,
    GeneralQP,
    KernelDualAscent,
    KernelGradientDescent,
    KernelSVM,
    LinearDualAscent,
    LinearMachine,
    LinearPoint,
    LogisticGradientDescent,
    LogisticNewton,
    Optimiser,
    OsunaWorkingSets,
    Pegasos,
    Perceptron,
    PlattSMO,
    Quadratic,
    SecondOrderSMO,
    Separation,
    coefficient_machine,
    compare,
    kernel_svm,
    linear_svm,
    logistic_regression,
    quadratic,
    separation,
)
from mercer.optimisers.platt_smo import Segment, new_bias
from mercer.problems import c_svc
from mercer.solvers.rows import EpsilonInsensitive, Hinge, LinearProblem, TableRows


def rows(n=120, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 1.0


X, Y = rows()
WEIGHTS = np.linspace(0.5, 2.0, Y.size)
SPARSE = sp.csr_array(np.where(np.abs(X) > 0.8, X, 0.0))
_A = np.random.default_rng(1).normal(size=(8, 8))
APART = X[:, 0] + X[:, 1] > 0.0

PROBLEMS = {
    "kernel, bias": kernel_svm(X, Y, C=2.0),
    "kernel, bias, weights": kernel_svm(X, Y, C=0.3, sample_weight=WEIGHTS, kernel="linear"),
    "kernel, bias, repeated rows": kernel_svm(np.repeat(X, 2, axis=0)[:150], np.repeat(Y, 2)[:150], kernel="poly"),
    "kernel, no bias": kernel_svm(X, Y, C=2.0, bias=False),
    "kernel, no bias, sparse": kernel_svm(SPARSE, Y, C=1.0, kernel="linear", bias=False, sample_weight=WEIGHTS),
    "linear, no bias": linear_svm(X, APART, C=0.1, bias="none"),
    "linear, penalised bias": linear_svm(X, Y, C=0.2, sample_weight=WEIGHTS),
    "linear, sparse": linear_svm(SPARSE, Y, C=0.1),
    "logistic, free bias": logistic_regression(X, Y, sample_weight=WEIGHTS),
    "logistic, penalised bias": logistic_regression(SPARSE, Y, C=3.0, bias="penalised"),
    "logistic, no bias": logistic_regression(X, Y, C=0.1, bias="none"),
    "coefficients": coefficient_machine(X, Y, penalty=10.0),
    "quadratic": quadratic(_A @ _A.T + np.eye(8), _A[0]),
}
OPTIMISERS = {
    1e-4: [
        BatchSubgradient(),
        Pegasos(),
        Pegasos(16, projects=True, averages=False),
        KernelDualAscent(),
        LinearDualAscent(),
        LogisticGradientDescent(),
        KernelGradientDescent(),
    ],
    1e-8: [
        PlattSMO(),
        SecondOrderSMO(),
        OsunaWorkingSets(20),
        OsunaWorkingSets(None),
        LogisticNewton(),
        CoordinateAscent(),
        KernelGradientDescent(accelerated=True),
        GeneralQP(),
    ],
}
CASES = [
    pytest.param(problem, optimiser, tol, id=f"{name}-{optimiser!r}")
    for name, problem in PROBLEMS.items()
    for tol, optimisers in OPTIMISERS.items()
    for optimiser in optimisers
    if optimiser.solves(problem)
]
_optima: dict[object, float] = {}


def optimum(problem):
    """The optimum to ten digits, by the most exact optimiser of the problem."""
    if problem not in _optima:
        exact = (GeneralQP(), LogisticNewton(), KernelGradientDescent(accelerated=True))
        best = next(optimiser for optimiser in exact if optimiser.solves(problem))
        run = best.minimise(problem, tol_gap=1e-10)
        assert run.status == "optimal"
        _optima[problem] = run.certificate.objective
    return _optima[problem]


@pytest.mark.parametrize(("problem", "optimiser", "tol"), CASES)
def test_every_optimiser_reaches_the_optimum_and_shows_true_gaps(problem, optimiser, tol):
    run = optimiser.minimise(problem, tol_gap=tol, max_seconds=60.0)
    best, trace = optimum(problem), run.trace
    assert run.status == "optimal"
    assert run.certificate.objective == pytest.approx(best, rel=1.1 * tol, abs=1.1 * tol)
    unit = max(1.0, abs(best))
    for row in trace:
        assert row.bound <= best + 1e-9 * unit
        assert row.gap >= row.objective - best - 1e-9 * unit
        assert row.violation >= 0.0
    for row, later in pairwise(trace):
        assert later.n_steps > row.n_steps
        assert later.seconds >= row.seconds
        assert later.bound >= row.bound
        assert later.n_kernel_values >= row.n_kernel_values
    again = run.verify()
    assert again.objective == run.certificate.objective
    if isinstance(problem, KernelSVM) and not isinstance(optimiser, GeneralQP):
        assert trace[-1].n_kernel_values > 0
        duals = [row.dual for row in trace]  # every step of a dual method is an ascent
        assert all(later >= dual - 1e-9 * unit for dual, later in pairwise(duals))


def test_the_table_has_every_optimiser():
    used = {type(case.values[1]) for case in CASES} | {Perceptron}
    assert used == {optimiser for optimiser in Optimiser.known if optimiser.__module__.startswith("mercer.")}


def test_the_optimum_is_that_of_the_estimators():
    exact = {"tol": 1e-9}
    machine = SVC(C=2.0, **exact).fit(X, Y)
    run = SecondOrderSMO().minimise(PROBLEMS["kernel, bias"], tol_gap=1e-10)
    assert run.certificate.dual == pytest.approx(machine.certificate_.dual, rel=1e-9)
    beta = np.zeros(Y.size)
    beta[machine.support_] = machine.dual_coef_[0]
    np.testing.assert_allclose(run.point, beta, atol=1e-5)
    assert run.problem.bias(run.point) == pytest.approx(machine.intercept_[0], abs=1e-5)
    likely = LogisticRegression(**exact).fit(X, Y, WEIGHTS)
    run = LogisticNewton().minimise(PROBLEMS["logistic, free bias"], tol_gap=1e-12)
    np.testing.assert_allclose(run.point.w, np.append(likely.coef_[0], likely.intercept_), atol=1e-6)
    descended = GradientKernelSVC(10.0, tol=1e-9).fit(X, Y)
    assert optimum(PROBLEMS["coefficients"]) == pytest.approx(descended.certificate_.primal, rel=1e-8)


def test_objective_and_gap_are_those_of_the_formulas():
    problem = linear_svm(X, Y, C=0.2, sample_weight=WEIGHTS)
    C, y, rows_ = 0.2 * WEIGHTS, np.where(Y, 1.0, -1.0), np.column_stack([X, np.ones(Y.size)])
    w = np.array([0.3, -0.2, 0.1, 0.0, -0.5])
    measured = problem.measure(LinearPoint(w))
    assert measured.objective == pytest.approx(0.5 * w @ w + C @ np.maximum(0.0, 1.0 - y * (rows_ @ w)))
    alpha = C * (y * (rows_ @ w) < 1.0)
    v = rows_.T @ (alpha * y)
    scales = np.linspace(0.0, 1.0, 10_001)
    assert measured.dual == pytest.approx((scales * alpha.sum() - 0.5 * scales**2 * (v @ v)).max(), rel=1e-6)
    free = logistic_regression(X, Y, C=2.0)
    w = np.append(w[:4], 0.7)
    z = np.column_stack([X, np.ones(Y.size)]) @ w
    objective = 0.5 * w[:4] @ w[:4] + 2.0 * np.logaddexp(0.0, -y * z).sum()
    measured = free.measure(LinearPoint(w))
    assert measured.objective == pytest.approx(objective)
    assert measured.dual <= optimum(free)


def test_the_same_seed_gives_the_same_steps():
    for optimiser, name in ((KernelDualAscent(), "kernel, no bias"), (LinearDualAscent(), "linear, sparse")):
        runs = [optimiser.minimise(PROBLEMS[name], random_state=seed, max_steps=3, tol_gap=0.0) for seed in (1, 1, 2)]
        assert runs[0].certificate.objective == runs[1].certificate.objective != runs[2].certificate.objective
        assert runs[0].status == "max_iter"
        assert [row.n_steps for row in runs[0].trace] == [0, 1, 2, 3]


@pytest.mark.parametrize("form", ["dual", "primal"])
def test_the_perceptron_counts_mistakes(form):
    run = Perceptron(form).minimise(separation(X, APART))
    y, w, mistakes = np.where(APART, 1.0, -1.0), np.zeros(4), 0
    for _ in range(1000):
        for i in range(y.size):
            if y[i] * (w @ X[i]) <= 0.0:
                w, mistakes = w + y[i] * X[i], mistakes + 1
        if (y * (X @ w) > 0.0).all():
            break
    assert run.status == "optimal"
    assert run.certificate.n_steps == run.point.n_mistakes == mistakes
    assert run.certificate.violation == 0.0
    assert run.trace[0].violation == y.size
    assert math.isinf(run.certificate.relative_gap)  # there is no objective, and no bound
    endless = Perceptron(form, max_passes=3).minimise(separation(X, Y))
    assert endless.status == "stalled"
    assert endless.certificate.violation > 0.0
    with pytest.raises(TypeError, match="the primal form needs a linear kernel, got RBF"):
        Perceptron("primal").minimise(separation(X, Y, kernel="rbf"))


# The mistakes that the lectures print: each test fails with the printed formula.


def test_w_moves_by_the_clipped_change_of_alpha():
    problem = linear_svm([[1.0], [1.0], [-1.0]], [1, 0, 0], C=0.25, bias="none")
    for step in zip(LinearDualAscent().steps(problem, np.random.default_rng(0)), range(4), strict=False):
        w, beta = step[0].point
        np.testing.assert_allclose(w, np.array([1.0, 1.0, -1.0]) @ beta, atol=1e-15)
        assert (np.abs(beta) <= 0.25).all()


def test_below_the_segment_alpha_is_its_lower_end():
    segment = Segment.of(1.0, -1.0, 0.25, 1.0, 2.0, 2.0)
    assert segment == (0.75, 2.0)
    assert [segment.clip(value) for value in (0.5, 0.75, 1.0, 2.0, 3.0)] == [0.75, 0.75, 1.0, 2.0, 2.0]
    assert Segment.of(1.0, 1.0, 1.5, 1.0, 2.0, 2.0) == (0.5, 2.0)


def test_the_bias_makes_the_error_of_a_free_row_zero():
    K, y = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -1.0])
    old, new, b = np.array([0.25, 0.5]), np.array([0.5, 0.125]), 0.25
    errors, changes = K @ (old * y) + b - y, (new - old) * y
    about = tuple(errors), tuple(changes), (K[0, 0], K[0, 1], K[1, 1])
    first, second, neither = (new_bias(b, *about, free) for free in ((True, True), (False, True), (False, False)))
    assert (K @ (new * y) + first - y)[0] == pytest.approx(0.0, abs=1e-15)
    assert (K @ (new * y) + second - y)[1] == pytest.approx(0.0, abs=1e-15)
    assert neither == pytest.approx(0.5 * (first + second))


def test_the_bias_is_an_average_over_free_rows():
    problem = kernel_svm(X, Y, C=0.2)
    beta = SecondOrderSMO().minimise(problem, tol_gap=1e-10).point
    f, C, y = problem.gram.block() @ beta, problem.C, problem.y
    free, bounded = (np.abs(beta) > 0.0) & (np.abs(beta) < C), np.abs(beta) == C
    assert free.any()
    assert bounded.any()
    assert problem.bias(beta) == pytest.approx((y - f)[free].mean(), abs=1e-9)
    assert abs(problem.bias(beta) - (y - f)[free | bounded].mean()) > 0.01


def test_the_prior_variance_divides():
    problem = logistic_regression(X, Y, C=0.01, bias="none")
    w = LogisticGradientDescent().minimise(problem, tol_gap=1e-12).point.w
    y = np.where(Y, 1.0, -1.0)
    gradient = -X.T @ (y / (1.0 + np.exp(y * (X @ w))))
    np.testing.assert_allclose(gradient + w / 0.01, 0.0, atol=1e-3)


def test_lecture_b_draws_the_path_of_coordinate_ascent():
    problem = quadratic([[1.0, 0.6], [0.6, 1.0]], [0.0, 0.0])
    path = [step.point for step, _ in zip(CoordinateAscent([2.0, -2.0]).steps(problem, None), range(9), strict=False)]
    moves = np.abs(np.diff(path, axis=0)) > 0.0
    assert path[0].tolist() == [2.0, -2.0]
    assert moves.tolist() == [[True, False], [False, True]] * 4  # parallel to one of the axes


def test_osuna_starts_with_the_rows_that_it_may_add():
    problem = kernel_svm(X, Y, kernel="linear")
    sizes = [
        np.count_nonzero(step.point)
        for step, _ in zip(OsunaWorkingSets(10).steps(problem, None), range(3), strict=False)
    ]
    assert sizes[0] == 0
    assert 2 <= sizes[1] <= 10
    assert sizes[2] <= 20


@pytest.mark.parametrize(
    ("optimiser", "problem", "message"),
    [
        (
            KernelDualAscent(),
            "kernel, bias",
            "KernelDualAscent does not solve a kernel SVM with a bias: it solves a kernel SVM without a bias. "
            "These do: GeneralQP, OsunaWorkingSets, PlattSMO, SecondOrderSMO.",
        ),
        (PlattSMO(), "kernel, no bias", "a kernel SVM without a bias.*KernelDualAscent, OsunaWorkingSets"),
        (LogisticNewton(), "linear, sparse", "a linear SVM with a penalised bias: it solves a logistic regression"),
        (BatchSubgradient(), "logistic, free bias", "LogisticGradientDescent, LogisticNewton"),
        (GeneralQP(), "logistic, no bias", "a logistic regression without a bias"),
        (CoordinateAscent(), "coefficients", "These do: KernelGradientDescent."),
    ],
)
def test_an_optimiser_names_those_that_solve_the_problem(optimiser, problem, message):
    with pytest.raises(TypeError, match=message):
        optimiser.minimise(PROBLEMS[problem])
    with pytest.raises(TypeError, match=message):
        compare(PROBLEMS[problem], [optimiser])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernel_svm(X, Y, kernel="sigmoid"), "is not positive semidefinite on these rows"),
        (lambda: KernelSVM(c_svc([-1, 1], 1.0, squared=True), PROBLEMS["kernel, bias"].gram), "squared hinge"),
        (lambda: KernelSVM(c_svc([-1, 1], 1.0), PROBLEMS["kernel, bias"].gram), "a row for each of the 2 variables"),
        (lambda: linear_svm(X, Y, bias="free"), "hinge loss and no free bias.*bias 'free'"),
        (lambda: LinearMachine(LinearProblem(TableRows(X, Y), EpsilonInsensitive())), "got EpsilonInsensitive"),
        (lambda: quadratic([[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0]), "A must be positive definite"),
        (lambda: quadratic([[1.0, 2.0], [1.0, 2.0]], [0.0, 0.0]), "A must be a symmetric matrix"),
        (lambda: quadratic([[1.0]], [1.0, 2.0]), r"got shapes \(1, 1\) and \(2,\)"),
        (lambda: quadratic(np.zeros((0, 0)), []), "A must be a symmetric matrix"),
        (lambda: quadratic([[np.nan]], [1.0]), r"A must hold finite numbers, got nan at \[0, 0\]"),
        (lambda: Quadratic(np.eye(2), np.array([0.0, np.inf])), r"b must hold finite numbers, got inf at \[1\]"),
        (lambda: CoordinateAscent([np.nan, 0.0]), r"start must hold finite numbers, got nan at \[0\]"),
        (lambda: CoordinateAscent([0.0]).minimise(PROBLEMS["quadratic"]), "start must have 8 numbers"),
        (lambda: linear_svm(X, Y, bias="some"), "bias must be one of 'none', 'penalised', 'free', got 'some'"),
        (lambda: kernel_svm(X, Y, bias="penalised"), "bias must be True or False, got 'penalised'"),
        (lambda: kernel_svm(X, Y, memory_limit=1.5), "memory_limit must be an integer >= 0"),
        (lambda: coefficient_machine(X, Y, penalty=np.nan), "penalty must be a number > 0, got nan"),
        (lambda: CoefficientMachine(np.ones(120), PROBLEMS["kernel, bias"].gram, 1.0), "-1 and .1 with both present"),
        (lambda: Separation(np.array([-1.0, 1.0]), PROBLEMS["kernel, bias"].gram), "a vector of 120 labels"),
        (lambda: linear_svm(X * np.array([1.0, 1.0, 1e200, 1.0]), Y), "but column 2 .* reaches"),
        (lambda: LinearMachine(LinearProblem(TableRows(X, Y, np.zeros(Y.size)), Hinge())), "must be > 0 in every row"),
        (lambda: KernelGradientDescent(0.1, accelerated=True), "learning_rate must be None if accelerated is True"),
        (lambda: Perceptron("both"), "form must be one of 'dual', 'primal', got 'both'"),
        (lambda: compare(PROBLEMS["kernel, bias"], []), "at least one optimiser"),
    ],
)
def test_problems_that_cannot_be_posed_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def changed(place, value):
    """X as a list of rows with another entry."""
    rows = X.tolist()
    rows[place[0]][place[1]] = value
    return rows


MAKERS = [kernel_svm, linear_svm, logistic_regression, coefficient_machine, separation]
NOT_TWO_CLASSES = r"y must hold two different labels, got 3\. .* take y == label"
BAD_ROWS = {
    "NaN": (changed((3, 1), np.nan), Y, "finite numbers: 1 of the entries .* row 3, column 1 is nan"),
    "infinite": (changed((3, 1), -np.inf), Y, "row 3, column 1 is -inf"),
    "None": (changed((3, 1), None), Y, "row 3, column 1 is nan"),
    "text": (changed((3, 1), "a"), Y, "X must hold real numbers"),
    "sparse NaN": (sp.csr_array(changed((3, 1), np.nan)), Y, "row 3, column 1 is nan"),
    "masked": (np.ma.array(X, mask=X[5, 2] == X), Y, "row 5, column 2 .* is masked"),
    "one column as a vector": (X[:, 0], Y, "X must be two-dimensional"),
    "no rows": (X[:0], Y[:0], "X must hold at least one row and one column, got 0 rows and 4 columns"),
    "no columns": (X[:, :0], Y, "X must hold at least one row and one column, got 120 rows and 0 columns"),
    "short y": (X, Y[:-1], r"a label for each of the 120 rows of X, got shape \(119,\)"),
    "y in a column": (X, Y[:, None], r"a label for each of the 120 rows of X, got shape \(120, 1\)"),
    "no y": (X, None, r"got shape \(\)"),
    "three classes": (X, np.arange(Y.size) % 3, NOT_TWO_CLASSES),
    "one class": (X, np.ones(Y.size), "y must hold at least two classes"),
    "numbers as y": (X, X[:, 0], "continuous"),
    "NaN in y": (X, np.where(Y, 1.0, np.nan), "row 0 .* is nan"),
    "infinity in y": (X, np.where(Y, np.inf, 0.0), "contains infinity"),
    "text and numbers in y": (X, np.array(["a", 1] * 60, dtype=object), "all numbers or all text"),
    "sequences": (["ab", "ba"] * 60, Y, "X must be a table of numbers, got strings"),
    "masked y": (X, np.ma.array(Y, mask=np.arange(Y.size) == 7), "row 7 .* is masked"),
}


@pytest.mark.parametrize(("X_", "y", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
@pytest.mark.parametrize("make", MAKERS)
def test_bad_rows_and_labels_are_refused(make, X_, y, message):
    with pytest.raises(ValueError, match=message):
        make(X_, y)


@pytest.mark.parametrize("make", MAKERS[:3])
def test_bad_penalties_and_weights_are_refused(make):
    for C in (0.0, -1.0, np.nan, np.inf, "1", None, True):
        with pytest.raises(ValueError, match=r"C must be a .*number > 0, got"):
            make(X, Y, C=C)
    with pytest.raises(ValueError, match="must have a finite sum, but it overflows"):
        make(X, Y, C=1e308)
    changed = np.ones(Y.size)
    for weight in (0.0, -1.0, np.nan, np.inf):
        changed[4] = weight
        with pytest.raises(ValueError, match=r"sample_weight must.* in row 4"):
            make(X, Y, sample_weight=changed)
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(120,\)"):
        make(X, Y, sample_weight=np.ones(3))


@pytest.mark.parametrize("make", [kernel_svm, coefficient_machine, separation])
def test_unknown_kernels_are_refused(make):
    for kernel in ("rbff", None, 3):
        with pytest.raises((ValueError, TypeError), match="kernel must be 'linear', 'poly'"):
            make(X, Y, kernel=kernel)


@pytest.mark.parametrize(
    ("make", "name", "bad"),
    [
        (LogisticGradientDescent, "learning_rate", (0.0, -1.0, np.nan, np.inf, "1")),
        (KernelGradientDescent, "learning_rate", (0.0, -1.0, np.nan, np.inf, "1")),
        (KernelGradientDescent, "accelerated", (2, None)),
        (PlattSMO, "accuracy", (0.0, -1.0, np.nan, np.inf, None)),
        (SecondOrderSMO, "accuracy", (0.0, -1.0, np.nan, np.inf, None)),
        (OsunaWorkingSets, "n_added", (1, 0, -3, 2.5, np.nan, True, "2")),
        (Pegasos, "batch_size", (0, -1, 1.5, np.nan, None, True)),
        (Pegasos, "projects", (2, None)),
        (Pegasos, "averages", (2, None)),
        (Perceptron, "max_passes", (0, -1, 1.5, np.nan, None)),
    ],
)
def test_bad_parameters_of_optimisers_are_refused(make, name, bad):
    for value in bad:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            make(**{name: value})


BAD_LIMITS = {
    "max_seconds": (-1.0, np.nan, "1"),
    "max_steps": (0, -1, 1.5, np.nan, True),
    "tol_gap": (-1.0, np.nan, np.inf, None, "1"),
    "random_state": (-1, 1.5, None, "1"),
    "callback": (3, "print"),
}
ALL = [case.values[:2] for case in CASES] + [(separation(X, APART), Perceptron(form)) for form in ("dual", "primal")]
ONE_EACH = dict(reversed([(repr(optimiser), (problem, optimiser)) for problem, optimiser in ALL]))


@pytest.mark.parametrize(("problem", "optimiser"), ONE_EACH.values(), ids=ONE_EACH)
def test_bad_limits_are_refused_by_all(problem, optimiser):
    for name, bad in BAD_LIMITS.items():
        for value in bad:
            with pytest.raises(ValueError, match=f"^{name} must be"):
                optimiser.minimise(problem, **{name: value})
            if name != "callback":
                with pytest.raises(ValueError, match=f"^{name} must be"):
                    compare(problem, [optimiser], **{name: value})


@pytest.mark.parametrize("make", MAKERS)
def test_rows_of_other_layouts_and_types_make_the_same_problem(make):
    rounded = np.round(4.0 * X)
    plain = make(rounded, Y)
    optimiser = next(
        optimiser for problem, optimiser in ALL if type(problem) is type(plain) and optimiser.solves(plain)
    )
    wanted = optimiser.minimise(plain, max_steps=5).certificate.objective
    for kind in (np.asfortranarray, np.float32, np.int8, pd.DataFrame, sp.csc_array, np.ndarray.tolist):
        objective = optimiser.minimise(make(kind(rounded), Y), max_steps=5).certificate.objective
        assert objective == pytest.approx(wanted, rel=1e-6), kind


def test_what_is_no_optimiser_is_refused():
    problem = PROBLEMS["linear, sparse"]
    for given, message in ((Pegasos, r"Pegasos\(\)"), ("Pegasos", "got 'Pegasos'"), (None, "got None")):
        with pytest.raises(TypeError, match=f"must hold instances of Optimiser.*{message}"):
            compare(problem, [given])
    assert len(compare(problem, Pegasos(), max_steps=1)) == 1
    with pytest.raises(TypeError, match="does not solve a NoneType"):
        Pegasos().minimise(None)


@pytest.mark.parametrize(
    ("optimiser", "problem"),
    [(LogisticGradientDescent(1e300), "logistic, no bias"), (KernelGradientDescent(1e300), "coefficients")],
)
def test_steps_that_diverge_end_a_run(optimiser, problem):
    run = optimiser.minimise(PROBLEMS[problem])
    assert run.status == "stalled"
    assert not math.isfinite(run.certificate.objective)
    assert math.isfinite(run.trace[0].objective)


def test_the_memory_limit_is_kept():
    with pytest.raises(MemoryError, match="115,200 bytes, and the memory limit is 100,000"):
        PlattSMO().minimise(kernel_svm(X, Y, memory_limit=100_000))


def test_limits_and_the_callback_end_a_run():
    problem, seen = PROBLEMS["linear, no bias"], []
    assert BatchSubgradient().minimise(problem, tol_gap=0.0, max_seconds=0.0).status == "time_limit"
    run = BatchSubgradient().minimise(problem, tol_gap=0.0, callback=lambda row: seen.append(row) or len(seen) == 4)
    assert run.status == "interrupted"
    assert run.trace == seen
    assert "batch subgradient descent: interrupted after 3 steps" in str(run)


@pytest.mark.parametrize(("problem", "optimiser"), ONE_EACH.values(), ids=ONE_EACH)
def test_limits_the_callback_and_ctrl_c_end_every_run_and_keep_its_trace(problem, optimiser):
    seen = []

    def interrupt(row):
        seen.append(row)
        if len(seen) == 2:
            signal.raise_signal(signal.SIGINT)

    late = optimiser.minimise(problem, tol_gap=0.0, max_seconds=0.0)
    assert (late.status, len(late.trace)) == ("time_limit", 1)
    first = optimiser.minimise(problem, tol_gap=0.0, max_steps=1)
    assert (first.status, first.trace[-1].n_steps) == ("max_iter", 1)
    interrupted = optimiser.minimise(problem, tol_gap=0.0, callback=lambda row: np.True_)
    assert (interrupted.status, len(interrupted.trace)) == ("interrupted", 1)
    stopped = optimiser.minimise(problem, tol_gap=0.0, callback=interrupt)
    assert stopped.trace == seen
    assert [row.n_steps for row in seen] == sorted({row.n_steps for row in seen})
    # These optimisers end by themselves before the interruption can be seen.
    ends_early = isinstance(optimiser, GeneralQP) or repr(optimiser) == "OsunaWorkingSets(n_added=None)"
    assert stopped.status == ("stalled" if ends_early else "interrupted")


def test_ctrl_c_ends_all_runs_of_a_comparison():
    class Interrupted(BatchSubgradient):
        def steps(self, problem, rng):
            for step in super().steps(problem, rng):
                if step.n_steps == 3:
                    signal.raise_signal(signal.SIGINT)
                yield step

    Optimiser.known.remove(Interrupted)
    comparison = compare(PROBLEMS["linear, sparse"], [Interrupted(), Pegasos(), GeneralQP()], tol_gap=0.0)
    assert [run.status for run in comparison] == ["interrupted"] * 3
    assert [len(run.trace) for run in comparison] == [4, 1, 1]


def test_comparisons_draw_gaps_against_seconds_and_kernel_values():
    pytest.importorskip("matplotlib")
    comparison = compare(PROBLEMS["kernel, bias"], [PlattSMO(), SecondOrderSMO(), OsunaWorkingSets(20)], tol_gap=1e-6)
    names = ["PlattSMO()", "SecondOrderSMO()", "OsunaWorkingSets(n_added=20)"]
    assert str(comparison).count("optimal") == len(comparison) == 3
    left, right = comparison.plot().axes_
    assert (left.get_xlabel(), right.get_xlabel()) == ("seconds", "kernel values")
    assert left.get_ylabel() == "relative duality gap"
    for axes in (left, right):
        assert [line.get_label() for line in axes.lines] == names
        assert axes.get_yscale() == "log"
    for line, run in zip(right.lines, comparison, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [r.n_kernel_values for r in run.trace if r.n_kernel_values])
        assert line.get_ydata()[-1] == run.certificate.relative_gap
    linear = compare(PROBLEMS["linear, no bias"], [BatchSubgradient(), LinearDualAscent()])
    assert [axes.get_xlabel() for axes in linear.plot().axes_] == ["seconds", "steps or epochs"]
    empty = compare(separation(X, APART), [Perceptron()]).plot().axes_[0]
    assert not empty.lines
    assert [text.get_text() for text in empty.texts] == ["no run has a duality gap"]


def test_curves_differ_in_more_than_colour_and_the_legend_leaves_room_for_them():
    pytest.importorskip("matplotlib")
    runs = [Pegasos(2**k) for k in range(9)] + [GeneralQP()] * 2
    figure = compare(PROBLEMS["linear, no bias"], runs, max_steps=5, tol_gap=0.0).plot().figure_
    axes = figure.axes[0]
    styles = {
        (line._dash_pattern[0], str(line._dash_pattern[1]), line.get_linestyle(), line.get_marker())
        for line in axes.lines
    }
    assert len(styles) == len(runs)
    figure.draw_without_rendering()
    assert axes.get_window_extent().height > 0.5 * 3.6 * figure.dpi


def test_the_general_solver_is_an_extra(monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "clarabel":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'mercer\[qp\]'"):
        GeneralQP().minimise(PROBLEMS["quadratic"])


def test_the_pictures_of_the_page_are_up_to_date():
    image = pytest.importorskip("PIL.Image")
    path = Path(__file__).parent.parent / "docs" / "pictures" / "optimisers.py"
    spec = importlib.util.spec_from_file_location("optimisers_page", path)
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    pictures = {}
    for picture in written.FOLDER.glob("*.png"):
        with image.open(picture) as opened:
            pictures[picture.stem] = opened.info["Description"]
    expected = {name: picture.description for name, picture in written.PICTURES.items()}
    assert pictures == expected, "run: python docs/pictures/optimisers.py"
    page = (path.parent.parent / "concepts" / "optimisers.md").read_text()
    assert all(f"](../pictures/optimisers/{name}.png)" in page for name in pictures)
    drawn = {type(optimiser) for picture in written.PICTURES.values() for optimiser in picture.optimisers}
    assert drawn == {type(optimiser) for some in OPTIMISERS.values() for optimiser in some} | {Perceptron}


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", [o for some in OPTIMISERS.values() for o in some], ids=repr)
def test_two_thousand_rows_take_seconds(optimiser):
    X, y = rows(2000, 10)
    problems = [
        kernel_svm(X, y),
        kernel_svm(X, y, bias=False),
        linear_svm(X, y, C=0.1),
        logistic_regression(X, y),
        coefficient_machine(X, y, penalty=1000.0),
        quadratic(X.T @ X, X[0]),
    ]
    tol = 1e-4 if optimiser in OPTIMISERS[1e-4] else 1e-8
    solved = [problem for problem in problems if optimiser.solves(problem)]
    assert solved
    for problem in solved:
        assert optimiser.minimise(problem, tol_gap=tol, max_seconds=30.0).status == "optimal", problem.name


HUGE = [[-1.47, 39279.7], [-0.42, -103464.7], [-0.04, 118733.8]], [-1, 1, 1]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("C", [1e-8, 10.0, 1e8])
@pytest.mark.parametrize("degree", [1, 3])
def test_bounds_are_true_at_huge_kernel_values(bias, C, degree):
    rows, y = np.array(HUGE[0]), HUGE[1]
    kernel = Linear() if degree == 1 else Polynomial(degree=3, gamma=1.0, coef0=1.0)
    problem = kernel_svm(rows, y, C=C, kernel=kernel, bias=bias)
    K = reference.exact_gram(rows, "poly", degree=degree, coef0=float(degree > 1))
    beta, _ = reference.solve_exactly(problem.problem, K)
    quadratic = sum(beta[i] * beta[j] * K[i][j] for i in range(3) for j in range(3))
    optimum = float(sum(int(sign) * b for sign, b in zip(y, beta, strict=True)) - quadratic / 2)
    if (C, bias, degree) == (10.0, False, 1):
        assert optimum == pytest.approx(23.286599, abs=1e-6)
    others = [PlattSMO(), SecondOrderSMO()] if bias else [KernelDualAscent()]
    for optimiser in [OsunaWorkingSets(2), GeneralQP(), *others]:
        run = optimiser.minimise(problem, tol_gap=1e-6, max_steps=200)
        assert run.certificate.bound <= optimum * (1 + 1e-15) <= run.certificate.objective * (1 + 2e-15)
        if isinstance(optimiser, GeneralQP) and degree == 1 and C <= 10.0:  # as near as numbers in float64 come
            assert run.certificate.relative_gap < 1e-4


def test_the_bias_of_a_measure_is_the_best_one():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    problem = kernel_svm(rows, y, C=2.0, kernel="linear")
    beta = np.repeat(rng.uniform(0.0, 2.0, 20), 2) * problem.y  # classes alternate, so that the sum is 0
    f = problem.gram.matvec(beta)

    def primal(b):
        return 0.5 * beta @ f + 2.0 * np.maximum(0.0, 1.0 - problem.y * (f + b)).sum()

    best = min(primal(b) for b in problem.y - f)
    assert primal(problem.bias(beta)) == pytest.approx(best, rel=1e-12)
    assert problem.measure(beta).objective == pytest.approx(best, rel=1e-9)


def test_gamma_is_resolved_with_weights_as_in_svc():
    rng = np.random.default_rng(0)
    rows, y, w = rng.normal(size=(30, 2)), np.arange(30) % 2, rng.uniform(0.1, 3.0, 30)
    problem = kernel_svm(rows, y, sample_weight=w)
    assert problem.gram.kernel == SVC().fit(rows, y, w).kernel_


@pytest.mark.parametrize(("problem", "optimiser"), ONE_EACH.values(), ids=ONE_EACH)
def test_runs_can_be_pickled(problem, optimiser):
    run = optimiser.minimise(problem, max_steps=3)
    again = pickle.loads(pickle.dumps(run))
    assert again.verify() == run.verify()
    assert (again.trace, again.status) == (run.trace, run.status)
