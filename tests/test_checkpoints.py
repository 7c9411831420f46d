"""Checkpoints: fits, searches and leave-one-out that continue after `kill -9`, and folders that are refused."""

import itertools
import json
import shutil
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    SVC,
    SVDD,
    SVR,
    Cells,
    KernelSearchCV,
    Landmarks,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    QuantileSVR,
    leave_one_out,
)
from mercer.approximate.landmarks import _Earlier, _Training
from mercer.data.files import checkpoint as checkpoints
from mercer.data.files.checkpoint import CheckpointError
from mercer.solvers.certified_rounds import _Rounds

X, y = make_classification(2500, n_features=6, flip_y=0.2, random_state=0)
THREE = np.arange(len(y)) % 3


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Write a state after every part of the work."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "_SHARE", 1e9)


MACHINES = {
    "SVC": (lambda **more: SVC(C=10.0, **more), y),
    "three classes": (lambda **more: SVC(multi_class="joint", **more), THREE),
    "NuSVC": (lambda **more: NuSVC(nu=0.5, **more), y),
    "SVR": (lambda **more: SVR(**more), X[:, 0]),
    "NuSVR": (lambda **more: NuSVR(**more), X[:, 0]),
    "QuantileSVR": (lambda **more: QuantileSVR(**more), X[:, 0]),
    "OneClassSVM": (lambda **more: OneClassSVM(**more), None),
    "SVDD": (lambda **more: SVDD(C=0.01, **more), None),
    "LinearSVC": (lambda **more: LinearSVC(loss="hinge", **more), y),
    "together": (lambda **more: LinearSVC(multi_class="crammer_singer", **more), THREE),
    "LinearSVR": (lambda **more: LinearSVR(**more), X[:, 0]),
    "softmax": (lambda **more: LogisticRegression(**more), THREE),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_fit_that_was_stopped_continues_to_the_same_optimum(name, tmp_path):
    make, target = MACHINES[name]
    given = (X,) if target is None else (X, target)
    full = make().fit(*given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(max_iter=2).fit(*given, checkpoint=tmp_path / "c")
    states = sorted(one.name for one in (tmp_path / "c").glob("machine-*.bin"))
    assert states
    other = make().fit(*given, checkpoint=tmp_path / "c")
    assert str(other.certificate_.status) == "optimal"
    again = make().fit(*given, checkpoint=tmp_path / "c")  # starts at the optimum
    assert np.max(again.n_iter_) <= max(3, np.max(full.n_iter_) // 2)
    for one in (other, again):
        assert one.certificate_.primal == pytest.approx(full.certificate_.primal, rel=2e-3)
    assert "_checkpoint" not in vars(again)


KILLED = """
import os, signal, sys
import numpy as np
from sklearn.datasets import make_classification
from mercer import SVC, Cells, KernelSearchCV, Landmarks, leave_one_out
from mercer.data.files import checkpoint
checkpoint.SECONDS, checkpoint._SHARE = 0.0, 1e9
save, count = checkpoint.Generations.save, [0]
def dying(self, *about):
    save(self, *about)
    count[0] += 1
    if count[0] == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint.Generations.save = dying
X, y = make_classification(2500, n_features=6, flip_y=0.2, random_state=0)
work, folder = sys.argv[1:3]
if work == "fit":
    SVC(C=10.0).fit(X, y, checkpoint=folder)
elif work == "cells":
    SVC(approximation=Cells(400), n_jobs=1).fit(X, y, checkpoint=folder)
elif work == "landmarks":
    SVC(approximation=Landmarks(300, distance=0.01)).fit(X, y, checkpoint=folder)
elif work == "search":
    KernelSearchCV(SVC(), {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 0.5]}, cv=3, n_jobs=1).fit(
        X[:300], y[:300], checkpoint=folder)
else:
    leave_one_out(SVC(), X[:300], y[:300], checkpoint=folder)
"""


def killed(work, folder, moment):
    """Do the work in another process that kills itself after it has written so many states."""
    done = subprocess.run([sys.executable, "-c", KILLED, work, str(folder), str(moment)], check=False)
    assert done.returncode == -signal.SIGKILL


def search_of(**more):
    return KernelSearchCV(SVC(), {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 0.5]}, cv=3, n_jobs=1, **more)


def check_after_kill(work, folder):
    if work == "fit":
        machine = SVC(C=10.0).fit(X, y, checkpoint=folder)
        assert str(machine.certificate_.status) == "optimal"
        assert machine.certificate_.primal == pytest.approx(SVC(C=10.0).fit(X, y).certificate_.primal, rel=2e-3)
        assert machine.certificate_.verify().gap == pytest.approx(machine.certificate_.gap, abs=1e-4)
    elif work in ("landmarks", "cells"):
        way = Cells(400) if work == "cells" else Landmarks(300, distance=0.01)
        machine, plain = SVC(approximation=way).fit(X, y, checkpoint=folder), SVC(approximation=way).fit(X, y)
        assert machine.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-3)
        assert machine.certificate_.verify().status == "optimal"
    elif work == "search":
        finished = search_of().fit(X[:300], y[:300], checkpoint=folder)
        plain = search_of().fit(X[:300], y[:300])
        assert "the checkpoint had the results of settings" in finished.reason_
        for name in ("split0_test_score", "split2_test_score", "mean_test_score"):
            np.testing.assert_allclose(finished.cv_results_[name], plain.cv_results_[name], atol=0.011)
        assert list(finished.cv_results_) == list(plain.cv_results_)
        assert finished.best_params_ == plain.best_params_
    else:
        left, plain = (leave_one_out(SVC(), X[:300], y[:300], **one) for one in ({"checkpoint": folder}, {}))
        np.testing.assert_allclose(left.raw, plain.raw, atol=1e-6)
        assert (left.error, left.rule.tolist()) == (plain.error, plain.rule.tolist())


@pytest.mark.parametrize(("work", "moment"), [("fit", 3), ("search", 2), ("leave_one_out", 2)])
def test_killed_work_continues(work, moment, tmp_path):
    killed(work, tmp_path / "c", moment)
    check_after_kill(work, tmp_path / "c")


@pytest.mark.slow
@pytest.mark.parametrize("work", ["fit", "search", "leave_one_out", "landmarks", "cells"])
@pytest.mark.parametrize("moment", [1, 2, 3])
def test_work_that_is_killed_again_and_again_continues(work, moment, tmp_path):
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED, work, str(tmp_path / "c"), str(moment)], check=False)
    check_after_kill(work, tmp_path / "c")


