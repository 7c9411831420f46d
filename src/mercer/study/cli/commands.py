"""The commands."""

from __future__ import annotations

import csv
import math
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import click

from mercer import __version__
from mercer.study.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.study.cli.messages import Failure, printable, say

if TYPE_CHECKING:
    import numpy as np

    from mercer import InseparableError
    from mercer.persistence import Model
    from mercer.tables import Table, Truth


class _Integer(click.IntRange):
    name = "integer"  # "'abc' is not a valid integer", where click has "integer range"


class _Number(click.FloatRange):
    name = "number"


class _AnyNumber(click.types.FloatParamType):
    name = "number"


_positive = _Number(min=0, min_open=True)

table_argument = click.argument("table", metavar="TABLE")
target_option = click.option("--target", metavar="COLUMN", help="Column to predict (svmlight files: label).")
drop_option = click.option("--drop", metavar="COLUMN", multiple=True, help="Column not to use; may be repeated.")
keep_option = click.option(
    "--keep", metavar="COLUMN", multiple=True, help="Column to use although it looks like a row identifier or dates."
)
missing_option = click.option(
    "--missing", type=click.Choice(["impute", "drop"]), help="Fill missing cells in, or leave their rows out."
)
task_option = click.option(
    "--task",
    type=click.Choice(["auto", "classification", "regression"]),
    default="auto",
    show_default=True,
    help="What the target is.",
)
seconds_option = click.option("--max-seconds", type=_positive, help="Time limit of the search or the fit.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mercer")
def cli() -> None:
    """Support vector machines that are exact, certified and honestly evaluated."""


@cli.command("study")
@table_argument
@target_option
@click.option("--out", metavar="DIR", help="Folder for report and model  [default: TABLE's name with -study]")
@task_option
@drop_option
@keep_option
@missing_option
@click.option("--seed", type=_Integer(0, 2**32 - 1), default=0, show_default=True, help="Of the splits.")
@click.option(
    "--test-size",
    type=_Number(0, 1, min_open=True, max_open=True),
    default=0.25,
    show_default=True,
    help="Share of the rows to seal away.",
)
@click.option("--folds", type=_Integer(min=2), default=5, show_default=True, help="Of the cross-validation.")
@seconds_option
@click.pass_obj
def study_command(
    arguments: list[str], /, table: str, target: str | None, out: str | None, folds: int, **options: Any
) -> None:
    """Find, certify and honestly evaluate a machine for a TABLE (CSV, Parquet or svmlight).

    A test part is sealed first; kernel, gamma and C (for numbers epsilon too) are chosen on the rest by
    cross-validation; the seal is opened once. Logistic regression (for numbers ridge regression) and nearest neighbours
    go through the same protocol. Ctrl-C ends the search and goes on with the best candidate so far; before the search
    has begun, and a second time, it ends everything.
    """
    with ended_by_ctrl_c():
        from mercer.persistence import read_table, save_model
        from mercer.study.cli.output import print_study
        from mercer.study.cli.progress import ConsoleProgress
        from mercer.study.protocol import study
        from mercer.study.report.page import write_report
        from mercer.study.search import SearchStopped

    if out == "":
        raise click.UsageError("--out names no folder", click.get_current_context())
    read = read_table(table)
    name = Path(table).name
    with _writable_folder(Path(out if out is not None else f"{_stem(name)}-study")) as folder:
        try:
            with ConsoleProgress() as progress:
                found = study(read, _target(read, target), n_folds=folds, progress=progress, **options)
        except SearchStopped as stopped:
            raise Failure(
                f"the search ended ({stopped}) before one candidate was finished; nothing was written",
                *((None, INTERRUPTED) if str(stopped) == "interrupted" else ("give it more time with --max-seconds",)),
            ) from stopped
        _say_reading(found.column_choice.truth)
        save_model(folder / "model.mercer", found.model)
        write_report(folder / "report.html", found, source=name, command=shlex.join(["mercer", *arguments]))
    print_study(found)
    _say_written(folder / "report.html", folder / "model.mercer")


