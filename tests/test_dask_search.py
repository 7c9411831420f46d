"""Searches on the workers of a Dask cluster: the same results as by threads, progress, limits and lost workers."""

import os
import pickle
import signal
import time
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import SVC, SVR, KernelSearchCV, LinearSVC, LogisticRegression, OneClassSVM, leave_one_out
from mercer.certificates.status import StoppedError
from mercer.cluster import ClusterError

distributed = pytest.importorskip("distributed")

GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1]}
SEARCHES = {
    "one matrix for all folds": lambda **about: KernelSearchCV(SVC(), GRID, **about),
    "a matrix for each fold": lambda **about: KernelSearchCV(
        make_pipeline(StandardScaler(), SVC()),
        C=[0.1, 1.0],
        gamma=["scale", 0.1],
        cv=2,
        return_train_score=True,
        **about,
    ),
    "zoom": lambda **about: KernelSearchCV(SVC(), C="zoom", gamma=[0.05], cv=3, **about),
    "leave-one-out": lambda **about: KernelSearchCV(SVC(), GRID, cv="leave_one_out", **about),
    "early stopping": lambda **about: KernelSearchCV(LinearSVC(), C=[0.1, 1.0], early_stopping="bound", **about),
    "rounds": lambda **about: KernelSearchCV(
        SVC(), GRID, scoring=["accuracy", "roc_auc"], refit="accuracy", rounds=[60, 160], **about
    ),
}


@pytest.fixture(scope="module")
def table():
    return make_classification(200, 6, random_state=0)


def assert_same(one, other):
    assert [*one.cv_results_] == [*other.cv_results_]
    for name, values in one.cv_results_.items():
        if "time" not in name and name != "params":
            np.testing.assert_array_equal(values, other.cv_results_[name], err_msg=name)
    assert one.best_params_ == other.best_params_


@pytest.mark.parametrize("name", [*SEARCHES, pytest.param("zoom", marks=pytest.mark.slow)])
def test_the_results_are_those_of_threads_to_every_digit(table, client, name):
    search = SEARCHES[name](cluster=client.scheduler.address).fit(*table)
    assert_same(SEARCHES[name]().fit(*table), search)
    assert search.reason_


@pytest.mark.slow
def test_a_killed_worker_changes_no_digit(table, client):
    killed, done = [], []

    def kill_once(progress):
        done.append(progress.done)
        if not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    search = KernelSearchCV(SVC(), GRID, cluster=client.scheduler.address, callback=kill_once).fit(*table)
    assert killed
    assert done[-1] == 30
    assert_same(KernelSearchCV(SVC(), GRID).fit(*table), search)


def test_a_stop_keeps_the_settings_that_are_finished(table, client):
    with pytest.warns(UserWarning, match="interrupted"):
        search = KernelSearchCV(SVC(), GRID, cluster=client.scheduler.address, callback=lambda _: True).fit(*table)
    assert search.stopped_ == "interrupted"
    scores = search.cv_results_["mean_test_score"]
    assert 0 < np.isfinite(scores).sum() < 6
    with pytest.raises(StoppedError, match="time limit"):
        KernelSearchCV(SVC(), GRID, cluster=client.scheduler.address, max_seconds=1e-6).fit(*table)


def test_failed_fits_have_the_error_score(table, client):
    asked = {"C": [1.0], "gamma": [0.1, -1.0]}
    results = []
    for address in (None, client.scheduler.address):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(KernelSearchCV(SVC(), asked, cluster=address).fit(*table))
    assert_same(*results)
    with pytest.warns(FitFailedWarning, match=r"fits failed.*gamma must be"):
        KernelSearchCV(SVC(), asked, cluster=client.scheduler.address).fit(*table)
    with pytest.raises(ValueError, match="gamma must be"):
        KernelSearchCV(SVC(), asked, cluster=client.scheduler.address, error_score="raise").fit(*table)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_loops_of_scikit_learn_take_the_backends_of_joblib(table, backend):
    alone = cross_val_score(SVC(), *table, cv=3)
    with joblib.parallel_config(backend, n_jobs=2):
        np.testing.assert_array_equal(cross_val_score(SVC(), *table, cv=3), alone)


@pytest.mark.parametrize(("cluster", "message"), [(3, "cluster must be the address"), ("nowhere", "no scheduler of")])
def test_what_is_no_cluster_is_refused(table, cluster, message):
    for ask in (KernelSearchCV(SVC(), GRID, cluster=cluster).fit, partial(leave_one_out, SVC(), cluster=cluster)):
        with pytest.raises((TypeError, ClusterError), match=message):
            ask(*table)


def test_a_closed_client_is_refused(table, client):
    with distributed.Client(client.scheduler.address, set_as_default=False) as closed:
        pass
    for ask in (KernelSearchCV(SVC(), GRID, cluster=closed).fit, partial(leave_one_out, SVC(), cluster=closed)):
        with pytest.raises(ClusterError, match="client is closed"):
            ask(*table)