def test_finished_settings_are_not_fitted_again(tmp_path, monkeypatch):
    first = search_of(refit=False).fit(X[:200], y[:200], checkpoint=tmp_path)
    monkeypatch.setattr(
        "mercer.model_selection.search.scored_fits.PrefittedSearchCV.fit", lambda *_: pytest.fail("a fit")
    )
    again = search_of(refit=False).fit(X[:200], y[:200], checkpoint=tmp_path)
    assert again.cv_results_["mean_test_score"].tolist() == first.cv_results_["mean_test_score"].tolist()
    assert again.cv_results_["status"].tolist() == first.cv_results_["status"].tolist()


def test_searches_of_every_kind_continue(tmp_path):
    pipeline = make_pipeline(StandardScaler(), SVC())
    searches = {
        "pipeline": lambda: KernelSearchCV(pipeline, C=[1.0, 10.0], cv=3, n_jobs=1),
        "zoom": lambda: KernelSearchCV(SVC(), C="zoom", cv=2, n_jobs=1),
        "halving": lambda: KernelSearchCV(SVC(), C=[0.1, 1.0, 10.0, 100.0], rounds=(60, 100), cv=2, n_jobs=1),
        "early": lambda: KernelSearchCV(SVC(), C=[1e-4, 1.0], early_stopping="bound", n_jobs=1),
        "scores": lambda: KernelSearchCV(SVC(), C=[1.0], scoring=["accuracy", "f1"], refit="f1", cv=2, n_jobs=1),
        "leave-one-out": lambda: KernelSearchCV(SVC(), C=[1.0, 10.0], cv="leave_one_out"),
    }
    for name, make in searches.items():
        first, again = (make().fit(X[:200], y[:200], checkpoint=tmp_path / name) for _ in range(2))
        assert again.best_params_ == first.best_params_, name
        assert list(again.cv_results_) == list(first.cv_results_)
        assert again.multimetric_ == first.multimetric_


