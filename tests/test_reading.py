"""Files and frames are read as what they hold: labels, numbers, missing cells, encodings, formats."""

import bz2
import datetime
import gzip
import io
import lzma
import zipfile
from contextlib import suppress

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import SVC, KernelLogisticRegression
from mercer.data import as_table
from mercer.data.table import TableError, TableWarning
from mercer.studies.files.blocks.sources import read_tables
from mercer.studies.files.table_files import read_table
from mercer.studies.models import as_model, fit_model, load_model, save_model, verify
from mercer.studies.tables import read_target
from mercer.studies.tables.number_text import number_of


def written(folder, text, name="t.csv"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table_of_classes(folder, labels, n_each=8):
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.normal(k):.3f},{rng.normal(-k):.3f},{label}" for label in labels for k in [labels.index(label)] * n_each
    ]
    return read_table(written(folder, "\n".join(["a,b,t", *rows]) + "\n"))


LABELS = {
    "leading zeros": ["01", "02", "10"],
    "trailing zeros": ["1.1", "1.10", "2"],
    "one number in two forms": ["007", "7"],
    "exponents": ["100000", "1e5"],
    "signs": ["+1", "1"],
    "beyond 2**53": ["9007199254740992", "9007199254740993", "9007199254740994"],
    "order of values": ["2.5", "9.5", "10.5"],
    "whole numbers": ["2", "10", "11"],
}


@pytest.mark.parametrize("case", LABELS)
@pytest.mark.parametrize("machine", [SVC(C=10.0), KernelLogisticRegression()], ids=["SVC", "KernelLogisticRegression"])
@pytest.mark.filterwarnings("ignore:column 't' holds whole numbers beyond")
def test_labels_are_what_the_file_holds_in_the_order_of_their_values(tmp_path, case, machine):
    labels = LABELS[case]
    table = table_of_classes(tmp_path, labels[::-1])
    assert read_target(table, "t", "classification").names == labels
    model = fit_model(table, "t", machine)
    save_model(tmp_path / "m", model)
    loaded = load_model(tmp_path / "m")
    assert loaded.prediction_kind.names == labels
    assert verify(loaded, table).findings == ()
    predicted = loaded.predict(table)
    assert set(map(str, predicted.tolist())) <= set(labels)
    assert loaded.prediction_kind.agreement(table, predicted, np.arange(table.n_rows)).startswith(
        str(sum(map(str.__eq__, map(str, predicted), [label for label in labels[::-1] for _ in range(8)])))
    )


def test_class_weights_are_found_by_the_label_as_it_stands(tmp_path):
    table = table_of_classes(tmp_path, ["9.5", "10.5", "2.5"])
    assert fit_model(table, "t", SVC(class_weight={"10.5": 3.0})).training.class_weight.tolist() == [1.0, 1.0, 3.0]


@pytest.mark.parametrize("y", [["9", "10"], [2**53, 2**53 + 1], ["01", "1"]], ids=["text", "integers", "zeros"])
def test_a_model_of_arrays_has_the_labels_of_its_machine(y):
    y = np.repeat(y, 10)
    X = np.random.default_rng(0).normal(size=(y.size, 2))
    machine = SVC().fit(X, y)
    model = as_model(machine, X, y)
    assert model.predict(X).tolist() == list(map(str, machine.predict(X)))


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas of pyarrow": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "pandas objects": lambda columns: pd.DataFrame(columns).astype(object),
    "pyarrow": pa.table,
    "matrix": lambda columns: np.column_stack([columns["0"], columns["1"]]),
}


@pytest.mark.parametrize("library", FRAMES)
def test_integers_that_float64_would_round_are_text(library):
    with pytest.warns(TableWarning, match="column 'n' holds whole numbers"):
        assert as_table(pd.DataFrame({"n": pd.Series([1, 10**400], dtype=object)}))["n"].tolist() == ["1", str(10**400)]
    numbers = {"0": np.int64(2**60) + np.arange(5), "1": np.int64(2**60) - 256 * np.arange(5)}
    with pytest.warns(
        TableWarning, match="column '0' holds whole numbers beyond 2\\*\\*53, such as 115292150460684697"
    ):
        table = as_table(FRAMES[library](numbers))
    assert table["0"].tolist() == [str(2**60 + k) for k in range(5)]
    assert table["1"].tolist() == [2.0**60 - 256 * k for k in range(5)]


