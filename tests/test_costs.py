"""Costs of wrong predictions: how they are written, how they decide, and that a model file keeps them."""

from pathlib import Path

import numpy as np
import pytest

from generated import quantities, rare_class, render, three_classes
from mercer import SVC
from mercer.data import TableError, as_table
from mercer.model_selection.splits import stratified_folds
from mercer.multiclass.expected_cost import least_expected_cost
from mercer.multiclass.probability_maps import fit_sigmoid
from mercer.studies import cli
from mercer.studies.candidates import KernelChoice
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import encoded_folds
from mercer.studies.costs import cost_matrix, costs_of_file, weights_by_cost
from mercer.studies.models import load_model, save_model, verify
from mercer.studies.models.manifest import arrays_of, manifest_of, model_of
from mercer.studies.models.model_file import ModelFileError
from mercer.studies.protocol import study
from mercer.studies.report import decisions, prose
from mercer.studies.report.decisions import by_costs
from mercer.studies.search import search
from mercer.studies.tables import TableEncoder

NAMES = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("asked", "costs"),
    [
        ("a:b=5", [[0, 5, 1], [1, 0, 1], [1, 1, 0]]),
        (" b : a = 0.5 , c:a=0", [[0, 1, 1], [0.5, 0, 1], [0, 1, 0]]),
        ({("a", "c"): 2, ("a", "a"): 0}, [[0, 1, 2], [1, 0, 1], [1, 1, 0]]),
    ],
)
def test_costs_are_1_unless_they_are_named(asked, costs):
    np.testing.assert_array_equal(cost_matrix(asked, NAMES), costs)


def test_labels_of_costs_may_hold_colons():
    assert cost_matrix("a:b:c=5", ["a:b", "c"]).tolist() == [[0, 5], [1, 0]]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            "a=5",
            r"cost cannot be read from 'a=5' on: it must be TRUE:PREDICTED=NUMBER, .* classes are 'a', 'b' and 'c'",
        ),
        ("a:d=5", "cannot be read from 'a:d=5'"),
        ("a:b=-1", "cost says -1 for predicting 'b' where 'a' is true, and a cost must be a finite number >= 0"),
        ("a:b=nan", "cost says nan"),
        ("a:a=1", "cost says 1 for predicting 'a' where it is true: a right prediction costs 0"),
        ("a:b=1,a:b=2", "cost names 'a:b' twice"),
        ({("a", "d"): 1}, "cost names 'a:d', and the classes are"),
        ({"a": 1}, "cost names 'a', and the classes are"),
        ({(k, j): 0 for k in NAMES for j in NAMES}, "no wrong prediction costs anything"),
    ],
)
def test_costs_that_cannot_be_used(asked, message):
    with pytest.raises(TableError, match=message):
        cost_matrix(asked, NAMES)


