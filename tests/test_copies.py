"""Copies of rows: found, kept on one side of seals and folds, and named."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.model_selection import GroupKFold

from mercer import SVC, KernelSearchCV, SealedSplit, leave_one_out
from mercer.data import TableError, as_table
from mercer.model_selection import CopiesWarning, InTime, SealedTest, Together, equal_rows
from mercer.model_selection.metrics import grouped_share, mcnemar, wilson_interval
from mercer.studies.arranged import Arranger
from mercer.studies.protocol import study
from mercer.studies.report import prose
from mercer.studies.sealing import folds_of, seal_rows
from mercer.studies.tables import ColumnOptions, read_target

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(40, 3)).round(3)
CODES = RNG.integers(0, 20, size=(5000, 2))
PASSENGERS = np.column_stack(
    [RNG.choice(4, 2200, p=[0.15, 0.13, 0.32, 0.4]), RNG.choice(2, 2200, p=[0.8, 0.2]), RNG.choice(2, 2200)]
)

COPIED = {
    "three times": np.tile(NUMBERS, (3, 1)),
    "one column three times": np.tile(NUMBERS[:, :1], (3, 1)),
    "few rows ten times": np.tile(NUMBERS[:10], (10, 1)),
    "one pair": np.vstack([NUMBERS, NUMBERS[:1]]),
    "codes ten times": np.tile(CODES[:40], (10, 1)),
    "some rows": np.vstack([NUMBERS, NUMBERS[:7], NUMBERS[3:5]]),
}
BY_CHANCE = {
    "two codes": CODES,
    "one code": CODES[:, :1],
    "passengers": PASSENGERS,
    "passengers twice": np.tile(PASSENGERS, (2, 1)),
    "one rounded number": RNG.normal(size=(1000, 1)).round(1),
}


@pytest.mark.parametrize("name", COPIED)
def test_copies_are_told_from_rows_that_differ(name):
    rows = COPIED[name]
    equal = equal_rows(rows)
    assert equal.are_copies
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    assert equal.n_repeated == len(rows) - len(unique)
    np.testing.assert_array_equal(Together.by(inverse.ravel()).groups, equal.groups)


@pytest.mark.parametrize("name", BY_CHANCE)
def test_few_values_explain_equal_rows(name):
    equal = equal_rows(BY_CHANCE[name])
    assert equal.n_repeated > 0
    assert equal.by_chance
    assert not equal.are_copies


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 4), st.booleans())
@settings(max_examples=40, deadline=None)
def test_equal_rows_do_not_depend_on_order_or_storage(seed, n, p, text):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(n, p)).astype(np.float64)
    order, columns = rng.permutation(n), rng.permutation(p)
    equal = equal_rows(X)
    other = equal_rows(X[order][:, columns])
    np.testing.assert_array_equal(Together.by(equal.groups[order]).groups, other.groups)
    assert other.by_chance == equal.by_chance
    frame = pd.DataFrame(X)
    np.testing.assert_array_equal(equal_rows(frame.astype(str) if text else frame).groups, equal.groups)
    np.testing.assert_array_equal(equal_rows(sparse.csr_array(X)).groups, equal.groups)


def test_cells_that_are_the_same_value_are_equal():
    equal = equal_rows(np.array([[0.0, np.nan], [-0.0, np.nan], [0.0, 1.0]]))
    np.testing.assert_array_equal(equal.groups, [0, 0, 1])
    np.testing.assert_array_equal(equal_rows(["ab", "c", "ab"]).groups, [0, 1, 0])
    np.testing.assert_array_equal(equal_rows([{"a": 1}, {"a": 1}]).groups, [0, 1])  # of no kind that can be compared


@given(st.integers(0, 10**6), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_groups_are_never_parted_and_repetition_changes_no_split(seed, times):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(3), [30, 20, 12])
    rng.shuffle(codes)
    single, repeated = Together(np.arange(62)), Together(np.tile(np.arange(62), times))
    many = np.tile(codes, times)
    rest, test = single.holdout(codes, 0.25, seed % 100)
    again, sealed = repeated.holdout(many, 0.25, seed % 100)
    np.testing.assert_array_equal(np.unique(again % 62), rest)
    np.testing.assert_array_equal(np.unique(sealed % 62), test)
    for groups in (repeated.groups, rng.integers(0, 25, size=62 * times)):  # the latter with rows of several classes
        together = Together.by(groups)
        splits = together.folds(many, 2, 0)
        assert sum(len(validation) for _, validation in splits) == len(many)
        for train, validation in splits:
            assert not set(together.groups[train]) & set(together.groups[validation])


def test_rows_that_share_a_group_or_a_copy_stay_together():
    together = Together.by(np.array(["a", "a", "b", "c", "d"]), np.array([0, 1, 1, 2, 3]))
    np.testing.assert_array_equal(together.groups, [0, 0, 0, 1, 2])
    np.testing.assert_array_equal(together.middles(np.array([3.0, 1.0, 2.0, 5.0, 0.0])), [2.0, 5.0, 0.0])


def test_nothing_is_learnt_from_the_future():
    moments = np.array([5.0, 1.0, 2.0, 2.0, 3.0, 4.0, 6.0, 7.0, 7.0, 8.0])
    order = InTime(moments)
    rest, test = order.holdout(np.zeros(10, dtype=int), 0.25, 0)
    assert moments[rest].max() < moments[test].min()
    np.testing.assert_array_equal(test, [7, 8, 9])
    for train, validation in order.folds(np.zeros(10, dtype=int), 3, 0):
        assert moments[train].max() < moments[validation].min()
    with pytest.raises(TableError, match="too many have one time"):
        InTime(np.array([1.0, 1.0, 1.0, 1.0])).holdout(np.zeros(4, dtype=int), 0.25, 0)


def test_intervals_count_groups():
    right = np.repeat([True, False, True, True, False, True, True, True], 5)
    groups = np.repeat(np.arange(8), 5)
    single = grouped_share(right[::5], np.arange(8))
    many = grouped_share(right, groups)
    assert (many.low, many.high) == pytest.approx((single.low, single.high))
    narrow = wilson_interval(30, 40)
    assert many.high - many.low > 1.5 * (narrow.high - narrow.low)
    sure = grouped_share(np.ones(40), groups)
    assert sure.low == pytest.approx(grouped_share(np.ones(8), np.arange(8)).low)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12), st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_the_test_of_groups_is_mcnemars_for_single_rows_and_for_copies(pairs, times):
    first, second = (np.array(values) for values in zip(*pairs, strict=True))
    alone = mcnemar(first, second)
    rows = np.repeat(np.arange(len(pairs)), times)
    of_groups = mcnemar(first[rows], second[rows], rows)
    assert of_groups.p_value == pytest.approx(alone.p_value)
    assert of_groups.only_first == times * alone.only_first


def noise(times, n=40, seed=5):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"a": rng.normal(size=n).round(3), "b": rng.normal(size=n).round(3), "t": rng.choice(list("xy"), n)}
    )
    return pd.concat([frame] * times, ignore_index=True)


def test_copies_of_noise_stay_noise():
    studied = study(noise(3), "t", n_folds=3)
    sealed = studied.arranged.equal.groups[studied.sealed.open(lambda rows: rows, "peek").value]
    assert not set(sealed) & set(studied.arranged.equal.groups[studied.sealed.rest])
    assert studied.svm.test.accuracy.low < 0.5
    assert studied.svm.test.accuracy.high - studied.svm.test.accuracy.low > 0.4  # ten rows, not thirty
    assert any("80 of 120 rows (66.7%) are copies" in note for note in prose.cautions(studied))
    apart = study(noise(3), "t", n_folds=3, copies="apart")
    assert apart.svm.test.accuracy.value > 0.9
    assert any("equal a row that was learnt from" in note for note in prose.cautions(apart))


def test_copies_of_a_table_do_not_make_intervals_narrower():
    once, twice = (
        study(noise(1, 80), "t", n_folds=2, kernel="linear"),
        study(noise(2, 80), "t", n_folds=2, kernel="linear"),
    )
    ours, theirs = once.contenders[-1].test.accuracy, twice.contenders[-1].test.accuracy
    assert theirs.value == ours.value
    assert theirs.high - theirs.low > 0.9 * (ours.high - ours.low)


def many_patients():
    """Patients whose rows are nearly equal, more of them than the sample in which groups are looked for."""
    rng = np.random.default_rng(3)
    X = np.repeat(rng.normal(size=(250, 6)), 6, axis=0) + 0.01 * rng.normal(size=(1500, 6))
    return pd.DataFrame(X, columns=list("abcdef")).assign(t=np.repeat(rng.choice(list("xy"), 250), 6))


ARRANGED = {
    "copies": (noise(3), {}),
    "groups": (lambda: patients(), {"groups": "owner"}),
    "groups, each with rows of every class": (
        lambda: patients().assign(t=np.tile(list("xy"), 120)),
        {"groups": "owner"},
    ),
    "groups and a number": (
        lambda: patients().assign(t=np.random.default_rng(0).normal(size=240)),
        {"groups": "owner"},
    ),
    "groups of nearly equal rows": (many_patients, {}),
}


@pytest.mark.parametrize("name", ARRANGED)
def test_groups_are_parted_in_the_same_way_in_every_order_of_the_rows(name):
    frame, options = ARRANGED[name]
    frame = frame() if callable(frame) else frame
    parts = []
    for seed in (None, 0, 1):
        order = np.arange(len(frame)) if seed is None else np.random.default_rng(seed).permutation(len(frame))
        table = as_table(frame.iloc[order])
        truth = read_target(table, "t")
        arranger = Arranger(table, truth, options.get("groups"), None, "together")
        sealed, arranged, _ = seal_rows(
            table, truth, arranger, ColumnOptions(), test_size=0.25, n_folds=3, seed=0, are_numbers=False
        )
        assert arranged.units is not None
        rest_rows, rest = order[sealed.rest], truth.of(table, sealed.rest)
        folds = folds_of(arranged.of(sealed.rest), rest, 3, 0)
        parts.append([sorted(rest_rows), *(sorted(rest_rows[validation]) for _, validation in folds)])
    assert parts[0] == parts[1] == parts[2]


def patients(seed=1):
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(30), 8)
    X = np.repeat(rng.normal(size=(30, 3)), 8, axis=0) + 0.02 * rng.normal(size=(240, 3))
    frame = pd.DataFrame(X, columns=list("abc")).assign(owner=[f"p{k}" for k in person])
    return frame.assign(t=np.repeat(rng.choice(list("xy"), 30), 8)).sample(frac=1, random_state=0, ignore_index=True)


def test_rows_of_a_group_stay_together_in_a_study():
    frame = patients()
    studied = study(frame, "t", groups="owner", n_folds=3)
    owner = frame["owner"].to_numpy()
    free = np.setdiff1d(np.arange(240), studied.test_rows)
    assert not set(owner[studied.test_rows]) & set(owner[free])
    assert "owner" in studied.column_choice.left_out
    assert studied.svm.test.accuracy.low < 0.5
    assert any("30 groups, of which 8 are sealed" in note for note in prose.cautions(studied))


def test_a_study_in_time_seals_the_last_rows():
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=200).strftime("%Y-%m-%d").to_numpy()
    x = rng.normal(size=200)
    frame = pd.DataFrame({"day": days, "x": x, "t": np.where(x + 0.3 * rng.normal(size=200) > 0, "up", "down")})
    frame = frame.sample(frac=1, random_state=1, ignore_index=True)
    studied = study(frame, "t", time_column="day", n_folds=3)
    assert frame["day"][studied.test_rows].min() == "2024-05-30"
    assert len(studied.test_rows) == 50
    assert studied.svm.test.accuracy.value > 0.7
    assert 0.7 < studied.svm.cv <= 1.0
    assert "day" not in studied.column_choice.features


def test_groups_in_time_are_as_late_as_their_last_row():
    rng = np.random.default_rng(2)
    frame = patients().assign(day=rng.integers(0, 40, 240))
    frame["day"] += 30 * (frame["owner"].str[1:].astype(int) // 5)  # patients come one after another, with overlaps
    last = frame.groupby("owner")["day"].transform("max").to_numpy()
    studied = study(frame, "t", groups="owner", time_column="day", n_folds=2, kernel="linear")
    free = studied.column_choice.rows[studied.sealed.rest]
    assert not set(frame["owner"][studied.test_rows]) & set(frame["owner"][free])
    assert frame["day"][free].max() < last[studied.test_rows].min()
    assert len(studied.test_rows) >= 60
    for train, validation in folds_of(
        studied.arranged.of(studied.sealed.rest), studied.column_choice.truth.of(as_table(frame), free), 2, 0
    ):
        assert frame["day"][free[train]].max() < last[free[validation]].min()
        assert not set(frame["owner"][free[train]]) & set(frame["owner"][free[validation]])
    assert studied.arranged.units is not None
    notes = " ".join(prose.cautions(studied))
    assert "as late as the last of them by “day”" in notes
    assert "The sealed rows are the last ones" not in notes
    sealed = SealedSplit(frame[list("abc")], frame["t"], groups=frame["owner"], time=frame["day"])
    np.testing.assert_array_equal(sealed.rest, free)


def test_groups_may_have_rows_of_every_class():
    frame = patients().assign(t=np.tile(list("xy"), 120))
    studied = study(frame, "t", groups="owner", n_folds=3)
    assert sorted(studied.model.prediction_kind.names) == ["x", "y"]
    assert not set(frame["owner"][studied.test_rows]) & set(frame["owner"].drop(studied.test_rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "t"}, "the target 't' cannot say how rows are split"),
        ({"groups": "owner", "time_column": "owner"}, "'owner' cannot name the groups and the time of rows at once"),
        ({"groups": "nobody"}, "there is no column 'nobody'"),
        ({"time_column": "owner"}, "'p.*' in row 1, which is no time"),
        ({"groups": "few"}, "every class needs 8 rows .* where rows with the same 'few' count once"),
    ],
)
def test_arrangements_that_cannot_be_are_refused(options, message):
    frame = patients().assign(few=np.arange(240) % 5)
    with pytest.raises(TableError, match=message):
        study(frame, "t", **options)


def test_missing_groups_are_refused():
    frame = patients()
    frame.loc[7, "owner"] = None
    with pytest.raises(TableError, match="missing in row 8"):
        study(frame, "t", groups="owner")


def test_a_sealed_split_keeps_copies_together():
    X = np.tile(NUMBERS, (3, 1))
    y = np.tile(RNG.choice(2, 40), 3)
    sealed = SealedSplit(X, y)
    assert sealed.n_copies == 80
    free = {tuple(row) for row in sealed.X_rest}
    hidden = np.setdiff1d(np.arange(120), sealed.rest)
    assert not free & {tuple(row) for row in X[hidden]}
    estimate = sealed.open(SVC(C=100.0, gamma=10.0).fit(sealed.X_rest, sealed.y_rest))
    assert estimate.grouped
    assert estimate.interval.high - estimate.interval.low > 0.35
    apart = SealedSplit(X, y, copies="apart")
    assert apart.n_copies == 0
    assert apart.open(SVC(C=100.0, gamma=10.0).fit(apart.X_rest, apart.y_rest)).value < 0.1
    np.testing.assert_array_equal(apart.rest, SealedTest.stratified(y).rest)
    with pytest.raises(ValueError, match="copies must be one of"):
        SealedSplit(X, y, copies="kept")


def test_groups_of_a_sealed_split_take_copies_along():
    X, y = np.tile(NUMBERS, (2, 1)), np.tile(RNG.choice(2, 40), 2)
    groups = np.arange(80) // 2
    sealed = SealedSplit(X, y, groups=groups)
    hidden = np.setdiff1d(np.arange(80), sealed.rest)
    assert not set(groups[sealed.rest]) & set(groups[hidden])
    assert not set(sealed.rest % 40) & set(hidden % 40)


@pytest.mark.parametrize("options", [{}, {"groups": True}])
def test_a_sealed_split_seals_the_same_copies_in_every_order_of_the_rows(options):
    X, y = np.tile(NUMBERS, (2, 1)), np.tile(np.arange(40) % 2, 2)
    groups, order = np.arange(80) % 40 // 2, RNG.permutation(80)
    one, other = (
        SealedSplit(X[rows], y[rows], groups=groups[rows] if options else None) for rows in (np.arange(80), order)
    )
    assert one.n_copies == 40
    assert sorted(order[other.rest]) == sorted(one.rest)


def test_searches_and_leave_one_out_warn_of_copies():
    X, y = np.tile(NUMBERS, (3, 1)), np.tile(RNG.choice(2, 40), 3)
    search = KernelSearchCV(SVC(), C=[1.0])
    with pytest.warns(CopiesWarning, match="80 of the 120 rows equal an earlier row, and 1.. rows are judged"):
        search.fit(X, y)
    with pytest.warns(CopiesWarning, match="120 rows are judged"):
        leave_one_out(SVC(), X, y)
    with pytest.warns(CopiesWarning, match="120 rows are judged"):
        KernelSearchCV(SVC(), C=[1.0], cv="leave_one_out").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelSearchCV(SVC(), C=[1.0], cv=GroupKFold(3)).fit(X, y, groups=equal_rows(X).groups)
        KernelSearchCV(SVC(), C=[1.0]).fit(*load_iris(return_X_y=True))  # a single pair of copies


def test_a_relation_that_changes_with_time_is_said_before_the_headline():
    rng = np.random.default_rng(0)
    x, late = rng.normal(size=200), np.arange(200) >= 150
    frame = pd.DataFrame({"day": np.arange(200), "x": x, "t": np.where((x > 0) != late, "up", "down")})
    studied = study(frame, "t", time_column="day", n_folds=3, kernel="linear")
    assert studied.svm.test.accuracy.high < 0.5
    sentences = [doubt.sentence for doubt in prose.doubts(studied)]
    assert any("did worse than always answering" in one and "changed with time" in one for one in sentences), sentences
    assert "No: it did worse than" in prose.worth(studied)
    assert not any("fits its training rows closely" in note for note in prose.cautions(studied))
    assert prose.more_rows(studied) == ""


def test_groups_that_were_found_by_nearness_are_a_doubt():
    studied = study(patients().drop(columns="owner"), "t", n_folds=3, kernel="rbf")
    assert studied.arranged.near is not None
    assert any("a group may have been found in parts" in doubt.sentence for doubt in prose.doubts(studied))


@pytest.mark.parametrize("kind", ["numbers", "datetime64", "pandas"])
def test_a_sealed_split_in_time_seals_the_last_rows(kind):
    order = np.random.default_rng(0).permutation(40)
    days = np.datetime64("2024-01-01") + order
    time = {"numbers": order, "datetime64": days, "pandas": pd.Series(days)}[kind]
    sealed = SealedSplit(NUMBERS, np.arange(40) % 2, time=time)
    assert order[sealed.rest].max() < 30
    assert sealed.n_test == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": np.arange(39)}, "time must hold one time for each of the 40 rows"),
        ({"time": np.arange(40), "stratify": True}, "stratify must be False or None where there is time"),
        ({"time": ["monday"] * 40}, "time must hold numbers or dates"),
    ],
)
def test_times_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SealedSplit(NUMBERS, np.arange(40) % 2, **options)
