"""How many threads the native core uses."""

from __future__ import annotations

import os

import joblib


def n_threads(n_jobs: int | None = None) -> int:
    """Return the number of threads for `n_jobs`, with the caller's surroundings taken into account.

    Parameters
    ----------
    n_jobs : int, optional
        A positive number is taken as it is; -1 means all processors, -2 all but one, and so on. None means all
        processors that this process may use, except inside a joblib worker (as in a parallel grid search), where it
        means that worker's share. The variable ``OMP_NUM_THREADS``, which joblib and cluster schedulers
        set for their workers, limits None as well.

    Raises
    ------
    ValueError
        If `n_jobs` is 0.
    """
    processors = joblib.cpu_count()
    if n_jobs is not None:
        if n_jobs == 0:
            raise ValueError("n_jobs must be a positive or negative integer or None, got 0; use 1 for one thread.")
        return n_jobs if n_jobs > 0 else max(1, processors + 1 + n_jobs)
    backend, jobs = joblib.parallel.get_active_backend()
    if getattr(backend, "nesting_level", 0):
        return 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    share = int(limit) if limit.isdigit() and int(limit) > 0 else processors
    return max(1, min(processors, share))
