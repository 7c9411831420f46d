"""Linear machines that are fitted on files larger than memory: the same optimum, checkpoints, and budgets."""

import os
import random
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import LinearSVC, LinearSVR, LogisticRegression, save_libsvm_data
from mercer.certificates.solution import Limits
from mercer.data.files import Checkpoint
from mercer.data.files.checkpoint import Generations
from mercer.data.table import TableError
from mercer.solvers import Control
from mercer.solvers.rows import Hinge, LinearPoint, LinearProblem, SquaredHinge, TableRows, solve
from mercer.solvers.rows.sample_start import start_from_sample
from mercer.solvers.rows.states import read_point, state_of
from mercer.studies.cli import run
from mercer.studies.files.table_files import read_table
from mercer.studies.models import ModelFileError, load_model, model_of_file, save_model, verify
from mercer.studies.tables.encoding import TableEncoder
from pairs import every_pair


def a_problem(loss, n=300, p=5, C=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(float)
    return LinearProblem(TableRows(X, y), loss, C, positive=1)


def test_the_joint_machine_needs_the_rows_in_memory(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{k},{k % 3}\n" for k in range(30)))
    with pytest.raises(ValueError, match="needs the rows in memory"):
        LinearSVC(multi_class="crammer_singer").fit_file(tmp_path / "t.csv", target="y")


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
def test_a_fit_continues_from_the_point_of_its_last_checkpoint(tmp_path, loss):
    problem = a_problem(loss)
    control = Control(Limits(tol_gap=1e-9))
    states, read = Generations(tmp_path, option="checkpoint"), partial(read_point, rows=problem.rows)
    full = solve(problem, control, after_step=lambda point: states.save("machine-0", *state_of(point(), 300)))
    again = Checkpoint(tmp_path).load_file("machine-0", read)
    assert len(list(tmp_path.iterdir())) == 2
    continued = solve(problem, Control(Limits(tol_gap=1e-9)), start=again)
    assert continued.n_iter < 0.4 * full.n_iter
    assert continued.certificate.relative_gap <= 1e-9
    np.testing.assert_allclose(continued.w, full.w, atol=1e-4)
    newest = max(tmp_path.iterdir(), key=lambda path: int(path.stem.rpartition("-")[2]))
    newest.write_bytes(newest.read_bytes()[:-8])
    with pytest.warns(UserWarning, match="is damaged and is not used"):
        older = Checkpoint(tmp_path).load_file("machine-0", read)
    assert not np.array_equal(older.beta[:], again.beta[:])


@pytest.mark.parametrize(("loss", "least_saved"), [(Hinge(), 3), (SquaredHinge(), 0)])
def test_the_optimum_of_a_sample_is_a_good_start(loss, least_saved):
    problem = a_problem(loss, n=6_000)
    rows = problem.rows
    sample = TableRows(rows.table[::10], rows.labels[::10], rows.weights[::10])
    start = start_from_sample(problem, sample, Control())
    begun, fresh = (solve(problem, Control(), start=one) for one in (start, None))
    assert begun.certificate.status == fresh.certificate.status == "optimal"
    assert begun.n_iter + least_saved <= fresh.n_iter
    assert begun.certificate.primal == pytest.approx(fresh.certificate.primal, rel=1e-4)


def test_a_sample_of_one_class_or_of_few_rows_is_no_start():
    problem = a_problem(Hinge(), n=6_000)
    rows = problem.rows
    one_class = TableRows(rows.table[:1_000], np.ones(1_000))
    few = TableRows(rows.table[:20], rows.labels[:20])
    assert start_from_sample(problem, one_class, Control()) is None
    assert start_from_sample(problem, few, Control()) is None


def a_frame(n=2_000, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    frame["whole"] = rng.integers(-3, 4, n)
    score = frame["a"] - 0.5 * frame["b"] + 0.2 * frame["whole"] + 0.7 * rng.normal(size=n)
    frame["y"] = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes)) + 3
    frame["t"] = score.round(6)
    frame["w"] = rng.integers(0, 4, n)
    return frame


FEATURES = ["a", "b", "c", "d", "whole"]


def written(frame, path, rows=600):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False, row_group_size=rows)
    else:
        frame.to_csv(path, index=False)
    return path


@every_pair(memory=["1MB", "2MB", "500MB"], ending=["csv", "csv.gz", "parquet"], loss=["hinge", "squared_hinge"])
def test_the_optimum_is_that_of_a_fit_in_memory(tmp_path, memory, ending, loss):
    frame = a_frame()
    path = written(frame.drop(columns=["t", "w"]), tmp_path / f"t.{ending}")
    machine = LinearSVC(loss=loss, tol_gap=1e-9).fit_file(path, target="y", memory=memory)
    expected = LinearSVC(loss=loss, tol_gap=1e-9).fit(frame[FEATURES].to_numpy(), frame["y"])
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.verify().relative_gap <= 1e-9
    np.testing.assert_allclose(machine.coef_, expected.coef_, rtol=1e-7)
    np.testing.assert_allclose(machine.intercept_, expected.intercept_, rtol=1e-7)
    np.testing.assert_array_equal(machine.classes_, expected.classes_)
    np.testing.assert_array_equal(
        machine.predict(frame[FEATURES].to_numpy()), expected.predict(frame[FEATURES].to_numpy())
    )
    assert machine.encoder_.feature_names_ == tuple(FEATURES)


