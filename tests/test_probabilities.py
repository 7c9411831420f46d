"""Probabilities of support vector classifiers."""

import inspect
import pickle
import signal
from functools import cache
from itertools import product
from threading import Timer

import numpy as np
import pytest
import sklearn.svm
from scipy.sparse import csr_array
from sklearn.base import ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import LinearSVC

from mercer import (
    RBF,
    SVC,
    GradientKernelSVC,
    IndefiniteKernelWarning,
    KernelPerceptron,
    KernelSearchCV,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    NuSVC,
    ParzenClassifier,
    RBFNetworkClassifier,
    Spectrum,
    estimators,
    leave_one_out,
    tune_threshold,
)
from mercer.data import as_data
from mercer.gram import Gram
from mercer.multiclass.calibration import CALIBRATIONS, calibrate
from mercer.multiclass.cross_fitting import fold_numbers
from mercer.multiclass.training import make_tasks
from mercer.solvers.paths.loo_joint import joint_left_out
from mercer.solvers.paths.loo_values import LooPass
from pairs import every_pair


@cache
def table(name):
    X, y = {"two": load_breast_cancer, "three": load_wine}[name](return_X_y=True)
    rows = np.random.default_rng(0).permutation(y.size)
    return scale(X)[rows], np.array(["c", "a", "b"])[y[rows]]


MACHINES = {
    "default": {},
    "isotonic": {"calibration": "isotonic"},
    "balanced": {"class_weight": "balanced", "calibration": "weighted"},
    "balanced, isotonic": {"class_weight": "balanced", "calibration": "weighted_isotonic"},
    "ovr": {"multi_class": "ovr"},
    "linear": {"kernel": "linear", "C": 0.1},
    "hard margin": {"C": np.inf},
    "squared hinge": {"loss": "squared_hinge"},
    "no bias": {"fit_intercept": False},
}


@every_pair(options=MACHINES.values(), name=["two", "three"], weighted=[False, True])
def test_the_predicted_class_is_the_most_probable(name, options, weighted):
    X, y = table(name)
    w = np.random.default_rng(1).choice([0.0, 1.0, 2.0], y.size) if weighted else None
    half = y.size // 2
    machine = SVC(probability=True, **options).fit(X[:half], y[:half], None if w is None else w[:half])
    p = machine.predict_proba(X)
    assert p.shape == (y.size, machine.classes_.size)
    np.testing.assert_array_equal(machine.classes_[p.argmax(axis=1)], machine.predict(X))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_array_equal(machine.predict_log_proba(X), np.log(p))
    assert log_loss(y[half:], p[half:]) < 0.35
    assert machine.calibration_.violation <= 1e-11


def brute_force(machine, X, y, w):
    """Decision values of the two-class machines, each refitted without the row."""
    n = y.size
    codes = np.searchsorted(machine.classes_, y)
    full = clone(machine).set_params(decision_function_shape=machine.multi_class, probability=False, tol=1e-10)
    full.set_params(kernel=machine.kernel_)
    values = []
    for i in range(n):
        others = np.delete(np.arange(n), i)
        balanced = dict(zip(machine.classes_, machine.class_weight_, strict=True))
        without = clone(full).set_params(class_weight=balanced).fit(X[others], y[others], w[others])
        values.append(np.atleast_1d(without.decision_function(X[i : i + 1])[0]))
    return np.array(values), codes


@pytest.mark.parametrize(
    ("n_classes", "options"),
    [
        (2, {}),
        (2, {"class_weight": "balanced", "calibration": "isotonic"}),
        (2, {"class_weight": "balanced", "calibration": "weighted_isotonic"}),
        (2, {"calibration": "free_isotonic"}),
        (3, {}),
        (3, {"multi_class": "ovr", "class_weight": "balanced", "calibration": "weighted"}),
        (3, {"multi_class": "ovr", "class_weight": "balanced"}),
    ],
)
def test_leave_one_out_values_are_those_of_refits(n_classes, options):
    X, y = load_iris(return_X_y=True)
    chosen = np.arange(0, 150, 4)
    X, y = X[chosen, :2], np.minimum(y[chosen], n_classes - 1)
    w = np.random.default_rng(0).choice([1.0, 2.0], y.size)
    machine = SVC(probability=True, **options).fit(X, y, w)
    raw, codes = brute_force(machine, X, y, w)
    calibration = options.get("calibration", "sigmoid")
    weighted = calibration.startswith("weighted")
    expected = calibrate(
        raw,
        codes,
        n_classes,
        scheme=machine.multi_class,
        method="isotonic" if calibration.endswith("isotonic") else "sigmoid",
        free=calibration.startswith("free") or ("class_weight" in options and not weighted),
        weights=w,
        class_weight=machine.class_weight_ if weighted else None,
    )
    grid = np.linspace(-3, 3, 61)[:, None] * np.ones(raw.shape[1])
    np.testing.assert_allclose(machine.calibration_.probabilities(grid), expected.probabilities(grid), atol=1e-6)
    assert machine.calibration_.n_rows == tuple(
        task.rows.size for task in make_tasks(codes, n_classes, machine.multi_class)
    )


