"""The benchmark program, tested without its data sets."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from math import inf, log10, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mercer
import plain
from cases import blobs

pytestmark = pytest.mark.full  # each test takes about a second

ROOT = Path(__file__).parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT)
    from benchmarks import machine, micro, problems, race, report, run, search, structured, truth
    from benchmarks.datasets import Table
    from benchmarks.peers import Mercer, Model, Task
    from benchmarks.race import Absent, Result, Rules
    from benchmarks.report import Seconds


@pytest.mark.parametrize(
    ("of", "page", "arguments", "message"),
    [
        (
            "search",
            "SEARCH",
            ("--only", "usps", "--peers", "mercer"),
            "Not run, for want of data: usps. .* MERCER_DATA",
        ),
        ("search", "SEARCH", ("--alone", "mercer", "covtype 5k"), "MERCER_DATA"),
        (
            "search",
            "SEARCH",
            ("--only", "uspz"),
            "no table matches 'uspz'; there are: covtype 5k, magic-like 10k, usps",
        ),
        ("search", "SEARCH", ("--peers", "libsvm"), "--peers must name some of .*, got libsvm"),
        (
            "leave_one_out",
            "LEAVE_ONE_OUT",
            ("--only", "usps 8, rbf, C = 1$"),
            "for want of data .*: usps 8, rbf, C = 1.",
        ),
        ("leave_one_out", "LEAVE_ONE_OUT", ("--only", "uspz"), "no problem matches 'uspz'; there are: a9a, rbf"),
    ],
)
def test_missing_measurements_leave_the_page_unchanged(of, page, arguments, message, monkeypatch, capsys):
    page = ROOT / "benchmarks" / f"{page}.md"
    before = page.read_bytes()
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("MERCER_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", [of, *arguments])
    with pytest.raises(SystemExit) as ended:
        import_module(f"benchmarks.{of}").main()
    assert ended.value.code not in (None, 0)
    assert re.search(message, f"{capsys.readouterr().err}{ended.value.code}")
    assert page.read_bytes() == before


def test_a_race_has_a_true_result_its_limit_and_its_time():
    run = """
from benchmarks.peers import Mercer, Task
from benchmarks.truth import judge
from cases import blobs
X, y = blobs(600, 5, distance=1.0)
for alone in (False, True):
    task = Task(X.astype("float32"), (y > 0).astype("int64"), "rbf", 0.1, 0.1, "SVC", 0.0, alone, 2)
    mercer = Mercer(task)
    mercer.fit(1e-3)
    mercer.limit()()
    (truth,) = judge(task, [mercer.model()])
    claims = mercer.model().claims
    same = abs(claims["dual"] / truth.dual - 1) < 1e-9
    print(claims["status"], truth.violation <= 1e-3, truth.infeasibility < 1e-9, same)
