"""What a study found, in sentences: the same ones on the command line and in the report."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import numpy as np

from mercer.certificate import Certificate
from mercer.intake import DATES, Intake
from mercer.metrics import Interval, mcnemar
from mercer.model import Model
from mercer.selection.sealed import Opening
from mercer.selection.search import Cell, gamma_of
from mercer.status import Status
from mercer.study import Contender, Study
from mercer.table import listing

SIGNIFICANT = 0.05
ROUNDING = 1e-12
LARGE_GAP = 0.01
"""Relative duality gap from which it has to be said that the violation is certified to be small, but the gap is not."""

MAX_UNFINISHED = 6
"""Candidates that are named where they ended before the optimum was reached."""

ON_THE_MARGIN = 1e-3
"""Rows whose margin is 1 but for as much are on its edge, not inside: a solver puts them there to its tolerance."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.1f}%"


def interval(value: Interval, decimals: int | None = None) -> str:
    """An interval in brackets, as percentages or with the given number of decimals."""
    if decimals is None:
        return f"{percent(value.low)} to {percent(value.high)}"
    return f"{value.low:.{decimals}f} to {value.high:.{decimals}f}"


def count(number: int, noun: str) -> str:
    """A number of things: 1 row, 2 rows."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def small(value: float) -> str:
    """A number that may be near zero, then in powers of ten."""
    if value == 0 or not 0 < abs(value) < 1e-2:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 0.1:
        return "< 0.1 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def headline(study: Study) -> str:
    """The main result in one sentence."""
    test = study.svm.test
    return (
        f"On {count(len(test.codes), 'row')} that were sealed away before anything was learnt, the support vector "
        f"machine predicted {study.target} correctly in {int(test.right.sum()):,}: {percent(test.accuracy.value)} "
        f"(95% confidence interval {interval(test.accuracy)})."
    )


def comparison(study: Study) -> str:
    """How the other machines did on the same rows."""
    logistic, neighbours, majority = study.contenders[1:]
    usual = study.intake.labels[int(majority.test.predicted[0])]
    return (
        f"On the same rows logistic regression was right in {percent(logistic.test.accuracy.value)}, nearest "
        f"neighbours in {percent(neighbours.test.accuracy.value)}, and always answering “{usual}” would be right in "
        f"{percent(majority.test.accuracy.value)}."
    )


def worth(study: Study) -> str:
    """Whether a support vector machine was worth it, by paired tests: first against always giving the same answer.

    Then against the two machines that one would try first. McNemar's exact test on the sealed rows, at the 5% level.
    """
    rivals, majority = study.contenders[1:3], study.contenders[3]
    usual = f"always answering “{study.intake.labels[int(majority.test.predicted[0])]}”"
    useful = [one.name for one in study.contenders[:3] if _clearly_better(one, majority)]
    tests = {rival.name: study.against(rival) for rival in rivals}
    clear = {name: test for name, test in tests.items() if test.p_value < SIGNIFICANT}
    better = [name for name, test in clear.items() if test.only_second > test.only_first]
    worse = [name for name in clear if name not in better]
    equal = [name for name in tests if name not in clear]
    if not useful:
        verdict = (
            f"No: nothing here did better than {usual} beyond what chance explains, neither it nor "
            f"{' nor '.join(rival.name for rival in rivals)}"
        )
    elif study.svm.name not in useful:
        verdict = f"No: it did not do better than {usual} beyond what chance explains, as {' and '.join(useful)} did"
    elif better:
        verdict = f"No: {' and '.join(better)} did better, beyond what chance explains"
    elif not equal:
        verdict = "Yes: it did better than both, beyond what chance explains"
    elif worse:
        verdict = f"It did better than {worse[0]}, but not clearly better than {equal[0]}, which may serve as well"
    else:
        verdict = (
            "The sealed rows do not show it: neither difference is beyond what chance explains, so the simpler "
            f"{equal[0]} may serve as well"
        )
    if study.svm.name not in useful:
        tests = {usual: study.against(majority)} | tests
    counts = "; ".join(
        f"{test.only_first:,} to {test.only_second:,} against {name}, p {p_value(test.p_value)}"
        for name, test in tests.items()
    )
    return (
        f"Was a support vector machine worth it? {verdict}. (Rows that only one of two got right: {counts}; McNemar’s "
        "exact test.)"
    )


def _clearly_better(one: Contender, other: Contender) -> bool:
    test = mcnemar(one.test.right, other.test.right)
    return test.p_value < SIGNIFICANT and test.only_first > test.only_second


def p_value(p: float) -> str:
    """A p-value with as many digits as it deserves, and its sign."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def choice(study: Study) -> str:
    """Which machine was chosen, and why."""
    found, best = study.search, study.search.best
    ties = sum(sum(cell.n_right) == sum(best.n_right) for cell in found.cells) - 1
    others = [
        f"the best {cell.choice.name} {percent(cell.accuracy)}"
        for cell in best_by_family(study)
        if cell.choice.family != best.choice.family
    ]
    value = gamma(study)
    setting = f"C = {best.C:g}" if value is None else f"C = {best.C:g} and gamma = {value:.3g}"
    sentence = (
        f"The {best.choice.name} with {setting} had the highest cross-validated accuracy of "
        f"{count(len(found.cells), 'candidate')}: {percent(best.accuracy)} over {study.n_folds} folds of the "
        f"{count(best.n, 'row')} that were not sealed"
    )
    sentence += f" ({', '.join(others)})." if others else "."
    if ties == 1:
        sentence += " Another candidate did equally well; the simpler of the two was taken."
    elif ties:
        sentence += f" {ties} others did equally well; the simplest of them all was taken."
    return sentence


