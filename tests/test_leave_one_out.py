"""Leave-one-out values: equal to refits without the row, for all machines, kernels and kinds of data."""

from __future__ import annotations

import re
import signal
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_linnerud, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.linear_model import RidgeClassifier as SklearnRidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

import reference
from cases import KERNELS
from mercer import (
    SVC,
    SVDD,
    SVR,
    KernelPerceptron,
    KernelRidge,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    QuantileSVR,
    Spectrum,
    Status,
    _core,
    joachims_bound,
    leave_one_out,
    span_bound,
)
from mercer.data import as_data
from mercer.gram import Gram
from mercer.kernels import RBF, Linear
from mercer.problems import c_svc
from mercer.solvers import Interruption
from mercer.solvers.loop import StopWork
from mercer.solvers.paths import loo_monitor as monitor
from mercer.solvers.paths import loo_passes as passes
from mercer.solvers.paths.loo_bounds import DecidedErrors, Radius, joachims_terms
from mercer.solvers.paths.path_following import Following, Full
from mercer.solvers.paths.reduced_problem import refit, without
from pairs import every_pair

TIGHT = 1e-11

MACHINES = {
    "SVC": lambda C, nu, kernel: SVC(C=C, kernel=kernel),
    "SVC, squared hinge": lambda C, nu, kernel: SVC(C=C, kernel=kernel, loss="squared_hinge"),
    "SVC without bias": lambda C, nu, kernel: SVC(C=C, kernel=kernel, fit_intercept=False),
    "SVR": lambda C, nu, kernel: SVR(C=C, kernel=kernel, epsilon=0.1),
    "SVR, epsilon 0": lambda C, nu, kernel: SVR(C=C, kernel=kernel, epsilon=0.0),
    "SVR, squared": lambda C, nu, kernel: SVR(C=C, kernel=kernel, loss="squared_epsilon_insensitive"),
    "QuantileSVR": lambda C, nu, kernel: QuantileSVR(C=C, kernel=kernel, quantile=0.3),
    "OneClassSVM": lambda C, nu, kernel: OneClassSVM(nu=nu, kernel=kernel),
    "SVDD": lambda C, nu, kernel: SVDD(C=max(nu, 0.5), kernel=kernel),
}


def brute_force(machine, X, y, weights=None):
    """Decision values of every row by refits without it; parameters of the kernel come from all rows."""
    fitted = clone(machine).fit(X, y, sample_weight=weights)
    refitted = clone(machine).set_params(kernel=fitted.kernel_, tol=1e-9)
    values = []
    for i in range(len(y)):
        others = np.delete(np.arange(len(y)), i)
        refit = refitted.fit(X[others], y[others], sample_weight=None if weights is None else weights[others])
        values.append((refit.predict if isinstance(refit, SVR) else refit.decision_function)(X[[i]])[0])
    return np.array(values)


def table(seed, n, p, kind):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    if kind == "grid":  # many equal rows
        X = np.round(X)
    score = X[:, 0] + 0.7 * rng.normal(size=n)
    y = np.where(score > (1.2 if kind == "unbalanced" else 0.0), 1, 0)
    y[:2] = 0, 1
    weights = rng.integers(1, 4, n).astype(float) if kind == "weighted" else None
    return X, y, score, weights


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:w = 0 is the optimum of this machine")
@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=14, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(5, 40),
    p=st.integers(1, 4),
    kind=st.sampled_from(["random", "grid", "unbalanced", "weighted"]),
    log_C=st.floats(-3.0, 3.0),
    nu=st.floats(0.1, 0.9),
    kernel=st.sampled_from(["rbf", "linear", "poly", "laplacian"]),
)
@pytest.mark.filterwarnings("ignore:w = 0 is the optimum:UserWarning")
def test_leaving_a_row_out_is_training_without_it(name, seed, n, p, kind, log_C, nu, kernel):
    X, y, score, weights = table(seed, n, p, kind)
    machine = MACHINES[name](10.0**log_C, nu, kernel)
    machine.fit(X, y if name.startswith("SVC") else score, sample_weight=weights)
    evidence = machine.solution_.certificate.evidence
    gram = evidence.full_gram()
    work = Following(Full.of(evidence.problem, gram, evidence.beta))
    deque(work.steps(), maxlen=0)
    values = work.result()
    plain = np.array([refit(evidence.problem, gram, evidence.beta, i, TIGHT)[0] for i in range(n)])
    largest = max(1.0, np.abs(plain).max())
    np.testing.assert_allclose(values.values, plain, rtol=0, atol=1e-6 * largest)
    assert values.violation <= 1e-6 * largest


@pytest.mark.parametrize("case", [case for case in KERNELS if case.proved], ids=lambda case: case.name)
def test_every_kernel_is_followed(case):
    X, y, score, weights = table(3, 32, 4, "weighted")
    for machine, target in ((SVC(C=2.0, kernel=case.kernel), y), (SVR(C=2.0, kernel=case.kernel), score)):
        loo = leave_one_out(machine, case.rows(X), target, sample_weight=weights)
        evidence = clone(machine).fit(case.rows(X), target, sample_weight=weights).solution_.certificate.evidence
        plain = [refit(evidence.problem, evidence.full_gram(), evidence.beta, i, TIGHT)[0] for i in range(0, 32, 3)]
        np.testing.assert_allclose(loo.decision[::3], plain, rtol=0, atol=1e-6 * max(1.0, np.abs(plain).max()))


