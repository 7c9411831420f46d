"""How messages name things: lists of names, and the nearest names to a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def nearest_names(name: str, names: Iterable[str], likeness: float = 0.6) -> list[str]:
    """The names that a mistyped one probably meant, best first, at most three; letter case is ignored.

    Lower `likeness` (of difflib, 0 to 1) where names are so short that one letter is much of them.
    """
    by_folded = {known.casefold(): known for known in names}
    return [
        by_folded[match] for match in difflib.get_close_matches(name.casefold(), list(by_folded), n=3, cutoff=likeness)
    ]


def listing(names: Sequence[str], last: str = "and", most: int = 8) -> str:
    """Names in quotes as one reads them out: 'a', 'b' and 'c'; more than `most` are counted."""
    quoted = [repr(name) for name in names[:most]]
    if len(names) > most:
        quoted.append(f"{len(names) - most} more")
    if len(quoted) == 1:
        return quoted[0]
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"
