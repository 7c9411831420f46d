"""Kernel ridge regression: scikit-learn's numbers, leave-one-out by refitting, weights as copies, invalid input."""

import pickle
import tracemalloc
import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as ofgp
from sklearn.kernel_ridge import KernelRidge as Theirs
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_predict
from sklearn.preprocessing import scale

from mercer import RBF, SVC, IndefiniteKernelWarning, KernelRidge, Linear, Spectrum, Status
from mercer.data import as_data
from mercer.gram import Gram
from mercer.gram.factorisation import no_check
from mercer.kernels import Callable
from mercer.solvers.smooth import ridge
from pairs import every_pair

X, Y = load_diabetes(return_X_y=True)
X, Y = scale(X)[:150], Y[:150]
POSITIVE = X - X.min()
TWO = np.column_stack([Y, X[:, 0] * 50])
KERNELS = {
    "linear": {},
    "rbf": {"gamma": 0.05},
    "poly": {"degree": 2},
    "polynomial": {"gamma": 0.1, "coef0": 0.5},
    "laplacian": {},
    "chi2": {"gamma": 0.1},
    "cosine": {},
}
WEIGHTS = {"none": None, "whole": np.arange(150) % 4 + 0.0, "fractions": np.random.default_rng(0).random(150) + 0.1}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_weight = pytest.mark.parametrize("weights", WEIGHTS)


@every_pair(kernel=KERNELS, weights=WEIGHTS, alpha=[1.0, [0.1], [0.5, 20.0]])
def test_the_same_as_scikit_learn(kernel, weights, alpha):
    y = TWO if np.size(alpha) == 2 else Y
    ours = KernelRidge(alpha, kernel=kernel, **KERNELS[kernel]).fit(POSITIVE, y, WEIGHTS[weights])
    theirs = Theirs(alpha, kernel=kernel, **KERNELS[kernel]).fit(POSITIVE, y, WEIGHTS[weights])
    expected = theirs.predict(POSITIVE)
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-8 * np.abs(theirs.dual_coef_).max())
    np.testing.assert_allclose(ours.predict(POSITIVE), expected, atol=1e-8 * np.abs(expected).max())
    assert ours.certificate_.status is Status.OPTIMAL
    assert ours.score(POSITIVE, y) == pytest.approx(theirs.score(POSITIVE, y), abs=1e-9)


@pytest.mark.parametrize("penalty", [1.0, [0.5, 20.0]], ids=str)
@every_weight
def test_the_certificate_is_true(weights, penalty):
    machine = KernelRidge(penalty, kernel="rbf", gamma=0.05).fit(X, TWO, WEIGHTS[weights])
    s = np.ones(150) if WEIGHTS[weights] is None else WEIGHTS[weights]
    K, beta, alpha = rbf_kernel(X, gamma=0.05), machine.dual_coef_, np.broadcast_to(penalty, 2)
    f, on = K @ beta, s > 0
    primal = 0.5 * (alpha * (beta * f).sum(axis=0)).sum() + 0.5 * (s[:, None] * (TWO - f) ** 2).sum()
    # The dual, for any beta: alpha_t (beta'y - 1/2 beta'K beta) - 1/2 alpha_t² sum beta² / s.
    dual = (alpha * ((beta * TWO).sum(axis=0) - 0.5 * (beta * f).sum(axis=0))).sum() - 0.5 * (
        alpha**2 * (beta[on] ** 2 / s[on, None]).sum(axis=0)
    ).sum()
    certificate = machine.certificate_
    assert certificate.primal == pytest.approx(primal, rel=1e-12)
    assert certificate.dual == pytest.approx(dual, rel=1e-10)
    assert 0.0 <= certificate.gap <= 1e-10 * primal
    assert certificate.gradient_violation <= 1e-6 * np.abs(TWO).max()
    again = certificate.verify()
    assert again.status is Status.OPTIMAL
    assert again.primal == pytest.approx(primal, rel=1e-12)


