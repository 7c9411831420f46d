"""Landmarks trained on a device: the machine and the distance to the exact one are those of rows on the host."""

import array_api_strict as strict
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import scale

import mercer
from mercer import RBF, SVC, SVR, Landmarks, Linear, OneClassSVM
from mercer.approximate.task import Task
from mercer.gram import Gram
from mercer.gram.device_backend import DeviceBackend, DeviceData
from mercer.gram.places import place_of
from mercer.gram.rows import DeviceTable
from mercer.kernels import Laplacian, Sigmoid

from .test_arrays import AWAY, PLACES

X, y = load_iris(return_X_y=True)
B, z = load_breast_cancer(return_X_y=True)
B = scale(B)[::2]
z = z[::2]
FEW = Landmarks(n_landmarks=25)
CASES = {
    "two classes": (SVC(approximation=FEW), B, z),
    "squared hinge": (SVC(approximation=FEW, loss="squared_hinge"), B, z),
    "pairs": (SVC(approximation=FEW), X, y),
    "rest": (SVC(approximation=FEW, multi_class="ovr", kernel=RBF(gamma=0.5) + Linear()), X, y),
    "columns": (SVC(approximation=FEW, kernel=RBF().on([0, 2]), class_weight="balanced"), X, y > 0),
    "tube": (SVR(approximation=FEW, epsilon=0.1, kernel=Laplacian(gamma=0.3)), X, X[:, 3] - X[:, 0]),
    "novelty": (OneClassSVM(approximation=FEW, nu=0.2), X, None),
    "far from 0": (SVC(approximation=FEW, gamma=0.5), X + 1e6, y == 1),
}


def on_device(put, table):
    array = put(table)
    return DeviceData(DeviceTable(array, place_of(array)))


@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize("name", CASES)
def test_landmarks_on_a_device_are_those_on_the_host(name, put, monkeypatch):
    monkeypatch.setattr("mercer.estimators._validation.is_on_host", lambda array: False)  # of torch's, some are
    machine, rows, target = CASES[name]
    machine.set_params(tol_gap=1e-7)
    array, weights = put(rows), np.linspace(0.0, 2.0, len(rows))
    there = machine.fit(array, None if target is None else put(1.0 * target), sample_weight=put(weights))
    certificate, support, verified = there.certificate_, there.support_.copy(), there.certificate_.verify()
    values = there.decision_function(rows) if hasattr(there, "decision_function") else there.predict(rows)
    gamma = getattr(there.kernel_, "gamma", 0.0)
    here = machine.fit(rows, target, sample_weight=weights)
    expected = here.decision_function(rows) if hasattr(here, "decision_function") else here.predict(rows)
    assert certificate.status == "optimal"
    assert gamma == pytest.approx(getattr(here.kernel_, "gamma", 0.0), rel=1e-12)
    np.testing.assert_array_equal(support, here.support_)
    np.testing.assert_allclose(values, expected, atol=2e-3 * np.abs(expected).max())
    for one in (certificate, verified):
        assert one.exact_primal == pytest.approx(here.certificate_.exact_primal, rel=1e-4)
        assert one.exact_dual == pytest.approx(here.certificate_.exact_dual, rel=1e-4)
        assert one.distance_to_exact < np.inf


def test_the_optimum_of_the_exact_machine_is_within_the_bounds():
    there = SVC(approximation=Landmarks(distance=0.05)).fit(strict.asarray(B, device=AWAY), z)
    exact = SVC(tol=1e-8).fit(B, z).certificate_
    assert there.certificate_.exact_dual <= exact.primal
    assert exact.dual <= there.certificate_.exact_primal
    assert there.certificate_.distance_to_exact <= 0.05
    assert there.score(B, z) > 0.95


