"""Cells against the exact machine: processor seconds, test error, and the bound of the optimum.

Run from the root of the repository: `python -m benchmarks.cells [--only REGEX] [--size ROWS ...]`. Real tables are in
the folder that the environment variable MERCER_DATA names. A sixth of the rows of a table tests.
"""

from __future__ import annotations

import argparse
import re
import time
from typing import Any, NamedTuple

import numpy as np

from mercer import RBF, SVC, Cells

from . import datasets


class Case(NamedTuple):
    """A table and the parameters of its machine."""

    source: str
    gamma: float
    C: float
    n: int | None = None


CASES = (
    Case("covtype 2", 8.0, 10.0),
    Case("electricity", 0.1, 10.0),
    Case("cod_rna", 0.1, 10.0),
    Case("skin", 1.0, 10.0, 100_000),
    Case("susy-like", 0.02, 1.0, 100_000),
    Case("letter", 0.1, 10.0),
    Case("mnist", 0.02, 10.0, 60_000),
)


def fitted(case: Case, approximation: Any) -> tuple[Any, float, float]:
    """Return a machine, the processor seconds of its fit, and its error on the rows that test."""
    table = datasets.load(case.source, case.n)
    X, y = table.X, table.y
    order = np.random.default_rng(0).permutation(y.size)
    test, train = np.sort(order[: y.size // 6]), np.sort(order[y.size // 6 :])
    began = time.process_time()
    machine = SVC(kernel=RBF(gamma=case.gamma), C=case.C, approximation=approximation).fit(X[train], y[train])
    seconds = time.process_time() - began
    return machine, seconds, 100.0 * (1.0 - machine.score(X[test], y[test]))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="tables whose names match")
    parser.add_argument("--size", type=int, nargs="*", default=[], help="rows of a cell, besides those of the pilot")
    asked = parser.parse_args()
    print("| table | machine | processor seconds | error, % | bound / optimum |\n| --- | --- | --- | --- | --- |")
    for case in CASES:
        if not re.search(asked.only, case.source):
            continue
        exact, seconds, error = fitted(case, None)
        print(
            f"| {case.source} | exact, {exact.support_.size:,} support vectors | {seconds:.2f} | {error:.2f} | |",
            flush=True,
        )
        for size in (None, *asked.size):
            machine, seconds, error = fitted(case, Cells(size))
            certificate = machine.certificate_
            bound = certificate.exact_dual / exact.certificate_.primal
            print(f"| | {machine.approximation_.reason} | {seconds:.2f} | {error:.2f} | {bound:.3f} |", flush=True)


if __name__ == "__main__":
    main()