REAL = {
    "iris": (load_iris, SVC(C=5.0, class_weight="balanced"), lambda y: y == 1),
    "wine": (load_wine, SVC(C=100.0, gamma=0.02), lambda y: y == 1),
    "breast cancer": (load_breast_cancer, SVC(C=1.0, loss="squared_hinge"), lambda y: y),
    "breast cancer, large C": (load_breast_cancer, SVC(C=1000.0, kernel="poly", coef0=1.0), lambda y: y),
    "digits": (load_digits, SVC(C=1.0, gamma=0.005), lambda y: y == 8),
    "digits, linear": (load_digits, SVC(C=100.0, kernel="linear"), lambda y: y % 2),
    "diabetes": (load_diabetes, SVR(C=30.0, epsilon=5.0), lambda y: y),
    "diabetes, median": (load_diabetes, QuantileSVR(C=30.0, quantile=0.5), lambda y: y),
    "linnerud": (load_linnerud, SVR(C=10.0, epsilon=1.0, kernel="laplacian"), lambda y: y[:, 0]),
    "wine, one class": (load_wine, OneClassSVM(nu=0.2), lambda y: y),
    "iris, ball": (load_iris, SVDD(C=0.05), lambda y: y),
}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:SVC ended as `stalled`:sklearn.exceptions.ConvergenceWarning"
)  # the warning is from the refit
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_real_data_sets_agree_with_refits(name, is_weighted):
    load, machine, target = REAL[name]
    X, y = load(return_X_y=True)
    X = scale(X)
    if isinstance(machine, SVC):
        y = np.asarray(target(y)).astype(int)
        if machine.class_weight is not None:  # class weights stay those of all rows
            shares = np.bincount(y) / y.size
            machine = clone(machine).set_params(class_weight={k: 0.5 / shares[k] for k in (0, 1)})
    else:
        y = np.asarray(target(y), dtype=float)
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if is_weighted else None
    loo = leave_one_out(machine, X, y, sample_weight=weights)
    fitted = clone(machine).fit(X, y, sample_weight=weights)
    refitted = clone(machine).set_params(kernel=fitted.kernel_, tol=1e-9)
    support = np.flatnonzero(loo.rule[:, 0] != "not a support vector")
    for i in [*np.random.default_rng(0).permutation(support)[:25].tolist(), 0, len(y) - 1]:
        others = np.delete(np.arange(len(y)), i)
        refit = refitted.fit(X[others], y[others], sample_weight=None if weights is None else weights[others])
        value = (refit.decision_function if hasattr(refit, "decision_function") else refit.predict)(X[[i]])[0]
        assert loo.decision[i] == pytest.approx(value, rel=0, abs=1e-6 * max(1.0, np.abs(loo.decision).max()))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("C", [0.05, 1.0, 300.0])
def test_refits_by_hand_agree(seed, C):
    X, y, score, _ = table(seed, 40, 3, "random")
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, 40)
    for machine, target in ((SVC(C=C), y), (SVR(C=C), score), (OneClassSVM(nu=0.3), score)):
        loo = leave_one_out(machine, X, target, sample_weight=weights)
        np.testing.assert_allclose(loo.decision, brute_force(machine, X, target, weights), atol=2e-6)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_several_classes_vote_without_the_row(scheme):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    machine = SVC(C=5.0, multi_class=scheme)
    loo = leave_one_out(machine, X, y)
    refitted = clone(machine).set_params(kernel=clone(machine).fit(X, y).kernel_, tol=1e-9)
    for i in range(len(y)):
        others = np.delete(np.arange(len(y)), i)
        refit = refitted.fit(X[others], y[others])
        np.testing.assert_allclose(loo.decision[i], refit.decision_function(X[[i]])[0], atol=1e-5)
        assert loo.predicted[i] == refit.predict(X[[i]])[0]
    assert loo.error == np.mean(loo.wrong) == np.mean(loo.predicted != y)
    assert loo.error_rule is None
    assert loo.error_counts == {}


def test_distances_from_a_ball_without_the_row():
    X = np.random.default_rng(3).normal(size=(30, 2))
    loo = leave_one_out(SVDD(C=0.23, kernel="linear"), X)
    np.testing.assert_allclose(loo.decision, brute_force(SVDD(C=0.23, kernel="linear"), X, np.zeros(30)), atol=1e-4)
    assert loo.error == np.mean(loo.decision < 0)


