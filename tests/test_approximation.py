"""Approximate machines: landmarks, and their proved distance to the exact machine."""

import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import RBF, SVC, SVR, KernelSearchCV, Landmarks, OneClassSVM, Spectrum, fit_model, gram_matrix
from mercer.approximate import WAYS, way_of
from mercer.approximate.landmarks import improved
from mercer.data import as_data
from mercer.gram.rows import MappedRows, MappedTable
from mercer.solvers import Control, Interruption, Limits, loop
from mercer.solvers.loop import ProgressMonitor
from mercer.solvers.progress import fit_progress
from mercer.studies.models import load_model, save_model, verify
from mercer.studies.report.certificates import certainty


def rings(n=300, seed=0):
    """Rows of two overlapping classes, and a smooth target."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    f = np.hypot(X[:, 0], X[:, 1]) - 1.2 + 0.3 * random.normal(size=n)
    return X, f > 0.0, f


CLASSIFIERS = {
    "hinge": {},
    "squared hinge": {"loss": "squared_hinge"},
    "without a bias": {"fit_intercept": False},
    "class weights": {"class_weight": {False: 3.0}},
    "large C": {"C": 300.0},
    "large gamma": {"gamma": 5.0},
    "polynomial": {"kernel": "poly", "coef0": 1.0},
}


@pytest.mark.parametrize("case", CLASSIFIERS)
@pytest.mark.parametrize("n_landmarks", [3, 30, 200])
def test_the_bound_is_never_below_the_true_distance_to_the_exact_machine(case, n_landmarks):
    X, y, _ = rings()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    exact = SVC(**CLASSIFIERS[case], tol=1e-8, tol_gap=1e-9).fit(X, y, weights)
    machine = SVC(**CLASSIFIERS[case], approximation=Landmarks(n_landmarks)).fit(X, y, weights)
    certificate, optimum = machine.certificate_, exact.certificate_.primal
    truth = (certificate.exact_primal - optimum) / certificate.exact_primal
    assert certificate.exact_dual <= optimum
    assert certificate.distance_to_exact >= truth
    assert truth > 0.1 or certificate.distance_to_exact < 1.3 * truth + 2e-3
    # The objective is that of the function that predicts.
    f, signs = machine.decision_function(X), np.where(y, 1.0, -1.0)
    lost = np.maximum(0.0, 1.0 - signs * f) ** (2 if machine.loss == "squared_hinge" else 1)
    costs = machine.C * weights * machine.class_weight_[y.astype(int)]
    assert 0.5 * machine.function_.norm**2 + costs @ lost == pytest.approx(certificate.exact_primal, rel=1e-9)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("n_landmarks", [3, 100])
def test_the_bound_of_a_regression_is_never_below_the_truth(loss, epsilon, n_landmarks):
    X, _, f = rings()
    exact = SVR(epsilon=epsilon, loss=loss, tol=1e-8, tol_gap=1e-9).fit(X, f)
    machine = SVR(epsilon=epsilon, loss=loss, approximation=Landmarks(n_landmarks)).fit(X, f)
    certificate, optimum = machine.certificate_, exact.certificate_.primal
    truth = (certificate.exact_primal - optimum) / certificate.exact_primal
    assert certificate.exact_dual <= optimum
    assert certificate.distance_to_exact >= truth
    assert truth > 0.1 or certificate.distance_to_exact < 1.3 * truth + 2e-3


@pytest.mark.parametrize("nu", [0.05, 0.5, 0.9])
def test_the_bound_of_a_one_class_machine_is_never_below_the_truth(nu):
    X, weights = rings()[0], np.random.default_rng(1).uniform(0.5, 2.0, 300)
    optimum = OneClassSVM(nu=nu, tol=1e-8, tol_gap=1e-9).fit(X, None, weights).certificate_.primal
    for n_landmarks in (3, 100):
        machine = OneClassSVM(nu=nu, approximation=Landmarks(n_landmarks)).fit(X, None, weights)
        certificate = machine.certificate_
        assert str(certificate.status) == "optimal"
        assert certificate.exact_dual <= optimum <= certificate.exact_primal
        truth = (certificate.exact_primal - optimum) / -certificate.exact_dual
        assert truth > 0.1 or certificate.distance_to_exact < 1.3 * truth + 2e-3
        outside = weights[machine.predict(X) < 0].sum() / weights.sum()
        assert nu - 0.02 < outside <= nu


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.eye(5), np.ones((3, 1)), 1e-12 * np.eye(4)])
@pytest.mark.parametrize("nu", [0.3, 1.0])
def test_a_one_class_machine_of_few_or_empty_rows_is_optimal(X, nu):
    machine = OneClassSVM(kernel="linear", nu=nu, approximation=Landmarks(8)).fit(X)
    optimum = OneClassSVM(kernel="linear", nu=nu, tol=1e-12).fit(X).certificate_.primal
    assert str(machine.certificate_.status) == "optimal"
    assert machine.certificate_.exact_dual <= optimum <= machine.certificate_.exact_primal
    assert machine.certificate_.exact_primal == pytest.approx(optimum, rel=2e-3, abs=1e-12)


@pytest.mark.parametrize("scale", [1e25, 1e-25, 1e-45])
@pytest.mark.parametrize("machine", [SVC(C=1.0), SVR(loss="squared_epsilon_insensitive"), OneClassSVM()])
def test_kernel_values_beyond_single_precision_are_refused(machine, scale):
    X = scale * np.random.default_rng(0).normal(size=(6, 2))
    machine = clone(machine).set_params(kernel="linear", approximation=Landmarks(3))
    with pytest.raises(ValueError, match=r"too large or too small for landmarks.*scale the columns"):
        machine.fit(X, *([] if isinstance(machine, OneClassSVM) else [[0, 1] * 3]))


def test_the_offset_of_an_approximate_machine_has_the_contamination_that_is_asked_for():
    X = rings()[0]
    machine = OneClassSVM(contamination=0.1, approximation=Landmarks(50)).fit(X)
    assert np.count_nonzero(machine.predict(X) < 0) == 30
    assert np.array_equal(machine.score_samples(X) < machine.offset_, machine.predict(X) < 0)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_machines_of_several_classes_share_the_landmarks(scheme):
    X, _, f = rings()
    y = np.array(["a", "b", "c"])[np.digitize(f, [-0.4, 0.4])]
    exact = SVC(multi_class=scheme, tol_gap=1e-9).fit(X, y)
    machine = SVC(multi_class=scheme, approximation=Landmarks(150), probability=True).fit(X, y)
    certificate = machine.certificate_
    assert machine.dual_coef_.shape == (3, machine.support_.size)
    assert np.array_equal(machine.support_vectors_, X[machine.support_])
    assert len(certificate.parts) == 3
    assert certificate.exact_dual <= exact.certificate_.primal <= certificate.exact_primal
    assert certificate.distance_to_exact < 0.05
    assert np.mean(machine.predict(X) == exact.predict(X)) > 0.97
    assert np.array_equal(machine.classes_[machine.predict_proba(X).argmax(axis=1)], machine.predict(X))


def test_landmarks_are_doubled_until_the_distance_is_proved(monkeypatch):
    X, y, _ = rings(600)
    machine = SVC(approximation=Landmarks(distance=0.05)).fit(X, y)
    assert machine.certificate_.distance_to_exact <= 0.05
    assert machine.support_.size < 600
    with pytest.warns(ConvergenceWarning, match=r"distance of 1e-09 .* is not reached: with 10 landmarks"):
        few = SVC(approximation=Landmarks(10, distance=1e-9)).fit(X, y)
    assert few.support_.size == 10
    assert "is not reached" in few.approximation_.reason
    monkeypatch.setattr("mercer.approximate.expansion_evidence.PROVED_VALUES", 1.0)
    with pytest.warns(ConvergenceWarning, match=r"with 10 landmarks it is estimated at 0\.\d+\. Raise"):
        SVC(approximation=Landmarks(10, distance=1e-9)).fit(X, y)


def test_the_reason_says_why_there_are_fewer_landmarks_than_were_asked_for():
    X, y, _ = rings(60)
    several = SVC(approximation="landmarks").fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert "1,000 landmarks were asked for, but no other row adds" in several.approximation_.reason
    linear = SVC(kernel="linear", approximation=Landmarks(2)).fit(X, y)
    assert "asked for" not in linear.approximation_.reason


def test_more_landmarks_than_rows_and_duplicate_rows_are_no_error():
    X, y, _ = rings(60)
    exact = SVC(tol_gap=1e-9).fit(X, y)
    machine = SVC(approximation="landmarks").fit(X, y)
    assert machine.support_.size <= 60
    assert machine.certificate_.exact_primal == pytest.approx(exact.certificate_.primal, rel=2e-3)
    several = SVC(approximation="landmarks").fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert several.support_.size <= 60
    assert several.certificate_.distance_to_exact < 0.01


def test_landmarks_work_on_any_rows_and_any_positive_semidefinite_kernel():
    X, y, _ = rings(80)
    random = np.random.default_rng(0)
    strings = ["".join(random.choice(list("AC"), 12)) for _ in range(60)]
    has_pair = np.array(["AA" in one[:4] for one in strings])
    assert SVC(kernel=Spectrum(2), approximation=Landmarks(30)).fit(strings, has_pair).score(strings, has_pair) > 0.6
    K = gram_matrix(RBF(gamma=0.5), X)
    given = SVC(kernel="precomputed", approximation=Landmarks(20), probability=True).fit(K, y)
    machine = SVC(gamma=0.5, approximation=Landmarks(20)).fit(X, y)
    assert np.allclose(given.decision_function(K), machine.decision_function(X), atol=1e-3)
    assert given.predict_proba(K).shape == (80, 2)
    for kernel, rows in (("linear", np.zeros((80, 2))), (RBF(gamma=1.0), np.ones((80, 2)))):
        same = SVC(kernel=kernel, approximation=Landmarks(20)).fit(rows, y)
        assert same.support_.size == 1
        assert same.certificate_.distance_to_exact < 1e-9
    with pytest.raises(ValueError, match=r"row 3, column 1 is nan"):
        SVC(approximation="landmarks").fit(np.where(np.arange(240).reshape(80, 3) == 10, np.nan, X), y)


def test_a_machine_is_cloned_pickled_and_refitted():
    X, y, _ = rings()
    machine = SVC(approximation=Landmarks(20)).fit(X, y)
    assert clone(machine).approximation == Landmarks(20)
    other = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(other.decision_function(X), machine.decision_function(X))
    assert other.certificate_.distance_to_exact == machine.certificate_.distance_to_exact
    assert "proved" not in machine.certificate_.distance_in_words
    assert not hasattr(machine, "solution_")
    machine.set_params(approximation=None).fit(X, y)
    assert not hasattr(machine, "approximation_")
    assert machine.certificate_.relative_gap < 0.01


@pytest.mark.parametrize("weights", [None, "uneven"])
def test_penalties_continue_the_second_derivatives_of_the_last_one(weights):
    X, y, f = rings()
    weights = None if weights is None else np.random.default_rng(1).uniform(0.5, 2.0, 300)
    for machine, targets in ((SVC(loss="squared_hinge"), y), (SVR(loss="squared_epsilon_insensitive"), f)):
        machine.set_params(approximation=Landmarks(40), tol_gap=1e-8)
        shared = {}
        for C in (0.01, 1.0, 1.0, 100.0, 3.0):
            machine._shared = shared
            objective = machine.set_params(C=C).fit(X, targets, weights).certificate_.primal
            machine._shared = None
            assert objective == pytest.approx(machine.fit(X, targets, weights).certificate_.primal, rel=1e-7)
        rows = shared[40, "rows"]
        assert rows.curvature is not None
        machine._shared = shared
        machine.fit(X, targets, np.linspace(0.1, 2.0, 300))  # other weights: nothing is continued
        assert shared[40, "rows"] is not rows


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_a_search_shares_features_between_penalties_and_finds_what_separate_fits_find(in_pipeline):
    X, y, _ = rings(400)
    machine = SVC(approximation=Landmarks(40), tol_gap=1e-6)
    machine = make_pipeline(StandardScaler(), machine) if in_pipeline else machine
    search = KernelSearchCV(machine, C=[0.1, 1.0, 10.0], gamma=[0.2, 1.0], cv=3).fit(X, y)
    path = "svc__" if in_pipeline else ""
    grid = {f"{path}C": [0.1, 1.0, 10.0], f"{path}gamma": [0.2, 1.0]}
    alone = GridSearchCV(machine, grid, cv=StratifiedKFold(3)).fit(X, y)
    assert np.allclose(np.sort(search.cv_results_["mean_test_score"]), np.sort(alone.cv_results_["mean_test_score"]))
    assert "share the features" in search.reason_
    last = search.best_estimator_[-1] if in_pipeline else search.best_estimator_
    assert last._shared is None
    assert last.memory_limit is None
    both = KernelSearchCV(SVC(), param_grid={"approximation": [None, Landmarks(40)], "C": [1.0]}, cv=3).fit(X, y)
    assert set(both.cv_results_["status"]) == {"optimal"}


def test_the_certificate_is_verified_by_numpy_and_an_estimate_is_proved_on_demand(monkeypatch, tmp_path):
    X, y, f = rings()
    for machine in (SVC(approximation=Landmarks(30)), SVR(approximation=Landmarks(30))):
        certificate = machine.fit(X, y if isinstance(machine, SVC) else f).certificate_
        again = certificate.verify()
        assert again.exact_primal == pytest.approx(certificate.exact_primal, rel=1e-12)
        assert again.exact_dual == pytest.approx(certificate.exact_dual, rel=1e-12)
        with pytest.raises(TypeError, match="approximate"):
            certificate.examples()
        with pytest.raises(ValueError, match="pickled"):
            pickle.loads(pickle.dumps(certificate)).verify()
    proved = SVC(approximation=Landmarks(30)).fit(X, y).certificate_
    monkeypatch.setattr("mercer.approximate.expansion_evidence.PROVED_VALUES", 0.0)
    estimated = SVC(approximation=Landmarks(30)).fit(X, y).certificate_
    assert np.isinf(estimated.distance_to_exact)
    assert estimated.estimated_distance == pytest.approx(proved.distance_to_exact, rel=0.6)
    assert "not proved" in str(estimated)
    assert "at most" not in estimated.distance_in_words
    labels = np.where(y, "in", "out")
    model = fit_model({"a": X[:, 0], "b": X[:, 1], "y": labels}, "y", SVC(approximation=Landmarks(30)))
    save_model(tmp_path / "m.mercer", model)
    assert load_model(tmp_path / "m.mercer").certificate.estimated_dual == model.certificate.estimated_dual
    assert estimated.prove().distance_to_exact == pytest.approx(proved.distance_to_exact, rel=1e-12)


def test_no_sentence_calls_an_approximate_machine_the_optimum():
    X, y, _ = rings()
    table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "kind": np.where(y, "out", "in")}
    model = fit_model(table, "kind", SVC(approximation=Landmarks(5)))
    distance = 100.0 * model.certificate.distance_to_exact
    assert distance > 20.0
    sentence = certainty(model)
    assert f"lower its training objective by more than {distance:.3g} percent" in sentence
    assert "certified optimal" not in sentence
    assert "own, smaller problem" in model.certificate.gap_in_words
    assert verify(model, table).findings == ()


def test_what_needs_an_exact_machine_is_refused_with_a_remedy():
    X, y, _ = rings()
    machine = SVC(approximation="landmarks").fit(X, y)
    for work in (lambda: machine.forget([0]), lambda: machine.partial_fit(X, y)):
        with pytest.raises(ValueError, match="Set approximation=None"):
            work()
    for name, params, message in (
        ("an unknown way", {"approximation": "pointers"}, r"must be None \(exact\), 'landmarks'"),
        ("a joint machine", {"multi_class": "joint"}, "joint machine cannot be approximated"),
        ("the hard margin", {"C": np.inf}, "finite C"),
        ("an indefinite kernel", {"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0}, "positive semidefinite"),
        ("a warm start", {"warm_start": True}, "warm_start=False"),
        ("leave-one-out", {"probability": True, "calibration_values": "leave_one_out"}, '"folds"'),
    ):
        with pytest.raises(ValueError, match=message):
            SVC(**{"approximation": "landmarks", **params}).fit(X, y), name
    with pytest.raises(ValueError, match="one class only"):
        SVC(approximation="landmarks").fit(X, np.ones(len(X)))
    for bad in ({"n_landmarks": 0}, {"distance": 0.0}, {"n_landmarks": 1.5}, {"random_state": -1}):
        with pytest.raises(ValueError, match="must be"):
            Landmarks(**bad)
    assert way_of(None) is None
    assert all(way_of(name) == WAYS[name]() for name in WAYS)


@pytest.mark.parametrize("grace", [1e9, -1e9])
def test_a_time_limit_gives_a_machine_with_a_true_certificate(grace, monkeypatch):
    monkeypatch.setattr("mercer.approximate.landmarks._GRACE", grace)
    X, y, _ = rings(3000)
    with pytest.warns(UserWarning, match="time_limit|time limit"):
        machine = SVC(approximation=Landmarks(500), max_seconds=0.0).fit(X, y)
    certificate = machine.certificate_
    if grace < 0.0:
        assert certificate.distance_in_words == "not known"
        certificate = certificate.prove()
    assert certificate.exact_primal > certificate.exact_dual >= 0.0
    assert 0.0 < certificate.distance_to_exact <= 1.0 + 1e-9


def test_steps_that_improve_the_bound_leave_the_time_that_is_reserved():
    X, y, _ = rings(300)
    machine = SVC(approximation=Landmarks(40)).fit(X, y)
    evidence = machine.certificate_.evidence
    gram = evidence.task.gram()
    machines, duals = list(evidence.task.machines(gram)), [0.5 * dual for dual in evidence.duals]
    monitor = ProgressMonitor(Control(Limits(max_seconds=1e6)))
    (longer,) = improved(machines, gram, duals, monitor, 1e-9, 10.0)
    assert longer is not duals[0]
    assert improved(machines, gram, duals, monitor, 1e-9, 1e6)[0] is duals[0]
    assert improved(machines, gram, duals, monitor, 1e3)[0] is duals[0]  # their own evaluation would take too long


def test_the_draw_and_the_features_are_reported_while_they_take_long(monkeypatch):
    monkeypatch.setattr(loop, "_REPORTED_SECONDS", 0.0)
    reported = []
    X, y, _ = rings(300)
    SVC(approximation=Landmarks(40), callback=reported.append).fit(X, y)
    stages = [one.stage for one in reported]
    assert stages.index("draw of 40 landmarks") < stages.index("features of all rows") < stages.index("proximal-newton")
    assert fit_progress("fit", reported[0]).note == "draw of 40 landmarks"
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        SVC(approximation=Landmarks(40), callback=lambda _: True).fit(X, y)


def test_a_fit_that_is_interrupted_before_its_features_says_so():
    X, y, _ = rings(300)
    task = SVC(approximation=Landmarks(40)).fit(X, y).certificate_.evidence.task
    interruption = Interruption()
    interruption.request()
    machine = Landmarks(40).train(task, Control(Limits(), interruption=interruption))
    assert machine.certificate.status == "interrupted"
    assert "interrupted before their features" in machine.reason


@pytest.mark.parametrize(
    "machine",
    [
        SVC(loss="squared_hinge"),
        SVC(multi_class="ovo"),
        SVC(multi_class="ovr", fit_intercept=False),
        SVR(loss="squared_epsilon_insensitive"),
        OneClassSVM(nu=0.3),
    ],
)
def test_features_that_exceed_the_memory_limit_are_in_a_file(machine, monkeypatch):
    monkeypatch.setattr(MappedTable, "height", 81)
    X, y, f = rings()
    targets = f if isinstance(machine, SVR) else y
    if isinstance(machine, SVC) and machine.loss == "hinge":
        targets = np.array(["a", "b", "c"])[np.digitize(f, [-0.4, 0.4])]
    one, other = (
        clone(machine)
        .set_params(approximation=Landmarks(50), memory_limit=limit, tol_gap=1e-6)
        .fit(X, *([] if isinstance(machine, OneClassSVM) else [targets]))
        for limit in (None, 0)
    )
    assert np.allclose(*(each.approximation_.values(as_data(X)) for each in (one, other)), atol=2e-3)
    assert other.certificate_.primal == pytest.approx(one.certificate_.primal, rel=3e-6)
    assert other.certificate_.exact_dual == pytest.approx(one.certificate_.exact_dual, rel=1e-3)
    assert other.certificate_.distance_to_exact < 1.1 * one.certificate_.distance_to_exact + 1e-3


def test_a_search_goes_on_from_second_derivatives_of_features_in_a_file():
    X, y, _ = rings()
    machine = SVC(loss="squared_hinge", approximation=Landmarks(40), tol_gap=1e-8, memory_limit=0)
    shared = {}
    for C in (0.01, 1.0, 100.0):
        machine._shared = shared
        objective = machine.set_params(C=C).fit(X, y).certificate_.primal
        machine._shared = None
        assert objective == pytest.approx(machine.set_params(memory_limit=None).fit(X, y).certificate_.primal, rel=1e-7)
        machine.set_params(memory_limit=0)
    assert isinstance(shared[40, "rows"], MappedRows)
    assert shared[40, "rows"].curvature is not None


def test_a_full_disk_says_what_features_need():
    with pytest.raises(OSError, match=r"features of 1,000,000,000 rows .* take 4,000,000,000,000,000 bytes"):
        MappedTable(10**9, 10**6)


def test_percentages_are_shares_of_the_objective_also_where_it_is_negative():
    X, _, _ = rings(300)
    optimum = OneClassSVM(tol_gap=1e-9).fit(X).certificate_.dual
    certificate = OneClassSVM(approximation=Landmarks(8)).fit(X).certificate_
    truth = (certificate.exact_primal - optimum) / abs(certificate.exact_primal)
    assert optimum < certificate.exact_primal < 0.0
    percent = float(re.search(r"by at most (\S+) % of its value", certificate.distance_in_words)[1])
    assert percent >= 99.0 * truth
    assert percent > 104.0 * certificate.distance_to_exact


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.filterwarnings("ignore")
def test_bounds_count_the_rounding_of_targets_far_from_0(loss):
    random = np.random.default_rng(0)
    for C in (1e-5, 1e-3, 1e-3, 0.1):
        X = np.sort(random.normal(size=(40, 1)), axis=0)
        y = 1e9 + np.sin(X[:, 0]) + 0.1 * random.normal(size=40)
        about = {"gamma": 1.0, "C": C, "epsilon": 0.01, "loss": loss}
        machine = SVR(approximation=Landmarks(15), **about).fit(X, y)
        K = np.exp(-((X.astype(np.longdouble) - X.T) ** 2))
        primals = []
        for one in (SVR(**about).fit(X, y), machine):
            beta = np.zeros(40, dtype=np.longdouble)
            beta[one.support_] = one.dual_coef_.ravel()
            beyond = np.maximum(0.0, np.abs(y - K @ beta - one.intercept_[0]) - 0.01)
            charges = beyond if loss == "epsilon_insensitive" else beyond**2
            primals.append(0.5 * beta @ (K @ beta) + C * charges.sum())
        assert machine.certificate_.exact_primal >= primals[1]
        assert machine.certificate_.exact_dual <= primals[0]


@pytest.mark.filterwarnings("ignore")
def test_a_bound_is_never_below_the_objective_of_the_dual_point_0():
    X, y = [[0.0], [0.0], [1.0]], [0.0, 1e-6, -1e-6]
    for C in (1e8, 1e12):
        certificate = SVR(gamma=0.1, epsilon=1e-8, C=C, approximation=Landmarks(3)).fit(X, y).certificate_
        assert certificate.exact_dual >= 0.0
        assert certificate.distance_to_exact <= 1.0
