"""Kernels on strings, lists of tokens and sets: their properties, examples by hand, and machines trained on them."""

import copy
import json
import math
import pickle
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable as Function
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn.svm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

import mercer.kernels as mk
import reference
from cases import ISAS
from mercer import SVC, SVR, IndefiniteKernelWarning, KernelRidge, RKHSFunction, Tanimoto
from mercer.data import as_data, as_structured, together
from mercer.data.work_in_parts import finished
from mercer.gram import Gram
from mercer.gram.backends import BlockBackend
from mercer.kernels import (
    RBF,
    Callable,
    EditDistance,
    GappedKmer,
    Jaccard,
    Kernel,
    Linear,
    LocalAlignment,
    Mismatch,
    SetIntersection,
    Spectrum,
    Subsequence,
    WeightedDegree,
    all_strings,
    diagnose,
    from_dict,
    refute,
)
from mercer.kernels.structured import StructuredKernel
from mercer.kernels.word_kernel import WordKernel

NAMESPACE = {name: getattr(mk, name) for name in mk.__all__}


def counts(length):
    """Counts of the words of a string, by definition."""
    return lambda s: Counter(tuple(s[i : i + length]) for i in range(len(s) - length + 1))


def near(length, mismatches, alphabet):
    """How often each word over the alphabet occurs in a string, with up to `mismatches` different letters."""

    @cache
    def counts(s):
        places = [p for i in range(len(s) - length + 1) if set(p := s[i : i + length]) <= set(alphabet)]
        words = product(alphabet, repeat=length)
        return {w: sum(sum(a != b for a, b in zip(w, p, strict=True)) <= mismatches for p in places) for w in words}

    return counts


def with_gaps(length, informative, wildcards="", weight=lambda at, n: 1.0):
    """Counts of words with gaps, by all sets of places: those of words without wildcards."""

    def counts(s):
        features, n = Counter(), len(s) - length + 1
        for i in range(n):
            word = s[i : i + length]
            for places in () if set(word) & set(wildcards) else combinations(range(length), informative):
                features[(places, *(word[j] for j in places))] += weight(i, n)
        return features

    return counts


def by_distance(length, weights):
    """The sum of weights[d] over pairs of words without wildcards, as far as there is a weight."""

    def value(s, t):
        pairs = product(*([u[i : i + length] for i in range(len(u) - length + 1)] for u in (s, t)))
        distances = (
            sum(a != b for a, b in zip(*pair, strict=True)) for pair in pairs if not set("".join(pair)) & set("é😀漢")
        )
        return sum(weights[d] for d in distances if d < len(weights))

    return value


def at_their_places(weights, wildcards=""):
    """Words at the same positions, with a weight for each length."""

    def value(s, t):
        return sum(
            weight
            for length, weight in enumerate(weights, 1)
            for i in range(min(len(s), len(t)) - length + 1)
            if s[i : i + length] == t[i : i + length] and not set(s[i : i + length]) & set(wildcards)
        )

    return value


def both_strands(features):
    """Features of a string and those of its reverse complement."""
    return lambda s: features(s) + features(s[::-1].translate(str.maketrans("abc", "tvg")))


def inner(features, cosine=True):
    """The inner product of features, or its cosine; 0 if a string has no features."""

    def value(s, t):
        f, g = features(s), features(t)
        dot, ff, gg = (sum(a[w] * b.get(w, 0) for w in a) for a, b in ((f, g), (f, f), (g, g)))
        return dot / math.sqrt(ff * gg) if cosine and ff and gg else dot

    return value


def gapped(length, decay, max_span=math.inf):
    """Subsequences of a string, without those that span more than `max_span`."""

    def counts(s):
        places = {}
        for first in range(len(s)):
            for rest in product(range(first + 1, len(s)), repeat=length - 1):
                place = (first, *rest)
                span = place[-1] - place[0] + 1
                if span <= max_span and all(a < b for a, b in pairwise(place)):
                    word = tuple(s[i] for i in place)
                    places[word] = places.get(word, 0.0) + decay**span
        return places

    return counts


def distance(s, t):
    return reference.edit_distances([s], [t])[0, 0]


SCORES, GAPS = (1.5, -1.0), {"gap_open": 1.0, "gap_extend": 0.5, "beta": 0.3}


def aligned(s, t):
    score = lambda a, b: 0.3 * SCORES[a != b]  # noqa: E731
    return math.exp(reference.local_alignment_by_logarithms(s, t, score, 0.3, 0.15))


def weighted_range(s, t):
    return sum(w * inner(counts(p), False)(s, t) for p, w in ((1, 0.5), (2, 1.0), (3, 2.0)))


@dataclass(frozen=True)
class StringCase:
    """A kernel, and the formula for one pair of rows that it must agree with."""

    name: str
    kernel: Kernel
    formula: Function
    proved: bool = True


