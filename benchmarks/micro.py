"""Native micro-benchmarks: kernel values per second, of rows and of strings, and microseconds per pair step.

Run from the root of the repository: `python -m benchmarks.micro [--only REGEX]`. It uses the native functions
directly, so its numbers are about tiles and inner loops alone.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import threadpoolctl

from . import machine
from .report import table

ROWS, COLUMNS = 4096, 1024  # of the block of kernel values; small enough to stay in the cache as float64
STRINGS = 512
FEATURES = (8, 20, 54, 123, 784)
BLOCKS = (256, 512, 1024, 2048, 4096)
_SHARE = 0.11  # of entries that are stored, in the sparse tables: that of a9a
_SECONDS = 0.3  # to measure one number
_MULTIPLES = {"bytes": (0, 256), "16 bits": (-700, 701)}  # of 1/255: from, and below

HERE = Path(__file__).parent


def main() -> None:
    """Measure, print, and write the tables to a file unless they are a part only."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="REGEX", help="tables whose title matches")
    options = parser.parse_args()
    parts = ["# Native micro-benchmarks", _circumstances()]
    for title, measure in TABLES.items():
        if re.search(options.only, title):
            parts += [f"## {title}", measure()]
            print(f"\n{parts[-2]}\n\n{parts[-1]}", flush=True)
    if not options.only:
        (HERE / "RESULTS-micro.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _circumstances() -> str:
    facts = machine.describe(threads=2)
    return (
        f"{facts['processor']}, {facts['cores']} cores; mercer {facts['versions']['mercer']}, {facts['isa']}; "
        f"{machine.described_build(facts)}; NumPy {facts['versions']['numpy']} with {_blas()}. Medians, for a Gaussian "
        "kernel."
    )


def _blas() -> str:
    libraries = [one for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]
    return ", ".join(sorted({f"{one['internal_api']} {one['version']}" for one in libraries})) or "an unknown BLAS"


def _rate(action: Callable[[], object], count: int) -> float:
    """Return how many of `count` things done by `action` that makes in a second, by the median call."""
    action()
    times: list[float] = []
    while sum(times) < _SECONDS or len(times) < 3:
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return count / median(times)


def _rows(n: int, p: int, kind: str) -> Any:
    rng = np.random.default_rng(0)
    if kind == "dense":
        return rng.standard_normal((n, p)).astype(np.float32)
    if kind in _MULTIPLES:
        return rng.integers(*_MULTIPLES[kind], (n, p)).astype(np.float32) / 255
    rows = sp.random_array((n, p), density=_SHARE, dtype=np.float32, format="csr", rng=rng)
    if kind == "bits":
        rows.data[:] = 1.0
    return rows


def tiles() -> str:
    """Million kernel values a second: mercer's tiles, stored and applied to a vector, beside a matrix product."""
    lines = []
    for kind in ("dense", *_MULTIPLES, "CSR", "bits"):
        for p in FEATURES:
            for threads in (1, 2):
                rates = [*_tile_rates(p, kind, threads), *(_blas_rates(p, threads) if kind == "dense" else [])]
                cells = [f"{rate / 1e6:.0f}" for rate in rates] + ["-"] * (8 - len(rates))
                lines.append([f"{kind}, p = {p}", str(threads), *cells])
    columns = [
        "million values a second",
        "threads",
        "stored",
        "with a vector",
        "stored, single",
        "with a vector, single",
    ]
    return table([*columns, "sgemm", "sgemm + exp", "dgemm", "dgemm + exp"], lines)


def _tile_rates(p: int, kind: str, threads: int) -> Iterator[float]:
    from mercer import RBF
    from mercer.data import as_data
    from mercer.gram.backends import BitForm, NativeBackend, select_backend

    data, kernel = as_data(_rows(ROWS, p, kind)), RBF(gamma=1.0 / p)
    program = kernel.lower()
    assert program is not None
    if kind == "bits":
        backend, _ = select_backend(kernel, data, n_jobs=threads)
        if not isinstance(backend, BitForm):  # where numbers are faster, or bits are not counted
            return
    elif kind in _MULTIPLES:
        backend, reason = select_backend(kernel, data, n_jobs=threads)
        if "integers" not in reason:
            return
    else:
        backend = NativeBackend(program, data, n_jobs=threads)
    columns = np.arange(COLUMNS)
    vector = np.ones((COLUMNS, 1))
    for dtype in (np.float64, np.float32):
        out, single = np.empty((ROWS, COLUMNS), dtype), dtype is np.float32
        yield _rate(partial(backend.block, data, None, data, columns, out), out.size)
        yield _rate(partial(backend.matvec, data, None, data, columns, vector, single=single), out.size)


def _blas_rates(p: int, threads: int) -> Iterator[float]:
    """The product alone, and with the exponential: what kernel values cost without tiles of one's own, at least."""
    parts = [slice(first, first + 128) for first in range(0, ROWS, 128)]  # of the block, to find it in the cache
    for dtype in (np.float32, np.float64):
        left = _rows(ROWS, p, "dense").astype(dtype)
        right = np.ascontiguousarray(left[:COLUMNS].T)
        out = np.empty((ROWS, COLUMNS), dtype=dtype)
        for finish in (False, True):
            work = partial(_product, left, right, out, finish)
            # A part at a time on each thread: OpenBLAS's own threads would wait for each other after every part.
            with threadpoolctl.threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
                yield _rate(lambda pool=pool, work=work: list(pool.map(work, parts)), out.size)  # type: ignore[misc]


def _product(left: npt.NDArray[Any], right: npt.NDArray[Any], out: npt.NDArray[Any], finish: bool, part: slice) -> None:
    np.dot(left[part], right, out=out[part])
    if finish:
        out[part] *= -1e-3
        np.exp(out[part], out=out[part])


def strings() -> str:
    """Thousand kernel values a second between random strings."""
    lines = []
    rng = np.random.default_rng(0)
    for length in (10, 40, 160):
        texts = ["".join(chr(97 + letter) for letter in row) for row in rng.integers(0, 26, (STRINGS, length))]
        for threads in (1, 2):
            cells = [f"{rate / 1e3:.0f}" for rate in _string_rates(texts, threads)]
            lines.append([f"{length} letters", str(threads), *cells])
    return table(["thousand values a second", "threads", *(name for name, _ in _string_kernels())], lines)


def _string_kernels() -> list[tuple[str, Any]]:
    from mercer.kernels import EditDistance, Spectrum, Subsequence

    return [("spectrum of 3", Spectrum(3)), ("subsequences of 3", Subsequence(3)), ("edit distance", EditDistance())]


def _string_rates(texts: list[str], threads: int) -> Iterator[float]:
    from mercer.data import as_structured
    from mercer.gram import Gram

    out = np.empty((STRINGS, STRINGS))
    for _, kernel in _string_kernels():
        data = as_structured(texts)
        gram = Gram(kernel.resolve(data), data, n_jobs=threads)
        fill = partial(
            gram.fill_block, out, np.arange(STRINGS), np.arange(STRINGS)
        )  # two objects: no half is a mirror image
        yield _rate(lambda fill=fill: list(fill()), STRINGS**2)  # type: ignore[misc]


def pair_steps() -> str:
    """Microseconds for one step on a pair of variables, by size of the working set."""
    settings = [(dtype, C) for dtype in (np.float64, np.float32) for C in (1.0, 100.0)]
    lines = [[f"{size}", *(f"{_microseconds_per_step(size, *one):.2f}" for one in settings)] for size in BLOCKS]
    columns = ["μs a step, C = 1", "μs a step, C = 100"]
    return table(["variables", *columns, *(f"{title}, single" for title in columns)], lines)


def _microseconds_per_step(size: int, dtype: type[np.floating[Any]], C: float) -> float:
    from mercer import RBF
    from mercer._core import solve_block
    from mercer.data import as_data
    from mercer.gram import Gram
    from mercer.kernels.instruction_set import select_isa
    from mercer.problems import c_svc

    rng = np.random.default_rng(0)
    X = rng.standard_normal((size, 20)).astype(np.float32)
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(size) > 0.0, 1.0, -1.0)
    problem = c_svc(y, C)
    matrix = Gram(RBF(gamma=0.05), as_data(X), n_jobs=1).block()
    padded = (matrix if matrix.base is None else matrix.base).astype(dtype)
    starts = np.array([0, size])
    rates = []
    for _ in range(5):
        beta, gradient = problem.start.copy(), problem.linear.copy()
        began = time.perf_counter()
        _, steps, *_ = solve_block(
            select_isa(),
            False,
            padded,
            beta=beta,
            gradient=gradient,
            lower=problem.lower,
            upper=problem.upper,
            group_starts=starts,
            tol=1e-9,
            max_iter=20_000,
        )
        rates.append(1e6 * (time.perf_counter() - began) / steps)
    return median(rates)


TABLES: dict[str, Callable[[], str]] = {"Kernel values": tiles, "Strings": strings, "Pair steps": pair_steps}

if __name__ == "__main__":
    main()
