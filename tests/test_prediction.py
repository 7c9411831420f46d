"""Predicted classes are those of double precision, although most rows need single precision only."""

from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone

import mercer
from mercer import RBF, SVC, Linear, NuSVC, Polynomial
from mercer.data import as_data
from mercer.gram.backends import select_backend
from mercer.kernels import Callable
from mercer.multiclass import prediction
from mercer.multiclass.coefficients import Entries, PairCoefficients, columns_of, groups_of
from mercer.multiclass.decision import decision_values
from mercer.multiclass.prediction import predicted_classes
from mercer.multiclass.training import class_scores, winners
from pairs import every_pair


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    monkeypatch.setattr(prediction, "_FEW_VALUES", 0)


KERNELS = {"RBF": RBF(gamma=0.2), "linear": Linear(), "cubic": Polynomial(degree=3, gamma=0.5, coef0=1.0)}


@every_pair(kernel=KERNELS, scheme=["ovo", "ovr", "joint"], n_classes=[2, 3, 5])
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), offset=st.sampled_from([0.0, 30.0, 1e5]), csr=st.booleans())
def test_the_classes_are_those_of_double_precision(kernel, scheme, n_classes, seed, offset, csr):
    rng = np.random.default_rng(seed)
    n_machines = 1 if n_classes == 2 else n_classes * (n_classes - 1) // 2 if scheme == "ovo" else n_classes
    S, X = rng.normal(size=(9, 3)) + offset, rng.normal(size=(40, 3)) + offset
    X[:9] = S
    coefficients = rng.normal(size=(9, n_machines)) * rng.integers(0, 2, (9, n_machines))
    support, data = as_data(sp.csr_array(S) if csr else S), as_data(sp.csr_array(X) if csr else X)
    # These biases put some rows next to a decision boundary.
    biases = -decision_values(KERNELS[kernel], data, support, coefficients, np.zeros(n_machines))[rng.integers(40)]
    exact = winners(
        class_scores(decision_values(KERNELS[kernel], data, support, coefficients, biases), n_classes, scheme)
    )
    predicted = predicted_classes(
        KERNELS[kernel], data, support, coefficients, biases, n_classes=n_classes, scheme=scheme
    )
    np.testing.assert_array_equal(predicted, exact)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("scheme", ["ovo", "ovr", "joint"])
def test_rows_whose_class_depends_on_errors_are_recomputed(n_classes, scheme):
    """Errors move decision values independently: two close values can swap if both are off by half the difference."""
    rng = np.random.default_rng(0)
    n_machines = 1 if n_classes == 2 else n_classes * (n_classes - 1) // 2 if scheme == "ovo" else n_classes
    raw, doubts = rng.integers(-12, 13, (3000, n_machines)) / 10.0, rng.choice([0.01, 0.04, 0.06], (n_classes, 3000))
    if scheme == "ovo" or n_classes == 2:
        room = np.column_stack([doubts[i] + doubts[j] for i, j in combinations(range(n_classes), 2)])
    else:
        room = 2.0 * doubts.T
    of = winners(class_scores(raw, n_classes, scheme))
    changed = np.zeros(3000, dtype=bool)
    for signs in product([-1.0, 1.0], repeat=n_machines):
        changed |= winners(class_scores(raw + np.array(signs) * room, n_classes, scheme)) != of
    is_open = prediction._is_open(raw, doubts, n_classes, scheme)
    assert 0 < changed.sum() < 3000
    assert not (changed & ~is_open).any()
    assert not is_open.all()


def test_a_vote_without_effect_needs_no_recomputation():
    # Class 0 certainly beats 1 and 2, and the order of these does not matter. In the second row, class 1 may tie with
    # it.
    raw = np.array([[1.0, 1.0, 0.01], [1.0, 0.01, 1.0]])
    assert prediction._is_open(raw, np.full((3, 2), 0.05), 3, "ovo").tolist() == [False, True]
    assert prediction._is_open(np.full((1, 3), np.nan), np.full((3, 1), 0.05), 3, "ovo").all()


def pairs(n_classes, n_support, seed=0, rest=0.3):
    """Coefficients of machines for pairs of classes, some of them 0; the support vectors are in no order."""
    rng = np.random.default_rng(seed)
    class_of = rng.integers(0, n_classes, n_support)
    inside = np.array([[code in pair for pair in combinations(range(n_classes), 2)] for code in class_of])
    return rng.normal(size=inside.shape) * inside * (rng.random(inside.shape) > rest)


def by_pairs(table, n_classes):
    """The same coefficients in LIBSVM's layout."""
    vectors, machines = np.nonzero(table)
    return PairCoefficients.of_entries(Entries(vectors, machines, table[vectors, machines], *table.shape), n_classes)