@pytest.mark.parametrize("put", PLACES)
def test_values_and_products_on_a_device_equal_those_of_native_code(put, monkeypatch):
    monkeypatch.setattr("mercer.gram.array_kernel._MOST_VALUES", 7 * 9)  # tiles of 7 rows
    kernel = RBF(gamma=0.3) + 0.5 * Linear() ** 2
    data = on_device(put, X)
    native, there = Gram(kernel, mercer.data.as_data(X)), Gram(kernel, data, backend=DeviceBackend(kernel, data))
    rows, columns, weights = np.arange(0, 150, 7), np.arange(3, 150, 11), np.linspace(-1.0, 1.0, 300).reshape(150, 2)
    near = {"rtol": 1e-12, "atol": 1e-11}
    np.testing.assert_allclose(there.block(rows, columns), native.block(rows, columns), **near)
    np.testing.assert_allclose(there.diag(), native.diag(), **near)
    np.testing.assert_allclose(there.matvec(weights), native.matvec(weights), **near)
    part = there.restrict(rows)
    np.testing.assert_allclose(part.matvec(weights[rows]), native.restrict(rows).matvec(weights[rows]), **near)
    table = part.table_there(np.array([1, 3]), np.eye(2), lambda: None)
    np.testing.assert_allclose(mercer.to_host(table.values(slice(None))), native.block(rows, rows[[1, 3]]), rtol=1e-6)
    assert there.value_bound() == pytest.approx(native.diag().max())
    assert 1.0 <= there.roundoff < 50.0


@pytest.mark.parametrize("put", PLACES)
def test_variance_and_chosen_rows(put):
    data, weights = on_device(put, X + 1e6), np.linspace(0.0, 1.0, 150)
    assert data.variance(weights) == pytest.approx(mercer.data.as_data(X + 1e6).variance(weights), rel=1e-9)
    np.testing.assert_array_equal(data.rows(np.array([5, 2])).stored, X[[5, 2]] + 1e6)
    assert data.column_scales()[1] == pytest.approx(np.abs(X + 1e6).max(axis=0))


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (SVC(), "fit of SVC computes on the host.*to_host"),
        (SVC(approximation="cells"), "fit with approximation='cells' of SVC computes on the host.*to_host"),
        (SVC(approximation="auto"), "fit with approximation='auto' of SVC computes on the host.*to_host"),
        (SVC(approximation=FEW, probability=True), "fit with probability=True of SVC computes on the host.*to_host"),
        (SVC(approximation=FEW, kernel=Sigmoid(gamma=0.1)), "not known to be positive semidefinite.*to_host"),
        (SVC(approximation=FEW, kernel=lambda a, b: a @ b.T), "take kernels of columns of numbers, but Callable"),
        (SVC(approximation=FEW, kernel=RBF(gamma="median")), "give mercer.to_host.*give a number, or 'scale'"),
        (SVC(approximation=FEW, kernel=mercer.Spectrum(2)), "take kernels of columns of numbers"),
        (OneClassSVM(approximation=FEW, contamination=0.1), "fit with contamination=0.1 of OneClassSVM.*to_host"),
    ],
)
def test_what_landmarks_on_a_device_cannot_do_is_refused(machine, message):
    with pytest.raises((ValueError, TypeError), match=message):
        machine.fit(strict.asarray(X, device=AWAY), y > 0)


def test_a_checkpoint_asks_for_the_host(tmp_path):
    with pytest.raises(ValueError, match="checkpoint= reads all rows on the host"):
        SVC(approximation=FEW).fit(strict.asarray(X, device=AWAY), y, checkpoint=tmp_path / "folder")


def test_only_landmarks_leave_the_device(monkeypatch):
    """Rows come to the host by `DeviceData.rows` alone: a fit copies the landmarks, and nothing else."""
    copied = []
    of_class = DeviceData.rows
    monkeypatch.setattr(DeviceData, "rows", lambda data, idx: copied.append(len(idx)) or of_class(data, idx))
    machine = SVC(approximation=FEW).fit(strict.asarray(X, device=AWAY), y)
    assert copied == [machine.support_.size]
    assert isinstance(machine.certificate_.evidence.task, Task)


@pytest.mark.parametrize("put", PLACES)
def test_a_map_is_fitted_where_the_array_is(put, monkeypatch):
    monkeypatch.setattr("mercer.estimators._validation.is_on_host", lambda array: False)  # of torch's, some are
    features = mercer.Nystroem(n_components=20, random_state=0)
    array = put(X)
    columns = features.fit_transform(array)
    there, chosen = mercer.to_host(columns), features.component_indices_.copy()
    residual, again = features.residual_trace_, mercer.to_host(features.fit(array).transform(array))
    assert type(columns) is type(array)
    expected = features.fit(X).transform(X)
    np.testing.assert_array_equal(chosen, features.component_indices_)
    for columns in (there, again):  # but for signs of the columns
        np.testing.assert_allclose(columns @ columns.T, expected @ expected.T, atol=1e-6)
    assert residual == pytest.approx(features.residual_trace_, rel=1e-6)
