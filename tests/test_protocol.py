"""The evaluation protocol: a seal that counts openings, paired tests of the right size, nested cross-validation."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn.svm
from joblib import parallel_config
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer, StandardScaler

from mercer import (
    SVC,
    SVDD,
    SVR,
    KernelPerceptron,
    KernelRidge,
    KernelSearchCV,
    LeastSquaresClassifier,
    LinearSVC,
    LogisticRegression,
    RBFNetworkClassifier,
    SealedSplit,
    compare,
    five_by_two_cv,
    nested_cross_validate,
)
from mercer.model_selection.comparison import corrected_t_test, five_by_two_tests, paired_difference
from mercer.model_selection.folds import folds
from mercer.model_selection.metrics import share_interval, wilson_interval
from mercer.model_selection.seal import SealedTest
from mercer.studies.models import as_model
from mercer.studies.models.model_file import load_model, save_model
from mercer.studies.models.seal_record import read_seal

pytestmark = pytest.mark.full  # whole programs and many repetitions: not in test-fast

IRIS, KINDS = load_iris(return_X_y=True)


def sealed_iris(**options):
    return SealedSplit(IRIS, KINDS, **options)


def fitted(sealed):
    return SVC().fit(sealed.X_rest, sealed.y_rest)


# The sealed split.


def test_the_first_look_is_clean_and_every_later_one_is_not():
    sealed = sealed_iris()
    machine = fitted(sealed)
    assert repr(sealed) == "SealedSplit(112 rows free, 38 sealed, unopened)"
    first = sealed.open(machine)
    assert first.clean
    assert str(first).endswith("on 38 sealed rows; look number 1 (final estimate), clean")
    second = sealed.open(machine, purpose="curiosity")
    assert not second.clean
    assert str(second).endswith("look number 2 (curiosity), no longer clean: these rows had been seen before")
    assert second.value == first.value
    assert repr(sealed) == "SealedSplit(112 rows free, 38 sealed, opened 2 times)"
    assert [opening.purpose for opening in sealed.openings] == ["final estimate", "curiosity"]


def test_the_sealed_rows_are_those_of_the_seal_and_the_estimate_is_theirs():
    sealed = sealed_iris(test_size=0.3, seed=5, copies="apart")
    machine = fitted(sealed)
    rows = SealedTest.stratified(KINDS, test_size=0.3, seed=5).open(lambda rows: rows, "peek").value
    np.testing.assert_array_equal(np.sort([*rows, *sealed.rest]), np.arange(150))
    np.testing.assert_array_equal(sealed.X_rest, IRIS[sealed.rest])
    estimate = sealed.open(machine)
    wrong = machine.predict(IRIS[rows]) != KINDS[rows]
    np.testing.assert_array_equal(estimate.losses, wrong)
    assert estimate.interval == wilson_interval(int(wrong.sum()), 45)
    assert sealed.open(machine, level=0.5).interval == wilson_interval(int(wrong.sum()), 45, 0.5)


def test_a_machine_that_is_not_fitted_leaves_the_seal_alone():
    sealed = sealed_iris()
    with pytest.raises(NotFittedError, match=r"this SVC is not fitted: call fit\(sealed\.X_rest, .* was not opened"):
        sealed.open(SVC())
    with pytest.raises(NotFittedError, match="this Pipeline is not fitted"):
        sealed.open(fitted(sealed), make_pipeline(StandardScaler(), SVC()))
    with pytest.raises(TypeError, match=r"open needs a fitted machine, got <class .*SVC'>\. The test part was not"):
        sealed.open(SVC)
    with pytest.raises(TypeError, match="open needs a fitted machine: open"):
        sealed.open()
    with pytest.raises(TypeError, match="StandardScaler has no predict"):
        sealed.open(StandardScaler().fit(IRIS))
    with pytest.raises(ValueError, match="loss must be one of 'zero_one', 'squared', 'absolute', a function, or None"):
        sealed.open(fitted(sealed), loss="hinge")
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1, got 95"):
        sealed.open(fitted(sealed), level=95)
    with pytest.raises(
        ValueError, match=r"for the 4 columns of X, but this SVC takes 2: .* The test part was not opened"
    ):
        sealed.open(SVC().fit(sealed.X_rest[:, :2], sealed.y_rest))
    assert sealed.openings == ()


@pytest.mark.parametrize("as_other", [lambda codes: codes + 10, lambda codes: codes.astype(str)], ids=["10", "text"])
def test_a_machine_for_other_classes_leaves_the_seal_alone(as_other):
    codes = np.unique(KINDS, return_inverse=True)[1]
    sealed = SealedSplit(IRIS, codes)
    machine = SVC().fit(sealed.X_rest, as_other(sealed.y_rest))
    message = (
        r"classes of y, 0, 1, 2, but this SVC was fitted to '?1?0'?, .*: fit it to sealed\.y_rest\. .* was not opened"
    )
    with pytest.raises(ValueError, match=message):
        sealed.open(SVC().fit(sealed.X_rest, sealed.y_rest), machine)
    assert sealed.openings == ()
    assert sealed.open(machine, loss=lambda truth, predicted: as_other(truth) != predicted).value < 0.2


def test_a_failed_opening_counts():
    sealed = sealed_iris()
    with pytest.raises(ValueError, match=r"loss must give one finite number for each of the 38 rows, got shape \(\)"):
        sealed.open(fitted(sealed), loss=lambda truth, predicted: 1.0)
    assert not sealed.open(fitted(sealed)).clean


def test_several_machines_in_one_look():
    sealed = sealed_iris()
    one, two = sealed.open(fitted(sealed), DummyClassifier().fit(sealed.X_rest, sealed.y_rest), purpose="compare")
    assert one.clean
    assert two.clean
    assert len(sealed.openings) == 1
    difference = paired_difference(one.losses == 0, two.losses == 0)
    assert difference.p_value < 0.001 < difference.difference.low


def test_the_record_survives_pickling():
    sealed = sealed_iris()
    machine = fitted(sealed)
    sealed.open(machine)
    again = pickle.loads(pickle.dumps(sealed))
    assert not again.open(machine).clean


def test_numbers_have_an_interval_of_their_own():
    X, y = load_diabetes(return_X_y=True)
    sealed = SealedSplit(X, y)
    machine = SVR(C=100.0).fit(sealed.X_rest, sealed.y_rest)
    estimate = sealed.open(machine)
    rows = np.setdiff1d(np.arange(len(y)), sealed.rest)
    squares = (machine.predict(X[rows]) - y[rows]) ** 2
    expected = stats.ttest_1samp(squares, 0.0).confidence_interval(0.95)
    assert (estimate.loss, estimate.value) == ("squared", pytest.approx(squares.mean()))
    assert (estimate.interval.low, estimate.interval.high) == pytest.approx((expected.low, expected.high))
    absolute = sealed.open(machine, loss="absolute")
    assert absolute.value == pytest.approx(np.abs(machine.predict(X[rows]) - y[rows]).mean())
    assert "absolute loss" in str(absolute)


MADE_OF_ALL = {
    "svc": SVC(),
    "linear": LinearSVC(),
    "logistic": LogisticRegression(),
    "ridge": KernelRidge(),
    "pipeline": make_pipeline(StandardScaler(), PCA(2), SVC()),
    "search": KernelSearchCV(SVC(), C=[1.0, 2.0]),
    "support vectors of another": sklearn.svm.SVC(),
    "neighbours of another": KNeighborsClassifier(),
}


@pytest.mark.parametrize("name", MADE_OF_ALL)
def test_a_machine_that_was_fitted_to_sealed_rows_is_found_out(name):
    sealed = SealedSplit(IRIS, KINDS)
    machine = clone(MADE_OF_ALL[name])
    with pytest.raises(ValueError, match=r"\d+ of the 38 sealed rows are among those that this \w+ was fitted to"):
        sealed.open(machine.fit(IRIS, KINDS))
    assert sealed.openings == ()
    estimate = sealed.open(machine.fit(sealed.X_rest, sealed.y_rest))
    assert estimate.clean
    is_certain = not name.startswith("support")  # these are some of the rows only
    assert str(estimate).endswith("look number 1 (final estimate), clean") is is_certain


def test_a_machine_whose_rows_are_unknown_is_clean_on_a_condition():
    sealed = SealedSplit(IRIS, KINDS)
    estimate = sealed.open(GaussianNB().fit(IRIS, KINDS))
    assert estimate.unknown == "GaussianNB"
    assert "clean if the machine was fitted to free rows alone, which cannot be known of a GaussianNB" in str(estimate)
    rows = SealedSplit(sparse.csr_array(IRIS), KINDS)
    with pytest.raises(ValueError, match="sealed rows are among"):
        rows.open(SVC().fit(sparse.csr_array(IRIS), KINDS))
    restored = pickle.loads(pickle.dumps(SVC().fit(IRIS, KINDS)))  # of the rows, support vectors are left
    with pytest.raises(ValueError, match="sealed rows are among"):
        rows.open(restored)


def test_groups_are_sealed_whole_and_counted_whole():
    X, y = load_breast_cancer(return_X_y=True)
    X, groups = StandardScaler().fit_transform(X), np.arange(len(y)) // 7
    sealed = SealedSplit(X, y, groups=groups)
    rows = np.setdiff1d(np.arange(len(y)), sealed.rest)
    assert not set(groups[rows]) & set(sealed.groups_rest)
    machine = SVC(C=0.01).fit(sealed.X_rest, sealed.y_rest)
    opened = sealed.open(machine)
    wrong = machine.predict(X[rows]) != y[rows]
    off = np.array([(wrong[groups[rows] == group] - wrong.mean()).sum() for group in np.unique(groups[rows])])
    variance = len(off) / (len(off) - 1) * (off**2).sum() / len(rows) ** 2
    assert opened.grouped
    interval = share_interval(wrong.mean(), variance, len(rows), len(off) - 1)
    assert opened.interval.high == pytest.approx(interval.high)
    # Copies of rows give no new information: an interval that counts rows would shrink.
    many = SealedSplit(np.repeat(IRIS[:, :1], 9, axis=0), np.repeat(KINDS, 9), groups=np.repeat(np.arange(150), 9))
    estimate = many.open(SVC().fit(many.X_rest, many.y_rest))
    n_right = round((1 - estimate.value) * estimate.n)
    by_rows = wilson_interval(n_right, estimate.n)
    assert estimate.interval.high - estimate.interval.low > 2 * (by_rows.high - by_rows.low)


@pytest.mark.parametrize("kind", [sparse.csr_array, pd.DataFrame], ids=lambda kind: kind.__name__)
def test_tables_of_any_kind(kind):
    sealed = SealedSplit(kind(IRIS), pd.Series(KINDS).map({0: "a", 1: "b", 2: "c"}))
    expected = sealed_iris()
    assert type(sealed.X_rest) is kind
    estimate = sealed.open(fitted(sealed))
    np.testing.assert_array_equal(sealed.rest, expected.rest)
    assert estimate.value == expected.open(fitted(expected)).value


def test_novelty_detectors_are_judged_by_their_signs():
    y = np.where(KINDS == 0, 1, -1)
    sealed = SealedSplit(IRIS, y)
    machine = SVDD(C=0.1, kernel="linear").fit(sealed.X_rest[sealed.y_rest == 1])
    assert sealed.open(machine).value < 0.2


BAD_SPLITS = {
    "y": ({"y": KINDS[:9]}, r"y must hold one class or number for each of the 150 rows of X, got shape \(9,\)"),
    "NaN": (
        {"y": np.where(np.isin(np.arange(150), (4, 9)), np.nan, KINDS)},
        r"y must hold one class or number for each row, but row 4 \(counted from 0\) holds nan, and 1 more hold none",
    ),
    "no group": ({"groups": [None, *range(149)]}, r"groups must hold one group for each row, but row 0 .* holds None"),
    "groups": (
        {"groups": KINDS[:149]},
        r"groups must hold one group for each of the 150 rows of X, got shape \(149,\)",
    ),
    "few groups": (
        {"groups": KINDS},
        r"groups must be enough for 2 on either side, but a test part of 0.25 takes 1 of 3: name more groups",
    ),
    "both": ({"groups": KINDS, "stratify": True}, "stratify must be False or None where there are groups, got True"),
    "share": ({"test_size": 1.0}, r"test_size must lie between 0 and 1, got 1\.0"),
    "number": ({"test_size": 50}, r"test_size .* got 50: it is the share of rows to seal, not their number"),
    "no class": ({"test_size": 0.01}, "a test part of 0.01 has 1 rows, fewer than there are classes"),
    "rare": ({"y": np.r_[KINDS[:-1], 3]}, "every class must have 2 rows at least, one for either side, but 3 has 1"),
    "one row": (
        {"y": IRIS[:, 0], "test_size": 0.005},
        r"test_size must seal at least 2 rows, but 0.005 of 150 rows seals 1",
    ),
}


@pytest.mark.parametrize("case", BAD_SPLITS)
def test_data_that_cannot_be_sealed_are_refused(case):
    options, message = BAD_SPLITS[case]
    with pytest.raises(ValueError, match=message):
        SealedSplit(**{"X": IRIS, "y": KINDS, **options})


def test_numbers_that_look_like_classes():
    years = np.arange(150) + 1900
    with pytest.raises(ValueError, match="set stratify=False where y holds numbers"):
        SealedSplit(IRIS, years)
    assert SealedSplit(IRIS, years, stratify=False).n_test == 38


# Folds.

GROUPS = np.repeat(np.arange(15), 10)
NAMES = np.array(["a", "b", "c"], dtype=object)[KINDS]

BAD_FOLDS = {
    "one": ((1, KINDS, None), "cv must be a number of folds between 2 and the 150 rows, got 1"),
    "many": ((151, KINDS, None), "cv must be a number of folds between 2 and the 150 rows, got 151"),
    "class": ((51, KINDS, None), "cv asks for 51 folds, but the class 0 has 50 rows: take fewer folds"),
    "class of a splitter": ((StratifiedKFold(51), KINDS, None), "cv asks for 51 folds, but the class 0 has 50 rows"),
    "groups": ((16, KINDS, GROUPS), "cv must be at most the number of groups, 15, got 16"),
    "short groups": ((5, KINDS, GROUPS[:-1]), r"groups must hold one group for each of the 150 rows .* shape \(149,\)"),
    "short y": ((5, KINDS[:-1], None), r"y must hold one class for each of the 150 rows of X, got shape \(149,\)"),
    "no split": (([], KINDS, None), "cv must give one pair of training and test rows at least"),
    "missing": ((KFold(3), KINDS, None), "the training rows of split 0 hold no row of the class 0: take a stratified"),
    "class of objects": ((51, NAMES, None), "cv asks for 51 folds, but the class 'a' has 50 rows: take fewer folds"),
    "missing object": ((KFold(3), NAMES, None), "split 0 hold no row of the class 'a': take a stratified"),
}


@pytest.mark.parametrize("case", BAD_FOLDS)
def test_data_that_cannot_be_split_are_refused(case):
    (cv, y, groups), message = BAD_FOLDS[case]
    with pytest.raises(ValueError, match=message):
        folds(cv, IRIS, y, groups, classifier=True)


SPLITTERS = {
    "stratified": (5, None, StratifiedKFold(5)),
    "hold-out": (ShuffleSplit(1, random_state=0), None, ShuffleSplit(1, random_state=0)),
    "leave one out": (LeaveOneOut(), None, LeaveOneOut()),
    "groups by a splitter": (GroupKFold(3), GROUPS, GroupKFold(3)),
}


@pytest.mark.parametrize("case", SPLITTERS)
def test_splits_are_those_of_scikit_learn(case):
    cv, groups, splitter = SPLITTERS[case]
    actual, expected = folds(cv, IRIS, KINDS, groups, classifier=True), splitter.split(IRIS, KINDS, groups)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(np.concatenate(one), np.concatenate(other))


@pytest.mark.parametrize("classifier", [True, False])
def test_a_number_of_folds_keeps_groups_whole(classifier):
    for train, test in folds(4, IRIS, KINDS, GROUPS, classifier=classifier):
        assert not set(GROUPS[train]) & set(GROUPS[test])


# Paired tests: formulas.


def test_the_corrected_t_test_by_hand():
    tested = corrected_t_test([0.02, 0.03, 0.01, 0.02], n_train=75, n_test=25)
    t = 0.02 / math.sqrt((1 / 4 + 1 / 3) * 0.0002 / 3)  # 3.2071
    assert tested.statistic == pytest.approx(t)
    assert tested.p_value == pytest.approx(2 * stats.t.sf(t, 3))
    assert tested.difference.low == pytest.approx(0.02 * (1 - stats.t.ppf(0.975, 3) / t))
    # Without its correction it is the paired t test.
    plain = corrected_t_test([0.02, 0.03, 0.01, 0.02], n_train=1e18, n_test=1.0)
    assert plain.p_value == pytest.approx(stats.ttest_1samp([0.02, 0.03, 0.01, 0.02], 0.0).pvalue)


def test_five_by_two_by_hand():
    p = [[0.03, 0.01], [0.02, 0.02], [0.04, 0.02], [0.01, 0.03], [0.02, 0.00]]
    tests = five_by_two_tests(p)  # the s² are 2e-4, 0, 2e-4, 2e-4, 2e-4; the squares sum to 52e-4
    assert tests.t.statistic == pytest.approx(0.03 / math.sqrt(8e-4 / 5))
    assert tests.F.statistic == pytest.approx(52e-4 / 16e-4)
    assert tests.t.p_value == pytest.approx(2 * stats.t.sf(tests.t.statistic, 5))
    assert tests.F.p_value == pytest.approx(stats.f.sf(3.25, 10, 5))
    assert tests.F.difference.value == pytest.approx(0.02)
    assert tests.t.difference.low == pytest.approx(0.03 - stats.t.ppf(0.975, 5) * math.sqrt(1.6e-4))
    assert str(tests.F) == f"5x2cv combined F test: difference 0.02, p = {tests.F.p_value:.2g}"


@pytest.mark.parametrize("shape", [(4,), (5, 2)])
def test_machines_that_never_differ(shape):
    zeros = np.zeros(shape)
    statistic = five_by_two_tests(zeros).F if shape == (5, 2) else corrected_t_test(zeros, n_train=3, n_test=1)
    assert (statistic.p_value, statistic.difference.value) == (1.0, 0.0)
    same = five_by_two_tests(zeros + 0.1).F if shape == (5, 2) else corrected_t_test(zeros + 0.1, n_train=3, n_test=1)
    assert same.p_value == 0.0


def counts(both, first, second, neither):
    one = np.repeat([True, True, False, False], [both, first, second, neither])
    return one, np.repeat([True, False, True, False], [both, first, second, neither])


def test_newcombes_interval_is_the_published_one():
    difference = paired_difference(*counts(20, 12, 2, 16))  # Newcombe (1998), 50 pairs: 0.0562 to 0.3292
    assert difference.difference.value == pytest.approx(0.2)
    assert (difference.difference.low, difference.difference.high) == pytest.approx((0.0562, 0.3292), abs=6e-5)
    assert difference.p_value == pytest.approx(stats.binomtest(2, 14).pvalue)


@pytest.mark.parametrize("table", [(20, 12, 2, 16), (14, 5, 0, 22), (0, 3, 40, 2), (50, 0, 0, 0), (0, 9, 0, 0)])
def test_newcombes_interval_is_consistent(table):
    difference, other = (paired_difference(*pair) for pair in (counts(*table), counts(*table)[::-1]))
    assert -1 <= difference.difference.low < difference.difference.high <= 1
    assert (other.difference.low, other.difference.high) == (-difference.difference.high, -difference.difference.low)
    assert difference.difference.low <= difference.difference.value <= difference.difference.high


BAD_TESTS = {
    "one difference": (lambda: corrected_t_test([0.1], n_train=1, n_test=1), "finite and two numbers or more"),
    "NaN": (lambda: corrected_t_test([0.1, math.nan], n_train=1, n_test=1), "differences must be finite"),
    "no rows": (lambda: corrected_t_test([0.1, 0.2], n_train=0, n_test=1), "n_train and n_test must be positive"),
    "shape": (lambda: five_by_two_tests(np.zeros((2, 5))), r"differences must be finite and of shape \(5, 2\)"),
    "level": (lambda: five_by_two_tests(np.zeros((5, 2)), level=1.0), "level must lie between 0 and 1"),
    "numbers": (lambda: paired_difference([0, 1], [True, False]), "first_right must be an array of True and False"),
    "rows": (lambda: paired_difference([True], [True, False]), "must be about the same rows, got 1 and 2"),
}


@pytest.mark.parametrize("case", BAD_TESTS)
def test_bad_input_of_tests_is_named(case):
    call, message = BAD_TESTS[case]
    with pytest.raises(ValueError, match=message):
        call()


# Paired tests: their error rates on data.


class Nearest(ClassifierMixin, BaseEstimator):
    """The class with the nearer mean in one column."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        x = X[:, self.column]
        self.classes_, self.means_ = np.array([0, 1]), np.array([x[y == 0].mean(), x[y == 1].mean()])
        return self

    def predict(self, X):
        return np.abs(X[:, self.column, None] - self.means_).argmin(axis=1)

    def score(self, X, y):
        return np.mean(self.predict(X) == y)