def gamma(study: Study) -> float | None:
    """Gamma of the chosen kernel, None if it has none."""
    return gamma_of(study.model.kernel)


def support(model: Model) -> str:
    """How many of the training rows are support vectors, each counted once."""
    n, n_rows = len(model.support_rows), len(model.training.rows)
    of_what, own = "", [len(part.support) for part in model.parts]
    if len(own) > 1:
        of_what = f" of at least one of the {len(own)} machines, which have {_range(own)} each"
    # Of a machine that is not optimal, other rows than the support vectors may be what another fit would need.
    rest = n < n_rows and model.certificate.status is Status.OPTIMAL
    others = "; the others could be deleted without changing the machine" if rest else ""
    return f"{n:,} of {n_rows:,} training rows ({percent(n / n_rows)}) are support vectors{of_what}{others}."


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def margins(study: Study) -> str:
    """What the margins are, and how many rows have a small one."""
    below, inside = (
        " and ".join(
            f"{percent(float(np.mean((low <= values) & (values < high))))} of the {name} rows"
            for name, values in (("training", study.margins_train), ("test", study.margins_test))
        )
        for low, high in ((-np.inf, 0.0), (0.0, 1.0 - ON_THE_MARGIN))
    )
    if len(study.model.parts) == 1:
        return (
            "How far each row lies on the right side of the boundary, in units of the margin’s half-width. Below 0 "
            f"(solid line) a row is misclassified: {below}. From there to 1 (dashed line) it is right, but inside the "
            f"margin: {inside}."
        )
    return (
        "How far each row lies on the right side of a boundary, in units of the margin’s half-width: the smallest such "
        f"margin over the pairs that its class is in. Below 0 (solid line) at least one pair decides against the row: "
        f"{below}. That is no count of errors, as the vote of all pairs may still be right. From there to 1 (dashed "
        f"line) every pair is right, but the row is inside a margin: {inside}."
    )


def best_by_family(study: Study) -> list[Cell]:
    """The best cell of each kernel, the simplest kernel first."""
    cells = sorted(study.search.cells, key=lambda cell: cell.choice.simplicity)
    groups = groupby(cells, key=lambda cell: cell.choice.simplicity)
    return [min(group, key=lambda cell: cell.rank) for _, group in groups]


def certainty(certificate: Certificate) -> str:
    """What a certificate says, and what it does not."""
    gap = abs(certificate.relative_gap)
    if certificate.status is Status.OPTIMAL and gap > LARGE_GAP:
        return (
            "The machine is certified to meet the optimality conditions: no training row breaks them by more than "
            f"{small(certificate.kkt_violation)}, and {small(certificate.tol)} was allowed. That its training "
            f"objective is the lowest is not certified: the relative duality gap is {small(gap)}, so another "
            f"machine with this kernel and this C may have one that is lower by up to {small(100 * gap)} percent. A "
            "smaller C, or the parameter tol_gap of mercer.SVC, makes the gap small as well."
        )
    if certificate.status is Status.OPTIMAL:
        how_much = "at all, to within rounding" if gap < ROUNDING else f"by more than {small(100 * gap)} percent"
        return (
            "The machine is certified optimal: no other machine with this kernel and this C can lower its training "
            f"objective {how_much}."
        )
    advice = _stalled(certificate) if certificate.status is Status.STALLED else certificate.status.advice
    return (
        f"The machine is not certified optimal but ended as “{certificate.status}” (relative duality gap "
        f"{small(beyond_rounding(certificate, certificate.relative_gap))}, violation "
        f"{small(certificate.kkt_violation)}). {advice}"
    )


