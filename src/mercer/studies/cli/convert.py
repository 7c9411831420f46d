"""`mercer convert`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click

from mercer.studies.cli.files import check_output, load, read, say_written
from mercer.studies.cli.imports import ended_by_ctrl_c
from mercer.studies.cli.messages import Failure, say
from mercer.studies.cli.options import OnceCommand, categorical_option, force_option, reading_options

_OURS = b"/*\n * Written by mercer"  # the beginning of source code that was written here

FORMATS: dict[str, Callable[[bytes], bool]] = {
    "libsvm": lambda start: start.startswith(b"svm_type "),
    "liblinear": lambda start: start.startswith(b"solver_type "),
    "onnx": lambda start: start.startswith(b"\x08"),  # the field of the version of the format
    "c": lambda start: start.startswith(_OURS),
    "javascript": lambda start: start.startswith(_OURS),
}
"""Formats of models, and whether a file begins like one that may be written over."""

_ENDINGS = {".onnx": "onnx", ".c": "c", ".js": "javascript"}


@click.command("convert", cls=OnceCommand)
@click.argument("source", metavar="SOURCE")
@click.argument("out", metavar="OUT")
@click.option(
    "--to",
    "target_format",
    type=click.Choice(list(FORMATS)),
    help="Format of the model; by default what the ending of OUT says (.onnx, .c, .js), or else libsvm.",
)
@click.option("--model", metavar="MODEL", help="SOURCE is a table; write its rows as this model encodes them.")
@force_option
@reading_options
@categorical_option
def convert_command(
    source: str,
    out: str,
    target_format: str | None,
    model: str | None,
    force: bool,
    reading: dict[str, Any],
    categorical: tuple[str, ...],
) -> None:
    """Write a model for other programs: LIBSVM, LIBLINEAR, ONNX, C99 or JavaScript; or a table as LIBSVM data.

    LIBSVM's svm-predict takes a model file, and with --model the table that goes with it, and prints what `mercer
    predict` does, but for tied votes. Its labels are numbers: classes that are text become 0, 1, ... in their order,
    and a row without a label that the model knows gets the number after the last one. A linear machine becomes one with
    the linear kernel. A LIBSVM model file cannot become a model file, which holds a certificate.

    ONNX models, C99 and JavaScript have the encoding of the columns too: they take the numbers of the table, and for a
    category the number of its level; the top of the file lists them. Columns of dates and text cannot be written. An
    existing file is written over only if it is in the format of the output, or with --force.
    """
    with ended_by_ctrl_c():
        from mercer.studies.models import class_labels
        from mercer.studies.tables import Classes

    if model is not None and target_format not in (None, "libsvm"):
        raise click.UsageError("--to is for models, and --model writes a table as LIBSVM data: leave out one of them")
    path, kind = Path(out), target_format or _ENDINGS.get(Path(out).suffix.lower(), "libsvm")
    if model is None and kind not in ("libsvm", "liblinear"):
        with ended_by_ctrl_c():
            from mercer import load_model
        mode: Literal["w", "wb"] = "wb" if kind == "onnx" else "w"
        check_output(path, (source,), FORMATS[kind], force=force, mode=mode)
        _write_program(load_model(source), path, kind)
        say_written(path)
        return
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
    prediction_kind = loaded.prediction_kind
    if model is None:
        check_output(path, (source,), FORMATS[kind], force=force)
        _write_model(loaded, path, kind)
    else:
        check_output(path, (source, model), _begins_libsvm_data, force=force)
        _write_data(loaded, read(source, reading, text=categorical, model=loaded), out)
    if isinstance(prediction_kind, Classes) and prediction_kind.is_text:
        meant = ", ".join(
            f"{number} is {name!r}"
            for number, name in zip(class_labels(prediction_kind).tolist(), prediction_kind.names, strict=True)
        )
        say("note", f"labels are numbers in LIBSVM's files: {meant}")
    say_written(path)


def _write_model(model: Any, path: Path, kind: str) -> None:
    """Write a model of a table as a file of LIBSVM or LIBLINEAR."""
    import mercer

    save = mercer.save_libsvm_model if kind == "libsvm" else mercer.save_liblinear_model
    save(path, model)
    program = "LIBSVM" if kind == "libsvm" else "LIBLINEAR"
    if model.has_probabilities and (kind == "libsvm" or model.machine_spec.estimator != "LogisticRegression"):
        say("note", f"the probabilities of this model are not written: {program} fits its own")
    if model.costs is not None:
        say("note", f"the costs of this model are not written: {program} predicts the class with the most votes")


def _write_program(model: Any, path: Path, kind: str) -> None:
    """Write a model, machine or pipeline as ONNX, C99 or JavaScript."""
    import mercer
    from mercer.studies.models import open_atomically

    if kind == "onnx":
        written = mercer.to_onnx(model).SerializeToString()
        with open_atomically(path, "wb") as file:
            file.write(written)
        return
    stem = path.stem if re.fullmatch(r"[A-Za-z]\w*", path.stem, re.ASCII) else "model"
    text = (mercer.to_c if kind == "c" else mercer.to_javascript)(model, name=stem)
    with open_atomically(path, "w") as file:
        file.write(text)


def _write_data(model: Any, table: Any, out: str) -> None:
    """Write the rows of a table as LIBSVM data, as the model encodes them."""
    import numpy as np

    from mercer import save_libsvm_data
    from mercer.studies.models import class_labels
    from mercer.studies.tables import Classes, numbers

    kind = model.prediction_kind
    column = model.target if model.target is not None and model.target in table else None
    if isinstance(kind, Classes):
        labels = class_labels(kind)
        codes = np.full(table.n_rows, -1) if column is None else kind.truth(table)
        targets = np.append(labels, int(labels.max()) + 1)[codes]  # the last one for a code of -1
    else:
        targets = np.zeros(table.n_rows) if column is None else np.nan_to_num(numbers(table, column))
    save_libsvm_data(model.encoder.transform(table), targets.tolist(), out)


def _is_libsvm_model(path: str) -> bool:
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return FORMATS["libsvm"](file.read(9))


def _begins_libsvm_data(start: bytes) -> bool:
    """Whether the first line is a number and pairs of a feature and its value."""
    line = start.partition(b"\n")[0]
    return re.fullmatch(rb"[-+.\deE]+( \d+:[-+.\deE]+)*\s*", line) is not None