def rejected(test, n_runs, apart):
    """The share of runs in which a test at 5 % finds a difference; the second column is worse by `apart`."""
    rng, count = np.random.default_rng(0), 0
    for seed in range(n_runs):
        y = np.arange(80) % 2
        X = rng.standard_normal((80, 2)) + y[:, None] * [1.5, 1.5 - apart]
        count += test(Nearest(0), Nearest(1), X, y, seed) < 0.05
    return count / n_runs


TESTS = {
    "corrected t": lambda a, b, X, y, seed: (
        compare(a, b, X, y, cv=StratifiedKFold(10, shuffle=True, random_state=seed)).p_value
    ),
    "5x2 t": lambda a, b, X, y, seed: five_by_two_cv(a, b, X, y, seed=seed).t.p_value,
    "5x2 F": lambda a, b, X, y, seed: five_by_two_cv(a, b, X, y, seed=seed).F.p_value,
}


@pytest.mark.parametrize("test", TESTS)
def test_equal_machines_are_rarely_told_apart_and_different_ones_often(test):
    # 5 % of 120 runs are 6. More than 12 (10 %) would happen by chance less than once in a hundred times.
    assert rejected(TESTS[test], 120, apart=0.0) <= 0.10
    assert rejected(TESTS[test], 30, apart=1.5) >= 0.5


