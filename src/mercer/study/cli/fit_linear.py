"""`mercer fit --linear`: a linear machine trained on a file that may be larger than memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from mercer.study.cli.files import check_output, say_written
from mercer.study.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.study.cli.machines import MACHINES, STREAMED, USUAL_STREAMED, check_options, is_given
from mercer.study.cli.messages import Failure, say
from mercer.study.cli.options import as_text, say_reading, target_of
from mercer.study.cli.targets import read_truth

_OPTIONS = (
    *("table", "target", "out", "machine", "linear", "memory", "cache", "scale", "weights", "task"),
    *("drop", "keep", "categorical", "max_levels", "missing"),
    *("format", "sep", "decimal", "encoding", "na"),
)
"""Options of `mercer fit` that have a meaning with --linear, besides those of its machines."""

_NOT_STREAMED = ("cost", "tol")
"""Options of its machines that have no meaning with --linear."""


def fit_linear(
    table: str,
    target: str | None,
    out: str,
    *,
    machine: str | None,
    weights: str | None,
    task: Any,
    reading: dict[str, Any],
    columns: dict[str, Any],
    memory: str,
    cache: str | None,
    scale: bool | None,
    options: dict[str, Any],
) -> int:
    """Train a linear machine on a file, and write the model; return the exit status."""
    with ended_by_ctrl_c():
        from mercer.persistence import model_of_file, save_model, table_head
        from mercer.study.cli.output import print_fit
        from mercer.study.cli.progress import ConsoleProgress
        from mercer.study.report.prose import why_left_out
        from mercer.tables import ColumnOptions, ReadingOptions, TableError, look_like_identifiers

    _refuse_other_options(machine)
    path = Path(out)
    check_output(path, inputs=(table,), mode="wb")
    reading = {name: value for name, value in reading.items() if name != "sheet"}
    head = table_head(table, ReadingOptions(**reading, text=as_text(columns)), memory)
    for note in head.reading.notes:
        say("note", str(note))
    target = target_of(head, target)
    rows = head if weights is None else head.without([weights])
    try:
        truth = read_truth(rows, target, machine, task)
    except TableError as error:
        hint = "if the file has more rows, of more classes, shuffle its rows, or call fit_file in Python"
        raise TableError(f"in the first {rows.n_rows:,} rows of {table}, {error}", error.hint or hint) from error
    name = machine or USUAL_STREAMED[truth.task]
    check_options(name, named=machine is not None)
    say_reading(truth)
    dropped: list[str] = [*columns["drop"]]
    if head.sparse is None:
        asked = ColumnOptions(**columns)
        asked.check(rows, target)
        identifiers = look_like_identifiers(rows, target, asked)
        for column, reason in identifiers.items():
            say("note", why_left_out(reason, [column]))
        dropped += identifiers
    if scale and head.sparse is not None:
        raise click.UsageError("--scale is for tables, and svmlight is never scaled", click.get_current_context())
    own: dict[str, Any] = {"multi_class": "ovr", "class_weight": _class_weight(options["class_weight"], truth)}
    estimator = MACHINES[name].made(options | own, None)
    try:
        with ConsoleProgress() as progress:
            estimator.fit_file(
                table,
                target=target if head.sparse is None else None,
                memory=memory,
                cache=cache,
                sample_weight=weights,
                drop=dropped,
                categorical=columns["categorical"],
                scale=head.sparse is None and scale is not False,
                scale_target=truth.task != "classification",
                missing=columns["missing"],
                max_levels=columns["max_levels"],
                zero_based=head.sparse is not None,
                progress=progress,
                **reading,
            )
    except KeyboardInterrupt:
        kept = f"{table}.blocks" if cache is None else cache
        hint = f"the finished blocks are kept in {kept}: the same command goes on from them"
        raise Failure("interrupted", hint, INTERRUPTED) from None
    status = estimator.certificate_.status
    if status == "interrupted" and path.exists():
        raise Failure(
            "interrupted", f"{path} is as it was; the same command continues from its checkpoint", INTERRUPTED
        )
    model = model_of_file(estimator)
    save_model(path, model)
    print_fit(model, None)
    if status in ("interrupted", "time_limit"):
        say("hint", "the same command continues from its checkpoint")
    say_written(path)
    return INTERRUPTED if status == "interrupted" else 0


def _refuse_other_options(machine: str | None) -> None:
    """Raise UsageError for a machine or an option that means nothing with --linear."""
    context = click.get_current_context()
    if machine is not None and machine not in STREAMED:
        raise click.UsageError(
            f"--machine {machine} needs its rows in memory: leave --linear out, or train {', '.join(STREAMED)}", context
        )
    known = {*_OPTIONS, *(option for name in STREAMED for option in MACHINES[name].options)} - {*_NOT_STREAMED}
    for parameter in context.command.params:
        if parameter.name not in known and is_given(context, parameter.name or ""):
            raise click.UsageError(f"{parameter.opts[-1]} means nothing with --linear", context)
    if is_given(context, "multi_class") and context.params["multi_class"] != "ovr":
        raise click.UsageError("--linear trains several classes by --multi-class ovr: each against the rest", context)
    if context.params["missing"] == "drop":
        raise click.UsageError("--missing drop means nothing with --linear: rows are not left out", context)


def _class_weight(asked: str | None, truth: Any) -> Any:
    """Return the class weights as estimators take them: "balanced", or the weight of each label."""
    from mercer.study.costs import BALANCED, NONE, class_weights

    if asked in (None, BALANCED, NONE):
        return asked if asked == BALANCED else None
    weights = class_weights(asked, truth.names, truth.counts)
    try:
        numbers = [float(name.replace(",", ".")) for name in truth.names]
    except ValueError:
        numbers = [math.nan]
    are_whole = all(number.is_integer() for number in numbers)
    labels = [int(number) for number in numbers] if are_whole else truth.names
    return dict(zip(labels, weights.tolist(), strict=True))
