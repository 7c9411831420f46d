"""Two-valued columns stored as bits: the same kernel values and certificates, and used only if faster."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from mercer import SVC, SVR, load_model, save_model
from mercer.certificates.status import Status
from mercer.data import BitRows, as_data, table_of_bits_or_counts
from mercer.data.feature_sums import least_entry, least_positive_entry, row_sums
from mercer.gram import Gram
from mercer.gram.backends import BitForm, BlockBackend, select_backend
from mercer.kernels import RBF, Cosine, Dice, Laplacian, Linear, Tanimoto, exp
from mercer.kernels.instruction_set import counts_bits

counts = pytest.mark.skipif(not counts_bits(), reason="this processor does not count bits in vectors")


def categories(n=1200, groups=12, levels=5, seed=0):
    rng = np.random.default_rng(seed)
    return np.hstack([np.eye(levels)[rng.integers(0, levels, n)] for _ in range(groups)])


@counts
@pytest.mark.parametrize(
    "given_",
    [
        lambda X: X,
        lambda X: X.astype(np.float32),
        lambda X: np.asfortranarray(2.0 * X - 1.0),
        lambda X: 0.25 * X + np.arange(60),
        sp.csr_array,
        lambda X: 3.0 * sp.csr_array(X, dtype=np.float32),
    ],
)
def test_kernel_values_are_those_of_the_rows_given(given_):
    kernel, data = RBF(gamma=0.02), as_data(given_(categories()))
    backend, reason = select_backend(kernel, data)
    assert isinstance(backend, BitForm)
    assert "counts of bits" in reason
    rows, columns = np.arange(0, 1200, 7), np.arange(5, 1200, 11)
    exact = kernel.block(data.rows(rows), data.rows(columns))
    out, rounded = np.empty(exact.shape), np.empty(exact.shape, dtype=np.float32)
    backend.block(data, rows, data, columns, out)
    backend.block(data, rows, data, columns, rounded)
    np.testing.assert_allclose(out, exact, rtol=1e-13, atol=0)
    np.testing.assert_array_equal(rounded, out.astype(np.float32))
    vector = np.random.default_rng(1).normal(size=(columns.size, 1))
    for single in (False, True):
        products = backend.matvec(data, rows, data, columns, vector, single=single)
        np.testing.assert_allclose(products, exact @ vector, rtol=1e-12, atol=1e-12)
    products, bound = backend.matvec_bounded(data, rows, data, columns, vector)
    np.testing.assert_allclose(products, exact @ vector, rtol=1e-12, atol=1e-12)
    assert not bound.any()  # the values are in double precision
    bound = backend.single_precision_bound(data, rows, data, columns, vector[:, 0])
    assert (np.abs(rounded.astype(float) @ vector - out @ vector)[:, 0] <= bound).all()
    assert backend.value_bound(data) == 1.0


@counts
@pytest.mark.parametrize("given_", [np.asarray, sp.csr_array, lambda X: X.astype(bool), lambda X: X.astype(np.int8)])
@pytest.mark.parametrize(
    "kernel",
    [
        Tanimoto(),
        Dice(),
        Cosine(),
        0.5 * Tanimoto() ** 2 + Cosine() * Dice() + 1,
        exp(3.0 * Tanimoto()),
        Tanimoto() + RBF(gamma=0.1),
        Dice() * Laplacian(gamma=0.1) + 0.1 * Linear(),
    ],
    ids=repr,
)
def test_similarities_of_fingerprints_are_counts_of_bits(kernel, given_):
    X = categories()
    X[::100] = 0.0
    data = table_of_bits_or_counts(given_(X))
    backend, reason = select_backend(kernel, data)
    assert isinstance(backend, BitForm)
    assert "counts of bits" in reason
    rows, columns = np.arange(0, 1200, 7), np.arange(5, 1200, 11)
    exact = kernel.block(data.rows(rows), data.rows(columns))
    out, rounded = np.empty(exact.shape), np.empty(exact.shape, dtype=np.float32)
    backend.block(data, rows, data, columns, out)
    backend.block(data, rows, data, columns, rounded)
    np.testing.assert_allclose(out, exact, rtol=1e-14, atol=0)
    assert np.abs(out).max() <= backend.value_bound(data) * (1.0 + 1e-15)
    vector = np.random.default_rng(1).normal(size=columns.size)
    bound = backend.single_precision_bound(data, rows, data, columns, vector)
    assert (np.abs(rounded.astype(float) @ vector - exact @ vector) <= bound).all()
    counted = 3.0 * X[:30]
    counted[::2, ::3] += 1.0
    others, products = as_data(type(data.stored)(counted) if sp.issparse(data.stored) else counted), np.empty((30, 109))
    backend.block(others, None, data, columns, products)
    np.testing.assert_allclose(products, kernel.block(others, data.rows(columns)), rtol=1e-12, atol=1e-14)
    assert isinstance(select_backend(Cosine() * Dice() + 1, as_data(0.2 * X))[0], BitForm)


@pytest.mark.parametrize("make", [bool, np.uint8, np.int64])
def test_rows_of_bits_are_rows(make):
    X = categories(n=70)[:, :-3].astype(make)
    bits, dense, sparse = table_of_bits_or_counts(X), as_data(X.astype(float)), as_data(sp.csr_array(X.astype(float)))
    assert isinstance(bits, BitRows)
    assert bits.nbytes == bits.copied_bytes == 70 * 8
    rows = np.array([5, 3, 3])
    for one in (bits, bits.rows(slice(0, 70)), bits.rows(slice(0, 0)).followed_by(bits), sparse.like(bits)):
        assert isinstance(one, BitRows)
        np.testing.assert_array_equal(one.array, X)
    np.testing.assert_array_equal(bits.rows(rows).stored, X[rows])
    np.testing.assert_array_equal(bits.with_columns(np.arange(1, 57, 5)).array, X[:, 1::5])
    np.testing.assert_array_equal(bits.like(sparse).dense(), X)
    np.testing.assert_array_equal(as_data(2.0 * X).like(bits).dense(), 2.0 * X)
    np.testing.assert_array_equal(as_data(sp.csr_array(2.0 * X)).like(bits).dense(), 2.0 * X)
    np.testing.assert_array_equal(bits.followed_by(as_data(2.0 * X)).dense()[70:], 2.0 * X)
    np.testing.assert_array_equal(bits.spread(5), dense.spread(5))
    np.testing.assert_array_equal(bits.sq_norms(), dense.sq_norms())
    np.testing.assert_allclose(bits.sq_norms(dense.column_means), dense.sq_norms(dense.column_means))
    np.testing.assert_allclose(bits.column_means, dense.column_means)
    np.testing.assert_array_equal(bits.column_scales()[1], dense.column_scales()[1])
    assert bits.variance() == pytest.approx(dense.variance())
    assert (least_entry(bits), least_positive_entry(bits), bits.finite_problem()) == (0.0, 1.0, None)
    np.testing.assert_array_equal(row_sums(bits), row_sums(dense))


def test_tables_of_counts_are_single_precision_only_if_that_is_exact():
    counts_ = np.array([[0, 3], [2**24 - 1, 1]])
    assert table_of_bits_or_counts(counts_).dtype == np.float32
    assert table_of_bits_or_counts(counts_.astype(np.uint64) * 2).dtype == np.float64
    assert table_of_bits_or_counts(-counts_).dtype == np.float32
    for table in (counts_, counts_ * 2, -counts_):
        np.testing.assert_array_equal(table_of_bits_or_counts(table).array, table)
    assert table_of_bits_or_counts(np.zeros((3, 0), dtype=int)).shape == (3, 0)


@pytest.mark.parametrize("kernel", [Tanimoto(), exp(Cosine()), Tanimoto() + RBF(), Dice().on([0, 3, 7])], ids=repr)
def test_machines_on_tables_of_bits(kernel, tmp_path):
    X = categories(n=300)
    y = (X[:, ::7].sum(axis=1) > 1.5).astype(int)
    expected = SVC(kernel=kernel, tol=1e-8).fit(X, y)
    for make in (bool, np.uint8, pd.DataFrame):
        table = make(X.astype(bool)) if make is pd.DataFrame else X.astype(make)
        machine = SVC(kernel=kernel, tol=1e-8).fit(table, y)
        assert machine.support_vectors_.dtype == bool
        for given in (X, table, sp.csr_array(X)):
            np.testing.assert_allclose(
                machine.decision_function(given[:40]), expected.decision_function(X[:40]), atol=1e-7
            )
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.verify().status == "optimal"
    save_model(tmp_path / "bits.mercer", machine)
    copies = pickle.loads(pickle.dumps(machine)), load_model(tmp_path / "bits.mercer")
    for copied in copies:
        np.testing.assert_allclose(copied.decision_function(table), machine.decision_function(table), rtol=1e-9)


def test_tables_of_bits_are_never_copied_as_numbers():
    X = np.random.default_rng(0).random((3000, 1024), dtype=np.float32) < 0.05
    y = np.where(X[:, :20].any(axis=1), 1, -1)
    tracemalloc.start()
    with pytest.warns(ConvergenceWarning):
        machine = SVC(kernel=Tanimoto(), max_iter=20, memory_limit=0).fit(X, y)
    machine.decision_function(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * X.nbytes  # of one byte a bit; float64 takes 8 X.nbytes


def largest_error(p, log_gamma, step, seed):
    """The largest error of a kernel value between rows of bits, in units of 2**-53, measured in extended precision."""
    rng = np.random.default_rng(seed)
    bits = rng.random((40, p)) < rng.random((40, 1))
    bits[0], bits[1] = True, False
    data = as_data(sp.csr_array(np.where(bits, step, 0.0)))
    gamma = float(np.exp(log_gamma) / step**2)
    backend, _ = select_backend(RBF(gamma=gamma), data)
    assert isinstance(backend, BitForm)
    out = np.empty((40, 40))
    backend.block(data, None, data, None, out)
    n_differ = (bits[:, None] != bits).sum(axis=2).astype(np.longdouble)
    exact = np.exp(-np.longdouble(gamma) * np.longdouble(step) ** 2 * n_differ)
    return float(np.abs(out - exact).max() * np.longdouble(2.0) ** 53), backend.roundoff


@counts
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no extended precision to compare with")
@pytest.mark.parametrize("p", [1, 63, 64, 65, 255, 256, 4095])
def test_no_greedy_search_exceeds_the_error_bound(p):
    rng, best = np.random.default_rng(p), (0.0, -0.7 * np.log(p), 1.0)
    # A search from the point with the largest error so far; every fourth trial starts with a random gamma and step.
    for trial in range(60):
        _, log_gamma, step = best
        if trial % 4 == 0:
            log_gamma, step = rng.uniform(-np.log(p) - 6.0, 3.0), float(np.exp(rng.uniform(-9.0, 9.0)))
        log_gamma, step = log_gamma + 0.3 * rng.normal(), step * float(np.exp(0.1 * rng.normal()))
        error, most = largest_error(p, log_gamma, step, trial)
        assert error <= most
        best = max(best, (error, log_gamma, step))
    assert best[0] > 0.1 * most  # the bound is not far above the largest error found


@counts
def test_other_rows_are_evaluated_as_numbers():
    X = categories()
    new = X[:30].copy()
    new[::2] += 0.125
    kernel = RBF(gamma=0.02)
    fifth = np.float32(0.2)  # float32(0.2) and float64(0.2) are different numbers
    for kind in (np.asarray, sp.csr_array, lambda Z: sp.csr_array(fifth * Z.astype(np.float32))):
        data, others = as_data(kind(X)), as_data(kind(new))
        backend, _ = select_backend(kernel, data)
        assert isinstance(backend, BitForm)
        exact, out = kernel.block(others, data), np.empty((30, 1200))
        backend.block(others, None, data, None, out)
        np.testing.assert_allclose(out, exact, rtol=1e-11)
        vector = np.ones((1200, 1))
        np.testing.assert_allclose(backend.matvec(others, None, data, None, vector), exact @ vector, rtol=1e-11)
        products, bound = backend.matvec_bounded(others, None, data, None, vector)
        assert (np.abs(products - exact @ vector)[:, 0] <= bound + 1e-9).all()
        assert (backend.single_precision_bound(others, None, data, None, vector[:, 0]) > 0.0).all()
        assert backend.value_bound(others) >= 1.0
        assert backend.matvec_part(others, None, np.ones((30, 1)), 0, 1) is not None
        assert backend.tiles(others) is not None


@counts
@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (Linear(), categories()),
        (2.0 * RBF(gamma=0.1), categories()),
        (Tanimoto(), categories() + 1.0),
        (Tanimoto(), np.where(categories(seed=1) > 0, np.linspace(1, 2, 60), 0.0)),
        (Dice().on([0, 1]), categories()),
        (Tanimoto() + RBF(gamma=0.1), 2.0 * categories()),  # distances depend on the value of a one
        (RBF(gamma=0.1), categories(n=300)),  # too few rows
        (RBF(gamma=0.1), np.where(categories(seed=1) > 0, np.linspace(1, 2, 60), 0.0)),  # the step differs by column
        (RBF(gamma=0.1), np.vstack([categories(), np.full((1, 60), 0.5)])),  # one row has other values
        (RBF(gamma=0.1), np.zeros((2000, 60))),
        # Two-valued only after rounding.
        (RBF(gamma=1.0), np.append(np.random.default_rng(0).normal(size=60_000), -1e20)[:, None]),
        (RBF(gamma=1.0), np.vstack([np.full((1, 60), -1e20), np.random.default_rng(0).normal(size=(1200, 60))])),
        (RBF(gamma=1e300), 1e5 * categories()),  # gamma times the squared step overflows
        (RBF(gamma=0.1), 1.2e308 * (2.0 * categories() - 1.0)),
        (RBF(gamma=0.1), sp.csr_array(np.where(categories(seed=1) > 0, np.linspace(1, 2, 60), 0.0))),
        (
            RBF(gamma=0.1),
            sp.random_array((500, 4000), density=1e-3, random_state=0, data_sampler=lambda size: np.ones(size)),
        ),
    ],
)
def test_bits_are_used_only_if_faster(kernel, X):
    assert not isinstance(select_backend(kernel, as_data(X))[0], BitForm)
    if not sp.issparse(X) and X.any() and X.shape[0] == 1200:
        assert not isinstance(select_backend(RBF(gamma=0.1), as_data(X), memory_limit=10_000)[0], BitForm)


@pytest.mark.full
@counts
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_machines_are_certified(kind):
    X = categories(n=2500)
    y = (X[:, ::5].sum(axis=1) + np.random.default_rng(3).normal(size=2500) > 2.4).astype(int)
    fits = [SVC(C=C, gamma=0.05, n_jobs=n_jobs).fit(kind(X), y) for C in (1.0, 100.0) for n_jobs in (1, 2)]
    for one, two in zip(fits[::2], fits[1::2], strict=True):
        np.testing.assert_array_equal(one.solution_.beta, two.solution_.beta)
        certificate = one.certificate_
        assert certificate.status is Status.OPTIMAL
        again = certificate.verify()
        assert again.kkt_violation <= 1e-3
        assert abs(again.dual - certificate.dual) <= 1e-10 * abs(again.dual)
        assert abs(again.primal - certificate.primal) <= 1e-9 * abs(again.primal)
    regressor = SVR(C=1.0, gamma=0.05).fit(kind(X), X[:, 0] + X[:, 7])
    assert regressor.certificate_.verify().kkt_violation <= 1e-3
    many = SVC(C=1.0, gamma=0.05).fit(kind(X), np.arange(2500) % 5)
    assert many.certificate_.verify().kkt_violation <= 1e-3


@counts
def test_a_step_in_single_precision_differs_from_one_in_double():
    X, kernel = categories(), RBF(gamma=0.02)
    others, out = as_data(sp.csr_array(np.float32(0.2) * X[:9].astype(np.float32))), np.empty((9, 1200))
    data = as_data(sp.csr_array(0.2 * X))
    backend, _ = select_backend(kernel, data)
    backend.block(others, None, data, None, out)
    np.testing.assert_allclose(out, kernel.block(others, data), rtol=1e-13)


@counts
def test_gram_shares_bits_with_its_parts():
    data = as_data(categories())
    gram = Gram(RBF(gamma=0.05), data)
    part = gram.restrict(np.arange(0, 1200, 3))
    exact = BlockBackend(RBF(gamma=0.05), data)
    out = np.empty((1200, 1200))
    exact.block(data, None, data, None, out)
    np.testing.assert_allclose(part.block(), out[::3, ::3], rtol=1e-13)
    vector = np.random.default_rng(0).normal(size=1200)
    np.testing.assert_allclose(gram.matvec(vector), out @ vector, rtol=1e-11, atol=1e-11)


@counts
def test_columns_of_one_value_do_not_matter():
    X = np.hstack([categories(), np.full((1200, 3), [0.0, 7.0, -2.5])])
    assert isinstance(select_backend(RBF(gamma=0.02), as_data(X))[0], BitForm)
    mixed = np.hstack([categories(), 3.0 * categories(groups=1)])
    assert not isinstance(select_backend(RBF(gamma=0.02), as_data(mixed))[0], BitForm)
