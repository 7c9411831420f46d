"""Terms of rows and their derivatives, against the NumPy reference."""

import numpy as np
import pytest

from cases import ISAS
from mercer.gram.rows.newton_pass import newton_pass
from mercer.gram.rows.row_terms import TermKind, native_terms, row_terms, term_line
from pairs import every_pair
from reference import linear as reference

KINDS = {
    "logistic": TermKind(is_logistic=True),
    "squared hinge": TermKind(one_sided=True),
    "squared epsilon": TermKind(epsilon=0.3),
    "hinge": TermKind(one_sided=True, bounded=True, factor=0.7, unit=1.0),
    "epsilon": TermKind(bounded=True, epsilon=0.3, factor=5.0, unit=1.0),
    "absolute": TermKind(bounded=True, factor=5.0, unit=5.0),
}


def rows_of(kind, n, seed=0):
    """Targets, charges, decision values and shares; some charges are 0 and some values exactly at a kink."""
    rng = np.random.default_rng(seed)
    classifies = KINDS[kind].is_logistic or KINDS[kind].one_sided
    targets = np.where(rng.random(n) < 0.5, 1.0, -1.0) if classifies else rng.normal(size=n)
    charges = rng.uniform(0.0, 3.0, n) * (rng.random(n) < 0.9)
    z = rng.normal(scale=2.0, size=n)
    z[::7] = targets[::7]
    shares = targets * rng.random(n) if classifies else rng.uniform(-1.0, 1.0, n)
    return targets, charges, z, shares if KINDS[kind].bounded else None


def same(actual, expected):
    for name in ("beta", "curvature"):
        np.testing.assert_allclose(getattr(actual, name), getattr(expected, name), rtol=1e-14, atol=1e-14, err_msg=name)
    np.testing.assert_allclose(actual[2:], expected[2:], rtol=1e-11, atol=1e-12)


@every_pair(kind=list(KINDS), n=[0, 1, 5, 8, 1001, 20011], isa=ISAS)
def test_terms_and_lines(monkeypatch, kind, n, isa):
    monkeypatch.setenv("MERCER_ISA", isa)
    targets, charges, z, shares = rows_of(kind, n)
    terms = native_terms(KINDS[kind], targets, charges, shares)
    actual = row_terms(terms, z, n_jobs=1)
    same(actual, reference.row_terms(KINDS[kind], targets, charges, z, shares))
    several = row_terms(terms, z, n_jobs=3)
    for one, other in zip(actual, several, strict=True):
        np.testing.assert_array_equal(one, other)
    change, lengths = np.random.default_rng(1).normal(size=n), np.geomspace(1e-3, 40.0, 19)
    slopes, bends = term_line(terms, z, change, lengths, n_jobs=1)
    expected = reference.term_line(KINDS[kind], targets, charges, z, change, lengths, shares)
    np.testing.assert_allclose(slopes, expected[0], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(bends, expected[1], rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(term_line(terms, z, change, lengths, n_jobs=2), (slopes, bends))


@pytest.mark.parametrize("isa", ISAS)
def test_logistic_terms_keep_their_digits_far_from_the_boundary(monkeypatch, isa):
    monkeypatch.setenv("MERCER_ISA", isa)
    z = np.array([40.0, -40.0, 700.0, -700.0, 1e300, -1e300, 1e-20])
    for target in (1.0, -1.0):
        for number in z:
            about = np.array([target]), np.array([2.0]), np.array([number])
            terms = row_terms(native_terms(KINDS["logistic"], *about[:2]), about[2])
            expected = reference.row_terms(KINDS["logistic"], *about)
            np.testing.assert_allclose(terms.beta, expected.beta, rtol=1e-14, atol=1e-300)
            np.testing.assert_allclose(terms.curvature, expected.curvature, rtol=1e-14, atol=1e-300)
            np.testing.assert_allclose(terms.total, expected.total, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("isa", ISAS)
def test_values_that_are_not_numbers_stay_so(monkeypatch, kind, isa):
    monkeypatch.setenv("MERCER_ISA", isa)
    targets, charges, z, shares = rows_of(kind, 9)
    charges[:] = 1.0
    z[4] = np.nan
    terms = row_terms(native_terms(KINDS[kind], targets, charges, shares), z)
    assert np.isnan([terms.beta[4], terms.total, terms.loss]).all()
    assert np.isfinite(np.delete(terms.beta, 4)).all()


def test_wrong_rows_are_refused():
    ones = np.ones(3)
    terms = native_terms(TermKind(), ones, ones)
    with pytest.raises(ValueError, match="same length"):
        native_terms(TermKind(), ones, np.ones(2))
    with pytest.raises(ValueError, match="length of targets"):
        row_terms(terms, np.ones(4))
    with pytest.raises(ValueError, match="length of targets"):
        term_line(terms, ones, np.ones(2), ones)
    with pytest.raises(ValueError, match="factor larger than 0"):
        native_terms(TermKind(factor=0.0), ones, ones)


@every_pair(kind=list(KINDS), n=[0, 1, 1023, 20011], p=[1, 8, 21, 255], dtype=["f4", "f8", "i1", "u1"], isa=ISAS)
def test_a_pass_of_newtons_method(monkeypatch, kind, n, p, dtype, isa):
    monkeypatch.setenv("MERCER_ISA", isa)
    n, rng = min(n, 200_000 // p), np.random.default_rng(p)
    X = rng.integers(0, 9, (n, p)).astype(dtype)
    targets, charges, z, shares = rows_of(kind, n)
    w, scales, old = rng.normal(scale=0.3 / p, size=p + 1), 2.0 ** rng.integers(-3, 3, p + 1), charges * 0.5
    first_results = {}
    for n_jobs in (1, 3):
        for given in (None, w):
            values, curvature, pull, gram = z.copy(), old.copy(), np.empty(p + 1), np.eye(p + 1)
            terms = native_terms(KINDS[kind], targets, charges, shares)
            about = X, 0.5, KINDS[kind], targets, charges, shares
            made = values, curvature, scales, pull, gram
            sums = newton_pass(X, 0.5, terms, given, *made, is_update=True, n_jobs=n_jobs)
            at = z if given is None else reference.times(X, 0.5, w)
            expected, own_pull, own_gram, own_sums = reference.newton_pass(*about, at, old, scales)
            size = max(1.0, float(np.abs(charges).sum())) * 81.0
            np.testing.assert_allclose(values, at, rtol=1e-13, atol=1e-13)
            if given is None:
                np.testing.assert_allclose(curvature, expected.curvature, rtol=1e-13, atol=1e-13)
                np.testing.assert_allclose(pull, own_pull, atol=1e-12 * size)
                np.testing.assert_allclose(gram - np.eye(p + 1), own_gram, atol=1e-11 * size)
                np.testing.assert_allclose(sums, own_sums, rtol=1e-11, atol=1e-11)
            same_on_all = first_results.setdefault(given is None, (sums, *made[:2], pull, gram))
            for one, other in zip(same_on_all, (sums, *made[:2], pull, gram), strict=True):
                np.testing.assert_array_equal(one, other)
    alone = np.zeros((p + 1, p + 1))
    newton_pass(X, 0.5, terms, None, z.copy(), None, scales, pull, alone, is_update=False)
    np.testing.assert_allclose(alone, reference.newton_pass(*about, z, 0.0 * old, scales)[2], atol=1e-11 * size)
