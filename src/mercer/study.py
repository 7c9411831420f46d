"""A whole study on a table: one protocol, from sealing a test part to opening it once."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
import scipy
import sklearn

import mercer
from mercer import multiclass, solvers
from mercer.certificate import Certificate
from mercer.data import as_data
from mercer.encoding import Missing, TableEncoder
from mercer.estimators.validation import check_number
from mercer.gram import Gram
from mercer.intake import Intake, Labels, MissingPolicy, Task, read_labels, take_in
from mercer.metrics import Evaluation, PairedTest, evaluate, mcnemar
from mercer.model import Model, TrainingSet, training_set
from mercer.outcome import Classes
from mercer.recipes import ForSVC
from mercer.selection.contenders import (
    Chosen,
    choose_logistic,
    choose_majority,
    choose_neighbours,
    encoded_folds,
    fit_quietly,
)
from mercer.selection.progress import Progress, fit_progress
from mercer.selection.sealed import Opening, SealedTest
from mercer.selection.search import SearchResult, search
from mercer.selection.splits import check_class_counts, check_share, stratified_folds
from mercer.table import Table, TableError, as_table

SVM = "support vector machine"


@dataclass(frozen=True, eq=False)
class Contender:
    """One machine of the comparison: how it was set, and what it scored under the common protocol.

    `search_seconds` is what choosing its setting took, `fit_seconds` the final fit on all rows that are not sealed.
    """

    name: str
    setting: str
    n_right: tuple[int, ...]
    n_validated: int
    train: Evaluation
    test: Evaluation
    search_seconds: float
    fit_seconds: float

    @property
    def cv_accuracy(self) -> float:
        """Cross-validated accuracy of the chosen setting (that of the best of several, so a little too high)."""
        return sum(self.n_right) / self.n_validated


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that a study found out, as values.

    Attributes
    ----------
    target : str
    intake : Intake
        Which rows and columns were used, and why not the others.
    n_folds, test_size, seed
        The protocol.
    search : SearchResult
        Every cell of the search.
    model : Model
        The chosen machine, refitted on all rows that are not sealed.
    contenders : tuple of Contender
        The support vector machine first, then logistic regression, nearest neighbours and the majority class.
    margins_train, margins_test : ndarray
        Margins y f(x) of the machine; for several classes the smallest over the pairs that the true class is in.
    sealed : SealedTest
        The test part. It has been opened once; opening it again is recorded.
    opening : Opening
        The opening that the test figures come from.
    seconds : dict
        Wall-clock time of each stage.
    started : datetime
    versions : dict
        Of the programs involved.
    """

    target: str
    intake: Intake
    n_folds: int
    test_size: float
    seed: int
    search: SearchResult
    model: Model
    contenders: tuple[Contender, ...]
    margins_train: np.ndarray = field(repr=False)
    margins_test: np.ndarray = field(repr=False)
    sealed: SealedTest
    opening: Opening
    seconds: dict[str, float]
    started: datetime
    versions: dict[str, str]

    @property
    def svm(self) -> Contender:
        """The support vector machine among the contenders."""
        return self.contenders[0]

    @property
    def certificate(self) -> Certificate:
        """Certificate of the chosen machine."""
        return self.model.certificate

    def against(self, other: Contender) -> PairedTest:
        """The support vector machine and another contender on the same test rows."""
        return mcnemar(self.svm.test.right, other.test.right)

    def __repr__(self) -> str:
        accuracy = self.svm.test.accuracy
        return (
            f"Study({self.target}: {self.model.kernel!r}, C={self.search.best.C:g}, test accuracy "
            f"{accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}], {self.certificate.status})"
        )


