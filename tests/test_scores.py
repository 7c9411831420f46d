"""Class weights and scores of a study: what counts, what settings are chosen by, and what the report says of it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.svm import SVC as LIBSVM

from generated import quantities, rare_class, three_classes
from mercer.data import TableError, as_table
from mercer.model_selection import Interval, PairedTest
from mercer.model_selection.metrics import evaluate, wilson_interval
from mercer.model_selection.score_intervals import area_with_influence, normal_interval, sum_of_shares
from mercer.model_selection.splits import stratified_folds
from mercer.studies import cli, scores
from mercer.studies.candidates import KernelChoice
from mercer.studies.class_rivals import Logistic, SameClass
from mercer.studies.classification import ClassScoring, ToClassify
from mercer.studies.cli import study as study_module
from mercer.studies.contenders import encoded_folds
from mercer.studies.costs import class_weights
from mercer.studies.models import load_model, verify
from mercer.studies.protocol import study
from mercer.studies.regression import NumberScoring
from mercer.studies.report import decisions, prose
from mercer.studies.rivals import choose_rivals
from mercer.studies.scores import WeightedAccuracy
from mercer.studies.search import search
from mercer.studies.tables import TableEncoder
from mercer.studies.time_budget import TimeBudget

NAMES, COUNTS = ["a", "b", "c"], np.array([60, 30, 10])


@pytest.mark.parametrize(
    ("asked", "weights"),
    [
        ("none", [1.0, 1.0, 1.0]),
        ("balanced", [100 / 180, 100 / 90, 100 / 30]),
        ("c=3", [1.0, 1.0, 3.0]),
        (" c = 3 , a=0.5", [0.5, 1.0, 3.0]),
        ({"c": 3, "a": 0.5}, [0.5, 1.0, 3.0]),
    ],
)
def test_class_weights(asked, weights):
    np.testing.assert_allclose(class_weights(asked, NAMES, COUNTS), weights)


def test_labels_may_hold_what_separates_them():
    names = ["a", "a,b", "x=1", "7"]
    weights = class_weights("x=1=2,a,b=3,a=4,7=5", names, np.ones(4))
    assert weights.tolist() == [4.0, 3.0, 2.0, 5.0]
    assert class_weights({7.0: 2}, names, np.ones(4)).tolist() == [1.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("d=3", r"class_weight cannot be read from 'd=3' on: .* LABEL=NUMBER, .* the classes are 'a', 'b' and 'c'"),
        ("a=3 b=2", "cannot be read from 'a=3 b=2'"),
        ("a=3,b", "cannot be read from 'b'"),
        ("a=three", "cannot be read from 'a=three'"),
        ("", "class_weight is empty"),
        ("a=0", "gives 'a' the weight 0, and a weight must be a finite number > 0"),
        ("a=inf", "gives 'a' the weight inf"),
        ("a=1,a=2", "names 'a' twice"),
        ({"d": 3}, "names 'd', and the classes are"),
        ({"a": "many"}, "says 'many' for 'a', which is not a number"),
    ],
)
def test_class_weights_that_cannot_be_used(asked, message):
    with pytest.raises(TableError, match=message):
        class_weights(asked, NAMES, COUNTS)


def predictions(n=200, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.choice(n_classes, n, p=[0.6, 0.4] if n_classes == 2 else [0.6, 0.3, 0.1])
    logits = rng.standard_normal((n, n_classes)).round(1) + 1.5 * np.eye(n_classes)[truth]
    shares = np.exp(logits)
    shares /= shares.sum(axis=1, keepdims=True)
    return scores.Predictions(truth, shares.argmax(axis=1), shares if n_classes > 2 else shares[:, 1], shares)


def made(scoring, n_classes, one, **options):
    return ToClassify.asked(NAMES[:n_classes], one.truth, scoring=scoring, **options).score


SCIKIT_LEARN = {
    "accuracy": lambda one: metrics.accuracy_score(one.truth, one.predicted),
    "balanced_accuracy": lambda one: metrics.balanced_accuracy_score(one.truth, one.predicted),
    "roc_auc": lambda one: metrics.roc_auc_score(one.truth, one.scores, multi_class="ovr"),
    "f1": lambda one: (
        metrics.f1_score(one.truth, one.predicted, average="macro")
        if one.probabilities.shape[1] > 2
        else metrics.f1_score(one.truth, one.predicted)
    ),
    "log_loss": lambda one: -metrics.log_loss(one.truth, one.probabilities),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scoring", SCIKIT_LEARN)
def test_scores_are_those_of_scikit_learn(scoring, n_classes):
    one = predictions(n_classes=n_classes)
    score = made(scoring, n_classes, one)
    expected = SCIKIT_LEARN[scoring](one)
    assert score.figure(score.error(one)) == pytest.approx(expected)
    interval = score.interval(evaluate(*one[:3], NAMES[:n_classes], probabilities=one.probabilities))
    assert interval.value == pytest.approx(-expected if score.is_loss else expected)
    assert interval.low < interval.value < interval.high


def test_weighted_accuracy_counts_rows_by_their_class():
    one = predictions()
    weights = np.array([1.0, 2.0, 5.0])
    score = made(None, 3, one, class_weight={"b": 2, "c": 5})
    expected = np.average(one.truth == one.predicted, weights=weights[one.truth])
    assert score.figure(score.error(one)) == pytest.approx(expected)
    assert score.interval(evaluate(*one[:3], NAMES)).value == pytest.approx(expected)
    plain = made("accuracy", 3, one, class_weight={"b": 2, "c": 5})
    assert plain.is_plain
    assert plain.error(one) == np.sum(one.truth != one.predicted)


@pytest.mark.parametrize("scoring", [*SCIKIT_LEARN, None])
def test_a_comparison_says_by_how_much_the_first_machine_is_better(scoring):
    one = predictions(400)
    better = one._replace(predicted=np.where(np.arange(400) % 2, one.truth, one.predicted))
    better = better._replace(probabilities=0.5 * one.probabilities + 0.5 * np.eye(3)[better.predicted])
    better = better._replace(scores=better.probabilities)
    score = made(scoring, 3, one, class_weight={"c": 4.0})
    first, second = (evaluate(*each[:3], NAMES, probabilities=each.probabilities) for each in (better, one))
    comparison = score.compare(first, second)
    goal = ToClassify(NAMES, 400, score=score)
    assert [goal.sign(score.compare(*pair)) for pair in ((first, second), (second, first), (first, first))] == [
        1,
        -1,
        0,
    ]
    if scoring == "accuracy":
        assert isinstance(comparison, PairedTest)
        return
    sign = -1.0 if score.is_loss else 1.0
    gain = sign * (score.interval(first).value - score.interval(second).value)
    assert comparison.value == pytest.approx(gain)


def test_a_sum_of_shares():
    one, two = wilson_interval(8, 10), wilson_interval(20, 50)
    sums = sum_of_shares([one, two], [0.5, 0.25])
    below = np.hypot(0.5 * (one.value - one.low), 0.25 * (two.value - two.low))
    assert (sums.value, sums.low) == (pytest.approx(0.5), pytest.approx(0.5 - below))
    certain = sum_of_shares([wilson_interval(10, 10), wilson_interval(50, 50)], [0.5, 0.5])
    assert (certain.value, certain.high) == (1.0, 1.0)
    assert certain.low < 0.9


def test_the_variance_of_an_area_is_that_of_the_bootstrap():
    one = predictions(300, 2)
    area, influence = area_with_influence(one.truth, one.scores)
    rng = np.random.default_rng(1)
    draws = []
    for _ in range(150):
        rows = rng.integers(0, 300, 300)
        draws.append(metrics.roc_auc_score(one.truth[rows], one.scores[rows]))
    interval = normal_interval(area, influence)
    assert (interval.high - interval.low) / 2 / 1.96 == pytest.approx(np.std(draws), rel=0.2)
    assert abs(influence.mean()) < 1e-12
    assert area_with_influence(np.zeros(5, dtype=int), np.arange(5.0)) == (0.5, pytest.approx(np.zeros(5)))


def test_the_balanced_accuracy_of_folds_is_that_of_all_rows_together():
    one = predictions()
    score = made("balanced_accuracy", 3, one)
    parts = np.array_split(np.arange(200), 4)
    errors = [score.error(scores.Predictions(*(each[rows] for each in one))) for rows in parts]
    assert score.figure(sum(errors)) == pytest.approx(metrics.balanced_accuracy_score(one.truth, one.predicted))


def folds_of(frame, target, n_folds=3):
    table = as_table(frame)
    codes = np.unique(table[target], return_inverse=True)[1]
    return encoded_folds(table.without([target]), codes, stratified_folds(codes, n_folds, 0), TableEncoder())


@pytest.mark.parametrize(
    ("frame", "weights"), [(rare_class(200), {"sick": 8.0}), (three_classes(), {"b": 3.0})], ids=["two", "three"]
)
def test_machines_of_the_search_are_weighted_as_those_of_libsvm(frame, weights):
    target = frame.columns[-1]
    folds = folds_of(frame, target)
    goal = ToClassify.asked(
        np.unique(frame[target]).tolist(), folds[0].truth, class_weight=weights, scoring="balanced_accuracy"
    )
    search_result = search(folds, goal, kernels=[KernelChoice("linear")], C_grid=[0.1, 10.0], extend=False, tol=1e-8)
    for cell in search_result.cells:
        right = []
        for fold in folds:
            libsvm = LIBSVM(C=cell.C, kernel="linear", tol=1e-8, break_ties=True, decision_function_shape="ovr")
            libsvm.set_params(class_weight=dict(enumerate(goal.weights)))
            predicted = libsvm.fit(fold.X[fold.train], fold.truth[fold.train]).predict(fold.X[fold.validation])
            right.append((fold.truth[fold.validation], predicted))
        truth, predicted = map(np.concatenate, zip(*right, strict=True))
        assert cell.figure == pytest.approx(metrics.balanced_accuracy_score(truth, predicted))


def test_the_logistic_regression_has_the_same_weights():
    folds = folds_of(rare_class(200), "state")
    goal = ToClassify.asked(["sick", "well"], folds[0].truth, class_weight="balanced")
    chosen, constant = choose_rivals(folds, [Logistic(goal), SameClass(goal)], 130, 130, TimeBudget(None))
    assert chosen.estimator.class_weight == pytest.approx({0: 10.0, 1: 200 / 380})
    assert (constant.name, goal.figure(sum(constant.errors))) == ("same class for all", pytest.approx(0.5))


@pytest.fixture(scope="module")
def by_accuracy():
    return study(rare_class(), "state", kernel="linear", n_folds=3)


@pytest.fixture(scope="module")
def balanced():
    return study(rare_class(), "state", kernel="linear", n_folds=3, class_weight="balanced")


def test_a_machine_that_never_predicts_a_class_says_so_in_the_headline(by_accuracy):
    n_right, missed = by_accuracy.svm.test.confusion[0]
    assert (n_right, missed > 5) == (0, True)
    headline = prose.summary(by_accuracy)[0]
    assert f"It never predicted “sick” and missed all {missed} rows of this class." in headline
    remedy = "--class-weight balanced or --scoring balanced_accuracy makes the machine look for rare classes"
    assert remedy in " ".join(prose.cautions(by_accuracy))


def test_a_rival_that_wins_by_another_score_is_named_in_the_headline(by_accuracy):
    svm, logistic, *others = by_accuracy.contenders
    codes = svm.test.codes
    rng = np.random.default_rng(0)
    informed = 2.0 * codes + rng.standard_normal(codes.size) - 1.5

    def headline(accuracy, scores):
        test = replace(evaluate(codes, (scores > 0).astype(int), scores, ["sick", "well"]), accuracy=accuracy)
        studied = replace(by_accuracy, contenders=(svm, replace(logistic, test=test), *others))
        return test, prose.phrasing_of(studied).headline(studied)

    svm = replace(svm, test=evaluate(codes, svm.test.predicted, rng.standard_normal(codes.size), ["sick", "well"]))
    test, text = headline(Interval(0.8, 0.7, 0.9), informed)
    assert (
        f"Logistic regression had no higher accuracy, but a higher balanced accuracy ({prose.percent(test.balanced)} "
        f"against 50.0%) and a larger area under ROC ({test.auc:.3f} against {svm.test.auc:.3f})."
    ) in text
    assert "Logistic" not in headline(Interval(0.98, 0.9, 1.0), informed)[1]
    chance = informed - 2.0 * codes
    assert "Logistic" not in headline(Interval(0.8, 0.7, 0.9), chance)[1]


def test_balanced_weights_find_the_rare_class(balanced):
    recall = balanced.svm.test.classes[0].recall
    assert recall >= 0.6
    assert balanced.svm.test.balanced > 0.65
    weights = 450 / (2 * np.bincount(balanced.svm.train.codes))
    np.testing.assert_allclose(balanced.model.training.class_weight, weights)
    assert verify(balanced.model, rare_class()).ok
    best = balanced.search.best
    assert best.figure == max(cell.figure for cell in balanced.search.cells) > 0.7
    assert "--class-weight" not in " ".join(prose.cautions(balanced))
    text = " ".join(prose.summary(balanced))
    value = prose.percent(balanced.svm.test.balanced)
    assert f"Its balanced accuracy, by which it was chosen, was {value} (" in text
    assert value in shown_on_sealed_rows(balanced)
    assert "had the highest cross-validated balanced accuracy of" in text
    assert f"multiplied by the weight of its class: “sick” {weights[0]:.3g}, “well” {weights[1]:.3g}." in text
    assert {cell.choice.family for cell in balanced.search.cells} == {"linear"}


@pytest.mark.full
def test_the_score_and_the_weights_imply_each_other(balanced):
    other = study(rare_class(), "state", kernel="linear", n_folds=3, scoring="balanced_accuracy")
    assert [cell.errors for cell in other.search.cells] == [cell.errors for cell in balanced.search.cells]
    implied = " The weights follow from the score; --class-weight none trains without."
    assert [text.replace(implied, "") for text in prose.summary(other)] == prose.summary(balanced)
    assert implied in " ".join(prose.summary(other))
    unweighted = study(
        rare_class(), "state", kernel="linear", n_folds=3, scoring="balanced_accuracy", class_weight="none"
    )
    assert unweighted.model.training.class_weight.tolist() == [1.0, 1.0]


def shown_on_sealed_rows(studied):
    """The figures of the support vector machine on the sealed rows, in the table that is printed."""
    phrasing = prose.phrasing_of(studied)
    cells, headings = phrasing.cells(studied.goal, studied.svm), phrasing.headings(studied.goal)
    assert len(cells) == len(headings)
    assert studied.goal.figure_name in " ".join(headings).replace("\n", " ")
    return [cell.split("\n")[0] for cell in cells[1:]]


def test_a_study_by_the_logarithmic_loss_has_calibrated_probabilities():
    frame = rare_class(300, 0.2)
    studied = study(frame, "state", kernel="linear", n_folds=3, scoring="log_loss")
    assert studied.model.has_probabilities
    assert verify(studied.model, frame).ok
    rows = studied.test_rows
    shares = studied.model.probabilities(frame.iloc[rows])
    codes = (frame["state"].to_numpy()[rows] == "well").astype(int)
    expected = metrics.log_loss(codes, shares)
    assert studied.goal.main(studied.svm.test).value == pytest.approx(expected)
    assert f"Its logarithmic loss, by which it was chosen, was {expected:.3f} (" in prose.summary(studied)[0]
    assert f"{expected:.3f}" in shown_on_sealed_rows(studied)
    assert studied.svm.cv < -0.2
    assert studied.svm.cv == max(cell.figure for cell in studied.search.cells)


@pytest.mark.parametrize("scoring", ["mae", "rmse"])
def test_a_study_of_numbers_by_an_error(scoring):
    studied = study(quantities(90), "pay", kernel="linear", n_folds=3, scoring=scoring)
    test = studied.svm.test
    main = studied.goal.main(test)
    assert main.value == pytest.approx(test.mae if scoring == "mae" else test.rmse)
    assert studied.search.best.figure == pytest.approx(max(cell.figure for cell in studied.search.cells))
    ridge = studied.contenders[1].test
    compared = studied.against(studied.contenders[1])
    assert compared.value == pytest.approx((ridge.mae - test.mae) if scoring == "mae" else (ridge.rmse - test.rmse))
    assert "had the lowest cross-validated" in prose.choice(studied)
    assert shown_on_sealed_rows(studied).count(f"{main.value:,.0f}") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"scoring": "r2"},
            "scoring=r2 is no score of classification, which has 'accuracy', 'balanced_accuracy', 'roc_auc',",
        ),
        ({"kernel": "gausian"}, "got 'gausian'; did you mean 'gaussian'"),
        ({"kernel": []}, "kernel names no family"),
        ({"class_weight": "ill=3"}, "class_weight cannot be read from 'ill=3'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        study(rare_class(60, 0.3), "state", **options)


def test_options_of_classes_are_refused_for_numbers():
    with pytest.raises(TableError, match="class_weight is for classification, and this is regression"):
        study(quantities(60), "pay", class_weight="balanced")
    with pytest.raises(ValueError, match="scoring=roc_auc is no score of regression, which has 'r2', 'mae' and 'rmse'"):
        study(quantities(60), "pay", scoring="roc_auc")


def test_the_command_line_knows_all_scores():
    assert get_args(ClassScoring) == study_module._CLASS_SCORES
    assert get_args(NumberScoring) == study_module._NUMBER_SCORES


def test_only_the_kernels_that_were_asked_for_are_tried():
    studied = study(three_classes(60), "kind", kernel=["poly", "linear"], n_folds=2)
    assert {cell.choice.family for cell in studied.search.cells} == {"linear", "polynomial"}


@pytest.fixture
def mercer(tmp_path, monkeypatch, capsys):
    """Run the command line in a folder with the table t.csv; exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    rare_class(300, 0.1).to_csv("t.csv", index=False)

    def run(*arguments):
        status = cli.run([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


def test_a_fit_with_class_weights_by_command(mercer):
    status, _, err = mercer("fit", "t.csv", "--target", "state", "--class-weight", "sick=5", "--out", "m.mercer")
    assert (status, err) == (0, "written: m.mercer\n")
    assert load_model("m.mercer").training.class_weight.tolist() == [5.0, 1.0]
    assert mercer("verify", "m.mercer", "t.csv")[0] == 0
    mercer("fit", "t.csv", "--target", "state", "--class-weight", "balanced", "--out", "m.mercer")
    assert load_model("m.mercer").training.class_weight == pytest.approx([5.0, 300 / 540])


@pytest.mark.full
def test_a_study_by_another_score_by_command(mercer):
    options = ("--kernel", "linear", "--folds", "3", "--out", "s")
    status, out, _ = mercer("study", "t.csv", "--target", "state", "--scoring", "balanced_accuracy", *options)
    assert status == 0
    assert "Its balanced accuracy, by which it was chosen, was" in out
    assert "linear machine" in out
    page = Path("s/report.html").read_text(encoding="utf-8")
    assert re.search("<dt>(<a[^>]*>)?Balanced accuracy(</a>)?</dt>", page)
    assert "Cross-validated balanced accuracy in percent, for every candidate" in page
    assert "--scoring balanced_accuracy --kernel linear" in page
    model, truth = load_model("s/model.mercer"), pd.read_csv("t.csv")["state"] == "well"
    counts = np.bincount(truth[model.training.rows])
    assert model.training.class_weight == pytest.approx(counts.sum() / (2 * counts))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "--class-weight", "ill=3"), "error: --class-weight cannot be read from 'ill=3' on: it must be LABEL="),
        (("fit", "--class-weight", "sick=3", "--target", "a"), "error: --class-weight is for classification, and this"),
        (("study", "--class-weight", "sick=3", "--target", "a"), "error: --class-weight is for classification, and"),
        (("study", "--scoring", "auc"), "error: Invalid value for '--scoring': 'auc' is not one of 'accuracy'"),
        (("study", "--scoring", "mae"), "error: --scoring mae is no score of classification, which has 'accuracy'"),
    ],
)
def test_options_that_cannot_be_used_by_command(mercer, arguments, message):
    command, *options = arguments
    target = () if "--target" in options else ("--target", "state")
    status, _, err = mercer(command, "t.csv", *target, *options, "--out", "out")
    assert status != 0
    assert err.startswith(message), err
    assert not Path("out").exists()