@cli.command("fit")
@table_argument
@target_option
@click.option("--out", metavar="MODEL", required=True, help="Model file to write.")
@click.option("--kernel", type=click.Choice(["linear", "poly", "rbf", "sigmoid"]), default="rbf", show_default=True)
@click.option(
    "--C",
    "C",
    type=_Number(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Penalty; inf is the maximal margin.",
)
@click.option(
    "--epsilon",
    type=_Number(min=0),
    default=0.1,
    show_default=True,
    help="Regression: half of the tube's width, in standard deviations of the target, as is the unit of --C.",
)
@click.option("--gamma", default="scale", show_default=True, help="A number, scale or auto; for rbf, median or sigest.")
@click.option("--degree", type=_Integer(min=1), default=3, show_default=True, help="Of the polynomial kernel.")
@click.option(
    "--coef0", type=_AnyNumber(), default=0.0, show_default=True, help="Of the polynomial and sigmoid kernels."
)
@click.option(
    "--multi-class",
    type=click.Choice(["ovo", "ovr", "joint"]),
    default="ovo",
    show_default=True,
    help="Of several classes: a machine for each pair, one for each against the rest, or one for all.",
)
@click.option("--probability", is_flag=True, help="Classification: know the probability of each class, too.")
@click.option("--tol", type=_positive, default=1e-3, show_default=True, help="Largest KKT violation.")
@click.option("--tol-gap", type=_positive, help="Largest relative duality gap  [default: whatever --tol leaves]")
@task_option
@drop_option
@keep_option
@missing_option
@seconds_option
def fit_command(
    table: str,
    target: str | None,
    out: str,
    gamma: str,
    epsilon: float,
    multi_class: str,
    probability: bool,
    task: Any,
    drop: tuple[str, ...],
    keep: tuple[str, ...],
    missing: Any,
    **parameters: Any,
) -> int:
    """Train one machine on all rows of a TABLE, certify it, and write it to a file.

    With --probability it is calibrated on rows that were left out, and `mercer predict` adds a column for each class.

    Ctrl-C ends the training early: the machine so far is written, unless there is a file of that name already.
    """
    with ended_by_ctrl_c():
        from mercer import SVC, SVR, InseparableError
        from mercer.persistence import fit_model, read_table, save_model
        from mercer.solvers import StageProgress, fit_progress
        from mercer.study.cli.output import print_fit
        from mercer.study.cli.progress import ConsoleProgress
        from mercer.study.report.prose import left_out, why_left_out
        from mercer.tables import DATES, choose_columns, read_target

    read = read_table(table)
    name = _target(read, target)
    path = Path(out)
    _check_output(path, inputs=(table,), mode="wb")
    truth = read_target(read, name, task)
    _check_options(parameters["kernel"], truth.task)
    if probability and multi_class == "joint":
        raise click.UsageError("--probability is for --multi-class ovo and ovr", click.get_current_context())
    _say_reading(truth)
    column_choice = choose_columns(read, truth, drop=drop, keep=keep, missing=missing)
    of_classes: dict[str, Any] = {"multi_class": multi_class, "probability": probability}
    own = {"epsilon": epsilon} if truth.task == "regression" else of_classes
    kind = SVR if truth.task == "regression" else SVC
    with ConsoleProgress() as progress:
        progress(StageProgress("fit"))
        machine = kind(
            gamma=_number_or_rule(gamma),
            callback=lambda state: progress(fit_progress("fit", state)),
            **own,
            **parameters,
        )
        began = time.perf_counter()
        try:
            model = fit_model(
                read.select([*column_choice.features, name]),
                name,
                machine,
                rows=column_choice.rows,
                keep=column_choice.features,
                missing="impute" if missing == "impute" else "error",
            )
        except InseparableError as error:
            raise _inseparable(error) from error
    took, interrupted = time.perf_counter() - began, model.certificate.status == "interrupted"
    lacks = probability and not model.has_probabilities
    out_of_time = lacks and not interrupted and took >= (parameters["max_seconds"] or math.inf)
    if (interrupted or lacks) and path.exists():
        why = "there was no time for probabilities" if out_of_time else "interrupted"
        raise Failure(why, f"{path} is as it was", 1 if out_of_time else INTERRUPTED)
    save_model(path, model)
    for reason, columns in left_out(column_choice, model).items():
        if reason != DATES:  # of which there has been a warning
            say("note", why_left_out(reason, columns))
    print_fit(model)
    if lacks:
        say("warning", "the model knows no probabilities: these come from a pass after the fit, which did not end")
    status = "time_limit" if out_of_time else "interrupted" if lacks else model.certificate.status
    if status in _WHAT_NEXT:
        say("hint", _WHAT_NEXT[status].format(or_lower=_what_to_lower(parameters["kernel"])))
    _say_written(path)
    return INTERRUPTED if status == "interrupted" else 0


_OWN_OPTIONS = {
    "gamma": ("--kernel poly, rbf and sigmoid", {"poly", "rbf", "sigmoid"}),
    "degree": ("--kernel poly", {"poly"}),
    "coef0": ("--kernel poly and sigmoid", {"poly", "sigmoid"}),
    "epsilon": ("regression", {"regression"}),
    "multi_class": ("classification", {"classification"}),
    "probability": ("classification", {"classification"}),
}
"""Options that not all kernels or tasks have: what they are for, in words and as `--kernel` or the task."""


def _check_options(kernel: str, task: str) -> None:
    """An error for an option that means nothing for the kernel or the task."""
    context = click.get_current_context()
    for option, (wanted, whose) in _OWN_OPTIONS.items():
        given = context.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT
        if given and whose.isdisjoint({kernel, task}):
            here = f"--kernel {kernel}" if wanted.startswith("--kernel") else task
            raise click.UsageError(f"--{option.replace('_', '-')} is for {wanted}, and this is {here}", context)


_WHAT_NEXT = {
    "time_limit": "give it more time with --max-seconds",
    "interrupted": "run the command again and let it finish",
    "stalled": "ask for less with a larger --tol, or lower {or_lower}",
}
"""What to do about a machine that is not optimal, by its status."""


def _what_to_lower(kernel: str) -> str:
    """The options of this kernel that leave less to rounding where they are smaller."""
    options = ["--C", *(f"--{option}" for option in ("gamma", "degree") if kernel in _OWN_OPTIONS[option][1])]
    return " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))


def _inseparable(error: InseparableError) -> Failure:
    n = int((error.weights > 0.0).sum())
    return Failure(
        "--C inf needs classes that can be separated, which they cannot with this kernel: weighted means of "
        f"{n} of their rows coincide (distance {error.distance:.2g})",
        "give a finite --C, or another --kernel",
    )


@cli.command("predict")
@click.argument("model", metavar="MODEL")
@table_argument
@click.option("--out", metavar="FILE", help="CSV file to write  [default: stdout]")
def predict_command(model: str, table: str, out: str | None) -> None:
    """Predict the rows of a TABLE: a CSV line for each, with its label and its decision value(s), or its number.

    For two classes there is one decision value, positive for the class that its column names; for more there is a
    score for each. Where the model knows the probability of each class, these follow. Labels are written as the
    training table had them, also those that a spreadsheet would take for a formula.
    """
    with ended_by_ctrl_c():
        from mercer.tables import Classes

    loaded = _load(model)
    if out is not None:
        _check_output(Path(out), inputs=(model, table))
    read = _read_for(loaded, table)
    answers, scores = loaded.answer(read)
    columns = loaded.prediction_kind.columns(scores, answers)
    if isinstance(loaded.prediction_kind, Classes) and loaded.has_probabilities:
        shares = loaded.probabilities(read).T.tolist()
        columns |= {f"probability_{name}": one for name, one in zip(loaded.prediction_kind.names, shares, strict=True)}
    with _output(out) as file:
        # Data stay what they are in a file or a pipe, where a changed label would no longer match the table's. A
        # terminal obeys control characters, so there they are spelt out.
        shown = printable if file.isatty() else str
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([shown(name) for name in columns])
        for row in zip(*columns.values(), strict=True):
            writer.writerow([repr(cell) if isinstance(cell, float) else shown(str(cell)) for cell in row])
    _compare_with_truth(loaded, read, answers)


@cli.command("verify")
@click.argument("model", metavar="MODEL")
@table_argument
def verify_command(model: str, table: str) -> int:
    """Recompute the certificate of a MODEL from the TABLE that it was trained on.

    Exit status 1 if it is another table, or if a number does not agree.
    """
    with ended_by_ctrl_c():
        from mercer.persistence import verify
        from mercer.study.cli.output import print_verification

    loaded = _load(model)
    verification = verify(loaded, _read_for(loaded, table))
    print_verification(loaded, verification)
    for finding in verification.findings:
        say("error", finding)
    return 0 if verification.ok else 1


@cli.command("convert")
@click.argument("source", metavar="SOURCE")
@click.argument("out", metavar="OUT")
@click.option("--model", metavar="MODEL", help="SOURCE is a table; write its rows as this model encodes them.")
def convert_command(source: str, out: str, model: str | None) -> None:
    """Write a model as a LIBSVM model file, or with --model a table as the LIBSVM data file that goes with it.

    LIBSVM's svm-predict takes both and prints what `mercer predict` does, but for tied votes. Its labels are numbers:
    classes that are text become 0, 1, ... in their order, and a row without a label that the model knows gets the
    number after the last one. A LIBSVM model file cannot become a model file, which holds a certificate.
    """
    with ended_by_ctrl_c():
        import numpy as np

        from mercer import save_libsvm_data, save_libsvm_model
        from mercer.persistence import class_labels
        from mercer.tables import Classes, numbers

    try:
        loaded = _load(source if model is None else model)
    except ValueError as error:
        if model is None and _is_libsvm_model(source):
            raise Failure(
                f"{source} is a LIBSVM model file, which holds no training rows and no certificate: no model file can "
                "be made of it",
                "mercer.load_libsvm_model reads it in Python",
            ) from error
        raise
    inputs = (source,) if model is None else (source, model)
    _check_output(Path(out), inputs=inputs)
    prediction_kind = loaded.prediction_kind
    labels = class_labels(prediction_kind) if isinstance(prediction_kind, Classes) else np.zeros(0, dtype=np.int64)
    if model is None:
        if loaded.has_probabilities:
            say("note", "the probabilities of this model are not written: LIBSVM fits its own")
        save_libsvm_model(loaded, out)
    else:
        read = _read_for(loaded, source)
        column = loaded.target if loaded.target is not None and loaded.target in read else None
        if isinstance(prediction_kind, Classes):
            codes = np.full(read.n_rows, -1) if column is None else prediction_kind.truth(read)
            targets = np.append(labels, int(labels.max()) + 1)[codes]  # the last one for a code of -1
        else:
            targets = np.zeros(read.n_rows) if column is None else np.nan_to_num(numbers(read, column))
        save_libsvm_data(loaded.encoder.transform(read), targets.tolist(), out)
    if isinstance(prediction_kind, Classes) and prediction_kind.is_text:
        meant = ", ".join(
            f"{number} is {name!r}" for number, name in zip(labels.tolist(), prediction_kind.names, strict=True)
        )
        say("note", f"labels are numbers in LIBSVM's files: {meant}")
    _say_written(Path(out))


@cli.command("doctor")
def doctor_command() -> None:
    """Print versions, instruction set and threads."""
    with ended_by_ctrl_c():
        import platform

        from mercer.gram import n_threads
        from mercer.kernels import counts_bits, multiplies_integers, select_isa
        from mercer.study.protocol import versions

    for name, version in versions().items():
        click.echo(f"{name:<20}{version}")
    click.echo(f"{'processor':<20}{platform.machine()}, native code for {select_isa()}")
    tiles = "bits" if counts_bits() else "numbers, for this instruction set does not count bits"
    click.echo(f"{'rows of two values':<20}{tiles}")
    tiles = "integers" if multiplies_integers() else "numbers, for this instruction set multiplies no others faster"
    click.echo(f"{'multiples of a step':<20}{tiles}")
    click.echo(f"{'threads':<20}{n_threads()}")


def _target(table: Table, name: str | None) -> str:
    """The target column, which need not be named where the table can have only one."""
    if name is not None:
        return name
    if table.sparse is not None:
        return table.names[0]
    raise click.UsageError("--target COLUMN is missing, the column to predict", click.get_current_context())


def _number_or_rule(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


@contextmanager
def _writable_folder(folder: Path) -> Iterator[Path]:
    """The folder, made if need be; an error before the work if nothing can be written to it."""
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise OSError(f"{folder} is a file; name a folder that --out may make") from error
    except OSError as error:
        raise _unwritable(folder, error) from error
    _check_writable(folder)
    try:
        yield folder
    except BaseException:
        if made and not any(folder.iterdir()):
            folder.rmdir()
        raise


def _stem(name: str) -> str:
    """Return the name of a file without its format and compression: data.train for data.train.csv.gz."""
    return Path(name.removesuffix(".gz")).stem


def _check_output(path: Path, inputs: tuple[str, ...], mode: Literal["w", "wb"] = "w") -> None:
    """Raise OSError before the work starts if `path` cannot be written, or is also an input."""
    from mercer.persistence import check_writable

    if check_writable(path, mode) is None:
        _check_writable(path.parent)
    elif path.is_file():
        if any(path.samefile(name) for name in inputs):
            raise OSError(f"output {path} is also an input, which it would overwrite; name another file")
        _check_writable(path.resolve().parent)


def _check_writable(folder: Path) -> None:
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> OSError:
    if isinstance(error, FileNotFoundError) and not folder.exists():
        return OSError(f"folder {folder} does not exist; make it first")
    return OSError(f"output folder {folder} cannot be written: {error.strerror}")


def _say_reading(truth: Truth) -> None:
    """Print how the target was read, if another reading is possible, and the option that changes it."""
    if truth.reading:
        other = "classification" if truth.task == "regression" else "regression"
        say("note", f"{truth.reading.removesuffix('.')} with --task {other}.")


def _say_written(*paths: Path) -> None:
    for path in paths:
        click.echo(printable(f"written: {path}"), err=True)


def _load(path: str) -> Model:
    with ended_by_ctrl_c():
        from mercer.persistence import load_model

    return load_model(path)


def _is_libsvm_model(path: str) -> bool:
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return file.read(9) == b"svm_type "


def _read_for(model: Model, path: str) -> Table:
    """A table, with the columns that the model knows as text read as text."""
    with ended_by_ctrl_c():
        from mercer.persistence import read_table

    text = {model.target} if model.target is not None and model.prediction_kind.is_text else set()
    return read_table(path, text_columns=text | set(model.encoder.text_columns))


@contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    """Stdout, or a file that appears under its name once it is complete."""
    from mercer.persistence import open_atomically

    if path is None:
        if getattr(sys.stdout, "name", "") == os.devnull:
            raise Failure("stdout is closed, so predictions have no place to go", "name a file with --out")
        yield sys.stdout
        return
    with open_atomically(path, "w") as file:
        yield file


def _compare_with_truth(model: Model, table: Table, answers: np.ndarray) -> None:
    """If the table holds the target as well, say how far the prediction agrees."""
    import numpy as np

    if model.target is None or model.target not in table:
        return
    known = ~table.missing(model.target)
    if not known.any():
        return
    note = model.prediction_kind.agreement(table, answers, np.flatnonzero(known))
    if _holds_training_rows(model, table):
        known[model.training.rows] = False
        n_trained = len(model.training.rows)
        note += f"; the model was trained on {n_trained:,} of these rows, which says little about new ones"
        if known.any():
            note += f"; of the others, {model.prediction_kind.agreement(table, answers, np.flatnonzero(known))}"
    say("note", note)


def _holds_training_rows(model: Model, table: Table) -> bool:
    """Whether this is the table that the model was trained on."""
    training = model.training
    return bool(training.rows.max() < table.n_rows) and model.training_part(table).checksum() == training.checksum
