"""What was assumed about a table, as a sentence with the option that changes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """Something that was assumed about a table: a clause that says it, and a clause with the option that changes it."""

    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}"