def test_nu_svc_is_calibrated_as_the_machine_that_it_is():
    X, y = load_iris(return_X_y=True)
    X, y = X[50:, :2], y[50:]
    machine = NuSVC(nu=0.7, probability=True, tol=1e-8).fit(X, y)
    same = SVC(C=1.0 / machine.machines_.margins[0], kernel=machine.kernel_, probability=True, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(machine.predict_proba(X), same.predict_proba(X), atol=1e-5)


@pytest.mark.filterwarnings("ignore:nu=")
def test_nu_svc_with_a_shifted_bias_is_calibrated_as_it_predicts():
    X, y = table("two")
    heavy = {"c": 1.0, "a": 4.0}
    machine = NuSVC(nu=0.7, class_weight=heavy, probability=True, calibration="weighted", tol=1e-8)
    machine.fit(X[:200], y[:200])
    (t,), (rho,) = machine.machines_.leanings, machine.machines_.margins
    assert t != 0.0
    same = leave_one_out(SVC(C=1.0 / rho, class_weight=heavy, kernel=machine.kernel_, tol=1e-8), X[:200], y[:200])
    values = (1.0 - abs(t)) * same.raw + t
    expected = calibrate(values, (y[:200] == "c").astype(np.int64), 2, class_weight=machine.class_weight_)
    np.testing.assert_allclose(machine.calibration_.probabilities(values), expected.probabilities(values), atol=1e-4)
    p = machine.predict_proba(X)
    np.testing.assert_array_equal(machine.classes_[p.argmax(axis=1)], machine.predict(X))


def test_all_kinds_of_rows():
    X, y = table("three")
    X, y = X[:80], y[:80]
    expected = SVC(kernel=RBF(gamma=0.1), probability=True).fit(X, y)
    p = expected.predict_proba(X)
    sparse = SVC(kernel=RBF(gamma=0.1), probability=True).fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_proba(csr_array(X)), p, atol=1e-6)
    K = rbf_kernel(X, gamma=0.1)
    given = SVC(kernel="precomputed", probability=True).fit(K, y)
    np.testing.assert_allclose(given.predict_proba(K), p, atol=1e-6)
    texts = [letter * 3 + "xyz"[i % 3] for i in range(30) for letter in ("ab" if i % 5 else "ba")]
    labels = [text[0] if i % 7 else "b" for i, text in enumerate(texts)]
    machine = SVC(kernel=Spectrum(2), probability=True).fit(texts, labels)
    probabilities = machine.predict_proba(texts)
    np.testing.assert_array_equal(machine.classes_[probabilities.argmax(axis=1)], machine.predict(texts))


def test_calibration_is_deterministic():
    X, y = table("three")
    first = SVC(probability=True, random_state=0).fit(X, y)
    for change in ({"random_state": 1}, {"n_jobs": 1}, {"n_jobs": 2}):
        assert SVC(probability=True).set_params(**change).fit(X, y).calibration_ == first.calibration_
    for name in ("joint", "least squares", "perceptron", "density"):
        one, other = (asked_for(ALL[name]).fit(X[:60], y[:60]).calibration_ for _ in range(2))
        assert one == other
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))


CLASSIFIERS = {
    "svc": SVC(C=0.1),
    "nu": NuSVC(nu=0.1),
    "joint": SVC(C=0.1, multi_class="joint"),
    "least squares": LeastSquaresSVC(),
    "linear least squares": LeastSquaresClassifier(1.0),
    "density": ParzenClassifier(),
    "network": RBFNetworkClassifier(8, machine=LeastSquaresClassifier(1.0)),
}


