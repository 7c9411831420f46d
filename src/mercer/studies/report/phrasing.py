"""What a report says that depends on the task: sentences, tables and pictures of how good the answers are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from mercer.model_selection import Interval
from mercer.studies.goal import Goal
from mercer.studies.judging import Contender
from mercer.studies.report.numbers import decimals_of, interval
from mercer.studies.result import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def differences(goal: Goal, comparisons: dict[str, Interval]) -> str:
    """By how much the figure of a machine is better than those of others, by their names."""
    text = "; ".join(
        f"{one.value:+z.{decimals_of(one)}f} against {name}, 95% interval {interval(one, decimals_of(one))}"
        for name, one in comparisons.items()
    )
    how = "lower" if goal.is_loss else "larger"
    return f"By how much its {goal.figure_name} is {how}: {text}; {goal.interval_method}."


class TaskPhrasing(ABC):
    """What a report says of one task."""

    template: str
    """Of the page."""

    @abstractmethod
    def headings(self, goal: Goal) -> list[str]:
        """The headings of the columns of the table of machines, on the command line."""

    @abstractmethod
    def figure(self, goal: Goal, value: float) -> str:
        """The figure of merit as people read it."""

    @abstractmethod
    def short_figure(self, goal: Goal, value: float) -> str:
        """The same where room is short, without its unit."""

    @abstractmethod
    def difference(self, goal: Goal, value: float) -> str:
        """A difference of two figures of merit as people read it."""

    def settings(self, study: Study) -> str:
        """A sentence on what classes and errors count, if they do not count alike; else ""."""
        return ""

    @abstractmethod
    def headline(self, study: Study) -> str:
        """The main result in a sentence or two."""

    @abstractmethod
    def comparison(self, study: Study) -> str:
        """How the other machines did on the same rows."""

    @abstractmethod
    def same_answer(self, study: Study) -> str:
        """Always giving the same answer, in words."""

    @abstractmethod
    def compared(self, goal: Goal, comparisons: dict[str, Any]) -> str:
        """The paired comparisons behind the verdict, by the names of the others."""

    @abstractmethod
    def cautions(self, study: Study) -> list[str]:
        """What a careful reader should know of these figures."""

    @abstractmethod
    def cells(self, goal: Goal, one: Contender) -> list[str]:
        """The cells of a machine in the table, below `headings`."""

    @abstractmethod
    def details(self, study: Study) -> str:
        """Where the answers on the sealed rows are wrong, in a paragraph."""

    @abstractmethod
    def pictures(self, study: Study) -> dict[str, tuple[Figure, str]]:
        """Pictures of how good the answers are, each with its description for those who cannot see it."""
