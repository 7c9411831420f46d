"""Ctrl-C and threads: work ends soon after a request to stop, and the result so far is usable."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import plain
import reference
from cases import PROBLEMS, ProblemCase, blobs, going
from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    GradientKernelSVC,
    KernelLogisticRegression,
    KernelPerceptron,
    KernelRidge,
    KernelSearchCV,
    LeastSquaresSVC,
    Linear,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Polynomial,
    QuantileSVR,
    Sigmoid,
    Status,
    nested_cross_validate,
)
from mercer.certificates.certificate import worst_status
from mercer.certificates.status import StoppedError
from mercer.data import as_data
from mercer.data.frames import as_table
from mercer.gram import CachePolicy, Gram
from mercer.gram.factorisation import abandonable
from mercer.kernels import Callable
from mercer.multiclass.training import make_tasks, train
from mercer.problems import c_svc, c_svc_each, joint, nu_svc, nu_svc_each
from mercer.solvers import Control, Interruption, Limits, WorkingSetSolver, loop, solve
from mercer.solvers.loop import Step
from mercer.solvers.smooth import ridge
from mercer.solvers.smooth.kernel_newton import KernelProduct
from mercer.studies.models import as_model
from mercer.studies.models.verification import verify

pytestmark = pytest.mark.full  # uses processes, much memory or much time: not in test-fast

# This fit would take minutes: random labels, a large penalty and a very small tolerance.
PROGRAM = """
    import json, signal, sys, threading, time, warnings
    import numpy as np
    from mercer import SVC

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 10)), rng.integers(0, 2, 6000)
    stages, before = [], signal.getsignal(signal.SIGINT)

    def callback(progress):
        if not stages:
            print("working", flush=True)
        stages.append(progress.n_iter)

    machine = SVC(C=1e4, tol=1e-10, callback=callback)
    machine.fit(X, y)
    returned = time.time()
    status = machine.solution_.status.value
    certificate = machine.certificate_
    print(json.dumps({
        "returned": returned,
        "status": status,
        "certified": certificate.status.value,
        "gap": certificate.gap,
        "violation": certificate.kkt_violation,
        "restored": signal.getsignal(signal.SIGINT) is before,
        "predicted": sorted(set(machine.predict(X[:200]).tolist())),
        "finite": bool(np.isfinite(machine.decision_function(X[:200])).all()),
    }), flush=True)
"""


def interrupted(signals, between=0.0):
    """Start the program, interrupt it once it works, and return its output and the seconds until it ended."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            assert process.stdout.readline().strip() == "working"
            time.sleep(0.3)
            for number in range(signals):
                if number:
                    time.sleep(between)
                process.send_signal(signal.SIGINT)
                sent = time.time()
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    said = json.loads(out.splitlines()[-1])
    said["latency"] = said["returned"] - sent
    return said


@pytest.mark.full
def test_ctrl_c_leaves_a_certified_machine():
    said = interrupted(1)
    print(f"returned {said['latency']:.3f} s after Ctrl-C, certificate included")
    assert said["latency"] < 20.0  # usually 0.3 s on an idle machine; the fit would take minutes
    assert said["status"] == "interrupted"
    assert said["certified"] == "interrupted"
    assert said["gap"] > 0.0
    assert said["violation"] > 1e-10
    assert (said["restored"], said["predicted"], said["finite"]) == (True, [0, 1], True)


@pytest.mark.full
def test_a_second_ctrl_c_skips_the_certificate_which_comes_on_first_use():
    said = interrupted(2, between=0.01)
    print(f"returned {said['latency']:.3f} s after the second Ctrl-C")
    assert said["latency"] < 20.0
    # The system may merge both signals into one, and the certificate may be finished before the second.
    assert said["status"] in ("unverified", "interrupted")
    assert said["certified"] == "interrupted"
    assert said["gap"] > 0.0
    assert (said["restored"], said["predicted"], said["finite"]) == (True, [0, 1], True)


