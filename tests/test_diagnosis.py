"""Is it a kernel? Verdicts on functions and matrices, witnesses that are easy to check, and repairs."""

import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

import mercer.kernels as mk
from cases import KERNELS
from mercer import RBF, SVC, EditDistance, Linear, Polynomial, Sigmoid, Spectrum, Status, gram_matrix
from mercer.data import Precomputed as GivenValues
from mercer.data import as_data
from mercer.kernels import Callable, clip, diagnose, flip, refute, shift

REPAIRS = pytest.mark.parametrize("repair", [clip, flip, shift], ids=lambda f: f.__name__)


def rows(n=40, p=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


def one_less(A, B):
    return 1.0 - cdist(A, B, "sqeuclidean")


# Verdicts.


def test_a_function_a_name_and_a_matrix_are_diagnosed():
    X = rows()
    assert diagnose("rbf", X).verdict == "proved"
    assert diagnose(one_less, X).verdict == "violated"
    assert diagnose(lambda A, B: A @ B.T, X).verdict == "not refuted"
    for stored in (np.asarray, sp.csr_array, as_data, np.ndarray.tolist):
        assert diagnose(Sigmoid(1.0, 1.0), stored(X)).verdict == "violated"
    for stored in (np.asarray, sp.csr_array, np.ndarray.tolist):
        by_values = diagnose(stored(one_less(X, X)))
        assert by_values.verdict == "violated"
        assert by_values.smallest_eigenvalue == pytest.approx(diagnose(one_less, X).smallest_eigenvalue)


def test_rules_are_resolved_on_the_points():
    diagnosis = diagnose(RBF(gamma="median"), rows())
    assert diagnosis.proof == (f"{RBF(gamma='median').resolve(as_data(rows()))!r} is {RBF.rule}",)


@pytest.mark.parametrize("name", mk.__all__)
def test_what_is_proved_says_by_which_rule(name):
    kernel = getattr(mk, name)
    if isinstance(kernel, type) and issubclass(kernel, mk.Kernel) and name not in ("Kernel", "Callable", "Precomputed"):
        assert kernel.rule or name in ("Sigmoid", "EditDistance", "GeneralizedGaussian"), f"{name} needs a `rule`"


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_a_proof_ends_with_the_kernel(case):
    proof = case.kernel.proof
    assert bool(proof) is case.proved
    assert not proof or proof[-1].startswith(f"{case.kernel!r} is ")
    assert all(step.split(" is ", 1)[1] for step in proof)


def test_steps_of_a_proof_come_once_and_in_order():
    half = Linear() + 1.0
    assert (half * half).proof == (
        "Linear() is an inner product",
        "Linear() + 1.0 is a kernel plus a number >= 0",
        "(Linear() + 1.0) * (Linear() + 1.0) is a product of kernels",
    )


@pytest.mark.parametrize(
    ("kernel", "rank"),
    [
        (Linear(), 2),
        (Linear() + 1.0, 3),
        (Polynomial(3, 1.0, 1.0), 10),
        (Polynomial(3, 1.0), 4),
        (RBF(gamma=0.0), 1),
        (RBF(gamma=9.0), 40),
        (Callable(one_less), 4),
    ],
    ids=str,
)
def test_numerical_rank(kernel, rank):
    assert diagnose(kernel, rows()).rank == rank


# Witnesses.


@pytest.mark.parametrize("kernel", [Sigmoid(1.0, 1.0), Callable(one_less), Polynomial(3, 1.0, -0.5)], ids=str)
@pytest.mark.parametrize("n", [10, 90, 300])
def test_a_witness_holds_in_exact_arithmetic(kernel, n):
    X = rows(n)
    witness = diagnose(kernel, X).witness
    np.testing.assert_array_equal(witness.points.stored, X[witness.idx])
    assert (np.diff(witness.idx) > 0).all()
    assert witness.c.size <= 12
    G = kernel.block(witness.points, witness.points)
    exact = sum(
        Fraction(a) * Fraction(b) * Fraction(G[i, j])
        for i, a in enumerate(witness.c.tolist())
        for j, b in enumerate(witness.c.tolist())
    )
    assert abs(float(exact) - witness.value) <= witness.bound
    assert witness.value < -100 * witness.bound


def test_a_small_witness_is_found_if_one_exists():
    diagnosis = diagnose(one_less, rows())
    assert diagnosis.witness.idx.size == 2  # two points farther apart than sqrt(2)
    G = np.eye(300)
    G[[17, 200], [200, 17]] = 1.25
    diagnosis = diagnose(G)
    assert diagnosis.witness.idx.tolist() == [17, 200]
    np.testing.assert_allclose(diagnosis.witness.c, [0.5**0.5, -(0.5**0.5)])
    assert diagnosis.witness.value == pytest.approx(-0.25)


def test_points_of_a_matrix_can_be_named():
    X = rows()
    np.testing.assert_array_equal(
        diagnose(one_less(X, X), X).witness.points.stored, diagnose(one_less, X).witness.points.stored
    )
    named = diagnose([[1.0, 2.0], [2.0, 1.0]], ["left", "right"]).witness
    assert list(named.points.stored) == ["left", "right"]
    bare = diagnose([[1.0, 2.0], [2.0, 1.0]]).witness
    assert mk.Precomputed().block(bare.points, bare.points).tolist() == [[1.0, 2.0], [2.0, 1.0]]


def test_a_search_over_strings_refutes_the_edit_distance():
    diagnosis = refute(EditDistance(gamma=1))
    assert (diagnosis.verdict, diagnosis.n_points) == ("violated", 31)
    assert diagnosis.smallest_eigenvalue == pytest.approx(-0.043, abs=5e-4)
    strings = list(diagnosis.witness.points.stored)
    assert len(strings) < 31
    again = diagnose(EditDistance(gamma=1), strings)
    assert again.smallest_eigenvalue == pytest.approx(diagnosis.witness.value)
    assert refute(Spectrum(2)).verdict == "proved"


# In words.


def test_verdicts_in_words():
    proved = diagnose(2.0 * Linear(), rows())
    assert proved.words == (
        "It is a kernel: its Gram matrix is positive semidefinite on any points. The proof: Linear() is an inner "
        "product; 2.0 * Linear() is a kernel times a number >= 0. On all 40 points its matrix has numerical rank 2."
    )
    assert str(proved).startswith("proved: positive semidefinite by the closure rules (Linear() is an inner product; ")
    violated = diagnose(one_less, rows())
    assert "on 2 of the 40 points looked at (rows 6, 34)" in violated.words
    assert "repaired by clip, flip or shift" in violated.words
    assert "for a vector c of length 1 on 2 points; smallest eigenvalue" in str(violated)
    asymmetric = diagnose(lambda A, B: A @ B.T + A[:, :1], [[0.0, 1.0], [0.0, 0.0], [3.0, 0.0]])
    assert "k(x, z) and k(z, x) differ by 3 where x is row 0 and z is row 2" in asymmetric.words
    assert "on a choice of 30 points" in diagnose(lambda A, B: A @ B.T, rows(), max_points=30).words
    many = diagnose(-np.ones((20, 20)) + 1.5 * np.eye(20))
    assert re.search(r"on 2 of the 20 points looked at \(rows \d+, \d+\)", many.words)  # any two points are a witness
    assert "(rows 4, 5, 7, 8, 9, 11, ...)" in refute(EditDistance(gamma=1)).words


# Repairs.


@REPAIRS
@pytest.mark.parametrize("n", [1, 2, 60])
def test_what_is_repaired_is_positive_semidefinite(repair, n):
    A = rows(n, n)
    repaired = repair(A)
    G = 0.5 * (A + A.T)
    np.testing.assert_allclose(repaired.eigenvalues, np.linalg.eigvalsh(G), atol=1e-13)
    np.testing.assert_array_equal(repaired.matrix, repaired.matrix.T)
    assert diagnose(repaired.matrix).verdict == "not refuted"
    assert np.linalg.norm(repaired.matrix - A) == pytest.approx(repaired.change)
    assert np.linalg.norm(A - G) == pytest.approx(repaired.skew)
    assert ("both sides were made equal" in str(repaired)) is (n > 1)
    expected = {
        "clip": np.maximum(repaired.eigenvalues, 0.0),
        "flip": np.abs(repaired.eigenvalues),
        "shift": repaired.eigenvalues - min(0.0, repaired.eigenvalues[0]),
    }[repair.__name__]
    np.testing.assert_allclose(np.linalg.eigvalsh(repaired.matrix), np.sort(expected), atol=1e-13 * n)
    if repair is shift:
        off_diagonal = ~np.eye(n, dtype=bool)
        np.testing.assert_array_equal(repaired.matrix[off_diagonal], G[off_diagonal])


@REPAIRS
def test_a_positive_semidefinite_matrix_is_not_repaired(repair):
    K = gram_matrix(RBF(gamma=2.0), rows())
    repaired = repair(sp.csr_array(K))
    np.testing.assert_allclose(repaired.matrix, K, atol=1e-14)
    assert repaired.change < 1e-12


def test_nothing_positive_semidefinite_is_nearer_than_clip():
    A = rows(12, 12)
    G = A + A.T
    nearest = clip(G).change
    for seed in range(50):
        other = clip(G + 0.1 * rows(12, 12, seed)).matrix
        assert np.linalg.norm(other - G) >= nearest * (1 - 1e-12)


@pytest.mark.parametrize("repair", [clip, flip], ids=lambda f: f.__name__)
def test_new_rows_are_treated_as_the_old_ones_were(repair):
    K = gram_matrix(Sigmoid(1.0, 1.0), rows())
    repaired = repair(K)
    np.testing.assert_allclose(repaired.new_rows(K[[3, 5]]), repaired.matrix[[3, 5]], atol=1e-13)


@REPAIRS
def test_a_machine_on_a_repaired_matrix_is_optimal(repair):
    X, new = rows(80), rows(30, seed=1)
    y = X[:, 0] * X[:, 1] > 0
    kernel = Sigmoid(1.0, 1.0)
    repaired = repair(gram_matrix(kernel, X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = SVC(kernel="precomputed", C=1.0).fit(repaired.matrix, y)
        assert machine.certificate_.status is Status.OPTIMAL
        assert machine.predict(repaired.new_rows(gram_matrix(kernel, new, X))).shape == (30,)


def test_repairs_in_words():
    G = [[1.0, 2.0], [2.0, 1.0]]
    assert str(clip(G)) == (
        "clip: 1 negative eigenvalues were set to 0: the nearest positive semidefinite matrix, a change of 1 in "
        "Frobenius norm"
    )
    assert str(flip(G)).startswith("flip: the signs of 1 negative eigenvalues were turned, a change of 2")
    assert str(shift(G)).startswith("shift: 1 was added to the diagonal, a change of 1.41")
    np.testing.assert_array_equal(shift(G).new_rows([[5.0, 6.0]]), [[5.0, 6.0]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: diagnose(Linear()), TypeError, r"diagnose needs points for Linear\(\): give them as data"),
        (lambda: diagnose([[1.0, 2.0]]), ValueError, r"must be square, got shape \(1, 2\)"),
        (lambda: diagnose(np.eye(3), rows(2)), ValueError, "the 3 points that the rows of the matrix stand for, got 2"),
        (lambda: diagnose([[np.nan]]), ValueError, "are NaN or infinite on these points"),
        (lambda: diagnose("gauss", rows()), ValueError, "kernel must be 'linear'"),
        (lambda: clip(np.ones((2, 3))), ValueError, r"a matrix to be repaired must be square, got shape \(2, 3\)"),
        (lambda: flip([[np.inf]]), ValueError, "a matrix to be repaired must be finite, but"),
        (lambda: shift(np.empty((0, 0))), ValueError, "must be square, got shape"),
        (lambda: clip(np.eye(2)).new_rows([[1.0]]), ValueError, r"values must have shape \(m, 2\), .* got \(1, 1\)"),
    ],
    ids=range(9),
)
def test_invalid_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_given_values_can_be_diagnosed_as_data():
    assert diagnose(mk.Precomputed(), GivenValues(np.eye(3))).verdict == "not refuted"


@pytest.mark.parametrize("scale", [1e-150, 1e-158, 1e-160, 1e-162, 1e-170])
def test_values_that_are_next_to_0_refute_no_kernel_by_their_rounding(scale):
    """The squares of 1e-320 underflow to 0, and so would a norm: rounding is not small relative to it."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = scale * rng.normal(size=(8, 3))
        assert np.isfinite(diagnose(Sigmoid(gamma=1.0), rows).tolerance)
        assert diagnose(lambda A, B: A @ B.T, rows).verdict == "not refuted"