DECIMALS = {
    "commas elsewhere make a point a thousands mark": (
        "price;b;t\n1.928;0,910;yes\n583;-0,878;no\n",
        {"price": [1928.0, 583.0], "b": [0.91, -0.878]},
    ),
    "points elsewhere make a comma a thousands mark": (
        "price;b\n1,928;0.910\n583;-0.878\n",
        {"price": [1928.0, 583.0], "b": [0.91, -0.878]},
    ),
    "tabs": ("price\tb\n1.928\t0,910\n583\t7\n", {"price": [1928.0, 583.0], "b": [0.91, 7.0]}),
    "commas in quotes": ('a,b\n"1,5",1.928\n"-,5",3\n', {"a": [1.5, -0.5], "b": [1928.0, 3.0]}),
    "thousands and decimals": ("a;b\n1.928,50;x\n1.928.391;y\n", {"a": [1928.5, 1928391.0]}),
    "thousands with commas": ('a,b\n"1,928.50",x\n"12,345,678",y\n', {"a": [1928.5, 12345678.0]}),
    "thousands in India": ('a,b\n"1,92,850.5",x\n"7,000",y\n', {"a": [192850.5, 7000.0]}),
    "blanks as thousands marks": ("a;b\n1 234,5;1\n2\u00a0345\u202f678;2\n", {"a": [1234.5, 2345678.0]}),
    "apostrophes": ("a;b\n1'234.5;1\n2\u2019345;2\n", {"a": [1234.5, 2345.0]}),
    "four digits before a mark are no thousands": (
        "a;b\n1928.500;1.000\n3;4.000\n",
        {"a": [1928.5, 3.0], "b": [1.0, 4.0]},
    ),
    "a leading zero is no thousand": ("a;b\n0.500;1.500\n", {"a": [0.5], "b": [1.5]}),
    "exponents": ("a;b\n1,5e3;x\n-2E-1;y\n", {"a": [1500.0, -0.2]}),
    "three decimals in a comma-separated file": ("a,b\n1.928,x\n2.345,y\n", {"a": [1.928, 2.345]}),
    "percent": ("a,b\n63%,x\n5.5 %,y\n", {"a": [63.0, 5.5]}),
    "dollars": ('a,b\n"$2,330.00",x\n-$1.50,y\n', {"a": [2330.0, -1.5]}),
    "euros": ("a;b\n2.330,00 €;x\n-1,50 €;y\n", {"a": [2330.0, -1.5]}),
    "currency codes": ("a,b\nUSD 5.5,x\n7 USD,y\n", {"a": [5.5, 7.0]}),
    "negative numbers in brackets": ('a,b\n"(1,234.5)",x\n7,y\n', {"a": [-1234.5, 7.0]}),
    "signs after numbers": ("a,b\n94.08-,x\n7.5,y\n-3,z\n", {"a": [-94.08, 7.5, -3.0]}),
    "marks of text": ('a,b\n\'-75.63,x\n"=""12.57""",y\n\'00123,z\n', {"a": [-75.63, 12.57, 123.0]}),
    "dashes": ("a,b\n\u20135.5,x\n\u20147,y\n\u20101,z\n\uff0d2,z\n", {"a": [-5.5, -7.0, -1.0, -2.0]}),
    "credits and debits": ("a,b\n12.57 CR,x\n3 DR,y\n1,z\n", {"a": [-12.57, 3.0, 1.0]}),
    "debits beside numbers without a mark": ("a,b\n12.57 DB,x\n3,y\n", {"a": ["12.57 DB", "3"]}),
    "exponents of Fortran": ("a,b\n8.35D+03,x\n-1.5d-01,y\n", {"a": [8350.0, -0.15]}),
    "powers of ten": ("a,b\n1.5 x 10^3,x\n2·10^-1,y\n", {"a": [1500.0, 0.2]}),
    "other digits": ("a,b\n\u0661\u0662\u066b\u0665,x\n\uff13,y\n", {"a": [12.5, 3.0]}),
    "thousands and millions": ("a,b\n941K,x\n1.3M,y\n12,z\n", {"a": [941e3, 1.3e6, 12.0]}),
    "one unit": ("a,b\n171 cm,x\n172cm,y\n", {"a": [171.0, 172.0]}),
    "units of one quantity": ("a,b\n12 kB,x\n3 MB,y\n1.5GB,z\n", {"a": [12.0, 3000.0, 1.5e6]}),
    "units of two quantities": ("a,b\n12 kg,x\n3 cm,y\n", {"a": ["12 kg", "3 cm"]}),
    "limits in every cell": ("a,b\n<1.5,x\n<2,y\n", {"a": [1.5, 2.0]}),
    "limits in some cells": ("a,b\n<1.5,x\n2,y\n", {"a": ["<1.5", "2"]}),
    "at least": ('a,b\n"1,010,000+",x\n500+,y\n', {"a": [1010000.0, 500.0]}),
    "durations": (
        "a,b,c\n1:23:45,1h 20m,1:23:45\n26:00:00,45 s,16:30:00\n0:00:10,2 min,9:15:00\n",
        {"a": [5025.0, 93600.0, 10.0], "b": [4800.0, 45.0, 120.0], "c": ["1:23:45", "16:30:00", "9:15:00"]},
    ),
    "durations by name": (
        "Trip duration,Laufdauer,began\n1:23:45,0:30,1:23\n16:30:00,1:00,16:30\n",
        {"Trip duration": [5025.0, 59400.0], "Laufdauer": [1800.0, 3600.0], "began": ["1:23", "16:30"]},
    ),
    "ordinals": ("a,b\n1st,x\n22nd,y\n", {"a": ["1st", "22nd"]}),
    "flats": ("a,b\n12A,x\n7B,y\n", {"a": ["12A", "7B"]}),
    "minus sign": ("a,b\n\u22125.5,x\n7,y\n", {"a": [-5.5, 7.0]}),
    "mixed units are text": ("a,b\n63%,$5\n5,€6\n", {"a": ["63%", "5"], "b": ["$5", "€6"]}),
    "versions, dates and phone numbers are text": (
        "a;b;c\n1.2.3;31.12.2024;030 123\n1.10.0;01.01.2025;0171 55\n",
        {"a": ["1.2.3", "1.10.0"], "b": ["31.12.2024", "01.01.2025"], "c": ["030 123", "0171 55"]},
    ),
    "a few words among numbers do not hide the mark": (
        "a;b\n1.928;0,5\n" + "2.500;1,5\n" * 30 + "7.000;lost\n",
        {"a": [1928.0, *[2500.0] * 30, 7000.0]},
    ),
}


