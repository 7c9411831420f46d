"""The one import of pyarrow, which is part of the extra ``study``."""

from __future__ import annotations

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError(
        "reading tables needs pyarrow, which is not installed; install it with: pip install pyarrow"
    ) from error

__all__ = ["pa", "pacsv", "pc", "pq"]
