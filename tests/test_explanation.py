"""Contributions of columns to one prediction: exact for sums over columns, by replacement for other machines."""

import numpy as np
import pandas as pd
import pytest

from generated import mixed_frame, quantities, three_classes
from mercer import SVC, SVDD, SVR, LinearSVC, LinearSVR, LogisticRegression, NuSVC
from mercer.studies.models import explain, fit_model

MACHINES = {
    "two classes, linear": (LinearSVC(C=1.0), mixed_frame().drop(columns=["row", "unit"]), "outcome"),
    "three classes, linear": (LinearSVC(C=1.0), three_classes(), "kind"),
    "three classes, logistic": (LogisticRegression(), three_classes(), "kind"),
    "numbers, linear": (LinearSVR(C=1.0), quantities(), "pay"),
    "pairs of classes": (SVC(kernel="linear"), three_classes(), "kind"),
    "numbers, linear kernel": (SVR(kernel="linear"), quantities(), "pay"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_contributions_to_a_sum_add_up(name):
    machine, frame, target = MACHINES[name]
    model = fit_model(frame, target, machine)
    explanation = explain(model, frame)
    assert explanation.is_exact
    np.testing.assert_allclose(
        explanation.base + explanation.contributions.sum(axis=1), explanation.output, rtol=1e-7, atol=1e-7
    )
    scores = model.scores(frame)
    if scores.ndim == 1:
        np.testing.assert_allclose(explanation.output, scores)


@pytest.mark.parametrize("machine", [SVC(C=10.0), NuSVC(nu=0.2)])
def test_other_contributions_are_those_of_replaced_cells(machine):
    frame = mixed_frame(60)[["age", "site", "outcome"]]
    model, few = fit_model(frame, "outcome", machine), frame.iloc[:20]
    explanation = explain(model, frame.iloc[20:23], reference=few)
    assert explanation.columns == ("age", "site")
    for row in range(3):
        changed = pd.concat([frame.iloc[[20 + row]]] * 20, ignore_index=True).assign(site=few["site"].to_numpy())
        wanted = model.scores(frame.iloc[[20 + row]])[0] - model.scores(changed).mean()
        assert explanation.contributions[row, 1] == pytest.approx(wanted, abs=1e-9)
    sizes = [abs(amount) for _, amount in explanation.largest(0)]
    assert sizes == sorted(np.abs(explanation.contributions[0]), reverse=True)


def test_a_column_without_effect_contributes_nothing_and_few_rows_are_explained():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80)}).assign(y=lambda one: 3 * one["a"])
    model = fit_model(frame, "y", LinearSVR(C=1e4, epsilon=0.0))
    explanation = explain(model, frame.iloc[:1])
    assert explanation.contributions[0, 1] == pytest.approx(0.0, abs=1e-3)
    assert explanation.contributions[0, 0] == pytest.approx(3 * (frame["a"][0] - frame["a"].mean()), abs=1e-3)
    curved = fit_model(frame, "y", SVR(C=10.0))
    assert explain(curved, frame.iloc[:1]).contributions.shape == (1, 2)


@pytest.mark.filterwarnings("ignore:Column 'text' holds free text")
def test_text_and_sparse_columns_are_explained_as_one_column_each():
    rng = np.random.default_rng(1)
    good = rng.random(60) < 0.5
    text = [f"it was {'fine' if one else 'bad'} on day {k}" for k, one in enumerate(good)]
    frame = pd.DataFrame({"text": text, "n": rng.normal(size=60), "t": np.where(good, "up", "down")})
    for machine in (LinearSVC(), SVC(kernel="linear"), SVC()):
        model = fit_model(frame, "t", machine)
        explanation = explain(model, frame)
        assert explanation.columns == ("text", "n")
        assert (np.sign(explanation.contributions[:, 0]) == np.where(good, 1, -1)).all()


def test_machines_without_classes_are_explained_too():
    frame = pd.DataFrame(np.random.default_rng(2).normal(size=(50, 2)), columns=list("ab"))
    model = fit_model(frame, None, SVDD())
    assert explain(model, frame).contributions.shape == (50, 2)
