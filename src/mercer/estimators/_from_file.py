"""Machines that are also trained on files: their face, and what they remember of the file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import narwhals as nw

from mercer._typing import FloatArray
from mercer.data.reading import Reading
from mercer.estimators._labels import Labels
from mercer.estimators._lazy_training import fit_lazy
from mercer.estimators._linear_rows import LinearTable
from mercer.estimators._linear_training import LinearSolutions, TrainedLinearMachine
from mercer.estimators._validation import drop_record
from mercer.gram.rows.table_rows import LinearRows
from mercer.problems.linear import LinearProblem
from mercer.solvers import StageProgress
from mercer.solvers.rows import LinearSolution
from mercer.specs.linear import LinearSpec

if TYPE_CHECKING:
    from mercer.studies.tables import TableEncoder

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
    weights : str, optional
        Column of the weights of the rows.
    """

    target: str
    n_rows: int
    checksum: str
    reading: Reading
    keeps_numbers: bool
    centre: float = 0.0
    scale: float = 1.0
    weights: str | None = None


class ReadsFiles:
    """A machine that is also trained on files: `fit_file`, and what it remembers of the file."""

    encoder_: TableEncoder | None
    training_file_: TrainingFile
    _task: ClassVar[Literal["classification", "regression"]]
    _has_target: ClassVar[bool] = True
    class_weight: Any = None

    def _forget_file(self) -> None:
        """Remove what an earlier `fit_file` has set."""
        for name in ("encoder_", "training_file_"):
            self.__dict__.pop(name, None)

    def _encoded(self, X: Any) -> Any:
        """Return a data frame encoded as the file of the training was; other rows unchanged."""
        encoder = self.__dict__.get("encoder_")
        if encoder is not None and isinstance(nw.from_native(X, pass_through=True), nw.DataFrame):
            return encoder.transform(X)
        return X

    def fit_file(
        self,
        path: str | Path | Sequence[str | Path],
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
        max_levels: int = 10_000,
        format: Literal["csv", "tsv", "parquet", "svmlight"] | None = None,
        sep: str | None = None,
        decimal: Literal[".", ","] | None = None,
        encoding: str | None = None,
        na: Sequence[str] = (),
        limits: Literal["value", "half"] | None = None,
        merge: Names = (),
        zero_based: bool = False,
        progress: OnProgress | None = None,
        cluster: Any = None,
    ) -> Self:
        """Train the machine on a file, which may be much larger than memory.

        The file is parsed once into a folder of blocks of numbers. The solver then reads the blocks as often as it
        needs, with the same steps and to the same certified gap as `fit` on the encoded table. If the process is
        killed, the same call continues from the blocks and the last checkpoint that are complete. A kernel machine has
        its support vectors in memory, and visits all other rows in passes.

        Parameters
        ----------
        path : str, Path or list of these
            A delimited file (.csv, .tsv, also compressed), a Parquet file, or svmlight. Several files with the same
            columns in the same order are one table.
        target : str, optional
            Column of the labels or targets; svmlight and `OneClassSVM` need none.
        memory : str or int, default="500MB"
            Memory for the fit, beside the interpreter and its libraries: text such as "500MB" or "2GiB", or a number
            of bytes, at least 1 MB.
        cache : str or Path, optional
            Folder for blocks and checkpoints, by default the path with ".blocks" appended; with several files, one
            folder in it for each. It needs 1 to 8 bytes for
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
            How the file is read: see :func:`mercer.studies.models.read_table`. By default its first rows tell.
        zero_based : bool, default=False
            Whether an svmlight file counts features from 0, as in :func:`mercer.load_libsvm_data`.
        progress : callable, optional
            Called with a :class:`mercer.solvers.StageProgress`, which has an estimate of the time left.
        cluster : str or distributed.Client, optional
            For linear machines: the address of a Dask scheduler, such as "tcp://10.0.0.1:8786", or a client. The
            workers of the cluster then parse the files, one file at a time each, and hold the rows in their memory:
            only sums over rows pass through this process. Files and folders of blocks must be on a disk that the
            workers see under the same path. The result does not depend on the number of workers. It needs
            `mercer[dask]`.

        Returns
        -------
        self
            With the attributes that `fit` sets, and with `encoder_`, which encodes tables as the file was encoded.
            `predict` and `decision_function` do so with data frames whose columns have the names of the file; arrays
            must hold encoded rows, as ``encoder_.transform(table)`` returns them. It is None for svmlight.
            `training_file_` says what the file was; :func:`mercer.studies.models.model_of_file` makes a model of the
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
        MemoryError
            If the support vectors of a kernel machine do not fit into the memory; the message says what they need.
        ClusterError
            If the workers cannot finish: the message says why. The last checkpoint is kept, and the same call goes on.
        OSError
            If the file cannot be read, or the disk is full. The last complete checkpoint is kept.
        KeyboardInterrupt
            For Ctrl-C while the file is parsed. While the solver works, Ctrl-C ends the fit with a machine whose
            certificate says how far it is from the optimum.

        Notes
        -----
        Parsing reads 10 to 100 MB per second. The solver begins at the optimum for a sample of the blocks that
        fits into memory. Each of its steps, usually 2 to 6, then reads all blocks twice. If the encoded table fits into
        a third of the budget, it is in memory, and the solver is that of `fit`. For a kernel machine, it must fit into
        a sixth; otherwise a few passes compute the decision values of all rows, which is the number of rows times the
        number of support vectors in kernel values for each pass.
        """
        from mercer.studies.fit_file import fit_file

        return fit_file(
            self,
            path,
            target=target,
            memory=memory,
            cache=cache,
            sample_weight=sample_weight,
            drop=drop,
            categorical=categorical,
            scale=scale,
            scale_target=scale_target,
            missing=missing,
            max_levels=max_levels,
            format=format,
            sep=sep,
            decimal=decimal,
            encoding=encoding,
            na=na,
            limits=limits,
            merge=merge,
            zero_based=zero_based,
            progress=progress,
            cluster=cluster,
        )


