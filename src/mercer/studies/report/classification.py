"""What a report says of classes: accuracy, the classes that are mixed up, margins."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.model_selection import ClassMetrics, Evaluation, margin_losses
from mercer.multiclass import ThresholdCurve
from mercer.studies.classification import ToClassify
from mercer.studies.goal import Goal
from mercer.studies.judging import Contender
from mercer.studies.report.certificates import listed
from mercer.studies.report.decisions import by_costs, thresholds_of
from mercer.studies.report.numbers import capitalised, count, interval, p_value, percent, rounded
from mercer.studies.report.phrasing import TaskPhrasing, differences
from mercer.studies.result import Study
from mercer.studies.scores import AreaUnderRoc, Score, WeightedAccuracy
from mercer.studies.tables import Classes, Labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ON_THE_MARGIN = 1e-3
"""Rows whose margin is 1 but for as much are on its edge, not inside: a solver puts them there to its tolerance."""

LOST_BY = 0.05
"""By how much a rival's balanced accuracy or area under ROC must be larger to be named in the headline."""

MAX_MISSED = 5
"""Classes that are named in the headline because they are never predicted."""


def _has_column(goal: Goal) -> bool:
    """Whether the score that settings were chosen by is neither the accuracy nor the area under the ROC curve."""
    return not score_of(goal).is_plain and not isinstance(score_of(goal), AreaUnderRoc)