@pytest.mark.parametrize("case", DECIMALS)
def test_a_file_has_one_decimal_mark(tmp_path, case):
    text, expected = DECIMALS[case]
    table = read_table(written(tmp_path, text))
    assert {name: table[name].tolist() for name in expected} == expected


DOUBTFUL = {
    "both marks": (
        "a;b\n1,5;2.5\n",
        "decimal points and decimal commas: row 1 of 'b' holds '2.5', row 1 of 'a' holds '1,5'",
    ),
    "both marks in a column": ('a,b\n1.5,x\n"2,5",y\n', "row 1 of 'a' holds '1.5', row 2 of 'a' holds '2,5'"),
    "point": ("a;b\n7;x\n1.928;x\n", "row 2 of 'a' holds '1.928', which may be 1.928 or 1928, and no other cell tells"),
    "comma": ('a,b\n"94,171",x\n', "row 1 of 'a' holds '94,171', which may be 94171 or 94.171"),
    "point beside whole numbers": ("a,b\n1.928,x\n583,y\n", "'1.928', which may be 1.928 or 1928"),
    "point and comma in a column": ('a,b\n1.928,x\n"1,928",x\n', "may be 1928 or 1.928"),
    "point here and comma there": ('a,b\n1.928,"1,928"\n', "may be 1.928 or 1928"),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_doubtful_marks_are_an_error_that_asks(tmp_path, case):
    text, message = DOUBTFUL[case]
    path = written(tmp_path, text)
    with pytest.raises(TableError) as caught:
        read_table(path)
    assert message in str(caught.value)
    for mark in ".,":
        if case.startswith("both marks"):
            with pytest.raises(TableError, match="contradicts a cell"):
                read_table(path, decimal=mark)
        else:
            assert f"decimal='{mark}'" in caught.value.hint
            assert read_table(path, decimal=mark).reading.decimal == mark
    assert read_table(path, text_columns={"a", "b"})["a"].dtype == object


def test_the_decimal_mark_of_training_decides_what_a_file_leaves_open(tmp_path):
    reading = read_table(written(tmp_path, "a;b\n1,5;x\n")).reading
    path = written(tmp_path, "a;b\n1.928;x\n")
    assert read_table(path, model_reading=reading)["a"].tolist() == [1928.0]
    assert read_table(written(tmp_path, "a;b\n1.5;x\n"), model_reading=reading)["a"].tolist() == [1.5]


def formatted(number, decimal, thousands):
    text = f"{number:,}" if thousands else str(number)
    return text.replace(",", "T").replace(".", decimal).replace("T", {".": ",", ",": "."}[decimal] if thousands else "")


@settings(max_examples=30, deadline=None)
@given(
    numbers=st.lists(st.decimals(-(10**7), 10**7, places=3) | st.integers(-(10**7), 10**7), min_size=1, max_size=6),
    decimal=st.sampled_from(".,"),
    thousands=st.booleans(),
    separator=st.sampled_from([";", "\t", "|"]),
)
def test_numbers_are_never_misread(numbers, decimal, thousands, separator, tmp_path_factory):
    cells = [formatted(number, decimal, thousands) for number in numbers]
    lines = [f"a{separator}b"] + [f"{cell}{separator}x" for cell in cells]
    path = written(tmp_path_factory.mktemp("numbers"), "\n".join(lines) + "\n")
    expected = [float(number) for number in numbers]
    assert read_table(path, decimal=decimal)["a"].tolist() == expected
    with suppress(TableError):  # the error that asks
        read_numbers = read_table(path)["a"].tolist()
        # Only if all numbers are of the form 1.928, they may be taken for numbers below 1000.
        plain = separator == "\t" and not any("," in cell for cell in cells)
        assert read_numbers == expected or (plain and read_numbers == [float(cell) for cell in cells])


def marked(number, mark, unit):
    """Return a number as a file of another program holds it."""
    plain, size = f"{number}", f"{abs(number)}"
    minus = {"after": f"{size}-", "brackets": f"({size})", "credit": f"{size} CR", "dash": f"\u2013{size}"}
    return {
        "apostrophe": f"'{plain}{unit}",
        "formula": f'="{plain}{unit}"',
        "fortran": f"{plain}D+00",
        "none": f"{plain}{unit}",
    }.get(mark) or (minus[mark] if number < 0 else plain)


UNITED = ["apostrophe", "formula", "none"]
MARKS = ["after", "brackets", "credit", "dash", "apostrophe", "formula", "fortran", "none"]


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.decimals(-(10**7), 10**7, places=2), min_size=2, max_size=8),
    mark=st.sampled_from(MARKS),
    unit=st.sampled_from(["", " %", " cm", "mg/dl", " km/h", "\u20ac", "\u00b0C"]),
    decimal=st.sampled_from(".,"),
)
def test_marks_of_numbers_are_read_alike_in_files_targets_and_parts(numbers, mark, unit, decimal, tmp_path_factory):
    cells = [marked(number, mark, unit).replace(".", decimal) for number in numbers]
    expected = [float(number) for number in numbers]
    assert [number_of(cell, decimal) for cell in cells] == (
        [None] * len(cells) if unit and mark in UNITED else expected
    )
    lines = ["a;b", *('"' + cell.replace('"', '""') + '";x' for cell in cells)]
    path = written(tmp_path_factory.mktemp("marks"), "\n".join(lines) + "\n")
    full_table = read_table(path, decimal=decimal)
    assert full_table["a"].tolist() == expected
    parts = list(read_tables(path, decimal=decimal, memory="1MB"))
    assert [number for part in parts for number in part["a"].tolist()] == expected
    assert parts[0].reading.units == full_table.reading.units


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(-(2**70), 2**70),
            TEXTS.map(lambda text: f"t{text}"),
        ),
        min_size=2,
        max_size=6,
    ),
    form=st.sampled_from(["csv", "tsv", "csv.gz", "csv.bz2", "csv.xz", "parquet"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]),
)
@pytest.mark.filterwarnings("ignore:column 'n' holds whole numbers beyond")
def test_a_table_that_is_written_and_read_again_is_the_same(rows, form, encoding, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / f"t.{form}"
    x, n, t = zip(*rows, strict=True)
    frame = pd.DataFrame({"x": x, "n": pd.Series(n, dtype=object), "t": t})
    if form == "parquet":
        pq.write_table(pa.table({"x": x, "n": list(map(str, n)), "t": t}), path)
    else:
        data = frame.to_csv(index=False, sep="\t" if form == "tsv" else ",").encode(encoding)
        pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}.get(form[4:], bytes)
        path.write_bytes(pack(data))
    table = read_table(path)
    assert table["x"].tolist() == list(x)
    assert [int(cell) for cell in table["n"].tolist()] == list(n)
    assert table["t"].tolist() == list(t)


