"""Bindings: wrong shapes, types and indices are refused before any pointer is followed."""

import numpy as np
import pytest
import scipy.sparse as sp

from cases import ISAS
from mercer import _core
from mercer.kernels import Op
from pairs import every_pair

X = np.arange(12.0).reshape(4, 3)
EMPTY = np.zeros(0, dtype=np.int64)


def linear():
    return _core.CompiledKernel([Op.DOT], [0.0])


def csr_table(data=(1.0, 2.0), indices=(0, 2), indptr=(0, 1, 2), n_features=3, dtype=np.float64, index=np.int32):
    return _core.Table(np.array(data, dtype), np.array(indices, index), np.array(indptr, index), n_features)


def test_instruction_sets():
    assert _core.best_isa() == ISAS[-1]
    assert _core.has_isa("baseline")
    assert not _core.has_isa("sse9")


TABLES = {
    "integers": (lambda: _core.Table(np.ones((2, 2), dtype=int)), TypeError, "float32 or float64"),
    "half precision": (lambda: _core.Table(np.ones((2, 2), dtype=np.float16)), TypeError, "float32 or float64"),
    "complex": (lambda: _core.Table(np.ones((2, 2), dtype=complex)), TypeError, None),
    "objects": (lambda: _core.Table(np.ones((2, 2), dtype=object)), TypeError, None),
    "other byte order": (lambda: _core.Table(np.ones((2, 2), dtype=">f8")), TypeError, None),
    "one dimension": (lambda: _core.Table(np.ones(2)), TypeError, None),
    "three dimensions": (lambda: _core.Table(np.ones((2, 2, 2))), TypeError, None),
    "a list": (lambda: _core.Table([[1.0]]), TypeError, None),
    "None": (lambda: _core.Table(None), TypeError, None),
    "entries and indices differ": (lambda: csr_table(data=[1.0]), ValueError, "same length"),
    "column too large": (lambda: csr_table(indices=[0, 3]), ValueError, "number of features"),
    "column below 0": (lambda: csr_table(indices=[-1, 2]), ValueError, "number of features"),
    "pointer starts late": (lambda: csr_table(indptr=[1, 1, 2]), ValueError, "start at 0"),
    "pointer falls": (lambda: csr_table(indptr=[0, 2, 1]), ValueError, "must not decrease"),
    "pointer past the end": (lambda: csr_table(indptr=[0, 1, 9]), ValueError, "must not decrease"),
    "no pointer": (lambda: csr_table(indptr=[]), ValueError, "at least one"),
    "entries are integers": (lambda: csr_table(dtype=np.int64), TypeError, "float32 or float64"),
    "short indices": (lambda: csr_table(index=np.int16), TypeError, "int32 or int64"),
    "unsigned indices": (lambda: csr_table(index=np.uint32), TypeError, "int32 or int64"),
    "features below 0": (lambda: csr_table((), (), (0,), -1), ValueError, "n_features"),
    "strided entries": (
        lambda: _core.Table(np.ones(4)[::2], np.zeros(2, np.int32), np.array([0, 2], np.int32), 1),
        TypeError,
        None,
    ),
}


@pytest.mark.parametrize("what", TABLES)
def test_invalid_tables_are_refused(what):
    make, error, message = TABLES[what]
    with pytest.raises(error, match=message):
        make()


def test_unaligned_columns_are_refused_or_read_right():
    record = np.zeros(5, dtype=[("flag", "u1"), ("x", "f8", (3,))])
    record["x"] = np.arange(15.0).reshape(5, 3)
    packed = record["x"]
    assert not packed.flags.aligned
    try:
        table = _core.Table(packed)
    except (TypeError, ValueError, BufferError):
        return
    out = np.empty((5, 5))
    _core.block("baseline", linear(), table, None, table, None, centre=None, out=out, n_threads=1)
    np.testing.assert_array_equal(out, packed @ packed.T)


def test_a_table_keeps_its_arrays_alive():
    table = _core.Table(np.full((200, 50), 2.0))
    sparse = csr_table()
    junk = [np.full((200, 50), -1.0) for _ in range(20)]
    out = np.empty((200, 200))
    _core.block("baseline", linear(), table, None, table, None, centre=None, out=out, n_threads=1)
    assert (out == 200.0).all()
    small = np.empty((2, 2))
    _core.block("baseline", linear(), sparse, None, sparse, None, centre=None, out=small, n_threads=1)
    assert small.tolist() == [[1.0, 0.0], [0.0, 4.0]]
    assert len(junk) == 20


