"""`mercer fit` trains every machine, with weights from a column; `mercer predict` and `mercer verify` take each."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

import mercer
from generated import quantities, three_classes
from mercer import SVC, KernelNeighborsClassifier, OneClassSVM
from mercer.data import TableError
from mercer.data.files import checkpoint as checkpoints
from mercer.studies import cli
from mercer.studies.cli.machines import _PARAMETERS, MACHINES
from mercer.studies.models import fit_model, load_model, save_model, verify
from test_checkpoints import stopping_at

CLASSES, NUMBERS, ROWS = ("k.csv", "--target", "kind"), ("pay.csv", "--target", "pay"), ("x.csv",)
OF_TASK = {"classification": CLASSES, "regression": NUMBERS, "novelty detection": ROWS}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command line beside tables of classes, of numbers, and without a target; status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    weights = np.arange(60) % 4 / 2
    three_classes(60).assign(w=weights).to_csv("k.csv", index=False)
    three_classes(60).assign(w=weights).drop(columns="kind").to_csv("x.csv", index=False)
    quantities(60).assign(w=weights).to_csv("pay.csv", index=False)

    def command(*arguments):
        status = cli.run([*map(str, arguments)])
        captured = capsys.readouterr()
        return status, " ".join(captured.out.split()), captured.err

    return command


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_is_fitted_predicted_and_verified(run, name, tmp_path):
    machine = MACHINES[name]
    table, *target = OF_TASK[machine.task]
    weighted = "weights" in machine.options
    status, out, err = run(
        "fit", table, *target, "--machine", name, "--weights" if weighted else "--drop", "w", "--out", "m"
    )
    assert (status, out.startswith(load_model("m").machine_spec.machine)) == (0, True), err
    assert ("Certificate: optimal" in out) is (load_model("m").certificate is not None)
    frame = pd.read_csv(table, engine="pyarrow")  # exact; the own engine of pandas before 3.0 rounds otherwise
    used = frame if weighted else frame.drop(columns="w")
    model = fit_model(used, target[-1] if target else None, _of_defaults(name), sample_weight="w" if weighted else None)
    assert run("predict", "m", table, "--explain", "--out", "p.csv")[0] == 0
    written = pd.read_csv("p.csv", engine="pyarrow")
    answers = written.iloc[:, 1]
    assert written["row"].tolist() == list(range(1, len(frame) + 1))
    assert np.isfinite(written.filter(like="contribution_")).all(axis=None)
    np.testing.assert_array_equal(answers, model.predict(frame))
    assert machine.needs_target or set(answers) <= {1, -1}
    status, out, err = run("verify", "m", table)
    assert (status, "verified" in out) == (0, True), err
    frame.assign(w=frame["w"] + 1.0).to_csv("other.csv", index=False)
    status, out, err = run("verify", "m", "other.csv")
    assert status == weighted
    assert not weighted or "the weights of its training rows in the column 'w' differ" in err


def _of_defaults(name):
    """Return the machine as the command line sets it, where this is not the default in Python."""
    kind = getattr(mercer, MACHINES[name].estimator)
    by_kernel = {"kernel": "rbf", "gamma": "scale"}
    given = {"linear-svr": {"epsilon": 0.1}, "ridge": by_kernel, "perceptron": by_kernel}
    return kind(**given.get(name, {}))


@pytest.mark.parametrize("name", MACHINES)
def test_the_options_of_a_machine_are_parameters_of_its_estimator(name):
    machine = MACHINES[name]
    params = getattr(mercer, machine.estimator)().get_params().keys()
    option_params = {_PARAMETERS.get(option, option) for option in machine.options if option not in machine.choices}
    assert option_params - {"weights", "cost"} <= params  # these two are of the command, not of an estimator
    for option, choices in machine.choices.items():
        assert option in machine.options
        assert all(parameters.keys() <= params for parameters in choices.values())


OPTIONS = {
    "nu": (CLASSES, "nu-svc", "--nu 0.25 --multi-class ovr", {"nu": 0.25}),
    "regression": (NUMBERS, "nu-svr", "--nu 0.25 --C 3", {"nu": 0.25, "C": 3.0}),
    "quantile": (NUMBERS, "quantile", "--quantile 0.9", {"quantile": 0.9}),
    "ridge": (NUMBERS, "ridge", "--alpha 0.5 --kernel linear", {"alpha": 0.5}),
    "logistic": (CLASSES, "logistic", "--prior-variance 2", {"prior_variance": 2.0}),
    "contamination": (ROWS, "one-class", "--contamination 0.1", {"contamination": 0.1}),
    "linear": (CLASSES, "linear-svc", "--C 0.3", {"C": 0.3}),
    "linear, numbers": (NUMBERS, "linear-svr", "--C 0.3 --epsilon 0.2", {"C": 0.3, "epsilon": 0.2}),
    "linear, hinge": (CLASSES, "linear-svc", "--loss hinge --bias free", {"squared": False, "free": True}),
    "linear, l1": (CLASSES, "linear-svc", "--penalty l1 --intercept-scaling 9", {"l1_ratio": 1.0, "scaling": 9.0}),
    "linear, squared": (
        NUMBERS,
        "linear-svr",
        "--loss squared_epsilon_insensitive --bias none",
        {"squared": True, "bias": False},
    ),
    "linear, joint": (CLASSES, "linear-svc", "--multi-class joint", {"machine": "JointLinearSVC"}),
    "logistic, l1": (
        CLASSES,
        "linear-logistic",
        "--penalty l1 --multi-class ovr --C 3",
        {"machine": "LogisticRegression", "l1_ratio": 1.0, "C": 3.0},
    ),
    "logistic, softmax": (CLASSES, "linear-logistic", "--bias none --prior-variance 3", {"C": 3.0, "joint": True}),
    "gradient": (CLASSES, "gradient-svc", "--penalty 0.5 --multi-class ovr", {"penalty": 0.5}),
    "ball": (ROWS, "svdd", "--C 0.05", {"C": 0.05}),
    "voters": (CLASSES, "neighbors", "--neighbors 3", {"n_neighbors": 3}),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_reach_the_machine(run, case):
    table, name, options, expected = OPTIONS[case]
    status, out, err = run("fit", *table, "--machine", name, "--drop", "w", *options.split(), "--out", "m")
    assert status == 0, err
    spec = load_model("m").machine_spec
    machine = {"machine": spec.machine} | spec.to_dict()
    assert {option: machine[option] for option in expected} == expected
    assert all(f"{option} = {value:g}" in out for option, value in expected.items() if isinstance(value, float))


@pytest.mark.parametrize("name", ["svc", "linear-logistic", "neighbors"])
def test_class_weights_name_classes_as_the_table_does(run, name):
    frame = three_classes(60)
    frame.assign(kind=frame["kind"].map({"a": "10", "b": "9", "c": "007"})).to_csv("codes.csv", index=False)
    options = "--task", "classification", "--machine", name, "--class-weight", "10=3,007=0.5"
    status, _, err = run("fit", "codes.csv", "--target", "kind", *options, "--out", "m")
    assert status == 0, err
    model = load_model("m")
    weights = dict(zip(model.prediction_kind.names, model.training.class_weight.tolist(), strict=True))
    assert weights == {"007": 0.5, "9": 1.0, "10": 3.0}
    assert run("verify", "m", "codes.csv")[0] == 0


def test_the_share_of_rows_outside_is_told(run):
    assert run("fit", *ROWS, "--machine", "one-class", "--contamination", "0.2", "--drop", "w", "--out", "m")[0] == 0
    _, out, err = run("predict", "m", "x.csv")
    assert sum(line.split(",")[1] == "-1" for line in out.split()) == 12
    assert err == "note: 12 of 60 rows are outside\n"
    _, out, _ = run("fit", *ROWS, "--machine", "one-class", "--nu", "0.2", "--weights", "w", "--out", "m")
    model, frame = load_model("m"), pd.read_csv("x.csv", engine="pyarrow")
    outside = model.predict(frame)[frame["w"] > 0] < 0
    share = frame["w"][frame["w"] > 0][outside].sum() / frame["w"].sum()
    assert f"{outside.sum()} of 45 training rows ({100 * share:.1f}% by weight) lie outside." in out


def test_the_labels_of_an_svmlight_file_are_not_learnt_from_without_a_target(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((60, 8)) * (rng.random((60, 8)) < 0.5)
    dump_svmlight_file(X, rng.integers(0, 2, 60), str(tmp_path / "t.svm"))
    status, _, err = run("fit", "t.svm", "--machine", "svdd", "--out", "m")
    assert (status, "the column 'label' of the file is not used" in err) == (0, True)
    assert len(run("predict", "m", "t.svm")[1].split()) == 61
    assert run("verify", "m", "t.svm")[0] == 0


RARE = ("rare.csv", "--target", "kind")
ERRORS = {
    "infeasible nu": ((*RARE, "--machine", "nu-svc", "--weights", "w"), "at most 0.3333333333333333, twice"),
    "no share": ((*CLASSES, "--machine", "nu-svc", "--nu", "0"), "'--nu': 0.0 is not in the range 0<x<=1"),
    "too small a ball": ((*ROWS, "--machine", "svdd", "--C", "0.001"), "C must be at least 0.0167"),
    "a target of text": ((*CLASSES, "--machine", "svr"), "row 1 holds 'a'; mend or empty these cells; for classes"),
    "a target of numbers": (
        (*NUMBERS, "--machine", "svc"),
        "is for classes, but the target 'pay' holds many different",
    ),
    "another task": ((*NUMBERS, "--machine", "ridge", "--task", "classification"), "but --task is classification"),
    "no target": (("pay.csv", "--machine", "ridge"), "--target COLUMN is missing"),
    "a target too many": ((*CLASSES, "--machine", "one-class"), "so --target means nothing; --drop leaves"),
    "a task too many": ((*ROWS, "--machine", "svdd", "--task", "regression"), "so --task means nothing"),
    "an option of others": (
        (*NUMBERS, "--machine", "ridge", "--nu", "0.1"),
        "--nu is for --machine nu-svc, nu-svr and one-class, and this is --machine ridge",
    ),
    "an option of others, no machine": ((*NUMBERS, "--nu", "0.1"), "and one-class, and this is --machine svr"),
    "two shares": ((*ROWS, "--machine", "one-class", "--nu", "0.1", "--contamination", "0.1"), "give one of them"),
    "no weights": ((*CLASSES, "--machine", "perceptron", "--weights", "w"), "and this is --machine perceptron"),
    "one for all classes": ((*CLASSES, "--machine", "nu-svc", "--multi-class", "joint"), "joint is for --machine svc,"),
    "no such loss": (
        (*CLASSES, "--machine", "linear-svc", "--loss", "epsilon_insensitive"),
        "--loss epsilon_insensitive is for --machine linear-svr, and this is --machine linear-svc",
    ),
    "a penalty of others": (
        (*CLASSES, "--machine", "linear-svc", "--penalty", "2"),
        "--penalty 2.0 is for --machine gradient-svc, and this is --machine linear-svc",
    ),
    "a norm of others": (
        (*CLASSES, "--machine", "gradient-svc", "--penalty", "l1"),
        "--penalty l1 is for --machine linear-logistic, linear-svc and linear-svr, and this is --machine gradient-svc",
    ),
    "no penalty": ((*CLASSES, "--machine", "linear-svc", "--penalty", "l3"), "'l3' is neither l1 nor l2 nor a number"),
    "a scale of no bias": (
        (*CLASSES, "--machine", "linear-svc", "--bias", "free", "--intercept-scaling", "2"),
        "--intercept-scaling and --bias free do not go together: leave one of them out",
    ),
    "a loss of the joint machine": (
        (*CLASSES, "--machine", "linear-svc", "--multi-class", "joint", "--loss", "hinge"),
        "--multi-class joint and --loss do not go together",
    ),
    "two names of C": (
        (*CLASSES, "--machine", "linear-logistic", "--C", "2", "--prior-variance", "3"),
        "--C and --prior-variance do not go together",
    ),
    "weights of nothing": ((*CLASSES, "--weights", "v2"), "there is no column 'v2'; did you mean 'v'?"),
    "weights of text": ((*NUMBERS, "--weights", "site"), "'site' of weights must hold a finite number >= 0"),
    "weights below 0": ((*CLASSES, "--weights", "u"), "in every row, but row 3 holds -0.535669, and 21 more do not"),
    "weights of the target": ((*NUMBERS, "--weights", "pay"), "--weights pay cannot also be a column to predict"),
    "weights to learn from": ((*NUMBERS, "--weights", "w", "--keep", "w"), "cannot also be a column to learn from"),
    "no time": ((*NUMBERS, "--machine", "ridge", "--max-seconds", "1e-9"), "was stopped by --max-seconds 1e-09"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_a_machine_cannot_take_is_one_clear_line(run, case, tmp_path):
    frame = three_classes(60).iloc[[*range(0, 60, 3), 1, 2, 4, 5]]
    frame.assign(w=np.where(frame["kind"] == "a", 0.5, 1.0)).to_csv("rare.csv", index=False)
    arguments, message = ERRORS[case]
    status, out, err = run("fit", *arguments, "--out", "m")
    *notes, line = err.splitlines()
    assert (status in (1, 2), out) == (True, "")
    assert line.startswith("error: ")
    assert message in line
    assert all(note.startswith("note: ") for note in notes)
    assert not (tmp_path / "m").exists()


def test_a_row_of_weight_0_is_as_if_it_were_not_there(tmp_path):
    frame = three_classes(60).assign(w=np.arange(60) % 4 / 2)
    frame.loc[frame["w"] == 0, "u"] = 1e6
    frame.loc[frame["w"] == 0, "kind"] = "d"
    one = fit_model(frame, "kind", SVC(), sample_weight="w")
    other = fit_model(frame[frame["w"] > 0], "kind", SVC(), sample_weight="w")
    assert one.prediction_kind.names == ["a", "b", "c"]
    assert one.encoder.to_dict() == other.encoder.to_dict()
    np.testing.assert_array_equal(one.decision_values(frame), other.decision_values(frame))
    again = fit_model(frame.drop(columns="w"), "kind", SVC(), sample_weight=frame["w"].to_numpy())
    np.testing.assert_array_equal(one.decision_values(frame), again.decision_values(frame))
    save_model(tmp_path / "m", one)
    read = load_model(tmp_path / "m")
    assert (read.training.weight_column, again.training.weight_column) == ("w", None)
    assert verify(read, frame).ok
    assert "no column 'w'" in verify(read, frame.drop(columns="w")).findings[0]


@pytest.mark.parametrize(
    ("machine", "target", "weights", "message"),
    [
        (SVC(), "kind", "kind", "the target 'kind' cannot be the column of weights"),
        (SVC(), "kind", np.ones(3), r"must have shape \(60,\)"),
        (SVC(), "kind", np.full(60, np.nan), "in every row, but row 1 holds nan"),
        (OneClassSVM(), None, np.zeros(60), "every row that could be used has a weight of 0"),
        (KernelNeighborsClassifier(), "kind", np.ones(60), "takes no weights of rows"),
    ],
)  # fmt: skip
def test_weights_that_cannot_be_are_refused(machine, target, weights, message):
    frame = three_classes(60) if target else three_classes(60).drop(columns="kind")
    with pytest.raises((TableError, ValueError), match=message):
        fit_model(frame, target, machine, sample_weight=weights)


@pytest.mark.parametrize("name", ["svc", "svr", "one-class"])
@pytest.mark.parametrize("way", ["cells:20", "cells", "landmarks:10", "10"])
def test_an_approximate_machine_is_fitted_predicted_and_verified(run, name, way):
    table, *target = OF_TASK[MACHINES[name].task]
    probability = ["--probability"] if name == "svc" else []
    status, out, err = run(
        "fit", table, *target, "--machine", name, "--approximation", way, *probability, "--weights", "w", "--out", "m"
    )
    assert (status, "The machine is approximate" in out) == (0, True), err
    status, out, err = run("predict", "m", table, "--explain")
    assert (status, "probability_" in out) == (0, bool(probability)), err
    status, out, err = run("verify", "m", table)
    assert (status, "verified" in out) == (0, True), err


@pytest.mark.parametrize("way", ["cells:0", "landmarks:x", "trees", "0"])
def test_an_unknown_approximation_says_what_there_is(run, way):
    status, _, err = run("fit", *CLASSES, "--approximation", way, "--out", "m")
    assert status == 2
    assert "such as cells:5000" in err


def test_a_fit_continues_from_its_checkpoint(run, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "_SHARE", 1e9)
    command = ("fit", *CLASSES, "--drop", "w", "--out", "m", "--checkpoint", "states")
    with stopping_at(2, monkeypatch):
        run(*command, "--approximation", "landmarks:20")
    status, _, err = run(*command, "--approximation", "landmarks:20")
    assert status == 0, err
    assert list(Path("states").glob("landmarks-20-*.bin"))
    status, _, err = run(*command, "--C", "3")
    assert status == 1
    assert "the checkpoint of other work: C was 1.0 and is 3.0" in err
    assert "name another folder with --checkpoint" in err
    for more, why in {
        ("--machine", "parzen"): "--machine parzen has no checkpoint: leave --checkpoint out",
        ("--linear",): "--checkpoint means nothing with --linear",
        ("--memory", "9MB"): "writes its checkpoint into the folder of --cache by itself",
    }.items():
        status, _, err = run(*command, *more)
        assert status == 2
        assert why in err
