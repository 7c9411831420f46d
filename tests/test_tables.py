"""Reading tables, and what a table is."""

import bz2
import gzip
import io
import os
import threading
import traceback
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from mercer import SVC
from mercer.data.frames import as_table
from mercer.data.table import Table, TableError, TableWarning
from mercer.studies.files.table_files import LABEL, read_table
from mercer.studies.models import as_model, fit_model, load_model, save_model


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", b"x,y\n1.5,a\n-2,b\n"),
        ("t.csv", b"\xef\xbb\xbfx,y\r\n1.5,a\r\n-2,b\r\n"),
        ("t.csv", b"x;y\n1,5;a\n-2;b\n"),
        ("t.csv", b" x , y\n 1.5 , a \n -2, b\n"),
        ("t.csv", b'"x","y"\n"1.5","a"\n"-2","b"\n'),
        ("t.tsv", b"x\ty\n1.5\ta\n-2\tb\n"),
        ("t.csv.gz", gzip.compress(b"x,y\n1.5,a\n-2,b\n")),
        ("T.CSV", b"x,y\n1.5,a\n-2,b\n"),
    ],
    ids=["plain", "byte-order mark and CRLF", "semicolons", "spaces", "quotes", "tabs", "gzip", "capitals"],
)
def test_the_same_table_in_every_delimited_form(tmp_path, name, data):
    table = read_table(written(tmp_path, name, data))
    assert table.names == ("x", "y")
    np.testing.assert_array_equal(table["x"], [1.5, -2.0])
    assert table["x"].dtype == np.float64
    assert table["y"].tolist() == ["a", "b"]


def test_reading_threads_hold_no_python_objects(tmp_path, monkeypatch):
    # Reading threads must not hold Python objects: releasing one while Python ends aborts the process.
    read, sources = pacsv.read_csv, []
    monkeypatch.setattr(pacsv, "read_csv", lambda source, *how: sources.append(source) or read(source, *how))
    read_table(written(tmp_path, "t.csv", b"x,y\n1,a\n"))
    assert [type(source) for source in sources] == [pa.BufferReader]


def test_missing_cells(tmp_path):
    everywhere, among_numbers = ["", "NaN", "?", "N/A", "nan", "#DIV/0!"], ["NA", "null", " na ", "-", "None", "n.d."]
    data = "x,y\n1,a\n" + "".join(f"{cell},{cell}\n" for cell in everywhere + among_numbers)
    table = read_table(written(tmp_path, "t.csv", data.encode()))
    assert table.is_numeric("x")
    assert table.missing("x").tolist() == [False] + [True] * 12
    assert table["y"].tolist() == ["a"] + [None] * 6 + [cell.strip() for cell in among_numbers]


def test_a_quoted_cell_may_hold_delimiters_and_newlines(tmp_path):
    table = read_table(written(tmp_path, "t.csv", b'x,y\n1,"a, b\nc"\n2,d\n'))
    assert table["y"].tolist() == ["a, b\nc", "d"]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_is_read(tmp_path, line_end):
    table = read_table(written(tmp_path, "t.csv", line_end.join([b"", b"a,b", b"1,x", b"2,y", b""])))
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table["a"], [1.0, 2.0])
    assert table["b"].tolist() == ["x", "y"]


def test_a_column_name_may_hold_delimiters_and_newlines(tmp_path):
    table = read_table(written(tmp_path, "t.csv", b'"a,\n1","say ""b"""\n1,2\n3,4\n'))
    assert table.names == ("a,\n1", 'say "b"')
    np.testing.assert_array_equal(table["a,\n1"], [1.0, 3.0])


def test_columns_asked_for_as_text_stay_text(tmp_path):
    path = written(tmp_path, "t.csv", b"code,x\n01,1\n1,2\n")
    table = read_table(path, text_columns={"code", "not there"})
    assert table["code"].tolist() == ["01", "1"]
    assert read_table(path)["code"].tolist() == [1.0, 1.0]


def test_a_column_without_a_name_gets_one(tmp_path):
    assert read_table(written(tmp_path, "t.csv", b",x\n1,2\n")).names == ("unnamed_1", "x")


