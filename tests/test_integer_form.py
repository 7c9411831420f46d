"""Tables of multiples of a step, stored as integers: proved error bounds, certificates, and used only if faster."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from mercer import SVC, SVR
from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.gram.backends import NativeBackend, select_backend
from mercer.kernels import RBF, Laplacian, Linear, Polynomial
from mercer.kernels.instruction_set import multiplies_integers

pytestmark = pytest.mark.skipif(not multiplies_integers(), reason="this processor multiplies no integers in vectors")


def pixels(n=900, p=100, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, p))


def are_integers(kernel, X, **options):
    backend, reason = select_backend(kernel, as_data(X), **options)
    assert isinstance(backend, NativeBackend)
    return "multiples of a step" in reason


@pytest.mark.parametrize("kernel", [RBF(gamma=1e-3), Linear(), Polynomial(degree=3, gamma=1e-4)])
@pytest.mark.parametrize(
    "given_",
    [
        lambda K: (K / 255).astype(np.float32),
        lambda K: K / 255,
        lambda K: K.astype(np.uint8),
        lambda K: np.asfortranarray((K - 128) * 0.001),
        lambda K: ((K - 30) / 16).astype(np.float32),
        lambda K: K * 3.0,
    ],
)
def test_multiples_are_found_and_values_are_those_of_the_rows_given(given_, kernel):
    X = given_(pixels())
    assert are_integers(kernel, X)
    data = as_data(X)
    backend, _ = select_backend(kernel, data)
    exact = kernel.block(data, data)
    single, double = np.empty((900, 900), dtype=np.float32), np.empty((900, 900))
    backend.block(data, None, data, None, single)
    backend.block(data, None, data, None, double)
    largest = np.abs(exact).max()
    np.testing.assert_allclose(double, exact, rtol=1e-11, atol=1e-12 * largest)
    np.testing.assert_allclose(single, exact, rtol=1e-4, atol=1e-6 * largest)
    weights = np.random.default_rng(1).normal(size=(900, 1))
    products, bound = backend.matvec_bounded(data, None, data, None, weights)
    assert (np.abs(products - exact @ weights)[:, 0] <= bound + 1e-12 * largest).all()


@pytest.mark.parametrize(
    "given_",
    [
        lambda K: K + np.random.default_rng(0).normal(size=K.shape),
        lambda K: K / K.std(axis=0),
        lambda K: (K * 1.0)[:500],  # only 50,000 entries
        lambda K: K[:, :15] * 1.0,
        lambda K: K * 40_000.0 + 1.0,
        lambda K: np.where(K == 255, 0.3, K),
        lambda K: np.zeros(K.shape),
        lambda K: K * 1e-20,
    ],
)
def test_other_tables_stay_floating_point(given_):
    assert not are_integers(RBF(gamma=1e-3), given_(pixels(p=99)))


def test_integers_are_used_only_if_faster():
    K = pixels(2_000, 400) * 1.0
    assert are_integers(RBF(gamma=1e-5), K)
    assert not are_integers(Laplacian(gamma=1e-5), K)
    assert not are_integers(RBF(gamma=1e-5) + Linear(), K)
    assert not are_integers(RBF(gamma=1e-5), K, memory_limit=K.size)
    assert not are_integers(RBF(gamma=1e-5), sp.csr_array(K))
    rng = np.random.default_rng(0)
    some, few = (np.where(rng.random(K.shape) < share, K, 0.0) for share in (0.2, 0.02))
    assert are_integers(RBF(gamma=1e-5), some)
    assert "prevailing value" in select_backend(RBF(gamma=1e-5), as_data(few))[1]
    late = K.copy()
    late[1_001, 3] = 0.5  # this row is not in the sample that is checked first
    assert not are_integers(RBF(gamma=1e-5), late)


def test_instruction_sets_without_integer_products_use_floating_point(monkeypatch):
    monkeypatch.setenv("MERCER_ISA", "avx2")
    assert not are_integers(RBF(gamma=1e-3), pixels() * 1.0)


def test_new_rows_that_are_no_multiples_use_floating_point():
    X, kernel = pixels() / 255, RBF(gamma=0.1)
    Z = np.random.default_rng(2).random((300, 100))
    data, new = as_data(X), as_data(Z)
    backend, _ = select_backend(kernel, data)
    weights = np.random.default_rng(1).normal(size=(900, 1))
    exact = kernel.block(new, data) @ weights
    products, bound = backend.matvec_bounded(new, None, data, None, weights)
    assert (np.abs(products - exact)[:, 0] <= bound).all()


@given(
    p=st.sampled_from([16, 17, 64, 300]),
    far=st.sampled_from([0, 100, 10_000]),
    step=st.sampled_from([1.0, 1 / 255, 1e-3, 0.1, 2.0**30]),
    log_gamma=st.floats(-4.0, 2.0),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0),
)
@settings(max_examples=60, deadline=None)
def test_bounds_hold_wherever_rows_lie(p, far, step, log_gamma, dtype, seed):
    """For a small cloud far from 0, rounding to a multiple is large compared with distances."""
    rng = np.random.default_rng(seed)
    n = 50_000 // p + 2
    K = far + rng.integers(0, rng.choice([2, 5, 256]), (n, p))
    X = (K * step).astype(dtype)
    if dtype is np.float64:  # the difference between each number and its multiple is as large as allowed
        X *= 1.0 + 2.0**-24 * rng.choice([-1.0, 1.0], K.max() + 1)[K]
    data = as_data(X)
    apart = np.square(X[0].astype(float) - X[1]).sum() + step**2
    kernel = RBF(gamma=float(np.exp(log_gamma) / apart))
    backend, reason = select_backend(kernel, data)
    assert far > 0 or K.max() < 2 or "integers" in reason
    rows, weights = rng.integers(0, n, 30), rng.normal(size=40)
    columns = rng.integers(0, n, 40)
    exact = kernel.block(data.rows(rows), data.rows(columns)) @ weights
    products = backend.matvec(data, rows, data, columns, weights[:, None], single=True)[:, 0]
    bound = backend.single_precision_bound(data, rows, data, columns, weights)
    closer = backend.matvec_bounded(data, rows, data, columns, weights[:, None])
    if bound is None:  # distances are computed from differences
        return
    assert (np.abs(products - exact) <= bound + 1e-12).all()
    assert (np.abs(closer[0][:, 0] - exact) <= closer[1] + 1e-12).all()


def test_rows_far_from_0_stay_floating_point():
    K = np.random.default_rng(0).integers(0, 4, (2_600, 20))
    assert are_integers(RBF(gamma=0.1), K * 1.0 + np.eye(20)[0])
    assert not are_integers(RBF(gamma=0.1), K + 5_000.0)
    assert are_integers(Linear(), K + 5_000.0)  # products have no centre, so the offset remains


@pytest.mark.parametrize("far", [0, 150])
def test_bounds_are_nearly_reached(far):
    """All numbers are as far above their multiples as the tolerance allows."""
    rng = np.random.default_rng(0)
    X = (far + rng.integers(1, 100, (1_000, 100))) * (1.0 + 2.0**-24)
    data = as_data(X)
    for kernel, least in ((Linear(), 0.3), (RBF(gamma=1e-7), 0.03)):
        assert are_integers(kernel, X)
        backend, _ = select_backend(kernel, data)
        one, weight = np.array([7]), np.ones(1)
        exact = kernel.block(data, data.rows(one))[:, 0]
        products = backend.matvec(data, None, data, one, weight[:, None], single=True)[:, 0]
        bound = backend.single_precision_bound(data, None, data, one, weight)
        assert least < (np.abs(products - exact) / bound).max() <= 1.0


def test_instruction_sets_that_change_meanwhile_change_nothing(monkeypatch):
    X = pixels() * 1.0
    data, new = as_data(X), as_data(X[:50].copy())
    backend, _ = select_backend(RBF(gamma=1e-5), data)
    weights = np.ones((900, 1))
    before = backend.matvec(new, None, data, None, weights, single=True)
    other = as_data(X[:50].copy())
    monkeypatch.setenv("MERCER_ISA", "avx2")
    after = backend.matvec(other, None, data, None, weights, single=True)
    assert before.tobytes() == after.tobytes()


def test_sparse_rows_are_refused_as_by_other_dense_tables():
    backend, _ = select_backend(RBF(gamma=1e-5), as_data(pixels() * 1.0))
    rows = as_data(sp.csr_array(pixels(20) * 1.0))
    with pytest.raises(ValueError, match="sparse rows have no centre"):
        backend.matvec_bounded(rows, None, as_data(pixels() * 1.0), None, np.ones((900, 1)))


def test_threads_change_no_bit():
    data = as_data(pixels(1_500, 200) / 255)
    weights = np.random.default_rng(1).normal(size=(1_500, 2))
    actual = [
        select_backend(RBF(gamma=0.05), data, n_jobs=n_jobs)[0].matvec(data, None, data, None, weights, single=True)
        for n_jobs in (1, 2, 3)
    ]
    assert actual[0].tobytes() == actual[1].tobytes() == actual[2].tobytes()


def test_machines_of_integers_are_certified_and_answer_as_before(monkeypatch):
    X, y = load_digits(return_X_y=True)
    for machine in (SVC(C=10.0, gamma=1e-3), SVR(C=1.0, gamma=1e-3, epsilon=0.3)):
        model = machine.fit(X, y)
        certificate = model.certificate_
        assert certificate.status is Status.OPTIMAL
        assert certificate.verify().kkt_violation <= 1.1e-3
        restored = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(restored.predict(X), model.predict(X))
        before = model.predict(X + 1e-9)  # no multiples
        with monkeypatch.context() as patched:
            patched.setenv("MERCER_ISA", "avx2")
            other = type(machine)(**machine.get_params()).fit(X, y)
            assert other.certificate_.status is Status.OPTIMAL
            np.testing.assert_allclose(other.predict(X), before, atol=5e-3)
