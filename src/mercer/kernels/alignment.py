"""The local alignment kernel of strings: a sum over all alignments of parts of them, gaps included."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import exp, isqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mercer._core import Strings, alignments
from mercer._typing import FloatArray
from mercer.data import Data, Structured
from mercer.data.structured import STRINGS
from mercer.kernels.instruction_set import select_isa
from mercer.kernels.kernel import Schema, finite
from mercer.kernels.parameters import flag, real
from mercer.kernels.structured import StructuredKernel

_PROTEIN = "ARNDCQEGHILKMFPSTWYVBZX*"
_BLOSUM62 = """
4 -1 -2 -2  0 -1 -1  0 -2 -1 -1 -1 -1 -2 -1  1  0 -3 -2  0 -2 -1  0 -4
-1  5  0 -2 -3  1  0 -2  0 -3 -2  2 -1 -3 -2 -1 -1 -3 -2 -3 -1  0 -1 -4
-2  0  6  1 -3  0  0  0  1 -3 -3  0 -2 -3 -2  1  0 -4 -2 -3  3  0 -1 -4
-2 -2  1  6 -3  0  2 -1 -1 -3 -4 -1 -3 -3 -1  0 -1 -4 -3 -3  4  1 -1 -4
0 -3 -3 -3  9 -3 -4 -3 -3 -1 -1 -3 -1 -2 -3 -1 -1 -2 -2 -1 -3 -3 -2 -4
-1  1  0  0 -3  5  2 -2  0 -3 -2  1  0 -3 -1  0 -1 -2 -1 -2  0  3 -1 -4
-1  0  0  2 -4  2  5 -2  0 -3 -3  1 -2 -3 -1  0 -1 -3 -2 -2  1  4 -1 -4
0 -2  0 -1 -3 -2 -2  6 -2 -4 -4 -2 -3 -3 -2  0 -2 -2 -3 -3 -1 -2 -1 -4
-2  0  1 -1 -3  0  0 -2  8 -3 -3 -1 -2 -1 -2 -1 -2 -2  2 -3  0  0 -1 -4
-1 -3 -3 -3 -1 -3 -3 -4 -3  4  2 -3  1  0 -3 -2 -1 -3 -1  3 -3 -3 -1 -4
-1 -2 -3 -4 -1 -2 -3 -4 -3  2  4 -2  2  0 -3 -2 -1 -2 -1  1 -4 -3 -1 -4
-1  2  0 -1 -3  1  1 -2 -1 -3 -2  5 -1 -3 -1  0 -1 -3 -2 -2  0  1 -1 -4
-1 -1 -2 -3 -1  0 -2 -3 -2  1  2 -1  5  0 -2 -1 -1 -1 -1  1 -3 -1 -1 -4
-2 -3 -3 -3 -2 -3 -3 -3 -1  0  0 -3  0  6 -4 -2 -2  1  3 -1 -3 -3 -1 -4
-1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4  7 -1 -1 -4 -3 -2 -2 -1 -2 -4
1 -1  1  0 -1  0  0  0 -1 -2 -2  0 -1 -2 -1  4  1 -3 -2 -2  0  0  0 -4
0 -1  0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1  1  5 -2 -2  0 -1 -1  0 -4
-3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1  1 -4 -3 -2 11  2 -3 -4 -3 -2 -4
-2 -2 -2 -3 -2 -1 -2 -3  2 -1 -1 -2 -1  3 -3 -2 -2  2  7 -1 -3 -2 -1 -4
0 -3 -3 -3 -1 -2 -2 -3 -3  3  1 -2  1 -1 -2 -2  0 -3 -1  4 -3 -2 -1 -4
-2 -1  3  4 -3  0  1 -1  0 -3 -4  0 -3 -3 -2  0 -1 -4 -3 -3  4  1 -1 -4
-1  0  0  1 -3  3  4 -2  0 -3 -3  1 -1 -3 -1  0 -1 -3 -2 -2  1  4 -1 -4
0 -1 -1 -1 -2 -1 -1 -1 -1 -1 -1 -1 -1 -1 -2  0  0 -2 -1 -1 -1 -1 -1 -4
-4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4  1
"""  # Henikoff & Henikoff 1992, in half bits, in the order of _PROTEIN

_MOST_EXPONENT = 50.0  # largest beta |score| of two letters; larger factors lose digits of the native sums
_LEAST_GAP = 1e-250  # smaller factors of gaps count as 0, so that no product underflows
_MOST_LETTERS = 1000  # letters of a substitution matrix
_STEP_NANOSECONDS = 2.0  # time of a pair of letters


@dataclass(frozen=True)
class LocalAlignment(StructuredKernel):
    """The local alignment kernel: the sum of exp(beta score) over all local alignments of two strings.

    An alignment pairs letters of one string with letters of the other, in order. Its score is the sum of the scores of
    the pairs, minus `gap_open` for each gap between two pairs and `gap_extend` for each further letter of the gap. The
    Smith-Waterman score is the largest of these scores. It is the limit of ln(k) / beta for large beta.

    Parameters
    ----------
    scores : "blosum62", (float, float), or array-like of shape (m, m), default="blosum62"
        Scores of two letters: the BLOSUM62 matrix of the 20 amino acids, B, Z, X and '*'; or the score of equal letters
        and that of different ones, for any letters and tokens; or a symmetric matrix in the order of `alphabet`.
    alphabet : str or sequence, optional
        The m letters or tokens of a matrix.
    gap_open : float >= 0, default=11
        Cost of the first letter of a gap.
    gap_extend : float >= 0, default=1
        Cost of each further letter.
    beta : float > 0, default=0.5
        A larger value gives the best alignments more weight. beta times a score must be at most 50.
    log : bool, default=False
        Whether values are ln(k) / beta. This is *not* a kernel, see the notes.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed; for rows that are neither strings nor lists of tokens; for a letter that is not
        in the alphabet (its row and position are named).

    Notes
    -----
    It is positive semidefinite if, and only if, the matrix exp(beta score) of letters is: the empty string and the
    strings of one letter show it. `is_psd` is True if the eigenvalues prove this, as for BLOSUM62 with beta = 0.5 and
    for equal letters that score no less than different ones; otherwise None. With beta = 0.1, B, Z and X of BLOSUM62
    refute it.

    Values grow exponentially with the length of an alignment, so that a normalised value of two different strings is
    often almost 0 and the matrix almost the identity ("diagonal dominance"). Saigo et al. therefore take logarithms,
    ``log=True``. These can have negative eigenvalues, as Smith-Waterman scores can. `is_psd` is then None. On rows that
    refute it, a trained machine is at a stationary point, which need not be the optimum. `mercer.kernels.clip` and
    `shift` repair the matrix of given rows; this is "LA-eig" of Saigo et al.

    A value costs |s| |t| steps of dynamic programming, for 16 strings at a time.

    References
    ----------
    Saigo, Vert, Ueda & Akutsu (2004), Protein homology detection using string alignment kernels; Smith & Waterman
    (1981); Henikoff & Henikoff (1992), Amino acid substitution matrices from protein blocks.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> rows = as_structured(["HEAGAWGHEE", "PAWHEAE", "KKKK"])
    >>> LocalAlignment(log=True, normalized=False).block(rows, rows).round(1)
    array([[62.2, 21. ,  8.3],
           [21. , 44.2,  7.5],
           [ 8.3,  7.5, 20.7]])
    """

    scores: Any = "blosum62"
    alphabet: Any = None
    gap_open: float = 11.0
    gap_extend: float = 1.0
    beta: float = 0.5
    log: bool = False
    normalized: bool = True

    names = ("local_alignment",)
    schema: ClassVar[Schema] = dict.fromkeys(
        ("scores", "alphabet", "gap_open", "gap_extend", "beta", "log", "normalized"), "plain"
    )
    rule = "a convolution of a kernel of letters, exp(beta score), and of a product of functions of the gaps"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", _scores(self.scores))
        object.__setattr__(self, "alphabet", _alphabet(self.alphabet, self.scores))
        for name in ("gap_open", "gap_extend"):
            object.__setattr__(self, name, real(name, getattr(self, name), minimum=0.0))
        object.__setattr__(self, "beta", real("beta", self.beta, positive=True))
        largest = float(np.abs(self._score_table()).max())
        if self.beta * largest > _MOST_EXPONENT:
            raise ValueError(
                f"beta times the scores must be at most {_MOST_EXPONENT:g}, got {self.beta:g} times {largest:g}: "
                "choose a smaller beta, or divide the scores and costs"
            )
        flag("log", self.log)
        flag("normalized", self.normalized)

    @property
    def is_psd(self) -> bool | None:
        """True if the factors of letters are positive semidefinite; None with `log`, or if that is not proved."""
        if self.log:
            return None
        table = np.exp(self.beta * self._score_table())
        if table.size == 2:
            return True if self.scores[0] >= self.scores[1] else None
        tolerance = 10.0 * table.shape[0] * float(np.finfo(float).eps) * float(np.abs(table).sum(axis=1).max())
        return True if float(np.linalg.eigvalsh(table)[0]) > tolerance else None

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        a, b = self._pair(A, B)
        values = self._logarithms(a, a.index, b.index)
        if self.log:
            values /= self.beta
            if self.normalized:
                scale = np.sqrt(np.multiply.outer(self._squares(a), self._squares(b)) / self.beta**2)
                np.divide(values, scale, out=values, where=scale > 0.0)
            return values
        if self.normalized:
            values -= np.add.outer(0.5 * self._squares(a), 0.5 * self._squares(b))
        return self._exponentials(values)

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        squares = self._squares(self._rows(A))
        if self.normalized:
            return (squares > 0.0).astype(np.float64) if self.log else np.ones(squares.size)
        return squares / self.beta if self.log else self._exponentials(squares)

    def _exponentials(self, logarithms: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            values = np.exp(logarithms, out=logarithms)
        if not np.isfinite(values).all():
            raise ValueError(
                f"values of {self!r} overflow double precision on these rows: take normalized=True, log=True or a "
                "smaller beta"
            )
        return finite(self, values)

    def _squares(self, a: Structured) -> FloatArray:
        """Return ln k(s, s) of each row, before normalisation."""
        return a.derived((self._key, "squares"), self._all_squares)[a.index]

    def _all_squares(self, rows: Structured) -> FloatArray:
        squares = np.zeros(rows.n)
        for i in range(rows.n):
            one = rows.index[i : i + 1]
            squares[i] = self._logarithms(rows, one, one)[0, 0]
        return squares

    @property
    def _key(self) -> Hashable:
        return LocalAlignment, self.scores, self.alphabet, self.gap_open, self.gap_extend, self.beta

    def _logarithms(self, rows: Structured, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> FloatArray:
        """Return ln k between numbered rows, before normalisation."""
        strings = rows.derived((LocalAlignment, self._letters), self._strings)
        factors = np.exp(self.beta * self._score_table()).ravel()
        first, further = (self._gap_factor(cost) for cost in (self.gap_open, self.gap_extend))
        out = np.empty((left.size, right.size))
        alignments(select_isa(), strings, left, right, factors, first, further, out)
        return out

    def _gap_factor(self, cost: float) -> float:
        factor = exp(-self.beta * cost)
        return factor if factor > _LEAST_GAP else 0.0

    @property
    def _letters(self) -> tuple[Hashable, ...] | None:
        """The letters of the substitution matrix; None if scores are those of equal and different letters."""
        return tuple(_PROTEIN) if self.scores == "blosum62" else None if self.alphabet is None else tuple(self.alphabet)

    def _score_table(self) -> FloatArray:
        """Return the scores as a matrix of letters, or as the scores of equal and of different letters."""
        if self.scores == "blosum62":
            return np.array(_BLOSUM62.split(), dtype=np.float64).reshape(len(_PROTEIN), -1)
        table = np.array(self.scores, dtype=np.float64)
        return table if self.alphabet is None else table.reshape(len(self.alphabet), -1)

    def _strings(self, rows: Structured) -> Strings:
        """Return all numbered rows as letters of the alphabet."""
        letters = self._letters
        if letters is None:
            return Strings(rows.letters, rows.starts, len(rows.numbers))
        code_of = {letter: code for code, letter in enumerate(letters)}
        codes = np.array([code_of.get(letter, -1) for letter in rows.numbers], dtype=np.int32)
        numbers = codes[rows.letters] if codes.size else rows.letters
        if (numbers < 0).any():
            self._refuse_letter(rows, int(np.argmin(numbers)), code_of)
        return Strings(numbers, rows.starts, len(letters))

    def _refuse_letter(self, rows: Structured, at: int, code_of: dict[Hashable, int]) -> None:
        row = int(np.searchsorted(rows.starts, at, side="right")) - 1
        letter = list(rows.numbers)[rows.letters[at]]
        remedy = "remove or replace it, or give scores for it: scores=[[...]], alphabet=..."
        if rows.kind == STRINGS and str(letter).upper() in code_of:
            remedy = "convert the rows, as in [row.upper() for row in X]"
        raise ValueError(
            f"{type(self).__name__} has no scores for {letter!r}, which row {row} has at position "
            f"{at - int(rows.starts[row])}: {remedy}"
        )

    def work(self, X: Data) -> float:
        """Return the approximate time per value in nanoseconds."""
        rows = self._rows(X)
        return 20.0 + _STEP_NANOSECONDS * (float(rows.lengths.mean()) if rows.n else 0.0) ** 2


def _scores(scores: Any) -> Any:
    if isinstance(scores, str):
        if scores.lower() != "blosum62":
            raise ValueError(f"scores must be 'blosum62', (equal, different) or a square matrix, got {scores!r}")
        return "blosum62"
    try:
        table = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"scores must be 'blosum62', (equal, different) or a square matrix, got {scores!r}") from error
    if table.size == 0 or not np.isfinite(table).all() or isqrt(table.size) > _MOST_LETTERS:
        raise ValueError(f"scores must be finite numbers, of at most {_MOST_LETTERS} letters, got shape {table.shape}")
    return tuple(table.ravel().tolist())


def _alphabet(alphabet: Any, scores: Any) -> Any:
    """Return the letters of a substitution matrix as a string or tuple, after a check that the scores fit."""
    if alphabet is None:
        if scores != "blosum62" and len(scores) != 2:
            raise ValueError(f"a matrix of scores needs alphabet=, its {isqrt(len(scores))} letters in their order")
        return None
    if scores == "blosum62":
        raise ValueError("alphabet goes with a matrix of scores; 'blosum62' has its own letters")
    if not isinstance(alphabet, Iterable):
        raise TypeError(f"alphabet must be a string or a list of tokens, got {alphabet!r}")
    letters = alphabet if isinstance(alphabet, str) else tuple(alphabet)
    if len(set(letters)) < len(letters) or len(letters) ** 2 != len(scores):
        raise ValueError(
            f"alphabet must have different letters, one for each row of scores, got {len(letters)} for {len(scores)} "
            "scores"
        )
    table = np.array(scores).reshape(len(letters), -1)
    if not np.array_equal(table, table.T):
        i, j = np.argwhere(table != table.T)[0]
        raise ValueError(f"scores must be symmetric, but those of {letters[i]!r} and {letters[j]!r} differ by order")
    return letters