def _stalled(certificate: Certificate) -> str:
    """Why a fit went no further: what it reached cannot be told from rounding, or rounding lets it reach no more."""
    if certificate.kkt_violation > certificate.tol:
        why = (
            f"Rounding in float64 lets the violation come no further down towards the {small(certificate.tol)} allowed"
        )
    elif certificate.tol_gap is not None and certificate.relative_gap > certificate.tol_gap:
        why = (
            f"The violation is within the {small(certificate.tol)} allowed, but rounding in float64 lets the gap come "
            f"no further down towards the {small(certificate.tol_gap)} allowed"
        )
    else:
        why = (
            f"The violation is within the {small(certificate.tol)} allowed as far as it can be told, but rounding in "
            f"float64 may hide as much as {small(certificate.rounding)}"
        )
    return f"{why}. A larger tolerance asks for less; a lower C, gamma or degree leaves less to rounding."


def beyond_rounding(certificate: Certificate, gap: float) -> float:
    """A gap of the certificate, 0 where it is no more than rounding."""
    rounding = abs(certificate.relative_gap) < ROUNDING
    return 0.0 if rounding else gap


def numbers(model: Model) -> str:
    """The certificate's numbers in a line."""
    certificate = model.certificate
    return (
        f"Certificate: {certificate.status}; duality gap {beyond_rounding(certificate, certificate.gap):.3g} "
        f"(relative {beyond_rounding(certificate, certificate.relative_gap):.3g}), KKT violation "
        f"{certificate.kkt_violation:.3g} (tolerance {certificate.tol:g}); {len(model.support_rows):,} support vectors "
        f"of {len(model.training.rows):,} training rows."
    )


def cautions(study: Study) -> list[str]:
    """What a careful reader should know before trusting the figures."""
    notes = []
    found, svm, intake = study.search, study.svm, study.intake
    if found.stopped:
        why = {"interrupted": "interrupted", "time limit": "ended by its time limit"}[found.stopped]
        notes.append(
            f"The search was {why} after {len(found.cells)} of {count(found.n_planned, 'candidate')}; "
            "a full one may find a better machine."
        )
    unfinished = [cell for cell in found.cells if cell.unfinished]
    if unfinished:
        judged = "was judged as it stood" if len(unfinished) == 1 else "were judged as they stood"
        notes.append(
            f"{count(len(unfinished), 'candidate')} ended before the optimum was reached and {judged}: "
            f"{_unfinished(unfinished)}."
        )
    dates = [name for name, reason in intake.left_out.items() if reason == DATES]
    if dates:
        notes.append(
            f"What the dates in {listing(dates)} may tell was not used; numbers derived from them, such as year or "
            "month, can be."
        )
    if found.extended:
        notes.append(
            f"The best candidate lay at the end of the values planned for {' and '.join(found.extended)}, so one more "
            "value was tried there, and none beyond it."
        )
    width = svm.test.accuracy.high - svm.test.accuracy.low
    if width > 0.1:
        notes.append(
            f"The test part is small: its interval is {100 * width:.0f} percentage points wide, so differences of a "
            "few points mean nothing."
        )
    share = intake.class_counts.max() / intake.class_counts.sum()
    if share > 0.75:
        notes.append(
            f"{percent(share)} of the rows are of one class, so accuracy flatters everybody; look at the balanced "
            f"accuracy ({percent(svm.test.balanced)}) and at the recall of the rare classes."
        )
    if svm.train.accuracy.value - svm.test.accuracy.high > 0.02:
        notes.append(
            f"Accuracy on the training rows ({percent(svm.train.accuracy.value)}) is well above that on the test rows: "
            "the machine fits its training rows closely."
        )
    if not study.opening.clean:
        notes.append("The sealed rows had been looked at before, so the test figures may be too good.")
    return notes


def _unfinished(cells: list[Cell]) -> str:
    """Which candidates did not reach the optimum, and why: how many of their machines, and how these ended."""
    shown = []
    for cell in cells[:MAX_UNFINISHED]:
        kinds = Counter(cell.unfinished).most_common()
        machines = ", ".join(f"{count(number, 'machine')} ended as “{status}”" for status, number in kinds)
        shown.append(f"{cell.place} ({machines})")
    more = len(cells) - MAX_UNFINISHED
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def left_out(intake: Intake, model: Model) -> list[tuple[str, str]]:
    """Columns that are not used, with reasons."""
    constant = dict.fromkeys(model.encoder.constant_, "one value only in the training rows")
    return list((intake.left_out | constant).items())


def looked_at(opening: Opening) -> str:
    """A look at the sealed rows, as a step of the protocol."""
    if opening.clean:
        return (
            f"the sealed rows were opened for the first time ({opening.purpose}). Nothing had been chosen with "
            "knowledge of them."
        )
    return (
        f"the sealed rows were looked at once more, for look number {opening.number} ({opening.purpose}). They had "
        "been seen before, so what came of this look is no clean test."
    )


def summary(study: Study) -> list[str]:
    """The paragraphs at the top of the report."""
    return [headline(study), comparison(study), worth(study), choice(study), certainty(study.certificate)]
