"""LIBLINEAR's model files: written as LIBLINEAR writes them, read as it reads them, and refused if invalid."""

import importlib.util
import re

import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit
from sklearn import linear_model, svm
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import mercer
from mercer import SVC, LinearSVC, LinearSVR, LogisticRegression, load_liblinear_model, save_liblinear_model
from test_libsvm_files import mutated

IRIS, SPECIES = load_iris(return_X_y=True)
TWO = np.where(SPECIES == 1, 7, -3)
NUMBERS = IRIS[:, 3]
ROWS = IRIS[::3] + 0.05

MACHINES = {
    "hinge": (LinearSVC(loss="hinge"), TWO),
    "squared": (LinearSVC(), SPECIES),
    "no_bias": (LinearSVC(fit_intercept=False), SPECIES),
    "l1": (LinearSVC(penalty="l1", C=0.1), SPECIES),
    "joint": (LinearSVC(multi_class="crammer_singer"), SPECIES),
    "joint_two": (LinearSVC(multi_class="crammer_singer"), TWO),
    "logistic": (LogisticRegression(), TWO),
    "logistic_rest": (LogisticRegression(multi_class="ovr"), SPECIES),
    "logistic_l1": (LogisticRegression(penalty="l1", multi_class="ovr"), SPECIES),
    "softmax": (LogisticRegression(), SPECIES),
    "pegasos": (mercer.PegasosSVC(random_state=0, max_iter=3, tol_gap=1e9), SPECIES),
    "least_squares": (mercer.LeastSquaresClassifier(), SPECIES),
    "svc": (SVC(kernel="linear"), TWO),
    "svc_rest": (SVC(kernel="linear", multi_class="ovr"), SPECIES),
    "svr": (LinearSVR(epsilon=0.1), NUMBERS),
    "svr_squared": (LinearSVR(loss="squared_epsilon_insensitive"), NUMBERS),
    "kernel_svr": (mercer.SVR(kernel="linear"), NUMBERS),
    "one_class": (mercer.OneClassSVM(kernel="linear", nu=0.1), None),
}


def fitted(name):
    machine, y = MACHINES[name]
    return machine.fit(IRIS, y)


def by_the_book(path, rows):
    """What LIBLINEAR's rules say: values of the columns, predictions, and probabilities of logistic machines."""
    header, _, body = path.read_text().partition("\nw\n")
    words = {line.split()[0]: line.split()[1:] for line in header.splitlines()}
    bias, rho = float(words["bias"][0]), float(words.get("rho", ["0"])[0])
    weights = np.array([list(map(float, line.split())) for line in body.splitlines()])
    if bias >= 0.0:
        rows = np.column_stack([rows, np.full(len(rows), bias)])
    values = rows @ weights
    solver = words["solver_type"][0]
    if solver == "ONECLASS_SVM":
        return values, np.where(values[:, 0] - rho > 0.0, 1, -1), None
    if "SVR" in solver:
        return values, values[:, 0], None
    labels = np.array(list(map(int, words["label"])))
    if values.shape[1] == 1:
        predicted, shares = labels[np.where(values[:, 0] > 0.0, 0, 1)], np.hstack([expit(values), expit(-values)])
    else:
        predicted, shares = labels[values.argmax(axis=1)], expit(values)
    shares = shares / shares.sum(axis=1, keepdims=True)
    return values, predicted, shares[:, np.argsort(labels)] if "_LR" in solver else None


@pytest.mark.parametrize("name", MACHINES)
def test_round_trips_give_the_same_predictions(tmp_path, name):
    machine, path = fitted(name), tmp_path / "f.model"
    save_liblinear_model(path, machine)
    _, predicted, shares = by_the_book(path, ROWS)
    again = load_liblinear_model(path)
    assert np.allclose(predicted, machine.predict(ROWS), rtol=1e-12, atol=1e-12)
    assert np.allclose(again.predict(ROWS), machine.predict(ROWS), rtol=1e-12, atol=1e-12)
    if hasattr(machine, "decision_function"):
        assert np.allclose(again.decision_function(ROWS), machine.decision_function(ROWS), rtol=1e-11, atol=1e-11)
    if shares is not None:
        assert np.allclose(shares, machine.predict_proba(ROWS), atol=1e-12)
        assert np.allclose(again.predict_proba(ROWS), machine.predict_proba(ROWS), atol=1e-12)
    save_liblinear_model(tmp_path / "g.model", again)
    assert np.allclose(by_the_book(tmp_path / "g.model", ROWS)[0], by_the_book(path, ROWS)[0], rtol=1e-12, atol=1e-12)
    assert again.n_features_in_ == 4