def test_words_are_missing_among_numbers_and_dates_only(tmp_path):
    words = ["NA", "Na", "null", "None", "-", ".", "*", "n.d.", "#N/A", "#DIV/0!", "?"]
    rows = [f"{k},2024-01-0{k},Cl,{k}" for k in range(1, 4)] + [f"{word},{word},{word},{word}" for word in words]
    path = written(tmp_path, "\n".join(["x,day,ion,code", *rows]))
    table = read_table(path, text_columns={"code"})
    assert table.missing("x").tolist() == table.missing("day").tolist() == [False] * 3 + [True] * len(words)
    assert table["ion"].tolist() == ["Cl"] * 3 + words[:8] + [None] * 3
    assert table["code"].tolist() == ["1", "2", "3", *words[:8], None, None, None]
    notes = " ".join(map(str, table.reading.notes))
    assert "'NA', 'Na', 'null', ... in column 'x' is read as missing" in notes
    assert "'NA', 'Na', 'null', ... in column 'ion' is read as text; na=['NA'] makes such cells missing" in notes
    assert "'#N/A', '#DIV/0!', '?' in column 'ion' is read as missing" in notes
    named = read_table(path, na=["NA", "3"])
    assert "'Na', 'null', 'None', ... in column 'x' is read as missing" in " ".join(noted(named))
    assert named["ion"].tolist() == ["Cl"] * 3 + [None] + words[1:8] + [None] * 3
    assert np.isnan(named["x"][2])


