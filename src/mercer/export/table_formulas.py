"""Formulas of models of tables: the encoding of the columns, the machine, and what is predicted.

A row has one number for each column that the model uses, in the order of `encoder.rules_`. A category is given by the
number of its level.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from mercer.export.class_formulas import calibration_formula, likelihood_formula, place_formula, score_formula
from mercer.export.formula import (
    Input,
    Node,
    apply,
    choose,
    columns,
    concatenate,
    constant,
    is_not_negative,
    join,
    linear,
    place_of_largest,
)
from mercer.export.kernel_formulas import NotExportableError, RowFormulas, kernel_sum


def is_table_model(model: Any) -> bool:
    """Whether it is a model of a table, with an encoder and a kind of prediction."""
    return hasattr(model, "encoder") and hasattr(model, "prediction_kind")


def table_outputs(model: Any, row: Node | None = None) -> dict[str, Any]:
    """Return the formulas of a model of a table, as the fields of a `MachineFormula`.

    `row` are the columns of its table, where other steps make them; by default they are the input.

    Raises
    ------
    NotExportableError
        If a column or the machine has no formula.
    """
    spec, kind, encoder = model.machine_spec, model.prediction_kind, model.encoder
    if not spec.is_sum:
        raise NotExportableError(
            f"a model of {spec.estimator} is no sum of kernel values and has no formula: export the estimator itself."
        )
    block = encoder.sparse_
    n_columns = len(encoder.rules_) + (0 if block is None else block.n_columns)
    row = Input(n_columns) if row is None else row
    formulas = RowFormulas(_encoded(encoder, row))
    coefficients, biases = model.machines
    raw = kernel_sum(formulas, model.kernel, model.support_vectors, coefficients, biases)
    fields: dict[str, Any] = {
        "title": f"a model of {spec.estimator} with the kernel {model.kernel!r}",
        "n_columns": n_columns,
        "shared": raw,
        "columns": tuple(rule.name for rule in encoder.rules_),
        "levels": {place: rule.levels for place, rule in enumerate(encoder.rules_) if rule.entry == "categorical"},
    }
    match kind.kind:
        case "quantity":
            return fields | {"values": raw * float(kind.scale) + float(kind.centre)}
        case "membership":
            scores = raw if kind.squared_norm is None else raw - formulas.length(model.kernel)
            return fields | {"values": scores, "place": is_not_negative(scores)}
    return fields | _class_outputs(model, raw)


def _class_outputs(model: Any, raw: Node) -> dict[str, Any]:
    kind, spec, probabilities = model.prediction_kind, model.machine_spec, None
    scores = score_formula(raw, len(kind.labels), kind.scheme)
    place = place_formula(scores)
    if model.calibration is not None:
        probabilities = calibration_formula(model.calibration, raw)
    elif model.has_probabilities:
        probabilities = likelihood_formula(raw, joint=getattr(spec, "joint", True))
    if model.costs is not None:
        assert probabilities is not None
        place = place_of_largest(linear(probabilities, -np.asarray(model.costs, dtype=np.float64).T))
    return {"values": scores, "place": place, "probabilities": probabilities, "classes": np.asarray(kind.outcomes)}


def _encoded(encoder: Any, row: Node) -> Node:
    """Return the encoded columns of a row of numbers and of numbers of levels."""
    fills = encoder.missing == "impute"
    numbered = enumerate(encoder.rules_)
    parts = []
    for (entry, has_indicator), group in groupby(numbered, lambda one: (one[1].entry, one[1].indicator)):
        places, rules = zip(*group, strict=True)
        if entry not in ("numeric", "categorical"):
            raise NotExportableError(
                f"the column {rules[0].name!r} holds {'dates' if entry == 'dates' else 'text'}, which has no formula: "
                "columns of numbers and of categories have one. Train again without it, by drop or --drop."
            )
        if entry == "numeric" and not has_indicator:
            parts.append(_numbers(rules, columns(row, places), fills))
            continue
        for place, rule in zip(places, rules, strict=True):
            cell = columns(row, place)
            parts.append(_numbers([rule], cell, fills) if entry == "numeric" else _levels(rule, cell, fills))
            if has_indicator:
                parts.append(apply("is_nan", cell))
    if encoder.sparse_ is not None:
        first, block = len(encoder.rules_), encoder.sparse_
        parts.append(columns(row, np.arange(first, first + block.n_columns)) / constant(block.scale))
    return concatenate(parts)


def _numbers(rules: Sequence[Any], cells: Node, fills: bool) -> Node:
    """Return standardised numbers; a missing one is filled in if the encoder does so."""
    filled, means, scales = np.array([(rule.fill, rule.mean, rule.scale) for rule in rules], dtype=np.float64).T
    if fills:
        cells = choose(apply("is_nan", cells), constant(filled), cells)
    return (cells - constant(means)) / constant(scales)


def _levels(rule: Any, cell: Node, fills: bool) -> Node:
    """Return an indicator for each level; a missing cell counts as the first, unless an indicator says so."""
    if fills:
        cell = choose(apply("is_nan", cell), -1.0 if rule.indicator else 0.0, cell)
    return join("equals", constant(np.arange(len(rule.levels))), cell)