def _rare(n, seed):
    """Two normal distributions, one a tenth as frequent."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) < n // 11
    return rng.standard_normal((n, 2)) + 1.2 * y[:, None], y


@pytest.mark.filterwarnings("ignore:nu=")
@pytest.mark.parametrize(
    ("name", "calibration"),
    [*product(["svc"], CALIBRATIONS), *product(list(CLASSIFIERS)[1:], ["sigmoid", "weighted_isotonic"])],
)
def test_class_weights_shift_weighted_probabilities_only(name, calibration):
    """Probabilities are those of the rows as they are; "weighted" ones are those of classes of equal frequency."""
    X, y = _rare(220 if name == "joint" else 660, 0)
    machine = clone(CLASSIFIERS[name]).set_params(class_weight="balanced")
    options = {"probability": True, "calibration": calibration}
    machine.set_params(
        **({f"machine__{key}": value for key, value in options.items()} if name == "network" else options)
    )
    mean = machine.fit(X, y).predict_proba(_rare(1100, 1)[0])[:, 1].mean()
    if calibration.startswith("weighted"):
        assert mean > 0.2
    else:
        assert mean == pytest.approx(1 / 11, abs=0.02)  # the true share
    calibration_ = machine.machine_.calibration_ if name == "network" else machine.calibration_
    assert calibration_.free == (not calibration.startswith("weighted"))


def test_equal_class_weights_change_no_probability():
    X, y = table("two")
    plain, even = (SVC(class_weight=weight, probability=True).fit(X, y) for weight in (None, {"a": 1.0, "c": 1.0}))
    assert plain.calibration_ == even.calibration_
    assert not even.calibration_.free


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_by_groups_are_those_of_folds_that_keep_groups_together(name):
    """Labels are coins, and each row has five copies: only a group's other rows say what its label is."""
    rng = np.random.default_rng(0)
    one, y = rng.standard_normal((60, 3)), np.arange(60) % 2
    X, y, groups = np.repeat(one, 5, axis=0), np.repeat(y, 5), np.repeat(rng.permutation(60).astype(str), 5)
    machine = clone(CLASSIFIERS[name])
    if name == "network":
        return  # its centres are those of all rows
    machine.set_params(probability=True, **({"C": 100.0} if "C" in machine.get_params() else {}))
    p = machine.fit(X, y, groups=groups).predict_proba(X)
    assert machine.calibration_values_ == "folds"
    assert "groups" in machine.calibration_reason_
    assert "each group of rows in one fold" in str(machine.calibration_)
    folds = machine.calibration_.folds
    assert all(np.ptp(folds[groups == group]) == 0 for group in set(groups))
    assert set(folds) == set(range(5))
    if name != "nu":  # its margin is held
        np.testing.assert_allclose(machine.cross_fitted_decision_, values_of_folds(machine, X, y, folds), atol=2e-3)
    assert log_loss(y, p) > 0.5  # near log 2, as for coins; by single rows, probabilities would be near 0 and 1
    with pytest.raises(ValueError, match=r"leave_one_out.* leaves out single rows"):
        machine.set_params(calibration_values="leave_one_out").fit(X, y, groups=groups)