CASES = [
    StringCase("spectrum", Spectrum(2, normalized=False), inner(counts(2), False)),
    StringCase("spectrum, cosine", Spectrum(2), inner(counts(2))),
    StringCase("spectrum of lengths", Spectrum((1, 3), weights=(0.5, 1, 2), normalized=False), weighted_range),
    StringCase("mismatch", Mismatch(3, 1, "abc", wildcards="é😀漢", normalized=False), inner(near(3, 1, "abc"), False)),
    StringCase("mismatch, cosine", Mismatch(3, 2, "ab", wildcards="cé😀漢"), inner(near(3, 2, "ab"))),
    StringCase(
        "mismatch, many words",
        Mismatch(3, 1, "abcdefghijklmnopqrstuvwxy", wildcards="é😀漢"),
        inner(near(3, 1, "abcdefghijklmnopqrstuvwxy")),
    ),
    StringCase("gapped", GappedKmer(3, 2, alphabet="abcé😀漢", normalized=False), inner(with_gaps(3, 2), False)),
    StringCase("gapped, cosine", GappedKmer(4, 1, alphabet="abcé😀漢"), inner(with_gaps(4, 1))),
    StringCase(
        "gapped with wildcards",
        GappedKmer(3, 2, alphabet="abc", wildcards="é😀漢", normalized=False),
        inner(with_gaps(3, 2, "é😀漢"), False),
    ),
    StringCase(
        "gapped, weights by place",
        GappedKmer(3, 2, centre=(5, 2), alphabet="abcé😀漢"),
        inner(with_gaps(3, 2, "", lambda at, n: 1 + 5 * 0.5 ** (abs(at - (n - 1) / 2) / 2))),
    ),
    StringCase(
        "gapped of both strands",
        GappedKmer(3, 2, alphabet="abcgtv", wildcards="é😀漢", reverse_complement=True),
        inner(both_strands(with_gaps(3, 2, "é😀漢"))),
    ),
    StringCase(
        "gapped of both strands, weights by place",
        GappedKmer(4, 2, centre=(5, 2), alphabet="abcgtv", wildcards="é😀漢", reverse_complement=True),
        inner(both_strands(with_gaps(4, 2, "é😀漢", lambda at, n: 1 + 5 * 0.5 ** (abs(at - (n - 1) / 2) / 2)))),
    ),
    StringCase(
        "spectrum of both strands",
        Spectrum(2, wildcards="é😀漢", reverse_complement=True),
        inner(both_strands(with_gaps(2, 2, "é😀漢"))),
    ),
    # The weights of LS-GKM's log for -t 2 -l 4 -k 2 have this form: here from the projection, by eigenvectors.
    StringCase(
        "truncated estimates",
        GappedKmer(3, 1, "truncated", alphabet="abc", wildcards="é😀漢", normalized=False),
        by_distance(3, reference.truncated_estimates(3, 1, 3)),
    ),
    StringCase(
        "full estimates",
        GappedKmer(3, 2, "full", alphabet="abc", wildcards="é😀漢", normalized=False),
        by_distance(3, reference.estimates(3, 2, 3)),
    ),
    StringCase(
        "gapped, cut",
        GappedKmer(3, 1, max_mismatches=1, alphabet="abc", wildcards="é😀漢", normalized=False),
        by_distance(3, [3, 2]),
        proved=False,
    ),
    StringCase("weighted degree", WeightedDegree(3, normalized=False), at_their_places([1 / 2, 1 / 3, 1 / 6])),
    StringCase(
        "weighted degree with weights",
        WeightedDegree(2, (0, 2), wildcards="a", normalized=False),
        at_their_places([0, 2], "a"),
    ),
    StringCase("subsequence", Subsequence(2, 0.5, normalized=False), inner(gapped(2, 0.5), False)),
    StringCase("subsequence, cosine", Subsequence(3, 0.8), inner(gapped(3, 0.8))),
    StringCase("subsequence of short span", Subsequence(2, 0.5, max_span=3), inner(gapped(2, 0.5, 3))),
    StringCase("local alignment", LocalAlignment(SCORES, **GAPS, normalized=False), aligned),
    StringCase(
        "local alignment, cosine",
        LocalAlignment(SCORES, **GAPS),
        lambda s, t: aligned(s, t) / math.sqrt(aligned(s, s) * aligned(t, t)),
    ),
    StringCase(
        "logarithms of local alignments",
        LocalAlignment(SCORES, **GAPS, log=True, normalized=False),
        lambda s, t: math.log(aligned(s, t)) / 0.3,
        proved=False,
    ),
    StringCase("edit distance", EditDistance(gamma=0.25), lambda s, t: math.exp(-0.25 * distance(s, t)), proved=False),
    StringCase(
        "edit distance, by sigma", EditDistance(sigma=2), lambda s, t: math.exp(-distance(s, t) / 8), proved=False
    ),
    StringCase("common letters", SetIntersection(), lambda s, t: len(set(s) & set(t))),
    StringCase("common letters, cosine", SetIntersection(normalized=True), inner(lambda s: dict.fromkeys(set(s), 1))),
    StringCase("jaccard", Jaccard(), lambda s, t: len(set(s) & set(t)) / len(set(s) | set(t)) if s or t else 1.0),
    StringCase(
        "composite",
        0.5 * Spectrum(2) + Jaccard() * EditDistance(gamma=1.0) ** 2 + 1,
        lambda s, t: (
            0.5 * inner(counts(2))(s, t)
            + (len(set(s) & set(t)) / len(set(s) | set(t)) if s or t else 1.0) * math.exp(-2 * distance(s, t))
            + 1
        ),
        proved=False,
    ),
]
every_kernel = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def strings(n=12, seed=0, letters="abcé😀", longest=8):
    """Random strings; the first ones are empty, short or equal."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list(letters), size=rng.integers(0, longest + 1))) for _ in range(n)]
    words[:4] = "", "a", "abab", "abab"
    return words


def dna(n=120, seed=0):
    """Strings of two classes; the strings of one class contain a motif."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    rows = []
    for label in y:
        letters = rng.choice(list("acgt"), size=rng.integers(20, 40))
        if label:
            at = rng.integers(0, letters.size - 5)
            letters[at : at + 5] = list("gattg")
        rows.append("".join(letters))
    return rows, y


# The laws.


@every_kernel
def test_block_is_the_formula(case):
    A, B = strings(), strings(7, seed=1, letters="abé漢")
    K = case.kernel.block(as_structured(A), as_structured(B))
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, [[case.formula(s, t) for t in B] for s in A], rtol=1e-12, atol=1e-14)


@every_kernel
def test_symmetric_with_its_diagonal_and_within_cauchy_schwarz(case):
    X = as_structured(strings(20))
    K, diagonal = case.kernel.block(X, X), case.kernel.diag(X)
    np.testing.assert_allclose(K, K.T, rtol=1e-14)
    np.testing.assert_allclose(np.diagonal(K), diagonal, rtol=1e-14)
    assert (np.abs(K) <= np.sqrt(np.outer(diagonal, diagonal)) * (1 + 1e-12)).all()


@pytest.mark.filterwarnings("ignore:.* have fewer letters than the words")
@every_kernel
def test_positive_semidefinite_where_proved(case):
    assert case.kernel.is_psd is (True if case.proved else None)
    diagnosis = diagnose(case.kernel, strings(60))
    assert diagnosis.verdict == "proved" if case.proved else diagnosis.verdict in ("violated", "not refuted")
    if case.proved:
        assert diagnosis.smallest_eigenvalue >= -diagnosis.tolerance


@every_kernel
def test_a_block_of_some_rows_is_a_slice(case):
    X = as_structured(strings())
    K = case.kernel.block(X, X)
    assert np.array_equal(case.kernel.block(X.rows([5, 0, 5]), X.rows(slice(2, 7))), K[[5, 0, 5], 2:7])
    assert case.kernel.block(X.rows([]), X).shape == (0, X.n)
    assert case.kernel.diag(X.rows([])).shape == (0,)


@every_kernel
def test_lists_of_tokens_are_strings_of_them(case):
    if getattr(case.kernel, "alphabet", None) or getattr(case.kernel, "wildcards", None):
        return
    rows = strings()
    as_lists = as_structured([[f"token {letter}" for letter in row] for row in rows])
    X = as_structured(rows)
    np.testing.assert_allclose(case.kernel.block(as_lists, as_lists), case.kernel.block(X, X), rtol=1e-14)


@every_kernel
def test_pickles_prints_and_is_written_as_what_makes_it(case):
    assert pickle.loads(pickle.dumps(case.kernel)) == case.kernel
    assert hash(clone(case.kernel, safe=False)) == hash(case.kernel)
    assert eval(repr(case.kernel), NAMESPACE) == case.kernel
    assert from_dict(json.loads(json.dumps(case.kernel.to_dict()))) == case.kernel


@every_kernel
def test_values_are_the_same_to_the_bit_for_any_number_of_threads(case):
    X = as_structured(strings(700, longest=30))
    vectors = np.random.default_rng(0).normal(size=(700, 2))
    blocks = []
    for n_jobs in (1, 2, 3):
        backend = BlockBackend(case.kernel, X, n_jobs=n_jobs)
        backend.values_per_call = 1 << 15
        out = np.empty((700, 700))
        backend.block(X, None, X, None, out)
        blocks.append((out, backend.matvec(X, None, X, np.arange(0, 700, 2), vectors[::2])))
    assert np.array_equal(blocks[0][0], case.kernel.block(X, X))
    for block, product_ in blocks[1:]:
        assert np.array_equal(block, blocks[0][0])
        assert np.array_equal(product_, blocks[0][1])


# Examples by hand.


def test_local_alignments_by_their_definition():
    A, B = strings(8, longest=5), strings(20, seed=1, letters="abé", longest=5)
    factor = lambda a, b: math.exp(0.3 * SCORES[a != b])  # noqa: E731
    exact = reference.local_alignments(A, B, factor, math.exp(-0.3), math.exp(-0.15))
    K = LocalAlignment(SCORES, **GAPS, log=True, normalized=False).block(as_structured(A), as_structured(B))
    np.testing.assert_allclose(K, exact / 0.3, rtol=1e-14)


