"""A file larger than memory
=========================

Train a linear machine on a file that is much larger than the memory that it may use.

Usage: python examples/out_of_core.py [--size 2GB] [--memory 300MB] [--folder FOLDER]

The file is written first, with columns of numbers, a column of categories and missing cells. The fit then reads it
once into a cache of checked blocks, and solves the problem to a certified gap over all rows. If this program is killed,
run it again: it continues from the blocks and the checkpoint that are complete.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from mercer import LinearSVC

_UNITS = {"MB": 10**6, "GB": 10**9}
_ROWS = 50_000  # rows that are written at a time


def write(path: Path, size: int) -> int:
    """Write a table of about `size` bytes, and return its number of rows."""
    rng, written = np.random.default_rng(0), 0
    weights, units = rng.normal(size=20), 10.0 ** np.arange(-2, 3).repeat(4)
    options = csv.WriteOptions(include_header=True, quoting_style="none")
    with path.open("wb") as file:
        while file.tell() < size:
            n = min(_ROWS, max(100, (size - file.tell()) // 130))
            X, town = rng.normal(size=(n, 20)), rng.choice(["Oslo", "Rome", "Lima"], n)
            score = X @ weights + (town == "Rome") + 2.0 * rng.normal(size=n)
            cells, missing = np.round(X * units, 3), rng.random(X.shape) < 0.01
            columns = {f"x{j}": pa.array(cells[:, j], mask=missing[:, j]) for j in range(20)}
            columns |= {"town": town, "risk": np.where(score > 0.0, "high", "low")}
            csv.write_csv(pa.table(columns), file, options)
            options = csv.WriteOptions(include_header=False, quoting_style="none")
            written += n
    return written


def bytes_of(text: str) -> int:
    """Return the number of bytes of a size such as 2GB."""
    return int(float(text[:-2]) * _UNITS[text[-2:].upper()])


def peak() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 1e6 if sys.platform == "darwin" else used * 1024 / 1e6


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--size", default="2GB", help="size of the file, in MB or GB")
parser.add_argument("--memory", default="300MB", help="memory for the fit")
parser.add_argument("--folder", help="where the file and its cache are kept; by default they are removed at the end")
asked = parser.parse_args()
libraries = peak()

with tempfile.TemporaryDirectory() as temporary:
    folder = Path(asked.folder or temporary)
    path = folder / f"risks-{asked.size}.csv"
    if not path.exists():
        began = time.perf_counter()
        n_rows = write(path, bytes_of(asked.size))
        print(f"wrote {n_rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB, in {time.perf_counter() - began:.0f} s")

    shown = 0.0

    def show(progress):
        """Write where the fit stands, every five seconds."""
        global shown
        if time.perf_counter() - shown > 5.0:
            shown = time.perf_counter()
            left = "" if progress.seconds_left is None else f", about {progress.seconds_left:.0f} s left"
            share = f" {progress.done / progress.total:.0%}" if progress.total else ""
            print(f"{progress.stage}{share}{left} {progress.note}", file=sys.stderr)

    began = time.perf_counter()
    machine = LinearSVC().fit_file(path, target="risk", scale=True, memory=asked.memory, progress=show)
    print(f"fitted in {time.perf_counter() - began:.1f} s")
    print(f"largest memory of the process: {peak():.0f} MB, of which {libraries:.0f} MB before the file was written")
    print(machine.certificate_)
    signs = zip(machine.encoder_.feature_names_, machine.coef_[0], machine.certificate_.proved_signs(), strict=True)
    for name, weight, sign in signs:
        print(f"{name:12}{weight:10.4f}   {'its sign is proved' if sign else ''}")