@pytest.mark.parametrize(
    ("presses", "status"), [(1, Status.INTERRUPTED), (2, Status.UNVERIFIED), (5, Status.UNVERIFIED)]
)
def test_each_ctrl_c_counts(presses, status):
    X, y = noise()
    handler = signal.getsignal(signal.SIGINT)

    def callback(progress):
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        machine = SVC(C=1e4, tol=1e-10, callback=callback).fit(X, y)
    assert signal.getsignal(signal.SIGINT) is handler
    assert machine.solution_.status is status
    before = machine.decision_function(X[:50])
    assert np.isfinite(before).all()
    certificate = machine.certificate_
    assert certificate.status is Status.INTERRUPTED
    assert machine.solution_.status is status
    assert certificate.gap > 0.0
    # Prediction is repeatable: the machine is certified with the bias that it predicts with.
    np.testing.assert_array_equal(machine.decision_function(X[:50]), before)
    assert certificate.verify().primal == pytest.approx(certificate.primal, rel=1e-9)
    textbook = plain.figures(
        plain.gaussian(X, X, machine.kernel_.gamma), 2.0 * y - 1.0, 1e4, machine.solution_.beta, machine.solution_.bias
    )
    assert certificate.primal == pytest.approx(textbook.primal, rel=1e-9)
    assert certificate.dual == pytest.approx(textbook.dual, rel=1e-9)
    if status is Status.INTERRUPTED:
        assert machine.solution_.bias == pytest.approx(textbook.bias, rel=1e-6, abs=1e-6)
    # The certificate is about the machine that predicts.
    np.testing.assert_array_equal(machine.intercept_, [machine.solution_.bias])


def test_without_a_certificate_the_bias_is_about_right(monkeypatch):
    monkeypatch.setattr(loop, "REPORT_SECONDS", 0.0)
    X, y = blobs(2000, distance=2.0)
    X, y = X[(y > 0) | (np.arange(2000) < 200)], y[(y > 0) | (np.arange(2000) < 200)]

    def callback(progress):
        for _ in range(2 if progress.dual > 0.0 else 0):
            signal.raise_signal(signal.SIGINT)

    with going("whole"), pytest.warns(ConvergenceWarning, match="interrupted"):
        machine = SVC(kernel=RBF(gamma=0.1), C=0.1, callback=callback).fit(X, y)
    assert machine.solution_.status is Status.UNVERIFIED
    bias = plain.figures(plain.gaussian(X, X, 0.1), y, 0.1, machine.solution_.beta).bias
    assert abs(bias) > 0.2
    assert machine.solution_.bias == pytest.approx(bias, abs=0.1)


