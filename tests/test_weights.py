"""Weight k means k copies and weight 0 means absence, for every machine that minimises a loss; invalid input."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import sklearn.svm
from sklearn.base import BaseEstimator, clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

import mercer
from mercer import (
    SVC,
    SVDD,
    SVR,
    GradientKernelSVC,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPerceptron,
    KernelRidge,
    KernelSearchCV,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    ParzenClassifier,
    PegasosSVC,
    QuantileSVR,
    RBFNetworkClassifier,
    Status,
    leave_one_out,
)

X, LABELS = load_wine(return_X_y=True)
X, LABELS = scale(X)[::2], LABELS[::2]
TABLE, TARGETS = load_diabetes(return_X_y=True)
TABLE, TARGETS = scale(TABLE)[:90], scale(TARGETS)[:90]
WHOLE = np.arange(90) % 4

# Every machine with weights, with a tolerance that makes weights and copies comparable.
WEIGHTED = {
    "SVC": SVC(tol=1e-8),
    "SVC, one against the rest": SVC(tol=1e-8, multi_class="ovr"),
    "SVC, joint": SVC(tol=1e-8, multi_class="joint"),
    "SVC, squared hinge": SVC(tol=1e-8, loss="squared_hinge"),
    "SVC without a bias": SVC(tol=1e-8, fit_intercept=False),
    "NuSVC": NuSVC(tol=1e-8, nu=0.3),
    "NuSVC, one against the rest": NuSVC(tol=1e-8, nu=0.3, multi_class="ovr"),
    "SVR": SVR(tol=1e-8),
    "SVR, squared": SVR(tol=1e-8, loss="squared_epsilon_insensitive"),
    "SVR without a tube": SVR(tol=1e-8, epsilon=0.0),
    "NuSVR": NuSVR(tol=1e-8),
    "QuantileSVR": QuantileSVR(tol=1e-8, quantile=0.37),
    "OneClassSVM": OneClassSVM(tol=1e-8, nu=0.31),
    "OneClassSVM, contamination": OneClassSVM(tol=1e-8, contamination=0.21),
    "SVDD": SVDD(C=0.02, tol=1e-8),
    "KernelRidge": KernelRidge(kernel="rbf", gamma="scale"),
    "LeastSquaresSVC": LeastSquaresSVC(),
    "LeastSquaresClassifier": LeastSquaresClassifier(0.5),
    "KernelLogisticRegression": KernelLogisticRegression(tol=1e-9),
    "LogisticRegression": LogisticRegression(tol=1e-9),
    "ParzenClassifier": ParzenClassifier(),
    "RBFNetworkClassifier": RBFNetworkClassifier(12, machine=LogisticRegression(tol=1e-10)),
    "RBFNetworkClassifier, drawn": RBFNetworkClassifier(12, centers="random", machine=LogisticRegression(tol=1e-10)),
    "GradientKernelSVC": GradientKernelSVC(tol=1e-7),
}
UNWEIGHTED = {
    "KernelPerceptron": KernelPerceptron(),
    "KernelNeighborsClassifier": KernelNeighborsClassifier(),
    "KernelNeighborsRegressor": KernelNeighborsRegressor(),
}
MACHINES = WEIGHTED | UNWEIGHTED
# Permitted difference of decision values: it is bounded by the square root of the gap.
CLOSE = {"GradientKernelSVC": 2e-2}


def data_of(machine):
    return (TABLE, TARGETS) if is_regressor(machine) else (X[:89], LABELS[:89])


def values(machine, rows):
    if hasattr(machine, "decision_function"):
        return machine.decision_function(rows)
    return machine.predict_proba(rows) if is_classifier(machine) else machine.predict(rows)


def fitted(machine, rows, y, weights=None):
    return clone(machine).fit(rows, None if is_outlier_detector(machine) else y, sample_weight=weights)


def test_the_table_is_whole():
    machines = {
        machine
        for machine in map(mercer.__getattr__, mercer.__all__[1:])
        if inspect.isclass(machine) and issubclass(machine, BaseEstimator) and not hasattr(machine, "transform")
    } - {LinearSVC, LinearSVR, PegasosSVC}  # their weights are tested in test_linear_svc.py and test_pegasos.py
    taking = {machine for machine in machines if "sample_weight" in inspect.signature(machine.fit).parameters}
    assert taking == {type(machine) for machine in WEIGHTED.values()}
    assert machines - taking == {type(machine) for machine in UNWEIGHTED.values()}


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weight_of_k_is_k_copies(name):
    """The rule gamma="scale" counts copies as well."""
    machine = WEIGHTED[name]
    rows, y = data_of(machine)
    weights = WHOLE[: len(y)]
    copies = np.repeat(np.arange(len(y)), weights)
    one, other = fitted(machine, rows, y, weights.astype(float)), fitted(machine, rows[copies], y[copies])
    np.testing.assert_allclose(values(one, rows), values(other, rows), atol=CLOSE.get(name, 2e-5))


@pytest.mark.parametrize("name", WEIGHTED)
def test_one_number_is_the_weight_of_all_rows(name):
    machine = WEIGHTED[name]
    rows, y = data_of(machine)
    one, other = fitted(machine, rows, y, 2.0), fitted(machine, rows, y, np.full(len(y), 2.0))
    np.testing.assert_array_equal(values(one, rows), values(other, rows))


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weight_of_0_is_absence(name):
    machine = WEIGHTED[name]
    rows, y = data_of(machine)
    weights = WHOLE[: len(y)].astype(float)
    weighted = weights > 0.0
    one, other = fitted(machine, rows, y, weights), fitted(machine, rows[weighted], y[weighted], weights[weighted])
    np.testing.assert_allclose(values(one, rows), values(other, rows), atol=CLOSE.get(name, 2e-5))


CLASSIFIERS = [name for name, machine in MACHINES.items() if is_classifier(machine)]


@pytest.mark.parametrize(
    ("name", "by_class"),
    [(name, by_class) for name in CLASSIFIERS for by_class in (False, True) if by_class or name in WEIGHTED],
)
def test_a_class_of_weight_0_is_absent(name, by_class):
    """Classes, gamma, balanced weights and decision values depend on the other rows only."""
    rows, y = data_of(MACHINES[name])
    names, others = np.array(["a", "b", "c"])[y], y != 1
    if by_class:
        one = clone(MACHINES[name]).set_params(class_weight={"b": 0.0}).fit(rows, names)
        other = clone(MACHINES[name]).fit(rows[others], names[others])
    else:
        machine = clone(MACHINES[name]).set_params(class_weight="balanced")
        one = clone(machine).fit(rows, names, sample_weight=others * 1.0)
        other = machine.fit(rows[others], names[others])
    assert one.classes_.tolist() == other.classes_.tolist() == ["a", "c"]
    np.testing.assert_array_equal(one.class_weight_, other.class_weight_)
    np.testing.assert_allclose(values(one, rows), values(other, rows), atol=CLOSE.get(name, 2e-5))
    assert set(one.predict(rows)) <= {"a", "c"}


def test_rows_of_an_absent_class_are_errors_of_leave_one_out_and_join_nothing():
    weights = (LABELS != 2) * 1.0
    loo = leave_one_out(SVC(), X, LABELS, sample_weight=weights)
    alone = leave_one_out(SVC(), X[LABELS != 2], LABELS[LABELS != 2])
    assert loo.error == pytest.approx(alone.error)
    assert loo.wrong[LABELS == 2].all()
    machine = SVC(probability=True).fit(X, LABELS, sample_weight=weights)
    assert machine.predict_proba(X).shape == (89, 2)
    with pytest.raises(ValueError, match=r"does not know: \[2\]"):
        machine.partial_fit(X[:5], np.full(5, 2))


@pytest.mark.parametrize("machine", [SVC(), LeastSquaresSVC()], ids=repr)
def test_bagging_draws_samples_that_lack_classes(machine):
    digits, y = load_digits(return_X_y=True)
    digits, y = digits[::2], y[::2]
    bag, theirs = (
        BaggingClassifier(one, n_estimators=10, max_samples=30, random_state=0).fit(digits, y)
        for one in (machine, sklearn.svm.SVC())
    )
    assert {one.classes_.size for one in bag.estimators_} >= {9, 10}
    assert bag.score(digits, y) > theirs.score(digits, y) - 0.02
    shares = bag.predict_proba(digits)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(bag.predict(digits), shares.argmax(axis=1))


def test_folds_may_lack_the_weights_of_a_class():
    weights = (LABELS != 0) * 1.0
    scores = cross_val_score(SVC(), X, LABELS, params={"sample_weight": weights}, error_score="raise")
    assert (scores < 0.75).all()  # all rows of the absent class are wrong
    search = KernelSearchCV(SVC(), C=[0.1, 1.0], cv=3).fit(X, LABELS, sample_weight=weights)
    assert search.best_estimator_.classes_.tolist() == [1, 2]


@pytest.mark.parametrize("name", [n for n, machine in WEIGHTED.items() if "class_weight" in machine.get_params()])
def test_class_weights_are_weights(name):
    machine = WEIGHTED[name]
    rows, y = data_of(machine)
    plain = fitted(machine.set_params(class_weight=None), rows, y)
    counts = np.bincount(y)
    for given, factors in (
        ({0: 1.5, 2: 0.75}, np.array([1.5, 1.0, 0.75])),
        ("balanced", len(y) / (3 * counts)),
    ):
        weighted = clone(machine).set_params(
            class_weight=given, **({"gamma": 0.05} if "gamma" in vars(machine) else {})
        )
        by_class = fitted(weighted, rows, y)
        by_row = fitted(weighted.set_params(class_weight=None), rows, y, factors[y])
        np.testing.assert_allclose(values(by_class, rows), values(by_row, rows), atol=2e-5)
        assert np.abs(values(by_class, rows) - values(plain, rows)).max() > 1e-4


def test_every_classifier_takes_class_weights():
    classifiers = [machine for machine in MACHINES.values() if is_classifier(machine)]
    assert {type(machine) for machine in classifiers} > {KernelPerceptron, KernelNeighborsClassifier}
    assert all("class_weight" in machine.get_params(deep=False) for machine in classifiers)


def test_class_weights_of_neighbours_weigh_votes():
    """If all rows vote, integer class weights are copies of the rows."""
    factors = np.array([3, 1, 2])
    copies = np.repeat(np.arange(89), factors[LABELS])
    weighted = KernelNeighborsClassifier(89, class_weight=dict(enumerate(factors))).fit(X, LABELS)
    copied = KernelNeighborsClassifier(copies.size).fit(X[copies], LABELS[copies])
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), rtol=1e-12)
    few = KernelNeighborsClassifier(5).fit(X, LABELS)
    shares = few.predict_proba(X) * factors
    weighted = clone(weighted).set_params(n_neighbors=5).fit(X, LABELS)
    np.testing.assert_allclose(weighted.predict_proba(X), shares / shares.sum(axis=1)[:, None], rtol=1e-12)
    np.testing.assert_array_equal(weighted.predict(X), shares.argmax(axis=1))
    assert (weighted.predict(X) != few.predict(X)).any()
    balanced = KernelNeighborsClassifier(89, class_weight="balanced").fit(X, LABELS)
    np.testing.assert_allclose(balanced.predict_proba(X), 1.0 / 3.0, rtol=1e-12)
    np.testing.assert_allclose(balanced.class_weight_, 89 / (3 * np.bincount(LABELS)))


@pytest.mark.parametrize("rule", ["scale", "median", "sigest"])
@pytest.mark.parametrize("machine", [SVC(), NuSVR(), OneClassSVM(), KernelLogisticRegression(), ParzenClassifier()])
def test_rules_for_gamma_count_copies(machine, rule):
    rows, y = data_of(machine)
    weights = WHOLE[: len(y)]
    copies = np.repeat(np.arange(len(y)), weights)
    machine = clone(machine).set_params(gamma=rule)
    one, other = fitted(machine, rows, y, weights.astype(float)), fitted(machine, rows[copies], y[copies])
    assert one.kernel_.gamma == pytest.approx(other.kernel_.gamma, rel=1e-9)
    assert one.kernel_.gamma != pytest.approx(fitted(machine, rows, y).kernel_.gamma, rel=1e-6)


# Class weights that make nu infeasible.


def two_classes(n_light=18):
    rows = np.concatenate([np.flatnonzero(LABELS == 0)[:24], np.flatnonzero(LABELS == 1)[:n_light]])
    return X[rows], LABELS[rows]


def shares(y, weights):
    totals = np.array([weights[k] * np.count_nonzero(y == k) for k in range(2)])
    return 2.0 * totals.min() / totals.sum()


@pytest.mark.parametrize("weights", [{0: 2.0, 1: 0.5}, {0: 1e3, 1: 1e-4}, {0: 0.25, 1: 4.0}], ids=str)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_class_weights_lower_nu_to_what_is_feasible(weights, kernel):
    rows, y = two_classes()
    most, heavier = shares(y, weights), 1.0 if weights[1] > weights[0] else -1.0
    assert most < 0.5 < shares(y, {0: 1.0, 1: 1.0})
    given = {"kernel": kernel, "class_weight": weights, "tol": 1e-9}
    with pytest.warns(
        UserWarning, match=r"nu=0\.5 is infeasible with this class_weight: it must be > 0 and at most \d"
    ):
        lowered = NuSVC(nu=0.5, **given).fit(rows, y)
    feasible = NuSVC(nu=most, **given).fit(rows, y)
    np.testing.assert_allclose(lowered.nu_, [most])
    np.testing.assert_allclose(feasible.nu_, [most])
    # The problem and its certificate use the feasible nu.
    certificate = lowered.certificate_
    assert certificate.status is Status.OPTIMAL
    assert certificate.verify().status is Status.OPTIMAL
    assert certificate.primal == pytest.approx(feasible.certificate_.primal, rel=1e-6)
    f, weighted = lowered.decision_function(rows), most / 0.5
    np.testing.assert_allclose(f, weighted * feasible.decision_function(rows) + (1.0 - weighted) * heavier, atol=1e-6)
    light = (y == 1) != (heavier > 0.0)
    assert (heavier * f[light]).min() == pytest.approx(1.0 - 2.0 * weighted, abs=1e-5)
    if weighted <= 0.5:
        assert (lowered.predict(rows[light]) == int(heavier > 0.0)).all()
    np.testing.assert_allclose(lowered.function_(rows) + lowered.intercept_, f, atol=1e-9)


def test_lowering_nu_is_continuous_and_independent_of_scale():
    rows, y = two_classes()
    weights = {0: 2.0, 1: 0.5}
    most = shares(y, weights)
    with pytest.warns(UserWarning, match="infeasible with this class_weight"):
        above = NuSVC(nu=most * (1.0 + 1e-5), class_weight=weights, tol=1e-9).fit(rows, y)
    below = NuSVC(nu=most * (1.0 - 1e-5), class_weight=weights, tol=1e-9).fit(rows, y)
    np.testing.assert_allclose(above.decision_function(rows), below.decision_function(rows), atol=1e-3)
    with pytest.warns(UserWarning, match="infeasible with this class_weight"):
        scaled = NuSVC(nu=most * (1.0 + 1e-5), class_weight={0: 2e6, 1: 5e5}, tol=1e-3).fit(rows, y)
    np.testing.assert_allclose(scaled.decision_function(rows), above.decision_function(rows), atol=1e-6)


def test_nu_is_lowered_for_each_pair_separately():
    weights = {0: 50.0}
    with pytest.warns(UserWarning, match="2 of 3 machines took the largest feasible nu"):
        machine = NuSVC(nu=0.5, class_weight=weights).fit(X, LABELS)
    counts = np.bincount(LABELS) * [50.0, 1.0, 1.0]
    expected = [min(0.5, 2.0 * min(a, b) / (a + b)) for a, b in (counts[[0, 1]], counts[[0, 2]], counts[[1, 2]])]
    np.testing.assert_allclose(machine.nu_, expected)
    assert machine.nu_[2] == 0.5
    assert (machine.predict(X) == 0).mean() > np.mean(LABELS == 0)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_what_the_data_make_infeasible_stays_an_error(scheme):
    rows, y = two_classes(n_light=3)
    for class_weight in (None, {0: 3.0}):
        with pytest.raises(ValueError, match=r"nu is infeasible: it must be > 0 and at most 0\.\d+"):
            NuSVC(nu=0.5, class_weight=class_weight, multi_class=scheme).fit(rows, y)
    assert NuSVC(nu=0.5, class_weight="balanced", multi_class=scheme).fit(rows, y).nu_[0] == 0.5


# Bad input.

WITH_TARGETS = [name for name, machine in MACHINES.items() if not is_outlier_detector(machine)]


def changed(y, value):
    return np.concatenate([np.asarray(y[:-1], dtype=float), [value]])


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_must_be_finite(name, value):
    rows, y = data_of(MACHINES[name])
    rows = rows.copy()
    rows[3, 2] = value
    with pytest.raises(ValueError, match=r"X must be finite|NaN|infinity"):
        clone(MACHINES[name]).fit(rows, y)


@pytest.mark.parametrize("name", WITH_TARGETS)
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda y: changed(y, np.nan),
            r"y contains NaN: .* but row \d+ \(counted from 0\) is nan.* Leave such rows out",
        ),
        (lambda y: changed(y, np.inf), r"y contains infinity: .* but row \d+ \(counted from 0\) is inf"),
        (lambda y: [*y[:7], None, *y[8:-1], None], r"y contains NaN: .* row 7 .* is None, and 1 more are not"),
        (lambda y: y[:-1], "inconsistent numbers of samples"),
        (lambda y: None, "y"),
    ],
    ids=["NaN", "infinity", "None in two rows", "another length", "none"],
)
def test_targets_must_match_the_kind_of_estimator(name, spoil, message):
    rows, y = data_of(MACHINES[name])
    with pytest.raises(ValueError, match=message):
        clone(MACHINES[name]).fit(rows, spoil(y))


@pytest.mark.parametrize("name", [name for name in WITH_TARGETS if name != "KernelRidge"])
def test_several_targets_are_refused_if_one_is_expected(name):
    rows, y = data_of(MACHINES[name])
    with pytest.raises(ValueError, match=r"y should be a 1d array, got .*\(\d+, 2\).* machine for each, as Multi"):
        clone(MACHINES[name]).fit(rows, np.column_stack([y, y]))


@pytest.mark.parametrize("name", [name for name in WITH_TARGETS if is_regressor(MACHINES[name])])
def test_targets_of_a_regression_are_numbers(name):
    rows, y = data_of(MACHINES[name])
    with pytest.raises(ValueError, match=r"y must hold numbers, but could not convert .*: 'many' \(row 3\)\. Classes"):
        clone(MACHINES[name]).fit(rows, [*y[:3], "many", *y[4:]])


def test_classes_are_of_one_kind():
    with pytest.raises(
        ValueError, match=r"y must hold classes of one kind, .* got int in row 0 and text in row 1\. Convert"
    ):
        SVC().fit(X[:4], np.array([0, "a", 1, "b"], dtype=object))


WITH_LABELS = {
    "search": lambda X, y: KernelSearchCV(SVC(), {"C": [1.0, 2.0]}, cv=2).fit(X, y),
    "search by leave-one-out": lambda X, y: KernelSearchCV(SVC(), {"C": [1.0]}, cv="leave_one_out").fit(X, y),
    "nested": lambda X, y: mercer.nested_cross_validate(KernelSearchCV(SVC(), {"C": [1.0]}, cv=2), X, y, cv=2),
    "compare": lambda X, y: mercer.compare(SVC(), SVC(C=2.0), X, y, cv=2),
    "five by two": lambda X, y: mercer.five_by_two_cv(SVC(), SVC(C=2.0), X, y),
    "leave-one-out": lambda X, y: mercer.leave_one_out(SVC(), X, y),
    "sealed split": lambda X, y: mercer.SealedSplit(X, y),
    "study": lambda X, y: mercer.study(X, y),
    "study of a column": lambda X, y: mercer.study({"x": X[:, 0], "kind": y}, "kind"),
    "doctor": lambda X, y: mercer.doctor(X, y),
    "model": lambda X, y: mercer.fit_model({"x": X[:, 0], "kind": y}, "kind", SVC()),
    "alignment": lambda X, y: mercer.alignment("linear", y, X),
}


@pytest.mark.parametrize("name", WITH_LABELS)
def test_labels_of_several_kinds_are_refused_everywhere(name):
    for y in (["a", 1] * 20, pd.Series(["a", 1] * 20, dtype="category")):
        with pytest.raises(ValueError, match=r"classes of one kind, .* text in row 0 and int in row 1\. Convert them"):
            WITH_LABELS[name](X[:40], y)
    for y in ([("a", 1), ("b", 2)] * 20, [frozenset("a"), frozenset("b")] * 20, pd.Series([("a",), ("b",)] * 20)):
        with pytest.raises(ValueError, match=r"(got the (tuple|frozenset) .* in row 0 of|a cell of type)"):
            WITH_LABELS[name](X[:40], y)


@pytest.mark.parametrize("name", [name for name, machine in MACHINES.items() if is_classifier(machine)])
@pytest.mark.parametrize(("kind", "called"), [(int, "int"), (bool, "bool")])
def test_classes_are_no_python_objects(name, kind, called):
    rows, y = data_of(MACHINES[name])
    y = (y == y[0]).astype(kind).astype(object)
    with pytest.raises(ValueError, match=rf"y holds Python objects \({called}\) .* for instance y\.astype\(int\) or"):
        clone(MACHINES[name]).fit(rows, y)


@pytest.mark.parametrize("name", [name for name, machine in MACHINES.items() if is_classifier(machine)])
def test_one_class_is_not_enough(name):
    with pytest.raises(ValueError, match="class"):
        clone(MACHINES[name]).fit(X, np.zeros(len(X), dtype=int))


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda w: np.where(np.arange(w.size) == 2, -1.0, w), r"sample_weight must hold finite numbers >= 0"),
        (lambda w: np.where(np.arange(w.size) == 2, np.nan, w), r"sample_weight must hold finite numbers >= 0|NaN"),
        (lambda w: w[:-1], "sample_weight"),
        (lambda w: 0.0 * w, "sample_weight must be positive"),
    ],
    ids=["negative", "NaN", "another length", "all zero"],
)
def test_invalid_weights_are_refused(name, weights, message):
    rows, y = data_of(WEIGHTED[name])
    with pytest.raises(ValueError, match=message):
        fitted(WEIGHTED[name], rows, y, weights(np.ones(len(y))))


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize(
    ("weights", "message", "kind"),
    [
        (lambda n: "a", r"got 'a'\.$", ValueError),
        (lambda n: ["1"] * 2 + ["many"] * (n - 2), r"got 'many' in row 2\.$", ValueError),
        (lambda n: [1.0, {}] + [1.0] * (n - 2), r"got \{\} in row 1\.$", TypeError),
        (lambda n: [[1.0], [1.0, 2.0]] + [[1.0]] * (n - 2), r"got \[1\.0\] in row 0\.$", ValueError),
        (lambda n: {}, r"got \{\}\.$", TypeError),
    ],
    ids=["text", "a row of text", "an object", "ragged", "a mapping"],
)
def test_weights_that_are_no_numbers_are_named(name, weights, message, kind):
    rows, y = data_of(WEIGHTED[name])
    with pytest.raises(kind, match=r"^sample_weight must hold finite numbers >= 0 \(0 leaves a row out\), " + message):
        fitted(WEIGHTED[name], rows, y, weights(len(y)))


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (
            NuSVC(nu=0.9),
            r"nu is infeasible: it must be > 0 and at most 0\.8\d+, twice the share .* Lower nu, or set class_weight",
        ),
        (NuSVC(nu=0.9, multi_class="ovr"), r"nu is infeasible: it must be > 0 and at most 0\.5\d+, twice the share"),
        (NuSVC(nu=0.0), r"nu must be a number > 0 and <= 1, got 0\.0"),
        (NuSVR(nu=1.2), r"nu must be a number > 0 and <= 1, got 1\.2"),
        (OneClassSVM(nu=-1), r"nu must be a number > 0 and <= 1, got -1"),
        (SVDD(C=1e-3), r"must sum to at least 1, .* C must be at least 0\.0113 \(got 0\.001\)"),
        (SVR(epsilon=-0.5), r"epsilon must be a number >= 0, got -0\.5"),
        (SVR(epsilon=np.inf), r"epsilon must be a finite number >= 0, got inf"),
        (QuantileSVR(quantile=1.0), r"quantile must be a number > 0 and < 1, got 1\.0"),
        (QuantileSVR(quantile=-0.1), r"quantile must be a number > 0 and < 1, got -0\.1"),
        (KernelRidge(alpha=-1.0), r"alpha must be .* >= 0, got -1\.0"),
        (SVC(shrinking="yes"), "shrinking must be True or False, got 'yes'"),
        (SVC(warm_start="no"), "warm_start must be True or False, got 'no'"),
        (NuSVR(warm_start=2), "warm_start must be True or False, got 2"),
        (SVDD(warm_start=None), "warm_start must be True or False, got None"),
        (SVC(cache_size=0), "cache_size must be a number > 0, got 0"),
        (SVC(random_state="seed"), "random_state must be None, an integer >= 0 or a RandomState, got 'seed'"),
        (SVR(verbose=-1), "verbose must be True, False or an integer >= 0, got -1"),
        (KernelRidge(kernel_params=3), "kernel_params must be a dict or None, got 3"),
        (SVC(class_weight={"a": 1.0}), r"class_weight names classes that y does not hold: \['a'\]"),
        (KernelNeighborsClassifier(class_weight=3), r'class_weight must be None, "balanced" or a mapping'),
        (RBFNetworkClassifier(class_weight=3), r'class_weight must be None, "balanced" or a mapping'),
    ],
    ids=repr,
)
def test_parameters_out_of_their_range(machine, message):
    rows, y = data_of(machine)
    with pytest.raises(ValueError, match=message):
        machine.fit(rows, y)
