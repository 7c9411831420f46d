"""Model files as text, with a header of words and then lines of numbers: LIBSVM's and LIBLINEAR's.

Nothing in a file is executed. Numbers in the header do not allocate memory: memory grows only with the data read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from mercer.studies.files.file_formats import BYTE_ORDER_MARK
from mercer.studies.files.libsvm_data import MAX_NUMBER, LibsvmFileError, shown


class Layout(NamedTuple):
    """What the model files of a program look like.

    Attributes
    ----------
    program : str
    words : frozenset of str
        What lines of the header may begin with.
    last : str
        The line that ends the header.
    body : str
        What follows it.
    other, about_other : str
        How a file of another program begins, and what is said of it.
    """

    program: str
    words: frozenset[str]
    last: str
    body: str
    other: str
    about_other: str


class ModelText:
    """The lines of a file, split into words."""

    def __init__(self, path: str | Path, file: Any, layout: Layout) -> None:
        self.path, self.number, self.layout, self._lines = path, 0, layout, iter(file)

    def words(self) -> list[bytes] | None:
        """Return the words of the next line; None at the end of the file."""
        line = next(self._lines, None)
        if line is None:
            return None
        self.number += 1
        if self.number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
            if line.startswith(self.layout.other.encode()):
                self.refuse(self.layout.about_other)
        if b"_" in line and line.split(None, 1)[0].decode("ascii", "replace") not in self.layout.words:
            self.refuse("there is an underscore")  # Python reads 1_000 as a number, C does not
        return line.split()

    def refuse(self, reason: str, number: int | None = None) -> NoReturn:
        """Raise an error that names the line: the last one that was read, or the given one."""
        raise LibsvmFileError(f"{self.path}, line {self.number if number is None else number}: {reason}")


@dataclass(frozen=True)
class ModelHeader:
    """The lines before the numbers: for each key, its line number and words."""

    text: ModelText
    entries: Mapping[str, tuple[int, list[bytes]]]

    @classmethod
    def read(cls, text: ModelText) -> ModelHeader:
        """Read the lines of the header, to the line that ends it."""
        entries: dict[str, tuple[int, list[bytes]]] = {}
        layout = text.layout
        while (words := text.words()) != [layout.last.encode()]:
            if words is None:
                text.refuse(f"the file ends before its {layout.body}, which follow a line {layout.last}")
            if not words:
                continue
            key = words[0].decode("ascii", "replace")
            if key not in layout.words:
                text.refuse(f"{shown(words[0])} begins no line of a {layout.program} model file")
            if key in entries:
                text.refuse(f"{key} stands here again, after line {entries[key][0]}")
            entries[key] = text.number, words[1:]
        return cls(text, entries)

    def refuse(self, key: str, reason: str) -> NoReturn:
        """Raise an error that names the line of a key."""
        self.text.refuse(reason, self.entries[key][0])

    def words(self, key: str, count: int | None) -> list[bytes]:
        """Return the words after a key; their number must be `count`, if given."""
        if key not in self.entries:
            self.text.refuse(f"there is no line {key} before this one")
        words = self.entries[key][1]
        if count is not None and len(words) != count:
            self.refuse(key, f"{key} must be followed by {count} word(s), got {len(words)}")
        return words

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """Return the only word after a key, which must be one of some."""
        word = self.words(key, 1)[0]
        text = word.decode("ascii", "replace")
        if text not in allowed:
            self.refuse(key, f"{key} must be one of {', '.join(allowed)}, got {shown(word)}")
        return text

    def numbers(self, key: str, count: int | None) -> list[float]:
        """Return the finite numbers after a key."""
        words = self.words(key, count)
        try:
            values = list(map(float, words))
        except ValueError:
            self.refuse(key, f"{key} must be followed by numbers, got {shown(b' '.join(words))}")
        if b"_" in b"".join(words) or not np.isfinite(values).all():
            self.refuse(key, f"{key} must be followed by finite numbers, got {shown(b' '.join(words))}")
        return values

    def integers(self, key: str, count: int, *, at_least: int, below: int = MAX_NUMBER + 1) -> list[int]:
        """Return the integers after a key, which must be in the range of C's int."""
        words = self.words(key, count)
        try:
            values = list(map(int, words))
        except ValueError:
            self.refuse(key, f"{key} must be followed by integers, got {shown(b' '.join(words))}")
        if b"_" in b"".join(words) or not all(at_least <= one < below for one in values):
            bound = f"from {at_least} to {below - 1}"
            self.refuse(key, f"{key} must be followed by integers {bound}, got {shown(b' '.join(words))}")
        return values
