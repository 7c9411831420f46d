"""Kernels written as text, in Python, in models of tables and on the command line."""

import re

import numpy as np
import pandas as pd
import pytest

from mercer import SVC, fit_model, load_model, save_model
from mercer.data import TableError
from mercer.kernels import (
    RBF,
    EditDistance,
    GappedKmer,
    Hamming,
    Jaccard,
    Laplacian,
    Linear,
    LocalAlignment,
    Mismatch,
    Polynomial,
    Precomputed,
    SetIntersection,
    Spectrum,
    Tanimoto,
    WeightedDegree,
    as_kernel,
    center,
    exp,
    normalize,
)
from mercer.studies.cli import run as run_command
from mercer.studies.models import verify
from mercer.studies.protocol import study
from mercer.studies.report.next_steps import steps

KERNELS = {
    "RBF": RBF(),
    "0.5 * Spectrum((2, 4), weights=[1, 2, 3]) ** 2 + 1": 0.5 * Spectrum((2, 4), weights=(1, 2, 3)) ** 2 + 1,
    "Spectrum(3) on seq + RBF(gamma=2) on 'a b', x-1": Spectrum(3).on("seq") + RBF(2.0).on(["a b", "x-1"]),
    "(RBF on a + Linear on [b, c]) * 2": 2 * (RBF().on("a") + Linear().on(["b", "c"])),
    "normalize(Spectrum) on seq * center(Hamming on c)": normalize(Spectrum()).on("seq") * center(Hamming().on("c")),
    "exp(RBF(gamma='median'))": exp(RBF("median")),
    "GappedKmer(8, 5, reverse_complement=True, alphabet='ACGT')": GappedKmer(
        8, 5, reverse_complement=True, alphabet="ACGT"
    ),
    "GeneralizedGaussian('l1', gamma=5e-1)": Laplacian(0.5),
    "Precomputed('a') + 0.5 * Precomputed('b')": Precomputed("a") + 0.5 * Precomputed("b"),
    "2 * 3 * rbf on [0, 1]": 6 * RBF().on([0, 1]),
}


@pytest.mark.parametrize("text", KERNELS)
def test_a_text_is_the_kernel_that_python_makes(text):
    assert as_kernel(text) == KERNELS[text]


NAMES = {
    ("RBF", "rbf", "Gaussian", " gaussian "): RBF(gamma=0.3),
    ("Polynomial", "poly"): Polynomial(2, gamma=0.3, coef0=1.0),
    ("edit distance", "EditDistance", "levenshtein"): EditDistance(gamma=0.3),
    ("local alignment", "local_alignment", "LocalAlignment"): LocalAlignment(),
    ("gapped k-mer", "Gapped kmer", "GappedKmer", "gkm"): GappedKmer(),
    ("mismatch", "Mismatch"): Mismatch(),
    ("weighted degree", "WeightedDegree"): WeightedDegree(),
    ("set intersection",): SetIntersection(),
    ("jaccard", "JACCARD"): Jaccard(),
    ("Tanimoto", "min-max"): Tanimoto(),
}


@pytest.mark.parametrize("spellings", NAMES)
def test_a_name_is_a_kernel_in_any_spelling_and_takes_the_parameters_of_the_machine(spellings):
    kernel = NAMES[spellings]
    for name in spellings:
        assert as_kernel(name, degree=2, gamma=0.3, coef0=1.0) == kernel
        assert as_kernel(f"2 * {name} on x") == 2.0 * type(kernel)().on("x")
    assert as_kernel("edit distance") == EditDistance()  # "scale", the default of machines, is no rule for strings
    for rows in ([[0, 1], [1, 1]], np.array([[True, False], [True, True]])):
        with pytest.raises(ValueError, match=r"for Tanimoto\(\)|places of the ones"):
            SVC(kernel="jaccard").fit(rows, [0, 1])


