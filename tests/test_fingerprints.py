"""Fingerprints of molecules as rows: their kinds, their kernels and machines on them."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from mercer import SVC, SVR, Jaccard, Spectrum, Tanimoto, fingerprints, gram_matrix, save_model
from mercer.data import as_data
from mercer.gram.backends import BitForm, select_backend
from mercer.kernels import Cosine, Dice, Linear, as_kernel, center
from mercer.kernels.instruction_set import counts_bits

RNG = np.random.default_rng(0)
BITS = RNG.random((60, 100)) < 0.15
BITS[4] = False
COUNTS = BITS * RNG.integers(1, 5, BITS.shape)
AS_NUMBERS = np.array([[float("".join(map(str, row[:width].astype(int)))) for width in (12, 60)] for row in BITS])
"""Strings of bits as a reader of tables takes them: as numbers, without their leading zeros."""

ON_BITS = [set(np.flatnonzero(row).tolist()) for row in BITS]


class BitVector:
    """What the library reads of RDKit's ExplicitBitVect."""

    def __init__(self, bits):
        self.bits = bits

    def GetOnBits(self):  # noqa: N802
        return tuple(np.flatnonzero(self.bits).tolist())

    def GetNumBits(self):  # noqa: N802
        return len(self.bits)


class CountVector:
    """What the library reads of RDKit's ULongSparseIntVect, whose length is larger than 2^63."""

    def __init__(self, counts):
        self.counts = counts

    def GetNonzeroElements(self):  # noqa: N802
        return {int(j): int(self.counts[j]) for j in np.flatnonzero(self.counts)}

    def GetLength(self):  # noqa: N802
        return 2**64 - 1


OF_BITS = {
    "bools": BITS,
    "bytes": BITS.astype(np.uint8),
    "integers": BITS.astype(np.int64),
    "CSR": sp.csr_array(BITS.astype(np.int8)),
    "COO": sp.coo_array(BITS),
    "dataframe": pd.DataFrame(BITS.astype(int)),
    "packed": (np.packbits(BITS, axis=1), True),
    "packed, little": (np.packbits(BITS, axis=1, bitorder="little"), "little"),
    "sets": ON_BITS,
    "lists of on-bits": [sorted(row) for row in ON_BITS],
    "arrays of on-bits": [np.flatnonzero(row) for row in BITS],
    "arrays of bools": list(BITS),
    "strings": ["".join("01"[bit] for bit in row.astype(int)) for row in BITS],
    "RDKit": [BitVector(row) for row in BITS],
    "column of a table": pd.Series(ON_BITS),
}


def similarities(X, kernel):
    """Values between rows by a loop over pairs."""
    values = np.ones((len(X), len(X)))
    for i, x in enumerate(np.asarray(X, dtype=float)):
        for j, z in enumerate(np.asarray(X, dtype=float)):
            shared, joined = np.minimum(x, z).sum(), np.maximum(x, z).sum()
            if kernel == Cosine():
                values[i, j] = x @ z / max(1e-300, np.sqrt((x @ x) * (z @ z)))
            elif joined:
                values[i, j] = shared / joined if kernel == Tanimoto() else 2.0 * shared / (x + z).sum()
    return values


@pytest.mark.parametrize("kind", OF_BITS)
def test_all_kinds_of_bits_are_the_same_table(kind):
    rows, packed = OF_BITS[kind] if isinstance(OF_BITS[kind], tuple) else (OF_BITS[kind], False)
    table = fingerprints(rows, n_bits=100, packed=packed)
    assert isinstance(table, sp.csr_array)
    np.testing.assert_array_equal(table.toarray(), BITS)


@pytest.mark.parametrize("kernel", [Tanimoto(), Dice(), Cosine()], ids=repr)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, lambda X: X.astype(np.uint8)])
def test_values_of_bits_and_counts_by_brute_force(kernel, storage):
    for X in (BITS, COUNTS):
        np.testing.assert_allclose(gram_matrix(kernel, storage(X)), similarities(X, kernel), rtol=1e-13, atol=1e-15)


