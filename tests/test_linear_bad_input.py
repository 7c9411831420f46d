"""Tables that linear machines must refuse clearly, or learn as if they were written another way."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import LinearSVC, LinearSVR, LogisticRegression, PegasosSVC, _core
from mercer.gram.rows import sweeps
from mercer.solvers.rows.pegasos import Pegasos, Steps, Visits

MACHINES = {
    "squared hinge": LinearSVC(),
    "hinge": LinearSVC(loss="hinge"),
    "free bias": LinearSVC(loss="hinge", bias="free"),
    "l1": LinearSVC(penalty="l1"),
    "l1 and hinge": LinearSVC(penalty="l1", loss="hinge"),
    "joint": LinearSVC(multi_class="crammer_singer"),
    "regression": LinearSVR(),
    "squares": LinearSVR(loss="squared_epsilon_insensitive"),
    "logistic": LogisticRegression(),
    "logistic with l1": LogisticRegression(penalty="l1"),
    "online": PegasosSVC(1.0, random_state=0),
}


READERS = ["hinge", "regression", "logistic with l1", "online"]  # one machine for each way to read a table


@pytest.fixture(params=MACHINES)
def machine(request):
    return clone(MACHINES[request.param])


def some_rows(n=60, p=5):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, p))
    X[np.abs(X) < 0.3] = 0.0
    return X, (X[:, 0] + 0.3 * random.normal(size=n) > 0.0).astype(int)


def reversed_rows(X):
    """The table with the indices of each row in descending order, in matrices that claim to be sorted."""
    table = sp.csr_matrix(X)
    data, indices = table.data.copy(), table.indices.copy()
    for first, last in zip(table.indptr[:-1], table.indptr[1:], strict=True):
        data[first:last], indices[first:last] = data[first:last][::-1].copy(), indices[first:last][::-1].copy()
    other = sp.csr_matrix((data, indices, table.indptr), shape=X.shape)
    other.has_sorted_indices = True
    return other


def halves(X):
    """The table with each entry stored as two halves at the same place."""
    table = sp.csr_matrix(X)
    return sp.csr_matrix((np.repeat(table.data / 2, 2), np.repeat(table.indices, 2), 2 * table.indptr), shape=X.shape)


def with_index(X, index):
    table = sp.csr_matrix(X)
    table.indices[7] = index
    return table


def with_pointer(X, pointer):
    table = sp.csr_matrix(X)
    table.indptr[5] = pointer
    return table


def objective(machine, X, y):
    """The objective of a fitted machine, which tells its solution from others."""
    return machine.fit(X, y).certificate_.primal


@pytest.mark.parametrize("written", [reversed_rows, halves], ids=["unsorted", "duplicates"])
def test_order_and_duplicates_of_sparse_indices_do_not_matter(machine, written):
    X, y = some_rows()
    table = written(X)
    before = table.indices.copy()
    assert objective(machine, table, y) == pytest.approx(objective(machine, sp.csr_matrix(X), y), rel=1e-9)
    np.testing.assert_array_equal(table.indices, before)  # the caller's matrix is as it was


@pytest.mark.parametrize("machine", READERS, indirect=True)
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (lambda X: with_index(X, 99), "not a valid CSR matrix: .* must be < 5"),
        (lambda X: with_index(X, -1), "not a valid CSR matrix: .* must be >= 0"),
        (lambda X: with_pointer(X, 10**6), "not a valid CSR matrix: .* a non-decreasing sequence"),
        (lambda X: np.where(X > 2.0, np.nan, X), "X must be finite, but"),
        (lambda X: sp.csr_array(np.where(X > 2.0, np.inf, X)), "X must be finite, but"),
        (lambda X: X[:-1], "inconsistent numbers of samples"),
    ],
)
def test_broken_tables_are_refused(machine, table, expected):
    X, y = some_rows()
    with pytest.raises(ValueError, match=expected):
        machine.fit(table(X), y)
    assert not hasattr(machine, "coef_")


@pytest.mark.parametrize("machine", READERS, indirect=True)
@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
def test_a_row_without_a_target_is_named(machine, missing):
    X, y = some_rows()
    targets = pd.Series(y.astype(object))
    targets[3] = missing
    with pytest.raises(ValueError, match=r"Input y contains NaN: .* row 3 \(counted from 0\)"):
        machine.fit(X, targets)


def with_value(X, value, fill_column):
    X = X.copy()
    X[slice(None) if fill_column else 3, 2] *= value
    X[3, 2] = value
    return X


@pytest.mark.parametrize("machine", READERS, indirect=True)
@pytest.mark.parametrize("fill_column", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda X: pd.DataFrame(X, columns=list("abcde"))])
def test_values_whose_squares_overflow_are_refused(machine, fill_column, kind):
    X, y = some_rows()
    with pytest.raises(ValueError, match=r"X reaches \S+e\+300 in row \d+, column (2|'c'), too large for sums of squ"):
        machine.fit(kind(with_value(X, 1e300, fill_column)), y)
    machine.fit(X, y)
    assert np.isfinite(machine.predict(with_value(X, 1e300, fill_column))).all()  # new rows may be large


def test_targets_whose_squares_overflow_are_refused():
    X, y = some_rows()
    targets = y.astype(float)
    targets[4] = -1e300
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        with pytest.raises(ValueError, match=r"y is -1e\+300 in row 4, too large for sums of squares"):
            LinearSVR(loss=loss).fit(X, targets)


def test_fewer_rows_than_columns_and_constant_columns(machine):
    X, y = some_rows()
    few = np.random.default_rng(1).normal(size=(8, 30))
    assert machine.fit(few, y[:8]).certificate_.status == "optimal"
    constant = np.column_stack([X, np.full(60, 7.0), np.zeros(60)])
    assert machine.fit(constant, y).certificate_.status == "optimal"
    for table in (np.ones((60, 3)), np.zeros((60, 3)), sp.csr_matrix((60, 3))):
        assert machine.fit(table, y).certificate_.status == "optimal"
        values = machine.predict(table)
        assert (values == values[0]).all()


def test_small_columns_are_learnt(machine):
    X, y = some_rows()
    X[:, 1] *= 1e-200
    assert machine.fit(X, y).certificate_.status == "optimal"


@pytest.fixture(scope="module")
def many_entries(tmp_path_factory):
    """A CSR table of one row, whose 5 entries lie behind 2^31 others in files with holes."""
    folder, first = tmp_path_factory.mktemp("entries"), 2**31 + 12
    data = np.memmap(folder / "data", dtype=np.float32, mode="w+", shape=first + 5)
    indices = np.memmap(folder / "indices", dtype=np.int32, mode="w+", shape=first + 5)
    data[first:], indices[first:] = [1.0, -2.0, 3.0, 0.5, 4.0], [0, 2, 3, 6, 7]
    yield data, indices, np.array([first, first + 5])
    for array in (data, indices):
        array._mmap.close()


def test_entries_behind_two_to_the_31_are_read(many_entries):
    data, indices, indptr = many_entries
    row = np.zeros((1, 8))
    row[0, indices[indptr[0] :]] = data[indptr[0] :]
    table = _core.LinearTable(data, indices, indptr, 8, 1.0)
    out = np.empty((1, 1))
    _core.row_products("baseline", table, np.arange(1.0, 10.0)[:, None], out, 1)
    assert out[0, 0] == row[0] @ np.arange(1.0, 9.0) + 9.0
    sums = np.empty((9, 1))
    numbers = {"gram_weights": None, "scales": None, "gram": None}
    _core.weighted_sums("baseline", table, weights=np.array([[2.0]]), sums=sums, n_threads=1, **numbers)
    np.testing.assert_array_equal(sums[:, 0], [*(2.0 * row[0]), 2.0])
    w, beta = np.zeros(9), np.zeros(1)
    descent = _core.DualDescent(
        table, loss=0, epsilon=0.0, targets=np.ones(1), charges=np.array([0.01]), beta=beta, w=w, seed=0
    )
    descent.run(1, 0.0, None)
    assert beta[0] == 0.01
    np.testing.assert_allclose(w, [*(0.01 * row[0]), 0.01])

    stored = SimpleNamespace(data=data, indices=indices, indptr=indptr, shape=(1, 8))
    learner = Pegasos(8, 2, averages=False)
    visits = Visits(np.array([1]), np.ones(1), np.ones(2), np.array([0]))
    learner.learn(stored, visits, Steps(0.5, 1.0, 1, False, False), losses=False)
    np.testing.assert_allclose(learner.weights, [[*(2.0 * row[0]), 2.0]])


@pytest.mark.parametrize("broken", ["index", "pointer"])
def test_native_code_refuses_what_changed_after_the_checks(broken):
    X, y = some_rows()
    table = sp.csr_array(X)
    (table.indices if broken == "index" else table.indptr)[3] = 10**6
    with pytest.raises(ValueError, match="out of range"):
        sweeps.times(table, 1.0, np.zeros(6))
    with pytest.raises(ValueError, match=r"out of range|must lie between|must not decrease"):
        Pegasos(5, 2, averages=True).learn(
            table,
            Visits(y, np.ones(60), np.ones(2), np.arange(60)),
            Steps(0.1, 1.0, 1, True, True),
            losses=True,
        )


def test_large_scales_end_with_a_finite_machine(machine):
    X, y = some_rows()
    X[:, 1] *= 1e60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding may hide whether the machine is optimal
        machine.set_params(**({"max_iter": 40} if "max_iter" in machine.get_params() else {}))
        machine.fit(X, y)
    assert np.isfinite(machine.coef_).all()
    assert np.isfinite(machine.certificate_.primal)
