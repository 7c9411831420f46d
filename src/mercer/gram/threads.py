"""The number of threads of the native core, and the limit of BLAS threads in small linear algebra."""

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

_MOST_THREADS = 1024  # threads; more would only cost memory for their stacks


def n_threads(n_jobs: int | None = None) -> int:
    """Return the number of threads for `n_jobs`, within the limits of joblib, OpenMP and threadpoolctl.

    Parameters
    ----------
    n_jobs : int, optional
        A positive number is used unchanged, but at most 1,024; -1 means all processors, -2 all but one, and so on.
        None means all processors that this process may use, within three limits: one thread inside a joblib worker (as
        in a parallel grid search), the variable ``OMP_NUM_THREADS``, which joblib and cluster schedulers set for their
        workers, and ``threadpoolctl.threadpool_limits``.

    Raises
    ------
    ValueError
        If `n_jobs` is 0.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be a positive or negative integer or None, got 0; use 1 for one thread.")
    if n_jobs is not None and n_jobs > 0:
        return min(n_jobs, _MOST_THREADS)
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
    """Return the number of threads that evaluate `n_values` fastest: waking a thread costs time.

    With several threads, each evaluates at least half of `one_thread_values`.
    """
    return 1 if n_values <= one_thread_values else min(n_threads, 2 * n_values // max(1, one_thread_values))


def _affinity() -> frozenset[int]:
    """The processors that the system lets this process use; empty if the system does not tell."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


@cache
def _processors(affinity: frozenset[int]) -> int:
    """The number of processors within the limits of a container; cached, because joblib reads it from files."""
    del affinity
    return joblib.cpu_count()


@final
class _ThreadLimit(threadpoolctl.LibController):
    """Makes the native core known to threadpoolctl, as BLAS and OpenMP are."""

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
"""Multiplications up to which one thread of BLAS is faster than two. NumPy and SciPy have a BLAS each, and idle threads
of one delay the threads of the other."""


def blas_threads(multiplications: float) -> AbstractContextManager[None]:
    """Return a context in which BLAS uses one thread if a step is too small for several threads."""
    return _one_thread() if multiplications <= _ONE_THREAD else nullcontext()


class _OneThread:
    """Keeps BLAS to one thread while at least one thread is in the context.

    The limit holds for the whole process. It is therefore set when the first thread enters and restored when the last
    one leaves: if each restored what it found, the second would restore the limit of the first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking: list[int] = []  # threads, as often as they ask

    @contextmanager
    def __call__(self) -> Iterator[None]:
        thread = threading.get_ident()
        with self._lock:
            if not self._asking:
                _take_control()
                self._limiter = _loaded().limit(limits=1, user_api="blas")
            self._asking.append(thread)
        try:
            yield
        finally:
            with self._lock:
                self._asking.remove(thread)
                self._put_back()

    def reset(self) -> None:
        """Reset the state in a forked process, in which only the forking thread exists."""
        self._lock = threading.Lock()
        if self._asking:
            self._asking = [thread for thread in self._asking if thread == threading.get_ident()]
            self._put_back()

    def _put_back(self) -> None:
        if not self._asking:
            _take_control()
            self._limiter.restore_original_limits()
            _take_control()  # so that another thread can set the limit next


_one_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.reset)


def _take_control() -> None:
    """Let this thread set the limit: newer threadpoolctl ignores all threads but the first one that set a limit."""
    for library in _loaded().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def _loaded() -> threadpoolctl.ThreadpoolController:
    """The loaded libraries; cached, because the search takes as long as a small fit."""
    return threadpoolctl.ThreadpoolController()
