"""Files of arrays that detect damage: a JSON header and plain numbers, each with a CRC.

Nothing in a file is executed. The sizes that a header claims are compared with the size of the file before memory is
allocated.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from mercer.data.files.atomic_write import FULL, open_atomically
from mercer.data.files.regular_files import NotOwnFileError, open_own

_MAGIC = b"MERCERB1"
_START = struct.Struct("<8sII")  # magic bytes, bytes of the header, CRC of the header
_CRC = struct.Struct("<I")
_ALIGNED = 64  # bytes; arrays begin at multiples of it
_MAX_HEADER = 64 << 20  # bytes
_DTYPES = ("|i1", "<f4", "<f8", "<i4", "<i8")
_SLICE = 1 << 20  # bytes that are read at once where a whole array need not be in memory

WordSum: TypeAlias = tuple[int, bytes]
"""The sum of the 64-bit words of an array, and the bytes after the last whole word."""


class DamagedFileError(ValueError):
    """A file that is cut, damaged or not of this format; the message says how."""


@dataclass(frozen=True)
class ArrayPlace:
    """Where an array lies in a file: its type, its shape, and its first byte."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def end(self) -> int:
        """The byte after the array."""
        return self.start + self.size * self.dtype.itemsize


def write_checked(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray | tuple[str, tuple[int, ...], Iterable[np.ndarray]]],
    *,
    option: str = "cache",
) -> int:
    """Write a file completely or not at all, and return its number of bytes.

    Parameters
    ----------
    path : Path
        An existing file is replaced when the new one is on the disk.
    header : mapping
        JSON values.
    arrays : mapping of str to ndarray, or to (dtype, shape, parts)
        `parts` are arrays that follow one another, for an array that need not be in memory as a whole.
    option : str
        The argument that names the folder, for the message.

    Raises
    ------
    OSError
        If the file cannot be written. If the disk is full, the message has the number of bytes that are needed.
    """
    given = {
        name: (array.dtype.str, array.shape, (array,)) if isinstance(array, np.ndarray) else array
        for name, array in arrays.items()
    }
    listed = [[name, dtype, list(shape)] for name, (dtype, shape, _) in given.items()]
    text = json.dumps({**header, "arrays": listed}, separators=(",", ":"), allow_nan=False).encode()
    places = _places(listed, _START.size + len(text))
    total = max((place.end for place in places.values()), default=_START.size + len(text)) + _CRC.size * len(places)
    try:
        with open_atomically(path, "wb", follow_links=False) as file:
            file.write(_START.pack(_MAGIC, len(text), zlib.crc32(text)) + text)
            sums = []
            for name, (_, _, parts) in given.items():
                file.write(bytes(places[name].start - file.tell()))
                crc = 0
                for part in parts:
                    raw = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
                    crc = zlib.crc32(raw, crc)
                    file.write(raw)
                if file.tell() != places[name].end:
                    raise ValueError(f"the array {name!r} of {path.name} differs from its shape")
                sums.append(crc)
            file.write(b"".join(map(_CRC.pack, sums)))
    except OSError as error:
        raise full_disk(error, path, total, option) from error
    return total


def full_disk(error: OSError, path: Path, needed: int, option: str = "cache") -> OSError:
    """Return the error for a write that failed; if there is no space, it has the number of bytes that are needed."""
    if error.errno not in FULL:
        return error
    return OSError(
        error.errno,
        f"{path.name} needs {needed:,} bytes, for which there is no space; free them, or name another folder with "
        f"{option}=. What was finished before is kept",
        str(path.parent),
    )


def _opened(path: Path) -> IO[bytes]:
    """Open a checked file; DamagedFileError if it is a link or a pipe, and no file."""
    try:
        return open_own(path)
    except NotOwnFileError as error:
        raise DamagedFileError(str(error.strerror)) from error