@pytest.mark.slow
def test_the_usual_t_test_tells_equal_machines_apart_too_often():
    def repeated(correct):
        def p_value(a, b, X, y, seed):
            cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=8, random_state=seed)
            comparison = compare(a, b, X, y, cv=cv)
            return comparison.p_value if correct else corrected_by_nothing(comparison, len(y))

        return p_value

    def corrected_by_nothing(differences, n):
        del n
        statistic = differences.statistic * math.sqrt((1 / 16 + 1.0) / (1 / 16))
        return 2 * stats.t.sf(abs(statistic), 15)

    assert rejected(repeated(True), 60, apart=0.0) <= 0.10
    assert rejected(repeated(False), 60, apart=0.0) >= 0.25


def test_a_comparison_is_that_of_scores_on_the_same_splits():
    one, two = make_pipeline(StandardScaler(), SVC()), SVC(C=0.05)
    with parallel_config("threading"):
        comparison = compare(one, two, IRIS, KINDS, cv=5, n_jobs=2)
    differences = cross_val_score(one, IRIS, KINDS, cv=5) - cross_val_score(two, IRIS, KINDS, cv=5)
    assert comparison == corrected_t_test(differences, n_train=120, n_test=30)
    X, y = load_diabetes(return_X_y=True)
    scoring = "neg_mean_absolute_error"
    machines = SVR(), SVR(C=100.0)
    differences = np.subtract(*(cross_val_score(machine, X, y, cv=10, scoring=scoring) for machine in machines))
    expected = corrected_t_test(differences, n_train=442 * 0.9, n_test=44.2)
    comparison = compare(*machines, X, y, scoring=scoring)
    assert (comparison.statistic, comparison.p_value) == pytest.approx((expected.statistic, expected.p_value))