def test_a_wrong_point_is_not_certified():
    machine = KernelRidge(kernel="rbf").fit(X, Y)
    evidence = machine.certificate_.evidence
    evidence.beta[3] += 0.01
    certificate = machine.certificate_.verify()
    assert certificate.status is Status.STALLED
    assert certificate.gap > 1e-6
    assert certificate.gradient_violation == pytest.approx(0.01 * (1.0 + 1.0), rel=1e-6)  # alpha + k(x, x)


@every_kernel
@every_weight
def test_leave_one_out_is_refitting(kernel, weights):
    machine = KernelRidge(kernel=kernel, **KERNELS[kernel])
    s = WEIGHTS[weights]
    residuals = clone(machine).fit(POSITIVE, TWO, s).loo_residuals_
    for i in (0, 1, 17, 149):
        remaining = np.arange(150) != i
        without = clone(machine).fit(POSITIVE[remaining], TWO[remaining], None if s is None else s[remaining])
        expected = TWO[i] - without.predict(POSITIVE[i : i + 1])[0]
        if s is not None and s[i] == 0.0:
            assert np.isnan(residuals[i]).all()
        else:
            np.testing.assert_allclose(residuals[i], expected, atol=1e-8 * np.abs(TWO).max())


@pytest.mark.full
def test_leave_one_out_predicts_what_cross_validation_does():
    machine = KernelRidge([0.5, 20.0], kernel="rbf", gamma=0.05).fit(X, TWO)
    expected = TWO - cross_val_predict(clone(machine), X, TWO, cv=LeaveOneOut())
    np.testing.assert_allclose(machine.loo_residuals_, expected, atol=1e-8 * np.abs(TWO).max())


def test_a_path_of_penalties():
    alphas = [1e-3, 0.1, 1.0, 10.0]
    s = WEIGHTS["whole"]
    machine = KernelRidge(kernel="rbf", gamma=0.05)
    path = machine.path(X, TWO, alphas, s)
    for i, alpha in enumerate(alphas):
        fitted = clone(machine).set_params(alpha=alpha).fit(X, TWO, s)
        errors = np.nansum(s[:, None] * fitted.loo_residuals_**2, axis=0) / s.sum()
        np.testing.assert_allclose(path.leave_one_out_errors[i], errors, rtol=1e-8)
        np.testing.assert_allclose(path.coefficients[i], fitted.dual_coef_, atol=1e-9 * np.abs(fitted.dual_coef_).max())
    assert path.best == path.leave_one_out_errors.sum(axis=1).argmin()
    assert not hasattr(machine, "n_features_in_")
    with pytest.raises(ValueError, match="alphas must hold at least one penalty"):
        machine.path(X, Y, [])
    with pytest.raises(ValueError, match="alphas must be a number >= 0"):
        machine.path(X, Y, [-1.0])


@every_kernel
def test_a_weight_is_as_many_copies(kernel):
    s = WEIGHTS["whole"].astype(int)
    machine = KernelRidge(kernel=kernel, **KERNELS[kernel])
    weighted = clone(machine).fit(POSITIVE, Y, s).predict(POSITIVE)
    copied = clone(machine).fit(np.repeat(POSITIVE, s, axis=0), np.repeat(Y, s)).predict(POSITIVE)
    np.testing.assert_allclose(weighted, copied, atol=1e-8 * np.abs(Y).max())
    absent = clone(machine).fit(POSITIVE[s > 0], Y[s > 0], s[s > 0]).predict(POSITIVE)
    np.testing.assert_allclose(weighted, absent, atol=1e-10 * np.abs(Y).max())


def test_a_linear_kernel_is_ridge_regression():
    machine = KernelRidge(2.0).fit(X, Y)
    expected = Ridge(2.0, fit_intercept=False).fit(X, Y)
    np.testing.assert_allclose(machine.predict(X), expected.predict(X), atol=1e-9 * np.abs(Y).max())


