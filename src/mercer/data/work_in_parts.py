"""Work that is done in parts of bounded size: generators that yield after every part and return the result."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

Result = TypeVar("Result")


def finished(work: Generator[None, None, Result], check: Callable[[], None] | None = None) -> Result:
    """Run the work to its end and return its result; `check` is called between its parts, and may raise."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
        if check is not None:
            check()
