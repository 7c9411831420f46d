"""A leave-one-out pass whose machines are followed by the workers of a cluster: a task for each machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.status import Status
from mercer.cluster import Workers, while_wanted
from mercer.gram import Gram
from mercer.problems import Problem
from mercer.solvers.interruption import Interruption
from mercer.solvers.loop import StopWork
from mercer.solvers.paths.loo_bounds import DecidedErrors
from mercer.solvers.paths.loo_states import Solved, load_solved, name_of, state_of
from mercer.solvers.paths.loo_values import LooPass
from mercer.solvers.paths.path_following import Followed

_NONE: Any = None  # in the place of kernel values, which do not travel


class _Inputs(NamedTuple):
    """What all tasks read."""

    kernel: Any
    data: Any
    memory_limit: int
    rows: IndexArray
    errors_only: bool


class _Task(NamedTuple):
    """A machine, and the values that are known already."""

    problem: Problem
    start: FloatArray
    part: IndexArray
    solved: Solved


class _Outcome(NamedTuple):
    """What a task has found."""

    raw: FloatArray  # of the rows that the machine was not trained on
    rule: Any
    followed: Followed  # without kernel values
    solved: Solved
    n_values: int
    terms: Any  # of the rules that settle errors; None if they were not asked for


class SpreadLooPass(LooPass):
    """The pass of :class:`LooPass` on the workers of a cluster, with the same values to every digit.

    Parameters
    ----------
    workers : Workers
    rules : DecidedErrors, optional
        The rules of a machine whose values are computed only for rows that they leave open.
    *parts, **about
        See :class:`LooPass`.
    """

    def __init__(self, *parts: Any, workers: Workers, rules: DecidedErrors | None, **about: Any) -> None:
        super().__init__(*parts, **about)
        self._workers, self._rules = workers, rules
        self._followed: list[Followed] = []

    def steps(self) -> Iterator[float]:
        """Let the workers find the values; yield the share of the machines that are done."""
        yield 0.0
        gram, checkpoint, n_machines = self.full_gram, self.checkpoint, len(self.parts)
        inputs = _Inputs(gram.kernel, gram.data, gram.memory_limit, self.rows, self._rules is not None)
        tasks = []
        for column, (problem, start, part) in enumerate(zip(self.problems, self.starts, self.parts, strict=True)):
            solved = {} if checkpoint is None else load_solved(checkpoint, column, problem.n)
            tasks.append(_Task(problem, start, part, solved))
        with closing(self._workers.in_order(_of_machine, inputs, tasks, self.check)) as outcomes:
            for column, one in enumerate(outcomes):
                self.raw[:, column], self.rule[:, column] = one.raw, one.rule
                here = gram if self.rows.size == gram.n else gram.restrict(self.rows)
                part = self.parts[column]
                view = here if part.size == here.n else here.restrict(part)
                self._followed.append(replace(one.followed, full=replace(one.followed.full, gram=view)))
                self.n_values_elsewhere += one.n_values
                if self._rules is not None:
                    self._rules.known_terms = one.terms
                if checkpoint is not None:
                    checkpoint.store(name_of(column), partial(state_of, one.solved))
                yield (column + 1) / n_machines

    def followed(self) -> list[Followed]:
        """Return the results of the machines so far."""
        return self._followed


def _of_machine(inputs: _Inputs, task: _Task) -> _Outcome:
    """Find the values of a machine, on a worker."""
    interruption = Interruption()

    def check() -> None:
        if interruption.requested:
            raise StopWork(Status.INTERRUPTED)

    gram = Gram(inputs.kernel, inputs.data, memory_limit=inputs.memory_limit, n_jobs=1)
    rows, rules, wanted = inputs.rows, None, None
    if inputs.errors_only:
        rules = DecidedErrors(gram if rows.size == gram.n else gram.restrict(rows))
        wanted = rules.open_rows
    one = LooPass([task.problem], [task.start], [task.part], gram, rows, wanted=wanted, check=check)
    one.solved_before = [task.solved]
    with while_wanted(interruption.request):
        for _ in one.steps():
            check()
    (work,) = one.works
    followed = work.result()
    without_gram: Any = replace(followed.full, gram=_NONE)
    terms = None if rules is None else rules.known_terms
    about = replace(followed, full=without_gram), work.solved, gram.n_values, terms
    return _Outcome(one.raw[:, 0], one.rule[:, 0], *about)
