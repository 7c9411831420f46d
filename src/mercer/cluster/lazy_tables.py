"""Tables whose partitions are read or made when they are asked for: arrays and data frames of Dask."""

from __future__ import annotations

import sys
from typing import Any

from mercer.cluster.workers import Workers


def is_lazy(table: Any) -> bool:
    """Whether a table is a Dask array, data frame or column; Dask is not imported for the answer."""
    return "dask" in sys.modules and type(table).__module__.startswith(("dask.", "dask_expr."))


def chosen_workers(n_threads: int) -> Workers:
    """Return the workers of the Dask client in use, or else so many threads of this process."""
    from mercer.cluster.dask_workers import current_workers, local_workers

    return current_workers() or local_workers(n_threads)
