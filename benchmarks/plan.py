"""Forecasts of `mercer.plan` against the fits themselves: seconds, support vectors and memory.

Run from the root of the repository: `python -m benchmarks.plan [--only REGEX] [--processor]`. Real tables come from the
folder in the environment variable MERCER_DATA; without it only the generated ones are planned. With `--processor`, one
thread works and its processor seconds are measured, so that other programs of a busy machine do not count.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mercer
from mercer.estimators import _pilots

from . import datasets

HERE = Path(__file__).parent
MEASURED = HERE.parent / "build" / "bench_plan.json"
_ENOUGH = 2.0  # seconds; shorter fits are repeated


class Case(NamedTuple):
    """A fit to plan: its name, the table with its rows, and the machine."""

    name: str
    source: str
    n: int | None
    machine: Callable[[int], Any]
    work: str = "fit"


def svc(C: float, times: float = 1.0, **more: Any) -> Callable[[int], Any]:
    """Return a function that makes a classifier with gamma = times / p."""
    return lambda p: mercer.SVC(C=C, gamma=times / p, **more)


CASES = (
    Case("SVC, C = 1: half are support vectors", "overlapping 20", 20_000, svc(1.0)),
    Case("SVC, C = 100, p = 20", "overlapping 20", 10_000, svc(100.0)),
    Case("SVC, C = 100", "electricity", 20_000, svc(100.0, 10.0)),
    Case("SVC: few support vectors", "skin", None, svc(10.0, 3.0)),
    Case("SVC, p = 784", "mnist 8", 10_000, svc(10.0, 10.0)),
    Case("SVC, CSR", "a9a", None, svc(1.0)),
    Case("SVC, CSR text, 56,436 columns", "20news comp", 10_000, lambda p: mercer.SVC(C=10.0, gamma=1.0)),
    Case("SVC, 26 classes", "letter", 16_000, svc(10.0)),
    Case("SVC, 10 classes, p = 256", "usps", None, svc(10.0, 10.0)),
    Case("SVC, more columns than rows", "topics", 2_000, lambda p: mercer.SVC(C=10.0, gamma=1.0)),
    Case("SVR", "cadata", 20_000, lambda p: mercer.SVR(epsilon=0.1, gamma=1.0 / p)),
    Case("OneClassSVM", "covtype 2", 20_000, lambda p: mercer.OneClassSVM(nu=0.1, gamma=50.0 / p)),
    Case("LinearSVC, dense", "covtype 2", None, lambda p: mercer.LinearSVC()),
    Case("LinearSVC, CSR text, 20 classes", "20 newsgroups", None, lambda p: mercer.LinearSVC()),
    Case("search, 10 settings × 5 folds", "electricity", 4_000, lambda p: _search(p)),
    Case("leave-one-out", "covtype 5k", 2_000, svc(1.0), "leave_one_out"),
)


def _search(p: int) -> Any:
    grid = {"C": [1.0, 10.0], "gamma": [2.0**k / p for k in range(-2, 3)]}
    return mercer.KernelSearchCV(mercer.SVC(n_jobs=1), grid, n_jobs=1)


def main() -> None:
    """Plan and fit, keep what was measured, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases, by a regular expression")
    parser.add_argument("--processor", action="store_true", help="processor seconds of one thread")
    asked = parser.parse_args()
    if asked.processor:
        _pilots.clock = time.process_time
    for case in CASES:
        is_asked = re.search(asked.only, f"{case.name} {case.source}")
        if not is_asked or not datasets.SOURCES[case.source].is_available:
            continue
        row = measured(case, one_thread=asked.processor)
        rows = {**(json.loads(MEASURED.read_text()) if MEASURED.exists() else {}), case.name: row}
        MEASURED.parent.mkdir(exist_ok=True)
        MEASURED.write_text(json.dumps(rows, indent=1))
        print(line(case.name, row), flush=True)


def measured(case: Case, *, one_thread: bool) -> dict[str, Any]:
    """Return the plan of a case, and what the work took."""
    table = datasets.load(case.source, case.n)
    machine = case.machine(table.X.shape[1])
    if one_thread and "n_jobs" in machine.get_params():
        machine.set_params(n_jobs=1)
    y = None if isinstance(machine, mercer.OneClassSVM) else table.y
    plan = mercer.plan(machine, table.X, y, work=case.work)
    seconds, fitted = [], None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while sum(seconds) < _ENOUGH and len(seconds) < 3:
            began = _pilots.clock()
            if case.work == "fit":
                fitted = machine.fit(table.X, *(() if y is None else (y,)))
            else:
                mercer.leave_one_out(machine, table.X, y)
            seconds.append(_pilots.clock() - began)
    took, fitted = min(seconds), getattr(fitted, "best_estimator_", fitted)
    support, peak, _ = (None, None, True) if fitted is None else _pilots.counts_of(fitted)
    return {
        "source": case.source,
        "n": table.X.shape[0],
        "pilots": sum(one.seconds for one in plan.pilots),
        "seconds": [plan.seconds, took],
        "support": [plan.n_support, support],
        "bytes": [plan.peak_bytes, None if plan.work == "search" else peak],
    }


def line(name: str, row: dict[str, Any]) -> str:
    """Return a case as a line of a table: forecast, truth and their ratio, of each quantity."""

    def cell(pair: list[float | None], form: str, unit: float = 1.0) -> str:
        forecast, truth = pair
        if not forecast or not truth:
            return "– | –"
        return f"{forecast / unit:{form}} / {truth / unit:{form}} | {forecast / truth:.2f}"

    parts = [cell(row["seconds"], ".2f"), cell(row["support"], ",.0f"), cell(row["bytes"], ".0f", 1e6)]
    return f"| {name} | {row['source']} | {row['n']:,} | {row['pilots']:.2f} | {' | '.join(parts)} |"


if __name__ == "__main__":
    main()