@pytest.mark.parametrize("isa", ISAS)
def test_local_alignments_of_any_length(isa, monkeypatch):
    monkeypatch.setenv("MERCER_ISA", isa)
    rng = np.random.default_rng(0)
    letters = "ARNDCQEGHILKMFPSTWYVBZX*"
    one, other = ("".join(rng.choice(list(letters[:20]), size=n)) for n in (25, 30))
    rows = ["", "W", one, other + one, "W" * 70 + one, one[:12] + "P" * 30 + one[12:]]
    for kernel in (LocalAlignment(beta=1.0, log=True), LocalAlignment("blosum62", None, 0.5, 0.0, 1.5, log=True)):
        table, costs = kernel._score_table(), (kernel.beta * kernel.gap_open, kernel.beta * kernel.gap_extend)
        codes = [[letters.index(letter) for letter in row] for row in rows]
        exact = np.zeros((len(rows), len(rows)))
        for i, j in zip(*np.triu_indices(len(rows)), strict=True):
            exact[i, j] = exact[j, i] = reference.local_alignment_by_logarithms(
                codes[i], codes[j], lambda x, z, k=kernel, s=table: k.beta * s[x, z], *costs
            )
        X = as_structured(rows)
        values = kernel.with_params(normalized=False).block(X, X)
        np.testing.assert_allclose(values, exact / kernel.beta, rtol=1e-12, atol=1e-12)
        assert exact.max() > 700.0  # exp(700) is beyond double precision
        squares = np.where(np.diagonal(exact) > 0.0, np.diagonal(exact), 1.0)
        np.testing.assert_allclose(kernel.block(X, X), exact / np.sqrt(np.outer(squares, squares)), atol=1e-12)
        of_sums = np.exp(exact - np.add.outer(np.diagonal(exact), np.diagonal(exact)) / 2)
        np.testing.assert_allclose(kernel.with_params(log=False).block(X, X), of_sums, rtol=1e-10)
        with pytest.raises(ValueError, match="overflow double precision on these rows: take normalized=True"):
            kernel.with_params(log=False, normalized=False).block(X, X)


def test_local_alignment_is_a_kernel_if_its_factors_of_letters_are():
    letters = ["", *"ARNDCQEGHILKMFPSTWYVBZX"]
    assert LocalAlignment().is_psd is True
    refuted = LocalAlignment(beta=0.1)
    assert refuted.is_psd is None
    assert diagnose(refuted, letters).verdict == "violated"
    assert LocalAlignment((-1.0, 2.0)).is_psd is None
    assert diagnose(LocalAlignment((-1.0, 2.0)), ["", "a", "b"]).verdict == "violated"
    assert refute(LocalAlignment((1, -1), gap_open=1, gap_extend=0.5, log=True), alphabet="01", max_length=4).witness


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LocalAlignment("pam250"),
            "must be 'blosum62', \\(equal, different\\) or a square matrix, got 'pam250'",
        ),
        (lambda: LocalAlignment([[1, 2], [3, 1]], "ab"), "must be symmetric, but those of 'a' and 'b' differ by order"),
        (lambda: LocalAlignment(np.eye(3)), "a matrix of scores needs alphabet=, its 3 letters"),
        (lambda: LocalAlignment(np.eye(3), "ab"), "different letters, one for each row of scores, got 2 for 9 scores"),
        (lambda: LocalAlignment(alphabet="ab"), "'blosum62' has its own letters"),
        (lambda: LocalAlignment(beta=5), "beta times the scores must be at most 50, got 5 times 11"),
        (lambda: LocalAlignment((1, np.nan)), "scores must be finite numbers"),
        (lambda: LocalAlignment({"a": 1}), "scores must be 'blosum62'"),
        (lambda: LocalAlignment(gap_open=-1), "gap_open must be"),
        (
            lambda: LocalAlignment().diag(as_structured(["ARN", "ARO"])),
            "no scores for 'O', which row 1 has at position 2",
        ),
        (lambda: LocalAlignment().diag(as_structured(["arn"])), "row.upper\\(\\)"),
    ],
)
def test_bad_parameters_and_letters_of_local_alignments(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_subsequences_of_car_and_cat():
    X = as_structured(["car", "cat"])
    K = Subsequence(2, 0.5, normalized=False).block(X, X)
    assert K[0, 1] == 0.5**4  # "ca" alone
    assert K[0, 0] == K[1, 1] == 2 * 0.5**4 + 0.5**6
    assert Subsequence(2, 0.5).block(X, X)[0, 1] == pytest.approx(1 / (2 + 0.5**2), rel=1e-15)


def test_spectrum_of_statistics_and_computation():
    # Common words of three letters [Shawe-Taylor & Cristianini 2004, section 11.2]: "tat" and "ati".
    X = as_structured(["statistics", "computation"])
    assert Spectrum(3, normalized=False).block(X, X).tolist() == [[8.0, 2.0], [2.0, 9.0]]


@pytest.mark.parametrize(
    ("s", "t", "d"), [("kitten", "sitting", 3), ("", "abc", 3), ("flaw", "lawn", 2), ("a" * 200, "a" * 70, 130)]
)
def test_edit_distances_by_hand(s, t, d):
    assert EditDistance(gamma=1).distances(as_structured([s]), as_structured([t])) == d


def tokens_of_many_kinds(n=20, length=900, seed=0):
    """Lists with a few frequent tokens and many rare ones; some lists are short."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        row = rng.integers(0, 20_000, size=length if i % 3 else rng.integers(0, 100))
        row[rng.random(row.size) < 0.3] = 5
        rows.append(row.tolist())
    rows[4][100:700] = rows[1][150:750]
    return rows


@cache
def distances_of_the_twin():
    """Distances of a short and a long row from some rows, by the reference; the long row shares a part with row 1."""
    rows = tokens_of_many_kinds()
    return reference.edit_distances([rows[0], rows[4]], rows[:8])


@pytest.mark.full
@pytest.mark.parametrize("isa", ISAS)
def test_edit_distances_of_many_different_tokens(isa, monkeypatch):
    monkeypatch.setenv("MERCER_ISA", isa)
    X = as_structured(tokens_of_many_kinds())
    D = EditDistance(gamma=1).distances(X, X)
    assert np.array_equal(D, D.T)
    assert np.array_equal(D[[0, 4], :8], distances_of_the_twin())


@pytest.mark.slow
def test_edit_distances_need_no_more_memory_than_the_rows_have_letters():
    program = """
        import resource
        from mercer.data import as_structured
        from mercer.kernels import EditDistance
        few, many = (as_structured([list(range(n * i, n * i + n)) for i in range(16)]) for n in (64, 4000))
        EditDistance(gamma=1).distances(few, few)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert (EditDistance(gamma=1).distances(many, many).sum() == 16 * 15 * 4000)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 32 << 10  # in KiB; a row of bits for each token would need 500 MiB


words = st.lists(st.text(max_size=12), min_size=1, max_size=6)


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(words)
def test_edit_distance_is_a_distance(rows):
    X = as_structured(rows)
    D = EditDistance(gamma=1).distances(X, X)
    assert np.array_equal(D, D.T)
    assert np.array_equal(D == 0, [[s == t for t in rows] for s in rows])
    assert (D[:, :, None] <= D[:, None] + D[None]).all()
    assert np.array_equal(D, reference.edit_distances(rows, rows))


@settings(max_examples=60, deadline=None)
@given(words, words)
def test_any_text_has_its_formula(A, B):
    for case in (case for case in CASES if case.name in ("spectrum", "subsequence", "jaccard")):
        K = case.kernel.block(as_structured(A), as_structured(B))
        np.testing.assert_allclose(K, [[case.formula(s, t) for t in B] for s in A], rtol=1e-12)


def test_too_many_words_to_number_are_still_distinguished():
    rng = np.random.default_rng(0)
    letters = [chr(k) for k in range(0x4E00, 0x4E00 + 3000)]
    rows = ["".join(rng.choice(letters, size=60)) for _ in range(5)]
    rows.append(rows[0][:30] + rows[1][:30])
    X = as_structured(rows)  # 3000^20 words of 20 letters
    K = Spectrum(20, normalized=False).block(X, X)
    assert K[5].tolist() == [11.0, 11.0, 0.0, 0.0, 0.0, 41.0]


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(2**31 - 1),
        Spectrum((2, 2**31 - 1)),
        Mismatch(10**8, 1, "a"),
        Subsequence(10**8, 1.0),
        Subsequence(10**8, 1.0, max_span=10**8),
    ],
    ids=str,
)
def test_words_longer_than_any_row_cost_nothing(kernel):
    X = as_structured(["ab", "b", "abab"])
    before = time.process_time()
    K = kernel.block(X, X)
    assert np.array_equal(K, Spectrum((2, 4)).block(X, X) if kernel.length == (2, 2**31 - 1) else np.zeros((3, 3)))
    assert np.array_equal(kernel.diag(X), np.diagonal(K))
    assert time.process_time() - before < 1.0