def test_a_comparison_by_groups_needs_them_whole():
    comparison = compare(SVC(), SVC(C=0.05), IRIS, np.tile([0, 1], 75), cv=3, groups=GROUPS)
    assert -1.0 <= comparison.difference.value <= 1.0
    with pytest.raises(ValueError, match="groups must hold one group for each of the 150 rows"):
        compare(SVC(), SVC(), IRIS, KINDS, groups=GROUPS[:5])


@pytest.mark.parametrize("test", [compare, five_by_two_cv])
def test_accuracy_and_r2_are_not_compared(test):
    y = np.tile([0, 1], 75)
    with pytest.raises(ValueError, match="first is a classifier and second is none: accuracy and R² cannot"):
        test(SVC(), SVR(), IRIS, y)
    with pytest.raises(ValueError, match="first is none and second is a classifier"):
        test(SVR(), SVC(), IRIS, y)
    test(SVC(), SVR(), IRIS, y, scoring="neg_mean_squared_error")


@pytest.mark.parametrize("test", [compare, five_by_two_cv])
@pytest.mark.parametrize("other", ["linear", SVC, None])
def test_only_machines_are_compared(test, other):
    for name, machines in {"first": (other, SVC()), "second": (SVC(), other)}.items():
        with pytest.raises(TypeError, match=rf"{name} must be a machine to fit, such as SVC\(\), got {other!r}"):
            test(*machines, IRIS, KINDS)