def test_counts_of_any_columns_need_no_folding(tmp_path):
    places = np.sort(RNG.choice(2**32, 100, replace=False))
    wide = [{int(places[j]): int(row[j]) for j in np.flatnonzero(row)} for row in COUNTS]
    expected = similarities(COUNTS, Tanimoto())
    np.testing.assert_allclose(gram_matrix(Tanimoto(), wide), expected, rtol=1e-13)
    vectors = [CountVector(row) for row in COUNTS]
    assert fingerprints(vectors).shape == (60, 2**32)
    np.testing.assert_allclose(gram_matrix(Tanimoto(), vectors), expected, rtol=1e-13)
    y = COUNTS[:, :10].sum(axis=1) > np.median(COUNTS[:, :10].sum(axis=1))
    one, other = SVC(kernel="tanimoto").fit(wide, y), SVC(kernel="tanimoto").fit(COUNTS, y)
    assert one.n_features_in_ == 2**32
    assert one.certificate_.status == "optimal"
    np.testing.assert_allclose(one.decision_function(wide[:9]), other.decision_function(COUNTS[:9]), atol=1e-6)
    with pytest.raises(
        ValueError,
        match=r"has 4,294,967,296: fold the columns .*, fit the rows as a column with a name, Tanimoto\(\)\.on",
    ):
        save_model(tmp_path / "wide.mercer", one)
    composite = center(Tanimoto() + Cosine()).resolve(as_data(fingerprints(wide)))
    exact = gram_matrix(center(Tanimoto() + Cosine()), COUNTS)
    np.testing.assert_allclose(gram_matrix(composite, wide), exact, atol=1e-13)


@pytest.mark.skipif(not counts_bits(), reason="this processor does not count bits in vectors")
@pytest.mark.parametrize("kernel", [Tanimoto(), Dice() * Cosine() + Linear()], ids=repr)
def test_on_bits_of_any_columns_are_bits(kernel):
    places = np.sort(np.random.default_rng(1).choice(2**32, 100, replace=False))
    wide = [set(places[row].tolist()) for row in BITS]
    data, others = as_data(fingerprints(wide)), as_data(fingerprints([{7, *row} for row in wide[:9]]))
    backend, _ = select_backend(kernel, data)
    assert isinstance(backend, BitForm)
    narrow, seven = as_data(np.column_stack([BITS, np.zeros(60)])), np.column_stack([BITS[:9], np.ones(9)])
    exact, expected = kernel.block(narrow, narrow), kernel.block(as_data(seven), narrow)
    for left, values in ((data, exact), (others, expected), (data, exact)):
        out = np.empty(values.shape)
        backend.block(left, None, data, None, out)
        np.testing.assert_allclose(out, values, rtol=1e-14)
        assert out.max() <= backend.value_bound(left) * (1.0 + 1e-15)
    counts = as_data(fingerprints([{7: 2, 9: 1}]))
    out = np.empty((1, 60))
    backend.block(counts, None, data, None, out)
    assert not out.any()


def test_machines_take_fingerprints_as_they_are():
    y = BITS[:, :20].sum(axis=1) + 0.1 * RNG.normal(size=60)
    expected = SVR(kernel=Jaccard(), C=10.0, tol=1e-8).fit(ON_BITS, y).predict(ON_BITS)
    for rows in (BITS, ON_BITS, OF_BITS["RDKit"], OF_BITS["strings"], OF_BITS["column of a table"]):
        machine = SVR(kernel=0.5 * Tanimoto() + 0.5 * Tanimoto(), C=10.0, tol=1e-8).fit(rows, y)
        np.testing.assert_allclose(machine.predict(rows), expected, atol=1e-5)
    machine = SVR(kernel="tanimoto", C=10.0, tol=1e-8).fit(OF_BITS["lists of on-bits"], y)
    np.testing.assert_allclose(machine.predict(OF_BITS["sets"]), expected, atol=1e-5)
    np.testing.assert_allclose(
        SVR(kernel="tanimoto", C=10.0, tol=1e-8).fit(BITS, y).predict(ON_BITS), expected, atol=1e-5
    )
    assert gram_matrix(Tanimoto(), [set(), {1}]).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert gram_matrix(Jaccard(), [set(), {1}]).tolist() == [[1.0, 0.0], [0.0, 1.0]]