@pytest.mark.parametrize(
    "machine", [KernelRidge(kernel="rbf"), LeastSquaresSVC(), LeastSquaresClassifier(0.5)], ids=str
)
@pytest.mark.parametrize("weighted", [False, True])
def test_closed_forms_are_used(machine, weighted):
    X, y, score, _ = table(0, 30, 2, "random")
    regressor = isinstance(machine, KernelRidge)
    target = score if regressor else y
    weights = np.where(np.arange(30) % 5 == 4, 0.0, 1.0) if weighted else np.ones(30)
    loo = leave_one_out(machine, X, target, sample_weight=weights)
    full = clone(machine).fit(X, target, weights)
    if not isinstance(machine, LeastSquaresClassifier):
        machine = clone(machine).set_params(kernel=full.kernel_)
    refit = clone(machine).fit(X[1:], target[1:], weights[1:])
    value = (refit.predict if regressor else refit.decision_function)(X[:1])[0]
    assert loo.decision[0] == pytest.approx(value)
    assert set(loo.rule[weights > 0.0].ravel()) == {"closed form"}
    out = weights == 0.0
    assert set(loo.rule[out].ravel()) == ({"not trained on"} if weighted else set())
    np.testing.assert_allclose(loo.decision[out], (full.predict if regressor else full.decision_function)(X)[out])
    losses = np.square(score - loo.predicted) if regressor else loo.predicted != y
    assert loo.error == pytest.approx(losses[~out].mean())


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (make_pipeline(StandardScaler(), SVC()), "is a Pipeline: give its last step, and the rows as the steps before"),
        (KernelPerceptron(), "is a KernelPerceptron: cross_val_predict(estimator, X, y, cv=LeaveOneOut()) of scikit"),
        (sklearn.svm.SVC(), "but estimator is sklearn.svm.SVC: mercer.SVC takes its place."),
        (SVC, "estimator must be a machine, got the class SVC: SVC() is one."),
    ],
    ids=["pipeline", "perceptron", "scikit-learn's", "class"],
)
def test_unsupported_machines_are_refused_with_an_alternative(estimator, message):
    X, y, _, _ = table(0, 30, 2, "random")
    with pytest.raises(TypeError, match=re.escape(message)):
        leave_one_out(estimator, X, y)


def test_kernels_of_every_storage_agree():
    X, y, _, _ = table(1, 50, 4, "random")
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    plain = leave_one_out(SVC(kernel="linear"), X, y)
    for machine, rows in (
        (SVC(kernel="linear"), sp.csr_matrix(X)),
        (SVC(kernel="precomputed"), X @ X.T),
        (SVC(kernel=lambda a, b: a @ b.T), X),
    ):
        np.testing.assert_allclose(leave_one_out(machine, rows, y).decision, plain.decision, atol=1e-6)
    words = ["aab", "abb", "bba", "baa", "aaa", "bbb", "aba", "bab"] * 2
    loo = leave_one_out(SVC(kernel=Spectrum(2)), words, [len(w.split("ab")) - 1 for w in words])
    assert loo.error <= 0.5


@pytest.mark.parametrize(("C", "size"), [(1.0, 1e6), (1e14, 1.0), (1e-14, 1.0)])
def test_boxes_of_any_width_beside_the_coefficients(C, size):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(16, 3))
    y = np.where(X[:, 0] + 0.2 * X[:, 1] > 0, 1, 0)  # the classes are separable, so coefficients do not grow with C
    machine = SVC(C=C, kernel="linear", tol=1e-9).fit(size * X, y)
    loo = leave_one_out(machine, size * X, y)
    np.testing.assert_allclose(loo.decision, brute_force(machine, size * X, y), rtol=1e-6, atol=1e-6)


def test_without_slack():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(20, 2)) - 3, rng.normal(size=(20, 2)) + 3])
    y = np.repeat([0, 1], 20)
    loo = leave_one_out(SVC(C=np.inf, kernel="linear"), X, y)
    np.testing.assert_allclose(loo.decision, brute_force(SVC(C=np.inf, kernel="linear"), X, y), atol=1e-5)


def test_a_class_of_one_row_is_gone_without_it():
    X, y = np.array([[0.0], [1.0], [1.5], [3.0]]), np.array([0, 0, 0, 1])
    for C in (0.1, 10.0, np.inf):
        loo = leave_one_out(SVC(C=C), X, y)
        assert loo.decision[3] == pytest.approx(-1.0)
        assert loo.wrong[3]


def test_rows_of_weight_0_get_values_of_the_machine():
    X, y, _, _ = table(2, 40, 2, "random")
    weights = np.ones(40)
    weights[5:10] = 0.0
    loo = leave_one_out(SVC(), X, y, sample_weight=weights)
    machine = SVC(tol=1e-9).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(loo.decision[5:10], machine.decision_function(X[5:10]), atol=1e-6)
    assert set(loo.rule[5:10, 0]) == {"not trained on"}
    assert loo.error == loo.wrong[weights > 0].mean()


def test_rules_count_every_row_and_hold():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    loo = leave_one_out(SVC(), X, y)
    assert sum(loo.counts.values()) == sum(loo.error_counts.values()) == len(y)
    assert set(loo.counts) <= {"not a support vector", "nothing changes", "followed", "refitted"}
    assert loo.wrong[loo.error_rule == "misclassified in training"].all()
    assert not loo.wrong[np.isin(loo.error_rule, ["Joachims", "not a support vector"])].any()
    assert (loo.error_rule == "Joachims").any()
    assert "leave-one-out error 0.0228" in str(loo)
    assert "balanced class weights" in loo.held
    machine = SVC(tol=1e-8).fit(X, y)
    assert loo.error <= joachims_bound(machine)
    assert abs(span_bound(machine) - loo.error) < 0.005


