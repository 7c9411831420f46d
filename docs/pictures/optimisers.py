"""Draw the pictures of docs/concepts/optimisers.md, from the table ``PICTURES``, which has a row for each picture.

Run it when an optimiser or a row changes: ``python docs/pictures/optimisers.py``. A test fails until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from mercer import KernelPerceptron
from mercer.optimisers import (
    BatchSubgradient,
    CoordinateAscent,
    GeneralQP,
    KernelDualAscent,
    KernelGradientDescent,
    LinearDualAscent,
    LogisticGradientDescent,
    LogisticNewton,
    MeasuredProblem,
    Optimiser,
    OsunaWorkingSets,
    Pegasos,
    Perceptron,
    PlattSMO,
    SecondOrderSMO,
    coefficient_machine,
    compare,
    kernel_svm,
    linear_svm,
    logistic_regression,
    quadratic,
    separation,
)
from mercer.plot import INK, SERIES, DecisionRegionDisplay, PathDisplay, house_style, new_figure

FOLDER = Path(__file__).parent / "optimisers"
SECONDS = 5.0  # limit of each run


def cancer() -> tuple[Any, Any]:
    """Return the columns of the breast cancer table, standardised, and its classes: 569 rows, 30 columns."""
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def apart() -> tuple[Any, Any]:
    """Return 60 rows of two classes in the plane that a line through 0 separates."""
    X = np.random.default_rng(4).normal(size=(400, 2))
    side = X @ np.array([1.0, 0.7])
    chosen = np.flatnonzero(np.abs(side) > 0.25)[:60]
    return X[chosen], side[chosen] > 0.0


class Picture(NamedTuple):
    """A picture: the problem as text, how it is made, its optimisers, and a function that draws it from these."""

    what: str
    make: Callable[[], MeasuredProblem]
    optimisers: Sequence[Optimiser]
    draw: Callable[[MeasuredProblem, Sequence[Optimiser]], Any]

    @property
    def description(self) -> str:
        """What is in the picture. The picture file stores it, so that a test finds outdated pictures."""
        return f"{self.what}: {', '.join(map(repr, self.optimisers))}"


def gaps(problem: MeasuredProblem, optimisers: Sequence[Optimiser]) -> Any:
    """Draw the gaps of the optimisers against seconds, and against kernel values or steps."""
    return compare(problem, optimisers, tol_gap=1e-8, max_seconds=SECONDS).plot().figure_


def path(problem: Any, optimisers: Sequence[Any]) -> Any:
    """Draw the steps of coordinate ascent over the contours of the function."""
    (optimiser,) = optimisers
    return PathDisplay.from_optimiser(optimiser, problem).figure_


def mistakes(problem: Any, optimisers: Sequence[Optimiser]) -> Any:
    """Draw how many rows are wrong after each mistake, and the line that separates the classes in the end."""
    (optimiser,) = optimisers
    run = optimiser.minimise(problem)
    figure, (left, right) = new_figure(8.0, 3.2, 1, 2)
    counts = [(row.n_steps, row.violation) for row in run.trace]
    left.step(*np.array(counts).T, where="post", color=SERIES[0], linewidth=1.5)
    left.set(xlabel="mistakes so far", ylabel="rows with y f(x) ≤ 0")
    machine = KernelPerceptron().fit(problem.table, problem.y)
    DecisionRegionDisplay.from_estimator(machine, problem.table, problem.y, margins=False, ax=right)
    chosen = run.point.alpha > 0.0
    right.plot(*problem.table[chosen].T, "o", color=INK, markersize=8, markerfacecolor="none", label="α > 0")
    right.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    right.set(aspect="equal")
    return figure


PICTURES: dict[str, Picture] = {
    "linear": Picture(
        "linear_svm(*cancer(), C=0.01)",
        lambda: linear_svm(*cancer(), C=0.01),
        [BatchSubgradient(), Pegasos(), Pegasos(averages=False), LinearDualAscent(), GeneralQP()],
        gaps,
    ),
    "without_bias": Picture(
        "kernel_svm(*cancer(), C=10, bias=False)",
        lambda: kernel_svm(*cancer(), C=10.0, bias=False),
        [KernelDualAscent(), OsunaWorkingSets(50), GeneralQP()],
        gaps,
    ),
    "with_bias": Picture(
        "kernel_svm(*cancer(), C=10)",
        lambda: kernel_svm(*cancer(), C=10.0),
        [PlattSMO(), SecondOrderSMO(), OsunaWorkingSets(50), GeneralQP()],
        gaps,
    ),
    "coordinate_ascent": Picture(
        "quadratic([[1, 0.6], [0.6, 1]], [0, 0])",
        lambda: quadratic([[1.0, 0.6], [0.6, 1.0]], [0.0, 0.0]),
        [CoordinateAscent([2.0, -2.0])],
        path,
    ),
    "logistic": Picture(
        "logistic_regression(*cancer())",
        lambda: logistic_regression(*cancer()),
        [LogisticGradientDescent(), LogisticNewton()],
        gaps,
    ),
    "perceptron": Picture("separation(*apart())", lambda: separation(*apart()), [Perceptron("primal")], mistakes),
    "coefficients": Picture(
        "coefficient_machine(*cancer(), penalty=10)",
        lambda: coefficient_machine(*cancer(), penalty=10.0),
        [KernelGradientDescent(), KernelGradientDescent(0.001), KernelGradientDescent(accelerated=True)],
        gaps,
    ),
}


def draw() -> None:
    """Draw every picture."""
    import matplotlib as mpl
    from kernels import save

    FOLDER.mkdir(exist_ok=True)
    with house_style(), mpl.rc_context({"savefig.facecolor": "white", "font.size": 8.0, "axes.titlesize": 8.0}):
        for name, picture in PICTURES.items():
            save(picture.draw(picture.make(), picture.optimisers), FOLDER / f"{name}.png", picture.description)


if __name__ == "__main__":
    draw()
