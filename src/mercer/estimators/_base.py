"""Base classes of estimators: kernel parameters, limits and progress, and reading rows into a Gram matrix."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache, partial
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from mercer.certificates.status import IndefiniteKernelWarning, Status
from mercer.data import Data, Precomputed
from mercer.data.arguments import WHOLE, check_callback, check_number, check_seconds, check_whole
from mercer.data.files import Checkpoint
from mercer.data.files.checkpoint import digest_of, text_of
from mercer.data.user_warnings import warn_user
from mercer.estimators._arrays import result_of_array
from mercer.estimators._callbacks import SupportsCallbacks
from mercer.estimators._card import WithCard
from mercer.estimators._labels import Labels, read_labels
from mercer.estimators._neighbours import FindsNeighbours
from mercer.estimators._validation import (
    check_rows,
    check_square,
)
from mercer.gram import CachePolicy, Gram
from mercer.kernels import Gamma, Kernel, as_kernel
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.kernels.parameters import DISTANCE_RULES, gamma_or_rule, integer, real
from mercer.solvers import Control, Interruption, Limits, Progress


class HoldsKernel:
    """An estimator whose kernel parameters can be set by name: ``kernel__gamma``, ``kernel__left__kernel__gamma``.

    Kernels are immutable: setting a parameter gives the estimator a new kernel. A callable with `set_params`, such as
    a Gaussian process kernel of scikit-learn, is copied before it is changed.
    """

    kernel: Any

    def _takes_values(self) -> bool:
        """Whether X holds kernel values."""
        kernel = self._plain_kernel()
        return kernel is not None and kernel.takes_values

    def _plain_kernel(self) -> Kernel | None:
        """Return the kernel, without the estimator's gamma and the like; None for a function or an unknown name."""
        if isinstance(self.kernel, Kernel):
            return self.kernel
        try:
            return as_kernel(self.kernel) if isinstance(self.kernel, str) else None
        except ValueError:
            return None

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator and of its kernel.

        Parameters
        ----------
        **params : dict
            Names as in `get_params`, with their new values.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        inner: dict[str, dict[str, Any]] = {}
        for path in list(params):
            name, _, rest = path.partition("__")
            current = params.get(name, getattr(self, name, None))
            if rest and (isinstance(current, Kernel) or (name == "kernel" and _has_parameters(current))):
                inner.setdefault(name, {})[rest] = params.pop(path)
            elif rest and name == "kernel":
                raise ValueError(
                    f"kernel={current!r} has no parameters of its own to set {path!r}: give a Kernel object, or a "
                    "function that is an object with get_params and set_params."
                )
        super().set_params(**params)  # type: ignore[misc]
        for name, values in inner.items():
            setattr(self, name, _changed(getattr(self, name), values))
        return self


def _has_parameters(current: Any) -> bool:
    return not isinstance(current, type) and hasattr(current, "get_params") and hasattr(current, "set_params")


def _changed(current: Any, values: dict[str, Any]) -> Any:
    """Return a copy of the kernel with these parameters."""
    if isinstance(current, Kernel):
        return current.with_params(**values)
    other = deepcopy(current)
    other.set_params(**values)
    return other


OF_THE_RUN = ("callback", "cluster", "max_iter", "max_seconds", "memory_limit", "n_jobs", "verbose", "warm_start")
"""Parameters that decide how long a fit works and what it shows, but not its result."""