def test_groups_of_probabilities_in_searches_and_pipelines_and_bad_ones():
    X, y = table("three")
    groups = np.arange(y.size) // 4
    machine = SVC(probability=True).fit(X, y, groups=groups)
    search = KernelSearchCV(machine, C=[1.0], cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert search.best_estimator_.calibration_ == machine.calibration_
    np.testing.assert_array_equal(search.best_estimator_.calibration_.folds, machine.calibration_.folds)
    within = KernelSearchCV(make_pipeline(StandardScaler(), SVC(probability=True)), C=[1.0], cv=GroupKFold(3))
    within.fit(X, y, groups=groups)
    np.testing.assert_array_equal(within.best_estimator_[-1].calibration_.folds, machine.calibration_.folds)
    assert machine.forget([]) is machine
    with pytest.raises(ValueError, match="calibrated on folds of groups"):
        machine.forget([0])
    with pytest.raises(ValueError, match="groups must hold one group for each of the 178 rows"):
        machine.fit(X, y, groups=groups[1:])
    with pytest.raises(ValueError, match="groups must name at least two groups"):
        machine.fit(X, y, groups=np.zeros(y.size))
    # Each class is in one group: the machines without it have never seen the class.
    alone = SVC(probability=True).fit(X, y, groups=y)
    assert np.isfinite(alone.predict_proba(X)).all()


def _calibration_error(probabilities, right, n_groups=10):
    """The mean difference between the largest probability and the share of correct rows, in groups of equal size."""
    order = np.argsort(probabilities, kind="stable")
    parts = np.array_split(order, n_groups)
    return sum(part.size * abs(probabilities[part].mean() - right[part].mean()) for part in parts) / order.size


TEST_SETS = {
    "breast cancer": (load_breast_cancer, 341),
    "breast cancer, large C": (load_breast_cancer, 341),
    "wine": (load_wine, 107),
    "iris": (load_iris, 90),
}


@pytest.mark.parametrize("name", TEST_SETS)
def test_probabilities_are_as_good_as_a_second_cross_validation(name):
    load, n_train = TEST_SETS[name]
    X, y = load(return_X_y=True)
    X, C = scale(X), 100.0 if name.endswith("large C") else 1.0
    losses, errors = {}, {}
    for train, test in StratifiedShuffleSplit(8, train_size=n_train, random_state=0).split(X, y):
        peer = CalibratedClassifierCV(sklearn.svm.SVC(C=C), ensemble=False)
        contenders = {
            "cv": peer,
            "free": SVC(C=C, probability=True, calibration="free"),
            "bound": SVC(C=C, probability=True),
        }
        for how, machine in contenders.items():
            probabilities = machine.fit(X[train], y[train]).predict_proba(X[test])
            losses.setdefault(how, []).append(log_loss(y[test], probabilities, labels=machine.classes_))
            most = machine.classes_[probabilities.argmax(axis=1)]
            errors.setdefault(how, []).append(_calibration_error(probabilities.max(axis=1), most == y[test]))
    for figures in (losses, errors):
        apart = {how: np.array(figures[how]) - figures["cv"] for how in ("free", "bound")}
        chance = 2.0 * apart["free"].std(ddof=1) / np.sqrt(8)
        assert apart["free"].mean() <= chance
        assert apart["bound"].mean() <= 0.01


@pytest.mark.parametrize("search", [GridSearchCV, KernelSearchCV])
def test_searches_score_them(search):
    X, y = table("three")
    X, y = X[:90], y[:90]
    if search is GridSearchCV:
        searched = GridSearchCV(SVC(probability=True), {"C": [0.01, 1.0]}, scoring="neg_log_loss", cv=3)
    else:
        searched = KernelSearchCV(SVC(probability=True), C=[0.01, 1.0], scoring="neg_log_loss", cv=3)
    searched.fit(X, y)
    assert searched.best_params_["C"] == 1.0
    assert searched.predict_proba(X).shape == (90, 3)


def test_a_threshold_is_tuned_on_the_same_values():
    X, y = table("two")
    values = leave_one_out(SVC(), X, y).decision
    tuned = tune_threshold(values, y == "c", recall=0.99)
    assert tuned.recall >= 0.99
    moved = SVC().fit(X, y).decision_function(X) > tuned.value
    assert np.mean(moved[y == "c"]) >= 0.99


def test_predict_proba_needs_probability():
    X, y = table("two")
    for probability in (False, "deprecated"):
        machine = SVC(probability=probability).fit(X[:50], y[:50])
        with pytest.raises(AttributeError):
            _ = machine.predict_proba
        assert not hasattr(machine, "calibration_")
    with pytest.raises(NotFittedError, match="this SVC has no probabilities: it was fitted with probability=False, or"):
        machine.set_params(probability=True).predict_proba(X)
    with pytest.raises(NotFittedError):
        SVC(probability=True).predict_proba(X)


@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"max_seconds": 0.0}])
def test_unfinished_fits_have_no_probabilities(limit):
    X, y = table("two")
    machine = SVC(probability=True).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"SVC ended as `(max_iter|time_limit)`"):
        machine.set_params(C=1e4, tol=1e-9, **limit).fit(X, y)
    assert machine.predict(X).shape == y.shape
    with pytest.raises(NotFittedError, match="or the fit was ended before it came to them"):
        machine.predict_proba(X)