def test_words_with_letters_outside_the_alphabet_do_not_count():
    X = as_structured(["ax", "aa", "xx"])
    K = Mismatch(2, 1, "ab", normalized=False).block(X, X)
    assert K.tolist() == [[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("case", [case for case in CASES if isinstance(case.kernel, WordKernel)], ids=lambda c: c.name)
@pytest.mark.parametrize("isa", ISAS)
def test_all_evaluators_of_words_agree_also_in_products(monkeypatch, case, isa):
    monkeypatch.setenv("MERCER_ISA", isa)
    rows, others = strings(20, longest=150, letters="abcé"), strings(5, seed=1, longest=30, letters="abé")
    vectors = np.random.default_rng(0).normal(size=(5, 2))
    blocks, classes = [], set()
    for joining, comparing, dense in [(0.0, 1.0, 1.0), (1.0, 0.0, 1e9), (1.0, 1.0, 0.0)]:
        for name, cost in (("JOIN", joining), ("PAIR", comparing), ("DENSE", dense)):
            monkeypatch.setattr(f"mercer.kernels.word_sums._{name}_NANOSECONDS", cost)
        monkeypatch.setattr("mercer.kernels.word_sums._SETUP_NANOSECONDS", joining)
        A, B = together(as_structured(rows), as_structured(others))
        blocks.append(case.kernel.block(A, B))
        classes.add(type(case.kernel._evaluator(A)).__name__)
        np.testing.assert_allclose(blocks[-1], blocks[0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(
            finished(case.kernel.products(A, B, vectors)), blocks[-1] @ vectors, rtol=1e-12, atol=1e-9
        )
    assert classes == ({"Products"} if case.kernel.length == 2 else {"Products", "Pairs"})


def test_eigenvalues_are_those_of_all_words_and_decide():
    words = as_structured(all_strings("acgt", 4)[-(4**4) :])
    for filter_, cut in product(("gapped", "full", "truncated"), (None, 1, 2)):
        kernel = GappedKmer(4, 2, filter_, cut, alphabet="acgt", normalized=False)
        K = kernel.block(words, words)
        eigenvalues = kernel.eigenvalues()
        multiplicity = [math.comb(4, j) * 3**j for j in range(5)]
        np.testing.assert_allclose(np.linalg.eigvalsh(K), np.sort(np.repeat(eigenvalues, multiplicity)), atol=1e-9)
        assert kernel.is_psd is (True if eigenvalues.min() > -1e-12 else None)
    one_word = GappedKmer(4, 2, max_mismatches=1, alphabet="a")
    assert (one_word.is_psd, one_word.eigenvalues().tolist()) == (True, [6.0])
    assert GappedKmer(4, 2).is_psd is True  # in any alphabet
    assert GappedKmer(4, 2, max_mismatches=1).is_psd is None


@pytest.mark.parametrize(
    ("kernel", "smallest"),
    [
        (GappedKmer(11, 7, "truncated", 3, alphabet="ACGT"), -0.022),
        (GappedKmer(10, 6, "truncated", 3, alphabet="ACGT"), -0.286),
        (GappedKmer(11, 7, max_mismatches=3, alphabet="ACGT"), -1.0),
        (GappedKmer(11, 7, "truncated", 4, alphabet="ACGT"), 0.017),
    ],
    ids=str,
)
def test_cut_kernels_of_ls_gkm_are_indefinite(kernel, smallest):
    ratio = kernel.eigenvalues().min() / kernel.weights_by_distance()[0]
    assert round(ratio, 3) == smallest
    assert kernel.is_psd is (True if smallest > 0 else None)


def test_letters_outside_the_alphabet_are_named_with_row_and_position():
    kernel = Spectrum(2, alphabet="ACGT")
    with pytest.raises(
        ValueError, match=r"letter 'x' at position 2 of row 1 is not in alphabet='ACGT': .*wildcards='x'"
    ):
        kernel.resolve(["ACG", "ACxG"])
    with pytest.raises(ValueError, match=r"'a' at position 0 of row 0 .* the alphabet has 'A', in the other case"):
        SVC(kernel=kernel).fit(["acgt", "cgta"], [0, 1])
    assert kernel.with_params(wildcards="N").resolve(["ACNG"]).wildcards == "N"
    with pytest.warns(UserWarning, match=r"2 of 3 rows have fewer letters .* first is row 1, 'A'"):
        kernel.resolve(["ACG", "A", ""])
    with pytest.raises(
        ValueError, match=r"reverse_complement=True needs letters of nucleotides, got 'é' at position 1 of"
    ):
        Spectrum(2, reverse_complement=True).block(*[as_structured(["aé"])] * 2)
    with pytest.warns(UserWarning, match=r"row 1 is in upper case and row 0 in lower case, 'acg'"):
        Spectrum(2).resolve(["acg", "ACG"])
    assert Spectrum(2).resolve(["Acg", "acg", "XYZ"]) == Spectrum(2)
    with pytest.warns(UserWarning, match=r"has letters only in the other case, .* 'a' for 'A'"):
        SVC(kernel=Spectrum(2)).fit(["ACG", "CGA"], [0, 1]).predict(["acg"])


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(3, reverse_complement=True),
        Mismatch(3, 1),
        GappedKmer(4, 2, alphabet="acgt", normalized=False),
        GappedKmer(4, 2, "full", centre=(1, 5)),
    ],
    ids=str,
)
def test_weights_of_words_add_up_to_decision_values(kernel):
    X, y = dna(60)
    machine = SVC(kernel=kernel, C=10.0).fit(X, y)
    weights, row = machine.word_weights_, "acgtgattgacgnttacaga"
    assert len(weights) == 4**weights.length == weights.values.size
    assert weights[row[:3] if weights.length == 3 else row[:4]] == weights.of(row)[0]
    assert np.isnan(weights.of(row)).sum() == weights.length  # a word with "n" has no weight
    word, largest = weights.largest(2)[0]
    assert abs(largest) == np.abs(weights.values).max() == abs(weights[word])
    row = row.replace("n", "a")
    per_word = weights.of(row)
    if kernel.reverse_complement:
        per_word = np.concatenate([per_word, weights.of(row[::-1].translate(str.maketrans("acgt", "tgca")))])
    if getattr(kernel, "centre", None):
        n = per_word.size
        per_word = per_word * (1 + 1 * 0.5 ** (np.abs(np.arange(n) - (n - 1) / 2) / 5))
    norm = replace(machine.kernel_, normalized=False).diag(as_structured([row]))[0] ** 0.5 if kernel.normalized else 1.0
    value = per_word.sum() / norm + machine.intercept_[0]
    np.testing.assert_allclose(machine.decision_function([row])[0], value, rtol=1e-10)
    with pytest.raises(KeyError, match="letters of"):
        weights["a"]


def test_variants_are_scored_by_the_changed_rows():
    X, y = dna(60)
    machine = SVC(kernel=GappedKmer(4, 3, reverse_complement=True)).fit(X, y)
    rows = ["acgtgattgacg", "ttttttt"]
    changes = machine.score_variants(rows, [(0, 4, "c"), (1, 0, "a"), (0, 0, "a")])
    f = machine.decision_function([*rows, "acgtcattgacg", "atttttt"])
    np.testing.assert_allclose(changes, [f[2] - f[0], f[3] - f[1], 0.0], atol=1e-12)
    assert machine.score_variants(rows, []).shape == (0,)
    tokens = SVR(kernel=Spectrum(2)).fit([["a", "b"], ["b", "b", "a"]], [0.0, 1.0])
    assert tokens.score_variants([["a", "b"]], [(0, 0, "b")]).shape == (1,)
    for variant, fault in [((2, 0, "a"), "of a row from 0 to 1"), ((0, 12, "a"), "position from 0 to 11 of row 0")]:
        with pytest.raises(ValueError, match=f"variant 0 must (be|have) .*{fault}|{fault}"):
            machine.score_variants(rows, [variant])
    with pytest.raises(ValueError, match="variant 0 must have one letter, got 'ac'"):
        machine.score_variants(rows, [(0, 0, "ac")])
    with pytest.raises(AttributeError, match="kernels of words only"):
        _ = SVC(kernel=Jaccard()).fit(X, y).word_weights_


def test_rows_of_bytes_are_strings():
    assert as_structured([b"ACG", b"TT"]).stored.tolist() == ["ACG", "TT"]
    assert SVC(kernel=Spectrum(2)).fit([b"ACG", b"CGA"], [0, 1]).predict(np.array([b"ACG"])).tolist() == [0]
    with pytest.raises(ValueError, match=r"row 1 .* bytes that are not ASCII"):
        as_structured([b"ACG", b"\xff"])


def test_counts_are_of_any_size():
    X = as_structured(["a" * 5000, "a" * 4000 + "b" * 300])
    K = Mismatch(1, 0, "ab", normalized=False).block(X, X)
    assert K.tolist() == [[5000.0**2, 5000.0 * 4000], [5000.0 * 4000, 4000.0**2 + 300**2]]
    assert np.array_equal(Spectrum(1, normalized=False).block(X, X), K)


def test_words_with_equal_low_digits_are_distinguished():
    # With 32 letters, there are 2^30 words of 6 letters. Words with equal ends whose first two letters differ, differ
    # by multiples of 2^20.
    letters = "".join(map(chr, range(ord("A"), ord("A") + 32)))
    X = as_structured([letters, "AACDEF", "BACDEF", "ABCDEF", "BBCDEF"])
    K = Spectrum(6, normalized=False).block(X, X)[1:, 1:]
    assert np.array_equal(K, np.eye(4))


def test_sets_have_elements_and_no_order():
    baskets = [{"milk", "bread"}, frozenset({"milk", "tea", "sugar"}), set()]
    X = as_structured(baskets)
    assert SetIntersection().block(X, X).tolist() == [[2, 1, 0], [1, 3, 0], [0, 0, 0]]
    assert Jaccard().block(X, X).tolist() == [[1, 0.25, 0], [0.25, 1, 0], [0, 0, 1]]
    with pytest.raises(TypeError, match=r"Spectrum\(.*\) needs strings or lists of tokens, got sets"):
        Spectrum(1).block(X, X)


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (Subsequence(30, 1e-3), ["a" * 30, "b" * 30, "a" * 31, "b" * 31]),
        (Subsequence(60, 1.0), ["a" * 550, "b" * 550, "a" * 540 + "b" * 10]),
        (Spectrum((1, 1), weights=(1e200,)), ["aab", "abb", "bbb"]),
        (Spectrum((1, 1), weights=(1e-200,)), ["aab", "abb", "bbb"]),
    ],
    ids=["small decay", "long subsequences", "large weight", "small weight"],
)
def test_cosines_are_correct_over_the_range_of_float64(kernel, rows):
    X = as_structured(rows)
    K, plain = kernel.block(X, X), replace(kernel, normalized=False)
    assert np.array_equal(kernel.diag(X), np.ones(X.n))
    np.testing.assert_allclose(np.diagonal(K), kernel.diag(X), rtol=1e-15)
    roots = np.sqrt(plain.diag(X))
    np.testing.assert_allclose(K, plain.block(X, X) / roots[:, None] / roots, rtol=1e-14)


