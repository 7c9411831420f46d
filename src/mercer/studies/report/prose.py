"""What a study found, in sentences: the same ones on the command line and in the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from mercer.data import listing
from mercer.model_selection import Opening
from mercer.studies.boosting import BOOSTING, FEWEST_ROWS, MOST_CELLS
from mercer.studies.candidates import Cell, gamma_of, times_usual
from mercer.studies.examination import Finding, Kind, Weight
from mercer.studies.final_fit import has_learnt
from mercer.studies.judging import Contender
from mercer.studies.models import Model
from mercer.studies.report import arrangement, insight, next_steps, search_prose, weights
from mercer.studies.report.certificates import beyond_rounding as beyond_rounding
from mercer.studies.report.certificates import certainty as certainty
from mercer.studies.report.certificates import listed
from mercer.studies.report.certificates import numbers as numbers
from mercer.studies.report.certificates import support as support
from mercer.studies.report.classification import OfClasses
from mercer.studies.report.numbers import capitalised, ordinal
from mercer.studies.report.numbers import count as count
from mercer.studies.report.numbers import duration as duration
from mercer.studies.report.numbers import interval as interval
from mercer.studies.report.numbers import percent as percent
from mercer.studies.report.numbers import small as small
from mercer.studies.report.phrasing import TaskPhrasing
from mercer.studies.report.regression import OfNumbers
from mercer.studies.result import Study
from mercer.studies.tables import IDENTIFIER, TableChoice

SMALL = 0.02
"""Largest difference that is said to be small: of shares or R², or as a part of a loss."""

VOICES: dict[str, TaskPhrasing] = {"classification": OfClasses(), "regression": OfNumbers()}
"""What there is to say of each task."""


def phrasing_of(study: Study) -> TaskPhrasing:
    """What there is to say of a study's task."""
    return VOICES[study.goal.task]


def worth(study: Study) -> str:
    """Whether a support vector machine was worth it, by paired comparisons on the sealed rows.

    First against the same answer for all, then against the two machines that one would try first.
    """
    phrasing, goal, constant = phrasing_of(study), study.goal, study.baseline
    rivals, usual = study.rivals, phrasing_of(study).same_answer(study)
    useful = [one.name for one in (study.svm, *study.rivals) if study.sign(one, constant) > 0]
    signs = {rival: study.sign(study.svm, rival) for rival in rivals}
    better, worse, equal = ([one for one, sign in signs.items() if sign == wanted] for wanted in (-1, 1, 0))
    if not rivals:
        return (
            "Was a support vector machine worth it? That cannot be told: there was no time for the machines to compare "
            "with."
        )
    if study.sign(study.svm, constant) < 0:
        verdict = f"No: it did worse than {usual}, beyond what chance explains"
    elif not useful:
        verdict = (
            f"That is not shown: neither it nor {' nor '.join(rival.name for rival in rivals)} did better than {usual} "
            f"beyond what chance explains. {_bound(study, constant, usual)}"
        )
    elif study.svm.name not in useful:
        verdict = (
            f"No: {' and '.join(useful)} did better than {usual} beyond what chance explains, and for the support "
            f"vector machine this is not shown. {_bound(study, constant, usual)}"
        )
    elif better:
        verdict = f"No: {' and '.join(one.name for one in better)} did better, beyond what chance explains"
    elif not equal:
        yes = "Yes: it" if rivals[0].name in next_steps.LINEAR_RIVALS else "It"
        verdict = f"{yes} did better than {listed([one.name for one in worse])}, beyond what chance explains"
        if yes == "It":
            verdict += ". Whether it is better than a simple linear machine cannot be told: there was no time for one"
    else:
        names = listed([one.name for one in worse]) if worse else ""
        first = f"It did better than {names}, beyond what chance explains. " if worse else ""
        simpler = "" if equal[0].name == BOOSTING else f", and {equal[0].name} is {_simplicity(study, equal[0])}"
        verdict = f"{first}{_bound(study, equal[0], equal[0].name)}{simpler}"
    compared = {rival.name: study.against(rival) for rival in rivals}
    if study.svm.name not in useful:
        compared = {usual: study.against(constant)} | compared
    return f"Was a support vector machine worth it? {verdict}. ({phrasing.compared(goal, compared)})"