def test_a_calibration_that_takes_too_long_is_skipped():
    X, y = table("two")
    machine = SVC(probability=True, tol=1e9, max_seconds=1e-6)  # with this tolerance, the fit itself ends at once
    with pytest.warns(
        ConvergenceWarning, match="SVC has no probabilities: the leave-one-out pass .* Raise max_seconds"
    ):
        machine.fit(X, y)
    with pytest.raises(NotFittedError, match="no probabilities"):
        machine.predict_proba(X)


@pytest.mark.parametrize("machine", [SVC, NuSVC])
def test_bad_parameters(machine):
    X, y = table("two")
    with pytest.raises(ValueError, match=r"calibration must be .*'free_isotonic'.* got 'platt'"):
        machine(probability=True, calibration="platt").fit(X, y)
    with pytest.raises(ValueError, match="probability must be True or False, got 'perhaps'"):
        machine(probability="perhaps").fit(X, y)
    with pytest.raises(ValueError, match=r"calibration_values must be .*'folds'.* got 'five'"):
        machine(probability=True, calibration_values="five").fit(X, y)
    with pytest.raises(ValueError, match=r"calibration_values=.leave_one_out. needs a kernel that is positive semi"):
        machine(probability=True, calibration_values="leave_one_out", kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, y)


ALL = {
    "joint": SVC(multi_class="joint"),
    "least squares": LeastSquaresSVC(),
    "least squares, balanced": LeastSquaresSVC(class_weight="balanced", calibration="weighted_isotonic"),
    "linear least squares": LeastSquaresClassifier(0.1),
    "perceptron": KernelPerceptron(kernel=RBF(0.05)),
    "perceptron, ovr": KernelPerceptron(50, form="primal", multi_class="ovr"),
    "perceptron, weighted": KernelPerceptron(
        50, kernel=RBF(0.05), multi_class="ovr", class_weight="balanced", calibration="weighted"
    ),
    "descent": GradientKernelSVC(),
    "descent, ovr": GradientKernelSVC(multi_class="ovr", class_weight="balanced", calibration="free"),
    "density": ParzenClassifier(),
    "network": RBFNetworkClassifier(10, machine=SVC(kernel="linear", probability=True)),
}
quiet = pytest.mark.filterwarnings("ignore:KernelPerceptron made mistakes")


def asked_for(machine):
    return clone(machine) if isinstance(machine, RBFNetworkClassifier) else clone(machine).set_params(probability=True)


@quiet
@pytest.mark.parametrize("machine", ALL.values(), ids=ALL)
@pytest.mark.parametrize("name", ["two", "three"])
def test_all_classifiers_have_probabilities(name, machine):
    X, y = table(name)
    machine = asked_for(machine).fit(X[:60], y[:60])
    p = machine.predict_proba(X)
    assert list(machine.classes_) == sorted(set(y))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_array_equal(machine.predict_log_proba(X), np.log(p))
    if getattr(machine, "calibration", "") != "free":
        np.testing.assert_array_equal(machine.classes_[p.argmax(axis=1)], machine.predict(X))
    assert log_loss(y[60:], p[60:]) < 0.6
    if not isinstance(machine, RBFNetworkClassifier):
        without = clone(machine).set_params(probability=False).fit(X[:60], y[:60])
        np.testing.assert_array_equal(without.decision_function(X), machine.decision_function(X))
        assert not hasattr(without, "predict_proba")


def test_any_estimator_with_decision_values_can_have_probabilities():
    n_kinds = 0
    for name in set(dir(estimators)) - {"LinearSVC", "PegasosSVC"}:  # without probabilities, as in scikit-learn
        kind = getattr(estimators, name)
        if isinstance(kind, type) and issubclass(kind, ClassifierMixin) and hasattr(kind, "decision_function"):
            assert "probability" in inspect.signature(kind).parameters or hasattr(kind(), "predict_proba"), name
            n_kinds += 1
    assert n_kinds >= 9


def without_row(machine, i, X, y, w):
    """Decision value of row i by the machine fitted to the other rows, with the same kernel and class weights."""
    others = np.delete(np.arange(y.size), i)
    fixed = {"probability": False}
    if hasattr(machine, "kernel_"):
        fixed["kernel"] = machine.kernel_
    if hasattr(machine, "class_weight_"):
        fixed["class_weight"] = dict(zip(machine.classes_, machine.class_weight_, strict=True))
    given = {} if w is None else {"sample_weight": w[others]}
    return clone(machine).set_params(**fixed).fit(X[others], y[others], **given).decision_function(X[i : i + 1])[0]


