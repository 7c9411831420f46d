"""Progress on the command line: a live bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from mercer.solvers import StageProgress
from mercer.studies.plan import PLAN
from mercer.studies.report.prose import duration

FIRST_LINE_SECONDS = 2.0
LINE_SECONDS = 10.0
"""Where there is no terminal: when the first line about a stage comes, and how often another one."""


STOPPING = "stopping the search; going on with the best candidate so far (Ctrl-C again ends everything)"


def _left(seconds: float) -> str:
    return f"about {duration(seconds)} left"


def _count(progress: StageProgress, between: str) -> str:
    """Return how much of the stage is done, with its unit; bytes in megabytes."""
    if progress.unit == "bytes":
        return f"{progress.done / 1e6:,.1f}{between}{progress.total / 1e6:,.1f} MB"
    return f"{progress.done:,}{between}{progress.total:,} {progress.unit}".rstrip()


class _TimeLeft(ProgressColumn):
    """What the last estimate has left, which goes down between one estimate and the next."""

    def render(self, task: Task) -> Text:
        ends_at = task.fields["ends_at"]
        return Text("" if ends_at is None else _left(max(0.0, ends_at - time.monotonic())))


class ConsoleProgress:
    """A progress callback that shows what it is told."""

    def __init__(self, console: Console | None = None) -> None:
        console = self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._stage = ""
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TimeElapsedColumn(),
                TextColumn("{task.fields[count]}", markup=False),
                _TimeLeft(),
                TextColumn("{task.fields[note]}", style="dim", markup=False),
            )
            self._bar = Bar(*columns, console=console, transient=True)
        self._next_line = time.monotonic() + FIRST_LINE_SECONDS

    def __enter__(self) -> ConsoleProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: StageProgress) -> None:
        """Show where the work stands."""
        if progress.stopped == "interrupted":
            self._console.print(STOPPING, soft_wrap=True)
        elif progress.stage == PLAN:
            self._console.print(f"search: {progress.note}", soft_wrap=True)
        elif self._bar is not None:
            self._show(self._bar, progress)
        elif time.monotonic() >= self._next_line:
            left = "" if progress.seconds_left is None else _left(progress.seconds_left)
            share = f" {_count(progress, ' of ')}" if progress.total else ""
            details = ", ".join(part for part in (left, progress.note) if part)
            self._console.print(f"{progress.stage}{share}{f': {details}' if details else ''}", soft_wrap=True)
            self._next_line = time.monotonic() + LINE_SECONDS

    def _show(self, bar: Bar, progress: StageProgress) -> None:
        if self._task is None or progress.stage != self._stage:
            # A stage is a new bar: one that cannot be counted pulses.
            if self._task is not None:
                bar.remove_task(self._task)
            self._stage = progress.stage
            self._task = bar.add_task(progress.stage, total=None, count="", ends_at=None, note="")
        count = _count(progress, "/") if progress.total else ""
        bar.update(
            self._task,
            completed=progress.done,
            total=progress.total or None,
            count=count,
            ends_at=None if progress.seconds_left is None else time.monotonic() + progress.seconds_left,
            note=progress.note,
        )