def about_fit(machine: Any, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
    """Return what decides the result of a fit, as JSON values: a checkpoint of anything else is refused."""
    params = {
        name: type(value).__name__ if isinstance(value, BaseEstimator) else text_of(value)
        for name, value in machine.get_params().items()
        if name.rpartition("__")[2] not in OF_THE_RUN
    }
    return {
        "work": "fit",
        "estimator": type(machine).__name__,
        "parameters": params,
        "data": {"X": digest_of(X), "y": digest_of(y), "sample_weight": digest_of(sample_weight)},
    }


GO_ON = {
    Status.MAX_ITER: "Raise max_iter, or fit again with warm_start=True to go on.",
    Status.TIME_LIMIT: "Raise max_seconds, or fit again with warm_start=True to go on.",
    Status.INTERRUPTED: "Fit again with warm_start=True to go on.",
}
"""What to do about a fit that a limit or Ctrl-C ended."""

_PAUSE = 5.0  # seconds between two lines of progress, for verbose=1


class Iterated:
    """An estimator with a tolerance, limits, a callback and progress on stderr."""

    tol: float
    tol_gap: float | None = None  # for estimators without this parameter
    max_iter: int
    max_seconds: float | None
    verbose: int
    callback: Callable[[Progress], object] | None
    _search: Interruption | None = None  # the interruption of the search that this fit belongs to
    _forecasts = True  # False for pilots, which do not forecast their own time

    _checkpoint: Checkpoint | None = None  # that of the fit which is under way

    def _control(self) -> Control:
        """Return the limits, the callback, the interruption and the checkpoint of one fit."""
        return Control(self._limits(), self._listener(), Interruption(self._search), self._checkpoint)

    @contextmanager
    def _checkpointed(self, folder: Any, X: Any, y: Any, sample_weight: Any, *, inside: str = "") -> Iterator[None]:
        """Have the fit write the points that it reaches into a folder, and continue from those in it."""
        if folder is None:
            yield
            return
        about = partial(about_fit, self, X, y, sample_weight)
        with Checkpoint.opened(folder, about, inside=inside) as self._checkpoint:
            try:
                yield
            finally:
                del self._checkpoint

    def _limits(self) -> Limits:
        if isinstance(self.max_iter, bool) or not isinstance(self.max_iter, WHOLE) or self.max_iter < -1:
            raise InvalidParameterError(f"max_iter must be an integer >= 0, or -1 for no limit, got {self.max_iter!r}.")
        return Limits(
            tol=check_number("tol", self.tol, above=0.0, finite=True),
            tol_gap=None if self.tol_gap is None else check_number("tol_gap", self.tol_gap, above=0.0, finite=True),
            max_iter=int(self.max_iter),
            max_seconds=check_seconds(self.max_seconds),
        )

    def _listener(self) -> Callable[[Progress], object] | None:
        """Return the function that gets progress reports, or None if neither `verbose` nor `callback` is set."""
        check_callback(self.callback)
        listeners = [] if self.callback is None else [self.callback]
        if vars(self).get("_skl_callbacks"):
            listeners.append(self._report_task)  # type: ignore[attr-defined]
        return _Reporter(self.verbose, listeners) if self.verbose or listeners else None


class _Reporter:
    """Write progress to stderr, as often as `verbose` asks for, and pass it to the user's callbacks."""

    def __init__(self, verbose: int, listeners: list[Callable[[Progress], object]]) -> None:
        self._pause = 0.0 if verbose > 1 else _PAUSE if verbose else math.inf
        self._listeners, self._shown = listeners, time.monotonic()

    def __call__(self, progress: Progress) -> object:
        now = time.monotonic()
        if now - self._shown >= self._pause:
            self._shown = now
            print(
                f"{progress.seconds:8.1f} s  {progress.stage}  step {progress.n_iter}  "
                f"violation {progress.violation:.3g} (tolerance {progress.tol:g})",
                file=sys.stderr,
            )
        return any([listen(progress) for listen in self._listeners])


class KernelMachine(SupportsCallbacks, WithCard, FindsNeighbours, HoldsKernel, BaseEstimator):
    """An estimator with a kernel; its rows are vectors, kernel values, strings or sets."""

    kernel: str | Kernel | Callable[[Any, Any], Any]
    degree: int
    gamma: Gamma
    coef0: float
    memory_limit: int | None
    n_jobs: int | None
    verbose: int
    _take_gram: Callable[[Gram], object] | None = None  # gets the Gram matrix of a fit, to use its values after the fit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kernel = self._plain_kernel()
        structured = kernel is not None and kernel.is_structured
        tags.input_tags.sparse = not structured
        tags.input_tags.two_d_array = not structured
        tags.input_tags.string = structured
        tags.input_tags.pairwise = self._takes_values()
        return tags

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters, cached: scikit-learn would inspect the signature for every clone in a search."""
        return cast(list[str], super()._get_param_names())

    def _kernel_asked_for(self) -> Kernel:
        if not isinstance(self.kernel, Kernel):  # like scikit-learn, check parameters that the kernel does not use too
            integer("degree", self.degree)
            gamma_or_rule(self.gamma, DISTANCE_RULES)
            real("coef0", self.coef0)
        return as_kernel(self.kernel, degree=self.degree, gamma=self.gamma, coef0=self.coef0)

    def _training_rows(self, X: Any, y: Any) -> tuple[Kernel, Data]:
        """Return the kernel from the parameters, before its rules such as gamma="scale" are applied, and the rows."""
        try:
            spec = self._kernel_asked_for()
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(str(error)) from error
        data = check_rows(self, X, spec, reset=True, y=y)
        if isinstance(spec, EvaluatedKernel):
            return spec, data
        if isinstance(data, Precomputed):
            check_square(data.shape)
        if isinstance(data, Precomputed) and (asymmetry := data.asymmetry()) is not None:
            i, j, apart = asymmetry
            raise ValueError(
                f"a precomputed kernel matrix must be symmetric, but row {i}, column {j} and row {j}, column {i} "
                f"differ by {apart:g}: give 0.5 * (K + K.T) where both mean the same."
            )
        if isinstance(data, Precomputed):
            data = _symmetric(data)
        return spec, data

    def _rows_of_classes(
        self, X: Any, y: Any, sample_weight: Any, class_weight: Any, groups: Any = None
    ) -> tuple[Kernel, Data, Labels]:
        """Return the kernel with numbers for its parameters, the rows, and their labels and weights."""
        spec, data = self._training_rows(X, y)
        labels = read_labels(y, sample_weight, class_weight, data.n, groups=groups)
        return spec.resolve(data, labels.uneven_weights), data, labels

    def _gram(
        self,
        kernel: Kernel,
        data: Data,
        rows: npt.NDArray[np.int64],
        *,
        cache_policy: CachePolicy = CachePolicy.NONE,
    ) -> Gram:
        """Return the Gram matrix of the chosen rows."""
        gram = Gram(
            kernel,
            data,
            memory_limit=check_whole("memory_limit", self.memory_limit, unit="bytes", at_least=0),
            cache_policy=cache_policy,
            n_jobs=check_whole("n_jobs", self.n_jobs),
        )
        if self.verbose:
            for reason in (*kernel.reasons, gram.backend_reason):
                say(reason)
        if self._take_gram is not None:
            self._take_gram(gram)
        return gram if rows.size == data.n else gram.restrict(rows)

    def _warn_if_constant(self, gram: Gram) -> None:
        """Warn if the kernel does not tell the training rows apart."""
        value = _constant_value(gram)
        if value is None:
            return
        warn_user(
            f"every kernel value of the training rows is {value:g}: {gram.kernel!r} cannot tell these rows apart, "
            f"and all rows get the same prediction. Check the rows, or take another kernel or another gamma.",
            UserWarning,
        )

    def _warn_of_kernel(self, gram: Gram, besides: str = "") -> None:
        """Warn if the kernel is not known to be positive semidefinite, so that optimality is not proved.

        Warn, too, if the kernel has the same value for all rows, so that no machine can tell them apart. `besides` is a
        further consequence for the message.
        """
        self._warn_if_constant(gram)
        if not gram.is_convex:
            warn_user(
                f"{self.kernel_!r} is not known to be positive semidefinite on the training rows ({gram.diagnosis}). "
                f"{_UNKNOWN if gram.diagnosis.verdict == 'not refuted' else ''}"
                "The result satisfies the optimality conditions at best (`stationary`): it need not be the optimum"
                f"{besides}.",
                IndefiniteKernelWarning,
            )

    def _check_is_fitted(self) -> None:
        # check_is_fitted takes as long as a prediction of a small machine, so it is called only if it will raise.
        if "kernel_" not in vars(self):
            check_is_fitted(self, "kernel_")

    def _of_array(self, name: str, X: Any) -> Any:
        """Return the result of a method for an array of another library; see :mod:`mercer.estimators._arrays`."""
        return result_of_array(self, name, X)

    def _new_rows(self, X: Any) -> Data:
        self._check_is_fitted()
        return check_rows(self, X, self.kernel_, reset=False)


def _constant_value(gram: Gram) -> float | None:
    """Return the value of a positive semidefinite kernel that is the same for all pairs of rows; None if it is not.

    The values of the first row and the diagonal suffice: the vectors of all rows in the feature space are then equal.
    Values that a search has stored in single precision do not tell; the machine that is fitted at its end does.
    """
    if getattr(gram.data, "is_single", False):
        return None
    diagonal = gram.diag()
    value = float(diagonal[0])
    if gram.n < 3 or not np.isfinite(value) or np.ptp(diagonal) > _SAME_VALUE * abs(value):
        return None
    for cols in (np.arange(min(gram.n, 8)), np.arange(gram.n)):
        if not (np.abs(gram.block(np.array([0]), cols) - value) <= _SAME_VALUE * abs(value)).all():
            return None
    return value


_SAME_VALUE = 1e-14
"""Relative difference up to which kernel values are the same, to rounding."""

_UNKNOWN = (
    "With more than 2,000 rows (a matrix in memory: 5,000) this is not checked; if you know it, say so by "
    "mercer.kernels.Precomputed(is_psd=True) or Callable(function, is_psd=True). "
)

_WARNED_ASYMMETRY = 1e-12  # relative to the largest kernel value; a larger asymmetry of the matrix causes a warning


def _symmetric(data: Precomputed) -> Precomputed:
    """Return the symmetric part of a kernel matrix; warn if the matrix is asymmetric beyond rounding."""
    made = data.symmetric()
    if made is not data:
        apart, largest = 2.0 * float(abs(data.array - made.array).max()), float(abs(made.array).max())
        if apart > _WARNED_ASYMMETRY * largest:
            warn_user(
                f"the precomputed kernel matrix is not quite symmetric: K and K.T differ by up to {apart:.3g}, as "
                "rounding makes them differ. The mean of both is used.",
                UserWarning,
            )
    return made


def say(text: str) -> None:
    """Write a line of verbose output to stderr."""
    print(text, file=sys.stderr)