def test_a_fit_says_which_classes_it_never_predicts(mercer):
    options = ("t.csv", "--target", "state", "--kernel", "linear", "--C", "0.001", "--out", "m.mercer")
    said = "No training row is predicted to be 'sick'; --class-weight balanced may change this."
    assert said in mercer("fit", *options)[1]
    assert "No training row" not in mercer("fit", *options, "--class-weight", "balanced")[1]


def test_the_doctor_says_that_classes_are_uneven(mercer):
    out = " ".join("".join(mercer("doctor", "t.csv", "--target", "state")[1:]).split())
    assert (
        "90.0% of the rows are of the class 'well', so a machine that predicts nothing else is right in as many" in out
    )
    assert "--class-weight balanced or --scoring balanced_accuracy" in out


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "roc_auc", "log_loss"])
def test_noise_is_not_above_chance_by_any_score(scoring):
    rng = np.random.default_rng(5)
    frame = rare_class(240, 0.2)[["a", "b", "state"]].assign(state=rng.permutation(rare_class(240, 0.2)["state"]))
    studied = study(frame, "state", n_folds=3, scoring=scoring)
    svm, constant = (studied.goal.main(one.test) for one in (studied.svm, studied.contenders[-1]))
    assert svm.low <= constant.value <= svm.high or studied.goal.sign(studied.against(studied.contenders[-1])) <= 0
    assert "Was a support vector machine worth it? That is not shown" in prose.worth(studied)


