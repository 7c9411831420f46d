"""Splits, the seal, the search, and the models it is compared with."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC as LIBSVM

from generated import mixed_frame, three_classes
from mercer import LinearSVC
from mercer.certificates.status import Status
from mercer.data.frames import as_table
from mercer.data.table import TableError
from mercer.model_selection.seal import SealedTest
from mercer.model_selection.splits import (
    check_class_counts,
    rows_enough,
    rows_needed,
    stratified_folds,
    stratified_holdout,
)
from mercer.solvers import Interruption
from mercer.solvers.progress import CostEstimate
from mercer.studies.candidates import Cell, KernelChoice
from mercer.studies.class_rivals import LOGISTIC_C, Logistic, Neighbours, SameClass
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import Fold, encoded_folds
from mercer.studies.rivals import choose_rivals
from mercer.studies.search import SearchStopped, search
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.time_budget import TimeBudget

CODES = np.repeat([0, 1, 2], [60, 30, 12])


def folds_of(frame, target, n_folds=3):
    table = as_table(frame)
    codes = np.unique(table[target], return_inverse=True)[1]
    return encoded_folds(table.without([target]), codes, stratified_folds(codes, n_folds, 0), TableEncoder())


def goal_of(folds):
    codes = folds[0].truth
    return ToClassify([str(code) for code in np.unique(codes)], len(codes))


def kinds():
    folds = folds_of(three_classes(), "kind")
    return folds, goal_of(folds)


def test_holdout_is_stratified_and_deterministic():
    rest, test = stratified_holdout(CODES, 0.25, seed=3)
    assert np.bincount(CODES[test]).tolist() == [15, 8, 3]
    assert sorted([*rest, *test]) == list(range(len(CODES)))
    again = stratified_holdout(CODES, 0.25, seed=3)
    np.testing.assert_array_equal(test, again[1])
    assert not np.array_equal(test, stratified_holdout(CODES, 0.25, seed=4)[1])


def test_folds_are_stratified_and_ask_every_row_once():
    folds = stratified_folds(CODES, 4, seed=0)
    assert sorted(np.concatenate([validation for _, validation in folds])) == list(range(len(CODES)))
    for train, validation in folds:
        assert np.intersect1d(train, validation).size == 0
        assert np.abs(np.bincount(CODES[validation]) - [15, 7.5, 3]).max() <= 0.5


@pytest.mark.parametrize("test_size", [0.0, 1.0, -0.2, 1.5])
def test_invalid_test_sizes_are_refused(test_size):
    with pytest.raises(ValueError, match=f"test_size must lie between 0 and 1, got {test_size}"):
        stratified_holdout(CODES, test_size, 0)


def test_too_few_rows():
    with pytest.raises(ValueError, match="n_folds must lie between 2 and the 12 rows of the smallest class, got 13"):
        stratified_folds(CODES, 13, 0)
    with pytest.raises(ValueError, match="n_folds must lie between 2 and"):
        stratified_folds(CODES, 1, 0)
    with pytest.raises(TableError, match=r"a test part of 0\.02 has 2 rows, fewer than there are classes"):
        stratified_holdout(CODES, 0.02, 0)
    with pytest.raises(TableError, match=r"needs 18 rows .* but 'c' \(12\) has fewer") as caught:
        check_class_counts(["a", "b", "c"], np.bincount(CODES), 0.25, 12)
    assert "or change n_folds or test_size" in caught.value.hint


@pytest.mark.parametrize("test_size", [0.1, 0.25, 0.5, 0.8])
@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_rows_needed_are_enough_and_not_too_many(test_size, n_folds):
    n = 300
    needed = rows_needed(n, test_size, n_folds)
    assert needed <= 1 + max(math.ceil(1 / test_size), math.ceil(n_folds / (1 - test_size) + 1))
    codes = np.repeat([0, 1], [needed, n - needed])
    for seed in range(5):
        rest, test = stratified_holdout(codes, test_size, seed)
        assert np.sum(codes[rest] == 0) >= n_folds
        assert np.sum(codes[test] == 0) >= 1


@pytest.mark.parametrize("test_size", [0.01, 0.1, 0.25, 0.5, 0.8])
@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_the_number_of_rows_that_is_asked_for_is_enough_in_any_table(test_size, n_folds):
    enough = rows_enough(test_size, n_folds)
    for n in range(enough + 1, 5 * enough, max(1, enough // 7)):
        assert rows_needed(n, test_size, n_folds) <= enough


def test_the_seal_gives_one_clean_look():
    sealed = SealedTest.stratified(CODES, test_size=0.25, seed=0)
    assert sealed.openings == ()
    first = sealed.open(lambda rows: rows, "estimate")
    assert first.opening.clean
    assert sealed.n_test == len(first.value)
    assert np.intersect1d(first.value, sealed.rest).size == 0
    second = sealed.open(len, "another look")
    assert not second.opening.clean
    assert [opening.number for opening in sealed.openings] == [1, 2]


def test_the_seal_over_some_of_the_rows():
    sealed = SealedTest.stratified(CODES, test_size=0.25, seed=0)
    sealed.open(len, "estimate")
    chosen = np.arange(1, len(CODES), 2)
    part = sealed.restrict(chosen)
    test = sealed.open(lambda rows: rows, "compare").value
    np.testing.assert_array_equal(chosen[part.rest], np.intersect1d(chosen, sealed.rest))
    np.testing.assert_array_equal(chosen[part.open(lambda rows: rows, "compare").value], np.intersect1d(chosen, test))
    assert [opening.purpose for opening in part.openings] == ["estimate", "compare"]


def test_a_check_does_not_count_as_an_opening():
    sealed = SealedTest.stratified(CODES)
    assert sealed.check(lambda rows: rows) is None
    with pytest.raises(ZeroDivisionError):
        sealed.check(lambda rows: 1 / 0)
    assert sealed.openings == ()


def test_a_failed_opening_counts():
    sealed = SealedTest.stratified(CODES)
    with pytest.raises(ZeroDivisionError):
        sealed.open(lambda rows: 1 / 0, "a mistake")
    assert not sealed.open(len, "estimate").opening.clean


def test_the_sealed_rows_cannot_be_changed_from_outside():
    sealed = SealedTest.stratified(CODES)
    rows = sealed.open(lambda rows: rows, "take them").value
    rows[:] = 0
    assert sealed.open(lambda rows: rows, "again").value.max() > 0


def test_every_fold_has_an_encoding_of_its_own():
    frame = mixed_frame(90).drop(columns=["row", "unit"])
    table = as_table(frame)
    codes = np.unique(table["outcome"], return_inverse=True)[1]
    splits = stratified_folds(codes, 3, 0)
    folds = encoded_folds(table.without(["outcome"]), codes, splits, TableEncoder())
    for (train, _), fold in zip(splits, folds, strict=True):
        np.testing.assert_allclose(fold.X[train, 0].mean(), 0.0, atol=1e-12)
        np.testing.assert_allclose(fold.X[train, 0].std(), 1.0)
        assert abs(fold.X[:, 0].mean()) > 1e-6


@pytest.mark.parametrize(
    "choice", [KernelChoice("linear"), KernelChoice("polynomial", 1.0, 2), KernelChoice("rbf", 4.0)]
)
@pytest.mark.parametrize(
    "frame", [mixed_frame(90).drop(columns=["row", "unit"]), three_classes()], ids=["two", "three"]
)
def test_the_search_counts_what_libsvm_counts(choice, frame):
    folds = folds_of(frame, frame.columns[-1])
    search_result = search(folds, goal_of(folds), kernels=[choice], C_grid=[0.1, 10.0], extend=False, tol=1e-8)
    for cell in search_result.cells:
        expected = []
        for fold in folds:
            X, codes = fold.X[fold.train], fold.truth[fold.train]
            name = {"linear": "linear", "polynomial": "poly", "rbf": "rbf"}[choice.family]
            gamma = choice.gamma_factor / (X.shape[1] * X.var())
            libsvm = LIBSVM(C=cell.C, kernel=name, degree=2, gamma=gamma, coef0=1.0, tol=1e-8, break_ties=True)
            libsvm.set_params(decision_function_shape="ovr").fit(X, codes)
            expected.append(int(np.sum(libsvm.predict(fold.X[fold.validation]) != fold.truth[fold.validation])))
        assert cell.errors == tuple(expected)
        assert cell.unfinished == ()


def test_on_sparse_rows_each_class_is_told_from_the_rest_as_by_linear_svc():
    rng = np.random.default_rng(0)
    y, rows = rng.integers(0, 4, 300), np.arange(300)
    X = csr_array((rng.random((300, 400)) < 0.04 * (0.3 + (rng.random((4, 400)) ** 8)[y])).astype(float))
    goal = ToClassify(list("abcd"), 300)
    goal.suit(X)
    folds = [Fold(X, y, rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    search_result = search(folds, goal, kernels=[KernelChoice("linear")], C_grid=[0.01, 1.0], extend=False, tol=1e-7)
    for cell in search_result.cells:
        machine = LinearSVC(C=cell.C, tol_gap=1e-7)
        expected = [
            float(np.sum(machine.fit(X[one.train], y[one.train]).predict(X[one.validation]) != y[one.validation]))
            for one in folds
        ]
        assert cell.errors == tuple(expected)
        assert cell.unfinished == ()


def test_the_search_is_deterministic_and_complete():
    folds = folds_of(three_classes(), "kind")
    first, second = search(folds, goal_of(folds)), search(folds, goal_of(folds))
    assert [cell.errors for cell in first.cells] == [cell.errors for cell in second.cells]
    assert len(first.cells) == first.n_planned >= 36
    assert first.stopped == ""
    assert first.best == min(first.cells, key=lambda cell: cell.rank)


def test_ties_go_to_the_simpler_machine():
    def cell(family, C, factor=1.0, wrong=2):
        return Cell(
            KernelChoice(family, factor, {"linear": 1, "polynomial": 2, "rbf": 1}[family]),
            C,
            (wrong,),
            1.0 - wrong / 12,
            0.0,
        )

    ranked = [
        cell("rbf", 1.0, wrong=1),
        cell("linear", 0.1),
        cell("linear", 1.0),
        cell("polynomial", 0.01),
        cell("rbf", 0.01, 1.0),
        cell("rbf", 0.01, 4.0),
        cell("rbf", 0.1, 0.25),
    ]
    assert sorted(reversed(ranked), key=lambda c: c.rank) == ranked


def test_the_grid_is_extended_once_beyond_the_edge_of_the_best_cell():
    folds = folds_of(three_classes(), "kind")
    kernels = [KernelChoice("rbf", gamma_factor=factor) for factor in (1e-6, 4e-6)]
    search_result = search(folds, goal_of(folds), kernels=kernels, C_grid=[1e-3, 1e-2])
    assert set(search_result.extended) <= {"C", "gamma"}
    assert search_result.extended
    extra = {(cell.choice.gamma_factor, cell.C) for cell in search_result.cells} - {
        (factor, C) for factor in (1e-6, 4e-6) for C in (1e-3, 1e-2)
    }
    assert extra
    assert not search(folds, goal_of(folds), kernels=kernels, C_grid=[1e-3, 1e-2], extend=False).extended
    assert not search(folds, goal_of(folds), kernels=kernels[:1], C_grid=[1.0]).extended


def test_a_search_that_is_stopped_keeps_its_finished_cells():
    folds = folds_of(three_classes(), "kind")
    interruption = Interruption()

    seen = []

    def stop_later(progress):
        seen.append(progress)
        if progress.done >= 7:
            interruption.request()

    search_result = search(folds, goal_of(folds), interruption=interruption, progress=stop_later)
    assert search_result.stopped == "interrupted"
    assert seen[-1].stopped == "interrupted"
    assert not any(state.stopped for state in seen[:-1])
    assert 3 <= len(search_result.cells) < 36
    assert search_result.n_planned == 36
    full_search = search(folds, goal_of(folds))
    assert [cell.errors for cell in search_result.cells] == [
        cell.errors for cell in full_search.cells[: len(search_result.cells)]
    ]


def test_cells_that_did_not_reach_the_optimum_say_how_they_ended(monkeypatch):
    monkeypatch.setattr("mercer.solvers.progress.MAX_STEPS", 0)
    frame = mixed_frame(90).drop(columns=["row", "unit"])
    kernels = [KernelChoice("linear"), KernelChoice("rbf", 1 / 16), KernelChoice("rbf"), KernelChoice("rbf", 4.0)]
    folds = folds_of(frame, "outcome")
    search_result = search(folds, goal_of(folds), kernels=kernels, C_grid=[1e9], tol=1e-12, extend=False)
    unfinished = [cell for cell in search_result.cells if cell.unfinished]
    assert unfinished
    assert {status for cell in unfinished for status in cell.unfinished} <= {Status.MAX_ITER, Status.STALLED}
    assert [cell.place.replace("\u00a0", " ") for cell in search_result.cells] == [
        "linear machine, C = 1e+09",
        "Gaussian kernel, C = 1e+09, gamma = 1/16 of the usual value",
        "Gaussian kernel, C = 1e+09, gamma = the usual value",
        "Gaussian kernel, C = 1e+09, gamma = 4 times the usual value",
    ]


def test_a_search_without_a_finished_cell_says_why():
    folds = folds_of(three_classes(), "kind")
    with pytest.raises(SearchStopped, match="time limit"):
        search(folds, goal_of(folds), max_seconds=0.0)
    interruption = Interruption()
    interruption.request()
    with pytest.raises(SearchStopped, match="interrupted"):
        search(folds, goal_of(folds), interruption=interruption)


def test_progress_rises_to_the_total():
    seen = []
    search(*kinds(), progress=seen.append, extend=False)
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert done[-1] == seen[-1].total == 36 * 3
    assert seen[-1].seconds_left == 0.0
    assert all(progress.seconds_left is not None for progress in seen)
    assert seen[-1].note == "Gaussian kernel, C = 1000"
    assert {progress.stopped for progress in seen} == {""}


def test_cost_estimate():
    estimate = CostEstimate(n_folds=2)
    estimate.plan([["a1", "a2"], ["b1", "b2"]])
    assert (estimate.n_cells, estimate.n_total, estimate.n_done) == (4, 8, 0)
    assert estimate.seconds_left("a1", 1.0) == pytest.approx(2 * (1 + 1.3 + 1 + 1.3) - 1.0)
    estimate.measured("a1", 1.0)
    estimate.measured("a1", 3.0)
    estimate.measured("a2", 10.0)
    assert estimate.seconds_left() == pytest.approx(10 + 2 * 2 + 2 * 10)
    estimate.measured("a2", 10.0)
    estimate.measured("b1", 1.0)  # half of the expected cost, which is that of a1
    assert estimate.seconds_left() == pytest.approx(1 + 2 * 5)
    # A task that takes longer than expected raises the estimate before it ends.
    assert estimate.seconds_left("b2", 30.0) == pytest.approx(1 + 2 * 30 - 30)


def test_costs_of_another_kind_do_not_count_where_there_are_some_of_the_same():
    estimate = CostEstimate(n_folds=1, kind=lambda cell: cell[0])
    estimate.plan([["a1", "a2"], ["b1", "b2"], ["a3", "a4"]])
    estimate.measured("a1", 1.0)
    estimate.measured("a2", 2.0)
    assert estimate.seconds_left() == pytest.approx(3 + 3)
    estimate.measured("b1", 1.0)
    estimate.measured("b2", 100.0)
    assert estimate.seconds_left() == pytest.approx(3)


def test_one_expensive_path_changes_the_next_estimate_little():
    estimate = CostEstimate(n_folds=1, kind=lambda cell: cell[0])
    estimate.plan([["a1"], ["b1"], ["c1"]])
    estimate.measured("a1", 1.0)
    estimate.measured("b1", 100.0)
    assert estimate.seconds_left() == pytest.approx(10.0)


def test_the_estimate_of_time_left_always_changes():
    estimate = CostEstimate(n_folds=5)
    estimate.plan([["a"], ["b"]])
    for seconds in (1.0, 2.0, 1.0):
        estimate.measured("a", seconds)
    left = [estimate.seconds_left("a", spent) for spent in np.linspace(0.0, 4.0, 20)]
    assert left[0] == pytest.approx((2 + 5) * 4 / 3)
    falling = np.linspace(0.0, 4.0, 20)[1:] <= 4 / 3
    assert np.all((np.diff(left) < 0) == falling)
    assert np.all(np.diff(left) != 0)


def test_contenders_are_what_scikit_learn_says():
    folds = folds_of(three_classes(), "kind")
    goal = goal_of(folds)
    logistic, neighbours, constant = choose_rivals(
        folds, [Logistic(goal), Neighbours(goal, 60), SameClass(goal)], 60, 60, TimeBudget(None)
    )
    best = float(logistic.setting.removeprefix("C = "))
    right = {C: 0 for C in LOGISTIC_C}
    for fold in folds:
        X, codes = fold.X[fold.train], fold.truth[fold.train]
        for C in LOGISTIC_C:
            predicted = LogisticRegression(C=C, max_iter=2000).fit(X, codes).predict(fold.X[fold.validation])
            right[C] += int(np.sum(predicted == fold.truth[fold.validation]))
    assert 90 - sum(logistic.errors) == right[best] == max(right.values())
    k = int(neighbours.setting.split()[0])
    expected = tuple(
        int(
            np.sum(
                KNeighborsClassifier(k).fit(fold.X[fold.train], fold.truth[fold.train]).predict(fold.X[fold.validation])
                != fold.truth[fold.validation]
            )
        )
        for fold in folds
    )
    assert neighbours.errors == expected
    assert constant.errors == (20, 20, 20)
