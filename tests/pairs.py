"""Combinations of test parameters: every two values of different parameters occur together in some test."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import combinations, product
from typing import Any

import pytest

from cases import ISAS


def every_pair(**values: Collection[Any]) -> pytest.MarkDecorator:
    """Parametrise a test by so few combinations that every two values of different parameters occur together.

    With two parameters that is the product. With more it is about the product of the two longest lists. `way` is the
    fixture of that name.
    """
    lists = [list(zip(_names(parameter, choices), choices, strict=True)) for parameter, choices in values.items()]
    sets = [pytest.param(*(v for _, v in row), id="-".join(name for name, _ in row)) for row in covering_rows(lists)]
    return pytest.mark.parametrize(list(values), sets, indirect=[name for name in values if name == "way"])


def first_on_every_isa(**values: Collection[Any]) -> pytest.MarkDecorator:
    """Parametrise a test by all values on the best instruction set, and by the first value on the others."""
    [(parameter, choices)] = values.items()
    first, *rest = zip(_names(parameter, choices), choices, strict=True)
    sets = [(isa, *first) for isa in ISAS] + [(ISAS[-1], *other) for other in rest]
    rows = [pytest.param(isa, value, id=f"{isa}-{name}") for isa, name, value in sets]
    return pytest.mark.parametrize(("isa", parameter), rows)


def with_new_pairs(rows: Iterable[Any]) -> list[Any]:
    """Return the rows (of `pytest.param`) with a pair of values, in the same places, that no earlier row has."""
    seen: set[tuple[int, int, str, str]] = set()
    distinct = []
    for row in rows:
        names = _names("", row.values)
        pairs = {(j, k, names[j], names[k]) for j, k in combinations(range(len(names)), 2)}
        if not pairs <= seen:
            distinct.append(row)
            seen |= pairs
    return distinct


def covering_rows(lists: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield rows with one value of each list, such that every two values of different lists are in some row.

    Lists join one after the other, the longest first. Each row takes the value that brings most new pairs; pairs that
    are then still missing get rows of their own.
    """
    order = sorted(range(len(lists)), key=lambda k: -len(lists[k]))
    rows: list[dict[int, int]] = [
        dict(zip(order[:2], row, strict=True)) for row in product(*(range(len(lists[k])) for k in order[:2]))
    ]
    for place, new in enumerate(order[2:], 2):
        before = order[:place]
        missing = {(k, v, w) for k in before for v in range(len(lists[k])) for w in range(len(lists[new]))}
        for number, row in enumerate(rows):
            gains = [sum((k, row[k], w) in missing for k in before if k in row) for w in range(len(lists[new]))]
            turn = number % len(gains)  # rotates among equally good values
            row[new] = max(range(len(gains)), key=lambda w: (gains[w], -((w - turn) % len(gains))))
            missing -= {(k, row[k], row[new]) for k in before if k in row}
        for k, v, w in sorted(missing):
            row = next((r for r in rows if r[new] == w and k not in r), None) or {new: w}
            row[k] = v
            if row not in rows:
                rows.append(row)
    for number, row in enumerate(rows):
        yield [values[row.get(k, number % len(values))] for k, values in enumerate(lists)]


def _names(parameter: str, values: Collection[Any]) -> list[str]:
    """Return the values as they appear in test names: printed if short, otherwise their number."""
    texts = [str(getattr(value, "name", None) or getattr(value, "__name__", None) or value) for value in values]
    return [text if len(text) <= 80 and text.isprintable() else f"{parameter}{k}" for k, text in enumerate(texts)]
