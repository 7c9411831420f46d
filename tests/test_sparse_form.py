"""Dense tables in sparse form: the same kernel values, proved error bounds, certificates, and used only if faster."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import SVC
from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.gram import Gram
from mercer.gram.backends import BlockBackend, NativeBackend, select_backend
from mercer.gram.encodings.sparse import prevailing_values, sparse_form
from mercer.kernels import RBF, Linear, Polynomial
from mercer.multiclass.coefficients import table_of

EPS = np.finfo(float).eps


def one_hot(n=1000, groups=15, levels=6, seed=0, *, standardised=True, dtype=np.float32):
    """Categories as indicator columns, standardised or not, and a numeric column."""
    rng = np.random.default_rng(seed)
    table = [np.eye(levels)[rng.integers(0, levels, n)] for _ in range(groups)]
    X = np.hstack([*table, rng.normal(size=(n, 1))])
    return ((X - X.mean(axis=0)) / X.std(axis=0) if standardised else X).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("kernel", [RBF(gamma=0.02), 0.5 * RBF(gamma=0.01) + RBF(gamma=0.1) ** 2], ids=str)
def test_kernel_values_are_those_of_the_rows_given(kernel, standardised, dtype):
    data = as_data(one_hot(standardised=standardised, dtype=dtype))
    backend, reason = select_backend(kernel, data)
    assert isinstance(backend, NativeBackend)
    assert "of the entries repeat their column's prevailing value" in reason
    rows, columns = np.arange(0, 1000, 7), np.arange(5, 1000, 11)
    out = np.empty((rows.size, columns.size))
    backend.block(data, rows, data, columns, out)
    exact = kernel.block(data.rows(rows), data.rows(columns))
    np.testing.assert_allclose(out, exact, rtol=64 * EPS * backend.roundoff, atol=0)
    rounded = np.empty(out.shape, dtype=np.float32)
    backend.block(data, rows, data, columns, rounded, rounded=True)
    np.testing.assert_array_equal(rounded, out.astype(np.float32))
    vector = np.random.default_rng(1).normal(size=(columns.size, 1))
    np.testing.assert_allclose(
        backend.matvec(data, rows, data, columns, vector), exact @ vector, rtol=1e-11, atol=1e-11
    )
    products, bound = backend.matvec_bounded(data, rows, data, columns, vector)
    assert (np.abs(products - exact @ vector)[:, 0] <= bound + 1e-12).all()
    assert (
        bound <= backend.single_precision_bound(data, rows, data, columns, np.abs(vector[:, 0])) * (1 + 1e-12)
    ).all()
    assert 1.0 <= backend.value_bound(data) <= 2.0


def test_equal_rows_have_distance_zero():
    X = one_hot()
    X[500:] = X[:500]
    gram = Gram(RBF(gamma=0.02), as_data(X))
    np.testing.assert_array_equal(np.diag(gram.block(np.arange(500), np.arange(500, 1000))), 1.0)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 8),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_the_form_and_the_shift_are_the_rows(n, p, dtype, strided, seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, p)) < 0.8, rng.normal(size=p), rng.normal(size=(n, p)) * 10.0 ** rng.integers(-3, 4))
    X = X.astype(dtype)
    shift = X[rng.integers(0, n)].astype(np.float64)
    given_ = np.asfortranarray(np.repeat(X, 2, axis=1))[:, ::2] if strided else X
    form = sparse_form(as_data(given_), shift)
    assert form.dtype == np.float64
    np.testing.assert_array_equal(form.matrix.toarray(), X.astype(np.float64) - shift)
    assert (form.matrix.data != 0.0).all()
    np.testing.assert_allclose(form.sq_norms(), (form.matrix.toarray() ** 2).sum(axis=1), rtol=1e-14)


def test_the_sparse_form_is_used_only_if_faster():
    program = RBF(gamma=0.1).lower()
    rng = np.random.default_rng(0)
    assert prevailing_values(program, as_data(one_hot()), None) is not None
    # No value is frequent in its column.
    assert prevailing_values(program, as_data(rng.normal(size=(1000, 60))), None) is None
    assert prevailing_values(program, as_data(one_hot(n=200)), None) is None  # too small
    assert prevailing_values(program, as_data(one_hot(n=20_000)[:, :8]), None) is None  # too few features
    # The memory limit does not allow the sparse form.
    assert prevailing_values(program, as_data(one_hot()), 10_000) is None
    assert "prevailing" not in Gram(RBF(gamma=0.1), as_data(one_hot()), memory_limit=0)._store.backend_reason


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2, 0.1, 1.0), RBF(gamma=0.1) + Linear()], ids=str)
def test_inner_products_allow_no_shift(kernel):
    assert prevailing_values(kernel.lower(), as_data(one_hot()), None) is None
    data = as_data(one_hot(standardised=False))
    assert not prevailing_values(kernel.lower(), data, None).any()
    gram = Gram(kernel, data)
    np.testing.assert_allclose(gram.block(), values_by_numpy(kernel, data), rtol=1e-12, atol=1e-12)


def values_by_numpy(kernel, data):
    out = np.empty((data.n, data.n))
    BlockBackend(kernel).block(data, None, data, None, out)
    return out


def test_rows_far_from_the_prevailing_values_stay_dense():
    """If distances must be computed from differences, coordinate by coordinate, the rows stay dense."""
    X = one_hot(dtype=np.float64)
    X[0, 0] = 1e9
    backend, reason = select_backend(RBF(gamma=1.0), as_data(X))
    assert isinstance(backend, NativeBackend)
    assert "prevailing" not in reason


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_fit_is_certified_and_predicts_new_rows(n_classes):
    X = one_hot(n=1500)
    y = (X[:, :20].sum(axis=1) * 3).astype(int) % n_classes
    machine = SVC(kernel="rbf", C=10.0, gamma=0.02).fit(X[:1200], y[:1200])
    certificate = machine.certificate_
    assert certificate.status is Status.OPTIMAL
    assert certificate.verify().status is Status.OPTIMAL
    new = np.vstack([X[1200:], np.random.default_rng(0).normal(size=(50, X.shape[1])).astype(np.float32)])
    K = RBF(gamma=0.02).block(as_data(new), as_data(machine.support_vectors_))
    raw = K @ table_of(machine._coefficients) + machine.intercept_
    np.testing.assert_allclose(machine._raw_decision(as_data(new)), raw, rtol=1e-9, atol=1e-9)
