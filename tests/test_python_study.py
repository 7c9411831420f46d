"""`mercer.study` and `mercer.doctor` in Python, and trained models as estimators of scikit-learn."""

import inspect
import io
import json
import signal
import subprocess
import sys
import warnings
from copy import deepcopy

import click
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from rich.console import Console
from scipy import sparse
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.metrics import ConfusionMatrixDisplay, PrecisionRecallDisplay, RocCurveDisplay, accuracy_score, r2_score
from sklearn.model_selection import cross_val_score

import mercer
from mercer import SVC, SVR, KernelLogisticRegression, OneClassSVM, as_model, fit_model, load_model
from mercer.data import TableError, as_table
from mercer.data.files import CheckpointError
from mercer.data.files import checkpoint as checkpoints
from mercer.solvers import ProgressBar, StageProgress
from mercer.solvers.progress_bar import NotebookBar
from mercer.studies import ledger
from mercer.studies.cli.commands import cli
from mercer.studies.inputs import read_input
from mercer.studies.judging import SVM
from mercer.studies.report.python_options import in_python
from mercer.studies.search import SearchStopped
from test_checkpoints import StoppedHereError


def two_groups(n=90, seed=3):
    rng = np.random.default_rng(seed)
    ill = np.arange(n) % 2 == 0
    age, dose = rng.normal(50 + 8 * ill, 5), rng.normal(size=n)
    ward = np.where(rng.random(n) < 0.5, "north", "south")
    return pd.DataFrame({"age": age, "dose": dose, "ward": ward, "state": np.where(ill, "ill", "well")})


QUICK = {"kernel": "linear", "verbose": 0, "folds": 3}


@pytest.fixture(autouse=True)
def no_looks(monkeypatch, tmp_path):
    monkeypatch.setattr(ledger, "_IN_MEMORY", [])
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def actual():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_IN_MEMORY", [])
        return mercer.study(two_groups(), target="state", **QUICK)


def test_options_of_the_shell_are_parameters_with_the_same_defaults():
    for name, function in (("study", mercer.study), ("doctor", mercer.doctor)):
        parameters = inspect.signature(function).parameters
        options = {one.name: one for one in cli.commands[name].params if isinstance(one, click.Option)}
        options["time"] = options.pop("time_column")
        assert options.keys() <= parameters.keys()
        for option in set(options) - {"target"}:
            shell = options[option].default
            shell = None if shell is getattr(click.core, "UNSET", None) or callable(shell) else shell
            python = parameters[option].default
            assert python == shell or (not python and not shell), option


def test_every_kind_of_table_gives_the_same_study(actual, tmp_path):
    frame = two_groups()
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    tables = [pl.from_pandas(frame), pa.table(frame), frame.to_dict("list"), dict(frame), path, str(path)]
    for table in tables:
        again = read_input(table, (), {})[0]
        assert again.names == tuple(frame.columns)
        assert again.checksum() == as_table(frame).checksum()
    again = mercer.study(path, "state", keep_sealed=True, **QUICK)
    assert again.cross_validated[SVM] == actual.svm.cv


def test_a_target_may_be_an_array():
    frame = two_groups()
    X, y = frame.drop(columns="state"), frame["state"]
    again = mercer.study(X, y, keep_sealed=True, **QUICK)
    assert again.target == "state"
    assert again.estimator_.feature_names_in_.tolist() == ["age", "dose", "ward"]
    matrix = sparse.csr_matrix(np.where(np.random.default_rng(0).random((90, 40)) < 0.1, 1.0, 0.0))
    rows = mercer.study(matrix, y.to_numpy(), keep_sealed=True, **QUICK)
    assert rows.target == "target"
    assert rows.estimator_.predict(matrix[:5]).shape == (5,)
    assert "state" in str(mercer.doctor(X, y))


def test_errors_name_the_parameters_of_python():
    with pytest.raises(TableError, match="every class needs") as caught:
        mercer.study(two_groups(4), "state", **QUICK)
    assert caught.value.__notes__ == ["change folds or test_size"]


