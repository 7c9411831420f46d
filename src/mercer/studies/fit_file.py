"""The training of machines on files that are larger than memory."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from mercer import __version__
from mercer._typing import FloatArray
from mercer.certificates import Status
from mercer.cluster import ClusterError, workers_of
from mercer.data import check_choice, check_count, check_flag
from mercer.data.files import Checkpoint, text_of
from mercer.estimators._base import OF_THE_RUN
from mercer.estimators._from_file import FitsFiles, ReadsFiles, TrainingFile
from mercer.estimators._kernel_from_file import FitsKernelFiles
from mercer.estimators._labels import Labels, labels_of_sums
from mercer.estimators._linear_training import LinearSolutions
from mercer.gram.rows import PlacedRows, TableRows
from mercer.solvers import Control, Progress, StageProgress
from mercer.solvers.rows import LinearProblem, LinearRows, LinearSolution, WarmStart, in_turns, small_sample, solve_one
from mercer.studies.files.blocks.budget import Budget
from mercer.studies.files.blocks.cluster_rows import parse_on_workers, placed_rows
from mercer.studies.files.blocks.encoding import BlockEncoding, learn_encoding
from mercer.studies.files.blocks.file_rows import FileRows, rows_of_cache
from mercer.studies.files.blocks.several_files import Blocks, blocks_of
from mercer.studies.files.blocks.sources import open_source
from mercer.studies.files.blocks.target_levels import labels_of_texts, refuse_many_fractions, refuse_missing_words
from mercer.studies.files.table_files import reading_options
from mercer.studies.tables.prediction_kind import Quantity
from mercer.studies.tables.target_numbers import check_numbers

_PAUSE = 0.1  # seconds between two reports of blocks that were read

OnProgress: TypeAlias = Callable[[StageProgress], object]
Names: TypeAlias = Collection[str]
Machine = TypeVar("Machine", bound=ReadsFiles)


def fit_file(
    machine: Machine,
    path: Any,
    *,
    target: str | None,
    memory: str | int,
    cache: str | Path | None,
    sample_weight: str | None,
    drop: Names,
    categorical: Names,
    scale: bool,
    scale_target: bool,
    missing: Literal["error", "impute"],
    max_levels: int,
    format: Any,
    sep: str | None,
    decimal: Any,
    encoding: str | None,
    na: Sequence[str],
    limits: Any,
    merge: Names,
    zero_based: bool,
    progress: OnProgress | None,
    cluster: Any,
) -> Machine:
    """Train a machine on a file; see `fit_file` of the estimators, which hand over to this function."""
    assert isinstance(machine, (FitsFiles, FitsKernelFiles))
    spec: Any = machine._asked() if isinstance(machine, FitsFiles) else machine._machine_spec()
    control = machine._control()
    if cluster is not None and isinstance(machine, FitsKernelFiles):
        raise ValueError("cluster= is for linear machines: leave it out, and the support vectors are in memory here.")
    if not machine._has_target:
        if target is not None:
            raise ValueError(
                f"{type(machine).__name__} has no target: leave target= out, and name columns in drop= that it "
                "shall not read."
            )
        target = ""
    budget = Budget.of("memory", memory)
    check_choice("missing", missing, ("error", "impute"))
    check_flag("scale", scale)
    if check_flag("scale_target", scale_target) and (machine._task == "classification" or not machine._has_target):
        raise ValueError("scale_target is for targets that are numbers: leave it out.")
    check_count("max_levels", max_levels)
    paths = _paths_of(path)
    for name, column in (("target", target), ("sample_weight", sample_weight)):
        if column is not None and not isinstance(column, str):
            raise TypeError(f"{name} must be the name of a column of the file, got {type(column).__name__}.")
    paths = paths if cluster is None else [one.absolute() for one in paths]
    folders = _folders_of(paths, cache if cluster is None or cache is None else Path(cache).absolute())
    dropped = (drop,) if isinstance(drop, str) else tuple(drop)
    reading = reading_options(
        format=format,
        sep=sep,
        decimal=decimal,
        encoding=encoding,
        na=na,
        limits=limits,
        merge=merge,
        text_columns=categorical,
    )
    sources = [
        open_source(
            one,
            machine._task,
            reading,
            target=target,
            weights=sample_weight,
            drop=dropped,
            categorical=reading.text,
            zero_based=check_flag("zero_based", zero_based),
            head_bytes=budget.head,
            memory=budget.reading,
            scratch=folder,
        )
        for one, folder in zip(paths, folders, strict=True)
    ]
    files = list(zip(folders, paths, sources, strict=True))
    reports = _Reports(progress)
    about_blocks = {"block_bytes": budget.chunk_bytes, "text_bytes": budget.texts}
    with ExitStack() as stack:
        workers = None if cluster is None else stack.enter_context(workers_of(cluster))
        if workers is not None and len(files) > 1:
            parse_on_workers(workers, files, **about_blocks)
        blocks = stack.enter_context(blocks_of(files, **about_blocks, report=reports.parsed))
        reports.begin("learn the encoding")
        learnt = learn_encoding(blocks, missing=missing, scale=scale, max_levels=max_levels)
        labels: Labels | None = None
        quantity = _quantity_of(blocks) if scale_target else Quantity(blocks.layout.target)
        label_of: FloatArray | Quantity = quantity
        if machine._task == "classification":
            labels, label_of = _labels_of(blocks, machine.class_weight)
            if blocks.identity["options"].get("booleans") and labels.classes.tolist() == ["False", "True"]:
                labels = labels._replace(classes=np.array([False, True]))
        share = budget.rows if isinstance(machine, FitsFiles) else budget.rows // 2  # solvers of kernels need more
        rows: LinearRows
        if workers is not None:
            rows = placed_rows(workers, blocks, learnt, label_of)
        elif scale_target and isinstance(machine, FitsKernelFiles):  # a solution in memory has one unit of targets
            rows = FileRows(blocks, learnt, label_of, share, reports.read)
        else:
            rows = rows_of_cache(blocks, learnt, label_of, share, reports.read)
        about = {"machine": repr(spec), "encoding": _described(learnt), "cache": blocks.identity}
        about["target"] = [quantity.centre, quantity.scale]
        about["class_weight"] = None if labels is None else labels.class_weight.tolist()
        if isinstance(machine, FitsFiles):
            spec = machine._spec_for(spec, labels)
            problems = machine._problems(spec, rows, labels)
            with (
                _folder_until(lambda: _are_optimal(solutions), blocks, about) as folder,
                Checkpoint.opened(folder, lambda: {"work": "fit_file"}) as checkpoint,
            ):
                following = replace(reports.following(control), checkpoint=checkpoint)
                solutions = _solve_on_file(machine, problems, following, budget.solver)
        else:
            params = machine.get_params(deep=False).items()
            about["params"] = {name: text_of(value) for name, value in params if name not in OF_THE_RUN}
            about["in_memory"] = isinstance(rows, TableRows)
            with _folder_until(lambda: machine.fit_status_ == 0, blocks, about) as folder:
                if isinstance(rows, TableRows):
                    reports.begin("solve")
                    _fit_in_memory(machine, rows, labels, budget.solver, folder)
                else:
                    left = budget.rows - rows.memory_bytes, budget.solver
                    with Checkpoint.opened(folder, lambda: {"work": "fit_file"}) as checkpoint:
                        following = replace(reports.following(control, "violation"), checkpoint=checkpoint)
                        machine._train_on_file(rows, labels, following, *left)
                    machine._rescale(quantity.centre, quantity.scale)
    reports.end()
    file = TrainingFile(
        blocks.layout.target,
        rows.n,
        blocks.identity["source"]["sha256"],
        reading.as_read(blocks.identity["options"]),
        zero_based or learnt.encoder is not None,
        quantity.centre,
        quantity.scale,
        sample_weight,
    )
    if isinstance(machine, FitsFiles):
        machine._store_file_fit(spec, rows.p, labels, problems, solutions, learnt.encoder, file)
        if isinstance(rows, PlacedRows):
            rows.release()
    else:
        machine.encoder_, machine.training_file_ = learnt.encoder, file
    return machine


@contextmanager
def _folder_until(is_optimal: Callable[[], bool], blocks: Blocks, about: Mapping[str, Any]) -> Iterator[Path]:
    """Give the folder of the checkpoint of a machine, and remove it after a fit to the optimum.

    It belongs to this machine, this table and this version. Those of others are removed at once: a folder of blocks has
    one.
    """
    text = json.dumps([__version__, about], sort_keys=True, default=repr)
    folder = blocks.folder / f"fit-{hashlib.sha256(text.encode()).hexdigest()}"
    for other in blocks.folder.glob("fit-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    yield folder
    if is_optimal():
        shutil.rmtree(folder, ignore_errors=True)


def _fit_in_memory(
    machine: FitsKernelFiles, rows: TableRows, labels: Labels | None, memory: int, checkpoint: Path
) -> None:
    """Train the machine on a table that fits into memory, by `fit`, with so many bytes for the solver."""
    fit: Any = machine.fit
    y = rows.labels if labels is None else labels.classes[np.maximum(rows.labels, 0.0).astype(np.intp)]
    limit = machine.memory_limit
    machine.memory_limit = memory if limit is None else min(limit, memory)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "memory_limit=", UserWarning)  # `memory` is what the user knows
            fit(rows.table, y, None if (rows.weights == 1.0).all() else rows.weights, checkpoint=checkpoint)
        present = np.flatnonzero(rows.weights > 0.0)
        if present.size < rows.n and hasattr(machine, "approximation_"):
            machine._number_cells(present)
    finally:
        machine.memory_limit = limit


def _paths_of(path: Any) -> list[Path]:
    """Return the files of an argument that names one, or several.

    Raises
    ------
    TypeError
        If it names no files.
    """
    paths = list(path) if isinstance(path, list | tuple) else [path]
    if not paths or not all(isinstance(one, str | Path) for one in paths):
        other = next((type(one).__name__ for one in paths if not isinstance(one, str | Path)), "an empty list")
        raise TypeError(
            f"path must name a file, got {other}: `fit` takes rows in memory. A list of names is for several files."
        )
    if len({os.path.realpath(one) for one in paths}) < len(paths):
        raise ValueError(f"path names a file twice: {', '.join(map(str, paths))}. Name each file once.")
    return [Path(one) for one in paths]


def _folders_of(paths: list[Path], cache: Any) -> list[Path]:
    """Return the folder of the blocks of each file."""
    if cache is None:
        return [Path(f"{path}.blocks") for path in paths]
    if len(paths) == 1:
        return [Path(cache)]
    return [Path(cache) / f"{number}-{path.name}" for number, path in enumerate(paths)]


def _labels_of(blocks: Blocks, class_weight: Any) -> tuple[Labels, FloatArray]:
    """Return the classes, and the number of the class for each place in the order of the file."""
    texts = [*blocks.levels.of.get(blocks.layout.target, ())]
    refuse_missing_words(blocks.layout.target, texts)
    refuse_many_fractions(blocks.layout.target, texts)
    sums = np.zeros(len(texts))
    for number in range(blocks.n_blocks):
        codes, block_labels = blocks.read_numbers(number)
        sums += np.bincount(codes.astype(np.intp), block_labels, minlength=len(texts))
    if isinstance(class_weight, dict):  # booleans are texts here
        class_weight = {str(label) if isinstance(label, bool) else label: one for label, one in class_weight.items()}
    return labels_of_sums(labels_of_texts(texts), sums, class_weight)


def _solve_on_file(
    machine: FitsFiles, problems: Sequence[LinearProblem], control: Control, memory: int
) -> LinearSolutions:
    """Solve the problems in turn, each from its checkpoint."""
    limit = memory if machine.memory_limit is None else min(memory, machine.memory_limit)
    about = {"memory_limit": limit, "n_jobs": machine.n_jobs}

    def train(number: int, left: Control, earlier: WarmStart | None) -> LinearSolution:
        problem, keeps_optimum = problems[number], len(problems) > 1
        rows = problem.rows
        sample = rows.sample if isinstance(rows, FileRows) else partial(small_sample, problem, limit)
        try:
            return solve_one(problem, left, number, start=earlier, sample=sample, keeps_optimum=keeps_optimum, **about)
        except ClusterError as error:
            if error.weights is not None:
                error.add_note(f"The weights after {error.n_iter} steps are kept: the same call continues from them.")
            raise

    with control.interruption:
        solutions = in_turns(problems, control, train)
    assert control.checkpoint is not None
    if _are_optimal(solutions):
        control.checkpoint.clear()  # what waits to be written
    return LinearSolutions(solutions)


def _are_optimal(solutions: Sequence[LinearSolution]) -> bool:
    return all(one.certificate.status is Status.OPTIMAL for one in solutions)


def _quantity_of(blocks: Blocks) -> Quantity:
    """Return the mean and the standard deviation of the targets, in two passes over them."""
    counts, sums, bounds, squares = 0, 0.0, [math.inf, -math.inf], 0.0
    for number in range(blocks.n_blocks):
        targets, _ = blocks.read_numbers(number)
        counts, sums = counts + len(targets), sums + float(targets.sum())
        bounds = [min(bounds[0], float(targets.min())), max(bounds[1], float(targets.max()))]
    check_numbers(blocks.layout.target, np.array(bounds))
    centre = sums / counts
    for number in range(blocks.n_blocks):
        squares += float(np.square(blocks.read_numbers(number)[0] - centre).sum())
    return Quantity(blocks.layout.target, centre, math.sqrt(squares / counts))


def _described(encoding: BlockEncoding) -> Any:
    """Return JSON values that differ for different encodings."""
    if encoding.encoder is None:
        return encoding.p
    return [asdict(rule) for rule in encoding.encoder.rules_]  # type: ignore[call-overload]


class _Reports:
    """Progress reports of a fit on a file, with an estimate of the time left."""

    def __init__(self, progress: OnProgress | None) -> None:
        self._progress, self._began, self._stage = progress, time.perf_counter(), "parse"
        self._first: tuple[int, float] | None = None
        self._sweeps, self._last_report, self._note = 0, 0.0, ""
        self._left: float | None = None

    def begin(self, stage: str) -> None:
        """Begin another stage."""
        self._stage, self._began = stage, time.perf_counter()
        self._report(StageProgress(stage))

    def parsed(self, done: int, total: int | None) -> None:
        """Report the place in the file that parsing has reached."""
        if self._first is None:  # blocks of an earlier call took no time
            self._first = done, time.perf_counter()
        at, since = self._first
        share = 0.0 if not total or done <= at else (total - done) / (done - at)
        left = (time.perf_counter() - since) * share if share else None
        self._report(StageProgress("parse", done, total or 0, left, unit="bytes"))

    def read(self, done: int, total: int) -> None:
        """Report that a block was read, at most ten times a second."""
        self._sweeps += done == 1
        now = time.perf_counter()
        if now - self._last_report < _PAUSE:
            return
        note = f"sweep {self._sweeps}{self._note}" if self._stage == "solve" else ""
        self._report(StageProgress(self._stage, done, total, self._left, note, unit="blocks"))

    def following(self, control: Control, what: str = "relative gap") -> Control:
        """Return the control with a callback that also reports the progress of the solver; `what` must come down."""
        self.begin("solve")
        self._sweeps = 0
        if self._progress is None:
            return control
        callback, last = control.callback, dict[str, tuple[float, float]]()

        def report(progress: Progress) -> object:
            first = last.setdefault(progress.stage, (progress.seconds, progress.violation))
            self._left = _seconds_left(first, progress)
            if math.isfinite(progress.violation):
                self._note = f", {progress.stage}: {what} {progress.violation:.1e}, to come down to {progress.tol:.0e}"
            else:  # nothing is known yet
                self._note = f", {progress.stage}" * (progress.stage != "solve")
            self._report(StageProgress("solve", 0, 0, self._left, self._note[2:]))
            return None if callback is None else callback(progress)

        return replace(control, callback=report)

    def end(self) -> None:
        """Report nothing more."""
        self._progress = None

    def _report(self, progress: StageProgress) -> None:
        self._last_report = time.perf_counter()
        if self._progress is not None:
            self._progress(progress)


def _seconds_left(first: tuple[float, float], now: Progress) -> float | None:
    """Estimate the time until the gap is small enough, as if it fell by the same factor in every second."""
    seconds, gap = first
    if not (now.seconds > seconds and 0.0 < now.violation < gap < math.inf):
        return None
    return (now.seconds - seconds) * max(0.0, math.log(now.violation / now.tol)) / math.log(gap / now.violation)