PROGRAMS = {
    "empty": ([], []),
    "lengths differ": ([Op.DOT], []),
    "too long": ([Op.DOT] + [Op.SHIFT] * 256, [0.0] * 257),
    "unknown operation": ([99], [0.0]),
    "negative operation": ([-1], [0.0]),
    "nothing to add": ([Op.DOT, Op.ADD], [0.0] * 2),
    "nothing to scale": ([Op.SCALE], [1.0]),
    "two tiles left": ([Op.DOT, Op.DOT], [0.0] * 2),
    "too deep": ([Op.DOT] * 9 + [Op.ADD] * 8, [0.0] * 17),
    "negative power": ([Op.DOT, Op.POWER], [0.0, -1.0]),
    "power of nothing known": ([Op.DOT, Op.POWER], [0.0, np.nan]),
    "fractional power": ([Op.DOT, Op.POWER], [0.0, 0.5]),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_invalid_programs_are_refused(what):
    ops, arguments = PROGRAMS[what]
    with pytest.raises(ValueError, match=r"program|power|operation"):
        _core.CompiledKernel([int(op) for op in ops], arguments)


@pytest.mark.parametrize(
    ("arguments", "columns", "message"),
    [
        ([1.0], [], "a pass must be over one of the lists of columns"),
        ([0.5], [[0]], "a pass must be over one of the lists of columns"),
        ([1.0], [[]], "columns must be at least one, and rise from 0 on"),
        ([1.0], [[2, 1]], "columns must be at least one, and rise from 0 on"),
        ([1.0], [[-1, 1]], "columns must be at least one, and rise from 0 on"),
    ],
)
def test_columns_of_a_program(arguments, columns, message):
    with pytest.raises(ValueError, match=message):
        _core.CompiledKernel([Op.DOT], arguments, False, columns)


def test_columns_beyond_the_table():
    kernel, X, out = (
        _core.CompiledKernel([Op.DOT], [1.0], False, [[1, 3]]),
        _core.Table(np.ones((2, 3))),
        np.zeros((2, 2)),
    )
    with pytest.raises(ValueError, match="columns must lie below the number of features"):
        _core.block("baseline", kernel, X, None, X, None, centre=None, out=out, n_threads=1)


def test_the_longest_and_the_deepest_program():
    table, out = _core.Table(X), np.empty((4, 4))
    longest = _core.CompiledKernel([int(Op.DOT)] + [int(Op.SHIFT)] * 255, [0.0] + [1.0] * 255)
    _core.block("baseline", longest, table, None, table, None, centre=None, out=out, n_threads=1)
    np.testing.assert_array_equal(out, X @ X.T + 255)
    deepest = _core.CompiledKernel([int(Op.DOT)] * 8 + [int(Op.ADD)] * 7, [0.0] * 15)
    _core.block("baseline", deepest, table, None, table, None, centre=None, out=out, n_threads=1)
    np.testing.assert_array_equal(out, 8 * (X @ X.T))


def block_arguments(**changed):
    arguments = {
        "isa": "baseline",
        "kernel": linear(),
        "left": _core.Table(X),
        "left_rows": None,
        "right": _core.Table(X),
        "right_rows": None,
        "centre": None,
        "out": np.zeros((4, 4)),
        "n_threads": 1,
    }
    return arguments | changed


# Native tables are made inside the tests: nanobind reports those that still exist when Python ends.
READ_ONLY = np.zeros((4, 4))
READ_ONLY.flags.writeable = False

BLOCKS = {
    "unknown instruction set": {"isa": "sse9"},
    "no kernel": {"kernel": None},
    "no table": {"left": None},
    "row too large": {"left_rows": np.array([0, 1, 2, 4])},
    "row below 0": {"right_rows": np.array([0, 1, 2, -1])},
    "32-bit rows": {"left_rows": np.arange(4, dtype=np.int32)},
    "float rows": {"left_rows": np.arange(4.0)},
    "strided rows": {"left_rows": np.arange(8)[::2]},
    "fewer rows than out": {"left_rows": np.arange(3)},
    "dense and sparse": {"right": csr_table, "out": np.zeros((4, 2))},
    "other features": {"right": lambda: _core.Table(np.ones((4, 2)))},
    "centre of another length": {"centre": np.zeros(2)},
    "centre of sparse tables": {
        "left": csr_table,
        "right": csr_table,
        "centre": np.zeros(3),
        "out": np.zeros((2, 2)),
    },
    "single centre": {"centre": np.zeros(3, dtype=np.float32)},
    "out of another shape": {"out": np.zeros((4, 5))},
    "integer out": {"out": np.zeros((4, 4), dtype=int)},
    "out in columns": {"out": np.zeros((4, 4)).T.copy().T},
    "out with gaps": {"out": np.zeros((4, 8))[:, ::2]},
    "out backwards": {"out": np.zeros((4, 4))[:, ::-1]},
    "read-only out": {"out": READ_ONLY},
    "out of one dimension": {"out": np.zeros(16)},
    "no out": {"out": None},
}


@pytest.mark.parametrize("what", BLOCKS)
def test_invalid_blocks_are_refused(what):
    with pytest.raises((TypeError, ValueError)):
        _core.block(**block_arguments(**{k: v() if callable(v) else v for k, v in BLOCKS[what].items()}))
    assert (READ_ONLY == 0.0).all()


MATVECS = {
    "fewer vectors than rows": {"vectors": np.ones((3, 1))},
    "more sums than rows": {"out": np.zeros((5, 1))},
    "numbers of vectors differ": {"out": np.zeros((4, 2))},
    "one dimension": {"vectors": np.ones(4)},
    "in columns": {"vectors": np.ones((2, 4)).T, "out": np.zeros((4, 2))},
    "single vectors": {"vectors": np.ones((4, 1), dtype=np.float32)},
    "single out": {"out": np.zeros((4, 1), dtype=np.float32)},
    "row too large": {"right_rows": np.array([0, 1, 2, 4])},
    "more than all parts": {"part": 2, "parts": 2},
    "a part before the first": {"part": -1},
    "no parts": {"parts": 0},
}


@pytest.mark.parametrize("what", MATVECS)
def test_invalid_products_are_refused(what):
    arguments = block_arguments(vectors=np.ones((4, 1)), out=np.zeros((4, 1)))
    with pytest.raises((TypeError, ValueError)):
        _core.matvec(**arguments | MATVECS[what])


@pytest.mark.parametrize("threads", [-3, 0, 1, 1000])
def test_any_number_of_threads_is_taken(threads):
    arguments = block_arguments(n_threads=threads)
    _core.block(**arguments)
    np.testing.assert_array_equal(arguments["out"], X @ X.T)


def qp_arguments(size=3, **changed):
    matrix = np.zeros((size, 16))
    matrix[:, :size] = np.eye(size)
    arguments = {
        "isa": "baseline",
        "newton": False,
        "matrix": matrix,
        "beta": np.zeros(size),
        "gradient": np.array([-1.0, 0.0, 1.0]),
        "lower": np.full(size, -1.0),
        "upper": np.full(size, 1.0),
        "group_starts": np.array([0, size]),
        "tol": 1e-9,
        "max_iter": 100,
    }
    return arguments | changed


QPS = {
    "unpadded matrix": {"matrix": np.eye(3)},
    "matrix of another size": {"matrix": np.zeros((4, 16))},
    "matrix in columns": {"matrix": np.zeros((8, 3)).T},
    "overlapping rows": {"matrix": np.lib.stride_tricks.as_strided(np.zeros(64), (3, 16), (8, 8))},
    "integer matrix": {"matrix": np.zeros((3, 16), dtype=int)},
    "short gradient": {"gradient": np.zeros(2)},
    "short lower": {"lower": np.zeros(2)},
    "short upper": {"upper": np.zeros(2)},
    "long upper": {"upper": np.zeros(4)},
    "integer beta": {"beta": np.zeros(3, dtype=int)},
    "strided beta": {"beta": np.zeros(6)[::2]},
    "no group starts": {"group_starts": EMPTY},
    "groups start late": {"group_starts": np.array([1, 3])},
    "groups end early": {"group_starts": np.array([0, 2])},
    "groups fall": {"group_starts": np.array([0, 5, 3])},
    "32-bit group starts": {"group_starts": np.array([0, 3], dtype=np.int32)},
    "unknown instruction set": {"isa": "sse9"},
}


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("what", QPS)
def test_invalid_subproblems_are_refused(what, newton):
    with pytest.raises((TypeError, ValueError)):
        _core.solve_block(**qp_arguments(newton=newton) | QPS[what])


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("isa", ISAS)
def test_a_subproblem_without_variables(isa, newton):
    empty = np.zeros(0)
    for starts in ([0], [0, 0], [0, 0, 0]):
        arguments = qp_arguments(isa=isa, newton=newton, group_starts=np.array(starts))
        arguments |= {name: empty.copy() for name in ("beta", "gradient", "lower", "upper")}
        arguments["matrix"] = np.zeros((0, 0))
        assert _core.solve_block(**arguments) == (0, 0, 0.0)


@every_pair(newton=[False, True], isa=ISAS, bad=[np.nan, np.inf, -np.inf], where=["matrix", "beta", "gradient", "tol"])
def test_nan_and_infinity_end_the_solver(isa, newton, bad, where):
    arguments = qp_arguments(isa=isa, newton=newton, max_iter=1000)
    if where == "tol":
        arguments["tol"] = bad
    else:
        arguments[where] = arguments[where].copy()
        arguments[where].flat[0] = bad
    end, n_iter, *_ = _core.solve_block(**arguments)
    assert end in (0, 1, 2)
    assert n_iter <= 1000


def variables(**changed):
    arguments = {
        "beta": np.zeros(4),
        "gradient": np.arange(4.0),
        "lower": np.full(4, -1.0),
        "upper": np.ones(4),
        "groups": np.zeros(4, dtype=np.int64),
        "n_groups": 1,
        "active": None,
    }
    return arguments | changed


UNSEEN = np.zeros(4, dtype=bool)

VARIABLES = {
    "short gradient": {"gradient": np.zeros(3)},
    "short lower": {"lower": np.zeros(3)},
    "long upper": {"upper": np.zeros(5)},
    "short groups": {"groups": np.zeros(3, dtype=np.int64)},
    "group too large": {"groups": np.array([0, 0, 1, 0])},
    "group below 0": {"groups": np.array([0, 0, -1, 0])},
    "32-bit groups": {"groups": np.zeros(4, dtype=np.int32)},
    "no groups at all": {"n_groups": 0},
    "fewer groups than none": {"n_groups": -1},
    "active variable too large": {"active": np.array([4])},
    "active variable below 0": {"active": np.array([-1])},
    "single beta": {"beta": np.zeros(4, dtype=np.float32)},
}


@pytest.mark.parametrize("what", VARIABLES)
def test_invalid_variables_are_refused(what):
    arguments = variables(**VARIABLES[what])
    with pytest.raises((TypeError, ValueError)):
        _core.Survey().measure(**arguments)


def survey():
    native_survey = _core.Survey()
    native_survey.measure(**variables())
    return native_survey


@pytest.mark.parametrize("previous", [np.array([4]), np.array([-1]), np.array([0], dtype=np.int32), np.array([0.0])])
def test_invalid_previous_working_sets_are_refused(previous):
    with pytest.raises((TypeError, ValueError)):
        survey().select(seen=UNSEEN, previous=previous, limit=2)


@pytest.mark.parametrize("seen", [np.zeros(3, dtype=bool), np.zeros(4, dtype=np.int64)])
def test_invalid_flags_are_refused(seen):
    with pytest.raises((TypeError, ValueError)):
        survey().select(seen=seen, previous=EMPTY, limit=2)


def test_a_limit_below_0_is_refused():
    with pytest.raises(ValueError, match="limit"):
        survey().select(seen=UNSEEN, previous=EMPTY, limit=-1)


def test_a_selection_before_a_survey_is_refused():
    with pytest.raises(ValueError, match="seen"):
        _core.Survey().select(seen=UNSEEN, previous=EMPTY, limit=2)


def test_sparse_tables_of_any_index_type_agree():
    matrix = sp.csr_array(np.where(np.random.default_rng(0).random((6, 5)) < 0.5, 1.5, 0.0))
    expected = (matrix @ matrix.T).toarray()
    for index in (np.int32, np.int64):
        table = _core.Table(matrix.data, matrix.indices.astype(index), matrix.indptr.astype(index), 5)
        out = np.empty((6, 6))
        _core.block("baseline", linear(), table, None, table, None, centre=None, out=out, n_threads=1)
        np.testing.assert_array_equal(out, expected)
