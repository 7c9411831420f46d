"""Names in messages: lists of names, and suggestions for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def nearest_names(name: str, names: Iterable[str], likeness: float = 0.6) -> list[str]:
    """Return up to three names that are similar to a mistyped one, the most similar first; letter case is ignored.

    `likeness` is the cutoff of difflib, from 0 to 1. Very short names need a lower one, because one wrong letter
    changes a large part of them.
    """
    by_casefold = {candidate.casefold(): candidate for candidate in names}
    return [
        by_casefold[match]
        for match in difflib.get_close_matches(name.casefold(), list(by_casefold), n=3, cutoff=likeness)
    ]


def listing(names: Sequence[str], last: str = "and", most: int = 8) -> str:
    """Return names in quotes as a list in a sentence, 'a', 'b' and 'c'; names beyond `most` are only counted."""
    quoted = [repr(name) for name in names[:most]]
    if len(names) > most:
        quoted.append(f"{len(names) - most} more")
    if len(quoted) == 1:
        return quoted[0]
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"
