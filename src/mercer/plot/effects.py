"""The effect of one or two parameters on the regions of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from textwrap import fill
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.plot.display import fitted_machine
from mercer.plot.regions import DecisionRegionDisplay
from mercer.plot.style import formula, house_style, require_matplotlib

PANEL = 2.5  # inches
LETTERS = 34  # in a line of a title


def effect(
    estimator: Any, X: Any, y: Any, values: Mapping[str, Sequence[Any]], *, ax: Any = None, **options: Any
) -> np.ndarray:
    r"""Draw the regions of a machine for each value of a parameter, or for each pair of values of two.

    Parameters
    ----------
    estimator : estimator
        A copy is fitted for each panel.
    X, y
        As for :meth:`DecisionRegionDisplay.from_estimator`.
    values : mapping of str to sequence
        One or two parameters of the machine, such as ``{"C": [0.1, 1, 10]}``. In a pipeline ``{"svc__C": [0.1, 1]}``.
        Two parameters make a table of panels, the first one down.
    ax : array of matplotlib Axes, optional
        As many axes as panels; by default those of a new pyplot figure.
    **options
        Of :meth:`DecisionRegionDisplay.from_estimator`.

    Returns
    -------
    ndarray of DecisionRegionDisplay
        Of shape (1, k) for one parameter with k values, of shape (k, l) for two.

    Examples
    --------
    >>> from mercer import SVC
    >>> from mercer.plot import effect
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [4.0, 2.0]], [0, 0, 1, 1]
    >>> displays = effect(SVC(), X, y, {"C": [0.1, 10]})
    >>> [display.ax_.get_title(loc="left") for display in displays.flat]
    ['C = 0.1\n4 support vectors', 'C = 10\n4 support vectors']
    """
    if not 1 <= len(values) <= 2 or not all(len(some) for some in values.values()):
        raise ValueError(f"values must have one or two parameters with one or more values each, got {dict(values)!r}.")
    require_matplotlib()
    shape = tuple(len(some) for some in values.values())
    shape = (1, *shape) if len(shape) == 1 else shape
    with house_style():
        if ax is None:
            from matplotlib import pyplot

            size = (PANEL * shape[1], (PANEL + 0.3) * shape[0])
            _, ax = pyplot.subplots(*shape, figsize=size, layout="compressed", squeeze=False, sharex=True, sharey=True)
        axes = np.asarray(ax, dtype=object).ravel()
        if axes.size != shape[0] * shape[1]:
            raise ValueError(f"ax must hold {shape[0] * shape[1]} axes, one a panel, got {axes.size}.")
        displays = np.empty(axes.size, dtype=object)
        for number, setting in enumerate(product(*values.values())):
            chosen = dict(zip(values, setting, strict=True))
            fitted = clone(estimator).set_params(**chosen).fit(X, y)
            display = DecisionRegionDisplay.from_estimator(fitted, X, y, ax=axes[number], legend=False, **options)
            lines = ", ".join(_text(name, value) for name, value in chosen.items())
            n_support = len(getattr(fitted_machine(fitted), "support_", ()))
            axes[number].set_title(f"{lines}\n{n_support} support vectors" if n_support else lines, fontsize="small")
            if number % shape[1]:
                axes[number].set_ylabel("")
            if number < shape[1] * (shape[0] - 1):
                axes[number].set_xlabel("")
            displays[number] = display
    return displays.reshape(shape)


def _text(name: str, value: Any) -> str:
    """Return a setting as text: the name of the parameter without that of its step; a kernel as its formula."""
    if name.endswith("kernel"):
        return value if isinstance(value, str) else fill(formula(repr(value)), LETTERS)
    shown = f"{value:.4g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    return f"{name.split('__')[-1]} = {shown}"
