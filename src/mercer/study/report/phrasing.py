"""What a report says that depends on the task: sentences, tables and pictures of how good the answers are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from mercer.study.protocol import Contender, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class TaskPhrasing(ABC):
    """What a report says of one task."""

    template: str
    """Of the page."""

    headings: tuple[str, ...]
    """Of the columns of the table of machines, on the command line."""

    @abstractmethod
    def figure(self, value: float) -> str:
        """The figure of merit as people read it."""

    @abstractmethod
    def short_figure(self, value: float) -> str:
        """The same where room is short, without its unit."""

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
    def compared(self, comparisons: dict[str, Any]) -> str:
        """The paired comparisons behind the verdict, by the names of the others."""

    @abstractmethod
    def cautions(self, study: Study) -> list[str]:
        """What a careful reader should know of these figures."""

    @abstractmethod
    def cells(self, one: Contender) -> list[str]:
        """The cells of a machine in the table, below `headings`."""

    @abstractmethod
    def details(self, study: Study) -> str:
        """Where the answers on the sealed rows are wrong, in a paragraph."""

    @abstractmethod
    def pictures(self, study: Study) -> dict[str, tuple[Figure, str]]:
        """Pictures of how good the answers are, each with its description for those who cannot see it."""
