"""Rows as the solvers of linear machines read them: consecutive blocks, and products with all of them."""

from mercer.gram.rows.device_rows import DeviceRows as DeviceRows
from mercer.gram.rows.device_rows import linear_rows as linear_rows
from mercer.gram.rows.device_table import DeviceTable as DeviceTable
from mercer.gram.rows.mapped_rows import MappedRows as MappedRows
from mercer.gram.rows.mapped_rows import MappedTable as MappedTable
from mercer.gram.rows.placed_rows import PlacedRows as PlacedRows
from mercer.gram.rows.table_rows import Block as Block
from mercer.gram.rows.table_rows import LinearRows as LinearRows
from mercer.gram.rows.table_rows import RowNumbers as RowNumbers
from mercer.gram.rows.table_rows import TableRows as TableRows