def study(
    table: Any,
    target: str,
    *,
    task: Task = "auto",
    drop: Iterable[str] = (),
    keep: Iterable[str] = (),
    missing: MissingPolicy | None = None,
    test_size: float = 0.25,
    n_folds: int = 5,
    seed: int = 0,
    tol: float = 1e-4,
    max_seconds: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Study:
    """Find, certify and honestly evaluate a support vector machine for a table.

    A test part is sealed first. On the rest, kernel, gamma and C are chosen by cross-validation, with everything that
    is learnt from data (imputation, scaling, levels) learnt inside the folds; the winner is refitted and certified, and
    logistic regression and nearest neighbours go through the same folds. Then the seal is opened, once, for all.

    What is known of the sealed rows before: that they exist, which columns the table has, and their targets, by which
    the classes are named and the split is stratified. Besides, their cells are checked for whether they can be used at
    all, and a table with one that cannot is refused at the start. Nothing else about them has a part in any choice.

    Parameters
    ----------
    table : Table or data frame
    target : str
        Column of classes. Rows in which it is missing are left out.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" refuses a target of many different numbers, which is a quantity.
    drop : iterable of str
        Columns not to use.
    keep : iterable of str
        Columns to use although they look like row identifiers or dates.
    missing : {"impute", "drop"}, optional
        What to do about missing cells: fill them in, or leave these rows out. None (default) refuses them.
    test_size : float, default=0.25
        Share of the rows to seal.
    n_folds : int, default=5
        Folds of the cross-validation.
    seed : int, default=0
        Of the splits; all else is deterministic.
    tol : float, default=1e-4
        KKT violation to which the final machine is solved.
    max_seconds : float, optional
        The search ends then, and the study goes on with the best cell finished so far.
    progress : callable, optional
        Called with a `Progress` now and then.

    Returns
    -------
    Study

    Raises
    ------
    TableError
        For a table or target that cannot be studied; the messages say why and what to do.
    SearchStopped
        If the search ended before one cell was finished.
    KeyboardInterrupt
        On Ctrl-C outside the search. In the search the first one ends the search alone; a second one raises.
    """
    began, started = time.perf_counter(), datetime.now(UTC)
    clock, tell = _Clock(), progress or (lambda _: None)
    table = as_table(table)
    labels = read_labels(table, target, task)
    check_share(test_size)
    check_number("tol", tol, above=0.0)
    check_class_counts(labels.names, labels.counts, test_size, n_folds)
    sealed = SealedTest(labels.codes, test_size=test_size, seed=seed)
    intake = take_in(table, labels, open_rows=labels.rows[sealed.rest], drop=drop, keep=keep, missing=missing)
    sealed = _complete_rows(sealed, labels, intake, n_folds)

    used = table.select(intake.features).take(intake.rows)
    rest, codes = used.take(sealed.rest), intake.codes[sealed.rest]
    policy: Missing = "impute" if missing == "impute" else "error"
    training = training_set(
        table.select([*intake.features, target]), target, rows=intake.rows[sealed.rest], missing=policy
    )
    sealed.check(lambda rows: training.encoder.transform(used.take(rows)))
    tell(Progress("comparison"))
    folds = encoded_folds(rest, codes, stratified_folds(codes, n_folds, seed), policy)
    others = [choose(folds, len(intake.labels)) for choose in (choose_logistic, choose_neighbours, choose_majority)]
    clock.lap("choosing the machines to compare with")

    left = None if max_seconds is None else max(0.0, max_seconds - (time.perf_counter() - began))
    interruption = solvers.Interruption()
    found = search(folds, len(intake.labels), max_seconds=left, interruption=interruption, progress=progress)
    if interruption.insisted:
        raise KeyboardInterrupt
    clock.lap("search")

    model = _refit(training, found, tol, tell)
    clock.lap("final fit and certificate")

    trained = [_trained_svm(found, model, clock.seconds["final fit and certificate"])]
    trained += [_trained_other(chosen, model.encoder, rest, codes) for chosen in others]
    tell(Progress("test"))
    unsealed = sealed.open(
        lambda rows: _judged(trained, model, used.take(rows), intake.codes[rows], intake.labels),
        "final estimate of the study",
    )
    on_test, margins_test = unsealed.value
    on_rest, margins_train = _judged(trained, model, rest, codes, intake.labels)
    contenders = tuple(
        Contender(one.name, one.setting, one.n_right, len(codes), train, test, one.search_seconds, one.fit_seconds)
        for one, train, test in zip(trained, on_rest, on_test, strict=True)
    )
    clock.lap("comparison and test")
    return Study(
        target=target,
        intake=intake,
        n_folds=n_folds,
        test_size=test_size,
        seed=seed,
        search=found,
        model=model,
        contenders=contenders,
        margins_train=margins_train,
        margins_test=margins_test,
        sealed=sealed,
        opening=unsealed.opening,
        seconds=clock.seconds,
        started=started,
        versions=versions(),
    )


def _complete_rows(sealed: SealedTest, labels: Labels, intake: Intake, n_folds: int) -> SealedTest:
    """The seal over the rows that are used, where those with missing cells are left out on either side of it."""
    kept = np.searchsorted(labels.rows, intake.rows)
    sealed = sealed.restrict(kept)
    codes = labels.codes[kept]
    n_open = np.bincount(codes[sealed.rest], minlength=len(labels.names))
    n_sealed = np.bincount(codes, minlength=len(labels.names)) - n_open
    for name, ours, theirs in zip(labels.names, n_open, n_sealed, strict=True):
        if ours < n_folds or not theirs:
            raise TableError(
                f"missing=drop leaves the class {name!r} with {ours} rows to choose from and {theirs} sealed ones, and "
                f"it needs {n_folds} and 1",
                "fill cells in with missing=impute, or leave out columns with many missing cells",
            )
    return sealed


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers may depend on."""
    packages = {"mercer": mercer, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": platform.python_version()} | {name: package.__version__ for name, package in packages.items()}


def _refit(training: TrainingSet, found: SearchResult, tol: float, tell: Callable[[Progress], None]) -> Model:
    """The best cell's machine on all rows that are not sealed, certified.

    A first Ctrl-C ends the fit, and the certificate says how far it got; one that follows another ends the study.
    """
    tell(Progress("final fit"))
    best = found.best
    outcome = cast(Classes, training.outcome)
    n_classes = len(outcome.labels)
    kernel = best.choice.kernel(training.X)
    with solvers.Interruption() as interruption:
        machines = multiclass.train(
            Gram(kernel, as_data(training.X), keep_rows=n_classes > 2, evaluate_once=n_classes > 2),
            training.truth,
            n_classes,
            best.C,
            limits=solvers.Limits(tol=tol),
            callback=lambda progress: tell(fit_progress("final fit", progress)),
            interruption=interruption,
        )
        model = training.model(ForSVC(C=best.C), kernel, machines.solutions, np.ones(n_classes))
    if interruption.insisted or (interruption.requested and found.stopped == "interrupted"):
        raise KeyboardInterrupt
    return model


@dataclass(frozen=True)
class _Trained:
    """A machine ready to be judged: `answer` gives predicted class numbers and scores for the rows of a table."""

    name: str
    setting: str
    n_right: tuple[int, ...]
    search_seconds: float
    fit_seconds: float
    answer: Callable[[Table], tuple[np.ndarray, np.ndarray | None]]

    def judge(self, part: Table, codes: np.ndarray, labels: list[str]) -> Evaluation:
        predicted, scores = self.answer(part)
        return evaluate(codes, predicted, scores, labels)


def _judged(
    trained: list[_Trained], model: Model, part: Table, codes: np.ndarray, labels: list[str]
) -> tuple[list[Evaluation], np.ndarray]:
    """Figures of all contenders on some rows, and the margins of the support vector machine."""
    margins = cast(Classes, model.outcome).margins(model.decision_values(part), codes)
    return [one.judge(part, codes, labels) for one in trained], margins


def _trained_svm(found: SearchResult, model: Model, fit_seconds: float) -> _Trained:
    def answer(part: Table) -> tuple[np.ndarray, np.ndarray]:
        scores = model.scores(part)
        return multiclass.winners(scores), scores

    best = found.best
    return _Trained(SVM, best.setting_with(model.kernel), best.n_right, found.seconds, fit_seconds, answer)


def _trained_other(chosen: Chosen, encoder: TableEncoder, rest: Table, codes: np.ndarray) -> _Trained:
    """A machine of scikit-learn on the same encoding, or the majority class where there is no estimator."""
    start = time.perf_counter()
    estimator = chosen.estimator
    if estimator is None:
        majority = int(np.bincount(codes).argmax())

        def answer(part: Table) -> tuple[np.ndarray, np.ndarray | None]:
            return np.full(part.n_rows, majority), None
    else:
        fit_quietly(estimator, encoder.transform(rest), codes)

        def answer(part: Table) -> tuple[np.ndarray, np.ndarray | None]:
            X = encoder.transform(part)
            probabilities = estimator.predict_proba(X)
            return estimator.predict(X), probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities

    return _Trained(chosen.name, chosen.setting, chosen.n_right, chosen.seconds, time.perf_counter() - start, answer)


class _Clock:
    """Wall-clock time of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage], self._last = now - self._last, now
