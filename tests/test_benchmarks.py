"""What the benchmarks do without their data."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
def test_what_cannot_be_measured_leaves_the_page_as_it_was(of, page, arguments, message):
    page = ROOT / "benchmarks" / f"{page}.md"
    before = page.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{of}", *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "MERCER_DATA"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.search(message, done.stderr)
    assert page.read_bytes() == before


def test_a_race_has_a_true_result_its_limit_and_its_time():
    run = """
from benchmarks.peers import Mercer, Task
from benchmarks.truth import judge
from cases import blobs
X, y = blobs(1500, 5, distance=1.0)
task = Task(X.astype("float32"), (y > 0).astype("int64"), "rbf", 0.1, 0.1, "SVC", 0.0, alone, 2)
mercer = Mercer(task)
mercer.fit(1e-3)
mercer.limit()()
(truth,) = judge(task, [mercer.model()])
claims = mercer.model().claims
same = abs(claims["dual"] / truth.dual - 1) < 1e-9
print(claims["status"], truth.violation <= 1e-3, truth.infeasibility < 1e-9, same)
"""
    for alone in (False, True):
        script = f"alone = {alone}\n{run}"
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == ["optimal", "True", "True", "True"], done.stderr


def test_searches_of_ours_are_between_those_of_others():
    show = "from benchmarks.search import _in_turn; print(*map('-'.join, map(_in_turn, {}, {})), sep='|')"
    run = show.format([("price", "mercer", "a", "b"), ("mercer",), ("a",), ("mercer", "a")], [3, 2, 3, 1])
    done = subprocess.run([sys.executable, "-c", run], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "mercer-price-mercer-a-mercer-b|mercer-mercer|a|mercer-a"


def test_micro_benchmarks_measure_what_there_is():
    sizes = {"_SECONDS": 0.0, "ROWS": 256, "COLUMNS": 16, "FEATURES": (3,), "BLOCKS": (32,), "STRINGS": 4}
    measure = "print(*(table() for table in micro.TABLES.values()), sep='\\n')"
    run = f"from benchmarks import micro; vars(micro).update({sizes}); {measure}"
    done = subprocess.run([sys.executable, "-c", run], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in ("dense, p = 3", "CSR, p = 3", "10 letters", "32 "):
        numbers = re.findall(rf"\| {name} *\|([^\n]*)\|", done.stdout)
        assert numbers
        assert all(float(cell) > 0.0 for row in numbers for cell in row.split("|") if cell.strip() != "-")
