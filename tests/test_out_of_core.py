"""Linear machines that are fitted on files larger than memory: the same optimum, checkpoints, and budgets."""

import numpy as np
import pytest

from mercer.certificates.solution import Limits
from mercer.files.blocks.checkpoint import Checkpoints
from mercer.linear import Hinge, LinearProblem, SquaredHinge, TableRows, solve
from mercer.solvers import Control


def a_problem(loss, n=300, p=5, C=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(float)
    return LinearProblem(TableRows(X, y), loss, C, positive=1)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
def test_a_fit_continues_from_the_point_of_its_last_checkpoint(tmp_path, loss):
    problem = a_problem(loss)
    control = Control(Limits(tol_gap=1e-9))
    checkpoints = Checkpoints(tmp_path, {"C": 1.0}, problem.rows)
    full = solve(problem, control, after_step=lambda point: checkpoints.save(0, point()))
    again = Checkpoints(tmp_path, {"C": 1.0}, problem.rows).load(0)
    assert len(list(tmp_path.iterdir())) == 2
    continued = solve(problem, Control(Limits(tol_gap=1e-9)), start=again)
    assert continued.n_iter < 0.4 * full.n_iter
    assert continued.certificate.relative_gap <= 1e-9
    np.testing.assert_allclose(continued.w, full.w, atol=1e-4)
    assert Checkpoints(tmp_path, {"C": 2.0}, problem.rows).load(0) is None
    newest = max(tmp_path.iterdir(), key=lambda path: int(path.stem.rpartition("-")[2]))
    newest.write_bytes(newest.read_bytes()[:-8])
    older = checkpoints.load(0)
    assert older is not None
    assert not np.array_equal(older.beta[:], again.beta[:])