@pytest.mark.parametrize("class_weight", [None, "balanced", {3: 2.0, 4: 0.5, 5: 1.0}])
def test_classes_and_weights_count_as_in_memory(tmp_path, class_weight):
    frame = a_frame(n_classes=3)
    path = written(frame.drop(columns="t"), tmp_path / "t.csv")
    machine = LinearSVC(class_weight=class_weight, tol_gap=1e-9)
    X, y, w = frame[FEATURES].to_numpy(), frame["y"], frame["w"]
    expected = clone(machine).fit(X, y, w)
    machine.fit_file(path, target="y", sample_weight="w", memory="1MB")
    np.testing.assert_allclose(machine.coef_, expected.coef_, rtol=1e-7)
    np.testing.assert_array_equal(machine.class_weight_, expected.class_weight_)
    assert len(machine.solution_) == 3


def test_booleans_of_a_parquet_file_are_predicted_as_booleans(tmp_path):
    frame = a_frame().drop(columns=["t", "w"])
    frame["y"] = frame["y"] == frame["y"][0]
    path = written(frame, tmp_path / "t.parquet")
    machine = LinearSVC(class_weight={True: 2.0, False: 1.0}).fit_file(path, target="y")
    assert (machine.classes_.tolist(), machine.classes_.dtype, machine.class_weight_.tolist()) == (
        [False, True],
        bool,
        [1, 2],
    )
    save_model(tmp_path / "m.mercer", model_of_file(machine))
    predicted = load_model(tmp_path / "m.mercer").predict(frame)
    assert predicted.dtype == bool
    np.testing.assert_array_equal(predicted, machine.predict(frame[FEATURES].to_numpy()))