def test_a_result_shows_its_page(actual, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = actual.to_html()
    assert "--drop" not in page
    assert "study.estimator_.predict(new_table)" in page
    cell = actual._repr_html_()
    assert cell.startswith("<iframe srcdoc=")
    assert "<script" not in cell
    path = actual.open_html()
    assert path.read_text() == page
    assert opened == [path.resolve().as_uri()]
    assert actual.open_html(tmp_path / "mine.html") == tmp_path / "mine.html"
    assert len(repr(actual)) < 300
    assert "sealed away" in actual.summary()


def test_a_result_as_data(actual, tmp_path):
    record = json.loads(actual.to_json(tmp_path / "study.json"))
    assert record == json.loads((tmp_path / "study.json").read_text())
    main = actual.goal.main(actual.svm.test)
    assert record["test"] == {"value": main.value, "low": main.low, "high": main.high, "level": 0.95}
    assert record["certificate"]["status"] == "optimal"
    assert record["machines"][0]["name"] == "support vector machine"
    frame = actual.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["test"][0] == main.value
    assert len(frame) == len(actual.contenders)


def test_parts_of_a_result_print_as_short_texts(actual):
    for name in ("search", "examination", "column_choice", "arranged", "insight", "model", "opening", "sealed"):
        part = getattr(actual, name)
        assert len(repr(part)) < 1000, name
        assert len(repr(part).splitlines()) < 12, name
    assert len(actual.search.to_frame()) == len(actual.search.cells)
    assert actual.column_choice.to_frame()["column"].tolist() == ["age", "dose", "ward"]
    assert actual.insight.to_frame()["column"].tolist()[0] == "age"
    assert len(actual.examination.to_frame()) == len(actual.examination.findings)


def test_a_folder_is_written_as_by_the_shell(actual, tmp_path):
    folder = actual.save(tmp_path / "study")
    assert sorted(path.name for path in folder.iterdir()) == ["model.mercer", "report.html"]
    assert actual.save(tmp_path / "study") == tmp_path / "study-2"
    assert actual.save(tmp_path / "study", force=True) == folder
    with_out = mercer.study(two_groups(), "state", out=tmp_path / "out", **QUICK)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model.mercer", "report.html", ledger.LEDGER}
    loaded = mercer.load_model(tmp_path / "out" / "model.mercer")
    rows = two_groups(20, seed=4)
    assert (loaded.predict(rows) == with_out.estimator_.predict(rows)).all()
    with pytest.raises(OSError, match="is a file"):
        mercer.study(two_groups(), "state", out=folder / "report.html", **QUICK)


def test_looks_in_memory_are_counted():
    first = mercer.study(two_groups(), "state", keep_sealed=True, **QUICK)
    assert "not opened" in repr(first)
    assert "open()" in first.summary()
    assert len(first.to_frame()) == len(first.trained)
    opened = first.open()
    assert opened.opening.clean
    with pytest.warns(UserWarning, match="second look"):
        again = mercer.study(two_groups(), "state", **QUICK)
    assert again.opening.number == 2


def test_a_study_of_rare_classes_costs_and_text(tmp_path):
    frame = two_groups()
    frame.loc[0, "state"] = "unknown"
    with pytest.warns(UserWarning, match="unknown"):
        merged = mercer.study(frame, "state", rare="drop", cost="ill:well=5", drop="dose", keep_sealed=True, **QUICK)
    assert merged.column_choice.features == ("age", "ward")
    assert merged.estimator_.costs.tolist() == [[0.0, 5.0], [1.0, 0.0]]
    with pytest.raises(TableError, match="rare is for classes"):
        mercer.study(frame, "age", task="regression", rare="drop", **QUICK)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (two_groups(), {"target": "stat"}, "no column 'stat'"),
        (two_groups(), {}, "target is missing"),
        (two_groups(), {"target": "state", "sep": ";"}, "'sep' say how a file is read"),
        (two_groups(), {"target": "state", "categorical": "wardd"}, "no column 'wardd'"),
        ({"a": [1, 2], "b": [1]}, {"target": "a"}, "'a' has 2 and 'b' has 1"),
        ({"a": [[1], [2]]}, {"target": "a"}, "a cell of type list"),
        ({"a": "text"}, {"target": "a"}, "must be a sequence of cells"),
        ({}, {"target": "a"}, "no rows"),
        ([1, 2], {"target": "a"}, "got list"),
        (two_groups(), {"target": two_groups()["state"]}, "the table has a column 'state'"),
        (two_groups(), {"target": [1, 2, 3]}, "target has 3 cells, and the table 90 rows"),
        (two_groups(), {"target": 1.5}, "target must be the name of a column of the table, got float"),
        (sparse.csr_matrix(np.eye(3)), {}, "target is missing"),
        (two_groups(), {"target": "state", "groups": ["ward"]}, "groups must be the name of a column"),
    ],
)
def test_what_cannot_be_studied_is_refused(table, options, message):
    with pytest.raises(TableError, match=message):
        mercer.study(table, **options)


