"""The formats of table files: by their names, by their first bytes, and what other files are called."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from mercer.data import TableError, listing, nearest_names

Format = Literal["csv", "tsv", "parquet", "svmlight", "excel", "fasta", "fastq"]
"""Formats of table files."""

OF_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".svm": "svmlight",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".fasta": "fasta",
    ".fa": "fasta",
    ".fna": "fasta",
    ".faa": "fasta",
    ".fastq": "fastq",
    ".fq": "fastq",
}
"""Endings of names that tell the format."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Bytes that some editors and spreadsheets write at the start of UTF-8 text."""

HEAD_BYTES = 1 << 20
"""Number of bytes at the start of a file that tell its format."""

_COMPRESSIONS: dict[str, tuple[bytes, Callable[..., Any]]] = {
    ".gz": (b"\x1f\x8b", gzip.open),
    ".bz2": (b"BZh", bz2.open),
    ".xz": (b"\xfd7zXZ\0", lzma.open),
}
"""Endings of compressed files, with their first bytes and the function that opens them."""

NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}
"""Names of the compressions by the endings of files."""

DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
"""What is raised for a compressed file that is cut or damaged (beside OSError)."""

DAMAGED_HINT = "copy or pack it again; if it is not compressed, its name must not say so"
"""What to do about such a file."""

_PARQUET, _ZIP = b"PAR1", b"PK\x03\x04"

_SVMLIGHT_LINE = re.compile(rb"[-+.\deE]+([ \t]+qid:\d+)?([ \t]+\d+:[-+.\deE]+)*[ \t]*(#[^\r\n]*)?\r?")
_SVMLIGHT_PAIR = re.compile(rb"[-+.\deE]+[ \t]+(qid:\d+[ \t]+)?\d+:[-+.\deE]")

_OTHERS: tuple[tuple[Callable[[bytes], bool], str, str], ...] = (
    (
        lambda raw: raw.startswith(b"\xd0\xcf\x11\xe0"),
        "an Excel workbook of the old format or with a password",
        "save it as .xlsx or CSV without a password",
    ),
    *(
        (lambda raw, first=first: raw.startswith(first), f"compressed by {name}", f"let its name end in .csv{ending}")
        for name, ending, first in (
            ("gzip", ".gz", b"\x1f\x8b"),
            ("bzip2", ".bz2", b"BZh"),
            ("xz", ".xz", b"\xfd7zXZ\0"),
        )
    ),
    (lambda raw: raw.startswith(_PARQUET), "a Parquet file", "let its name end in .parquet"),
    *(
        (lambda raw, first=first: raw.startswith(first), what, "export it as CSV or Parquet")
        for what, first in (
            ("an Arrow (Feather) file", b"ARROW1"),
            ("an ORC file", b"ORC"),
            ("a NumPy array", b"\x93NUMPY"),
            ("an HDF5 file", b"\x89HDF"),
            ("a SQLite database", b"SQLite format 3\0"),
            ("a PDF document", b"%PDF"),
            ("a Python pickle", b"\x80\x04"),
            ("a Python pickle", b"\x80\x05"),
        )
    ),
    (
        lambda raw: raw.lstrip()[:200].lower().startswith((b"<!doctype html", b"<html", b"<?xml", b"<table", b"<head")),
        "an HTML or XML page",
        "save the table itself as CSV, not the page that shows it",
    ),
    (lambda raw: _is_json(raw), "JSON", "convert it to CSV or Parquet"),
    (lambda raw: _is_arff(raw), "an ARFF file", "convert it to CSV"),
)
"""Other formats: a test of the first bytes, the format's name, and a hint."""


def format_of(path: Path, head: bytes) -> str | None:
    """Return the format by the name of a file, or else by its first bytes; None if neither tells."""
    endings = [suffix.lower() for suffix in path.suffixes]
    if endings[-1:] and endings[-1] in _COMPRESSIONS:
        endings.pop()
    if endings and endings[-1] in OF_ENDINGS:
        return OF_ENDINGS[endings[-1]]
    return format_by_content(head)


def format_by_content(head: bytes) -> str | None:
    """Return the format of a file without a telling name, by its first bytes; None if they do not tell."""
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith(_ZIP):
        return "excel" if b"xl/" in head or b"[Content_Types].xml" in head else None
    return "svmlight" if is_svmlight(head) else None


