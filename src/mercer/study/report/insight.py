"""What the machine goes by, in sentences, tables and pictures: columns, rows, and whether more rows would help."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data import listing
from mercer.persistence import Model
from mercer.study.insight import Importance, WrongRow
from mercer.study.protocol import Study
from mercer.study.report.numbers import percent, quantity
from mercer.tables import Classes, Labels, Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mercer.study.insight import Dependence

MANY_SUPPORT_VECTORS = 0.9
"""Share of the training rows from which it needs an explanation that they are support vectors."""

MAX_LINES = 4
"""Largest number of classes whose shares are drawn in one picture of dependence."""


def columns_that_matter(study: Study) -> str:
    """Which columns predictions get worse without, and which do not matter."""
    if not study.is_useful:
        return (
            "The machine did no better than a constant prediction beyond chance, so nothing can be said about which "
            "columns matter."
        )
    columns = study.insight.columns
    if not columns:
        return "There was no time to measure which columns matter."
    matter = [one for one in columns if one.matters]
    if not matter:
        return (
            "No column is needed alone: predictions on the sealed rows do not get worse beyond chance if the cells of "
            "one column are shuffled. Other columns stand in for that one."
        )
    first = "; ".join(f"“{one.column}” {_increase(study, one)}" for one in matter[:3])
    sentence = f"If the cells of a column are shuffled, {_what_rises(study)} on the sealed rows rises: {first}."
    others = [one.column for one in columns if not one.matters]
    if others:
        sentence += (
            f" For {listing(others, most=6)} no rise beyond chance was seen: "
            f"{'each of them' if len(others) > 1 else 'it'} could probably be left out alone."
        )
    return sentence


def _what_rises(study: Study) -> str:
    return "the error rate" if _is_of_classes(study) else "the share of the variance that is not explained"


def _increase(study: Study, one: Importance) -> str:
    found = one.increase
    if _is_of_classes(study):
        return f"by {100 * found.value:.1f} percentage points ({100 * found.low:.1f} to {100 * found.high:.1f})"
    return f"by {found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def more_rows(study: Study, figure: Callable[[float], str]) -> str:
    """Whether more rows would help, by the learning curve; "" if the machine is not useful: its curve is noise."""
    curve = study.insight.curve
    if not study.is_useful:
        return ""
    if len(curve.rows) < 2:
        return "There was no time, or there were too few rows, for a learning curve."
    before, now = map(figure, curve.figures[-2:])
    fewer, all_rows = curve.rows[-2:]
    change = f"from {before} with {fewer:,} training rows to {now} with {all_rows:,}"
    if curve.still_rises:
        return (
            f"More rows would probably help: the cross-validated {study.goal.figure_name} still improved, {change}, by "
            "more than the folds differ."
        )
    return (
        f"More rows of this kind would probably help little: the cross-validated {study.goal.figure_name} went "
        f"{change}, and the folds differ by as much."
    )


def nearly_all_support(model: Model) -> str:
    """What it means that nearly all rows are support vectors, and what to do; "" if they are not."""
    n, n_rows = len(model.support_rows), len(model.training.rows)
    if n < MANY_SUPPORT_VECTORS * n_rows:
        return ""
    return (
        f"Nearly every training row is a support vector ({n:,} of {n_rows:,}), so the machine has found little that "
        "rows have in common. This happens if many columns say nothing about the target, or if the target is mostly "
        "noise. Leave out columns that do not matter (--drop COLUMN), and look for columns that do."
    )


def pictures(study: Study) -> dict[str, tuple[Figure, str]]:
    """Importance of columns, dependence on the first ones, and the learning curve, as far as there are any."""
    from mercer import plot

    insight, found = study.insight, {}
    if len(insight.columns) > 1:
        label = (
            "increase of the error rate" if _is_of_classes(study) else "increase of the unexplained share of variance"
        )
        found["importance"] = (
            plot.column_importance(
                [one.column for one in insight.columns], [one.increase for one in insight.columns], label
            ),
            columns_that_matter(study),
        )
    for number, one in enumerate(insight.dependences):
        means, label, names = _lines(study, one)
        found[f"dependence-{number}"] = (
            plot.dependence(one.cells, means, one.column, label, names),
            f"Mean prediction by the cell of “{one.column}”, from {means.min():.3g} to {means.max():.3g}.",
        )
    if len(insight.curve.rows) > 1:
        found["learning"] = (
            plot.learning_curve(
                insight.curve.rows, [abs(one) for one in insight.curve.figures], study.goal.figure_name
            ),
            "Cross-validated figure of merit by the number of training rows.",
        )
    return found


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


def wrong_rows(study: Study) -> list[tuple[int, str, str, str]]:
    """Row number, truth, prediction and nearest support vectors of the sealed rows that are farthest off."""

    def nearest(one: WrongRow) -> str:
        return ", ".join(f"{row + 1} ({truth_of(study, row)})" for row in one.nearest)

    return [
        (one.row + 1, _target_text(study, one.truth), _target_text(study, one.predicted), nearest(one))
        for one in study.insight.wrong
    ]


def suspicious_rows(study: Study) -> list[tuple[int, str, str]]:
    """Row number, target, and how far off the prediction was, of rows whose target may be mistaken."""
    unit = (lambda amount: f"margin −{amount:.2f}") if _is_of_classes(study) else quantity
    return [(one.row + 1, truth_of(study, one.row), unit(one.amount)) for one in study.insight.suspicious]


def influential_rows(study: Study) -> list[tuple[int, str, str]]:
    """Row number, target and share of the decision values of the most influential support vectors."""
    return [(one.row + 1, truth_of(study, one.row), percent(one.amount)) for one in study.insight.influential]


def _is_of_classes(study: Study) -> bool:
    return study.goal.task == "classification"