@pytest.mark.parametrize("n_classes", [3, 5, 6, 9])
@pytest.mark.parametrize("rest", [0.0, 0.5, 1.0])
def test_coefficients_of_pairs_are_those_of_the_table(n_classes, rest):
    table = pairs(n_classes, 60, rest=rest)
    coefficients = by_pairs(table, n_classes)
    assert coefficients.table.shape == (np.count_nonzero(table.any(axis=1)), n_classes - 1)
    np.testing.assert_array_equal(coefficients.dense(), table)
    for (vectors, values), column in zip(columns_of(coefficients), table.T, strict=True):
        again = np.zeros(60)
        again[vectors] = values
        np.testing.assert_array_equal(again, column)
        assert values.all()
    factors = np.arange(1.0, table.shape[1] + 1.0)
    np.testing.assert_array_equal(
        coefficients.changed(lambda values, machines: values * factors[machines]).dense(), table * factors
    )


def test_vectors_of_one_class_are_evaluated_together():
    table = pairs(5, 60)
    groups = groups_of(by_pairs(table, 5))
    assert [one.owner for one in groups] == [0, 1, 2, 3, 4]
    assert sum(one.vectors.size for one in groups) == np.count_nonzero(table.any(axis=1))
    for one in groups:
        pairs_with_it = [number for number, pair in enumerate(combinations(range(5), 2)) if one.owner in pair]
        assert one.machines.tolist() == pairs_with_it
    (of_few,) = groups_of(by_pairs(pairs(4, 60), 4))
    assert of_few.vectors is None
    np.testing.assert_array_equal(of_few.coefficients, pairs(4, 60))


@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(3, 7))
def test_a_vector_whose_machines_share_no_class_is_in_several_groups(seed, n_classes):
    """A model file can contain such a model; coefficients that are listed twice are added."""
    rng, n_machines = np.random.default_rng(seed), n_classes * (n_classes - 1) // 2
    entries = Entries(rng.integers(0, 9, 30), rng.integers(0, n_machines, 30), rng.normal(size=30), 9, n_machines)
    np.testing.assert_allclose(
        PairCoefficients.of_entries(entries, n_classes).dense(), entries.table(), rtol=0, atol=1e-14
    )


def test_a_vector_in_one_machine_is_of_the_class_that_its_sign_says():
    coefficients = PairCoefficients.of_entries(
        Entries(np.array([0, 1]), np.array([2, 2]), np.array([0.5, -0.5]), 2, 3), 3
    )
    assert coefficients.counts.tolist() == [0, 1, 1]
    assert coefficients.vectors.tolist() == [0, 1]


@pytest.mark.parametrize("kernel", [RBF(gamma=0.5), Callable(lambda A, B: np.exp(-0.5 * cdist(A, B, "sqeuclidean")))])
@given(n_classes=st.integers(3, 8), seed=st.integers(0, 2**32 - 1), height=st.integers(1, 50))
def test_pairs_of_many_classes(kernel, n_classes, seed, height):
    rng = np.random.default_rng(seed)
    table = pairs(n_classes, 30, seed)
    S, X, n_machines = rng.normal(size=(30, 3)), rng.normal(size=(40, 3)), table.shape[1]
    biases = rng.normal(size=n_machines) * 0.1
    support, data, coefficients = as_data(S), as_data(X), by_pairs(table, n_classes)
    expected = kernel.block(data, support) @ table + biases
    decision = decision_values(kernel, data, support, coefficients, biases)
    np.testing.assert_allclose(decision, expected, rtol=0, atol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction, "_LEAST_ROWS", height)
        patch.setattr(prediction, "_AT_A_TIME", 0)
        labels = predicted_classes(kernel, data, support, coefficients, biases, n_classes=n_classes, scheme="ovo")
    np.testing.assert_array_equal(labels, winners(class_scores(decision, n_classes, "ovo")))


@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_bound_of_a_pair_is_that_of_both_classes(n_classes, monkeypatch):
    """The bound of a pair is the sum of the bounds of its two classes."""
    coefficients, rng, rooms = by_pairs(pairs(n_classes, 40, rest=0.0), n_classes), np.random.default_rng(0), []
    support, data, kernel = as_data(rng.normal(size=(40, 3))), as_data(rng.normal(size=(50, 3))), RBF(gamma=0.5)
    backend, _ = select_backend(kernel, support)
    alone = [
        backend.matvec_bounded(data, None, support, one.vectors, one.coefficients)[1] for one in groups_of(coefficients)
    ]
    if n_classes == 3:  # one group, whose bound is the bound of each machine
        alone = [0.5 * alone[0]] * 3

    def is_open(raw, doubts, *_):
        rooms.append(doubts)
        return np.zeros(50, dtype=bool)

    monkeypatch.setattr(prediction, "_is_open", is_open)
    n_machines = n_classes * (n_classes - 1) // 2
    predicted_classes(kernel, data, support, coefficients, np.zeros(n_machines), n_classes=n_classes, scheme="ovo")
    for doubts, bound in zip(rooms[0], alone, strict=True):
        assert (doubts >= bound).all()
        assert (doubts <= 1.01 * bound + 1e-8).all()


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
    assert (True, 2000) in rows
    assert sum(size for single, size in rows if not single) < 100
    np.testing.assert_array_equal(labels, machine.decision_function(new) > 0.0)