def _simplicity(study: Study, other: Contender) -> str:
    """How simple another machine is, compared with the chosen one."""
    both_linear = study.search.best.choice.is_linear and other.name in next_steps.LINEAR_RIVALS
    return "as simple: both are weighted sums" if both_linear else "the simpler machine"


def _bound(study: Study, other: Contender, name: str) -> str:
    """What is shown of a difference that chance may explain: that it is small, or only how large it may be."""
    difference = study.difference(other)
    shown, limit = partial(phrasing_of(study).difference, study.goal), SMALL
    if study.goal.is_loss:
        limit *= abs(study.goal.main(study.svm.test).value)
    figure, better, worse = study.goal.figure_name, shown(max(0.0, difference.high)), shown(max(0.0, -difference.low))
    if difference.low == difference.high:
        return f"Whether it is better than {name} cannot be told: on every sealed row, both were equally good"
    if difference.high <= limit:
        return f"Its {figure} is better than that of {name} by at most {better}"
    if difference.low >= -limit:
        return f"Its {figure} is worse than that of {name} by at most {worse}; whether it is better cannot be told"
    return (
        f"Whether it is better than {name} cannot be told from these rows: its {figure} may be better by {better} or "
        f"worse by {worse}"
    )


def choice(study: Study) -> str:
    """Which machine was chosen, and why."""
    search, best, shown = study.search, study.search.best, partial(phrasing_of(study).figure, study.goal)
    ties = sum((cell.n_rows, cell.error) == (best.n_rows, best.error) for cell in search.eligible) - 1
    others = [
        f"the best {cell.choice.name} {shown(cell.figure)}"
        + ("" if cell.n_rows == best.n_rows else f" with {cell.n_rows:,} training rows a fold")
        for cell in best_by_family(study)
        if cell.choice.family != best.choice.family
    ]
    value = gamma(study)
    setting = [f"C = {best.C:g}"]
    setting += [] if value is None else [f"gamma = {value:.3g}"]
    if best.choice.given is not None and best.choice.gamma_factor != 1.0:
        setting.append(f"gamma = {times_usual(best.choice.gamma_factor)}")
    setting += [] if best.epsilon is None else [f"epsilon = {best.epsilon:g}"]
    rank = "lowest" if study.goal.is_loss else "highest"
    judged = f"had the {rank} cross-validated {study.goal.figure_name} of {count(len(search.eligible), 'candidate')}"
    if len(search.eligible) == 1:
        judged = f"was the only candidate, with this cross-validated {study.goal.figure_name}"
    first = replace(search, chosen=None).best
    if best is not first:
        judged = f"had this cross-validated {study.goal.figure_name}"
    n_rows = len(study.model.training.rows)
    in_folds = n_rows if search.n_in_folds is None else search.n_in_folds
    part = "the" if in_folds == n_rows else f"{in_folds:,} of the"
    sentence = (
        f"The {best.choice.name} with {listed(setting)} {judged}: {shown(best.figure)} over {study.n_folds} folds of "
        f"{part} {count(n_rows, 'row')} that were not sealed"
    )
    sentence += f" ({', '.join(others)})." if others else "."
    if best is not first and replace(search, chosen=None).linear_as_good is best:
        sentence += (
            f" The best candidate of all was the {first.setting}, with {shown(first.figure)}. By the rule of one "
            "standard error the folds do not tell it from the linear machine, which is taken for this reason: the "
            "table has many columns for its rows."
        )
    if ties == 1:
        sentence += " Another candidate did equally well; the simpler of the two was taken."
    elif ties:
        sentence += f" {ties} others did equally well; the simplest of them all was taken."
    linear = search.linear_as_good
    if linear is not None:
        sentence += (
            f" By the rule of one standard error, the folds do not tell the {linear.setting} from it "
            f"({shown(linear.figure)}). That machine predicts faster, and its weights can be read: --kernel linear "
            "takes it."
        )
    pilot = "" if search.pilot is None else f"On all rows, {search.pilot}."
    by_exact = search_prose.exact_first(search)
    return " ".join(filter(None, [sentence, pilot, weights.sentence(study), search_prose.rounds(search), by_exact]))


