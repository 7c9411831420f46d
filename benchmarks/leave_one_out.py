"""Exact leave-one-out beside one fit of scikit-learn, n refits, and Joachims' algorithm on the same engine.

Run from the root of the repository: `make bench-loo`, or

    python -m benchmarks.leave_one_out [--only REGEX] [--shares]

which measures the problems that match, and leaves the other lines of LEAVE_ONE_OUT.md as they are: each has its date
and the files of the package that it was measured with. `--shares` counts only which rule settles which rows, which no
other work on the machine falsifies. Joachims' algorithm (train again without each row that his rule
leaves open, from the known solution on) and independent refits are timed on a sample of rows, and extrapolated; both to
the tolerance of a fit, where ours is exact. Times are of the processor, all threads together, so that a busy machine
falsifies little; what is compared with a fit is timed by the clock as well, in the median of three runs.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.svm
from sklearn.multiclass import OneVsRestClassifier

from mercer import SVC, leave_one_out
from mercer.certificates.solution import Limits
from mercer.model_selection.leave_one_out import LeaveOneOut
from mercer.solvers.paths.reduced_problem import refit

from . import datasets, machine

PAGE = Path(__file__).parent / "LEAVE_ONE_OUT.md"
SAMPLE, SECONDS, CHECKED = 50, 3.0, 3
"""Rows in a sample, or fewer where they would take longer than that; rows refitted to the last digit."""
TOL, TO_THE_LAST = 1e-3, 1e-11
RUNS = 3  # of what is compared with a fit of scikit-learn


@dataclass(frozen=True)
class Case:
    """A problem; `times` is gamma in units of 1/p, `scheme` that of several classes."""

    source: str
    n: int | None
    C: float
    kernel: str = "rbf"
    times: float = 1.0
    scheme: str = "ovo"

    @property
    def name(self) -> str:
        gamma = "" if self.times == 1.0 else f", γ = {self.times:g}/p"
        return f"{self.source}, {self.kernel}, C = {self.C:g}{gamma}"

    def machine(self, p: int) -> SVC:
        return SVC(C=self.C, kernel=self.kernel, gamma=self.times / p, multi_class=self.scheme, tol=TOL)

    def peer(self, p: int) -> Any:
        peer = sklearn.svm.SVC(C=self.C, kernel=self.kernel, gamma=self.times / p)
        return peer if self.scheme == "ovo" else OneVsRestClassifier(peer)


CASES = [
    *(Case("a9a", 10_000, C) for C in (1.0, 100.0)),
    *(Case("covtype 2", 10_000, C) for C in (1.0, 100.0)),
    *(Case("covtype 2", 10_000, C, times=50.0) for C in (1.0, 100.0)),
    *(Case("usps", 7_291, C, scheme="ovr") for C in (1.0, 100.0)),
    *(Case("usps 8", 7_291, C) for C in (1.0, 100.0)),
    Case("electricity", 5_000, 1.0),
    Case("ijcnn1", 10_000, 1.0),
    Case("svmguide1", 3_000, 1.0),
    *(
        Case(source, None, 1.0, "linear")
        for source in ("reuters earn", "reuters acq", "webkb course", "webkb student", "20news comp", "sms_spam")
    ),
]

PREAMBLE = """# make bench-loo: exact leave-one-out

- Seconds are of the processor, all threads together, but for *clock*: ours has two threads, scikit-learn one.
- *values*: exact decision values of all rows, after the *fit*; *clock*: the same by the clock, on two processors;
  *errors*: `what="errors"`; *sklearn*: one fit, not measured for the linear kernel; *fits*: *clock* in such fits, by
  the clock; *CPU fits*: *values* in such fits, by the processor; radial kernels: in the median of three runs; *n
  refits*: each row left out by itself, independently, by this library; *his*: Joachims' algorithm on our solver, warm
  starts. The last two are extrapolated from 50 rows, or what 3 s allow, and stop at a violation of 1e-3.
- *misclassified*, *Joachims*, *open*: shares of the rows that are training errors, that his lemma settles as right, and
  that it leaves to be trained again. Ours leaves *refitted*.
- *values/open*, *ms/open*: kernel values and milliseconds for each row that his rule leaves open, ours and his.
- *worst*: largest difference from three refits to 1e-11, in units of the largest decision value.
- *measured*: on which day, and with which files of the package (a hash of them, no commit): lines may be of several.
- Joachims' own figures, on other splits and words: his rule leaves open 0.58 % of Reuters (n = 6,451), 20.42 % of WebKB
  (n = 2,092) and 2.56 % of Ohsumed (n = 10,000; not at hand), and his algorithm took 32.3, 235.4 and 1132.3 s then.