"""
    done = subprocess.run(
        [sys.executable, "-c", run],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["optimal", "True", "True", "True"] * 2, done.stderr


def test_mercers_searches_alternate_with_those_of_others():
    peers = [("price", "mercer", "a", "b"), ("mercer",), ("a",), ("mercer", "a")]
    turns = ["-".join(turn) for turn in map(search._in_turn, peers, [3, 2, 3, 1])]
    assert turns == ["mercer-price-mercer-a-mercer-b", "mercer-mercer", "a", "mercer-a"]


@pytest.mark.filterwarnings("ignore:.* encountered in cast:RuntimeWarning")  # of padding that has no values
def test_micro_benchmarks_measure_what_there_is(monkeypatch):
    sizes = {"_SECONDS": 0.0, "ROWS": 256, "COLUMNS": 16, "FEATURES": (3,), "BLOCKS": (32,), "STRINGS": 4}
    for name, value in sizes.items():
        monkeypatch.setattr(micro, name, value)
    text = "\n".join(table() for table in micro.TABLES.values())
    for name in ("dense, p = 3", "CSR, p = 3", "10 letters", "32 "):
        numbers = re.findall(rf"\| {name} *\|([^\n]*)\|", text)
        assert numbers
        assert all(float(cell) > 0.0 for row in numbers for cell in row.split("|") if cell.strip() != "-")


def test_races_of_structured_kernels_agree_with_brute_force(monkeypatch):
    sizes = {"PROTEINS": 9, "PROTEIN_LETTERS": 12, "DNA": 10, "DNA_LETTERS": 14, "FINGERPRINTS": 9, "PEER_ROWS": 9}
    for name, value in {**sizes, "RUNS": 1}.items():
        monkeypatch.setattr(structured, name, value)
    for make in structured.RACES.values():
        race = make()
        assert race.error < 1e-14
        lines = structured._lines(race)
        assert [line[1] for line in lines] == list(race.programs)
        assert float(lines[0][3]) == 1.0


# --- Results whose claims are false.

CLAIMS = {"status": "optimal", "violation": 8e-4, "rounding": 1e-9, "dual": 12.5}
HONEST = Result([[2.0]], claims=CLAIMS, violation=8e-4, dual=12.5, infeasibility=1e-15, n_support=2)
PEER = Result([[4.0]], claims={"status": "converged"}, violation=1e-3, dual=12.5, infeasibility=0.0, n_support=2)


def record_of(results: Mapping[str, Result], group: str = "small-fit", number: int = 0) -> report.Record:
    """The stored record of a race with these results, as if over a problem of the group."""
    names = [problem.name for problem in problems.PROBLEMS if problem.group == group]
    results_as_stored = {name: asdict(result) for name, result in results.items()}
    return {"problem": names[number], "n": 2, "p": 1, "limit_seconds": 0.5, "results": results_as_stored}


def claiming(result: Result = HONEST, **claims: Any) -> Result:
    """The same result with other claims about itself."""
    return replace(result, claims={**result.claims, **claims})


@pytest.mark.parametrize(
    "result",
    [
        HONEST,
        replace(HONEST, violation=8e-4 + 4e-9),
        replace(claiming(violation=1e-3), violation=1e-3 + 4e-9),
        replace(claiming(dual=1e7 + 1e-3), dual=1e7),
        replace(claiming(dual=0.0), dual=1e-10),
        replace(HONEST, infeasibility=9e-10),
        replace(HONEST, violation=None, dual=None, infeasibility=None),
    ],
    ids=["exact", "rounded", "at the tolerance", "large dual", "small dual", "on its box", "prediction"],
)
def test_an_honest_result_is_certified(result: Result):
    assert report.is_certified(record_of({"mercer": result}))


@pytest.mark.parametrize(
    "result",
    [
        replace(HONEST, violation=9e-4),
        replace(HONEST, violation=8e-4 + 1e-8),
        claiming(violation=1e-12),
        replace(claiming(violation=1.1e-3), violation=1.1e-3),
        replace(HONEST, violation=nan),
        claiming(dual=12.5 + 1e-6),
        claiming(dual=12.5 - 1e-6),
        replace(claiming(dual=1e-7), dual=0.0),
        replace(HONEST, dual=nan),
        replace(HONEST, infeasibility=1e-6),
        replace(HONEST, infeasibility=nan),
        claiming(violation=nan),
        replace(claiming(rounding=1.0), violation=0.5),
        claiming(status="stalled"),
        replace(HONEST, failure="> 60 s"),
        Result(failure="died (exit status -9)"),
        replace(claiming(status="max_iter"), violation=None, dual=None, infeasibility=None),
    ],
    ids=[
        "violation above the certificate's",
        "violation above it by more than rounding",
        "a certificate of almost nothing",
        "violation above the tolerance",
        "violation not a number",
        "dual above the truth",
        "dual below the truth",
        "dual of a small machine",
        "dual not a number",
        "outside its box",
        "distance not a number",
        "a certificate that is not a number",
        "rounding that would hide everything",
        "stalled",
        "stopped",
        "died",
        "prediction of what was stopped early",
    ],
)
def test_a_result_with_false_claims_is_not_certified(result: Result):
    assert not report.is_certified(record_of({"mercer": result}))


@pytest.mark.parametrize(
    "forged",
    [claiming(violation=1e-12), claiming(dual=13.0), replace(HONEST, infeasibility=1e-3)],
    ids=["violation", "dual", "box"],
)
def test_tables_say_which_results_are_not_certified_and_how_many_are(forged: Result):
    records = [
        record_of({"mercer": result, "scikit-learn": PEER}, number=i) for i, result in enumerate((HONEST, forged))
    ]
    honest, other = report.group_tables("small-fit", records).splitlines()[4:6]
    assert "(not certified)" not in honest
    assert "2.00 s (not certified)" in other
    assert re.search(r"\| +1/2 \|", report.summary(records))


@pytest.mark.parametrize("unfinished", ["mercer", "mercer tol=1e-6"])
@pytest.mark.parametrize(
    "forge",
    [partial(claiming, status="time_limit"), partial(replace, violation=0.5), partial(replace, infeasibility=3.0)],
)
def test_the_variant_with_false_claims_is_marked(unfinished: str, forge: Callable[[Result], Result]):
    results = {"mercer": HONEST, "mercer tol=1e-6": replace(HONEST, turns=[[3.0]])}
    shown = report.group_tables("tight", [record_of(results, "tight")])
    assert "certified" not in shown
    results[unfinished] = forge(results[unfinished])
    shown = report.group_tables("tight", [record_of(results, "tight")])
    assert re.findall(r"(\S+) s \(not certified\)", shown) == ["2.00" if unfinished == "mercer" else "3.00"]


# --- Peers whose fast results are inaccurate.


@pytest.mark.parametrize(
    ("violation", "tightened", "expected"),
    [
        (2e-3, None, Seconds(2.0)),
        (3e-3, {"tol": 1e-4, "seconds": 6.0, "violation": 2e-3}, Seconds(3.0)),
        (3e-3, {"tol": 1e-5, "seconds": 6.0, "violation": 2.1e-3}, Seconds(3.0, True)),
        (3e-3, {"tol": 1e-5, "seconds": 60.0, "violation": None}, Seconds(30.0, True)),
        (3e-3, None, Seconds(2.0, True)),
    ],
    ids=["true at once", "true when tightened", "never true", "stopped", "not tightened"],
)
def test_the_ratio_uses_the_peers_time_if_its_result_is_accurate(
    violation: float, tightened: dict[str, float | None] | None, expected: Seconds
):
    record = record_of({"mercer": HONEST, "scikit-learn": replace(PEER, violation=violation, true=tightened)})
    assert report.ratio(record, ["scikit-learn"]) == Seconds(2.0)
    assert report.ratio(record, ["scikit-learn"], true=True) == expected
    row = [cell.strip() for cell in report.group_tables("small-fit", [record]).splitlines()[4].split("|")]
    assert row[5:7] == ["2.0", report.show_ratio(expected)]
    row = [cell.strip() for cell in report.summary([record]).splitlines()[2].split("|")]
    assert row[3:6] == ["2.0", "2.0", report.show_ratio(expected)]


def test_a_peer_that_was_stopped_gives_a_lower_bound():
    record = record_of({"mercer": HONEST, "scikit-learn": replace(PEER, failure="> 60 s")})
    assert report.show_seconds(report.time_of(record, ["scikit-learn"])) == "> 60.0 s"
    for true in (False, True):
        ratio = report.ratio(record, ["scikit-learn"], true=true)
        assert ratio == Seconds(30.0, True)
        assert report.show_ratio(ratio) == "> 30"
        assert report.show_ratio(report.mean_ratio([Seconds(120.0), ratio])) == "> 60"
    assert report.show_ratio(report.mean_ratio([Seconds(120.0), None])) == "120"


def test_the_fastest_finished_peer_counts():
    results = {"mercer": HONEST, "intelex32": replace(PEER, failure="> 3 s"), "intelex64": PEER, "libsvm": HONEST}
    assert report.ratio(record_of(results), ["intelex32", "intelex64", "absent"]) == Seconds(2.0)
    assert report.ratio(record_of(results), ["intelex64", "libsvm"]) == Seconds(1.0)


@pytest.mark.parametrize("failed", ["mercer", "scikit-learn"])
def test_failed_and_stopped_runs_have_no_ratio(failed: str):
    results = {"mercer": HONEST, "scikit-learn": PEER}
    results[failed] = replace(results[failed], failure="> 60 s" if failed == "mercer" else "MemoryError: no room")
    assert report.ratio(record_of(results), ["scikit-learn"]) is None


# --- The race without processes: two rows at x = 1 and -1, a linear kernel and C = 10.

TWO = Task(np.array([[1.0], [-1.0]], dtype=np.float32), np.array([1, 0]), "linear", 10.0, 1.0, "SVC", 0.0, False, 1)
RULES = Rules("S", 2, 60.0)


def model_of(violation: float) -> Model:
    """The machine with coefficients a and -a; the slope of its dual objective 2 a - 2 a^2 is the violation."""
    a = 0.5 - 0.25 * violation
    return Model(np.arange(2), np.array([[a], [-a]]), np.zeros(1), claims={"status": "optimal", "violation": 1e-9})


class Seat:
    """A contender with prescribed times and violations for each tolerance (by its power of ten)."""

    def __init__(self, outcomes: Mapping[int, tuple[float, float]]) -> None:
        self.outcomes = outcomes
        self.power = max(outcomes)
        self.runs: list[int] = []

    def call(self, command: str, *arguments: Any, limit: float = inf) -> Any:
        if command == "model":
            return model_of(self.outcomes[self.power][1])
        assert command == "run"
        self.power = round(log10(arguments[0]))
        self.runs.append(self.power)
        if self.outcomes[self.power][0] > limit:
            raise Absent(f"> {limit:g} s")
        return [self.outcomes[self.power][0]], None


class DeadSeat:
    """A contender whose process has ended abnormally."""

    def call(self, command: str, *arguments: Any, limit: float = inf) -> Any:
        raise Absent("died (exit status -9)")

    def close(self) -> None:
        pass


def tightened(
    outcomes: Mapping[int, tuple[float, float]], name: str = "libsvm", **others: Result
) -> tuple[Result, list[int]]:
    """The result of `_tighten` for a peer with these outcomes that has run at 1e-3, and the runs that it took."""
    result, seat = Result([[outcomes[-3][0]]], violation=outcomes[-3][1]), Seat(outcomes)
    race._tighten(TWO, {name: seat}, {name: result, **others}, RULES)
    return result, seat.runs


@pytest.mark.parametrize(
    ("outcomes", "expected", "runs"),
    [
        ({-3: (5.5, 2e-3)}, None, []),
        ({-3: (5.5, 3e-3), -4: (6.0, 1.5e-3)}, {"tol": 1e-4, "seconds": 6.0, "violation": 1.5e-3}, [-4]),
        (
            {-3: (5.5, 3e-3), -4: (6.0, 2.1e-3), -5: (7.0, 1e-5)},
            {"tol": 1e-5, "seconds": 7.0, "violation": 1e-5},
            [-4, -5],
        ),
        (
            {-3: (5.5, 0.4), -4: (6.0, 0.3), -5: (7.0, 0.2)},
            {"tol": 1e-5, "seconds": 7.0, "violation": 0.2},
            [-4, -5],
        ),
        ({-3: (5.5, 3e-3), -4: (61.0, 1e-4)}, {"tol": 1e-4, "seconds": 60.0, "violation": None}, [-4]),
        ({-3: (0.5, 3e-3), -4: (0.5, 1e-4)}, {"tol": 1e-4, "seconds": 0.5, "violation": 1e-4}, [-4, -4, -4]),
    ],
    ids=["true at once", "true at a tenth", "true at a hundredth", "never", "stopped", "short runs"],
)
def test_a_peer_is_timed_at_tighter_tolerances_until_its_result_is_true(
    outcomes: Mapping[int, tuple[float, float]], expected: dict[str, float | None] | None, runs: list[int]
):
    result, used_runs = tightened(outcomes)
    assert used_runs == runs
    assert result.turns == [[outcomes[-3][0]]]
    assert (result.true is None) == (expected is None)
    for key, value in (expected or {}).items():
        assert result.true[key] == (None if value is None else pytest.approx(value, rel=1e-9))


def test_mercer_is_never_timed_at_a_tighter_tolerance():
    assert tightened({-3: (1.0, 0.5)}, "mercer")[1] == []


@pytest.mark.parametrize(("violation", "limit"), [(2e-3, 8.0), (3e-3, 60.0)])
def test_intelex_may_take_twice_as_long_as_another_variant_that_was_true(violation: float, limit: float):
    slow = {-3: (1.0, 3e-3), -4: (100.0, 1e-4)}
    assert tightened(slow, "intelex32", intelex64=replace(PEER, violation=violation))[0].true["seconds"] == limit
    assert tightened(slow, "libsvm", intelex64=replace(PEER, violation=violation))[0].true["seconds"] == 60.0


@pytest.mark.parametrize(
    ("turns", "enough"),
    [
        ([[6.0]], {"S": True, "full": False}),
        ([[61.0]], {"S": True, "full": True}),
        ([[4.0]] * 2, {"S": False, "full": False}),
        ([[4.0]] * 3, {"S": True, "full": True}),
        ([[0.1] * 8] * 2, {"S": False, "full": False}),
        ([[0.1] * 8] * 3, {"S": True, "full": True}),
        ([[0.1]] * 4, {"S": False, "full": False}),
        ([[0.1]] * 5, {"S": True, "full": True}),
    ],
)
def test_short_runs_are_measured_in_three_turns_or_more(turns: list[list[float]], enough: dict[str, bool]):
    assert {size: Rules(size, 2, 60.0).enough(turns) for size in enough} == enough


def test_the_truth_about_each_result_is_found_whatever_it_claims():
    seats = {"mercer": Seat({-3: (1.0, 0.3)}), "libsvm": DeadSeat(), "scikit-learn": Seat({-3: (1.0, 0.1)})}
    results = {name: Result() for name in seats}
    table = Table(TWO.X, TWO.y, TWO.X[:0])
    race._find_truth(problems.find("small-fit/wdbc C=1 γ=1/p"), TWO, table, seats, results)
    for name, violation in (("mercer", 0.3), ("scikit-learn", 0.1)):
        a, judgement = 0.5 - 0.25 * violation, results[name]
        assert (judgement.violation, judgement.dual) == pytest.approx((violation, 2 * a - 2 * a * a), rel=1e-12)
        assert (judgement.infeasibility, judgement.n_support, judgement.failure) == (0.0, 2, None)
        assert judgement.claims["violation"] == 1e-9
    assert results["libsvm"] == Result(failure="died (exit status -9)")
    assert list(seats) == ["mercer", "scikit-learn"]


# --- Measured violations of models that were changed.


def task_of(machine: str, n_classes: int = 2, parameter: float = 0.3) -> Task:
    """A task of sixty rows with classes, or with a numeric target for a regression machine."""
    X, y = blobs(60, 2, distance=1.0)
    target = X[:, 0] if machine in ("SVR", "NuSVR", "KernelRidge") else np.arange(60) % 3 if n_classes == 3 else y > 0
    kind = np.float64 if target.dtype == np.float64 else np.int64
    return Task(X.astype(np.float32), target.astype(kind), "rbf", 10.0, 0.5, machine, parameter, False, 1)


def fitted(task: Task) -> Model:
    contender = Mercer(task)
    contender.fit(1e-6)
    return contender.model()


def moved(model: Model) -> Model:
    """Swap two coefficients: the sum is unchanged, and all are in [-C, C]."""
    coefficients = model.coefficients.copy()
    low, high = coefficients[:, 0].argmin(), coefficients[:, 0].argmax()
    coefficients[[low, high], 0] = coefficients[[high, low], 0]
    return replace(model, coefficients=coefficients)


def shortened(model: Model) -> Model:
    """Halve the largest coefficient: all stay in the box, but the sum is wrong."""
    coefficients = model.coefficients.copy()
    coefficients[coefficients[:, 0].argmax(), 0] *= 0.5
    return replace(model, coefficients=coefficients)


def stretched(model: Model, sign: float = 1.0) -> Model:
    """Move one coefficient out of its box by a tenth of C, and compensate the sum with one of the other class."""
    signed = sign * model.coefficients
    far, near = signed[:, 0].argmax(), np.where(signed[:, 0] < 0.0, signed[:, 0], -inf).argmax()
    signed[near, 0] -= 11.0 - signed[far, 0]
    signed[far, 0] = 11.0
    assert signed[near, 0] > -10.0
    return replace(model, coefficients=sign * signed)


def mislaid(model: Model) -> Model:
    """Assign the coefficients to the rows six places earlier, which have the same classes."""
    return replace(model, support=(model.support - 6) % 60)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("tamper", "worse"),
    [
        (moved, {"violation", "infeasibility"}),
        (shortened, {"violation", "infeasibility"}),
        (stretched, {"infeasibility"}),
        (partial(stretched, sign=-1.0), {"infeasibility"}),
        (mislaid, {"violation"}),
    ],
    ids=["moved", "shortened", "above", "below", "mislaid"],
)
def test_a_model_that_was_tampered_with_is_as_bad_as_plain_numpy_finds(n_classes: int, tamper: Any, worse: set[str]):
    task = task_of("SVC", n_classes)
    honest = fitted(task)
    judged = truth.judge(task, [honest, tamper(honest)])
    for model, judgement in zip((honest, tamper(honest)), judged, strict=True):
        beta = np.zeros((60, model.coefficients.shape[1]))
        beta[model.support] = model.coefficients
        machines = [
            plain.figures(plain.gaussian(task.X[rows], task.X[rows], task.gamma), y, task.C, beta[rows, column])
            for column, (rows, y) in enumerate(signs_of(task.y))
        ]
        assert judgement.violation == pytest.approx(max(one.violation for one in machines), rel=1e-6, abs=1e-12)
        assert judgement.infeasibility == pytest.approx(max(one.infeasibility for one in machines) / task.C, abs=1e-12)
        assert judgement.dual == pytest.approx(sum(one.dual for one in machines), rel=1e-9)
        assert judgement.n_support == np.count_nonzero(beta.any(axis=1))
    assert judged[0].violation <= 1e-6
    assert judged[0].infeasibility < 1e-12
    for what in worse:
        assert getattr(judged[1], what) > 0.01


def signs_of(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The rows of each pair of classes, and their signs."""
    if y.max() == 1:
        return [(np.arange(y.size), np.where(y == 1, 1.0, -1.0))]
    both = [(np.isin(y, (i, j)), i) for i, j in ((0, 1), (0, 2), (1, 2))]
    return [(np.flatnonzero(rows), np.where(y[rows] == i, 1.0, -1.0)) for rows, i in both]


