"""Faults of table files that passed unseen, in memory and in parts: each is named, or read rightly."""

import numpy as np
import openpyxl
import pandas as pd
import pytest

from mercer import LinearSVC, LinearSVR
from mercer.data.table import TableError
from mercer.studies.files.table_files import read_table
from mercer.studies.models import fit_model, load_model, save_model

ROWS = [f"{k},text {k},{k % 2}" for k in range(200)]


def written(folder, lines, header="a,t,y"):
    path = folder / "t.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def in_parts(path, **options):
    return LinearSVC().fit_file(path, target="y", **options)


def refused(path, message, **options):
    for read in (read_table, lambda path: in_parts(path, **options)):
        with pytest.raises(TableError, match=message):
            read(path)


def test_two_stray_quotation_marks_do_not_swallow_the_rows_between_them(tmp_path):
    lines = ROWS.copy()
    lines[30], lines[130] = '30,"text 30,0', '130,text 130",1'
    refused(written(tmp_path, lines), r"line 32\b.* lines,? which look like rows", drop=["t"])
    lines[30], lines[130] = '30,"verse one\nverse, two\nverse three\nverse four",0', ROWS[130]
    assert read_table(written(tmp_path, lines)).n_rows == 200


def test_a_second_line_of_names_is_named(tmp_path):
    lines = ["years,cm,label", *(f"{20 + k},{150 + k},{k % 2}" for k in range(30))]
    refused(written(tmp_path, lines), "row 1 looks like a second line of column names.*'years' in 'a', 'cm' in 't'")
    assert read_table(written(tmp_path, lines[1:])).n_rows == 30
    lines = ["NA,,0", *lines[1:]]
    assert read_table(written(tmp_path, lines)).n_rows == 31


@pytest.mark.parametrize(
    ("encoding", "word"),
    [("gb18030", "北京"), ("big5", "台北"), ("cp1251", "Москва"), ("koi8_r", "Москва"), ("shift_jis", "東京都")],
)
def test_text_of_other_alphabets_is_not_read_as_western(tmp_path, encoding, word):
    path = tmp_path / "t.csv"
    path.write_bytes(("t,y\n" + "".join(f"{word},{k % 2}\n" for k in range(20))).encode(encoding))
    with pytest.raises(TableError, match="not Western text either") as caught:
        read_table(path)
    assert f"encoding={encoding} reads '{word}" in caught.value.hint
    assert read_table(path, encoding=encoding)["t"][0] == word
    path.write_bytes(("t,y\n" + "".join(f"Köln Straße café,{k % 2}\n" for k in range(20))).encode("cp1252"))
    assert read_table(path)["t"][0] == "Köln Straße café"


def test_merged_cells_of_a_workbook_have_their_value_in_each_row(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["site", "x"], ["A", 1], [None, 2], ["B", 3], [None, None], [None, 4]):
        sheet.append(row)
    sheet.merge_cells("A2:A3")
    sheet.merge_cells("A4:A6")
    book.save(tmp_path / "t.xlsx")
    assert read_table(tmp_path / "t.xlsx")["site"].tolist() == ["A", "A", "B", "B", "B"]


def test_a_header_of_more_than_a_mebibyte_is_read_within_the_memory(tmp_path):
    n = 3_000
    names = ",".join(f"{'long' * 90}_{j}" for j in range(n))
    path = written(
        tmp_path, [",".join(str((j * k) % 7) for j in range(n)) + f",{k % 2}" for k in range(4)], names + ",y"
    )
    assert in_parts(path, memory="500MB").n_features_in_ == n
    with pytest.raises(TableError, match="memory="):
        in_parts(path, memory="2MB")


def test_a_constant_column_behind_numbers_is_left_out_of_a_file(tmp_path):
    path = written(tmp_path, [f"{k}.5,x,{k}" for k in range(50)])
    assert LinearSVR().fit_file(path, target="y").n_features_in_ == 1


def test_a_missing_cell_is_refused_without_a_word_about_the_median(tmp_path):
    frame = pd.DataFrame({"a": np.sin(np.arange(40.0)), "y": ["a", "b"] * 20})
    model = fit_model(frame, "y", LinearSVC())
    with pytest.raises(TableError, match=r"missing values in 'a' \(1\)"):  # a warning would be an error
        model.predict(pd.DataFrame({"a": [1.0, None]}))
    with pytest.raises(OSError, match="name of the file to write is empty"):
        save_model("", model)


def test_an_error_of_units_names_the_cell_and_not_the_first_line_of_its_piece(tmp_path):
    lines = [f"{k} cm,text,{k % 2}" for k in range(9_000)]
    lines[8_500] = "3 kg,text,1"
    with pytest.raises(TableError, match=r"line 8,502 .*column 'a' holds '3 kg', .* with the unit 'cm'"):
        in_parts(written(tmp_path, lines), drop=["t"], memory="1MB")


def test_limits_are_read_as_asked_in_files_of_any_size(tmp_path):
    path = written(tmp_path, [f"{'<5.0' if k % 5 == 0 else k + 0.5},text,{k % 2}" for k in range(100)])
    with pytest.raises(TableError, match=r"20 are limits: row 1 holds '<5\.0'") as caught:
        in_parts(path, drop=["t"])
    assert "limits=value" in caught.value.hint
    for limits, value in (("value", 5.0), ("half", 2.5)):
        assert read_table(path, limits=limits)["a"][0] == value
        machine = in_parts(path, drop=["t"], limits=limits, cache=tmp_path / limits)
        assert machine.training_file_.reading.limits == limits


def test_spellings_are_merged_as_asked_in_files_of_any_size(tmp_path):
    path = written(tmp_path, [f"{k},{['M', 'm ', ' M'][k % 3] if k % 4 else 'F'},{k % 2}" for k in range(100)])
    assert {*read_table(path, merge=["t"])["t"]} == {"m", "f"}
    assert in_parts(path, merge=["t"]).encoder_.rules_[1].levels == ("m", "f")
    model = fit_model(read_table(path, merge=["t"]), "y", LinearSVC(), keep=["a"])
    save_model(tmp_path / "m.mercer", model)
    frame = pd.DataFrame({"a": [1.0, 1.0], "t": [" M", "m"]})
    assert len({*load_model(tmp_path / "m.mercer").decision_values(frame).ravel().tolist()}) == 1


def test_numbers_that_a_frame_has_as_text_are_no_identifiers(tmp_path):
    cells = [f"{k}.50-" if k % 50 else f"{k}.50" for k in range(100)]
    frame = pd.DataFrame({"due": cells, "x": np.sin(np.arange(100.0)), "y": ["a", "b"] * 50})
    message = r"row 2 holds '1.50-' \(shapes: '9.9-' \(98\), '9.9' \(2\)\)"
    with pytest.raises(TableError, match=message):
        fit_model(frame, "y", LinearSVC())
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert fit_model(read_table(tmp_path / "t.csv"), "y", LinearSVC()).encoder.number_columns == ("due", "x")