def test_joachims_condition_needs_the_smallest_kernel_value():
    """If R only bounds ||x||, 2 alpha_1 R² + xi_1 < 1 holds although the first row is a leave-one-out error."""
    X, y = np.array([[1.0, -0.05], [-1.0, 0.5], [-1.0, -0.5]]), np.array([1, 1, 0])
    machine = SVC(C=100.0, kernel="linear", tol=1e-10).fit(X, y)
    examples = machine.certificate_.examples()
    assert examples.alpha[0] == pytest.approx(0.275, abs=5e-3)
    assert 2 * examples.alpha[0] * (X**2).sum(axis=1).max() + examples.slack[0] < 1
    loo = leave_one_out(machine, X, y)
    assert loo.decision[0] == pytest.approx(-0.1, abs=1e-6)
    assert loo.wrong[0]
    assert loo.error_rule[0] != "Joachims"
    assert joachims_bound(machine) >= loo.error


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_joachims_bounds_the_error(C, kernel):
    for seed in range(5):
        X, y, _, _ = table(seed, 60, 2, "random")
        machine = SVC(C=C, kernel=kernel, tol=1e-8)
        assert leave_one_out(machine, X, y).error <= joachims_bound(machine.fit(X, y))


def test_native_agrees_with_its_twin(monkeypatch):
    compared = []

    def both(places, removed, *, ends, numbers, n_threads, **scale):
        native_places, native_removed = _core.TableauPlaces(**places), _core.RemovedVariables(**removed)
        results = {"ends": ends, "numbers": numbers, "n_threads": n_threads}
        missing = _core.leave_out(native_places, native_removed, **scale, **results)
        own_ends, own_numbers = np.empty_like(ends), np.empty_like(numbers)
        twin = reference.leave_out(**places, **removed, **scale, ends=own_ends, numbers=own_numbers)
        np.testing.assert_array_equal(missing, twin)
        np.testing.assert_array_equal(ends, own_ends)
        np.testing.assert_allclose(numbers, own_numbers, atol=1e-8)
        compared.append(ends.size)
        return missing

    monkeypatch.setattr(passes, "TableauPlaces", dict)
    monkeypatch.setattr(passes, "RemovedVariables", dict)
    monkeypatch.setattr(passes, "leave_out", both)
    for kind in ("random", "unbalanced"):
        X, y, score, _ = table(7, 60, 3, kind)
        for machine, target in ((SVC(C=3.0), y), (QuantileSVR(C=3.0), score), (OneClassSVM(nu=0.3), score)):
            leave_one_out(machine, X, target)
    assert sum(compared) > 200


def test_results_do_not_depend_on_threads_or_memory():
    X, y, _, _ = table(11, 80, 3, "random")
    one, two = (leave_one_out(SVC(C=3.0, n_jobs=n), X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.decision, two.decision)
    tight = leave_one_out(SVC(C=3.0, memory_limit=0), X, y)
    np.testing.assert_allclose(tight.decision, one.decision, atol=1e-6)


class Subclass(SVC):
    """A subclass of SVC, which may override `fit`."""


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (
            NuSVC(),
            TypeError,
            "margin changes with every row left out; use SVC with the same kernel and weights and C=machine.C_[0]",
        ),
        (
            NuSVR(),
            TypeError,
            "NuSVR, whose tube changes with every row left out; use SVR with the same kernel and weights, C=machine.C",
        ),
        (sklearn.svm.NuSVC(), TypeError, "machine being the fitted mercer.NuSVC: for two classes it predicts the same"),
        (SklearnKernelRidge(), TypeError, "sklearn.kernel_ridge.KernelRidge: mercer.KernelRidge takes its place."),
        (
            Subclass(),
            TypeError,
            "a Subclass, a subclass of mercer.SVC, and a subclass may do anything: only the classes",
        ),
        (SklearnLogisticRegression(), TypeError, "LogisticRegression: mercer.LogisticRegression takes its place"),
        (SklearnRidgeClassifier(), TypeError, "but estimator is a RidgeClassifier: cross_val_predict"),
        (LogisticRegression(C=np.inf), ValueError, "needs a finite C and a penalty"),
        (LogisticRegression(penalty=None), ValueError, "needs a finite C and a penalty"),
        (SVC(multi_class="joint"), ValueError, "machines for two classes each, but multi_class is 'joint'"),
        (OneClassSVM(contamination=0.1), ValueError, "needs contamination=None, got 0.1"),
        (SVC(kernel="sigmoid", gamma=5.0, coef0=1.0), ValueError, "needs a kernel that is positive semidefinite"),
    ],
)
@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
def test_machines_without_leave_one_out_are_refused(estimator, error, message):
    X, y, _, _ = table(0, 30, 2, "random")
    with pytest.raises(error, match=re.escape(message)):
        leave_one_out(estimator, X, y)


@pytest.mark.parametrize("C", [0.3, 1.0, 100.0])
def test_errors_alone_are_those_of_the_values(C):
    X, y, _, _ = table(4, 200, 3, "random")
    X[:4] *= 30.0  # outliers
    values, errors = (leave_one_out(SVC(C=C), X, y, what=what) for what in ("values", "errors"))
    np.testing.assert_array_equal(errors.wrong, values.wrong)
    np.testing.assert_array_equal(errors.predicted, values.predicted)
    assert errors.error == values.error
    np.testing.assert_array_equal(errors.error_rule, values.error_rule)
    decided = np.isin(errors.rule[:, 0], ["Joachims", "misclassified in training"])
    assert decided.any()
    assert np.isnan(errors.decision[decided]).all()
    np.testing.assert_allclose(errors.decision[~decided], values.decision[~decided], atol=1e-9)
    assert errors.known.all()


