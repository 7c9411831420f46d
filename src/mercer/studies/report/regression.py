"""What a report says of numbers: R², how far predictions are off, the tube, and the rows that are off most."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.model_selection import Deviations
from mercer.studies.goal import Goal
from mercer.studies.judging import Contender
from mercer.studies.regression import ToEstimate
from mercer.studies.report.certificates import listed
from mercer.studies.report.numbers import count, interval, percent, quantities, quantity, rounded
from mercer.studies.report.phrasing import TaskPhrasing, differences
from mercer.studies.result import Study
from mercer.studies.tables import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LARGEST = 10
"""Rows that are named because their predictions are off most."""

ON_THE_EDGE = 1e-3
"""Rows beyond the tube by less than this share of the target's spread are on its edge: a solver puts them there."""


def _has_column(goal: Goal) -> bool:
    """Whether the score that settings were chosen by is neither R² nor the mean absolute error."""
    return isinstance(goal, ToEstimate) and goal.scoring == "rmse"


class OfNumbers(TaskPhrasing):
    """What a report says of numbers."""

    template = "numbers.html.j2"

    def figure(self, goal: Goal, value: float) -> str:
        """R² with three decimals, or an error in the target's unit."""
        return quantity(-value) if goal.is_loss else rounded(value)

    def short_figure(self, goal: Goal, value: float) -> str:
        """R² with two decimals; far below 0 it does not matter how far."""
        if goal.is_loss:
            return f"{-value:.3g}"
        return rounded(value, 2) if value > -1.0 else "< −1"

    def difference(self, goal: Goal, value: float) -> str:
        """R² with three decimals, or an error in the target's unit."""
        return quantity(value) if goal.is_loss else rounded(value)

    def headline(self, study: Study) -> str:
        """The main result in two sentences."""
        test = study.svm.test
        r2, mae, _ = test.intervals
        return (
            f"On {count(test.n, 'row')} that were sealed away before anything was learnt, the support vector machine "
            f"predicted {study.target} with R² {rounded(r2.value)} (95% confidence interval {interval(r2, 3)}). Its "
            f"predictions were off by {quantity(mae.value)} on average ({quantities(mae)})."
        )

    def comparison(self, study: Study) -> str:
        """How the other machines did on the same rows."""
        others = [(one.name, rounded(one.test.r2), quantity(one.test.mae)) for one in study.rivals]
        shown = [f"{name} had R² {r2} and was off by {mae} on average" for name, r2, mae in others[:1]]
        shown += [f"{name} had R² {r2} and {mae}" for name, r2, mae in others[1:]]
        shown.append(f"{self.same_answer(study)} would be off by {quantity(study.baseline.test.mae)}")
        return f"On the same rows {listed(shown)}."

    def same_answer(self, study: Study) -> str:
        """Always giving the same answer, in words."""
        return f"always answering {quantity(float(study.baseline.test.predicted[0]))}"

    def compared(self, goal: Goal, comparisons: dict[str, Any]) -> str:
        """By how much its R² is larger, or its error lower."""
        return differences(goal, comparisons)

    def cautions(self, study: Study) -> list[str]:
        """What a careful reader should know of these figures."""
        notes, svm = [], study.svm
        r2 = svm.test.main
        if r2.high - r2.low > 0.2:
            notes.append(
                f"The sealed part is small or uneven: the interval of its R² is {r2.high - r2.low:.2f} wide, so "
                "smaller differences mean nothing."
            )
        if study.arranged.time is None and svm.train.r2 - r2.high > 0.05:
            notes.append(
                f"R² on the training rows ({rounded(svm.train.r2)}) is well above that on the sealed rows: the machine "
                "fits its training rows closely."
            )
        share = _share_of_largest(svm.test)
        if share > 0.5:
            notes.append(
                f"One row in a hundred makes up {percent(share)} of all squared deviations on the sealed rows, so a "
                "few unusual rows decide about R²; the mean absolute error says more of the usual ones."
            )
        return notes

    def headings(self, goal: Goal) -> list[str]:
        """Of the cross-validated score, and of scores on the sealed rows: the one that settings were chosen by too."""
        chosen = [f"{fill(goal.figure_name, 20)}\n95% interval"] if _has_column(goal) else []
        return [
            "cross-\nvalid.",
            "sealed rows:\nR²\n95% interval",
            "mean absolute error\n95% interval",
            *chosen,
        ]

    def cells(self, goal: Goal, one: Contender) -> list[str]:
        """Cross-validated score, R² and errors on the sealed rows."""
        (r2, mae, _), chosen = one.test.intervals, goal.main(one.test)
        return [
            self.figure(goal, one.cv),
            f"{rounded(r2.value)}\n{interval(r2, 3)}",
            f"{quantity(mae.value)}\n{quantities(mae)}",
            *([f"{quantity(chosen.value)}\n{quantities(chosen)}"] if _has_column(goal) else []),
        ]

    def details(self, study: Study) -> str:
        """The tube, and the rows that are off most."""
        shown = "; ".join(
            f"row {row + 1}, {quantity(true)} instead of {quantity(predicted)}"
            for row, true, predicted, _ in largest(study)[:3]
        )
        return f"{in_tube(study)} Farthest off on the sealed rows (true instead of predicted): {shown}."

    def pictures(self, study: Study) -> dict[str, tuple[Figure, str]]:
        """The tube, residuals, and their distribution."""
        from mercer import plot

        svm, epsilon = study.svm, half_width(study)
        display = plot.PredictionErrorDisplay({"sealed": svm.test, "training": svm.train}, epsilon=epsilon)
        return {
            "tube": (
                display.to_figure(),
                f"True against predicted numbers on the sealed rows, and the tube of ±{quantity(epsilon)}.",
            ),
            "residuals": (
                display.to_figure(kind="residual_vs_predicted"),
                "Residuals against predictions on the sealed rows.",
            ),
            "distribution": (
                display.to_figure(kind="residuals"),
                "Histograms of the residuals on training and on sealed rows.",
            ),
        }