def test_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"x": [1, 2, None], "y": ["a", None, "b"], "z": [True, False, True]})
    frame["y"] = frame["y"].astype("category")
    frame.to_parquet(path)
    table = read_table(path)
    np.testing.assert_array_equal(table["x"], [1.0, 2.0, np.nan])
    assert table["y"].tolist() == ["a", None, "b"]
    assert table["z"].tolist() == ["True", "False", "True"]
    assert read_table(path, text_columns={"x"})["x"].tolist() == ["1", "2", None]


@pytest.mark.parametrize("compress", [False, True])
def test_svmlight_columns_keep_the_numbers_of_the_file(tmp_path, compress):
    data = b"+1 1:2 3:4\n-1 2:1 # comment\n"
    path = written(tmp_path, "t.svm.gz" if compress else "t.svm", gzip.compress(data) if compress else data)
    table = read_table(path)
    assert table.names == (LABEL,)
    np.testing.assert_array_equal(table[LABEL], [1.0, -1.0])
    np.testing.assert_array_equal(table.sparse.toarray(), [[0, 2, 0, 4], [0, 0, 1, 0]])


BAD_FILES = {
    "empty": ("t.csv", b"", "is empty"),
    "blank": ("t.csv", b"\n  \n", "is empty"),
    "old excel as xlsx": (
        "t.xlsx",
        b"\xd0\xcf\x11\xe0" + bytes(60),
        "it is an Excel workbook of the old format or with",
    ),
    "html as xlsx": ("t.xlsx", b"<html><table>", "cannot be read as an Excel workbook: it is an HTML or XML page"),
    "byte-order mark only": ("t.csv", b"\xff\xfe", "is empty"),
    "separator only": ("t.csv", b"sep=;\n", "is empty"),
    "header only": ("t.csv", b"a,b\n", "has column names only, and no rows"),
    "header without a line end": ("t.csv", b"a,b", "has column names only, and no rows"),
    "too few cells": ("t.csv", b"a,b\n1,2\n3\n", "is ragged: line 3 has 1 cell, the header has 2"),
    "too many cells": ("t.csv", b'a,b\n"1\n1",2\n3,4,5\n', "is ragged: line 4 has 3 cells, the header has 2"),
    "damaged utf-8": ("t.csv", "a,b\né,2\n3,".encode() + b"\xe9\n", "is UTF-8 up to byte 0xe9 in line 3"),
    "another encoding": ("t.csv", b"a,b\n1,2\n3,\x90\n", "neither UTF-8 nor Windows-1252: byte 0x90 in line 3"),
    "twice": ("t.csv", b"a,b,a\n1,2,3\n", "column names must differ, but 'a' occurs more than once"),
    "no names": ("t.csv", b"1,2\n3,4\n", "holds 2 numbers where column names belong"),
    "ending": ("t.doc", b"a", "has an unknown ending '.doc'"),
    "ending and html": ("t.xls", b"<html><table>", "has an unknown ending '.xls': it is an HTML or XML page"),
    "ending and json": ("t.json", b'{"a": 1}', "has an unknown ending '.json': it is JSON"),
    "not excel": ("t.xlsx", b"a,b\n1,2\n", "cannot be read as an Excel workbook: File is not a zip file"),
    "no ending": ("table", b"a", "has an unknown ending ''"),
    "parquet.gz": ("t.parquet.gz", gzip.compress(b"a"), "is compressed, and only text is read compressed"),
    "not parquet": ("t.parquet", b"a,b\n1,2\n", "cannot be read as Parquet"),
    "not svmlight": ("t.svm", b"a,b\n1,2\n", "cannot be read as svmlight"),
    "json as svmlight": ("t.svm", b'{"a": 1}', "cannot be read as svmlight: it is JSON"),
    "html as parquet": ("t.parquet", b"<html>", "cannot be read as Parquet: it is an HTML or XML page"),
    "svmlight as csv": ("t.csv", b"1 1:2 3:4\n-1 2:5\n", "let its name end in .svm, or say format=svmlight"),
    "arff": ("t.csv", b"% made by hand\n@RELATION iris\n@ATTRIBUTE a REAL\n", "it is an ARFF file"),
    "bzip2 as csv": ("t.csv", bz2.compress(b"a,b\n1,2\n"), "it is compressed by bzip2"),
    "feather": ("t.csv", b"ARROW1" + bytes(60), "it is an Arrow (Feather) file"),
    "not bzip2": ("t.csv.bz2", b"a,b\n1,2\n", "cannot be read: Invalid data stream"),
    "feature number": ("t.svm", b"1 1:1\n-1 2:1 2000000000:1\n", "feature number 2000000000 in row 2, and 99999999 is"),
    "endless quote": ("t.csv", b'"a,b\n' + b"1,2\n" * 40000, "a quotation mark that is never closed, in line 1"),
    "html": ("t.csv", b"<!DOCTYPE html>\n<html><body>a,b</body></html>\n", "it is an HTML or XML page"),
    "json": ("t.csv", b'[{"a": 1, "b": 2}]\n', "it is JSON"),
    "json lines": ("t.csv", b'{"a": 1}\n{"a": 2}\n', "it is JSON"),
    "zip": ("t.csv", b"PK\x03\x04" + bytes(60), "it is a zip archive or an Excel workbook"),
    "old excel": ("t.csv", b"\xd0\xcf\x11\xe0" + bytes(60), "it is an Excel workbook of the old format"),
    "gzip as csv": ("t.csv", gzip.compress(b"a,b\n1,2\n"), "it is compressed by gzip"),
    "parquet as csv": ("t.csv", b"PAR1" + bytes(60), "it is a Parquet file"),
    "not text at the start of a line": ("t.csv", b"a,b\n\x81,2\n", "byte 0x81 in line 2"),
    "not text in the first byte": ("t.csv", b"\x81,b\n1,2\n", "byte 0x81 in line 1"),
    "not text after empty lines": ("t.csv", b"\n\na,b\n1,\x81\n", "byte 0x81 in line 4"),
    "ragged after empty lines": ("t.csv", b"\n\na,b\n1,2,3\n", "line 4 has 3 cells"),
    "title": ("t.csv", b"Patients of 2026\na,b\n1,2\n", "line 1 looks like a title or a comment"),
    "ragged after comments": ("t.csv", b"# made\n# by hand\n\na,b\n1,2,3\n", "line 5 has 3 cells"),
    "not gzip": ("t.csv.gz", b"a,b\n1,2\n", "cannot be read: Not a gzipped file"),
    "cut gzip": ("t.csv.gz", gzip.compress(b"a,b\n1,2\n")[:-5], "cannot be read: Compressed file ended"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_one_clear_line(tmp_path, case):
    name, data, message = BAD_FILES[case]
    with pytest.raises(TableError) as caught:
        read_table(written(tmp_path, name, data))
    assert message in f"{caught.value}; {caught.value.hint}"
    assert "\n" not in str(caught.value)


def test_a_missing_file_suggests_similar_names(tmp_path):
    written(tmp_path, "heart.csv", b"a\n1\n")
    with pytest.raises(TableError, match="does not exist") as caught:
        read_table(tmp_path / "heart.parquet")
    assert caught.value.hint == "nearby: 'heart.csv'"
    with pytest.raises(TableError, match="is a folder, not a table"):
        read_table(tmp_path)


def test_an_empty_parquet_file_and_one_of_lists(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": np.zeros(0)}).to_parquet(path)
    with pytest.raises(TableError, match="has column names only"):
        read_table(path)
    pd.DataFrame({"x": [[1, 2], [3]]}).to_parquet(path)
    with pytest.raises(TableError, match="column 'x' must hold numbers or text, got List"):
        read_table(path)


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("library", FRAMES)
def test_frames_of_every_library_become_the_same_table(library):
    columns = {"n": [1, 2, None], "x": [0.5, None, 1.5], "t": ["a", None, "b"], "b": [True, False, True]}
    table = as_table(FRAMES[library](columns))
    np.testing.assert_array_equal(table["n"], [1.0, 2.0, np.nan])
    np.testing.assert_array_equal(table["x"], [0.5, np.nan, 1.5])
    assert table["t"].tolist() == ["a", None, "b"]
    assert table["b"].tolist() == ["True", "False", "True"]


def test_a_column_of_python_objects():
    table = as_table(pd.DataFrame({"n": pd.Series([1, 2.5, None], dtype=object), "m": pd.Series([1, "a", 2.0])}))
    np.testing.assert_array_equal(table["n"], [1.0, 2.5, np.nan])
    assert table["m"].tolist() == ["1", "a", "2"]


def test_matrices_become_tables_too():
    table = as_table(np.array([[1, 2], [3, 4]]))
    assert table.names == ("0", "1")
    np.testing.assert_array_equal(table["1"], [2.0, 4.0])
    assert as_table(sparse.eye_array(3)).sparse.shape == (3, 3)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            [[1, 2]],
            "table must be a mercer Table, a pandas, polars or pyarrow data frame, or a dict of columns, got list",
        ),
        (pd.DataFrame({"x": []}), "the table has no rows"),
        (pl.LazyFrame({"x": [1]}), "got LazyFrame"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "column names must differ"),
        (pl.DataFrame({"x": [[1], [2]]}), "column 'x' must hold numbers or text"),
    ],
)
def test_objects_that_are_no_table_are_refused(frame, message):
    with pytest.raises(TableError, match=message) as caught:
        as_table(frame)
    assert (caught.value.hint == "call .collect() first") == isinstance(frame, pl.LazyFrame)


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, (1, 2), {1}, b"a"], ids=repr)
def test_columns_of_pandas_that_hold_objects_are_not_read_as_text(cell):
    with pytest.warns(TableWarning, match="column 'o' holds Object, neither numbers nor text, and is not read"):
        table = as_table(pd.DataFrame({"x": [1.0, 2.0], "o": [None, cell]}))
    assert table.names == ("x",)