@quiet
@every_pair(name=[name for name in ALL if name != "network"], n_classes=[2, 3], weighted=[False, True])
def test_leave_one_out_values_of_all_classifiers_are_those_of_refits(n_classes, weighted, name):
    if weighted and "perceptron" in name:
        pytest.skip("has no weights")
    X, y = load_iris(return_X_y=True)
    chosen = np.arange(1, 150, 4)
    X, y = scale(X[chosen, :2]), np.minimum(y[chosen], n_classes - 1)
    w = np.random.default_rng(0).choice([0.0, 1.0, 2.0], y.size) if weighted else None
    tight = {"tol": 1e-9} if "tol" in ALL[name].get_params() else {}
    machine = asked_for(ALL[name]).set_params(**tight)
    machine.fit(X, y, **({} if w is None else {"sample_weight": w}))
    took_part = np.ones(y.size, dtype=bool) if w is None else w > 0.0
    some = np.flatnonzero(took_part)[::6]
    expected = np.array([without_row(machine, i, X, y, w) for i in some])
    atol = 1e-3 if "descent" in name else 1e-7
    np.testing.assert_allclose(machine.loo_decision_[some], expected, atol=atol)
    assert np.isnan(machine.loo_decision_[~took_part]).all()
    if n_classes == 2:
        tuned = tune_threshold(machine.loo_decision_, y == 1, w, recall=1.0)
        assert tuned.recall == 1.0


def test_the_perceptron_without_a_row_that_was_no_mistake_is_the_same():
    X, y = table("two")
    machine = KernelPerceptron(kernel=RBF(0.05), probability=True).fit(X[:150], y[:150])
    never = machine.alpha_[0] == 0.0
    assert 50 < np.count_nonzero(never) < 150
    np.testing.assert_allclose(machine.loo_decision_[never], machine.decision_function(X[:150])[never], rtol=1e-13)


def test_time_ends_the_pass_of_all():
    X, y = table("three")
    for machine in (SVC(multi_class="joint", tol=1e9), KernelPerceptron(kernel=RBF(0.1)), GradientKernelSVC(tol=1e9)):
        limited = clone(machine).set_params(probability=True, max_seconds=1e-9)
        with pytest.warns(ConvergenceWarning):
            limited.fit(X, y)
        with pytest.raises(NotFittedError, match="has no probabilities"):
            limited.predict_proba(X)


@pytest.mark.parametrize("scheme", ["ovo", "joint"])
def test_ctrl_c_ends_the_pass_wherever_it_comes(scheme):
    X, y = table("three")
    machine, run = SVC(multi_class=scheme, probability=True), pass_of(scheme, X[:120], y[:120])
    sent = False

    def left_out(check):
        def once():
            nonlocal sent
            if not sent:
                sent = True
                Timer(0.003, signal.raise_signal, [signal.SIGINT]).start()
            check()

        for _ in range(50):  # the signal may come after a pass has ended
            values = run(once)
            if np.isnan(values).any():
                break
        return values

    machine.calibration_values_ = "leave_one_out"
    with pytest.warns(ConvergenceWarning, match="SVC has no probabilities: .* was ended by max_seconds or Ctrl-C"):
        assert machine._left_out_in_time(left_out, None, 0.0) is None


def pass_of(scheme, X, y):
    machine = SVC(multi_class=scheme, C=100.0).fit(X, y)
    gram = Gram(machine.kernel_, as_data(X))
    solutions = list(machine.machines_.solutions)
    problems, starts = [one.evidence.problem for one in solutions], [one.beta for one in solutions]
    if scheme == "joint":
        return lambda check: joint_left_out(problems[0], starts[0], gram, check=check)
    rows = [task.rows for task in machine.machines_.tasks]
    return lambda check: LooPass(problems, starts, rows, gram, np.arange(120), check=check).run()[0]


