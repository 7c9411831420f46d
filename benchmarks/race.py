"""The race: every contender in a process of its own, taking turns, with a time limit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import truth
from .datasets import Table
from .machine import ProgressMonitor
from .peers import CONTENDERS, INTELEX, Contender, Estimator, Mercer, Model, Task
from .problems import Problem, find

TOL = 1e-3
TRUE_ENOUGH = 2e-3
"""A peer whose true violation is larger is timed once more at a tighter tolerance, until it is not."""

_TIGHTER = (0.1, 0.01)
_START_SECONDS = 600.0  # to import, load the table and make a first call
_TURN_SECONDS = 0.1  # short runs are repeated back to back for about so long in one turn


@dataclass(frozen=True)
class Rules:
    """How long to measure.

    Attributes
    ----------
    size : {"S", "full"}
    threads : int
    limit : float
        Seconds that one fit may take; beyond them a contender's process is ended.
    """

    size: str
    threads: int
    limit: float

    def enough(self, turns: list[list[float]]) -> bool:
        """Whether these are all the turns that are wanted: at least three where a run is short."""
        times = [seconds for turn in turns for seconds in turn]
        if median(times) > (60.0 if self.size == "full" else 5.0):
            return True
        return len(turns) >= 3 and (sum(times) >= 1.0 or len(turns) >= 5)


@dataclass
class Result:
    """What was measured of one contender on one problem; a `failure` says why there is nothing."""

    turns: list[list[float]] = field(default_factory=list)
    peak_bytes: int | None = None
    claims: dict[str, Any] = field(default_factory=dict)
    violation: float | None = None
    dual: float | None = None
    infeasibility: float | None = None
    n_support: int | None = None
    decision_error: float | None = None
    n_other_classes: int | None = None
    true: dict[str, float | None] | None = None
    failure: str | None = None


def task_of(problem: Problem, table: Table, threads: int) -> Task:
    """Return what the contenders train."""
    return Task(
        table.X,
        table.y,
        problem.kernel,
        problem.C,
        problem.gamma_for(table.X.shape[1]),
        problem.machine,
        problem.parameter,
        problem.task == "solve",
        threads,
    )


# --- In the contender's process.


def _serve(connection: Connection, contender_name: str, problem_name: str, rules: Rules) -> None:
    """Answer commands until the other side hangs up; an exception is an answer too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process, which then ends this one
    try:
        seat = _Seat(contender_name, problem_name, rules)
        connection.send(("done", seat.first_call))
        while True:
            command, arguments = connection.recv()
            connection.send(("done", getattr(seat, command)(*arguments)))
    except EOFError:
        pass
    except Exception as error:
        connection.send(("failed", f"{type(error).__name__}: {error}".splitlines()[0]))
        traceback.print_exc()


class _Seat:
    """A contender at work. The methods are the commands."""

    def __init__(self, contender_name: str, problem_name: str, rules: Rules) -> None:
        os.environ["OMP_NUM_THREADS"] = str(rules.threads)
        problem = find(problem_name)
        table = problem.load(rules.size)
        task = task_of(problem, table, rules.threads)
        make = CONTENDERS[contender_name]
        self.first_call = _first_call(make, task)
        self.contender = make(task)
        self.predicts = problem.task == "predict"
        self.X_new = self.contender.prepare(table.X_new) if isinstance(self.contender, Estimator) else None

    def train(self, tol: float) -> None:
        self.contender.fit(tol)

    def run(self, tol: float, turn_seconds: float) -> tuple[list[float], int | None]:
        """Return the times of one or more runs, and the peak memory of the first beyond what was in use before."""
        in_use = _reset_peak()
        times = [_timed(self._action(tol))]
        peak = None if in_use is None else max(0, _memory("VmHWM") - in_use)
        while times[0] < turn_seconds / 4 and sum(times) < turn_seconds:
            times.append(_timed(self._action(tol)))
        return times, peak

    def _action(self, tol: float) -> Callable[[], object]:
        if not self.predicts:
            return lambda: self.contender.fit(tol)
        assert isinstance(self.contender, Estimator)
        contender = self.contender
        return lambda: contender.predict(self.X_new)

    def model(self) -> Model:
        return self.contender.model()

    def decision(self) -> Any:
        assert isinstance(self.contender, Estimator)
        return self.contender.decision(self.X_new)

    def classes(self) -> Any:
        assert isinstance(self.contender, Estimator)
        return self.contender.predict(self.X_new)

    def limit(self) -> float:
        assert isinstance(self.contender, Mercer)
        action = self.contender.limit()
        action()
        return median(_timed(action) for _ in range(3))


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _first_call(make: type[Contender], task: Task) -> float:
    """Seconds to import a library and train it on forty rows."""
    some = np.arange(40)
    if task.y.dtype == np.int64:
        some = np.concatenate([np.flatnonzero(task.y == k)[:20] for k in (0, 1)])
    few = replace(task, X=task.X[some], y=task.y[some])
    return _timed(lambda: make(few).fit(TOL))


