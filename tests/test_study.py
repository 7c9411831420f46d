"""The whole protocol on tables whose answer is known."""

import signal

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, make_circles

from generated import mixed_frame, three_classes, with_missing
from mercer.metrics import wilson_interval
from mercer.selection.sealed import SealedTest
from mercer.selection.search import SearchStopped
from mercer.study import SVM, study
from mercer.table import TableError, as_table
from mercer.verification import verify


@pytest.fixture(scope="module")
def mixed():
    return study(with_missing(mixed_frame(160)), "outcome", missing="impute", n_folds=3)


def test_a_study_of_a_mixed_table(mixed):
    assert [contender.name for contender in mixed.contenders] == [
        SVM,
        "logistic regression",
        "nearest neighbours",
        "majority class",
    ]
    assert mixed.svm.test.accuracy.value > 0.75
    assert mixed.intake.left_out == {"row": "looks like a row identifier: it counts 1, 2, 3, ... down the table"}
    assert mixed.model.encoder.constant_ == ("unit",)
    assert mixed.certificate.status == "optimal"
    assert mixed.certificate.tol == 1e-4
    assert mixed.opening.clean
    assert len(mixed.sealed.openings) == 1
    assert len(mixed.svm.test.codes) == 40
    assert len(mixed.model.training.rows) == 120
    assert mixed.svm.n_validated == 120
    assert "optimal" in repr(mixed)
    assert set(mixed.versions) == {"python", "mercer", "numpy", "scipy", "scikit-learn"}


def test_figures_agree_with_the_model(mixed):
    table = as_table(with_missing(mixed_frame(160)))
    rows = mixed.sealed.open(lambda rows: rows, "check the figures").value
    truth = table["outcome"][mixed.intake.rows[rows]]
    predicted = mixed.model.predict(table.take(mixed.intake.rows[rows]))
    right = int(np.sum(truth == predicted))
    assert mixed.svm.test.accuracy == wilson_interval(right, 40)
    assert np.sum(mixed.margins_test > 0) == right
    assert np.diag(mixed.svm.test.confusion).sum() == right
    assert verify(mixed.model, table).ok


def test_the_sealed_rows_have_no_influence_before_they_are_opened():
    frame = mixed_frame(160)
    first = study(frame, "outcome", n_folds=3)
    test_rows = SealedTest(first.intake.codes, test_size=0.25, seed=0).open(lambda rows: rows, "peek").value
    garbled = frame.copy()
    garbled.loc[test_rows, "age"] = 1e6
    garbled.loc[test_rows, "site"] = "nowhere"
    second = study(garbled, "outcome", n_folds=3)
    assert [cell.n_right for cell in first.search.cells] == [cell.n_right for cell in second.search.cells]
    assert first.model.encoder.to_dict() == second.model.encoder.to_dict()
    for one, other in zip(first.model.parts, second.model.parts, strict=True):
        np.testing.assert_array_equal(one.beta, other.beta)
    for one, other in zip(first.contenders, second.contenders, strict=True):
        assert (one.setting, one.n_right) == (other.setting, other.n_right)
    assert first.svm.test.accuracy != second.svm.test.accuracy


def test_the_same_seed_gives_the_same_study():
    frame = three_classes()
    first, second = study(frame, "kind", n_folds=3), study(frame, "kind", n_folds=3)
    np.testing.assert_array_equal(first.svm.test.predicted, second.svm.test.predicted)
    assert first.search.best.n_right == second.search.best.n_right
    other = study(frame, "kind", n_folds=3, seed=1)
    assert not np.array_equal(first.sealed.rest, other.sealed.rest)


def test_margins_of_three_classes_are_positive_where_the_prediction_is_right():
    found = study(three_classes(), "kind", n_folds=3)
    assert len(found.model.parts) == 3
    won_all = found.margins_test > 0
    assert np.all(found.svm.test.right[won_all])
    assert found.svm.test.auc_interval is None
    assert len(found.svm.test.curves) == 3


def test_breast_cancer():
    frame = load_breast_cancer(as_frame=True).frame
    found = study(frame, "target")
    assert found.svm.test.accuracy.value > 0.94
    assert found.svm.test.auc > 0.98
    assert found.contenders[3].test.accuracy.value == pytest.approx(0.63, abs=0.01)


def test_a_nonlinear_problem_is_won_against_logistic_regression():
    X, y = make_circles(300, noise=0.15, factor=0.5, random_state=0)
    found = study(pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "ring": y}), "ring")
    test = found.against(found.contenders[1])
    assert test.only_first > test.only_second
    assert test.p_value < 0.05


REFUSED = {
    "target": (dict(target="outcom"), "there is no column 'outcom'"),
    "missing": (dict(missing=None), "missing values in 'age' (5), 'site' (5)"),
    "test size": (dict(test_size=1.2), "test_size must lie between 0 and 1, got 1.2"),
    "folds": (dict(n_folds=60), "every class needs 82 rows"),
    "task": (dict(task="regression"), "task=regression is not among the tasks yet"),
    "tol": (dict(tol=0.0), "tol must be a number > 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_studied(case):
    options, message = REFUSED[case]
    options = {"missing": "impute", "target": "outcome", "n_folds": 3} | options
    with pytest.raises((TableError, ValueError)) as caught:
        study(with_missing(mixed_frame()), **options)
    assert message in str(caught.value)


def test_a_rare_class_is_named():
    frame = mixed_frame()
    frame.loc[0, "outcome"] = "odd"
    with pytest.raises(TableError, match=r"every class needs 8 rows .* but 'odd' \(1\) has fewer"):
        study(frame, "outcome")


def interrupt_at(stage, done):
    """A progress callback that presses Ctrl-C once."""
    pressed = []

    def progress(state):
        if not pressed and state.stage == stage and state.done >= done:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    return progress


def test_ctrl_c_in_the_search_goes_on_with_the_best_so_far():
    found = study(three_classes(), "kind", n_folds=3, progress=interrupt_at("search", 10))
    assert found.search.stopped == "interrupted"
    assert 3 <= len(found.search.cells) < found.search.n_planned
    assert found.certificate.status == "optimal"
    assert found.svm.test.accuracy.value > 0.5


@pytest.mark.parametrize("stage", ["comparison", "test"])
def test_ctrl_c_elsewhere_ends_the_study(stage):
    with pytest.raises(KeyboardInterrupt):
        study(three_classes(), "kind", n_folds=3, progress=interrupt_at(stage, 0))


def test_two_ctrl_c_in_the_search_end_the_study():
    def progress(state):
        if state.stage == "search" and state.done == 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        study(three_classes(), "kind", n_folds=3, progress=progress)


def test_a_time_limit_that_is_too_short_says_so():
    with pytest.raises(SearchStopped, match="time limit"):
        study(three_classes(), "kind", n_folds=3, max_seconds=1e-6)


def test_a_few_cells_of_text_among_numbers_are_refused():
    frame = mixed_frame(120)
    frame["dose"] = [str(value) for value in np.random.default_rng(0).normal(size=120).round(2)]
    frame.loc[8, "dose"] = "abc"
    with pytest.raises(TableError, match=r"column 'dose' holds numbers in 119 of 120 cells, but row 9 holds 'abc'"):
        study(frame, "outcome")
