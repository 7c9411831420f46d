"""Kernels of words and fingerprints: their values against brute force and peers, and times as ratios.

Run from the root of the repository: `python -m benchmarks.structured [--only REGEX]`. Times are processor seconds of
one thread, the best of several runs in turns, so that a busy machine matters little.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from itertools import combinations, product
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from . import machine
from .report import table

PROTEINS, PROTEIN_LETTERS = 300, 300  # rows of each side, and letters of a row
DNA, DNA_LETTERS = 2000, 60
FINGERPRINTS, BITS, ON = 10_000, 2048, 0.03  # rows, columns and the share of ones
PEER_ROWS = 2000  # rows of the comparisons with NumPy, SciPy and RDKit, which need much memory or time
CHECKED = 8  # rows whose values are compared with brute force
RUNS, LONG = 3, 5.0  # runs of each program, and seconds beyond which it runs once

HERE = Path(__file__).parent
FloatArray = npt.NDArray[np.float64]
Count = Callable[[str], Counter[Any]]
"""What the definition counts in a row."""
Features = Callable[[npt.NDArray[np.int64]], Any]
"""The same of all rows of letters, as a sparse table."""


class Race(NamedTuple):
    """The same values by several programs, the first of which is mercer."""

    title: str
    programs: dict[str, Callable[[], Any]]
    error: float
    """Largest difference of mercer's values from brute force."""


def main() -> None:
    """Measure, print, and write the page unless the tables are a part only."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structured", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="REGEX", help="races whose title matches")
    options = parser.parse_args()
    lines = []
    for name, make in RACES.items():
        if re.search(options.only, name):
            lines += _lines(make())
            print(table(COLUMNS, lines), flush=True)
    if not options.only:
        page = ["# Kernels of words and fingerprints", _circumstances(), table(COLUMNS, lines), NOTES]
        (HERE / "STRUCTURED.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")


COLUMNS = ["values", "program", "processor seconds", "times mercer's", "largest error of mercer's values"]
NOTES = """\
Error: against the definition on 8 rows, counts of words or sets in Python. All programs compute the same number of
values: n², or n of n rows with n others. Conversions of rows are included, but for those to the vectors of RDKit.

- Explicit counts: a sparse table of the words with up to m different letters, or of the words with gaps, by NumPy, and
  a sparse product by SciPy.
- Gaussian: mercer's and scikit-learn's `rbf_kernel` on the same bits as float64, and on as many real numbers.
- NumPy: a matrix product of the rows as float64 or float32, and the quotient. SciPy: `cdist(bits, bits, "jaccard")` of
  booleans. RDKit: `BulkTanimotoSimilarity`, a call for each row.

