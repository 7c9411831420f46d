"""How far a search in rounds is, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Sequence

from mercer.solvers import CostEstimate
from mercer.studies.candidates import Candidate, growth


class RoundClock:
    """The pieces of work (a candidate in a fold) that are done and planned, and the time that is left for them.

    Attributes
    ----------
    n_rows : int
        Training rows of a fold in this round.
    next_sign : float
        When the next report is due.
    """

    def __init__(self, n_folds: int) -> None:
        self.n_folds, self.n_rows, self.next_sign = n_folds, 0, 0.0
        self._later: dict[int, int] = {}
        self._n_before, self._seconds, self._expected = 0, 0.0, 0.0
        self._estimate = self._new_estimate()

    def _new_estimate(self) -> CostEstimate:
        return CostEstimate(self.n_folds, kind=lambda candidate: candidate.choice.family)

    def next_round(self, n_rows: int, later: dict[int, int]) -> None:
        """Begin a round; `later` has the numbers of candidates of further rounds, by their rows."""
        if self._estimate.n_done:
            self._expected = self._seconds / self._estimate.n_done * growth(self.n_rows, n_rows)
        self._n_before += self._estimate.n_done
        self.n_rows, self._later, self._seconds, self._estimate = n_rows, later, 0.0, self._new_estimate()

    def plan(self, candidates: Sequence[Candidate]) -> None:
        """Add candidates to this round."""
        paths: dict[object, list[Candidate]] = {}
        for one in sorted(candidates, key=lambda candidate: candidate.C):
            paths.setdefault(one.path, []).append(one)
        self._estimate.plan(list(paths.values()))

    def measured(self, candidate: Candidate, seconds: float) -> None:
        """Record the time of a candidate in one fold."""
        self._seconds += seconds
        self._estimate.measured(candidate, seconds)

    @property
    def n_done(self) -> int:
        """Pieces of work that are done."""
        return self._n_before + self._estimate.n_done

    @property
    def n_total(self) -> int:
        """Pieces of work that are done or planned; those of later rounds are an estimate."""
        return self._n_before + self._estimate.n_total + self.n_folds * sum(self._later.values())

    def seconds_left(self, current: Candidate, spent: float) -> float:
        """Estimate the time left; the current candidate has taken `spent` seconds in this fold."""
        estimate = self._estimate
        if estimate.n_done:
            each, left = self._seconds / estimate.n_done, estimate.seconds_left(current, spent)
        else:
            each = max(self._expected, spent)
            left = each * estimate.n_total - spent
        later = sum(count * growth(self.n_rows, size) for size, count in self._later.items())
        return left + self.n_folds * each * later
