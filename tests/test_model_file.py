"""Model files: written completely or not at all, refused if invalid, and verified against their table."""

import copy
import io
import json
import os
import pickle
import re
import stat
import warnings
import zipfile
from dataclasses import replace
from functools import cache, partial, reduce
from hashlib import sha256
from operator import getitem
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression as Plain
from sklearn.utils.validation import has_fit_parameter

from generated import mixed_frame, quantities, three_classes, with_missing
from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    Cells,
    GradientKernelSVC,
    IndefiniteKernelWarning,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPerceptron,
    KernelRidge,
    Landmarks,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    Linear,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    ParzenClassifier,
    QuantileSVR,
    RBFNetworkClassifier,
    Spectrum,
)
from mercer.certificates.status import Status
from mercer.data.files.atomic_write import open_atomically
from mercer.data.frames import as_table
from mercer.data.table import Table, TableError, TableWarning
from mercer.kernels import Bilinear, Precomputed
from mercer.studies.models import archive, as_model, fit_model, manifest
from mercer.studies.models.model_file import ModelFileError, load_model, save_model
from mercer.studies.models.verification import verify
from mercer.studies.tables.encoding import TableEncoder


def sparse_table():
    block = sparse.random_array((60, 90), density=0.1, format="csr", random_state=0)
    labels = np.where(block[:, :45].sum(axis=1) > block[:, 45:].sum(axis=1), "left", "right")
    return Table(("label",), (labels.astype(object),), block)


def dense_from_one():
    """The table of an svmlight file that numbers its columns from 1 and has few zeros: column 0 is empty."""
    block = np.random.default_rng(0).standard_normal((30, 4)) * [0.0, 1.0, 10.0, 100.0]
    return Table(("label",), (np.array([1.0, -1.0] * 15),), sparse.csr_array(block))


def separable():
    X, y = make_blobs(30, centers=2, random_state=0, cluster_std=0.5)
    return pd.DataFrame(X, columns=["u", "v"]).assign(y=y)


MODELS = {
    "mixed columns": (with_missing(mixed_frame(80)), "outcome", SVC(C=2.0)),
    "three classes": (three_classes(60), "kind", SVC(C=10.0, kernel="poly", degree=2, coef0=1.0)),
    "one against the rest": (three_classes(60), "kind", SVC(kernel="linear", multi_class="ovr")),
    "sparse": (sparse_table(), "label", SVC(C=5.0)),
    "dense svmlight from 1": (dense_from_one(), "label", SVC()),
    "hard margin": (separable(), "y", SVC(C=np.inf, kernel="linear")),
    "composite kernel": (three_classes(60), "kind", SVC(kernel=RBF(gamma=0.5) + 0.1 * Linear() ** 2)),
    "class weights": (mixed_frame(80), "outcome", SVC(class_weight="balanced", tol_gap=1e-6)),
}


@cache
def fitted(case):
    frame, target, machine = MODELS[case]
    table = as_table(frame)
    return table, fit_model(table, target, machine, keep=table.names, missing="impute")


@pytest.fixture
def saved(tmp_path):
    table, model = fitted("mixed columns")
    path = tmp_path / "m.mercer"
    save_model(path, model)
    return path, table, model


@pytest.mark.parametrize("case", MODELS)
def test_a_model_is_read_back_unchanged(case, tmp_path):
    table, model = fitted(case)
    path = tmp_path / "m.mercer"
    save_model(path, model)
    loaded = load_model(path)
    np.testing.assert_array_equal(loaded.decision_values(table), model.decision_values(table))
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert loaded.kernel == model.kernel
    assert loaded.prediction_kind.labels.dtype == model.prediction_kind.labels.dtype
    assert replace(loaded.certificate, evidence=None) == replace(model.certificate, evidence=None)
    assert verify(loaded, table).findings == ()
    save_model(tmp_path / "again.mercer", loaded)
    assert (tmp_path / "again.mercer").read_bytes() == path.read_bytes()


KINDS = {
    "NuSVC": (three_classes(60), "kind", NuSVC(nu=0.3)),
    "NuSVC weighted": (mixed_frame(80), "outcome", NuSVC(nu=0.3, class_weight="balanced", kernel="linear")),
    "SVC squared": (three_classes(60), "kind", SVC(loss="squared_hinge", C=3.0)),
    "SVC without bias": (mixed_frame(80), "outcome", SVC(fit_intercept=False)),
    "SVR": (quantities(), "pay", SVR(C=5.0, epsilon=0.1)),
    "SVR squared": (quantities(), "pay", SVR(C=5.0, epsilon=0.1, loss="squared_epsilon_insensitive")),
    "SVR without bias": (quantities(), "pay", SVR(C=5.0, epsilon=0.0, fit_intercept=False)),
    "SVR stopped": (quantities(), "pay", SVR(C=1e4, max_iter=5)),
    "NuSVR": (quantities(), "pay", NuSVR(C=5.0, nu=0.4)),
    "NuSVR of a tube without width": (quantities(), "pay", NuSVR(C=0.01, nu=1.0)),
    "QuantileSVR": (quantities(), "pay", QuantileSVR(quantile=0.9)),
    "OneClassSVM": (quantities(), None, OneClassSVM(nu=0.2)),
    "OneClassSVM exact": (quantities(), None, OneClassSVM(contamination=0.1)),
    "SVDD": (quantities(), None, SVDD(C=0.05)),
    "SVDD enclosing": (quantities(), None, SVDD(kernel="linear")),
    "SVC joint": (three_classes(60), "kind", SVC(multi_class="joint", C=3.0)),
    "SVC joint of two": (mixed_frame(80), "outcome", SVC(multi_class="joint", class_weight="balanced")),
    "SVC sigmoids": (mixed_frame(80), "outcome", SVC(probability=True, class_weight="balanced")),
    "SVC weighted": (
        mixed_frame(80),
        "outcome",
        SVC(probability=True, class_weight="balanced", calibration="weighted"),
    ),
    "SVC isotonic": (three_classes(60), "kind", SVC(probability=True, calibration="isotonic")),
    "SVC free": (three_classes(60), "kind", SVC(probability=True, calibration="free", multi_class="ovr")),
    "SVC folds": (three_classes(60), "kind", SVC(probability=True, calibration_values="folds", loss="squared_hinge")),
    "SVC by landmarks": (three_classes(60), "kind", SVC(approximation=Landmarks(10), class_weight="balanced")),
    "SVC by landmarks of two": (mixed_frame(80), "outcome", SVC(approximation=Landmarks(90), loss="squared_hinge")),
    "SVC by landmarks, ovr": (three_classes(60), "kind", SVC(approximation=Landmarks(10), multi_class="ovr")),
    "SVC by landmarks, probabilities": (mixed_frame(80), "outcome", SVC(approximation=Landmarks(9), probability=True)),
    "SVC by cells": (three_classes(60), "kind", SVC(approximation=Cells(20), probability=True, C=5.0)),
    "SVC by cells, ovr": (
        three_classes(60),
        "kind",
        SVC(approximation=Cells(20), multi_class="ovr"),
    ),
    "SVC by cells of two": (
        mixed_frame(80),
        "outcome",
        SVC(approximation=Cells(30), class_weight="balanced", fit_intercept=False),
    ),
    "SVC by one cell": (mixed_frame(40), "outcome", SVC(approximation="cells")),
    "SVR by cells": (quantities(), "pay", SVR(approximation=Cells(20), C=3.0)),
    "OneClassSVM by cells": (quantities(), None, OneClassSVM(approximation=Cells(20), nu=0.2)),
    "OneClassSVM by cells, share": (quantities(), None, OneClassSVM(approximation=Cells(20), contamination=0.1)),
    "SVR by landmarks": (quantities(), "pay", SVR(approximation=Landmarks(10), fit_intercept=False)),
    "OneClassSVM by landmarks": (quantities(), None, OneClassSVM(approximation=Landmarks(10), nu=0.2)),
    "OneClassSVM by landmarks, exact": (quantities(), None, OneClassSVM(contamination=0.1, approximation="landmarks")),
    "NuSVC folds": (three_classes(60), "kind", NuSVC(nu=0.3, probability=True, calibration_values="folds")),
    "NuSVC sigmoids": (three_classes(60), "kind", NuSVC(nu=0.3, probability=True)),
    "KernelRidge": (quantities(), "pay", KernelRidge(alpha=0.1, kernel="rbf")),
    "KernelRidge singular": (quantities(), "pay", KernelRidge(alpha=0.0)),
    "LeastSquaresSVC": (three_classes(60), "kind", LeastSquaresSVC(C=3.0, class_weight="balanced")),
    "LeastSquaresSVC of two": (mixed_frame(80), "outcome", LeastSquaresSVC(C=3.0)),
    "LeastSquaresClassifier": (three_classes(60), "kind", LeastSquaresClassifier()),
    "KernelLogisticRegression": (three_classes(60), "kind", KernelLogisticRegression(fit_intercept=False)),
    "KernelLogisticRegression of two": (mixed_frame(80), "outcome", KernelLogisticRegression(max_iter=2)),
    "LogisticRegression": (three_classes(60), "kind", LogisticRegression(class_weight="balanced")),
    "LogisticRegression of two": (mixed_frame(80), "outcome", LogisticRegression()),
    "LogisticRegression without prior": (three_classes(60), "kind", LogisticRegression(prior_variance=np.inf)),
    "GradientKernelSVC": (three_classes(60), "kind", GradientKernelSVC(class_weight="balanced")),
    "GradientKernelSVC stopped": (mixed_frame(80), "outcome", GradientKernelSVC(max_iter=5)),
    "KernelPerceptron": (three_classes(60), "kind", KernelPerceptron(kernel="rbf", gamma=10.0)),
    "KernelPerceptron circling": (mixed_frame(80), "outcome", KernelPerceptron(20)),
    "KernelPerceptron weighted": (mixed_frame(80), "outcome", KernelPerceptron(20, class_weight="balanced")),
    "ParzenClassifier": (three_classes(60), "kind", ParzenClassifier(class_weight="balanced")),
    "ParzenClassifier of two": (mixed_frame(80), "outcome", ParzenClassifier()),
    "KernelNeighborsClassifier": (mixed_frame(80), "outcome", KernelNeighborsClassifier(4)),
    "KernelNeighborsClassifier by distance": (
        mixed_frame(80),
        "outcome",
        KernelNeighborsClassifier(4, weights="distance"),
    ),
    "KernelNeighborsClassifier of some": (
        three_classes(60),
        "kind",
        KernelNeighborsClassifier(prototypes="support_vectors", class_weight="balanced", kernel="poly"),
    ),
    "KernelNeighborsRegressor": (quantities(), "pay", KernelNeighborsRegressor(3)),
    "KernelNeighborsRegressor by distance": (quantities(), "pay", KernelNeighborsRegressor(4, weights="distance")),
    "RBFNetworkClassifier": (mixed_frame(80), "outcome", RBFNetworkClassifier(10)),
    "RBFNetworkClassifier by squares": (
        three_classes(60),
        "kind",
        RBFNetworkClassifier(10, machine=LeastSquaresClassifier(), class_weight={"a": 2.0}),
    ),
}


