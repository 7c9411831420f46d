"""What holds for every loss of the linear machines; docs/extending/loss.md adds one."""

import pytest

from linear_cases import check_loss, control, problems_with
from mercer.solvers.rows import (
    EpsilonInsensitive,
    Hinge,
    LinearLoss,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    solve,
)

LOSSES = [Hinge(), SquaredHinge(), Logistic(), EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_derivatives_and_the_dual_are_those_of_the_loss(loss: LinearLoss) -> None:
    check_loss(loss)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_machines_of_every_shape_are_optimal(loss: LinearLoss) -> None:
    for problem in problems_with(loss):
        certificate = solve(problem, control()).certificate
        assert (certificate.status, certificate.verify().status) == ("optimal", "optimal"), problem
