"""PegasosSVC: the steps, the gap, streams of rows, and bad input."""

import os
import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils._param_validation import InvalidParameterError

from mercer import PegasosSVC, as_model, load_model, save_model
from mercer.solvers.rows import Hinge, LinearProblem, TableRows
from mercer.solvers.rows import pegasos_epochs as epochs
from mercer.solvers.rows.pegasos import Pegasos, ProgressiveLoss, Steps, Visits
from mercer.solvers.rows.weights_dual import dual_coefficients
from mercer.studies.models.verification import verify
from reference import pegasos as reference


def some_rows(n=120, p=6, n_classes=2, seed=0):
    """Rows of overlapping classes, their class numbers and weights."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, p))
    y = (X[:, : n_classes - 1] + 0.5 * random.normal(size=(n, n_classes - 1)) > 0.3).sum(axis=1)
    return X, y, random.integers(0, 4, n).astype(float)


def stored(X, kind):
    return {
        "dense": X,
        "float32": X.astype(np.float32),
        "csr": sp.csr_array(X),
        "csr64": sp.csr_array(
            (sp.csr_array(X).data, *(a.astype(np.int64) for a in (sp.csr_array(X).indices, sp.csr_array(X).indptr))),
            shape=X.shape,
        ),
        "csr float32": sp.csr_array(X.astype(np.float32)),
    }[kind]


@pytest.mark.parametrize("kind", ["dense", "float32", "csr", "csr64", "csr float32"])
@pytest.mark.parametrize(
    ("n_classes", "steps"),
    [
        (2, Steps(1e-3, 1.0, 1, True, True)),
        (2, Steps(0.1, 0.0, 1, True, False)),
        (2, Steps(1e-6, 2.0, 7, True, True)),
        (3, Steps(1e-2, 1.0, 1, False, True)),
        (4, Steps(1e-4, 1.0, 5, True, True)),
    ],
    ids=str,
)
def test_steps_are_those_of_the_reference(kind, n_classes, steps):
    X, codes, weights = some_rows(n_classes=n_classes)
    X[np.abs(X) < 0.5] = 0.0
    X = X.astype(np.float32).astype(float)
    factors = np.array([1.5, 3.0, 0.5, 1.0])[:n_classes]
    order = np.random.default_rng(1).permutation(np.flatnonzero(weights))
    learner = Pegasos(X.shape[1], n_classes, averages=steps.averages)
    table = stored(X, kind)
    table = table if isinstance(table, np.ndarray) else sp.csr_array(table)
    half = len(order) // (2 * steps.batch_size) * steps.batch_size
    actual = [
        learner.learn(table, Visits(codes, weights, factors, part), steps, losses=True)
        for part in (order[:half], order[half:])
    ]
    w, mean, hinge, wrong = reference.run(X, codes, weights, factors, order, n_classes, steps)
    expected = mean if steps.averages else w
    np.testing.assert_allclose(learner.weights, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(np.concatenate([part[0] for part in actual]), hinge, rtol=1e-9, atol=1e-9)
    assert np.concatenate([part[1] for part in actual]).tolist() == wrong.tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_norms_for_the_projection_stay_exact_when_the_scale_starts_again(n_classes):
    X, codes, _ = some_rows(n=300, p=4, n_classes=n_classes)
    steps = Steps(0.05, 1.0, 1, True, True)
    learner = Pegasos(X.shape[1], n_classes, averages=True)
    for row in range(len(X)):
        visit = Visits(codes, np.ones(len(X)), np.ones(n_classes), np.array([row]))
        learner.learn(X, visit, steps, losses=False)
        np.testing.assert_allclose(learner.sq_norm, np.sum(learner.v**2, axis=0), rtol=1e-6, atol=1e-12)


def optimum(X, y, alpha, weights=None):
    """The least objective of the bias-penalised hinge machine, in the units of C = 1/(alpha n)."""
    weights = np.ones(len(y)) if weights is None else weights
    C = 1.0 / (alpha * weights.sum())
    machine = LinearSVC(loss="hinge", C=C, tol=1e-10, max_iter=10**6).fit(X, y, sample_weight=weights)
    signs = np.where(y == machine.classes_[1], 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - signs * machine.decision_function(X))
    return 0.5 * (np.sum(machine.coef_**2) + np.sum(machine.intercept_**2)) + C * weights @ losses


@pytest.mark.parametrize("options", [{}, {"projection": False}, {"average": False}, {"batch_size": 8}], ids=str)
def test_gap_falls_with_the_steps_and_is_true(options):
    X, y, _ = some_rows(300)
    best = optimum(X, y, 0.01)
    gaps = []
    for most in (4, 64, 1024):
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            machine = PegasosSVC(0.01, max_iter=most, tol_gap=1e-9, random_state=0, **options).fit(X, y)
        certificate = machine.certificate_
        suboptimality = certificate.primal - best
        assert -1e-7 * best <= suboptimality <= certificate.gap
        # The bound of the algorithm, with ||x||^2 <= 40 here: (sqrt(alpha) + R)^2 / (alpha t), in units of C n.
        assert suboptimality * 0.01 <= 4.0 * 41.0 / machine.t_ / 0.01
        assert machine.n_iter_ == most
        assert machine.n_rows_seen_ == machine.t_ == 300 * most
        assert certificate.verify().relative_gap == pytest.approx(certificate.relative_gap, rel=1e-6)
        gaps.append(certificate.relative_gap)
    assert gaps[1] < gaps[0] / 3
    assert gaps[2] < gaps[1] / 3


def test_fit_ends_when_the_gap_is_proved():
    X, y, _ = some_rows(300)
    machine = PegasosSVC(0.1, random_state=0).fit(X, y)
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.relative_gap <= 0.01
    assert machine.n_iter_ in (1, 2, 4, 8, 16, 32, 64, 128)
    with pytest.warns(ConvergenceWarning, match=r"ended as `max_iter` after 1 epochs: the relative duality gap is "):
        PegasosSVC(1e-4, max_iter=1, random_state=0).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_weights_are_prices_of_the_losses(n_classes):
    X, y, weights = some_rows(200, n_classes=n_classes)
    repeated = np.repeat(np.arange(200), weights.astype(int))
    machine = PegasosSVC(0.05, tol_gap=3e-3, random_state=0).fit(X, y, sample_weight=weights)
    assert machine.certificate_.status == "optimal"
    of_copies = machine.certify(X[repeated], y[repeated])
    assert of_copies.primal == pytest.approx(machine.certificate_.primal, rel=1e-12)
    assert of_copies.relative_gap <= 0.01
    if n_classes == 2:
        best = optimum(X, y, 0.05, weights)
        assert best * (1 - 1e-9) <= machine.certificate_.primal <= best + machine.certificate_.gap
    in_other_units = PegasosSVC(0.05, tol_gap=3e-3, random_state=0).fit(X, y, sample_weight=1e9 * weights)
    np.testing.assert_allclose(in_other_units.coef_, machine.coef_, rtol=1e-7)


def test_parts_of_a_stream_are_one_epoch():
    X, y, weights = some_rows(200, n_classes=3)
    options = {"alpha": 0.01, "batch_size": 4, "class_weight": {1: 3.0}}
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        together = PegasosSVC(max_iter=1, shuffle=False, **options).fit(X, y, weights)
    parts = PegasosSVC(**options)
    used = np.flatnonzero(weights)  # rows of weight 0 would shift the batches
    assert used.size > 120
    for rows in (used[:4], used[4:100], used[100:]):
        table = X if rows[0] % 2 else sp.csr_array(X)  # dense and sparse parts may alternate
        parts.partial_fit(table[rows], y[rows], classes=[0, 1, 2], sample_weight=weights[rows])
    np.testing.assert_allclose(parts.coef_, together.coef_, rtol=1e-10)
    np.testing.assert_allclose(parts.intercept_, together.intercept_, rtol=1e-10)
    assert parts.t_ == weights.sum()
    assert parts.n_rows_seen_ == used.size
    for name in ("hinge", "error_rate", "recent_hinge", "recent_error_rate"):
        assert getattr(parts.progressive_loss_, name) == pytest.approx(getattr(together.progressive_loss_, name))
    assert not hasattr(parts, "certificate_")
    assert parts.certify(X, y, weights).primal == pytest.approx(together.certificate_.primal)
    again = pickle.loads(pickle.dumps(parts)).partial_fit(X, y)
    assert again.predict(X).tolist() == parts.partial_fit(X, y).predict(X).tolist()


def test_balanced_weights_follow_the_counts():
    X, y, _ = some_rows(400)
    y = (X[:, 0] > 1.2).astype(int)
    machine = PegasosSVC(0.05, class_weight="balanced", random_state=0)
    counts = np.zeros(2)
    for rows in np.array_split(np.random.default_rng(0).permutation(400), 8):
        counts += np.bincount(y[rows], minlength=2)
        machine.partial_fit(X[rows], y[rows], classes=[0, 1])
        np.testing.assert_allclose(machine.class_weight_, counts.sum() / (2.0 * counts))
    fitted = PegasosSVC(0.05, class_weight="balanced", random_state=0).fit(X, y)
    np.testing.assert_allclose(fitted.class_weight_, machine.class_weight_)
    given = PegasosSVC(0.05, class_weight=dict(enumerate(fitted.class_weight_)), random_state=0).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, given.coef_)
    first = PegasosSVC(class_weight="balanced").partial_fit(X[:3], [0, 0, 0], classes=[0, 1, 5])
    assert first.class_weight_.tolist() == [1.0, 1.0, 1.0]


def test_progressive_loss_is_that_of_the_machine_before_it_learns():
    X, y, weights = some_rows(60, n_classes=3)
    machine = PegasosSVC(0.01)
    losses, errors, counted = [], [], []
    for i in range(60):
        if i and weights[i]:
            z = machine.decision_function(X[[i]])[0]
            signs = np.where(np.arange(3) == y[i], 1.0, -1.0)
            losses.append(np.maximum(0.0, 1.0 - signs * z).sum())
            errors.append(machine.predict(X[[i]])[0] != y[i])
            counted.append(weights[i])
        elif not i:
            weights[i] = 1.0
            losses.append(3.0), errors.append(y[i] != 0), counted.append(1.0)
        if weights[i]:
            machine.partial_fit(X[[i]], y[[i]], classes=range(3) if not i else None, sample_weight=[weights[i]])
    loss = machine.progressive_loss_
    assert loss.n_rows == len(counted)
    assert loss.hinge == pytest.approx(np.average(losses, weights=counted))
    assert loss.error_rate == pytest.approx(np.average(errors, weights=counted))
    assert loss.recent_hinge == pytest.approx(loss.hinge)
    long = ProgressiveLoss().followed_by(np.ones(700), np.zeros(700), np.ones(700))
    long = long.followed_by(np.ones(800), np.ones(800), np.zeros(800))
    assert (long.recent_hinge, long.recent_error_rate) == (0.8, 0.2)
    assert (long.hinge, long.error_rate) == pytest.approx((8 / 15, 7 / 15))
    assert "1,500 rows: hinge loss 0.5333" in str(long)
    assert np.isnan(ProgressiveLoss().hinge)
    assert np.isnan(ProgressiveLoss().recent_error_rate)


def test_hashed_features_of_a_stream():
    words = np.random.default_rng(0).integers(0, 5000, (600, 12))
    y = np.where((words < 900).sum(axis=1) > 2, "ham", "spam")
    hasher = FeatureHasher(2**20, input_type="string")
    machine = PegasosSVC(1e-3)
    for rows in np.array_split(np.arange(600), 20):
        X = hasher.transform([[f"w{word if word >= 900 else word % 30}" for word in words[row]] for row in rows])
        machine.partial_fit(X, y[rows], classes=["ham", "spam"])
    assert machine.coef_.shape == (1, 2**20)
    assert machine.progressive_loss_.recent_error_rate < 0.25
    assert machine.score(X, y[rows]) > 0.8


def test_machine_belongs_in_scikit_learn():
    X, y, _ = some_rows(200)
    search = GridSearchCV(PegasosSVC(random_state=0, tol_gap=0.1), {"alpha": [0.01, 0.1]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.75
    machine = PegasosSVC(0.1, random_state=0, fit_intercept=False).fit(X, y)
    assert machine.intercept_.tolist() == [0.0]
    np.testing.assert_allclose(machine.decision_function(X), X @ machine.coef_[0])
    for name in ("coef_", "intercept_", "t_"):
        assert not hasattr(PegasosSVC(), name)
    with pytest.raises(NotFittedError):
        PegasosSVC().predict(X)
    with pytest.raises(NotFittedError):
        PegasosSVC().certify(X, y)


def test_fit_obeys_its_limits():
    X, y, _ = some_rows(500)
    with pytest.warns(ConvergenceWarning, match="ended as `time_limit` after 0 epochs"):
        machine = PegasosSVC(max_seconds=0.0).fit(X, y)
    assert machine.n_rows_seen_ == 0
    assert machine.predict(X).tolist() == [0] * 500
    assert machine.certificate_.primal == pytest.approx(1.0 / 1e-4)
    seen = []
    with pytest.warns(ConvergenceWarning, match="ended as `interrupted`"):
        PegasosSVC(tol_gap=1e-9, callback=lambda progress: seen.append(progress) or True).fit(X, y)
    assert [progress.n_iter for progress in seen] == [1]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("alpha", 0.0, "alpha must be a number > 0"),
        ("alpha", np.inf, "alpha must be a finite number"),
        ("tol_gap", -1.0, "tol_gap must be a number > 0"),
        ("max_iter", 0, "max_iter must be an integer >= 1"),
        ("batch_size", 1.5, "batch_size must be an integer >= 1"),
        ("projection", "yes", "projection must be True or False"),
        ("average", 10, "average must be True or False"),
        ("shuffle", None, "shuffle must be True or False"),
        ("fit_intercept", 1.0, "fit_intercept must be True or False"),
        ("class_weight", "even", "class_weight must be None"),
        ("max_seconds", -1, "max_seconds must be a number >= 0"),
        ("callback", 3, "callback must be a function"),
        ("random_state", "one", "random_state must be None, an integer >= 0"),
    ],
)
def test_parameters_out_of_range(name, value, expected):
    X, y, _ = some_rows(20)
    for learn in (lambda machine: machine.fit(X, y), lambda machine: machine.partial_fit(X, y, classes=[0, 1])):
        with pytest.raises((InvalidParameterError, ValueError), match=expected):
            learn(PegasosSVC(**{name: value}))


def wide(X):
    return np.column_stack([X, X[:, 0]])


def huge(X):
    X = X.copy()
    X[3, 2] = 1e300
    return X


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda m, X, y: m.partial_fit(wide(X), y), "X has 7 features, but PegasosSVC is expecting 6 features"),
        (lambda m, X, y: m.partial_fit(X, y + 1), r"classes that the machine does not know: \[2\]; it knows \[0, 1\]"),
        (lambda m, X, y: m.partial_fit(X, y, classes=[0, 1, 2]), r"classes must be those of the first call, \[0, 1\]"),
        (lambda m, X, y: m.set_params(average=False).partial_fit(X, y), "average must stay True from the first call"),
        (lambda m, X, y: m.partial_fit(huge(X), y), r"X reaches 1e\+300 in row 3, column 2, too large"),
        (lambda m, X, y: m.partial_fit(sp.csr_array(huge(X)), y), r"X reaches 1e\+300 in row 3, column 2, too large"),
        (
            lambda m, X, y: m.set_params(alpha=1e-9).partial_fit(huge(X) * 1e-158, y),
            r"X reaches 1e\+142 in column 2: with alpha=1e-09, .* Scale the columns",
        ),
        (lambda m, X, y: m.partial_fit(X, y, sample_weight=np.full(len(y), 1e200)), "Divide all weights by their mean"),
        (lambda m, X, y: m.partial_fit(X, y, sample_weight=-np.ones(len(y))), "sample_weight must hold finite numbers"),
        (lambda m, X, y: m.partial_fit(X, y, sample_weight=np.zeros(len(y))), "all weights are zero"),
        (lambda m, X, y: m.partial_fit(X[:-1], y), "inconsistent numbers of samples"),
        (lambda m, X, y: m.partial_fit(np.where(X > 2, np.nan, X), y), "X must be finite"),
        (lambda m, X, y: m.partial_fit(X, np.where(y > 0, np.nan, 0.0)), "Input y contains NaN"),
        (lambda m, X, y: m.certify(wide(X), y), "X has 7 features"),
        (lambda m, X, y: m.certify(X, y + 1), "classes that the machine does not know"),
    ],
)
def test_bad_rows_leave_the_machine_as_it_was(call, expected):
    X, y, _ = some_rows(200)
    machine = PegasosSVC(0.01).partial_fit(X, y, classes=[0, 1])
    before = machine.coef_.copy(), machine.t_, machine.n_rows_seen_, machine.class_weight_.tolist()
    with pytest.raises(ValueError, match=expected):
        call(machine, X, y)
    np.testing.assert_array_equal(machine.coef_, before[0])
    assert before[1:] == (machine.t_, machine.n_rows_seen_, machine.class_weight_.tolist())
    machine.set_params(average=True).partial_fit(X, y)


def test_first_call_needs_the_classes():
    X, y, _ = some_rows(20)
    machine = PegasosSVC(0.1)
    with pytest.raises(ValueError, match="classes must name all classes at the first call of partial_fit"):
        machine.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"does not know: \[1\]; it knows \[0, 2\]"):
        machine.partial_fit(X, y, classes=[0, 2])
    assert not hasattr(machine, "coef_")
    assert machine.partial_fit(X, y, classes=[0, 1]).fit(X[:, :3], y).coef_.shape == (1, 3)
    with pytest.raises(ValueError, match="one class only"):
        PegasosSVC().fit(X, np.zeros(20))


def test_columns_of_any_scale_are_learnt_or_refused():
    X, y, _ = some_rows(100)
    scaled = PegasosSVC(0.1, random_state=0).fit(StandardScaler().fit_transform(X * 1e100), y)
    assert scaled.certificate_.status == "optimal"
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        large = PegasosSVC(0.1, random_state=0, max_iter=3).fit(X * 1e100, y)
        constant = PegasosSVC(0.1, random_state=0, max_iter=3).fit(np.ones((100, 3)), y)
        fewer = PegasosSVC(1.0, random_state=0, max_iter=1024).fit(X[:4].repeat(9, axis=1), [0, 1, 1, 0])
    assert np.isfinite(large.coef_).all()
    assert np.isfinite(large.certificate_.primal)
    assert np.isfinite(constant.coef_).all()
    assert fewer.certificate_.status == "optimal"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_dual_point_is_feasible_whatever_the_weights(scale):
    X, y, weights = some_rows(80)
    problem = LinearProblem(TableRows(X, y.astype(float), weights), Hinge(), 0.3, positive=1)
    signs = np.where(y == 1, 1.0, -1.0)
    w = scale * np.random.default_rng(5).normal(size=7)
    beta = np.asarray(dual_coefficients(problem, w))
    assert (signs * beta >= 0.0).all()
    assert (signs * beta <= 0.3 * weights).all()
    v = beta @ np.column_stack([X, np.ones(80)])
    assert np.abs(beta).sum() - 0.5 * v @ v >= 0.0


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.uint8, np.int64])
def test_tables_of_integers_are_learnt_exactly(dtype):
    X, y, _ = some_rows(100)
    X = (X > 0.5).astype(dtype)
    machines = [
        PegasosSVC(0.1).partial_fit(table, y, classes=[0, 1]) for table in (X, X.astype(float), sp.csr_array(X))
    ]
    for other in machines[1:]:
        np.testing.assert_allclose(other.coef_, machines[0].coef_, rtol=1e-12)
    assert machines[0].certify(X, y).primal == pytest.approx(machines[1].certify(X.astype(float), y).primal)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_model_file_holds_the_machine_of_fit(tmp_path, n_classes):
    X, y, weights = some_rows(100, n_classes=n_classes)
    machine = PegasosSVC(1.0, class_weight="balanced", random_state=0).fit(X, y, weights)
    save_model(tmp_path / "a.mercer", as_model(machine, X, y, weights))
    model = load_model(tmp_path / "a.mercer")
    table = pd.DataFrame({**{str(column): X[:, column] for column in range(6)}, "y": y})
    assert verify(model, table).ok
    assert model.predict(table).tolist() == machine.predict(X).tolist()
    with pytest.raises(ValueError, match="learnt a stream by partial_fit, lacks them"):
        as_model(machine.partial_fit(X, y), X, y)


def test_partial_fit_says_how_many_rows_it_learnt_in_the_time(monkeypatch):
    monkeypatch.setattr(epochs, "_CHUNK", 1)  # a look at the clock after each row
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 3)), [0, 1, 0, 1, 1]
    machine = PegasosSVC(max_seconds=0.0, class_weight="balanced")
    with pytest.warns(ConvergenceWarning, match="learnt from 0 of 5 rows"):
        machine.partial_fit(X, y, classes=[0, 1])
    assert (machine.n_rows_seen_, machine.t_) == (0, 0.0)
    unlimited = PegasosSVC(max_seconds=60.0).partial_fit(X, y, classes=[0, 1])
    monkeypatch.undo()
    np.testing.assert_array_equal(unlimited.coef_, PegasosSVC().partial_fit(X, y, classes=[0, 1]).coef_)


def test_ctrl_c_in_partial_fit_leaves_a_machine_of_the_first_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 3)), np.arange(9) % 2
    monkeypatch.setattr(epochs, "_CHUNK", 1)
    machine, learn = PegasosSVC(), Pegasos.learn

    def learn_and_press(self, *about, **options):
        if self.t == 3.0:
            os.kill(os.getpid(), signal.SIGINT)
        return learn(self, *about, **options)

    monkeypatch.setattr(Pegasos, "learn", learn_and_press)
    with pytest.raises(KeyboardInterrupt, match="learnt from 4 of 9 rows, up to row 3"):
        machine.partial_fit(X, y, classes=[0, 1])
    assert machine.n_rows_seen_ == machine.progressive_loss_.n_rows == 4
    monkeypatch.undo()
    np.testing.assert_array_equal(machine.coef_, PegasosSVC().partial_fit(X[:4], y[:4], classes=[0, 1]).coef_)
    machine.partial_fit(X[4:], y[4:])
    np.testing.assert_array_equal(machine.coef_, PegasosSVC().partial_fit(X, y, classes=[0, 1]).coef_)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_columns_of_uneven_sizes_are_named_in_the_warning(convert):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) * [1.0, 1e6, 1.0]
    with pytest.warns(ConvergenceWarning, match=r"Scale the columns.*from (0|1)\.\d+ to \d\.?\d*e\+0[56]"):
        PegasosSVC(max_iter=2, random_state=0).fit(convert(X), X[:, 0] > 0)
