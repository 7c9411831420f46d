"""Fitted machines as ONNX models; the packages for it are imported when a model is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def to_onnx(model: Any, *, target_opset: int | None = None, rows: Any = None) -> Any:
    """Return an ONNX model that computes what a fitted machine predicts, in double precision.

    It needs the packages of ``pip install "mercer[onnx]"``.

    Parameters
    ----------
    model : estimator
        A fitted classifier, regressor or novelty detector of mercer with a kernel of rows of numbers, a pipeline that
        ends in one, or a search for one. The other steps of a pipeline may be scalers, feature maps of mercer, and all
        that skl2onnx converts.
    target_opset : int, optional
        Version of ONNX's operators, at least 13; by default 18.
    rows : DataFrame or ndarray, optional
        Some rows like those of the fit. They are needed if a step reads text, or columns of several types: every
        column of a data frame becomes an input of its name and type, by skl2onnx.

    Returns
    -------
    onnx.ModelProto
        Without `rows`, its input is "X", doubles of shape (m, n_features). The outputs of a classifier are "label"
        (m,), "probabilities" (m, n_classes) if it has them, and "scores", its decision function as a table. Those of a
        novelty detector are "label" and "scores", and that of a regressor is "variable" (m, n_targets).

    Raises
    ------
    NotExportableError
        If a kernel or a step has no formula; the message names it, and what has one. It is a `ValueError`.
    NotFittedError
        Before `fit`.
    ModuleNotFoundError
        If onnx or skl2onnx are not installed.
    ValueError
        If `target_opset` is too small.

    Notes
    -----
    The model has plain operations (matrix products, exponentials, ...) of float64, because ONNX's own operators for
    support vector machines compute in single precision. Results equal those of the machine up to the rounding of sums,
    in onnxruntime and in onnx's reference evaluator. Input is not checked: NaN in a column gives NaN or any class.

    ``skl2onnx.to_onnx(pipeline, X)`` gives the same after :func:`mercer.export.register_with_skl2onnx`; the type of
    `X` should be float64.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVR, to_onnx
    >>> model = to_onnx(SVR().fit([[0.0], [1.0]], [0.0, 1.0]))  # doctest: +SKIP
    >>> import onnxruntime  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())  # doctest: +SKIP
    >>> session.run(None, {"X": np.array([[0.5]])})  # doctest: +SKIP
    [array([[0.5]])]
    """
    return _models().onnx_model(model, target_opset, rows)


def register_with_skl2onnx() -> None:
    """Let ``skl2onnx.to_onnx`` convert pipelines with machines and feature maps of mercer.

    It needs the packages of ``pip install "mercer[onnx]"``. A second call has no effect.

    Raises
    ------
    ModuleNotFoundError
        If onnx or skl2onnx are not installed.

    Examples
    --------
    >>> from mercer.export import register_with_skl2onnx
    >>> register_with_skl2onnx()  # doctest: +SKIP
    >>> skl2onnx.to_onnx(pipeline, X)  # doctest: +SKIP
    """
    _models().register()


def _models() -> Any:
    try:
        return import_module("mercer.export.onnx_models")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("mercer"):
            raise
        raise ModuleNotFoundError(
            f'ONNX models need the package {error.name}: pip install "mercer[onnx]"', name=error.name
        ) from error