def test_regression_is_as_in_memory(tmp_path):
    frame = a_frame()
    path = written(frame.drop(columns="y"), tmp_path / "t.parquet")
    machine = LinearSVR(epsilon=0.1, tol_gap=1e-9).fit_file(path, target="t", sample_weight="w", memory="1MB")
    expected = LinearSVR(epsilon=0.1, tol_gap=1e-9).fit(frame[FEATURES].to_numpy(), frame["t"], frame["w"])
    np.testing.assert_allclose(machine.coef_, expected.coef_, rtol=1e-7)
    assert machine.coef_.shape == (5,)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression_is_as_in_memory(tmp_path, n_classes):
    frame = a_frame(n_classes=n_classes)
    path, X = written(frame.drop(columns=["t", "w"]), tmp_path / "t.csv"), frame[FEATURES].to_numpy()
    machine = LogisticRegression(multi_class="ovr", tol_gap=1e-9).fit_file(path, target="y", memory="1MB")
    expected = LogisticRegression(multi_class="ovr", tol_gap=1e-9, tol=1e-9).fit(X, frame["y"])
    np.testing.assert_allclose(machine.coef_, expected.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(machine.predict_proba(X), expected.predict_proba(X), atol=1e-4)
    model = model_of_file(machine)
    save_model(tmp_path / "m.mercer", model)
    np.testing.assert_allclose(
        load_model(tmp_path / "m.mercer").probabilities(read_table(path)), machine.predict_proba(X), atol=1e-9
    )
    machine.fit(X, frame["y"])
    assert not hasattr(machine, "training_file_")


def test_the_softmax_loss_of_several_classes_on_a_file(tmp_path, monkeypatch):
    path = written(a_frame(n_classes=3).drop(columns=["t", "w"]), tmp_path / "t.csv")
    memory = LogisticRegression(tol_gap=1e-9).fit_file(path, target="y")
    monkeypatch.setattr("mercer.studies.files.blocks.budget.Budget.rows", property(lambda _: 20_000))
    machine = LogisticRegression(tol_gap=1e-9).fit_file(path, target="y")
    assert machine.solution_.solver == "newton on sums over the rows" != memory.solution_.solver
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.verify().relative_gap <= 1e-9
    np.testing.assert_allclose(machine.coef_, memory.coef_, atol=1e-6)
    save_model(tmp_path / "m.mercer", model_of_file(machine))
    table = read_table(path)
    np.testing.assert_allclose(
        load_model(tmp_path / "m.mercer").probabilities(table),
        memory.predict_proba(machine.encoder_.transform(table)),
        atol=1e-6,
    )
    with pytest.raises(ValueError, match='need multi_class="ovr"'):
        LogisticRegression(l1_ratio=1.0).fit_file(path, target="y")


@pytest.mark.parametrize("machine", [LinearSVC(), LogisticRegression()], ids=str)
def test_columns_of_svmlight_that_exceed_the_memory_are_refused(tmp_path, machine):
    (tmp_path / "wide.svm").write_text("1 1:1 3:2\n-1 2:2 20000000:1\n" * 9)
    with pytest.raises(MemoryError, match=r"20,000,00\d columns"):
        machine.fit_file(tmp_path / "wide.svm", memory="20MB")


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight_is_as_in_memory(tmp_path, zero_based):
    rng = np.random.default_rng(0)
    X = sparse.random_array((1_500, 30), density=0.3, random_state=rng, format="csr")
    y = np.where(X[:, [0]].toarray().ravel() + 0.1 * rng.normal(size=1_500) > 0.1, 1, -1)
    save_libsvm_data(X, y, tmp_path / "t.svm", zero_based=zero_based)
    machine = LinearSVC(tol_gap=1e-9).fit_file(tmp_path / "t.svm", memory="1MB", zero_based=zero_based)
    expected = LinearSVC(tol_gap=1e-9).fit(X, y)
    np.testing.assert_allclose(machine.coef_, expected.coef_, rtol=1e-7)
    assert machine.encoder_ is None
    assert machine.score(X, y) == expected.score(X, y)


def test_categories_and_missing_cells_are_encoded_as_in_memory(tmp_path):
    frame = a_frame()
    rng = np.random.default_rng(3)
    frame["town"] = rng.choice(["Oslo", "Rome", "Lima"], len(frame))
    frame.loc[rng.random(len(frame)) < 0.1, "c"] = np.nan
    frame.loc[rng.random(len(frame)) < 0.02, "town"] = None
    frame["y"] = np.where(frame["y"] == 3, "low", "high")
    path = written(frame.drop(columns=["t", "w"]), tmp_path / "t.csv")
    machine = LinearSVC(tol_gap=1e-9).fit_file(path, target="y", memory="1MB", scale=True)
    table = read_table(path)
    encoder = TableEncoder(missing="impute").fit(table.without(["y"]))
    expected = LinearSVC(tol_gap=1e-9).fit(encoder.transform(table), table["y"].astype(str))
    np.testing.assert_allclose(machine.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(
        machine.predict(machine.encoder_.transform(table)), expected.predict(encoder.transform(table))
    )
    with pytest.raises(TableError, match=r"missing values in 'c' \(\d+ of 2,000 rows\)"):
        LinearSVC().fit_file(path, target="y", missing="error")


def test_a_second_fit_does_not_parse_the_file_again(tmp_path):
    path = written(a_frame().drop(columns=["t", "w"]), tmp_path / "t.csv")
    LinearSVC().fit_file(path, target="y", memory="1MB")
    blocks = {one: os.stat(one).st_mtime_ns for one in (tmp_path / "t.csv.blocks").glob("block-*")}
    assert len(blocks) > 10
    stages = []
    LinearSVC(C=0.1).fit_file(path, target="y", memory="1MB", progress=lambda one: stages.append(one.stage))
    assert {one: os.stat(one).st_mtime_ns for one in blocks} == blocks
    assert "parse" not in stages
    assert sorted(one.name for one in (tmp_path / "t.csv.blocks").glob("*")) == sorted(
        ["lock", "manifest.json", *(one.name for one in blocks)]
    )


def test_progress_has_the_bytes_and_the_time_left(tmp_path):
    path = written(a_frame().drop(columns=["t", "w"]), tmp_path / "t.csv")
    seen = []
    LinearSVC(loss="hinge", tol_gap=1e-8).fit_file(path, target="y", memory="1MB", progress=seen.append)
    parsed = [one for one in seen if one.stage == "parse"]
    assert parsed[-1].done == parsed[-1].total == path.stat().st_size
    assert all(one.seconds_left is not None for one in parsed[1:-1])
    solved = [one for one in seen if one.stage == "solve"]
    assert any("to come down to 1e-08" in one.note for one in solved)


@pytest.mark.parametrize("stop", [1, 2])
def test_a_stopped_fit_leaves_a_machine_that_says_how_far_it_is_and_the_next_one_continues(tmp_path, stop):
    path = written(a_frame().drop(columns=["t", "w"]), tmp_path / "t.csv")
    machine = LinearSVC(loss="hinge", tol_gap=1e-10, max_iter=8 * stop)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        machine.fit_file(path, target="y", memory="1MB")
    assert machine.certificate_.status == "max_iter"
    assert 1e-10 < machine.certificate_.relative_gap < 1.0
    assert machine.predict(np.zeros((1, 5))).shape == (1,)
    machine.set_params(max_iter=-1).fit_file(path, target="y", memory="1MB")
    fresh = LinearSVC(loss="hinge", tol_gap=1e-10).fit_file(path, target="y", cache=tmp_path / "other")
    assert machine.certificate_.status == "optimal"
    assert machine.n_iter_ < fresh.n_iter_
    np.testing.assert_allclose(machine.coef_, fresh.coef_, rtol=1e-3)


def test_ctrl_c_in_the_solver_leaves_a_machine(tmp_path):
    path = written(a_frame().drop(columns=["t", "w"]), tmp_path / "t.csv")
    machine = LinearSVC(loss="hinge", tol_gap=1e-10, callback=lambda progress: os.kill(os.getpid(), signal.SIGINT))
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        machine.fit_file(path, target="y", memory="1MB")
    assert machine.certificate_.status == "interrupted"
    assert np.isfinite(machine.certificate_.gap)


CHILD = """
import sys
from mercer import LinearSVC
from mercer.data.files import checkpoint
checkpoint.SECONDS, checkpoint._SHARE = 0.0, 1e9
save = checkpoint.Generations.save
def telling(self, *about):
    save(self, *about)
    print("saved", flush=True)
checkpoint.Generations.save = telling
def tell(progress):
    if progress.stage == "parse":
        print("parsed", flush=True)
LinearSVC(loss="hinge", tol_gap=1e-9).fit_file(sys.argv[1], target="y", memory="1MB", progress=tell)
"""


def killed(path, moment):
    """Fit in another process, and kill it after it has printed so many lines."""
    with subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if len(lines) >= moment:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.close()
        process.wait()
    return lines


def check_that_a_killed_fit_continues(folder, moments):
    frame = a_frame()
    path = written(frame.drop(columns=["t", "w"]), folder / "t.csv")
    expected = LinearSVC(loss="hinge", tol_gap=1e-9).fit(frame[FEATURES].to_numpy(), frame["y"])
    finished = {}
    for moment in moments:
        killed(path, moment)
        blocks = {one: one.stat().st_mtime_ns for one in (folder / "t.csv.blocks").glob("block-*")}
        assert all(blocks[one] == stamp for one, stamp in finished.items()), "a finished block was parsed again"
        finished = blocks
    machine = LinearSVC(loss="hinge", tol_gap=1e-9).fit_file(path, target="y", memory="1MB")
    assert all(one.stat().st_mtime_ns == stamp for one, stamp in finished.items())
    np.testing.assert_allclose(machine.coef_, expected.coef_, rtol=1e-4, atol=1e-6)
    assert machine.certificate_.relative_gap <= 1e-9
    assert not list((folder / "t.csv.blocks").glob("*.tmp"))
    return machine, expected


def test_a_killed_fit_loses_nothing_that_was_finished(tmp_path):
    machine, expected = check_that_a_killed_fit_continues(tmp_path, [4, 14])
    assert machine.n_iter_ < expected.n_iter_


@pytest.mark.slow
def test_fits_that_are_killed_at_twenty_random_moments_lose_nothing(tmp_path):
    rng = random.Random(0)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        check_that_a_killed_fit_continues(tmp_path / str(number), [rng.randrange(1, 30) for _ in range(5)])


@contextmanager
def files_up_to(n_bytes):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_while_parsing_keeps_what_was_finished(tmp_path):
    frame = a_frame().drop(columns=["t", "w"])
    path = written(frame, tmp_path / "t.csv")
    with files_up_to(1_000), pytest.raises(OSError, match=r"needs \d,\d{3} bytes, for which there is no space"):
        LinearSVC().fit_file(path, target="y", memory="1MB")
    machine = LinearSVC().fit_file(path, target="y", memory="1MB")
    assert machine.certificate_.status == "optimal"


def test_a_disk_that_is_full_at_a_checkpoint_keeps_the_last_one(tmp_path):
    problem = a_problem(Hinge(), n=3_000)
    checkpoint, point = Checkpoint(tmp_path), LinearPoint(np.ones(6), np.arange(3_000.0), 1.0, 2.0)
    checkpoint.pend("machine-0", partial(state_of, point, 3_000))
    checkpoint.write()
    checkpoint.pend("machine-0", partial(state_of, LinearPoint(np.zeros(6), np.zeros(3_000), 1.0, 2.0), 3_000))
    with (
        files_up_to(10_000),
        pytest.warns(UserWarning, match=r"0-1.bin needs 24,\d{3} bytes.* The work goes on"),
    ):
        checkpoint.write()
    assert [one.name for one in tmp_path.iterdir()] == ["machine-0-0.bin"]
    loaded = checkpoint.load_file("machine-0", partial(read_point, rows=problem.rows))
    np.testing.assert_array_equal(loaded.beta[:], point.beta)
    assert loaded.factor == 2.0


def test_a_disk_that_is_full_leaves_models_and_predictions_as_they_were(tmp_path, capsys):
    path, model = with_towns(tmp_path), tmp_path / "m.mercer"
    fit = ("fit", path, "--target", "y", "--drop", "t", "--machine", "linear-svc", "--out", model, "--force")
    assert commanded(capsys, *fit)[0] == 0
    before, predict = model.read_bytes(), ("predict", model, path, "--out", tmp_path / "p.csv")
    for arguments in (fit, predict, (*predict, "--memory", "1MB")):
        with files_up_to(1_000):
            status, _, err = commanded(capsys, *arguments)
        assert status == 1
        assert f"{arguments[arguments.index('--out') + 1]} cannot be read or written: there is no space for it" in err
    assert model.read_bytes() == before
    assert not (tmp_path / "p.csv").exists()


MEMORY = """
import resource, sys
from mercer import LinearSVC
small, large, memory = sys.argv[1:]
LinearSVC().fit_file(small, target="y", memory=memory)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
machine = LinearSVC().fit_file(large, target="y", memory=memory)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, machine.certificate_.status,
      machine.certificate_.peak_memory_bytes)
"""


@pytest.mark.parametrize(
    ("ending", "rows"),
    [("csv", 0), *(pytest.param("parquet", rows, marks=pytest.mark.full) for rows in (600, 10**6))],
)
def test_memory_stays_within_the_budget(tmp_path, ending, rows):
    frame = a_frame(20_000).drop(columns=["t", "w"])
    small = written(frame[:3_000], tmp_path / f"small.{ending}")
    large = written(pd.concat([frame] * 3), tmp_path / f"large.{ending}", rows)
    run = [sys.executable, "-c", MEMORY, str(small), str(large), "3MB"]
    grown, status, reported = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert status == "optimal"
    assert int(grown) < 3e6
    assert int(reported) < 3e6
    blocks = sum(one.stat().st_size for one in (tmp_path / f"large.{ending}.blocks").iterdir())
    assert blocks > 2.5e6


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"memory": "lots"}, "memory must be a number of bytes, or text such as '500MB'"),
        ({"memory": "12kB"}, "memory must be at least 1 MB"),
        ({"memory": True}, "memory must be a number"),
        ({"scale": "yes"}, "scale must be"),
        ({"missing": "drop"}, "missing must be"),
        ({"target": "z"}, "in t.csv, there is no column 'z'"),
    ],
)
def test_invalid_options_are_named(tmp_path, options, fault):
    path = written(a_frame(100), tmp_path / "t.csv")
    with pytest.raises(ValueError, match=fault):
        LinearSVC().fit_file(path, **{"target": "y", **options})
    assert not (tmp_path / "t.csv.blocks").exists()