def test_a_missing_column_is_suggested():
    for function in (mercer.study, mercer.doctor):
        with pytest.raises(TableError) as caught:
            function(two_groups(), target="stat")
        assert caught.value.__notes__ == ["did you mean 'state'?"]


def test_doctor():
    frame = two_groups()
    frame["copy"] = frame["state"].map({"ill": 1, "well": 0})
    report = mercer.doctor(frame, target="state")
    assert "doubt" in report.to_frame()["weight"].tolist()
    assert "copy" in str(report)
    assert "--" not in str(report)
    assert repr(report) == str(report)
    assert "<pre" in report._repr_html_()
    assert "Nothing suspicious" in str(mercer.doctor(two_groups().drop(columns="state")))
    with pytest.raises(TableError, match="grp"):
        mercer.doctor(frame, target="state", groups="grp")


@pytest.mark.parametrize(
    ("shell", "python"),
    [
        ("With --class-weight balanced or --scoring f1, it", "With class_weight='balanced' or scoring='f1', it"),
        ("--repeats 10 shows", "repeats=10 shows"),
        ("with --groups 'patient id'.", "with groups='patient id'."),
        ("with --groups 'o'\"'\"'clock'.", 'with groups="o\'clock".'),
        ("say --time with its name", "say time with its name"),
        ("with --keep-sealed: no try", "with keep_sealed=True: no try"),
        ("a range 1--drop", "a range 1--drop"),
    ],
)
def test_options_in_sentences(shell, python):
    assert in_python(shell) == python


# Trained models as estimators


def classifier():
    return fit_model(two_groups(), "state", SVC(probability=True, random_state=0))


def test_a_classifier_is_an_estimator():
    model, frame = classifier(), two_groups()
    X, y = frame.drop(columns="state"), frame["state"]
    assert is_classifier(model)
    assert not is_regressor(model)
    assert clone(model) is model
    assert model.classes_.tolist() == ["ill", "well"]
    assert model.feature_names_in_.tolist() == ["age", "dose", "ward"]
    assert model.n_features_in_ == 3
    assert model.score(X, y) == accuracy_score(y, model.predict(X))
    assert ((model.decision_function(X) > 0) == (model.predict(X) == "well")).all()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    for rows in (X.to_numpy(), X.to_numpy().tolist()):
        assert (model.predict(rows) == model.predict(X)).all()
    assert not hasattr(fit_model(frame, "state", SVC()), "predict_proba")


def test_inspection_and_displays_take_a_model():
    model, frame = classifier(), two_groups()
    X, y = frame.drop(columns="state"), frame["state"]
    importances = permutation_importance(model, X, y, n_repeats=3, random_state=0).importances_mean
    assert importances.argmax() == 0
    for display in (RocCurveDisplay, PrecisionRecallDisplay, CalibrationDisplay, ConfusionMatrixDisplay):
        display.from_estimator(model, X, y)
    assert RocCurveDisplay.from_estimator(model, X, y).roc_auc > 0.8
    PartialDependenceDisplay.from_estimator(model, X, ["age"], grid_resolution=5)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (90, 2)


def test_explainers_take_a_model():
    """shap copies a model, takes its names of features away, and passes arrays."""
    model, X = classifier(), two_groups().drop(columns="state")
    inner = deepcopy(model)
    inner.feature_names_in_ = None
    assert (inner.predict(X.to_numpy()) == model.predict(X)).all()
    with pytest.raises(AttributeError, match="cannot be changed"):
        inner.feature_names_in_ = ["a", "b", "c"]


def test_models_of_numbers_and_of_novelty():
    frame = two_groups().drop(columns="state")
    model = fit_model(frame, "age", SVR())
    rows = frame.drop(columns="age")
    assert is_regressor(model)
    assert model.score(rows, frame["age"]) == pytest.approx(r2_score(frame["age"], model.predict(rows)))
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "decision_function")
    novelty = fit_model(frame, None, OneClassSVM(nu=0.2))
    assert is_outlier_detector(novelty)
    assert ((novelty.decision_function(frame) >= 0) == (novelty.predict(frame) == 1)).all()


def test_a_model_of_arrays_takes_arrays():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 3
    model = as_model(SVC().fit(X, y), X, y)
    assert model.n_features_in_ == 3
    assert (model.predict(X) == model.predict(X.tolist())).all()
    assert model.score(X, y.astype(float)) == model.score(X, y)


