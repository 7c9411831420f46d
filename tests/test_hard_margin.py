"""Machines with C = inf: linear and kernel, with and without a bias, joint; their optima, proofs and endings."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.exceptions import FitFailedWarning

from mercer import (
    SVC,
    InseparableError,
    KernelSearchCV,
    Linear,
    LinearSVC,
    LinearSVR,
    Status,
    as_model,
    leave_one_out,
    load_model,
    save_model,
)
from mercer.solvers.rows import hard_margin
from mercer.studies.models import verify
from pairs import every_pair


def separable(n=40, p=3, seed=0, gap=0.2):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, p)), rng.normal(size=p)
    z = X @ w
    return X[np.abs(z) > gap], np.where(z > 0.0, 1, -1)[np.abs(z) > gap]


def three_classes(n=45, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 4.0 * np.eye(3, 4)[codes], codes


WIDE = separable(30, 60)
BIASES = {"none": {"fit_intercept": False}, "penalised": {}, "free": {"bias": "free"}}


def exact_products(X, w, b=0.0):
    values = [[Fraction(float(x)) for x in row] for row in X]
    return [sum((Fraction(float(u)) * x for u, x in zip(w, row, strict=True)), Fraction(float(b))) for row in values]


def penalty(ratio, weights):
    return Fraction(ratio) * sum(abs(u) for u in weights) + (1 - Fraction(ratio)) * sum(u * u for u in weights) / 2


def exact_objectives(machine, X, y, ratio, bias, *, from_one):
    """Return P of the machine scaled so that its smallest margin is 1, and D, in exact arithmetic."""
    (solution,), evidence = machine._solutions, machine.certificate_.evidence
    w, b = machine.coef_[0], float(np.ravel(machine.intercept_)[0])
    margin = min(int(sign) * z for sign, z in zip(y, exact_products(X, w, b), strict=True))
    margin = min(margin, Fraction(1)) if from_one else margin
    counted = [Fraction(float(u)) / margin for u in ([*w, b] if bias == "penalised" else w)]
    second = np.zeros(len(y)) if evidence.low is None else np.asarray(evidence.low[:])
    beta = [Fraction(float(u)) + Fraction(float(v)) for u, v in zip(solution.beta[:], second, strict=True)]
    assert all(int(sign) * u >= 0 for sign, u in zip(y, beta, strict=True))
    columns = [[Fraction(float(x)) for x in column] for column in X.T]
    v = [sum((u * x for u, x in zip(beta, column, strict=True)), Fraction(0)) for column in columns]
    total = sum(beta)
    v = [*v, total] if bias == "penalised" else v
    mass = sum(abs(u) for u in beta)
    if bias == "free":
        assert abs(total) <= Fraction(1, 10**12) * mass
    if ratio == 1.0:
        return penalty(ratio, counted), mass / max(1, *(abs(u) for u in v))
    bent = sum(max(Fraction(0), abs(u) - Fraction(ratio)) ** 2 for u in v)
    return penalty(ratio, counted), mass - bent / 2 / (1 - Fraction(ratio))


@every_pair(
    bias=list(BIASES),
    ratio=[0.0, 1.0, 0.3],
    loss=["hinge", "squared_hinge"],
    shape=["long", "wide"],
    stored=["dense", "csr", "float32"],
)
def test_a_linear_machine_is_certified_in_exact_arithmetic(bias, ratio, loss, shape, stored):
    X, y = separable() if shape == "long" else WIDE
    X = X.astype(np.float32).astype(np.float64)
    rows = {"dense": X, "csr": sp.csr_array(X), "float32": X.astype(np.float32)}[stored]
    machine = LinearSVC(C=np.inf, loss=loss, penalty="elasticnet", l1_ratio=ratio, **BIASES[bias]).fit(rows, y)
    certificate = machine.certificate_
    assert certificate.status is Status.OPTIMAL
    assert certificate.n_bounded == 0
    primal, dual = exact_objectives(machine, X, y, ratio, bias, from_one=True)
    assert float(primal) == pytest.approx(certificate.primal, rel=1e-12)
    assert certificate.dual <= float(dual) * (1.0 + 1e-9) <= float(primal) * (1.0 + 1e-9)
    assert float(primal - dual) <= 1e-4 * float(primal)
    assert certificate.verify().status is Status.OPTIMAL


@pytest.mark.parametrize("bias", BIASES)
def test_the_l1_norm_is_that_of_a_linear_programme(bias):
    X, y = separable()
    table = np.hstack([X, np.ones((len(y), 1))])[:, : X.shape[1] + (bias != "none")]
    costs = np.ones(table.shape[1])
    costs[X.shape[1] :] = bias == "penalised"
    signed = y[:, None] * table
    least = linprog(np.tile(costs, 2), A_ub=np.hstack([-signed, signed]), b_ub=-np.ones(len(y)))
    machine = LinearSVC(C=np.inf, penalty="l1", tol_gap=1e-8, **BIASES[bias]).fit(X, y)
    assert machine.certificate_.primal == pytest.approx(least.fun, rel=1e-7)


@every_pair(bias=list(BIASES), shape=["long", "wide"])
def test_linear_and_kernel_machines_agree(bias, shape):
    X, y = separable() if shape == "long" else WIDE
    kernel = Linear() + 1.0 if bias == "penalised" else "linear"
    by_kernel = SVC(C=np.inf, kernel=kernel, fit_intercept=bias == "free", tol=1e-9).fit(X, y)
    by_columns = LinearSVC(C=np.inf, tol_gap=1e-9, **BIASES[bias]).fit(X, y)
    np.testing.assert_allclose(by_columns.decision_function(X), by_kernel.decision_function(X), atol=1e-4)
    assert by_columns.certificate_.primal == pytest.approx(by_kernel.certificate_.primal, rel=1e-7)
    ours, theirs = by_columns.certificate_.examples(), by_kernel.certificate_.examples()
    assert ours.margin == pytest.approx(theirs.margin, rel=1e-4) or bias == "penalised"
    assert np.isinf(ours.C).all()
    np.testing.assert_array_equal(ours.case, theirs.case)


def test_known_margins():
    # Without a bias, the nearest point of the hull of y_i x_i to 0 is (1, 0): w = (1, 0), P = 1/2.
    X, y = np.array([[1.0, 1.0], [1.0, -1.0], [-3.0, 0.5]]), [1, 1, -1]
    for machine in (SVC(C=np.inf, kernel="linear", fit_intercept=False), LinearSVC(C=np.inf, fit_intercept=False)):
        assert machine.fit(X, y).certificate_.primal == pytest.approx(0.5, rel=1e-4)
        np.testing.assert_allclose(machine.coef_, [[1.0, 0.0]], atol=1e-3)
    # Rows of one class on both sides of the others: a Gaussian kernel separates them.
    line = np.arange(7.0)[:, None]
    rbf = SVC(C=np.inf, kernel="rbf", gamma=1.0, fit_intercept=False, tol=1e-9).fit(line, [0, 1, 0, 1, 1, 0, 0])
    assert np.abs(rbf.decision_function(line)).min() == pytest.approx(1.0, abs=1e-8)
    K = np.exp(-np.square(line - line.T))
    signs = np.array([-1, 1, -1, 1, 1, -1, -1])
    assert (signs * np.linalg.solve(K, signs) > 0.0).all()  # all rows are support vectors then
    assert rbf.certificate_.dual == pytest.approx(0.5 * signs @ np.linalg.solve(K, signs), rel=1e-9)


def test_joint_machines_agree_and_reduce_to_two_classes():
    X, codes = three_classes()
    linear = LinearSVC(C=np.inf, multi_class="crammer_singer", tol_gap=1e-9).fit(X, codes)
    kernel = SVC(C=np.inf, multi_class="joint", kernel=Linear() + 1.0, tol=1e-9).fit(X, codes)
    assert linear.certificate_.status is kernel.certificate_.status is Status.OPTIMAL
    assert linear.certificate_.primal == pytest.approx(kernel.certificate_.primal, rel=1e-8)
    assert linear.certificate_.verify().status is kernel.certificate_.verify().status is Status.OPTIMAL
    scores = linear.decision_function(X)
    true_scores = scores[np.arange(len(codes)), codes].copy()
    scores[np.arange(len(codes)), codes] = -np.inf
    assert (true_scores - scores.max(axis=1)).min() == pytest.approx(1.0, abs=1e-4)
    assert (linear.certificate_.n_bounded, kernel.certificate_.n_bounded) == (0, 0)
    assert linear.certificate_.examples().beyond.max() <= 1e-3
    X, y = separable()
    half = 0.5 * SVC(C=np.inf, kernel="linear", fit_intercept=False, tol=1e-9).fit(X, y).certificate_.primal
    two = SVC(C=np.inf, multi_class="joint", kernel="linear", tol=1e-9).fit(X, y)
    assert two.certificate_.primal == pytest.approx(half, rel=1e-8)


def insep(name):
    rng = np.random.default_rng(0)
    X, y = separable()
    if name == "random labels":
        return X, rng.choice([-1, 1], len(y))
    if name == "equal rows":
        return np.vstack([X, X[:1]]), np.append(y, -y[0])
    if name == "origin":
        return np.vstack([X, np.zeros((1, 3))]), np.append(y, 1)
    return X * [1e6, 1.0, 1e-6], rng.choice([-1, 1], len(y))


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        (name, machine)
        for name in ("random labels", "equal rows", "origin", "units")
        for machine in ("linear", "l1", "kernel", "joint", "joint kernel")
        if (name, machine) != ("units", "joint")  # it takes seconds
    ],
)
def test_inseparable_classes_come_with_a_proof(name, machine):
    X, y = insep(name)
    named = {"equal rows": r"rows \d+ and \d+ are equal", "origin": f"row {len(y) - 1} is the origin"}.get(name, "")
    estimator = {
        "linear": LinearSVC(C=np.inf, fit_intercept=False),
        "l1": LinearSVC(C=np.inf, penalty="l1", fit_intercept=False),
        "kernel": SVC(C=np.inf, kernel="linear", fit_intercept=False),
        "joint": LinearSVC(C=np.inf, multi_class="crammer_singer", fit_intercept=False),
        "joint kernel": SVC(C=np.inf, kernel="linear", multi_class="joint"),
    }[machine]
    with pytest.raises(InseparableError, match=f"C = inf needs classes .*{named}.*Use a finite C") as caught:
        estimator.fit(X, y)
    weights = caught.value.weights
    assert caught.value.status is Status.INFEASIBLE
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert (weights >= 0.0).all()
    if machine.startswith("joint"):
        assert weights.shape == (len(y), 2)
        is_true_class = (y[:, None] == np.unique(y)).astype(float)
        weights = ((2.0 * is_true_class - 1.0) * weights).T
        np.testing.assert_allclose(weights.sum(axis=0), 0.0, atol=1e-12)
        sums = weights @ X
    else:
        sums = (y * weights) @ X
    # Kernel values have an error of the largest ones; linear machines look at each column by itself.
    sizes = np.abs(X).max() if "kernel" in machine else np.abs(X).max(axis=0)
    assert (np.abs(sums) <= (1e-7 if "kernel" in machine else 1e-11) * sizes).all()


@pytest.mark.parametrize("bias", ["penalised", "free"])
def test_a_proof_counts_the_bias(bias):
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([-1, 1, -1])
    with pytest.raises(InseparableError, match="a sum of their rows with coefficients of the signs") as caught:
        LinearSVC(C=np.inf, **BIASES[bias]).fit(X, y)
    weights = caught.value.weights
    assert weights.sum() == pytest.approx(2.0 if bias == "free" else 1.0, rel=1e-12)
    np.testing.assert_allclose((y * weights) @ np.hstack([X, np.ones((3, 1))]), 0.0, atol=1e-11)


def test_a_joint_proof_needs_no_sum_of_0_from_a_class_that_can_be_separated():
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(InseparableError, match="rows 0 and 2 are equal and belong to different classes") as caught:
        LinearSVC(C=np.inf, multi_class="crammer_singer").fit(X, [2, 2, 0, 1])
    assert caught.value.weights[[0, 2]].sum() == pytest.approx(1.0, abs=1e-9)  # the other rows need none
    X = np.vstack([np.zeros((1, 3)), np.eye(3)])
    with pytest.raises(InseparableError, match="row 0 is the origin"):
        LinearSVC(C=np.inf, multi_class="crammer_singer", fit_intercept=False).fit(X, [0, 0, 1, 2])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 4])  # steps at a large bound end in coefficients of 0
def test_coefficients_of_0_after_rounding_errors_prove_nothing(seed):
    rng = np.random.default_rng(seed)
    X, y = 1e6 + rng.normal(size=(12, 3)), rng.integers(0, 3, 12) > 0
    machine = SVC(C=np.inf, kernel="linear", fit_intercept=False)
    try:
        primal = machine.fit(X, y).certificate_.primal, 1.0
    except InseparableError as error:
        primal = np.inf, error.weights.sum()
    assert primal == pytest.approx((np.inf, 1.0), rel=1e-12)


@pytest.mark.parametrize("power", [-6, -3, 0, 3, 6])
def test_a_small_margin_is_a_margin_in_any_unit(power):
    unit = 10.0**power
    X = unit * np.array([[1.0, 1e-6], [-1.0, 1e-6], [0.3, -1e-6]])
    machine = LinearSVC(C=np.inf, fit_intercept=False).fit(X, [1, 1, -1])
    assert machine.certificate_.status is Status.OPTIMAL
    primal, dual = exact_objectives(machine, X, [1, 1, -1], 0.0, "none", from_one=False)
    assert float(primal - dual) <= 1e-4 * float(primal)
    assert float(primal) == pytest.approx(0.5e12 / unit**2, rel=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_hostile_tables_have_true_certificates(seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 14)), int(rng.integers(1, 8))
    X, w = rng.normal(size=(n, p)), rng.normal(size=p)
    y = np.where(X @ w + 0.3 * rng.normal() > 0.0, 1, -1)
    y[0] = -y[1]
    if seed % 3 == 0:  # nearly inseparable
        X += np.outer(y * 10.0 ** rng.uniform(-9, -1) - X @ w * (rng.random(n) < 0.5), w / (w @ w))
    X *= 10.0 ** rng.uniform(-6.0, 6.0, p if seed % 2 else 1)
    bias, ratio = list(BIASES)[seed % 3], (0.0, 1.0, 0.3, 0.0)[seed % 4]
    table = np.hstack([X, np.ones((n, 1))])[:, : p + (bias != "none")]
    try:
        machine = LinearSVC(C=np.inf, penalty="elasticnet", l1_ratio=ratio, max_seconds=10.0, **BIASES[bias]).fit(X, y)
    except InseparableError as error:
        sums = [
            sum(
                (
                    Fraction(float(u)) * int(s) * Fraction(float(x))
                    for u, s, x in zip(error.weights, y, column, strict=True)
                ),
                Fraction(0),
            )
            for column in table.T
        ]
        assert all(abs(float(one)) <= 1e-11 * np.abs(column).max() for one, column in zip(sums, table.T, strict=True))
        return
    certificate = machine.certificate_
    assert certificate.status is Status.OPTIMAL
    primal, dual = exact_objectives(machine, X, y, ratio, bias, from_one=True)
    assert float(primal) <= certificate.primal * (1.0 + 1e-12) + certificate.rounding
    assert certificate.dual <= float(dual) + 1e-9 * float(primal)


@pytest.mark.parametrize("joint", [False, True])
def test_weights_of_zero_are_absence_and_others_change_nothing(joint):
    X, y = separable()
    both = np.vstack([X, X]), np.append(y, -y)
    weights = np.append(np.random.default_rng(1).uniform(0.5, 3.0, len(y)), np.zeros(len(y)))
    about = {"multi_class": "crammer_singer"} if joint else {}
    weighted = LinearSVC(C=np.inf, class_weight={1: 3.0, -1: 0.5}, tol_gap=1e-9, **about).fit(*both, weights)
    plain = LinearSVC(C=np.inf, tol_gap=1e-9, **about).fit(X, y)
    assert weighted.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(C=np.inf),
        LinearSVC(C=np.inf, multi_class="crammer_singer"),
        SVC(C=np.inf, fit_intercept=False),
        SVC(C=np.inf, multi_class="joint"),
    ],
    ids=["linear", "joint linear", "kernel", "joint"],
)
def test_limits_end_a_fit_honestly(machine):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 5)), rng.integers(0, 3, 400)
    fitted = machine.set_params(max_seconds=0.0).fit(X, y)
    assert fitted.certificate_.status is Status.TIME_LIMIT
    assert (fitted.certificate_.primal, fitted.certificate_.relative_gap) == (np.inf, np.inf)
    assert fitted.certificate_.dual <= 0.0
    assert machine.set_params(max_seconds=None, callback=lambda progress: True).fit(X, y).certificate_.status in (
        Status.INTERRUPTED,
        Status.OPTIMAL,
    )


def test_paths_searches_and_warm_starts_take_an_infinite_c():
    X, y = separable()
    path = LinearSVC(loss="hinge").C_path(X, y, [np.inf, 0.1, 1e8])
    assert path[0].certificate_.primal == pytest.approx(path[2].certificate_.primal, rel=1e-3)
    assert path[0].warm_start is False
    with pytest.raises(ValueError, match="C must be a finite number > 0, got inf"):
        LinearSVR().C_path(X, X[:, 0], [np.inf])
    again = path[0].set_params(warm_start=True).fit(X, y)
    assert again.certificate_.status is Status.OPTIMAL
    assert again.set_params(C=1.0).fit(X, y).certificate_.status is Status.OPTIMAL
    for machine in (LinearSVC(), SVC(fit_intercept=False)):
        scores = KernelSearchCV(machine, C=[1.0, np.inf], cv=3).fit(X, y).cv_results_["mean_test_score"]
        assert np.isfinite(scores).all()
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        search = KernelSearchCV(LinearSVC(), C=[1.0, np.inf], cv=3).fit(*insep("random labels"))
    assert np.isnan(search.cv_results_["mean_test_score"][1])


@pytest.mark.parametrize("machine", [SVC(C=np.inf, fit_intercept=False, kernel="linear"), LinearSVC(C=np.inf)])
def test_leave_one_out_is_that_of_refits(machine):
    X, y = separable(14)
    loo = leave_one_out(machine, X, y)
    refits = [
        type(machine)(**machine.get_params())
        .fit(np.delete(X, row, 0), np.delete(y, row))
        .decision_function(X[[row]])[0]
        for row in range(len(y))
    ]
    np.testing.assert_allclose(loo.decision, refits, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(C=np.inf, bias="free"),
        LinearSVC(C=np.inf, penalty="l1"),
        LinearSVC(C=np.inf, multi_class="crammer_singer"),
        SVC(C=np.inf, multi_class="joint", kernel="linear"),
        SVC(C=np.inf, fit_intercept=False),
    ],
    ids=["free", "l1", "joint linear", "joint", "kernel"],
)
def test_model_files_keep_an_infinite_c(machine, tmp_path):
    X, codes = three_classes()
    machine.fit(X, codes)
    save_model(tmp_path / "hard.mercer", as_model(machine, X, codes))
    model = load_model(tmp_path / "hard.mercer")
    table = pd.DataFrame({str(k): X[:, k] for k in range(X.shape[1])} | {"y": codes})
    assert model.certificate.status is Status.OPTIMAL
    assert verify(model, table).findings == ()


def test_signs_are_proved_at_the_maximal_margin():
    X, y = separable()
    machine = LinearSVC(C=np.inf, tol_gap=1e-8).fit(X, y)
    np.testing.assert_array_equal(machine.certificate_.proved_signs(), np.sign(machine.coef_[0]))


def test_rows_of_a_kernel_machine_come_and_go():
    X, y = separable()
    machine = SVC(C=np.inf, fit_intercept=False, gamma=0.5).fit(X, y)
    primal = machine.certificate_.primal
    machine.forget([0, 1])
    machine.partial_fit(X[:2], y[:2])
    assert machine.certificate_.primal == pytest.approx(primal, rel=1e-6)
    with pytest.raises(InseparableError, match="are equal for this kernel"):
        machine.partial_fit(X[:1], -y[:1])


def test_rows_in_a_file_take_an_infinite_c(tmp_path):
    X, y = separable()
    path = tmp_path / "rows.csv"
    path.write_text(
        "a,b,c,t\n" + "".join(f"{r[0]!r},{r[1]!r},{r[2]!r},{t}\n" for r, t in zip(X.tolist(), y, strict=True))
    )
    of_file = LinearSVC(C=np.inf, tol_gap=1e-8).fit_file(path, target="t")
    assert of_file.certificate_.primal == pytest.approx(LinearSVC(C=np.inf).fit(X, y).certificate_.primal, rel=1e-4)


def test_a_proof_counts_although_a_limit_ended_the_last_round(monkeypatch):
    X, codes = insep("random labels")

    def proved(solution):
        return np.abs(X.T @ solution.beta).max() <= 1e-12 * np.abs(solution.beta).sum()

    def cut(problem, control, **about):
        solution = solve_joint(problem, control, **about)
        ended = Status.MAX_ITER if proved(solution) else solution.certificate.status
        seen.append(ended)
        return replace(solution, certificate=replace(solution.certificate, status=ended))

    seen, solve_joint = [], hard_margin.solve_joint
    monkeypatch.setattr(hard_margin, "solve_joint", cut)
    with pytest.raises(InseparableError, match="is 0 to 12 digits in every column"):
        LinearSVC(C=np.inf, multi_class="crammer_singer", fit_intercept=False).fit(X, codes)
    assert seen[-1] is Status.MAX_ITER