def test_huge_weights_either_have_exact_values_or_are_reported():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = rng.standard_normal((60, 2))[30:] + y[:, None]
    for weight in (1e9, 1e11):
        machine = SVC(multi_class="joint", probability=True).fit(X, y, np.where(np.arange(30) < 3, weight, 1.0))
        np.testing.assert_array_equal(machine.predict_proba(X).argmax(axis=1), machine.predict(X))
    weights = np.where(np.arange(30) < 3, 1e11, 1.0)
    machine = SVC(probability=True, decision_function_shape="ovo", gamma=0.3)
    raw_values = leave_one_out(machine, X, y, sample_weight=weights).raw
    for row in (0, 1, 7, 20):
        rest = np.arange(30) != row
        without = clone(machine).set_params(tol=1e-12, probability=False).fit(X[rest], y[rest], weights[rest])
        np.testing.assert_allclose(raw_values[row], without.decision_function(X[[row]])[0], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:SVC ended as `stalled`")
def test_rounding_that_prevents_exact_values_is_reported():
    rng = np.random.default_rng(0)
    X = 1e6 * rng.normal(size=(30, 3))
    y = X[:, 0] + 1e6 * rng.normal(size=30) > 0
    with pytest.warns(ConvergenceWarning, match=r"probability=True: rounding leaves 30 of 30 values inexact"):
        SVC(C=1e6, kernel="linear", probability=True).fit(X, y)


def test_invalid_calibrations_are_refused():
    X, y = table("three")
    with pytest.raises(AttributeError) as raised:
        _ = RBFNetworkClassifier(machine=LinearSVC()).predict_proba
    assert "predict_proba is that of the linear machine, and LinearSVC() has no predict_proba" in str(
        raised.value.__cause__
    )
    for machine in (LeastSquaresSVC(), LeastSquaresClassifier(), KernelPerceptron(), GradientKernelSVC()):
        with pytest.raises(ValueError, match=r"calibration must be one of 'sigmoid', .* got 'platt'"):
            clone(machine).set_params(calibration="platt").fit(X, y)
        with pytest.raises(ValueError, match="probability must be True or False, got 'yes'"):
            clone(machine).set_params(probability="yes").fit(X, y)
    K = np.array([[-1.0, 0.0, 0.0], [0.0, -1.0, 5.0], [0.0, 5.0, 2.0]])
    with pytest.warns(IndefiniteKernelWarning), pytest.raises(ValueError, match=r"without row 2 .* is singular"):
        LeastSquaresSVC(kernel="precomputed", probability=True).fit(K, [0, 1, 1])


@pytest.mark.parametrize("machine", [SVC(), GradientKernelSVC()], ids=str)
def test_calibration_reports_progress(machine, capsys):
    X, y = load_breast_cancer(return_X_y=True)
    for verbose, is_reported in ((2, True), (0, False)):
        clone(machine).set_params(probability=True, verbose=verbose).fit(scale(X)[:40], y[:40])
        assert ("s  leave-one-out pass for the probabilities" in capsys.readouterr().err) == is_reported


def values_of_folds(machine, X, y, folds):
    """Decision values of machines fitted without each fold, with the same kernel and class weights."""
    fixed = {"kernel": machine.kernel_} if hasattr(machine, "kernel_") else {}
    if hasattr(machine, "class_weight_"):
        fixed["class_weight"] = dict(zip(machine.classes_, machine.class_weight_, strict=True))
    values = np.empty((y.size, *machine.decision_function(X[:1]).shape[1:]))
    for number in range(5):
        remaining, out = folds != number, folds == number
        without = clone(machine).set_params(probability=False, **fixed).fit(X[remaining], y[remaining])
        values[out] = without.decision_function(X[out])
    return values


@quiet
@pytest.mark.parametrize(
    "machine", [SVC(), SVC(multi_class="ovr", class_weight="balanced"), *ALL.values()], ids=["ovo", "ovr", *ALL]
)
def test_values_by_folds_are_those_of_refits_without_them(machine):
    if isinstance(machine, RBFNetworkClassifier):
        machine = machine.machine
    X, y = table("three")
    X, y = X[:70], y[:70]
    machine = clone(machine).set_params(calibration_values="folds", probability=True)
    if "tol" in machine.get_params():
        machine.set_params(tol=1e-7)
    machine.fit(X, y)
    codes = np.searchsorted(machine.classes_, y)
    expected = values_of_folds(machine, X, y, fold_numbers(codes, machine.classes_.size))
    np.testing.assert_allclose(
        machine.cross_fitted_decision_, expected, atol=2e-3 if "tol" not in vars(machine) else 1e-4
    )
    assert machine.calibration_values_ == "folds"
    assert machine.calibration_.fitted_on == "cross-fitted decision values"
    assert "loo_decision_" not in vars(machine) or isinstance(machine, LeastSquaresClassifier)


def test_folds_are_even_and_every_row_of_a_small_class_has_its_own():
    codes = np.repeat([0, 1, 2, 3, 4], [52, 1, 3, 5, 12])
    folds = fold_numbers(codes, 5)
    for number, size in enumerate(np.bincount(codes)):
        in_each = np.bincount(folds[codes == number], minlength=5)
        assert np.count_nonzero(in_each) == min(5, size)
        assert in_each.max() - in_each[in_each > 0].min() <= 1
    assert np.ptp(np.bincount(folds)) <= 3
    folds = fold_numbers(np.zeros(1000, dtype=np.int64), 1)
    for period in (2, 5, 7, 10, 12, 24):  # periods in the order of rows, such as hours or weekdays
        shares = np.array([np.bincount(folds[day::period], minlength=5) for day in range(period)]) * period / 200
        assert 0.6 < shares.min() <= shares.max() < 1.7


@pytest.mark.parametrize("scheme", ["ovo", "ovr", "joint"])
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_classes_of_one_row_are_left_out_too(C, scheme):
    if scheme == "joint" and np.inf == C:
        C = 100.0
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3, 4, 5], [12, 1, 2, 9, 1, 1])
    X = 9.0 * rng.normal(size=(6, 3))[y] + rng.normal(size=(y.size, 3))
    machine = SVC(C=C, multi_class=scheme, probability=True, calibration_values="folds").fit(X, y)
    p = machine.predict_proba(X)
    np.testing.assert_array_equal(p.argmax(axis=1), machine.predict(X))
    assert np.isfinite(machine.cross_fitted_decision_).all()
    assert machine.cross_fitted_decision_[y == 1].argmax() != 1  # without this row, the class is unknown