def test_a_score_that_is_no_number():
    with pytest.raises(ValueError, match="scoring must give finite numbers, but the difference on split 0 is nan"):
        compare(SVC(), SVC(), IRIS, KINDS, cv=3, scoring=lambda machine, X, y: math.nan)


def test_the_halves_of_five_by_two():
    first = five_by_two_cv(SVC(), SVC(C=0.05), IRIS, KINDS, seed=1)
    with parallel_config("threading"):
        again = five_by_two_cv(SVC(), SVC(C=0.05), IRIS, KINDS, seed=1, n_jobs=2)
    np.testing.assert_array_equal(first.differences, again.differences)
    other = five_by_two_cv(SVC(C=0.02), SVC(), IRIS, KINDS, seed=2)
    assert len({tuple(pair) for pair in other.differences}) > 1  # each repetition uses another split
    with pytest.raises(ValueError, match="cv asks for 2 folds, but the class 3 has 1 row"):
        five_by_two_cv(SVC(), SVC(), IRIS, np.r_[KINDS[:-1], 3])


# Nested cross-validation.

GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0]}


def test_nested_cross_validation_is_a_search_in_every_fold():
    nested = nested_cross_validate(KernelSearchCV(SVC(), **GRID, cv=3), IRIS, KINDS, cv=4)
    np.testing.assert_allclose(nested.scores, cross_val_score(GridSearchCV(SVC(), GRID, cv=3), IRIS, KINDS, cv=4))
    assert [search.best_params_ for search in nested.searches] == list(nested.best_params)
    np.testing.assert_array_equal(nested.inner_scores, [search.best_score_ for search in nested.searches])
    variance = (1.0 / 4.0 + 37.5 / 112.5) * nested.scores.var(ddof=1)
    assert nested.interval == share_interval(nested.scores.mean(), variance, 150.0, 3)
    assert nested.optimism == pytest.approx(nested.inner_scores.mean() - nested.scores.mean())
    assert "nested cross-validation: score 0.9" in str(nested)