def test_a_row_of_a_data_frame_is_no_table():
    with pytest.raises(TableError, match="got Series") as caught:
        as_table(pd.DataFrame({"x": [1.0]}).iloc[0])
    assert "iloc[[0]]" in caught.value.hint


def test_an_unknown_column_suggests_the_nearest():
    table = as_table(pd.DataFrame({"Diagnosis": [1], "Age": [2]}))
    with pytest.raises(TableError, match="there is no column 'diagnosys'") as caught:
        table["diagnosys"]
    assert caught.value.hint == "did you mean 'Diagnosis'?"
    assert "did you mean 'Diagnosis'?" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(TableError) as caught:
        table["zzz"]
    assert caught.value.hint == "the columns are 'Diagnosis' and 'Age'"


def test_the_checksum_depends_on_cells_order_and_names():
    def table(x=(1.0, np.nan, 0.0), t=("a", None, ""), names=("x", "t"), block=((1.0, 0.0), (0.0, 2.0), (0.0, 0.0))):
        columns = (np.array(x), np.array(t, dtype=object))
        return Table(names, columns, sparse.csr_array(np.array(block)))

    same = table().checksum()
    assert same == table(x=(1.0, -np.nan, -0.0)).checksum()
    different = [
        table(x=(1.0, np.nan, 1e-300)),
        table(t=("a", "", None)),
        table(t=("a", None, "-")),
        table(names=("t", "x")),
        table(block=((1.0, 0.0), (0.0, 2.0), (0.0, 1.0))),
        table().take(np.array([1, 0, 2])),
        table().take(np.array([0, 1])),
        table().select(["t", "x"]),
    ]
    assert len({same, *(other.checksum() for other in different)}) == 1 + len(different)