class FitsFiles(ReadsFiles, TrainedLinearMachine):
    """A linear machine that is also trained on files."""

    spec_: Any

    def _hold(self, *about: Any) -> None:
        self._forget_file()
        super()._hold(*about)

    def _values(self, X: Any) -> FloatArray:
        """Return the decision values; a data frame is encoded first if the machine was trained on a table in a file."""
        return super()._values(self._encoded(X))

    @abstractmethod
    def _asked(self) -> LinearSpec:
        """Check the parameters, and return the specification of the problem."""

    def _spec_for(self, spec: Any, labels: Labels | None) -> Any:
        """Return the specification for these classes."""
        del labels
        return spec

    @abstractmethod
    def _problems(self, spec: Any, rows: LinearRows, labels: Labels | None) -> list[Any]:
        """Return the problems of the machines on these rows; of all classes together, one."""

    def _store_file_fit(
        self,
        spec: LinearSpec,
        p: int,
        labels: Labels | None,
        problems: Sequence[LinearProblem],
        solutions: LinearSolutions,
        encoder: TableEncoder | None,
        file: TrainingFile,
    ) -> None:
        """Set the attributes of a machine that was trained on a file of p encoded columns."""
        self.spec_, self.n_features_in_ = spec, p
        if labels is not None:
            self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._used_rows: Any = slice(None)
        self._store(problems, solutions, LinearTable(None, 0))
        self.coef_, self.intercept_ = file.scale * self.coef_, file.centre + file.scale * self.intercept_
        self.encoder_, self.training_file_ = encoder, file
        self._warn()

    def _fit_lazy(self, X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> Self:
        """Train the machine on a table of Dask, whose rows stay with the workers."""
        fit_lazy(self, X, y, sample_weight, checkpoint)
        return self

    def _store_lazy_fit(
        self,
        spec: LinearSpec,
        p: int,
        labels: Labels | None,
        names: Any,
        problems: Sequence[LinearProblem],
        solutions: Sequence[LinearSolution],
    ) -> None:
        """Set the attributes of a machine that was trained on a lazy table of p columns with these names, or None."""
        drop_record(self)
        self.spec_, self.n_features_in_ = spec, p
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        if labels is not None:
            self.classes_, self.class_weight_ = labels.classes, labels.class_weight
        self._used_rows, self._sparse = slice(None), problems[0].rows.is_sparse
        self._store(problems, LinearSolutions(solutions), LinearTable(None, 0))
        self._warn()
