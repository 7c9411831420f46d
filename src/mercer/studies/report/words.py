"""The words of the page: the first use of each term of the glossary is a link to its definition at the end of the page.

The definitions are those of ``glossary.md`` beside this module, which is also a page of the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from typing import NamedTuple

PLACE = "<!-- words -->"
"""Where the template wants the definitions."""

_ENTRY = re.compile(r"^- \*\*(?P<terms>.+?)\*\*(?P<symbols>.*?): (?P<sentence>.+)$", re.MULTILINE)
_TAG = re.compile(r"(<[^>]*>)")
_ROW_NAME = '<th scope="row"'
_NOT_PROSE = frozenset({"a", "code", "h1", "h2", "h3", "pre", "style", "summary", "svg", "td"})


class Word(NamedTuple):
    """A term of the glossary: its spellings, and what it means."""

    spellings: tuple[str, ...]
    sentence: str

    @property
    def anchor(self) -> str:
        """The name of its definition in the page."""
        return "word-" + re.sub(r"\W+", "-", self.spellings[0].lower()).strip("-")


@cache
def glossary() -> tuple[Word, ...]:
    """Return all terms, in the order of the glossary."""
    text = files(__package__).joinpath("glossary.md").read_text(encoding="utf-8")
    return tuple(
        Word(tuple(one["terms"].split(", ")), one["sentence"].replace("`", "")) for one in _ENTRY.finditer(text)
    )


def define(page: str, names: Iterable[str]) -> str:
    """Return the page with its words linked and defined.

    Parameters
    ----------
    page : str
        HTML with `PLACE` in it. Words are looked for in running text and headings of columns.
    names : iterable of str
        Names of the table, of its columns and classes. A term that is part of one of them is not linked, because it
        may stand for what the table means by it.
    """
    by_spelling = _spellings(names)
    longest_first = sorted(by_spelling, key=len, reverse=True)
    pattern = re.compile(
        rf"(?<![\w“'’-])({'|'.join(map(re.escape, longest_first))})((?:e?s)?)(?![\w”'’-])", re.IGNORECASE
    )
    used: list[Word] = []

    def link(match: re.Match[str]) -> str:
        word = by_spelling[match[1].lower()]
        if word in used:
            return match[0]
        used.append(word)
        return f'<a class="word" href="#{word.anchor}">{match[0]}</a>'

    head, main, rest = page.partition("<main>")
    parts = _TAG.split(rest)  # text, tag, text, ...
    within: list[str] = []  # elements that are not prose
    for number, part in enumerate(parts):
        if number % 2 == 0:
            parts[number] = part if within else pattern.sub(link, part)
        elif within and part == f"</{within[-1]}>":
            within.pop()
        elif (opened := re.match(r"<(\w+)", part)) and (opened[1] in _NOT_PROSE or part.startswith(_ROW_NAME)):
            within.append(opened[1])
    definitions = "".join(
        f'<dt id="{word.anchor}">{escape(word.spellings[0])}</dt><dd>{escape(word.sentence)}</dd>\n'
        for word in sorted(used, key=lambda word: word.spellings[0].lower())
    )
    return head + main + "".join(parts).replace(PLACE, definitions)


def _spellings(names: Iterable[str]) -> dict[str, Word]:
    text = "\n".join(names).lower()
    every = {spelling.lower(): word for word in glossary() for spelling in word.spellings}
    return {one: word for one, word in every.items() if not re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text)}