CLAIM_NOTHING = (KernelPerceptron, ParzenClassifier, KernelNeighborsClassifier, KernelNeighborsRegressor)


@cache
def of_kind(case):
    frame, target, machine = KINDS[case]
    table = as_table(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return table, fit_model(table, target, machine, keep=table.names)


@pytest.mark.parametrize("case", KINDS)
def test_models_of_every_kind_are_read_back_and_verify(case, tmp_path):
    table, model = of_kind(case)
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    np.testing.assert_array_equal(loaded.scores(table), model.scores(table))
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    np.testing.assert_array_equal(loaded.predict(table), loaded.answer(table)[0])
    assert loaded.machine_spec == model.machine_spec
    assert loaded.calibration == model.calibration
    assert loaded.has_probabilities is hasattr(KINDS[case][2], "predict_proba")
    if loaded.has_probabilities:
        np.testing.assert_array_equal(loaded.probabilities(table), model.probabilities(table))
        np.testing.assert_allclose(loaded.probabilities(table).sum(axis=1), 1.0, rtol=1e-12)
    verification = verify(loaded, table)
    assert verification.findings == ()
    assert (verification.recomputed is None) is isinstance(KINDS[case][2], CLAIM_NOTHING)
    save_model(tmp_path / "again.mercer", loaded)
    assert (tmp_path / "again.mercer").read_bytes() == (tmp_path / "m.mercer").read_bytes()


def decisions(machine, X):
    """The scores of a model, computed by its machine."""
    if is_regressor(machine):
        return machine.predict(X)
    if hasattr(machine, "decision_function"):
        return machine.decision_function(X)
    shares = machine.predict_proba(X)
    return shares if shares.shape[1] > 2 else shares[:, 1] - shares[:, 0]


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("case", KINDS)
def test_a_model_of_arrays_predicts_like_its_machine(case, pickled):
    frame, target, machine = KINDS[case]
    X = frame.select_dtypes("number").drop(columns=[] if target is None else target, errors="ignore")
    y = None if target is None else frame[target]
    if is_regressor(machine):
        y = (y - 40_000.0) / 9_000.0
    weights = None
    if has_fit_parameter(machine, "sample_weight"):
        weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
        weights[:4] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = clone(machine).fit(X, y, **({} if weights is None else {"sample_weight": weights}))
    if pickled:
        machine = pickle.loads(pickle.dumps(machine))
    model = as_model(machine, X, y, weights)
    expected = decisions(machine, X)
    if model.has_probabilities:
        np.testing.assert_allclose(model.probabilities(X), machine.predict_proba(X), rtol=1e-9, atol=1e-12)
    if is_classifier(machine):  # rows whose class rounding does not decide
        clear = np.abs(expected if expected.ndim == 1 else expected[:, 0]) > 1e-9
        np.testing.assert_array_equal(model.predict(X)[clear], machine.predict(X)[clear])
    np.testing.assert_allclose(model.scores(X), expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))
    assert verify(model, X if y is None else X.assign(y=y)).findings == ()
    # No coefficient is at its bound, so the file does not determine the weights.
    if pickled and case in ("SVR stopped", "SVDD enclosing"):
        return
    if weights is None or case == "KernelRidge singular":  # nor does an interpolating machine
        return
    with pytest.raises(ValueError, match=r"must be what the machine was fitted (on|with)"):
        as_model(machine, X, y, np.where(weights > 0.0, 1.01 * weights, 0.0) + 0.01 * (np.arange(len(X)) == 9))
    if is_regressor(machine):
        with pytest.raises(ValueError, match="must be what the machine was fitted on, but rows or targets differ"):
            as_model(machine, X, y + np.linspace(0.0, 0.1, len(y)), weights)


FALSE_CLAIMS = {
    "margin": ("NuSVC", lambda part: replace(part, half_width=1.1 * part.half_width), "half of a machine's width"),
    "tube": ("NuSVR", lambda part: replace(part, half_width=part.half_width + 0.01), "half of a machine's width"),
    "bias": ("SVR", lambda part: replace(part, bias=part.bias + 0.1), "a bias is"),
    "coefficient": ("QuantileSVR", lambda part: replace(part, beta=0.9 * part.beta), "the dual objective is"),
    "side": ("NuSVR", lambda part: replace(part, beta=-part.beta), "the dual objective is"),
    "joint coefficient": ("SVC joint", lambda part: replace(part, beta=0.5 * part.beta), "the dual"),
    "joint bias": ("SVC joint", lambda part: replace(part, bias=0.1), "a bias is 0.1 in the file and 0 recomputed"),
    "ridge": ("KernelRidge", lambda part: replace(part, beta=1.001 * part.beta), "the primal objective is"),
    "optimum of a singular system": (
        "KernelRidge singular",
        lambda part: restate(part, status="optimal"),
        "the file says",
    ),
    "smaller gap": ("LeastSquaresSVC", lambda part: restate(part, gap=-1.0), "the duality gap is -1 in the file"),
    "other w": ("LeastSquaresClassifier", lambda part: replace(part, bias=part.bias + 0.1), "the primal objective is"),
    "violation": (
        "KernelLogisticRegression of two",
        lambda part: restate(part, gradient_violation=0.0),
        "the violation of stationarity is 0 in",
    ),
    "finished": (
        "KernelLogisticRegression of two",
        lambda part: restate(part, status="optimal"),
        "the file says `optimal`",
    ),
    "gap without a prior": (
        "LogisticRegression without prior",
        lambda part: restate(part, gap=1e-3),
        "the duality gap is 0.001",
    ),
    "rounding of a loss": (
        "LogisticRegression",
        lambda part: restate(part, decision_error=1.0),
        "the rounding error of a decision",
    ),
    "weight of a centre": (
        "RBFNetworkClassifier",
        lambda part: replace(part, beta=part.beta[::-1].copy()),
        "the primal",
    ),
    "no dual point": (
        "GradientKernelSVC",
        lambda part: replace(part, multipliers=2.0 * part.multipliers),
        "there is no such machine of these rows: its multipliers are no dual point",
    ),
    "unbalanced dual point": (
        "GradientKernelSVC",
        lambda part: replace(part, multipliers=part.multipliers * (part.beta > 0.0)),
        "there is no such machine of these rows: its multipliers are no dual point",
    ),
    "other side": (
        "GradientKernelSVC",
        lambda part: replace(part, beta=-part.beta),
        "there is no such machine of these rows: a coefficient has the sign of the other class",
    ),
    "counts": ("KernelPerceptron", lambda part: replace(part, beta=1.5 * part.beta), "the coefficients are no counts"),
    "weighted counts": (
        "KernelPerceptron weighted",
        lambda part: replace(part, beta=np.rint(part.beta)),
        "the coefficients are no counts of mistakes",
    ),
    "mistakes": (
        "KernelPerceptron",
        lambda part: restate(part, n_mistakes=1),
        "the number of mistakes is 1 in the file",
    ),
    "criterion": (
        "KernelPerceptron circling",
        lambda part: restate(part, criterion=1.0),
        "the perceptron criterion is 1 in",
    ),
    "separated": (
        "KernelPerceptron circling",
        lambda part: restate(part, separated=True),
        "the file says that the classes",
    ),
    "density": ("ParzenClassifier", lambda part: replace(part, beta=2.0 * part.beta), "the coefficients are not the"),
    "vote": ("KernelNeighborsClassifier", lambda part: replace(part, beta=-part.beta), "the votes are not the weights"),
    "voters": (
        "KernelNeighborsClassifier",
        lambda part: replace(part, support=part.support[1:], beta=part.beta[1:]),
        "the file says that every row votes, and some do not",
    ),
    "averaged": (
        "KernelNeighborsRegressor",
        lambda part: replace(part, beta=part.beta + 1.0),
        "the coefficients are not the targets",
    ),
}


def restate(part, **changes):
    changes = {name: Status(value) if name == "status" else value for name, value in changes.items()}
    return replace(part, certificate=replace(part.certificate, **changes))


FALSE_MAPS = {
    "slope": ("SVC sigmoids", lambda one: replace(one, slope=2.0 * one.slope)),
    "intercept": ("SVC free", lambda one: replace(one, intercept=one.intercept + 0.1)),
    "knot": ("SVC isotonic", lambda one: replace(one, probabilities=tuple(0.5 * p for p in one.probabilities))),
    "margin": ("NuSVC sigmoids", lambda one: replace(one, slope=0.5 * one.slope)),
    "beyond all values": ("SVC isotonic", lambda one: with_knot(one, one.values[-1] + 1.0, 1.0 - 1e-9, at=None)),
    "between all values": ("SVC isotonic", lambda one: raised_in_the_widest_gap(one)),
}


def with_knot(one, value, probability, at):
    values, probabilities = list(one.values), list(one.probabilities)
    at = len(values) if at is None else at
    values.insert(at, value)
    probabilities.insert(at, probability)
    return replace(one, values=tuple(values), probabilities=tuple(probabilities))


def raised_in_the_widest_gap(one):
    rises, widths = np.diff(one.probabilities), np.diff(one.values)
    widest = np.argmax(np.where(rises > 0.0, widths, 0.0))
    value = one.values[widest] + 0.01 * widths[widest]
    return with_knot(one, value, one.probabilities[widest + 1], at=widest + 1)


