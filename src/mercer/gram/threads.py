"""How many threads the native core uses, how others limit them, and how it limits those of BLAS."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import ClassVar, final

import joblib
import threadpoolctl

from mercer._core import thread_limit


def n_threads(n_jobs: int | None = None) -> int:
    """Return the number of threads for `n_jobs`, with the caller's surroundings taken into account.

    Parameters
    ----------
    n_jobs : int, optional
        A positive number is taken as it is; -1 means all processors, -2 all but one, and so on. None means all
        processors that this process may use, within three limits: one thread inside a joblib worker (as in a
        parallel grid search), the variable ``OMP_NUM_THREADS``, which joblib and cluster schedulers set for
        their workers, and ``threadpoolctl.threadpool_limits``.

    Raises
    ------
    ValueError
        If `n_jobs` is 0.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be a positive or negative integer or None, got 0; use 1 for one thread.")
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    processors = _processors(_affinity())
    if n_jobs is not None:
        return max(1, processors + 1 + n_jobs)
    if getattr(joblib.parallel.get_active_backend()[0], "nesting_level", 0):
        return 1
    limits = [processors, thread_limit()]
    share = os.environ.get("OMP_NUM_THREADS", "")
    if share.isdigit():
        limits.append(int(share))
    return min(limit for limit in limits if limit > 0)


def threads_that_pay(n_values: int, one_thread_values: int, n_threads: int) -> int:
    """Return how many of so many threads pay for these kernel values: to wake each takes its time.

    Where there are several, each has half of the values that one evaluates alone, at least.
    """
    return 1 if n_values <= one_thread_values else min(n_threads, 2 * n_values // max(1, one_thread_values))


def _affinity() -> frozenset[int]:
    """Processors that the system lets this process use, where it says so."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


@cache
def _processors(affinity: frozenset[int]) -> int:
    """Their number, within what a container allows; joblib reads that from files, as long as a small fit takes."""
    del affinity
    return joblib.cpu_count()


@final
class _ThreadLimit(threadpoolctl.LibController):
    """Tells threadpoolctl about the native core, as about BLAS and OpenMP."""

    user_api = "mercer"
    internal_api = "mercer"
    filename_prefixes: ClassVar[tuple[str, ...]] = ("_core.",)
    check_symbols: ClassVar[tuple[str, ...]] = ("mercer_get_num_threads", "mercer_set_num_threads")

    def get_num_threads(self) -> int:
        return int(self.dynlib.mercer_get_num_threads()) or _processors(_affinity())

    def set_num_threads(self, num_threads: int) -> None:
        # All processors is no limit: what threadpoolctl read before it set one, and puts back after.
        self.dynlib.mercer_set_num_threads(0 if num_threads >= _processors(_affinity()) else num_threads)

    def get_version(self) -> None:
        return None

    def set_additional_attributes(self) -> None:
        pass


threadpoolctl.register(_ThreadLimit)


_ONE_THREAD = 3e9
"""Multiplications that one thread of BLAS is faster at than two, measured where pieces of algebra follow one another:
threads that wait for the next piece keep those of SciPy's own BLAS from theirs."""


def blas_threads(multiplications: float) -> AbstractContextManager[None]:
    """Return a context in which BLAS takes one thread if a step costs no more multiplications than threads pay for."""
    return _one_thread() if multiplications <= _ONE_THREAD else nullcontext()


class _OneThread:
    """Keeps BLAS to one thread for as long as anybody asks for it, in whatever thread.

    The limit is the whole process's: if two fits at once each put back what they had found, the limit of the first
    would be what the second puts back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking: list[int] = []  # threads, as often as they ask

    @contextmanager
    def __call__(self) -> Iterator[None]:
        own = threading.get_ident()
        with self._lock:
            if not self._asking:
                _take_control()
                self._limiter = _loaded().limit(limits=1, user_api="blas")
            self._asking.append(own)
        try:
            yield
        finally:
            with self._lock:
                self._asking.remove(own)
                self._put_back()

    def begin_anew(self) -> None:
        """Go on in a process that was forked, where of all threads only this one lives on, whatever others had held."""
        self._lock = threading.Lock()
        if self._asking:
            self._asking = [thread for thread in self._asking if thread == threading.get_ident()]
            self._put_back()

    def _put_back(self) -> None:
        if not self._asking:
            _take_control()
            self._limiter.restore_original_limits()
            _take_control()  # and leave it to whoever comes next


_one_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.begin_anew)


def _take_control() -> None:
    """Let this thread set the limit: threadpoolctl (of late) ignores all threads but the first one that has done so."""
    for library in _loaded().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def _loaded() -> threadpoolctl.ThreadpoolController:
    """The libraries at hand; to look for them takes as long as a small fit."""
    return threadpoolctl.ThreadpoolController()