def test_errors_of_machines_without_rules_come_from_values():
    X, y = load_iris(return_X_y=True)
    loo = leave_one_out(SVC(), X, y, what="errors")
    assert np.isfinite(loo.decision).all()
    assert loo.error == leave_one_out(SVC(), X, y).error


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_exact_radius_is_computed_if_worthwhile(kernel):
    X, y, _, _ = table(4, 400, 3, "random")
    gram = Gram(RBF(0.5) if kernel == "rbf" else Linear(), as_data(X))
    radius, values = Radius(gram), gram.block()
    assert radius.largest == np.diag(values).max()
    assert radius.below <= radius.exact <= radius.above
    assert radius.exact >= np.diag(values).max() - values.min()
    assert radius.exact == pytest.approx(np.diag(values).max() - values.min(), rel=1e-4)
    assert (radius.above == np.inf) == (kernel == "linear")
    machine = SVC(C=1.0, kernel=kernel, gamma=10.0).fit(X, y)
    evidence = machine.solution_.certificate.evidence
    rules = DecidedErrors(evidence.full_gram())
    rules.terms(Full.of(evidence.problem, evidence.full_gram(), evidence.beta))
    # For narrow kernels, the largest k(x, x) is as good as R².
    assert ("exact" in vars(rules._radius)) == (kernel == "linear")
    wide = leave_one_out(SVC(C=1.0, gamma=1e-4), X, y, what="errors")
    assert wide.error_counts["Joachims"] > 100  # kernel values are close to 1, and R² is close to 0


@pytest.mark.parametrize(("settings", "why"), [({"max_seconds": 0.0}, "time limit"), ({}, "interrupted")])
def test_a_stopped_pass_keeps_its_values(settings, why):
    X, y, _, _ = table(5, 600, 3, "random")
    full_pass = leave_one_out(SVC(), X, y)
    reports = []

    def stop(progress):
        reports.append(progress)
        return progress.done >= 10

    with pytest.warns(ConvergenceWarning, match=rf"ended \({why}\) when \d+ of 600 rows were known"):
        loo = leave_one_out(SVC(memory_limit=19_500_000), X, y, callback=None if settings else stop, **settings)
    assert loo.stopped == why
    assert np.isnan(loo.error)
    low, high = loo.error_bounds
    assert low <= full_pass.error <= high
    assert high - low == pytest.approx(np.mean(~loo.known))
    np.testing.assert_array_equal(loo.wrong[loo.known], full_pass.wrong[loo.known])
    valued = loo.rule[:, 0] != "unknown"
    np.testing.assert_allclose(loo.decision[valued], full_pass.decision[valued], atol=1e-6)
    assert np.isnan(loo.decision[~valued]).all()
    assert (~valued).any()
    assert f"between {low:.4g} and {high:.4g}, {why}" in str(loo)
    if reports:
        assert 10 <= reports[-1].done <= 100 == reports[-1].total
        assert reports[-1].seconds_left >= 0.0
        assert (loo.rule == "followed").any()


def test_a_stop_also_ends_the_solver():
    X, y, _, _ = table(5, 100, 3, "random")
    evidence = SVC(C=30.0).fit(X, y).solution_.certificate.evidence
    problem, gram, row = evidence.problem, evidence.full_gram(), int(np.abs(evidence.beta).argmax())

    def check():
        raise StopWork(Status.INTERRUPTED)

    for begin in (
        lambda: Full.of(problem, gram, np.zeros(100), check),
        lambda: refit(problem, gram, np.zeros(100), row, TIGHT, check),
    ):
        with pytest.raises(StopWork):
            begin()


def test_ctrl_c_ends_a_pass_of_several_machines():
    X, y = load_iris(return_X_y=True)
    X = np.vstack([X + 0.01 * np.random.default_rng(k).normal(size=X.shape) for k in range(8)])

    def interrupt(progress):
        signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        loo = leave_one_out(SVC(C=100.0, multi_class="ovr"), X, np.tile(y, 8), callback=interrupt)
    assert loo.stopped == "interrupted"
    assert not loo.known.all()
    assert np.isnan(loo.decision[~loo.known]).any(axis=1).all()
    X, _, score, _ = table(5, 400, 3, "random")
    with pytest.warns(ConvergenceWarning, match="time limit"):
        loo = leave_one_out(SVR(), X, score, max_seconds=0.0)
    assert np.isnan(loo.error)
    assert np.isnan(loo.error_bounds).all()


def test_progress_runs_to_the_end(capsys):
    X, y, _, _ = table(5, 300, 3, "random")
    reports = []
    leave_one_out(SVC(), X, y, verbose=1, callback=reports.append)
    assert (reports[-1].stage, reports[-1].done, reports[-1].total) == ("leave-one-out", 100, 100)
    assert [one.done for one in reports] == sorted(one.done for one in reports)
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "leave-one-out 100 of 100: about < 0.1 s left"
    shares = [line.split()[1] for line in said]
    assert len(set(shares)) == len(shares)