def half_width(study: Study) -> float:
    """Epsilon in the target's unit."""
    prediction_kind, epsilon = study.model.prediction_kind, study.search.best.epsilon
    assert isinstance(prediction_kind, Quantity)
    assert epsilon is not None
    return epsilon * prediction_kind.scale


def spread(study: Study) -> float:
    """Standard deviation of the target on the training rows: the unit of C, epsilon and the certificate."""
    assert isinstance(study.model.prediction_kind, Quantity)
    return study.model.prediction_kind.scale


def in_tube(study: Study) -> str:
    """How many rows lie in the tube."""
    epsilon = half_width(study)
    edge = epsilon + ON_THE_EDGE * spread(study)
    inside, sealed = (float(np.mean(np.abs(one.residuals) <= edge)) for one in (study.svm.train, study.svm.test))
    return (
        f"{percent(inside)} of the training rows and {percent(sealed)} of the sealed ones lie in the tube: their "
        f"predictions are off by no more than epsilon, {quantity(epsilon)}, which training does not count; a narrow "
        "tube holds few rows and is no worse for it."
    )


def largest(study: Study) -> list[tuple[int, float, float, float]]:
    """Position in the table, true and predicted number and residual of the sealed rows that are off most."""
    test = study.svm.test
    order = np.argsort(-np.abs(test.residuals), kind="stable")[:MAX_LARGEST]
    return [
        (int(study.test_rows[row]), float(test.truth[row]), float(test.predicted[row]), float(test.residuals[row]))
        for row in order
    ]


def _share_of_largest(test: Deviations) -> float:
    """Share that the largest hundredth of the rows has in the squared deviations; 0 where that is no row."""
    squares = np.sort(test.residuals**2)[::-1]
    total = float(squares.sum())
    return float(squares[: test.n // 100].sum()) / total if total > 0.0 else 0.0