@pytest.mark.parametrize("solver", ["L2R_LR", "L2R_LR_DUAL", "L1R_LR", "L2R_L2LOSS_SVC", "L1R_L2LOSS_SVC", "MCSVM_CS"])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 0], [0, 1]])
def test_files_of_liblinear_are_read_in_every_order_of_labels(tmp_path, solver, order):
    labels = np.array([-5, 0, 12])[order]
    k = len(order)
    weights = np.random.default_rng(k).normal(size=(5, k if k > 2 or solver == "MCSVM_CS" else 1))
    path = written(tmp_path, solver, labels, weights, bias="0.5")
    values, predicted, shares = by_the_book(path, ROWS)
    machine = load_liblinear_model(path)
    assert machine.predict(ROWS).tolist() == predicted.tolist()
    assert machine.classes_.tolist() == sorted(labels)
    assert (shares is not None) == hasattr(machine, "predict_proba")
    if shares is not None:
        assert np.allclose(machine.predict_proba(ROWS), shares, atol=1e-12)
    if k > 2:
        assert np.allclose(machine.decision_function(ROWS), values[:, np.argsort(labels)], atol=1e-12)


def written(folder, solver, labels, weights, bias="-1", extra=""):
    """A file as LIBLINEAR writes it."""
    label = "" if labels is None else f"label {' '.join(map(str, labels))}\n"
    n = len(weights) - (float(bias) >= 0.0)
    k = 2 if labels is None else len(labels)
    body = "".join("".join(f"{one:.17g} " for one in row) + "\n" for row in weights)
    path = folder / "theirs.model"
    path.write_text(f"solver_type {solver}\nnr_class {k}\n{label}nr_feature {n}\nbias {bias}\n{extra}w\n{body}")
    return path


def test_machines_of_scikit_learn_predict_the_same_from_a_file(tmp_path):
    theirs = svm.LinearSVC(C=0.5, random_state=0, max_iter=100_000).fit(IRIS, SPECIES)
    path = written(tmp_path, "L2R_L2LOSS_SVC_DUAL", [0, 1, 2], np.vstack([theirs.coef_.T, theirs.intercept_]), "1")
    assert np.allclose(load_liblinear_model(path).decision_function(ROWS), theirs.decision_function(ROWS), atol=1e-12)
    lasso = linear_model.LogisticRegression(solver="liblinear", C=0.5, random_state=0).fit(IRIS, TWO)
    path = written(tmp_path, "L2R_LR", [7, -3], np.vstack([lasso.coef_.T, lasso.intercept_]), "1")
    assert np.allclose(load_liblinear_model(path).predict_proba(ROWS), lasso.predict_proba(ROWS), atol=1e-12)


def test_restored_machines_say_what_they_lack(tmp_path):
    save_liblinear_model(tmp_path / "f.model", fitted("logistic_rest"))
    machine = load_liblinear_model(tmp_path / "f.model")
    assert not hasattr(machine, "certificate_")
    with pytest.raises(ValueError, match="fit it again"):
        mercer.as_model(machine, IRIS, SPECIES)
    assert machine.fit(IRIS, SPECIES).certificate_.status == "optimal"


def test_what_has_no_liblinear_file_is_refused(tmp_path):
    path = tmp_path / "f.model"
    for machine, y, message in (
        (SVC(), TWO, "LIBLINEAR has no kernels"),
        (SVC(kernel="linear"), SPECIES, "by pairs"),
        (LinearSVC(), np.array(["a", "b", "c"])[SPECIES], "LIBLINEAR's labels are integers"),
        (mercer.KernelRidge(kernel="linear"), NUMBERS, "no kernels|has no attribute"),
    ):
        with pytest.raises((TypeError, ValueError, AttributeError), match=message):
            save_liblinear_model(path, machine.fit(IRIS, y))
    with pytest.raises(NotFittedError):
        save_liblinear_model(path, LinearSVC())
    assert not path.exists()


