"""The machines that `mercer fit` trains, by their names on the command line, and the options that each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

_KERNEL = ("kernel", "gamma", "degree", "coef0")
_SOLVED = (*_KERNEL, "tol", "tol_gap", "max_seconds")
_CLASSES, _NUMBERS, _NOVELTY = "classification", "regression", "novelty detection"


@dataclass(frozen=True)
class Machine:
    """A machine of the command line.

    Attributes
    ----------
    estimator : str
        Its class in `mercer`.
    task : {"classification", "regression", "novelty detection"}
    options : tuple of str
        Options of `mercer fit` that it has, besides those that all machines have.
    """

    estimator: str
    task: str
    options: tuple[str, ...]

    @property
    def needs_target(self) -> bool:
        """Whether there is a column to predict."""
        return self.task != _NOVELTY

    def made(self, options: Mapping[str, Any], callback: Any) -> Any:
        """Return the estimator with those of the given options that it has; None is its own default.

        Parameters
        ----------
        options : mapping
            Value of each option.
        callback : callable
            Shows progress, if the estimator can call it.
        """
        import mercer

        kind = getattr(mercer, self.estimator)
        given = {name: options[name] for name in self.options if options.get(name) is not None}
        if options.get("cost") is not None and "probability" in self.options:
            given |= {"probability": True, "calibration": "free"}  # expected costs need the shares of the classes
        own = {_PARAMETERS.get(name, name): value for name, value in given.items() if name not in ("cost", "weights")}
        return kind(**own, **({"callback": callback} if "callback" in kind().get_params() else {}))


MACHINES = {
    "svc": Machine("SVC", _CLASSES, ("C", "class_weight", "cost", "multi_class", "probability", *_SOLVED, "weights")),
    "nu-svc": Machine(
        "NuSVC", _CLASSES, ("nu", "class_weight", "cost", "multi_class", "probability", *_SOLVED, "weights")
    ),
    "ls-svc": Machine("LeastSquaresSVC", _CLASSES, ("C", "class_weight", *_KERNEL, "max_seconds", "weights")),
    "logistic": Machine(
        "KernelLogisticRegression",
        _CLASSES,
        ("prior_variance", "class_weight", "cost", *_KERNEL, "tol", "max_seconds", "weights"),
    ),
    "linear-logistic": Machine(
        "LogisticRegression", _CLASSES, ("prior_variance", "class_weight", "cost", "tol", "max_seconds", "weights")
    ),
    "linear-svc": Machine("LinearSVC", _CLASSES, ("C", "class_weight", "tol_gap", "max_seconds", "weights")),
    "least-squares": Machine("LeastSquaresClassifier", _CLASSES, ("alpha", "class_weight", "weights")),
    "gradient-svc": Machine(
        "GradientKernelSVC",
        _CLASSES,
        ("penalty", "class_weight", "multi_class", *_KERNEL, "tol", "max_seconds", "weights"),
    ),
    "perceptron": Machine(
        "KernelPerceptron", _CLASSES, ("passes", "class_weight", "multi_class", *_KERNEL, "max_seconds")
    ),
    "neighbors": Machine("KernelNeighborsClassifier", _CLASSES, ("neighbors", "class_weight", *_KERNEL)),
    "parzen": Machine("ParzenClassifier", _CLASSES, ("class_weight", *_KERNEL, "weights")),
    "rbf-network": Machine("RBFNetworkClassifier", _CLASSES, ("components", "class_weight", "gamma", "weights")),
    "svr": Machine("SVR", _NUMBERS, ("C", "epsilon", *_SOLVED, "weights")),
    "linear-svr": Machine("LinearSVR", _NUMBERS, ("C", "epsilon", "tol_gap", "max_seconds", "weights")),
    "nu-svr": Machine("NuSVR", _NUMBERS, ("C", "nu", *_SOLVED, "weights")),
    "quantile": Machine("QuantileSVR", _NUMBERS, ("C", "quantile", *_SOLVED, "weights")),
    "ridge": Machine("KernelRidge", _NUMBERS, ("alpha", *_KERNEL, "max_seconds", "weights")),
    "one-class": Machine("OneClassSVM", _NOVELTY, ("nu", "contamination", *_SOLVED, "weights")),
    "svdd": Machine("SVDD", _NOVELTY, ("C", *_SOLVED, "weights")),
}

USUAL = {_CLASSES: "svc", _NUMBERS: "svr"}
"""The machine of a task, where none is named."""

_PARAMETERS = {"neighbors": "n_neighbors", "components": "n_components", "passes": "max_passes"}
"""Parameters of estimators whose options are called otherwise."""

_BY_KERNEL = {"gamma": ("poly", "rbf", "sigmoid"), "degree": ("poly",), "coef0": ("poly", "sigmoid")}
"""Options of some kernels only."""

KERNELS = ("linear", "poly", "rbf", "sigmoid")


def check_options(name: str, kernel: str, *, named: bool) -> None:
    """Raise UsageError for an option of the command that means nothing for the machine or the kernel.

    Parameters
    ----------
    name : str
        Name of the machine.
    kernel : str
    named : bool
        Whether the user named the machine; else it follows from the task, and the message speaks of this.
    """
    context, machine = click.get_current_context(), MACHINES[name]
    for option in dict.fromkeys(option for one in MACHINES.values() for option in one.options):
        if option in machine.options or not _is_given(context, option):
            continue
        having = [other for other, one in MACHINES.items() if option in one.options]
        tasks = {MACHINES[other].task for other in having}
        if not named and len(tasks) == 1 and machine.task not in tasks:
            wanted, here = tasks.pop(), machine.task
        else:
            wanted, here = f"--machine {_or(having)}", f"--machine {name}"
        raise click.UsageError(f"{_flag(option)} is for {wanted}, and this is {here}", context)
    if _is_given(context, "nu") and _is_given(context, "contamination"):
        raise click.UsageError("--contamination takes the place of --nu: give one of them", context)
    for option, kernels in _BY_KERNEL.items():
        if "kernel" in machine.options and kernel not in kernels and _is_given(context, option):
            raise click.UsageError(f"--{option} is for --kernel {_or(kernels)}, and this is --kernel {kernel}", context)


def against_rounding(name: str, kernel: str) -> list[str]:
    """Return what can be done with the options of a machine if rounding keeps it from the optimum."""
    options = MACHINES[name].options
    of_kernel = [option for option in ("gamma", "degree") if kernel in _BY_KERNEL[option]]
    smaller = [_flag(option) for option in ("C", "prior_variance", *of_kernel) if option in options]
    larger = [_flag(option) for option in ("alpha", "penalty") if option in options]
    return [
        *(["ask for less with a larger --tol"] if "tol" in options else []),
        *([f"lower {' or '.join(smaller)}"] if smaller else []),
        *([f"raise {' or '.join(larger)}"] if larger else []),
    ]


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _is_given(context: click.Context, option: str) -> bool:
    return context.get_parameter_source(option) not in (None, click.core.ParameterSource.DEFAULT)


def _or(names: Any) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