MISTAKES = {
    "Spectrum(3 on seq": (12, r"expected '\)' or ',', got 'on'"),
    "Spectrm(3)": (1, "no kernel 'Spectrm'; did you mean 'Spectrum'"),
    "Spectrum(lenght=3)": (10, "no parameter 'lenght'; did you mean 'length'"),
    "Spectrum(3) on": (15, "expected the name of a column, or 'rest'"),
    "RBF on body mass": (13, "put names of columns with spaces or signs in quotes"),
    "RBF(gamma=abc)": (11, "put text in quotes: 'abc'"),
    "RBF(gamma=1, gamma=2)": (14, "given twice"),
    "RBF(gamma=-1)": (1, "gamma must be a number >= 0"),
    "RBF(1, 2)": (1, "too many positional arguments: write RBF"),
    "RBF * -1": (7, "expected a kernel or a number, got '-'"),
    "RBF ** 0.5": (8, "whole number as the exponent"),
    "3 + 4": (1, "expected a kernel"),
    "3 on x": (3, "a number reads no columns"),
    "__import__('os')": (1, "there is no kernel '__import__'; the kernels are Linear"),
    "Callable(1)": (1, "there is no kernel 'Callable'"),
    "RBF on 'x": (8, "the quote ' is not closed"),
    "(" * 60 + "RBF": (51, "nested at most 50 deep"),
    "RBF @ RBF": (5, "got '@'"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_its_place(text):
    place, message = MISTAKES[text]
    with pytest.raises(ValueError, match=rf"at character {place}: .*{message}"):
        as_kernel(text)


def _frame(n=40):
    rng = np.random.default_rng(0)
    kind = rng.random(n) < 0.5
    strings = ["".join(rng.choice(list("ACGT"), size=20)) for _ in range(n)]
    strings = [f"{one}GATTACA" if there else one for one, there in zip(strings, kind, strict=True)]
    columns = {"seq": strings, "x": rng.normal(size=n).round(3), "z": 100.0 * rng.normal(size=n).round(3)}
    return pd.DataFrame(columns), np.where(kind, "yes", "no")


def test_rest_is_all_columns_that_are_not_named():
    X, y = _frame()
    machine = SVC(kernel="Spectrum(2) on seq + RBF on rest").fit(X, y)
    other = SVC(kernel=Spectrum(2).on("seq") + RBF().on(["x", "z"])).fit(X, y)
    assert np.array_equal(machine.decision_function(X), other.decision_function(X))
    more = X.assign(new=1.0)[["new", "z", "x", "seq"]]
    assert np.array_equal(machine.decision_function(more), other.decision_function(X))
    with pytest.raises(ValueError, match=r"reads the rest of the columns, and all of .* are named"):
        SVC(kernel="RBF on x, z + Spectrum(2) on seq + RBF on rest").fit(X, y)
    with pytest.raises(ValueError, match="needs a data frame with named columns"):
        SVC(kernel="RBF on rest").fit(X[["x", "z"]].to_numpy(), y)


def test_a_model_of_a_table_encodes_numbers_and_reads_strings(tmp_path):
    X, y = _frame()
    table = X.assign(colour=np.where(np.arange(40) % 3, "red", "blue"), same=1.0, kind=y)
    model = fit_model(table, "kind", SVC(kernel="Spectrum(2) on seq + RBF on rest"))
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    rows = table.drop(columns=["kind", "same"])
    assert np.array_equal(loaded.scores(rows), model.scores(table))
    assert loaded.feature_names_in_.tolist() == ["seq", "x", "z", "colour"]
    assert verify(loaded, table).ok
    assert not verify(loaded, table.assign(x=table.x + 1.0)).ok
    with pytest.raises(TableError, match="there is no column 'x'"):
        loaded.predict(rows.drop(columns="x"))
    with pytest.raises(TableError, match="reads strings, and column 'x' holds numbers"):
        fit_model(table, "kind", SVC(kernel="Spectrum(2) on x"))
    with pytest.raises(TableError, match="column 'colour' is read by a kernel of numbers and by another kernel"):
        fit_model(table, "kind", SVC(kernel="RBF on colour + Hamming on colour"))
    with pytest.raises(TableError, match="the table has 2 columns of text: 'seq' and 'colour'"):
        fit_model(table, "kind", SVC(kernel="Spectrum(2)"))
    with pytest.raises(TableError, match="column 'seq' is empty in row 3"):
        fit_model(table.assign(seq=[*X.seq[:2], None, *X.seq[3:]]), "kind", SVC(kernel="Spectrum(2) on seq"))


def test_sequences_are_fitted_predicted_and_verified_in_the_shell(tmp_path, monkeypatch, capsys):
    def run(*arguments):
        status = run_command(list(arguments))
        return status, "".join(capsys.readouterr())

    monkeypatch.chdir(tmp_path)
    X, y = _frame()
    (tmp_path / "reads.fasta").write_text("".join(f">r{i}\n{one}\n" for i, one in enumerate(X.seq)))
    pd.DataFrame({"name": [f"r{i}" for i in range(40)], "label": y}).to_csv("labels.csv", index=False)
    given = ("reads.fasta", "--target", "labels.csv")
    status, said = run("fit", *given, "--kernel", "GappedKmer(6, 4)", "--out", "m.mercer")
    assert not status
    assert "GappedKmer(length=6, informative=4, alphabet='ACGT', normalized=True).on(['sequence'])" in said
    assert "column 'name' was left out: not read by the kernel" in " ".join(said.split())
    machine = SVC(kernel=GappedKmer(6, 4)).fit(X.seq.tolist(), y)
    assert not run("predict", "m.mercer", "reads.fasta", "--out", "p.csv")[0]
    values = pd.read_csv("p.csv").decision_value_yes
    assert np.allclose(values, machine.decision_function(X.seq.tolist()), rtol=0.0, atol=1e-12)
    assert "verified" in run("verify", "m.mercer", *given)[1]
    assert not run("doctor", *given)[0]
    status, said = run("fit", *given, "--kernel", "GapedKmer(6, 4)", "--out", "m.mercer")
    assert status == 2
    assert "there is no kernel 'GapedKmer'; did you mean 'GappedKmer'" in said


@pytest.mark.parametrize("given", ["--target labels.csv", "--target=labels.csv"])
def test_the_next_steps_of_a_study_name_the_file_of_the_labels(given):
    X, y = _frame(80)
    outcome = study(X.assign(kind=y)[["x", "z", "kind"]], "kind", kernel="linear", n_folds=2)
    of_file = dict(steps(outcome, source="reads.fasta", command=f"mercer study reads.fasta {given}"))
    assert (
        of_file["Verify the certificate of the model:"] == "mercer verify model.mercer reads.fasta --target labels.csv"
    )
    of_column = dict(steps(outcome, source="t.csv", command="mercer study t.csv --target kind"))
    assert of_column["Verify the certificate of the model:"] == "mercer verify model.mercer t.csv"


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("RBF on 0", "names columns by their places"),
        ("Precomputed('a')", "takes matrices of kernel values, which are no columns of a table"),
        ("Tanimoto on x", "reads fingerprints, and column 'x' holds one number a row"),
        ("RBF on name", "column 'name' holds text that differs in nearly every row; take .* 'Spectrum\\(3\\) on name'"),
        ("RBF on same", "reads 'same' as numbers, and none of its cells differ"),
    ],
)
def test_columns_that_a_kernel_cannot_use_are_refused(kernel, message):
    X, y = _frame(60)
    table = X.assign(name=[f"N-{i}c" for i in range(60)], same=1.0, kind=y)
    with pytest.raises(TableError) as refusal:
        fit_model(table, "kind", SVC(kernel=kernel))
    assert re.search(message, "; ".join(filter(None, [str(refusal.value), refusal.value.hint])))