def test_a_file_of_one_class_is_refused(tmp_path):
    frame = a_frame(100)
    frame["y"] = 1
    with pytest.raises(ValueError, match="one class"):
        LinearSVC().fit_file(written(frame, tmp_path / "t.csv"), target="y")


def with_towns(folder):
    frame = a_frame()
    frame["town"] = np.random.default_rng(3).choice(["Oslo", "Rome", "Lima"], len(frame))
    frame["number"] = np.arange(1, len(frame) + 1)
    return written(frame.drop(columns="w"), folder / "t.csv")


@pytest.mark.parametrize("ending", ["csv", "svm"])
def test_a_model_of_a_file_predicts_tables_after_it_was_saved(tmp_path, ending):
    if ending == "csv":
        path, target = with_towns(tmp_path), "y"
        machine = LinearSVC().fit_file(path, target="y", drop=["t"], scale=True)
        values = machine.decision_function(machine.encoder_.transform(read_table(path)))
    else:
        path, target = tmp_path / "t.svm", "label"
        path.write_text("".join(f"{k % 2} 1:{k % 7} 4:{k % 2 + k % 5}\n" for k in range(300)))
        machine = LinearSVC().fit_file(path, zero_based=True)
        values = machine.decision_function(read_table(path).sparse)
    model = model_of_file(machine)
    save_model(tmp_path / "m.mercer", model)
    loaded, table = load_model(tmp_path / "m.mercer"), read_table(path)
    assert loaded.target == target
    assert loaded.training.n_rows == table.n_rows
    assert loaded.certificate.gap == machine.certificate_.gap
    np.testing.assert_array_equal(loaded.predict(table), machine.classes_[(values > 0).astype(int)])
    np.testing.assert_allclose(loaded.scores(table), values, rtol=1e-9, atol=1e-9)
    verification = verify(loaded, table)
    assert not verification.ok
    assert "was streamed" in verification.findings[0]


