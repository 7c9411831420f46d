"""Comparisons and nested cross-validations with a time limit, a progress bar and a callback."""

import time

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification

from mercer import SVC, KernelSearchCV, StoppedError, compare, five_by_two_cv, leave_one_out, nested_cross_validate
from mercer.solvers import StageProgress, reported

X, y = load_iris(return_X_y=True)


def searched(**options):
    return nested_cross_validate(KernelSearchCV(SVC(), C=[1.0, 10.0], cv=2), X, y, cv=4, **options)


def compared(**options):
    return compare(SVC(), SVC(C=10.0), X, y, cv=4, **options)


@pytest.mark.parametrize("work", [searched, compared], ids=["nested", "compare"])
def test_progress_of_splits(work, capsys):
    reports = []
    work(verbose=1, callback=reports.append)
    assert [(one.done, one.total) for one in reports] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert reports[-1].seconds_left == 0.0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert " 4 of 4: about < 0.1 s left" in said[-1]
    work()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("work", [searched, compared], ids=["nested", "compare"])
def test_a_callback_ends_the_work_with_the_splits_so_far(work):
    with pytest.warns(
        UserWarning, match="was stopped by its callback after 2 of 4 splits: the result is that of these"
    ):
        part = work(callback=lambda progress: progress.done == 2)
    assert part.to_frame().notna().all(axis=None)
    with pytest.raises(StoppedError, match="after 1 of 4 splits: there is no result before 2 are finished"):
        work(callback=lambda progress: True)


def test_the_result_of_some_splits_is_that_of_these_splits():
    full_result = searched()
    with pytest.warns(UserWarning, match="3 of 4"):
        part = searched(callback=lambda progress: progress.done == 3)
    np.testing.assert_array_equal(part.scores, full_result.scores[:3])


@pytest.mark.filterwarnings("ignore:SVC ended as")
def test_a_time_limit_ends_the_fit_that_is_at_work():
    rows, labels = make_classification(6000, 10, flip_y=0.4, random_state=0)
    began = time.process_time()
    with pytest.raises(StoppedError, match="stopped by its time limit after 0 of 5 splits"):
        compare(SVC(C=1e4, tol=1e-6), SVC(C=1e4, tol=1e-6), rows, labels, cv=5, max_seconds=0.3)
    assert time.process_time() - began < 20.0


def test_all_halves_are_needed():
    with pytest.raises(StoppedError, match="3 of 10 splits: there is no result before 10 are finished"):
        five_by_two_cv(SVC(), SVC(C=10.0), X, y, callback=lambda progress: progress.done == 3)
    assert five_by_two_cv(SVC(), SVC(C=10.0), X, y, max_seconds=100.0).differences.shape == (5, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_seconds": -1}, "max_seconds"), ({"verbose": "q"}, "verbose"), ({"callback": 3}, "callback")],
)
def test_options_that_cannot_be(options, message):
    for work in (searched, compared):
        with pytest.raises(ValueError, match=message):
            work(**options)


def test_lines_say_what_changed(capsys):
    with reported(1, None) as report:
        for done in (1, 1, 2):
            assert report(StageProgress("work", done, 2, 3.0)) is False
    assert capsys.readouterr().err.splitlines() == ["work 1 of 2: about 3.0 s left", "work 2 of 2: about 3.0 s left"]
    with reported(0, lambda progress: progress.done) as report:
        assert report(StageProgress("work", 1, 2)) is True
    assert capsys.readouterr().err == ""
    leave_one_out(SVC(), X, y, verbose=1)
    assert "leave-one-out 100 of 100" in capsys.readouterr().err