@pytest.mark.parametrize("machine", ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "KernelRidge"])
def test_coefficients_of_other_rows_violate_the_conditions_of_any_machine(machine: str):
    task = task_of(machine)
    honest = fitted(task)
    right, wrong = truth.judge(task, [honest, mislaid(honest)])
    assert right.violation <= 1e-6
    assert wrong.violation > 0.01
    assert max(right.infeasibility, wrong.infeasibility) < 1e-9
    assert wrong.dual < right.dual


@pytest.mark.parametrize("machine", ["SVC", "SVR", "NuSVR", "OneClassSVM"])
def test_a_coefficient_that_is_too_small_leaves_a_sum_unbalanced(machine: str):
    task = task_of(machine)
    honest = fitted(task)
    lost = 0.5 * honest.coefficients.max() / (1.0 if machine == "OneClassSVM" else task.C)
    assert truth.judge(task, [shortened(honest)])[0].infeasibility == pytest.approx(lost, rel=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_each_class_of_nu_svc_is_judged(sign: int):
    """Two rows at x = 1 are at their bounds. Of the other class, the nearest two rows, -1 and -2, should be."""
    X = sign * np.array([[1.0], [1.0], [-1.0], [-2.0], [-3.0], [-4.0]], dtype=np.float32)
    task = Task(X, (X[:, 0] > 0).astype(np.int64), "linear", 1.0, 1.0, "NuSVC", 2 / 3, False, 1)
    near, far = (
        Model(np.arange(6), sign * np.array([beta]).T, np.zeros(1), {})
        for beta in ([1.0, 1.0, -1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0, -1.0, -1.0])
    )
    honest, wrong = truth.judge(task, [near, far])
    assert (honest.violation, honest.infeasibility) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert (wrong.violation, wrong.infeasibility) == pytest.approx((9.0 * 4.0 - 9.0 * 1.0, 0.0), abs=1e-12)


def test_predictions_are_held_against_the_model_that_they_are_of():
    """The decision values are x + 1. One claimed value is too small by 3, and one claimed class is wrong."""
    model, X_new = replace(model_of(0.0), intercepts=np.ones(1)), np.array([[-3.0], [0.0], [3.0], [-2.0]], dtype="f4")
    right, predicted = (np.array(values) for values in ([-2.0, 1.0, 4.0, -1.0], [-2.0, 1.0, 1.0, 1.0]))
    assert truth.prediction_errors(TWO, model, X_new, right, right > 0.0) == (0.0, 0)
    assert truth.prediction_errors(TWO, model, X_new, predicted, predicted > 0.0) == (0.75, 1)


# --- Stored races of earlier runs.

FACTS = {"versions": {"python": "3.11.7", "scipy": "1.17.1"}, "processor": "one", "threads": 2, "build": "55df7a10c6d5"}
PROBLEM = problems.find("small-fit/wdbc C=1 γ=1/p")


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> report.Record:
    """A stored race of mercer and scikit-learn, from a run with :data:`FACTS`."""

    def instead(problem: problems.Problem, contenders: list[str], rules: Rules) -> report.Record:
        return {"problem": problem.name, "results": {name: asdict(PEER) for name in contenders}}

    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "race", instead)
    return a_run().measure(PROBLEM)