def test_rows_of_a_group_count_as_dependent():
    one = predictions(200, 2)
    groups = np.arange(200) // 10
    order = np.argsort(one.truth + 0.1 * one.probabilities[:, 1], kind="stable")  # groups of rows that are alike
    one = scores.Predictions(*(each[order] for each in one))
    for scoring in ("balanced_accuracy", "roc_auc", "f1", "log_loss"):
        score = made(scoring, 2, one)
        alone, grouped = (
            score.interval(evaluate(*one[:3], NAMES[:2], probabilities=one.probabilities, groups=grouping))
            for grouping in (None, groups)
        )
        assert alone.value == pytest.approx(grouped.value)
        assert grouped.high - grouped.low > alone.high - alone.low, scoring


def test_names_of_classes_do_not_matter():
    frame = rare_class(200, 0.1)
    renamed = frame.assign(state=frame["state"].map({"sick": "zz", "well": "aa"}))
    options = {"kernel": "linear", "n_folds": 3, "scoring": "f1"}
    one, other = study(frame, "state", **options), study(renamed, "state", **options)
    assert one.search.best.errors == pytest.approx(other.search.best.errors)
    assert one.goal.main(one.svm.test).value == pytest.approx(other.goal.main(other.svm.test).value)
    first, second = decisions.thresholds_of(one), decisions.thresholds_of(other)
    for ours, theirs in zip(first.tuned, second.tuned, strict=True):
        assert ours.unsealed.value == pytest.approx(theirs.unsealed.value, abs=0.01)
        assert ours.sealed.recall == theirs.sealed.recall