@pytest.mark.parametrize("machine", [LinearSVC(), LinearSVC(loss="hinge"), SVR(), OneClassSVM()])
def test_finished_rows_of_leave_one_out_are_not_solved_again(machine, tmp_path):
    Z, target = X[:60], X[:60, 0] if isinstance(machine, SVR) else None if isinstance(machine, OneClassSVM) else y[:60]
    plain = leave_one_out(machine, Z, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = iter(range(1000))
        part = leave_one_out(machine, Z, target, checkpoint=tmp_path, callback=lambda _: next(calls) >= 0)
    again = leave_one_out(machine, Z, target, checkpoint=tmp_path)
    assert np.isfinite(part.raw).sum() <= np.isfinite(again.raw).sum() == 60
    np.testing.assert_allclose(again.raw, plain.raw, atol=1e-6)


def a_fit(folder, rows=X[:300], labels=y[:300], C=1.0, sample_weight=None, **more):
    return SVC(C=C, **more).fit(rows, labels, sample_weight, checkpoint=folder)


def test_a_checkpoint_of_other_work_is_refused_with_the_reason(tmp_path):
    a_fit(tmp_path)
    a_fit(tmp_path, n_jobs=1, max_seconds=100.0, verbose=0, memory_limit=10**8)  # these change no result
    a_fit(tmp_path, rows=np.array(X[:300]))
    faults = {
        "the rows X differ": {"rows": X[1:301]},
        "the targets y differ": {"labels": 1 - y[:300]},
        "the sample weights differ": {"sample_weight": np.ones(300)},
        "C was 1.0 and is 2.0": {"C": 2.0},
        "kernel was 'rbf' and is 'linear'": {"kernel": "linear"},
    }
    for reason, changed in faults.items():
        with pytest.raises(CheckpointError, match=f"checkpoint of other work: {reason}. Repeat the call"):
            a_fit(tmp_path, **changed)
    with pytest.raises(CheckpointError, match="work was fit and is leave_one_out"):
        leave_one_out(SVC(), X[:300], y[:300], checkpoint=tmp_path)
    about = json.loads((tmp_path / "about.json").read_text())
    (tmp_path / "about.json").write_text(json.dumps(about | {"version": "0.0.1"}))
    with pytest.raises(CheckpointError, match=r"version was 0\.0\.1 and is"):
        a_fit(tmp_path)


def test_folders_that_cannot_be_used_are_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="holds 'file', which is not part of a checkpoint"):
        a_fit(tmp_path)
    with pytest.raises(CheckpointError, match="is a file, and a folder is needed"):
        a_fit(tmp_path / "file")
    with pytest.raises(TypeError, match="checkpoint must be the path of a folder"):
        a_fit(7)
    with (
        checkpoints.Checkpoint.opened(tmp_path / "c", dict),
        pytest.raises(CheckpointError, match="is used by another"),
    ):
        a_fit(tmp_path / "c")
    a_fit(tmp_path / "d")
    (tmp_path / "d/about.json").write_text('{"format"')
    with pytest.raises(CheckpointError, match=r"is damaged .*: delete the folder"):
        a_fit(tmp_path / "d")
    (tmp_path / "d/about.json").unlink()
    (tmp_path / "d/machine-0-0.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match="missing, so that the states"):
        a_fit(tmp_path / "d")


@pytest.mark.parametrize("damage", ["cut", "changed", "pickle", "other numbers"])
def test_a_damaged_state_is_not_used_and_said(damage, tmp_path):
    plain = SVC(C=10.0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SVC(C=10.0, max_iter=3).fit(X, y, checkpoint=tmp_path)
    for path in tmp_path.glob("machine-0-*.bin"):
        raw = path.read_bytes()
        if damage == "other numbers":
            checkpoints.write_checked(path, {}, {"beta": np.full(len(y), np.nan)})
        else:
            change = {"cut": raw[:-9], "changed": raw[:900] + b"x" + raw[901:], "pickle": b"cos\nsystem\n(S'ls'\ntR."}
            path.write_bytes(change[damage])
    with pytest.warns(UserWarning, match=r"machine-0-\d+.bin is damaged and is not used"):
        machine = SVC(C=10.0).fit(X, y, checkpoint=tmp_path)
    assert machine.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-3)


def test_a_disk_that_is_full_ends_no_work(tmp_path, monkeypatch):
    def full(path, header, arrays, **about):
        raise checkpoints.full_disk(OSError(28, "No space left on device"), path, 12_345, "checkpoint")

    SVC(C=10.0, max_iter=100_000).fit(X, y, checkpoint=tmp_path)
    shutil.copytree(tmp_path, tmp_path.parent / "before")
    monkeypatch.setattr(checkpoints, "write_checked", full)
    with pytest.warns(UserWarning, match="could not be written: .*needs 12,345 bytes.*The work goes on") as caught:
        machine = SVC(C=10.0).fit(X, y, checkpoint=tmp_path)
    assert len([one for one in caught if "could not be written" in str(one.message)]) == 1
    assert str(machine.certificate_.status) == "optimal"
    names = [sorted(one.name for one in folder.iterdir()) for folder in (tmp_path, tmp_path.parent / "before")]
    assert names[0] == names[1]


def test_a_state_is_a_start_and_no_claim(tmp_path):
    """A point of other numbers, with right checksums, changes nothing of the result."""
    plain = SVC(C=10.0).fit(X, y)
    SVC(C=10.0).fit(X, y, checkpoint=tmp_path)
    for path in tmp_path.glob("machine-0-*.bin"):
        checkpoints.write_checked(path, {}, {"beta": np.random.default_rng(0).normal(0.0, 1e3, len(y))})
    machine = SVC(C=10.0).fit(X, y, checkpoint=tmp_path)
    assert str(machine.certificate_.status) == "optimal"
    assert machine.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-3)