class OfClasses(TaskPhrasing):
    """What a report says of classes."""

    template = "classes.html.j2"

    def figure(self, goal: Goal, value: float) -> str:
        """A percentage, or an area or a loss with three decimals."""
        return self._value(goal, -value if goal.is_loss else value)

    def short_figure(self, goal: Goal, value: float) -> str:
        """The same, a percentage without its sign."""
        return self.figure(goal, value).removesuffix("%")

    def difference(self, goal: Goal, value: float) -> str:
        """Percentage points, or an area or a loss with three decimals."""
        return f"{100 * value:z.1f} percentage points" if score_of(goal).is_share else rounded(value)

    def score(self, goal: Goal, one: Contender) -> str:
        """The score on the sealed rows that settings were chosen by."""
        return self._value(goal, goal.main(one.test).value)

    def score_interval(self, goal: Goal, one: Contender) -> str:
        """The interval of this score."""
        main_score = goal.main(one.test)
        return interval(main_score) if score_of(goal).is_share else interval(main_score, 3)

    def _value(self, goal: Goal, value: float) -> str:
        """The same for a loss that has no sign."""
        return percent(value) if score_of(goal).is_share else rounded(value)

    def headline(self, study: Study) -> str:
        """The main result in one sentence, and what it hides: classes that are not found, and better rivals."""
        test = study.svm.test
        first = (
            f"On {count(len(test.codes), 'row')} that were sealed away before anything was learnt, the support vector "
            f"machine predicted {study.target} correctly in {int(test.right.sum()):,}: {percent(test.accuracy.value)} "
            f"(95% confidence interval {interval(test.accuracy)})."
        )
        return " ".join(filter(None, (first, _by_the_score(study), _never_predicted(study), _lost_by(study))))

    def settings(self, study: Study) -> str:
        """What the rows of each class counted in training, and what wrong predictions cost."""
        goal, sentences = goal_of(study), []
        if not goal.is_unweighted:
            weights = ", ".join(
                f"“{name}” {weight:.3g}" for name, weight in zip(goal.labels, goal.weights.tolist(), strict=True)
            )
            sentences.append(
                f"In training, the penalty C of a row was multiplied by the weight of its class: {weights}."
            )
            if goal.implied:
                sentences.append(f"The weights follow from {goal.implied}; --class-weight none trains without.")
        if goal.costs is not None:
            sentences.append(by_costs(goal.labels, goal.costs))
        return " ".join(sentences)

    def comparison(self, study: Study) -> str:
        """How the other machines did on the same rows."""
        goal, is_plain = study.goal, score_of(study.goal).is_plain
        constant = self.score(goal, study.baseline)
        others = [(one.name, self.score(goal, one)) for one in study.rivals]
        if is_plain:
            shown = [f"{name} was right in {score}" for name, score in others[:1]]
            shown += [f"{name} in {score}" for name, score in others[1:]]
            return f"On the same rows {listed([*shown, f'{self.same_answer(study)} would be right in {constant}'])}."
        shown = [f"that of {name} was {score}" for name, score in (*others, (self.same_answer(study), constant))]
        return f"The {goal.figure_name} on the same rows: {listed(shown)}."

    def same_answer(self, study: Study) -> str:
        """Always giving the same answer, in words."""
        return f"always answering “{labels_of(study).names[int(study.baseline.test.predicted[0])]}”"

    def compared(self, goal: Goal, comparisons: dict[str, Any]) -> str:
        """Rows that only one of two got right, or by how much the score is better."""
        if not score_of(goal).is_plain:
            return differences(goal, comparisons)
        counts = "; ".join(
            f"{test.only_first:,} to {test.only_second:,} against {name}, p {p_value(test.p_value)}"
            for name, test in comparisons.items()
        )
        return f"Rows that only one of two got right: {counts}; McNemar’s exact test."

    def cautions(self, study: Study) -> list[str]:
        """What a careful reader should know of these figures."""
        notes, svm, counts, goal = [], study.svm, labels_of(study).counts, goal_of(study)
        width = svm.test.accuracy.high - svm.test.accuracy.low
        if width > 0.1:
            notes.append(
                f"The sealed part is small: its interval is {100 * width:.0f} percentage points wide, so differences "
                "of a few points mean nothing."
            )
        share = counts.max() / counts.sum()
        if share > 0.75:
            notes.append(
                f"{percent(share)} of the rows are of one class, so accuracy looks high for every machine; look at the "
                f"balanced accuracy ({percent(svm.test.balanced)}) and at the recall of the rare classes."
            )
        if goal.is_unweighted and goal.costs is None and (share > 0.75 or _missed(svm.test)):
            notes.append(
                "--class-weight balanced or --scoring balanced_accuracy makes the machine look for rare classes, and "
                "--cost says what errors cost."
            )
        if study.arranged.time is None and svm.train.accuracy.value - svm.test.accuracy.high > 0.02:
            notes.append(
                f"Accuracy on the training rows ({percent(svm.train.accuracy.value)}) is well above that on the sealed "
                "rows: the machine fits its training rows closely."
            )
        return notes

    def headings(self, goal: Goal) -> list[str]:
        """Of the cross-validated score, and of scores on the sealed rows: the one that settings were chosen by too."""
        chosen = [f"{fill(goal.figure_name, 20)}\n95% interval"] if _has_column(goal) else []
        sealed = [*chosen, "accuracy\n95% interval", "area under ROC\n95% interval"]
        return ["cross-\nvalid.", f"sealed rows:\n{sealed[0]}", *sealed[1:]]

    def cells(self, goal: Goal, one: Contender) -> list[str]:
        """Cross-validated score, scores on the sealed rows, and the area under the ROC curve."""
        accuracy, chosen = one.test.accuracy, goal.main(one.test)
        shown = interval(chosen) if score_of(goal).is_share else interval(chosen, 3)
        return [
            self.figure(goal, one.cv),
            *([f"{self._value(goal, chosen.value)}\n{shown}"] if _has_column(goal) else []),
            f"{percent(accuracy.value)}\n{interval(accuracy)}",
            _area(one.test),
        ]

    def details(self, study: Study) -> str:
        """Counts of wrong predictions, or a sentence that says that there are no errors."""
        labels, counts = labels_of(study).names, study.svm.test.confusion
        wrong = [
            (int(counts[i, j]), f"“{labels[i]}” taken for “{labels[j]}” {counts[i, j]:,}")
            for i in range(len(labels))
            for j in range(len(labels))
            if i != j and counts[i, j]
        ]
        if not wrong:
            return "Every sealed row was classified correctly."
        shown = [text for _, text in sorted(wrong, reverse=True)[:6]]
        more = f" and {len(wrong) - 6} more pairs" if len(wrong) > 6 else ""
        return f"Confusion on the sealed rows: {', '.join(shown)}{more}."

    def pictures(self, study: Study) -> dict[str, tuple[Figure, str]]:
        """Confusion matrix, margins, and ROC curves where there are scores."""
        from mercer import plot

        svm, other = study.contenders[:2]
        accuracy = percent(svm.test.accuracy.value)
        figures = {
            "confusion": (
                plot.ConfusionMatrixDisplay(svm.test.confusion, labels_of(study).names).to_figure(),
                f"Confusion matrix on the sealed rows; {accuracy} of them are on the diagonal.",
            ),
            "margins": (
                plot.MarginDisplay({"training": svm.train.margins, "sealed": svm.test.margins}).to_figure(),
                "Histograms of the margins on training and on sealed rows.",
            ),
        }
        if svm.test.curves:
            samples = {
                "sealed": svm.test.curves,
                "training": svm.train.curves,
                f"{other.name} on sealed": other.test.curves,
            }
            figures["roc"] = (
                plot.RocCurveDisplay(samples).to_figure(),
                f"ROC curves; area {svm.test.auc:.3f} on sealed rows and {svm.train.auc:.3f} on training rows.",
            )
        thresholds = thresholds_of(study)
        if thresholds is not None:
            curve = ThresholdCurve.of(thresholds.values, thresholds.positive)
            figures["thresholds"] = (
                plot.ThresholdDisplay(
                    curve, {one.goal: one.unsealed.value for one in thresholds.tuned[:2]}
                ).to_figure(),
                f"Recall, precision and false positive rate of “{thresholds.label}” by the threshold.",
            )
        return figures


def goal_of(study: Study) -> ToClassify:
    """The goal of a study of classes."""
    assert isinstance(study.goal, ToClassify)
    return study.goal


def score_of(goal: Goal) -> Score:
    """What settings were chosen by."""
    assert isinstance(goal, ToClassify)
    return goal.score


