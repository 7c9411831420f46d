"""Kernel machines that are fitted on files larger than memory: the exact optimum, proved over all rows of the file."""

import os
import shutil
import signal
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import SVC, SVR, Cells, Landmarks, Linear, OneClassSVM, Sigmoid
from mercer.approximate import Choice
from mercer.certificates.evaluation import evaluate
from mercer.certificates.status import Status
from mercer.data import as_data
from mercer.data.files import Checkpoint, write_checked
from mercer.data.files import checkpoint as checkpoints
from mercer.gram import Gram
from mercer.gram.rows import Block, TableRows
from mercer.gram.rows.sampled_rows import sampled_rows
from mercer.kernels import RBF, On
from mercer.multiclass.training import make_tasks
from mercer.problems import c_svc
from mercer.solvers import Control, Limits
from mercer.specs import ForSVC, ForSVR
from mercer.specs.streamed import Outside, StreamedTask, look
from mercer.specs.streamed_training import first_rows, train_streamed
from mercer.studies.cli import run
from mercer.studies.files.table_files import read_table
from mercer.studies.models import load_model, model_of_file, read_tables, save_model, verify
from mercer.studies.models.streamed_checks import _violation
from test_checkpoints import stopping_at
from test_out_of_core import FEATURES, a_frame, written


class InBlocks(TableRows):
    """A table that is visited in blocks of 90 rows."""

    def blocks(self):
        for first in range(0, self.n, 90):
            at = slice(first, min(first + 90, self.n))
            yield Block(at, self.table[at], self.labels[at], self.weights[at])


def a_task(n=900, memory=200_000, **about):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.4 * rng.normal(size=n) > 0).astype(float)
    rows = InBlocks(X, y, rng.integers(1, 3, n).astype(float))
    return StreamedTask(ForSVC(**about), RBF(0.3), rows, np.ones(2), "ovo", memory, 10**8, 1)


def streamed(machine, path, **about):
    machine.fit_file(path, **{"memory": "1100kB", **about})
    assert hasattr(machine, "_streamed") or machine.approximation is not None
    return machine


