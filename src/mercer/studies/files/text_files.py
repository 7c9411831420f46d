"""Delimited text: its encoding, its separator, and where its column names are."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mercer.data import Note, ReadingOptions, TableError
from mercer.studies.files.file_formats import BYTE_ORDER_MARK, is_svmlight, looks_like_utf_16, other_format

SEPARATORS = ",;\t|"
"""Separators that are recognised."""

_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
_SEPARATOR_LINE = re.compile(rb'"?sep=([,;\t|])"?[ \t]*(?:\r\n|\r|\n)', re.IGNORECASE)
_BLANKS = re.compile(r'("(?:[^"]|"")*")|[ \t]+')
_WORD_BYTES = re.compile(rb"[A-Za-z\x80-\xff]{2,}")
_ENCODINGS = ("gb18030", "big5", "shift_jis", "euc_kr", "cp1251", "koi8_r", "cp1253", "cp1255", "cp1256")
_HEAD = 1 << 16  # bytes in which the separator is searched
_LINES = 30  # rows that tell the separator


@dataclass(frozen=True)
class DelimitedText:
    """Delimited text in UTF-8, starting with the line of column names.

    Attributes
    ----------
    raw : bytes
    separator : str
    n_skipped : int
        Lines of the file before the column names.
    notes : tuple of Note
        What was guessed about the encoding and the separator.
    by_blanks : bool
        Whether cells are separated by blanks in the file; here a tab is between them.
    encoding : str
        Encoding of the file, as Python calls it.
    """

    raw: bytes
    separator: str
    n_skipped: int
    notes: tuple[Note, ...] = ()
    by_blanks: bool = False
    encoding: str = "utf-8"

    @classmethod
    def of(cls, path: Path, raw: bytes, options: ReadingOptions, usual: str) -> DelimitedText:
        """Return the text of a file whose usual separator is `usual`; TableError if it is no text or empty."""
        body = raw.removeprefix(BYTE_ORDER_MARK)
        format_and_hint = other_format(body.lstrip(b"\r\n"))
        if format_and_hint is not None:
            raise TableError(f"{path} is no delimited text: it is {format_and_hint[0]}", format_and_hint[1])
        body, encoding, encoding_note = _in_utf_8(path, body, options.encoding)
        full_body, body = body, body.lstrip(b"\r\n")
        named = _SEPARATOR_LINE.match(body)  # spreadsheets name the separator in a line of its own
        body = body if named is None else body[named.end() :]
        start = _end_of_comments(body, options.sep, usual)
        comment_note = None if not start else _note_of_comments(body[:start])
        body = body[start:]
        if not body.strip():
            raise TableError(f"{path} is empty")
        n_skipped = len(full_body[: len(full_body) - len(body)].splitlines())
        separator, sep_note = named[1].decode() if named else "", None
        if options.sep is not None:
            separator = _separator(options.sep)
        elif not separator:
            separator, sep_note = _found_separator(path, body, usual)
        by_blanks = separator == " "
        if by_blanks:
            body, separator = with_tabs(body), "\t"
        notes = (encoding_note, comment_note, sep_note)
        return cls(body, separator, n_skipped, tuple(note for note in notes if note is not None), by_blanks, encoding)

    def names(self) -> list[str]:
        """Return the cells of the first row; all kinds of line ends are accepted."""
        lines = io.TextIOWrapper(io.BytesIO(self.raw), "utf-8", newline="")
        return next(csv.reader(lines, delimiter=self.separator))


def is_delimited(head: bytes) -> bool:
    """Return whether the beginning of a file looks like delimited text with at least two columns and a row."""
    try:
        text = head[:_HEAD].decode(looks_like_utf_16(head) or "latin-1").lstrip("\ufeff\r\n")
    except UnicodeDecodeError:
        return False
    counts = [_counts(text, separator) for separator in SEPARATORS]
    counts.append(_counts(with_tabs(text.encode()).decode(), "\t"))
    return any(len(one) > 1 and one[0] > 1 and set(one) == {one[0]} for one in counts)


def _in_utf_8(path: Path, raw: bytes, encoding: str | None) -> tuple[bytes, str, Note | None]:
    """Return the text in UTF-8, its encoding in the file, and a note if that was guessed."""
    if encoding is not None:
        try:
            name = codecs.lookup(encoding).name
            return raw.decode(name).removeprefix("\ufeff").encode(), name, None
        except LookupError as error:
            raise TableError(
                f"encoding={encoding!r} is unknown", "encodings are such as utf-8, cp1252 or utf-16"
            ) from error
        except UnicodeDecodeError as error:
            raise TableError(
                f"{path} is not text in {encoding}: byte 0x{raw[error.start]:02x} in line {_line(raw, error.start)}",
                "name another encoding",
            ) from error
    wide = looks_like_utf_16(raw)
    if wide is not None:
        text, *_ = _in_utf_8(path, raw, wide)
        return text, wide, Note(f"The file is text in {wide.upper()}", "encoding= names another encoding")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        text, note = _from_windows(path, raw, error)
        return text, "cp1252", note
    return raw, "utf-8", None


def _from_windows(path: Path, raw: bytes, error: UnicodeDecodeError) -> tuple[bytes, Note]:
    """Return text in Windows-1252 as UTF-8; TableError if it is rather damaged UTF-8 or another encoding."""
    line, byte = _line(raw, error.start), raw[error.start]
    where = f"byte 0x{byte:02x} in line {line}"
    if not raw[: error.start].isascii():
        raise TableError(
            f"{path} is UTF-8 up to {where}, which is not",
            "mend the line, or name the encoding, such as encoding=cp1252",
        )
    if _is_other_alphabet(raw):
        readings = _readings(raw)
        raise TableError(
            f"{path} is not UTF-8 ({where}), and nearly all letters of its words are above 0x7f, so that it is not "
            "Western text either",
            f"name its encoding: {'; '.join(readings[:6])}"
            if readings
            else "name its encoding, such as encoding=gb18030",
        )
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError as other:
        raise TableError(
            f"{path} is neither UTF-8 nor Windows-1252: byte 0x{raw[other.start]:02x} in line "
            f"{_line(raw, other.start)}",
            "name its encoding, such as encoding=cp1250, shift_jis or gb18030",
        ) from other
    character = bytes([byte]).decode("cp1252")
    return text.encode(), Note(
        f"The file is not UTF-8 and was read as Windows-1252 (Latin-1): {where} is {character!r}",
        "encoding= names another encoding",
    )


def _is_other_alphabet(raw: bytes) -> bool:
    """Return whether words with letters above 0x7f mostly consist of these letters; Western words have a few."""
    words = [word for word in _WORD_BYTES.findall(raw[:_HEAD]) if not word.isascii()]
    of_them = sum(2 * sum(byte > 0x7F for byte in word) > len(word) for word in words)
    return len(words) >= 3 and of_them > 0.6 * len(words)


def _readings(raw: bytes) -> list[str]:
    """Return the option for each encoding in which the text can be read, the likely ones first, with its words."""
    readings = []
    for encoding in _ENCODINGS:
        with suppress(UnicodeDecodeError):
            text = raw[: raw.rfind(b"\n") + 1 or len(raw)].decode(encoding)
            words = [word for word in re.findall(r"[^\W\d_]+", text[:4000]) if not word.isascii()]
            odd = sum(word != word.lower() and word not in (word.upper(), word.capitalize()) for word in words)
            if words:
                readings.append((odd, f"encoding={encoding} reads {' '.join(words[:3])!r}"))
    return [option for _, option in sorted(readings, key=lambda one: one[0])]


def _line(raw: bytes, position: int) -> int:
    """Return the number of the line, from 1, that holds a byte."""
    # With the added byte, a position at the start of a line counts to that line.
    return len((raw[:position] + b"x").splitlines())


def _separator(given: str) -> str:
    separator = _NAMES.get(given.lower(), given)
    if len(separator) != 1 or separator in '"\r\n' or not separator.isascii():
        raise TableError(f"sep={given!r} must be one character, tab or space")
    return separator


def _found_separator(path: Path, body: bytes, usual: str) -> tuple[str, Note | None]:
    """Return the separator of a text that does not name it, and a note if it is not the usual one."""
    if is_svmlight(body[:_HEAD]):
        raise TableError(
            f"{path} holds lines of LIBSVM's form, such as '+1 3:0.5 7:2'",
            "let its name end in .svm, or say format=svmlight",
        )
    separator = _separator_of(body, usual)
    if separator == usual:
        return separator, None
    shown = {"\t": "tabs", " ": "blanks"}.get(separator, repr(separator))
    return separator, Note(f"Cells are separated by {shown}", f"sep={usual!r} changes that")


def _end_of_comments(raw: bytes, sep: str | None, usual: str) -> int:
    """Return the number of bytes of the lines above the column names that are comments: they begin with #.

    If the last of these lines has as many cells as the next row, it holds the column names.
    """
    lines = raw[:_HEAD].splitlines(keepends=True)
    comments = list(itertools.takewhile(lambda line: line.lstrip().startswith(b"#") or not line.strip(), lines))
    if not any(line.strip() for line in comments) or len(comments) == len(lines):
        return 0
    rest = b"".join(lines[len(comments) :])
    separator = _separator_of(rest, usual) if sep is None else _separator(sep)
    named = [position for position, line in enumerate(comments) if line.strip()][-1]
    counts = [
        _counts((with_tabs(part) if separator == " " else part).decode(errors="replace"), separator.replace(" ", "\t"))
        for part in (comments[named], rest)
    ]
    is_header = counts[0][:1] == counts[1][:1]
    return sum(map(len, comments[:named] if is_header else comments))


def _note_of_comments(skipped: bytes) -> Note:
    n = sum(bool(line.strip()) for line in skipped.splitlines())
    lines = "line that begins with # was" if n == 1 else "lines that begin with # were"
    return Note(f"{n} {lines} skipped above the column names", "delete the # of a line that holds the column names")


def _separator_of(raw: bytes, usual: str) -> str:
    """Return the separator with which most of the first rows have as many cells as the column names.

    Tabs are taken in files whose usual separator they are, if there are any.
    """
    text = raw[:_HEAD].decode(errors="replace")
    counts = {separator: _counts(text, separator) for separator in SEPARATORS}

    def rank(separator: str) -> tuple[float, int]:
        of_it = counts[separator]
        return sum(count == of_it[0] for count in of_it) / len(of_it), of_it[0]

    if usual == "\t" and counts[usual] and counts[usual][0] > 1:
        return usual
    possible = [separator for separator in SEPARATORS if counts[separator] and counts[separator][0] > 1]
    if possible:
        return max(possible, key=rank)
    blanks = _counts(with_tabs(raw[:_HEAD]).decode(errors="replace"), "\t")
    return " " if len(blanks) > 2 and blanks[0] > 1 and len(set(blanks)) == 1 else usual


def _counts(text: str, separator: str) -> list[int]:
    """Return the number of cells of each of the first rows that are not empty; the last one may be cut and is left."""
    lines = text.splitlines(keepends=True)
    if len(lines) > 1 and len(text) >= _HEAD - 4:
        lines.pop()
    rows = csv.reader(lines, delimiter=separator)
    counts: list[int] = []
    with suppress(csv.Error):
        counts.extend(len(row) for row in itertools.islice(rows, _LINES) if row)
    return counts


def with_tabs(raw: bytes) -> bytes:
    """Return lines of cells that are separated by blanks, with one tab between two cells."""
    lines = [line.decode(errors="replace") for line in raw.splitlines()]
    return "\n".join(_BLANKS.sub(lambda blank: blank[1] or "\t", line.strip()) for line in lines).encode()