def test_a_regression_on_a_file_becomes_a_model(tmp_path):
    path = with_towns(tmp_path)
    model = model_of_file(LinearSVR().fit_file(path, target="t", drop=["y"], memory="1MB"))
    save_model(tmp_path / "m.mercer", model)
    table = read_table(path)
    np.testing.assert_allclose(load_model(tmp_path / "m.mercer").predict(table), model.predict(table))
    assert np.corrcoef(model.predict(table), table["t"])[0, 1] > 0.7


def test_only_machines_of_files_become_such_models(tmp_path):
    machine = LinearSVC().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="was not trained by fit_file"):
        model_of_file(machine)
    (tmp_path / "t.svm").write_text("1 1:2\n0 1:1\n" * 9)
    with pytest.raises(ValueError, match="zero_based=True"):
        model_of_file(machine.fit_file(tmp_path / "t.svm"))
    with pytest.raises(ValueError, match="was not trained by fit_file"):
        model_of_file(machine.fit(np.eye(4), [0, 1, 0, 1]))


@pytest.mark.parametrize("n_rows", [-1, 1, "9", 10**30, True])
def test_a_forged_number_of_streamed_rows_is_refused(tmp_path, n_rows):
    model = model_of_file(LinearSVC().fit_file(with_towns(tmp_path), target="y", drop=["t"]))
    with pytest.raises(ModelFileError, match="streamed training rows"):
        save_model(tmp_path / "m.mercer", replace(model, training=replace(model.training, n_streamed=n_rows)))


def commanded(capsys, *arguments):
    status = run([*map(str, arguments)])
    return (status, *capsys.readouterr())


