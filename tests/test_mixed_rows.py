"""One machine for a data frame whose columns are strings, fingerprints, categories and numbers."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import (
    SVC,
    SVDD,
    SVR,
    KernelNeighborsClassifier,
    KernelSearchCV,
    OneClassSVM,
    as_model,
    gram_matrix,
    leave_one_out,
)
from mercer.data import MixedRows, as_data, as_structured, fingerprints
from mercer.gram.backends import BlockBackend, PartsBackend, select_backend
from mercer.kernels import (
    RBF,
    ChiSquared,
    GeneralizedGaussian,
    Hamming,
    Laplacian,
    Precomputed,
    Spectrum,
    Tanimoto,
    exp,
    normalize,
)
from mercer.kernels.kernel import as_rows

rng = np.random.default_rng(0)
N = 60
SEQ = ["".join(rng.choice(list("ACGT"), 10)) for _ in range(N)]
SETS = [sorted(rng.choice(64, 8, replace=False).tolist()) for _ in range(N)]
X = rng.normal(size=N)
Y = (X + np.array([s.count("A") for s in SEQ]) > 2.5).astype(int)
FRAME = {"seq": SEQ, "x": X, "fp": SETS, "note": ["n"] * N}
KERNEL = Spectrum(2).on(["seq"]) + RBF().on(["x"]) * Tanimoto().on("fp")


def structured():
    bits = np.zeros((N, 64), dtype=bool)
    for i, row in enumerate(SETS):
        bits[i, row] = True
    table = np.zeros(N, dtype=[("seq", "U10"), ("x", float), ("fp", bool, 64), ("note", "U1")])
    table["seq"], table["x"], table["fp"], table["note"] = SEQ, X, bits, "n"
    return table


FRAMES = {
    "pandas": pd.DataFrame(FRAME),
    "polars": pl.DataFrame(FRAME),
    "arrow": pa.table(FRAME),
    "dict": FRAME,
    "structured": structured(),
}


def by_hand():
    strings, numbers, bits = as_structured(SEQ), as_data(X[:, None]), as_data(fingerprints(SETS))
    gaussian = RBF(gamma=1.0 / X.var()).block(numbers, numbers)
    return Spectrum(2).block(strings, strings) + gaussian * Tanimoto().block(bits, bits)


@pytest.mark.parametrize("kind", FRAMES)
def test_kernels_on_columns_of_a_data_frame_are_their_parts(kind):
    frame, K = FRAMES[kind], by_hand()
    np.testing.assert_allclose(gram_matrix(KERNEL, frame), K, rtol=1e-12)
    machine = SVC(kernel=KERNEL).fit(frame, Y)
    assert machine.certificate_.verify().status == "optimal"
    expected = SVC(kernel="precomputed").fit(K, Y).decision_function(K)
    np.testing.assert_allclose(machine.decision_function(frame), expected, atol=1e-8)
    np.testing.assert_allclose(machine.kernel_.parts[1].parts[0].kernel.gamma, 1.0 / X.var())
    assert set(machine.support_vectors_) == {"seq", "x", "fp"}
    restored = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(restored.predict(frame), machine.predict(frame))


@pytest.mark.parametrize(
    "kernel",
    [
        KERNEL,
        exp(Tanimoto().on("fp")) * RBF().on("x") ** 2 + 0.5 * RBF().on("x") + 1.0,
        Spectrum(2).on("seq") * Precomputed("K") + Hamming().on("note"),
        RBF().on("x"),
    ],
    ids=repr,
)
def test_parts_are_evaluated_by_their_own_backends(kernel):
    rows = as_rows(kernel, FRAME | {"K": np.cov(rng.normal(size=(N, 90)))})
    kernel = kernel.resolve(rows)
    backend, reason = select_backend(kernel, rows)
    assert isinstance(backend, PartsBackend)
    assert "joins values of its parts" in reason
    backend.values_per_call = 500
    exact, chosen = kernel.block(rows, rows), np.array([5, 2, 2, 59])
    for left, right in ((None, None), (chosen, None), (None, chosen), (chosen, chosen[:2])):
        expected = exact[slice(None) if left is None else left][:, slice(None) if right is None else right]
        for out in (np.empty(expected.shape), np.empty(expected.shape, dtype=np.float32)):
            backend.block(rows, left, rows, right, out)
            np.testing.assert_allclose(out, expected, rtol=1e-12 if out.dtype == float else 1e-6)
        vectors = rng.normal(size=(expected.shape[1], 2))
        np.testing.assert_allclose(backend.matvec(rows, left, rows, right, vectors), expected @ vectors, atol=1e-12)
    assert np.abs(exact).max() <= backend.value_bound(rows) * (1.0 + 1e-12)
    assert backend.matvec(rows, chosen, rows, chosen[:0], np.zeros((0, 1))).tolist() == [[0.0]] * 4


def test_strings_alone_need_no_backends_of_parts():
    kernel = Spectrum(2).on("seq") + Spectrum(3).on("seq")
    assert isinstance(select_backend(kernel, as_rows(kernel, FRAME))[0], BlockBackend)
    huge = exp(900.0 * Tanimoto().on("fp"))
    assert select_backend(huge, as_rows(huge, FRAME))[0].value_bound(as_rows(huge, FRAME)) == np.inf


@pytest.mark.parametrize("machine", [SVR(), OneClassSVM(nu=0.2), SVDD(), OneClassSVM(contamination=0.1)])
def test_machines_of_all_kinds_take_data_frames(machine):
    frame = FRAMES["pandas"]
    machine = machine.set_params(kernel=KERNEL).fit(frame, X)
    assert machine.certificate_.status == "optimal"
    assert machine.predict(frame.iloc[:7]).shape == (7,)
    np.testing.assert_allclose(machine.predict(frame.iloc[:7]), machine.predict(frame)[:7], rtol=1e-9)


def test_search_and_leave_one_out_of_a_data_frame():
    frame = FRAMES["pandas"]
    kernel = 0.5 * Spectrum(2).on("seq") + RBF(1.0).on("x")
    grid = {"kernel__left__factor": [0.1, 1.0], "kernel__right__kernel__gamma": [0.1, 1.0]}
    search = KernelSearchCV(SVC(kernel=kernel), grid, cv=3).fit(frame, Y)
    assert search.predict(frame).shape == (N,)
    # Kernels of one grid read different columns.
    kernels = {"kernel": [Spectrum(2).on("seq"), RBF(1.0).on("x"), KERNEL]}
    scores = KernelSearchCV(SVC(), kernels, cv=3).fit(frame, Y).cv_results_["mean_test_score"]
    alone = [KernelSearchCV(SVC(kernel=one), {"C": [1.0]}, cv=3).fit(frame, Y).best_score_ for one in kernels["kernel"]]
    np.testing.assert_allclose(scores, alone)
    machine = SVC(kernel=kernel).fit(frame, Y)
    errors = [
        SVC(kernel=kernel).fit(frame.drop(index=i), np.delete(Y, i)).predict(frame.iloc[[i]])[0] != Y[i]
        for i in range(8)
    ]
    left_out = leave_one_out(machine, frame, Y)
    np.testing.assert_array_equal(left_out.wrong[:8], errors)


def frame_with(**columns):
    return pd.DataFrame(FRAME | columns)


@pytest.mark.parametrize(
    ("kernel", "frame", "message"),
    [
        (Spectrum(2).on("sq"), frame_with(), "needs a column 'sq', which the data frame lacks: did you mean 'seq'"),
        (Spectrum(2).on("x"), frame_with(), "reads strings or sets, and column 'x' holds numbers"),
        (Spectrum(2).on(["seq", "note"]), frame_with(), "reads strings or sets from one column, got 'seq' and 'note'"),
        (RBF().on("seq"), frame_with(), f"reads numbers, and column 'seq' holds '{SEQ[0]}' in row 0"),
        (RBF().on("x"), frame_with(x=[np.nan, *X[1:]]), "row 0, column 'x' is nan"),
        (Spectrum(2).on("seq"), frame_with(seq=[*SEQ[:-1], None]), "column 'seq' has one in row 59"),
        (Spectrum(2).on("seq"), frame_with(seq=[3, *SEQ[1:]]), "column 'seq': every row must be a string"),
        (Tanimoto().on("fp"), frame_with(fp=["a"] * N), "cannot read column 'fp'"),
        (KERNEL + RBF(), frame_with(), r"does not say which columns it reads, .* write RBF\(gamma='scale'\).on"),
        (KERNEL, X[:, None], "needs a data frame with the columns 'seq', 'x' and 'fp', got ndarray"),
        (Spectrum(2).on("seq").on("seq"), frame_with(), "names columns twice"),
    ],
)
def test_fit_refuses_columns_that_a_kernel_cannot_read(kernel, frame, message):
    with pytest.raises(ValueError, match=message):
        SVC(kernel=kernel).fit(frame, Y)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (frame_with().drop(columns="x"), "needs a column 'x', which the data frame lacks: the columns are 'seq'"),
        (frame_with(x="a"), "reads numbers, and column 'x' holds 'a' in row 0"),
        (frame_with(seq=[set(one) for one in SEQ]), "column 'seq': sets cannot be used beside strings"),
        (frame_with(fp=["01" * 16] * N), "column 'fp' must have the width of the training rows"),
        (np.zeros((3, 4)), "needs a data frame with the columns"),
    ],
)
def test_predict_refuses_columns_of_another_kind(frame, message):
    machine = SVC(kernel=KERNEL).fit(FRAMES["pandas"], Y)
    with pytest.raises((TypeError, ValueError), match=message):
        machine.predict(frame)


def test_a_frame_of_numbers_stays_a_table():
    frame = pd.DataFrame({"a": X, "b": X**2, "c": X**3})
    machine = SVC(kernel=RBF().on(["a"]) + RBF().on(["c"])).fit(frame, Y)
    assert machine.n_features_in_ == 3
    # Text beside the columns that are named makes no difference.
    with_text = SVC(kernel=RBF().on(["a"]) + RBF().on(["c"])).fit(frame.assign(d="text"), Y)
    np.testing.assert_allclose(with_text.decision_function(frame), machine.decision_function(frame), atol=1e-9)


CELLS = {"c": ["a", "b", None, "a"] * 10, "d": ["u", "v", "w", "u"] * 10, "n": [1.0, 2.0, None, 3.0] * 10}
OF_CELLS = np.array([0, 1, 1, 0] * 10)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(CELLS),
        pd.DataFrame(CELLS).astype({"c": "category", "d": "category"}),
        pl.DataFrame(CELLS),
        pa.table(CELLS),
        pd.DataFrame(CELLS).astype(object).to_numpy(),
        [list(row) for row in zip(*CELLS.values(), strict=True)],
    ],
)
def test_hamming_takes_text_categories_and_missing_cells(table):
    codes = np.array([[0, 0, 1], [1, 1, 2], [2, 2, 9], [0, 0, 3]] * 10, dtype=float)
    np.testing.assert_array_equal(gram_matrix(Hamming(), table), gram_matrix(Hamming(), codes))
    machine = SVC(kernel=Hamming()).fit(table, OF_CELLS)
    assert machine.certificate_.verify().status == "optimal"
    np.testing.assert_allclose(
        machine.decision_function(table), SVC(kernel=Hamming()).fit(codes, OF_CELLS).decision_function(codes)
    )
    neighbours = KernelNeighborsClassifier(kernel=Hamming(), n_neighbors=3).fit(table, OF_CELLS)
    np.testing.assert_array_equal(neighbours.predict(table), OF_CELLS)


def test_a_column_of_text_in_fit_must_be_text_in_predict():
    frame = pd.DataFrame(CELLS)
    machine = SVC(kernel=Hamming().on(["c", "d"])).fit(frame, OF_CELLS)
    with pytest.raises(TypeError, match="column 'c' holds numbers, and held no numbers in the training rows"):
        machine.predict(frame.assign(c=1.0))


def test_chosen_and_joined_rows_of_a_data_frame():
    from mercer.kernels import as_rows

    rows = as_rows(KERNEL, FRAMES["pandas"])
    assert isinstance(rows, MixedRows)
    joined = rows.rows([0, 1]).followed_by(rows.rows([2]))
    np.testing.assert_allclose(KERNEL.resolve(rows).block(joined, rows), by_hand()[:3], rtol=1e-12)
    with pytest.raises(ValueError, match="were read for another kernel"):
        Spectrum(2).on("note").block(rows, rows)


def test_named_distances():
    assert GeneralizedGaussian("l1", gamma=2.0) == Laplacian(gamma=2.0)
    assert GeneralizedGaussian("chi2") == ChiSquared(gamma=1.0)
    assert GeneralizedGaussian("hamming", sigma=1.0) == Hamming(gamma=0.5)
    with pytest.raises(ValueError, match="got 'haming': did you mean 'hamming'"):
        GeneralizedGaussian("haming")


POINTS = rng.normal(size=(N, 3))
MATRICES = {"a": POINTS @ POINTS.T, "b": RBF(gamma=1.0).block(as_data(POINTS), as_data(POINTS))}
OF_MATRICES = Precomputed("a") + 0.5 * Precomputed("b")


def some(frame, rows):
    return {name: cells[rows] for name, cells in frame.items()}


@pytest.mark.parametrize("machine", [SVC(), SVR(), OneClassSVM(nu=0.3)])
def test_matrices_of_kernel_values_are_combined_by_the_algebra(machine):
    assert Precomputed("a") == Precomputed().on("a")
    K = MATRICES["a"] + 0.5 * MATRICES["b"]
    one = clone(machine).set_params(kernel="precomputed").fit(K, Y)
    both = clone(machine).set_params(kernel=OF_MATRICES).fit(MATRICES, Y)
    assert both.certificate_.verify().status == "optimal"
    np.testing.assert_allclose(both.predict(some(MATRICES, slice(9))), one.predict(K[:9]), atol=1e-9)
    restored = pickle.loads(pickle.dumps(both))
    np.testing.assert_array_equal(restored.predict(MATRICES), both.predict(MATRICES))
    # As many new rows as training rows: the matrix is square, and not symmetric.
    order = np.roll(np.arange(N), 7)
    np.testing.assert_allclose(both.predict(some(MATRICES, order)), both.predict(MATRICES)[order], atol=1e-9)


def test_weights_of_matrices_are_searched():
    grid = {"kernel__right__factor": [0.1, 1.0, 10.0]}
    search = KernelSearchCV(SVC(kernel=OF_MATRICES), grid, cv=3).fit(MATRICES, Y)
    alone = [
        KernelSearchCV(SVC(kernel="precomputed"), {"C": [1.0]}, cv=3).fit(MATRICES["a"] + w * MATRICES["b"], Y)
        for w in grid["kernel__right__factor"]
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], [one.best_score_ for one in alone])
    assert search.predict(some(MATRICES, slice(4))).shape == (4,)


def test_matrices_beside_columns():
    frame = MATRICES | {"x": X}
    machine = SVC(kernel=OF_MATRICES * RBF().on("x")).fit(frame, Y)
    K = (MATRICES["a"] + 0.5 * MATRICES["b"]) * RBF(gamma=1.0 / X.var()).block(as_data(X[:, None]), as_data(X[:, None]))
    expected = SVC(kernel="precomputed").fit(K, Y).decision_function(K[:5])
    np.testing.assert_allclose(machine.decision_function(some(frame, slice(5))), expected, atol=1e-8)
    detector = SVDD(kernel=Precomputed("b")).fit(MATRICES)
    assert detector.predict(some(MATRICES, slice(5))).shape == (5,)


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ({"a": MATRICES["a"]}, "needs a column 'b'"),
        (MATRICES | {"b": MATRICES["b"][:, :9]}, "the matrix 'b' must be square in fit"),
        (MATRICES | {"b": np.triu(MATRICES["b"])}, "the matrix 'b' must be symmetric"),
        (MATRICES | {"b": np.full((N, N), np.nan)}, "the matrix 'b' must be finite"),
        (MATRICES["a"], "needs a data frame with the columns 'a' and 'b'"),
    ],
)
def test_matrices_that_are_refused(matrices, message):
    with pytest.raises(ValueError, match=message):
        SVC(kernel=OF_MATRICES).fit(matrices, Y)


def test_matrices_of_new_rows_that_are_refused():
    machine = SVC(kernel=OF_MATRICES).fit(MATRICES, Y)
    with pytest.raises(ValueError, match="must have the width of the training rows, 60, got 40"):
        machine.predict(MATRICES | {"a": MATRICES["a"][:, :40]})
    with pytest.raises(ValueError, match="same number of rows, got 3 in 'a', 60 in 'b'"):
        machine.predict(MATRICES | {"a": MATRICES["a"][:3]})


def test_neighbours_and_norms_of_combined_matrices():
    K = MATRICES["a"] + 0.5 * MATRICES["b"]
    one, both = SVC(kernel="precomputed").fit(K, Y), SVC(kernel=OF_MATRICES).fit(MATRICES, Y)
    np.testing.assert_allclose(both.function_.norm, one.function_.norm, rtol=1e-9)
    new = some(MATRICES, slice(9))
    np.testing.assert_array_equal(both.kneighbors(new)[1], one.kneighbors(K[:9])[1])
    np.testing.assert_allclose(both.kneighbors()[0], one.kneighbors()[0])
    votes = [KernelNeighborsClassifier(3, kernel=kernel) for kernel in (OF_MATRICES, "precomputed")]
    np.testing.assert_array_equal(votes[0].fit(MATRICES, Y).predict(new), votes[1].fit(K, Y).predict(K[:9]))
    less = SVC(kernel=OF_MATRICES).fit(MATRICES, Y).forget([0])
    expected = SVC(kernel="precomputed").fit(K[1:, 1:], Y[1:]).decision_function(K[:9, 1:])
    np.testing.assert_allclose(less.decision_function(new), expected, atol=1e-3)


@pytest.mark.parametrize("kernel", [normalize(Precomputed()), normalize(Precomputed("a")) + 1.0], ids=repr)
def test_normalised_matrices_do_not_take_the_diagonal_of_new_rows(kernel):
    given = (lambda rows: {"a": MATRICES["b"][rows]}) if kernel.named_columns else (lambda rows: MATRICES["b"][rows])
    machine = SVC(kernel=kernel).fit(given(slice(None)), Y)
    for rows in (slice(9), np.roll(np.arange(N), 7)):  # as many new rows as training rows make a square matrix, too
        with pytest.raises(ValueError, match=r"no columns of their own, .* np\.sqrt\(np\.outer\(d_new, d\)"):
            machine.predict(given(rows))
    model = as_model(machine, given(slice(None)), Y)
    with pytest.raises(ValueError, match="no columns of their own"):
        model.predict(given(np.roll(np.arange(N), 7)))


def test_stored_matrices_lack_values_of_training_rows():
    for kernel, matrix in ((OF_MATRICES, MATRICES), ("precomputed", MATRICES["b"])):
        with pytest.raises(ValueError, match="kneighbors needs X"):
            KernelNeighborsClassifier(kernel=kernel).fit(matrix, Y).kneighbors()


def test_sparse_matrices_are_combined():
    sparse = {name: sp.csr_array(matrix) for name, matrix in MATRICES.items()}
    expected = SVC(kernel=OF_MATRICES).fit(MATRICES, Y).decision_function(MATRICES)
    np.testing.assert_allclose(SVC(kernel=OF_MATRICES).fit(sparse, Y).decision_function(sparse), expected, atol=1e-9)


def test_frames_without_rows_and_empty_fingerprints():
    machine = SVC(kernel=RBF().on("x") + Tanimoto().on("fp")).fit(frame_with(), Y)
    with pytest.raises(ValueError, match="0 sample"):
        machine.predict(frame_with().iloc[:0])
    on_bits = SVC(kernel=Tanimoto()).fit([{1, 2}, {3}, {1}, set()] * 3, [0, 1, 0, 1] * 3)
    assert on_bits.predict([set(), set()]).tolist() == [1, 1]