def _by_the_score(study: Study) -> str:
    """The score that settings were chosen by, unless it is the accuracy."""
    score = goal_of(study).score
    if score.is_plain:
        return ""
    score_interval = score.interval(study.svm.test)
    value, ends = (
        (percent(score_interval.value), interval(score_interval))
        if score.is_share
        else (rounded(score_interval.value), interval(score_interval, 3))
    )
    return f"Its {score.name}, by which it was chosen, was {value} ({ends})."


def _missed(test: Evaluation) -> list[ClassMetrics]:
    """The classes of sealed rows that are never predicted."""
    return [one for one in test.classes if one.support and not one.predicted]


def _never_predicted(study: Study) -> str:
    """A sentence on the classes that were not predicted for any sealed row although some are of them."""
    missed = _missed(study.svm.test)
    if not missed:
        return ""
    if len(missed) == 1:
        (one,) = missed
        rows = "the one row" if one.support == 1 else f"all {one.support:,} rows"
        return f"It never predicted “{one.label}” and missed {rows} of this class."
    shown = ", ".join(f"“{one.label}”" for one in missed[:MAX_MISSED])
    more = f" and {len(missed) - MAX_MISSED} more" if len(missed) > MAX_MISSED else ""
    return (
        f"It never predicted {len(missed)} of the {len(study.svm.test.classes)} classes ({shown}{more}) and missed all "
        f"{sum(one.support for one in missed):,} rows of them."
    )


def _lost_by(study: Study) -> str:
    """A sentence on each rival that is not better by accuracy, but is by balanced accuracy or area under ROC.

    Rivals that may owe their figure to chance are left out.
    """
    svm, sentences, n_classes = study.svm.test, [], len(labels_of(study).names)
    balanced, area = WeightedAccuracy(np.ones(n_classes), svm.n, is_balanced=True), AreaUnderRoc(svm.n)
    for rival in study.rivals:
        other, figures = rival.test, []
        if other.accuracy.value > svm.accuracy.value:
            continue
        if other.balanced - svm.balanced > LOST_BY and balanced.interval(other).low > 1.0 / n_classes:
            figures.append(f"a higher balanced accuracy ({percent(other.balanced)} against {percent(svm.balanced)})")
        gained = 0.0 if svm.auc is None or other.auc is None else other.auc - svm.auc
        if gained > LOST_BY and area.interval(other).low > 0.5:
            figures.append(f"a larger area under ROC ({other.auc:.3f} against {svm.auc:.3f})")
        if figures:
            sentences.append(f"{capitalised(rival.name)} had no higher accuracy, but {' and '.join(figures)}.")
    return " ".join(sentences)


def labels_of(study: Study) -> Labels:
    """The classes of the rows that were used."""
    assert isinstance(study.column_choice.truth, Labels)
    return study.column_choice.truth


def _area(test: Evaluation) -> str:
    """The area under the ROC curve, and its interval; a mean over classes has no interval."""
    if test.auc is None:
        return ""
    below = "mean over classes,\nwhich has no interval" if test.auc_interval is None else interval(test.auc_interval, 3)
    return f"{test.auc:.3f}\n{below}"


def margins(study: Study) -> str:
    """What the margins are, and how many rows have a small one."""
    below, inside = (
        " and ".join(
            f"{percent(float(np.mean((low <= values) & (values < high))))} of the {name} rows"
            for name, values in (("training", study.svm.train.margins), ("sealed", study.svm.test.margins))
        )
        for low, high in ((-np.inf, 0.0), (0.0, 1.0 - ON_THE_MARGIN))
    )
    if len(study.model.parts) == 1:
        wrong = "is misclassified" if study.model.costs is None else "lies on the wrong side, whatever the costs say"
        return (
            "How far each row lies on the right side of the boundary, in units of the margin’s half-width. Below 0 "
            f"(solid line) a row {wrong}: {below}. From there to 1 (dashed line) it is right, but inside the margin: "
            f"{inside}."
        )
    kind = study.model.prediction_kind
    over, part, together = "the pairs that its class is in", "pair", "the vote of all pairs"
    if isinstance(kind, Classes) and kind.scheme == "ovr":
        over, part = "the machines, each of which tells one class from the rest", "machine"
        together = "the class of the largest decision value"
    return (
        "How far each row lies on the right side of a boundary, in units of the margin’s half-width: the smallest such "
        f"margin over {over}. Below 0 (solid line) at least one {part} decides against the row: {below}. That is no "
        f"count of errors, as {together} may still be right. From there to 1 (dashed line) every {part} is right, but "
        f"the row is inside a margin: {inside}."
    )


def losses(study: Study) -> list[tuple[str, float, float]]:
    """Name of each loss with its mean on training and on sealed rows; none unless there is one machine for two classes.

    With several machines, no machine minimises the smallest margin of a row.
    """
    train, test = study.svm.train, study.svm.test
    if not isinstance(test, Evaluation) or test.margins is None or len(study.model.parts) > 1:
        return []
    pairs = (margin_losses(train.margins), margin_losses(test.margins))
    return list(zip(("0/1", "hinge", "squared", "cross-entropy"), *pairs, strict=True))
