"""FASTA and FASTQ files as tables, with labels from headers or from another file."""

import gzip

import numpy as np
import pytest

from mercer import SVC, GappedKmer
from mercer.data import TableError
from mercer.studies import cli
from mercer.studies.inputs import with_target
from mercer.studies.models import read_table

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
    assert table.names == ("name", "label", "source", "sequence", "words")
    assert table["name"].tolist() == ["r1", "r2"]
    assert table["label"].tolist() == [1.0, 0.0]
    assert table["source"].tolist() == ["liver", None]
    assert table["sequence"].tolist() == ["ACGTACGTN", "TTTTTTTT"]
    assert table["words"].tolist() == ["ACGTAC CGTACG GTACGT", "TTTTTT TTTTTT TTTTTT"]
    assert any("upper case" in str(note) for note in table.reading.notes)
    packed = tmp_path / "reads.fa.gz"
    packed.write_bytes(gzip.compress(FASTA.encode()))
    assert read_table(packed)["sequence"].tolist() == table["sequence"].tolist()
    proteins = read_table(written(tmp_path, ">p\nMKWLQ\n", "proteins.faa"))
    assert proteins["words"].tolist() == ["MKW KWL WLQ"]
    machine = SVC(kernel=GappedKmer(3, 2, alphabet="ACGT", wildcards="N")).fit(table["sequence"], table["label"])
    assert machine.score(table["sequence"], table["label"]) == 1.0


def test_a_fastq_file_is_a_table(tmp_path):
    table = read_table(written(tmp_path, FASTQ, "reads.fastq"))
    assert table["sequence"].tolist() == ["ACGTACG", "TT"]
    assert table["words"].tolist() == ["ACGTAC CGTACG", ""]


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