def test_a_column_that_a_model_knows_as_numbers_or_text_is_read_so(tmp_path):
    path = written(tmp_path, "x,ion,big\n-,Na,12345678901234567\n")
    table = read_table(path, number_columns={"x", "big"}, text_columns={"ion"})
    assert np.isnan(table["x"]).all()
    assert table["ion"].tolist() == ["Na"]
    assert table["big"].tolist() == [12345678901234567.0]


def test_large_integers_in_a_text_file_are_text_and_a_target_of_them_may_be_a_quantity(tmp_path):
    cells = [str(1_700_000_000_000_000_001 + 10**15 * k) for k in range(12)]
    path = written(tmp_path, "\n".join(["id,y", *(f"{cell},{k % 3}.5" for k, cell in enumerate(cells))]))
    with pytest.warns(TableWarning, match="column 'id' holds whole numbers beyond"):
        table = read_table(path)
    assert table["id"].tolist() == cells
    assert read_target(table, "id", "regression").values.tolist() == [float(cell) for cell in cells]


def noted(table):
    return [note.text for note in table.reading.notes]


ENCODINGS = {
    "utf-8": ("grün", "utf-8", []),
    "utf-16": ("grün", "utf-16", ["The file is text in UTF-16"]),
    "utf-16 without a mark": ("grün", "utf-16-le", ["The file is text in UTF-16-LE"]),
    "cp1252": (
        "grün",
        "cp1252",
        ["The file is not UTF-8 and was read as Windows-1252 (Latin-1): byte 0xfc in line 2 is 'ü'"],
    ),
}


@pytest.mark.parametrize("case", ENCODINGS)
def test_encodings_are_found_and_said(tmp_path, case):
    word, encoding, notes = ENCODINGS[case]
    path = written(tmp_path, f"a,b\n1,{word}\n2,blau\n".encode(encoding))
    for table in (read_table(path), read_table(path, encoding=encoding)):
        assert table["b"].tolist() == [word, "blau"]
    assert noted(read_table(path)) == notes
    assert noted(read_table(path, encoding=encoding)) == []
    with pytest.raises(TableError, match="encoding='klingon' is unknown"):
        read_table(path, encoding="klingon")


