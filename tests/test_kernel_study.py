"""Studies of kernels that read the cells of a table: folds, search, final fit, insight and page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import SVC, fit_model, load_model
from mercer.data import TableError, as_table
from mercer.kernels import RBF, Spectrum, Tanimoto
from mercer.studies.candidates import KERNELS, given_kernels, has_rules, kernels_named, times_rules
from mercer.studies.cell_kernels import kernels_of_cells
from mercer.studies.classification import ToClassify
from mercer.studies.cli import run as run_command
from mercer.studies.contenders import encoded_folds
from mercer.studies.models import cell_kernel, explain, reader_of_table, verify
from mercer.studies.report import insight
from mercer.studies.search import search
from mercer.studies.tables import TableEncoder
from mercer.studies.tables.kinds import find_kinds

TEXT = "Spectrum(2) on seq + RBF on rest"


def frame(n=80, seed=0):
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 2 == 1
    seq = ["".join(rng.choice(list("ACGT"), size=rng.integers(18, 24))) for _ in range(n)]
    seq = [one[:6] + "TTGACA" + one[12:] if there else one for one, there in zip(seq, kind, strict=True)]
    x = (rng.normal(size=n) + kind).round(3)
    return pd.DataFrame({"seq": seq, "x": x, "kind": np.where(kind, "yes", "no")})


def test_folds_carry_the_cells_that_kernels_read():
    table = frame()
    truth = (table.kind == "yes").to_numpy().astype(np.int64)
    features = as_table(table[["seq", "x"]])
    rows = np.arange(80)
    splits = [(rows[rows % 4 >= 2], rows[rows % 4 < 2]), (rows[rows % 4 < 2], rows[rows % 4 >= 2])]
    kernel = cell_kernel(TEXT, features, None)
    encoder = TableEncoder(kinds={"seq": "sequence"})
    folds = encoded_folds(features, truth, splits, encoder, {TEXT: reader_of_table(kernel, features, encoder)})
    choices = [replace(given_kernels([TEXT])[0], given=kernel), KERNELS[0]]
    goal = ToClassify(["no", "yes"], 80)
    result = search(folds, goal, kernels=choices, C_grid=[1.0, 10.0], extend=False, tol=1e-9)
    gamma = next(cell for cell in result.cells if cell.choice.given is not None).choice.kernel(
        folds[0].rows(TEXT, splits[0][0])
    )
    for cell in result.cells:
        wrong = []
        for fold, (train, validation) in zip(folds, splits, strict=True):
            if cell.choice.given is None:
                continue
            scaled = table.assign(x=(table.x - table.x[train].mean()) / table.x[train].std(ddof=0))
            machine = SVC(kernel=gamma, C=cell.C, tol=1e-9).fit(scaled.iloc[train], truth[train])
            wrong.append(float((machine.predict(scaled.iloc[validation]) != truth[validation]).sum()))
            assert fold.X.shape[0] == 80
        assert cell.choice.given is None or list(cell.errors) == wrong
    assert {cell.choice.family for cell in result.cells} == {TEXT, "rbf"}


@pytest.fixture(scope="module")
def outcome():
    return mercer.study(frame(), "kind", kernel=TEXT, folds=2, verbose=0, repeats=1)


def test_a_study_of_a_kernel_text_is_certified_and_saved(outcome, tmp_path):
    table = frame()
    assert outcome.certificate.status == "optimal"
    assert {cell.choice.family for cell in outcome.search.cells} == {TEXT}
    assert {cell.choice.gamma_factor for cell in outcome.search.cells} >= {0.25, 1.0, 4.0}
    assert len(outcome.repeats) == 1
    outcome.save(tmp_path / "study")
    model = load_model(tmp_path / "study" / "model.mercer")
    assert np.array_equal(model.decision_values(table), outcome.model.decision_values(table))
    assert verify(model, table).ok
    page = (tmp_path / "study" / "report.html").read_text()
    assert "read by the kernel as they are: 18 to 23 letters" in page
    assert "reads the cells of" in page
    assert {one.columns for one in outcome.insight.columns} == {("seq",), ("x",)}
    assert any(card.reasons for card in outcome.insight.cards.values())


def test_contributions_of_a_sum_of_kernels_on_cells_add_up(outcome):
    table = frame().iloc[:30]
    explanation = explain(outcome.model, table)
    assert explanation.columns == ("seq", "x")
    assert explanation.is_exact
    total = explanation.base + explanation.contributions.sum(axis=1)
    assert np.allclose(total, outcome.model.decision_values(table)[:, 0])


def test_words_are_tried_on_sequences():
    table = frame()
    kinds = {"seq": "sequence"}
    families = {one.family for one in kernels_of_cells(as_table(table[["seq", "x"]]), kinds)}
    assert families == {
        f"{words} on seq + RBF on rest"
        for words in ("Spectrum(4)", "Spectrum(6)", "Mismatch(6, 1)", "GappedKmer(10, 6, wildcards='RYSWKMBDHVN-')")
    }
    aligned = as_table({"my seq": [one[:10] for one in table.seq], "same": ["a"] * 80})
    families = [one.family for one in kernels_of_cells(aligned, {"my seq": "sequence"})]
    assert "WeightedDegree(6) on 'my seq'" in families
    assert "Mismatch(3, 1) on 'my seq'" in families
    proteins = as_table({"p": ["MKVLAAGIVGLLLAQ", "MSTNPKPQRKTKR"] * 3})
    assert "Mismatch(4, 1) on p" in [one.family for one in kernels_of_cells(proteins, {"p": "sequence"})]
    assert kernels_of_cells(as_table(table[["x"]]), {}) == ()


def fingerprint_frame(n=60):
    rng = np.random.default_rng(0)
    bits = (rng.random((n, 40)) < 0.3).astype(int)
    y = np.where(bits[:, :8].sum(axis=1) + 0.5 * rng.normal(size=n) > 2.4, "active", "dead")
    return bits, pd.DataFrame({"fp": ["".join(map(str, row)) for row in bits], "w": rng.normal(size=n), "y": y})


def test_strings_of_bits_are_read_by_kernels_of_fingerprints_and_as_columns(tmp_path, monkeypatch, capsys):
    bits, table = fingerprint_frame()
    outcome = mercer.study(table, "y", kernel="Tanimoto on fp", folds=2, verbose=0)
    reference = SVC(kernel="tanimoto", C=outcome.search.best.C, tol=1e-4)
    rows = outcome.model.training.rows
    reference.fit(bits[rows], table.y[rows])
    assert np.allclose(outcome.model.decision_values(table)[:, 0], reference.decision_function(bits), atol=1e-9)
    features = as_table(table[["fp", "w"]])
    kinds, notes = find_kinds(features)
    assert kinds == {"fp": "bits"}
    assert "strings of bits" in str(notes[0])
    assert kernels_of_cells(features, kinds)[0].family == "Tanimoto on fp + RBF on rest"
    encoder = TableEncoder(kinds=kinds).fit(features)
    assert np.array_equal(encoder.transform(features).toarray()[:, :40], bits)
    other = TableEncoder.from_dict(encoder.to_dict())
    assert (other.transform(features) != encoder.transform(features)).nnz == 0
    with pytest.raises(TableError, match="holds strings of 40 bits, and row 1 holds '01'"):
        encoder.transform(as_table(table[["fp", "w"]].assign(fp=["01", *table.fp[1:]])))
    monkeypatch.chdir(tmp_path)
    table.to_csv("t.csv", index=False)
    assert run_command(["doctor", "t.csv", "--target", "y"]) == 0
    said = capsys.readouterr()
    assert "1 of strings of bits" in said.out
    assert "2**53" not in said.err + said.out


@pytest.mark.parametrize("kind", [int, bool, str])
def test_fingerprints_in_columns_are_read_by_the_rest(kind, tmp_path):
    bits, table = fingerprint_frame()
    columns = pd.DataFrame(bits.astype(bool) if kind is not int else bits, columns=[f"b{j}" for j in range(40)])
    columns = columns.astype(str) if kind is str else columns
    model = fit_model(columns.assign(y=table.y), "y", SVC(kernel="Tanimoto on rest"))
    machine = SVC(kernel="tanimoto").fit(bits, table.y)
    assert np.allclose(model.decision_values(columns)[:, 0], machine.decision_function(bits), atol=1e-9)


def test_kernels_are_asked_for_by_name_text_or_object():
    names = [one.family for one in kernels_named(["gaussian", "Spectrum(2) on a", Tanimoto().on("fp")])]
    assert names == ["rbf"] * 4 + ["Spectrum(2) on a", "Tanimoto().on(['fp'])"]
    with pytest.raises(ValueError, match="did you mean 'Spectrum'"):
        kernels_named("Spectrm(2) on a")
    with pytest.raises(ValueError, match="names no family"):
        kernels_named([])


def test_gammas_that_a_rule_finds_are_multiplied():
    asked = 2 * Spectrum(2).on("a") + RBF().on("x") * RBF(gamma=3.0).on("z")
    resolved = 2 * Spectrum(2).on("a") + RBF(gamma=0.5).on("x") * RBF(gamma=3.0).on("z")
    assert has_rules(asked)
    assert not has_rules(resolved)
    expected = 2 * Spectrum(2).on("a") + RBF(gamma=2.0).on("x") * RBF(gamma=3.0).on("z")
    assert times_rules(asked, resolved, 4.0) == expected


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("Spectrum(2) on sek", "there is no column 'sek'"),
        ("Spectrum(2) on kind", "the target 'kind' cannot be a column"),
        ("Spectrum(2) on x", "reads strings, and column 'x' holds numbers"),
        ("Spectrum(2) on seq + RBF on x + RBF on rest", "reads the rest of the columns, and none is left"),
    ],
)
def test_kernels_that_cannot_read_the_table_are_refused(kernel, message):
    with pytest.raises(TableError, match=message):
        mercer.study(frame(seed=1), "kind", kernel=kernel, folds=2, verbose=0)


def test_letters_outside_of_the_alphabet_are_named_by_the_row_of_the_table():
    table = frame(60, seed=5)
    table.loc[50:, "seq"] = "ACGTNACGTACG"
    with pytest.raises(TableError, match=r"the letter 'N' at position 4 of row 5[1-9] is not in alphabet"):
        mercer.study(table, "kind", kernel="GappedKmer(6, 4, alphabet='ACGT') on seq", folds=2, verbose=0)


def test_words_are_not_tried_on_sequences_with_missing_cells_unless_asked():
    table = frame(60, seed=6)
    table.loc[7, "seq"] = None
    outcome = mercer.study(table, "kind", folds=2, verbose=0, keep_sealed=True)
    assert {cell.choice.family for cell in outcome.search.cells} == {"linear", "polynomial", "rbf"}
    assert any("'seq' were not tried, because some are missing" in cut for cut in outcome.cuts)


@pytest.mark.parametrize("kernel", ["laplacian", "center(Spectrum(2) on seq + RBF on x)"])
def test_other_kernels_are_studied_and_their_columns_measured(kernel):
    table = frame(60, seed=len(kernel)).drop(columns=[] if "seq" in kernel else ["seq"])
    outcome = mercer.study(table, "kind", kernel=kernel, folds=2, verbose=0, seed=3)
    assert {one.column for one in outcome.insight.columns} == set(table.columns) - {"kind"}
    assert outcome.certificate.status == "optimal"


def test_the_shell_studies_a_kernel_text(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame(60).to_csv("t.csv", index=False)
    arguments = ["study", "t.csv", "--target", "kind", "--folds", "2", "--out", "s", "--kernel"]
    assert run_command([*arguments, "Spectrum(3) on seq"]) == 0
    assert "mercer predict s/model.mercer NEW_TABLE.csv" in capsys.readouterr().out
    assert run_command(["predict", "s/model.mercer", "t.csv", "--out", "p.csv"]) == 0
    assert run_command(["verify", "s/model.mercer", "t.csv"]) == 0
    capsys.readouterr()
    assert run_command([*arguments, "Spectrum(0) on seq"]) == 2
    assert "error: Invalid value for '--kernel'" in capsys.readouterr().err


def test_many_support_vectors_of_a_kernel_on_cells_are_explained_by_its_words(outcome, monkeypatch):
    monkeypatch.setattr(insight, "MANY_SUPPORT_VECTORS", 0.0)
    assert "Shorter words" in insight.nearly_all_support(outcome.model)
