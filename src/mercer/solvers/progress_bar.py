"""Progress bars: a live bar in a terminal, another one in a notebook, and a plain line now and then elsewhere."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mercer.solvers.progress import PLAN, StageProgress, duration

if TYPE_CHECKING:
    from rich.console import Console

FIRST_LINE_SECONDS = 2.0
LINE_SECONDS = 10.0
"""Without a terminal and a notebook: when the first line about a stage comes, and how often another one."""

REDRAW_SECONDS = 0.2
"""Least time between two pictures of the bar in a notebook."""

STOPPING = "stopping the search; going on with the best candidate so far (Ctrl-C again ends everything)"


def _left(seconds: float) -> str:
    return f"about {duration(seconds)} left"


def _count(progress: StageProgress, between: str) -> str:
    """Return how much of the stage is done, with its unit; bytes in megabytes."""
    if progress.unit == "bytes":
        return f"{progress.done / 1e6:,.1f}{between}{progress.total / 1e6:,.1f} MB"
    return f"{progress.done:,}{between}{progress.total:,} {progress.unit}".rstrip()


class ProgressBar:
    """A progress callback that shows the stage, what is done, and the time left.

    The bar is a context manager. It writes to stderr, or into the cell of a notebook, and disappears at the end.

    Parameters
    ----------
    console : rich.console.Console, optional
        By default stderr.
    every : float, optional
        Without a terminal and a notebook: seconds between two lines. With 0, each change of what is done is a line.
    """

    def __init__(self, console: Console | None = None, every: float | None = None) -> None:
        from rich.console import Console  # imported here, as it takes a twentieth of a second

        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._bar: _TerminalBar | NotebookBar | None = None
        if self._console.is_terminal:
            self._bar = _TerminalBar(self._console)
        elif self._console.is_jupyter:
            self._bar = NotebookBar()
        self._every, self._said = LINE_SECONDS if every is None else every, ("", -1)
        self._next_line = time.monotonic() + min(FIRST_LINE_SECONDS, self._every)

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: StageProgress) -> None:
        """Show how far the work is."""
        if progress.stopped == "interrupted":
            self._console.print(STOPPING, soft_wrap=True)
        elif progress.stage == PLAN:
            self._console.print(f"search: {progress.note}", soft_wrap=True)
        elif self._bar is not None:
            self._bar.show(progress)
        elif time.monotonic() >= self._next_line and (self._every or self._said != (progress.stage, progress.done)):
            self._console.print(_line(progress), soft_wrap=True)
            self._next_line, self._said = time.monotonic() + self._every, (progress.stage, progress.done)


@contextmanager
def reported(
    verbose: int, callback: Callable[[StageProgress], object] | None, every: float | None = 0.0
) -> Iterator[Callable[[StageProgress], bool]]:
    """A function that takes progress reports: it shows them if `verbose`, and returns whether `callback` asks to end.

    Parameters
    ----------
    verbose : int
        0 shows nothing.
    callback : callable or None
        Called with each report.
    every : float, optional
        See :class:`ProgressBar`.
    """
    with ProgressBar(every=every) if verbose else nullcontext() as bar:

        def report(progress: StageProgress) -> bool:
            if bar is not None:
                bar(progress)
            return callback is not None and bool(callback(progress))

        yield report


def _line(progress: StageProgress) -> str:
    left = "" if progress.seconds_left is None else _left(progress.seconds_left)
    share = f" {_count(progress, ' of ')}" if progress.total else ""
    details = ", ".join(part for part in (left, progress.note) if part)
    return f"{progress.stage}{share}{f': {details}' if details else ''}"


class _TerminalBar:
    """A bar of rich, whose estimate of the time left goes down between two reports."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
        from rich.text import Text

        class TimeLeft(ProgressColumn):
            """What the last estimate has left."""

            def render(self, task: Task) -> Text:
                ends_at = task.fields["ends_at"]
                return Text("" if ends_at is None else _left(max(0.0, ends_at - time.monotonic())))

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeLeft(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
        )
        self._bar = Progress(*columns, console=console, transient=True)
        self.start, self.stop = self._bar.start, self._bar.stop
        self._task: TaskID | None = None
        self._stage = ""

    def show(self, progress: StageProgress) -> None:
        """Draw the bar; a stage that cannot be counted pulses."""
        if self._task is None or progress.stage != self._stage:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._stage = progress.stage
            self._task = self._bar.add_task(progress.stage, total=None, count="", ends_at=None, note="")
        self._bar.update(
            self._task,
            completed=progress.done,
            total=progress.total or None,
            count=_count(progress, "/") if progress.total else "",
            ends_at=None if progress.seconds_left is None else time.monotonic() + progress.seconds_left,
            note=progress.note,
        )


class NotebookBar:
    """A bar in the output of a notebook's cell, drawn by the browser; no widgets are needed.

    Parameters
    ----------
    handle : DisplayHandle, optional
        Where it is drawn; by default a new output of the cell.
    """

    def __init__(self, handle: Any = None) -> None:
        self._handle = handle
        self._next, self._stage = 0.0, ""

    def start(self) -> None:
        """Make the output."""
        if self._handle is None:
            from IPython.display import HTML, display

            self._handle = display(HTML(""), display_id=True)

    def stop(self) -> None:
        """Make the output empty."""
        self._draw("")

    def show(self, progress: StageProgress) -> None:
        """Draw the bar, unless it was drawn a moment ago."""
        now = time.monotonic()
        if now < self._next and progress.stage == self._stage:
            return
        self._next, self._stage = now + REDRAW_SECONDS, progress.stage
        bar = f'<progress value="{progress.done}" max="{progress.total}"></progress>' if progress.total else "…"
        left = "" if progress.seconds_left is None else _left(progress.seconds_left)
        texts = (_count(progress, " of ") if progress.total else "", left, progress.note)
        details = ", ".join(html.escape(text) for text in texts if text)
        self._draw(f"{html.escape(progress.stage)} {bar} {details}")

    def _draw(self, markup: str) -> None:
        if self._handle is not None:
            self._handle.update({"text/html": markup, "text/plain": ""}, raw=True)
