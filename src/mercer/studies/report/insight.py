"""What the machine goes by, in sentences, tables and pictures: columns, rows, and whether more rows would help."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data import listing
from mercer.specs import QuadraticSpec
from mercer.studies.insight import Importance, RowCard, WrongRow
from mercer.studies.models import Model
from mercer.studies.report.numbers import percent, quantity
from mercer.studies.result import Study
from mercer.studies.tables import Classes, Labels, Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mercer.studies.insight import Dependence

MANY_SUPPORT_VECTORS = 0.9
"""Share of the training rows from which it needs an explanation that they are support vectors."""

MINUS = "\N{MINUS SIGN}"

MAX_SETS = 20
"""Columns, the most important first, among which sets that were shuffled together are named."""

MIN_SHARE = 0.001
"""Smallest share of the decision values at which a row is named as influential."""

STANDS_OUT = 3.0
"""Smallest such share, as a multiple of the mean over support vectors."""

MAX_LINES = 4
"""Largest number of classes whose shares are drawn in one picture of dependence."""


def columns_that_matter(study: Study) -> str:
    """Which columns predictions get worse without, and which do not matter."""
    if not study.is_useful:
        return (
            "It is not shown that the machine is better than a constant prediction, so which columns matter cannot be "
            "told."
        )
    columns = study.insight.columns
    if not columns:
        return "There was no time to measure which columns matter."
    shown, small, unknown = (
        [one for one in columns if one.matters],
        [one for one in columns if one.is_small],
        [one for one in columns if not one.matters and not one.is_small],
    )
    said = [_shown(study, shown) if shown else f"For no column is it shown that {_what_rises(study)} rises without it."]
    if small:
        said.append(
            f"Without {_named(small)} it rises by at most {_amount(study, _highest(small))}, so little is lost if "
            f"{'one of them' if len(small) > 1 else 'it'} is left out."
        )
    if unknown:
        verb = "is needed" if len(unknown) == 1 else "are needed"
        said.append(
            f"Whether {_named(unknown)} {verb} cannot be told from so few rows: the rise may be 0, or as much as "
            f"{_amount(study, _highest(unknown))}."
        )
    said += [
        f"{listing(one.columns)} say nearly the same. They were shuffled together, because each stands in for the "
        "others; what one of them adds is not measured."
        for one in columns[:MAX_SETS]
        if len(one.columns) > 1
    ]
    return " ".join(said)


def _shown(study: Study, columns: list[Importance]) -> str:
    first = "; ".join(f"{_quoted(one)} {_increase(study, one)}" for one in columns[:3])
    more = f"; and {len(columns) - 3} more columns" if len(columns) > 3 else ""
    return f"If the cells of a column are shuffled, {_what_rises(study)} on the sealed rows rises: {first}{more}."


def _quoted(one: Importance) -> str:
    return " with ".join(f"“{name}”" for name in one.columns)


def _named(columns: list[Importance]) -> str:
    return listing([one.column for one in columns], most=6)


def _highest(columns: list[Importance]) -> float:
    return max(one.increase.high for one in columns)


def _amount(study: Study, amount: float) -> str:
    """An increase, rounded up."""
    if not np.isfinite(amount):
        return "any amount"
    if _is_of_classes(study):
        return f"{np.ceil(1000 * amount - 1e-6) / 10 + 0.0:.1f} percentage points"
    return f"{np.ceil(1000 * amount - 1e-6) / 1000 + 0.0:.3f}"


def _what_rises(study: Study) -> str:
    return "the error rate" if _is_of_classes(study) else "the share of the variance that is not explained"


def _increase(study: Study, one: Importance) -> str:
    increase = one.increase
    if _is_of_classes(study):
        return (
            f"by {100 * increase.value:.1f} percentage points ({100 * increase.low:.1f} to {100 * increase.high:.1f})"
        )
    return f"by {increase.value:.3f} ({increase.low:.3f} to {increase.high:.3f})"


def more_rows(study: Study, figure: Callable[[float], str], difference: Callable[[float], str]) -> str:
    """Whether more rows would help, by the learning curve; "" if the machine is not useful: its curve is noise."""
    curve = study.insight.curve
    if not study.is_useful:
        return ""
    if len(curve.rows) < 2:
        return "There was no time, or there were too few rows, for a learning curve."
    before, now = map(figure, curve.figures[-2:])
    fewer, all_rows = curve.rows[-2:]
    change = f"from {before} with {fewer:,} training rows to {now} with {all_rows:,}"
    name = f"the cross-validated {study.goal.figure_name}"
    if curve.rises:
        return f"More rows would probably help: {name} still improved, {change}, by more than the folds differ."
    if curve.is_flat and curve.gain is not None:
        return (
            f"More rows of this kind would probably help little: {name} went {change}. As far as the folds differ, the "
            f"last doubling of the rows improved it by at most {difference(max(0.0, curve.gain.high))}."
        )
    spread = "the folds differ too much"
    if curve.gain is not None and np.isfinite(curve.gain.high):
        low, high = difference(curve.gain.low), difference(curve.gain.high)
        spread = f"as far as the folds differ, the gain may be anything from {low} to {high}"
        if low == high:
            spread = "the folds do not differ, so they do not show how far chance goes"
    return f"Whether more rows would help cannot be told: {name} went {change}, and {spread}."


def nearly_all_support(model: Model) -> str:
    """What it means that nearly all rows are support vectors, and what to do; "" if they are not."""
    n, n_rows = len(model.support_rows), model.training.n_rows
    if n < MANY_SUPPORT_VECTORS * n_rows or not isinstance(model.machine_spec, QuadraticSpec):
        return ""
    if model.kernel.named_columns:
        return (
            f"Nearly every training row is a support vector ({n:,} of {n_rows:,}). This happens if the target is "
            "mostly noise, or if the kernel finds little that two rows share, as with long words. Shorter words, or a "
            "kernel that allows mismatches, may say more (--kernel)."
        )
    return (
        f"Nearly every training row is a support vector ({n:,} of {n_rows:,}). This happens if many columns say "
        "nothing about the target, if the target is mostly noise, or if there are few rows for so many columns. Look "
        "for columns that say more, and leave out those that are shown not to be needed (--drop COLUMN)."
    )


def pictures(study: Study) -> dict[str, tuple[Figure, str]]:
    """Importance of columns, dependence on the first ones, and the learning curve, as far as there are any."""
    from mercer import plot

    insight, figures = study.insight, {}
    if len(insight.columns) > 1:
        label = (
            "increase of the error rate" if _is_of_classes(study) else "increase of the unexplained share of variance"
        )
        figures["importance"] = (
            plot.ImportanceDisplay(
                [one.column for one in insight.columns], [one.increase for one in insight.columns], label
            ).to_figure(),
            columns_that_matter(study),
        )
    for number, one in enumerate(insight.dependences):
        means, label, names = _lines(study, one)
        figures[f"dependence-{number}"] = (
            plot.DependenceDisplay(one.cells, means, one.column, label, names).to_figure(),
            f"Mean prediction by the cell of “{one.column}”, from {means.min():.3g} to {means.max():.3g}.",
        )
    if len(insight.curve.rows) > 1:
        figures["learning"] = (
            plot.LearningCurveDisplay(
                insight.curve.rows,
                [_as_read(study, one) for one in insight.curve.figures],
                study.goal.figure_name,
                [[_as_read(study, one) for one in folds] for folds in insight.curve.of_folds],
            ).to_figure(),
            "Cross-validated figure of merit by the number of training rows, and that of each fold.",
        )
    return figures


def _as_read(study: Study, figure: float) -> float:
    """A figure of merit without the sign of a loss."""
    return -figure if study.goal.is_loss else figure


def _lines(study: Study, one: Dependence) -> tuple[np.ndarray, str, list[str]]:
    """What is drawn for a column: numbers in the target's unit, the decision value, or votes for the first classes."""
    kind = study.model.prediction_kind
    if isinstance(kind, Quantity):
        return kind.in_unit(one.means), f"mean predicted {study.target}", []
    assert isinstance(kind, Classes)
    if len(kind.names) == 2:
        return one.means, f"mean decision value for “{kind.names[1]}”", []
    scores = kind.scores(one.means, lambda: np.zeros(len(one.means)))
    chosen = np.argsort(-np.ptp(scores, axis=0), kind="stable")[:MAX_LINES]
    return scores[:, chosen], "score of the mean", [kind.names[number] for number in chosen]


