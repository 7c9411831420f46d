"""A finding: one thing about a table that its owner should know, as a value."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a finding is about."""

    COPY = "copy of the target"
    PREDICTS_ALONE = "predicts the target alone"
    ENCODED = "computed from the target"
    MISSING_PREDICTS = "missing cells predict the target"
    STRONG = "predicts most of the target alone"
    FORMULA = "computed from columns"
    GROUPS = "rows that belong together"
    ORDER = "rows in the order of time"
    CEILING = "ceiling of the target"
    FLOOR = "floor of the target"
    SMALL_CLASS = "small class"
    UNEVEN_CLASSES = "uneven classes"
    ALIKE_CLASSES = "classes that differ in case or spaces only"
    COPIES = "copies of rows"
    CONTRADICTION = "equal rows, different targets"
    CONSTANT = "constant"
    MISSING = "mostly missing"
    SKEWED = "skewed"
    OUTLYING = "outlying cells"
    CODE = "code for missing cells"
    ALIKE_CATEGORIES = "categories that differ in case or spaces only"
    CORRELATED = "correlated"
    IDENTIFYING = "nearly identifies the row"
    UNSCALED = "different scales"
    GAMMA = "collapsed kernel"
    NU = "infeasible nu"
    REFUSED = "refused"
    ASSUMED = "assumed"


class Weight(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """A command refuses the table as it is."""

    DOUBT = "doubt"
    """A test score of this table may be worthless: it is said before the score."""

    CAUTION = "caution"
    """The reader of a test score should know it."""

    REMARK = "remark"
    """Good to know; no score is wrong because of it."""


@dataclass(frozen=True)
class Finding:
    """One thing about a table that its owner should know.

    Attributes
    ----------
    kind : Kind
    weight : Weight
    columns : tuple of str
        The columns that it is about; empty if it is about rows or classes.
    sentence : str
        What was found, in one or two sentences.
    remedy : str
        What to do, in one sentence, with the options of the command line.
    numbers : dict
        The numbers behind the sentence, by name.
    """

    kind: Kind
    weight: Weight
    columns: tuple[str, ...]
    sentence: str
    remedy: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def needs_action(self) -> bool:
        """Whether there is something to do about it, or to find out."""
        if self.kind is Kind.NU:
            return self.weight is not Weight.REMARK
        return self.kind not in (Kind.CONSTANT, Kind.CORRELATED, Kind.UNSCALED)

    def __str__(self) -> str:
        return f"{self.sentence} {self.remedy}"


def option(name: str, value: str) -> str:
    """Return an option of the command line with its value, quoted for a shell if it must be."""
    return f"{name} {shlex.quote(value)}"