Run again: `make bench-structured`."""


def _circumstances() -> str:
    facts = machine.describe(threads=1)
    return (
        f"{date.today()}. {machine.described(facts)}; {facts['isa']}. One thread; processor seconds, best of "
        f"{RUNS} runs in turns."
    )


def _lines(race: Race) -> list[list[str]]:
    best = dict.fromkeys(race.programs, np.inf)
    for _ in range(RUNS):
        for name, program in race.programs.items():
            if LONG < best[name] < np.inf:
                continue
            began = time.process_time()
            program()
            best[name] = min(best[name], time.process_time() - began)
    ours = best["mercer"]
    return [
        [
            race.title if name == "mercer" else "",
            name,
            f"{seconds:.3g}",
            "1" if name == "mercer" else f"{seconds / ours:.1f}",
            f"{race.error:.1e}" if name == "mercer" else "",
        ]
        for name, seconds in best.items()
    ]


# Words.


def _texts(n: int, length: int, alphabet: str, seed: int = 0) -> list[str]:
    codes = np.random.default_rng(seed).integers(0, len(alphabet), (n, length))
    return ["".join(alphabet[code] for code in row) for row in codes]


def _word_race(
    title: str, kernel: Any, rows: list[str], others: list[str], count: Count, features: Features, alphabet: str
) -> Race:
    from mercer.data import as_structured, together

    def evaluate(rows: list[str], others: list[str]) -> FloatArray:
        values: FloatArray = kernel.block(*together(as_structured(rows), as_structured(others)))
        return values

    def explicit() -> FloatArray:
        counts = _normalised(features(_letters(rows if rows is others else rows + others, alphabet)))
        right = counts if rows is others else counts[len(rows) :]
        values: FloatArray = (counts[: len(rows)] @ right.T).toarray()
        return values

    few, fewer = rows[:CHECKED], others[:CHECKED]
    error = float(np.abs(evaluate(few, fewer) - _cosines(few, fewer, count)).max())
    return Race(title, {"mercer": lambda: evaluate(rows, others), "explicit counts": explicit}, error)


def _cosines(rows: list[str], others: list[str], count: Count) -> FloatArray:
    """Return values by the definition, a loop over the counts of each pair of rows."""
    left, right = [count(text) for text in rows], [count(text) for text in others]

    def product_of(a: Counter[Any], b: Counter[Any]) -> float:
        return float(sum(times * b[word] for word, times in a.items() if word in b))

    return np.array([[product_of(a, b) / sqrt(product_of(a, a) * product_of(b, b)) for b in right] for a in left])


def _letters(rows: list[str], alphabet: str) -> npt.NDArray[np.int64]:
    codes = np.zeros(128, dtype=np.int64)
    codes[[ord(letter) for letter in alphabet]] = np.arange(len(alphabet))
    return codes[np.array([list(text.encode()) for text in rows])]


def _counts(ids: npt.NDArray[np.int64]) -> Any:
    """Return how often each number occurs in each row, as a sparse table."""
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    numbers, columns = np.unique(ids, return_inverse=True)
    table_ = sp.coo_array((np.ones(ids.size), (rows, columns.ravel())), shape=(len(ids), numbers.size))
    return table_.tocsr()


def _normalised(counts: Any) -> Any:
    from sklearn.preprocessing import normalize

    return normalize(sp.csr_matrix(counts))


def _word_ids(letters: npt.NDArray[np.int64], length: int, n_letters: int) -> npt.NDArray[np.int64]:
    windows = np.lib.stride_tricks.sliding_window_view(letters, length, axis=1)
    ids: npt.NDArray[np.int64] = windows @ n_letters ** np.arange(length)
    return ids


def _with_mismatches(length: int, mismatches: int, alphabet: str) -> tuple[Count, Features]:
    """Count each word as all words with up to so many different letters: by sets, and by sparse tables."""
    size = len(alphabet)
    powers = size ** np.arange(length)

    def near(word: str) -> set[str]:
        words = set()
        for places in combinations(range(length), mismatches):
            for letters in product(alphabet, repeat=mismatches):
                changed = list(word)
                for place, letter in zip(places, letters, strict=True):
                    changed[place] = letter
                words.add("".join(changed))
        return words

    def count(text: str) -> Counter[Any]:
        return Counter(one for i in range(len(text) - length + 1) for one in near(text[i : i + length]))

    def features(letters: npt.NDArray[np.int64]) -> Any:
        counts = _counts(_word_ids(letters, length, size))
        words = np.unique(_word_ids(letters, length, size))
        of_word = words[:, None] // powers % size
        neighbours = []
        for places in combinations(range(length), mismatches):
            chosen = list(places)
            rest = words - of_word[:, chosen] @ powers[chosen]
            news = np.array(list(product(range(size), repeat=mismatches))) @ powers[chosen]
            neighbours.append(rest[:, None] + news)
        ids = np.sort(np.hstack(neighbours), axis=1)
        is_new = np.ones(ids.shape, dtype=bool)
        is_new[:, 1:] = ids[:, 1:] != ids[:, :-1]
        numbers, columns = np.unique(ids[is_new], return_inverse=True)
        rows = np.nonzero(is_new)[0]
        spread = sp.coo_array((np.ones(rows.size), (rows, columns)), shape=(words.size, numbers.size)).tocsr()
        return counts @ spread

    return count, features


def mismatch_of_proteins() -> Race:
    """Mismatch(5, 1) between proteins."""
    from mercer.kernels import Mismatch

    alphabet = "ACDEFGHIKLMNPQRSTVWY"
    rows = _texts(PROTEINS, PROTEIN_LETTERS, alphabet)
    others = _texts(PROTEINS, PROTEIN_LETTERS, alphabet, seed=1)
    title = f"Mismatch(5, 1), {PROTEINS} × {PROTEINS} proteins of {PROTEIN_LETTERS} letters"
    return _word_race(title, Mismatch(5, 1, alphabet), rows, others, *_with_mismatches(5, 1, alphabet), alphabet)


def mismatch_of_dna() -> Race:
    """Mismatch(8, 2) of DNA."""
    from mercer.kernels import Mismatch

    rows = _texts(DNA, DNA_LETTERS, "ACGT")
    title = f"Mismatch(8, 2), {DNA} rows of DNA of {DNA_LETTERS} letters"
    return _word_race(title, Mismatch(8, 2, "ACGT"), rows, rows, *_with_mismatches(8, 2, "ACGT"), "ACGT")


def gapped_kmers() -> Race:
    """GappedKmer(10, 6) of DNA."""
    from mercer.kernels import GappedKmer

    chosen = list(combinations(range(10), 6))

    def count(text: str) -> Counter[Any]:
        words = (text[i : i + 10] for i in range(len(text) - 9))
        return Counter((k, *(word[j] for j in places)) for word in words for k, places in enumerate(chosen))

    def features(letters: npt.NDArray[np.int64]) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(letters, 10, axis=1)
        powers = 4 ** np.arange(6)
        return _counts(np.hstack([windows[:, :, places] @ powers + 4**6 * k for k, places in enumerate(chosen)]))

    rows = _texts(DNA, DNA_LETTERS, "ACGT")
    title = f"GappedKmer(10, 6), {DNA} rows of DNA of {DNA_LETTERS} letters"
    return _word_race(title, GappedKmer(10, 6, alphabet="ACGT"), rows, rows, count, features, "ACGT")


# Fingerprints.


def _bits(n: int) -> npt.NDArray[np.bool_]:
    return np.random.default_rng(0).random((n, BITS), dtype=np.float32) < ON


def _blocks(kernel: Any, table_: Any) -> Callable[[], None]:
    """Return a function that evaluates all values by the backend, in blocks of 256 rows that are not stored."""
    from mercer.gram.backends import select_backend
    from mercer.kernels.kernel import as_rows

    def evaluate() -> None:
        rows = as_rows(kernel, table_)
        backend, _ = select_backend(kernel, rows, n_jobs=1)
        out = np.empty((256, rows.n))
        for first in range(0, rows.n, 256):
            chosen = np.arange(first, min(rows.n, first + 256))
            backend.block(rows, chosen, rows, None, out[: chosen.size])

    return evaluate


def _set_error(kernel: Any, bits: npt.NDArray[np.bool_]) -> float:
    from mercer import gram_matrix

    sets = [set(np.flatnonzero(row).tolist()) for row in bits[:CHECKED]]
    exact = np.array([[len(a & b) / len(a | b) if a or b else 1.0 for b in sets] for a in sets])
    return float(np.abs(gram_matrix(kernel, bits)[:CHECKED, :CHECKED] - exact).max())


def tanimoto_and_gaussian() -> Race:
    """Tanimoto against the Gaussian."""
    from mercer import RBF, Tanimoto

    bits = _bits(FINGERPRINTS)
    numbers = np.random.default_rng(1).normal(size=bits.shape)
    return Race(
        f"Tanimoto, {FINGERPRINTS} × {FINGERPRINTS} rows of {BITS} bits",
        {
            "mercer": _blocks(Tanimoto(), bits),
            "mercer's Gaussian of the bits": _blocks(RBF(gamma=0.01), bits.astype(np.float64)),
            "mercer's Gaussian of real numbers": _blocks(RBF(gamma=0.01), numbers),
            "scikit-learn's Gaussian of the bits": _gaussian_of_scikit_learn(bits.astype(np.float64)),
        },
        _set_error(Tanimoto(), bits[:200]),
    )


def _gaussian_of_scikit_learn(numbers: FloatArray) -> Callable[[], None]:
    from sklearn.metrics.pairwise import rbf_kernel

    def evaluate() -> None:
        for first in range(0, len(numbers), 256):
            rbf_kernel(numbers[first : first + 256], numbers, gamma=0.01)

    return evaluate


def tanimoto_and_peers() -> Race:
    """Tanimoto against NumPy, SciPy and RDKit."""
    from scipy.spatial.distance import cdist

    from mercer import Tanimoto

    bits = _bits(PEER_ROWS)

    def by_products(dtype: type[np.floating[Any]]) -> None:
        numbers = bits.astype(dtype)
        common, counts = numbers @ numbers.T, numbers.sum(axis=1)
        np.divide(common, np.add.outer(counts, counts) - common, out=common)

    return Race(
        f"Tanimoto, {PEER_ROWS} × {PEER_ROWS} rows of {BITS} bits",
        {
            "mercer": _blocks(Tanimoto(), bits),
            "NumPy, float64": lambda: by_products(np.float64),
            "NumPy, float32": lambda: by_products(np.float32),
            "SciPy": lambda: cdist(bits, bits, "jaccard"),
            **_rdkit(bits),
        },
        _set_error(Tanimoto(), bits[:200]),
    )


def _rdkit(bits: npt.NDArray[np.bool_]) -> dict[str, Callable[[], Any]]:
    try:
        from rdkit.DataStructs import BulkTanimotoSimilarity, CreateFromBitString
    except ImportError:
        return {}
    vectors = [CreateFromBitString("".join("01"[bit] for bit in row.astype(int))) for row in bits]
    return {"RDKit": lambda: [BulkTanimotoSimilarity(vector, vectors) for vector in vectors]}


RACES: dict[str, Callable[[], Race]] = {
    "mismatch of proteins": mismatch_of_proteins,
    "mismatch of DNA": mismatch_of_dna,
    "gapped k-mers": gapped_kmers,
    "Tanimoto and Gaussian": tanimoto_and_gaussian,
    "Tanimoto and peers": tanimoto_and_peers,
}

if __name__ == "__main__":
    main()