def noise(n=4000, p=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.integers(0, 2, n)


def in_threads(functions):
    """Run the functions at the same time and return what they return."""
    results = [None] * len(functions)

    def run(number):
        results[number] = functions[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    return results


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_in_another_thread_keeps_its_limit():
    X, y = noise()
    handler, began = signal.getsignal(signal.SIGINT), time.process_time()
    (machine,) = in_threads([lambda: SVC(C=1e4, tol=1e-10, max_seconds=0.2).fit(X, y)])
    assert time.process_time() - began < 5.0
    assert machine.certificate_.status is Status.TIME_LIMIT
    assert machine.predict(X).shape == y.shape
    assert signal.getsignal(signal.SIGINT) is handler


def test_fits_at_the_same_time_are_those_one_after_the_other():
    tables = [blobs(n=1200, p=5, seed=seed) for seed in range(3)]
    one_by_one = [SVC(C=10.0, n_jobs=2).fit(*table) for table in tables]
    at_once = in_threads([lambda table=table: SVC(C=10.0, n_jobs=2).fit(*table) for table in tables])
    for actual, expected, (X, _) in zip(at_once, one_by_one, tables, strict=True):
        np.testing.assert_array_equal(actual.dual_coef_, expected.dual_coef_)
        np.testing.assert_array_equal(actual.intercept_, expected.intercept_)
        np.testing.assert_array_equal(actual.decision_function(X), expected.decision_function(X))
        assert actual.certificate_.primal == expected.certificate_.primal


def test_one_machine_predicts_in_several_threads():
    X, y = blobs(n=1500, p=5)
    machine = SVC().fit(X, y)
    expected = machine.decision_function(X)
    for decision in in_threads([lambda: machine.decision_function(X)] * 4):
        np.testing.assert_array_equal(decision, expected)


def test_the_previous_signal_handler_is_restored():
    X, y = blobs()

    def handler(number, frame):
        raise AssertionError("Ctrl-C was not pressed")

    before = signal.signal(signal.SIGINT, handler)
    try:
        SVC().fit(X, y)
        assert signal.getsignal(signal.SIGINT) is handler
        with pytest.raises(ValueError, match="C must be"):
            SVC(C=-1).fit(X, y)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ignored_ctrl_c_stays_ignored():
    X, y = noise()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        machine = SVC(C=100.0, callback=lambda progress: signal.raise_signal(signal.SIGINT)).fit(X, y)
        assert machine.solution_.status is Status.OPTIMAL
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# Kernel, number of classes, scheme, number of features. The labels are random, so most fits take long.
WATCHED = [
    (RBF(gamma=0.5), 2, "ovo", 2),
    (RBF(gamma=0.01), 2, "ovo", 300),
    (RBF(gamma=0.05), 26, "ovo", 20),
    (RBF(gamma=0.05), 26, "ovr", 20),
    (RBF(gamma=0.05), 10, "ovo", 100),
    (Linear(), 2, "ovo", 1000),
    (Linear() ** 3 + RBF(gamma=0.1), 3, "ovr", 50),
    (Polynomial(9, 1.0, 1.0), 4, "ovo", 10),
    (Sigmoid(0.1, 1.0), 2, "ovo", 10),
    (Sigmoid(0.1, 1.0), 10, "ovo", 10),
    (Callable(lambda A, B: A @ B.T + 1.0), 2, "ovo", 10),
]
every_watched = pytest.mark.parametrize(("kernel", "n_classes", "scheme", "p"), WATCHED, ids=str)


def watched_gram(kernel, n_classes, p, n=6000):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(n, p)) / p**0.5, rng.integers(0, n_classes, n)
    cache_policy = CachePolicy.NON_NATIVE if n_classes > 2 else CachePolicy.NONE
    # A function whose matrix fits into memory is called once, and Ctrl-C must wait for this call.
    memory_limit = 128 << 20 if kernel.calls_function else None
    return Gram(kernel, as_data(X), cache_policy=cache_policy, n_jobs=1, memory_limit=memory_limit), labels


class ProgressMonitor:
    """A replacement for `Interruption` that measures processor time between two checks, and finally requests a stop."""

    insisted = False

    def __init__(self, limit):
        self.limit, self.seconds, self.last = limit, [], time.process_time()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    @property
    def requested(self):
        now = time.process_time()
        self.seconds.append(now - self.last)
        self.last = now
        return len(self.seconds) > self.limit


@every_watched
def test_ctrl_c_and_the_time_limit_are_checked_often(kernel, n_classes, scheme, p):
    """Measured in processor time, because other processes change the elapsed time."""
    gram, labels = watched_gram(kernel, n_classes, p)
    monitor = ProgressMonitor(limit=10)
    machines = train(gram, labels, n_classes, 1e3, scheme=scheme, control=Control(interruption=monitor))
    print(f"{max(monitor.seconds[: monitor.limit]):.3f} s at most between two looks")
    assert len(machines.solutions) == len(machines.tasks)
    assert monitor.limit <= len(monitor.seconds) or machines.certificate.status is not Status.INTERRUPTED
    # The usual time is about 0.1 s; the test must find parts of work that grow with the number of rows or classes.
    assert max(monitor.seconds[: monitor.limit]) < 1.0


@pytest.mark.parametrize("cache_policy", [CachePolicy.NONE, CachePolicy.FULL])
def test_the_joint_machine_checks_often_too(cache_policy):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(6000, 16)) / 4.0, rng.integers(0, 12, 6000)
    gram = Gram(RBF(gamma=1.0), as_data(X), cache_policy=cache_policy, n_jobs=1)
    monitor = ProgressMonitor(limit=15)
    machines = train(gram, labels, 12, 1e3, scheme="joint", control=Control(interruption=monitor))
    assert machines.certificate.status is Status.INTERRUPTED
    assert max(monitor.seconds[: monitor.limit]) < 1.0


@every_watched
def test_one_step_evaluates_a_bounded_number_of_kernel_values(kernel, n_classes, scheme, p):
    gram, labels = watched_gram(kernel, n_classes, p)
    task = make_tasks(labels, n_classes, scheme)[0]
    gram = gram if task.rows.size == gram.n else gram.restrict(task.rows)
    solver = WorkingSetSolver()
    state = solver.init(c_svc(task.signs, 1e3), gram, 1e-3, None)
    before = gram.n_values
    for _ in islice(solver.steps(state), 20):
        # Cached rows are evaluated for all rows of the original matrix.
        assert gram.n_values - before <= 2 * max(gram.values_per_call, 16 * gram.data.n)
        before = gram.n_values


