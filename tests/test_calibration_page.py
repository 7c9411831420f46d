"""Probabilities in a study: the model has them, and the page says how far they can be trusted."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from generated import render, three_classes
from mercer.studies.models import load_model, save_model, verify
from mercer.studies.protocol import study
from mercer.studies.report import calibration


def frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    return pd.DataFrame(
        {"a": a, "b": rng.normal(size=n), "t": np.where(rng.random(n) < 1 / (1 + np.exp(-2 * a)), "up", "down")}
    )


@pytest.fixture(scope="module")
def studied():
    return study(frame(), "t", n_folds=3, kernel=["linear", "rbf"])


def test_a_study_has_probabilities_that_agree_with_what_happens(studied):
    test = studied.svm.test
    groups = calibration.groups_of(test)
    assert len(groups) == 4
    assert [one for one, _ in groups] == sorted(one for one, _ in groups)
    for predicted, share in groups:
        assert abs(predicted - share.value) < 0.25
    picked = studied.model.probabilities(frame().drop(columns="t").iloc[studied.test_rows])
    np.testing.assert_allclose(picked, test.probabilities)
    assert calibration.log_loss(test) < np.log(2)
    page = render(studied)
    assert "Can the probabilities be trusted?" in page
    assert "of 4 groups of sealed rows" in page


def test_the_page_says_if_the_probabilities_are_wrong(studied):
    assert "so the probabilities are" not in calibration.trust(studied)
    test, n = studied.svm.test, len(studied.svm.test.codes)
    for p, words in ((0.999, "too high"), (0.001, "too low")):
        wrong = replace(test, probabilities=np.column_stack([np.full(n, 1 - p), np.full(n, p)]))
        text = calibration.trust(
            replace(studied, contenders=(replace(studied.svm, test=wrong), *studied.contenders[1:]))
        )
        assert f"More groups disagree than chance explains, so the probabilities are {words}, by up to" in text
        n_other = np.count_nonzero(test.predicted != (p > 0.5))
        assert f"In {n_other} sealed rows the predicted class is not the most probable one" in text


def test_the_model_file_has_them_and_they_are_verified(studied, tmp_path):
    save_model(tmp_path / "m.mercer", studied.model)
    model = load_model(tmp_path / "m.mercer")
    assert model.has_probabilities
    assert verify(model, frame()).ok


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_copies_are_in_one_fold_where_probabilities_are_calibrated(kernel, tmp_path):
    double = pd.concat([frame(120), frame(120)], ignore_index=True)
    result = study(double, "t", n_folds=3, kernel=kernel)
    folds, rows = result.model.calibration.folds, result.model.training.rows
    assert len(set(folds.tolist())) == 5
    of_row = dict(zip(rows.tolist(), folds.tolist(), strict=True))
    assert all(of_row[row] == of_row[row + 120] for row in rows.tolist() if row < 120)
    save_model(tmp_path / "m.mercer", result.model)
    assert verify(load_model(tmp_path / "m.mercer"), double).ok


def test_short_tables_have_none():
    short = study(frame(80), "t", n_folds=3, kernel="linear")
    assert not calibration.has_probabilities(short)


@pytest.mark.full
def test_several_classes_are_judged_by_the_most_probable_one():
    result = study(three_classes(), "kind", n_folds=3, kernel="linear")
    if calibration.has_probabilities(result):
        assert "of the most probable class" in render(result)
    assert result.svm.test.probabilities.shape[1] == 3