@pytest.mark.full
def test_cosines_of_values_that_overflow_are_refused():
    X = as_structured(["a" * 800, "b" * 9 + "a" * 150])
    kernel = Subsequence(150, 1.0)
    with pytest.raises(ValueError, match="overflow double precision"):
        kernel.block(X.rows([0]), X.rows([1]))
    with pytest.raises(ValueError, match="overflow double precision"):
        kernel.diag(X)


# Parameters estimated from the data.


@pytest.mark.filterwarnings("ignore:.* have fewer letters than the words")
def test_the_alphabet_is_that_of_the_rows():
    X = as_structured(["abc", "bd", "x"])
    assert Mismatch(2, 1).resolve(X).alphabet == "abcdx"
    assert Mismatch(2, 1).resolve(X.rows([0])).alphabet == "abc"
    assert Mismatch(2, 1).resolve(X, np.array([0.0, 1.0, 0.0])).alphabet == "bd"
    assert Mismatch(2, 1, wildcards="x").resolve(X).alphabet == "abcd"
    assert Mismatch(2, 1).resolve(as_structured([[3, "c"], [3]])).alphabet == (3, "c")
    empty = as_structured(["", ""])
    assert Mismatch(2, 1).resolve(empty).block(empty, empty).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match=r"takes its alphabet from the data: call kernel.resolve"):
        Mismatch(2, 1).block(X, X)


def test_gamma_is_one_over_the_median_distance():
    X = as_structured(["aaaa", "aaab", "bbbb"])  # distances 1, 4, 3
    assert EditDistance().resolve(X).gamma == 1 / 3
    assert EditDistance().resolve(X, np.array([1.0, 2.0, 0.0])).gamma == 1.0
    assert EditDistance().resolve(X.rows([0])).gamma == 1.0
    assert EditDistance(gamma=2).resolve(X).gamma == 2.0
    with pytest.raises(ValueError, match="takes gamma from the data"):
        EditDistance().block(X, X)