def test_gradient_updates_evaluate_a_bounded_number_of_cheap_values(monkeypatch):
    gram, labels = watched_gram(RBF(gamma=1.0), 2, 5, n=4000)
    few = 10 * gram.n
    monkeypatch.setattr(gram._store.backend, "values_per_call", few)
    solver, most = WorkingSetSolver(), 0
    state = solver.init(c_svc(np.where(labels == 1, 1.0, -1.0), 1.0), gram, 1e-3, None)
    assert state.tiles is not None
    before = gram.n_values
    for _ in islice(solver.steps(state), 200):
        most, before = max(most, gram.n_values - before), gram.n_values
    assert 2 * few < most <= 8 * few


class Press:
    """Raise Ctrl-C after `at` executed lines of the library.

    Lines that hold a lock are left out: a trace function raises between a with block and its exit, where Ctrl-C cannot,
    and the lock would stay locked.
    """

    def __init__(self, at):
        self.at, self.n_lines = at, 0

    def __call__(self, frame, event, _):
        path = frame.f_code.co_filename
        if f"{os.sep}mercer{os.sep}" not in path or path.endswith(os.path.join("gram", "threads.py")):
            return None
        if event == "line":
            self.n_lines += 1
            if self.n_lines == self.at:
                signal.raise_signal(signal.SIGINT)
        return self


def traced(fit, press):
    sys.settrace(press)
    try:
        return fit()
    finally:
        sys.settrace(None)


def table(p, labels):
    rng = np.random.default_rng(p)
    return rng.normal(size=(10 * p, p)), rng.permutation(np.resize(labels, 10 * p))


