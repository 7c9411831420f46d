"""What the target looks like: a ceiling or a floor, skewed numbers, small classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer.data import cell_text
from mercer.model_selection import alike_labels
from mercer.studies.examination.finding import Finding, Kind, Weight, option
from mercer.studies.examination.skewness import skewness_on_log_scale
from mercer.studies.tables import Labels, Truth

MIN_AT_LIMIT = 5  # rows
MIN_SHARE_AT_LIMIT = 0.01  # of the rows
NEXT_VALUES = 5  # different values beside the limit that it is compared with
TIMES_NEXT = 3  # the limit is this many times as frequent as each of them
MIN_VALUES = 8  # different numbers; a scale of fewer steps has ends in any case

MANY_ZEROS = 0.2
"""Share of targets that are 0 from which no logarithm makes them even."""

UNEVEN = 0.8
"""Share of the rows; if one class has as much, accuracy says little about the others."""

SMALL_CLASS = 20
"""Rows; a class with fewer has about five sealed rows or fewer, by which its recall cannot be judged."""


def examine_target(truth: Truth) -> list[Finding]:
    """Return what there is to say about the classes or numbers of a target."""
    if isinstance(truth, Labels):
        return [*_alike_classes(truth), *_small_classes(truth), *_uneven_classes(truth)]
    return [*_limits(truth.target, truth.values), *_skewed(truth.target, truth.values)]


def _alike_classes(truth: Labels) -> list[Finding]:
    alike, counts = alike_labels(truth.names), dict(zip(truth.names, truth.counts.tolist(), strict=True))
    if not alike:
        return []
    sets = [", ".join(f"{name!r} ({counts[name]:,})" for name in names) for names in alike]
    more = f"; and {len(sets) - 4} more such sets" if len(sets) > 4 else ""
    return [
        Finding(
            Kind.ALIKE_CLASSES,
            Weight.DOUBT,
            (truth.target,),
            f"Classes of {truth.target!r} differ only in case or spaces (rows in brackets): "
            f"{'; '.join(sets[:4])}{more}. They are learnt and judged as different classes.",
            f"If they mean the same, {option('--merge', truth.target)} makes one class of them.",
            {"classes": sum(map(len, alike)), "rows": sum(counts[name] for names in alike for name in names)},
        )
    ]


def _small_classes(truth: Labels) -> list[Finding]:
    small = [(name, int(count)) for name, count in zip(truth.names, truth.counts, strict=True) if count < SMALL_CLASS]
    if not small:
        return []
    named = ", ".join(f"{name!r} ({count})" for name, count in small[:8])
    more = f" and {len(small) - 8} more classes" if len(small) > 8 else ""
    number = "; if these are no names but a quantity, say --task regression" if truth.reading else ""
    have = "Class {} has" if len(small) == 1 else "Classes {} have"
    return [
        Finding(
            Kind.SMALL_CLASS,
            Weight.CAUTION,
            (),
            f"{have.format(named + more)} fewer than {SMALL_CLASS} rows (in brackets), too few to learn from or to "
            "judge by.",
            f"Merge rare classes, leave them out, or get more rows of them{number}.",
            {"classes": len(small), "rows": min(count for _, count in small)},
        )
    ]


def _uneven_classes(truth: Labels) -> list[Finding]:
    largest, n = int(truth.counts.argmax()), int(truth.counts.sum())
    share = float(truth.counts[largest]) / n
    if share < UNEVEN:
        return []
    return [
        Finding(
            Kind.UNEVEN_CLASSES,
            Weight.REMARK,
            (),
            f"{100.0 * share:.1f}% of the rows are of the class {truth.names[largest]!r}, so a machine that predicts "
            "nothing else is right in as many.",
            "Find the other rows with --class-weight balanced or --scoring balanced_accuracy, or say with --cost what "
            "errors cost.",
            {"share": share},
        )
    ]


def _limits(target: str, numbers: npt.NDArray[np.float64]) -> list[Finding]:
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) < MIN_VALUES:
        return []
    n = len(numbers)
    findings = []
    for kind, value, count, beside, beyond in (
        (Kind.CEILING, values[-1], int(counts[-1]), counts[-1 - NEXT_VALUES : -1], "larger"),
        (Kind.FLOOR, values[0], int(counts[0]), counts[1 : 1 + NEXT_VALUES], "smaller"),
    ):
        if count < max(MIN_AT_LIMIT, MIN_SHARE_AT_LIMIT * n, TIMES_NEXT * beside.max()):
            continue
        end = "largest" if kind is Kind.CEILING else "smallest"
        findings.append(
            Finding(
                kind,
                Weight.CAUTION,
                (target,),
                f"{count:,} of {n:,} rows ({100 * count / n:.1f}%) have exactly the {end} target, {cell_text(value)}. "
                f"If {beyond} numbers were cut off there, their errors are not known, and predictions near it are too "
                f"{'low' if kind is Kind.CEILING else 'high'}.",
                "Find out what the number stands for; leave such rows out, or predict first whether a row has it.",
                {"value": float(value), "rows": count, "share": count / n},
            )
        )
    return findings


def _skewed(target: str, numbers: npt.NDArray[np.float64]) -> list[Finding]:
    skewness = skewness_on_log_scale(numbers)
    if skewness is None:
        return []
    plain, on_log = skewness
    n_zeros = int(np.count_nonzero(numbers == 0.0))
    remedy = f"Predict its logarithm: replace {target!r} by log({target}) in the table."
    if n_zeros >= MANY_ZEROS * len(numbers):
        remedy = (
            f"{100 * n_zeros / len(numbers):.0f}% of the targets are 0. Predict first whether a row has 0, and then "
            f"log({target}) of the others."
        )
    elif n_zeros:
        remedy = f"Predict its logarithm: replace {target!r} by log(1 + {target}) in the table, as some targets are 0."
    return [
        Finding(
            Kind.SKEWED,
            Weight.REMARK,
            (target,),
            f"The target is very skewed (skewness {plain:.1f}; {on_log:.1f} on a logarithmic scale): a few large "
            "numbers dominate the squared errors.",
            remedy,
            {"skewness": plain, "skewness_of_logarithm": on_log},
        )
    ]