def test_a_model_is_not_trained_again():
    frame = two_groups()
    model, X, y = classifier(), frame.drop(columns="state"), frame["state"]
    with pytest.raises(TypeError, match="FrozenEstimator"):
        model.fit(X, y)
    with pytest.raises(TypeError, match="a cross-validation takes a machine"):
        cross_val_score(model, X, y, error_score="raise")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros(3), r"got 1-D: for one row, write X.reshape\(1, -1\)"),
        (np.zeros((2, 2)), "X has 2 columns without names, and the model uses 3: give a data frame .*'age', 'dose'"),
        (np.zeros((2, 2, 2)), "got 3-D"),
    ],
)
def test_arrays_that_are_no_rows_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        classifier().predict(rows)


def test_a_card_of_a_model():
    model = fit_model(two_groups(), "state", KernelLogisticRegression())
    for text in ("machine", "status", "optimal", "above the optimum by at most", "seconds", "reason", "training rows"):
        assert text in model._repr_html_()
    assert "\n" not in repr(model)
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    assert model.to_frame()["status"].tolist() == ["optimal"]


# Progress


class Handle:
    def __init__(self):
        self.shown = []

    def update(self, data, raw):
        assert raw
        self.shown.append(data["text/html"])


def test_a_bar_in_a_notebook():
    handle = Handle()
    bar = NotebookBar(handle)
    bar.start()
    bar.show(StageProgress("search", 3, 12, 42.0, "C < 1"))
    bar.show(StageProgress("search", 4, 12, 40.0))  # too soon
    bar.show(StageProgress("final fit"))
    bar.stop()
    assert handle.shown == [
        'search <progress value="3" max="12"></progress> 3 of 12, about 42 s left, C &lt; 1',
        "final fit … ",
        "",
    ]


def test_a_notebook_gets_its_bar(monkeypatch):
    console = Console(file=io.StringIO(), force_jupyter=True)
    with ProgressBar(console) as bar:
        assert isinstance(bar._bar, NotebookBar)
        bar(StageProgress("search", 1, 2))


def test_progress_is_shown_and_handed_on(capsys, monkeypatch):
    monkeypatch.setattr("mercer.solvers.progress_bar.FIRST_LINE_SECONDS", 0.0)
    stages = []
    options = {**QUICK, "verbose": 1}
    mercer.study(two_groups(), "state", callback=lambda state: stages.append(state.stage), **options)
    assert "search" in stages
    assert "search" in capsys.readouterr().err
    ledger._IN_MEMORY.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mercer.study(two_groups(), "state", **QUICK)
    assert capsys.readouterr().err == ""


def test_options_that_are_no_options_are_refused_and_a_time_limit_that_is_too_short_says_so():
    with pytest.raises(ValueError, match=r"max_seconds must be a number >= 0, got -1"):
        mercer.study(two_groups(), "state", max_seconds=-1)
    with pytest.raises(ValueError, match=r"^folds must be an integer >= 2, got 1"):
        mercer.study(two_groups(), "state", folds=1)
    with pytest.raises(ValueError, match=r"callback must be a function"):
        mercer.study(two_groups(), "state", callback=3)
    with pytest.raises(TableError, match="target has 1 cell, and") as caught:
        mercer.study(two_groups(), ["state"])
    assert caught.value.hint == "for a column of the table write its name alone: target='state'"
    with pytest.raises(SearchStopped, match="time limit") as caught:
        mercer.study(two_groups(), "state", kernel="rbf", max_seconds=0.0, verbose=0)
    assert "raise max_seconds" in caught.value.__notes__[0]


def test_names_of_the_study_are_lazy():
    program = "import sys, mercer; mercer.SVC; print(*(name for name in sys.modules if 'mercer.studies' in name))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def results_of(study):
    return {
        "errors": [one.errors for one in study.trained],
        "settings": [one.setting for one in study.trained],
        "curve": [study.curve.errors, study.curve.held_out.tolist()],
        "repeats": study.repeats,
        "primal": pytest.approx(study.model.certificate.primal, rel=1e-4),
    }