@pytest.mark.parametrize(("scoring", "is_share"), [(None, True), ("f1", True), ("neg_log_loss", False)])
def test_intervals_of_shares_stay_between_0_and_1(scoring, is_share):
    X = np.random.default_rng(3).standard_normal((24, 2))
    y = (X[:, 0] > 0.0).astype(int)
    search = GridSearchCV(SVC(probability=scoring == "neg_log_loss"), {"C": [1.0]}, cv=2)
    nested = nested_cross_validate(search, X, y, cv=4, scoring=scoring)
    symmetric = corrected_t_test(nested.scores, n_train=18, n_test=6).difference
    assert symmetric.high > 1.0 or not is_share  # the plain interval leaves [0, 1]
    assert (nested.interval == symmetric) is not is_share
    assert not is_share or 0.0 <= nested.interval.low < nested.interval.value <= nested.interval.high <= 1.0


def test_an_interval_of_a_share_with_binomial_variance_is_wilsons():
    interval, wilson = share_interval(0.8, 0.8 * 0.2 / 50, 50, 10**9), wilson_interval(40, 50)
    assert (interval.low, interval.high) == pytest.approx((wilson.low, wilson.high), abs=1e-6)
    for share in (0.0, 1.0):  # no spread, but still uncertainty
        interval, wilson = share_interval(share, 0.0, 50, 10**9), wilson_interval(int(50 * share), 50)
        assert (interval.low, interval.high) == pytest.approx((wilson.low, wilson.high), abs=1e-6)
    assert share_interval(0.9, 0.02, 50, 3).high < 1.0


