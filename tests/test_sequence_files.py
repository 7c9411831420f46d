"""FASTA and FASTQ files as tables, with labels from headers or from another file."""

import gzip

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

import mercer
from mercer import SVC, GappedKmer, KernelSearchCV, Spectrum
from mercer.data import Table, TableError
from mercer.studies import cli
from mercer.studies.inputs import with_target
from mercer.studies.models import read_table
from mercer.studies.tables import TableEncoder, is_sequences
from mercer.studies.tables.kinds import find_kinds

FASTA = """>r1 label=1 source=liver
ACGTAC
gtn
>r2 label=0

TTTTTTTT
"""
FASTQ = "@r1 label=1\nACGTACG\n+\nIIIIIII\n@r2\nTT\n+r2\n@@\n\n"


def written(folder, text, name="reads.fasta"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_fasta_file_is_a_table(tmp_path):
    table = read_table(written(tmp_path, FASTA))
    assert table.names == ("name", "label", "source", "sequence")
    assert table["name"].tolist() == ["r1", "r2"]
    assert table["label"].tolist() == [1.0, 0.0]
    assert table["source"].tolist() == ["liver", None]
    assert table["sequence"].tolist() == ["ACGTACGTN", "TTTTTTTT"]
    assert any("upper case" in str(note) for note in table.reading.notes)
    packed = tmp_path / "reads.fa.gz"
    packed.write_bytes(gzip.compress(FASTA.encode()))
    assert read_table(packed)["sequence"].tolist() == table["sequence"].tolist()
    machine = SVC(kernel=GappedKmer(3, 2, alphabet="ACGT", wildcards="N")).fit(table["sequence"], table["label"])
    assert machine.score(table["sequence"], table["label"]) == 1.0


def test_a_fastq_file_is_a_table(tmp_path):
    table = read_table(written(tmp_path, FASTQ, "reads.fastq"))
    assert table["sequence"].tolist() == ["ACGTACG", "TT"]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("ACGT\n>r1\nA\n", "reads.fasta", "line 1: a FASTA file begins with a line such as '>name', got 'ACGT'"),
        ("\n", "reads.fasta", "holds no sequences"),
        ("@r1\nACGT\n+\nIII\n", "reads.fq", "line 4: a read of 4 letters has 3 qualities"),
        ("@r1\nACGT\n+\nIIII\nr2\nA\n+\nI\n", "reads.fq", "line 5: a read has four lines"),
        ("@r1\nACGT\n", "reads.fq", "line 1: a read has four lines"),
    ],
)
def test_files_that_are_no_sequences_are_refused(tmp_path, text, name, message):
    with pytest.raises(TableError, match=message):
        read_table(written(tmp_path, text, name))


def test_a_table_of_reads_is_a_data_frame_for_kernels_of_columns(tmp_path):
    text = "".join(f">r{i} label={i % 2}\n{'ACGT' * 3}{'GATTACA' if i % 2 else 'CCCC'}\n" for i in range(12))
    table = read_table(written(tmp_path, text))
    labels = table["label"]
    machine = SVC(kernel=Spectrum(3).on("sequence")).fit(table, labels)
    assert machine.score(table, labels) == 1.0
    search = KernelSearchCV(SVC(kernel=Spectrum(3).on("sequence")), {"C": [1.0, 10.0]}, cv=2).fit(table, labels)
    assert search.best_score_ == 1.0
    with pytest.raises(ValueError, match="changes letters of rows that are strings"):
        machine.score_variants(table, [(0, 0, "A")])


def test_labels_of_another_file_are_joined_by_name(tmp_path):
    rows = read_table(written(tmp_path, FASTA))
    labels = written(tmp_path, "name,bound\nr2,no\nr3,no\nr1,yes\n", "labels.csv")
    table, target = with_target(rows, str(labels), None)
    assert target == "bound"
    assert table["bound"].tolist() == ["yes", "no"]
    for text, message in [
        ("name,bound\nr2,no\n", "has no label of 1 of 2 sequences, such as 'r1'"),
        ("name,bound\nr2,no\nr1,yes\nr1,no\n", "several labels of 'r1'"),
        ("name,bound,other\nr2,no,1\nr1,yes,2\n", "must have two columns"),
        ("name,label\nr2,no\nr1,yes\n", "both the sequences and .* have a column 'label'"),
    ]:
        with pytest.raises(TableError, match=message):
            with_target(rows, str(written(tmp_path, text, "labels.csv")), None)
    with pytest.raises(TableError, match=r"there is no file 'lables\.csv', and no column"):
        with_target(rows, "lables.csv", None)