FIRST, SECOND = table(4, [0, 1]), table(6, [2, 3, 4])
CHANGES = {
    "fit": lambda machine: machine.fit(*SECOND),
    "partial_fit": lambda machine: machine.partial_fit(FIRST[0][::2] + 0.1, FIRST[1][::2]),
    "forget": lambda machine: machine.forget([0, 3, 5]),
}
CHANGED = [
    *((kind, "fit") for kind in (SVC(), NuSVC(nu=0.2), SVR(), NuSVR(), SVDD(C=0.1), QuantileSVR())),
    (OneClassSVM(nu=0.2, contamination=0.1), "fit"),
    (SVC(probability=True, C=0.1), "fit"),
    *((kind, change) for kind in (SVC(), SVR()) for change in ("partial_fit", "forget")),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl-C during garbage collection
@pytest.mark.parametrize(("kind", "change"), CHANGED, ids=lambda given: str(given).partition("(")[0])
def test_a_machine_is_changed_as_a_whole_or_not_at_all(kind, change):
    """Ctrl-C at any line either stops the solver, or leaves the old machine, or comes when the new one is stored."""
    rng, change = np.random.default_rng(0), CHANGES[change]
    undisturbed = Press(at=-1)
    changed = traced(lambda: change(clone(kind).fit(*FIRST)), undisturbed)
    raised = 0
    for at in rng.integers(
        1, undisturbed.n_lines, 8 if getattr(kind, "probability", False) else 24
    ):  # calibration is slow
        machine = clone(kind).fit(*FIRST)
        before = vars(machine).copy()
        try:
            traced(lambda machine=machine: change(machine), Press(at))
        except KeyboardInterrupt:
            now, raised = vars(machine), raised + 1
            is_old = now.keys() == before.keys() and all(now[name] is value for name, value in before.items())
            assert is_old or now.keys() == vars(changed).keys()
            if is_old:
                continue
        assert machine.shape_fit_ == changed.shape_fit_
        assert machine.n_features_in_ == changed.n_features_in_
        assert len(machine.support_) == len(machine.support_vectors_) == machine.dual_coef_.shape[1]
        np.testing.assert_array_equal(getattr(machine, "classes_", 0), getattr(changed, "classes_", 0))
        said, recomputed = machine.certificate_, machine.certificate_.verify()
        assert said.status is recomputed.status
        for name in ("kkt_violation", "primal", "dual"):
            assert getattr(said, name) == pytest.approx(getattr(recomputed, name), rel=1e-9, abs=1e-9), (at, name)
    assert raised


def test_an_exception_of_a_callback_leaves_the_machine_unchanged():
    machine = SVC(tol=1e-9, C=1e3).fit(*FIRST)
    before = vars(machine).copy()

    def callback(progress):
        raise RuntimeError("enough")

    machine.callback = callback
    with pytest.raises(RuntimeError, match="enough"):
        machine.fit(*SECOND)
    assert all(vars(machine)[name] is value for name, value in before.items() if name != "callback")
    assert machine.n_features_in_ == 4


@pytest.mark.parametrize("presses", [1, 2])
def test_the_model_of_an_interrupted_fit_verifies(presses):
    X, y = noise(n=1000)

    def callback(progress):
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        machine = SVC(C=1e4, tol=1e-10, callback=callback).fit(X, y)
    model = as_model(machine, X, y)
    table = as_table(pd.DataFrame(X).rename(columns=str).assign(y=y))
    assert model.certificate.status is Status.INTERRUPTED
    assert verify(model, table).findings == ()
    np.testing.assert_allclose(model.decision_values(table).ravel(), machine.decision_function(X), rtol=1e-9, atol=1e-9)
    (part,) = model.parts
    tampered = replace(model, parts=(replace(part, bias=part.bias + 0.1),))
    assert any("a bias is" in finding for finding in verify(tampered, table).findings)


def ends(fit):
    """Yield results of `fit`, stopped by a callback or by max_iter at several moments, with the expected status."""

    def stopped_at(moment):
        seen = []
        stop = lambda progress: seen.append(progress) or len(seen) == moment  # noqa: E731
        return fit(Control(callback=stop)), len(seen)

    finished, n_moments = stopped_at(np.inf)
    assert finished.certificate.status is Status.OPTIMAL
    for moment in sorted({1, 2, *np.linspace(1, n_moments, 12).astype(int).tolist()}):
        yield stopped_at(moment)[0], Status.INTERRUPTED
    for steps in np.linspace(0, finished.certificate.n_iter, 5).astype(int).tolist():
        yield fit(Control(Limits(max_iter=steps))), Status.MAX_ITER


def assert_true(solution, problem, K, ended):
    """Check the certificate against plain NumPy (the primal uses the problem's own formula); return its status."""
    said, beta = solution.certificate, solution.beta
    rows = np.arange(problem.n_rows) if problem.rows is None else problem.rows
    values = (K[np.ix_(rows, rows)] @ problem.by_output(beta)).ravel()
    gradient = values + problem.linear + (0.0 if problem.ridge is None else problem.ridge * beta)
    violation = reference.largest_violation(
        beta, gradient, problem.lower, problem.upper, problem.groups, problem.n_groups
    )
    assert ((problem.lower <= beta) & (beta <= problem.upper)).all()
    np.testing.assert_allclose(problem.group_totals(beta), problem.totals, atol=1e-9)
    true_figures = {
        "kkt_violation": violation,
        "primal": problem.primal(beta @ values, values, solution.multipliers),
        "dual": -0.5 * beta @ (gradient + problem.linear),
    }
    for name, value in true_figures.items():
        assert getattr(said, name) == pytest.approx(value, rel=1e-9, abs=1e-9), (ended, name)
    assert said.status is (Status.OPTIMAL if violation <= 1e-3 else ended)
    return said.status


@pytest.fixture
def each_moment(way, monkeypatch):
    """Each solver path; a callback may stop it after each part of its work."""
    monkeypatch.setattr(loop, "REPORT_SECONDS", 0.0)
    if way == "a set, then everything":  # this path needs single precision
        monkeypatch.setattr("mercer.solvers.dual.single_precision.EXACT_PROBLEM", 8)


@pytest.mark.usefixtures("each_moment")
def test_the_certificate_is_true_at_any_end():
    X, y = noise(n=60, p=3)
    signs, K = np.where(y > 0, 1.0, -1.0), plain.gaussian(X, X, 0.5)
    for solution, ended in ends(
        lambda control: solve(c_svc(signs, 30.0), Gram(RBF(gamma=0.5), as_data(X)), control=control)
    ):
        said, textbook = solution.certificate, plain.figures(K, signs, 30.0, solution.beta, solution.bias)
        assert said.status is (Status.OPTIMAL if textbook.violation <= 1e-3 else ended)
        assert textbook.infeasibility <= 1e-9
        for name, value in (
            ("kkt_violation", textbook.violation),
            ("primal", textbook.primal),
            ("dual", textbook.dual),
        ):
            assert getattr(said, name) == pytest.approx(value, rel=1e-9, abs=1e-9), (ended, name)


HARD = ProblemCase("C-SVC, C = inf", lambda y: c_svc(y, np.inf))


@pytest.mark.parametrize("case", [*PROBLEMS, HARD], ids=lambda case: case.name)
@pytest.mark.usefixtures("each_moment")
def test_certificates_of_all_problems_are_true_at_any_end(case, way):
    X, y = blobs(n=60, distance=4.0 if case.name in ("nearest points", HARD.name) else 1.0)
    problem, K = case.problem(y), plain.gaussian(X, X, 0.5)
    fit = lambda control: solve(problem, Gram(RBF(gamma=0.5), as_data(X)), control=control)  # noqa: E731
    ends_seen = {assert_true(solution, problem, K, ended) for solution, ended in ends(fit)}
    assert Status.MAX_ITER in ends_seen
    assert way == "one call" or Status.INTERRUPTED in ends_seen


@pytest.mark.parametrize(
    ("scheme", "C", "nu"),
    [("ovo", 10.0, None), ("ovr", 10.0, None), ("joint", 10.0, None), ("ovo", 1.0, 0.3), ("ovo", np.inf, None)],
    ids=["ovo", "ovr", "joint", "nu", "C = inf"],
)
@pytest.mark.usefixtures("each_moment")
def test_certificates_of_several_classes_are_true_at_any_end(scheme, C, nu):
    """This includes machines without a step so far, and the certificate of all machines together."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 80)
    X = rng.normal(size=(80, 3)) + (4.0 if np.isinf(C) else 1.0) * np.eye(4, 3)[labels]
    K, duals = plain.gaussian(X, X, 0.5), c_svc_each if nu is None else partial(nu_svc_each, nu=nu)

    def fit(control):
        return train(Gram(RBF(gamma=0.5), as_data(X)), labels, 4, C, scheme=scheme, duals=duals, control=control)

    def problem_of(task):
        if scheme == "joint":
            return joint(labels, 4, C)
        return c_svc(task.signs, C) if nu is None else nu_svc(task.signs, C, nu)

    seen = set()
    for machines, ended in ends(fit):
        for task, solution in zip(machines.tasks, machines.solutions, strict=scheme != "joint"):
            seen.add(assert_true(solution, problem_of(task), K[np.ix_(task.rows, task.rows)], ended))
        combined, parts = machines.certificate, [one.certificate for one in machines.solutions]
        assert combined.status is worst_status([part.status for part in parts])
        assert combined.kkt_violation == max(part.kkt_violation for part in parts)
        for name in ("primal", "dual"):
            assert getattr(combined, name) == pytest.approx(sum(getattr(part, name) for part in parts), rel=1e-12)
    assert seen == {Status.OPTIMAL, Status.INTERRUPTED, Status.MAX_ITER}


# Machines that iterate in Python. With four classes, machines for pairs of classes are six.
ITERATING = {
    "perceptron": KernelPerceptron(20, kernel="rbf", gamma=0.001),
    "perceptron, primal": KernelPerceptron(20, form="primal"),
    "accelerated": GradientKernelSVC(1e-3, tol=1e-12, max_iter=200),
    "descent": GradientKernelSVC(1e-3, tol=1e-12, solver="descent", max_iter=200),
    "kernel Newton": KernelLogisticRegression(1e8, gamma=0.01, tol=1e-14),
    "Newton": LogisticRegression(tol=1e-300),
}
every_iterating = pytest.mark.parametrize("name", ITERATING)


def four_classes(n=120):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 5)), rng.integers(0, 4, n)


def test_a_stop_reaches_inner_interruptions_but_not_outer_ones():
    outer = Interruption()
    part, other = Interruption(outer), Interruption(outer)
    part.request()
    assert (part.requested, outer.requested, other.requested) == (True, False, False)
    outer.request()
    assert (other.requested, other.insisted) == (True, False)
    outer.request()
    assert other.insisted


@every_iterating
@pytest.mark.parametrize("how", ["Ctrl-C", "callback"])
def test_one_request_stops_all_iterative_machines(name, how):
    X, y = four_classes()
    seen = []

    def callback(progress):
        seen.append(progress.n_iter)
        if how == "callback":
            return True
        signal.raise_signal(signal.SIGINT)
        return None

    handler = signal.getsignal(signal.SIGINT)
    machine = clone(ITERATING[name]).set_params(callback=callback)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        machine.fit(X, y)
    assert len(seen) == 1  # the other machines made no step
    assert signal.getsignal(signal.SIGINT) is handler
    if hasattr(machine, "certificate_"):
        assert machine.certificate_.status is Status.INTERRUPTED
    assert machine.predict(X).shape == y.shape


@pytest.mark.parametrize("memory_limit", [0, None], ids=["evaluated each time", "in memory"])
def test_a_product_with_the_kernel_matrix_is_stopped_within(memory_limit, monkeypatch):
    """A product can take seconds with many rows or outputs, so the limit is checked between its parts."""
    gram = Gram(RBF(gamma=0.1), as_data(noise(n=2000)[0]), memory_limit=memory_limit, n_jobs=1)
    monkeypatch.setattr(gram._store.backend, "values_per_call", 10**6)
    vectors, calls = np.random.default_rng(0).normal(size=(2000, 60)), []
    product = KernelProduct(gram, lambda: calls.append(None))
    for _ in product.prepare():
        pass
    assert (product.memory_bytes > 0) == (memory_limit is None)
    expected = plain.gaussian(gram.data.array, gram.data.array, 0.1) @ vectors
    np.testing.assert_allclose(product(vectors), expected, rtol=1e-9, atol=1e-9)
    assert len(calls) >= 3


def test_a_stopped_product_stops_the_algorithm():
    control = Control()
    monitor = loop.SolverMonitor(control)

    def steps():
        yield Step(1, 1.0, 1.0)
        monitor.raise_if_stopped()
        control.interruption.request()
        monitor.raise_if_stopped()
        raise AssertionError

    assert (loop.drive(steps(), monitor), monitor.n_iter) == (Status.INTERRUPTED, 1)


def three_steps():
    yield Step(0, np.inf, np.inf)  # the violation is not known yet
    yield Step(1, 1.0, 1.0)
    yield Step(2, 0.5, 1.0)


def test_the_first_and_the_last_step_are_reported():
    reports = []
    monitor = loop.SolverMonitor(Control(callback=reports.append))
    assert loop.drive(three_steps(), monitor) is None
    assert [progress.n_iter for progress in reports] == [row.n_iter for row in monitor.trace] == [1, 2]


def test_a_request_of_other_work_within_the_callback_is_passed_on():
    """A solver may run within other work, whose stop must not look like the solver's own."""

    def callback(progress):
        raise loop.StopWork(Status.TIME_LIMIT)

    with pytest.raises(loop.StopWork):
        loop.drive(three_steps(), loop.SolverMonitor(Control(callback=callback)))


@pytest.mark.parametrize("name", ["perceptron", "accelerated"])
def test_a_time_limit_is_that_of_all_machines(name):
    X, y = four_classes()
    machine = clone(ITERATING[name]).set_params(max_seconds=0.2)
    machine.set_params(**({"max_iter": -1} if name == "accelerated" else {"max_passes": 10**9}))
    began = time.process_time()
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        machine.fit(X, y)
    assert time.process_time() - began < 5 * 0.2  # six machines; the first uses the whole time limit
    later = machine.n_iter_[1:] if name == "accelerated" else machine.n_mistakes_[1:]
    assert not later.any()


def slow_system(n=2500):
    """Rows with a linear system that takes a second or more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] > 0.0).astype(int)


# A Cholesky factorisation, an eigendecomposition for many penalties, and one for a singular system.
CLOSED_FORMS = {
    "one penalty": lambda **how: (KernelRidge(1.0, kernel="rbf", **how), lambda y: y),
    "two penalties": lambda **how: (KernelRidge([1.0, 2.0], kernel="rbf", **how), lambda y: np.column_stack([y, y])),
    "singular": lambda **how: (KernelRidge(0.0, kernel="linear", **how), lambda y: y),
    "a bias": lambda **how: (LeastSquaresSVC(**how), lambda y: y),
}


@pytest.mark.filterwarnings("ignore:the matrix K")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms_obey_a_time_limit_and_stay_unchanged(name):
    X, y = slow_system()
    machine, targets = CLOSED_FORMS[name]()
    machine.fit(X[:40], targets(y)[:40])
    before = vars(machine).copy()
    machine.set_params(max_seconds=0.01)
    began = time.process_time()
    with pytest.raises(StoppedError, match=r"max_seconds=0.01 before .* Raise max_seconds"):
        machine.fit(X, targets(y))
    assert time.process_time() - began < 1.0
    assert all(vars(machine)[name] is value for name, value in before.items() if name not in ("max_seconds",))


def test_a_time_limit_is_obeyed_between_the_calls_of_a_function_of_two_rows():
    X, y = slow_system(400)
    calls = []

    def function(x, z):
        calls.append(None)
        return float(x @ z)

    machine = KernelRidge(kernel=function).fit(X[:40], y[:40])
    assert len(calls) == 40 * 41 // 2  # each pair of rows once
    plain_values = X[:40] @ X[:40].T
    expected = np.linalg.solve(plain_values + np.eye(40), y[:40])
    np.testing.assert_allclose(machine.dual_coef_, expected, atol=1e-9)
    calls.clear()
    with pytest.raises(StoppedError, match="max_seconds"):
        machine.set_params(max_seconds=1e-9).fit(X, y)
    assert len(calls) <= 1000  # of 80,200 pairs


def fit_for_ever(machine, X, y):
    while True:  # on a fast processor, the first fit may end before Ctrl-C
        machine.fit(X, y)


@pytest.mark.filterwarnings("ignore:the matrix K")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms_obey_ctrl_c(name):
    X, y = slow_system()
    machine, targets = CLOSED_FORMS[name]()
    timer, pressed = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]), []

    def press(number, frame):
        pressed.append(time.process_time())
        signal.default_int_handler(number, frame)

    handler = signal.signal(signal.SIGINT, press)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            fit_for_ever(machine, X, targets(y))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, handler)
    assert time.process_time() - pressed[0] < 1.0


def test_ctrl_c_in_closed_form_calibration_only_skips_probabilities(monkeypatch):
    X, y = slow_system(300)
    leave_one_out = ridge.leave_one_out

    def pressed(*given, check, **named):
        signal.raise_signal(signal.SIGINT)
        return leave_one_out(*given, check=check, **named)

    monkeypatch.setattr(ridge, "leave_one_out", pressed)
    machine = LeastSquaresSVC(probability=True)
    with pytest.warns(ConvergenceWarning, match="no probabilities"):
        machine.fit(X, y)
    assert machine.predict(X).shape == y.shape
    assert not hasattr(machine, "calibration_")


@pytest.mark.parametrize(
    ("machine", "number_bytes"),
    [(KernelRidge(kernel="rbf"), 8), (KernelRidge([1.0, 2.0], kernel="rbf"), 24), (LeastSquaresSVC(), 8)],
    ids=["one penalty", "two penalties", "a bias"],
)
def test_closed_forms_say_how_many_bytes_they_need(machine, number_bytes):
    X, y = slow_system(200)
    y = np.column_stack([y, y]) if number_bytes == 24 else y
    enough = number_bytes * 200**2
    clone(machine).set_params(memory_limit=enough).fit(X, y)
    with pytest.raises(MemoryError, match=rf"200 training rows takes {enough:,} bytes .* or raise memory_limit"):
        clone(machine).set_params(memory_limit=enough - 1).fit(X, y)


def test_a_stopped_computation_in_a_thread_is_abandoned():
    ready = threading.Event()

    def check():
        raise Stop

    class Stop(Exception):  # noqa: N818
        pass

    def fails():
        raise ValueError("no")

    assert abandonable(lambda: 3) == 3
    with pytest.raises(ValueError, match="no"):
        abandonable(fails)
    calls = []
    with pytest.raises(Stop):
        abandonable(ready.wait, lambda: calls.append(None) if len(calls) < 2 else check())
    ready.set()


def test_ctrl_c_in_an_inner_step_ends_the_outer_one():
    with Interruption() as outer:
        with Interruption() as part:
            signal.raise_signal(signal.SIGINT)
            assert (part.requested, part.insisted) == (True, False)
        with Interruption() as later:
            assert (outer.requested, later.requested, later.insisted) == (True, True, False)
            signal.raise_signal(signal.SIGINT)
            assert later.insisted
    with Interruption() as fresh:
        assert not fresh.requested


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_ctrl_c_ends_a_nested_cross_validation():
    X, y = noise(n=80, p=3)
    seen = []

    def callback(progress):
        seen.append(progress.done)
        if len(seen) == 2:
            signal.raise_signal(signal.SIGINT)

    search = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.1, 1.0], cv=2, callback=callback)
    with pytest.raises(StoppedError, match="stopped by Ctrl-C after 0 of 5 splits"):
        nested_cross_validate(search, X, (y > 0).astype(int))
    assert len(seen) <= 4  # the second search did not begin


def test_a_perceptron_ends_with_the_search_that_it_is_part_of():
    X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) % 2  # random classes
    machine = KernelPerceptron(kernel="rbf")
    machine._search = Interruption()
    machine._search.request()
    with pytest.warns(ConvergenceWarning):
        assert machine.fit(X, y).n_mistakes_.sum() == 0
