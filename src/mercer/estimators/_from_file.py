"""The training of linear machines on files that are larger than memory."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import narwhals as nw
import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.status import Status
from mercer.data.arguments import check_choice, check_count, check_flag
from mercer.data.reading import Reading, ReadingOptions
from mercer.estimators._labels import Labels, read_labels
from mercer.estimators._linear_rows import LinearTable
from mercer.estimators._linear_training import LinearSolutions, TrainedLinearMachine
from mercer.solvers import Control, Progress, StageProgress
from mercer.solvers.rows import (
    LinearPoint,
    LinearProblem,
    LinearRows,
    LinearSolution,
    WarmStart,
    in_turns,
    solve,
    start_from_sample,
)
from mercer.specs.linear import LinearSpec
from mercer.study.tables.encoding import MAX_LEVELS, TableEncoder
from mercer.study.tables.prediction_kind import Quantity
from mercer.study.tables.target_numbers import check_numbers

if TYPE_CHECKING:
    from mercer.study.files.blocks.cache import BlockCache
    from mercer.study.files.blocks.checkpoint import Checkpoints
    from mercer.study.files.blocks.encoding import BlockEncoding

_PAUSE = 0.1  # seconds between two reports of blocks that were read

Names: TypeAlias = Collection[str]
OnProgress: TypeAlias = Callable[[StageProgress], object]


@dataclass(frozen=True)
class TrainingFile:
    """What a machine remembers of the file that it was trained on.

    Attributes
    ----------
    target : str
    n_rows : int
    checksum : str
        SHA-256 of the beginning and the end of the file.
    reading : Reading
        How its cells were read.
    keeps_numbers : bool
        Whether columns have the numbers or names of the file; False for svmlight whose feature j is column j - 1.
    centre, scale : float
        The machine was trained on (target - centre) / scale; 0 and 1 without `scale_target`.
    """

    target: str
    n_rows: int
    checksum: str
    reading: Reading
    keeps_numbers: bool
    centre: float = 0.0
    scale: float = 1.0


class FitsFiles(TrainedLinearMachine):
    """A linear machine that is also trained on files."""

    encoder_: TableEncoder | None
    training_file_: TrainingFile
    spec_: Any
    _task: Literal["classification", "regression"]
    class_weight: Any = None

    def _hold(self, *about: Any) -> None:
        self._forget_file()
        super()._hold(*about)

    def _forget_file(self) -> None:
        """Remove what an earlier `fit_file` has set."""
        for name in ("encoder_", "training_file_"):
            self.__dict__.pop(name, None)

    def _values(self, X: Any) -> FloatArray:
        """Return the decision values; a data frame is encoded first if the machine was trained on a table in a file."""
        encoder = self.__dict__.get("encoder_")
        if encoder is not None and isinstance(nw.from_native(X, pass_through=True), nw.DataFrame):
            X = encoder.transform(X)
        return super()._values(X)

    @abstractmethod
    def _asked(self) -> LinearSpec:
        """Check the parameters, and return the specification of the problem."""

    @abstractmethod
    def _problems(self, spec: Any, rows: LinearRows, labels: Labels | None) -> list[LinearProblem]:
        """Return the problems of the machines on these rows."""

    def fit_file(
        self,
        path: str | Path,
        *,
        target: str | None = None,
        memory: str | int = "500MB",
        cache: str | Path | None = None,
        sample_weight: str | None = None,
        drop: Names = (),
        categorical: Names = (),
        scale: bool = False,
        scale_target: bool = False,
        missing: Literal["error", "impute"] = "impute",
        max_levels: int = MAX_LEVELS,
        format: Literal["csv", "tsv", "parquet", "svmlight"] | None = None,
        sep: str | None = None,
        decimal: Literal[".", ","] | None = None,
        encoding: str | None = None,
        na: Sequence[str] = (),
        limits: Literal["value", "half"] | None = None,
        merge: Names = (),
        zero_based: bool = False,
        progress: OnProgress | None = None,
    ) -> Self:
        """Train the machine on a file, which may be much larger than memory.

        The file is parsed once into a folder of blocks of numbers. The solver then reads the blocks as often as it
        needs, with the same steps and to the same certified gap as `fit` on the encoded table. If the process is
        killed, the same call continues from the blocks and the last checkpoint that are complete.

        Parameters
        ----------
        path : str or Path
            A delimited file (.csv, .tsv, also compressed), a Parquet file, or svmlight.
        target : str, optional
            Column of the labels or targets; svmlight needs none.
        memory : str or int, default="500MB"
            Memory for the fit, beside the interpreter and its libraries: text such as "500MB" or "2GiB", or a number
            of bytes, at least 1 MB.
        cache : str or Path, optional
            Folder for blocks and checkpoints, by default the path with ".blocks" appended. It needs 1 to 8 bytes for
            each cell, and 8 bytes for each row. It is kept, so that other fits on the file need not parse it; delete it
            to free the space. If a row group of a Parquet file exceeds the memory, its cells are in temporary files
            there while it is parsed.
        sample_weight : str, optional
            Column of the weights of the rows, >= 0; it is not a feature then.
        drop, categorical : sequence of str
            Columns that are not used; columns whose numbers are categories. Columns of text are categories, too.
        scale : bool, default=False
            Whether columns of numbers are standardised, and columns with one value only are left out. By default
            numbers are used as they are in the file. svmlight is never scaled.
        scale_target : bool, default=False
            Regression only: whether the targets are standardised, so that C and epsilon are relative to their spread.
            Predictions, `coef_` and `intercept_` are in the unit of the targets nevertheless.
        missing : {"impute", "error"}, default="impute"
            "impute" fills a missing number with the median of its column, and a missing category with the most frequent
            one. If 5 % of the cells of a column are missing or more, a column of its own says which.
        max_levels : int, default=10000
            Largest number of categories of a column that get an indicator, the most frequent ones.
        format, sep, decimal, encoding, na, limits, merge
            How the file is read: see :func:`mercer.study.models.read_table`. By default its first rows tell.
        zero_based : bool, default=False
            Whether an svmlight file counts features from 0, as in :func:`mercer.load_libsvm_data`.
        progress : callable, optional
            Called with a :class:`mercer.solvers.StageProgress`, which has an estimate of the time left.

        Returns
        -------
        self
            With the attributes that `fit` sets, and with `encoder_`, which encodes tables as the file was encoded.
            `predict` and `decision_function` do so with data frames whose columns have the names of the file; arrays
            must hold encoded rows, as ``encoder_.transform(table)`` returns them. It is None for svmlight.
            `training_file_` says what the file was; :func:`mercer.study.models.model_of_file` makes a model of the
            machine, to be saved.

        Raises
        ------
        TableError
            If a line is invalid (the message has its number and its first byte), or if the columns or the folder cannot
            be used. Finished blocks are kept: mend the line, and parsing begins again. If a page of a Parquet file
            does not fit into the memory; nothing was parsed then. If the different texts of categories and classes
            take more than a quarter of the memory.
        ValueError
            For an invalid parameter.
        TypeError
            If `path` is no path, or `target` or `sample_weight` is not the name of a column.
        OSError
            If the file cannot be read, or the disk is full. The last complete checkpoint is kept.
        KeyboardInterrupt
            For Ctrl-C while the file is parsed. While the solver works, Ctrl-C ends the fit with a machine whose
            certificate says how far it is from the optimum.

        Notes
        -----
        Parsing reads 10 to 100 MB per second. The solver begins at the optimum for a sample of the blocks that
        fits into memory. Each of its steps, usually 2 to 6, then reads all blocks twice. If the encoded table fits into
        a third of the budget, it is in memory, and the solver is that of `fit`.
        """
        from mercer.study.files.blocks.budget import Budget
        from mercer.study.files.blocks.cache import block_cache
        from mercer.study.files.blocks.checkpoint import Checkpoints
        from mercer.study.files.blocks.encoding import learn_encoding
        from mercer.study.files.blocks.file_rows import rows_of_cache
        from mercer.study.files.blocks.sources import open_source

        spec, control = self._asked(), self._control()
        budget = Budget.of("memory", memory)
        check_choice("missing", missing, ("error", "impute"))
        check_flag("scale", scale)
        if check_flag("scale_target", scale_target) and self._task == "classification":
            raise ValueError("scale_target is for targets that are numbers: leave it out for classes.")
        check_count("max_levels", max_levels)
        if not isinstance(path, (str, Path)):
            raise TypeError(f"path must name a file, got {type(path).__name__}: `fit` takes rows in memory.")
        for name, column in (("target", target), ("sample_weight", sample_weight)):
            if column is not None and not isinstance(column, str):
                raise TypeError(f"{name} must be the name of a column of the file, got {type(column).__name__}.")
        path = Path(path)
        folder = Path(f"{path}.blocks") if cache is None else Path(cache)
        words, dropped, categories, merged = (
            (one,) if isinstance(one, str) else tuple(one) for one in (na, drop, categorical, merge)
        )
        reading = ReadingOptions(format, sep, decimal, encoding, words, categories, limits=limits, merge=merged)
        source = open_source(
            path,
            self._task,
            reading,
            target=target,
            weights=sample_weight,
            drop=dropped,
            categorical=categories,
            zero_based=check_flag("zero_based", zero_based),
            head_bytes=budget.head,
            memory=budget.reading,
            scratch=folder,
        )
        reports = _Reports(progress)
        about_blocks = {"block_bytes": budget.piece, "text_bytes": budget.texts}
        with block_cache(folder, path, source, **about_blocks, report=reports.parsed) as blocks:
            reports.begin("learn the encoding")
            learnt = learn_encoding(blocks, missing=missing, scale=scale, max_levels=max_levels)
            labels: Labels | None = None
            quantity = _quantity_of(blocks) if scale_target else Quantity(blocks.layout.target)
            label_of: FloatArray | Quantity = quantity
            if self._task == "classification":
                labels, label_of = self._labels_of(blocks)
            rows = rows_of_cache(blocks, learnt, label_of, budget.rows, reports.read)
            problems = self._problems(spec, rows, labels)
            about = {"machine": repr(spec), "encoding": _described(learnt), "cache": blocks.identity}
            about["target"] = [quantity.centre, quantity.scale]
            about["class_weight"] = None if labels is None else labels.class_weight.tolist()
            solutions = self._solve_on_file(
                problems, reports.following(control), Checkpoints(folder, about, rows), budget.solver
            )
        reports.end()
        self.spec_, self.n_features_in_ = spec, rows.p
        if labels is not None:
            self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._used_rows: Any = slice(None)
        self._store(problems, solutions, LinearTable(None, 0))
        if scale_target:
            self.coef_, self.intercept_ = quantity.scale * self.coef_, quantity.in_unit(self.intercept_)
        self.encoder_ = learnt.encoder
        self.training_file_ = TrainingFile(
            blocks.layout.target,
            rows.n,
            blocks.identity["source"]["sha256"],
            reading.as_read(blocks.identity["options"]),
            zero_based or learnt.encoder is not None,
            quantity.centre,
            quantity.scale,
        )
        self._warn()
        return self

    def _labels_of(self, blocks: BlockCache) -> tuple[Labels, FloatArray]:
        """Return the classes, and the number of the class for each place in the order of the file."""
        from mercer.study.files.blocks.target_levels import labels_of_texts, refuse_many_fractions, refuse_missing_words

        texts = [*blocks.levels.of.get(blocks.layout.target, ())]
        refuse_missing_words(blocks.layout.target, texts)
        refuse_many_fractions(blocks.layout.target, texts)
        sums = np.zeros(len(texts))
        for number in range(blocks.n_blocks):
            codes, own = blocks.read_numbers(number)
            sums += np.bincount(codes.astype(np.intp), own, minlength=len(texts))
        names, size = labels_of_texts(texts), len(texts)
        # Each class is named three times, so that the number of classes is small beside that of the rows.
        labels_read = read_labels(
            np.concatenate([names, names, names]),
            np.concatenate([sums, np.zeros(2 * size)]),
            self.class_weight,
            3 * size,
        )
        return labels_read, labels_read.codes[:size].astype(np.float64)

    def _solve_on_file(
        self, problems: Sequence[LinearProblem], control: Control, checkpoints: Checkpoints, memory: int
    ) -> LinearSolutions:
        """Solve the problems in turn, each from its checkpoint."""
        from mercer.study.files.blocks.file_rows import FileRows

        limit = memory if self.memory_limit is None else min(memory, self.memory_limit)
        about = {"memory_limit": limit, "n_jobs": self.n_jobs}

        def train(number: int, left: Control, earlier: WarmStart | None) -> LinearSolution:
            problem, start, began = problems[number], earlier or checkpoints.load(number), time.perf_counter()
            if start is None and isinstance(problem.rows, FileRows):
                start = start_from_sample(problem, problem.rows.sample(), left, **about)
            left = left.after(time.perf_counter() - began, 0)
            found = solve(problem, left, start=start, after_step=checkpoints.after_step(number), **about)
            if len(problems) > 1 or found.certificate.status is not Status.OPTIMAL:
                checkpoints.keep(number, LinearPoint(found.w, found.beta, found.C))
            return found

        with control.interruption:
            solutions = in_turns(problems, control, train)
        if all(one.certificate.status is Status.OPTIMAL for one in solutions):
            checkpoints.clear()
        else:
            checkpoints.write()
        return LinearSolutions(solutions)


def _quantity_of(blocks: BlockCache) -> Quantity:
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
    return [asdict(rule) for _, rule, _ in encoding.columns]  # type: ignore[call-overload]


class _Reports:
    """Progress reports of a fit on a file, with an estimate of the time left."""

    def __init__(self, progress: OnProgress | None) -> None:
        self._progress, self._began, self._stage = progress, time.perf_counter(), "parse"
        self._first: tuple[int, float] | None = None
        self._sweeps, self._told, self._note = 0, 0.0, ""
        self._left: float | None = None

    def begin(self, stage: str) -> None:
        """Begin another stage."""
        self._stage, self._began = stage, time.perf_counter()
        self._tell(StageProgress(stage))

    def parsed(self, done: int, total: int | None) -> None:
        """Report the place in the file that parsing has reached."""
        if self._first is None:  # blocks of an earlier call took no time
            self._first = done, time.perf_counter()
        at, since = self._first
        share = 0.0 if not total or done <= at else (total - done) / (done - at)
        left = (time.perf_counter() - since) * share if share else None
        self._tell(StageProgress("parse", done, total or 0, left, unit="bytes"))

    def read(self, done: int, total: int) -> None:
        """Report that a block was read, at most ten times a second."""
        self._sweeps += done == 1
        now = time.perf_counter()
        if now - self._told < _PAUSE:
            return
        note = f"sweep {self._sweeps}{self._note}" if self._stage == "solve" else ""
        self._tell(StageProgress(self._stage, done, total, self._left, note, unit="blocks"))

    def following(self, control: Control) -> Control:
        """Return the control with a callback that also reports the progress of the solver."""
        self.begin("solve")
        self._sweeps = 0
        if self._progress is None:
            return control
        callback, last = control.callback, dict[str, tuple[float, float]]()

        def report(progress: Progress) -> object:
            first = last.setdefault(progress.stage, (progress.seconds, progress.violation))
            self._left = _seconds_left(first, progress)
            self._note = (
                f", {progress.stage}: relative gap {progress.violation:.1e}, to come down to {progress.tol:.0e}"
            )
            self._tell(StageProgress("solve", 0, 0, self._left, self._note[2:]))
            return None if callback is None else callback(progress)

        return replace(control, callback=report)

    def end(self) -> None:
        """Report nothing more."""
        self._progress = None

    def _tell(self, progress: StageProgress) -> None:
        self._told = time.perf_counter()
        if self._progress is not None:
            self._progress(progress)


def _seconds_left(first: tuple[float, float], now: Progress) -> float | None:
    """Estimate the time until the gap is small enough, as if it fell by the same factor in every second."""
    seconds, gap = first
    if not (now.seconds > seconds and 0.0 < now.violation < gap < math.inf):
        return None
    return (now.seconds - seconds) * max(0.0, math.log(now.violation / now.tol)) / math.log(gap / now.violation)