SEPARATORS = {
    "bars": ("a|b\n1|x\n2|y\n", "Cells are separated by '|'"),
    "blanks": ('a "b"  c\n1 "x y" 3\n 2  y 4 \n', "Cells are separated by blanks"),
    "commas in names": ("a, in cm;b\n1;x\n2;y\n", "Cells are separated by ';'"),
    "more commas than semicolons": ("a, b, or c;d\n1;x\n2;y\n", "Cells are separated by ';'"),
}


@pytest.mark.parametrize("case", SEPARATORS)
def test_separators_are_found_and_said(tmp_path, case):
    text, note = SEPARATORS[case]
    table = read_table(written(tmp_path, text))
    assert table.columns[0].tolist() == [1.0, 2.0]
    assert noted(table)[0] == note


COMMENTS = {
    "comments": ("# made by hand, twice, or more\n#\n\na,b\n1,2\n", ("a", "b"), 2),
    "column names": ("# made by hand\n#a,b\n1,2\n", ("#a", "b"), 1),
    "column names only": ("#a,b\n1,2\n", ("#a", "b"), 0),
    "blanks": ("# made by me\na b\n1 2\n3 4\n", ("a", "b"), 1),
    "after the separator": ("sep=;\n# x\na;b\n1;2\n", ("a", "b"), 1),
}


@pytest.mark.parametrize("case", COMMENTS)
def test_comments_above_the_column_names_are_skipped_and_said(tmp_path, case):
    text, names, n_comments = COMMENTS[case]
    table = read_table(written(tmp_path, text))
    assert table.names == names
    assert table.columns[1][0] == 2.0
    lines = "1 line that begins with # was" if n_comments == 1 else f"{n_comments} lines that begin with # were"
    assert (f"{lines} skipped above the column names" in noted(table)) == (n_comments > 0)


def test_options_name_the_separator_and_the_format(tmp_path):
    path = written(tmp_path, "a:b\n1:2\n", "table.csv")
    assert read_table(path, sep=":")["b"].tolist() == [2.0]
    for sep, message in (("::", "must be one character"), ("", "must be one character")):
        with pytest.raises(TableError, match=message):
            read_table(path, sep=sep)
    assert read_table(written(tmp_path, "1 1:2\n-1 1:3\n", "t.csv"), format="svmlight").sparse.shape == (2, 2)
    assert read_table(written(tmp_path, gzip.compress(b"a,b\n1,2\n"), "table"), format="csv")["b"].tolist() == [2.0]
    with pytest.raises(TableError, match=r"sep= is for other tables, but .* is read as svmlight"):
        read_table(written(tmp_path, "1 1:2\n", "t.svm"), sep=",")
    assert read_table(written(tmp_path, "a,b\n1;2,x\n", "t.tsv"), na="x")["a"].tolist() == ["1;2"]
    with pytest.raises(TableError, match="format='ods' must be csv, tsv, parquet, svmlight, excel, fasta or fastq"):
        read_table(path, format="ods")


@pytest.mark.parametrize(
    "name", ["a9a", "a9a.t", "iris.scale", "iris.scale.bz2", "mnist.scale.t.xz", "t.txt", "a9a.gz"]
)
def test_files_of_libsvm_are_known_by_their_lines(tmp_path, name):
    data = b"# made by hand\n+1 1:2 3:4.5\n-1\n1 2:1 # comment\n"
    pack = {"bz2": bz2.compress, "gz": gzip.compress, "xz": lzma.compress}.get(name.rpartition(".")[2], bytes)
    table = read_table(written(tmp_path, pack(data), name))
    assert table["label"].tolist() == [1.0, -1.0, 1.0]
    assert table.sparse.toarray().tolist() == [[0, 2, 0, 4.5], [0, 0, 0, 0], [0, 0, 1, 0]]
    first, *unpacked = noted(table)
    assert first == "By its first lines, the file is LIBSVM's format (svmlight)"
    assert len(unpacked) == (pack is not bytes)


def test_text_with_another_ending_is_read_if_its_rows_agree(tmp_path):
    table = read_table(written(tmp_path, "a\tb\n1\tx\n2\ty\n", "export.xls"))
    assert table["b"].tolist() == ["x", "y"]
    assert noted(table) == ["By its first lines, the file is delimited text", "Cells are separated by tabs"]


def workbook(folder, *sheets, name="t.xlsx"):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(folder / name)
    return folder / name


