"""The row groups of a Parquet file, by its footer.

The footer is a struct in Thrift's compact protocol; see FileMetaData in
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift. pyarrow shows the columns of a row
group as well, but if the footer is damaged, it ends the process there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, Any

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
    num_values, total_uncompressed_size, total_compressed_size : int
        Its values, and the bytes of its pages.
    data_page_offset, dictionary_page_offset : int
        First bytes of its pages in the file; 0 if there is no page of this kind.
    """

    path_in_schema: str
    is_text: bool
    num_values: int
    total_uncompressed_size: int
    total_compressed_size: int
    data_page_offset: int
    dictionary_page_offset: int

    @property
    def most_bytes(self) -> int:
        """Bytes that the column takes at most while it is read: as much as if it were one page.

        A page is in memory as a whole while its values are read, compressed and not, and so is a dictionary.
        """
        plain, packed = self.total_uncompressed_size, self.total_compressed_size
        pages = plain if plain == packed else plain + packed  # the lengths tell whether they are compressed
        if not self.dictionary_page_offset:
            return pages
        return pages + (_TEXT_ENTRY * min(plain // 4, self.num_values) if self.is_text else plain)


@dataclass(frozen=True)
class RowGroup:
    """A row group: its number of rows, the bytes of its pages before they were compressed, and its columns."""

    num_rows: int
    total_byte_size: int
    chunks: tuple[Chunk, ...]


def row_groups_of(file: IO[bytes]) -> list[RowGroup]:
    """Return the row groups of a Parquet file by its footer.

    Raises
    ------
    ValueError
        If the footer is damaged.
    """
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
    sizes = (_size(struct.get(field, 0)) for field in (5, 6, 7, 9, 11))
    return Chunk(path, struct[1] == _BYTE_ARRAY, *sizes)


def _size(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise ValueError("a size in its footer is invalid")
    return number


class _Compact:
    """Reads values of Thrift's compact protocol; truth values and fractions are not kept."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self.at, self._depth = raw, 0, 0

    def struct(self) -> dict[int, Any]:
        """Return the integers, bytes, lists and structs of a struct by the numbers of their fields."""
        fields, field = dict[int, Any](), 0
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("structs are nested too deeply")
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._integer()
            value = self._value(head & 15, is_field=True)
            if value is not None:
                fields[field] = value
        self._depth -= 1
        return fields

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