def test_many_rows_use_the_same_blocks(monkeypatch):
    monkeypatch.setattr(ridge, "_STRIP", 7)
    machine = KernelRidge(kernel="rbf").fit(X, Y)
    np.testing.assert_allclose(machine.predict(X), Theirs(kernel="rbf").fit(X, Y).predict(X), atol=1e-8)
    assert machine.certificate_.n_kernel_values < 2 * 150**2


@every_weight
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_factor_in_single_precision_gives_the_digits_of_double(weights, has_bias):
    given = np.ones(150) if WEIGHTS[weights] is None else np.maximum(WEIGHTS[weights], 0.5)
    gram = Gram(RBF(gamma=0.05), as_data(X))
    expected = ridge._substitute(ridge._factor(gram, 1.0 / given, None, no_check), TWO, has_bias, check=no_check)
    refined = ridge._refined(gram, 1.0 / given, TWO, has_bias, None, no_check)
    single = ridge._substitute(
        ridge._factor(gram, 1.0 / given, None, no_check, np.float32), TWO, has_bias, check=no_check
    )
    for ours, theirs, rough in zip(refined, expected, single, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-11 * np.abs(expected[0]).max())
        # Refinement was necessary.
        assert not has_bias or np.abs(rough - theirs).max() > 1e-9 * np.abs(expected[0]).max()


def test_single_precision_gives_up_where_the_penalty_is_too_small():
    smooth = Gram(RBF(gamma=1e-5), as_data(X))
    assert ridge._refined(smooth, np.full(150, 1e-9), TWO, False, None, no_check) is None
    assert not ridge._suits_single_precision(smooth, np.ones(150))  # the exact factor is fast for so few rows


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "halved"), [(1.0, True), (1e-5, False)])
def test_many_rows_take_half_of_the_memory(alpha, halved):
    n = 5200
    rows = np.random.default_rng(0).normal(size=(n, 5))
    machine = KernelRidge(alpha, kernel="rbf").fit(rows, np.sin(rows[:, 0]))
    assert (machine.certificate_.peak_memory_bytes < 6 * n**2) == halved
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.gradient_violation < 1e-9