def gamma(study: Study) -> float | None:
    """Gamma of the chosen kernel, or None for a kernel without gamma."""
    return gamma_of(study.model.kernel)


def best_by_family(study: Study) -> list[Cell]:
    """The best cell of each kernel, the simplest kernel first."""
    cells, eligible = sorted(study.search.cells, key=lambda cell: cell.choice.simplicity), study.search.eligible
    groups = groupby(cells, key=lambda cell: cell.choice.simplicity)
    return [min(group, key=lambda cell: (cell not in eligible, cell.rank)) for _, group in groups]


def doubts(study: Study) -> list[Finding]:
    """What makes the headline doubtful: it must be read before the headline."""
    return [*study.examination.with_weight(Weight.DOUBT), *arrangement.doubts(study), *_drift(study)]


def _drift(study: Study) -> list[Finding]:
    """A doubt if the machine did worse on the sealed rows than a constant prediction: they are not like the others."""
    goal, constant = study.goal, study.baseline
    if study.sign(study.svm, constant) >= 0:
        return []
    shown = partial(phrasing_of(study).figure, goal)
    value = goal.main(study.svm.test).value
    figure = shown(-value if goal.is_loss else value)
    when = " The relation may have changed with time." if study.arranged.time is not None else ""
    sentence = (
        f"On the sealed rows the support vector machine did worse than {phrasing_of(study).same_answer(study)}, beyond "
        f"what chance explains ({figure}; {shown(study.svm.cv)} in cross-validation). So the sealed rows differ from "
        f"the rows that it learnt from.{when}"
    )
    if not has_learnt(study.model):
        sentence = (
            f"The machine was stopped before it had learnt, at a relative gap of {study.certificate.relative_gap:.2g}, "
            f"and did worse on the sealed rows than {phrasing_of(study).same_answer(study)} ({figure})."
        )
        return [Finding(Kind.ORDER, Weight.DOUBT, (), sentence, "Give it more time, or allow linear machines.")]
    return [Finding(Kind.ORDER, Weight.DOUBT, (), sentence, "Find out what differs before you use the machine.")]


def cautions(study: Study, *, with_remedies: bool = False) -> list[str]:
    """What a careful reader should know before trusting the figures; with the options that change it, if asked."""
    notes = []
    search, column_choice = study.search, study.column_choice
    if column_choice.truth.reading:
        notes.append(capitalised(column_choice.truth.reading))
    if not with_remedies:  # the console has them already, above the progress of the search
        notes += [f"{note.text}." for note in study.model.reading.notes]
    notes += [f"{note if with_remedies else note.text}." for note in column_choice.notes]
    notes += arrangement.grouped_rows(study)
    seen = arrangement.seen_before(study)
    if seen and study.arranged.time is not None:
        notes.append(f"{seen}.")
    elif seen and not study.arranged.equal.by_chance:
        notes.append(f"{seen}, so the figures may be too good; let copies stay together (--copies together).")
    as_many = [one.name for one in study.rivals if one.search_rows == search.best.n_rows]
    rivals = search_prose.rivals(search, as_many)
    notes += [f"Cut short for time or memory: {study.cuts[0]}", *study.cuts[1:]] if study.cuts else []
    notes += filter(None, [search_prose.ended_early(search), search_prose.unfinished(search), rivals, _boosting(study)])
    if search.extended:
        notes.append(
            f"The best candidate lay at the end of the values planned for {' and '.join(search.extended)}, so one more "
            "value was tried there, and none beyond it."
        )
    notes += filter(None, [insight.nearly_all_support(study.model)])
    notes += phrasing_of(study).cautions(study)
    notes += map(str, study.examination.with_weight(Weight.CAUTION))
    if not study.opening.clean:
        notes.append(
            f"There were earlier looks at these rows: {_looks(study.sealed.openings[: study.opening.number - 1])}. "
            "Another seed or split does not make rows new, and a choice that was made after a look makes the next "
            "figures too good. A clean estimate needs rows that were never looked at."
        )
    return notes