def read_header(file: IO[bytes]) -> tuple[dict[str, Any], dict[str, ArrayPlace]]:
    """Return the header and the places of the arrays; DamagedFileError if the file is not what the header says."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(_START.size)
    if len(start) < _START.size or not start.startswith(_MAGIC):
        raise DamagedFileError("it does not begin as such files do")
    _, length, crc = _START.unpack(start)
    if length > min(_MAX_HEADER, size):
        raise DamagedFileError("its header is cut")
    text = file.read(length)
    if len(text) != length or zlib.crc32(text) != crc:
        raise DamagedFileError("the checksum of its header is wrong")
    try:
        header = json.loads(text)
        places = _places(header["arrays"], _START.size + length)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DamagedFileError(f"its header is invalid: {error}") from error
    end = max((place.end for place in places.values()), default=_START.size + length)
    end += _CRC.size * len(places)
    if end != size:
        raise DamagedFileError(f"it has {size:,} bytes and should have {end:,}")
    return header, places


def header_of(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a file, and the number of its bytes; DamagedFileError if it is damaged."""
    with _opened(path) as file:
        header, _ = read_header(file)
        return header, os.fstat(file.fileno()).st_size


def read_checked(
    path: Path, names: Collection[str] | None = None, checksums: dict[str, WordSum] | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays (or only some of them), read-only; DamagedFileError if they are damaged.

    `checksums` is for files that are read many times. It is empty at first. An array whose CRC is right adds its sum of
    words. The next time only this sum is compared, which costs a sixth of the time. A sum finds every change of one
    word; words that change places, it does not find.
    """
    with _opened(path) as file:
        header, places = read_header(file)
        arrays = {}
        sums = _sums(file, places)
        for name, place in places.items():
            if names is not None and name not in names:
                continue
            file.seek(place.start)
            raw = file.read(place.end - place.start)
            if checksums is None or name not in checksums:
                is_right = zlib.crc32(raw) == sums[name]
                if checksums is not None and is_right:
                    checksums[name] = _word_sum(raw)
            else:
                is_right = _word_sum(raw) == checksums[name]
            if not is_right:
                raise DamagedFileError(_WRONG)
            arrays[name] = np.frombuffer(raw, place.dtype).reshape(place.shape)
    return header, arrays


def check_arrays(path: Path) -> tuple[dict[str, Any], dict[str, ArrayPlace]]:
    """Return the header and the places of the arrays after the checksums were compared; little memory is used."""
    with _opened(path) as file:
        header, places = read_header(file)
        sums = _sums(file, places)
        for name, place in places.items():
            file.seek(place.start)
            crc, left = 0, place.end - place.start
            while left and (part := file.read(min(left, _SLICE))):
                crc, left = zlib.crc32(part, crc), left - len(part)
            if left or crc != sums[name]:
                raise DamagedFileError(_WRONG)
    return header, places


def read_slices(path: Path, place: ArrayPlace) -> Iterator[tuple[slice, np.ndarray]]:
    """Return the parts of an array of one dimension, each with its place in the array."""
    step = _SLICE // place.dtype.itemsize
    with _opened(path) as file:
        file.seek(place.start)
        for start in range(0, place.size, step):
            at = slice(start, min(start + step, place.size))
            yield at, np.fromfile(file, place.dtype, at.stop - at.start)


def _word_sum(raw: bytes) -> WordSum:
    n_words = len(raw) // 8
    return int(np.frombuffer(raw, np.uint64, n_words).sum()), raw[8 * n_words :]


_WRONG = "the checksum of its numbers is wrong"


def _sums(file: IO[bytes], places: Mapping[str, ArrayPlace]) -> dict[str, int]:
    """Return the checksum of each array, from the end of the file."""
    if not places:
        return {}
    file.seek(-_CRC.size * len(places), os.SEEK_END)
    return dict(zip(places, (one for (one,) in _CRC.iter_unpack(file.read())), strict=True))


def _places(listed: Any, start: int) -> dict[str, ArrayPlace]:
    """Return the places of arrays that are listed as [name, dtype, shape] and begin after byte `start`."""
    places = {}
    for name, dtype, shape in listed:
        if dtype not in _DTYPES or not 1 <= len(shape) <= 2 or name in places:
            raise ValueError(f"the array {name!r} has the type {dtype!r} and the shape {shape!r}")
        if not all(type(length) is int and 0 <= length < 1 << 62 for length in shape):
            raise ValueError(f"the array {name!r} has the shape {shape!r}")
        start += -start % _ALIGNED
        places[str(name)] = ArrayPlace(np.dtype(dtype), tuple(shape), start)
        start = places[name].end
    return places