@pytest.mark.parametrize(
    ("n_classes", "about"),
    [
        (2, {"class_weight": {3: 2.0, 4: 0.5}}),
        (2, {"loss": "squared_hinge", "fit_intercept": False}),
        (4, {"class_weight": "balanced"}),
        (3, {"multi_class": "ovr", "C": 2.0}),
    ],
)
def test_the_optimum_is_that_of_a_fit_in_memory(tmp_path, n_classes, about):
    frame = a_frame(n_classes=n_classes)
    path = written(frame.drop(columns="t"), tmp_path / "t.csv")
    X, y, w = frame[FEATURES].to_numpy(), frame["y"], frame["w"]
    machine = SVC(gamma="scale", tol=1e-5, **about)
    expected = clone(machine).fit(X, y, w)
    streamed(machine, path, target="y", sample_weight="w")
    assert machine.certificate_.status == "optimal"
    assert machine.kernel_.gamma == pytest.approx(expected.kernel_.gamma, rel=1e-12)
    assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(machine.decision_function(X), expected.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(machine.predict(frame), expected.predict(X))
    np.testing.assert_allclose(machine.n_support_, expected.n_support_, atol=5)
    assert machine.dual_coef_.shape[0] == expected.dual_coef_.shape[0]
    np.testing.assert_array_equal(X[machine.support_], machine.support_vectors_)
    again = machine.certificate_.verify()
    assert again.status == "optimal"
    assert again.primal == pytest.approx(machine.certificate_.primal, rel=1e-12)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression_is_as_in_memory(tmp_path, loss):
    frame = a_frame()
    path = written(frame.drop(columns=["y", "w"]), tmp_path / "t.parquet")
    X, t = frame[FEATURES].to_numpy(), frame["t"].to_numpy()
    machine = SVR(epsilon=1.0, tol=1e-5, loss=loss)
    expected = clone(machine).fit(X, t)
    streamed(machine, path, target="t")
    assert machine.certificate_.status == machine.certificate_.verify().status == "optimal"
    assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(machine.predict(frame), expected.predict(X), atol=1e-4)
    scaled = streamed(SVR(epsilon=0.7, tol=1e-5, loss=loss), path, target="t", scale_target=True)
    of_scaled = SVR(epsilon=0.7, tol=1e-5, loss=loss).fit(X, (t - t.mean()) / t.std())
    np.testing.assert_allclose(scaled.predict(frame), of_scaled.predict(X) * t.std() + t.mean(), atol=1e-4)
    np.testing.assert_allclose(model_of_file(scaled).predict(frame), scaled.predict(frame), atol=1e-9)


@pytest.mark.parametrize(
    ("n_classes", "about", "memory"),
    [
        (2, {"class_weight": {3: 2.0, 4: 0.5}}, "1100kB"),
        (2, {"loss": "squared_hinge", "fit_intercept": False}, "1100kB"),
        (3, {"class_weight": "balanced", "loss": "squared_hinge"}, "1100kB"),
        (3, {"class_weight": "balanced", "loss": "squared_hinge"}, "1600kB"),
        (3, {"multi_class": "ovr", "loss": "squared_hinge"}, "1100kB"),
    ],
)
def test_landmarks_of_a_file_have_the_objective_and_the_distance_that_they_say(
    tmp_path, monkeypatch, n_classes, about, memory
):
    frame = a_frame(n_classes=n_classes)
    path = written(frame.drop(columns="t"), tmp_path / "t.csv")
    X, y, w = frame[FEATURES].to_numpy(), frame["y"], frame["w"]
    machine = SVC(tol_gap=1e-6, approximation=Landmarks(40), **about)
    exact = clone(machine).set_params(approximation=None).fit(X, y, w)
    machine.fit_file(path, target="y", sample_weight="w", memory=memory)
    claim = machine.certificate_
    assert claim.status == "optimal"
    assert claim.relative_gap <= 1e-6
    assert claim.exact_dual <= exact.certificate_.primal <= claim.exact_primal
    assert claim.distance_to_exact < 0.3
    if memory == "1100kB":
        monkeypatch.setattr("mercer.specs.streamed.StreamedTask.room", lambda task, data: 600)
        estimated = clone(machine).fit_file(path, target="y", sample_weight="w", memory=memory).certificate_
        assert estimated.distance_to_exact == np.inf
        assert 0.5 * claim.distance_to_exact < estimated.estimated_distance < 0.6
    assert claim.primal == pytest.approx(claim.exact_primal, rel=1e-6)  # of features in single precision
    np.testing.assert_array_equal(X[machine.support_], machine.support_vectors_)
    f = machine.approximation_.values(as_data(X))
    codes, by_class = y.to_numpy() - 3, w * machine.class_weight_[y - 3]
    norms = [one.norm for one in (machine.function_ if n_classes > 2 else [machine.function_])]
    objective = 0.5 * np.square(norms).sum()
    for column, task in enumerate(make_tasks(codes, n_classes, machine.multi_class)):
        slack = np.maximum(0.0, 1.0 - task.signs * f[task.rows, column])
        objective += by_class.to_numpy()[task.rows] @ slack ** (2 if machine.loss == "squared_hinge" else 1)
    assert objective == pytest.approx(claim.exact_primal, rel=1e-9)
    again = claim.verify()
    assert again.exact_primal == pytest.approx(claim.exact_primal, rel=1e-10)
    assert again.exact_dual == pytest.approx(claim.exact_dual, rel=1e-10)
    np.testing.assert_array_equal(machine.predict(frame), machine.predict(X))
    assert np.mean(machine.predict(X) == exact.predict(X)) > 0.85
    save_model(tmp_path / "m.mercer", model_of_file(machine))
    np.testing.assert_array_equal(load_model(tmp_path / "m.mercer").predict(read_table(path)), machine.predict(frame))


@pytest.mark.parametrize(
    ("machine", "room", "way", "why"),
    [
        (SVC(C=2.0), 4_000, None, "because pilots forecast"),
        (SVC(C=2.0, multi_class="ovr"), 600, "landmarks", "because it ends within memory, which the exact machine"),
        (SVR(epsilon=0.01), 600, "landmarks", "because it ends within memory, which the exact machine"),
        (SVC(max_seconds=1e-9), 4_000, "landmarks", "because max_seconds leaves no time for a pilot"),
    ],
)
def test_a_pilot_on_rows_of_the_file_chooses_exact_or_landmarks(tmp_path, monkeypatch, machine, room, way, why):
    frame = a_frame(n_classes=3)
    target, other = ("t", "y") if isinstance(machine, SVR) else ("y", "t")
    path = written(frame.drop(columns=other), tmp_path / "t.csv")
    monkeypatch.setattr("mercer.specs.streamed.StreamedTask.room", lambda task, data: room)
    chosen = clone(machine).set_params(approximation="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a time limit
        chosen.fit_file(path, target=target, sample_weight="w", memory="1100kB")
        assert why in chosen.choice_.reason
        assert chosen.certificate_.choice == str(chosen.choice_)
    assert (None if chosen.choice_.way is None else chosen.choice_.way.name) == way
    assert hasattr(chosen, "_streamed") is (way is None)
    save_model(tmp_path / "m.mercer", model_of_file(chosen))
    loaded = load_model(tmp_path / "m.mercer")
    assert loaded.certificate.choice == str(chosen.choice_)
    np.testing.assert_allclose(loaded.predict(frame), chosen.predict(frame))
    if way is not None:
        assert verify(loaded, read_table(path)).findings == ()
        chosen.set_params(approximation=Landmarks(9), max_seconds=None)
        assert not hasattr(streamed(chosen, path, target=target, sample_weight="w"), "choice_")


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(
    "machine",
    [SVC(class_weight="balanced", multi_class="ovr"), SVC(loss="squared_hinge"), SVR(epsilon=0.7, C=2.0)],
)
def test_cells_of_a_file_are_those_of_the_same_rows_in_memory(tmp_path, monkeypatch, machine, n_jobs):
    frame = a_frame(n_classes=3)
    frame["w"] += 1.0
    target, other = ("t", "y") if isinstance(machine, SVR) else ("y", "t")
    path = written(frame.drop(columns=other), tmp_path / "t.csv")
    X = frame[FEATURES].to_numpy()
    machine = clone(machine).set_params(approximation=Cells(200), n_jobs=n_jobs)
    expected = clone(machine).fit(X, frame[target], frame["w"])
    monkeypatch.setattr("mercer.estimators._kernel_from_file.cells_sample_of_file", lambda task: first_rows(task, 2000))
    monkeypatch.setattr("mercer.specs.streamed.StreamedTask.room", lambda task, data: 2_900)
    machine.fit_file(path, target=target, sample_weight="w", memory="1100kB")
    claim, of_memory = machine.certificate_, expected.certificate_
    assert int(machine.approximation_.reason.partition(" passes")[0].split()[-1]) > 2
    assert claim.status == of_memory.status == "optimal"
    assert claim.primal == pytest.approx(of_memory.primal, rel=1e-6)
    assert claim.exact_dual == pytest.approx(of_memory.exact_dual, rel=1e-6)
    np.testing.assert_allclose(machine.approximation_.values(as_data(X)), expected.approximation_.values(as_data(X)),
                               atol=1e-6)  # fmt: skip
    np.testing.assert_array_equal(machine.approximation_.tree.rows, expected.approximation_.tree.rows)
    for one, two in zip(machine.approximation_.cells, expected.approximation_.cells, strict=True):
        np.testing.assert_array_equal(one.rows, two.rows)
    save_model(tmp_path / "m.mercer", model_of_file(machine))
    model = load_model(tmp_path / "m.mercer")
    np.testing.assert_allclose(model.predict(frame), machine.predict(frame))
    assert model.certificate.exact_dual == claim.exact_dual
    for rows in (read_table(path), read_tables(path, memory="1MB")):
        assert "cannot recompute its certificate" in str(verify(model, rows))


def test_cells_of_a_file_of_a_small_sample_hear_limits_and_continue(tmp_path, often):
    frame = a_frame()
    path = written(frame.drop(columns="t"), tmp_path / "t.csv")  # with rows of weight 0
    machine = SVC(approximation=Cells(150), C=5.0, n_jobs=1)
    about = {"target": "y", "sample_weight": "w", "memory": "1100kB"}
    exact = SVC(C=5.0).fit(frame[FEATURES].to_numpy(), frame["y"], frame["w"])
    fitted = clone(machine).fit_file(path, **about)
    assert -np.inf < fitted.certificate_.exact_dual <= exact.certificate_.primal
    assert np.mean(fitted.predict(frame) == exact.predict(frame[FEATURES].to_numpy())) > 0.8
    homes = [np.count_nonzero(one.cell.is_home) for one in fitted.approximation_.cells]
    assert len(homes) == fitted.approximation_.tree.n_cells > 4
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        stopped = clone(machine).set_params(max_seconds=1e-9, approximation=Cells(800)).fit_file(path, **about)
    assert "before 4 of 4 cells were solved" in stopped.approximation_.reason
    stages = []

    def stop(progress):
        stages.append(progress.stage)
        if progress.stage == "rows of cells" and stages.count("rows of cells") > 1:
            os.kill(os.getpid(), signal.SIGINT)
        return False

    stopped = clone(machine).set_params(callback=stop)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit_file(path, **about)
    assert not hasattr(stopped, "approximation_")
    again = clone(machine).fit_file(path, **about)
    np.testing.assert_allclose(again.decision_function(frame), fitted.decision_function(frame), atol=2e-2)


def test_a_choice_of_cells_trains_them_from_the_file_and_is_in_the_model(tmp_path, monkeypatch):
    frame = a_frame()
    path = written(frame.drop(columns="t"), tmp_path / "t.csv")
    choice = Choice(Cells(150), "because the test asks for it")
    monkeypatch.setattr("mercer.approximate.streamed_landmarks.choose", lambda *about: choice)
    machine = streamed(SVC(approximation="auto", C=5.0), path, target="y", sample_weight="w")
    assert machine.approximation_.tree.n_cells > 4
    assert model_of_file(machine).certificate.choice == machine.certificate_.choice == str(choice)
    monkeypatch.setattr("mercer.approximate.placed_cells.is_affordable", lambda *about: False)
    machine = streamed(SVC(approximation=Cells(150), C=5.0), path, target="y", sample_weight="w")
    assert machine.certificate_.exact_dual == -np.inf
    assert "No lower bound of the exact optimum is computed" in machine.approximation_.reason
    with pytest.raises(ValueError, match="cells of a file"):
        machine.certificate_.verify()


@pytest.mark.parametrize("memory", ["1600kB", "200MB"])
def test_the_command_line_trains_cells_of_files_and_of_tables_in_memory(tmp_path, capsys, memory):
    frame = a_frame()
    path, model = written(frame.drop(columns="y"), tmp_path / "t.csv"), tmp_path / "m.mercer"
    fit = ["fit", str(path), "--target", "t", "--weights", "w", "--memory", memory, "--out", str(model)]
    assert run([*fit, "--approximation", "cells:150", "--epsilon", "0.8"]) == 0
    assert "cells" in capsys.readouterr().out
    assert run(["predict", str(model), str(path), "--memory", "1MB", "--out", str(tmp_path / "p.csv")]) == 0
    residual = read_table(tmp_path / "p.csv")["prediction"] - frame["t"]
    assert residual.std() < frame["t"].std()


@pytest.mark.parametrize("scale_target", [False, True])
def test_landmarks_of_a_regression_in_a_file_are_those_of_the_same_rows_in_memory(tmp_path, monkeypatch, scale_target):
    frame = a_frame()
    path = written(frame.drop(columns=["y", "w"]), tmp_path / "t.parquet")
    X, t = frame[FEATURES].to_numpy(), frame["t"].to_numpy()
    unit = (t.mean(), t.std()) if scale_target else (0.0, 1.0)
    machine = SVR(epsilon=0.5, tol_gap=1e-6, loss="squared_epsilon_insensitive", approximation=Landmarks(40))
    expected = clone(machine).fit(X, (t - unit[0]) / unit[1])
    monkeypatch.setattr("mercer.estimators._kernel_from_file.sample_of_file", lambda way, task: first_rows(task, 2000))
    monkeypatch.setattr("mercer.specs.streamed.StreamedTask.room", lambda task, data: 4000)
    streamed(machine, path, target="t", scale_target=scale_target)
    claim = machine.certificate_
    assert claim.primal == pytest.approx(expected.certificate_.primal, rel=1e-5)
    assert claim.exact_dual == pytest.approx(expected.certificate_.exact_dual, rel=0.02)
    np.testing.assert_allclose(machine.predict(frame), expected.predict(X) * unit[1] + unit[0], atol=1e-3 * t.std())
    np.testing.assert_allclose(model_of_file(machine).predict(frame), machine.predict(frame), atol=1e-9)


def test_rows_of_a_sorted_file_and_a_rare_class_at_its_end_count(tmp_path):
    path, rng = tmp_path / "t.svm", np.random.default_rng(0)
    X = rng.normal(size=(3_000, 4))
    y = np.repeat([0, 1, 2], [1_490, 1_500, 10])
    X[:, :3] += 2.0 * np.eye(3)[y]
    path.write_text("".join(f"{c} 1:{a} 2:{b} 4:{d} 6:{e}\n" for c, (a, b, d, e) in zip(y, X, strict=True)))
    full = np.zeros((3_000, 6))
    full[:, [0, 1, 3, 5]] = X
    machine = streamed(SVC(tol=1e-4), path)
    expected = SVC(tol=1e-4).fit(full, y)
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-6)
    np.testing.assert_array_equal(machine.predict(full), expected.predict(full))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("seconds", [0.0, None])
def test_the_certificate_over_all_rows_is_never_better_than_the_truth(squared, seconds):
    task = a_task(squared=squared, C=2.0)
    rows = task.rows
    limits = Limits(tol=1e-3, max_seconds=seconds)
    machine = train_streamed(task, Control(limits))
    claim = machine.certificate
    assert (claim.status == "optimal") is (seconds is None)
    problem = c_svc(2.0 * rows.labels - 1.0, 2.0 * rows.weights, squared=squared)
    beta = np.zeros(rows.n)
    beta[machine.support.positions] = machine.support.coefficients[:, 0]
    gram = Gram(task.kernel, as_data(rows.table))
    truth = evaluate(problem, gram, beta)
    at_bias = problem.primal(float(beta @ truth.values), truth.values, -machine.biases)
    assert claim.primal == pytest.approx(at_bias, rel=1e-12)
    assert claim.dual == pytest.approx(truth.dual, rel=1e-9, abs=1e-9)
    assert truth.violation <= claim.kkt_violation + 1e-9 <= 2.0 * truth.violation + 2e-3
    assert claim.n_support == np.count_nonzero(beta)


@pytest.mark.parametrize("n_first", [10_000, 20])
def test_a_relative_gap_is_reached(monkeypatch, n_first):
    monkeypatch.setattr("mercer.specs.streamed_training._FIRST", n_first)
    claim = train_streamed(a_task(C=5.0), Control(Limits(tol=0.1, tol_gap=1e-9))).certificate
    assert claim.status == "optimal"
    assert claim.relative_gap <= 1e-9


def test_a_gap_that_rounding_forbids_is_sought_in_few_passes():
    rows = InBlocks(np.ones((2, 3)), np.array([0.0, 1.0]), np.ones(2))
    task = replace(a_task(C=1e4), rows=rows)
    machine = train_streamed(task, Control(Limits(tol=1e-6, tol_gap=1e-30)))
    assert machine.certificate.status == "stalled"
    assert machine.certificate.kkt_violation <= 1e-6
    assert int(machine.reason.split()[0]) < 20  # passes over all rows


def test_rows_join_although_rounding_decides_about_those_in_memory(monkeypatch):
    def ended(training):
        return Status.STALLED if training.solutions[0].beta.size < 100 else None

    monkeypatch.setattr("mercer.specs.streamed_training._FIRST", 20)
    monkeypatch.setattr("mercer.specs.streamed_training._Training._ended", ended)
    assert train_streamed(a_task(), Control()).certificate.status == "optimal"


@pytest.mark.parametrize("is_hopeless", [False, True])
def test_rounds_go_on_with_little_memory_while_the_dual_objective_rises(monkeypatch, is_hopeless):
    monkeypatch.setattr("mercer.specs.streamed_training._FIRST", 20)
    monkeypatch.setattr("mercer.specs.streamed_training._LEAST_GROWTH", 2)
    monkeypatch.setattr("mercer.specs.streamed_training._Training._ended", lambda training: Status.STALLED)
    task = a_task(C=0.1)
    few = int(np.count_nonzero(train_streamed(task, Control()).support.is_support)) + 5
    monkeypatch.setattr("mercer.specs.streamed.StreamedTask.room", lambda task, data: few)
    if is_hopeless:
        monkeypatch.setattr("mercer.specs.streamed_training._RISE", 1.0)
    claim = train_streamed(task, Control()).certificate
    assert claim.status == ("stalled" if is_hopeless else "optimal")


def test_support_vectors_that_do_not_fit_are_an_error_with_bytes():
    task = a_task(memory=10_000)
    with pytest.raises(MemoryError, match=r"do not fit into memory: \d+ of the rows .* Give memory='\d+MB' or more"):
        train_streamed(task, Control())


@pytest.mark.parametrize("insists", [False, True])
def test_ctrl_c_leaves_a_machine_that_says_what_is_proved(monkeypatch, insists):
    monkeypatch.setattr("mercer.specs.streamed_training._FIRST", 200)
    control = Control()

    def stop(progress):
        if progress.stage.startswith("pass"):
            control.interruption.request()
            if insists:
                control.interruption.request()
        return False

    control = replace(control, callback=stop)
    claim = train_streamed(a_task(), control).certificate
    if insists:
        assert claim.status == "unverified"
        assert claim.relative_gap == np.inf
    else:
        assert claim.status == "interrupted"
        assert 1e-3 < claim.relative_gap < 1.0


def test_rules_of_kernels_read_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [1.0, 5.0, 1.0] + 9.0
    rows = InBlocks(X, np.zeros(400), rng.integers(0, 3, 400).astype(float))
    sample = sampled_rows(as_data(X[:7]), rows)
    kernel = RBF("scale") + On(RBF("scale"), (0, 2))
    ours, theirs = kernel.resolve(sample), kernel.resolve(as_data(X), rows.weights)
    values = [one.block(as_data(X[:5]), as_data(X)) for one in (ours, theirs)]
    np.testing.assert_allclose(*values, rtol=1e-12)
    first = first_rows(replace(a_task(), rows=rows, class_weight=None))
    assert (rows.weights[first.positions] > 0.0).all()


@pytest.mark.parametrize("nu", [0.05, 0.2])
@pytest.mark.parametrize("weights", ["w", None])
def test_a_one_class_machine_of_a_file_is_that_of_its_rows_in_memory(tmp_path, monkeypatch, nu, weights):
    monkeypatch.setattr("mercer.specs.streamed_training._FIRST", 50)
    frame = a_frame()
    path = written(frame.drop(columns=["y", "t"]), tmp_path / "t.csv")
    X, w = frame[FEATURES].to_numpy(), np.ones(len(frame)) if weights is None else frame["w"].to_numpy()
    machine = OneClassSVM(nu=nu, tol=1e-6)
    expected = clone(machine).fit(X, None, w)
    streamed(machine, path, sample_weight=weights, drop=["w"] if weights is None else [], memory="1050kB")
    claim = machine.certificate_
    assert claim.status == claim.verify().status == "optimal"
    assert int(machine._streamed.reason.split()[0]) > 1  # passes over all rows
    assert claim.primal == pytest.approx(expected.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(machine.score_samples(frame), expected.score_samples(X), atol=1e-4)
    assert machine.offset_ == pytest.approx(expected.offset_, abs=1e-4)
    assert w[machine.predict(frame) < 0].sum() <= nu * w.sum()
    save_model(tmp_path / "m.mercer", model_of_file(machine))
    model, table = load_model(tmp_path / "m.mercer"), read_table(path)
    np.testing.assert_array_equal(model.predict(table), machine.predict(frame))
    assert verify(model, table).findings == ()
    kind, spec = model.prediction_kind, model.machine_spec
    moved = replace(model, prediction_kind=replace(kind, offset=kind.offset + 0.01))
    for forged in (moved, replace(model, machine_spec=replace(spec, nu=1.1 * nu))):
        assert verify(forged, table).findings


@pytest.mark.parametrize(
    ("about", "fault", "error"),
    [
        ({"nu": 0.9}, "or lower nu", MemoryError),
        ({"contamination": 0.1}, "set contamination=None and nu", ValueError),
        ({"approximation": "landmarks"}, "set approximation=None", ValueError),
    ],
)
def test_what_a_one_class_machine_cannot_do_with_a_file_is_refused(tmp_path, about, fault, error):
    path = written(a_frame().drop(columns=["y", "t", "w"]), tmp_path / "t.csv")
    with pytest.raises(error, match=fault):
        OneClassSVM(**about).fit_file(path, memory="1MB")
    with pytest.raises(ValueError, match=r"OneClassSVM has no target: leave target= out"):
        OneClassSVM(**about).fit_file(path, target="a", memory="1MB")


@pytest.mark.parametrize(
    ("about", "fault"),
    [
        ({"C": np.inf}, "C must be finite"),
        (
            {"approximation": Cells(1500)},
            r"a cell of .* rows does not fit into memory.* Give memory='\d+MB' or more, or take .*cell_rows=\d",
        ),
        ({"approximation": "landmarks"}, r"1,000 landmarks do not fit .* memory='\d+MB' or more, or take fewer"),
        ({"multi_class": "joint"}, "multi_class='joint' needs the rows in memory"),
        ({"probability": True}, "probability=True needs the rows in memory"),
        ({"warm_start": True}, "warm_start=True needs the rows in memory"),
        ({"kernel": Sigmoid(0.1, -1.0)}, "needs a kernel that is known to be positive semidefinite"),
        ({"kernel": "precomputed"}, "needs a kernel"),
        ({"kernel": "rubbish"}, "kernel"),
    ],
)
def test_what_needs_the_rows_in_memory_is_refused(tmp_path, about, fault):
    path = written(a_frame().drop(columns=["t", "w"]), tmp_path / "t.csv")
    with pytest.raises((ValueError, TypeError, MemoryError), match=fault):
        SVC(**about).fit_file(path, target="y", memory="1MB")


def test_a_machine_of_a_file_has_no_rows_to_change_and_forgets_the_file_in_the_next_fit(tmp_path):
    frame = a_frame()
    path = written(frame.drop(columns=["t", "w"]), tmp_path / "t.csv")
    machine = streamed(SVC(kernel=Linear()), path, target="y")
    assert machine.coef_.shape == (1, len(FEATURES))
    for ask in (lambda: machine.solution_, lambda: machine.forget([0]), lambda: machine.certificate_.examples()):
        with pytest.raises((AttributeError, ValueError, TypeError), match="file"):
            ask()
    machine.fit(frame[FEATURES].to_numpy(), frame["y"])
    assert not hasattr(machine, "training_file_")
    assert machine.certificate_.status == machine.solution_.certificate.status


def test_a_time_limit_is_heard_and_warned_of(tmp_path):
    path = written(a_frame().drop(columns=["t", "w"]), tmp_path / "t.csv")
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        machine = SVC(max_seconds=1e-9).fit_file(path, target="y", memory="1MB")
    assert machine.certificate_.status == "time_limit"
    assert np.isfinite(machine.certificate_.relative_gap)


def test_landmarks_of_a_file_hear_a_time_limit_and_ctrl_c(tmp_path):
    path = written(a_frame().drop(columns=["t", "w"]), tmp_path / "t.csv")
    machine = SVC(approximation=Landmarks(40), max_seconds=1e-9)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        machine.fit_file(path, target="y", memory="1MB")
    claim = machine.certificate_
    assert claim.status == "time_limit"
    assert machine.support_.size < 40
    assert claim.exact_dual <= claim.exact_primal < np.inf

    def stop(progress):
        if progress.stage == "features of all rows":
            os.kill(os.getpid(), signal.SIGINT)
        return False

    machine = SVC(approximation=Landmarks(40), callback=stop)
    with pytest.raises(KeyboardInterrupt):
        machine.fit_file(path, target="y", memory="1MB")
    features = 4 * 40 * 2_000
    left = [one for one in tmp_path.rglob("*") if one.stat().st_size >= features and "fit-" not in one.parent.name]
    assert not left  # they are gone; a checkpoint, which work of more than half a second writes, stays
    assert not hasattr(machine, "approximation_")


@pytest.mark.parametrize("memory", ["1100kB", "200MB"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_of_a_file_predicts_tables_after_it_was_saved(tmp_path, memory, n_classes):
    frame = a_frame(n_classes=n_classes)
    path = written(frame.drop(columns=["t", "w"]), tmp_path / "t.csv")
    machine = SVC(C=20.0, kernel="poly", tol=0.01).fit_file(path, target="y", memory=memory, scale=True)
    assert hasattr(machine, "_streamed") is (memory == "1100kB")
    save_model(tmp_path / "m.mercer", model_of_file(machine))
    loaded, table = load_model(tmp_path / "m.mercer"), read_table(path)
    assert loaded.training.n_rows == len(frame)
    assert loaded.certificate.gap == machine.certificate_.gap
    np.testing.assert_array_equal(loaded.predict(table), machine.predict(frame))


@pytest.mark.parametrize("approximation", [None, Landmarks(30)])
@pytest.mark.parametrize(
    "machine",
    [
        SVC(class_weight="balanced", decision_function_shape="ovr"),
        SVC(loss="squared_hinge", fit_intercept=False, multi_class="ovr"),
        SVR(epsilon=1.0, loss="squared_epsilon_insensitive"),
    ],
)
def test_a_model_of_a_file_is_verified_by_its_table_as_a_whole_or_in_parts(tmp_path, machine, approximation):
    frame = a_frame(n_classes=3)
    target, other = ("t", "y") if isinstance(machine, SVR) else ("y", "t")
    path = written(frame.drop(columns=other), tmp_path / "t.csv")
    machine = clone(machine).set_params(approximation=approximation)
    streamed(machine, path, target=target, sample_weight="w", scale_target=target == "t")
    save_model(tmp_path / "m.mercer", model_of_file(machine))
    model, table = load_model(tmp_path / "m.mercer"), read_table(path)
    for rows in (table, read_tables(path, memory="1MB")):
        verification = verify(model, rows)
        assert verification.findings == ()
        assert verification.recomputed.status == machine.certificate_.status
        assert verification.recomputed.primal == pytest.approx(machine.certificate_.primal, rel=1e-9)
    for changed, fault in (
        (frame.iloc[:-1], "2,000 rows, and this one has 1,999"),
        (frame.drop(columns="w"), "no column 'w'"),
        (frame.iloc[::-1], "not the table"),
        (frame.assign(**{target: frame[target].to_numpy()[::-1]}), "in the file and"),
        (frame.assign(w=frame["w"] + (frame["w"] > 0)), "in the file and"),
    ):
        assert fault in " ".join(verify(model, changed.drop(columns=other)).findings)
    first = model.parts[0]
    claims = {"exact_primal": 0.9 * first.certificate.exact_primal} if approximation else {"kkt_violation": 0.0}
    forgeries = [
        replace(first, bias=first.bias + 0.01),
        replace(first, beta=1.01 * first.beta),
        replace(first, certificate=replace(first.certificate, **claims)),
    ]
    if approximation is None:
        forgeries.append(replace(first, certificate=replace(first.certificate, dual=first.certificate.dual + 1.0)))
    elif np.isfinite(first.certificate.exact_dual):
        better = replace(first.certificate, exact_dual=1.01 * first.certificate.exact_dual)
        forgeries.append(replace(first, certificate=better))
    for forged in forgeries:
        assert verify(replace(model, parts=(forged, *model.parts[1:])), table).findings


def test_rows_of_a_file_count_the_rounding_of_targets_far_from_0():
    X = np.random.default_rng(0).normal(size=(300, 3))
    rows = InBlocks(X, 1e9 + X[:, 0], np.ones(300))
    task = StreamedTask(ForSVR(epsilon=0.1), RBF(0.3), rows, None, "ovo", 10**6, 10**8, 1)
    outside = look(task, as_data(X[:1]), np.zeros((1, 1)), [np.array([-1e9])], np.zeros(0, dtype=np.int64))
    assert outside.rounding >= np.spacing(1e9)


def test_the_violation_of_a_model_counts_the_rows_that_it_does_not_list():
    problem, beta = c_svc([-1.0, 1.0], 1.0), np.array([-0.5, 0.5])
    for too_large, too_small, expected in ((0.3, 0.0, 0.3), (0.0, 0.2, 0.2), (0.3, 0.2, 0.5)):
        outside = replace(Outside.nothing(1), too_large=np.array([too_large]), too_small=np.array([too_small]))
        violation = _violation(problem, beta, np.array([-1.0, 1.0]), 0.0, 0.1, outside, 0)
        assert violation == pytest.approx(expected)


def test_the_command_line_fits_and_predicts_in_parts(tmp_path, capsys):
    frame = a_frame()
    path, model = written(frame.drop(columns="w"), tmp_path / "t.csv"), tmp_path / "m.mercer"
    fit = ["fit", str(path), "--target", "y", "--drop", "t", "--memory", "1MB", "--out", str(model)]
    assert run(fit) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "certified optimal" in said
    assert "of 2,000 training rows" in said
    assert run([*fit, "--force", "--approximation", "auto"]) == 0
    assert "approximation='auto' chose" in " ".join(capsys.readouterr().out.split())
    assert run(["predict", str(model), str(path), "--memory", "1MB", "--out", str(tmp_path / "p.csv")]) == 0
    assert np.mean(read_table(tmp_path / "p.csv")["label"] == frame["y"]) > 0.7
    for memory in ([], ["--memory", "1MB"]):
        assert run(["verify", str(model), str(path), *memory]) == 0
    one_class = [*fit[:2], "--machine", "one-class", "--nu", "0.1", "--drop", "y", *fit[4:], "--force"]
    assert run(one_class) == 0
    assert run(["verify", str(model), str(path), "--memory", "1MB"]) == 0
    capsys.readouterr()
    assert run([*fit, "--force", "--gamma", "40"]) != 0
    assert "Give --memory" in capsys.readouterr().err


@pytest.fixture
def often(monkeypatch):
    """Write a state after every part of the work."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "_SHARE", 1e9)


def trained_in(folder, task, **limits):
    with Checkpoint.opened(folder, dict) as checkpoint:
        return train_streamed(task, Control(Limits(tol=1e-6, **limits), checkpoint=checkpoint))


@pytest.mark.parametrize("moment", [1, 2, 3, 5])
def test_training_that_was_stopped_continues_with_its_rows_and_its_points(moment, often, tmp_path, monkeypatch):
    task = a_task(memory=40_000, C=5.0)
    expected = train_streamed(task, Control(Limits(tol=1e-6)))
    with stopping_at(moment, monkeypatch):
        trained_in(tmp_path, task)
    machine = trained_in(tmp_path, task)
    assert machine.certificate.status == machine.certificate.verify().status == "optimal"
    assert machine.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-6)
    again = trained_in(tmp_path, task)  # starts at the optimum
    assert again.n_iter[0] <= max(3, expected.n_iter[0] // 5)
    # With less memory, support vectors alone are read again.
    smaller = trained_in(tmp_path, replace(task, memory=task.memory * 4 // 5))
    assert smaller.certificate.status == "optimal"
    assert smaller.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("damage", ["order", "number", "shape", "weight", "header"])
def test_rows_of_a_damaged_state_are_not_read(damage, often, tmp_path):
    task = a_task(memory=40_000)
    task.rows.weights[7] = 0.0
    expected = trained_in(tmp_path, task)
    positions, points = np.array([3, 9, 12]), np.zeros((1, 3))
    changed = {
        "order": {"positions": positions[::-1]},
        "number": {"positions": positions + 899},
        "shape": {"points": np.zeros((2, 3))},
        "weight": {"positions": np.array([3, 7, 9])},
    }
    header = {} if damage == "header" else {"tol": 1e-7, "n_passes": 2}
    for path in tmp_path.glob("rows-*.bin"):
        write_checked(path, header, {"positions": positions, "points": points} | changed.get(damage, {}))
    with pytest.warns(UserWarning, match="is damaged and is not used"):
        machine = trained_in(tmp_path, task)
    assert machine.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("moment", [1, 4])
def test_landmarks_of_a_file_continue(moment, often, tmp_path, monkeypatch):
    path = written(a_frame(n_classes=3).drop(columns=["t", "w"]), tmp_path / "t.csv")
    about, machine = {"target": "y", "memory": "1600kB"}, SVC(approximation=Landmarks(40), max_iter=9)
    expected = clone(machine).set_params(max_iter=-1).fit_file(path, **about)
    with stopping_at(moment, monkeypatch):
        machine.fit_file(path, **about)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit_file(path, **about)  # whose states stay, as it is not optimal
    (folder,) = (tmp_path / "t.csv.blocks").glob("fit-*")
    assert list(folder.glob("landmarks-40-of-*.bin"))
    monkeypatch.setattr("mercer.approximate.landmarks.draw", lambda *_: pytest.fail("landmarks are drawn again"))
    machine.set_params(max_iter=-1).fit_file(path, **about)
    assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=2e-3)
    assert not folder.exists()


@pytest.mark.parametrize("memory", ["1100kB", "50MB"])
def test_a_fit_on_a_file_continues_and_removes_its_states_in_the_end(memory, often, tmp_path, monkeypatch):
    frame, blocks = a_frame(), tmp_path / "t.csv.blocks"
    path = written(frame.drop(columns=["t", "w"]), tmp_path / "t.csv")
    about = {"target": "y", "memory": memory}
    expected = SVC(C=3.0, tol=1e-5).fit(frame[FEATURES].to_numpy(), frame["y"])
    with stopping_at(3, monkeypatch):
        SVC(C=3.0, tol=1e-5).fit_file(path, **about)
    (folder,) = blocks.glob("fit-*")
    assert list(folder.glob("*.bin"))
    shutil.copytree(folder, tmp_path / "states")
    machine = SVC(C=3.0, tol=1e-5).fit_file(path, **about)
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-6)
    assert not list(blocks.glob("fit-*"))
    shutil.copytree(tmp_path / "states", folder)
    with pytest.warns(ConvergenceWarning):
        SVC(C=2.0, tol=1e-5, max_iter=1).fit_file(path, **about)  # another machine: its states take their place
    assert folder not in blocks.glob("fit-*")
    assert len(list(blocks.glob("fit-*"))) == 1


KILLED = """
import os, signal, sys
from mercer import SVC
from mercer.data.files import checkpoint
checkpoint.SECONDS, checkpoint._SHARE = 0.0, 1e9
save, count = checkpoint.Generations.save, [0]
def dying(self, *about):
    save(self, *about)
    count[0] += 1
    if count[0] == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint.Generations.save = dying
SVC(C=3.0, tol=1e-5).fit_file(sys.argv[1], target="y", memory="1100kB")
"""


@pytest.mark.slow
def test_a_fit_on_a_file_that_is_killed_again_and_again_continues(tmp_path):
    frame = a_frame()
    path = written(frame.drop(columns=["t", "w"]), tmp_path / "t.csv")
    for moment in (1, 2, 3, 4):
        done = subprocess.run([sys.executable, "-c", KILLED, str(path), str(moment)], check=False)
        assert done.returncode == -signal.SIGKILL
    machine = streamed(SVC(C=3.0, tol=1e-5), path, target="y")
    expected = SVC(C=3.0, tol=1e-5).fit(frame[FEATURES].to_numpy(), frame["y"])
    assert machine.certificate_.verify().status == "optimal"
    assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-6)