@pytest.mark.parametrize(
    ("n", "n_classes", "options", "expected", "why"),
    [
        (60, 2, {}, "leave_one_out", "a machine of up to 60 rows"),
        (60, 10, {}, "leave_one_out", "45 machines of up to 12 rows"),
        (66, 11, {}, "folds", "there are 55 machines, more than 45"),
        (66, 11, {"multi_class": "ovr"}, "leave_one_out", "11 machines of up to 66 rows"),
        (2001, 2, {}, "folds", "a machine has 2,001 rows, more than 2,000"),
        (201, 2, {"multi_class": "joint"}, "folds", "more than 200, each of which would be left out by a fit"),
        (66, 2, {"kernel": "sigmoid", "gamma": 1.0}, "folds", "not known to be positive semidefinite"),
        (66, 11, {"calibration_values": "leave_one_out"}, "leave_one_out", "calibration_values='leave_one_out' asks"),
    ],
)
@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
def test_the_calibration_method_depends_on_sizes(n, n_classes, options, expected, why, capsys):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n_classes, 4))[y] + rng.normal(size=(n, 4))
    machine = SVC(probability=True, verbose=1, **options).fit(X, y)
    assert machine.calibration_values_ == expected
    assert why in machine.calibration_reason_
    assert f"decision values: {machine.calibration_reason_}" in capsys.readouterr().err
    assert hasattr(machine, "loo_decision_") == (expected == "leave_one_out")
    assert hasattr(machine, "cross_fitted_decision_") == (expected == "folds")


@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_kernels_that_are_not_positive_semidefinite_are_calibrated_on_folds(kind):
    X, y = table("two")
    half = y.size // 2
    machine = kind(kernel="sigmoid", probability=True)
    with pytest.warns(IndefiniteKernelWarning, match="probabilities come from folds"):
        machine.fit(X[:half], y[:half])
    p = machine.predict_proba(X)
    np.testing.assert_array_equal(machine.classes_[p.argmax(axis=1)], machine.predict(X))
    peer = CalibratedClassifierCV(sklearn.svm.SVC(kernel="sigmoid"), ensemble=False).fit(X[:half], y[:half])
    assert log_loss(y[half:], p[half:]) < log_loss(y[half:], peer.predict_proba(X[half:])) + 0.03
    assert machine.certificate_.status == "stationary"
