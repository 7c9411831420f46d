"""From decision values of machines for two classes to scores, probabilities and the place of the predicted class."""

from __future__ import annotations

import numpy as np

from mercer.export.formula import (
    Interpolation,
    Node,
    Solution,
    Sorted,
    apply,
    choose,
    columns,
    concatenate,
    constant,
    join,
    largest,
    linear,
    logistic,
    place_of_largest,
    total,
)
from mercer.multiclass import Calibration, Isotonic, Sigmoid, class_pairs
from mercer.multiclass.coupling import SUREST


def score_formula(raw: Node, n_classes: int, scheme: str) -> Node:
    """Return the score of each class, or for two classes one score; see `mercer.multiclass.class_scores`."""
    if n_classes == 2 or scheme != "ovo":
        return raw
    first, second = class_pairs(n_classes).T
    classes = np.arange(n_classes)[:, None]
    is_first, is_second = (classes == first).astype(np.float64), (classes == second).astype(np.float64)
    # The second class of a pair has a vote unless the first has one.
    votes = linear(join("exceeds", raw, 0.0), is_first - is_second) + constant(is_second.sum(axis=1))
    confidence = linear(raw, is_first - is_second)
    return votes + confidence / ((apply("abs", confidence) + 1.0) * 3.0)


def place_formula(scores: Node) -> Node:
    """Return the place of the predicted class; see `mercer.multiclass.winners`."""
    return join("exceeds", scores, 0.0) if scores.width == 1 else place_of_largest(scores)


def likelihood_formula(values: Node, *, joint: bool) -> Node:
    """Return probabilities from log-odds: of one machine, of all classes together, or of each class against the rest.

    In the last case they are divided by their sum.
    """
    if values.width == 1:
        return _two_sides(values)
    # -log(1 + exp(-v)), without overflow
    shares = values if joint else _softplus(values * -1.0) * -1.0
    powers = apply("exp", shares - largest(shares))
    return powers / total(powers)


def _softplus(values: Node) -> Node:
    return join("larger", values, 0.0) + apply("log", apply("exp", apply("abs", values) * -1.0) + 1.0)


def _two_sides(exponent: Node) -> Node:
    return concatenate([logistic(exponent * -1.0), logistic(exponent)])


def calibration_formula(calibration: Calibration, raw: Node) -> Node:
    """Return the probabilities of the classes from decision values; see `Calibration.read`."""
    k, values = calibration.n_classes, raw
    if k > 2 and calibration.scheme != "ovo":
        falling = Sorted(k, raw)
        first, second = columns(falling, 0), columns(falling, 1)
        values = raw - choose(join("exceeds", first, raw), first, second)
    if k == 2:
        one = calibration.maps[0]
        if isinstance(one, Isotonic):
            positive = _positive_sides(calibration, values)
            p = concatenate([positive * -1.0 + 1.0, positive])
        else:
            p = _two_sides(_exponents(calibration, values))
    else:
        positive = _positive_sides(calibration, values)
        p = _coupled(positive, k) if calibration.scheme == "ovo" else _normalised(positive)
    if calibration.free:
        return p
    return made_largest_formula(p, place_formula(score_formula(raw, k, calibration.scheme)))


def _exponents(calibration: Calibration, values: Node) -> Node:
    maps = [one for one in calibration.maps if isinstance(one, Sigmoid)]
    slopes, intercepts = np.array([[one.slope, one.intercept] for one in maps]).T
    exponents = values * constant(slopes) + constant(intercepts)
    if not maps[0].is_bound:
        return exponents
    return choose(join("exceeds", exponents * values, 0.0), exponents, 0.0)


def _positive_sides(calibration: Calibration, values: Node) -> Node:
    """Return the probability of the positive side by each map."""
    if isinstance(calibration.maps[0], Sigmoid):
        return logistic(_exponents(calibration, values))
    return concatenate(
        [
            Interpolation(1, columns(values, number), np.array(one.values), np.array(one.probabilities))
            for number, one in enumerate(calibration.maps)
            if isinstance(one, Isotonic)
        ]
    )


def _coupled(positive: Node, n_classes: int) -> Node:
    """Return the probabilities that agree best with those of the first class of each pair; see `couple`."""
    first, second = class_pairs(n_classes).T
    n_pairs, classes = first.size, np.arange(n_classes)

    def bounded(sides: Node) -> Node:
        return join("smaller", join("larger", sides, SUREST), 1.0 - SUREST)

    one, other = bounded(positive), bounded(positive * -1.0 + 1.0)
    beside = one * other * -1.0 + 1.0
    squares = concatenate([one * one, other * other])
    # The pair (i, j) adds the square of r_ij to class j, and the square of r_ji to class i.
    adds = np.hstack([classes[:, None] == second, classes[:, None] == first]).astype(np.float64)
    diagonal = linear(squares, adds) + 1.0
    places = np.empty((n_classes, n_classes), dtype=np.int64)
    places[first, second] = places[second, first] = np.arange(n_pairs)
    places[classes, classes] = n_pairs + classes
    matrix = columns(concatenate([beside, diagonal]), places.ravel())
    return _normalised(join("larger", Solution(n_classes, matrix), 0.0))


def _normalised(shares: Node) -> Node:
    sums = total(shares)
    is_positive = join("exceeds", sums, 0.0)
    return choose(
        is_positive, shares / choose(is_positive, sums, 1.0), constant(np.full(shares.width, 1.0 / shares.width))
    )


def made_largest_formula(p: Node, place: Node) -> Node:
    """Move the probabilities as little as possible so that the class at `place` leads; see `made_largest`.

    The level of the chosen class and of the largest others is the largest mean of the chosen class with s others. The
    means increase as long as the next of the others is above the mean, and decrease afterwards.
    """
    k = p.width
    is_chosen = join("equals", constant(np.arange(k)), place)
    chosen_share = total(p * is_chosen)
    falling = columns(Sorted(k, choose(is_chosen, -1.0, p)), np.arange(k - 1))
    with_others = (linear(falling, np.tri(k - 1)) + chosen_share) * constant(1.0 / np.arange(2, k + 1))
    level = join("larger", chosen_share, largest(with_others))
    return choose(is_chosen, level, join("smaller", p, level))