@pytest.mark.full
def test_a_study_of_reads_with_labels_in_a_second_file(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    reads = ["".join(rng.choice(list("ACGT"), size=40)) for _ in range(80)]
    reads = [read[:10] + "GATTACAGATTACA" + read[24:] if i % 2 else read for i, read in enumerate(reads)]
    written(tmp_path, "".join(f">r{i}\n{read}\n" for i, read in enumerate(reads)))
    written(tmp_path, "name,bound\n" + "".join(f"r{i},{'no' if i % 2 else 'yes'}\n" for i in range(80)), "labels.csv")
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["study", "reads.fasta", "--target", "labels.csv", "--kernel", "linear", "--folds", "2"],
        ["predict", "reads-study/model.mercer", "reads.fasta", "--out", "predictions.csv"],
    ):
        assert cli.run(arguments) == 0  # `main` leaves Ctrl-C ignored
    labels = read_table(tmp_path / "predictions.csv")["label"]
    assert [one == "no" for one in labels] == [i % 2 == 1 for i in range(80)]


def test_a_column_of_sequences_is_encoded_by_its_overlapping_words(tmp_path):
    rng = np.random.default_rng(0)
    reads = ["".join(rng.choice(list("ACGT"), size=12)) for _ in range(30)]
    table = Table(("seq", "x"), (np.array(reads, dtype=object), rng.normal(size=30)))
    kinds, notes = find_kinds(table)
    assert kinds == {"seq": "sequence"}
    assert "overlapping words" in str(notes[0])
    encoder = TableEncoder(kinds=kinds).fit(table)
    spaced = [" ".join(read[at : at + 6] for at in range(7)) for read in reads]
    expected = TfidfVectorizer(lowercase=False).fit_transform(spaced).toarray()
    assert np.allclose(encoder.transform(table).toarray()[:, : expected.shape[1]], expected)
    other = TableEncoder.from_dict(encoder.to_dict())
    assert (other.transform(table) != encoder.transform(table)).nnz == 0
    masked = Table(table.names, (np.array([read.lower() for read in reads], dtype=object), table["x"]))
    assert (other.transform(masked) != encoder.transform(table)).nnz == 0
    broken = encoder.to_dict()
    broken["sequences"][0]["length"] = 5
    with pytest.raises(ValueError, match="do not have 5 letters"):
        TableEncoder.from_dict(broken)


@pytest.mark.parametrize(
    ("cells", "name", "expected"),
    [
        (["ACGTACGTAC", "ACGTTTTTTTT", "acgtacgtNN"], "x", True),
        (["ACGT", "TTTT", "CCGT"], "x", False),  # codes
        (["ACGT", "TTTT", "CCGT"], "seq", True),
        (["MKVLAAGIVGLLLAQWERTYIPASDFGHK", "MSTNPKPQRKTKRNTNRRPQDVKFPGG"], "x", True),
        (["the cat sat on the mat there", "a dog came in and looked there"], "x", False),
        (["ACGTACGTAC"] * 30 + ["ACGTACGTTT"] * 30, "x", False),  # categories
        (["AB12CD34EF56AB12CD34", "AB12CD34EF56AB12CD35"], "x", False),
    ],
)
def test_sequences_are_recognised(cells, name, expected):
    assert is_sequences(cells, name) is expected


def test_different_sequences_are_no_row_identifiers(tmp_path):
    rng = np.random.default_rng(0)
    reads = ["".join(rng.choice(list("ACGT"), size=20)) for _ in range(30)]
    path = written(tmp_path, "".join(f">r{i} label={i % 2}\n{read}\n" for i, read in enumerate(reads)))
    report = mercer.doctor(path, "label")
    assert [one.columns for one in report.findings if "identifier" in one.sentence] == [("name",)]
    assert "sequences, 20 to 20 letters" in "\n".join(report.overview)