def truth_of(study: Study, row: int) -> str:
    """The target of a row of the table, as text."""
    choice = study.column_choice
    return _target_text(study, choice.truth.values[int(np.searchsorted(choice.rows, row))])


def _target_text(study: Study, value: Any) -> str:
    truth = study.column_choice.truth
    return truth.names[int(value)] if isinstance(truth, Labels) else quantity(float(value))


def card_of(study: Study, row: int) -> RowCard:
    """What names a row of the table."""
    return study.insight.cards.get(row, RowCard(row, None, (), (), ()))


def signed(amount: float) -> str:
    """A contribution with its sign."""
    return f"{'+' if amount >= 0.0 else MINUS}{quantity(abs(amount))}"


def has_lines(study: Study) -> bool:
    """Whether it is known in which line of the file a row is."""
    return any(card.line is not None for card in study.insight.cards.values())


def contributions(study: Study, *, of_learnt: bool = False) -> str:
    """What the contributions of columns are, in some sentences; "" if no contribution is known.

    `of_learnt` is True for rows that the final machine has learnt from.
    """
    if not any(card.reasons for card in study.insight.cards.values()):
        return ""
    exact = (
        "those of all columns add up to it"
        if study.model.machine_spec.is_linear
        else "the machine also has interactions between columns"
    )
    return (
        f"Contributions: by how much a cell raises {_what_is_explained(study)}, compared with the cells of other rows "
        f"(the largest ones of the most important columns; {exact}). They are those of the final machine, which has "
        + (
            "learnt from these rows, too. So they explain its own prediction, which is usually closer to the target "
            "than that of the machine that had not."
            if of_learnt
            else "learnt from the rows that are not sealed."
        )
    )