def test_a_pass_is_done_when_no_point_waits_for_rows_any_more():
    X, y = load_breast_cancer(return_X_y=True)
    evidence = SVC().fit(X, y).solution_.certificate.evidence
    full = Full.of(evidence.problem, evidence.full_gram(), evidence.beta)
    reports = list(Following(full).steps())
    assert all(type(share) is float for share in reports)
    assert reports[0] < 0.5
    assert len(set(reports)) > 3
    assert max(reports) == reports[-1] == 1.0


def test_reported_progress_never_decreases(monkeypatch):
    monkeypatch.setattr(monitor, "REPORT_SECONDS", 0.0)
    reports = []
    one = monitor.PassMonitor(Interruption(), callback=reports.append)
    for share in (0.5, 0.25, 0.75):
        assert one.update(share) is None
    assert [progress.done for progress in reports] == [50, 50, 75]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"what": "count"}, "what must be one of 'values', 'errors', got 'count'"),
        ({"max_seconds": -1.0}, "max_seconds must be a number >= 0, got -1.0"),
        ({"callback": 3}, "callback must be a function of one argument, the progress, or None, got 3"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    X, y, _, _ = table(0, 30, 2, "random")
    with pytest.raises(ValueError, match=re.escape(message)):
        leave_one_out(SVC(), X, y, **settings)


@pytest.mark.parametrize("bound", [joachims_bound, span_bound])
def test_bounds_are_of_machines_with_hinge_loss(bound):
    X, y, score, _ = table(0, 30, 2, "random")
    with pytest.raises(
        TypeError, match=f"{bound.__name__} is of a fitted SVC with hinge loss, .* for two classes, got SVR"
    ):
        bound(SVR().fit(X, score))
    with pytest.raises(TypeError, match="got SVC of the problem 'C-SVC, squared hinge'"):
        bound(SVC(loss="squared_hinge").fit(X, y))
    with pytest.raises(TypeError, match=r"got SVC with 3 machines of two classes each: mercer\.theory\.report has"):
        bound(SVC().fit(X, np.arange(30) % 3))
    with pytest.raises(TypeError, match="got SVC for 3 classes at once"):
        bound(SVC(multi_class="joint").fit(X, np.arange(30) % 3))
    with pytest.raises(TypeError, match="got Pipeline: give its last step, pipeline"):
        bound(make_pipeline(SVC()).fit(X, y))
    with pytest.raises(NotFittedError, match="This SVC instance is not fitted yet"):
        bound(SVC())


@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
@pytest.mark.parametrize("bound", [joachims_bound, span_bound])
def test_bounds_are_of_kernels_that_are_positive_semidefinite(bound):
    X, y, _, _ = table(0, 30, 2, "random")
    with pytest.raises(ValueError, match=f"{bound.__name__} needs a kernel that is positive semidefinite"):
        bound(SVC(kernel="sigmoid", gamma=5.0, coef0=1.0).fit(X, y))


def test_the_problem_without_a_row_keeps_its_total():
    X = np.random.default_rng(0).normal(size=(10, 2))
    problem = OneClassSVM(nu=0.4).fit(X).solution_.certificate.evidence.problem
    smaller, remaining = without(problem, 3)
    assert remaining.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert smaller.start.sum() == pytest.approx(0.4 * 9)
    assert replace(smaller).n == 9


@every_pair(given=[{}, {"fit_intercept": False}], C=[1e-3, 0.1, 1.0, 30.0], gamma=[0.01, 2.0])
def test_no_rule_misses_an_error_for_any_bias(C, gamma, given):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(6, 24))
        X, y = np.round(2.0 * rng.normal(size=(n, 2))), rng.permutation(np.arange(n) % 2)
        weights = rng.integers(1, 4, n).astype(float) if seed % 2 else np.ones(n)
        machine = SVC(C=C, gamma=gamma, kernel="laplacian", tol=1e-9, **given)
        exact = leave_one_out(machine, X, y, sample_weight=weights)
        quick = leave_one_out(machine, X, y, sample_weight=weights, what="errors")
        clear = np.abs(exact.decision) > 1e-7
        np.testing.assert_array_equal(quick.wrong[clear], exact.wrong[clear])
        assert joachims_bound(machine.fit(X, y, sample_weight=weights)) >= exact.wrong[clear].sum() / n


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(4, 16), log_C=st.floats(-2.0, 1.0))
def test_the_implemented_rule_is_the_proved_one(seed, n, log_C):
    rng = np.random.default_rng(seed)
    y, C = rng.permutation(2.0 * (np.arange(n) % 2) - 1.0), 10.0**log_C * rng.integers(1, 4, n)
    values, alpha = y + np.round(rng.normal(size=n), 1), C * rng.choice([0.0, 0.01, 0.1, 1.0], n)
    decided, misclassified = joachims_terms(c_svc(y, C), y * alpha, values, 1.0, 0.9)
    np.testing.assert_array_equal(misclassified, y * values < -1e-9)
    shifts = y - values  # one of these is the best change of the bias
    for i in range(n):
        others = np.delete(np.arange(n), i)
        slack = np.maximum(0.0, 1.0 - y[others] * (values[others] + shifts[others, None])) @ C[others]
        best = y[i] * shifts[others][slack <= slack.min() + 1e-9 * C.sum()]
        jump = max(0.0, -best.max())
        margin = y[i] * values[i] + best.min() - 1.8 * alpha[i] - np.sqrt(1.8 * alpha[i] * jump)
        if alpha[i] == 0.0 or abs(margin) > 1e-6:
            assert decided[i] == (alpha[i] == 0.0 or margin > 0.0)


