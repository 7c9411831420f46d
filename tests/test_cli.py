"""The command line, as its users see it: stdout, stderr and exit status."""

import csv
import html
import io
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from generated import mixed_frame, quantities, three_classes, with_missing
from mercer import (
    SVC,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    RBFNetworkClassifier,
    load_liblinear_model,
    load_libsvm_data,
    load_libsvm_model,
)
from mercer.kernels.instruction_set import counts_bits, multiplies_integers
from mercer.solvers import ProgressBar
from mercer.solvers.progress import StageProgress
from mercer.specs import ForSVR
from mercer.studies import cli
from mercer.studies.cli import study as study_module
from mercer.studies.files.table_files import read_table
from mercer.studies.models import explain, fit_model
from mercer.studies.models.model_file import load_model, save_model
from mercer.studies.report import prose

pytestmark = pytest.mark.full  # whole programs and many repetitions: not in test-fast


@pytest.fixture
def mercer(tmp_path, monkeypatch, capsys):
    """Run the command line in an empty folder; exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments):
        status = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return status, captured.out, captured.err

    return run


@pytest.fixture
def table(tmp_path):
    with_missing(mixed_frame(120)).to_csv(tmp_path / "patients.csv", index=False)
    return tmp_path / "patients.csv"


IMPUTED = (
    "There are missing values in 'age' (5), 'site' (5): they were filled in with the median or most frequent value "
    "(or with no category, where many cells of a column of categories are missing), learnt on training rows; "
    "--missing drop leaves out 10 of 120 rows instead, "
    "--missing error refuses them"
)


@pytest.fixture
def model(mercer, table):
    status, _, err = mercer("fit", "patients.csv", "--target", "outcome", "--out", "m.mercer")
    assert status == 0
    assert f"note: {IMPUTED}\n" in err
    return "m.mercer"


def test_a_study_from_a_table_to_a_report(mercer, table, tmp_path):
    status, out, err = mercer("study", "patients.csv", "--target", "outcome", "--folds", "3", "--out", "results")
    assert status == 0
    assert sorted(os.listdir(tmp_path / "results")) == ["mercer-looks.jsonl", "model.mercer", "report.html"]
    assert "predicted outcome correctly in" in " ".join(out.split())
    for words in ("support vector machine", "logistic regression", "nearest neighbours", "Certificate: optimal"):
        assert words in out
    assert IMPUTED in " ".join(out.split())
    left_out = "Column 'row' was left out: looks like a row identifier: it counts 1, 2, 3, ... down the table"
    assert f"{left_out}; --keep row uses it all the same." in " ".join(out.split())
    assert "written: results/report.html" in err
    report = (tmp_path / "results" / "report.html").read_text()
    assert "mercer study patients.csv --target outcome --folds 3 --out results" in report
    assert IMPUTED.partition(";")[0] in html.unescape(re.sub("</?a[^>]*>", "", report))  # words link to the glossary
    status, out, _ = mercer("verify", "results/model.mercer", "patients.csv")
    assert "opened once (final estimate of the study, 20" in out
    assert status == 0
    assert "verified" in out


def test_the_folder_is_named_after_the_table(mercer, tmp_path):
    three_classes(60).to_parquet(tmp_path / "clouds.parquet")
    status, out, _ = mercer("study", "clouds.parquet", "--target", "kind", "--folds", "3", "--seed", "1")
    assert status == 0
    assert "mean over classes," in out
    assert "which has no interval" in out
    assert sorted(os.listdir(tmp_path / "clouds-study")) == ["mercer-looks.jsonl", "model.mercer", "report.html"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("t.csv", "t"),
        ("t.csv.bz2", "t"),
        ("data.train.csv.gz", "data.train"),
        ("a9a", "a9a"),
        ("iris.scale.xz", "iris"),
    ],
)
def test_the_name_of_a_folder_has_no_format_and_no_compression(name, stem):
    assert study_module._stem(name) == stem


def test_svmlight_needs_no_target(mercer, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((80, 30)) * (rng.random((80, 30)) < 0.15)
    dump_svmlight_file(X, np.where(X[:, :15].sum(axis=1) > X[:, 15:].sum(axis=1), 1, -1), str(tmp_path / "t.svm"))
    status, out, _ = mercer("fit", "t.svm", "--kernel", "linear", "--out", "m.mercer")
    assert (status, "optimal" in out) == (0, True)
    status, out, err = mercer("predict", "m.mercer", "t.svm")
    assert status == 0
    assert "of 80 labels agree with the column 'label'" in err


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_dense_svmlight_table_that_counts_from_one(mercer, tmp_path, task):
    """The model is read, used and verified, also the model of the file that `convert` writes."""
    rows = ["1 1:0.5 2:1", "2 1:0.1", "2 2:0.4", "1 1:1 2:0.3", "2 1:3", "1 2:2"]
    (tmp_path / "first.svm").write_text("\n".join(rows))
    for table, written in (("first.svm", "second.svm"), ("second.svm", "third.svm")):
        assert mercer("fit", table, "--task", task, "--out", "m.mercer")[0] == 0
        status, out, _ = mercer("predict", "m.mercer", table)
        assert (status, len(out.splitlines())) == (0, 7)
        assert "verified: the model is what it says it is" in mercer("verify", "m.mercer", table)[1]
        assert mercer("convert", table, written, "--model", "m.mercer")[0] == 0


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_fit_prints_a_certificate(mercer, table, kernel):
    kernel_options = {"linear": [], "poly": ["--gamma", "0.1", "--degree", "2"], "rbf": ["--gamma", "0.1"]}[kernel]
    arguments = ["--missing", "drop", "--kernel", kernel, "--C", "2", *kernel_options, "--out", "m"]
    status, out, err = mercer("fit", "patients.csv", "--target", "outcome", *arguments)
    assert status == 0
    words = " ".join(out.split())
    assert "Certificate: optimal; duality gap" in words
    assert prose.support(load_model("m")) in words
    assert prose.certainty(load_model("m")) in words
    assert "C = 2" in out
    assert "note: column 'row' was left out: looks like a row identifier" in err
    assert "note: column 'unit' was left out: one value only in the training rows\n" in err
    assert load_model("m").machine_spec.C == 2.0


@pytest.mark.parametrize("rule", ["auto", "median", "sigest"])
def test_fit_says_what_a_rule_for_gamma_found(mercer, table, rule):
    arguments = ["--missing", "drop", "--gamma", rule, "--out", "m"]
    status, out, _ = mercer("fit", "patients.csv", "--target", "outcome", *arguments)
    assert status == 0
    assert f"gamma = {load_model('m').kernel.gamma:.6g} by '{rule}': " in out


def test_an_indefinite_kernel_is_a_warning(mercer, table):
    arguments = ["--missing", "drop", "--kernel", "sigmoid", "--gamma", "2", "--coef0", "1", "--out", "m"]
    status, out, err = mercer("fit", "patients.csv", "--target", "outcome", *arguments)
    assert status == 0
    assert any(line.startswith("warning: Sigmoid(gamma=2.0, coef0=1.0) is not") for line in err.splitlines())
    assert "stationary" in out


def test_predict_writes_a_line_for_every_row(mercer, model, tmp_path):
    frame = mixed_frame(7, seed=5).drop(columns=["outcome"])
    frame.to_csv(tmp_path / "new.csv", index=False)
    status, out, err = mercer("predict", model, "new.csv")
    assert (status, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    expected = load_model(model)
    assert [row["row"] for row in rows] == list("1234567")
    assert [row["label"] for row in rows] == expected.predict(frame).tolist()
    assert [float(row["decision_value_well"]) for row in rows] == expected.scores(frame).tolist()
    assert all((row["label"] == "well") == (float(row["decision_value_well"]) > 0) for row in rows)
    status, out, _ = mercer("predict", model, "new.csv", "--out", "labels.csv")
    assert (status, out) == (0, "")
    assert list(csv.DictReader(io.StringIO((tmp_path / "labels.csv").read_text()))) == rows


def test_predict_keeps_columns_and_explains(mercer, model, tmp_path):
    frame = mixed_frame(30, seed=5)
    frame.assign(code=[f"{k:03}" for k in range(30)]).to_csv(tmp_path / "new.csv", index=False)
    status, out, _ = mercer(
        "predict", model, "new.csv", "--keep-columns", "code", "--keep-columns", "site", "--explain"
    )
    assert status == 0
    predictions = pd.read_csv(io.StringIO(out), dtype={"code": str})
    assert predictions.columns[:5].tolist() == ["row", "code", "site", "label", "decision_value_well"]
    assert predictions["code"][7] == "007"
    wanted = explain(load_model(model), frame)
    assert [name for name in predictions if name.startswith("contribution_")] == [
        f"contribution_{c}" for c in wanted.columns
    ]
    np.testing.assert_allclose(predictions[[f"contribution_{c}" for c in wanted.columns]], wanted.contributions)
    _, _, err = mercer("predict", model, "new.csv", "--keep-columns", "codes")
    assert "there is no column 'codes'; did you mean 'code'?" in err
    frame.assign(label="x").to_csv(tmp_path / "clash.csv", index=False)
    assert (
        "the predictions have a column of this name"
        in mercer("predict", model, "clash.csv", "--keep-columns", "label")[2]
    )


def test_predict_writes_a_workbook_and_no_other_format(mercer, model, tmp_path):
    frame = mixed_frame(7, seed=5).assign(note=["=1+1", "a\x07b", *"vwxyz"])
    frame.to_csv(tmp_path / "new.csv", index=False)
    _, out, _ = mercer("predict", model, "new.csv", "--keep-columns", "note")
    assert mercer("predict", model, "new.csv", "--keep-columns", "note", "--out", "new.xlsx")[0] == 0
    book, text = pd.read_excel(tmp_path / "new.xlsx"), pd.read_csv(io.StringIO(out))
    assert book["note"].tolist()[:3] == ["=1+1", r"a\x07b", "v"]
    pd.testing.assert_frame_equal(book.drop(columns="note"), text.drop(columns="note"))
    assert "is left alone" in mercer("predict", model, "new.csv", "--out", "new.xlsx")[2]
    for name in ("p.parquet", "p.xls"):
        assert "predictions are written as CSV or as .xlsx" in mercer("predict", model, "new.csv", "--out", name)[2]


def test_predict_reads_text_as_it_was_in_training(mercer, tmp_path):
    frame = mixed_frame(60)[["age", "site", "outcome"]].replace({"north": "01", "south": "1", "east": "x"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame[frame["site"] != "x"].to_csv(tmp_path / "numbers.csv", index=False)
    assert mercer("fit", "t.csv", "--target", "outcome", "--out", "m")[0] == 0
    _, out, _ = mercer("predict", "m", "numbers.csv")
    labels = [row["label"] for row in csv.DictReader(io.StringIO(out))]
    assert labels == load_model("m").predict(frame[frame["site"] != "x"]).tolist()


EUROPEAN = "Preis;b;Ort;ion;t\n" + "".join(
    f"{k % 7 + 1}.{100 + k};{'-' * (k % 2)}{k % 5},{k % 3 + 1};{'Köln' if k % 4 else 'Bonn'};{'K' if k % 3 else 'Na'};"
    f"0{k % 2}\n"
    for k in range(60)
)


def test_every_guess_about_a_file_is_a_note_with_the_option_that_changes_it(mercer, tmp_path):
    (tmp_path / "t.csv").write_bytes(EUROPEAN.encode("cp1252"))
    status, _, err = mercer("fit", "t.csv", "--target", "t", "--out", "m")
    assert status == 0
    assert err.splitlines()[:5] == [
        "note: The file is not UTF-8 and was read as Windows-1252 (Latin-1): byte 0xf6 in line 3 is 'ö'; --encoding "
        "names another encoding",
        "note: Cells are separated by ';'; --sep ',' changes that",
        "note: Numbers have decimal commas: row 1 of 'b' holds '0,1'; --decimal '.' changes that",
        "note: '1.100' in column 'Preis' is read as 1100; '00' in column 't' is read as 0, unless it names a class; "
        "--categorical 'Preis' keeps the text",
        "note: 'Na' in column 'ion' is read as text; --na 'Na' makes such cells missing",
    ]
    assert mercer("verify", "m", "t.csv")[0] == 0
    # In a row alone, nothing tells the decimal mark, and "Na" could be missing: the model knows both.
    (tmp_path / "new.csv").write_text("Preis;b;Ort;ion\n1.928;7;Köln;Na\n")
    (tmp_path / "plain.csv").write_text("Preis,b,Ort,ion\n1928,7.0,Köln,Na\n")
    predicted = [mercer("predict", "m", name)[1] for name in ("new.csv", "plain.csv")]
    assert predicted[0] == predicted[1]
    assert predicted[0].splitlines()[1].startswith(("1,00,", "1,01,"))


OPTIONS = [
    "--format",
    "csv",
    "--sep",
    ":",
    "--encoding",
    "utf-16-be",
    "--na=-9",
    "--categorical",
    "code",
    "--decimal",
    ",",
]


@pytest.mark.parametrize("command", ["study", "plan", "fit", "predict", "verify", "convert", "doctor"])
def test_every_command_reads_a_table_as_its_options_say(mercer, tmp_path, command):
    rows = [f"{k % 7},{k % 3 + 1:03d}:{k % 5}:{('x', 'é', '-9', 'n/a')[k % 4]}:{'yn'[k % 2]}" for k in range(60)]
    (tmp_path / "table").write_bytes("\n".join(["a:code:word:t", *rows]).encode("utf-16-be"))
    arguments = {
        "study": ("table", "--target", "t", "--folds", "2", "--out", "s", "--kernel", "linear"),
        "plan": ("table", "--target", "t"),
        "fit": ("table", "--target", "t", "--out", "n"),
        "predict": ("m", "table"),
        "verify": ("m", "table"),
        "convert": ("table", "libsvm", "--model", "m"),
        "doctor": ("table", "--target", "t"),
    }
    status, _, err = mercer("fit", "table", "--target", "t", "--out", "m", *OPTIONS)
    assert status == 0, err
    encoder = load_model("m").encoder
    assert set(encoder.number_columns) == {"a"}
    assert {"code", "word"} <= set(encoder.text_columns)
    assert "-9" not in "".join(encoder.feature_names_)
    status, out, err = mercer(command, *arguments[command], *OPTIONS)
    assert status == 0, err
    note = "'n/a' in column 'word' is read as missing"
    assert (err.count(note), out.count(note)) == (1, 0)
    if command == "study":
        assert note in html.unescape((tmp_path / "s/report.html").read_text())
    status, _, err = mercer(command, *arguments[command], "--format", "excel")
    assert (status, err.count("error: table cannot be read as an Excel workbook")) == (1, 1)


def test_a_categorical_column_that_does_not_exist_is_an_error(mercer, table):
    status, _, err = mercer("fit", table, "--target", "outcome", "--out", "m", "--categorical", "sitte")
    assert (status, err) == (1, "error: there is no column 'sitte'; did you mean 'site'?\n")


WRONG = {
    "drop": ("--drop", "nothing"),
    "groups": ("--groups", "nothing"),
    "score": ("--scoring", "rmse"),
    "weight": ("--class-weight", "sick=2"),
    "cost": ("--cost", "ill:sick=2"),
    "both": ("--drop", "age", "--keep", "age"),
}


@pytest.mark.parametrize("option", WRONG)
def test_options_are_checked_before_any_work_and_before_notes_of_looks(mercer, table, monkeypatch, option):
    monkeypatch.setattr("mercer.studies.ledger.Looks.earlier", ("a look",))
    monkeypatch.setattr("mercer.studies.report.prose.before_the_look", lambda earlier: "earlier looks")
    monkeypatch.setattr("mercer.studies.preparation.seal_rows", lambda *arguments, **options: 1 / 0)
    status, _, err = mercer("study", table, "--target", "outcome", *WRONG[option])
    assert status == 1
    assert "internal error" not in err
    assert "earlier looks" not in err
    assert len(err.splitlines()) == 1


def test_predict_gives_a_score_for_each_of_several_classes(mercer, tmp_path):
    three_classes(60).to_csv(tmp_path / "t.csv", index=False)
    assert mercer("fit", "t.csv", "--target", "kind", "--out", "m")[0] == 0
    _, out, _ = mercer("predict", "m", "t.csv")
    assert out.splitlines()[0] == "row,label,decision_value_a,decision_value_b,decision_value_c"
    assert len(out.splitlines()) == 61
    assert "support vectors, sum of all machines" in mercer("verify", "m", "t.csv")[1]


def test_predict_recognises_training_rows(mercer, model, tmp_path):
    _, _, err = mercer("predict", model, "patients.csv", "--out", "p.csv")
    assert err.endswith(
        " of 120 labels agree with the column 'outcome'; the model was trained on 120 of these rows, which says little "
        "about new ones\n"
    )
    mixed_frame(50, seed=4).to_csv(tmp_path / "new.csv", index=False)
    _, _, err = mercer("predict", model, "new.csv", "--out", "p.csv")
    assert err.endswith(" of 50 labels agree with the column 'outcome'\n")
    mixed_frame(80).to_csv(tmp_path / "t.csv", index=False)
    assert mercer("study", "t.csv", "--target", "outcome", "--folds", "2", "--out", "s")[0] == 0
    _, _, err = mercer("predict", "s/model.mercer", "t.csv", "--out", "p.csv")
    assert "trained on 60 of these rows, which says little about new ones; of the others, " in err
    assert " of 20 labels agree" in err


def test_predict_names_categories_that_training_did_not_have(mercer, model, tmp_path):
    frame = mixed_frame(10, seed=5).drop(columns="outcome")
    frame.assign(site=["moon"] * 3 + ["mars"] + ["north"] * 6).to_csv(tmp_path / "new.csv", index=False)
    status, _, err = mercer("predict", model, "new.csv", "--out", "p.csv")
    assert status == 0
    assert err == (
        "warning: column 'site' holds 'moon', 'mars' in 4 of 10 rows, which the model does not know from training; "
        "they count as none of the values that it knows\n"
    )


def test_labels_are_data_in_a_file_and_harmless_on_a_terminal(mercer, tmp_path, monkeypatch):
    labels = {"ill": "\x1b[31m=cmd", "well": 'w,"\r\nx'}
    frame = mixed_frame(60).assign(outcome=lambda frame: frame["outcome"].map(labels))
    frame.to_csv(tmp_path / "t.csv", index=False)
    status, _, err = mercer("fit", "t.csv", "--target", "outcome", "--out", "m")
    assert (status, "\x1b" in err) == (0, False)
    mercer("predict", "m", "t.csv", "--out", "p.csv")
    with open(tmp_path / "p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["label"] for row in rows} == set(labels.values())
    assert list(rows[0]) == ["row", "label", 'decision_value_w,"\r\nx']
    assert mercer("predict", "m", "t.csv")[1] == (tmp_path / "p.csv").read_bytes().decode()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = mercer("predict", "m", "t.csv")[1]
    assert "\x1b" not in out
    assert "\\x1b[31m=cmd," in out


def test_a_device_is_written_to_and_not_replaced(mercer, model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.csv").symlink_to("file.csv")
    reader = subprocess.Popen(["cat", "pipe"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert mercer("predict", model, "patients.csv", "--out", "pipe")[0] == 0
    assert mercer("predict", model, "patients.csv", "--out", "link.csv")[0] == 0
    assert reader.communicate(timeout=10)[0] == (tmp_path / "file.csv").read_text()
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link.csv").is_symlink()
    status, _, err = mercer("fit", "patients.csv", "--target", "outcome", "--missing", "drop", "--out", "pipe")
    assert (status, err) == (1, "error: pipe cannot be written: it is a device or a pipe, and a file is needed\n")


def test_rows_without_a_target_cause_a_warning(mercer, tmp_path):
    frame = mixed_frame(80)
    frame.loc[[3, 7], "outcome"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    warning = "warning: 2 of 80 rows were left out because the target 'outcome' is missing there: rows 4, 8\n"
    for command in (("fit", "--out", "m"), ("study", "--folds", "2", "--out", "s")):
        status, _, err = mercer(command[0], "t.csv", "--target", "outcome", *command[1:])
        assert status == 0
        assert err.startswith(warning)


def test_what_columns_hold_is_said_and_can_be_changed(mercer, tmp_path):
    frame = mixed_frame(80).assign(seen=[f"{1 + k % 12}/{1 + k % 12}/2021" for k in range(80)], code=np.arange(80) % 4)
    frame["day"] = 20240101 + np.arange(80) % 28
    frame.loc[3, "seen"] = "3/4/2021"
    frame.to_csv(tmp_path / "t.csv", index=False)
    note = "Column 'seen' holds dates or times: parts of them are used, such as year, weekday and hour"
    read = "Column 'seen' holds dates such as '3/4/2021', which were read with the month first"
    status, _, err = mercer("fit", "t.csv", "--target", "outcome", "--out", "m")
    assert status == 0
    assert f"note: {note}; --categorical seen takes its values for categories, --drop seen leaves it out\n" in err
    assert f"note: {read}; --date-order dmy reads them the other way\n" in err
    assert (
        "note: Column 'day' holds numbers such as 20240101, which may be dates: they were taken for numbers; --dates"
        in err
    )
    assert mercer("verify", "m", "t.csv")[0] == 0
    status, out, _ = mercer(
        "study", "t.csv", "--target", "outcome", "--folds", "2", "--out", "s", "--date-order", "dmy", "--dates", "day"
    )
    assert status == 0
    assert note in " ".join(out.split())
    assert read not in " ".join(out.split())
    report = html.unescape((tmp_path / "s" / "report.html").read_text())
    assert note in report
    assert report.count("parts: days, ") == 2
    assert mercer("verify", "s/model.mercer", "t.csv")[0] == 0
    fit = ("fit", "t.csv", "--target", "outcome", "--out", "m", "--max-levels", "5")
    status, _, err = mercer(*fit, "--categorical", "seen", "--categorical", "code")
    assert status == 0
    assert "note: Column 'seen' holds many different values (13): the 5 most frequent have an indicator each" in err
    assert {"code=0", "code=1"} <= set(load_model(tmp_path / "m").encoder.feature_names_)
    assert mercer("verify", "m", "t.csv")[0] == 0


def test_a_machine_that_is_not_optimal_says_what_to_do_on_the_command_line(mercer, table):
    fit = ("fit", "patients.csv", "--target", "outcome", "--missing", "drop", "--out", "m")
    status, out, err = mercer(*fit, "--max-seconds", "1e-9")
    assert status == 0
    advice = "The time limit came before the optimum; the violation says by how much the optimality conditions fail."
    assert advice in " ".join(out.split())
    assert "hint: give it more time with --max-seconds\n" in err
    assert "warm_start" not in out + err
    status, out, err = mercer(*fit, "--kernel", "linear", "--C", "1e9", "--tol", "1e-14", "--max-seconds", "20")
    assert "A larger tolerance asks for less; a lower C, gamma or degree leaves less to rounding." in " ".join(
        out.split()
    )
    assert "hint: ask for less with a larger --tol, or lower --C\n" in err
    status, out, err = mercer(*fit, "--kernel", "linear", "--C", "inf")
    assert (status, out) == (1, "")
    assert err.startswith("error: --C inf needs classes that can be separated, which they cannot with this kernel: ")
    assert err.endswith("; give a finite --C, or another --kernel\n")
    assert err.count("\n") == 1


PYTHONS = {
    "joint": (SVC(multi_class="joint"), "joint", ["KKT violation", "support vectors ", "status"]),
    "likely": (SVC(probability=True), "ovo", ["KKT violation", "sum of all machines"]),
    "loss": (KernelLogisticRegression(), "ovr", ["violation", "duality gap", "optimal"]),
    "network": (RBFNetworkClassifier(5), "ovr", ["duality gap", "optimal"]),
    "memory": (KernelNeighborsClassifier(), "ovr", ["claims no optimum. What was checked: the rows that vote, and"]),
}


@pytest.mark.parametrize("case", PYTHONS)
def test_files_of_every_kind_of_machine_are_predicted_and_verified(case, mercer, tmp_path):
    machine, scheme, words = PYTHONS[case]
    frame = three_classes(60)
    frame.to_csv(tmp_path / "t.csv", index=False)
    made = fit_model(frame, "kind", machine)
    save_model(tmp_path / "m", made)
    assert made.prediction_kind.scheme == scheme
    status, out, _ = mercer("predict", "m", "t.csv")
    assert status == 0
    read = pd.read_csv(io.StringIO(out), dtype=str)
    assert read["label"].tolist() == made.predict(frame).tolist()
    if made.has_probabilities:
        columns = read[["probability_a", "probability_b", "probability_c"]].map(float).to_numpy()
        np.testing.assert_array_equal(columns, made.probabilities(frame))
    assert made.has_probabilities is ("probability_a" in read) is (case != "joint")
    status, out, err = mercer("verify", "m", "t.csv")
    assert (status, err) == (0, "")
    assert "verified: the model is what it says it is" in out
    for word in words:
        assert word in " ".join(out.split())


def test_the_joint_machine_on_the_command_line(mercer, tmp_path):
    three_classes(60).to_csv(tmp_path / "t.csv", index=False)
    status, out, _ = mercer("fit", "t.csv", "--target", "kind", "--multi-class", "joint", "--out", "m")
    assert status == 0
    assert "of at least one of the" not in out
    assert load_model(tmp_path / "m").prediction_kind.scheme == "joint"
    assert mercer("verify", "m", "t.csv")[0] == 0


def test_verify_recognises_another_table(mercer, model, table, tmp_path):
    status, out, err = mercer("verify", model, "patients.csv")
    assert status == 0
    assert "in the file" in out
    assert "recomputed" in out
    frame = pd.read_csv(table)
    frame.loc[3, "dose"] += 1e-9
    frame.to_csv(tmp_path / "other.csv", index=False)
    status, out, err = mercer("verify", model, "other.csv")
    assert status == 1
    assert "error: this is not the table that the model was trained on" in err
    assert "verified" not in out


def test_doctor_and_version_and_help(mercer):
    status, out, _ = mercer("doctor")
    assert status == 0
    assert "scikit-learn" in out
    assert "threads" in out
    assert ("rows of two values  bits\n" in out) == counts_bits()
    assert ("multiples of a step integers\n" in out) == multiplies_integers()
    assert mercer("--version")[1].startswith("mercer, version")
    for command in ((), ("--help",), ("study", "--help"), ("verify", "-h")):
        status, out, err = mercer(*command)
        assert (status, err) == (0, "")
        assert "Usage: mercer" in out
    out = mercer("fit", "--help")[1]
    assert "[default: 0.0]" in " ".join(out.split())
    assert "[ovo|ovr|joint]" in out
    assert "None" not in out


def test_the_doctor_examines_a_table(mercer, table, tmp_path):
    frame = pd.read_csv(table)
    frame = frame.assign(code=frame["outcome"].map({"ill": "i", "well": "w"}))
    frame.loc[:2, ["outcome", "code"]] = ["dead", "d"]
    frame.to_csv(tmp_path / "leak.csv", index=False)
    status, out, err = mercer("doctor", "leak.csv", "--target", "outcome", "--missing", "impute")
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert "error mercer study refuses this table: every class needs 8 rows" in words
    assert "Remedy: --rare drop leaves the rare classes out; or change" in words
    assert "doubt Column 'code' alone predicts the target in 100% of the rows" in words
    assert "a test score with it is worthless: leave it out with --drop code." in words
    _, _, findings = out.partition("\n\n")[2].partition("\n\n")
    assert [line.split()[0] for line in findings.splitlines() if line[0] != " "][:3] == ["error", "doubt", "caution"]
    status, out, _ = mercer("doctor", "patients.csv", "--target", "outcome", "--missing", "impute", "--nu", "0.99")
    assert "doubt" not in out
    assert "0.99 is infeasible" in " ".join(out.split())
    assert mercer("doctor", "--target", "outcome")[0] == 2
    status, out, err = mercer("doctor", "patients.csv")
    assert status == 0
    assert "without --target COLUMN only the columns are examined" in err


def test_the_doctor_begins_with_an_overview_and_says_only_what_needs_action(mercer, tmp_path):
    frame = mixed_frame(200).drop(columns="row").assign(copy=lambda one: 1000 * one["age"], patient=np.arange(200) // 4)
    frame.loc[:9, "age"] = np.nan
    frame["patient"] = [f"P{one:03}" for one in frame["patient"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    status, out, _ = mercer("doctor", "t.csv", "--target", "outcome")
    assert status == 0
    lines = out.splitlines()
    assert lines[0].startswith("200 rows, 8 columns (7 columns to learn from: ")
    assert lines[0].endswith("; 10 cells in 1 column are missing.")
    counts = frame["outcome"].value_counts()
    assert lines[1].startswith(f"Target 'outcome': 2 classes in 200 rows: {counts.index[0]!r} {counts.iloc[0]} (")
    (age,) = (line for line in lines if line.startswith("age "))
    assert set(age[25:49]) & set("▁▂▃▄▅▆▇█")
    assert age.endswith("numbers, 20.5 to 79.6; 10 missing") or " to " in age
    assert "has the same value in every row" not in out
    assert "This harms no prediction" not in out
    assert "different scales" not in out
    assert "--groups patient" in out
    status, out, _ = mercer("doctor", "t.csv", "--target", "outcome", "--groups", "patient")
    assert status == 0
    assert "Several rows have the same 'patient'" not in out
    assert "patient" not in {line.split()[0] for line in out.splitlines() if line.strip()}
    few = frame.assign(patient=np.where(np.arange(200) < 100, "a", "b"))
    few.to_csv(tmp_path / "few.csv", index=False)
    _, out, _ = mercer("doctor", "few.csv", "--target", "outcome", "--groups", "patient")
    assert "error    mercer study refuses this table" in out
    assert "did you mean 'patient'?" in mercer("doctor", "t.csv", "--target", "outcome", "--groups", "patients")[2]


STUDY = ("study", "patients.csv", "--target")
ERRORS = {
    "no file": (("study", "patient.csv"), "file patient.csv does not exist", "nearby: 'patients.csv'"),
    "no target": (("study", "patients.csv"), "--target COLUMN is missing, the column to predict; see", "study --help"),
    "wrong target": ((*STUDY, "outcom"), "there is no column 'outcom'", "did you mean 'outcome'?"),
    "weights twice": (
        (*STUDY, "outcome", "--class-weight", "ill=2", "--class-weight", "well=3"),
        "--class-weight is given 2 times, and may be given once",
        "study --help",
    ),
    "a weight twice": (
        (*STUDY, "outcome", "--class-weight", "ill=2,ill=3"),
        "--class-weight names 'ill' twice",
        "give one number",
    ),
    "dropped and kept": (
        (*STUDY, "outcome", "--drop", "age", "--keep", "age"),
        "--drop age and --keep age contradict each other",
        "give one of them",
    ),
    "text and categories": (
        (*STUDY, "outcome", "--text", "site", "--categorical", "site"),
        "--categorical site and --text site contradict each other",
        "give one of them",
    ),
    "constant target": ((*STUDY, "unit"), "must have at least two classes, but is 'mg' in every row", None),
    "no quantity": (
        (*STUDY, "site", "--task", "regression"),
        "the target 'site' must hold numbers for regression, but row 1 holds '",
        "--task classification",
    ),
    "missing": (
        ("study", "patients.csv", "--target", "outcome", "--missing", "error"),
        "missing values in 'age' (5), 'site' (5); --missing impute fills",
        "--missing impute fills them in",
    ),
    "drop": ((*STUDY, "outcome", "--drop", "dos"), "there is no column 'dos'", "did you mean 'dose'?"),
    "test size": ((*STUDY, "outcome", "--test-size", "2"), "'--test-size': 2.0 is not in the range", "study --help"),
    "folds": ((*STUDY, "outcome", "--folds", "90"), "every class needs 122 rows", "change --folds or --test-size"),
    "time": ((*STUDY, "outcome", "--kernel", "rbf", "--max-seconds", "1e-9"), "the search ended (time limit)",
             "or allow --kernel linear"),
    "folder": ((*STUDY, "outcome", "--out", "patients.csv/x"), "output folder patients.csv/x cannot be written", None),
    "seed": ((*STUDY, "outcome", "--seed", "abc"), "'--seed': 'abc' is not a valid integer.", "mercer study --help"),
    "only identifiers": (
        (*STUDY, "outcome", *(part for name in ("age", "dose", "site", "smoker", "unit") for part in ("--drop", name))),
        "no column is left to learn from: 'age' as asked", "--keep row uses the column all the same",
    ),
    "folder for a model": (("predict", ".", "patients.csv"), ". is a folder, not a model file", None),
    "option": ((*STUDY, "outcome", "--sed", "3"), "No such option", "mercer study --help"),
    "choice": (("study", "patients.csv", "--missing", "guess"), "'guess' is not one of", "mercer study --help"),
    "command": (("studie",), "No such command", "mercer --help"),
    "negative C": (("fit", "patients.csv", "--target", "outcome", "--missing", "drop", "--out", "m", "--C", "-1"),
                   "'--C': -1.0 is not in the range x>0", "mercer fit --help"),
    "gamma": (("fit", "patients.csv", "--target", "outcome", "--missing", "drop", "--out", "m", "--gamma", "-2"),
              "gamma must be a number >= 0", None),
    "no folder": (("fit", "patients.csv", "--target", "outcome", "--out", "none/m"),
                  "folder none does not exist", "make it first"),
    "a file for a folder": ((*STUDY, "outcome", "--out", "patients.csv"), "patients.csv is a file",
                            "name a folder that does not exist"),
    "no model": (("predict", "m", "patients.csv"), "m does not exist", None),
    "no model, but a like name": (("verify", "patient.mercer", "patients.csv"), "patient.mercer does not exist",
                                  "nearby: 'patients.csv'"),
    "not a model": (("predict", "patients.csv", "patients.csv"), "is not a model file, or is truncated", None),
    "verify nothing": (("verify", "patients.csv", "patients.csv"), "is not a model file", None),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_is_one_line_and_a_status(mercer, table, tmp_path, case):
    arguments, message, hint = ERRORS[case]
    status, out, err = mercer(*arguments)
    assert status != 0
    assert out == ""
    *plan, line = err.splitlines()
    assert all(one.startswith("search: ") for one in plan)
    assert line.startswith("error: ")
    assert message.rstrip(".") in line
    assert hint is None or hint in line.split("; ", 1)[1]
    assert not (tmp_path / "m").exists()
    assert os.listdir(tmp_path) == ["patients.csv"]


@pytest.mark.parametrize(
    ("values", "options"),
    [([*range(1, 20), 27], ()), ([*range(1, 20), 27], ("--task", "classification")), ([0, 1], ())],
)
def test_numbers_with_rare_values_may_be_no_classes(mercer, tmp_path, values, options):
    rings = np.append(np.arange(200) % (len(values) - 1), [len(values) - 1])
    frame = pd.DataFrame({"size": np.random.default_rng(0).random(201), "rings": np.array(values, float)[rings]})
    frame.to_csv(tmp_path / "shells.csv", index=False)
    status, _, err = mercer("study", "shells.csv", "--target", "rings", *options)
    assert (status, err.count("\n")) == (1, 1)
    assert f"every class needs 8 rows for a test part of 0.25 and 5 folds, but '{values[-1]}.0' (1) has fewer; " in err
    note = "; the numbers of the target were taken for classes: if they are a quantity, say --task regression; else"
    assert (note in err) == (len(values) > 2)
    drop = "--rare drop leaves the rare classes out; or " if len(values) > 2 else ""  # merged they are too few
    assert err.endswith(f"{drop}change --folds or --test-size\n")


def test_a_table_that_does_not_fit_the_model(mercer, model, tmp_path):
    frame = mixed_frame(5)
    frame.assign(age=["1", "2", "old", "4", "5"]).to_csv(tmp_path / "text.csv", index=False)
    status, out, err = mercer("predict", model, "text.csv", "--out", "labels.csv")
    assert (status, out) == (1, "")
    assert err == "error: column 'age' must hold numbers, as it did in training, but row 3 holds 'old'\n"
    frame.rename(columns={"age": "Age"}).to_csv(tmp_path / "names.csv", index=False)
    status, _, err = mercer("predict", model, "names.csv")
    assert err == "error: the table lacks 1 of the 4 columns that the model needs: 'age'; it does have 'Age'\n"
    assert not (tmp_path / "labels.csv").exists()


def test_a_truncated_model_file(mercer, model, tmp_path):
    path = tmp_path / model
    path.write_bytes(path.read_bytes()[:-100])
    status, _, err = mercer("verify", model, "patients.csv")
    assert status == 1
    assert err.startswith(f"error: {model} is not a model file, or is truncated")


def test_the_folder_is_checked_before_the_search(mercer, table, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the study was begun")

    monkeypatch.setattr("mercer.studies.protocol.study", never)
    status, _, err = mercer(*STUDY, "outcome", "--out", "patients.csv/deep/folder")
    assert status == 1
    assert err.startswith("error: output folder patients.csv/deep/folder cannot be written")


def test_an_internal_error_is_one_line(mercer, table, monkeypatch):
    monkeypatch.setattr("mercer.studies.protocol.study", lambda *_, **__: {}["lost"])
    status, _, err = mercer(*STUDY, "outcome")
    assert status == 1
    assert err == (
        "error: internal error: KeyError: 'lost'; this is a mistake in mercer; with MERCER_DEBUG=1 in the environment "
        "it shows where\n"
    )


MISSING = {
    "pyarrow": ("error: reading tables needs pyarrow, which is not installed; install it with: ", "pyarrow"),
    "matplotlib": ("error: writing reports needs jinja2 and matplotlib (", "jinja2 matplotlib"),
    "openpyxl": ("error: reading Excel workbooks needs openpyxl, which is not installed; install", "openpyxl"),
}


@pytest.mark.parametrize("packages", [["pyarrow"], ["matplotlib", "openpyxl"]], ids=",".join)
def test_a_missing_package_is_an_error_that_says_what_to_install(table, tmp_path, packages):
    pd.read_csv(table).to_excel(tmp_path / "patients.xlsx", index=False)
    code = f"""
