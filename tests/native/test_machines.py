"""Small machines solved in one native call, from kernel values to optimality conditions, against the reference."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from cases import blobs
from mercer import _core
from mercer.data import as_data
from mercer.gram.backends import NativeBackend
from mercer.kernels import RBF, Linear, Polynomial

SIZES = {  # the largest sizes that are solved exactly, in double precision, and with the whole matrix
    "in double": (300, 300, 300),
    "in single": (0, 0, 300),
    "in single, then in double": (300, 0, 300),
    "by sets": (0, 0, 0),
}
KERNELS = {"linear": Linear(), "cubic": Polynomial(3, 0.5, 1.0), "gaussian": RBF(gamma=0.5)}


@pytest.mark.full
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=4),
    st.sampled_from(sorted(KERNELS)),
    st.sampled_from(["none", "given", "to fill"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(sorted(SIZES)),
    st.integers(0, 2**32 - 1),
)
def test_small_machines_agree_with_the_reference(sizes, name, sharing, sparse, grouped, way, seed):
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes])
    X = rng.normal(size=(starts[-1] + 3, 4)).round(2)
    rows = rng.permutation(X.shape[0])[: starts[-1]]  # the rows of a part are scattered over the table
    K = KERNELS[name].block(as_data(X), as_data(X))
    pairs = [(i, j) for i in range(len(sizes)) for j in range(i + 1, len(sizes))] + [(0, -1)]
    members = [np.concatenate([rows[starts[p] : starts[p + 1]] for p in pair if p >= 0]) for pair in pairs]
    signs = [np.repeat([1.0, -1.0], [sizes[i], m.size - sizes[i]]) for (i, _), m in zip(pairs, members, strict=True)]
    y = np.concatenate(signs)
    C = rng.uniform(0.1, 3.0, y.size)
    matrices = [K[np.ix_(part, part)].ravel() for part in np.split(rows, starts[1:-1])]
    shared = (
        None
        if sharing == "none"
        else np.concatenate(matrices)
        if sharing == "given"
        else np.full(sum(map(len, matrices)), np.nan)
    )
    beta, values = np.zeros(y.size), np.zeros(y.size)
    table = as_data(sp.csr_array(X) if sparse else X)
    tiles = NativeBackend(KERNELS[name].lower(), table).tiles(table)
    results = _core.solve_machines(
        tiles.isa,
        tiles.kernel,
        tiles.table,
        centre=tiles.centre,
        parts=_core.MachineParts(
            rows=rows,
            part_starts=starts,
            pairs=np.array(pairs),
            diagonal=None if way == "in double" else np.diag(K)[rows],
            shared=shared,
            fill_shared=sharing == "to fill",
        ),
        variables=_core.MachineVariables(
            start=np.zeros(y.size),
            linear=-y,
            lower=np.where(y > 0, 0.0, -C),
            upper=np.where(y > 0, C, 0.0),
            beta=beta,
            values=values,
        ),
        limits=_core.MachineLimits(
            grouped=grouped,
            tol=1e-9,
            max_iter=-1,
            exact_size=SIZES[way][0],
            double_size=SIZES[way][1],
            whole_size=SIZES[way][2],
            value_work=1.0,
            work_limit=1e9,
        ),
        workspace=np.zeros(_core.machines_workspace(starts, np.array(pairs), *SIZES[way], 2)),
        n_threads=2,
    )
    assert len(results) == len(pairs)
    end = 0
    for rows_of, sign, (
        end_,
        n_iter,
        n_values,
        seconds,
        longest,
        spread,
        largest,
        multiplier,
        primal,
        *conditions,
        _,
    ) in zip(members, signs, results, strict=True):
        part, end = slice(end, end + sign.size), end + sign.size
        matrix, problem = (
            K[np.ix_(rows_of, rows_of)],
            (-sign, np.where(sign > 0, 0.0, -C[part]), np.where(sign > 0, C[part], 0.0)),
        )
        twin, gradient = np.zeros(sign.size), problem[0].copy()
        groups = np.array([0, sign.size] if grouped else [0])
        reference.pair_steps(matrix, twin, gradient, *problem[1:], groups, 1e-9, 10**5)
        np.testing.assert_allclose(values[part], matrix @ beta[part], rtol=1e-10, atol=1e-10)
        near = (1e-3 if way == "in single" else 1e-6) * (1.0 + np.abs(matrix).max())
        if way != "in single" or end_ == 0:  # the others may stop at the rounding of single precision
            np.testing.assert_allclose(values[part], matrix @ twin, atol=near)
        expected = reference.conditions(
            beta[part], matrix @ beta[part], *problem, np.zeros(sign.size), None, None, int(grouped)
        )
        np.testing.assert_allclose(conditions, expected[1], rtol=1e-9, atol=1e-9)
        if grouped:
            assert multiplier == pytest.approx(expected[0][0], rel=1e-9, abs=1e-9)
        assert longest == pytest.approx(np.sqrt(np.diag(matrix).max()))
        assert spread == pytest.approx(np.diag(matrix) @ beta[part] ** 2)
        assert largest == pytest.approx(np.abs(values[part]).max())
        f = values[part] - multiplier
        assert primal == pytest.approx(0.5 * beta[part] @ values[part] + C[part] @ np.maximum(0.0, 1.0 - sign * f))
        assert n_iter >= 0
        first, second = (sign > 0).sum(), (sign < 0).sum()
        inside = first**2 + second**2 if shared is None else 0
        if way == "in double":
            assert n_values == inside + first * second
        elif way.startswith("in single"):
            assert sign.size * sign.size <= n_values <= 5 * sign.size**2
        else:  # by working sets: each row at most once, and the first sets reuse values of rows that stay
            assert n_values <= 10 * sign.size**2
            assert n_values == 0 or shared is None or second > 0
        assert seconds > 0.0
    if shared is not None:
        np.testing.assert_allclose(shared, np.concatenate(matrices), rtol=1e-12, atol=1e-12)


def native(**changed):
    X, y = blobs(6)
    table = as_data(X)
    tiles = NativeBackend(Linear().lower(), table).tiles(table)
    given = {
        "isa": tiles.isa,
        "kernel": tiles.kernel,
        "table": tiles.table,
        "centre": None,
        "workspace": np.zeros(1000),
        "n_threads": 1,
    }
    parts = {
        "rows": np.arange(6),
        "part_starts": np.array([0, 6]),
        "pairs": np.array([[0, -1]]),
        "diagonal": None,
        "shared": None,
        "fill_shared": False,
    }
    variables = {
        **{name: np.zeros(6) for name in ("start", "lower", "beta", "values")},
        "linear": -y,
        "upper": np.ones(6),
    }
    limits = {
        "grouped": True,
        "tol": 1e-3,
        "max_iter": -1,
        "exact_size": 300,
        "double_size": 1024,
        "whole_size": 1024,
        "value_work": 1.0,
        "work_limit": 1e6,
    }
    for group in (given, parts, variables, limits):
        group.update((name, changed.pop(name)) for name in group.keys() & changed.keys())
    assert not changed
    given["parts"] = _core.MachineParts(**parts)
    given["variables"] = _core.MachineVariables(**variables)
    return _core.solve_machines(**given, limits=_core.MachineLimits(**limits))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"workspace": np.zeros(10)}, "the workspace is too small"),
        ({"pairs": np.array([[0, 1]])}, "parts must exist"),
        ({"pairs": np.array([[-1, 0]])}, "parts must exist"),
        ({"rows": np.array([0, 1, 2, 3, 4, 6])}, "row indices must lie between"),
        ({"rows": np.arange(5)}, "parts must be of rows"),
        ({"part_starts": np.array([0, 6, 3])}, "part_starts must rise from 0"),
        ({"shared": np.zeros(35), "fill_shared": True}, "shared must hold every part's matrix"),
        ({"diagonal": np.zeros(5)}, "the diagonal must have a number for each row"),
        ({"beta": np.zeros(5)}, "every machine must have its variables"),
        ({"double_size": 1025}, "double_size must be at most whole_size"),
    ],
)
def test_invalid_arguments_are_refused(changed, message):
    assert len(native()) == 1
    with pytest.raises(ValueError, match=message):
        native(**changed)


def test_a_call_without_machines():
    nothing = np.zeros(0)
    given = dict.fromkeys(("start", "linear", "lower", "upper", "beta", "values"), nothing)
    assert native(pairs=np.zeros((0, 2), dtype=np.int64), **given).shape == (0, 17)