# With one column for each class, the largest score is predicted.

CLASSIFIERS = [
    *(
        make(multi_class=scheme, **parameters)
        for make, schemes, parameters in (
            (SVC, ("ovo", "ovr", "joint"), {}),
            (SVC, ("ovo", "ovr"), {"loss": "squared_hinge", "fit_intercept": False}),
            (NuSVC, ("ovo", "ovr"), {"nu": 0.1}),
            (mercer.KernelPerceptron, ("ovo", "ovr"), {"max_passes": 30}),
            (mercer.GradientKernelSVC, ("ovo", "ovr"), {"tol": 0.1}),
        )
        for scheme in schemes
    ),
    mercer.KernelLogisticRegression(),
    mercer.LogisticRegression(),
    mercer.LeastSquaresSVC(),
    mercer.LeastSquaresClassifier(),
    mercer.RBFNetworkClassifier(),
    mercer.ParzenClassifier(),
]


def name_of(machine):
    parts = [type(machine).__name__, getattr(machine, "multi_class", ""), getattr(machine, "loss", "")]
    return " ".join(part for part in parts if part)


@pytest.mark.filterwarnings("ignore:KernelPerceptron made mistakes to the end")
@pytest.mark.parametrize("machine", CLASSIFIERS, ids=name_of)
@pytest.mark.parametrize("stored", [np.float64, np.float32])
def test_the_class_with_the_largest_score_is_predicted(machine, stored):
    """Random rows, and rows halfway between mirrored classes, where scores are equal up to rounding."""
    rng = np.random.default_rng(0)
    corners = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    labels = np.array(["d", "b", "a", "c"])
    X = np.concatenate([corners + 0.25 * shift for shift in rng.normal(size=(8, 2))] + [corners, 0.5 * corners])
    new = np.concatenate([rng.normal(size=(60, 2)), np.zeros((2, 2)), np.mgrid[-2:3, -2:3].reshape(2, -1).T / 2.0])
    for rows, classes in (
        (slice(None), labels),
        (np.arange(len(X)) % 4 != 3, labels),
        (slice(None), labels[[0, 0, 1, 1]]),
    ):
        fitted = clone(machine).fit(X[rows].astype(stored), np.tile(classes, 10)[rows])
        scores = fitted.decision_function(new.astype(stored))
        n_classes = fitted.classes_.size
        if n_classes == 2:
            assert scores.shape == (87,)
            winning = (scores > 0.0).astype(int)
        else:
            assert scores.shape == (87, n_classes)
            winning = scores.argmax(axis=1)
        np.testing.assert_array_equal(fitted.predict(new.astype(stored)), fitted.classes_[winning])


@pytest.mark.parametrize("scheme", ["ovo", "ovr", "joint"])
@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(3, 5))
def test_the_class_with_the_largest_score_is_predicted_for_duplicate_classes(scheme, seed, n_classes):
    """If classes have the same rows, all scores are equal up to rounding; both methods must break the tie alike."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(6, 2)), 1)
    X, y = np.tile(rows, (n_classes, 1)), np.repeat(np.arange(n_classes), 6)
    machine = SVC(multi_class=scheme, gamma=1.0).fit(X, y)
    new = np.concatenate([rows, rng.normal(size=(20, 2))])
    np.testing.assert_array_equal(machine.predict(new), machine.decision_function(new).argmax(axis=1))


def test_scores_of_a_row_do_not_depend_on_those_beside_it():
    raw = np.random.default_rng(0).normal(size=(50, 66))
    alone = np.concatenate([class_scores(raw[i : i + 1], 12, "ovo") for i in range(50)])
    np.testing.assert_array_equal(class_scores(raw, 12, "ovo"), alone)


def test_constant_machines_have_no_support_vectors():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 3
    machine = NuSVC(nu=0.2, gamma=0.5, class_weight={0: 1e-300})
    with pytest.warns(UserWarning, match="infeasible"):
        machine.fit(X, y)
    assert machine.n_support_[0] == 0
    assert machine.n_support_[1:].all()
    assert machine.dual_coef_.shape == (2, machine.n_support_.sum())
    K = RBF(gamma=0.5).block(as_data(X), as_data(machine.support_vectors_))
    ends, raw = np.cumsum([0, *machine.n_support_]), np.zeros((90, 3))
    for column, (i, j) in enumerate(combinations(range(3), 2)):
        for label, place in ((i, j - 1), (j, i)):
            at = slice(ends[label], ends[label + 1])
            raw[:, column] += K[:, at] @ machine.dual_coef_[place, at]
    decision = machine.set_params(decision_function_shape="ovo").decision_function(X)
    np.testing.assert_allclose(decision, raw + machine.intercept_, rtol=1e-7, atol=1e-9)
