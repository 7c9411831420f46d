"""`mercer fit --linear`: a linear machine trained on a file that may be larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mercer.study.cli.files import check_output, say_written
from mercer.study.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.study.cli.messages import Failure, say
from mercer.study.cli.options import as_text, say_reading, target_of

_OPTIONS = (
    *("table", "target", "out", "linear", "memory", "cache", "C", "epsilon", "class_weight", "weights", "tol_gap"),
    *("task", "drop", "keep", "categorical", "max_levels", "missing", "max_seconds"),
    *("format", "sep", "decimal", "encoding", "na"),
)
"""Options of `mercer fit` that have a meaning with --linear."""


def fit_linear(
    table: str,
    target: str | None,
    out: str,
    *,
    weights: str | None,
    task: Any,
    reading: dict[str, Any],
    columns: dict[str, Any],
    memory: str,
    cache: str | None,
    options: dict[str, Any],
) -> int:
    """Train LinearSVC or LinearSVR on a file, and write the model; return the exit status."""
    with ended_by_ctrl_c():
        from mercer import LinearSVC, LinearSVR
        from mercer.persistence import model_of_file, save_model, table_head
        from mercer.study.cli.output import print_fit
        from mercer.study.cli.progress import ConsoleProgress
        from mercer.study.report.prose import why_left_out
        from mercer.tables import ColumnOptions, ReadingOptions, look_like_identifiers, read_target

    _refuse_other_options()
    path = Path(out)
    check_output(path, inputs=(table,), mode="wb")
    reading = {name: value for name, value in reading.items() if name != "sheet"}
    head = table_head(table, ReadingOptions(**reading, text=as_text(columns)))
    for note in head.reading.notes:
        say("note", str(note))
    target = target_of(head, target)
    rows = head if weights is None else head.without([weights])
    truth = read_target(rows, target, task)
    say_reading(truth)
    dropped: list[str] = []
    if head.sparse is None:
        asked = ColumnOptions(**columns)
        asked.check(rows, target)
        identifiers = look_like_identifiers(rows, target, asked)
        for name, reason in identifiers.items():
            say("note", why_left_out(reason, [name]))
        dropped = [*columns["drop"], *identifiers]
    machine: Any
    given = {name: options[name] for name in ("C", "tol_gap", "max_seconds") if options[name] is not None}
    if truth.task == "classification":
        machine = LinearSVC(class_weight=_class_weight(options["class_weight"], truth), **given)
    else:
        machine = LinearSVR(epsilon=options["epsilon"], **given)
    try:
        with ConsoleProgress() as progress:
            machine.fit_file(
                table,
                target=target if head.sparse is None else None,
                memory=memory,
                cache=cache,
                sample_weight=weights,
                drop=dropped,
                categorical=columns["categorical"],
                scale=head.sparse is None,
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
    status = machine.certificate_.status
    if status == "interrupted" and path.exists():
        raise Failure(
            "interrupted", f"{path} is as it was; the same command continues from its checkpoint", INTERRUPTED
        )
    model = model_of_file(machine)
    save_model(path, model)
    print_fit(model, None)
    if status in ("interrupted", "time_limit"):
        say("hint", "the same command continues from its checkpoint")
    say_written(path)
    return INTERRUPTED if status == "interrupted" else 0


def _refuse_other_options() -> None:
    """Raise UsageError for an option that means nothing with --linear."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") not in (None, click.core.ParameterSource.DEFAULT)
        if given and parameter.name not in _OPTIONS:
            raise click.UsageError(f"{parameter.opts[-1]} means nothing with --linear", context)
    if context.params["missing"] == "drop":
        raise click.UsageError("--missing drop means nothing with --linear: rows are not left out", context)


def _class_weight(asked: str | None, truth: Any) -> Any:
    """Return the class weights as estimators take them: "balanced", or the weight of each label."""
    from mercer.study.costs import BALANCED, NONE, class_weights

    if asked in (None, BALANCED, NONE):
        return asked if asked == BALANCED else None
    weights = class_weights(asked, truth.names, truth.counts)
    try:
        labels: list[Any] = [int(name) for name in truth.names]
    except ValueError:
        labels = truth.names
    return dict(zip(labels, weights.tolist(), strict=True))