@pytest.fixture
def often(monkeypatch):
    """Write a state after every part of the work."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "_SHARE", 1e9)


@pytest.mark.parametrize(
    "kind", ["classes", *(pytest.param(one, marks=pytest.mark.slow) for one in ("numbers", "wide"))]
)
def test_a_study_that_was_stopped_continues(kind, often, tmp_path, monkeypatch):
    frame = two_groups()
    if kind == "wide":
        frame = frame.join(pd.DataFrame(np.random.default_rng(0).normal(size=(len(frame), 90))).add_prefix("w"))
    target = frame.select_dtypes("number").columns[0] if kind == "numbers" else "state"
    about = {"target": target, "folds": 2, "keep_sealed": True, "repeats": 1, "verbose": 0}
    about |= {} if kind == "wide" else {"kernel": "rbf"}
    plain = results_of(mercer.study(frame, **about))
    saved, written, folder, save = [], [], tmp_path / "states", checkpoints.Generations.save
    for name in ("settings", "rival-1", "curve", "repeat-1"):

        def stopping(self, state, *rest, name=name):
            save(self, state, *rest)
            saved.append(state)
            if state.startswith(name):
                raise StoppedHereError

        monkeypatch.setattr(checkpoints.Generations, "save", stopping)
        with pytest.raises(StoppedHereError):
            mercer.study(frame, checkpoint=folder, **about)
    monkeypatch.setattr(checkpoints.Generations, "save", lambda _, name, *rest: written.append(name))
    assert results_of(mercer.study(frame, checkpoint=folder, **about)) == plain
    assert all(one.startswith("final-") for one in written)
    assert len({one for one in saved if one.startswith("rival")}) >= 3
    if kind == "wide":
        assert (folder / "search-linear").is_dir()
    else:
        opened = mercer.study(frame, checkpoint=folder, **about | {"keep_sealed": False})
        assert opened.svm.errors == plain["errors"][0]


def test_a_checkpoint_of_another_study_is_refused(often, tmp_path):
    folder, frame, about = tmp_path / "states", two_groups(), {"keep_sealed": True, **QUICK}
    mercer.study(frame, "state", checkpoint=folder, **about)
    for path in folder.glob("rival-0-*.bin"):
        checkpoints.write_checked(path, {"place": 99, "seconds": 1.0, "n_rows": 9}, {"errors": np.zeros(2)})
    with pytest.warns(UserWarning, match=r"rival-0-\d+-\d+.bin is damaged and is not used"):
        mercer.study(frame, "state", checkpoint=folder, **about)
    for changed, why in (({"seed": 1}, "split was"), ({"class_weight": "balanced"}, "class_weight was None")):
        with pytest.raises(CheckpointError, match=f"the checkpoint of other work: {why}"):
            mercer.study(frame, "state", checkpoint=folder, **about | changed)
    with pytest.raises(CheckpointError, match="table was "):
        mercer.study(frame[1:], "state", checkpoint=folder, **about)
    with pytest.raises(TableError, match="checkpoint= and max_seconds= do not go together"):
        mercer.study(frame, "state", checkpoint=folder, max_seconds=60, **about)


KILLED = """
import os, signal, sys
from mercer.data.files import checkpoint
from mercer.studies.cli import run
checkpoint.SECONDS, checkpoint._SHARE = 0.0, 1e9
save, count = checkpoint.Generations.save, [0]
def dying(self, *about):
    save(self, *about)
    count[0] += 1
    if count[0] == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint.Generations.save = dying
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.slow
def test_commands_that_are_killed_again_and_again_continue(tmp_path):
    two_groups(900).to_csv("t.csv", index=False)
    about = ("--target", "state", "--checkpoint")
    commands = {
        "study": ("study", "t.csv", *about, "study_states", "--folds", "2", "--kernel", "rbf", "--out", "killed"),
        "fit": ("fit", "t.csv", *about, "fit_states", "--out", "killed.mercer", "--approximation", "landmarks:30"),
    }
    for name, command in commands.items():
        for moment in (1, 3, 7) if name == "study" else (1, 2, 3):
            done = subprocess.run([sys.executable, "-c", KILLED, str(moment), *command], check=False)
            assert done.returncode == -signal.SIGKILL
        done = subprocess.run([sys.executable, "-c", KILLED, "-1", *command], check=False)
        assert done.returncode == 0
    plain = mercer.study("t.csv", "state", folds=2, kernel="rbf", verbose=0, keep_sealed=True)
    killed = load_model("killed/model.mercer")
    assert killed.certificate.primal == pytest.approx(plain.model.certificate.primal, rel=1e-4)
    fitted = fit_model(two_groups(900), "state", SVC(approximation=mercer.Landmarks(30)))
    assert load_model("killed.mercer").certificate.primal == pytest.approx(fitted.certificate.primal, rel=2e-3)