def test_a_search_on_noise_is_optimistic_and_nesting_is_not():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)), np.arange(60) % 2
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1, 1.0, 10.0]}
    nested = nested_cross_validate(KernelSearchCV(SVC(), **grid, cv=3), X, y)
    assert nested.optimism > 0.05
    assert nested.interval.low <= 0.5


def test_groups_reach_the_search():
    y = np.tile([0, 1], 75)
    search = GridSearchCV(SVC(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))
    nested = nested_cross_validate(search, IRIS, y, cv=3, groups=GROUPS, scoring="balanced_accuracy")
    assert nested.scores.shape == (3,)
    with pytest.raises(ValueError, match="groups must hold one group"):
        nested_cross_validate(search, IRIS, y, groups=GROUPS[1:])


def test_objects_that_are_no_search_are_refused():
    with pytest.raises(TypeError, match=r"search must be a search such as KernelSearchCV or GridSearchCV, got SVC\(\)"):
        nested_cross_validate(SVC(), IRIS, KINDS)
    with pytest.raises(TypeError, match="search must refit its best setting, got refit=False"):
        nested_cross_validate(GridSearchCV(SVC(), GRID, refit=False), IRIS, KINDS)
    with pytest.raises(ValueError, match="cv asks for 51 folds"):
        nested_cross_validate(GridSearchCV(SVC(), GRID), IRIS, KINDS, cv=51)
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 0"):
        nested_cross_validate(GridSearchCV(SVC(), GRID), IRIS, KINDS, level=0)


# The record of the seal is stored with the machine.


def test_a_model_file_says_how_often_the_test_part_was_opened(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    sealed = SealedSplit(X, y)
    machine = SVC(C=0.1).fit(sealed.X_rest, sealed.y_rest)
    save_model(tmp_path / "m", as_model(machine, sealed.X_rest, sealed.y_rest))
    assert load_model(tmp_path / "m").seal is None  # this machine was not evaluated on the sealed rows
    sealed.open(machine)
    model = as_model(machine, sealed.X_rest, sealed.y_rest)
    save_model(tmp_path / "m", model)
    once = load_model(tmp_path / "m").seal
    assert once.n_test == sealed.n_test
    assert once.openings == sealed.openings
    assert once.clean
    assert str(once).startswith(f"test part of {sealed.n_test} rows, sealed 20")
    assert "opened once (final estimate, 20" in str(once)
    other = make_pipeline(StandardScaler(), SVC()).fit(sealed.X_rest, sealed.y_rest)
    sealed.open(other, purpose="another try")
    assert not machine.seal_.clean  # also for the first machine: the user has seen two results before choosing
    save_model(tmp_path / "m", model)
    twice = load_model(tmp_path / "m").seal
    assert [one.purpose for one in twice.openings] == ["final estimate", "another try"]
    assert [one.number for one in twice.openings] == [1, 2]
    assert str(twice).endswith("after the first look it is no longer clean")
    assert other[-1].seal_ is other.seal_ is machine.seal_
    assert pickle.loads(pickle.dumps(machine)).seal_ == machine.seal_
    assert not hasattr(clone(machine), "seal_")


MACHINES_OF_A_RECORD = {
    "SVC": SVC(),
    "KernelRidge": KernelRidge(),
    "LogisticRegression": LogisticRegression(),
    "LeastSquaresClassifier": LeastSquaresClassifier(),
    "RBFNetworkClassifier": RBFNetworkClassifier(5),
    "KernelPerceptron": KernelPerceptron(2),
}


@pytest.mark.filterwarnings("ignore:KernelPerceptron made mistakes")
@pytest.mark.parametrize("machine", MACHINES_OF_A_RECORD.values(), ids=MACHINES_OF_A_RECORD)
def test_a_second_fit_drops_the_record_of_the_seal(machine):
    X, y = load_breast_cancer(return_X_y=True)
    sealed = SealedSplit(X[:120] / X.max(axis=0), y[:120])
    machine = clone(machine).fit(sealed.X_rest, sealed.y_rest)
    sealed.open(machine)
    assert machine.seal_.openings == sealed.openings
    machine.fit(X[:120] / X.max(axis=0), y[:120])  # fitted on the sealed rows too
    assert not hasattr(machine, "seal_")


def test_forget_and_partial_fit_drop_the_record_of_the_seal():
    X, y = load_breast_cancer(return_X_y=True)
    sealed = SealedSplit(X[:120] / X.max(axis=0), y[:120])
    for change in (lambda one: one.forget([0]), lambda one: one.partial_fit(sealed.X_rest[:2], sealed.y_rest[:2])):
        machine = SVC().fit(sealed.X_rest, sealed.y_rest)
        sealed.open(machine)
        assert not hasattr(change(machine), "seal_")


def test_a_search_hands_the_record_on():
    X, y = load_breast_cancer(return_X_y=True)
    sealed = SealedSplit(X, y)
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0]}, cv=2)
    sealed.open(search.fit(sealed.X_rest, sealed.y_rest))
    assert search.best_estimator_[-1].seal_ is search.seal_