def _what_is_explained(study: Study) -> str:
    kind = study.model.prediction_kind
    if not isinstance(kind, Classes):
        return f"the prediction of {study.target}"
    if len(kind.names) == 2:
        return f"the decision value for “{kind.names[1]}”"
    return "the score of the predicted class"


def wrong_rows(study: Study) -> list[tuple[RowCard, str, str, str]]:
    """Row, truth, prediction and nearest support vectors of the sealed rows that are farthest off."""

    def nearest(one: WrongRow) -> str:
        return ", ".join(f"{row + 1} ({truth_of(study, row)})" for row in one.nearest)

    return [
        (card_of(study, one.row), _target_text(study, one.truth), _target_text(study, one.predicted), nearest(one))
        for one in study.insight.wrong
    ]


def suspicious_rows(study: Study) -> list[tuple[RowCard, str, str]]:
    """Row, target, and how far off the prediction was, of rows whose target may be mistaken."""
    unit = (lambda amount: f"margin −{amount:.2f}") if _is_of_classes(study) else quantity
    return [(card_of(study, one.row), truth_of(study, one.row), unit(one.amount)) for one in study.insight.suspicious]


def influential_rows(study: Study) -> list[tuple[RowCard, str, str]]:
    """Row, target and share of the decision values of the most influential support vectors."""
    usual = STANDS_OUT / max(1, len(study.model.support_rows))
    return [
        (card_of(study, one.row), truth_of(study, one.row), percent(one.amount))
        for one in study.insight.influential
        if one.amount >= max(MIN_SHARE, usual)
    ]


def no_influential_row(study: Study) -> str:
    """That no row stands out, with the largest share of the decision values; "" if the machine keeps no rows."""
    if not study.insight.influential:
        return ""
    largest = study.insight.influential[0].amount
    shown = percent(largest) if largest >= MIN_SHARE else f"below {percent(MIN_SHARE)}"
    return f"No training row stands out: the largest part that one has in the decision values is {shown}."


def _is_of_classes(study: Study) -> bool:
    return study.goal.task == "classification"