def test_the_command_line_fits_and_predicts_in_parts(tmp_path, capsys):
    path, model = with_towns(tmp_path), tmp_path / "m.mercer"
    fit = ("fit", "--linear", path, "--target", "y", "--drop", "t", "--memory", "1MB", "--out", model)
    status, out, err = commanded(capsys, *fit)
    assert status == 0
    assert "certified optimal" in " ".join(out.split())
    assert "2,000 rows" in out
    assert "column 'number' was left out" in err
    in_parts, in_memory = (tmp_path / name for name in ("parts.csv", "whole.csv"))
    status, _, said = commanded(capsys, "predict", model, path, "--memory", "1MB", "--out", in_parts)
    assert status == 0
    _, _, said_of_whole = commanded(capsys, "predict", model, path, "--out", in_memory)
    assert in_parts.read_text() == in_memory.read_text()
    assert said == said_of_whole
    assert "of 2,000 labels agree with the column 'y'" in said
    path.write_text(path.read_text().replace("Rome", "Paris"))
    _, _, said = commanded(capsys, "predict", model, path, "--memory", "1MB", "--out", in_parts)
    assert said.count("'Paris'") == 1


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--linear", "--kernel", "rbf"), "--kernel means nothing with --linear"),
        (
            ("--linear", "--probability"),
            "--probability means nothing with --linear: the models of --machine linear-logistic",
        ),
        (("--linear", "--missing", "drop"), "--missing drop means nothing with --linear"),
        (("--cache", "folder"), "--cache and --scale are for --linear or --memory"),
        (("--memory", "9MB", "--machine", "nu-svc"), "--machine nu-svc needs its rows in memory: leave --memory out"),
        (("--memory", "9MB", "--probability"), "--probability means nothing with --memory"),
        (("--linear", "--machine", "svc"), "--machine svc needs its rows in memory: leave --linear out, or train"),
        (("--linear", "--multi-class", "joint"), "--linear trains several classes by --multi-class ovr"),
        (
            ("--linear", "--loss", "epsilon_insensitive"),
            "--loss epsilon_insensitive is for regression, and this is classification",
        ),
        (("--linear", "--cost", "0:1=2"), "--cost means nothing with --linear"),
        (("--linear", "--memory", "9 rabbits"), "memory must be a number of bytes"),
        (("--linear", "--memory", ""), "memory must be a number of bytes"),
        (("--linear", "--cache", ""), "--cache names no folder"),
        (("--linear", "--tol", "0.1", "--tol-gap", "0.1"), "--tol and --tol-gap are the same with --linear"),
        (("--machine", "linear-svc", "--tol", "0.1", "--tol-gap", "0.1"), "--tol and --tol-gap do not go together"),
        (("--linear", "--drop", "z"), "there is no column 'z'"),
    ],
)
def test_the_command_line_refuses_options_that_mean_nothing(tmp_path, capsys, arguments, fault):
    status, _, err = commanded(
        capsys, "fit", with_towns(tmp_path), "--target", "y", "--out", tmp_path / "m.mercer", *arguments
    )
    assert status != 0
    assert fault in err
    assert not (tmp_path / "m.mercer").exists()


@pytest.mark.parametrize(
    ("options", "machine", "same"),
    [
        ("--loss hinge --bias free --C 0.5", LinearSVC(loss="hinge", bias="free", C=0.5, tol_gap=1e-8), True),
        ("--penalty l1 --C 0.1 --no-scale", LinearSVC(penalty="l1", C=0.1, tol_gap=1e-8), False),
        ("--machine linear-logistic --C 2", LogisticRegression(C=2.0, multi_class="ovr", tol_gap=1e-8), True),
        ("--bias none --class-weight balanced", LinearSVC(fit_intercept=False, class_weight="balanced"), True),
    ],
)
def test_the_options_of_a_linear_machine_on_the_command_line(tmp_path, capsys, options, machine, same):
    path, model = with_towns(tmp_path), tmp_path / "m.mercer"
    given = ("--target", "y", "--drop", "t", "--drop", "number", "--out", model, "--tol-gap", "1e-8")
    assert commanded(capsys, "fit", "--linear", path, *given, *options.split())[0] == 0
    machine.set_params(tol_gap=1e-8).fit_file(path, target="y", drop=["t", "number"], scale=same)
    table = read_table(path)
    np.testing.assert_allclose(
        load_model(model).decision_values(table), machine.decision_function(pd.read_csv(path))[:, None], atol=1e-3
    )


@pytest.mark.parametrize("machine", ["linear-svc", "linear-logistic"])
def test_tol_is_the_certified_gap_of_a_file(tmp_path, capsys, machine):
    path, gaps = with_towns(tmp_path), []
    for tol in ("0.3", "1e-9"):
        given = ("--target", "y", "--drop", "t", "--machine", machine, "--tol", tol, "--out", tmp_path / "m")
        assert commanded(capsys, "fit", "--linear", path, *given)[0] == 0
        certificate = load_model(tmp_path / "m").certificate
        assert certificate.tol_gap == float(tol)
        gaps.append(certificate.relative_gap)
    assert 1e-9 < gaps[0] <= 0.3
    assert gaps[1] <= 1e-9