def test_tokens_of_different_tables_share_their_numbers():
    old, new = as_structured(["ab", "b"]), as_structured(["bc", "cab"])
    renumbered = new.like(old)
    assert renumbered.like(old) is renumbered
    for a, b in ((renumbered, old), (old, renumbered)):
        left, right = together(a, b)
        assert left._store is right._store
        assert [left.stored.tolist(), right.stored.tolist()] == [a.stored.tolist(), b.stored.tolist()]
    assert renumbered.rows([1]).alphabet == ("a", "b", "c")
    with pytest.raises(TypeError, match="strings cannot be used beside sets"):
        old.like(as_structured([{1}]))
    with pytest.raises(TypeError, match="cannot be used beside Dense"):
        old.like(as_data(np.eye(2)))


def test_rows_that_kernels_have_looked_at_are_pickled_and_copied():
    X = as_structured(["abab", "ab", "cab"])
    K = Spectrum(2).block(X, X)
    for again in (pickle.loads(pickle.dumps(X)), copy.deepcopy(X)):
        assert again.stored.tolist() == X.stored.tolist()
        assert np.array_equal(Spectrum(2).block(again, again), K)
    f = RKHSFunction(Spectrum(2), X, [1.0, 2.0, -1.0])
    assert pickle.loads(pickle.dumps(f)).norm == copy.deepcopy(f).norm == f.norm > 0.0


# Tests of definiteness.


def test_all_short_strings_refute_the_edit_distance_and_typical_ones_do_not():
    diagnosis = refute(EditDistance(gamma=1), "01", 4)
    assert diagnosis.verdict == "violated"
    assert diagnosis.n_points == 31
    assert diagnosis.smallest_eigenvalue == pytest.approx(-0.043, abs=5e-4)
    points = all_strings("01", 4)
    G = EditDistance(gamma=1).block(as_structured(points), as_structured(points))
    c = diagnosis.witness.c
    assert c @ G[np.ix_(diagnosis.witness.idx, diagnosis.witness.idx)] @ c == pytest.approx(diagnosis.witness.value)
    typical, _ = dna(200)
    assert diagnose(EditDistance(gamma=1), typical).verdict == "not refuted"


def test_a_search_without_a_witness_reports_it():
    diagnosis = refute(Subsequence(2), "01", 4)
    assert diagnosis.verdict == "proved"
    assert refute(EditDistance(gamma=1), "01", 3).verdict == "not refuted"
    assert refute(EditDistance(gamma=1), ["yes", "no"], 4).verdict == "violated"
    assert (
        refute(Callable(lambda A, B: np.array([[len(s) - len(t) for t in B] for s in A])), "ab", 2).verdict
        == "violated"
    )
    with pytest.raises(ValueError, match="there are at most 2000 strings, got 11: 4095 strings over 2 letters"):
        refute(EditDistance(gamma=1), "01", 11)
    with pytest.raises(ValueError, match="alphabet must hold different letters"):
        refute(EditDistance(gamma=1), "00", 2)


# Machines.


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(3),
        Spectrum((2, 4)),
        Mismatch(4, 1),
        Subsequence(3),
        Subsequence(3, max_span=5),
        0.5 * Spectrum(3) + Mismatch(3, 1) * Spectrum(2),
    ],
    ids=str,
)
def test_a_machine_on_strings_is_certified(kernel):
    X, y = dna()
    machine = SVC(kernel=kernel, C=3.0).fit(X, y)
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.verify().status == "optimal"
    assert machine.score(X, y) > 0.8
    assert machine.support_vectors_.tolist() == [X[i] for i in machine.support_]
    decision = machine.decision_function(X[:9])
    K = machine.kernel_.block(as_structured(X[:9]), as_structured(X))
    np.testing.assert_allclose(
        decision, K[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_, atol=1e-12
    )
    again = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(again.decision_function(X[:9]), decision)
    assert np.array_equal(clone(machine).fit(X, y).decision_function(X[:9]), decision)
    assert not hasattr(machine, "n_features_in_")
    # The same machine results from the precomputed matrix, and from scikit-learn.
    data = as_structured(X)
    G = machine.kernel_.block(data, data)
    theirs = sklearn.svm.SVC(kernel="precomputed", C=3.0, tol=1e-6).fit(G, y)
    tight = SVC(kernel=kernel, C=3.0, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(tight.decision_function(X), theirs.decision_function(G), atol=1e-4)


def test_a_machine_with_an_edit_distance_is_stationary_at_best():
    X, y = dna(60)
    machine = SVC(kernel=EditDistance(gamma=1.0)).fit(X, y)  # on these rows, the kernel is not refuted
    assert machine.certificate_.status == "optimal"
    points = all_strings("01", 4)
    with pytest.warns(IndefiniteKernelWarning, match=r"EditDistance\(gamma=1.0\) is not known to be positive"):
        SVC(kernel=EditDistance(gamma=1.0)).fit(points, np.arange(31) % 2)


def test_machines_on_tokens_and_sets():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    items = [f"item {k}" for k in range(12)]
    baskets = [set(rng.choice(items[:8] if label else items[4:], size=5)) for label in y]
    for rows in (baskets, [list(basket) for basket in baskets], [frozenset(basket) for basket in baskets]):
        machine = SVC(kernel=Jaccard()).fit(rows, y)
        assert machine.certificate_.status == "optimal"
        assert machine.score(rows, y) > 0.9
        assert machine.predict([type(rows[0])(["item 0", "never seen"])]) == [1]


def test_several_classes_share_kernel_values():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 25)
    X = ["".join(rng.choice(list("abcd"), p=np.roll([0.55, 0.15, 0.15, 0.15], label), size=20)) for label in y]
    machine = SVC(kernel=Spectrum(2)).fit(X, y)
    assert machine.score(X, y) > 0.9
    assert machine.decision_function(X).shape == (75, 3)
    assert machine.certificate_.verify().status == "optimal"


def test_every_column_of_strings_is_taken():
    X, y = dna(60)
    expected = cross_val_predict(SVC(kernel=Spectrum(3)), X, y, cv=3)
    for rows in (
        tuple(X),
        np.array(X),
        np.array(X, dtype=object),
        np.array(X, dtype=object)[:, None],
        pd.Series(X, index=np.arange(60)[::-1]),
        pd.DataFrame({"gene": X}),
        pl.Series(X),
        pl.DataFrame({"gene": X}),
    ):
        assert np.array_equal(cross_val_predict(SVC(kernel=Spectrum(3)), rows, y, cv=3), expected), type(rows)
    assert cross_val_score(SVC(kernel=Spectrum(3)), X, y, cv=3).mean() == np.mean(expected == y)


def test_a_grid_search_over_kernels():
    X, y = dna(60)
    grid = {"kernel": [Spectrum(2), Spectrum(4), Subsequence(3, 0.3)], "C": [1.0, 10.0]}
    search = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    assert search.best_params_["kernel"] in grid["kernel"]
    assert search.predict(X[:3]).shape == (3,)


def test_weights_and_leave_one_out():
    X, y = dna(40)
    weights = np.where(np.arange(40) < 30, 1.0, 0.0)
    weighted = SVC(kernel=Mismatch(3, 1), tol=1e-8).fit(X, y, sample_weight=weights)
    fewer = SVC(kernel=Mismatch(3, 1), tol=1e-8).fit(X[:30], y[:30])
    np.testing.assert_allclose(weighted.decision_function(X), fewer.decision_function(X), atol=1e-6)


def test_numbers_after_strings_and_back():
    X, y = dna(40)
    machine = SVC(kernel="linear").fit(np.random.default_rng(0).normal(size=(40, 3)), y)
    assert machine.n_features_in_ == 3
    machine.set_params(kernel=Spectrum(3)).fit(X, y)
    assert not hasattr(machine, "n_features_in_")
    machine.set_params(kernel="linear").fit(np.random.default_rng(0).normal(size=(40, 2)), y)
    assert machine.n_features_in_ == 2


# Invalid input: messages name the kernel.


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (["a", 3, "b"], "row 1 is 3 of type int"),
        (["a", None, "b"], "row 1 is None of type NoneType"),
        (["a", float("nan"), "b"], "row 1 is nan of type float"),
        (["a", ["b"], "c"], "row 0 is one of strings and row 1 one of lists of tokens"),
        (["a", {"b"}, "c"], "row 0 is one of strings and row 1 one of sets"),
        ([["a"], [["b"]], ["c"]], "tokens must be hashable"),
        ("abc", "got one str: put it into a list"),
        (np.ones((3, 2)), r"got shape \(3, 2\)"),
        ([1.0, 2.0, 3.0], "row 0 is 1.0 of type float"),
        ([], r"Found array with 0 sample"),
        ([{"a"}, {"b"}, {"c"}], "got sets, which have no order"),
    ],
)
def test_rows_that_are_no_strings_are_refused(X, message):
    with pytest.raises((ValueError, TypeError), match=message) as refused:
        SVC(kernel=Spectrum(3)).fit(X, [0, 1, 0][: len(X)] if len(X) else [])
    assert "Spectrum(length=3, weights=None, normalized=True)" in str(refused.value)