def _boosting(study: Study) -> str:
    """Why there is no gradient boosting among the machines; "" if there is, or if the cuts say why."""
    if not study.rivals or any(one.name == BOOSTING for one in study.rivals):
        return ""
    if any(BOOSTING in cut for cut in study.cuts):
        return ""
    return (
        f"Gradient boosting was not compared: it is trained on {FEWEST_ROWS} rows or more, without free text and "
        f"sequences, with at most {MOST_CELLS / 1e6:g} million encoded cells (for more than two classes, times the "
        "number of classes)."
    )


def left_out(column_choice: TableChoice, model: Model) -> dict[str, list[str]]:
    """Columns that are not used, by reason; of pictures there are hundreds."""
    constant = dict.fromkeys(model.encoder.constant_, "one value only in the training rows")
    columns: dict[str, list[str]] = {}
    for column, reason in (column_choice.left_out | constant).items():
        columns.setdefault(reason, []).append(column)
    return columns


def why_left_out(reason: str, columns: list[str]) -> str:
    """A clause about columns that are not used, and the option that changes it if that was a guess."""
    remedy = f"; keep={columns[0]} uses it all the same" if reason.startswith(IDENTIFIER) else ""
    if len(columns) == 1:
        return f"column {columns[0]!r} was left out: {reason}{remedy}"
    return f"{len(columns)} columns were left out ({listing(columns, most=5)}): {reason}{remedy}"


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


def before_the_look(earlier: Sequence[Opening]) -> str:
    """A clause about earlier looks, for the start of a study."""
    return (
        f"this study will be the {ordinal(len(earlier) + 1)} look at these rows, so its figures will be no clean "
        f"estimate; earlier looks: {_looks(earlier)}"
    )


def which_look(study: Study) -> str:
    """Which look at these rows this is, if it is not the first one; a sentence that follows the headline."""
    if study.opening.clean:
        return ""
    return (
        f"This was the {ordinal(study.opening.number)} look at these rows, so the figure is no clean estimate: it is "
        "too good if anything was chosen after an earlier look."
    )


MAX_LOOKS = 4
"""Earlier looks that are listed."""


def _looks(looks: Sequence[Opening]) -> str:
    """Earlier looks, the last ones if there are many."""
    shown = "; ".join(f"{one.time:%Y-%m-%d %H:%M} UTC, {one.purpose}" for one in looks[-MAX_LOOKS:])
    more = len(looks) - MAX_LOOKS
    return shown if more <= 0 else f"{more} before, and {shown}"


def more_rows(study: Study) -> str:
    """Whether more rows would help."""
    phrasing = phrasing_of(study)
    return insight.more_rows(study, partial(phrasing.figure, study.goal), partial(phrasing.difference, study.goal))


def summary(study: Study) -> list[str]:
    """The paragraphs at the top of the report."""
    phrasing = phrasing_of(study)
    return [
        f"{phrasing.headline(study)} {which_look(study)}".strip(),
        *filter(None, [next_steps.against_folds(study, phrasing), next_steps.of_repeats(study, phrasing)]),
        phrasing.comparison(study),
        worth(study),
        choice(study),
        *filter(None, [phrasing.settings(study)]),
        insight.columns_that_matter(study),
        *filter(None, [more_rows(study)]),
        *([certainty(study.model)] if study.is_useful else []),
    ]