def test_a_file_of_costs(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("\ufefftrue,a,b,c\n\na,0,5,\nc, 2 ,1,0\n", encoding="utf-8")
    assert costs_of_file(path) == {("a", "a"): 0, ("a", "b"): 5, ("c", "a"): 2, ("c", "b"): 1, ("c", "c"): 0}
    for text, message in (
        ("true,a,b\na,0\n", "line 2 has 1 costs, and the first line has 2 labels"),
        ("true,a,b\na,0,five\n", "cost says 'five' for 'a:b', which is not a number"),
        ("true,a,b\na,0,1\na,0,2\n", "line 3 has a second cost of predicting 'a' for 'a'"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(TableError, match=message):
            costs_of_file(path)


def test_the_least_expected_cost_by_hand():
    costs = cost_matrix("a:b=10", NAMES)
    probabilities = np.array([[0.2, 0.7, 0.1], [0.05, 0.9, 0.05], [0.4, 0.2, 0.4]])
    # Expected costs of the first row: 0.8 for a, 2.1 for b, 0.9 for c.
    assert least_expected_cost(probabilities, costs).tolist() == [0, 1, 0]
    zero_one = 1.0 - np.eye(3)
    assert least_expected_cost(probabilities, zero_one).tolist() == [0 if k == 2 else 1 for k in range(3)]


def test_class_weights_follow_from_costs():
    counts = np.array([30, 20, 50])
    weights = weights_by_cost(cost_matrix("a:b=9", NAMES), counts)
    np.testing.assert_allclose(weights / weights[1], [5.0, 1.0, 1.0])
    assert weights @ counts == pytest.approx(100.0)
    free = weights_by_cost(cost_matrix("a:b=0,a:c=0", NAMES), counts)
    assert free[0] == pytest.approx(1e-3 * free[1])


@pytest.fixture(scope="module", params=["two", "three"])
def costly(request):
    frame = rare_class(300, 0.1) if request.param == "two" else three_classes(120)
    cost = "sick:well=12" if request.param == "two" else "a:b=10,b:a=0.2"
    return frame, study(frame, frame.columns[-1], kernel="linear", n_folds=3, cost=cost)


def test_predictions_have_the_least_expected_cost(costly):
    frame, studied = costly
    model, test = studied.model, studied.svm.test
    rows = frame.iloc[studied.test_rows]
    probabilities = model.probabilities(rows)
    expected = np.array(studied.goal.labels)[(probabilities @ model.costs).argmin(axis=1)]
    assert model.predict(rows).tolist() == expected.tolist()
    assert model.answer(rows)[0].tolist() == expected.tolist()
    assert np.array(studied.goal.labels)[test.predicted].tolist() == expected.tolist()
    truth = np.array([studied.goal.labels.index(label) for label in rows[frame.columns[-1]]])
    assert studied.goal.main(test).value == pytest.approx(model.costs[truth, test.predicted].mean())
    assert verify(model, frame).ok
    assert set(expected) == set(studied.goal.labels)


def test_settings_are_chosen_by_the_mean_cost(costly):
    _, studied = costly
    assert studied.search.best.figure == pytest.approx(max(cell.figure for cell in studied.search.cells))
    constant = studied.contenders[-1]
    counts = np.bincount(studied.svm.train.codes)
    assert constant.test.predicted[0] == (counts @ studied.model.costs).argmin()
    text = " ".join(prose.summary(studied))
    assert "had the lowest cross-validated mean cost" in text
    assert "Its mean cost, by which it was chosen, was" in text
    assert by_costs(studied.goal.labels, studied.model.costs) in text


def test_the_cost_of_a_candidate_is_that_of_probabilities_calibrated_on_other_folds():
    frame = rare_class(300, 0.1)
    table, codes = as_table(frame), (frame["state"] == "well").to_numpy().astype(int)
    splits = stratified_folds(codes, 3, 0)
    folds = encoded_folds(table.without(["state"]), codes, splits, TableEncoder())
    goal = ToClassify.asked(["sick", "well"], codes, cost="sick:well=12")
    cell = search(folds, goal, kernels=[KernelChoice("linear")], C_grid=[1.0], extend=False, tol=1e-8).cells[0]
    values = [
        SVC(kernel="linear", class_weight=dict(enumerate(goal.weights)), tol=1e-8)
        .fit(fold.X[fold.train], codes[fold.train])
        .decision_function(fold.X[fold.validation])
        for fold in folds
    ]
    costs = []
    for k, fold in enumerate(folds):
        others = [j for j in range(3) if j != k]
        truth = np.concatenate([codes[folds[j].validation] for j in others])
        sigmoid = fit_sigmoid(np.concatenate([values[j] for j in others]), truth == 1, free=True)
        predicted = np.where(sigmoid(values[k])[:, 0] * 12 > sigmoid(values[k])[:, 1], 0, 1)
        costs.append(goal.costs[codes[fold.validation], predicted].sum())
    assert cell.errors == tuple(costs)
    assert goal.figure(sum(costs)) == -sum(costs) / 300


def test_a_model_file_keeps_the_costs(costly, tmp_path):
    frame, studied = costly
    save_model(tmp_path / "m.mercer", studied.model)
    loaded = load_model(tmp_path / "m.mercer")
    np.testing.assert_array_equal(loaded.costs, studied.model.costs)
    assert loaded.predict(frame).tolist() == studied.model.predict(frame).tolist()


BAD_COSTS = {
    "one row": ([[0, 1]], "a row for each class, with a cost for each class"),
    "no rows": (5, "a row for each class"),
    "negative": ([[0, -1], [1, 0]], "should not be negative"),
    "diagonal": ([[1, 1], [1, 0]], "0 for the right class"),
    "nothing": ([[0, 0], [0, 0]], "not all 0"),
    "text": ([[0, "1"], [1, 0]], "its cost is '1', which is no number"),
}


@pytest.mark.parametrize("case", BAD_COSTS)
def test_files_with_costs_that_cannot_be_are_refused(case):
    costs, message = BAD_COSTS[case]
    model = two_classes().model
    manifest = manifest_of(model) | {"costs": costs}
    with pytest.raises(ModelFileError, match=message):
        model_of(manifest, arrays_of(model))


def test_costs_without_probabilities_are_refused():
    model = two_classes().model
    manifest = manifest_of(model) | {"calibration": None}
    with pytest.raises(ModelFileError, match="it has costs, but no probabilities"):
        model_of(manifest, arrays_of(model))


_FOUND = []


def two_classes():
    if not _FOUND:
        _FOUND.append(study(rare_class(120, 0.3), "state", kernel="linear", n_folds=2, cost="sick:well=3"))
    return _FOUND[0]


def test_costs_in_words():
    assert by_costs(["sick", "well"], np.array([[0.0, 4.0], [1.0, 0.0]])) == (
        "The prediction is the class with the least expected cost: “sick” taken for “well” costs 4, “well” taken for "
        "“sick” costs 1. So “sick” is predicted where its probability is at least 20.0%."
    )
    assert by_costs(NAMES, cost_matrix("a:b=5", NAMES)) == (
        "The prediction is the class with the least expected cost: “a” taken for “b” costs 5, any other wrong "
        "prediction costs 1."
    )


def test_costs_are_refused_for_numbers():
    with pytest.raises(TableError, match="cost is for classification, and this is regression"):
        study(quantities(60), "pay", cost="a:b=5")


@pytest.fixture
def mercer(tmp_path, monkeypatch, capsys):
    """Run the command line in a folder with the table t.csv; exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    rare_class(300, 0.1).assign(state=lambda frame: np.where(frame["state"] == "sick", 1, 0)).to_csv(
        "t.csv", index=False
    )

    def run(*arguments):
        status = cli.run([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("machine", ["svc", "nu-svc", "logistic", "linear-logistic"])
def test_a_fit_with_costs_by_command(mercer, machine):
    Path("costs.csv").write_text("true,0,1\n0,0,1\n1,9,0\n", encoding="utf-8")
    nu_options = ("--nu", "0.1") if machine == "nu-svc" else ()
    options = ("--target", "state", "--machine", machine, *nu_options, "--out")
    status, out, err = mercer("fit", "t.csv", *options, "m.mercer", "--cost", "costs.csv")
    assert status == 0, err
    assert "So “1” is predicted where its probability is at least 10.0%." in out
    model = load_model("m.mercer")
    assert model.costs.tolist() == [[0.0, 1.0], [9.0, 0.0]]
    status, out, _ = mercer("predict", "m.mercer", "t.csv")
    lines = [line.split(",")[1:] for line in out.splitlines()]
    place = lines[0].index("probability_1")
    assert all((line[0] == "1") == (float(line[place]) >= 0.1) for line in lines[1:])
    assert mercer("verify", "m.mercer", "t.csv")[0] == 0


@pytest.mark.full
def test_a_study_with_costs_by_command(mercer):
    options = ("--target", "state", "--kernel", "rbf", "--folds", "2", "--out", "s", "--cost", "1:0=9")
    status, out, err = mercer("study", "t.csv", *options)
    assert status == 0, err
    assert "Its mean cost, by which it was chosen, was" in out
    assert load_model("s/model.mercer").costs.tolist() == [[0.0, 1.0], [9.0, 0.0]]
    assert "So “1” is predicted where its probability is at least 10.0%." in Path("s/report.html").read_text("utf-8")
    status, _, err = mercer("convert", "s/model.mercer", "m.libsvm")
    assert (status, "the costs of this model are not written" in err) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cost", "2:0=5"), "error: cost cannot be read from '2:0=5' on"),
        (("--cost", "no.csv"), "error: --cost no.csv is neither a file nor text such as TRUE:PREDICTED=5"),
        (
            ("--cost", "1:0=5", "--machine", "ls-svc"),
            "error: --cost is for --machine svc, nu-svc, logistic and linear-",
        ),
        (("--cost", "1:0=5", "--target", "a"), "error: --cost is for classification, and this is regression"),
        (("--cost", "1:0=5", "--multi-class", "joint"), "error: --multi-class joint and --cost do not go together"),
    ],
)
def test_costs_that_cannot_be_used_by_command(mercer, arguments, message):
    target = () if "--target" in arguments else ("--target", "state")
    status, _, err = mercer("fit", "t.csv", *target, *arguments, "--out", "m.mercer")
    assert status != 0
    assert err.startswith(message), err


def test_thresholds_are_chosen_on_open_rows_and_judged_on_sealed_ones(costly):
    frame, studied = costly
    thresholds = decisions.thresholds_of(studied)
    if len(studied.goal.labels) > 2:
        assert thresholds is None
        assert "thresholds" not in prose.phrasing_of(studied).pictures(studied)
        return
    assert (thresholds.label, thresholds.sign, thresholds.values.size) == ("sick", -1, 225)
    rows = frame.iloc[studied.test_rows]
    values, sick = studied.model.scores(rows), (rows["state"] == "sick").to_numpy()
    for one in thresholds.tuned:
        is_positive = thresholds.values > one.unsealed.value
        assert one.unsealed.true_positive == np.sum(is_positive & thresholds.positive)
        predicted = -values > one.unsealed.value
        assert one.sealed.recall == predicted[sick].mean()
        assert one.sealed.false_positive_rate == predicted[~sick].mean()
        place = decisions.condition(thresholds, one.unsealed.value)
        assert place.startswith("below")
        assert float(place.split()[1]) == pytest.approx(-one.unsealed.value, rel=1e-3)
    best = {one.goal: one.unsealed for one in thresholds.tuned}
    assert best["recall of at least 90%"].recall >= 0.9
    assert best["largest F1"].f1 == max(one.unsealed.f1 for one in thresholds.tuned)
    spent = {name: 12.0 * one.false_negative + one.false_positive for name, one in best.items()}
    assert spent["least cost"] == min(spent.values())
    gain = {name: one.recall - one.false_positive_rate for name, one in best.items()}
    assert gain["largest balanced accuracy"] == max(gain.values())


def test_decision_values_of_folds_are_those_of_machines_without_the_fold():
    studied = two_classes()
    table = as_table(rare_class(120, 0.3))
    values = studied.insight.curve.held_out
    codes = (table["state"] == "well").astype(int)
    rest = np.setdiff1d(np.arange(120), studied.test_rows)
    for _, validation in stratified_folds(codes[rest], 2, 0):
        train = rest[np.setdiff1d(np.arange(rest.size), validation)]
        encoder = TableEncoder().fit(table.without(["state"]).take(train))
        machine = SVC(C=studied.search.best.C, kernel="linear", tol=1e-8)
        machine.set_params(class_weight=dict(enumerate(studied.goal.weights)))
        machine.fit(encoder.transform(table.take(train)), codes[train])
        expected = machine.decision_function(encoder.transform(table.take(rest[validation])))
        np.testing.assert_allclose(values[validation, 0], expected, atol=0.01)


def test_the_page_shows_other_thresholds():
    studied = two_classes()
    page = render(studied)
    assert "<h3>Other thresholds</h3>" in page
    assert "“sick” where<br>decision_value_well is" in page
    assert page.count('id="thresholds-') > 0
    for one in decisions.thresholds_of(studied).tuned:
        assert f'<th scope="row">{one.goal}</th>' in page


def test_a_threshold_by_command(mercer):
    mercer("fit", "t.csv", "--target", "state", "--class-weight", "balanced", "--out", "m.mercer")
    _, out, _ = mercer("predict", "m.mercer", "t.csv")
    values = [float(line.split(",")[2]) for line in out.splitlines()[1:]]
    for threshold in (-1.25, 0.5):
        status, out, _ = mercer("predict", "m.mercer", "t.csv", "--threshold", threshold)
        labels = [line.split(",")[1] for line in out.splitlines()[1:]]
        assert (status, labels) == (0, ["1" if value > threshold else "0" for value in values])
    status, _, err = mercer("predict", "m.mercer", "t.csv", "--threshold", "nan")
    assert (status, err) == (1, "error: --threshold must be a number, got nan; name a number\n")
    mercer("fit", "t.csv", "--target", "a", "--out", "n.mercer")
    status, _, err = mercer("predict", "n.mercer", "t.csv", "--threshold", "0.5")
    assert (status, err) == (
        1,
        "error: --threshold is for models of two classes, and this model is not one of these; leave it out\n",
    )
    mercer("fit", "t.csv", "--target", "state", "--cost", "1:0=5", "--out", "m.mercer")
    assert "the threshold decides, and not the costs" in mercer("predict", "m.mercer", "t.csv", "--threshold", "0")[2]
