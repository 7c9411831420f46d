"""Exact leave-one-out beside one fit of scikit-learn, beside refits with warm starts, and what each rule settles.

    python -m benchmarks.leave_one_out [PATTERN ...]

Refits are timed on a sample of the rows that Joachims' rule leaves open, and extrapolated to all of them.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import sklearn.svm

from mercer import SVC, leave_one_out
from mercer.selection.following import TIGHT, refit

from .datasets import load

SAMPLE = 20
CASES = [
    ("a9a", 10_000, 1.0, "rbf"),
    ("a9a", 10_000, 100.0, "rbf"),
    ("covtype 2", 10_000, 1.0, "rbf"),
    ("covtype 2", 10_000, 100.0, "rbf"),
    ("usps 8", 7_291, 1.0, "rbf"),
    ("usps 8", 7_291, 100.0, "rbf"),
    ("electricity", 5_000, 1.0, "rbf"),
    ("ijcnn1", 10_000, 1.0, "rbf"),
    ("svmguide1", 3_000, 1.0, "rbf"),
    ("reuters earn", None, 1.0, "linear"),
    ("20news comp", None, 1.0, "linear"),
    ("sms_spam", None, 1.0, "linear"),
]


def measure(source: str, n: int | None, C: float, kernel: str) -> str:
    table = load(source, n)
    gamma = 1.0 / table.X.shape[1]
    began = time.perf_counter()
    sklearn.svm.SVC(C=C, kernel=kernel, gamma=gamma).fit(table.X, table.y)
    peer = time.perf_counter() - began
    machine = SVC(C=C, kernel=kernel, gamma=gamma)
    found = leave_one_out(machine, table.X, table.y)
    rules = found.error_counts
    rows = len(table.y)
    sides = sum(rules.get(name, 0) for name in ("followed", "nothing changes", "refitted"))
    open_rows = np.flatnonzero(np.isin(found.error_rule, ["followed", "nothing changes", "refitted"]))
    fitted = machine.fit(table.X, table.y)
    evidence = fitted.solution_.certificate.evidence
    gram = evidence.gram()
    sample = np.random.default_rng(0).permutation(open_rows)[:SAMPLE]
    before, began = gram.n_values, time.perf_counter()
    worst = 0.0
    for row in sample:
        value, _ = refit(evidence.problem, gram, evidence.beta, int(row), TIGHT)
        worst = max(worst, abs(value - found.decision[row]))
    each = (time.perf_counter() - began) / max(1, sample.size)
    values = (gram.n_values - before) / max(1, sample.size)
    refitted = found.counts.get("refitted", 0)
    support = rows - found.counts.get("not a support vector", 0)
    return (
        f"| {source} C={C:g} {kernel} | {rows} | {found.error:.4f} "
        f"| {rules.get('misclassified in training', 0) / rows:.2%} "
        f"| {rules.get('Joachims', 0) / rows:.2%} | {sides / rows:.2%} | {refitted / rows:.2%} "
        f"| {found.seconds:.2f} | {found.seconds / peer:.2f} | {each * sides:.1f} "
        f"| {found.n_kernel_values / max(1, support):.0f} | {values:.0f} | {worst:.0e} |"
    )


def main(patterns: list[str]) -> None:
    warnings.filterwarnings("ignore")
    print(
        "| problem | n | error | misclassified | Joachims | open after his rule | refitted by us | seconds "
        "| / sklearn fit | his, warm starts | values/SV | his/row | worst difference |\n|" + "---|" * 13
    )
    for case in CASES:
        if not patterns or any(pattern in f"{case[0]} C={case[2]:g}" for pattern in patterns):
            print(measure(*case), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
