"""Looks at sealed rows are counted across runs, and a study writes over no other."""

import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from generated import quantities, three_classes
from mercer import SVC
from mercer.data import Table, as_table
from mercer.model_selection import SealedTest
from mercer.studies import cli
from mercer.studies.fingerprint import Fingerprint, RowHashes, Sample
from mercer.studies.ledger import LEDGER, Looks
from mercer.studies.models import fit_model
from mercer.studies.models.model_file import load_model, save_model
from mercer.studies.report.numbers import ordinal


@pytest.fixture
def study(tmp_path, monkeypatch, capsys):
    """Run a study in an empty folder; its words on stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, status=0):
        assert cli.run(["study", "t.csv", "--target", "kind", "--folds", "2", *arguments]) == status
        return [" ".join(stream.split()) for stream in capsys.readouterr()]

    return run


@pytest.mark.full
def test_a_second_study_writes_over_nothing_and_is_the_second_look(study, tmp_path, monkeypatch):
    three_classes(60).to_csv("t.csv", index=False)
    study("--max-seconds", "1e-9", "--kernel", "rbf", status=1)  # ends before the seal is opened
    out, err = study()
    assert "look at these rows" not in out + err
    before = {name: (tmp_path / "t-study" / name).read_bytes() for name in ("report.html", "model.mercer")}
    out, err = study("--out", "t-study")
    assert (
        "note: t-study holds a study, which is left alone: this one goes to t-study-2 (--force writes over it)" in err
    )
    assert "note: this study will be the second look at these rows" in err
    assert "This was the second look at these rows, so the figure is no clean estimate" in out
    assert "There were earlier looks at these rows: 20" in out
    assert {name: (tmp_path / "t-study" / name).read_bytes() for name in before} == before
    page = " ".join((tmp_path / "t-study-2" / "report.html").read_text().split())
    assert "This was the second look at these rows" in page
    assert "an earlier look at these rows (study of t.csv, seed 0)" in page
    assert "for look number 2 (final estimate of the study)" in page
    assert len(load_model("t-study-2/model.mercer").seal.openings) == 2

    with monkeypatch.context() as patched:
        # Like a run that is killed before it says anything.
        patched.setattr("mercer.studies.sealed_study.open_seal", lambda *_: 1 / 0)
        study("--out", "elsewhere", status=1)
    out, err = study("--force", "--seed", "3")
    assert "note: the study in t-study is written over, as --force asks" in err
    assert "This was the fourth look at these rows" in out
    assert out.count("study of t.csv, seed 0, another split") == 3
    assert (tmp_path / "t-study" / "model.mercer").read_bytes() != before["model.mercer"]
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", LEDGER, "t-study", "t-study-2", "t.csv"]
    assert os.listdir(tmp_path / "elsewhere") == [LEDGER]


CHANGES = {
    "rows and columns in another order": lambda frame: frame.sample(frac=1.0, random_state=0)[frame.columns[::-1]],
    "other names": lambda frame: frame.rename(columns={"u": "first", "v": "second"}),
    "other labels": lambda frame: frame.assign(kind=frame["kind"].map({"a": "x", "b": "y", "c": "z"})),
    "more rows": lambda frame: pd.concat([frame, three_classes(12, seed=9)]),
    "fewer rows": lambda frame: frame.iloc[9:],
    "one more column": lambda frame: frame.assign(sum=frame["u"] + frame["v"]),
    "text": lambda frame: frame.assign(u=frame["u"].map(repr)),
    "copies": lambda frame: pd.concat([frame, frame]),
    "three copies": lambda frame: pd.concat([frame] * 3),
    "other names and fewer rows and columns": lambda frame: frame.iloc[9:, :2].rename(columns={"u": "x", "v": "y"}),
    "fewer rows and one more column": lambda frame: frame.iloc[9:].assign(sum=frame["u"] + frame["v"]),
}


@pytest.mark.parametrize("case", CHANGES)
def test_the_rows_of_a_changed_table_are_recognised(case):
    frame, fresh = three_classes(60), three_classes(60, seed=1)
    fingerprint, changed, other = (
        RowHashes.of(as_table(one)).fingerprint() for one in (frame, CHANGES[case](frame), CHANGES[case](fresh))
    )
    assert changed.is_of_same_rows(fingerprint)
    assert not other.is_of_same_rows(fingerprint)


def test_the_rows_of_a_sparse_table_are_recognised():
    rng = np.random.default_rng(0)
    blocks = [sparse.csr_array((rng.random((300, 40)) < 0.1).astype(float)) for _ in range(2)]
    target = rng.integers(0, 2, 300).astype(float)
    fingerprint, other = (RowHashes.of(Table(("label",), (target,), block)).fingerprint() for block in blocks)
    again = RowHashes.of(Table(("label",), (target,), blocks[0]).take(rng.permutation(300)[:280])).fingerprint()
    assert again.is_of_same_rows(fingerprint)
    assert not other.is_of_same_rows(fingerprint)


CHANCE = {
    "few values": lambda rng: {name: rng.integers(0, 2, 400) for name in "abcde"},
    "half of the rows different": lambda rng: {name: rng.integers(0, 16, 400) for name in "ab"},
    "many values": lambda rng: {name: rng.integers(0, 20, 400) for name in "ab"},
    "a number for each row": lambda rng: {"row": rng.permutation(400), "a": rng.integers(0, 2, 400)},
    "one time line": lambda rng: {"day": np.arange(0, 4000, 10), "a": rng.normal(size=400).round(1)},
    "tenths": lambda rng: {name: rng.normal(size=400).round(2) for name in "abc"},
    "words": lambda rng: {"word": rng.choice([f"word {k}" for k in range(300)], 400)},
}


@pytest.mark.parametrize("case", CHANCE)
def test_new_rows_that_are_equal_by_chance_are_not_taken_for_the_same(case):
    rng = np.random.default_rng(0)
    fingerprint, fresh = (RowHashes.of(as_table(pd.DataFrame(CHANCE[case](rng)))).fingerprint() for _ in range(2))
    assert not fresh.is_of_same_rows(fingerprint)
    assert Fingerprint.from_dict(fingerprint.to_dict()).is_of_same_rows(fingerprint)


def test_the_share_of_common_rows_is_estimated_from_a_sample():
    rows = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    one, other, small = (Sample.of(part, 512) for part in (rows[:15_000], rows[9_000:], rows[9_000:9_100]))
    assert one.hashes.size == 512
    assert abs(one.share_in(other) - 0.4) < 0.06
    assert abs(other.share_in(one) - 6 / 11) < 0.06
    assert small.share_in(one) == 1.0


def looks_at(frame, folder, target="kind", source="t.csv", **options):
    folder.mkdir(exist_ok=True, parents=True)
    return Looks(as_table(frame), target, source=source, folder=folder, **options)


def record(ledger_looks, n, seed=0):
    sealed = SealedTest.stratified(np.arange(n) % 3, seed=seed)
    ledger_looks.record(sealed, np.arange(n), seed)
    return sealed


def test_looks_are_found_again_in_the_folder_beside_it_and_where_one_says(tmp_path):
    frame = three_classes(60)
    record(looks_at(frame, tmp_path / "a" / "first"), 60)
    assert [one.purpose for one in looks_at(frame, tmp_path / "a" / "second").earlier] == ["study of t.csv, seed 0"]
    assert looks_at(frame, tmp_path / "b").earlier == ()
    found_again = looks_at(frame, tmp_path / "b", others=[tmp_path / "a", tmp_path / "a" / "first"])
    assert len(found_again.earlier) == 1
    assert [one.number for one in record(found_again, 60, seed=1).openings] == [1]
    (tmp_path / "a" / LEDGER).unlink()
    (tmp_path / "a" / "first").rename(tmp_path / "moved")
    assert len(looks_at(frame, tmp_path / "moved").earlier) == 2
    assert looks_at(three_classes(60, seed=1), tmp_path / "moved").earlier == ()


def test_a_look_of_a_study_that_ran_at_the_same_time_counts(tmp_path):
    frame = three_classes(60)
    one, other = (looks_at(frame, tmp_path / "s") for _ in range(2))
    assert [len(record(ledger_looks, 60).openings) for ledger_looks in (one, other)] == [0, 1]


def test_a_look_for_another_column_does_not_count(tmp_path):
    frame = quantities(60)
    record(looks_at(frame, tmp_path / "s", target="pay"), 60)
    assert looks_at(frame, tmp_path / "s", target="site").earlier == ()
    assert len(looks_at(frame, tmp_path / "s", target="pay").earlier) == 1
    assert len(looks_at(frame.rename(columns={"pay": "wage"}), tmp_path / "s", target="wage").earlier) == 1
    assert len(looks_at(frame.assign(copy=frame["pay"]), tmp_path / "s", target="copy").earlier) == 1


def test_a_file_name_that_is_not_utf_8_is_spelt_out(tmp_path):
    frame, name = three_classes(60), os.fsdecode(b"\xff.csv")
    record(looks_at(frame, tmp_path / "s", source=name), 60)
    (earlier,) = looks_at(frame, tmp_path / "s", source=name).earlier
    assert earlier.purpose == "study of \\xff.csv, seed 0"


def test_a_model_file_counts_where_the_ledger_is_gone(tmp_path):
    frame = three_classes(60)
    folder = tmp_path / "s"
    sealed = record(looks_at(frame, folder), 60)
    opening = sealed.open(len, "final estimate of the study").opening
    model = fit_model(frame, "kind", SVC(), rows=sealed.rest)
    save_model(folder / "model.mercer", replace(model, seal=sealed.seal))
    assert len(looks_at(frame, folder).earlier) == 1
    for ledger in (folder / LEDGER, tmp_path / LEDGER):
        ledger.unlink()
    (earlier,) = looks_at(frame, folder).earlier
    assert (earlier.time, earlier.purpose) == (opening.time, "final estimate of the study")
    assert looks_at(frame.assign(u=frame["u"] + 1.0), folder).earlier == ()


def test_a_damaged_ledger_is_told_and_never_written_over(tmp_path):
    frame = three_classes(60)
    record(looks_at(frame, tmp_path / "s"), 60)
    path = tmp_path / LEDGER
    path.write_bytes(path.read_bytes() + b'{"time": "2026')
    with pytest.warns(UserWarning, match=f"{LEDGER} has 1 damaged line, so earlier looks may be missing"):
        ledger_looks = looks_at(frame, tmp_path / "s")
    assert len(ledger_looks.earlier) == 1
    record(ledger_looks, 60)
    assert path.read_bytes().count(b"\n") == 3
    with pytest.warns(UserWarning, match="1 damaged line"):
        assert len(looks_at(frame, tmp_path / "other").earlier) == 2


@pytest.mark.parametrize(
    "line", [b"[" * 200_000, b"\xff", b'{"time": 1e999}', b"[]", b"9" * 5_000, b'{"time": "2026-01-01", "table": []}']
)
def test_a_line_of_no_study_hides_no_other_look(tmp_path, line):
    frame = three_classes(60)
    record(looks_at(frame, tmp_path / "s"), 60)
    path = tmp_path / LEDGER
    path.write_bytes(line + b"\n" + path.read_bytes())
    with pytest.warns(UserWarning, match="has 1 damaged line"):
        assert len(looks_at(frame, tmp_path / "s").earlier) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_a_link_is_no_ledger(tmp_path):
    frame, other = three_classes(60), tmp_path / "thesis.txt"
    other.write_text("all of it")
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / LEDGER)
    (tmp_path / LEDGER).symlink_to(other)
    with pytest.warns(UserWarning, match="cannot be read") as caught:
        ledger_looks = looks_at(frame, tmp_path / "a")
    assert ["pipe or a device" in str(caught[0].message), "is a link" in str(caught[1].message)] == [True, True]
    with pytest.raises(OSError, match="pipe or a device"):
        record(ledger_looks, 60)
    (tmp_path / "a" / LEDGER).unlink()
    with pytest.warns(UserWarning, match="cannot be written"):
        record(ledger_looks, 60)
    assert other.read_text() == "all of it"


def test_ordinals():
    shown = [ordinal(number) for number in (1, 3, 10, 11, 12, 21, 22, 103, 111, 1002)]
    assert shown == ["first", "third", "tenth", "11th", "12th", "21st", "22nd", "103rd", "111th", "1,002nd"]