def test_an_excel_workbook(tmp_path):
    day = datetime.datetime(2024, 1, 31)
    rows = [
        ["x", None, "words", "day", "flag", "percent"],
        [],
        [1.5, 1, "a", day, True, "63%"],
        [None, 2, "#N/A", day + datetime.timedelta(hours=10), False, "5%"],
        [2**40, None, None, None, None, None],
    ]
    table = read_table(workbook(tmp_path, ("empty", []), ("data", rows), ("other", [["a"], [1]])))
    assert table.names == ("x", "unnamed_2", "words", "day", "flag", "percent")
    np.testing.assert_array_equal(table["x"], [1.5, np.nan, 2.0**40])
    assert table["words"].tolist() == ["a", None, None]
    assert table["day"].tolist() == ["2024-01-31", "2024-01-31 10:00:00", None]
    assert table["flag"].tolist() == ["True", "False", None]
    np.testing.assert_array_equal(table["percent"], [63.0, 5.0, np.nan])
    np.testing.assert_array_equal(table["unnamed_2"], [1.0, 2.0, np.nan])
    assert noted(table)[0] == "The table is sheet 'data' of an Excel workbook, and 1 more with cells was not read"
    assert read_table(tmp_path / "t.xlsx", text_columns={"x"})["x"].tolist() == ["1.5", None, str(2**40)]
    assert np.isnan(read_table(tmp_path / "t.xlsx", na=["1.5"])["x"][0])


@pytest.mark.parametrize("asked", ["2024", 3, "3"])
def test_a_sheet_is_asked_for_by_name_or_number(tmp_path, asked):
    path = workbook(tmp_path, ("empty", []), ("data", [["a"], [1]]), ("2024", [["b"], [2]]))
    table = read_table(path, sheet=asked)
    assert (table.names, table["b"].tolist()) == (("b",), [2.0])
    assert noted(table) == ["The table is sheet '2024' of an Excel workbook, and 1 more with cells was not read"]
    for sheet, message in (
        ("2025", "has no sheet '2025'"),
        (0, "has no sheet 0"),
        ("empty", "'empty' .* has no cells"),
    ):
        with pytest.raises(TableError, match=message) as caught:
            read_table(path, sheet=sheet)
        assert "'data' and '2024'" in caught.value.hint
    with pytest.raises(TableError, match=r"sheet= is for other tables, but .* is read as csv"):
        read_table(written(tmp_path, "a,b\n1,2\n"), sheet="data")


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_that_a_file_was_unpacked_is_said(tmp_path, ending):
    module, name = {"gz": (gzip, "gzip"), "bz2": (bz2, "bzip2"), "xz": (lzma, "xz")}[ending]
    packed = read_table(written(tmp_path, module.compress(b"a,b\n1,2\n"), f"t.csv.{ending}"))
    assert noted(packed) == [f"The file was unpacked while it was read ({name})"]


@pytest.mark.parametrize(
    ("decimal", "text", "cell"),
    [
        (",", 'a,b\n"x\ny",1\n\n\nz,12.5\n', "row 2 of 'b' holds '12.5' in line 6"),
        (".", "# made by hand\na;b\n1;2\n3;1,5\n", "row 2 of 'b' holds '1,5' in line 4"),
        (",", "a;b\n1,5;2.330\n2,5;1.5\n", "row 2 of 'b' holds '1.5' in line 3"),
        (".", "a;b\n1.928;2\n", None),
    ],
)
def test_a_cell_that_contradicts_the_decimal_mark_asked_for_is_named(tmp_path, decimal, text, cell):
    path = written(tmp_path, text)
    if cell is None:
        assert read_table(path, decimal=decimal).reading.decimal == decimal
        return
    with pytest.raises(TableError) as caught:
        read_table(path, decimal=decimal)
    assert cell in str(caught.value)
    assert "text_columns={'b'}" in caught.value.hint


def test_a_point_before_three_digits_is_said_unless_other_cells_tell(tmp_path):
    (note,) = read_table(written(tmp_path, "a,b\n1.234,x\n12.500,y\n")).reading.notes
    assert note.text == "Numbers such as '1.234' in column 'a' are read with decimal points, as 1.234"
    assert note.remedy == "decimal=',' takes the points for thousands marks, as in 1234"
    assert read_table(written(tmp_path, "a,b\n1.234,0.5\n"), decimal=",", text_columns={"b"})["a"].tolist() == [1234.0]
    assert noted(read_table(written(tmp_path, "a,b\n1.234,0.5\n"))) == []


