"""The machines that `mercer fit` trains, by their names on the command line, and the options that each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import click

_KERNEL = ("kernel", "gamma", "degree", "coef0")
_SOLVED = (*_KERNEL, "tol", "tol_gap", "max_seconds")
_LINEAR = ("C", "loss", "penalty", "bias", "intercept_scaling", "tol", "tol_gap", "max_seconds", "weights")
_CLASSES, _NUMBERS, _NOVELTY = "classification", "regression", "novelty detection"

Setting: TypeAlias = tuple[str, str | None]
"""An option with its value, or with any value if it is None."""


def _named(option: str, *values: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the choices of an option whose values have the same names in Python."""
    return {option: {value: {option: value} for value in values}}


_PAIRS_OR_REST = _named("multi_class", "ovo", "ovr")
_NORMS = _named("penalty", "l1", "l2")
_BIAS: dict[str, dict[str, dict[str, Any]]] = {
    "bias": {"penalised": {}, "free": {"bias": "free"}, "none": {"fit_intercept": False}}
}
_SAME_GAP = (("tol", None), ("tol_gap", None))
_SCALED_BIAS = tuple((("intercept_scaling", None), ("bias", value)) for value in ("free", "none"))


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
    choices : mapping
        For options that name one of several things: the parameters of the estimator for each name.
    clashes : tuple of pairs of Setting
        Settings that do not go together.
    is_streamed : bool
        Whether `mercer fit --linear` can train it.
    renamed : mapping of str to str
        Parameters of the estimator that have other names than their options.
    """

    estimator: str
    task: str
    options: tuple[str, ...]
    choices: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    clashes: tuple[tuple[Setting, Setting], ...] = ()
    is_streamed: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)

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
        params: dict[str, Any] = {}
        names = _PARAMETERS | dict(self.renamed)
        for name in self.options:
            value = options.get(name)
            if value is not None and name not in ("cost", "weights"):
                params |= self.choices[name][value] if name in self.choices else {names.get(name, name): value}
        if options.get("cost") is not None and "probability" in self.options:
            params |= {"probability": True, "calibration": "free"}  # expected costs need the shares of the classes
        return kind(**params, **({"callback": callback} if "callback" in kind().get_params() else {}))

    def takes(self, option: str, value: Any) -> bool:
        """Return whether an option with this value has a meaning for the machine."""
        if option not in self.options:
            return False
        return value in self.choices[option] if option in self.choices else not _is_name(option, value)


MACHINES = {
    "svc": Machine(
        "SVC",
        _CLASSES,
        ("C", "approximation", "class_weight", "cost", "multi_class", "probability", *_SOLVED, "weights"),
        _named("multi_class", "ovo", "ovr", "joint"),
        tuple((("multi_class", "joint"), (option, None)) for option in ("probability", "cost", "approximation")),
    ),
    "nu-svc": Machine(
        "NuSVC",
        _CLASSES,
        ("nu", "class_weight", "cost", "multi_class", "probability", *_SOLVED, "weights"),
        _PAIRS_OR_REST,
    ),
    "ls-svc": Machine("LeastSquaresSVC", _CLASSES, ("C", "class_weight", *_KERNEL, "max_seconds", "weights")),
    "logistic": Machine(
        "KernelLogisticRegression",
        _CLASSES,
        ("prior_variance", "class_weight", "cost", *_KERNEL, "tol", "max_seconds", "weights"),
    ),
    "linear-logistic": Machine(
        "LogisticRegression",
        _CLASSES,
        (
            *("C", "prior_variance", "penalty", "bias", "multi_class", "class_weight", "cost"),
            *("tol", "tol_gap", "max_seconds", "weights"),
        ),
        {
            **_NORMS,
            "bias": {"free": {}, "none": {"fit_intercept": False}},
            "multi_class": {"ovr": {"multi_class": "ovr"}, "joint": {"multi_class": "softmax"}},
        },
        ((("C", None), ("prior_variance", None)),),
        is_streamed=True,
    ),
    "linear-svc": Machine(
        "LinearSVC",
        _CLASSES,
        ("class_weight", "multi_class", *_LINEAR),
        {
            **_NORMS,
            **_BIAS,
            **_named("loss", "hinge", "squared_hinge"),
            "multi_class": {"ovr": {}, "joint": {"multi_class": "crammer_singer"}},
        },
        (
            _SAME_GAP,
            *_SCALED_BIAS,
            *((("multi_class", "joint"), other) for other in (("loss", None), ("penalty", None), ("bias", "free"))),
        ),
        is_streamed=True,
        renamed={"tol": "tol_gap"},
    ),
    "least-squares": Machine("LeastSquaresClassifier", _CLASSES, ("alpha", "class_weight", "weights")),
    "gradient-svc": Machine(
        "GradientKernelSVC",
        _CLASSES,
        ("penalty", "class_weight", "multi_class", *_KERNEL, "tol", "max_seconds", "weights"),
        _PAIRS_OR_REST,
    ),
    "perceptron": Machine(
        "KernelPerceptron",
        _CLASSES,
        ("passes", "class_weight", "multi_class", *_KERNEL, "max_seconds"),
        _PAIRS_OR_REST,
    ),
    "neighbors": Machine("KernelNeighborsClassifier", _CLASSES, ("neighbors", "class_weight", *_KERNEL)),
    "parzen": Machine("ParzenClassifier", _CLASSES, ("class_weight", *_KERNEL, "weights")),
    "rbf-network": Machine("RBFNetworkClassifier", _CLASSES, ("components", "class_weight", "gamma", "weights")),
    "svr": Machine("SVR", _NUMBERS, ("C", "approximation", "epsilon", *_SOLVED, "weights")),
    "linear-svr": Machine(
        "LinearSVR",
        _NUMBERS,
        ("epsilon", *_LINEAR),
        {**_NORMS, **_BIAS, **_named("loss", "epsilon_insensitive", "squared_epsilon_insensitive")},
        (_SAME_GAP, *_SCALED_BIAS),
        is_streamed=True,
        renamed={"tol": "tol_gap"},
    ),
    "nu-svr": Machine("NuSVR", _NUMBERS, ("C", "nu", *_SOLVED, "weights")),
    "quantile": Machine("QuantileSVR", _NUMBERS, ("C", "quantile", *_SOLVED, "weights")),
    "ridge": Machine("KernelRidge", _NUMBERS, ("alpha", *_KERNEL, "max_seconds", "weights")),
    "neighbors-regressor": Machine("KernelNeighborsRegressor", _NUMBERS, ("neighbors", *_KERNEL)),
    "one-class": Machine("OneClassSVM", _NOVELTY, ("approximation", "nu", "contamination", *_SOLVED, "weights")),
    "svdd": Machine("SVDD", _NOVELTY, ("C", *_SOLVED, "weights")),
}

STREAMED = tuple(name for name, one in MACHINES.items() if one.is_streamed)
"""The machines of `mercer fit --linear`."""

IN_PASSES = ("svc", "svr", "one-class")
"""The machines of `mercer fit --memory` without --linear: support vectors in memory, and passes over the file."""

USUAL = {_CLASSES: "svc", _NUMBERS: "svr"}
"""The machine of a task, where none is named."""

USUAL_STREAMED = {_CLASSES: "linear-svc", _NUMBERS: "linear-svr"}
"""The machine of a task with --linear, where none is named."""

_PARAMETERS = {"neighbors": "n_neighbors", "components": "n_components", "passes": "max_passes"}
"""Parameters of estimators whose options are called otherwise."""

_BY_KERNEL = {"gamma": ("poly", "rbf", "sigmoid"), "degree": ("poly",), "coef0": ("poly", "sigmoid")}
"""Options of some kernels only."""


def check_options(name: str, *, named: bool) -> None:
    """Raise UsageError for an option of the command that means nothing for the machine or the kernel.

    Parameters
    ----------
    name : str
        Name of the machine.
    named : bool
        Whether the user named the machine; else it follows from the task, and the message speaks of this.
    """
    context, machine = click.get_current_context(), MACHINES[name]
    for option in dict.fromkeys(option for one in MACHINES.values() for option in one.options):
        value = context.params[option]
        if not is_given(context, option) or machine.takes(option, value):
            continue
        having = [other for other, one in MACHINES.items() if one.takes(option, value)]
        tasks = {MACHINES[other].task for other in having}
        if not named and len(tasks) == 1 and machine.task not in tasks:
            wanted, here = tasks.pop(), machine.task
        else:
            wanted, here = f"--machine {_or(having)}", f"--machine {name}"
        raise click.UsageError(
            f"{_said(context, (option, None), machine)} is for {wanted}, and this is {here}", context
        )
    for one, other in machine.clashes:
        if _holds(context, one) and _holds(context, other):
            said = [_said(context, setting, machine) for setting in (one, other)]
            raise click.UsageError(f"{said[0]} and {said[1]} do not go together: leave one of them out", context)
    if is_given(context, "nu") and is_given(context, "contamination"):
        raise click.UsageError("--contamination takes the place of --nu: give one of them", context)
    kernel = context.params["kernel"]
    for option, kernels in _BY_KERNEL.items():
        if "kernel" in machine.options and kernel not in kernels and is_given(context, option):
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


def is_given(context: click.Context, option: str) -> bool:
    """Return whether the command line names an option."""
    return context.get_parameter_source(option) not in (None, click.core.ParameterSource.DEFAULT)


def _is_name(option: str, value: Any) -> bool:
    """Return whether an option with this value names something that some machine has."""
    return any(value in one.choices.get(option, ()) for one in MACHINES.values())


def _holds(context: click.Context, setting: Setting) -> bool:
    option, value = setting
    return is_given(context, option) and value in (None, context.params[option])


def _said(context: click.Context, setting: Setting, machine: Machine) -> str:
    """Return an option as the user gave it, with its value if that decides."""
    option, value = setting
    if value is None and option in machine.options and not machine.takes(option, context.params[option]):
        value = context.params[option]
    return _flag(option) if value is None else f"{_flag(option)} {value}"


def _or(names: Any) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