APPROXIMATE = {
    "landmarks": (lambda: SVC(approximation=Landmarks(60)), y),
    "pairs": (lambda: SVC(approximation=Landmarks(60)), THREE),
    "the rest": (lambda: SVC(approximation=Landmarks(60), multi_class="ovr"), THREE),
    "regression": (lambda: SVR(approximation=Landmarks(60)), X[:, 0]),
    "novelty": (lambda: OneClassSVM(approximation=Landmarks(60)), None),
    "probabilities": (lambda: SVC(approximation=Landmarks(60), probability=True), y),
    "doubled": (lambda: SVC(approximation=Landmarks(300, distance=1e-6)), y),
    "cells": (lambda: SVC(approximation=Cells(200)), THREE),
    "large cells": (lambda: SVC(approximation=Cells(400)), y),
    "novelty in cells": (lambda: OneClassSVM(approximation=Cells(200)), None),
}


class StoppedHereError(Exception):
    pass


@contextmanager
def stopping_at(moment, monkeypatch):
    """Have the work fail when it has written so many states, if it writes so many."""
    save, count = checkpoints.Generations.save, itertools.count(1)

    def stopping(self, *about):
        save(self, *about)
        if next(count) == moment:
            raise StoppedHereError

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.Generations, "save", stopping)
        with suppress(StoppedHereError):
            yield


@pytest.mark.filterwarnings("ignore:.*distance of 1e-06 .* is not reached")
@pytest.mark.parametrize("name", APPROXIMATE)
def test_an_approximation_that_was_stopped_continues(name, tmp_path, monkeypatch):
    make, target = APPROXIMATE[name]
    given = (X[:500],) if target is None else (X[:500], target[:500])
    monkeypatch.setattr("mercer.approximate.cell_machine._ONE_STATE", 300)
    plain = make().fit(*given)
    with stopping_at(4, monkeypatch):
        make().fit(*given, checkpoint=tmp_path)
    machine = make().fit(*given, checkpoint=tmp_path)
    assert str(machine.certificate_.status) == "optimal"
    assert machine.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-3)
    assert machine.certificate_.verify().gap == pytest.approx(machine.certificate_.gap, abs=1e-3)
    monkeypatch.setattr("mercer.approximate.landmarks.draw", lambda *_: pytest.fail("landmarks are drawn again"))
    again = make().fit(*given, checkpoint=tmp_path)
    assert again.certificate_.n_iter <= max(3, 0.7 * plain.certificate_.n_iter)
    assert again.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-3)
    assert again.certificate_.distance_to_exact == pytest.approx(plain.certificate_.distance_to_exact, rel=0.1)


