"""Definiteness of precomputed matrices and kernel functions, and how often functions are called."""

import numpy as np
import pytest

from mercer import (
    SVC,
    SVR,
    GradientKernelSVC,
    IndefiniteKernelWarning,
    KernelLogisticRegression,
    KernelRidge,
    KernelSearchCV,
    LeastSquaresSVC,
    NuSVC,
    OneClassSVM,
    leave_one_out,
)
from mercer.kernels import Callable, Precomputed


def gaussian(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 5))
    lengths = (X**2).sum(axis=1)
    K = np.exp(-0.1 * (lengths[:, None] + lengths - 2.0 * X @ X.T))
    return X, 0.5 * (K + K.T), (X[:, 0] + 0.3 * X[:, 1] ** 2 > 0).astype(int)


class Counted:
    """A Gaussian kernel function that counts its calls and values."""

    def __init__(self):
        self.calls = self.values = 0

    def __call__(self, A, B):
        self.calls, self.values = self.calls + 1, self.values + len(A) * len(B)
        lengths = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1)
        return np.exp(-0.1 * (lengths - 2.0 * A @ B.T))


@pytest.mark.full
def test_a_matrix_of_more_than_2000_rows_is_certified_and_calibrated():
    _, K, y = gaussian(2100)
    machine = SVC(kernel="precomputed", probability=True).fit(K, y)
    assert machine.certificate_.status == "optimal"
    assert (machine.predict_proba(K).argmax(axis=1) == machine.predict(K)).all()


def test_one_negative_eigenvalue_among_2100_is_found():
    _, K, y = gaussian(2100)
    v = np.random.default_rng(1).normal(size=2100)
    v /= np.linalg.norm(v)
    K -= (v @ K @ v + 0.5) * np.outer(v, v)  # v'Kv is -0.5 now
    with pytest.warns(IndefiniteKernelWarning, match="violated"):
        machine = SVC(kernel="precomputed").fit(0.5 * (K + K.T), y)
    assert machine.certificate_.status == "stationary"


@pytest.mark.parametrize("kind", [SVC, NuSVC, SVR, OneClassSVM])
def test_is_psd_of_the_user_is_accepted_and_reported(kind):
    _, K, y = gaussian(60)
    K = K - 0.2 * np.eye(60)  # not positive semidefinite, but `is_psd` is given, so it is not checked
    certificate = kind(kernel=Precomputed(is_psd=True)).fit(K, y).certificate_
    assert "on your word (is_psd=True)" in str(certificate)
    assert "on your word" not in str(kind(kernel="rbf").fit(K, y).certificate_)


def test_is_psd_of_the_user_holds_for_functions_and_their_sums():
    X, _, y = gaussian(60)
    kernel = Callable(Counted(), is_psd=True) + 1.0
    assert kernel.is_psd
    assert "on your word" in str(SVC(kernel=kernel).fit(X, y).certificate_)
    assert Callable(len).is_psd is None
    with pytest.raises(TypeError, match="is_psd must be True, False or None, got 'yes'"):
        Precomputed(is_psd="yes")


def float32_noise(K):
    return (K * (1.0 + 1e-7 * np.random.default_rng(0).uniform(-1.0, 1.0, K.shape))).astype(np.float32).astype(float)


def one_entry(K):
    K = K.copy()
    K[3, 5] += 1e-9
    return K


@pytest.mark.parametrize("change", [float32_noise, one_entry])
@pytest.mark.parametrize("machine", [SVC(kernel="precomputed"), KernelRidge(kernel="precomputed")])
def test_asymmetry_within_rounding_is_averaged_and_reported(machine, change):
    _, K, y = gaussian(150)
    given = change(K)
    with pytest.warns(UserWarning, match=r"not quite symmetric: K and K\.T differ by up to"):
        fitted = machine.fit(given, y)
    assert fitted.certificate_.status == "optimal"
    mean = machine.__class__(kernel="precomputed").fit(0.5 * (given + given.T), y)
    np.testing.assert_allclose(fitted.predict(K), mean.predict(K), atol=1e-6)


def test_asymmetry_beyond_rounding_is_refused():
    _, K, y = gaussian(50)
    K[3, 5] += 1e-3
    with pytest.raises(ValueError, match="must be symmetric, but row 3, column 5"):
        SVC(kernel="precomputed").fit(K, y)


FITS = {
    "SVC": lambda f, X, y: SVC(kernel=f).fit(X, y).certificate_,
    "probabilities": lambda f, X, y: SVC(kernel=f, probability=True).fit(X, y),
    "joint": lambda f, X, y: SVC(kernel=f, multi_class="joint").fit(X, y % 3),
    "SVR": lambda f, X, y: SVR(kernel=f).fit(X, y),
    "one class": lambda f, X, y: OneClassSVM(kernel=f).fit(X),
    "ridge": lambda f, X, y: KernelRidge(kernel=Callable(f)).fit(X, y),
    "least squares": lambda f, X, y: LeastSquaresSVC(kernel=f, probability=True).fit(X, y),
    "logistic": lambda f, X, y: KernelLogisticRegression(kernel=f).fit(X, y),
    "descent": lambda f, X, y: GradientKernelSVC(kernel=f).fit(X, y),
}


@pytest.mark.parametrize("case", FITS)
@pytest.mark.parametrize("n", [60, 700])
def test_a_function_is_called_once_with_all_rows(case, n):
    X, _, y = gaussian(n)
    function = Counted()
    FITS[case](function, X, y)
    assert (function.calls, function.values) == (1, n * n)


def test_a_function_is_called_by_blocks_if_its_matrix_does_not_fit():
    X, _, y = gaussian(700)
    function = Counted()
    limited = SVC(kernel=Callable(function, is_psd=True), memory_limit=2 << 20).fit(X, y)
    assert function.calls > 1
    np.testing.assert_allclose(limited.decision_function(X), SVC(gamma=0.1).fit(X, y).decision_function(X), atol=1e-2)


@pytest.mark.full
def test_leave_one_out_of_a_matrix_of_more_than_2000_rows():
    _, K, y = gaussian(2100)
    loo = leave_one_out(SVC(kernel="precomputed"), K, y, what="errors")
    assert 0.0 < loo.error < 0.2


def test_a_search_of_functions():
    X, _, y = gaussian(120)
    search = KernelSearchCV(SVC(kernel=Counted()), C=[0.1, 1.0], cv=3).fit(X, y)
    our_search = KernelSearchCV(SVC(gamma=0.1), C=[0.1, 1.0], cv=3).fit(X, y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], our_search.cv_results_["mean_test_score"])
