"""FASTA and FASTQ files as tables: names, the fields of the headers, and sequences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mercer.data import Note, ReadingOptions, Table, TableError
from mercer.studies.files.arrow import pa
from mercer.studies.files.table_source import TableSource
from mercer.studies.files.text_columns import table_of_text

NAME, SEQUENCE = "name", "sequence"
"""Columns of the table of a file of sequences."""

_FIELD = re.compile(r"([^\s=]+)=(\S+)")


class _Record(NamedTuple):
    header: str
    sequence: str
    line: int


def sequence_table(source: TableSource, options: ReadingOptions) -> Table:
    """Return a FASTA or FASTQ file as a table.

    Its columns are "name" (the first word of a header), a column for each field such as ``label=1`` in headers,
    and "sequence" (in upper case).

    Raises
    ------
    TableError
        If the file does not hold such records, or one is incomplete; the message names the line.
    """
    lines = source.content().decode("utf-8", "replace").splitlines()
    records = list(_fastq(source, lines) if source.format == "fastq" else _fasta(source, lines))
    if not records:
        raise TableError(f"{source.path} holds no sequences")
    headers = [record.header.split(maxsplit=1) for record in records]
    fields = [dict(_FIELD.findall(header[1])) if len(header) > 1 else {} for header in headers]
    names = dict.fromkeys(field for some in fields for field in some if field not in (NAME, SEQUENCE))
    cells = [pa.chunked_array([pa.array([some.get(name, "") for some in fields], pa.string())]) for name in names]
    table = table_of_text(list(names), cells, ";", options, lambda row: str(records[row].line))
    sequences = [record.sequence.upper() for record in records]
    names_of_records = [header[0] if header else "" for header in headers]
    masked = any(record.sequence != sequence for record, sequence in zip(records, sequences, strict=True))
    return replace(
        table,
        names=(NAME, *table.names, SEQUENCE),
        columns=(_text(names_of_records), *table.columns, _text(sequences)),
        reading=replace(table.reading, notes=(*table.reading.notes, *([_MASKED] if masked else ()))),
        lines=[record.line for record in records],
    )


_MASKED = Note("Letters in lower case (masked ones) were read as upper case", "change the file if they differ")


def _text(cells: list[str]) -> np.ndarray:
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def _fasta(source: TableSource, lines: list[str]) -> Iterator[_Record]:
    header: str | None = None
    first, parts = 0, list[str]()
    for number, line in enumerate(lines, 1):
        if line.startswith((">", ";")):
            if header is not None:
                yield _Record(header, "".join(parts), first)
            header, first, parts = line[1:].strip(), number, []
        elif line.strip():
            if header is None:
                raise TableError(
                    f"{source.path}, line {number}: a FASTA file begins with a line such as '>name', got {line[:40]!r}"
                )
            parts.append("".join(line.split()))
    if header is not None:
        yield _Record(header, "".join(parts), first)


def _fastq(source: TableSource, lines: list[str]) -> Iterator[_Record]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    for at in range(0, len(lines), 4):
        record = lines[at : at + 4]
        if not record[0].startswith("@") or len(record) < 4 or not record[2].startswith("+"):
            raise TableError(
                f"{source.path}, line {at + 1}: a read has four lines, '@name', its letters, '+' and its qualities; "
                f"got {record[0][:40]!r}"
            )
        if len(record[1]) != len(record[3]):
            raise TableError(
                f"{source.path}, line {at + 4}: a read of {len(record[1])} letters has {len(record[3])} qualities"
            )
        yield _Record(record[0][1:].strip(), record[1].strip(), at + 1)
