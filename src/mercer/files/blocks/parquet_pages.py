"""The sizes of the pages of a Parquet file: a page is in memory as a whole while its values are read.

The header of each page is a struct in Thrift's compact protocol, of which pyarrow does not show the sizes; see
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift, PageHeader.
"""

from __future__ import annotations

from typing import IO, Any

_MOST_HEADER = 1 << 16  # bytes; a header with longer statistics counts as unreadable
_DICTIONARY = 2  # the type of a page that holds the different values of a column
_MOST_DEPTH = 16  # structs within structs; headers have 3
_TEXT_ENTRY = 16  # bytes; what pyarrow holds for each text of a dictionary, beside the text and its length of 4 bytes


def bytes_to_read(file: IO[bytes], chunk: Any) -> int:
    """Return the bytes that a column of a row group takes while it is read page by page.

    Parameters
    ----------
    file : file of bytes
        The Parquet file.
    chunk : pyarrow.parquet.ColumnChunkMetaData
    """
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


def most_bytes_to_read(chunk: Any) -> int:
    """Return what `bytes_to_read` returns at most, as if the column were one page; the file is not read."""
    plain = chunk.total_uncompressed_size
    pages = _unpacked_bytes(plain, chunk.total_compressed_size)
    return pages + (_decoded_bytes(chunk, plain, plain // 4) if chunk.has_dictionary_page else 0)


def _unpacked_bytes(plain: int, packed: int) -> int:
    """Return the bytes of pages of `plain` bytes with their compressed bytes, if they are compressed.

    The lengths tell whether they are. `chunk.compression` would end the process if the file is damaged: pyarrow does
    not catch the exception of a codec that does not exist.
    """
    return plain if plain == packed else plain + packed


def _decoded_bytes(chunk: Any, plain: int, n_values: int) -> int:
    """Return the bytes of the decoded values of a dictionary page of `plain` bytes."""
    return _TEXT_ENTRY * n_values if chunk.physical_type == "BYTE_ARRAY" else plain


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
    """Reads values of Thrift's compact protocol; only integers and structs are kept."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self.at, self._depth = raw, 0, 0

    def struct(self) -> dict[int, Any]:
        """Return the integers and structs of a struct by the numbers of their fields."""
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
        elif kind in (9, 10):  # a list or a set
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._number()):
                self._value(head & 15, is_field=False)
                if self.at > len(self._raw):
                    raise ValueError("a list is longer than the header")
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
