"""`mercer convert`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from mercer.studies.cli.files import check_output, load, read, say_written
from mercer.studies.cli.imports import ended_by_ctrl_c
from mercer.studies.cli.messages import Failure, say
from mercer.studies.cli.options import OnceCommand, categorical_option, force_option, reading_options


@click.command("convert", cls=OnceCommand)
@click.argument("source", metavar="SOURCE")
@click.argument("out", metavar="OUT")
@click.option("--model", metavar="MODEL", help="SOURCE is a table; write its rows as this model encodes them.")
@force_option
@reading_options
@categorical_option
def convert_command(
    source: str, out: str, model: str | None, force: bool, reading: dict[str, Any], categorical: tuple[str, ...]
) -> None:
    """Write a model as a LIBSVM model file, or with --model a table as the LIBSVM data file that goes with it.

    LIBSVM's svm-predict takes both and prints what `mercer predict` does, but for tied votes. Its labels are numbers:
    classes that are text become 0, 1, ... in their order, and a row without a label that the model knows gets the
    number after the last one. A linear machine becomes one with the linear kernel. A LIBSVM model file cannot become a
    model file, which holds a certificate. An existing file is written over only if it is in the format of the output,
    or with --force.
    """
    with ended_by_ctrl_c():
        import numpy as np

        from mercer import save_libsvm_data, save_libsvm_model
        from mercer.studies.models import class_labels
        from mercer.studies.tables import Classes, numbers

    try:
        loaded = load(source if model is None else model)
    except ValueError as error:
        if model is None and _is_libsvm_model(source):
            raise Failure(
                f"{source} is a LIBSVM model file, which holds no training rows and no certificate: no model file can "
                "be made of it",
                "mercer.load_libsvm_model reads it in Python",
            ) from error
        raise
    inputs = (source,) if model is None else (source, model)
    check_output(Path(out), inputs, _begins_libsvm_model if model is None else _begins_libsvm_data, force=force)
    prediction_kind = loaded.prediction_kind
    labels = class_labels(prediction_kind) if isinstance(prediction_kind, Classes) else np.zeros(0, dtype=np.int64)
    if model is None:
        save_libsvm_model(out, loaded)
        if loaded.has_probabilities:
            say("note", "the probabilities of this model are not written: LIBSVM fits its own")
        if loaded.costs is not None:
            say("note", "the costs of this model are not written: LIBSVM predicts the class with the most votes")
    else:
        table = read(source, reading, text=categorical, model=loaded)
        column = loaded.target if loaded.target is not None and loaded.target in table else None
        if isinstance(prediction_kind, Classes):
            codes = np.full(table.n_rows, -1) if column is None else prediction_kind.truth(table)
            targets = np.append(labels, int(labels.max()) + 1)[codes]  # the last one for a code of -1
        else:
            targets = np.zeros(table.n_rows) if column is None else np.nan_to_num(numbers(table, column))
        save_libsvm_data(loaded.encoder.transform(table), targets.tolist(), out)
    if isinstance(prediction_kind, Classes) and prediction_kind.is_text:
        meant = ", ".join(
            f"{number} is {name!r}" for number, name in zip(labels.tolist(), prediction_kind.names, strict=True)
        )
        say("note", f"labels are numbers in LIBSVM's files: {meant}")
    say_written(Path(out))


def _is_libsvm_model(path: str) -> bool:
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return _begins_libsvm_model(file.read(9))


def _begins_libsvm_model(start: bytes) -> bool:
    return start.startswith(b"svm_type ")


def _begins_libsvm_data(start: bytes) -> bool:
    """Whether the first line is a number and pairs of a feature and its value."""
    line = start.partition(b"\n")[0]
    return re.fullmatch(rb"[-+.\deE]+( \d+:[-+.\deE]+)*\s*", line) is not None