def test_other_refusals():
    X, y = dna(20)
    with pytest.raises(ValueError, match=r"X must hold numbers, .* a kernel such as Spectrum\(3\)"):
        SVC().fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVC(kernel=Spectrum(3)).fit(X, y[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        SVC(kernel=Spectrum(3)).fit(X, None)
    with pytest.raises(TypeError, match=r"Linear\(\) needs rows of features, got Structured.*: use a kernel such"):
        SVC(kernel=Linear() + Spectrum(3)).fit(X, y)
    with pytest.raises(TypeError, match=r"Spectrum\(.*\) needs strings, lists of tokens or sets, got Dense"):
        Spectrum(3).block(as_data(np.eye(2)), as_data(np.eye(2)))
    with pytest.raises(TypeError, match=r"RBF\(gamma=1.0\) needs rows of features"):
        RBF(gamma=1.0).block(as_structured(X), as_structured(X))
    machine = SVC(kernel=Spectrum(3)).fit(X, y)
    with pytest.raises(TypeError, match=r"lists of tokens cannot be used beside strings"):
        machine.predict([["a", "b"]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spectrum(0), "length must be an integer from 1"),
        (lambda: Spectrum(2.0), "length must be an integer >= 1"),
        (lambda: Spectrum((3, 2)), "pair of the shortest and the longest"),
        (lambda: Spectrum((1, 2, 3)), "pair of them"),
        (lambda: Spectrum((1, 2), weights=(1.0,)), "one number for each length 1 to 2, got 1"),
        (lambda: Spectrum(1, weights=(-1.0,)), "weights must be a number >= 0"),
        (lambda: Spectrum(1, normalized=1), "normalized must be True or False"),
        (lambda: Mismatch(3, 3), "mismatches must be below length=3, got 3"),
        (lambda: Mismatch(3, 1, "aab"), "alphabet must hold different letters"),
        (lambda: Mismatch(3, 1, ""), "alphabet must hold different letters"),
        (lambda: Mismatch(40, 1, "acgt"), r"fewer than 2\^62 words, got 40 for 4 letters"),
        (lambda: Subsequence(0), "length must be an integer from 1"),
        (lambda: Subsequence(2, 0.0), "decay must be a positive number"),
        (lambda: Subsequence(2, 1.5), "decay must be above 0 and at most 1, got 1.5"),
        (lambda: Subsequence(400, 0.1), r"decay=0.1 must not be so small that subsequences of 400 letters weigh"),
        (lambda: Subsequence(3, 0.5, 2), "max_span must be an integer from 3"),
        (lambda: Subsequence(8, 0.5, 30), "max_span=30 leaves more than 1000 ways to place the gaps of 8 letters"),
        (lambda: Subsequence(1000, 1.0, 1011), "max_span=1011 leaves more than 1000 ways"),
        (lambda: EditDistance(gamma=1, sigma=1), "only one of gamma and sigma"),
        (lambda: EditDistance(gamma="scale"), "gamma must be a number >= 0 or 'median', got 'scale'"),
        (lambda: EditDistance(gamma=-1), "gamma must be a number >= 0"),
        (lambda: EditDistance(sigma=0), "sigma must be a positive number"),
        (lambda: EditDistance(sigma=1e-200), "sigma must be such that gamma is a finite positive number, got 1e-200"),
        (lambda: EditDistance(sigma=1e200), r"sigma must be such that gamma is a finite positive number, got 1e\+200"),
        (lambda: Spectrum(2, weights=2.0), "weights must be one number for each length 2 to 2, got 2.0"),
        (lambda: Mismatch(3, 1, "ab", wildcards="b"), r"in alphabet or in wildcards, not in both, got \['b'\]"),
        (lambda: WeightedDegree(0), "degree must be an integer from 1"),
        (lambda: WeightedDegree(2, (1.0,)), "weights must be one number for each length 1 to 2, got 1"),
        (lambda: WeightedDegree(2, wildcards=3), "wildcards must be a string or a tuple"),
        (lambda: GappedKmer(6, 7), "informative must be at most length=6, got 7"),
        (lambda: GappedKmer(61), "length must be at most 60, got 61"),
        (lambda: GappedKmer(6, 4, "half"), "filter must be one of 'gapped', 'full', 'truncated', got 'half'"),
        (lambda: GappedKmer(6, 4, centre=3), r"centre must be a pair \(M, H\)"),
        (lambda: GappedKmer(6, 4, reverse_complement=1), "reverse_complement must be True or False"),
        (lambda: GappedKmer(6, 4).eigenvalues(), "takes its alphabet from the data"),
        (lambda: Mismatch(2, 1, alphabet=5), "alphabet must be a string or a tuple of tokens, got 5"),
        (lambda: -1.0 * Spectrum(3), "would not be a kernel"),
        (
            lambda: from_dict(Spectrum(2).to_dict() | {"length": [[1], 2]}),
            "must be a num",
        ),
        (lambda: from_dict(Spectrum(2).to_dict() | {"length": "x"}), "length must be"),
    ],
)
def test_parameters_that_cannot_be_are_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize(
    "document",
    [
        Mismatch(2, 1).to_dict() | {"length": 20_000_000, "alphabet": "abc"},
        {"type": "Subsequence", "length": 10_000_000, "decay": 1.0, "max_span": 2**31 - 1, "normalized": True},
    ],
    ids=lambda document: document["type"],
)
def test_an_untrusted_file_cannot_cause_endless_counting(document):
    before = time.process_time()
    with pytest.raises(ValueError, match=r"2\^62 words|1000 ways"):
        from_dict(document)
    assert time.process_time() - before < 1.0
    assert Subsequence(900, 1.0, 901).max_span == 901
    assert Mismatch(100, 1, "a").alphabet == "a"


# Python functions and precomputed matrices.


def same_length(A, B):
    return np.array([[float(len(s) == len(t)) + 0.1 for t in B] for s in A])


def test_a_function_of_strings():
    X, y = dna(60)
    machine = SVC(kernel=same_length).fit(X, y)
    assert machine.certificate_.status == "optimal"
    assert machine.predict(X).shape == (60,)


def test_a_function_sees_support_vectors_only_and_never_the_whole_matrix():
    rng = np.random.default_rng(0)
    n = 3000
    X = rng.normal(size=(n, 2)) + 4.0 * (np.arange(n) % 2)[:, None]
    sizes = []

    def linear(A, B):
        sizes.append((len(A), len(B)))
        return A @ B.T

    with pytest.warns(IndefiniteKernelWarning, match="not refuted"):  # too many rows to check all of them
        machine = SVC(kernel=linear, memory_limit=0).fit(X, np.arange(n) % 2)
    assert max(a * b for a, b in sizes) <= 1 << 21 < n * n
    sizes.clear()
    machine.predict(X[:50])
    assert sum(a * b for a, b in sizes) == 50 * machine.support_.size
    assert machine.support_.size < n / 4


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: np.ones((len(A), len(B) + 1)), "must return an array of shape"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "must return finite numbers, got nan"),
        (lambda A, B: A @ B.T + A[:, :1], r"must be symmetric, but it returned .* for rows \d+ and \d+"),
    ],
)
def test_functions_that_are_no_kernels_are_refused_by_name(function, message):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    with pytest.raises(ValueError, match=rf"kernel function of Callable\(.*lambda.*\) {message}"):
        SVC(kernel=function).fit(X, y)


