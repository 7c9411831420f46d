"""`mercer fit --linear` and `--memory`: a machine trained on a file that may be larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.studies.cli.file_target import FileTarget
from mercer.studies.cli.files import check_output, is_model_file, say_written
from mercer.studies.cli.imports import INTERRUPTED, ended_by_ctrl_c
from mercer.studies.cli.machines import IN_PASSES, MACHINES, STREAMED, USUAL, USUAL_STREAMED, check_options, is_given
from mercer.studies.cli.messages import Failure, say
from mercer.studies.cli.options import as_text, number_or_rule, target_of
from mercer.studies.cli.targets import refuse_target

if TYPE_CHECKING:
    from mercer.data import Table
    from mercer.studies.tables import TableEncoder

_OPTIONS = (
    *("tables", "target", "out", "force", "machine", "linear", "weights", "task"),
    *("cluster", "memory", "cache", "scale"),
    *("drop", "keep", "categorical", "max_levels", "missing"),
    *("format", "sep", "decimal", "encoding", "na", "limits", "merge"),
)
"""Options of `mercer fit` that have a meaning for a file in blocks, besides those of its machines."""

_INSTEAD = {
    "probability": "the models of --machine linear-logistic always have probabilities",
    "text": "free text needs its rows in memory, so leave {flag} out, or --drop the column",
    "dates": "dates need their rows in memory, so leave {flag} out, or --drop the column",
    "checkpoint": "a fit on a file writes its checkpoint into the folder of --cache by itself, so leave this out",
    "approximation": "it is for svc and svr, so leave {flag} out",
    "contamination": "it sorts the scores of rows in memory, so leave {flag} out, or give --nu",
}
"""What to do instead of an option that has no meaning for a file in blocks."""


def fit_file(
    tables: tuple[str, ...],
    target: str | None,
    out: str,
    *,
    force: bool,
    linear: bool,
    machine: str | None,
    weights: str | None,
    task: Any,
    reading: dict[str, Any],
    columns: dict[str, Any],
    memory: str,
    cache: str | None,
    cluster: str | None,
    scale: bool | None,
    options: dict[str, Any],
) -> int:
    """Train a machine on files, and write the model; return the exit status."""
    with ended_by_ctrl_c():
        from mercer.data import ReadingOptions
        from mercer.studies.cli.output import print_fit
        from mercer.studies.models import model_of_file, save_model, table_head

    _refuse_other_options(machine, cache, linear=linear)
    table = tables[0]
    path = Path(out)
    check_output(path, tables, is_model_file, force=force, mode="wb")
    reading = {name: value for name, value in reading.items() if name != "sheet"}
    how = ReadingOptions(**reading, text=as_text(columns))
    head = table_head(table, how, memory)
    for note in head.reading.notes:
        say("note", str(note))
    used = head if weights is None else head.without([weights])
    if machine is not None and not MACHINES[machine].needs_target:
        refuse_target(machine, target, task)
        name, trained, class_weight = machine, None, None
    else:
        target = target_of(head, target)
        of_file = FileTarget(table, target, used, how, memory)
        trained = of_file.task(machine, task)
        name = machine or (USUAL_STREAMED if linear else USUAL)[trained]
        class_weight = of_file.class_weight(options["class_weight"])
    check_options(name, named=machine is not None)
    in_columns = head.sparse is None
    if scale and not in_columns:
        raise click.UsageError("--scale is for tables, and svmlight is never scaled", click.get_current_context())
    about_file = {
        "target": target if in_columns else None,
        "memory": memory,
        "cache": cache,
        "sample_weight": weights,
        "drop": _dropped(used, target, columns) if in_columns else columns["drop"],
        "categorical": columns["categorical"],
        "scale": in_columns and scale is not False,
        "scale_target": trained == "regression",
        "missing": columns["missing"],
        "max_levels": columns["max_levels"],
        "zero_based": not in_columns,
        "cluster": cluster,
        **reading,
    }
    estimator = _machine(name, options | {"class_weight": class_weight})
    _fit(estimator, tables, about_file)
    status = estimator.certificate_.status
    what_next = "the same command continues from its checkpoint"
    if status == "interrupted" and path.exists():
        raise Failure("interrupted", f"{path} is as it was; {what_next}", INTERRUPTED)
    model = model_of_file(estimator)
    save_model(path, model)
    if estimator.encoder_ is not None:
        _say_filled(estimator.encoder_)
    print_fit(model, None)
    if status in ("interrupted", "time_limit"):
        say("hint", what_next)
    say_written(path)
    return INTERRUPTED if status == "interrupted" else 0


def _dropped(head: Table, target: str | None, columns: dict[str, Any]) -> list[str]:
    """Return the columns that are not used: those that the command line names, and those that number the rows."""
    from mercer.studies.report.prose import why_left_out
    from mercer.studies.tables import ColumnOptions, look_like_identifiers

    asked = ColumnOptions(**columns)
    asked.check(head, target)
    identifiers = look_like_identifiers(head, target, asked)
    for column, reason in identifiers.items():
        say("note", why_left_out(reason, [column]))
    return [*columns["drop"], *identifiers]


def _say_filled(encoder: TableEncoder) -> None:
    """Print which missing cells were filled in."""
    from mercer.studies.tables import FILLED_IN, name_missing

    counts = {rule.name: rule.n_missing for rule in encoder.rules_ if rule.n_missing}
    if counts:
        say("note", f"There are {name_missing(counts)}: they were {FILLED_IN}. --missing error refuses them.")


def _machine(name: str, options: dict[str, Any]) -> Any:
    """Return the estimator; of a linear one, --tol and --tol-gap are two names of its certified relative gap."""
    if name in IN_PASSES:
        return MACHINES[name].made(options | {"gamma": number_or_rule(options["gamma"])}, None)
    gap = options["tol"] if options["tol_gap"] is None else options["tol_gap"]
    scheme = "joint" if options["multi_class"] == "joint" else "ovr"
    return MACHINES[name].made(options | {"multi_class": scheme, "tol": None, "tol_gap": gap}, None)


def _fit(estimator: Any, tables: tuple[str, ...], about_file: dict[str, Any]) -> None:
    """Train the machine, and show the progress."""
    from mercer.cluster import ClusterError
    from mercer.solvers import ProgressBar

    try:
        with ProgressBar() as progress:
            estimator.fit_file([*tables], progress=progress, **about_file)
    except ClusterError as error:
        raise Failure(str(error), " ".join(getattr(error, "__notes__", [])) or None) from error
    except KeyboardInterrupt:
        cache = about_file["cache"]
        blocks_folder = f"{tables[0]}.blocks" if cache is None else cache
        hint = f"the finished blocks are kept in {blocks_folder}: the same command goes on from them"
        raise Failure("interrupted", hint, INTERRUPTED) from None


def _refuse_other_options(machine: str | None, cache: str | None, *, linear: bool) -> None:
    """Raise UsageError for a machine or an option that means nothing for a file in blocks."""
    context = click.get_current_context()
    flag, machines = ("--linear", STREAMED) if linear else ("--memory", IN_PASSES)
    if linear and not context.params["linear"]:
        flag = "--cluster"
    if machine is not None and machine not in machines:
        more = "" if linear else ", or a linear machine with --linear"
        raise click.UsageError(
            f"--machine {machine} needs its rows in memory: leave {flag} out, or train {', '.join(machines)}{more}",
            context,
        )
    options = {*_OPTIONS, *(option for name in machines for option in MACHINES[name].options)}
    options -= {"cost", "probability", "contamination"}
    for parameter in context.command.params:
        if parameter.name not in options and is_given(context, parameter.name or ""):
            advice = _INSTEAD.get(parameter.name or "", "leave one of the two out").format(flag=flag)
            raise click.UsageError(f"{parameter.opts[-1]} means nothing with {flag}: {advice}", context)
    schemes = ("ovr", "joint") if machine == "linear-logistic" else ("ovr",)
    if linear and is_given(context, "multi_class") and context.params["multi_class"] not in schemes:
        raise click.UsageError(
            "--linear trains several classes by --multi-class ovr, each against the rest; --machine linear-logistic "
            "also by joint, the softmax loss",
            context,
        )
    if not linear and context.params["multi_class"] == "joint":
        raise click.UsageError("--multi-class joint needs its rows in memory: leave --memory out", context)
    if context.params["missing"] == "drop":
        raise click.UsageError(
            f"--missing drop means nothing with {flag}: impute fills the cells in, error refuses the file", context
        )
    if linear and is_given(context, "tol") and is_given(context, "tol_gap"):
        raise click.UsageError("--tol and --tol-gap are the same with --linear: give one of them", context)
    if cache == "":
        raise click.UsageError("--cache names no folder", context)
