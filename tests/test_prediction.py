"""Classes from single precision are those of double precision."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mercer import RBF, SVC, Linear, Polynomial, prediction
from mercer.backends import select_backend
from mercer.data import as_data
from mercer.decision import decision_values
from mercer.multiclass import class_scores, winners
from mercer.prediction import predicted_classes


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    monkeypatch.setattr(prediction, "_FEW_VALUES", 0)


KERNELS = {"RBF": RBF(gamma=0.2), "linear": Linear(), "cubic": Polynomial(degree=3, gamma=0.5, coef0=1.0)}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@given(seed=st.integers(0, 2**32 - 1), offset=st.sampled_from([0.0, 30.0, 1e5]), csr=st.booleans())
def test_the_classes_are_those_of_double_precision(kernel, scheme, n_classes, seed, offset, csr):
    rng = np.random.default_rng(seed)
    n_machines = 1 if n_classes == 2 else n_classes if scheme == "ovr" else n_classes * (n_classes - 1) // 2
    S, X = rng.normal(size=(9, 3)) + offset, rng.normal(size=(40, 3)) + offset
    X[:9] = S
    coefficients = rng.normal(size=(9, n_machines)) * rng.integers(0, 2, (9, n_machines))
    support, data = as_data(sp.csr_array(S) if csr else S), as_data(sp.csr_array(X) if csr else X)
    # Biases that put some rows next to a boundary.
    biases = -decision_values(KERNELS[kernel], data, support, coefficients, np.zeros(n_machines))[rng.integers(40)]
    exact = winners(
        class_scores(decision_values(KERNELS[kernel], data, support, coefficients, biases), n_classes, scheme)
    )
    found = predicted_classes(KERNELS[kernel], data, support, coefficients, biases, n_classes=n_classes, scheme=scheme)
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_a_row_whose_class_errors_could_change_is_open(n_classes, scheme):
    """Errors move each decision value its own way: two that are nearly the same meet after half the difference."""
    rng = np.random.default_rng(0)
    n_machines = 1 if n_classes == 2 else n_classes if scheme == "ovr" else n_classes * (n_classes - 1) // 2
    raw, room = rng.integers(-12, 13, (3000, n_machines)) / 10.0, np.full(3000, 0.08)
    of = winners(class_scores(raw, n_classes, scheme))
    changed = np.zeros(3000, dtype=bool)
    for signs in product([-1.0, 1.0], repeat=n_machines):
        changed |= winners(class_scores(raw + np.array(signs) * room[:, None], n_classes, scheme)) != of
    found = prediction._is_open(raw, room, n_classes, scheme)
    assert 0 < changed.sum() < 3000
    assert not (changed & ~found).any()
    assert not found.all()


def test_most_rows_need_no_double_precision(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    machine = SVC(C=10.0).fit(X, X[:, 0] * X[:, 1] > 0.0)
    backend = type(select_backend(machine.kernel_, as_data(X))[0])
    original, rows = backend.matvec, []

    def counting(self, left, left_rows, *others, single=False):
        rows.append((single, left.n if left_rows is None else left_rows.size))
        return original(self, left, left_rows, *others, single=single)

    monkeypatch.setattr(backend, "matvec", counting)
    new = rng.normal(size=(2000, 4))
    labels = machine.predict(new)
    assert rows[0] == (True, 2000)
    assert sum(size for single, size in rows if not single) < 100
    np.testing.assert_array_equal(labels, machine.decision_function(new) > 0.0)