import sys
from mercer.studies.cli import run
for package in {packages}:
    sys.modules[package] = None
    assert run(["doctor"]) == 0
    assert run(["study", f"patients.{{'xlsx' if package == 'openpyxl' else 'csv'}}", "--target", "outcome"]) == 1
    del sys.modules[package]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for line, package in zip(done.stderr.splitlines(), packages, strict=True):
        message, wanted = MISSING[package]
        assert line.startswith(message)
        assert line.endswith(f": pip install {wanted}")


def test_plain_lines_of_progress(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with ProgressBar(Console(file=stream, markup=False, highlight=False)) as progress:
        for now[0] in np.arange(0.0, 16.0, 0.5):
            progress(StageProgress("search", int(now[0] * 2), 40, 90.0, "Gaussian kernel, C = 1"))
    assert stream.getvalue().splitlines() == [
        "search 4 of 40: about 2 min left, Gaussian kernel, C = 1",
        "search 24 of 40: about 2 min left, Gaussian kernel, C = 1",
    ]


def test_the_time_left_goes_down_between_estimates(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("mercer.solvers.progress_bar.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with ProgressBar(Console(file=stream, force_terminal=True, width=100)) as progress:
        progress(StageProgress("search", 10, 40, 42.0))
        now[0] = 12.0
    assert "about 30 s left" in stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_an_interrupted_search_says_what_comes_next(terminal):
    stream = io.StringIO()
    with ProgressBar(Console(file=stream, force_terminal=terminal, width=100)) as progress:
        progress(StageProgress("search", 10, 40, 42.0))
        progress(StageProgress("search", 10, 40, stopped="interrupted"))
    assert "stopping the search; going on with the best candidate so far" in stream.getvalue()


def test_a_live_bar_on_a_terminal():
    stream = io.StringIO()
    with ProgressBar(Console(file=stream, force_terminal=True, width=100)) as progress:
        progress(StageProgress("search", 10, 40, 42.0, "Gaussian kernel, C = [1]"))
    assert "about 42 s left" in stream.getvalue()
    assert "10/40" in stream.getvalue()
    assert "C = [1]" in stream.getvalue()


def test_a_fit_shows_its_violation(mercer, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.solvers.progress_bar.FIRST_LINE_SECONDS", 0.0)
    monkeypatch.setattr("mercer.solvers.progress_bar.LINE_SECONDS", 1e-9)
    three_classes(60).to_csv(tmp_path / "t.csv", index=False)
    _, _, err = mercer("fit", "t.csv", "--target", "kind", "--out", "m")
    lines = err.splitlines()
    assert lines[0] == "fit"
    assert lines[1].startswith("fit: machine 1 of 3: violation ")
    assert lines[1].endswith(", to come down to 1e-03")
    assert any(line.startswith("fit: machine 3 of 3: violation ") for line in lines)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from mercer.studies.cli import run; assert run(['--help']) == run(['study', '--help']) == 0; "
        "print(*sorted({'numpy', 'sklearn', 'rich', 'pyarrow', 'matplotlib'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stderr == "\n"


@pytest.mark.parametrize("seconds", [0.1, 0.6])
def test_ctrl_c_while_modules_are_imported(table, tmp_path, seconds):
    code = "import sys; from mercer.studies.cli import main; print(file=sys.stderr, flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "verify", "none.mercer", "patients.csv"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    process.stderr.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert err.strip() == "error: interrupted" or process.returncode == 1  # Ctrl-C came too late
    assert "Traceback" not in err


def environment():
    """Environment variables for another process, so that it finds this package."""
    return {**os.environ, "PYTHONPATH": str(pathlib.Path(cli.__file__).parents[3])}


def long_running(tmp_path, *arguments):
    """Start a study of many seconds in another process, and wait until its search has begun."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 8))
    pd.DataFrame(X).assign(y=(np.sin(3 * X).sum(axis=1) + rng.standard_normal(1200) > 0)).to_csv(tmp_path / "t.csv")
    code = (
        "import mercer.solvers.progress_bar as p; p.FIRST_LINE_SECONDS = p.LINE_SECONDS = 0.0\n"
        "from mercer.studies.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "study", "t.csv", "--target", "y", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    for line in process.stderr:
        if line.startswith("search 10 of"):
            return process
    raise AssertionError("the search did not begin")


@pytest.mark.full
def test_one_ctrl_c_ends_only_the_search(tmp_path):
    process = long_running(tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    words = "stopping the search; going on with the best candidate so far (Ctrl-C again ends everything)\n"
    assert err.count(words) == 1
    assert "The search was interrupted after" in out
    assert "The search was interrupted after" in (tmp_path / "t-study" / "report.html").read_text()
    assert (tmp_path / "t-study" / "model.mercer").exists()


def test_columns_that_are_left_out_for_one_reason_share_a_line(mercer, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"p{k}": np.full(60, float(k)) for k in range(9)})
    table.assign(x=rng.standard_normal(60), y=rng.integers(0, 2, 60)).to_csv(tmp_path / "t.csv", index=False)
    _, _, err = mercer("fit", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "m.mercer"))
    reason = "one value only in the training rows"
    assert f"note: 9 columns were left out ('p0', 'p1', 'p2', 'p3', 'p4' and 4 more): {reason}\n" in err
    assert err.count("left out") == 1


def test_an_interrupted_fit_replaces_no_model(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2500, 4))
    pd.DataFrame(X).assign(y=rng.integers(0, 2, 2500)).to_csv(tmp_path / "t.csv", index=False)
    table, path = str(tmp_path / "t.csv"), tmp_path / "m.mercer"
    monkeypatch.setattr("mercer.solvers.progress_bar.ProgressBar.__call__", lambda self, progress: True)  # like Ctrl-C
    command = ["fit", table, "--target", "y", "--C", "1000", "--out", str(path)]
    assert cli.run(command) == 130
    out, err = capsys.readouterr()
    assert "hint: run the command again and let it finish" in err
    assert path.exists()
    path.write_bytes(b"a good model")
    assert cli.run([*command, "--force"]) == 130
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"error: interrupted; {path} is as it was\n")
    assert path.read_bytes() == b"a good model"
    monkeypatch.undo()
    assert cli.run([*command, "--force"]) == 0
    assert path.read_bytes() != b"a good model"


@pytest.mark.full
def test_two_ctrl_c_end_everything_and_leave_nothing_behind(tmp_path):
    process = long_running(tmp_path)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert out == ""
    assert "Traceback" not in err
    assert os.listdir(tmp_path) == ["t.csv"]


def test_an_output_never_replaces_an_input(mercer, model, table, tmp_path):
    before = table.read_bytes(), (tmp_path / model).read_bytes()
    fit = ("fit", "patients.csv", "--target", "outcome", "--missing", "impute")
    for arguments in ((*fit, "--out", "patients.csv"), ("predict", model, "patients.csv", "--out", "patients.csv")):
        status, _, err = mercer(*arguments)
        assert status == 1
        assert err.strip() == "error: output patients.csv is also an input, which it would overwrite; name another file"
    status, _, err = mercer("predict", model, "patients.csv", "--out", model)
    assert (status, "is also an input" in err) == (1, True)
    status, _, err = mercer(*fit, "--out", tmp_path)
    assert (status, "is a folder; name a file in it" in err) == (1, True)
    assert (table.read_bytes(), (tmp_path / model).read_bytes()) == before


def test_a_model_and_its_table_for_libsvm(mercer, model, tmp_path):
    status, _, err = mercer("convert", model, "m.model")
    assert status == 0
    assert "labels are numbers in LIBSVM's files: 0 is '" in err
    assert "written: m.model" in err
    status, _, _ = mercer("convert", "patients.csv", "rows.svm", "--model", model)
    assert status == 0
    ours = load_model(model)
    table = read_table("patients.csv", text_columns=ours.encoder.text_columns)
    rows, target = load_libsvm_data("rows.svm", n_features=ours.support_vectors.p)
    np.testing.assert_array_equal(target, ours.prediction_kind.truth(table))
    theirs = load_libsvm_model("m.model", n_features=rows.shape[1])
    np.testing.assert_array_equal(
        theirs.predict(rows), [ours.prediction_kind.names.index(label) for label in ours.predict(table)]
    )
    np.testing.assert_allclose(theirs.decision_function(rows), ours.scores(table), rtol=1e-12, atol=1e-12)
    pd.read_csv("patients.csv").drop(columns="outcome").to_csv("new.csv", index=False)
    assert mercer("convert", "new.csv", "new.svm", "--model", model)[0] == 0
    assert set(load_libsvm_data("new.svm")[1]) == {2.0}


def test_several_classes_for_libsvm(mercer, tmp_path):
    frame = three_classes(90)
    frame["kind"] = frame["kind"].map({name: 5 * k - 5 for k, name in enumerate(sorted(frame["kind"].unique()))})
    frame.to_csv(tmp_path / "clouds.csv", index=False)
    assert mercer("fit", "clouds.csv", "--target", "kind", "--task", "classification", "--out", "m.mercer")[0] == 0
    assert mercer("convert", "m.mercer", "m.model")[0] == 0
    assert mercer("convert", "clouds.csv", "rows.svm", "--model", "m.mercer")[0] == 0
    ours, table = load_model("m.mercer"), read_table("clouds.csv")
    rows, target = load_libsvm_data("rows.svm", n_features=ours.support_vectors.p)
    np.testing.assert_array_equal(target, table["kind"])
    theirs = load_libsvm_model("m.model", n_features=rows.shape[1])
    assert theirs.classes_.tolist() == [-5, 0, 5]
    np.testing.assert_array_equal(theirs.predict(rows), ours.predict(table))


def test_a_model_becomes_source_code_or_onnx_by_the_ending_of_the_file(mercer, model, tmp_path):
    for out, option, begins in (
        ("rule.c", (), b"/*\n * Written by mercer"),
        ("rule.js", (), b"/*\n * Written by mercer"),
        ("text", ("--to", "javascript"), b"/*\n * Written by mercer"),
    ):
        for _ in range(2):  # it is written over
            status, _, err = mercer("convert", model, out, *option)
            assert (status, err) == (0, f"written: {out}\n")
        assert (tmp_path / out).read_bytes().startswith(begins)
    assert b"rule_predict(const double *x)" in (tmp_path / "rule.c").read_bytes()
    status, _, err = mercer("convert", model, "m.linear", "--to", "liblinear")
    assert (status, "LIBLINEAR has no kernels" in " ".join(err.split())) == (1, True)
    (tmp_path / "f.c").write_text("int main(void) { return 0; }\n")
    status, _, err = mercer("convert", model, "f.c")
    assert (status, "is not an output of this command" in " ".join(err.split())) == (1, True)
    assert mercer("convert", "patients.csv", "x", "--model", model, "--to", "c")[0] == 2
    assert mercer("fit", "patients.csv", "--target", "outcome", "--machine", "linear-svc", "--out", "l.mercer")[0] == 0
    assert mercer("convert", "l.mercer", "m.linear", "--to", "liblinear")[0] == 0
    again = load_liblinear_model("m.linear")
    ours = load_model("l.mercer")
    table = read_table("patients.csv", text_columns=ours.encoder.text_columns)
    codes = [ours.prediction_kind.names.index(label) for label in ours.predict(table)]
    assert again.predict(ours.encoder.transform(table)).tolist() == codes
    pipeline = make_pipeline(StandardScaler(), SVC()).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    save_model("p.mercer", pipeline)
    assert mercer("convert", "p.mercer", "p.c")[0] == 0
    assert b"p_predict(const double *x)" in (tmp_path / "p.c").read_bytes()
    pytest.importorskip("skl2onnx")
    assert mercer("convert", model, "m.onnx")[0] == 0
    assert (tmp_path / "m.onnx").read_bytes().startswith(b"\x08")


def test_inputs_that_cannot_be_converted_are_refused(mercer, model, tmp_path):
    assert mercer("convert", model, "m.model")[0] == 0
    status, _, err = mercer("convert", "m.model", "again.mercer")
    assert status == 1
    assert "m.model is a LIBSVM model file, which holds no training rows and no certificate" in " ".join(err.split())
    assert "mercer.load_libsvm_model reads it in Python" in " ".join(err.split())
    assert mercer("convert", "missing.mercer", "x.model")[0] == 1
    status, _, err = mercer("convert", model, model)
    assert status == 1
    assert "is also an input, which it would overwrite" in " ".join(err.split())
    frame = three_classes(60)
    frame.to_csv(tmp_path / "clouds.csv", index=False)
    assert mercer("fit", "clouds.csv", "--target", "kind", "--multi-class", "ovr", "--out", "r.mercer")[0] == 0
    status, _, err = mercer("convert", "r.mercer", "r.model")
    assert status == 1
    assert "fit with --multi-class 'ovo'" in " ".join(err.split())
    assert not (tmp_path / "r.model").exists()


def test_regression_from_a_table_to_predictions(mercer, tmp_path):
    quantities(120).to_csv(tmp_path / "pay.csv", index=False)
    status, out, err = mercer("study", "pay.csv", "--target", "pay", "--folds", "2", "--out", "s")
    assert status == 0
    assert "was taken for a quantity: this is regression" in err
    words = " ".join(out.split())
    for part in (
        "sealed rows:",
        "ridge regression",
        "lie in the tube",
        "Farthest off on the sealed rows",
        "Certificate: optimal",
    ):
        assert part in words
    status, out, err = mercer("predict", "s/model.mercer", "pay.csv")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "row,prediction"
    np.testing.assert_allclose(
        [float(line.split(",")[1]) for line in lines[1:]], load_model("s/model.mercer").predict(quantities(120))
    )
    assert "predictions for 120 differ from the column 'pay' by" in err
    assert "; of the others, predictions for 30 differ" in err
    status, out, _ = mercer("verify", "s/model.mercer", "pay.csv")
    assert status == 0
    assert "verified: the model is what it says it is" in out
    quantities(120).assign(pay=lambda frame: frame["pay"] + 1.0).to_csv(tmp_path / "other.csv", index=False)
    assert mercer("verify", "s/model.mercer", "other.csv")[0] == 1


def test_fit_of_numbers(mercer, tmp_path):
    quantities(80).to_csv(tmp_path / "pay.csv", index=False)
    status, *_ = mercer("fit", "pay.csv", "--target", "pay", "--epsilon", "0.2", "--C", "5", "--out", "m")
    assert status == 0
    assert load_model("m").machine_spec == ForSVR(C=5.0, epsilon=0.2)
    assert mercer("verify", "m", "pay.csv")[0] == 0
    status, _, err = mercer("fit", "pay.csv", "--target", "pay", "--multi-class", "ovr", "--out", "m")
    assert status == 2
    assert "--multi-class is for classification, and this is regression" in err
    status, _, err = mercer("fit", "pay.csv", "--target", "site", "--epsilon", "0.2", "--out", "m")
    assert status == 2
    assert "--epsilon is for regression, and this is classification" in err


def test_fit_with_probabilities(mercer, tmp_path):
    frame = quantities(120)
    frame.to_csv(tmp_path / "pay.csv", index=False)
    assert mercer("fit", "pay.csv", "--target", "site", "--probability", "--out", "m")[0] == 0
    _, out, _ = mercer("predict", "m", "pay.csv")
    shares = pd.read_csv(io.StringIO(out)).filter(like="probability_")
    assert shares.shape == (120, frame["site"].nunique())
    np.testing.assert_allclose(shares, load_model("m").probabilities(read_table("pay.csv")))
    options = "--probability", "--kernel", "sigmoid", "--gamma", "1"
    assert mercer("fit", "pay.csv", "--target", "site", *options, "--out", "folds")[0] == 0
    assert load_model("folds").calibration.fitted_on == "cross-fitted decision values"
    assert "probabilities" not in "".join(mercer("verify", "folds", "pay.csv")[1:])
    status, _, err = mercer("fit", "pay.csv", "--target", "pay", "--probability", "--out", "m")
    assert status == 2
    assert "--probability is for classification, and this is regression" in err
    for others, message in ((("--multi-class", "joint"), "--multi-class joint and --probability do not go"),):
        status, _, err = mercer("fit", "pay.csv", "--target", "site", "--probability", *others, "--out", "m")
        assert status == 2
        assert message in err


def test_a_fit_to_a_gap(mercer, tmp_path):
    quantities(60).to_csv(tmp_path / "pay.csv", index=False)
    for target in ("site", "pay"):
        command = "fit", "pay.csv", "--target", target, "--C", "100", "--tol-gap", "1e-6", "--out", "m"
        assert mercer(*command)[0] == 0
        assert load_model("m").certificate.tol_gap == 1e-6
        assert load_model("m").certificate.relative_gap <= 1e-6
    status, _, err = mercer("study", "pay.csv", "--target", "pay", "--out", "")
    assert (status, "--out names no folder" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "status", "why", "hint"),
    [
        ([], 130, "interrupted", "run the command again and let it finish"),
        (["--max-seconds", "62"], 130, "interrupted", "run the command again and let it finish"),
        (["--max-seconds", "60"], 1, "there was no time for probabilities", "give it more time with --max-seconds"),
    ],
)
def test_a_fit_without_time_for_probabilities_is_an_error_and_replaces_no_model(
    mercer, tmp_path, monkeypatch, options, status, why, hint
):
    quantities(60).to_csv(tmp_path / "pay.csv", index=False)
    # Like Ctrl-C or the time limit.
    monkeypatch.setattr("mercer.estimators._probabilities.in_time", lambda *_, **__: None)
    monkeypatch.setattr("mercer.studies.cli.fit.time", SimpleNamespace(perf_counter=iter(range(0, 10**6, 61)).__next__))
    command = "fit", "pay.csv", "--target", "site", "--probability", *options, "--out", "m"
    exit_status, _, err = mercer(*command)
    assert exit_status == (130 if status == 130 else 0)
    assert "warning: the model knows no probabilities: these come from a pass after the fit, which did not end" in err
    assert f"hint: {hint}" in err
    assert "probability=" not in err
    (tmp_path / "m").write_bytes(b"a good model")
    assert mercer(*command, "--force")[::2] == (status, f"error: {why}; m is as it was\n")
    assert (tmp_path / "m").read_bytes() == b"a good model"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--kernel linear --gamma 0.1", "--gamma is for --kernel poly, rbf and sigmoid, and this is --kernel linear"),
        ("--degree 2", "--degree is for --kernel poly, and this is --kernel rbf"),
        ("--kernel linear --coef0 1", "--coef0 is for --kernel poly and sigmoid, and this is --kernel linear"),
    ],
)
def test_an_option_of_another_kernel_is_an_error(mercer, tmp_path, options, message):
    quantities(40).to_csv(tmp_path / "pay.csv", index=False)
    status, _, err = mercer("fit", "pay.csv", "--target", "site", *options.split(), "--out", "m")
    assert status == 2
    assert message in err
    assert not (tmp_path / "m").exists()


def test_a_model_of_numbers_and_its_table_for_libsvm(mercer, tmp_path):
    quantities(60).to_csv(tmp_path / "pay.csv", index=False)
    assert mercer("fit", "pay.csv", "--target", "pay", "--out", "m")[0] == 0
    assert mercer("convert", "m", "m.model")[0] == 0
    assert mercer("convert", "pay.csv", "rows.svm", "--model", "m")[0] == 0
    ours, table = load_model("m"), read_table("pay.csv")
    rows, target = load_libsvm_data("rows.svm", n_features=ours.support_vectors.p)
    np.testing.assert_array_equal(target, table["pay"])
    np.testing.assert_allclose(load_libsvm_model("m.model").predict(rows), ours.predict(table), rtol=1e-12)


@pytest.mark.parametrize(
    "streams", [*(pytest.param(some, marks=pytest.mark.slow) for some in (">&-", ">&- 2>&-")), "<&- >&- 2>&-"]
)
def test_closed_streams_are_no_error(model, tmp_path, streams):
    def run(command):
        line = f"exec {sys.executable} {command} {streams}"
        return subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)

    both = "from contextlib import suppress; from mercer.studies.cli import main\n"
    both += "with suppress(SystemExit): main('fit patients.csv --target outcome --missing drop --out again'.split())\n"
    both += f"main('predict {model} patients.csv --out p.csv'.split())\n"
    assert run(f"-c {shlex.quote(both)}").returncode == 0
    assert (tmp_path / "again").exists()
    assert (tmp_path / "p.csv").exists()
    lost = run(f"-m mercer predict {model} patients.csv")
    assert lost.returncode == 1
    assert "internal" not in lost.stderr


def test_pipes_are_tables(model, tmp_path):
    line = f"cat patients.csv | {sys.executable} -m mercer predict {model} /dev/stdin"
    piped = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert piped.returncode == 0
    assert "Traceback" not in piped.stderr
    assert piped.stdout.count("\n") == (tmp_path / "patients.csv").read_text().count("\n")


def test_a_study_of_a_file_whose_name_is_not_utf_8(mercer, tmp_path):
    name = os.fsdecode(b"\xff\xfe.csv")
    mixed_frame(60).drop(columns=["row", "unit"]).to_csv(tmp_path / name, index=False)
    assert mercer("study", name, "--target", "outcome", "--folds", "2", "--max-seconds", "3")[0] == 0
    folder = tmp_path / os.fsdecode(b"\xff\xfe-study")
    assert sorted(os.listdir(folder)) == ["mercer-looks.jsonl", "model.mercer", "report.html"]
    assert "\\xff\\xfe.csv" in (folder / "report.html").read_text(encoding="utf-8")


def test_an_output_that_is_a_loop_of_links_is_refused_at_once(mercer, model, tmp_path):
    (tmp_path / "a").symlink_to("a")
    assert mercer("predict", model, "patients.csv", "--out", "a")[::2] == (
        1,
        "error: a cannot be written: it is a loop of symbolic links\n",
    )


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (("fit", "patients.csv", "--target", "outcome", "--kernel", "linear", "--out", "f"), "m.mercer"),
        (("predict", "m.mercer", "patients.csv", "--out", "f"), "p.csv"),
        (("convert", "m.mercer", "f"), "libsvm"),
        (("convert", "patients.csv", "f", "--model", "m.mercer"), "data"),
    ],
)
def test_only_outputs_of_the_same_command_are_written_over(mercer, model, command, output):
    assert mercer("predict", "m.mercer", "patients.csv", "--out", "p.csv")[0] == 0
    assert mercer("convert", "m.mercer", "libsvm")[0] == 0
    assert mercer("convert", "patients.csv", "data", "--model", "m.mercer")[0] == 0
    outputs = {name: pathlib.Path(name).read_bytes() for name in ("m.mercer", "p.csv", "libsvm", "data")}
    for foreign in (b"label,age\n1,2\n", b"PK\x03\x04 another archive", b"\xff\x00", *outputs.values()):
        pathlib.Path("f").write_bytes(foreign)
        status, _, err = mercer(*command)
        if foreign == outputs[output]:
            assert status == 0, err
            continue
        assert status == 1
        assert err.splitlines()[-1] == (
            "error: f exists and is not an output of this command, so it is left alone; name another file, or write "
            "over it with --force"
        )
        assert pathlib.Path("f").read_bytes() == foreign
    assert mercer(*command, "--force")[0] == 0
    pathlib.Path("f").write_bytes(b"")
    assert mercer(*command)[0] == 0


def test_many_numbers_as_classes_and_cells_that_are_filled_in_are_told(mercer):
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{k % 40}" if k % 10 else f",{k % 40}" for k, x in enumerate(rng.normal(size=200))]
    pathlib.Path("t.csv").write_text("\n".join(["x,y", *rows]))
    linear = ("fit", "t.csv", "--target", "y", "--linear", "--out", "m")
    for options in (
        (*linear, "--task", "classification"),
        (*linear, "--machine", "linear-svc", "--task", "classification"),
    ):
        status, _, err = mercer(*options)
        assert status == 0
        assert "warning: the target 'y' holds 40 different numbers, and each of them is a class" in err
        assert "note: There are missing values in 'x' (20): they were filled in with the median" in err
    assert mercer(*linear, "--missing", "error")[0] == 1
    assert "and each of them is a class" not in mercer(*linear, "--task", "regression")[2]
