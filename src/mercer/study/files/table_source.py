"""The bytes of a table's file: a file by its name, or a pipe, which can be read only once."""

from __future__ import annotations

from pathlib import Path

from mercer.data import Note, TableError
from mercer.study.files.file_formats import HEAD_BYTES, NAMES, compression_of, opened, packed_by, unpacked


class TableSource:
    """A file or a pipe that holds a table.

    Attributes
    ----------
    path : Path
    is_pipe : bool
        Whether it can be read only once, and has no name that tells its format.
    is_named : bool
        Whether the name of the file tells how it is compressed; otherwise its first bytes do.
    head : bytes
        The first bytes of the content, decompressed if the name says that it is compressed.
    """

    def __init__(self, path: Path, *, is_named: bool) -> None:
        self.path, self.is_pipe, self.is_named = path, not path.is_file(), is_named
        self._packing = compression_of(path)
        self._raw = b""
        if self.is_pipe:
            self._raw = path.read_bytes()
            self._packing = packed_by(self._raw)
            self.head = self.content()[:HEAD_BYTES]
        else:
            with opened(path, self._packing) as file:
                self.head = file.read(HEAD_BYTES)
        if not self.head:
            raise TableError(f"{path} is empty")

    @property
    def must_be_held(self) -> bool:
        """Whether the content cannot be read again by the name: a pipe, or a compression that the name does not say."""
        return self.is_pipe or self._hidden_packing is not None

    @property
    def note(self) -> Note | None:
        """A note if the file is compressed."""
        packing = self._packing or self._hidden_packing
        if packing is None:
            return None
        return Note(f"The file was unpacked while it was read ({NAMES[packing]})", "the file itself is as it was")

    def content(self) -> bytes:
        """Return the whole content, decompressed."""
        if not self.is_pipe:
            with opened(self.path, self._packing or self._hidden_packing) as file:
                return file.read()
        return self._raw if self._packing is None else unpacked(self._raw, self._packing)

    def refuse_packed(self) -> None:
        """Raise a TableError if a file that is not text is compressed."""
        if self._packing is not None and not self.is_pipe:
            raise TableError(f"{self.path} is compressed, and only text is read compressed", "unpack it")

    @property
    def _hidden_packing(self) -> str | None:
        return None if self.is_named else packed_by(self.head)
