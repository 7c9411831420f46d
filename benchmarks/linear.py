"""Time of linear machines until the primal objective is within 1e-4 of the optimum, against their peers.

Run from the root of the repository: `make bench-linear`, or

    python -m benchmarks.linear [--only REGEX] [--minutes N] [--threads N] [--out FILE]

Every contender gets the same float32 rows, with a column of ones for the bias, in a process of its own. Its objective
is computed again from its w in float64, relative to the best objective of all, which mercer certifies to a gap of 1e-8.
Peers climb a ladder of tolerances until they are within 1e-4, and the run that was is timed: a tighter tolerance is
another run. A run is ended after 60 s, or where it has taken 2 s and twice as long as the aim asks of a peer: more
would only show that mercer is still faster. Runs below 2 s are repeated in turn: their median counts.
Rows are run in the order of importance, and each may take its share of the time that is left.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import machine
from .linear_peers import CONTENDERS, contenders_of
from .linear_problems import Workload, is_available, objective, rows_of, susy_like

HERE = Path(__file__).parent
TARGET = 1e-4
"""Relative distance of the primal objective to the optimum that a run must reach."""

LIMIT = 60.0  # seconds of one run
PEER_FACTOR = 2.0  # how many times longer than the aim asks for a peer may take
SHORT = 2.0  # seconds; shorter runs are repeated
REPEATS = 3
LOADING = 120.0  # seconds to import a library, make the rows and run on a few of them
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
"""How the seconds of a run are counted: those of the processor, on one thread, if the machine has other work."""

SMOOTH, BOX, TEXT, SPARSE = "smooth, dense", "hinge and tube, dense", "text", "l1"
SHAPES = "many shapes"
GOALS = {SMOOTH: (5.0, 12.0), BOX: (10.0, 30.0), TEXT: (2.5, 4.0), SPARSE: (1.5, 5.0), SHAPES: (2 / 3, 1.5)}
"""How many times faster than the best peer mercer must be, and aims to be."""

STEEP_TEXT = (5.0, 15.0)  # the same for text with C >= 10
_SHARES = {"susy-like": 12.0}  # of the time for a workload on average, where it is not 3

PASSES = {"squared_hinge": (60.0, 25.0), "hinge": (250.0, 120.0)}
"""The time of a fit over that of one product X @ w in float32: at most, and the aim."""

OUT_OF_CORE = (2.5, 1.5)
"""The time of a fit from a file over that of reading and parsing it: at most, and the aim."""


def workloads() -> list[Workload]:
    """Return all problems, the most important first."""
    problems = []
    for C in (1.0, 100.0, 0.01):
        for table in ("ijcnn1", "covtype", "skin"):
            problems += [Workload(SMOOTH, table, loss, C) for loss in ("squared_hinge", "logistic")]
            problems += [Workload(BOX, table, loss, C) for loss in ("hinge", "epsilon_insensitive")]
        text = {1.0: (1.0,), 100.0: (10.0,), 0.01: (0.1, 100.0)}[C]
        for table in ("20 newsgroups", "reuters acq"):
            problems += [Workload(TEXT, table, loss, one) for one in text for loss in ("squared_hinge", "hinge")]
        if C == 1.0:
            problems += [Workload(SPARSE, "reuters acq", loss, C, "l1") for loss in ("squared_hinge", "logistic")]
            problems += [Workload(SPARSE, "covtype", loss, 0.01, "l1") for loss in ("squared_hinge", "logistic")]
            problems += [Workload(SMOOTH, "susy-like", "squared_hinge", C), Workload(BOX, "susy-like", "hinge", C)]
    return problems


# --- A contender's process.


def _serve(connection: Connection, name: str, threads: int, limit: float, clock: str) -> None:
    """Answer commands until the other side hangs up: ("take", workload and folder), ("fit", tol), ("drop", None)."""
    try:
        contender = None
        while True:
            command, argument = connection.recv()
            answer = None
            if command == "fit":
                assert contender is not None
                in_use = _reset_peak()
                began = CLOCKS[clock]()
                w = contender.fit(argument)
                seconds = CLOCKS[clock]() - began
                peak = None if in_use is None else max(0, _memory("VmHWM") - in_use)
                answer = seconds, np.asarray(w), peak, contender.claims()
            else:
                contender = None  # the rows of the last workload are freed first
            if command == "take":
                workload, folder = argument
                X, y = _read(folder)
                few = np.concatenate([np.flatnonzero(y == one)[:40] for one in np.unique(y)[:20]])
                few = np.arange(min(200, y.size)) if workload.is_regression else few
                CONTENDERS[name](workload, X[few], y[few], threads).fit(1e-1)  # first calls take longer
                contender = CONTENDERS[name](workload, X, y, threads, limit)
            connection.send(("done", answer))
    except EOFError:
        pass
    except Exception as error:
        traceback.print_exc()
        connection.send(("failed", f"{type(error).__name__}: {error}".splitlines()[0]))


def _write(folder: Path, X: Any, y: Any) -> None:
    """Write rows and targets for the processes of the contenders."""
    if sp.issparse(X):
        sp.save_npz(folder / "X.npz", X, compressed=False)
    else:
        np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)


def _read(folder: Path) -> tuple[Any, Any]:
    X = sp.load_npz(folder / "X.npz") if (folder / "X.npz").exists() else np.load(folder / "X.npy")
    return X, np.load(folder / "y.npy")


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def _reset_peak() -> int | None:
    forget = Path("/proc/self/clear_refs")
    if not forget.exists():
        return None
    forget.write_text("5")
    return _memory("VmRSS")


# --- The referee's process.


@dataclass
class Run:
    """One run of a contender: its tolerance, its seconds, and how far its objective is from the optimum."""

    tol: float
    seconds: float
    primal: float
    excess: float = np.inf


@dataclass
class Result:
    """What is known of a contender on a workload.

    Attributes
    ----------
    runs : list of Run
    peak_bytes : int or None
        Memory of the first run beyond what the process held before.
    failure : str
        Why there is no further run; "" if none was wanted.
    waited : float
        Seconds of a run that was ended.
    claims : dict
        What the contender says about its last run.
    """

    runs: list[Run] = field(default_factory=list)
    peak_bytes: int | None = None
    failure: str = ""
    waited: float = 0.0
    claims: dict[str, Any] = field(default_factory=dict)

    def judge(self, optimum: float) -> None:
        """Set the excess of each run over the optimum."""
        for run in self.runs:
            run.excess = (run.primal - optimum) / max(abs(optimum), np.finfo(float).tiny)

    @property
    def tol(self) -> float | None:
        """The loosest tolerance whose runs all reach the target, or None."""
        tols = sorted({run.tol for run in self.runs}, reverse=True)
        return next((tol for tol in tols if all(run.excess <= TARGET for run in self.at(tol))), None)

    def at(self, tol: float) -> list[Run]:
        """Return the runs with this tolerance."""
        return [run for run in self.runs if run.tol == tol]

    @property
    def seconds(self) -> float | None:
        """The median time of the runs that reach the target; None if none does."""
        return None if self.tol is None else median(run.seconds for run in self.at(self.tol))

    @property
    def at_least(self) -> float | None:
        """A lower bound of the time until the target is reached, if it was not reached."""
        if self.tol is not None:
            return None
        if self.waited:
            return self.waited
        if not self.failure:  # no tolerance of the ladder leads there, so the limit counts
            return LIMIT if self.runs else None
        return max((run.seconds for run in self.runs), default=None)

    @property
    def best_excess(self) -> float:
        """The smallest distance that any run reached."""
        return min((run.excess for run in self.runs), default=np.inf)


class Absent(Exception):  # noqa: N818 - a finding, not an error
    """A contender that failed or ran out of time."""


class Seat:
    """A contender's process, seen from outside."""

    def __init__(self, name: str, threads: int, limit: float = LIMIT, clock: str = "wall") -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, name, threads, limit, clock), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_open(self) -> bool:
        """Whether the process can answer."""
        return self._process.is_alive()

    def take(self, workload: Workload, folder: Path) -> None:
        """Have it prepare the rows of a workload."""
        self._connection.send(("take", (workload, folder)))
        self._answer(LOADING)

    def drop(self) -> None:
        """Have it free the rows."""
        self._connection.send(("drop", None))
        self._answer(LOADING)

    def fit(self, tol: float, limit: float) -> Any:
        """Return seconds, w, peak memory and claims of a run."""
        self._connection.send(("fit", tol))
        return self._answer(limit)

    def _answer(self, limit: float) -> Any:
        """Return the next answer; end the process and raise Absent if it does not come within the limit."""
        if not self._connection.poll(limit):
            self.close()
            raise Absent(f"> {limit:.0f} s")
        try:
            kind, answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self.close()
            raise Absent("its process died") from None
        if kind == "failed":
            self.close()
            raise Absent(answer)
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


