"""A search over kernels, gamma and penalties; folds and penalties share matrices of kernel values.

`mercer study` searches by this class.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter

from mercer.cluster import Workers, address_of, workers_of
from mercer.data.arguments import check_callback, check_number, check_seconds, check_whole
from mercer.data.checks import checked_length
from mercer.data.files import Checkpoint
from mercer.data.files.checkpoint import digest_of, text_of
from mercer.data.mixed_rows import table_of_columns
from mercer.data.offered import offered_if
from mercer.data.result import frame_of
from mercer.data.user_warnings import warn_user
from mercer.estimators._base import about_fit
from mercer.estimators._callbacks import SupportsCallbacks
from mercer.estimators._card import WithCard
from mercer.estimators._probabilities import HasProbabilities
from mercer.estimators._validation import check_square, check_verbose, in_memory, refuse_device, refuse_targets
from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.model_selection.copies import warn_of_copies
from mercer.model_selection.folds import lacking_class, require_splits
from mercer.model_selection.search.default_grid import default_axes
from mercer.model_selection.search.fold_rows import row_numbers
from mercer.model_selection.search.grids_of_search import asks_nothing, grids_of
from mercer.model_selection.search.keywords import with_other_names
from mercer.model_selection.search.loo_scores import LEAVE_ONE_OUT, WithoutRows, refuse_besides
from mercer.model_selection.search.pipelines import machine_of, path_of, with_choice
from mercer.model_selection.search.racing import deciding_score, rules_of_race
from mercer.model_selection.search.row_rules import checked_rounds
from mercer.model_selection.search.schedule import Schedule
from mercer.model_selection.search.search_parameters import Allowance
from mercer.model_selection.search.settings import listed, refuse_axes, settings_of
from mercer.model_selection.search.shared_fits import SharedFits
from mercer.model_selection.search.zoom import ZOOM, Zoom, zooms
from mercer.solvers import Control, Interruption, Limits
from mercer.solvers.loop import ProgressMonitor
from mercer.solvers.progress import StageProgress
from mercer.solvers.progress_bar import reported


class NoGridError(ValueError, AttributeError):
    """A search has no grid: the attribute `grid` is then missing, as the HTML picture by scikit-learn needs it."""


def _check_offered(method: str) -> Callable[[Any], object]:
    """Return a function that raises the error of the machine if it has no such method: it says what to do."""
    return lambda search: getattr(getattr(search, "best_estimator_", search.estimator), method)


class KernelSearchCV(SupportsCallbacks, WithCard, BaseSearchCV):
    """Cross-validated search over kernels, gamma and penalties, like scikit-learn's GridSearchCV but much faster.

    **Solves** for every setting and fold the problem of `estimator` on the fold's training rows, to its tolerance, and
    chooses the setting with the best mean score on the test rows. One matrix of kernel values serves all folds, all
    penalties (C, epsilon, nu) of a kernel, and the scores. Each machine has a warm start from the previous penalty.

    Parameters
    ----------
    estimator : estimator
        A machine of this library, or a pipeline that one ends: what comes before it is then fitted on the training rows
        of each fold, as by GridSearchCV. Any other estimator is searched as by GridSearchCV itself, along the axes
        below; for other parameters take that.
    param_grid : dict or sequence of dict, optional
        Values of parameters by their names, as for GridSearchCV: ``{"C": [1.0, 10.0], "gamma": [0.1]}``, or in a
        pipeline ``{"svc__C": [1.0, 10.0], "scaler__with_mean": [True, False]}``; there, names of the machine need no
        prefix. If neither this nor `candidates` nor an axis below is given, the search tries a grid for the machine: C
        and gamma are zoomed; for numbers, C and epsilon are multiples of the spread of the targets.
    candidates : sequence of dict or callable, optional
        The settings to try, each as parameters for `set_params`, instead of a grid of the axes below:
        ``{"kernel": "rbf", "C": 1.0}``, or in a pipeline ``{"svc": LinearSVC(), "svc__C": 1.0}``. Settings that differ
        in C, epsilon or nu only share kernel values and solutions. A function returns the first settings for None, and
        then further ones by the results so far (as `cv_results_`) until it returns an empty list; with `rounds`, it is
        called in every round, and settings that it names again are tried on the rows of that round.
    kernels : sequence of str, Kernel or callable, optional
        Values of the machine's `kernel`; by default its own. ``kernel=[...]`` is read as this.
    C, gamma, epsilon, nu : sequence or "zoom", optional
        Values of these parameters; by default the machine's own. `gamma` is tried with kernels by name that have one,
        and as ``kernel__gamma`` with Kernel objects that have one themselves: not with those made of others, such as
        ``RBF() + Linear()``, whose parts may have several, nor with functions. "zoom" for C, gamma or epsilon looks for
        them on a coarse grid, and then twice among the neighbours of the best cell at the root of the factor before;
        gamma around what "scale" says of all rows, as the steps before the machine make them. With `rounds`, it looks
        in the first one.
    scoring : str, callable, list, tuple or dict, optional
        As for GridSearchCV; by default the estimator's `score`. A function with a method ``of_folds(estimators, tables,
        targets)`` scores all folds of a setting together: the method gets what the function would get for each fold,
        and returns the score of each fold.
    n_jobs : int, optional
        Number of folds that are trained at the same time; None: all processors. It is 1 if fits share nothing or with
        cv="leave_one_out". Results do not depend on it.
    refit : bool, str or callable, default=True
        As for GridSearchCV.
    cv : int, splitter, iterable or "leave_one_out", optional
        As for GridSearchCV: 5 folds by default, stratified for classifiers. "leave_one_out" scores what
        :func:`mercer.leave_one_out` finds for all rows, each by the machine without it, at the price of some fits a
        setting: what depends on the rows (gamma="scale", balanced class weights, steps before the machine) is then that
        of all rows. It is one score of all rows together, as of a single split, by any scorer of predictions or
        decision values; there are no training scores, and `fit` takes no parameter but the machine's sample weights.
    verbose : int, default=0
        1 shows which setting was tried and how long the rest will take: a bar in a terminal and in a notebook, else
        lines on stderr.
    error_score : "raise" or float, default=nan
        Score of a fold whose fit fails.
    return_train_score : bool, default=False
        Whether the training rows are scored as well.
    memory_limit : int, optional
        Bytes that matrices of kernel values may take; default 1 GiB. A smaller `memory_limit` of the machine that is
        searched holds for the search as well. A matrix takes 4 n² bytes for n rows, and 12 n²
        once values in double precision are needed beside those in single; 8 n² where they are in double from the start,
        for kernels that are not known to be positive semidefinite, or whose values single precision does not hold. One
        serves all folds, but in a pipeline, and where the kernel depends on the rows (gamma="scale" is the default),
        each fold has its own: with five folds 1 GiB then ends at 7,327 rows, and at 4,230 in double precision besides;
        with one matrix at 16,384 and 9,459. In a pipeline of more rows, matrices have the training rows alone, up to
        9,158 rows of the table. Where matrices do not fit, machines evaluate values as they need them, each
        within its own `memory_limit`, and `reason_` says so. On top comes what machines on a matrix work in, for each
        fold at a time: a matrix of the working set (5/4 of the free coefficients, at most 6,144) and Newton steps, 230
        MB at most, in double precision 320. Measured with nearly all coefficients free, for one fold at a time and for
        two: 40 and 75 MB on 3,000 rows, 120 and 220 on 6,000, 190 and 320 on 8,000.
    max_seconds : float, optional
        Time limit of the search in seconds. The result has the settings that are finished on all folds. Training the
        best one on all rows takes additional time.
    max_seconds_per_fit : float, optional
        Time limit of a single fit of a machine of this library. The machine is then scored as it is.
    callback : callable, optional
        Function that is called with a :class:`mercer.solvers.StageProgress` after every setting. If it returns
        a true value, the search ends with the settings that are finished on all folds.
    early_stopping : {"bound", "statistics"}, optional
        Every setting is tried on two folds, and the best one on all folds. The others are tried on further folds only
        as long as they may still be best. "bound" drops a setting if even the largest possible score on all remaining
        folds would not make it best: the result is that of the whole search, to the tolerance of the fits. "statistics"
        also drops settings that are significantly worse; this is no proof, and the result may differ.
    rounds : "auto" or sequence of int, optional
        Every setting is tried on few rows, and the better ones on more (successive halving): the training rows of a
        fold in each round; the last round has all. "auto": all if there are up to 2,000, else a quarter of the next
        round's. A third of the settings goes on, at least three and the best of each kernel, unless it is significantly
        worse. If `max_seconds` is short, rounds grow less. The result may differ from that of the whole search.
    cluster : str or distributed.Client, optional
        Address of a Dask scheduler, such as "tcp://10.0.0.1:8786", or a client, which clones share and for which a
        pickled search has the address. The workers then
        try the settings: a task has the settings that differ in penalties only, on one fold. Rows travel once, and
        scores come back. The result is that of threads, to every digit, if the matrices fit into `memory_limit`; a lost
        worker changes nothing. The best machine is trained in this process. It needs `mercer[dask]`, and `n_jobs` has
        no effect then.

    Attributes
    ----------
    cv_results_ : dict
        As GridSearchCV's, in the order of its grid; fit times are those of the fits here. Besides, ``status`` tells how
        the worst fit of each setting ended and ``kkt_violation`` the largest violation of its optimality conditions; ""
        and NaN where the estimator has no certificate. ``n_unfinished`` is the number of machines of all folds that are
        not optimal. With "zoom" or a function for `candidates`, ``stage`` is the number of the list that a setting was
        first in, from 0. With
        `early_stopping`, ``left_early`` says by what a setting was left, "bound" or "statistics", or ""; it then has
        scores of the folds that it was tried on, and no mean. With `rounds`, ``n_rows`` has the training rows of a fold
        in the last round of a setting, by which its scores are; settings with more rows rank first.
        ``left_early`` is "statistics" for settings that were significantly worse in their last round.
    best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, refit_time_, multimetric_, classes_
        As GridSearchCV's; of equal settings the first one in the order of the grid is best.
    stopped_ : str
        Why some settings were not tried: "interrupted", "time limit" or "".
    rounds_ : list of (n_rows, n_planned, n_judged)
        With `rounds`: training rows of a fold in each round, settings planned for it, and how many were tried.
    reason_ : str
        What the fits shared, and why not more.
    n_features_in_, feature_names_in_
        See scikit-learn.

    Raises
    ------
    ValueError
        For an empty axis, a parameter that the machine does not have, a `gamma` that none of the kernels takes, targets
        that are not finite, `early_stopping` where no single score says what is best or (of "bound") where it is not
        known what no score is above, and as GridSearchCV does. Where every fit fails, what the first one raised.
    StoppedError
        If the search was stopped before one setting was finished.
    ClusterError
        If the workers of `cluster` cannot go on. With `checkpoint`, the results of finished settings are kept.

    Warns
    -----
    UserWarning
        If the search was stopped early.
    FitFailedWarning
        If fits failed.

    Notes
    -----
    Kernel values are in single precision as long as the width of what that is likely to do to decision values is below
    the tolerance, and below a thousandth of what these differ by; then in double. Conditions are met for the matrix as
    it is held: violation and status in `cv_results_` are of that. In double precision that is the kernel's; in single,
    the kernel's own violation may be larger by some tolerances, and where tol is 1e-3 it hardly is. The
    machine that is trained on all rows in the end is solved and certified as always. A fit that takes more than
    1,000,000 steps (or 100 a row, where that is more) is scored as it stands, unless the machine sets a limit itself;
    its status says so.

    Parameters that depend on rows (gamma="scale", class_weight="balanced") are estimated on the training rows of each
    fold, as by GridSearchCV; each fold then has a matrix of its own. For random search, give the machines to
    scikit-learn's RandomizedSearchCV; it shares nothing.

    With `early_stopping`, a callback hears of each look (two folds, as many again, and so on) as of a search of its
    own. A search that is stopped in the first look has the means of two folds.

    Linear machines (LinearSVC, LinearSVR, LogisticRegression) have no matrix: every fit uses the whole table, where
    rows outside the fold have weight 0, and starts at the solution of the fold's last setting. No row is copied.

    All folds are trained with one penalty before the next one's turn. Ctrl-C ends the search and leaves the best
    setting so far.

    Costs, for each kernel, n² kernel values and for each fold and penalty a solution that starts near, with n
    multiplications for each coefficient that moves; memory what matrices take (see `memory_limit`), twice that if
    it fits the limit, because the folds of the next kernel begin before the last ones of this kernel end.

    References
    ----------
    Hastie, Rosset, Tibshirani & Zhu (2004) for solutions along C; DeCoste & Wagstaff (2000) for seeding them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC, KernelSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = KernelSearchCV(SVC(), {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1]}).fit(X, y)
    >>> search.best_params_, round(float(search.best_score_), 3)
    ({'C': 1.0, 'gamma': 0.1}, 0.98)
    """

    @with_other_names
    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None,
        *,
        candidates: Sequence[Mapping[str, Any]] | Callable[[Any], Sequence[Mapping[str, Any]]] | None = None,
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
        callback: Callable[[StageProgress], object] | None = None,
        early_stopping: str | None = None,
        rounds: str | Sequence[int] | None = None,
        cluster: str | None = None,
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
        self.param_grid = param_grid
        self.candidates = candidates
        self.kernels = kernels
        self.C = C
        self.gamma = gamma
        self.epsilon = epsilon
        self.nu = nu
        self.memory_limit = memory_limit
        self.max_seconds = max_seconds
        self.max_seconds_per_fit = max_seconds_per_fit
        self.callback = callback
        self.early_stopping = early_stopping
        self.rounds = rounds
        self.cluster = cluster

    @property
    def grid(self) -> list[dict[str, list[Any]]]:
        """The grid that GridSearchCV would be given for the same search.

        Raises
        ------
        ValueError
            If an axis is empty or of something that the machine or all its kernels do not have, or its values are yet
            to be found.
        """
        try:
            if zoomed := zooms(self):
                tried = 'after fit, cv_results_["params"] holds what was tried.'
                raise ValueError(f'{zoomed[0]}="zoom" has no grid: {tried}')
            if callable(self.candidates):
                raise ValueError('a function has no grid: after fit, cv_results_["params"] holds what was tried.')
            return grids_of(self)
        except ValueError as error:
            raise NoGridError(str(error)) from error

    def fit(self, X: Any, y: Any = None, *, checkpoint: Any = None, **params: Any) -> KernelSearchCV:
        """Try every setting on every fold, and train the best one on all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe of shape (n, p), or what else the estimator takes
        y : array-like of shape (n,), optional
        checkpoint : str or PathLike, optional
            Folder where results of finished settings are written, every half second at most. If the process is killed,
            the same call continues with the other settings. A folder that belongs to other data, folds, parameters or
            another version is refused. It is kept after the search: delete it then.
        **params
            As for GridSearchCV: `groups` for the splitter, `sample_weight` for the estimator (and, with metadata
            routing, for every object that requests it).

        Returns
        -------
        KernelSearchCV
            Itself, fitted.

        Warns
        -----
        CopiesWarning
            If rows are judged by machines that have learnt from equal rows, and it is not by chance.
        """
        refuse_device(self, X, "fit")
        X, y = (in_memory(machine_of(self.estimator), table) for table in (X, y))
        if asks_nothing(self):
            asked = copy(self).set_params(**default_axes(self, X, y)).fit(X, y, checkpoint=checkpoint, **params)
            self.__dict__.update({name: value for name, value in vars(asked).items() if name.endswith("_")})
            return self
        weights = params.get("sample_weight")
        decided, choice = with_choice(self.estimator, X, y, weights, checkpoint=checkpoint)
        if choice is not None:
            searched = copy(self).set_params(estimator=decided).fit(X, y, checkpoint=checkpoint, **params)
            self.__dict__.update({name: value for name, value in vars(searched).items() if name.endswith("_")})
            self.reason_ = f"{searched.reason_}; for all settings, {choice}"
            return self
        check_callback(self.callback)
        check_seconds(self.max_seconds)
        check_verbose(self.verbose)
        check_whole("n_jobs", self.n_jobs)
        scorers, metric = self._get_scorers()
        X, y = indexable(table_of_columns(X), y)
        if get_tags(self.estimator).input_tags.pairwise and self.kernels is None:
            X = X if sparse.issparse(X) else np.asarray(X)  # splits take columns, too, which lists and frames have not
            check_square(X.shape)
        if y is not None:
            refuse_targets(machine_of(self.estimator), y)
        if params.get("groups") is not None:
            checked_length("groups", params["groups"], _num_samples(X), "group")
        routed = self._get_routed_params_for_fit(params)
        checked = copy(self).set_params(**{name: [1.0] for name in zooms(self)})
        if callable(self.candidates):
            refuse_axes(self)
        candidates = [] if callable(self.candidates) else settings_of(checked.grid)
        if self.early_stopping is not None:
            rules_of_race(self, scorers, metric)
        if self.rounds is not None:
            self._check_rounds(candidates)
        if self._follows():
            self._deciding_score(metric)
        if self._by_leave_one_out():
            refuse_besides(self.estimator, routed.estimator.fit, scorers, return_train_score=self.return_train_score)
            splits = [(np.arange(_num_samples(X)), np.arange(_num_samples(X)))]
        else:
            splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
            splits = list(splitter.split(X, y, **routed.splitter.split))
        require_splits(splits, self.cv)
        if is_classifier(self.estimator) and np.ndim(y) == 1 and (lacking := lacking_class(splits, y)):
            warn_user(lacking, UserWarning)
        warn_of_copies(X, None if self._by_leave_one_out() else splits)
        hears = self.callback is not None or bool(vars(self).get("_skl_callbacks"))
        about = partial(self._about, X, y, params, splits)
        with Checkpoint.opened(checkpoint, about) as states:
            with Interruption() as interruption, reported(self.verbose, self._heard if hears else None) as report:
                self._report = report if self.verbose or hears else None
                try:
                    self._search(X, y, splits, routed, scorers, metric, interruption, states)
                finally:
                    del self._report
            if self.refit:
                self._fit_best(X, y, routed, params, states)
        return self

    def _about(self, X: Any, y: Any, params: dict[str, Any], splits: list[tuple[Any, Any]]) -> dict[str, Any]:
        """Return what decides the results, as JSON values: a checkpoint of anything else is refused."""
        about = about_fit(self, X, y, params.get("sample_weight"))
        others = {name: value for name, value in params.items() if name != "sample_weight"}
        return about | {"work": "search", "splits": digest_of([splits, others])}

    def _fit_best(self, X: Any, y: Any, routed: Any, params: dict[str, Any], states: Checkpoint | None) -> None:
        """Train the best machine on all rows."""
        began = time.perf_counter()
        best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        fit_params = routed.estimator.fit | _groups_of_probabilities(best, params.get("groups"))
        machine = machine_of(best)
        if states is not None and has_fit_parameter(machine, "checkpoint"):
            fit_params |= {
                f"{path_of(best)}checkpoint": states.folder / f"best-{digest_of(text_of(self.best_params_))}"
            }
        self.best_estimator_ = best.fit(X, *(() if y is None else (y,)), **fit_params)
        self.refit_time_ = time.perf_counter() - began
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_

    def to_frame(self) -> Any:
        """Return `cv_results_` as a data frame of pandas, or of polars: a row for each setting, the best first.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ImportError
            If neither is installed.
        """
        check_is_fitted(self, "cv_results_")
        columns = {name: np.asarray(values).tolist() for name, values in self.cv_results_.items()}
        metric = self.refit if self.multimetric_ and isinstance(self.refit, str) else "score"
        ranks = columns.get(f"rank_test_{metric}", [0] * len(columns["params"]))
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        return frame_of({name: [values[place] for place in order] for name, values in columns.items()})

    def _fit_facts(self) -> dict[str, str]:
        if not hasattr(self, "cv_results_"):
            return {}
        tried = len(self.cv_results_["params"])
        facts = {"settings tried": f"{tried:,}{f', ended by {self.stopped_}' if self.stopped_ else ''}"}
        if hasattr(self, "best_score_"):
            best = ", ".join(f"{name} = {value!r}" for name, value in self.best_params_.items())
            facts |= {"best": best, "cross-validated score": f"{self.best_score_:.4g}"}
        machine = machine_of(getattr(self, "best_estimator_", None))
        return {**facts, **(machine._fit_facts() if isinstance(machine, WithCard) else {}), "sharing": self.reason_}

    @offered_if(_check_offered("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the best machine, (m, n_classes), if it has some."""
        return super().predict_proba(X)

    @offered_if(_check_offered("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of the best machine, if it has some."""
        return super().predict_log_proba(X)

    def _heard(self, progress: StageProgress) -> bool:
        """Hand a report on to the callbacks, and return whether one asks to end the search."""
        asked = [self.callback is not None and bool(self.callback(progress)), self._report_task(progress)]
        return any(asked)

    def _follows(self) -> str:
        """Return the beginning of a message: what follows one score; "" if nothing does."""
        reasons = {
            "early_stopping follows": self.early_stopping is not None,
            f'"{ZOOM}" follows': bool(zooms(self)),
            "rounds follow": self.rounds is not None,
            "candidates of a function follow": callable(self.candidates),
        }
        return next((text for text, is_so in reasons.items() if is_so), "")

    def _deciding_score(self, metric: Any) -> str:
        """Return the name of the score that says what is best; ValueError if no single one does."""
        return deciding_score(self, metric, self._follows())

    def _check_rounds(self, candidates: Sequence[Mapping[str, Any]]) -> None:
        """Refuse searches without rounds."""
        checked_rounds(self.rounds, 1)
        if self.early_stopping is not None or isinstance(self.cv, str):
            other = "early_stopping" if self.early_stopping is not None else 'cv="leave_one_out"'
            raise ValueError(f"rounds cannot be combined with {other}: leave one of them out.")
        machines = [clone(self.estimator).set_params(**clone(one, safe=False)) for one in candidates]
        if any(get_tags(one).input_tags.pairwise for one in machines):
            raise ValueError("rounds need a table of rows, and these are kernel values: leave rounds out.")

    def _by_leave_one_out(self) -> bool:
        """Return whether the search scores by exact leave-one-out."""
        if not isinstance(self.cv, str):
            return False
        if self.cv != LEAVE_ONE_OUT:
            raise ValueError(
                f'cv must be a number of folds, a splitter, pairs of rows or "{LEAVE_ONE_OUT}", got {self.cv!r}.'
            )
        if self.early_stopping is not None:
            raise ValueError(
                f'early_stopping must be None with cv="{LEAVE_ONE_OUT}": there are no folds to do without.'
            )
        return True

    def _search(
        self,
        X: Any,
        y: Any,
        splits: list[tuple[Any, Any]],
        routed: Any,
        scorers: Any,
        metric: Any,
        interruption: Interruption,
        states: Checkpoint | None,
    ) -> None:
        """Try the settings on the folds, and store the results."""
        seconds, per_fit = self.max_seconds, self.max_seconds_per_fit
        monitor = ProgressMonitor[Any](Control(Limits(max_seconds=seconds), interruption=interruption))
        most = None if per_fit is None else check_number("max_seconds_per_fit", per_fit, above=0.0)
        allowance = Allowance(monitor, most, self._memory_of_all())
        fits_of = partial(SharedFits, self.estimator, n_jobs=check_whole("n_jobs", self.n_jobs), allowance=allowance)
        judged = None
        if self._by_leave_one_out():
            what = "errors" if self.scoring in (None, "accuracy") and is_classifier(self.estimator) else "values"
            judged = WithoutRows(self.estimator, what, allowance)
        more: Any = self.candidates if callable(self.candidates) else None
        if zooms(self):
            more = Zoom(self, X, y, self._deciding_score(metric))
        candidates = settings_of(self.grid) if more is None else listed(more(None))
        rules: dict[str, Any] = {"more": more, "estimator": judged, "checkpoint": states}
        if self.early_stopping is not None:
            rules["largest"] = rules_of_race(self, scorers, metric)[1]
        if self.rounds is not None:
            self._check_rounds(candidates)
            rules["sizes"] = checked_rounds(self.rounds, min(row_numbers(train).size for train, _ in splits))
        follows = self._follows()
        score = self._deciding_score(metric) if follows else ""
        parts = (self, fits_of, candidates, splits, routed)
        with ExitStack() as stack:
            if self.cluster is not None:
                rules["workers"] = stack.enter_context(self._workers())
            schedule = Schedule(*parts, metric=score, follows=follows, monitor=monitor, **rules)
            schedule.fit(X, y)
        schedule.warn()
        self.stopped_, self.reason_, self.n_splits_ = schedule.stopped, schedule.reason, len(splits)
        self.multimetric_ = schedule.multimetric_
        if self.rounds is not None:
            self.rounds_ = schedule.rounds
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        self.cv_results_ = results = schedule.results_of_all()
        if self.refit or not self.multimetric_:
            if callable(self.scoring) and self.multimetric_:
                self._check_refit_for_multimetric({name[10:]: 0 for name in results if name.startswith("mean_test_")})
                metric = self.refit
            self.best_index_ = self._select_best_index(self.refit, metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]

    def __sklearn_clone__(self) -> KernelSearchCV:
        """Return an unfitted search with the same client, which cannot be copied."""
        alone = copy(self)
        alone.cluster = None
        cloned: KernelSearchCV = super(KernelSearchCV, alone).__sklearn_clone__()
        cloned.cluster = self.cluster
        return cloned

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"cluster": address_of(self.cluster)}

    def _workers(self) -> AbstractContextManager[Workers]:
        """Return the workers of the cluster."""
        if hasattr(self.scoring, "of_folds"):
            raise ValueError("a scorer of all folds together needs them in one process: leave cluster out.")
        return workers_of(self.cluster)

    def _memory_of_all(self) -> int | None:
        """The smaller of the search's and its machine's limits, in bytes; None is what a Gram matrix has by default."""
        search_limit, its = (
            check_whole("memory_limit", limit, unit="bytes", at_least=0)
            for limit in (self.memory_limit, getattr(machine_of(self.estimator), "memory_limit", None))
        )
        return search_limit if its is None else min(its, DEFAULT_MEMORY_LIMIT if search_limit is None else search_limit)

    def _run_search(self, evaluate_candidates: Any) -> None:
        """Never called: see :class:`PrefittedSearchCV`."""
        raise AssertionError


def _groups_of_probabilities(best: Any, groups: Any) -> dict[str, Any]:
    """Return the argument of `fit` by which probabilities of the best machine are calibrated by groups, if any."""
    machine = machine_of(best)
    if groups is None or not isinstance(machine, HasProbabilities) or not machine._has_probabilities():
        return {}
    return {f"{path_of(best)}groups": groups}