def test_the_bias_may_jump_if_other_rows_are_at_bounds():
    """Without one row of class 0, the other row is the smaller class, and the bias decides its side."""
    X, y = [[0.0], [0.2], [1.0], [1.2]], [0, 0, 1, 1]
    machine = SVC(C=1e-3, kernel="linear").fit(X, y)
    loo = leave_one_out(machine, X, y)
    assert loo.wrong.all()
    assert joachims_bound(machine) == 1.0
    assert leave_one_out(SVC(C=1e-3, kernel="linear"), X, y, what="errors").error == 1.0


def test_a_refit_that_rounding_keeps_from_a_bound_has_the_middle_of_the_interval_too():
    X = np.array([[0.0], [1.0], [-2.0], [-1.0], [-1.0], [0.0], [0.0], [-1.0], [0.0], [1.0], [2.0]])
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0])
    machine = SVC(C=1000.0, kernel="poly", gamma=0.4, tol=1e-10)
    loo = leave_one_out(machine, X, y)
    machine.fit(np.delete(X, 1, 0), np.delete(y, 1))
    # All variables are at bounds; one is within 1e-16 of its bound before rounding is corrected.
    assert machine.certificate_.n_free == 0
    assert machine.decision_function(X[[1]])[0] == pytest.approx(loo.decision[1], abs=1e-6)


@pytest.mark.parametrize("C", [100.0, 300.0, 1000.0])
def test_a_refit_that_needs_no_support_vectors_has_none(C):
    X, y = np.array([[3.0, 2.0], [0.0, -1.0], [-1.0, -2.0]]), np.array([-0.16, -0.01, 0.53])
    loo = leave_one_out(SVR(C=C, kernel="linear"), X, y)
    assert loo.decision[2] == pytest.approx(-0.085)  # the other two rows are in the tube, whose centre is their mean


@pytest.mark.parametrize("seed", [7, 22, 47])
def test_relatively_tiny_coefficients_are_not_treated_as_rounding(seed):
    X, y = np.round(2.0 * np.random.default_rng(seed).normal(size=(24, 2))), np.arange(24) % 2
    machine = SVC(C=5e6, kernel="linear", tol=1e-5)
    loo = leave_one_out(machine, X, y).decision
    for i in range(24):
        refitted = machine.fit(np.delete(X, i, 0), np.delete(y, i))
        assert refitted.decision_function(X[[i]])[0] == pytest.approx(loo[i], abs=5e-6)


@pytest.mark.parametrize("seed", [132, 156, 159])
def test_refits_whose_support_vectors_are_few_have_no_more_of_them(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 14))
    X, y = np.round(2.0 * rng.normal(size=(n, 2))), rng.normal(size=n)
    machine = SVR(C=3000.0, kernel="linear", epsilon=0.45 * np.ptp(y))
    np.testing.assert_allclose(leave_one_out(machine, X, y).decision, brute_force(machine, X, y), atol=1e-6)


def test_a_pass_without_a_variable_to_watch_ends():
    X = [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 0.0, -1.0], [1.0, 1.0, -1.0]]
    y = np.array(
        [-0.5456610650290616, -0.8737109450356373, 0.19399994616388205, -2.000121026128409, -0.2853032250742409]
    )
    machine = QuantileSVR(C=1e-3, kernel="laplacian", gamma=0.4, tol=1e-9)
    loo = leave_one_out(machine, X, y)
    machine.fit(np.delete(X, 1, 0), np.delete(y, 1))
    assert loo.decision[1] == pytest.approx(machine.predict([X[1]])[0], abs=1e-6)


@pytest.mark.parametrize(
    ("machine", "n_classes"),
    [(SVC(), 2), (SVC(), 3), (SVC(probability=True), 2), (SVR(), 0), (OneClassSVM(), 0), (SVDD(), 0)],
    ids=str,
)
def test_a_kernel_function_is_evaluated_once(machine, n_classes):
    rng, n_values = np.random.default_rng(0), []
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=120)
    y = np.digitize(y, np.linspace(-1.0, 1.0, n_classes + 1)[1:-1]) if n_classes else y

    def function(A, B):
        n_values.append(len(A) * len(B))
        return np.exp(-0.3 * np.square(A[:, None] - B[None]).sum(axis=2))

    loo = leave_one_out(clone(machine).set_params(kernel=function), X, y)
    assert sum(n_values) <= 1.1 * 120**2
    expected = leave_one_out(clone(machine).set_params(kernel=RBF(gamma=0.3)), X, y)
    np.testing.assert_allclose(loo.decision, expected.decision, atol=1e-6)


