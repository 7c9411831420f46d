"""What classes and wrong predictions count: class weights and costs, from the words of a user to arrays."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer.data import TableError, listing

ClassWeight: TypeAlias = str | Mapping[Any, float]
"""Weights of classes: "balanced", "none", text such as "sick=3,well=1", or a mapping from labels to weights."""

Cost: TypeAlias = str | Mapping[tuple[Any, Any], float]
"""Costs of wrong predictions: text such as "sick:well=5", or a mapping from (true, predicted) labels to costs."""

BALANCED, NONE = "balanced", "none"


def class_weights(asked: ClassWeight, names: Sequence[str], counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the weight of each class.

    Parameters
    ----------
    asked : str or mapping
        "balanced" is n / (K n_k), with n rows, K classes and n_k rows of the class; "none" is 1 for each class. Classes
        that are not named have the weight 1.
    names : sequence of str
        Labels of the classes.
    counts : ndarray of int of shape (K,)
        Number of rows of each class.

    Raises
    ------
    TableError
        If the text cannot be read, a label is unknown or named twice, or a weight is not a positive finite number.
    """
    if asked == NONE:
        return np.ones(len(names))
    if asked == BALANCED:
        return np.asarray(counts.sum() / (len(names) * counts), dtype=np.float64)
    weights = np.ones(len(names))
    for (label,), weight in _entries("class_weight", asked, names, 1):
        if not 0.0 < weight < math.inf:
            raise TableError(
                f"class_weight gives {label!r} the weight {weight:g}, and a weight must be a finite number > 0",
                "drop the rows of a class that is not to count",
            )
        weights[names.index(label)] = weight
    return weights


def cost_matrix(asked: Cost, names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the cost of predicting each class (second axis) for rows of each class (first axis).

    A right prediction costs 0. A wrong one costs 1 unless `asked` says otherwise.

    Raises
    ------
    TableError
        If the text cannot be read, a label is unknown, a pair is named twice or costs something although it is right,
        a cost is negative or not finite, or no wrong prediction of a class costs anything.
    """
    costs = 1.0 - np.eye(len(names))
    for (true, predicted), cost in _entries("cost", asked, names, 2):
        if not 0.0 <= cost < math.inf:
            raise TableError(
                f"cost says {cost:g} for predicting {predicted!r} where {true!r} is true, and a cost must be a finite "
                "number >= 0"
            )
        if true == predicted and cost > 0.0:
            raise TableError(f"cost says {cost:g} for predicting {true!r} where it is true: a right prediction costs 0")
        costs[names.index(true), names.index(predicted)] = cost
    if not costs.any():
        raise TableError("cost says that no wrong prediction costs anything, so every prediction would be as good")
    return costs


def weights_by_cost(costs: npt.NDArray[np.float64], counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the class weights that go with costs: in proportion to what wrong predictions of the class cost in all.

    The mean weight of a row is 1. A machine that is trained with such weights looks for expensive classes, also if they
    are rare; without them its decision values may tell nothing about such classes. A class whose wrong predictions cost
    nothing has a thousandth of the largest weight.

    References
    ----------
    Ting (2002), An instance-weighting method to induce cost-sensitive trees, IEEE TKDE 14.
    """
    totals = costs.sum(axis=1)
    totals = np.maximum(totals, 1e-3 * totals.max())
    return np.asarray(totals * (counts.sum() / (counts @ totals)), dtype=np.float64)


def costs_of_file(path: str | Path) -> dict[tuple[str, str], float]:
    """Return the costs in a CSV file, by true and predicted label.

    The first line has the predicted labels, after a cell that is not read. Each further line has a true label and the
    costs of predicting each label for it. Empty cells are left out.

    Raises
    ------
    TableError
        If a line has another number of cells than the first one, or a cell is not a number.
    OSError
        If the file cannot be read.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = [(number, [cell.strip() for cell in line]) for number, line in enumerate(csv.reader(file), 1) if line]
    (_, (_, *predicted)), *rows = lines or [(1, [""])]
    costs = {}
    for number, (true, *cells) in rows:
        if len(cells) != len(predicted):
            raise TableError(
                f"{path}: line {number} has {len(cells)} costs, and the first line has {len(predicted)} labels",
                "give a cost for each label, or an empty cell",
            )
        for label, cell in zip(predicted, cells, strict=True):
            if (true, label) in costs:
                raise TableError(f"{path}: line {number} has a second cost of predicting {label!r} for {true!r}")
            if cell:
                costs[true, label] = _number("cost", f"{true}:{label}", cell)
    return costs


def _entries(
    option: str, asked: str | Mapping[Any, float], names: Sequence[str], n_labels: int
) -> list[tuple[tuple[str, ...], float]]:
    """Return the labels and the number of each entry, each set of labels once."""
    if isinstance(asked, str):
        entries = _read(option, asked, names, n_labels)
    else:
        entries = [(_labels(key, n_labels), _number(option, key, value)) for key, value in asked.items()]
    seen = set()
    for labels, _ in entries:
        unknown = [label for label in labels if label not in names]
        if unknown or len(labels) != n_labels:
            raise TableError(f"{option} names {':'.join(labels)!r}, and the classes are {listing(names)}")
        if labels in seen:
            raise TableError(f"{option} names {':'.join(labels)!r} twice", "give one number for it")
        seen.add(labels)
    return entries


def _labels(key: Any, n_labels: int) -> tuple[str, ...]:
    return tuple(map(_text, key)) if n_labels > 1 and isinstance(key, tuple) else (_text(key),)


def _text(label: Any) -> str:
    """Return a label as tables write it: the class 1.0 is called 1."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _number(option: str, key: Any, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TableError(f"{option} says {value!r} for {key!r}, which is not a number") from error


def _read(option: str, text: str, names: Sequence[str], n_labels: int) -> list[tuple[tuple[str, ...], float]]:
    """Return the entries of text such as "sick:well=5,well:sick=1"; labels may hold commas, colons and equal signs."""
    label = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    entry = re.compile(r"\s*" + rf"({label})\s*:\s*" * (n_labels - 1) + rf"({label})\s*=\s*([^\s,]+)\s*(?:,|$)")
    entries, at = [], 0
    while at < len(text):
        match = entry.match(text, at)
        number = _float(match[n_labels + 1]) if match else None
        if match is None or number is None:
            form, example = "TRUE:PREDICTED" if n_labels > 1 else "LABEL", ":".join(names[:n_labels])
            raise TableError(
                f"{option} cannot be read from {text[at:]!r} on: it must be {form}=NUMBER, separated by commas, and "
                f"the classes are {listing(names)}",
                f"write for instance {option}={example}=5",
            )
        entries.append((match.groups()[:n_labels], number))
        at = match.end()
    if not entries:
        raise TableError(f"{option} is empty", "leave it out, or name classes")
    return entries


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