class Seats:
    """The processes of all contenders; they are kept from workload to workload, because imports take seconds."""

    def __init__(self, threads: int, limit: float = LIMIT, clock: str = "wall") -> None:
        self.threads, self.limit, self.clock = threads, limit, clock
        self._seats: dict[str, Seat] = {}

    def open(self, name: str, workload: Workload, folder: Path) -> Any:
        """Return the seat of a contender, with the rows of a workload."""
        if name not in self._seats or not self._seats[name].is_open:
            self._seats[name] = Seat(name, self.threads, self.limit, self.clock)
        self._seats[name].take(workload, folder)
        return self._seats[name]

    def close(self) -> None:
        """End all processes."""
        for seat in self._seats.values():
            seat.close()


@dataclass(frozen=True)
class Rules:
    """When runs end.

    Attributes
    ----------
    limit : float
        Seconds of a run.
    grace : float
        Seconds by which mercer may miss the limit, which it is told.
    peer_seconds : float
        Seconds that a peer always gets.
    reference : float or None
        Gap of mercer's solution that gives the optimum; None if the best of all results is the optimum.
    """

    limit: float = LIMIT
    grace: float = 0.0
    peer_seconds: float = SHORT
    reference: float | None = 1e-8


def race(
    workload: Workload,
    names: Sequence[str],
    seats: Any,
    *,
    seconds: float,
    rules: Rules = Rules(),
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Run a workload and return what was measured; contenders without time left are cut, and it is said.

    Parameters
    ----------
    workload : Workload
    names : sequence of str
        Contenders, mercer first.
    seats : Seats
    seconds : float
        Time for the whole workload.
    rules : Rules
    """
    ends_at = clock() + seconds
    X, y = rows_of(workload)
    results = {name: Result() for name in names}
    racing: dict[str, Any] = {}
    reference: dict[str, float] | None = None

    def run(name: str, tol: float) -> None:
        result, limit = results[name], min(rules.limit, ends_at - clock())
        mercer_seconds = results["mercer"].seconds
        if name != "mercer" and mercer_seconds is not None and not CONTENDERS[name].compiles:
            limit = min(limit, max(rules.peer_seconds, PEER_FACTOR * goal_of(workload)[1] * mercer_seconds))
        if limit <= 0.0:
            raise Absent("cut: no time was left")
        try:
            took, w, peak, claims = racing[name].fit(tol, limit + (rules.grace if name == "mercer" else 0.0))
        except Absent as absent:
            if str(absent).startswith(">"):
                result.waited = limit
            raise
        if not result.runs:
            result.peak_bytes, result.claims = peak, claims
        result.runs.append(Run(tol, took, objective(workload, X, y, w)))

    def judge() -> float:
        best = min((one.primal for result in results.values() for one in result.runs), default=np.inf)
        best = best if reference is None else min(best, reference["primal"])
        for result in results.values():
            result.judge(best)
        return best

    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        _write(folder, X, y)
        for name in names:
            try:
                if ends_at - clock() <= 0.0:
                    raise Absent("cut: no time was left")
                racing[name] = seats.open(name, workload, folder)
                if name == "mercer" and rules.reference is not None:
                    reference = _reference(racing[name], workload, X, y, min(rules.limit, ends_at - clock()))
                for tol in CONTENDERS[name].ladder:
                    run(name, tol)
                    judge()
                    if results[name].tol is not None:
                        break
            except Absent as absent:
                results[name].failure = str(absent)
                racing.pop(name, None)
            peer_seconds = results[name].seconds
            if name in racing and (peer_seconds is None or peer_seconds >= SHORT):
                racing.pop(name).drop()  # no further run, so its memory is for the others
        judge()
        for _ in range(REPEATS - 1):  # in turn, because the speed of a machine varies
            for name in list(racing):
                again = results[name].tol
                if again is not None and clock() < ends_at:
                    try:
                        run(name, again)
                        judge()
                    except Absent:
                        racing.pop(name)
        optimum = judge()
    for seat in racing.values():
        seat.drop()
    return {"workload": workload, "n": X.shape[0], "p": X.shape[1] - 1, "optimum": optimum, "results": results} | {
        "gap": None if reference is None else reference["gap"]
    }


def _reference(seat: Any, workload: Workload, X: Any, y: Any, limit: float) -> dict[str, float] | None:
    """Return the objective and the certified relative gap of a very tight solution; None if there was no time."""
    if limit <= 0.0:
        raise Absent("cut: no time was left")
    try:
        _, w, _, claims = seat.fit(1e-8, limit)
    except Absent as absent:
        if str(absent).startswith(">"):
            raise
        return None
    gap = claims.get("relative_gap")
    return {"primal": objective(workload, X, y, w), "gap": np.nan if gap is None else float(gap)}


# --- Passes over memory, and files.


def passes(n: int, threads: int) -> list[list[str]]:
    """Return rows of the table of fits in units of one product X @ w in float32."""
    from mercer import LinearSVC

    X, y = susy_like(n)
    w = np.ones(X.shape[1], dtype=np.float32)
    X @ w
    one = median(_timed(lambda: X @ w) for _ in range(5))
    rows = []
    for loss, (most, aim) in PASSES.items():
        seconds = median(_timed(lambda: LinearSVC(loss=loss, n_jobs=threads).fit(X, y)) for _ in range(REPEATS))  # noqa: B023
        rows.append([f"{loss.replace('_', ' ')}, {n:,} × {X.shape[1]}", f"{1e3 * one:.2f} ms", f"{seconds:.3f} s"])
        rows[-1] += [f"{seconds / one:.0f}", f"{most:.0f} / {aim:.0f}"]
    return rows


def out_of_core(n: int) -> list[str]:
    """Return a row: the seconds of a fit from a file, without its blocks and with them, and the ratio to parsing."""
    import pyarrow as pa
    import pyarrow.csv

    from mercer import LinearSVC

    X, y = susy_like(n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y}
        pyarrow.csv.write_csv(pa.table(columns), path)
        size = path.stat().st_size
        from_file = _timed(lambda: LinearSVC(C=1.0).fit_file(path, target="y", memory="200MB"))
        again = _timed(lambda: LinearSVC(C=1.001).fit_file(path, target="y", memory="200MB"))
    parsing = max(from_file - again, 1e-9)
    return [f"{n:,} rows, {1e-6 * size:.0f} MB", f"{from_file:.2f} s", f"{again:.2f} s", f"{from_file / parsing:.2f}"]


def exact_kernels(n: int, threads: int) -> Iterator[list[str]]:
    """Yield rows of the table of machines with a Gaussian kernel on as many rows, with few and more support vectors."""
    from sklearn.datasets import make_moons

    from mercer import SVC

    tables = {}
    for noise in (0.1, 0.15):
        X, y = make_moons(n, noise=noise, random_state=0)
        tables[f"two moons, noise {noise:g}"] = X.astype(np.float32), y
    skin = Workload(BOX, "skin", "hinge", 1.0)
    if is_available(skin):
        X, y = rows_of(skin)
        tables["skin"] = X[:, :-1], y
    for name, (X, y) in tables.items():
        machine = SVC(C=1.0, gamma=1.0, n_jobs=threads)
        seconds = _timed(lambda: machine.fit(X, y))  # noqa: B023
        supports, certificate = int(machine.n_support_.sum()), machine.certificate_
        size = f"{name}, {X.shape[0]:,} × {X.shape[1]}"
        yield [size, f"{supports:,}", f"{seconds:.1f} s", f"{certificate.status}, {certificate.relative_gap:.0e}"]


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


# --- The page.


def speedup(record: dict[str, Any]) -> tuple[float, bool] | None:
    """Return how many times longer the best peer takes than mercer, and whether that is a lower bound."""
    mercer_seconds = record["results"]["mercer"].seconds
    peers = [one for name, one in record["results"].items() if name != "mercer"]
    if mercer_seconds is None or not peers:
        return None
    reached = [one.seconds for one in peers if one.seconds is not None]
    if reached:
        return min(reached) / mercer_seconds, False
    bounds = [one.at_least for one in peers if one.at_least is not None]
    return (min(bounds) / mercer_seconds, True) if bounds else None


def goal_of(workload: Workload) -> tuple[float, float]:
    """Return what the speedup must be, and what it is aimed at."""
    return STEEP_TEXT if workload.section == TEXT and workload.C >= 10.0 else GOALS[workload.section]


def page(records: Sequence[dict[str, Any]], others: Sequence[str], cuts: Sequence[str], facts: str) -> str:
    """Return the page in Markdown."""
    parts = ["# Linear machines", facts, __doc__.split("\n\n", 3)[3].strip() if __doc__ else ""]
    for section in dict.fromkeys(record["workload"].section for record in records):
        section_records = [record for record in records if record["workload"].section == section]
        ratios = [ratio for record in section_records if (ratio := speedup(record)) is not None]
        summary = "" if not ratios else f"Geometric mean: {geometric_mean(one[0] for one in ratios):.1f} ×."
        parts += [f"## {section[0].upper()}{section[1:]}", "\n".join(_lines(section_records)), summary]
    if cuts:
        parts.append("## Cut\n\n" + "\n".join(f"- {cut}" for cut in cuts))
    return "\n\n".join(part for part in [*parts, *others] if part) + "\n"


def _lines(records: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for record in records:
        workload, speed, (must, aim) = record["workload"], speedup(record), goal_of(record["workload"])
        gap = "not certified" if record["gap"] is None else f"{record['gap']:.0e}"
        ratio = "-" if speed is None else f"{'> ' if speed[1] else ''}{speed[0]:.1f} × ({must:g} / {aim:g})"
        peers = {name: one for name, one in record["results"].items() if name != "mercer"}
        rows.append(
            [
                f"{workload.name}, {record['n']:,} × {record['p']:,}",
                f"{record['optimum']:.8g}, {gap}",
                _shown(record["results"]["mercer"]),
                ratio,
                "; ".join(f"{name} {_shown(one)}" for name, one in peers.items()),
            ]
        )
    heads = ["problem, n × p", "optimum, its gap", "mercer", "× best peer (must / aim)", "peers"]
    return table(heads, rows)


def _shown(one: Result) -> str:
    memory = "" if one.peak_bytes is None else f", {one.peak_bytes / 2**20:.0f} MB"
    if one.seconds is not None:
        return f"{one.seconds:.3g} s ({one.best_excess:.0e}{memory})"
    if one.at_least is None:
        return one.failure or "-"
    best = f"best {one.best_excess:.0e}" if np.isfinite(one.best_excess) else "no result"
    how = "never" if not one.failure else f"> {one.at_least:.3g} s"
    return f"{how} ({best}{memory})"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


def main() -> None:
    """Race, print the page and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads, by a regular expression; passes and files are 'other'")
    parser.add_argument("--minutes", type=float, default=19.0, help="of the whole run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="the page  [default: benchmarks/LINEAR.md if everything is run]")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the passes and the file")
    options = parser.parse_args()
    chosen = [one for one in workloads() if re.search(options.only, one.name)]
    at_hand = [one for one in chosen if is_available(one)]
    cuts = [f"{one.name}: its table is not in the folder MERCER_DATA" for one in chosen if one not in at_hand]
    with_others = not options.only or re.search(options.only, "other") is not None
    if not chosen and not with_others:
        raise SystemExit(
            f"no workload matches {options.only!r}; there are: {'; '.join(one.name for one in workloads())}"
        )
    ends_at, monitor, others = time.perf_counter() + 60.0 * options.minutes, machine.ProgressMonitor(), []
    if with_others:
        heads = ["fit", "one X @ w", "mercer", "passes", "must / aim"]
        others.append("## Passes\n\n" + "\n".join(table(heads, passes(options.rows, options.threads))))
        heads = ["file", "parse and fit", "fit from blocks", f"× parsing (must {OUT_OF_CORE[0]}, aim {OUT_OF_CORE[1]})"]
        others.append("## Out of core\n\n" + "\n".join(table(heads, [out_of_core(options.rows)])))
        heads = ["Gaussian kernel, n × p", "support vectors", "mercer", "certificate, relative gap"]
        kernel_rows = table(heads, list(exact_kernels(options.rows, options.threads)))
        others.append("## Exact kernel machines of this size\n\n" + "\n".join(kernel_rows))
    records, seats = [], Seats(options.threads)
    for place, workload in enumerate(at_hand):
        left = ends_at - time.perf_counter()
        if left <= 0.0:
            cuts += [f"{one.name}: no time was left" for one in at_hand[place:]]
            break
        share = min(left, _SHARES.get(workload.table, 3.0) * left / (len(at_hand) - place))  # most take less
        print(f"{workload.name} ({left / 60.0:.1f} min left)", flush=True)
        records.append(race(workload, contenders_of(workload), seats, seconds=share))
        print("\n".join(_lines(records[-1:])[2:]), flush=True)
    seats.close()
    load = monitor.report()
    facts = (
        f"{datetime.now(UTC):%Y-%m-%d}. {machine.described(machine.describe(options.threads))}; {options.threads} "
        f"threads; load at the start {load['load_average']:.2f}, others busy {load['others_busy'] or 0.0:.2f} cores, "
        f"{load['race_seconds'] / 60.0:.1f} minutes."
    )
    text = page(records, others, cuts, facts)
    print(text)
    out = options.out or (None if options.only else HERE / "LINEAR.md")
    if out is not None:
        out.write_text(text, encoding="utf-8")
        print(f"Written to {out}.")


if __name__ == "__main__":
    main()