def a_run(
    facts: dict[str, Any] = FACTS, contenders: tuple[str, ...] = ("mercer", "scikit-learn"), rules: Rules = RULES
) -> run.Run:
    return run.Run(rules, contenders, deepcopy(facts), 1)


def test_a_run_continues_its_own_stored_results(stored: report.Record):
    assert a_run().earlier(PROBLEM) == stored
    assert a_run(contenders=("scikit-learn", "mercer", "intelex32 dense")).earlier(PROBLEM) == stored


@pytest.mark.parametrize(
    "other",
    [
        {"build": "55df7a10c6d6"},
        {"processor": "another"},
        {"threads": 1},
        {"versions": {"python": "3.11.7", "scipy": "1.17.2"}},
        {"versions": {"python": "3.11.7"}},
        {"isa": "avx512"},
    ],
    ids=["build", "processor", "threads", "version", "a package less", "a fact more"],
)
@pytest.mark.usefixtures("stored")
def test_a_run_does_not_continue_results_of_another_build_or_machine(other: dict[str, Any]):
    assert a_run({**FACTS, **other}).earlier(PROBLEM) is None


@pytest.mark.parametrize(
    "contenders", [("mercer",), ("mercer", "libsvm"), ("mercer", "scikit-learn", "libsvm")], ids="-".join
)
@pytest.mark.usefixtures("stored")
def test_a_run_does_not_continue_a_race_of_other_contenders(contenders: tuple[str, ...]):
    assert a_run(contenders=contenders).earlier(PROBLEM) is None


@pytest.mark.usefixtures("stored")
def test_a_run_does_not_continue_a_race_of_another_size_or_problem():
    assert a_run(rules=replace(RULES, size="full")).earlier(PROBLEM) is None
    files = {a_run()._file(problem).name.lower() for problem in problems.PROBLEMS}
    assert len(files) == len(problems.PROBLEMS)


@pytest.mark.parametrize("name", ["fit.py", "parts/fit.py", "_core.so"])
def test_a_changed_file_of_the_package_is_another_build(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mercer, "__file__", str(tmp_path / "__init__.py"))
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"1")
    before = machine.describe(2)["build"]
    assert machine.describe(2)["build"] == before
    file.write_bytes(b"2")
    after = machine.describe(2)["build"]
    file.rename(file.with_name(f"other{file.suffix}"))
    assert len({before, after, machine.describe(2)["build"]}) == 3