def test_a_failed_opening_is_in_the_record_of_the_machine():
    X, y = load_breast_cancer(return_X_y=True)
    sealed = SealedSplit(X, y)
    machine = SVC().fit(sealed.X_rest, sealed.y_rest)
    with pytest.raises(ValueError, match="loss must give one finite number"):
        sealed.open(machine, loss=lambda truth, predicted: np.nan)
    assert len(machine.seal_.openings) == 1
    assert "never opened" in str(SealedTest.stratified(y).seal)


@pytest.mark.parametrize(
    "entry",
    [
        7,
        {},
        {"n_test": 0, "sealed_at": "2026-01-01T00:00:00+00:00", "openings": []},
        {"n_test": 9, "sealed_at": "2026-01-01", "openings": []},
        {"n_test": 9, "sealed_at": "2026-01-01T00:00:00+00:00", "openings": [{"purpose": 1, "time": "x"}]},
        {"n_test": 9, "sealed_at": "2026-01-01T00:00:00+00:00", "openings": [{"purpose": "a", "time": "x"}]},
    ],
)
def test_an_invalid_record_is_refused(entry):
    with pytest.raises((ValueError, TypeError, KeyError)):
        read_seal(entry)


def _kernel_values(form):
    """Rows, classes, and the values of the linear kernel in a container of this form."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3)).round(2)
    y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    return X, y, form(X @ X.T)


PAIRWISE = {
    "machine": lambda kernel: SVC(kernel=kernel),
    "pipeline": lambda kernel: make_pipeline(*[KernelCenterer()] * (kernel == "precomputed"), SVC(kernel=kernel)),
    "GridSearchCV": lambda kernel: GridSearchCV(SVC(kernel=kernel), {"C": [0.1, 1.0]}, cv=3),
    "KernelSearchCV": lambda kernel: KernelSearchCV(SVC(kernel=kernel), C=[0.1, 1.0], cv=3),
}
FORMS = [np.asarray, sparse.csr_array, pd.DataFrame, np.ndarray.tolist]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, np.asarray) for name in PAIRWISE),
        *(pytest.param("GridSearchCV", form, marks=pytest.mark.slow) for form in FORMS[1:]),
    ],
)
def test_kernel_values_are_cut_on_both_sides(name, form):
    X, y, K = _kernel_values(form)
    given, rows = PAIRWISE[name]("precomputed"), PAIRWISE[name]("linear")
    assert compare(given, DummyClassifier(), K, y, cv=4) == compare(rows, DummyClassifier(), X, y, cv=4)
    if name == "GridSearchCV":
        pair = [five_by_two_cv(one, DummyClassifier(), of, y) for one, of in ((given, K), (rows, X))]
        assert np.array_equal(pair[0].differences, pair[1].differences)
    if name.endswith("CV"):
        pair = [nested_cross_validate(one, of, y, cv=3) for one, of in ((given, K), (rows, X))]
        assert np.array_equal(pair[0].scores, pair[1].scores)
        assert np.array_equal(pair[0].inner_scores, pair[1].inner_scores)
    sealed, plain = SealedSplit(K, y), SealedSplit(X, y)
    estimate = sealed.open(given.fit(sealed.X_rest, sealed.y_rest))
    assert np.array_equal(estimate.losses, plain.open(rows.fit(plain.X_rest, plain.y_rest)).losses)


def test_a_seal_distinguishes_kernel_values_from_features():
    X, y, K = _kernel_values(np.asarray)
    square = np.random.default_rng(0).normal(size=(60, 60))  # features
    assert SealedSplit(square, y).X_rest.shape == (45, 60)
    assert SealedSplit(np.where(square > 2, np.nan, square), y).X_rest.shape == (45, 60)
    assert SealedSplit(K, y, pairwise=False).X_rest.shape == (45, 60)
    assert SealedSplit(np.triu(K), y, pairwise=True).X_rest.shape == (45, 45)
    with pytest.raises(ValueError, match="square"):
        SealedSplit(X, y, pairwise=True)
    sealed = SealedSplit(K, y, pairwise=False)  # a machine on a matrix with columns cut only can still be evaluated
    rest = sealed.rest
    machine = SVC(kernel="precomputed")
    with pytest.raises(ValueError, match="45 free rows, but this SVC takes 44"):
        sealed.open(machine.fit(K[np.ix_(rest[1:], rest[1:])], y[rest[1:]]))
    assert not sealed.openings
    sealed.open(machine.fit(K[np.ix_(rest, rest)], y[rest]))
    assert len(sealed.openings) == 1


@pytest.mark.parametrize("test", [compare, five_by_two_cv])
def test_kernel_values_must_be_square(test):
    X, y, _ = _kernel_values(np.asarray)
    with pytest.raises(ValueError, match=r"must be square.*\(60, 3\)"):
        test(SVC(kernel="precomputed"), SVC(), X, y)