@pytest.mark.parametrize(
    "stored", [sp.csr_array, sp.csr_matrix, sp.coo_array, lambda K: sp.csr_array(K.astype(np.float32))]
)
def test_a_sparse_precomputed_matrix_is_a_dense_one(stored):
    X, y = dna(60)
    data = as_structured(X)
    K = Spectrum(5, normalized=False).block(data, data)
    assert (K == 0).mean() > 0.1
    dense, sparse = SVC(kernel="precomputed").fit(K, y), SVC(kernel="precomputed").fit(stored(K), y)
    np.testing.assert_allclose(sparse.decision_function(stored(K)), dense.decision_function(K), rtol=1e-12)
    assert sparse.certificate_.verify().status == "optimal"
    matrix = sp.csr_array(stored(K))
    scores = cross_val_score(SVC(kernel="precomputed"), matrix, y, cv=3)
    assert scores.tolist() == cross_val_score(SVC(kernel="precomputed"), K, y, cv=3).tolist()
    matrix.data[3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        SVC(kernel="precomputed").fit(matrix, y)
    with pytest.raises(ValueError, match="must be square"):
        SVC(kernel="precomputed").fit(stored(K)[:, :-1] if stored is not sp.coo_array else stored(K[:, :-1]), y)


def test_gram_matrices_are_evaluated_in_pieces_of_bounded_work():
    X = as_structured(strings(400, longest=60))
    gram = Gram(Subsequence(3), X)
    assert gram.values_per_call < 1 << 17
    K = gram.block()
    chunks = list(gram.accumulate(total := np.zeros(400), np.arange(40), np.ones(40)))
    assert len(chunks) >= 1
    np.testing.assert_allclose(total, K[:, :40].sum(axis=1), rtol=1e-12)
    rows = np.array([3, 9, 200])
    part = np.zeros(400)
    for _ in gram.accumulate(part, np.arange(40), np.ones(40), rows=rows):
        pass
    assert np.flatnonzero(part).tolist() == [i for i in rows if K[i, :40].any()]
    np.testing.assert_allclose(part[rows], total[rows], rtol=1e-12)


class Interrupted(StructuredKernel):
    """A kernel that backends treat as native code; Ctrl-C comes while the main thread evaluates it."""

    def __init__(self):
        self.chunks = 0

    def block(self, A, B):
        if A.n:
            self.chunks += 1
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            time.sleep(0.01)
        return np.ones((A.n, B.n))

    def diag(self, A):
        return np.ones(A.n)

    def work(self, X):
        return 1e6


def test_ctrl_c_is_not_kept_waiting_by_other_threads():
    X, kernel = as_structured(strings(400)), Interrupted()
    backend = BlockBackend(kernel, X, n_jobs=2)
    with pytest.raises(KeyboardInterrupt):
        backend.block(X, None, X, None, np.empty((X.n, X.n)))
    assert 400 * 400 / backend.values_per_call > 100
    assert kernel.chunks < 10


def test_values_of_all_rows_are_computed_on_the_main_thread(monkeypatch):
    threads = []
    squares = Subsequence._all_squares

    def watched(kernel, rows):
        threads.append(threading.current_thread())
        return squares(kernel, rows)

    monkeypatch.setattr(Subsequence, "_all_squares", watched)
    for _ in range(5):
        X = as_structured(strings(400, longest=60))
        BlockBackend(Subsequence(3), X, n_jobs=4).matvec(X, None, X, None, np.ones((X.n, 1)))
    assert threads == [threading.main_thread()] * 5


@pytest.mark.parametrize("isa", [*ISAS, "avx3"])
@pytest.mark.parametrize(
    "kernel", [Spectrum(3), EditDistance(gamma=0.1), Subsequence(3, 0.5)], ids=lambda k: type(k).__name__
)
def test_the_instruction_set_can_be_forced(kernel, isa, monkeypatch):
    X, _ = dna(40)
    data = as_structured(X)
    expected = kernel.block(data, data)
    monkeypatch.setenv("MERCER_ISA", isa)
    if isa == "avx3":
        with pytest.raises(ValueError, match=r"MERCER_ISA must name an instruction set of this machine .*'avx3'"):
            kernel.block(as_structured(X), as_structured(X))
    else:
        assert isa in Gram(kernel, data).backend_reason
        np.testing.assert_allclose(kernel.block(as_structured(X), as_structured(X)), expected, rtol=1e-13)


@pytest.mark.parametrize("rows", [["1100", "0110"] * 5, [[1, 0, 0], [0, 1, 1]] * 5], ids=["strings", "lists"])
def test_bits_are_no_sets_and_the_way_out_is_said(rows):
    y = np.arange(10) % 2
    with pytest.raises(ValueError, match=r"of the bits 0 and 1, .* give the places of the ones") as caught:
        SVC(kernel=Jaccard()).fit(rows, y)
    way_out = re.search(r"\[\{.*\} for row in X\]", str(caught.value))[0]
    assert SVC(kernel=Jaccard()).fit(eval(way_out, {"X": rows}), y).score(eval(way_out, {"X": rows}), y) == 1.0
    table = np.array([[1, 0, 0], [0, 1, 1]] * 5)
    with pytest.raises(ValueError, match=r"table of bits are fingerprints, for Tanimoto\(\)"):
        SVC(kernel=Jaccard()).fit(table, y)
    assert SVC(kernel=Tanimoto()).fit(table, y).score(table, y) == 1.0


def test_a_kernel_that_is_the_same_for_all_rows_is_a_warning():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    for machine in (SVC(gamma=1e-30), KernelRidge(kernel="rbf", gamma=1e-30)):
        with pytest.warns(UserWarning, match="every kernel value of the training rows is 1: RBF"):
            machine.fit(X, y)
    with pytest.warns(UserWarning, match="every kernel value"):
        SVC(kernel=Jaccard()).fit(["ab", "ba"] * 10, y)