def test_a_client_is_shared_by_clones_and_pickled_as_its_address(table, client):
    search = clone(KernelSearchCV(SVC(), C=[0.1, 1.0], cv=2, cluster=client)).fit(*table)
    assert search.cluster is client
    loaded = pickle.loads(pickle.dumps(search))
    assert loaded.cluster == client.scheduler.address
    assert_same(loaded.fit(*table), search)
    assert_same(KernelSearchCV(SVC(), C=[0.1, 1.0], cv=2).fit(*table), search)


LEFT_OUT = {
    "pairs of classes": (SVC(), "labels", {}),
    "errors of two classes": (SVC(), "two", {"what": "errors"}),
    "weights of 0": (SVR(), "numbers", {"sample_weight": np.arange(60) % 3 * 1.0}),
    "novelty": (OneClassSVM(nu=0.2), None, {}),
    "refits": (LogisticRegression(multi_class="ovr"), "labels", {}),
    "formula and refits": (LinearSVC(), "two", {}),
}


def assert_same_values(one, other):
    for name in ("raw", "decision", "predicted", "rule", "error", "violation", "rounding", "n_kernel_values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("name", [*LEFT_OUT, pytest.param("refits", marks=pytest.mark.slow)])
def test_leave_one_out_is_that_of_this_process_to_every_digit(client, name):
    machine, target, about = LEFT_OUT[name]
    X, y = make_classification(60, 6, n_informative=5, n_redundant=0, n_classes=3, flip_y=0.2, random_state=0)
    y = {"labels": y, "two": y > 0, "numbers": X[:, 0] + y, None: None}[target]
    alone = leave_one_out(machine, X, y, **about)
    assert_same_values(leave_one_out(machine, X, y, cluster=client.scheduler.address, **about), alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs of classes", "refits"])
def test_leave_one_out_survives_a_worker(client, name, tmp_path):
    machine, _, _ = LEFT_OUT[name]
    X, y = make_classification(200, 6, n_informative=5, n_redundant=0, n_classes=3, flip_y=0.2, random_state=0)
    killed = []

    def kill_once(progress):
        if not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    there = leave_one_out(machine, X, y, cluster=client, callback=kill_once)
    assert killed
    assert_same_values(there, leave_one_out(machine, X, y))


@pytest.mark.parametrize("name", ["pairs of classes", "refits"])
def test_leave_one_out_keeps_finished_rows_when_it_is_stopped(client, name, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.solvers.paths.loo_monitor.REPORT_SECONDS", 0.0)
    machine, _, _ = LEFT_OUT[name]
    X, y = make_classification(60, 6, n_informative=5, n_redundant=0, n_classes=3, flip_y=0.2, random_state=0)
    about = {"cluster": client, "checkpoint": tmp_path / "checkpoint"}
    with pytest.warns(UserWarning, match="was ended"):
        stopped = leave_one_out(machine, X, y, callback=lambda progress: progress.done > 0, **about)
    assert (stopped.rule == "unknown").any()
    assert np.isfinite(stopped.raw).any()
    there, alone = leave_one_out(machine, X, y, **about), leave_one_out(machine, X, y)
    np.testing.assert_allclose(there.raw, alone.raw, rtol=1e-9, atol=1e-9)
    assert (there.rule == alone.rule).all()


def test_a_checkpoint_keeps_the_settings_of_a_search_whose_scheduler_goes_away(table, client, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.model_selection.search.finished.FinishedSettings.is_due", True)
    tried = []
    with distributed.Client(client.scheduler.address) as closed:
        search = KernelSearchCV(SVC(), GRID, cluster=client.scheduler.address, callback=lambda _: closed.close())
        with pytest.raises(ClusterError, match="does not answer"):
            search.fit(*table, checkpoint=tmp_path / "checkpoint")
    search.set_params(callback=tried.append)
    search.fit(*table, checkpoint=tmp_path / "checkpoint")
    assert len(tried) == 3
    assert_same(KernelSearchCV(SVC(), GRID).fit(*table), search)


def test_workers_hear_that_a_search_was_stopped(client):
    X, y = make_classification(1_500, 20, n_informative=10, flip_y=0.3, random_state=0)
    gammas = np.geomspace(0.1, 0.01, 8)
    search = KernelSearchCV(SVC(C=1e3), gamma=gammas, cluster=client.scheduler.address, callback=lambda _: True)
    with pytest.warns(UserWarning, match="1 of 8 settings were finished"):
        search.fit(X, y)
    for _ in range(300):
        if not any(client.processing().values()):
            return
        time.sleep(0.1)
    pytest.fail("workers go on with a search that was stopped")