GOOD = "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 1\nw\n0.5 \n-1e-3 \n2 \n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("solver_type L2R_LR", "solver_type L2R", "line 1: solver_type must be one of"),
        ("solver_type L2R_LR", "svm_type c_svc", "line 1: this is a model file of LIBSVM"),
        ("solver_type L2R_LR\n", "", "there is no line solver_type"),
        ("solver_type L2R_LR", "solver_type ONECLASS_SVM", "there is no line rho"),
        ("L2R_LR", "L2R_L2LOSS_SVR", "label has no place"),
        ("nr_class 2", "nr_class 3", "label must be followed by 3"),
        ("nr_class 2", "nr_class 99999999999", "nr_class must be followed by integers"),
        ("label 1 -1", "label 1 1", "a label stands twice"),
        ("nr_feature 2", "nr_feature 2000000", "the file ends after 3 of 2000001 lines of weights"),
        ("nr_feature 2", "nr_feature 0", "nr_feature must be followed by integers from 1"),
        ("nr_feature 2", "nr_feature 1", "there is more after 2 lines"),
        ("bias 1", "bias nan", "bias must be followed by finite numbers"),
        ("bias 1", "bias 1e308\nbias 1", "stands here again"),
        ("bias 1\nw\n0.5 \n-1e-3 \n2 ", "bias 1e308\nw\n0.5 \n-1e-3 \n1e10 ", "the bias times its weight overflows"),
        ("0.5 ", "0.5 1", r"line 7: a line of weights must hold 1 number\(s\), got 2"),
        ("0.5 ", "x", "line 7: a line of weights must hold 1"),
        ("0.5 ", "inf", "line 7: a number is NaN or infinite"),
        ("0.5 ", "1_0", "there is an underscore"),
        ("w\n", "v\n", "begins no line of a LIBLINEAR model file"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path, old, new, message):
    path = tmp_path / "bad.model"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(mercer.LibsvmFileError, match=message) as caught:
        load_liblinear_model(path)
    assert "\n" not in str(caught.value)
    assert re.match(re.escape(str(path)), str(caught.value))


TEXTS = [
    GOOD.encode(),
    b"solver_type MCSVM_CS\nnr_class 3\nlabel 2 0 1\nnr_feature 1\nbias -1\nw\n1 2 3 \n",
    b"solver_type L2R_L1LOSS_SVR_DUAL\nnr_class 2\nnr_feature 2\nbias 0.5\nw\n1 \n2 \n3 \n",
    b"solver_type ONECLASS_SVM\nnr_class 2\nnr_feature 2\nbias -1\nrho 0.25\nw\n1 \n2 \n",
]


@given(mutated(TEXTS))
def test_a_mutated_file_is_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "mutated_liblinear.model"
    path.write_bytes(data)
    try:
        machine = load_liblinear_model(path)
    except mercer.LibsvmFileError:
        return
    assert np.isfinite(machine.coef_).all()
    assert np.isfinite(machine.intercept_).all()
    assert machine.n_features_in_ <= len(data)


@pytest.mark.skipif(importlib.util.find_spec("liblinear") is None, reason="LIBLINEAR is in the benchmark environment")
@pytest.mark.parametrize("name", MACHINES)
def test_liblinear_itself_gives_our_predictions_from_our_file(tmp_path, name):
    from liblinear import liblinearutil

    machine = fitted(name)
    save_liblinear_model(tmp_path / "f.model", machine)
    theirs = liblinearutil.load_model(str(tmp_path / "f.model"))
    rows = [dict(enumerate(row, 1)) for row in ROWS.tolist()]
    options = "-b 1 -q" if "logistic" in name else "-q"
    predicted, _, values = liblinearutil.predict([], rows, theirs, options)
    assert np.allclose(predicted, machine.predict(ROWS), rtol=1e-12, atol=1e-12)
    if "logistic" in name:
        order = np.argsort(theirs.get_labels())
        assert np.allclose(np.array(values)[:, order], machine.predict_proba(ROWS), atol=1e-12)
    liblinearutil.save_model(str(tmp_path / "g.model"), theirs)
    assert np.allclose(load_liblinear_model(tmp_path / "g.model").predict(ROWS), machine.predict(ROWS), atol=1e-12)


@pytest.mark.skipif(importlib.util.find_spec("liblinear") is None, reason="LIBLINEAR is in the benchmark environment")
@pytest.mark.parametrize("solver", [0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 21])
@pytest.mark.parametrize("bias", ["", "-B 2"])
def test_files_of_liblinear_give_its_predictions(tmp_path, solver, bias):
    from liblinear import liblinearutil

    y = NUMBERS if 11 <= solver <= 13 else SPECIES * 10 - 5
    rows = [dict(enumerate(row, 1)) for row in IRIS.tolist()]
    theirs = liblinearutil.train(y.tolist(), rows, f"-s {solver} {bias if solver != 21 else ''} -q")
    liblinearutil.save_model(str(tmp_path / "f.model"), theirs)
    predicted, _, _ = liblinearutil.predict([], rows, theirs, "-q")
    machine = load_liblinear_model(tmp_path / "f.model")
    assert np.allclose(machine.predict(IRIS), predicted, rtol=1e-12, atol=1e-12)