def test_cells_of_another_kind_are_refused_in_predictions():
    X, y = _frame()
    model = fit_model(X.assign(kind=y), "kind", SVC(kernel="Spectrum(2) on seq + RBF on x"))
    with pytest.raises(TableError, match=r"column 'seq' is empty in row 3, and .* cannot read missing cells"):
        model.predict(X.assign(seq=[*X.seq[:2], None, *X.seq[3:]]))
    with pytest.raises(TableError, match="column 'seq' must hold strings, as it did in training, but holds numbers"):
        model.predict(X.assign(seq=1.0))
    with pytest.warns(UserWarning, match="'seq' has no letter that the model knows from training in 1 of 40 rows"):
        model.predict(X.assign(seq=["xyz", *X.seq[1:]]))


def test_kernels_without_columns_read_the_cells_of_fingerprints_and_categories():
    rng = np.random.default_rng(0)
    bits = pd.DataFrame(rng.integers(0, 2, size=(40, 8)), columns=list("abcdefgh"))
    model = fit_model(bits.assign(y=["n", "y"] * 20), "y", SVC(kernel="Tanimoto"))
    machine = SVC(kernel="tanimoto").fit(bits.to_numpy(), ["n", "y"] * 20)
    assert np.allclose(model.decision_values(bits)[:, 0], machine.decision_function(bits.to_numpy()), atol=1e-12)


@pytest.mark.parametrize("kernel", ["Spectrum(3)", "Spectrum(3) on seq + RBF on rest", "Hamming on colour", "rbf"])
def test_the_shell_plans_kernels_on_cells(kernel, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = _frame(60)
    X.assign(colour=["red", "blue"] * 30, kind=y).to_csv("t.csv", index=False)
    if kernel == "Spectrum(3)":
        X[["seq"]].assign(kind=y).to_csv("t.csv", index=False)
    assert run_command(["plan", "t.csv", "--target", "kind", "--kernel", kernel]) == 0
    said = capsys.readouterr().out
    assert "SVC on 60 rows" in said
    assert "support vectors" in said


def test_missing_cells_that_are_compared_are_not_said_to_be_filled_in(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"c": ["a", None, "b"] * 20, "x": [1.0, None, 2.0, 3.0] * 15, "kind": ["n", "y", "n"] * 20}).to_csv(
        "t.csv", index=False
    )
    fit = ["fit", "t.csv", "--target", "kind", "--out", "m.mercer", "--force", "--kernel"]
    assert run_command([*fit, "Hamming on c"]) == 0
    assert "filled in" not in capsys.readouterr().err
    assert run_command([*fit, "Hamming on c + RBF on x"]) == 0
    assert "missing values in 'x' (15)" in capsys.readouterr().err
    assert run_command(["predict", "m.mercer", "t.csv", "--out", "p.csv"]) == 0
    assert pd.read_csv("p.csv").label.tolist() == ["n", "y", "n"] * 20  # a missing cell is a category


def test_the_shell_plans_sequences_with_labels_in_a_second_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = _frame(30)
    (tmp_path / "reads.fasta").write_text("".join(f">r{i}\n{one}\n" for i, one in enumerate(X.seq)))
    pd.DataFrame({"name": [f"r{i}" for i in range(30)], "label": y}).to_csv("labels.csv", index=False)
    assert run_command(["plan", "reads.fasta", "--target", "labels.csv", "--kernel", "GappedKmer(6, 4)"]) == 0
    assert "SVC on 30 rows" in capsys.readouterr().out