def test_selecting_and_densifying():
    table = Table(("y",), (np.array([1.0, 2.0]),), sparse.csr_array(np.array([[0.0, 3.0], [4.0, 0.0]])))
    dense = table.densified(3)
    assert dense.names == ("y", "0", "1", "2")
    np.testing.assert_array_equal(np.column_stack(dense.columns), [[1, 0, 3, 0], [2, 4, 0, 0]])
    np.testing.assert_array_equal(table.densified(1)["0"], [0.0, 4.0])
    assert table.without(["y"]).n_rows == 2
    with pytest.raises(TableError, match="there is no column 'z'"):
        table.without(["z"])


@pytest.mark.parametrize(
    "data",
    [b"sep=;\na;b\n1,5;x\n2;y\n", b'"sep=;"\r\na;b\r\n1,5;x\r\n2;y\r\n', b'a;"b"\n1,5;x\n2;y\n'],
    ids=["sep", "sep in quotes", "plain"],
)
def test_the_delimiter_is_the_one_that_a_spreadsheet_names(tmp_path, data):
    table = read_table(written(tmp_path, "t.csv", data))
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table["a"], [1.5, 2.0])


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_comma_in_a_quoted_name_is_no_delimiter(tmp_path, mark):
    data = mark.join(['"size, in cm"', "b", '"c, d, e"']) + "\n" + mark.join("123") + "\n"
    assert read_table(written(tmp_path, "t.csv", data.encode())).names == ("size, in cm", "b", "c, d, e")


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "svmlight"])
def test_a_pipe_is_read_once(tmp_path, kind):
    if kind == "parquet":
        buffer = io.BytesIO()
        pq.write_table(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}), buffer)
        data = buffer.getvalue()
    else:
        data = b"1 1:2 2:3\n-1 2:5\n" if kind == "svmlight" else b"a,b\n1,3\n2,4\n"
        data = gzip.compress(data) if kind == "csv.gz" else data
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    table = read_table(tmp_path / "pipe")
    writer.join()
    assert (table.n_rows, table.sparse is not None) == (2, kind == "svmlight")