BAD_WORKBOOKS = {
    "empty": ([], "is empty"),
    "header only": ([["a", "b"]], "has column names only, and no rows"),
    "title": ([["Patients of 2026"], ["a", "b"], [1, 2]], "has 1 cell in its first row"),
    "no names": ([[1, 2], [3, 4]], "holds 2 numbers where column names belong"),
    "formula": ([["a", "b"], [1, "=A2*2"]], "has a formula without a value, '=A2*2', in column 2 of its row 2"),
}


@pytest.mark.parametrize("case", BAD_WORKBOOKS)
def test_a_workbook_that_is_no_table_is_refused(tmp_path, case):
    rows, message = BAD_WORKBOOKS[case]
    with pytest.raises(TableError) as caught:
        read_table(workbook(tmp_path, ("s", rows)))
    assert message in str(caught.value)


def test_archives_are_called_what_they_are(tmp_path):
    book = workbook(tmp_path, ("s", [["a", "b"], [1, 2]])).read_bytes()
    with pytest.raises(TableError, match="it is an Excel workbook"):
        read_table(written(tmp_path, book, "t.csv"))
    assert read_table(written(tmp_path, book, "book"))["b"].tolist() == [2.0]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("t.csv", "a,b\n1,2\n")
    for name in ("u.csv", "u.zip"):
        with pytest.raises(TableError, match=r"it is a zip archive \(of t.csv\)"):
            read_table(written(tmp_path, packed.getvalue(), name))


CELLS = st.sampled_from(
    [
        "1.928",
        "1,928",
        "0.5",
        "0,5",
        "12",
        "7",
        "1.234.567",
        "63%",
        "$5",
        "NA",
        "-",
        "?",
        "",
        "Na",
        "x",
        "2024-01-31",
        "007",
    ]
)


@settings(max_examples=50, deadline=None)
@given(
    columns=st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=3, max_size=3),
    rows=st.permutations(range(4)),
    order=st.permutations(range(3)),
)
def test_the_order_of_rows_and_columns_changes_no_value(columns, rows, order, tmp_path_factory):
    folder = tmp_path_factory.mktemp("orders")

    def read(columns):
        lines = [";".join(f"c{j}" for j in range(3))] + [";".join(row) for row in zip(*columns, strict=True)]
        try:
            return read_table(written(folder, "\n".join(lines) + "\n"), sep=";").columns
        except TableError:
            return None

    table = read(columns)
    other = read([[columns[j][i] for i in rows] for j in order])
    assert (table is None) == (other is None)
    if table is not None:
        for j, column in zip(order, other, strict=True):
            assert list(map(str, table[j][list(rows)])) == list(map(str, column))


@pytest.mark.parametrize("dtype", ["int64", "Int64", "int64[pyarrow]"])
def test_classes_of_an_estimator_are_exact_integers(dtype):
    y = pd.Series([2**53, 2**53 + 1, -(2**60)] * 10, dtype=dtype)
    machine = SVC(C=1e6).fit(np.column_stack([np.arange(30) % 3, np.arange(30)]), y)
    assert machine.classes_.tolist() == [-(2**60), 2**53, 2**53 + 1]
    assert machine.predict([[1, 1]]).tolist() == [2**53 + 1]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a,b\n1,x\n2,y\n", [2, 3]),
        ("a,b\r\n1,x\r\n2,y", [2, 3]),
        ("\n# made by hand\na,b\n1,x\n2,y\n", [4, 5]),
        ('a,b\n1,"x\nz"\n\n2,y\n3,w\n', [2, 5, 6]),
        ("sep=;\na;b\n1;x\n2;y\n", [3, 4]),
        ('a,b\r1,"x\nz"\r2,y\r\n\r3,w\n', [2, 4, 6]),
    ],
)
def test_the_line_of_each_row_is_known(tmp_path, text, lines):
    (tmp_path / "t.csv").write_bytes(text.encode())
    table = read_table(tmp_path / "t.csv")
    assert table.line_numbers(range(table.n_rows)) == lines
    assert table.take(np.array([1])).select(["b"]).line_numbers([0]) == lines[1:2]
    assert as_table(pd.DataFrame({"a": [1.0]})).line_numbers([0]) is None