@pytest.mark.filterwarnings("ignore:.*distance of 1e-06 .* is not reached")
def test_doubling_continues_with_the_number_that_comes_next(tmp_path, monkeypatch):
    asked, features = [], _Training._features
    monkeypatch.setattr(_Training, "_features", lambda self, drawn: asked.append(self.asked) or features(self, drawn))
    machine = SVC(approximation=Landmarks(400, distance=1e-6))
    forget = _Training.forget_features

    def stopping(self):
        if self.asked == 250:
            raise StoppedHereError
        forget(self)

    monkeypatch.setattr(_Training, "forget_features", stopping)
    with pytest.raises(StoppedHereError):
        machine.fit(X[:620], y[:620], checkpoint=tmp_path)
    monkeypatch.setattr(_Training, "forget_features", forget)
    assert asked == [125, 250]
    machine.fit(X[:620], y[:620], checkpoint=tmp_path)
    assert asked[2:] == [250, 400]
    # If fewer landmarks were better, as in a run with more time, they are taken again.
    for path in tmp_path.glob("doubling-*.bin"):
        checkpoints.write_checked(path, *_Earlier(250, 400, 1e-9).state())
    del asked[:]
    machine.fit(X[:620], y[:620], checkpoint=tmp_path)
    assert asked == [400, 250]
    assert machine.support_.size <= 250


def test_the_size_of_cells_is_chosen_once(tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.approximate.cells.chosen_size", lambda *_: (400, "because the pilot says so"))
    SVC(approximation="cells").fit(X, y, checkpoint=tmp_path)
    monkeypatch.setattr("mercer.approximate.cells.chosen_size", lambda *_: pytest.fail("a pilot"))
    machine = SVC(approximation="cells").fit(X, y, checkpoint=tmp_path)
    assert "because the pilot says so" in machine.approximation_.reason


@pytest.mark.parametrize("name", ["landmarks", "novelty", "cells"])
def test_damaged_states_of_approximations_are_not_used_and_said(name, tmp_path):
    make, target = APPROXIMATE[name]
    given = (X[:600],) if target is None else (X[:600], target[:600])
    plain = make().fit(*given, checkpoint=tmp_path)
    for path in tmp_path.glob("*.bin"):
        checkpoints.write_checked(path, {}, {"rows": np.full(60, -1), "beta": np.full(3, np.nan)})
    with pytest.warns(UserWarning, match="is damaged and is not used"):
        machine = make().fit(*given, checkpoint=tmp_path)
    assert machine.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-3)


def test_a_checkpoint_of_another_approximation_is_refused(tmp_path):
    a_fit(tmp_path, approximation=Landmarks(30))
    with pytest.raises(CheckpointError, match=r"approximation was Landmarks\(n_landmarks=30, .* and is Cells"):
        a_fit(tmp_path, approximation=Cells(100))


def test_folds_of_probabilities_continue(tmp_path, monkeypatch):
    steps, solution = [], _Rounds.solution

    def counted(self, *about):
        solved = solution(self, *about)
        steps.append(solved.n_iter)
        return solved

    monkeypatch.setattr(_Rounds, "solution", counted)
    rows, labels = np.concatenate([X, X[:200] + 0.1]), np.concatenate([y, y[:200]])  # folds are not solved in batches
    machines = [
        SVC(probability=True, calibration_values="folds").fit(rows, labels, checkpoint=tmp_path) for _ in range(2)
    ]
    assert len({one.name.rpartition("-")[0] for one in tmp_path.glob("fold-*-machine-0-*.bin")}) == 5
    assert len(steps) == 12
    assert sum(steps[6:]) < 0.1 * sum(steps[:6])
    np.testing.assert_allclose(*(one.predict_proba(X[:50]) for one in machines), atol=1e-3)