"""

_COLUMNS = (
    "problem | n | error | fit | values | clock | errors | sklearn | fits | CPU fits | n refits | his | misclassified "
    "| Joachims | open | refitted | values/open: ours | his | ms/open: ours | his | worst | measured"
)
HEAD = f"| {_COLUMNS} |\n|---|" + "---:|" * _COLUMNS.count("|")


RULES = ("not a support vector", "misclassified in training", "Joachims", "nothing changes", "followed", "refitted")
"""In the order in which they are asked."""

SHARES = """
## Which rule settles what

Shares of the rows, each counted for the first rule that settles whether it is an error: *misclassified in training* and
*Joachims* are his; *nothing changes* is the span: no other row changes sides; *followed* is found from the known
solution; *refitted* rows are left to be trained again by ours, *open* by his. Of one machine for each class, shares are
of all values, and the rules for errors alone are not asked."""

SHARES_HEAD = (
    "| problem | "
    + " | ".join(RULES)
    + " | trained again by his (open) | by ours | measured |\n|---|"
    + "---:|" * (len(RULES) + 3)
)


def shares(case: Case, measured: str) -> str:
    """Count which rule settles how many rows."""
    table = datasets.load(case.source, case.n)
    return shares_of(case, leave_one_out(case.machine(table.X.shape[1]), table.X, table.y), measured)


def shares_of(case: Case, loo: LeaveOneOut, measured: str) -> str:
    """Say which rule settles how many rows."""
    counts = loo.error_counts or loo.counts
    n = sum(counts.values())
    if unnamed := set(counts) - set(RULES):
        raise ValueError(f"{case.name}: no column for {sorted(unnamed)}")
    his = "-" if loo.error_rule is None else f"{sum(counts.get(rule, 0) for rule in RULES[3:]) / n:.2%}"
    each = [f"{counts.get(rule, 0) / n:.2%}" for rule in RULES]
    return "| " + " | ".join([case.name, *each, his, each[-1], measured]) + " |"


def line(case: Case, measured: str) -> tuple[str, str]:
    """Measure a problem, and count its shares; `measured` says when and with what."""
    table = datasets.load(case.source, case.n)
    p, n = table.X.shape[1], table.X.shape[0]
    n_runs = RUNS if case.kernel == "rbf" else 1
    fit, _ = seconds_of(lambda: case.machine(p).fit(table.X, table.y), n_runs)
    both, loo = seconds_of(lambda: leave_one_out(case.machine(p), table.X, table.y), n_runs)
    quick, errors = seconds_of(lambda: leave_one_out(case.machine(p), table.X, table.y, what="errors"))
    assert errors.error == loo.error
    loo_seconds, clock = max(0.0, both.processor - fit.processor), max(0.0, both.clock - fit.clock)
    peer, fits, processor_fits, his = "-", "-", "-", ["-"] * 9
    if case.kernel == "rbf":
        one, _ = seconds_of(lambda: case.peer(p).fit(table.X.astype(np.float64), table.y), n_runs)
        peer, fits, processor_fits = (
            f"{one.clock:.2f}",
            f"{clock / one.clock:.2f}",
            f"{loo_seconds / one.processor:.2f}",
        )
    if loo.error_rule is not None:
        his = beside(case, table, loo, loo_seconds)
    cells = [
        case.name, f"{n:,}", f"{loo.error:.4f}", f"{fit.processor:.2f}", f"{loo_seconds:.2f}", f"{clock:.2f}",
        f"{max(0.0, quick.processor - fit.processor):.2f}", peer, fits, processor_fits, n_refits(case, table), *his,
    ]  # fmt: skip
    refitted = f"{loo.counts.get('refitted', 0) / loo.rule.size:.2%}"
    cells.insert(15, refitted)
    return "| " + " | ".join([*cells, measured]) + " |", shares_of(case, loo, measured)


def n_refits(case: Case, table: datasets.Table) -> str:
    """Seconds of n fits."""
    machine, n = case.machine(table.X.shape[1]), table.X.shape[0]

    def fit(row: int) -> None:
        others = np.delete(np.arange(n), row)
        machine.fit(table.X[others], table.y[others])

    return f"{n * each(np.random.default_rng(1).permutation(n), fit):,.0f}"


def beside(case: Case, table: datasets.Table, loo: LeaveOneOut, loo_seconds: float) -> list[str]:
    """What Joachims' rule settles, and what his algorithm takes."""
    assert loo.error_rule is not None
    n = table.X.shape[0]
    shares = {rule: count / n for rule, count in loo.error_counts.items()}
    open_rows = np.flatnonzero(np.isin(loo.error_rule, ["followed", "nothing changes", "refitted"]))
    evidence = case.machine(table.X.shape[1]).fit(table.X, table.y).solution_.certificate.evidence
    assert evidence is not None
    gram, problem = evidence.gram(), evidence.problem
    checked = open_rows[:: open_rows.size // CHECKED + 1]
    exact = [refit(problem, gram, evidence.beta, int(row), TO_THE_LAST)[0] for row in checked]
    worst = np.abs(np.array(exact) - loo.decision[checked]).max(initial=0.0)
    before, rows = gram.n_values, np.random.default_rng(0).permutation(open_rows)
    n_done = 0

    def train_again(row: int) -> None:
        nonlocal n_done
        refit(problem, gram, evidence.beta, row, Limits().tol)
        n_done += 1

    seconds = each(rows, train_again)
    size = max(1, open_rows.size)
    return [
        f"{open_rows.size * seconds:,.1f}",
        f"{shares.get('misclassified in training', 0.0):.2%}",
        f"{shares.get('Joachims', 0.0):.2%}",
        f"{open_rows.size / n:.2%}",
        f"{loo.n_kernel_values / size:,.0f}",
        f"{(gram.n_values - before) / max(1, n_done):,.0f}",
        f"{1e3 * loo_seconds / size:.2f}",
        f"{1e3 * seconds:.2f}",
        f"{worst / np.abs(loo.decision).max():.0e}",
    ]


def each(rows: np.ndarray[Any, Any], work: Callable[[int], None]) -> float:
    """Seconds that a row takes, in the mean of a sample."""
    began, n_done = time.process_time(), 0
    for row in rows[:SAMPLE].tolist():
        work(row)
        n_done += 1
        if time.process_time() - began > SECONDS:
            break
    return (time.process_time() - began) / max(1, n_done)


class Seconds(NamedTuple):
    """How long something has taken: of the processor, all threads together, and by the clock."""

    processor: float
    clock: float


def seconds_of(work: Callable[[], Any], n_runs: int = 1) -> tuple[Seconds, Any]:
    """How long something takes, in the median of some runs, and what it returns."""
    runs, returned = [], None
    for _ in range(n_runs):
        began = time.process_time(), time.perf_counter()
        returned = work()
        runs.append((time.process_time() - began[0], time.perf_counter() - began[1]))
    return Seconds(*np.median(runs, axis=0).tolist()), returned


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--shares", action="store_true")
    options = parser.parse_args()
    chosen = [case for case in CASES if re.search(options.only, case.name)]
    if not chosen:
        raise SystemExit(f"no problem matches {options.only!r}; there are: {'; '.join(case.name for case in CASES)}.")
    at_hand = [case for case in chosen if datasets.SOURCES[case.source].is_available]
    if absent := "; ".join(case.name for case in chosen if case not in at_hand):
        print(f"Not run, for want of data (see MERCER_DATA): {absent}.", file=sys.stderr)
    if not at_hand:
        raise SystemExit("The environment variable MERCER_DATA must name the folder that holds their files.")
    warnings.filterwarnings("ignore")
    written = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    border = written.index(SHARES.splitlines()[1]) if SHARES.splitlines()[1] in written else len(written)
    lines, counted = (
        {case.name: one for case in CASES for one in part if one.startswith(f"| {case.name} |")}
        for part in (written[:border], written[border:])
    )
    facts = machine.describe(threads=2)
    measured = f"{datetime.now(UTC).date().isoformat()} {facts['build']}"
    stamp = f"- The last of them with {machine.described(facts)}."
    if options.shares:
        stamp = next((one for one in written if one.startswith("- The last of them with ")), stamp)
    else:
        leave_one_out(SVC(), *sklearn.datasets.load_iris(return_X_y=True))
    for case in at_hand:
        if options.shares:
            counted[case.name] = shares(case, measured)
        else:
            lines[case.name], counted[case.name] = line(case, measured)
            print(lines[case.name], flush=True)
        print(counted[case.name], flush=True)
    ordered, of_rules = ([by_case[case.name] for case in CASES if case.name in by_case] for by_case in (lines, counted))
    page = [PREAMBLE + stamp, "", HEAD, *ordered, SHARES, "", SHARES_HEAD, *of_rules]
    PAGE.write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
