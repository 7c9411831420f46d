"""The bytes of a table's file: a file by its name, or a pipe, which can be read only once; and its format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mercer.data import Note, ReadingOptions, TableError
from mercer.studies.files import file_formats
from mercer.studies.files.file_formats import (
    HEAD_BYTES,
    NAMES,
    compression_of,
    opened,
    other_format,
    packed_by,
    unpacked,
)
from mercer.studies.files.text_files import is_delimited


@contextmanager
def errors_of_reading(path: Path) -> Iterator[None]:
    """Turn errors of the system, and those of unpacking, into a TableError that names the file."""
    try:
        yield
    except (OSError, *file_formats.DAMAGED) as error:
        why = error.strerror if isinstance(error, OSError) else None
        hint = file_formats.DAMAGED_HINT if why is None else None
        raise TableError(f"{path} cannot be read: {error if why is None else why.lower()}", hint) from error


class TableSource:
    """A file or a pipe that holds a table.

    Attributes
    ----------
    path : Path
    is_pipe : bool
        Whether it can be read only once, and has no name that tells its format.
    is_named : bool
        Whether the name of the file tells how it is compressed; otherwise its first bytes do.
    format : str
    format_note : Note or None
        What is said of a format that is not told by the name.
    head : bytes
        The first bytes of the content, decompressed if the name says that it is compressed.
    """

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        with errors_of_reading(path):
            is_there, self.is_pipe, is_folder = path.exists(), not path.is_file(), path.is_dir()
        if not is_there and path.is_symlink():
            raise TableError(f"{path} is a link to {path.readlink()}, which does not exist")
        if not is_there:
            raise TableError(f"file {path} does not exist", file_formats.similar_names(path))
        if is_folder:
            raise TableError(f"{path} is a folder, not a table")
        self.path, self.is_named = path, options.format is None
        self._packing = compression_of(path)
        self._raw = b""
        with errors_of_reading(path):
            if self.is_pipe:
                self._raw = path.read_bytes()
                self._packing = packed_by(self._raw)
                self.head = self.content()[:HEAD_BYTES]
            else:
                with opened(path, self._packing) as file:
                    self.head = file.read(HEAD_BYTES)
        if not self.head:
            raise TableError(f"{path} is empty")
        self.format, self.format_note = (options.format, None) if options.format is not None else self._format()
        self._refuse_options(options)

    def _format(self) -> tuple[str, Note | None]:
        """Return the format, and a note if the name does not tell it."""
        path, head = self.path, self.head
        if self.is_pipe:  # its name says nothing
            return file_formats.format_by_content(head) or "csv", None
        format = file_formats.format_of(path, head)
        if format is None and other_format(head) is None and is_delimited(head):
            format = "csv"
        if format is None:
            raise file_formats.unknown_format(path, head)
        named = file_formats.format_of(path, b"")
        what = {"csv": "delimited text", "svmlight": "LIBSVM's format (svmlight)"}.get(format, format)
        return format, None if named else Note(
            f"By its first lines, the file is {what}", "format= names another format"
        )

    def _refuse_options(self, options: ReadingOptions) -> None:
        """Raise a TableError for an option that means nothing for the format."""
        is_text, is_excel = self.format in ("csv", "tsv"), self.format == "excel"
        others: dict[str, object] = {} if is_text else {"sep": options.sep, "encoding": options.encoding}
        others |= {} if is_text or is_excel else {"decimal": options.decimal, "limits": options.limits}
        others |= {} if is_excel else {"sheet": options.sheet}
        others |= {"na": options.na or None, "merge": options.merge or None} if self.format == "svmlight" else {}
        given = next((name for name, value in others.items() if value is not None), None)
        if given is not None:
            raise TableError(f"{given}= is for other tables, but {self.path} is read as {self.format}", "leave it out")

    @property
    def must_be_in_memory(self) -> bool:
        """Whether the content cannot be read again by the name: a pipe, or a compression that the name does not say."""
        return self.is_pipe or self._hidden_packing is not None

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is said of the format, and that the file is compressed."""
        packing = self._packing or self._hidden_packing
        unpacked = packing and Note(
            f"The file was unpacked while it was read ({NAMES[packing]})", "the file itself is as it was"
        )
        return tuple(note for note in (self.format_note, unpacked) if note)

    @property
    def is_packed(self) -> bool:
        """Whether the file is compressed."""
        return (self._packing or self._hidden_packing) is not None

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the file, decompressed."""
        with errors_of_reading(self.path), opened(self.path, self._packing or self._hidden_packing) as file:
            yield file

    def content(self) -> bytes:
        """Return the whole content, decompressed."""
        if not self.is_pipe:
            with self.opened() as file:
                return file.read()
        with errors_of_reading(self.path):
            return self._raw if self._packing is None else unpacked(self._raw, self._packing)

    def refuse_packed(self) -> None:
        """Raise a TableError if a file that is not text is compressed."""
        if self._packing is not None and not self.is_pipe:
            raise TableError(f"{self.path} is compressed, and only text is read compressed", "unpack it")

    def refuse_other_format(self, format: str, start: bytes | None = None) -> None:
        """Raise a TableError if the file begins as those of another format that is known, and not with these bytes."""
        format_and_hint = None if start is not None and self.head.startswith(start) else other_format(self.head)
        if format_and_hint is not None:
            raise TableError(f"{self.path} cannot be read as {format}: it is {format_and_hint[0]}", format_and_hint[1])

    @property
    def _hidden_packing(self) -> str | None:
        return None if self.is_named else packed_by(self.head)