@pytest.mark.parametrize("stored", [sp.csr_array, sp.csr_matrix, np.asfortranarray, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("kernel", ["linear", "rbf", RBF(gamma=0.1) + Linear()], ids=str)
def test_storage_does_not_matter(stored, kernel):
    rounded = np.round(2 * X)
    expected = KernelRidge(kernel=kernel).fit(rounded, Y).predict(rounded)
    predictions = KernelRidge(kernel=kernel).fit(stored(rounded), Y).predict(stored(rounded))
    np.testing.assert_allclose(predictions, expected, atol=1e-8 * np.abs(Y).max())


def test_kernels_of_every_kind():
    K = rbf_kernel(X, gamma=0.1)
    expected = KernelRidge(kernel="rbf", gamma=0.1).fit(X, Y, WEIGHTS["whole"])
    for machine, rows in (
        (KernelRidge(kernel=RBF(gamma=0.1)), X),
        (KernelRidge(kernel=Callable(partial(rbf_kernel, gamma=0.1))), X),
        (KernelRidge(kernel="precomputed"), K),
    ):
        machine.fit(rows, Y, WEIGHTS["whole"])
        np.testing.assert_allclose(machine.predict(rows), expected.predict(X), atol=1e-8 * np.abs(Y).max())
        np.testing.assert_allclose(machine.loo_residuals_, expected.loo_residuals_, atol=1e-8 * np.abs(Y).max())
    words = ["abab", "abba", "baba", "aaaa"]
    assert KernelRidge(1e-6, kernel=Spectrum(2)).fit(words, [1.0, 2.0, 3.0, 4.0]).predict(["aaaa"]).shape == (1,)
    grid = GridSearchCV(KernelRidge(kernel="precomputed"), {"alpha": [0.1, 1.0]}).fit(K, Y)
    assert grid.best_score_ == pytest.approx(
        GridSearchCV(Theirs(kernel="precomputed"), {"alpha": [0.1, 1.0]}).fit(K, Y).best_score_
    )


def test_a_singular_system_has_the_solution_of_least_norm():
    twice = np.vstack([X[:20], X[:20]])
    for y in (np.concatenate([Y[:20], Y[:20]]), np.concatenate([Y[:20], Y[:20] + 1.0])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ours = KernelRidge(0.0, kernel="rbf").fit(twice, y)
        assert "not positive definite" in str(caught[0].message)
        expected = np.linalg.lstsq(rbf_kernel(twice), y)[0]
        np.testing.assert_allclose(ours.dual_coef_, expected, atol=1e-6 * np.abs(expected).max())
        consistent = y[0] == y[20]
        assert (ours.certificate_.status is Status.OPTIMAL) == consistent
        assert any("ended as `stalled`" in str(w.message) for w in caught) != consistent


def test_a_kernel_that_is_not_positive_semidefinite_claims_no_optimum():
    with pytest.warns(IndefiniteKernelWarning):
        machine = KernelRidge(200.0, kernel="sigmoid").fit(X, Y)
    assert machine.certificate_.status is Status.STATIONARY
    with pytest.warns(IndefiniteKernelWarning):
        machine = KernelRidge(1e5, kernel="additive_chi2").fit(POSITIVE, Y)
    expected = Theirs(1e5, kernel="additive_chi2").fit(POSITIVE, Y).predict(POSITIVE)
    np.testing.assert_allclose(machine.predict(POSITIVE), expected, atol=1e-8 * np.abs(Y).max())


def test_a_machine_pickles_without_its_evidence():
    machine = pickle.loads(pickle.dumps(KernelRidge(kernel="rbf").fit(X, Y)))
    assert machine.certificate_.status is Status.OPTIMAL
    with pytest.raises(ValueError, match="training data are not at hand"):
        machine.certificate_.verify()
    np.testing.assert_array_equal(machine.predict(X), KernelRidge(kernel="rbf").fit(X, Y).predict(X))
    machine.loo_residuals_  # noqa: B018 - from the rows that it holds


def test_each_target_is_held_against_its_own_size():
    twice, t = np.vstack([X[:20], X[:20]]), Y[:20]
    contradictory = np.concatenate([t, t + 100.0])
    targets = np.column_stack([1e9 * np.concatenate([t, t]), contradictory])
    with pytest.warns((UserWarning, ConvergenceWarning)):
        machine = KernelRidge(0.0, kernel="rbf").fit(twice, targets)
    assert machine.certificate_.status is Status.STALLED
    assert machine.certificate_.verify().status is Status.STALLED
    for unit in (1e-9, 1e9):
        certificate = KernelRidge(1e-3, kernel="rbf").fit(X, unit * TWO).certificate_
        assert certificate.status is Status.OPTIMAL
        assert certificate.relative_gap < 1e-9


def test_a_gap_is_held_against_the_squared_loss_of_0():
    certificate = KernelRidge(1.0, kernel="rbf").fit(X, 1e-9 * Y).certificate_
    evidence = certificate.evidence
    evidence.beta[:] = 0.0  # a machine with all coefficients 0
    recomputed = certificate.verify()
    assert recomputed.relative_gap == pytest.approx(1.0)
    assert recomputed.primal == pytest.approx(0.5e-18 * (Y**2).sum())


def test_one_matrix_is_held_at_a_time():
    n = 1500
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(n, 4)), rng.normal(size=n)
    KernelRidge(kernel="rbf").fit(rows[:50], y[:50])
    tracemalloc.start()
    try:
        machine = KernelRidge(kernel="rbf").fit(rows, y)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * 8 * n**2
        tracemalloc.reset_peak()
        machine.loo_residuals_  # noqa: B018
        assert tracemalloc.get_traced_memory()[1] < 1.5 * 8 * n**2
    finally:
        tracemalloc.stop()
    assert 8 * n**2 <= machine.certificate_.peak_memory_bytes < 1.5 * 8 * n**2


def test_a_path_through_weights_of_many_sizes():
    rng = np.random.default_rng(0)
    rows, y, s = rng.normal(size=(40, 3)), rng.normal(size=40), 10.0 ** rng.uniform(-8, 8, 40)
    alphas = [1e-8, 1e-4, 1.0, 1e8]
    path = KernelRidge(kernel="rbf", gamma=0.5).path(rows, y, alphas, s)
    K = rbf_kernel(rows, gamma=0.5)
    for i, alpha in enumerate(alphas):
        A = K + np.diag(alpha / s)
        np.testing.assert_allclose(A @ path.coefficients[i, :, 0], y, atol=1e-6 * np.abs(y).max())
        left_out = []
        for row in range(40):
            remaining = np.arange(40) != row
            left_out.append(y[row] - K[row, remaining] @ np.linalg.solve(A[np.ix_(remaining, remaining)], y[remaining]))
        assert path.leave_one_out_errors[i, 0] == pytest.approx(s @ np.square(left_out) / s.sum(), rel=1e-5)
    assert path.solved.all()


def test_a_path_reports_penalties_it_could_not_solve():
    twice = np.vstack([X[:20], X[:20]])
    with pytest.warns(UserWarning, match=r"the systems of alphas \[0.0\] are singular"):
        path = KernelRidge(kernel="rbf").path(twice, np.concatenate([Y[:20], Y[:20] + 100.0]), [0.0, 1.0])
    assert path.solved.tolist() == [False, True]
    assert np.isnan(path.leave_one_out_errors[0]).all()
    assert path.best == 1


@pytest.mark.parametrize("alpha", [0.5, [0.5, 0.25]], ids=str)
def test_leave_one_out_of_an_indefinite_system(alpha):
    K = np.array([[0.0, 1.0], [1.0, 0.0]])
    y = np.array([1.0, 2.0]) if np.size(alpha) == 1 else np.array([[1.0, 2.0], [2.0, 4.0]]).T
    with pytest.warns((UserWarning, ConvergenceWarning), match="not positive definite|semidefinite|stalled"):
        residuals = KernelRidge(alpha, kernel="precomputed").fit(K, y).loo_residuals_
    # Without row 0, f(x_0) = K_01 y_1 / (K_11 + alpha) = y_1 / alpha.
    np.testing.assert_allclose(residuals, y - y[::-1] / np.array(alpha), atol=1e-12)
    with pytest.warns((UserWarning, ConvergenceWarning), match="not positive definite|semidefinite|stalled"):
        singular = KernelRidge(1.0, kernel="precomputed").fit(K, [1.0, 2.0])
    assert np.isnan(singular.loo_residuals_).all()


BAD = {
    "alpha must be a number >= 0": ({"alpha": -1.0}, {}),
    "alpha must be a number >= 0, got 'one'": ({"alpha": "one"}, {}),
    "alpha must be a finite number": ({"alpha": np.inf}, {}),
    "alpha must be one number or one for each of the 1 targets": ({"alpha": [1.0, 2.0]}, {}),
    "kernel must be": ({"kernel": "gauss"}, {}),
    "Input y contains NaN": ({}, {"y": np.where(np.arange(150) == 3, np.nan, Y)}),
    "sample_weight must hold finite numbers >= 0": ({}, {"sample_weight": -np.ones(150)}),
    "all weights are zero": ({}, {"sample_weight": np.zeros(150)}),
    "inconsistent numbers of samples": ({}, {"y": Y[:-1]}),
    "could not convert string to float": ({}, {"y": np.array(["a"] * 150)}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused(message):
    parameters, changed = BAD[message]
    with pytest.raises(ValueError, match=message):
        KernelRidge(**parameters).fit(**{"X": X, "y": Y, **changed})


def test_dates_are_no_targets():
    days = np.arange("2020-01-01", "2020-05-30", dtype="datetime64[D]")
    for y in (days, days - days[0], np.column_stack([days, days])):
        with pytest.raises(TypeError, match=r"y must hold numbers, got dates or times \((datetime|timedelta)64\[D\]\)"):
            KernelRidge().fit(X, y)


def test_overflow_is_refused():
    with pytest.raises(ValueError, match="overflow"):
        KernelRidge().fit(X * 1e200, Y)


def gaussian_of_rows(x, z, gamma=0.1):
    """A function of two single rows."""
    return np.exp(-gamma * ((x - z) ** 2).sum())


def inner_of_sparse_rows(x, z):
    return x.multiply(z).sum() + 1.0


@pytest.mark.parametrize(
    ("kernel", "params", "rows"),
    [
        (gaussian_of_rows, None, X),
        (gaussian_of_rows, {"gamma": 0.5}, X),
        # Not symmetric: both libraries use one triangle.
        (lambda x, z: gaussian_of_rows(x, z) + 0.01 * (x[0] > z[0]), None, X),
        (inner_of_sparse_rows, None, sp.csr_array(X)),
        (ofgp.RBF(2.0) + ofgp.WhiteKernel(0.1), None, X),
    ],
)
def test_functions_are_called_as_scikit_learn_calls_them(kernel, params, rows):
    rows, y = rows[:30], Y[:30]
    ours, theirs = (one(1.0, kernel=kernel, kernel_params=params).fit(rows, y) for one in (KernelRidge, Theirs))
    tolerance = 1e-9 * np.abs(Y).max()
    np.testing.assert_allclose(ours.predict(rows[3:9]), theirs.predict(rows[3:9]), atol=tolerance)


def test_a_function_of_single_rows_in_every_machine():
    words = ["abab", "abba", "b", "aaaa", "ba", "a"]
    machine = SVC(kernel=Callable(lambda x, z: float(len(x) * len(z)), pairwise=True)).fit(words, [0, 0, 1, 0, 1, 1])
    lengths = np.array([[len(word)] for word in words])
    expected = SVC(kernel="linear").fit(lengths, [0, 0, 1, 0, 1, 1])
    np.testing.assert_allclose(machine.decision_function(words), expected.decision_function(lengths), atol=1e-9)
    with pytest.raises(ValueError, match="one number for two rows, got shape") as raised:
        KernelRidge(kernel=lambda a, b: a * b).fit(X, Y)
    assert "mercer.kernels.Callable(function)" in raised.value.__notes__[0]
    with pytest.raises(TypeError, match="pairwise must be True or False"):
        Callable(gaussian_of_rows, pairwise=1)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian", "precomputed", gaussian_of_rows, ofgp.RBF(2.0)])
def test_predictions_are_float32_where_scikit_learns_are(kernel):
    rows = rbf_kernel(X[:20]) if kernel == "precomputed" else X[:20]
    single = np.float32
    cases = [(*types, None) for types in product((single, np.float64), repeat=3)]
    cases += [(single, of_y, single, weight) for of_y in (single, np.int8, int) for weight in (np.ones(20), 2.0)]
    cases += [(single, single, single, np.ones(20, dtype=single)), (single, np.int8, single, None)]
    for of_rows, of_y, of_new, weight in cases:
        actual, expected = (
            one(kernel=kernel)
            .fit(rows.astype(of_rows), (9 * X[:20, 0]).astype(of_y), weight)
            .predict(rows.astype(of_new))
            for one in (KernelRidge, Theirs)
        )
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, atol=1e-3)
