"""Formulas of the steps before a machine: scalers and similar transformers of scikit-learn, and feature maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray
from mercer.export.formula import Node, apply, choose, columns, concatenate, constant, join, linear
from mercer.export.kernel_formulas import NotExportableError, RowFormulas, rows_of
from mercer.features import GaussianBasis, Nystroem, PolynomialBasis, PolynomialMap, RandomFourier

FEATURE_MAPS = (GaussianBasis, Nystroem, PolynomialBasis, PolynomialMap, RandomFourier)
"""Feature maps that have a formula."""

_STEPS = (
    StandardScaler,
    MinMaxScaler,
    MaxAbsScaler,
    RobustScaler,
    SimpleImputer,
    OneHotEncoder,
    PCA,
    ColumnTransformer,
)


def transformed(step: Any, row: Node) -> Node:
    """Return the columns that a fitted transformer makes of a row.

    Raises
    ------
    NotExportableError
        If the transformer has no formula.
    """
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return row
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            row = transformed(inner, row)
        return row
    check_is_fitted(step)
    match step:
        case StandardScaler():
            return _scaled(row, step.mean_ if step.with_mean else None, step.scale_ if step.with_std else None)
        case RobustScaler():
            centre = step.center_ if step.with_centering else None
            return _scaled(row, centre, step.scale_ if step.with_scaling else None)
        case MaxAbsScaler():
            return _scaled(row, None, step.scale_)
        case MinMaxScaler():
            scaled = row * constant(step.scale_) + constant(step.min_)
            if not step.clip:
                return scaled
            low, high = step.feature_range
            return join("smaller", join("larger", scaled, low), high)
        case GaussianBasis():
            return RowFormulas(row).values(step.kernel_, rows_of(step.kernel_, step.centers_))
        case Nystroem():
            values = RowFormulas(row).values(step.kernel_, rows_of(step.kernel_, step.components_))
            return linear(values, step.normalization_.T)
        case RandomFourier():
            waves = linear(row, step.frequencies_)
            return concatenate([apply("cos", waves), apply("sin", waves)]) * (1.0 / len(step.frequencies_) ** 0.5)
        case PolynomialBasis() | PolynomialMap():
            return _products(step, row)
        case FunctionTransformer(func=None):  # what a ColumnTransformer passes through
            return row
        case SimpleImputer():
            return _imputed(step, row)
        case OneHotEncoder():
            return _indicators(step, row)
        case PCA():
            rotated = linear(row - constant(step.mean_), step.components_)
            spread = np.sqrt(step.explained_variance_)
            spread = np.maximum(spread, np.finfo(spread.dtype).eps)
            return rotated / constant(spread) if step.whiten else rotated
        case ColumnTransformer():
            places = step._transformer_to_input_indices
            return concatenate(
                [
                    transformed(part, columns(row, places[name]))
                    for name, part, _ in step.transformers_
                    if not (isinstance(part, str) and part == "drop") and len(places[name])
                ]
            )
    names = ", ".join(one.__name__ for one in (*_STEPS, *FEATURE_MAPS))
    raise NotExportableError(
        f"{type(step).__name__} has no formula here; the steps before a machine may be {names}. to_onnx also takes "
        "what skl2onnx converts."
    )


def _scaled(row: Node, centre: FloatArray | None, scale: FloatArray | None) -> Node:
    if centre is not None:
        row = row - constant(centre)
    return row if scale is None else row / constant(scale)


def _products(step: Any, row: Node) -> Node:
    """Return the columns of a polynomial feature map: products of columns, times factors."""
    factors = step.column_products()
    ones = concatenate([row, constant(1.0)])
    degree = max((len(one) for one, _ in factors), default=0)
    products: Node = constant(np.array([scale for _, scale in factors]))
    for k in range(degree):
        products = products * columns(ones, [one[k] if k < len(one) else row.width for one, _ in factors])
    rotation = getattr(step, "_rotation", None)
    return products if rotation is None else linear(products, rotation.toarray().T)


def _imputed(step: SimpleImputer, row: Node) -> Node:
    if step.indicator_ is not None or not isinstance(step.missing_values, float) or step.statistics_.dtype.kind != "f":
        raise NotExportableError("SimpleImputer has a formula if missing values are NaN, and without add_indicator.")
    statistics = np.asarray(step.statistics_, dtype=np.float64)
    used = np.arange(row.width) if step.keep_empty_features else np.flatnonzero(~np.isnan(statistics))
    cells, filled = columns(row, used), np.nan_to_num(statistics[used])
    return choose(apply("is_nan", cells), constant(filled), cells)


def _indicators(step: OneHotEncoder, row: Node) -> Node:
    if any(one.dtype.kind not in "biuf" or (one != one).any() for one in step.categories_) or any(
        infrequent is not None for infrequent in getattr(step, "infrequent_categories_", [])
    ):
        raise NotExportableError(
            "OneHotEncoder has a formula for categories that are numbers, without infrequent ones; to_onnx(rows=...) "
            "takes others."
        )
    parts = []
    for place, categories in enumerate(step.categories_):
        levels = np.asarray(categories, dtype=np.float64)
        drop = None if step.drop_idx_ is None else step.drop_idx_[place]
        if drop is not None:
            levels = np.delete(levels, int(drop))
        if levels.size:
            parts.append(join("equals", constant(levels), columns(row, place)))
    return concatenate(parts)
