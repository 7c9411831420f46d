"""Display of losses, as functions of the margin or of the residual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer._typing import FloatArray
from mercer.model_selection.metrics import margin_losses
from mercer.plot.display import Display, Layout
from mercer.plot.style import FAINT, SERIES, STYLES
from mercer.problems.losses import EpsilonInsensitive, LinearLoss, SquaredEpsilonInsensitive, SquaredHinge

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LossDisplay(Display):
    """What a row costs by its margin m = y f(x), or by its residual r = y - f(x).

    Parameters
    ----------
    x : ndarray of shape (m,)
        Margins or residuals.
    losses : mapping of str to ndarray of shape (m,)
        Loss by name.
    name : str
        Of the axis.

    Attributes
    ----------
    lines_ : list of Line2D
    ax_, figure_ : Axes, Figure

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, figures 10.4 and 12.4.

    Examples
    --------
    >>> from mercer.plot import LossDisplay
    >>> list(LossDisplay.of_margins().losses)
    ['0/1', 'hinge', 'squared hinge', 'squared', 'cross-entropy']
    >>> list(LossDisplay.of_residuals(epsilon=0.5).losses)
    ['epsilon-insensitive', 'its square', 'squared']
    """

    def __init__(self, x: FloatArray, losses: Mapping[str, FloatArray], name: str) -> None:
        self.x, self.losses, self.name = x, dict(losses), name

    @classmethod
    def of_margins(cls, *, low: float = -2.0, high: float = 3.0, ax: Any = None) -> Self:
        """Draw the losses of classification: those of :func:`mercer.model_selection.margin_losses`, and its square."""
        m = np.linspace(low, high, 501)
        zero_one, hinge, squared, entropy = np.array([margin_losses([one]) for one in m]).T
        losses = {"0/1": zero_one, "hinge": hinge, "squared hinge": _values(SquaredHinge(), m)}
        return cls(m, losses | {"squared": squared, "cross-entropy": entropy}, "margin y f(x)").plot(ax)

    @classmethod
    def of_residuals(cls, *, epsilon: float = 0.5, low: float = -2.0, high: float = 2.0, ax: Any = None) -> Self:
        """Draw the losses of regression with a tube of half-width epsilon."""
        r = np.linspace(low, high, 501)
        losses = {
            "epsilon-insensitive": _values(EpsilonInsensitive(epsilon), r, target=0.0),
            "its square": _values(SquaredEpsilonInsensitive(epsilon), r, target=0.0),
            "squared": _values(SquaredEpsilonInsensitive(0.0), r, target=0.0),
        }
        return cls(r, losses, "residual y − f(x)").plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(6.2, 3.4)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        ax.axvline(0.0, color=FAINT, linewidth=1)
        self.lines_ = [
            ax.plot(self.x, values, color=color, linestyle=style, linewidth=1.8, label=name)[0]
            for (name, values), color, style in zip(self.losses.items(), SERIES, STYLES * 2, strict=False)
        ]
        ax.set(xlabel=self.name, ylabel="loss of a row", xlim=(self.x[0], self.x[-1]), ylim=(-0.1, 3.6))
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _values(loss: LinearLoss, z: FloatArray, target: float = 1.0) -> FloatArray:
    """Return the loss of each decision value, for a row with the given target and charge 1."""
    y, charge = np.array([target]), np.ones(1)
    return np.array([loss.total(one, y, charge) for one in z[:, None]])
