"""`mercer.study`: a whole study of a table in Python, with the options of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from mercer.approximate import AUTO
from mercer.data import Limits, TableError, check_callback, check_choice, check_count, check_seconds, warn_user
from mercer.solvers import StageProgress, reported
from mercer.studies.approximation import Approximation
from mercer.studies.arranged import Copies
from mercer.studies.candidates import KernelOption
from mercer.studies.costs import ClassWeight, Cost, costs_of_file
from mercer.studies.inputs import column_name, names_of, read_input, with_target, without_rare_classes
from mercer.studies.ledger import SEALED_MODEL, Looks, earlier_folders, free_folder
from mercer.studies.models import save_model, writable_folder
from mercer.studies.protocol import study as studied
from mercer.studies.report.presenter import Presenter
from mercer.studies.report.prose import before_the_look
from mercer.studies.result import Study
from mercer.studies.sealed_study import SealedStudy
from mercer.studies.search import SearchStopped
from mercer.studies.tables import MAX_LEVELS, DateOrder, MissingPolicy, Task
from mercer.studies.time_budget import PAGE

_OF_PROTOCOL = {"n_folds": "folds", "time_column": "time"}
_NAMES = re.compile("|".join(_OF_PROTOCOL))
"""Parameters of the protocol in messages, as they are called here and on the command line."""


def study(
    table: Any,
    target: Any = None,
    *,
    task: Task = "auto",
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    categorical: str | Iterable[str] = (),
    text: str | Iterable[str] = (),
    dates: str | Iterable[str] = (),
    date_order: DateOrder | None = None,
    max_levels: int = MAX_LEVELS,
    missing: MissingPolicy = "impute",
    format: str | None = None,
    sep: str | None = None,
    decimal: Literal[".", ","] | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    na: str | Iterable[str] = (),
    limits: Limits | None = None,
    merge: str | Iterable[str] = (),
    groups: str | None = None,
    time: str | None = None,
    copies: Copies = "together",
    seed: int = 0,
    test_size: float = 0.25,
    kernel: KernelOption | Iterable[KernelOption] | None = None,
    approximation: Approximation = AUTO,
    class_weight: ClassWeight | None = None,
    rare: Literal["merge", "drop"] | None = None,
    cost: Cost | str | Path | None = None,
    scoring: str | None = None,
    folds: int = 5,
    max_seconds: float | None = None,
    repeats: int = 0,
    keep_sealed: bool = False,
    checkpoint: str | Path | None = None,
    out: str | Path | None = None,
    force: bool = False,
    verbose: int = 1,
    callback: Callable[[StageProgress], object] | None = None,
) -> Study | SealedStudy:
    """Find, certify and honestly evaluate a support vector machine for a table.

    First, a test part is sealed. On the other rows, kernel, gamma and C (and epsilon for numbers) are chosen by
    cross-validation. Everything that is learnt from data (imputation, scaling, levels, the target's scale) is learnt
    inside the folds. The best machine is then fitted again on all these rows and certified. Logistic regression (ridge
    regression for numbers), nearest neighbours and, for dense rows, gradient boosting go through the same folds.
    Finally, the seal is opened once, for all machines.

    If the table is wide, such as text, linear machines are judged first, on all rows. With several classes of text, a
    linear machine tells each class from the rest. Without a time limit, kernels are then tried only if that takes about
    half a minute at most.

    Before that, only this is used of the sealed rows: their number, the names of the columns, and their targets, which
    name the classes and stratify the split (by ranges, if targets are numbers). Two checks also read them. Sealed
    targets that are numbers are refused if all of them, except at most one, are equal. A table is refused if a sealed
    row has a cell that cannot be used. No choice depends on anything else in the sealed rows.

    The options are those of the command `mercer study`, with the same names and defaults.

    Parameters
    ----------
    table : data frame, dict, matrix, Table, str or Path
        A data frame of pandas, polars or Arrow; a dict of columns; a matrix, whose columns are "0", "1", ...; or the
        path of a CSV, TSV, Excel, Parquet or svmlight file.
    target : str or array-like, optional
        Column of classes or numbers: its name, or its cells. Rows in which it is missing are left out. Only an svmlight
        file needs none.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" takes text and few different numbers for classes, many for a quantity; `column_choice.truth.reading` of
        the result says what was taken and why.
    drop : str or iterable of str
        Columns not to use.
    keep : str or iterable of str
        Columns to use although they look like row identifiers.
    categorical, text, dates : str or iterable of str
        Columns of categories; of free text, whose words are used; of dates or times, whose parts are used. Other
        columns hold what they look like.
    date_order : {"dmy", "mdy"}, optional
        How dates such as 3/4/2024 are read; by default as all dates of their column can be read.
    max_levels : int, default=10000
        Largest number of values of a column of categories that get an indicator each, the most frequent first.
    missing : {"impute", "error", "drop"}, default="impute"
        What to do with missing cells: fill them in, refuse the table, or leave out their rows.
    format, sep, decimal, encoding, sheet, na, limits, merge
        How a file is read: see `mercer.studies.models.read_table`. They are for paths.
    groups : str, optional
        Column whose equal values mark rows that belong together, such as those of a patient: they are on one side of
        the seal and of each fold, and intervals count them as dependent. It is not used to predict, unless kept.
    time : str, optional
        Column of times or numbers: the last rows are sealed, and each fold is judged on rows after those that it learnt
        from. It is not used to predict, unless kept. With `groups`, each row counts as late as the last one of its
        group: groups stay together, and no row is learnt from that is later than the last row of a sealed group.
    copies : {"together", "apart"}, default="together"
        Rows that are equal in all columns used are kept on one side of the seal and of each fold, unless there are so
        few different values that rows are equal by chance. So are groups of nearly equal rows, unless `groups` or
        `time_column` is given. "apart" treats each row as one of its own.
    seed : int, default=0
        Of the splits; all else is deterministic.
    test_size : float, default=0.25
        Share of the rows (or groups) to seal.
    kernel : {"linear", "poly", "rbf"}, str, Kernel or iterable of these, optional
        Kernels to try: families by their names, a text such as "Spectrum(3) on seq + RBF on rest", or a kernel such as
        ``Tanimoto().on("fp")``. Of a text or a kernel, C and the gammas that it leaves open are chosen. By default all
        families, and on columns of sequences kernels of words.
    approximation : {"auto", "landmarks", "cells"}, Landmarks, Cells or None, default="auto"
        How machines with a kernel are trained. None is exact, and "landmarks" and "cells" are approximate; see
        :class:`mercer.SVC`. "auto" is exact for fewer than 20,000 rows that are not sealed, and for fewer than 75,000
        whose final fit ends in time. On more rows, kernel and settings are chosen by exact machines of 10,000 rows.
        Then a pilot compares an exact machine, landmarks and cells, and the chosen one is judged on all rows. The text
        says what was chosen, what each would have taken, and how far the machine is from the exact one. With an
        approximation that is asked for, exact machines of 10,000 rows choose among kernels and settings, and the best
        few are judged again by the approximation on all rows.
    class_weight : str or mapping, optional
        What each row of a class counts in training: "balanced" for n / (K n_k), a mapping from labels to weights, or
        text such as "sick=3,well=1". Without it rows count alike, but with the scores "balanced_accuracy" and "f1" the
        weights are balanced, and with `cost` they follow from the costs; "none" prevents this.
    rare : {"merge", "drop"}, optional
        Classes of too few rows for the protocol: make one class of them, or leave their rows out. By default they are
        refused or kept.
    cost : str or mapping, optional
        Costs of wrong predictions: text such as "sick:well=5" (predicting well for sick costs 5) or a mapping from
        (true, predicted) labels to costs; those that are not named are 1. The machine's decision values become
        probabilities, calibrated on folds, and the prediction is the class with the least expected cost. Settings are
        chosen by the mean cost unless `scoring` names another score.
    scoring : str, optional
        What settings are chosen by. For classes "accuracy", "balanced_accuracy", "roc_auc", "f1" (of the rarer of two
        classes, or the mean over several) or "log_loss" (of calibrated probabilities); by default the accuracy, in
        which rows count by their class weights. For numbers "r2" (default), "mae" or "rmse".
    folds : int, default=5
        Folds of the cross-validation.
    max_seconds : float, optional
        Time limit of the study. Its stages get shares of the time that is left: they are then cut short or left out,
        and `cuts` of the result says so. A candidate whose final fit would take too long is not chosen, and if a final
        fit is stopped before the machine has learnt, the best candidate that can be finished takes its place. If not
        even one candidate can be judged in time, a linear machine with C = 1 is trained, unless `kernel` excludes it;
        that may take some seconds more than the limit. The split, the encoding and the predictions of the sealed rows
        are complete in any case.
    repeats : int, default=0
        How often the whole choice is repeated on other splits of the rows that are not sealed, to see how much the
        split matters: kernel and settings are chosen by folds of one part and judged by the other part.
    keep_sealed : bool, default=False
        Whether to end before the seal is opened, so that options can be compared by the folds alone. The method `open`
        of the result, or a study with the same options, opens it.
    checkpoint : str or Path, optional
        Folder where finished work is written: judged candidates, machines to compare with, the points of the final fit,
        the learning curve, and repetitions. If the process is killed, the same call continues from there. A folder that
        belongs to another table, other options or another version is refused; it stays: delete it in the end. Not with
        `max_seconds`.
    out : str or Path, optional
        Folder that page and model are written to, as by the method `save` of the result. Looks at sealed rows are then
        counted in the ledger of the folder; without it, they are counted until Python ends.
    force : bool, default=False
        Whether a study in this folder is written over. Otherwise, `out` with a number added is used.
    verbose : int, default=1
        0 shows no progress. Otherwise, a bar shows the stage and the time left, in a terminal and in a notebook.
    callback : callable, optional
        Called with a :class:`mercer.solvers.StageProgress` now and then, during the search also by the thread that
        trains machines.

    Returns
    -------
    Study
        A notebook shows it as the page. `estimator_` is a fitted estimator of scikit-learn, `summary()` says what was
        found, `to_frame()` has the scores of all machines, and `open_html()`, `to_json()` and `save(folder)` write
        them. With `keep_sealed`, a `SealedStudy`.

    Raises
    ------
    TableError
        For a table, a target or an option that cannot be studied; the messages say why and what to do.
    SearchStopped
        If the search was interrupted before one cell was finished, or had no time for one and `kernel` excludes
        linear machines.
    KeyboardInterrupt
        On Ctrl-C outside the search. In the search the first one ends the search alone; a second one raises.

    Warns
    -----
    TableWarning
        For columns that are read in another way than they may have been meant.
    UserWarning
        If these rows were studied before: the test score is then no longer clean.

    Examples
    --------
    >>> import mercer
    >>> from sklearn.datasets import load_iris
    >>> table = load_iris(as_frame=True).frame
    >>> study = mercer.study(table, target="target", kernel="rbf", max_seconds=60, verbose=0)
    >>> study.estimator_.classes_
    array([0, 1, 2])
    >>> study.to_frame()["machine"][0]
    'support vector machine'
    """
    began = perf_counter()
    check_seconds(max_seconds)
    check_callback(callback)
    check_count("folds", folds, at_least=2)
    as_text = (*names_of(categorical), *names_of(text), *names_of(dates))
    reading = {
        "format": format,
        "sep": sep,
        "decimal": decimal,
        "encoding": encoding,
        "sheet": sheet,
        "na": names_of(na),
        "limits": limits,
        "merge": names_of(merge),
    }
    rows, source = read_input(table, as_text, reading)
    groups, time = column_name("groups", groups), column_name("time", time)
    rows, target = with_target(rows, target, table)
    if rare is not None:
        check_choice("rare", rare, ("merge", "drop"))
        rows, note = without_rare_classes(rows, target, task, rare, test_size=test_size, folds=folds)
        if note is not None:
            warn_user(str(note), UserWarning)
    costs = costs_of_file(cost) if isinstance(cost, str | Path) and Path(cost).is_file() else cost
    options: dict[str, Any] = {
        "task": task, "drop": names_of(drop), "keep": names_of(keep), "categorical": names_of(categorical),
        "text": names_of(text), "dates": names_of(dates), "date_order": date_order, "max_levels": max_levels,
        "missing": missing, "groups": groups, "time_column": time, "copies": copies, "seed": seed,
        "test_size": test_size, "kernel": kernel, "approximation": approximation, "class_weight": class_weight,
        "cost": costs, "scoring": scoring,
        "n_folds": folds, "repeats": repeats, "keep_sealed": keep_sealed,
        "checkpoint": checkpoint,
    }  # fmt: skip
    asked = None if out is None else Path(out)
    place = nullcontext() if asked is None else writable_folder(asked if force else free_folder(asked))
    with place as folder:
        others = [*([] if asked is None else earlier_folders(asked)), Path.cwd()]
        if isinstance(table, str | Path):
            others.append(Path(table).parent)
        looks = Looks(rows, target, source=source, folder=folder, others=others)
        if looks.earlier and not keep_sealed:
            warn_user(before_the_look(looks.earlier), UserWarning)
        with reported(verbose, callback, every=None) as progress:
            left = max_seconds
            if max_seconds is not None:
                left = max(0.0, max_seconds * (1.0 if folder is None else 1.0 - PAGE) - (perf_counter() - began))
            try:
                run = studied(
                    rows,
                    target,
                    max_seconds=left,
                    looks=looks,
                    progress=progress,
                    presenter=Presenter(source),
                    **options,
                )
            except TableError as error:
                hint = None if error.hint is None else _NAMES.sub(lambda name: _OF_PROTOCOL[name[0]], error.hint)
                raise TableError(_NAMES.sub(lambda name: _OF_PROTOCOL[name[0]], str(error)), hint) from error
            except SearchStopped as stopped:
                if str(stopped) != "interrupted":
                    stopped.add_note("raise max_seconds, or let the study choose linear machines: kernel=None")
                raise
        if folder is not None and isinstance(run, Study):
            run.save(folder, force=True)
        elif folder is not None:
            save_model(folder / SEALED_MODEL, run.model)
    return run
