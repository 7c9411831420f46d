"""A search over kernels, gamma and penalties on matrices of kernel values that folds and penalties share."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import assert_all_finite, get_tags, indexable

from mercer.estimators.cv_results import ABSENT, column, ranks
from mercer.estimators.shared_fits import FoldFit, SharedFits, StoppedError, machine_of, path_of
from mercer.estimators.validation import check_callback, check_number, check_whole
from mercer.estimators.zoom import zoom, zooms
from mercer.kernels import Kernel, as_kernel
from mercer.selection.progress import CostEstimate, Progress
from mercer.solvers import Interruption
from mercer.status import Status

_ASKED_BY = ("predict", "decision_function", "score", "score_samples")


class KernelSearchCV(BaseSearchCV):
    """Cross-validated search over kernels, gamma and penalties: scikit-learn's GridSearchCV at the price of few fits.

    **Solves** for every setting and fold the problem of `estimator` on the fold's training rows, to its tolerance, and
    takes the setting of the best mean score on the rows left out. One matrix of kernel values serves all folds and all
    penalties (C, epsilon, nu) of a kernel, and the scores too; each machine starts from the solution of the penalty
    before.

    Parameters
    ----------
    estimator : estimator
        A machine of this library, or a pipeline that one ends: what comes before it is then fitted on the training rows
        of each fold, as by GridSearchCV. Any other estimator is searched as by GridSearchCV itself.
    kernels : sequence of str, Kernel or callable, optional
        Values of the machine's `kernel`; by default its own.
    C, gamma, epsilon, nu : sequence or "zoom", optional
        Values of these parameters; by default the machine's own. `gamma` is left out for kernels that have none. Of a
        Kernel object it is ``kernel__gamma``. "zoom" for C, gamma or epsilon looks for them on a coarse grid, and then
        twice among the neighbours of the best cell at the root of the factor before; gamma around what "scale" says of
        all rows, as the steps before the machine make them.
    scoring : str, callable, list, tuple or dict, optional
        As for GridSearchCV; by default the estimator's `score`.
    n_jobs : int, optional
        Folds that are trained at a time. None: all processors. Results do not depend on it.
    refit : bool, str or callable, default=True
        As for GridSearchCV.
    cv : int, splitter or iterable, optional
        As for GridSearchCV: 5 folds by default, stratified for classifiers.
    verbose : int, default=0
        1 says on stderr which setting was tried, how well it did and how long the rest will take.
    error_score : "raise" or float, default=nan
        Score of a fold whose fit fails.
    return_train_score : bool, default=False
        Whether the training rows are scored as well.
    memory_limit : int, optional
        Bytes that matrices of kernel values may take; default 1 GiB. A matrix takes 4 n² bytes (in a pipeline, for each
        fold). Where it does not fit, machines evaluate values as they need them.
    max_seconds : float, optional
        Ends the search, with the settings finished so far; training the best one on all rows comes on top.
    max_seconds_per_fit : float, optional
        Ends a single fit, which is then scored as it stands.
    callback : callable, optional
        Called with a :class:`mercer.selection.progress.Progress` after every setting.

    Attributes
    ----------
    cv_results_ : dict
        As GridSearchCV's, in the order of its grid; fit times are those of the fits here. Besides, ``status`` tells how
        the worst fit of each setting ended ("" where the estimator does not say) and ``kkt_violation`` the largest
        violation of its optimality conditions. With "zoom", ``stage`` is 0 for cells of the coarse grid.
    best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, refit_time_, multimetric_, classes_
        As GridSearchCV's; of equal settings the first one in the order of the grid is best.
    stopped_ : str
        Why some settings were not tried: "interrupted", "time limit" or "".
    reason_ : str
        What fits share, or why they share nothing.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        For an empty axis, a parameter that the machine does not have, targets that are not finite, and as GridSearchCV
        does. Where every fit fails, what the first one raised.
    StoppedError
        If the search was stopped before one setting was finished.

    Warns
    -----
    UserWarning
        If the search was stopped early.
    FitFailedWarning
        If fits failed.

    Notes
    -----
    Kernel values are in single precision, and so conditions are met for the rounded matrix: violation and status in
    `cv_results_` are of that. The machine that is trained on all rows in the end is solved and certified as always. A
    fit that takes more than 1,000,000 steps (or 100 a row, where that is more) is scored as it stands, unless the
    machine sets a limit itself; its status says so.

    Parameters that depend on rows (gamma="scale", class_weight="balanced") are found anew on the training rows of each
    fold, as by GridSearchCV; each fold then has a matrix of its own. For random or halving search, give the machines to
    scikit-learn's RandomizedSearchCV or HalvingGridSearchCV; these share nothing.

    Ctrl-C ends the search and leaves the best setting so far.

    Costs, for each kernel, n² kernel values and for each fold and penalty a solution that starts near; memory 4 n²
    bytes.

    References
    ----------
    Hastie, Rosset, Tibshirani & Zhu (2004) for solutions along C; DeCoste & Wagstaff (2000) for seeding them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC, KernelSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = KernelSearchCV(SVC(), C=[0.1, 1.0, 10.0], gamma=[0.01, 0.1]).fit(X, y)
    >>> search.best_params_, round(float(search.best_score_), 3)
    ({'C': 1.0, 'gamma': 0.1}, 0.98)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        kernels: Sequence[Any] | None = None,
        C: Sequence[float] | str | None = None,
        gamma: Sequence[Any] | str | None = None,
        epsilon: Sequence[float] | str | None = None,
        nu: Sequence[float] | None = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        memory_limit: int | None = None,
        max_seconds: float | None = None,
        max_seconds_per_fit: float | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        super().__init__(
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.kernels = kernels
        self.C = C
        self.gamma = gamma
        self.epsilon = epsilon
        self.nu = nu
        self.memory_limit = memory_limit
        self.max_seconds = max_seconds
        self.max_seconds_per_fit = max_seconds_per_fit
        self.callback = callback

    @property
    def param_grid(self) -> list[dict[str, list[Any]]]:
        """The grid that GridSearchCV would be given for the same search.

        Raises
        ------
        ValueError
            If an axis is empty or of something that the machine does not have.
        """
        machine, path = machine_of(self.estimator), path_of(self.estimator)
        axes = {name: _axis(name, getattr(self, name)) for name in ("C", "epsilon", "nu", "gamma")}
        kernels = _axis("kernels", self.kernels)
        known = machine.get_params(deep=False)
        missing = [
            name for name, values in {**axes, "kernel": kernels}.items() if values is not None and name not in known
        ]
        if missing:
            raise ValueError(f"{type(machine).__name__} has no parameter {missing[0]!r} to search over.")
        grids = []
        for kernel in kernels or [machine.get_params(deep=False).get("kernel")]:
            grid = {path + name: axes[name] for name in ("C", "epsilon", "nu") if axes[name] is not None}
            if kernels is not None:
                grid[path + "kernel"] = [kernel]
            if axes["gamma"] is not None and (name := _gamma_of(kernel)):
                grid[path + name] = axes["gamma"]
            grids.append(grid)
        if not any(grids):
            raise ValueError("there is nothing to search: give values for kernels, C, gamma, epsilon or nu.")
        return grids  # type: ignore[return-value]

    def fit(self, X: Any, y: Any = None, **params: Any) -> KernelSearchCV:
        """Try every setting on every fold, and train the best one on all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or what else the estimator takes
        y : array-like of shape (n,), optional
        **params
            As for GridSearchCV: `groups` for the splitter, `sample_weight` for the estimator (and, with metadata
            routing, for who asks for it).

        Returns
        -------
        KernelSearchCV
            Itself, fitted.
        """
        check_callback(self.callback)
        scorers, metric = self._get_scorers()
        X, y = indexable(X, y)
        if isinstance(y, np.ndarray) and y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        routed = self._get_routed_params_for_fit(params)
        candidates, heads = ([], []) if zooms(self) else _settings(self.param_grid)
        splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        splits = list(splitter.split(X, y, **routed.splitter.split))
        if zooms(self):
            zoom(self, X, y, splits, params, metric)
        else:
            self._search_grid(X, y, splits, params, routed, scorers, metric, candidates, heads)
        if self.refit:
            began = time.perf_counter()
            best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
            self.best_estimator_ = best.fit(X, *(() if y is None else (y,)), **routed.estimator.fit)
            self.refit_time_ = time.perf_counter() - began
            if hasattr(best, "feature_names_in_"):
                self.feature_names_in_ = best.feature_names_in_
        return self

    def _search_grid(
        self,
        X: Any,
        y: Any,
        splits: list[tuple[Any, Any]],
        params: dict[str, Any],
        routed: Any,
        scorers: Any,
        metric: Any,
        candidates: list[dict[str, Any]],
        heads: list[tuple[int, int]],
    ) -> None:
        """Try every setting on every fold."""
        seconds = None if self.max_seconds is None else check_number("max_seconds", self.max_seconds, at_least=0.0)
        per_fit = self.max_seconds_per_fit
        with Interruption() as interruption:
            fits = SharedFits(
                self.estimator,
                X,
                y,
                splits,
                routed.estimator.fit,
                memory_limit=check_whole("memory_limit", self.memory_limit, unit="bytes", at_least=0),
                n_jobs=check_whole("n_jobs", self.n_jobs),
                max_seconds=None if per_fit is None else check_number("max_seconds_per_fit", per_fit, above=0.0),
                until=None if seconds is None else time.perf_counter() + seconds,
                interruption=interruption,
            )
            walk = _Walk(self, fits, candidates, heads, splits)
            walk.fit(X, y, **params)
        walk.warn()
        self.stopped_, self.reason_, self.n_splits_ = fits.stopped, fits.reason, len(splits)
        self.multimetric_ = walk.multimetric_
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        self.cv_results_ = results = walk.results_of_all()
        if self.refit or not self.multimetric_:
            if callable(self.scoring) and self.multimetric_:
                self._check_refit_for_multimetric({name[10:]: 0 for name in results if name.startswith("mean_test_")})
                metric = self.refit
            self.best_index_ = self._select_best_index(self.refit, metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = candidates[self.best_index_]

    def _run_search(self, evaluate_candidates: Any) -> None:
        """Never called: see :class:`_Walk`."""
        raise AssertionError


class _Walk(BaseSearchCV):
    """scikit-learn's own search, whose fits have been made before it asks for them: it splits, scores and averages."""

    def __init__(
        self,
        search: KernelSearchCV,
        fits: SharedFits,
        candidates: list[dict[str, Any]],
        heads: list[tuple[int, int]],
        splits: list[tuple[Any, Any]],
    ) -> None:
        super().__init__(
            _Cell(clone(search.estimator), self),
            scoring=search.scoring,
            cv=splits,
            n_jobs=1,
            refit=False,
            error_score=search.error_score,
            return_train_score=search.return_train_score,
        )
        self.search, self.fits, self.candidates, self.heads, self.splits = search, fits, candidates, heads, splits
        self._path = path_of(search.estimator)
        self._made: Iterator[FoldFit] = iter(())
        self._summaries: dict[int, _Summary] = {}  # by place in the grid
        self._scored: list[int] = []
        self._errors: list[Exception] = []

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        paths = self._paths()
        estimate = CostEstimate(len(self.splits))
        estimate.plan(paths)
        for path in paths:
            made: list[list[FoldFit]] = []
            for place in path:
                estimator = clone(self.search.estimator).set_params(**clone(self.candidates[place], safe=False))
                folds = self.fits.fit(estimator, self.heads[place])
                if self.fits.stopped:
                    break
                made.append(folds)
                self._summaries[place] = _Summary.of(folds)
                for fold in folds:
                    estimate.measured(place, fold.seconds)
                self._tell(estimate, place)
            self._errors += [fold.error for folds in made for fold in folds if fold.error is not None]
            if any(fold.error is None for folds in made for fold in folds):
                self._made = iter([fold for folds in made for fold in folds])
                evaluate_candidates([self.candidates[place] for place in path[: len(made)]])
                self._scored += path[: len(made)]
            elif made and self.error_score == "raise":
                raise self._errors[0]
        if not self._scored:
            if self._errors:
                self._errors[0].add_note(f"all {len(self._errors)} fits failed; this is how the first one did.")
                raise self._errors[0]
            raise StoppedError(f"the search was stopped ({self.fits.stopped}) before one setting was finished")

    def warn(self) -> None:
        """Tell what failed that scikit-learn has not told, and what is missing; two calls below the user's."""
        if len(self._scored) < len(self._summaries):
            message = f"{len(self._errors)} fits failed, the first one with: {self._errors[0]}"
            warnings.warn(message, FitFailedWarning, stacklevel=3)
        if self.fits.stopped:
            warnings.warn(
                f"the search was stopped ({self.fits.stopped}): {len(self._scored)} of {len(self.candidates)} settings "
                "were finished; the others have no score.",
                stacklevel=3,
            )

    def next_fit(self) -> FoldFit:
        """The next fit: settings come in the order in which they are evaluated, and the folds of each in theirs."""
        return next(self._made)

    def _paths(self) -> list[list[int]]:
        """Places in the grid, by kernel and gamma; C ascends along each, for solutions to follow it."""
        paths: dict[tuple[int, int], list[int]] = {}
        for place, head in enumerate(self.heads):
            paths.setdefault(head, []).append(place)
        return [sorted(path, key=self._penalties) for path in paths.values()]

    def _penalties(self, place: int) -> tuple[float, ...]:
        """What a path goes along; what is no number is the machine's to refuse."""
        values = (self.candidates[place].get(self._path + name) for name in ("nu", "epsilon", "C"))
        return tuple(float(value) if isinstance(value, Real) else 0.0 for value in values)

    def _tell(self, estimate: CostEstimate, place: int) -> None:
        """Tell how far the search is."""
        setting = {name.removeprefix(self._path): value for name, value in self.candidates[place].items()}
        progress = Progress(
            "search",
            estimate.n_done,
            estimate.n_total,
            estimate.seconds_left() / self.fits.n_at_a_time,
            ", ".join(f"{name} = {value}" for name, value in setting.items()),
        )
        if self.search.verbose:
            print(
                f"{progress.done} of {progress.total} fits, about {progress.seconds_left:.0f} s left: {progress.note}",
                file=sys.stderr,
            )
        if self.search.callback is not None and self.search.callback(progress) is True:
            self.fits.stop()

    def results_of_all(self) -> dict[str, Any]:
        """`cv_results_` in the order of the grid; what was not tried has no score."""
        found, n = self.cv_results_, len(self.candidates)
        summaries = [self._summaries.get(place, _NOTHING) for place in range(n)]
        results: dict[str, Any] = {
            "mean_fit_time": np.array([summary.mean_seconds for summary in summaries]),
            "std_fit_time": np.array([summary.std_seconds for summary in summaries]),
        }
        for name, values in found.items():
            if name == "params":
                results[name] = self.candidates
            elif name.startswith("rank_"):
                results[name] = ranks(results[f"mean_{name[5:]}"])
            elif name not in results and not name.startswith("param_"):
                results[name] = np.full(n, np.nan)
                if name.startswith(("split", "mean_t")) and self.error_score != "raise":
                    results[name][list(self._summaries)] = self.error_score  # where every fit of a path has failed
                results[name][self._scored] = values
        for name in sorted({name for candidate in self.candidates for name in candidate}):
            results[f"param_{name}"] = column([candidate.get(name, ABSENT) for candidate in self.candidates])
        results["status"] = np.array([summary.status for summary in summaries])
        results["kkt_violation"] = np.array([summary.violation for summary in summaries])
        return results


class _Summary(NamedTuple):
    """How the fits of one setting went."""

    mean_seconds: float
    std_seconds: float
    status: str
    violation: float

    @classmethod
    def of(cls, folds: Sequence[FoldFit]) -> _Summary:
        seconds = np.array([fold.seconds for fold in folds])
        ended = [fold.machine.certificate_ for fold in folds if fold.machine is not None]
        worst = max(ended, key=lambda one: (one.status is not Status.OPTIMAL, one.kkt_violation), default=None)
        return cls(
            float(seconds.mean()),
            float(seconds.std()),
            "" if worst is None else str(worst.status),
            max((one.kkt_violation for one in ended), default=np.nan),
        )


_NOTHING = _Summary(np.nan, np.nan, "", np.nan)


class _Cell(BaseEstimator):
    """Stands for one fit that has been made already, where scikit-learn fits a clone and has a scorer ask it."""

    def __init__(self, estimator: Any, walk: _Walk) -> None:
        self.estimator, self.walk = estimator, walk

    def __sklearn_clone__(self) -> _Cell:
        return _Cell(clone(self.estimator), self.walk)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(self.estimator.get_params(deep=deep))

    def set_params(self, **params: Any) -> _Cell:
        self.estimator.set_params(**params)
        return self

    def get_metadata_routing(self) -> Any:
        return self.estimator.get_metadata_routing()

    def fit(self, X: Any, y: Any = None, **params: Any) -> _Cell:
        del y, params
        self._fold = self.walk.next_fit()
        if self._fold.error is not None:
            raise self._fold.error
        self._trained_on = X
        return self

    def __getitem__(self, index: Any) -> Any:
        return self._fold.fitted[index]

    def __len__(self) -> int:
        return len(self._fold.fitted)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if "_fold" not in vars(self):
            return getattr(self.estimator, name)
        found = getattr(self._fold.fitted, name)
        held = self._fold.rows
        if name not in _ASKED_BY or held is None:
            return found

        def ask(X: Any, *args: Any, **params: Any) -> Any:
            rows = held.which(X)
            if rows is None:
                return found(X, *args, **params)
            return getattr(self._fold.machine, name)(rows, *args, **params)

        ask.__name__ = name  # scikit-learn goes by it
        return ask


def _settings(grids: list[dict[str, list[Any]]]) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """All settings in the order of scikit-learn's grid, and of each which kernel and which gamma it has."""
    candidates, heads = [], []
    for number, grid in enumerate(grids):
        name = next((name for name in grid if name.endswith("gamma")), None)
        for candidate in ParameterGrid(grid):
            gamma = 0 if name is None else next(i for i, v in enumerate(grid[name]) if v is candidate[name])
            candidates.append(candidate)
            heads.append((number, gamma))
    return candidates, heads


def _axis(name: str, values: Any) -> list[Any] | None:
    """The values of one axis of the grid."""
    if values is None:
        return None
    if isinstance(values, (str, bytes, Kernel)) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a sequence of values to try, got {values!r}; give [{values!r}] for one.")
    listed = list(values)
    if not listed:
        raise ValueError(f"{name} must hold at least one value to try, but is empty.")
    return listed


def _gamma_of(kernel: Any) -> str:
    """Name of the parameter of a machine that is this kernel's gamma, "" where it has none."""
    if isinstance(kernel, Kernel):
        return "kernel__gamma" if hasattr(kernel, "gamma") else ""
    if not isinstance(kernel, str):
        return ""
    return "gamma" if as_kernel(kernel, gamma=1.0) != as_kernel(kernel, gamma=2.0) else ""