def test_svmlight_with_a_byte_order_mark_is_read(tmp_path):
    table = read_table(written(tmp_path, "t.svm", b"\xef\xbb\xbf-1 1:2\n1 1:3\n"))
    np.testing.assert_array_equal(table["label"], [-1.0, 1.0])


@pytest.mark.parametrize("text", ["Report of 2026\n\na;b;t\n1;2;x\n", "Report of 2026;;\n\na;b;t\n1;2;x\n"])
def test_column_names_below_a_title_are_pointed_out(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError) as refused:
        read_table(tmp_path / "t.csv")["t"]
    assert "if row 1, which has 't', holds the column names, delete the lines above it" in refused.value.hint


def test_a_column_of_lists_is_not_read_and_said():
    frame = pl.DataFrame({"a": [1.0, 2.0], "l": [[1], [2]], "b": [b"x", b"y"]})
    with pytest.warns(TableWarning) as said:
        table = as_table(frame)
    assert table.names == ("a",)
    assert [str(one.message).split(",")[0] for one in said] == [
        "column 'l' holds List(Int64)",
        "column 'b' holds Binary",
    ]


@pytest.mark.parametrize("library", FRAMES)
def test_decimals_are_numbers_and_a_target_of_booleans_predicts_booleans(library, tmp_path):
    x = np.random.default_rng(0).normal(size=60).round(2)
    columns = {"x": [Decimal(f"{value:.2f}") for value in x], "y": [bool(value > 0) for value in x]}
    frame = FRAMES[library](columns)
    table = as_table(frame)
    np.testing.assert_array_equal(table["x"], x)
    model = fit_model(frame, "y", SVC(C=10.0))
    save_model(tmp_path / "m.mercer", model)
    for one in (model, load_model(tmp_path / "m.mercer")):
        predicted = one.predict(frame)
        assert predicted.dtype == bool
        assert (predicted == (x > 0)).mean() > 0.9
    assert as_model(SVC().fit(x[:, None], x > 0), x[:, None], x > 0).predict(x[:, None]).dtype == bool


def test_missing_and_large_decimals():
    frame = pd.DataFrame({"a": [Decimal("1.5"), None, Decimal("NaN")], "b": [Decimal(2**60), Decimal(2**60 + 1), None]})
    with pytest.warns(TableWarning, match="'b' holds whole numbers beyond"):
        table = as_table(frame)
    np.testing.assert_array_equal(table["a"], [1.5, np.nan, np.nan])
    assert table["b"].tolist() == [str(2**60), str(2**60 + 1), None]