def _input_bytes(X: Any) -> int:
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    return int(sum(part.nbytes for part in parts))


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(name)


def _reset_peak() -> int | None:
    """Forget the largest memory so far; return what is in use now, or None where the system cannot tell."""
    forget = Path("/proc/self/clear_refs")
    if not forget.exists():
        return None
    forget.write_text("5")
    return _memory("VmRSS")


# --- In the referee's process.


class Absent(Exception):  # noqa: N818 - a finding, not an error
    """A contender that failed or ran out of time."""


class Runner:
    """A contender's process, seen from outside."""

    def __init__(self, contender_name: str, problem: Problem, rules: Rules) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, contender_name, problem.name, rules), daemon=True, name=contender_name
        )
        self._process.start()
        theirs.close()

    def ready(self) -> float:
        """Wait until it has loaded everything; return the seconds of its first call."""
        return self._answer(_START_SECONDS)

    def call(self, command: str, *arguments: Any, limit: float = 3600.0) -> Any:
        """Have a command carried out; a process that takes longer than `limit` seconds is ended."""
        self._connection.send((command, arguments))
        return self._answer(limit)

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(2.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _answer(self, limit: float) -> Any:
        if not self._connection.poll(limit):
            self._process.kill()
            raise Absent(f"> {limit:g} s")
        try:
            prediction_kind, answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            raise Absent(f"died (exit status {self._process.exitcode})") from None
        if prediction_kind == "failed":
            raise Absent(answer)
        return answer


def race(problem: Problem, contenders: list[str], rules: Rules) -> dict[str, Any]:
    """Run one problem; return everything that was measured, ready for JSON."""
    monitor = ProgressMonitor()
    runners = {name: Runner(name, problem, rules) for name in contenders}
    results = {name: Result() for name in contenders}
    rivals = [_rival() for _ in range(problem.rivals)]
    try:
        table = problem.load(rules.size)
        task = task_of(problem, table, rules.threads)
        for name, runner in list(runners.items()):
            with _Excluding(name, runners, results):
                runner.ready()
        if problem.task == "predict":
            for name, runner in list(runners.items()):
                with _Excluding(name, runners, results):
                    runner.call("train", TOL, limit=rules.limit)
        _take_turns(runners, results, rules)
        limit = _limit(problem, runners, results)
        _find_truth(problem, task, table, runners, results)
        if problem.task != "predict":
            _tighten(task, runners, results, rules)
    finally:
        for runner in runners.values():
            runner.close()
        for rival in rivals:
            rival.kill()
            rival.join()
    return {
        "problem": problem.name,
        "n": task.X.shape[0],
        "p": task.X.shape[1],
        "n_classes": table.n_classes,
        "input_bytes": _input_bytes(task.X),
        "limit_seconds": limit,
        "results": {name: asdict(result) for name, result in results.items()},
        **monitor.report(),
    }


def _rival() -> BaseProcess:
    """Start a process that keeps a processor busy."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    return process


def _spin() -> None:
    while True:
        pass


def first_calls(contenders: list[str], problem: Problem, rules: Rules) -> dict[str, float]:
    """Return the seconds that each library takes to be imported and to train its first, tiny machine.

    One that fails is left out; its races say why.
    """
    seconds = {}
    for name in contenders:
        runner = Runner(name, problem, rules)
        try:
            seconds[name] = runner.ready()
        except Absent:
            continue
        finally:
            runner.close()
    return seconds


class _Excluding:
    """Takes a contender that fails out of the race and writes down why; the others go on."""

    def __init__(self, name: str, runners: dict[str, Runner], results: dict[str, Result]) -> None:
        self._name, self._runners, self._results = name, runners, results

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, Absent):
            return False
        self._results[self._name].failure = str(error)
        self._runners.pop(self._name).close()
        return True


def _take_turns(runners: dict[str, Runner], results: dict[str, Result], rules: Rules) -> None:
    """Run all libraries in turn, again and again, until there are enough runs of each."""
    waiting = list(runners)
    while waiting:
        for name in waiting:
            with _Excluding(name, runners, results):
                times, peak = runners[name].call("run", TOL, _TURN_SECONDS, limit=rules.limit)
                results[name].turns.append(times)
                if results[name].peak_bytes is None:
                    results[name].peak_bytes = peak
        waiting = [name for name in waiting if name in runners and not rules.enough(results[name].turns)]


def _limit(problem: Problem, runners: dict[str, Runner], results: dict[str, Result]) -> float | None:
    if "mercer" not in runners or problem.task == "predict":
        return None
    with _Excluding("mercer", runners, results):
        return float(runners["mercer"].call("limit"))
    return None


def _find_truth(
    problem: Problem, task: Task, table: Table, runners: dict[str, Runner], results: dict[str, Result]
) -> None:
    models: dict[str, Model] = {}
    for name, runner in list(runners.items()):
        with _Excluding(name, runners, results):
            models[name] = runner.call("model")
            results[name].claims = models[name].claims
            if problem.task == "predict":
                predicted = runner.call("decision"), runner.call("classes")
                errors = truth.prediction_errors(task, models[name], table.X_new, *predicted)
                results[name].decision_error, results[name].n_other_classes = errors
    if not models or problem.task == "predict":
        return
    for name, judgement in zip(models, truth.judge(task, list(models.values())), strict=True):
        for key, value in asdict(judgement).items():
            setattr(results[name], key, value)


def _tighten(task: Task, runners: dict[str, Runner], results: dict[str, Result], rules: Rules) -> None:
    """Time the peers that missed their tolerance at tighter ones, until what they deliver is true."""
    for name, runner in list(runners.items()):
        result = results[name]
        if name == "mercer" or result.violation is None or result.violation <= TRUE_ENOUGH:
            continue
        limit = min(rules.limit, _worth_waiting(name, results))
        for factor in _TIGHTER:
            turns: list[list[float]] = []
            try:
                while not turns or not rules.enough(turns):
                    times, _ = runner.call("run", TOL * factor, _TURN_SECONDS, limit=limit)
                    turns.append(times)
                judgement = truth.judge(task, [runner.call("model")])[0]
            except Absent as absent:
                if str(absent).startswith("> "):  # or else nothing is known of how long it would have taken
                    result.true = {"tol": TOL * factor, "seconds": limit, "violation": None}
                break
            typical = median(seconds for times in turns for seconds in times)
            result.true = {"tol": TOL * factor, "seconds": typical, "violation": judgement.violation}
            if judgement.violation <= TRUE_ENOUGH:
                break


def _worth_waiting(name: str, results: dict[str, Result]) -> float:
    """Return how long a tightened intelex may take: the fastest of its variants counts, so no longer than a true one.

    In float32 it may never come to a tight tolerance.
    """
    rivals = [
        median(seconds for turn in result.turns for seconds in turn)
        for other, result in results.items()
        if {name, other} <= set(INTELEX) and result.violation is not None and result.violation <= TRUE_ENOUGH
    ]
    return max(1.0, 2.0 * min(rivals, default=float("inf")))