LARGE = [
    [-200, 100, 0],
    [-200, -200, -200],
    [200, 100, 0],
    [100, 200, -100],
    [-200] * 3,
    [0, 0, -200],
    [-200, 200, -100],
]
HOSTILE = {
    "polynomial": (LARGE, [1, 1, 1, -1, -1, -1, -1], SVC(kernel="poly", degree=2, gamma=1.0, coef0=1.0, C=0.1)),
    "no bias": (LARGE, [1, 1, 1, -1, -1, -1, -1], SVC(kernel="linear", C=1e5, fit_intercept=False)),
    "squared hinge": (LARGE, [1, 1, 1, -1, -1, -1, -1], SVC(kernel="linear", C=100.0, loss="squared_hinge")),
    "Gaussian": (LARGE, [1, 1, 1, -1, -1, -1, -1], SVC(gamma=2e-5, C=1e10)),
    "regression": (LARGE[:5], [3.0, 1, 0, -2, 1], SVR(kernel="linear", C=10.0, epsilon=0.5)),
    "regression, polynomial": (LARGE[1:6], [3.0, 1, 0, -2, 1], SVR(kernel="poly", degree=2, gamma=1.0, C=1e-4)),
    "one-class": (1e4 * np.array(LARGE), None, OneClassSVM(kernel="linear", nu=0.4)),
}


def exact_values(machine, X, y, kernel):
    """Leave-one-out decision values in rational numbers."""
    machine = clone(machine).fit(X, *(() if y is None else (y,)))
    problem = machine._solutions[0].evidence.problem
    K = reference.exact_gram(X, kernel, **{name: getattr(machine, name) for name in ("gamma", "degree", "coef0")})
    values = []
    for row in range(len(X)):
        smaller, _ = without(problem, row)
        others = [other for other in range(len(X)) if other != row]
        rows = range(smaller.n) if smaller.rows is None else smaller.rows
        beta, level = reference.solve_exactly(smaller, [[K[i][j] for j in others] for i in others])
        values.append(float(sum(b * K[row][others[int(r)]] for b, r in zip(beta, rows, strict=True)) - level))
    return np.array(values)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HOSTILE)
def test_values_at_large_bounds_are_exact_or_said_not_to_be(name):
    X, y, machine = HOSTILE[name]
    X = np.array(X, dtype=np.float64)
    if machine.kernel != "rbf":
        machine = clone(machine).set_params(gamma=1.0)
    expected = exact_values(machine, X, y, machine.kernel)
    loo = leave_one_out(machine, X, y)
    stalled = loo.rule[:, 0] == "stalled"
    size = np.abs(loo.raw).max()
    np.testing.assert_allclose(loo.raw[~stalled, 0], expected[~stalled], rtol=0.0, atol=1e-6 * size)
    if name != "one-class":  # its bounds are small: float64 settles its values
        assert (np.abs(loo.raw[:, 0] - expected) <= loo.rounding[:, 0] + 1e-15 * size).all()
    assert stalled.sum() <= 1
    if name == "polynomial":
        assert loo.raw[3, 0] == pytest.approx(-0.6252994346, abs=1e-8)


@pytest.mark.filterwarnings("ignore:SVC ended")
def test_values_that_even_extended_precision_leaves_open_are_called_stalled():
    X, y, machine = HOSTILE["polynomial"]
    with pytest.warns(ConvergenceWarning, match=r"rounding leaves \d of 7 values inexact.* \(rule 'stalled'\)"):
        loo = leave_one_out(clone(machine).set_params(C=1e12, degree=3), np.array(X) * 31.7, y)
    assert "stalled" in loo.counts
    assert loo.violation > 1e-6


@pytest.mark.filterwarnings("ignore:SVC ended", "ignore:leave_one_out was ended")
def test_rounding_of_large_problems_at_large_bounds_is_stated():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="rounding leaves a violation"):
        loo = leave_one_out(SVC(kernel="linear", C=1e4, max_iter=2000), 1e3 * X[:300], y[:300], max_seconds=0.5)
    assert loo.violation > 1e-6 * np.nanmax(np.abs(loo.raw))
    assert np.isnan(loo.rounding).all()


@pytest.mark.parametrize("seed", range(12))
def test_linear_machines_have_the_bias_of_kernel_machines_also_where_it_is_an_interval(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    X = rng.integers(-1, 2, (n, 1)).astype(np.float64)
    if seed % 2:
        y = 0.5 * rng.integers(-1, 2, n)
        linear, same = LinearSVR(bias="free", epsilon=0.1, C=0.1), SVR(kernel="linear", epsilon=0.1, C=0.1, tol=1e-10)
    else:
        y = np.where(np.arange(n) < n // 2, 1, -1)
        linear, same = LinearSVC(bias="free", loss="hinge", C=0.1), SVC(kernel="linear", C=0.1, tol=1e-10)
    fitted = clone(linear).set_params(tol=1e-12).fit(X, y)
    np.testing.assert_allclose(fitted.intercept_, same.fit(X, y).intercept_, atol=1e-6)
    np.testing.assert_allclose(leave_one_out(linear, X, y).raw, leave_one_out(same, X, y).raw, atol=3e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_refits_of_linear_machines_are_exact(loss):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 5))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=40) > 0, 1, -1)
    loo = leave_one_out(LinearSVC(loss=loss, C=0.1), X, y)
    for row in np.flatnonzero(loo.rule[:, 0] == "refitted")[:8]:
        others = np.delete(np.arange(40), row)
        machine = LinearSVC(loss=loss, C=0.1, tol=1e-13).fit(X[others], y[others])
        assert machine.decision_function(X[row : row + 1])[0] == pytest.approx(loo.decision[row], abs=3e-7)
