"""Machines with fewer support vectors: no row changes its decision value by more than the proved bound."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, SVC, Linear, Polynomial, compact, save_libsvm_model
from mercer.kernels import Cosine, Laplacian, Matern, center, exp

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(200, 3))
TWO = (X[:, 0] * X[:, 1] + 0.3 * RANDOM.normal(size=200) > 0.0).astype(int)
FOUR = np.digitize(X[:, 0] + 0.3 * RANDOM.normal(size=200), [-1.0, 0.0, 1.0])
NUMBERS = np.sin(X[:, 0]) + X[:, 1] ** 2

MACHINES = {
    "rbf": (SVC(C=5.0), TWO),
    "narrow": (SVC(C=100.0, gamma=5.0), TWO),
    "wide": (SVC(C=1000.0, gamma=0.001), TWO),
    "linear": (SVC(kernel="linear"), FOUR > 1),
    "polynomial": (SVC(kernel=Polynomial(3, 0.5, 1.0)), TWO),
    "laplacian": (SVC(kernel=Laplacian(0.5)), TWO),
    "matern": (SVC(kernel=Matern(1.0, 0.5)), TWO),
    "sum": (SVC(kernel=RBF(0.5).on([0, 1]) + 0.1 * Linear() * Cosine()), TWO),
    "centred": (SVC(kernel=center(RBF(0.5))), TWO),
    "exp": (SVC(kernel=exp(0.2 * Linear())), TWO),
    "pairs": (SVC(C=5.0, probability=True), FOUR),
    "rest": (SVC(multi_class="ovr"), FOUR),
    "joint": (SVC(multi_class="joint"), FOUR),
    "nu": (mercer.NuSVC(nu=0.2), FOUR),
    "svr": (mercer.SVR(C=10.0, epsilon=0.01), NUMBERS),
    "quantile": (mercer.QuantileSVR(C=3.0), NUMBERS),
    "one_class": (mercer.OneClassSVM(nu=0.3), None),
    "ball": (mercer.SVDD(C=0.02), None),
    "ridge": (mercer.KernelRidge(kernel="rbf", alpha=0.1), np.column_stack([NUMBERS, X[:, 2]])),
    "logistic": (mercer.KernelLogisticRegression(), FOUR),
    "least_squares": (mercer.LeastSquaresSVC(), FOUR),
    "perceptron": (mercer.KernelPerceptron(kernel="rbf"), X[:, 0] > 0.0),
}


def values(machine, rows):
    if isinstance(machine, mercer.OneClassSVM | mercer.SVDD):
        return machine.score_samples(rows)[:, None]
    return (
        machine._raw_decision(machine._new_rows(rows)) if hasattr(machine, "_raw_decision") else machine._values(rows)
    )


def excess(machine, small, rows):
    """Changes of decision values as shares of their bounds, the largest of all machines; rounding is no change."""
    lengths = np.sqrt(machine.kernel_.diag(machine._new_rows(rows)))
    change = np.abs(values(machine, rows) - values(small, rows))
    mass = np.abs(
        machine._coefficients.table if hasattr(machine._coefficients, "table") else machine._coefficients
    ).sum()
    change = np.maximum(0.0, change - 1e-13 * mass * (1.0 + lengths[:, None]) ** 2)
    bounds = small.compaction_.bounds * lengths[:, None]
    return np.where(change > 0.0, change / np.where(bounds > 0.0, bounds, 1e-300), 0.0).max(axis=1)


@pytest.mark.parametrize("tol", [0.3, 0.01])
@pytest.mark.parametrize("name", MACHINES)
def test_a_hostile_search_finds_no_row_beyond_the_bound(name, tol):
    machine, y = MACHINES[name]
    machine.fit(X, y)
    small = compact(machine, tol)
    assert (small.compaction_.bounds <= tol).all()
    random = np.random.default_rng(1)
    rows = np.vstack([X, 3.0 * X, X[random.integers(200, size=100)] + 0.1 * random.normal(size=(100, 3))])
    rows = np.vstack([rows, 1e-3 * X[:20], 100.0 * X[:20]]).clip(-30.0, 30.0)
    actual = excess(machine, small, rows)
    for step in (1.0, 0.3, 0.1, 0.03, 0.01) * 3:  # the rows nearest to the bound move towards it
        best = rows[np.argsort(-actual)[:60]]
        rows = np.vstack([best, best + step * random.normal(size=best.shape), best * (1.0 + step * random.normal())])
        rows = rows.clip(-30.0, 30.0)  # exponentials of larger ones overflow
        actual = excess(machine, small, rows)
    assert actual.max() <= 1.0


@pytest.mark.parametrize("name", ["rbf", "linear", "polynomial", "svr", "ridge", "logistic", "pairs"])
def test_there_are_fewer_vectors_and_the_bound_is_no_vast_overstatement(name):
    machine, y = MACHINES[name]
    small = compact(machine.fit(X, y), 0.3)
    report = small.compaction_
    assert 0 < report.n_vectors < report.n_vectors_before
    rows = np.vstack([X, 2.0 * X])
    assert excess(machine, small, rows).max() > 1e-3
    assert str(report.n_vectors) in str(report)


def test_without_noise_few_vectors_remain():
    machine = SVC(kernel="linear").fit(X, X[:, 0] > 0.2)
    small = compact(machine, 1e-3)
    assert small.support_vectors_.shape[0] <= 3  # the dimension of the space
    assert np.abs(small.coef_ - machine.coef_).max() < 1e-3
    doubled = mercer.KernelRidge(kernel="rbf").fit(np.vstack([X, X]), np.append(NUMBERS, NUMBERS))
    assert compact(doubled, 1e-4).X_fit_.shape[0] <= len(X)


def test_what_is_too_small_to_be_proved_leaves_the_machine_as_it_is():
    machine = SVC(C=1e6).fit(X, TWO)
    small = compact(machine, 1e-9)
    assert small.compaction_.n_vectors == small.compaction_.n_vectors_before
    assert (small.compaction_.bounds == 0.0).all()
    assert np.array_equal(small.decision_function(X), machine.decision_function(X))


def test_a_compact_machine_is_an_estimator_like_others(tmp_path):
    machine = make_pipeline(StandardScaler(), SVC(C=5.0, probability=True)).fit(X, FOUR)
    small = compact(machine, 0.2)
    last = small[-1]
    assert small.score(X, FOUR) > 0.8
    assert last.dual_coef_.shape == (3, len(last.support_vectors_))
    assert last.n_support_.sum() == len(last.support_vectors_)
    assert np.abs(small.predict_proba(X) - machine.predict_proba(X)).max() < 0.2
    with pytest.raises(AttributeError, match="made by compact"):
        last.certificate_  # noqa: B018
    save_libsvm_model(tmp_path / "small.model", last)
    again = mercer.load_libsvm_model(tmp_path / "small.model")
    assert np.array_equal(again.predict(machine[0].transform(X)), small.predict(X))
    assert mercer.to_c(small).count(",") < mercer.to_c(machine).count(",")
    last.fit(X, TWO)
    assert last.certificate_.status == "optimal"


def test_what_cannot_be_made_compact_is_refused():
    with pytest.raises(NotFittedError):
        compact(SVC(), 0.1)
    with pytest.raises(TypeError, match=r"machines with support vectors.*got LinearSVC"):
        compact(mercer.LinearSVC().fit(X, TWO), 0.1)
    with pytest.raises(TypeError, match="make the machine compact, and export that"):
        compact(mercer.as_model(SVC().fit(X, TWO), X, TWO), 0.1)
    with pytest.raises(ValueError, match="proved positive semidefinite"):
        compact(SVC(kernel="precomputed").fit(X @ X.T, TWO), 0.1)
    with pytest.warns(mercer.IndefiniteKernelWarning):
        machine = SVC(kernel="sigmoid").fit(X, TWO)
    with pytest.raises(ValueError, match="proved positive semidefinite"):
        compact(machine, 0.1)
    for tol in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="tol"):
            compact(SVC().fit(X, TWO), tol)


def test_strings_are_compacted_too():
    words = ["".join(RANDOM.choice(list("ab"), 6)) for _ in range(60)]
    machine = SVC(kernel=mercer.Spectrum(2)).fit(words, [word.count("ab") > 1 for word in words])
    small = compact(machine, 1e-2)
    assert small.compaction_.n_vectors < small.compaction_.n_vectors_before
    change = np.abs(small.decision_function(words) - machine.decision_function(words))
    lengths = np.sqrt(machine.kernel_.diag(machine._new_rows(words)))
    assert (change <= small.compaction_.bounds * lengths + 1e-12).all()


def test_a_machine_without_support_vectors_stays_as_it_is():
    small = compact(mercer.SVR(epsilon=100.0).fit([[0.0], [1.0]], [0.0, 1.0]), 0.1)
    assert small.predict([[3.0]]).tolist() == [0.5]
    assert small.compaction_.bounds.tolist() == [0.0]