def test_probabilities_by_groups_verify_by_the_folds_in_the_file(tmp_path):
    X, y = make_blobs(60, 3, centers=3, cluster_std=4.0, random_state=0)
    machine = SVC(probability=True).fit(X, y, groups=np.arange(60) // 7)
    save_model(tmp_path / "m.mercer", as_model(machine, X, y))
    loaded = load_model(tmp_path / "m.mercer")
    np.testing.assert_array_equal(loaded.calibration.folds, machine.calibration_.folds)
    table = as_table(pd.DataFrame(X, columns=["0", "1", "2"]).assign(y=y))
    assert verify(loaded, table).findings == ()
    other = replace(loaded.calibration, folds=(machine.calibration_.folds + np.arange(60)) % 5)
    assert "probabilities in the file" in verify(replace(loaded, calibration=other), table).findings[0]
    short = replace(loaded.calibration, folds=machine.calibration_.folds[1:])
    assert "names folds of 59 rows" in verify(replace(loaded, calibration=short), table).findings[0]


@pytest.mark.parametrize("case", FALSE_MAPS)
def test_false_probabilities_are_found(case):
    kind, change = FALSE_MAPS[case]
    table, model = of_kind(kind)
    first, *others = model.calibration.maps
    changed = replace(model.calibration, maps=(change(first), *others))
    findings = verify(replace(model, calibration=changed), table).findings
    assert any(sentence.startswith("probabilities in the file and recomputed differ by") for sentence in findings)
    moved = replace(model.calibration, n_moved=7, n_rows=tuple(n + 1 for n in model.calibration.n_rows))
    findings = " ".join(verify(replace(model, calibration=moved), table).findings)
    assert "the number of rows that a map was fitted on is" in findings
    assert "the number of rows whose probabilities were moved is 7 in the file and " in findings


@pytest.mark.parametrize("case", FALSE_CLAIMS)
def test_a_false_claim_of_another_kind_of_machine_is_found(case):
    kind, change, finding = FALSE_CLAIMS[case]
    table, model = of_kind(kind)
    findings = verify(replace(model, parts=(change(model.parts[0]), *model.parts[1:])), table).findings
    assert any(sentence.startswith(finding) for sentence in findings), findings


FALSE_BORDERS = {
    "OneClassSVM": (dict(offset=0.1), "the offset is "),
    "OneClassSVM exact": (dict(offset=10.0), "80 training rows by weight are outside, and no more than 8 should be"),
    "SVDD": (dict(offset=-2.0), "the offset is -"),
    "SVDD enclosing": (dict(squared_norm=1.0), "the squared norm of the centre is "),
}


@pytest.mark.parametrize("case", FALSE_BORDERS)
def test_a_false_border_is_found(case):
    table, model = of_kind(case)
    changes, finding = FALSE_BORDERS[case]
    changed = {name: getattr(model.prediction_kind, name) + value for name, value in changes.items()}
    findings = verify(replace(model, prediction_kind=replace(model.prediction_kind, **changed)), table).findings
    assert len(findings) == 1
    assert findings[0].startswith(finding), findings


def test_predictions_are_in_the_unit_of_the_target():
    table, model = of_kind("SVR")
    pay = table["pay"]
    np.testing.assert_allclose(
        [model.prediction_kind.centre, model.prediction_kind.scale], [pay.mean(), pay.std()], rtol=1e-12
    )
    assert np.abs(model.predict(table) - pay).mean() < 2_500.0
    inches = Table(table.names, (*table.columns[:-1], pay / 2.54))
    other = fit_model(inches, "pay", KINDS["SVR"][2])
    np.testing.assert_allclose(2.54 * other.predict(inches), model.predict(table), rtol=1e-9)


@pytest.mark.parametrize("name", ["mixed", "three"])
def test_files_of_version_1_are_read(name, tmp_path):
    path = Path(__file__).parent / "data" / f"version_1_{name}.mercer"
    frame, target, machine = {
        "mixed": (mixed_frame(40), "outcome", SVC(C=2.0, class_weight="balanced")),
        "three": (three_classes(45), "kind", SVC(C=2.0, kernel="linear", multi_class="ovr")),
    }[name]
    loaded, model = load_model(path), fit_model(frame, target, machine, keep=["row"] if "row" in frame else [])
    assert verify(loaded, frame).findings == ()
    assert (loaded.machine_spec, loaded.prediction_kind.scheme) == (model.machine_spec, model.prediction_kind.scheme)
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    save_model(tmp_path / "new.mercer", loaded)
    assert verify(load_model(tmp_path / "new.mercer"), frame).ok


@pytest.mark.parametrize("name", ["numbers", "three"])
def test_files_of_version_2_are_read(name, tmp_path):
    path = Path(__file__).parent / "data" / f"version_2_{name}.mercer"
    frame, target, machine = {
        "numbers": (quantities(40), "pay", SVR(C=2.0, epsilon=0.2)),
        "three": (three_classes(45), "kind", NuSVC(nu=0.4, kernel="linear")),
    }[name]
    loaded, model = load_model(path), fit_model(frame, target, machine)
    assert verify(loaded, frame).findings == ()
    assert (loaded.machine_spec, loaded.calibration) == (model.machine_spec, None)
    np.testing.assert_allclose(loaded.scores(frame), model.scores(frame), rtol=1e-6)
    save_model(tmp_path / "new.mercer", loaded)
    assert verify(load_model(tmp_path / "new.mercer"), frame).ok


def test_files_of_version_3_are_read(tmp_path):
    path = Path(__file__).parent / "data" / "version_3_mixed.mercer"
    frame = with_missing(mixed_frame(80).drop(columns=["row", "unit"])).assign(
        town=[f"town {k % 55}" for k in range(80)]
    )
    loaded = load_model(path)
    assert verify(loaded, frame).findings == ()
    assert [rule.indicator for rule in loaded.encoder.rules_] == [False] * 5
    assert len(loaded.encoder.rules_[-1].levels) == 50
    np.testing.assert_allclose(loaded.scores(frame)[:3], [0.50356144, 1.0, -0.21707145], atol=1e-8)
    save_model(tmp_path / "new.mercer", loaded)
    assert verify(load_model(tmp_path / "new.mercer"), frame).ok


@pytest.mark.parametrize("name", ["softmax", "rest", "network"])
def test_logistic_machines_of_version_4_are_read(name, tmp_path):
    row = np.arange(30)
    frame = pd.DataFrame({"a": row % 7, "b": row * 5 % 11, "kind": np.array(["x", "y", "z"])[row * 7 // 4 % 3]})
    loaded = load_model(Path(__file__).parent / "data" / f"version_4_{name}.mercer")
    assert verify(loaded, frame).findings == ()
    assert loaded.certificate.status == "optimal"
    first = {
        "softmax": [0.1889, -0.4083, 0.2191],
        "rest": [-0.3849, -1.1641, -0.3860],
        "network": [0.3446, -0.1815, -0.1632],
    }
    np.testing.assert_allclose(loaded.scores(frame)[0], first[name], atol=1e-4)
    save_model(tmp_path / "new.mercer", loaded)
    assert verify(load_model(tmp_path / "new.mercer"), frame).ok


@pytest.mark.parametrize("C", [2.0, np.inf])
def test_logistic_machines_without_dual_coefficients_are_verified_by_their_weights(C, tmp_path):
    """Files of version 4 have none; a machine with other weights is refuted."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    frame["kind"] = np.where(frame["a"] + rng.normal(size=60) > 0.0, "x", "y")
    path = tmp_path / "m.mercer"
    save_model(path, fit_model(frame, "kind", LogisticRegression(C=C, tol=1e-10)))

    def to_version_4(entry, factor=1.0):
        unit = C if np.isfinite(C) else 1.0
        claim = entry["parts"][0]["certificate"]
        entry["parts"][0]["bias"] *= factor
        objectives = {name: claim[name] / unit for name in ("primal", "dual", "gap")}
        others = {"violation": 1e-9, "rounding": 1e-15, "tol": 1e-6}
        names = ("status", "relative_gap", "dual_infeasibility", "n_iter", "n_kernel_values", "seconds")
        claim = {name: claim[name] for name in (*names, "peak_memory_bytes")} | objectives | others
        entry["parts"][0]["certificate"] = claim
        variance = "inf" if np.isinf(C) else C
        entry["machine"] = {"type": "LogisticRegression", "network": False, "prior_variance": variance, "bias": True}
        entry["version"] = 4

    original = path.read_bytes()
    for factor in (1.0, 1.1):
        path.write_bytes(original)
        rewritten(path, partial(to_version_4, factor=factor), lambda members: members.pop("part_duals.npy"))
        assert verify(load_model(path), frame).ok is (factor == 1.0)


SPARSE = {
    "rows": LeastSquaresSVC(kernel="linear"),
    "w": LogisticRegression(),
    "centres": RBFNetworkClassifier(5),
    "votes": KernelNeighborsClassifier(3),
    "joint": SVC(multi_class="joint"),
}


@pytest.mark.parametrize("case", SPARSE)
def test_every_form_of_machine_on_sparse_rows(case, tmp_path):
    table = sparse_table()
    machine = clone(SPARSE[case])
    model = fit_model(table, "label", machine)
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    np.testing.assert_array_equal(loaded.scores(table), model.scores(table))
    assert verify(loaded, table).findings == ()
    X, y = table.sparse, table["label"]
    machine.fit(X, y)
    sparse_model = as_model(machine, X, y)
    np.testing.assert_array_equal(sparse_model.predict(X), machine.predict(X))
    np.testing.assert_allclose(sparse_model.scores(X), decisions(machine, X), rtol=1e-9, atol=1e-12)


def test_a_regression_of_one_row_is_saved(tmp_path):
    machine = SVR().fit(np.arange(3.0)[:, None], [1.0, 2.0, 4.0], [0.0, 1.0, 0.0])
    save_model(tmp_path / "m.mercer", machine)
    assert load_model(tmp_path / "m.mercer").predict(np.ones((2, 1))).tolist() == [2.0, 2.0]


def test_machines_that_cannot_be_saved_are_refused():
    X, y = make_blobs(40, centers=2, random_state=0)
    network = RBFNetworkClassifier(5, machine=Plain()).fit(X, y)
    with pytest.raises(
        ValueError, match=r"whose machine is mercer's LogisticRegression or .* this one's is LogisticRegr"
    ):
        as_model(network, X, y)
    several = np.column_stack([y, y + X[:, 0]])
    with pytest.raises(
        ValueError, match=r"a model answers one target, got y of shape \(40, 2\): fit a machine for each"
    ):
        as_model(KernelRidge().fit(X, several), X, several)
    model = as_model(KernelRidge().fit(X, several[:, :1]), X, several[:, :1])
    assert model.scores(X).shape == (40,)
    with pytest.raises(
        ValueError, match="this SVC knows no probabilities: fit an SVC or a NuSVC with probability=True"
    ):
        fit_model(mixed_frame(80), "outcome", SVC(), keep=["row"]).probabilities(mixed_frame(80))


@pytest.mark.parametrize(
    "case", ["NuSVC", "SVC squared", "SVR", "NuSVR", "QuantileSVR", "OneClassSVM", "SVDD", "SVC joint"]
)
def test_scaled_or_permuted_rows_are_not_those_of_the_machine(case):
    frame, target, machine = KINDS[case]
    X = frame.select_dtypes("number").drop(columns=target or [], errors="ignore").to_numpy(np.float64)
    y = None if target is None else frame[target]
    machine = clone(machine).fit(X, y)
    as_model(machine, X, y)
    for others in (0.5 * X, X[::-1].copy()):
        with pytest.raises(ValueError, match="must be what the machine was fitted on, but rows or"):
            as_model(machine, others, y)


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize(
    ("C", "tol", "scale"), [(3e4, 0.1, 1.0), (1e6, 1e-3, 1.0), (1.0, 1e-3, 1e6), (1e-9, 1e-3, 1.0)]
)
@pytest.mark.filterwarnings("ignore:SVC ended as")
def test_a_machine_with_rounding_errors_is_identified_by_its_rows(C, tol, scale, pickled):
    X, y = load_breast_cancer(return_X_y=True)
    machine = SVC(kernel="linear", C=C, tol=tol).fit(scale * X, y)
    if pickled:
        machine = pickle.loads(pickle.dumps(machine))
    as_model(machine, scale * X, y)
    with pytest.raises(ValueError, match="must be what the machine was fitted on, but rows or"):
        as_model(machine, scale * X[::-1].copy(), y)


@pytest.mark.parametrize(
    "case", ["KernelRidge", "ParzenClassifier", "KernelNeighborsClassifier", "LogisticRegression", "KernelPerceptron"]
)
def test_other_rows_are_recognised_for_machines_without_a_box(case):
    frame, target, machine = KINDS[case]
    X, y = frame.select_dtypes("number").drop(columns=target, errors="ignore"), frame[target]
    machine = clone(machine).fit(X, y)
    others = X + 0.5 * (np.arange(len(X)) == 3)[:, None]
    with pytest.raises(ValueError, match="X, y and sample_weight must be what the machine was fitted on, but rows or"):
        as_model(machine, others, y)
    turned = np.array(y)[::-1].copy()
    with pytest.raises(ValueError, match="X, y and sample_weight must be what the machine was fitted on, but rows or"):
        as_model(machine, X, turned)


def test_inputs_that_make_no_model_are_refused():
    X, y = make_blobs(20, random_state=0)
    message = "models are made of the machines 'SVC', 'NuSVC', .* but machine is KMeans: keep it by pickle"
    with pytest.raises(TypeError, match=message):
        as_model(KMeans(2).fit(X), X, y)
    with pytest.raises(ValueError, match="y must be what the machine was fitted on, got None"):
        as_model(SVC().fit(X, y), X)
    with pytest.raises(TypeError, match=r"path must be the name of a file, got Model: write save_model\(path, model\)"):
        save_model(as_model(SVC().fit(X, y), X, y), "q.mercer")
    with pytest.raises(TypeError, match="but machine is KMeans"):
        fit_model(quantities(), "pay", KMeans(2))
    with pytest.raises(ValueError, match="SVR needs a target, got target=None"):
        fit_model(quantities(), None, SVR())
    with pytest.raises(ValueError, match="SVDD needs no target: target must be None, got target='pay'"):
        fit_model(quantities(), "pay", SVDD())


def test_a_machine_whose_nu_was_lowered_is_not_written():
    frame = mixed_frame(80)
    with pytest.warns(UserWarning, match="is infeasible with this class_weight"):
        machine = NuSVC(nu=0.7, class_weight={"ill": 10.0}).fit(frame[["age", "dose"]], frame["outcome"])
    with pytest.raises(ValueError, match=r"whose nu was lowered because .* fit it with nu=0\.\d+ or less"):
        as_model(machine, frame[["age", "dose"]], frame["outcome"])


TARGETS = {
    "text": ("site", r"the target 'site' must hold numbers for regression, but holds '\w+'"),
    "constant": ("same", "the target 'same' must vary for regression, but is 7 in all 80 rows to train on"),
    "tiny": ("tiny", "the target 'tiny' varies by 7.9e-199 only, which is too small to compute with"),
    "nearly": ("nearly", "the target 'nearly' must vary for regression"),
    "huge": ("huge", "the target 'huge' holds 1e\\+200, which is too large to compute with"),
    "missing": ("gone", "the target 'gone' has missing values in the training rows"),
}


@pytest.mark.parametrize("case", TARGETS)
def test_targets_that_are_not_numeric_are_refused(case):
    name, message = TARGETS[case]
    frame = quantities()
    ones = np.ones(len(frame))
    frame = frame.assign(
        same=7.0,
        tiny=1e-200 * np.arange(len(frame)),
        nearly=1e9 + 1e-7 * (np.arange(len(frame)) % 2),
        huge=1e200 * ones,
        gone=np.where(ones > 0, np.nan, 1),
    )
    with pytest.raises(TableError, match=message):
        fit_model(frame[["age", "dose", name]], name, SVR())


def test_weights_of_a_machine_fitted_on_arrays(tmp_path):
    frame = three_classes(60)
    X, y = frame[["u", "v"]], frame["kind"]
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 60)
    weights[:5] = 0.0
    machine = SVC(C=3.0).fit(X, y, sample_weight=weights)
    model = as_model(machine, X, y, weights)
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    np.testing.assert_array_equal(loaded.predict(X), machine.predict(X))
    np.testing.assert_allclose(loaded.scores(X), machine.decision_function(X), rtol=1e-12)
    assert verify(loaded, X.assign(y=y)).ok
    with pytest.raises(ValueError, match="must be what the machine was fitted on, but rows or labels differ"):
        as_model(machine, X, y)
    with pytest.raises(ValueError, match="sample_weight must be what the machine was fitted with, but its bounds"):
        as_model(machine, X, y, np.where(weights > 0, weights + 1e-3, 0.0))


@pytest.mark.parametrize("pickled", [False, True])
def test_a_model_is_of_the_fit_and_not_of_parameters_set_since(pickled):
    frame = three_classes(60)
    X, y = frame[["u", "v"]], frame["kind"]
    machine = SVC(C=0.3, multi_class="ovr", class_weight={"a": 0.7}).fit(X, y)
    expected = machine.predict(X)
    if pickled:
        machine = pickle.loads(pickle.dumps(machine))
    machine.set_params(C=30.0, multi_class="ovo", kernel="linear", class_weight=None)
    model = as_model(machine, X, y)
    assert (model.prediction_kind.scheme, model.machine_spec.C) == ("ovr", 0.3)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert verify(model, X.assign(y=y)).ok


def test_categories_that_training_did_not_have_are_a_warning():
    model = fitted("mixed columns")[1]
    with pytest.warns(TableWarning, match="column 'site' holds 'moon' in 3 of 3 rows, which the model does not know"):
        model.predict(as_table(mixed_frame(3).assign(site="moon")))


def test_a_machine_fitted_on_plain_or_sparse_arrays():
    X, y = make_blobs(40, centers=3, n_features=5, random_state=1)
    for data in (X, sparse.csr_array(X)):
        machine = SVC().fit(data, y)
        model = as_model(machine, data, y)
        np.testing.assert_array_equal(model.predict(data), machine.predict(data))
        assert model.prediction_kind.labels.tolist() == [0, 1, 2]


def test_another_table_is_recognised(saved):
    path, table, _ = saved
    model = load_model(path)
    reordered = verify(model, table.take(np.arange(table.n_rows)[::-1]))
    assert not reordered.same_table
    assert reordered.recomputed is None
    assert reordered.findings == (
        "this is not the table that the model was trained on: its rows are in another order, first row 1",
    )
    assert verify(model, table.take(np.arange(50))).findings == (
        "this is not the table that the model was trained on: it was trained on rows up to number 80, and this one "
        "has 50",
    )
    assert "there is no column 'age'" in verify(model, table.without(["age"])).findings[0]
    column = table["dose"].copy()
    column[3] = np.nextafter(column[3], 2)
    columns = tuple(column if name == "dose" else table[name] for name in table.names)
    assert not verify(model, Table(table.names, columns)).same_table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: pd.concat([mixed_frame(3, 1), frame]), r"3 rows were added before row 1, which is row 4 now"),
        (
            lambda frame: pd.concat([frame[:40], mixed_frame(1, 1), frame[40:]]),
            r"1 row was added before row 4\d, which",
        ),
        (
            lambda frame: frame.drop(index=frame.index[:2]),
            r"it was trained on rows up to number 80, and this one has 78",
        ),
        (lambda frame: frame.assign(dose=frame["dose"] + 1), r"support vectors are not in it, first row 1"),
        (
            lambda frame: frame.assign(outcome=frame["outcome"].iloc[::-1].to_numpy()),
            "the target 'outcome' were changed",
        ),
    ],
)
def test_what_differs_in_another_table_is_said(saved, change, message):
    path, _, _ = saved
    frame = change(with_missing(mixed_frame(80))).reset_index(drop=True)
    (finding,) = verify(load_model(path), as_table(frame)).findings
    assert re.search(message, finding), finding


def test_more_columns_and_rows_do_not_make_it_another_table(saved):
    path, _, _ = saved
    longer = as_table(
        pd.concat([with_missing(mixed_frame(80)), mixed_frame(20)], ignore_index=True).assign(extra=np.arange(100.0))
    )
    assert verify(load_model(path), longer).ok


TAMPERINGS = {
    "a coefficient": (
        lambda model: {"parts": (replace(model.parts[0], beta=model.parts[0].beta * 1.01),)},
        "the dual objective is",
    ),
    "the bias": (lambda model: {"parts": (replace(model.parts[0], bias=model.parts[0].bias + 0.1),)}, "a bias is"),
    "C": (lambda model: {"machine_spec": replace(model.machine_spec, C=1.0)}, "the dual infeasibility is"),
    "a claim": (
        lambda model: {
            "parts": (replace(model.parts[0], certificate=replace(model.parts[0].certificate, primal=1.0)),)
        },
        "the primal objective is 1 in the file",
    ),
    "a support vector": (
        lambda model: {"support_vectors": model.support_vectors.rows(np.roll(np.arange(model.support_vectors.n), 1))},
        "the support vectors in the file are not the training rows",
    ),
}


CLAIMS = {
    "gap": (dict(gap=-5.0), "the duality gap is -5 in the file"),
    "relative gap": (dict(relative_gap=0.5), "the relative gap is 0.5 in the file"),
    "dual": (dict(dual=3.0), "the dual objective is 3 in the file"),
    "support vectors": (dict(n_support=1), "the number of support vectors is 1 in the file"),
    "free ones": (dict(n_free=0), "the number of free support vectors is 0 in the file"),
    "bounded ones": (dict(n_bounded=7), "the number of support vectors at their bound is 7 in the file"),
    "violation": (dict(kkt_violation=0.0), "the KKT violation is 0 in the file"),
    "status": (dict(status=Status.OPTIMAL), "the file says `optimal`, recomputing says `stalled`"),
    "tolerance": (
        dict(status=Status.OPTIMAL, tol=1e-12),
        "the file says `optimal`, recomputing says `stalled`",
    ),
    "tolerance of the gap": (
        dict(status=Status.OPTIMAL, tol=100.0, tol_gap=1e-12),
        "the file says `optimal`, recomputing says `stalled`",
    ),
    "rounding": (dict(decision_error=1e9), "the rounding error of a decision value is 1e+09 in the file"),
    "rounding hides no violation": (dict(decision_error=1e9, kkt_violation=0.0), "the KKT violation is 0 in the file"),
    "rounding hides no objective": (dict(decision_error=1e9, primal=1.0), "the primal objective is 1 in the file"),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_verify_checks_the_claims_of_a_file(case, tmp_path):
    table = as_table(mixed_frame(80))
    with pytest.warns(UserWarning, match="ended as"):
        model = fit_model(table, "outcome", SVC(C=1e4, max_iter=3), keep=["row"])
    assert verify(model, table).findings == ()
    claims, finding = CLAIMS[case]
    part = replace(model.parts[0], certificate=replace(model.parts[0].certificate, **claims))
    save_model(tmp_path / "m.mercer", replace(model, parts=(part,)))
    findings = verify(load_model(tmp_path / "m.mercer"), table).findings
    assert any(sentence.startswith(finding) for sentence in findings), findings


@pytest.mark.parametrize(
    "claims",
    [dict(status=Status.STALLED), dict(status=Status.MAX_ITER), dict(kkt_violation=0.5), dict(decision_error=0.0)],
)
def test_a_machine_that_is_better_than_it_claims_is_no_disagreement(claims):
    table, model = fitted("mixed columns")
    part = replace(model.parts[0], certificate=replace(model.parts[0].certificate, **claims))
    verification = verify(replace(model, parts=(part,)), table)
    assert verification.findings == ()
    assert verification.recomputed.status == "optimal"


@pytest.mark.parametrize("n", [20, 305])
@pytest.mark.parametrize("C", [1e6, 1e9, 1e12])
def test_rounding_amplified_by_bounds_is_no_disagreement(n, C):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 2)), np.arange(n) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = as_model(SVC(C=C, kernel=RBF(gamma=5.0)).fit(X, y), X, y)
    frame = pd.DataFrame(X).rename(columns=str).assign(y=y)
    assert verify(model, frame).findings == ()
    part = model.parts[0]
    # The dual objective does not depend on C; the primal objective depends on it less and less as C grows.
    for name, factor in [("dual", 1.0001), ("primal", 1.001)][: 2 if C == 1e6 else 1]:
        wrong = replace(part.certificate, **{name: factor * getattr(part.certificate, name)})
        assert not verify(replace(model, parts=(replace(part, certificate=wrong),)), frame).ok


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("tol", [1e-3, 1e-9, 1e-14])
def test_an_untouched_model_verifies_however_hard_its_problem_was(C, tol):
    frame = mixed_frame(80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit_model(frame, "outcome", SVC(C=C, tol=tol, kernel="linear", max_iter=20_000), keep=["row"])
    verification = verify(model, frame)
    assert verification.findings == ()
    if model.certificate.kkt_violation > tol:
        assert verification.recomputed.status == model.certificate.status
        claims = [replace(part, certificate=replace(part.certificate, status=Status.OPTIMAL)) for part in model.parts]
        assert not verify(replace(model, parts=tuple(claims)), frame).ok


def test_weights_do_not_move_a_support_vector_from_its_bound():
    frame = three_classes(60)
    X, y = frame[["u", "v"]], frame["kind"]
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 60)
    machine = SVC(C=0.3, class_weight={"a": 0.7, "b": 1.1, "c": 1.3}).fit(X, y, sample_weight=weights)
    assert verify(as_model(machine, X, y, weights), X.assign(y=y)).findings == ()


@pytest.mark.parametrize("case", TAMPERINGS)
def test_verify_detects_tampering(case, tmp_path):
    table, model = fitted("mixed columns")
    change, finding = TAMPERINGS[case]
    save_model(tmp_path / "m.mercer", replace(model, **change(model)))
    verification = verify(load_model(tmp_path / "m.mercer"), table)
    assert verification.same_table
    assert not verification.ok
    assert any(finding in sentence for sentence in verification.findings), verification.findings


@pytest.mark.parametrize("case", ["SVC without bias", "SVR without bias", "SVC joint", "KernelRidge"])
def test_a_bias_added_to_a_machine_without_one_is_detected(case):
    table, model = of_kind(case)
    changed = (replace(model.parts[0], bias=0.1), *model.parts[1:])
    assert not verify(replace(model, parts=changed), table).ok


@pytest.mark.parametrize(
    ("labels", "shown"), [(["ill", "worse"], "'ill' and 'worse'"), (["sick", "tired"], "'sick' and 'tired'")]
)
def test_verify_names_changed_labels(saved, labels, shown):
    path, table, _ = saved
    rewritten(path, **deep(("outcome", "labels", "values"), labels))
    verification = verify(load_model(path), table)
    assert verification.recomputed is None
    assert verification.findings == (
        f"the classes in the file are {shown}, but the training rows hold 'ill' and 'well' in the column 'outcome'",
    )


ODD_LABELS = [
    "",
    "\x00",
    "\x1b[31mred\x7f",
    "a\x00",
    'quote " and \\',
    "line\nbreak\r\n\t",
    "\u2028\u202e\ufeff",
    "e\u0301 é 🙂",
]


def test_unusual_labels_columns_and_levels_are_read_back(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.array(sorted(ODD_LABELS) * 8, dtype=object)
    levels = np.array([f"{label}!" for label in rng.permutation(labels)], dtype=object)
    table = Table(("\x00u\n", "\x1b[1m", "target\r"), (rng.standard_normal(labels.size), levels, labels))
    model = fit_model(table, "target\r", SVC(C=100.0, gamma=50.0))
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    assert loaded.prediction_kind.labels.tolist() == sorted(ODD_LABELS)
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert verify(loaded, table).findings == ()


def test_a_machine_stopped_early_is_verified_with_its_status(tmp_path):
    frame = three_classes(60)
    with pytest.warns(UserWarning, match="ended as"):
        model = fit_model(frame, "kind", SVC(C=1e4, max_iter=3))
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    assert loaded.certificate.status == "max_iter"
    assert verify(loaded, frame).ok
    optimal = [replace(part.certificate, status=Status.OPTIMAL) for part in loaded.parts]
    parts = tuple(
        replace(part, certificate=certificate) for part, certificate in zip(loaded.parts, optimal, strict=True)
    )
    findings = verify(replace(loaded, parts=parts), frame).findings
    assert "the file says `optimal`, recomputing says `stalled`" in findings


def checksums(members):
    return "".join(f"{sha256(data).hexdigest()}  {name}\n" for name, data in sorted(members.items())).encode()


def rewritten(path, change_manifest=None, change_members=None, compression=zipfile.ZIP_STORED, forged=True):
    """The file with its manifest or members changed; if `forged`, with checksums that fit."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sums = members.pop("SHA256SUMS")
    manifest = json.loads(members["manifest.json"])
    if change_manifest is not None:
        change_manifest(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    if change_members is not None:
        change_members(members)
    members.setdefault("SHA256SUMS", checksums(members) if forged else sums)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def array_bytes(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def with_array(name, array):
    return dict(change_members=lambda m: m.__setitem__(f"{name}.npy", array_bytes(array)))


def setting(**changes):
    return dict(change_manifest=lambda manifest: manifest.update(changes))


def nested(first, second, value):
    return dict(change_manifest=lambda manifest: manifest[first].__setitem__(second, value))


def sealed_at(time):
    return setting(seal={"n_test": 3, "sealed_at": time, "openings": []})


def deep(place, value):
    def change(manifest):
        for key in place[:-1]:
            manifest = manifest[key]
        manifest[place[-1]] = value

    return dict(change_manifest=change)


def claiming(**claims):
    return dict(change_manifest=lambda manifest: manifest["parts"][0]["certificate"].update(claims))


def test_machines_of_different_tolerances_are_refused(tmp_path):
    save_model(tmp_path / "m.mercer", fit_model(three_classes(60), "kind", SVC()))
    rewritten(tmp_path / "m.mercer", **claiming(tol=1.0))
    with pytest.raises(ModelFileError, match="its machines claim to have been solved to different tolerances"):
        load_model(tmp_path / "m.mercer")


EDITS = {
    "bias": lambda manifest: manifest["parts"][0].__setitem__("bias", 0.5),
    "mean": lambda manifest: manifest["encoder"]["numeric"][0].__setitem__("mean", 1.0),
    "gamma": lambda manifest: manifest["kernel"].__setitem__("gamma", 1.0),
    "C": lambda manifest: manifest["machine"].__setitem__("C", 3.0),
    "label": lambda manifest: manifest["outcome"]["labels"].__setitem__("values", ["ill", "worse"]),
    "information": lambda manifest: manifest.__setitem__("written_by", "me"),
}


@pytest.mark.parametrize("case", EDITS)
def test_an_edited_manifest_is_refused(saved, case):
    path, _, _ = saved
    rewritten(path, change_manifest=EDITS[case], forged=False)
    with pytest.raises(ModelFileError, match=r"was damaged or edited: checksums do not fit 'manifest\.json'"):
        load_model(path)


def test_an_edited_array_is_refused(saved):
    path, _, _ = saved
    rewritten(path, **with_array("training_rows", np.arange(80)[::-1].copy()), forged=False)
    with pytest.raises(ModelFileError, match=r"damaged or edited: .*'training_rows\.npy'"):
        load_model(path)


def test_the_checksums_are_those_of_sha256sum(saved, tmp_path):
    path, _, _ = saved
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "members")
    lines = (tmp_path / "members" / "SHA256SUMS").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == sorted(set(os.listdir(tmp_path / "members")) - {"SHA256SUMS"})
    for line in lines:
        digest, name = line.split("  ")
        assert sha256((tmp_path / "members" / name).read_bytes()).hexdigest() == digest


DAMAGED = {
    "version": (setting(version=7), "it is of version 7, this program reads versions 1 to 6"),
    "format": (setting(format="a pickle"), "does not say that it is a 'mercer model' file"),
    "compressed": (dict(compression=zipfile.ZIP_DEFLATED), "its members are compressed"),
    "stranger": (dict(change_members=lambda m: m.__setitem__("evil.py", b"")), "its members are not those of a model"),
    "path": (dict(change_members=lambda m: m.__setitem__("../beta.npy", b"")), "its members are not those of a model"),
    "lost array": (dict(change_members=lambda m: m.pop("part_beta.npy")), "its members are not those of a model file"),
    "lost checksums": (
        dict(change_members=lambda m: m.__setitem__("SHA256SUMS", b"")),
        "checksums do not fit 'class_weight.npy',",
    ),
    "more checksums": (
        dict(change_members=lambda m: m.__setitem__("SHA256SUMS", checksums(m) + b"more")),
        "checksums do not fit 'SHA256SUMS'",
    ),
    "NaN": (with_array("class_weight", np.array([np.nan, 1.0])), "'class_weight' holds NaN or infinity"),
    "objects": (with_array("class_weight", np.array([1.0, 1.0], dtype="<f4")), "not of the type"),
    "class weights": (with_array("class_weight", np.array([1.0, -1.0])), "the class weights must be positive"),
    "sample weights": (with_array("sample_weight", np.ones(3)), "sample weights must be positive, one a training row"),
    "no weight": (with_array("sample_weight", np.zeros(80)), "sample weights must be positive, one a training row"),
    "support rows": (with_array("support_rows", np.array([0, 10**9])), "'support_rows' does not hold indices from 0"),
    "twice": (with_array("support_rows", np.zeros(5, dtype=np.int64)), "'support_rows' does not rise"),
    "support": (with_array("support_data", np.ones((2, 2))), "its support vectors have shape (2, 2)"),
    "starts": (with_array("part_starts", np.array([0, 1])), "it should hold 1 machines"),
    "training rows": (with_array("training_rows", np.array([-1, 2])), "'training_rows' does not hold indices"),
    "kernel": (setting(kernel={"type": "os.system"}), "kernel.type must be"),
    "scheme": (nested("outcome", "scheme", "all"), "scheme must be one of"),
    "classes": (
        nested("outcome", "labels", {"kind": "text", "values": ["a", "a"]}),
        "not at least two different labels",
    ),
    "class kind": (nested("outcome", "labels", {"kind": "pickle", "values": ["a", "b"]}), "damaged: KeyError"),
    "no parts": (setting(parts=[]), "it should hold 1 machines"),
    "outcome": (nested("outcome", "kind", "quantity"), "damaged: KeyError"),
    "another machine": (
        setting(machine={"type": "SVR", "C": 1.0, "epsilon": 0.1, "squared": False, "bias": True}),
        "its machine is 'SVR', which does not answer with classes",
    ),
    "no machine": (nested("machine", "type", "os.system"), "damaged: KeyError"),
    "parameters": (nested("machine", "nu", 0.5), "the parameters of a SVC are ['C', 'bias', 'squared'], got"),
    "loss": (nested("machine", "squared", 1), "squared of a SVC cannot be 1"),
    "width": (deep(("parts", 0, "half_width"), 1.0), "its half_width is 1.0, which does not fit a SVC"),
    "C": (nested("machine", "C", -1.0), "C of a SVC cannot be -1.0"),
    "C and weights": (
        dict(**nested("machine", "C", 1e308), **with_array("class_weight", np.array([1e9, 1.0]))),
        "C times the weights, of all rows together, is beyond what float64 can hold",
    ),
    "C as text": (nested("machine", "C", "1"), "C of a SVC cannot be '1'"),
    "target": (nested("outcome", "column", 3), "its target is not text"),
    "features": (setting(n_features=3), "differ in the number of features"),
    "huge": (nested("encoder", "sparse", {"n_columns": 10**15, "scale": 1.0}), "a sparse block must have 1 to"),
    "scale": (nested("encoder", "sparse", {"n_columns": 9, "scale": 0.0}), "its encoder's scale is 0.0, which is no"),
    "dense block": (nested("encoder", "dense_block", 10**7), "a block of more columns than it lists"),
    "columns": (nested("encoder", "order", ["age", "age"]), "its encoder lists a column twice"),
    "violation": (claiming(kkt_violation=-1.0), "its certificate's kkt_violation is -1.0, which cannot be"),
    "infeasibility": (claiming(dual_infeasibility=-1e-9), "its certificate's dual_infeasibility is -1e-09"),
    "rounding": (claiming(rounding=-1.0), "its certificate's rounding is -1.0, which cannot be"),
    "endless rounding": (claiming(decision_error="inf"), "its decision_error is 'inf', which is no number"),
    "endless violation": (claiming(kkt_violation="inf"), "its kkt_violation is 'inf', which is no number"),
    "endless dual": (claiming(dual="-inf"), "its dual is '-inf', which is no number"),
    "no gap": (claiming(gap="nan"), "its gap is 'nan', which is no number"),
    "tolerance": (claiming(tol=0.0), "its certificate's tol is 0.0, which cannot be"),
    "tolerance of the gap": (claiming(tol_gap=-1.0), "its certificate's tol_gap is -1.0, which cannot be"),
    "seconds": (claiming(seconds=-1.0), "its certificate's seconds is -1.0, which cannot be"),
    "count": (claiming(n_support=-1), "its certificate's n_support is -1, which is no count"),
    "not JSON": (dict(change_members=lambda m: m.__setitem__("manifest.json", b"{")), "damaged: JSONDecodeError"),
    "infinity": (
        dict(change_members=lambda m: m.__setitem__("manifest.json", b'{"C": Infinity}')),
        "its manifest holds Infinity",
    ),
    "deep": (dict(change_members=lambda m: m.__setitem__("manifest.json", b"[" * 100_000)), "damaged: RecursionError"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_file_that_does_not_fit_the_format_is_refused(saved, case):
    path, _, _ = saved
    changes, message = DAMAGED[case]
    rewritten(path, **changes)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def dropping(name):
    return dict(change_members=lambda members: members.pop(f"{name}.npy"))


DAMAGED_KINDS = {
    "kernel": (
        "LogisticRegression",
        setting(kernel=RBF(gamma=1.0).to_dict()),
        "which a LogisticRegression does not have",
    ),
    "network": (
        "RBFNetworkClassifier",
        nested("machine", "network", False),
        "which a LogisticRegression does not have",
    ),
    "scheme": ("LeastSquaresSVC", nested("outcome", "scheme", "ovo"), "which does not tell classes apart by 'ovo'"),
    "joint scheme": ("SVC joint", nested("outcome", "scheme", "ovr"), "which does not tell classes apart by 'ovr'"),
    "rows": (
        "LogisticRegression",
        with_array("support_rows", np.arange(3)),
        "its support vectors are not training rows, but it names some",
    ),
    "no multipliers": ("GradientKernelSVC", dropping("part_multipliers"), "it has multipliers, or lacks them"),
    "multipliers": (
        "KernelRidge",
        with_array("part_multipliers", np.ones(80)),
        "it has multipliers, or lacks them, which",
    ),
    "few multipliers": (
        "GradientKernelSVC",
        with_array("part_multipliers", np.ones(2)),
        "its multipliers and coefficients differ",
    ),
    "second claim": (
        "LeastSquaresSVC",
        dict(change_manifest=lambda m: m["parts"][1].update(certificate=m["parts"][0]["certificate"])),
        "a machine has a certificate, and should not have one",
    ),
    "no claim": ("LeastSquaresSVC", deep(("parts", 0, "certificate"), None), "damaged: TypeError"),
    "any claim": ("ParzenClassifier", deep(("parts", 0, "certificate"), {}), "a machine has a certificate, and should"),
    "claim of another kind": ("SVC joint", deep(("parts", 0, "certificate", "n_free"), 0.5), "which is no count"),
    "separated": ("KernelPerceptron", claiming(separated=1), "separated is 1, which is neither true nor false"),
    "mistakes": ("KernelPerceptron", claiming(n_mistakes=10**30), "which is no count"),
    "criterion": ("KernelPerceptron", claiming(criterion=-1.0), "criterion is -1.0, which cannot be"),
    "neighbours": ("KernelNeighborsClassifier", nested("machine", "n_neighbors", 0), "n_neighbors of a"),
    "many neighbours": (
        "KernelNeighborsClassifier",
        nested("machine", "n_neighbors", 10**30),
        "n_neighbors of a Kernel",
    ),
    "half a neighbour": ("KernelNeighborsClassifier", nested("machine", "n_neighbors", 0.5), "n_neighbors of a"),
    "ridge": ("KernelRidge", nested("machine", "alpha", -1.0), "alpha of a KernelRidge cannot be -1.0"),
    "variance": (
        "LogisticRegression",
        nested("machine", "C", 0),
        "C of a LogisticRegression",
    ),
    "maps of a ridge": ("KernelRidge", setting(calibration={}), "it has probabilities of decision values"),
    "maps of a joint machine": (
        "SVC joint",
        setting(calibration={}),
        "it has probabilities of decision values, which a",
    ),
    "no maps": ("SVC sigmoids", nested("calibration", "maps", []), "ValueError: it should have 1 maps"),
    "map": ("SVC sigmoids", deep(("calibration", "maps", 0, "slope"), -1.0), "ValueError: a slope is negative"),
    "no number": ("SVC sigmoids", deep(("calibration", "maps", 0, "slope"), "inf"), "Error: 'inf' is not a number"),
    "values": ("SVC folds", nested("calibration", "values", "those of x"), "ValueError: it was fitted to 'those of x'"),
    "folds": ("SVC folds", nested("calibration", "folds", "0159"), "ValueError: its folds are not a text of one digit"),
    "method": ("SVC sigmoids", nested("calibration", "method", "os.system"), "ValueError: its method is 'os.system'"),
    "violation": ("SVC free", deep(("calibration", "maps", 0, "violation"), -1.0), "ValueError: a slope is negative"),
    "gone": ("SVC free", deep(("calibration", "maps", 0), {"slope": 1.0}), "KeyError: 'intercept'"),
    "time of a seal": (
        "SVC sigmoids",
        sealed_at("0001-01-01T00:00:00+14:00"),
        "its record of a test part is invalid: ValueError: '0001-01-01T00:00:00+14:00' is no time of the calendar",
    ),
    "zone of a seal": ("SVC sigmoids", sealed_at("2026-01-01T00:00:00"), "is no time with its zone"),
    "falling": (
        "SVC isotonic",
        dict(change_manifest=lambda m: m["calibration"]["maps"][0]["probabilities"].reverse()),
        "a function through points does not rise",
    ),
    "certain": (
        "SVC isotonic",
        dict(change_manifest=lambda m: m["calibration"]["maps"][0]["probabilities"].__setitem__(-1, 1.0)),
        "a function through points does not rise, or gives no probabilities",
    ),
    "not 1/2": (
        "SVC isotonic",
        deep(("calibration", "maps", 0), {"values": [0.0, 1.0], "probabilities": [0.4, 0.6]}),
        "a function through points is not 1/2 at 0",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("case", DAMAGED_KINDS)
def test_a_file_of_another_kind_that_does_not_fit_the_format_is_refused(files, case):
    path, contents = files
    kind, changes, message = DAMAGED_KINDS[case]
    path.write_bytes(contents[kind][0])
    rewritten(path, **changes)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert message in str(caught.value)


def test_more_coefficients_than_can_be_computed_with_are_refused(saved, monkeypatch):
    path, _, _ = saved
    monkeypatch.setattr(manifest, "MAX_COEFFICIENTS", 3)
    with pytest.raises(
        ModelFileError, match=r"it has \d+ support vectors of 1 machines, more than can be computed with"
    ):
        load_model(path)


def test_an_array_header_may_not_promise_more_than_there_is(saved):
    path, _, _ = saved
    header = array_bytes(np.ones(2)).replace(b"(2,), ", b"(10**9,)"[:6])
    for data in (header, array_bytes(np.ones(2)).replace(b"(2,)", b"(9,)"), b"\x93NUMPY\x09\x00" + b"x" * 64):
        rewritten(path, change_members=lambda m, data=data: m.__setitem__("class_weight.npy", data))
        with pytest.raises(ModelFileError):
            load_model(path)


def test_files_that_are_no_model_files_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        load_model(tmp_path / "none.mercer")
    (tmp_path / "heart.mercer").touch()
    with pytest.raises(ModelFileError, match=r"hart\.mercer does not exist; nearby: 'heart\.mercer'$"):
        load_model(tmp_path / "hart.mercer")
    with pytest.raises(ModelFileError, match=r"other\.mercer does not exist$"):
        load_model(tmp_path / "none" / "other.mercer")
    with pytest.raises(ModelFileError, match=r"is a folder, not a model file$"):
        load_model(tmp_path)
    (tmp_path / "model.mercer").touch()
    with pytest.raises(ModelFileError, match=r"is a folder, not a model file; did you mean .*model\.mercer\?"):
        load_model(tmp_path)
    path = tmp_path / "m.mercer"
    if hasattr(os, "mkfifo"):
        os.mkfifo(path)
        with pytest.raises(ModelFileError, match="it is a pipe or a device"):
            load_model(path)
        path.unlink()
    for data in (b"", b"PK", b"\x80\x04K\x01."):
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match="is not a model file, or is truncated"):
            load_model(path)


@pytest.fixture(scope="module")
def model_bytes(tmp_path_factory):
    """A model file, its bytes, its table and the decision values of its model."""
    table, model = fitted("mixed columns")
    path = tmp_path_factory.mktemp("fuzz") / "m.mercer"
    save_model(path, model)
    return path, path.read_bytes(), table, model.decision_values(table)


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same name occurs twice
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.full
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused_or_unchanged(model_bytes, data):
    path, original, table, expected = model_bytes
    kind = data.draw(st.sampled_from(["truncated", "bytes", "members swapped", "member twice", "member cut"]))
    names = st.sampled_from(sorted(members_of(original)))
    members = list(members_of(original).items())
    if kind == "truncated":
        damaged = original[: data.draw(st.integers(0, len(original) - 1))]
    elif kind == "bytes":
        damaged = bytearray(original)
        for place in data.draw(st.lists(st.integers(0, len(original) - 1), min_size=1, max_size=4)):
            damaged[place] = data.draw(st.integers(0, 255))
    elif kind == "members swapped":
        first, second = data.draw(names), data.draw(names)
        swap = {first: second, second: first}
        damaged = zipped([(swap.get(name, name), content) for name, content in members])
    elif kind == "member twice":
        damaged = zipped([*members, data.draw(st.sampled_from(members))])
    else:
        cut = data.draw(names)
        damaged = zipped([(name, content[:-1] if name == cut else content) for name, content in members])
    path.write_bytes(damaged)
    try:
        loaded = load_model(path)
    except ModelFileError:
        return
    # The changed bytes have no meaning, such as a date, or a member was replaced by itself.
    assert kind in ("bytes", "members swapped")
    np.testing.assert_array_equal(loaded.decision_values(table), expected)


def places(document, path=()):
    """The paths to all values in a JSON document."""
    children = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path for path in [path] if path] + [deep for key, value in children for deep in places(value, (*path, key))]


ODD_VALUES = (
    *(None, True, 0, -1, 2, 0.5, -0.5, 1e308, -1e308, 5e-324, 10**30, 2**31 - 1, 2**53, [], {}, [1], {"a": 1}),
    *("", "a", "\0", "inf", "-inf", "nan", "RBF", "Linear", "ovr", "text", "integer", "error"),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The bytes of a model file for every kind of machine, and the table."""
    folder, contents = tmp_path_factory.mktemp("kinds"), {}
    for case in KINDS:
        table, model = of_kind(case)
        save_model(folder / "m.mercer", model)
        contents[case] = ((folder / "m.mercer").read_bytes(), table)
    return folder / "forged.mercer", contents


@pytest.mark.parametrize("case", ["SVC", *KINDS])
@settings(max_examples=9, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_a_forged_manifest_is_refused_or_harmless(model_bytes, files, case, seed):
    path, file_contents = files
    original, table = (model_bytes[1], model_bytes[2]) if case == "SVC" else file_contents[case]
    path.write_bytes(original)
    rng = np.random.default_rng(seed)
    possible = places(json.loads(members_of(original)["manifest.json"]))
    place, value = possible[rng.integers(len(possible))], ODD_VALUES[rng.integers(len(ODD_VALUES))]
    rewritten(path, **deep(place, value))
    use_if_it_loads(path, table)


def test_no_number_of_an_encoding_can_be_forged(tmp_path):
    """Each number is changed in turn: loading refuses it, verifying finds it, or no prediction depends on it."""
    frame = mixed_frame(60).drop(columns=["row", "unit"])
    frame.loc[3, "dose"] = np.nan
    frame["seen"] = [f"2024-{1 + k % 12}-{1 + k % 28} {k % 24}:30" if k % 9 else None for k in range(60)]
    frame["note"] = [" ".join(("old", "new", "and", "red")[: 1 + k % 4]) for k in range(60)]
    encoder = TableEncoder(missing="impute", kinds={"seen": "dmy", "note": "text"})
    model = fit_model(frame, "outcome", SVC(), encoder=encoder)
    path = tmp_path / "m.mercer"
    save_model(path, model)
    original = path.read_bytes()
    empty = frame.assign(age=np.nan, dose=np.nan, site=None, seen=None, note=None)
    entry = json.loads(members_of(original)["manifest.json"])["encoder"]
    numbers = [place for place in places(entry) if type(reduce(getitem, place, entry)) in (int, float)]
    assert len(numbers) >= 30
    for place in numbers:
        path.write_bytes(original)
        rewritten(path, **deep(("encoder", *place), -3))
        try:
            loaded = load_model(path)
        except ModelFileError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            same = all(np.array_equal(loaded.scores(rows), model.scores(rows)) for rows in (frame, empty))
        assert same or not verify(loaded, frame).ok, place


def test_a_fill_value_cannot_be_forged_to_that_of_arrays(tmp_path):
    """The column has mean 0 and standard deviation 1, so only its fill value differs from that of an array."""
    frame = pd.DataFrame({"u": [-0.5, -0.5, -0.5, -0.5, 2.0] * 2, "y": [0, 0, 0, 0, 1] * 2})
    path = tmp_path / "m.mercer"
    save_model(path, fit_model(frame, "y", SVC(), missing="impute"))
    assert verify(load_model(path), frame).ok
    rewritten(path, **deep(("encoder", "numeric", 0, "fill"), 0.0))
    assert "the encoding of column 'u'" in verify(load_model(path), frame).findings[0]


@pytest.mark.parametrize(
    "place", [(), ("encoder",), ("encoder", "numeric", 0), ("kernel",), ("parts", 0), ("machine",)]
)
def test_an_unknown_entry_is_refused(saved, place):
    path, _, _ = saved
    rewritten(path, **deep((*place, "another"), 1.0))
    with pytest.raises(ModelFileError, match="another"):
        load_model(path)


def use_if_it_loads(path, table):
    """Whatever the file contains, it is refused, or it can be used and its errors are reported."""
    try:
        model = load_model(path)
    except ModelFileError:
        return
    shares = [model.probabilities] if model.has_probabilities else []
    for use in (model.scores, model.predict, *shares, lambda table: verify(model, table)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TableWarning)  # the model has other categories
                use(table)
        except TableError:
            pass  # the model needs another table
        except ValueError as error:  # each number is valid, but together they overflow
            if "not finite" not in str(error):
                raise


DTYPES = ("<f4", ">f8", "<i4", "<f8", "<i8", "<c16", "S8", "?")
ARRAY_CHANGES = ("cells", "cells", "cells", "longer", "shorter", "empty", "turned", "swapped", "gone", *DTYPES)
ODD_NUMBERS = (0.0, -1.0, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf, 2.0**53, 1.0)


@pytest.mark.parametrize("case", ["SVC", *KINDS])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_a_forged_array_is_refused_or_harmless(model_bytes, files, case, seed):
    path, file_contents = files
    original, table = (model_bytes[1], model_bytes[2]) if case == "SVC" else file_contents[case]
    path.write_bytes(original)
    rng = np.random.default_rng(seed)
    members = members_of(original)
    names = [*sorted(name for name in members if name.endswith(".npy")), "part_multipliers.npy", "support_indptr.npy"]
    name, kind = str(rng.choice(names)), str(rng.choice(ARRAY_CHANGES))
    array = np.load(io.BytesIO(members[name])) if name in members else np.zeros(3)
    if kind == "cells":
        place, width = rng.integers(max(1, array.size)), rng.choice([1, 5])
        value = rng.choice(ODD_NUMBERS) if array.dtype.kind == "f" else rng.integers(-2, 4 * array.size**2 + 2)
        changed = array.reshape(-1).copy()
        changed[place : place + width] = value
        array = changed.reshape(array.shape)
    elif kind in DTYPES:
        with np.errstate(all="ignore"):
            array = array.astype(kind)
    else:
        change = {
            "longer": lambda: np.concatenate([array, array[:1]]),
            "shorter": lambda: array[:-1],
            "empty": lambda: array[:0],
            "turned": lambda: array[None] if array.ndim == 1 else array.T.copy(),
            "swapped": lambda: array[::-1].copy(),
            "gone": lambda: array,
        }
        array = change[kind]()
    contents = None if kind == "gone" else array_bytes(array)
    gone = {} if contents is None else {name: contents}
    rewritten(path, change_members=lambda stored: [stored.pop(name, None), stored.update(gone)])
    use_if_it_loads(path, table)


def test_a_manifest_too_large_to_be_read_is_not_written(saved, tmp_path, monkeypatch):
    _, _, model = saved
    monkeypatch.setattr(archive, "MAX_MANIFEST_BYTES", 1000)
    with pytest.raises(
        ValueError, match=r"the manifest of this model would be larger than .* 1 machines, 10 features and"
    ):
        save_model(tmp_path / "large.mercer", model)
    assert not (tmp_path / "large.mercer").exists()


def test_a_model_that_could_not_be_read_again_is_not_written(saved, tmp_path):
    path, _, model = saved
    before = path.read_bytes()
    encoder = copy.copy(model.encoder)
    encoder.dense_block_ = 50
    message = "this model cannot be written, as its file could not be read again: its encoder has a block of more col"
    with pytest.raises(ModelFileError, match=message):
        save_model(path, replace(model, encoder=encoder))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_short_file_cannot_ask_for_a_machine_for_very_many_pairs(tmp_path):
    frame = three_classes(60)
    save_model(tmp_path / "m.mercer", fit_model(frame, "kind", SVC()))

    def change(manifest):
        manifest["outcome"]["labels"]["values"] = [f"{k:06}" for k in range(20_000)]

    rewritten(tmp_path / "m.mercer", change_manifest=change)
    with pytest.raises(ModelFileError, match="it should hold 199990000 machines"):
        load_model(tmp_path / "m.mercer")


def test_a_kernel_that_is_python_cannot_be_saved(tmp_path):
    frame = separable()
    model = fit_model(frame, "y", SVC(kernel=lambda A, B: A @ B.T))
    with pytest.raises(ValueError, match="cannot be written to a model file"):
        save_model(tmp_path / "m.mercer", model)
    assert os.listdir(tmp_path) == []


def test_saving_replaces_a_file_whole_or_not_at_all(saved, monkeypatch):
    path, _, model = saved
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_model(path, model)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert not path.stat().st_mode & stat.S_IXUSR


def test_a_folder_that_is_not_there_is_named(saved, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"m\.mercer cannot be written into the folder: No such file .*none'$"):
        save_model(tmp_path / "none" / "m.mercer", saved[2])


def test_files_are_written_whole_with_the_permissions_of_any_other(tmp_path):
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "plain").touch()
    for mode, text in (("w", "a\r\nü"), ("wb", b"a\r\n\x00")):
        with open_atomically(tmp_path / "link", mode) as file:
            file.write(text)
            assert (tmp_path / "file").exists() == (mode == "wb")
        assert (tmp_path / "file").read_bytes() == (text if mode == "wb" else text.encode())
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode

    def fail_half_way():
        with open_atomically(tmp_path / "file", "w") as file:
            file.write("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    assert (tmp_path / "file").read_bytes() == b"a\r\n\x00"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "link", "plain"]


def test_a_model_says_what_is_wrong_with_a_table(saved):
    path, table, _ = saved
    model = load_model(path)
    with pytest.raises(TableError, match="the table lacks 1 of the 5 columns that the model needs: 'site'"):
        model.predict(table.without(["site"]))
    with pytest.raises(TableError, match=r"column 'age' must hold numbers, .* but row 1 holds 'old'"):
        model.predict(as_table(mixed_frame(3).assign(age="old")))


def test_fitting_leaves_out_columns_of_identifiers_and_takes_dates_apart():
    frame = mixed_frame(40).assign(seen=pd.date_range("2020-01-01", periods=40))
    rows = np.arange(30)
    with pytest.warns(
        TableWarning,
        match=r"Column 'seen' holds dates or times: parts .* encoder=TableEncoder\(kinds=...\) says otherwise",
    ):
        model = fit_model(frame, "outcome", SVC(), keep=["row"])
    with pytest.warns(TableWarning, match="column 'row' was left out: looks like a row identifier: it counts 1, 2, 3"):
        other = fit_model(frame.drop(columns="seen"), "outcome", SVC(), rows=rows)
    assert [rule.name for rule in model.encoder.rules_] == ["row", "age", "dose", "site", "smoker", "seen"]
    assert [rule.name for rule in other.encoder.rules_] == ["age", "dose", "site", "smoker"]
    with pytest.raises(TableError, match="there is no column 'rwo'"):
        fit_model(frame, "outcome", SVC(), keep=["rwo"])


def test_fitting_refuses_invalid_tables():
    frame = mixed_frame(40).drop(columns="row")
    with pytest.raises(TableError, match="the target 'unit' must have at least two classes, but is 'mg' in every row"):
        fit_model(frame, "unit", SVC())
    with pytest.raises(TableError, match="the target 'outcome' has missing values in the training rows"):
        fit_model(with_missing(frame, ("outcome",)), "outcome", SVC())
    with pytest.raises(ValueError, match="C must be a number > 0"):
        fit_model(frame, "outcome", SVC(C=-1.0))


def test_a_kernel_on_strings_is_not_loaded_with_support_vectors_of_numbers(tmp_path):
    model = replace(fit_model(separable(), "y", SVC()), kernel=Spectrum(3))
    with pytest.raises(ModelFileError, match=r"its kernel Spectrum\(length=3, .*\) takes strings or sets"):
        save_model(tmp_path / "m.mercer", model)
    assert os.listdir(tmp_path) == []

    save_model(tmp_path / "m.mercer", fit_model(separable(), "y", SVC()))

    def change(manifest):
        manifest["kernel"] = Spectrum(3).to_dict()

    rewritten(tmp_path / "m.mercer", change_manifest=change)
    with pytest.raises(ModelFileError, match=r"its kernel Spectrum\(.*\) takes strings or sets"):
        load_model(tmp_path / "m.mercer")


UNFIT_KERNELS = {
    "given values": ({"type": "Precomputed"}, "takes kernel values, and its support vectors are rows of features"),
    "sum with given values": ((Linear() + Precomputed()).to_dict(), "takes kernel values"),
    "column": (Linear().on([0, 2]).to_dict(), "needs column 2, and the rows have 2 columns"),
    "column from the end": (Linear().on([-1]).to_dict(), "takes its columns from the data"),
    "named column": (Linear().on(["u"]).to_dict(), "needs a table whose columns have names"),
    "column of columns": (RBF(gamma=1.0).on([1]).on([1]).to_dict(), "needs column 1, and the rows have 1 columns"),
    "in a sum": ((Linear() + 2 * Linear().on([5])).to_dict(), "needs column 5"),
    "matrix": (Bilinear([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).to_dict(), "has no values for"),
    "rule": ({"type": "RBF", "gamma": "median"}, "has no values for"),
}


@pytest.mark.parametrize("case", UNFIT_KERNELS)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_kernel_that_does_not_fit_the_support_vectors_is_not_loaded(case, form, tmp_path):
    kernel, message = UNFIT_KERNELS[case]
    X, y = separable().to_numpy()[:, :2], separable()["y"].to_numpy()
    rows = X if form == "dense" else sparse.csr_array(X)
    path = tmp_path / "m.mercer"
    save_model(path, as_model(SVC(kernel=RBF(gamma=1.0)).fit(rows, y), rows, y))
    rewritten(path, change_manifest=lambda manifest: manifest.__setitem__("kernel", kernel))
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


@pytest.mark.parametrize("machine", [SVC, SVR, OneClassSVM, LeastSquaresSVC], ids=lambda one: one.__name__)
def test_a_machine_on_objects_that_a_function_reads_is_refused_and_not_called_unfitted(machine):
    y = np.arange(6) % 2

    def kernel(A, B):
        return np.array([[float(len(x) * len(z)) for z in B] for x in A])

    X = [[0] * k for k in range(6)]
    fitted = machine(kernel=kernel).fit(X, y)
    with pytest.raises(ValueError, match=r"a model has no place for the rows of a machine with .* by pickle"):
        as_model(fitted, X, y if machine is not OneClassSVM else None)
    with pytest.raises(NotFittedError):
        as_model(machine(kernel=kernel), X, y)


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid", "laplacian"])
def test_untouched_models_of_every_kernel_verify(kernel):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 3)) * [1.0, 3.0, 0.2], columns=list("abc"))
    y = (X.a + rng.normal(size=100) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndefiniteKernelWarning)
        model = as_model(SVC(kernel=kernel).fit(X, y), X, y)
    assert verify(model, X.assign(y=y)).findings == ()
