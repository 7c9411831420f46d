"""The sizes of the row groups and pages of a Parquet file: a page is in memory as a whole while its values are read.

They are in the footer of the file and in the header of each page, as structs in Thrift's compact protocol; see
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift, FileMetaData and PageHeader.
pyarrow does not show the headers of pages. It shows the columns of a row group, but if the footer is damaged, it ends
the process there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_MOST_HEADER = 1 << 16  # bytes; a header with longer statistics counts as unreadable
_DICTIONARY = 2  # the type of a page that holds the different values of a column
_BYTE_ARRAY = 6  # the type of values that are bytes of any length
_MOST_DEPTH = 16  # structs within structs; footers have at most 8
_TEXT_ENTRY = 16  # bytes; what pyarrow holds for each text of a dictionary, beside the text and its length of 4 bytes


@dataclass(frozen=True)
class Chunk:
    """A column of a row group.

    Attributes
    ----------
    path_in_schema : str
        Name of the column; a part of a nested column has more names, joined by dots.
    is_text : bool
        Whether its values are bytes of any length.
    total_uncompressed_size, total_compressed_size : int
        Bytes of its pages.
    data_page_offset, dictionary_page_offset : int
        First bytes of its pages in the file; 0 if there is no page of this kind.
    """

    path_in_schema: str
    is_text: bool
    total_uncompressed_size: int
    total_compressed_size: int
    data_page_offset: int
    dictionary_page_offset: int


@dataclass(frozen=True)
class RowGroup:
    """A row group: its number of rows, the bytes of its pages before they were compressed, and its columns."""

    num_rows: int
    total_byte_size: int
    chunks: tuple[Chunk, ...]


def row_groups_of(path: Path) -> list[RowGroup]:
    """Return the row groups of a Parquet file by its footer.

    Raises
    ------
    ValueError
        If the footer is damaged.
    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        end = file.read()
        length = int.from_bytes(end[:4], "little")
        if end[4:] != b"PAR1" or not 0 < length <= size - 8:
            raise ValueError("it does not end as Parquet files do")
        file.seek(size - 8 - length)
        raw = file.read(length)
    try:
        return [_row_group(one) for one in _Compact(raw).struct()[4]]
    except (KeyError, IndexError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError("its footer is damaged") from error


def _row_group(struct: dict[int, Any]) -> RowGroup:
    return RowGroup(_size(struct[3]), _size(struct[2]), tuple(_chunk(one[3]) for one in struct[1]))


def _chunk(struct: dict[int, Any]) -> Chunk:
    path = ".".join(name.decode() for name in struct[3])
    sizes = (_size(struct.get(field, 0)) for field in (6, 7, 9, 11))
    return Chunk(path, struct[1] == _BYTE_ARRAY, *sizes)


def _size(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise ValueError("a size in its footer is invalid")
    return number


def bytes_to_read(file: IO[bytes], chunk: Chunk) -> int:
    """Return the bytes that a column of a row group takes while it is read page by page; `file` is the Parquet file."""
    held, largest = 0, 0
    whole = most_bytes_to_read(chunk)
    # a column without values may have no pages, and offsets of 0
    at = min((one for one in (chunk.dictionary_page_offset, chunk.data_page_offset) if one), default=0)
    end = at + chunk.total_compressed_size
    while 0 < at < end:
        file.seek(at)
        try:
            header, page = _page_header(file.read(min(_MOST_HEADER, end - at)))
        except (IndexError, ValueError):
            return whole
        plain, packed = page[2], page[3]
        at += header + packed
        if page[1] == _DICTIONARY:
            held = plain + _decoded_bytes(chunk, plain, page[7][1])
        else:
            largest = max(largest, _unpacked_bytes(plain, packed))
    return min(whole, held + largest) if at == end > 0 else whole


def most_bytes_to_read(chunk: Chunk) -> int:
    """Return what `bytes_to_read` returns at most, as if the column were one page; the file is not read."""
    plain = chunk.total_uncompressed_size
    pages = _unpacked_bytes(plain, chunk.total_compressed_size)
    return pages + (_decoded_bytes(chunk, plain, plain // 4) if chunk.dictionary_page_offset else 0)


def _unpacked_bytes(plain: int, packed: int) -> int:
    """Return the bytes of pages of `plain` bytes with their compressed bytes, if they are compressed.

    The lengths tell whether they are.
    """
    return plain if plain == packed else plain + packed


def _decoded_bytes(chunk: Chunk, plain: int, n_values: int) -> int:
    """Return the bytes of the decoded values of a dictionary page of `plain` bytes."""
    return _TEXT_ENTRY * n_values if chunk.is_text else plain


def _page_header(raw: bytes) -> tuple[int, dict[int, Any]]:
    """Return the length of a header, and its fields: 1 type, 2 bytes, 3 compressed bytes, 7 header of a dictionary.

    Raises
    ------
    IndexError, ValueError
        If the bytes are not a header, or end before it does.
    """
    reader = _Compact(raw)
    found = reader.struct()
    numbers = [found.get(field) for field in (1, 2, 3)]
    if found.get(1) == _DICTIONARY:
        numbers.append(found[7].get(1) if isinstance(found.get(7), dict) else None)
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("the page has no sizes")
    return reader.at, found


class _Compact:
    """Reads values of Thrift's compact protocol; truth values and fractions are not kept."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self.at, self._depth = raw, 0, 0

    def struct(self) -> dict[int, Any]:
        """Return the integers, bytes, lists and structs of a struct by the numbers of their fields."""
        found, field = dict[int, Any](), 0
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("structs are nested too deeply")
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._integer()
            value = self._value(head & 15, is_field=True)
            if value is not None:
                found[field] = value
        self._depth -= 1
        return found

    def _value(self, kind: int, *, is_field: bool) -> Any:
        if kind in (1, 2):  # a truth value; in a struct, its kind says which
            self.at += 0 if is_field else 1
        elif kind == 3:
            self.at += 1
        elif kind in (4, 5, 6):
            return self._integer()
        elif kind == 7:
            self.at += 8
        elif kind == 8:  # bytes
            length = self._number()
            self.at += length
            return self._raw[self.at - length : self.at]
        elif kind in (9, 10):  # a list or a set
            head, values = self._byte(), list[Any]()
            for _ in range(head >> 4 if head >> 4 < 15 else self._number()):
                values.append(self._value(head & 15, is_field=False))
                if self.at > len(self._raw):
                    raise ValueError("a list is longer than the header")
            return values
        elif kind == 12:
            return self.struct()
        else:
            raise ValueError(f"unknown kind {kind}")
        return None

    def _byte(self) -> int:
        self.at += 1
        return self._raw[self.at - 1]

    def _number(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError("a number is too long")

    def _integer(self) -> int:
        number = self._number()
        return (number >> 1) ^ -(number & 1)