def is_svmlight(head: bytes) -> bool:
    """Return whether the first lines have the form of LIBSVM's data files."""
    lines = head.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    if len(lines) == 1:  # one long line, which may have been cut
        return _SVMLIGHT_PAIR.match(lines[0]) is not None
    filled = [line for line in lines[:-1][:20] if line.strip() and not line.startswith(b"#")]
    return any(map(_SVMLIGHT_PAIR.match, filled)) and all(map(_SVMLIGHT_LINE.fullmatch, filled))


def other_format(raw: bytes) -> tuple[str, str] | None:
    """Return what a file is that is no table of text, and what to do; None if it may be text."""
    if raw.startswith(_ZIP):
        return _kind_of_zip(raw)
    raw = raw[:HEAD_BYTES]
    format_and_hint = next(((what, hint) for is_it, what, hint in _OTHERS if is_it(raw)), None)
    if format_and_hint is None and b"\0" in raw[:4096] and not looks_like_utf_16(raw):
        return "binary", "export it as CSV"
    return format_and_hint


def looks_like_utf_16(raw: bytes) -> str | None:
    """Return the encoding of text in UTF-16 (or UTF-32), otherwise None."""
    for mark, name in (
        (b"\xff\xfe\0\0", "utf-32"),
        (b"\0\0\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if raw.startswith(mark):
            return name
    head = raw[:2000]
    if len(head) >= 4:
        # ASCII text has a zero in every second byte, and nowhere else.
        zeros = [sum(byte == 0 for byte in head[start::2]) / len(head[start::2]) for start in (0, 1)]
        if max(zeros) > 0.7 and min(zeros) < 0.1:
            return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    return None


def _kind_of_zip(raw: bytes) -> tuple[str, str]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return "a zip archive or an Excel workbook", "unpack it, or export it as CSV"
    if any(name.startswith("xl/") for name in names):
        return "an Excel workbook", "let its name end in .xlsx"
    if "content.xml" in names:
        return "an OpenDocument spreadsheet", "save it as .xlsx or CSV"
    return f"a zip archive (of {', '.join(names[:3])}{', ...' if len(names) > 3 else ''})", "unpack it"


def compression_of(path: Path) -> str | None:
    """Return the ending of a name that says that the file is compressed, otherwise None."""
    ending = path.suffix.lower()
    return ending if ending in _COMPRESSIONS else None


def packed_by(raw: bytes) -> str | None:
    """Return the ending that compressed files with these first bytes have, otherwise None."""
    return next((ending for ending, (first, _) in _COMPRESSIONS.items() if raw.startswith(first)), None)


def opened(path: str | Path, ending: str | None) -> Any:
    """Open a file for reading bytes, decompressed if `ending` names a compression."""
    return open(path, "rb") if ending is None else _COMPRESSIONS[ending][1](path, "rb")


def unpacked(raw: bytes, ending: str) -> bytes:
    """Return the content of compressed bytes."""
    with _COMPRESSIONS[ending][1](io.BytesIO(raw), "rb") as file:
        return file.read()


def similar_names(path: Path) -> str | None:
    """Return a phrase that suggests files with similar names, or None if no file has one."""
    files = sorted(p.name for p in path.parent.iterdir() if p.is_file()) if path.parent.is_dir() else []
    near = [name for name in files if name.startswith(path.stem)] or nearest_names(path.name, files)
    return f"nearby: {listing(near)}" if near else None


def unknown_format(path: Path, head: bytes) -> TableError:
    """Return the error for a file whose name and first bytes do not tell that it is a table."""
    format_and_hint = other_format(head)
    ending = "".join(path.suffixes[-1:])
    named = f"{path} has an unknown ending {ending!r}" + (
        "" if format_and_hint is None else f": it is {format_and_hint[0]}"
    )
    readable = f"tables end in {', '.join(OF_ENDINGS)}, all text also with .gz, .bz2 or .xz; or say format=csv"
    return TableError(named, readable if format_and_hint is None else format_and_hint[1])


def _is_json(raw: bytes) -> bool:
    """Return whether the text is a JSON value, or has a JSON value in each line."""
    if not raw.lstrip().startswith((b"{", b"[")):
        return False
    for text in (raw, raw.lstrip().splitlines()[0]):
        try:
            json.loads(text)
        except ValueError:
            continue
        return True
    return re.match(rb'\s*(\[\s*)?\{\s*"(?:[^"\\]|\\.)*"\s*:', raw) is not None  # cut, or too long to be parsed


def _is_arff(raw: bytes) -> bool:
    lines = (line.strip().lower() for line in raw[:10000].splitlines())
    return next((line for line in lines if line and not line.startswith(b"%")), b"").startswith(b"@relation")