def test_many_fractions_are_no_classes(tmp_path):
    pd.DataFrame({"x": np.arange(99), "cost": np.arange(99) / 4}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(TableError, match=r"the target 'cost' holds 99 different numbers .* a machine of its own"):
        LinearSVC().fit_file(tmp_path / "t.csv", target="cost")


def test_a_word_for_missing_among_numbers_is_no_class(tmp_path):
    (path := tmp_path / "rows.csv").write_text("a,y\n" + "0.5,0\n-1,1\n" * 20 + "2,NA\n" + "1,0\n")
    with pytest.raises(TableError, match="the target 'y' is missing in some lines: it holds 'NA' among numbers"):
        LinearSVC().fit_file(path, target="y")
    path.write_text("a,y\n" + "0.5,Zn\n-1,Na\n" * 20)
    assert LinearSVC().fit_file(path, target="y").classes_.tolist() == ["Na", "Zn"]


def test_classes_that_are_fractions_are_names(tmp_path, capsys):
    x = np.arange(60.0)
    path = written(
        pd.DataFrame({"x": x, "z": x % 7, "y": np.array([0.5, 1.5, 2.0])[(x // 20).astype(int)]}), tmp_path / "t.csv"
    )
    given = ("fit", path, "--target", "y", "--task", "classification", "--keep", "x", "--class-weight", "0.5=3")
    for name, options in (("one", ["--linear"]), ("other", ["--machine", "linear-svc", "--tol-gap", "1e-9"])):
        status, _, err = commanded(capsys, *given, *options, "--out", tmp_path / name)
        assert status == 0, err
    one, other = (load_model(tmp_path / name) for name in ("one", "other"))
    assert one.training.class_weight.tolist() == other.training.class_weight.tolist() == [3.0, 1.0, 1.0]
    assert (one.predict(read_table(path)) == other.predict(read_table(path))).all()
    assert {*one.predict(read_table(path))} == {"0.5", "1.5", "2.0"}


@pytest.mark.parametrize("ending", ["csv", "parquet", "svm"])
def test_the_command_line_takes_classes_from_the_whole_file(tmp_path, capsys, ending):
    path, n = tmp_path / f"t.{ending}", 9_000  # all first rows are of one class
    x, y = np.arange(n + 900) % 7 + np.repeat([0, 5], [n, 900]), np.repeat([0, 1], [n, 900])
    if ending == "svm":
        path.write_text("".join(f"{label} 1:{value}\n" for label, value in zip(y, x, strict=True)))
    else:
        written(pd.DataFrame({"x": x, "y": y}), path)
    given = ["fit", "--linear", path, "--memory", "1MB", "--out", tmp_path / "m.mercer"]
    given += [] if ending == "svm" else ["--target", "y", "--keep", "x"]
    status, out, err = commanded(capsys, *given, "--class-weight", "1=3")
    assert status == 0, err
    assert "LinearSVC" in out
    model = load_model(tmp_path / "m.mercer")
    assert model.prediction_kind.names == ["0", "1"]
    assert model.training.class_weight.tolist() == [1.0, 3.0]
    status, _, err = commanded(capsys, *given, "--class-weight", "2=3")
    assert status == 1
    assert "the classes are '0' and '1'" in err


@pytest.mark.parametrize(
    ("target", "options", "machine", "said"),
    [
        (np.repeat(np.arange(40), [9000, *[1] * 39]), "", "LinearSVR", "as far as it was read, the target 'y' holds"),
        (np.repeat([0.0, 1.5], [9000, 39]), "--machine linear-svr", "LinearSVR", ""),
        (np.repeat(["p", "q"], [9000, 39]), "", "LinearSVC", ""),
        (np.repeat(["p"], 9000), "", "", "t.csv, the target 'y' must have at least two classes, but is 'p' in every"),
        (np.repeat(["p", "q"], [9000, 39]), "--task regression", "", "the target 'y' must hold numbers for regression"),
    ],
)
def test_the_task_of_a_sorted_file_comes_from_all_rows(tmp_path, capsys, target, options, machine, said):
    path = written(pd.DataFrame({"x": np.arange(len(target)) % 7, "y": target}), tmp_path / "t.csv")
    given = ("fit", "--linear", path, "--target", "y", "--memory", "1MB", "--out", tmp_path / "m", *options.split())
    status, out, err = commanded(capsys, *given)
    assert (status == 0) == bool(machine), err
    assert machine in out
    assert said in err


@pytest.mark.parametrize("linear", [[], ["--linear"]], ids=["in memory", "from the file"])
def test_a_column_of_lists_can_be_dropped_and_is_named_once(tmp_path, capsys, linear):
    x = np.arange(40.0)
    frame = pd.DataFrame({"x": x % 7, "held": [[1, 2]] * 40, "y": np.where(x % 7 > 3, "p", "q")})
    path = written(frame, tmp_path / "t.parquet", rows=10)
    given = ["fit", *linear, path, "--target", "y", "--drop", "held", "--out", tmp_path / "m"]
    status, _, err = commanded(capsys, *given)
    assert status == 0, err
    assert err.count("column 'held' holds") == 1


def test_an_error_of_the_operating_system_is_a_plain_sentence(tmp_path, capsys, monkeypatch):
    path = with_towns(tmp_path)

    def refused(*args, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("mercer.studies.files.table_source.opened", refused)
    for command in (("fit",), ("fit", "--linear")):
        status, _, err = commanded(capsys, *command, path, "--target", "y", "--out", tmp_path / "m")
        assert status == 1
        assert "t.csv cannot be read" in err
        assert "permission denied" in err
        assert "Errno" not in err


def test_the_command_line_names_line_and_byte(tmp_path, capsys):
    path = with_towns(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    lines[700] = lines[700].replace(",", ",oops", 1)
    path.write_text("".join(lines))
    status, _, err = commanded(
        capsys,
        "fit",
        "--linear",
        path,
        "--target",
        "y",
        "--drop",
        "t",
        "--memory",
        "1MB",
        "--out",
        tmp_path / "m.mercer",
    )
    assert status == 1
    assert f"line 701 (byte {sum(map(len, lines[:700])):,}): the column 'b' holds 'oops" in err


@pytest.mark.parametrize("machine", [LinearSVC(), LinearSVR(), LogisticRegression()], ids=str)
def test_data_frames_are_encoded_as_the_file_was(tmp_path, machine):
    frame = a_frame()
    frame["town"] = np.where(frame["y"] > frame["y"].min(), "Oslo", "Rome")
    target, other = ("t", "y") if isinstance(machine, LinearSVR) else ("y", "t")
    path = written(frame.drop(columns=["w", other]), tmp_path / "t.csv")
    machine.fit_file(path, target=target, scale=True)
    expected = machine.predict(machine.encoder_.transform(frame))
    np.testing.assert_array_equal(machine.predict(frame), expected)
    np.testing.assert_array_equal(machine.predict(frame[frame.columns[::-1]]), expected)  # by name, not by place
    assert machine.score(frame, frame[target]) > 0.5
    with pytest.raises(TableError, match="town"):
        machine.predict(frame.drop(columns="town"))
    with pytest.raises(TypeError, match="path must name a file, got DataFrame"):
        machine.fit_file(frame, target=target)
    with pytest.raises(TypeError, match="sample_weight must be the name of a column of the file, got ndarray"):
        LinearSVC().fit_file("t.csv", target="y", sample_weight=np.ones(3))


@pytest.mark.parametrize("memory", ["1MB", "500MB"])
def test_a_target_far_from_0_is_learnt_as_by_the_command_in_memory(tmp_path, memory):
    frame = a_frame().drop(columns=["y", "w"])
    frame["t"] = 1e5 + 4e4 * frame["t"]
    path = written(frame, tmp_path / "t.csv")
    streamed, in_memory = tmp_path / "streamed.mercer", tmp_path / "in_memory.mercer"
    given = ["fit", str(path), "--target", "t", "--epsilon", "0.01"]
    assert run([*given, "--linear", "--tol-gap", "1e-9", "--memory", memory, "--out", str(streamed)]) == 0
    assert run([*given, "--machine", "linear-svr", "--out", str(in_memory)]) == 0
    first, second = (load_model(one).predict(read_table(path)) for one in (streamed, in_memory))
    np.testing.assert_allclose(first, second, atol=1e3)
    assert np.abs(first - frame["t"]).mean() < 0.5 * np.abs(frame["t"] - frame["t"].median()).mean()
    machine = LinearSVR(epsilon=0.01, tol_gap=1e-9)
    machine.fit_file(path, target="t", memory=memory, scale=True, scale_target=True)
    np.testing.assert_allclose(machine.predict(frame), first, atol=1.0)
    with pytest.raises(ValueError, match="scale_target is for targets that are numbers"):
        LinearSVC().fit_file(path, target="t", scale_target=True)


def test_ctrl_c_while_parsing_says_what_is_kept(tmp_path, monkeypatch, capsys):
    path = written(a_frame().drop(columns=["t", "w"]), tmp_path / "t.csv")

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(LinearSVC, "fit_file", interrupted)
    given = ["--linear", "--target", "y", "--task", "classification", "--out", str(tmp_path / "m")]
    assert run(["fit", str(path), *given]) == 130
    said = capsys.readouterr().err
    assert "the finished blocks are kept in" in said
    assert "t.csv.blocks: the same command goes on from them" in said


def write_parts(folder, n=900):
    """Write a table to two files, in which the texts of a column appear in different orders, and to one file."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.normal(size=n), "c": rng.choice(["x", "y", "z"], n), "w": rng.integers(0, 3, n)})
    score = frame["a"] + 2.0 * (frame["c"] == "x") + rng.normal(size=n)
    frame["y"] = np.where(score > 0.5, "yes", "no")
    parts = [frame.iloc[: n // 3], frame.iloc[n // 3 :].sort_values(["y", "c"], ascending=False)]
    for name, part in zip(("one", "two", "all"), [*parts, pd.concat(parts)], strict=True):
        part.to_csv(folder / f"{name}.csv", index=False)
    return [folder / "one.csv", folder / "two.csv"], folder / "all.csv", pd.concat(parts)


@pytest.mark.parametrize("memory", ["1MB", "500MB"])
def test_several_files_are_one_table(tmp_path, memory):
    files, together, frame = write_parts(tmp_path)
    about = {"target": "y", "sample_weight": "w", "scale": True, "memory": memory}
    one = LinearSVC(tol=1e-8).fit_file(together, **about)
    several = LinearSVC(tol=1e-8).fit_file(files, **about, cache=tmp_path / "blocks")
    np.testing.assert_allclose(several.coef_, one.coef_, rtol=1e-5)
    assert several.classes_.tolist() == one.classes_.tolist()
    assert several.predict(frame).tolist() == one.predict(frame).tolist()
    assert sorted(path.name for path in (tmp_path / "blocks").iterdir()) == ["0-one.csv", "1-two.csv"]
    numbers = LinearSVR(tol=1e-8).fit_file(files, target="a", drop="w", scale_target=True)
    alone = LinearSVR(tol=1e-8).fit_file(together, target="a", drop="w", scale_target=True)
    np.testing.assert_allclose(numbers.coef_, alone.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("a,c,w,label", "0.5,x,1,no", "no such column.*y|y"),
        ("a,w,y", "0.5,1,no", "two.csv has no column 'c'"),
        ("a,c,d,w,y", "0.5,x,2,1,no", "one.csv has no column 'd'"),
        ("a,c,w,y", "red,x,1,no", "column 'a' holds categories there, and numbers in the first file"),
        ("c,a,w,y", "x,0.5,1,no", "same columns in the same order"),
    ],
)
def test_files_whose_columns_differ_are_refused(tmp_path, header, rows, message):
    files, *_ = write_parts(tmp_path, 60)
    files[1].write_text(f"{header}\n" + f"{rows}\n" * 20)
    with pytest.raises(TableError, match=message):
        LinearSVC().fit_file(files, target="y", sample_weight="w")


def test_a_list_of_files_names_each_once(tmp_path):
    files, *_ = write_parts(tmp_path, 60)
    with pytest.raises(ValueError, match="names a file twice"):
        LinearSVC().fit_file([files[0], str(files[0])], target="y")
    for wrong in ([], [files[0], 3], np.zeros((3, 2))):
        with pytest.raises(TypeError, match="path must name a file"):
            LinearSVC().fit_file(wrong, target="y")