TEXTS = ["0101", "1100", "0000", "1111"]
COLUMNS = {
    "array": np.array,
    "objects": lambda rows: np.array(rows, dtype=object),
    "one column": lambda rows: np.array(rows)[:, None],
    "series": pd.Series,
    "frame": lambda rows: pd.DataFrame({"fp": rows}),
    "categories": lambda rows: pd.DataFrame({"fp": pd.Categorical(rows)}),
    "polars": pl.Series,
    "polars frame": lambda rows: pl.DataFrame({"fp": rows}),
    "arrow": pa.array,
    "arrow table": lambda rows: pa.table({"fp": rows}),
    "bytes": lambda rows: [row.encode() for row in rows],
    "lists in a series": lambda rows: pd.Series([[int(bit) for bit in row] for row in rows]),
    "lists in polars": lambda rows: pl.Series([[int(bit) for bit in row] for row in rows]),
    "lists in arrow": lambda rows: pa.array([[int(bit) for bit in row] for row in rows]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_bits_in_a_column_are_bits_and_never_numbers(name):
    table = np.array([[int(bit) for bit in row] for row in TEXTS])
    for n_bits in (4, 2):
        rows = COLUMNS[name]([row[:n_bits] for row in TEXTS])
        np.testing.assert_array_equal(gram_matrix(Tanimoto(), rows), gram_matrix(Tanimoto(), table[:, :n_bits]))
        machine, expected = (SVC(kernel="dice").fit(one, [0, 1, 0, 1]) for one in (rows, table[:, :n_bits]))
        np.testing.assert_array_equal(machine.decision_function(rows), expected.decision_function(table[:, :n_bits]))
        if "lists" not in name:  # lists of the tokens 0 and 1 have words
            assert (gram_matrix(Spectrum(1), rows) == gram_matrix(Spectrum(1), [row[:n_bits] for row in TEXTS])).all()


@pytest.mark.parametrize("rows", [[[bits] for bits in TEXTS], pd.DataFrame({"fp": TEXTS, "x": np.arange(4.0)})])
def test_bits_as_text_beside_other_columns_are_no_numbers(rows):
    with pytest.raises(ValueError, match="must hold numbers, got '0101': give this column alone, or name it"):
        gram_matrix(Tanimoto(), rows)
    with pytest.raises(ValueError, match="must hold numbers, got '0101': give this column alone, or name it"):
        SVC(kernel="tanimoto").fit(rows, [0, 1, 0, 1])


def test_names_of_kernels():
    assert as_kernel("tanimoto") == Tanimoto()
    assert as_kernel("jaccard") == Jaccard()
    assert as_kernel("dice") == Dice()
    assert repr(as_kernel("spectrum")) == "Spectrum(length=3, weights=None, normalized=True)"
    with pytest.raises(ValueError, match="did you mean 'tanimoto'"):
        as_kernel("tanimotto")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fingerprints([{1, 200}], n_bits=100), "row 0 has column 200: give a larger n_bits"),
        (lambda: fingerprints([{1}, {-2}]), "row 1 has -2"),
        (lambda: fingerprints([{1}, {1.5}]), "row 1 has 1.5"),
        (lambda: fingerprints([{1}, {"C"}]), "row 1 has 'C'"),
        (lambda: fingerprints([[0, 1, 1, 0]]), "list of the bits 0 and 1, not of on-bits"),
        (lambda: fingerprints([[5, 5]]), "on-bit 5 more than once"),
        (lambda: fingerprints(["0102"]), "row 0 is '0102'"),
        (lambda: fingerprints(["010", "01"]), "row 0 has 3 and row 1 has 2"),
        (lambda: fingerprints([BitVector(BITS[0])], n_bits=128), "128 bits each, but row 0 has 100"),
        (lambda: SVC(kernel="tanimoto").fit([["a", "b"], ["c"]], [0, 1]), r"row 0 has 'a'; Jaccard\(\) takes"),
        (lambda: SVC(kernel="tanimoto").fit(BITS, BITS[:, 0]).predict([{100}]), "row 0 has column 100"),
        (lambda: fingerprints([{1: -2}]), "row 0 has -2"),
        (lambda: fingerprints([3]), "row 0 is a int"),
        (lambda: fingerprints({1, 2}), "put it into a list"),
        (lambda: fingerprints(BITS, n_bits=99), "100 columns, but n_bits=99"),
        (lambda: fingerprints(np.zeros((2, 13), np.uint8), n_bits=90, packed=True), "97 to 104 bits, got n_bits=90"),
        (lambda: fingerprints(BITS, packed=True), "must be an array of uint8"),
        (lambda: fingerprints([{1}], n_bits=0), "n_bits must be an integer"),
        (lambda: fingerprints([{1}], packed="small"), "packed must be"),
        (lambda: SVC(kernel="tanimoto").fit([{"a"}, {"b"}], [0, 1]), r"Jaccard\(\)"),
        (lambda: SVC(kernel="jaccard").fit(BITS, BITS[:, 0]), r"Tanimoto\(\)"),
        (lambda: SVC(kernel="tanimoto").fit(-COUNTS, BITS[:, 0]), "without negative entries"),
        (lambda: gram_matrix(Jaccard(), OF_BITS["strings"]), "bits 0 and 1"),
        (lambda: SVC(kernel="tanimoto").fit(pd.DataFrame({"fp": AS_NUMBERS[:, 0]}), BITS[:, 0]), "leading zeros"),
        (
            lambda: SVC(kernel=Dice().on("fp")).fit({"fp": AS_NUMBERS[:, 1], "a": [""] * 60}, BITS[:, 0]),
            "leading zeros",
        ),
        (lambda: fingerprints(["110", "10"]), "lack their leading zeros"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_numbers_with_other_digits_are_counts():
    counts = np.array([[0.0, 1001.0], [2.0, 1000.0], [1.0, 1.5]])
    assert gram_matrix(Tanimoto(), counts)[0, 1] == 1000 / 1003
    SVC(kernel="tanimoto").fit(counts[[0, 1, 2, 2]], [0, 1, 0, 1])
    SVC(kernel="tanimoto").fit([[0.0], [1000.0], [1.0]], [0, 1, 1])


def test_lists_of_on_bits_of_one_length():
    y = BITS[:, 0]
    lists = [sorted(row) for row in ON_BITS]
    of_lists, of_bits = SVC(kernel="tanimoto").fit(lists, y), SVC(kernel="tanimoto").fit(BITS, y)
    of_arrays = SVC(kernel="tanimoto").fit([np.array(row, dtype=int) for row in lists], y)
    expected = of_bits.decision_function(BITS)
    assert np.array_equal(of_arrays.decision_function(lists), of_lists.decision_function(lists))
    for rows in (lists[:1], lists[4:5], [row for row in lists if len(row) == len(lists[0])]):
        which = [lists.index(row) for row in rows]
        np.testing.assert_allclose(of_lists.decision_function(rows), expected[which], atol=1e-12)
    with pytest.raises(ValueError, match="X has 3 features"):
        of_bits.decision_function([[1, 5, 9]])
    with pytest.warns(UserWarning, match=r"if they are on-bits, give sets"):
        assert gram_matrix(Tanimoto(), [[1, 5, 9], [2, 5, 9]])[0, 1] == 15 / 16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for counts in ([[1, 5, 5], [2, 5, 9]], np.array([[1, 5, 9], [2, 5, 9]]), [[0, 1], [0, 1]]):
            gram_matrix(Tanimoto(), counts)


def test_packed_bits_without_the_word_are_counts_with_a_warning():
    packed = np.packbits(BITS, axis=1)
    with pytest.warns(UserWarning, match=r"fingerprints\(X, packed=True\)"):
        SVC(kernel="tanimoto").fit(packed, BITS[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVC(kernel="tanimoto").fit(packed.astype(float), BITS[:, 0])
        SVC(kernel="tanimoto").fit(COUNTS.astype(np.uint8), BITS[:, 0])


def test_fingerprints_of_rdkit():
    chem = pytest.importorskip("rdkit.Chem")
    from rdkit import DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    molecules = [chem.MolFromSmiles(smiles) for smiles in ("CCO", "CCCO", "c1ccccc1O", "CC(=O)O")]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    makers = [getattr(generator, f"Get{kind}Fingerprint") for kind in ("", "Count", "Sparse", "SparseCount")]
    for vectors in ([make(molecule) for molecule in molecules] for make in makers):
        for kernel, of_rdkit in ((Tanimoto(), DataStructs.TanimotoSimilarity), (Dice(), DataStructs.DiceSimilarity)):
            expected = [[of_rdkit(a, b) for b in vectors] for a in vectors]
            np.testing.assert_allclose(gram_matrix(kernel, vectors), expected, rtol=1e-12)
