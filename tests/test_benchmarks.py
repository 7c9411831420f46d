"""What the benchmarks do without their data."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "usps", "--peers", "mercer"), "Not run, for want of data: usps. .* MERCER_DATA"),
        (("--alone", "mercer", "covtype 5k"), "MERCER_DATA"),
        (("--only", "uspz"), "no table matches 'uspz'; there are: covtype 5k, magic-like 10k, usps"),
        (("--peers", "libsvm"), "--peers must name some of .*, got libsvm"),
    ],
)
def test_a_search_that_cannot_be_measured_leaves_the_page_as_it_was(arguments, message):
    page = ROOT / "benchmarks" / "SEARCH.md"
    before = page.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.search", *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "MERCER_DATA"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.search(message, done.stderr)
    assert page.read_bytes() == before