@pytest.mark.parametrize(("studied", "is_better"), [(4, True), (5, True), (1, False)])
def test_a_machine_that_finds_a_rare_class_is_better_than_a_constant(studied, is_better):
    codes = np.r_[np.zeros(70, int), np.ones(5, int)]
    predicted = codes.copy()
    predicted[:8], predicted[70 + studied :] = 1, 0
    score = WeightedAccuracy(np.array([75 / 140, 75 / 10]), 75.0, is_balanced=True)
    ours, constant = (evaluate(codes, answer, None, ["well", "sick"]) for answer in (predicted, np.zeros(75, int)))
    gain = score.compare(ours, constant)
    assert gain.value == pytest.approx(0.5 * (studied / 5 - 8 / 70))
    assert (gain.low > 0.0) is is_better  # a resample without a sick row made the constant right everywhere
    back = score.compare(constant, ours)
    assert (back.low, back.high) == pytest.approx((-gain.high, -gain.low))


def test_machines_that_agree_on_all_groups_may_still_differ():
    right = np.arange(60) > 3
    one = evaluate(np.ones(60, dtype=int), right.astype(int), None, NAMES[:2], groups=np.arange(60) // 2)
    between = scores.accuracy_difference(one, one)
    assert between.value == 0.0
    assert between.low < -0.05 < 0.05 < between.high  # 30 groups, not 60 rows, and not nothing
    apart = scores.accuracy_difference(replace(one, groups=None), replace(one, groups=None))
    assert between.high > apart.high
