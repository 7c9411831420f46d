"""Encoding of tables as matrices, and the choice of columns."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from generated import mixed_frame, with_missing
from mercer.data.frames import as_table
from mercer.data.table import Table, TableError, TableWarning
from mercer.studies.tables.column_checks import identifier_columns
from mercer.studies.tables.columns import choose_columns
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.missing import complete_rows
from mercer.studies.tables.prediction_kind import class_codes
from mercer.studies.tables.target import read_target


def text(*cells):
    return np.array(cells, dtype=object)


def table_of(**columns):
    return Table(tuple(columns), tuple(np.asarray(column) for column in columns.values()))


def encoded(table, target, task="auto", **options):
    return choose_columns(table, read_target(table, target, task), **options)


def test_numbers_are_imputed_by_the_median_and_standardised():
    encoder = TableEncoder(missing="impute").fit(table_of(x=[1.0, np.nan, 3.0, 8.0]))
    (rule,) = encoder.rules_
    assert (rule.fill, rule.n_missing) == (3.0, 1)
    filled = np.array([1.0, 3.0, 3.0, 8.0])
    assert rule.mean == pytest.approx(filled.mean())
    assert rule.scale == pytest.approx(filled.std())
    new = encoder.transform(table_of(x=[np.nan, 100.0]))
    np.testing.assert_allclose(new[:, 0], (np.array([3.0, 100.0]) - filled.mean()) / filled.std())


def test_text_becomes_indicators_most_frequent_first():
    encoder = TableEncoder(missing="impute").fit(table_of(t=text("b", "a", "b", *"b" * 20, None, "c")))
    assert encoder.feature_names_ == ("t=b", "t=a", "t=c")
    new = encoder.transform(table_of(t=text("c", None, "never seen", "a")))
    np.testing.assert_array_equal(new, [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0]])


def test_each_of_many_levels_has_an_indicator_unless_there_are_more_than_max_levels():
    levels = [f"level {k:03d}" for k in range(80)]
    table = table_of(x=np.arange(110.0), t=text(*(levels + levels[:30])))
    encoded = TableEncoder().fit(table).transform(table)
    assert sparse.issparse(encoded)
    assert encoded.shape == (110, 81)
    np.testing.assert_array_equal(encoded[:, 1:].toarray(), np.vstack([np.eye(80), np.eye(80)[:30]]))
    (_, rule) = TableEncoder(max_levels=50).fit(table).rules_
    assert (len(rule.levels), rule.n_levels) == (50, 80)
    assert set(levels[:30]) <= set(rule.levels)
    assert TableEncoder(max_levels=2).fit(table).transform(table).shape == (110, 3)


def test_cells_that_are_often_missing_are_marked_in_a_column_of_their_own():
    table = table_of(x=[1.0, np.nan, 3.0, 8.0], t=text("a", None, "b", "a"))
    encoder = TableEncoder(missing="impute").fit(table)
    assert encoder.feature_names_ == ("x", "x is missing", "t=a", "t=b", "t is missing")
    encoded = encoder.transform(table_of(x=[np.nan, 1.0], t=text(None, "b")))
    np.testing.assert_array_equal(encoded[:, 1:], [[1, 0, 0, 1], [0, 0, 1, 0]])
    rare = table_of(x=[*range(20), np.nan], t=text(*"ab" * 10, None))
    assert TableEncoder(missing="impute").fit(rare).feature_names_ == ("x", "t=a", "t=b")


def test_constant_and_empty_columns_are_left_out_and_named():
    table = table_of(a=[1.0, 1.0, np.nan], b=text("x", "x", None), c=[np.nan] * 3, d=[1.0, 2.0, 3.0])
    encoder = TableEncoder(missing="impute").fit(table)
    assert encoder.constant_ == ("a", "b", "c")
    assert encoder.feature_names_ == ("d",)
    with pytest.raises(TableError, match="no column varies from row to row"):
        TableEncoder(missing="impute").fit(table.without(["d"]))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_columns_of_any_size_are_standardised(scale):
    x = np.array([1.0, 2.0, 4.0, 9.0])
    encoded = TableEncoder().fit(table_of(x=x * scale)).transform(table_of(x=x * scale))
    np.testing.assert_allclose(encoded[:, 0], (x - x.mean()) / x.std(), rtol=1e-9)


def test_what_is_learnt_comes_from_the_rows_of_fit_alone():
    table = as_table(with_missing(mixed_frame()))
    train = np.arange(60)
    first = TableEncoder(missing="impute").fit(table.take(train))
    changed = Table(
        table.names,
        tuple(np.concatenate([column[:60], np.roll(column[60:], 7)]) for column in table.columns),
    )
    second = TableEncoder(missing="impute").fit(changed.take(train))
    assert first.to_dict() == second.to_dict()


def test_a_sparse_block_stays_sparse_and_is_divided_by_one_number():
    block = sparse.random_array((40, 200), density=0.05, format="csr", random_state=0)
    encoder = TableEncoder().fit(Table((), (), block))
    encoded = encoder.transform(Table((), (), block[:, :150].tocsr()))
    assert encoded.shape == (40, 200)
    assert np.mean(sparse.linalg.norm(encoder.transform(Table((), (), block)), axis=1) ** 2) == pytest.approx(1.0)
    longer = sparse.csr_array(([1.0, 2.0, 3.0], ([0, 1, 1], [0, 199, 299])), shape=(3, 300))
    np.testing.assert_array_equal(
        encoder.transform(Table((), (), longer)).toarray(), encoder.transform(Table((), (), longer[:, :200])).toarray()
    )
    assert encoder.describe_unseen(Table((), (), longer)) == [
        "features beyond number 199 occur in 1 of 3 rows, which the model does not know from training; they are not "
        "used"
    ]
    with pytest.raises(TableError, match="the model was trained on a sparse table with features up to number 199"):
        encoder.transform(table_of(x=[1.0]))


@pytest.mark.full
def test_a_block_that_no_model_file_could_hold_is_refused():
    wide = Table((), (), sparse.csr_array(([1.0, 2.0], ([0, 1], [0, 10**8])), shape=(2, 10**8 + 1)))
    for encode in (TableEncoder().fit, TableEncoder.identity):
        with pytest.raises(ValueError, match="a sparse block must have 1 to 100000000 columns, got 100000001"):
            encode(wide)


def test_a_block_counted_from_one_has_no_column_0():
    block = sparse.csr_array(np.column_stack([np.zeros(4), np.arange(4.0) + 1, np.ones(4)]))
    assert TableEncoder().fit(Table((), (), block)).constant_ == ("2",)
    block = sparse.csr_array(np.column_stack([np.ones(4), np.arange(4.0) + 1]))
    assert TableEncoder().fit(Table((), (), block)).constant_ == ("0",)


def test_a_block_with_few_zeros_is_treated_as_columns():
    block = sparse.csr_array(np.random.default_rng(0).standard_normal((30, 4)) * [0, 1, 10, 100])
    encoder = TableEncoder().fit(Table((), (), block))
    assert encoder.feature_names_ == ("1", "2", "3")
    np.testing.assert_allclose(encoder.transform(Table((), (), block)).std(axis=0), 1.0)
    narrow = encoder.transform(Table((), (), block[:5, :3].tocsr()))
    assert narrow.shape == (5, 3)
    longer = sparse.csr_array(np.ones((2, 9)))
    np.testing.assert_array_equal(
        encoder.transform(Table((), (), longer)), encoder.transform(Table((), (), longer[:, :4]))
    )
    assert "features beyond number 3 occur in 2 of 2 rows" in encoder.describe_unseen(Table((), (), longer))[0]


def test_the_width_of_a_block_is_that_of_the_rows_learnt_from():
    block = sparse.random_array((40, 200), density=0.05, format="csr", random_state=0)
    table = Table((), (), block)
    wide = Table((), (), sparse.csr_array((block.data, block.indices, block.indptr), (40, 10**6)))
    assert TableEncoder().fit(wide).to_dict() == TableEncoder().fit(table).to_dict()


def test_a_sparse_cell_too_large_to_compute_with():
    block = sparse.random_array((40, 200), density=0.05, format="csr", random_state=0)
    huge = sparse.csr_array(([1.0, 1e308], ([0, 2], [1, 7])), shape=(3, 200))
    with pytest.raises(TableError, match=r"feature 7 is 1e\+308 in row 3, which is too large to compute with"):
        TableEncoder().fit(Table((), (), block)).transform(Table((), (), huge))


BAD_ROWS = {
    "missing": (
        dict(x=[1.0, np.nan], t=text("a", None)),
        r"missing values in 'x' \(1\), 't' \(1\), first in row 2 \(counted from 1\)",
    ),
    "text for numbers": (
        dict(x=text("1.5", "abc"), t=text("a", "b")),
        "column 'x' must hold numbers, as it did in training, but row 2 holds 'abc'",
    ),
    "infinite": (dict(x=[np.inf, 1.0], t=text("a", "b")), r"infinite values in 'x' \(row 1\)"),
    "infinite text": (dict(x=text("inf", "1"), t=text("a", "b")), "column 'x' holds inf in row 1, which is too large"),
    "huge": (
        dict(x=[1.0, 1e308], t=text("a", "b")),
        r"column 'x' holds 1e\+308 in row 2, which is too large to compute",
    ),
    "absent": (dict(X=[1.0, 2.0], t=text("a", "b")), "the table lacks 1 of the 2 columns that the model needs: 'x'"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_do_not_fit_the_model(case):
    encoder = TableEncoder().fit(table_of(x=[1.0, 2.0, 3.0], t=text("a", "b", "a")))
    columns, message = BAD_ROWS[case]
    with pytest.raises(TableError, match=message) as caught:
        encoder.transform(table_of(**columns))
    if case == "absent":
        assert caught.value.hint == "it does have 'X'"


def test_a_different_table_gets_no_suggestion_of_columns():
    encoder = TableEncoder().fit(table_of(alcohol=[1.0, 2.0, 3.0], ash=[1.0, 2.0, 4.0]))
    with pytest.raises(
        TableError, match="lacks 2 of the 2 columns that the model needs: 'alcohol' and 'ash'"
    ) as caught:
        encoder.transform(table_of(Chol=[1.0, 2.0], AHD=[1.0, 2.0]))
    assert caught.value.hint is None


def test_numbers_written_as_text_and_text_written_as_numbers_are_understood():
    encoder = TableEncoder().fit(table_of(x=[1.0, 2.0, 3.0], t=text("1", "2", "x")))
    encoded = encoder.transform(table_of(x=text("1", "2", "3"), t=[1.0, 2.0, 7.0]))
    np.testing.assert_array_equal(encoded[:, 1:], [[1, 0, 0], [0, 1, 0], [0, 0, 0]])
    np.testing.assert_allclose(encoded[:, 0].mean(), 0.0, atol=1e-15)


def test_missing_cells_at_fit_say_how_to_fill_them_in():
    with pytest.raises(TableError, match=r"missing values in 'x' \(1\), first in row 2 \(counted from 1\)") as caught:
        TableEncoder().fit(table_of(x=[1.0, np.nan, 2.0]))
    assert 'missing="impute" fills them in' in caught.value.hint


def test_bad_settings():
    with pytest.raises(ValueError, match="missing must be one of 'error', 'impute', got 'guess'"):
        TableEncoder(missing="guess")
    with pytest.raises(TableError, match="all sparse features are zero"):
        TableEncoder().fit(Table((), (), sparse.csr_array((3, 40))))
    bad = sparse.csr_array(([1.0, np.nan], ([0, 2], [1, 1])), shape=(3, 40))
    with pytest.raises(TableError, match="the sparse features hold NaN or infinity in row 3"):
        TableEncoder().fit(Table((), (), bad))


@pytest.mark.parametrize(
    "table",
    [
        as_table(with_missing(mixed_frame())),
        Table((), (), sparse.random_array((40, 200), density=0.05, format="csr", random_state=0)),
        Table((), (), sparse.csr_array(np.random.default_rng(0).standard_normal((30, 4)))),
    ],
    ids=["mixed", "sparse", "dense block"],
)
def test_an_encoder_survives_json(table):
    encoder = TableEncoder(missing="impute").fit(table)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again.to_dict() == encoder.to_dict()
    difference = again.transform(table) - encoder.transform(table)
    assert abs(difference).max() == 0.0
    assert again.feature_names_ == encoder.feature_names_
    assert len(again.feature_names_) == again.n_features_ == difference.shape[1]


def test_class_codes():
    classes, codes = class_codes(np.array([2.0, 0.0, 2.0]))
    assert (classes.tolist(), codes.tolist()) == ([0, 2], [1, 0, 1])
    assert classes.dtype == np.int64
    classes, codes = class_codes(np.array([0.5, 0.25]))
    assert (classes.tolist(), codes.tolist()) == (["0.25", "0.5"], [1, 0])
    assert class_codes(text("b", "a"))[0].tolist() == ["a", "b"]


def test_complete_rows():
    table = as_table(pd.DataFrame({"x": [1, None, 3], "t": ["a", "b", None]}))
    assert complete_rows(table).tolist() == [0]


N = 40
IDENTIFIERS = {
    "counts up": ("x", np.arange(N) + 1.0, "counts 1, 2, 3"),
    "counts down in tens": ("x", -10.0 * np.arange(N), "counts 0, -10, -20"),
    "text of its own": ("x", text(*(f"patient {k}" for k in range(N))), "every row has its own text"),
    "shuffled numbers called id": ("patient_id", np.random.default_rng(0).permutation(N) + 0.0, "called like"),
    "camel case": ("PatientID", np.random.default_rng(0).permutation(N) + 0.0, "called like"),
    "unnamed": ("Unnamed: 0", np.random.default_rng(0).permutation(N) + 0.0, "called like"),
}


@pytest.mark.parametrize("case", IDENTIFIERS)
def test_row_identifiers_are_found(case):
    name, column, reason = IDENTIFIERS[case]
    identifiers = identifier_columns(Table((name,), (column,)))
    assert reason in identifiers[name]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("rank", np.random.default_rng(0).permutation(N) + 0.0),
        ("id", np.arange(N) // 2 + 0.0),
        ("time", np.linspace(0, 1, N)),
        ("x", np.arange(N) ** 2.0),
        ("site", text(*(["a", "b"] * (N // 2)))),
        ("id", np.append(np.arange(N - 1.0), np.nan)),
        ("constant", np.zeros(N)),
    ],
)
def test_columns_that_only_resemble_identifiers_are_kept(name, column):
    assert identifier_columns(Table((name,), (column,))) == {}


def test_nearly_distinct_text_is_an_identifier_and_short_tables_have_none():
    names = [f"name {k}" for k in range(98)] + ["name 0", "name 1"]
    identifiers = identifier_columns(table_of(name=text(*names)))
    assert identifiers["name"] == (
        "nearly every row has its own text (98 different ones in 100 rows), of the shape 'a 9' (100)"
    )
    identifiers = identifier_columns(table_of(due=text(*(f"{k}.50-" if k < 98 else f"{k}.50" for k in range(100)))))
    assert identifiers["due"] == "every row has its own text, of the shape '9.9-' (98), '9.9' (2)"
    assert identifier_columns(table_of(id=np.arange(9.0))) == {}


def test_column_choice_of_a_mixed_table():
    frame = with_missing(mixed_frame(), ("age", "outcome"))
    frame["empty"] = None
    with pytest.warns(
        TableWarning, match="5 of 120 rows were left out because the target 'outcome' is missing there: "
    ):
        column_choice = encoded(as_table(frame), "outcome", drop=["dose"], missing="impute")
    assert column_choice.features == ("age", "site", "smoker", "unit")
    assert column_choice.left_out == {
        "dose": "as asked",
        "row": "looks like a row identifier: it counts 1, 2, 3, ... down the table",
        "empty": "every cell is missing",
    }
    assert column_choice.rows_dropped == {"target 'outcome' missing": 5}
    assert len(column_choice.rows) == 115
    assert column_choice.truth.names == ["ill", "well"]
    assert column_choice.truth.counts.sum() == 115
    frame = with_missing(mixed_frame())
    assert "row" in encoded(as_table(frame), "outcome", keep=["row"], missing="impute").features


def test_rows_with_missing_cells_can_be_dropped():
    frame = with_missing(mixed_frame())
    column_choice = encoded(as_table(frame), "outcome", missing="drop")
    assert column_choice.missing == "drop"
    assert column_choice.missing_cells == {"age": 5, "site": 5}
    assert len(column_choice.rows) == frame.dropna().shape[0]
    assert column_choice.rows_dropped == {"cells missing": 120 - len(column_choice.rows)}
    assert str(column_choice.notes[0]).startswith(
        "Because of missing values in 'age' (5), 'site' (5), 10 of 120 rows were left out; missing=impute fills"
    )
    assert encoded(as_table(mixed_frame()), "outcome", missing="drop").notes == []


REFUSED = {
    "no such target": (dict(target="outcom"), "there is no column 'outcom'", "did you mean 'outcome'?"),
    "missing cells": (
        dict(missing="error"),
        "missing values in 'age' (5), 'site' (5)",
        "missing=impute fills them in",
    ),
    "regression of text": (
        dict(task="regression"),
        "the target 'outcome' must hold numbers for regression, but row 1 holds '",
        "say task=classification",
    ),
    "constant": (
        dict(target="unit", missing="impute"),
        "must have at least two classes, but is 'mg' in every row",
        None,
    ),
    "dropped target": (dict(drop=["outcome"]), "the target 'outcome' cannot be dropped", None),
    "dropped stranger": (dict(drop=["dos"]), "there is no column 'dos'", "did you mean 'dose'?"),
    "nothing left": (
        dict(drop=["age", "dose", "site", "smoker", "unit"]),
        "no column is left to learn from: 'age' as asked; 'dose' as asked",
        "keep=row uses the column all the same",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tables_that_cannot_be_studied(case):
    options, message, hint = REFUSED[case]
    options = dict(options)
    target = options.pop("target", "outcome")
    with pytest.raises(TableError) as caught:
        encoded(as_table(with_missing(mixed_frame())), target, **options)
    assert message in str(caught.value)
    assert (hint is None) == (caught.value.hint is None)
    assert hint is None or hint in caught.value.hint


def test_a_target_of_numbers_with_limits_names_the_faulty_cells():
    cells = text(*(f"{k}.5" if k % 9 else "<1.0" for k in range(60)))
    message = r"holds numbers in 53 of 60 cells, and other text: '<1.0' in row 1, '<1.0' in row 10"
    with pytest.raises(TableError, match=message) as caught:
        encoded(table_of(x=np.sin(np.arange(60.0)), y=cells), "y")
    assert "limits=value reads" in caught.value.hint
    assert "na=['<1.0'] leaves their rows out" in caught.value.hint


def test_a_target_of_many_texts_is_refused_unless_requested():
    days = [f"2020-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(100)]
    dated = table_of(x=np.sin(np.arange(100.0)), y=text(*days))
    with pytest.raises(
        TableError, match=r"holds 84 different texts in 100 rows, such as '2020-01-01',.* dates"
    ) as caught:
        encoded(dated, "y")
    assert "if these are names of classes, say task=classification" in caught.value.hint
    assert len(encoded(dated, "y", task="classification").truth.names) == 84
    with pytest.raises(TableError, match="holds 12 different texts in 12 rows"):
        encoded(table_of(x=np.sin(np.arange(12.0)), y=text(*"abcdefghijkl")), "y")
    assert len(encoded(table_of(x=np.sin(np.arange(60.0)), y=text(*"abcdefghijkl" * 5)), "y").truth.names) == 12


@pytest.mark.parametrize("unit", [" km", "k", "-", " mg/dl"])
def test_numbers_with_a_unit_cause_a_warning(unit):
    cells = [f"{3 * k + 1}{unit}" for k in range(30)]
    table = table_of(p=text(*cells), x=np.sin(np.arange(30.0)), y=text(*"ab" * 15))
    with pytest.warns(TableWarning, match=rf"30 of its 30 cells look like numbers: row 1 holds '1{unit}'; write plain"):
        encoded(table, "y")
    names = table_of(p=text(*[f"{k}{'abcdefghij'[k % 10]}" for k in range(30)]), x=table["x"], y=table["y"])
    encoded(names, "y")  # codes, and no warning
    encoded(table_of(p=text(*["5 mg", "10 mg", "20 mg"] * 10), x=table["x"], y=table["y"]), "y")  # few doses


@pytest.mark.parametrize(
    "cells", [["12%", "3.5%", "40%"], ["1,234", "5", "17"], ["<0.1", "0.2", "0.3"], ["$5", "$1'200", "x"]]
)
def test_text_that_looks_like_numbers_causes_a_warning(cells):
    table = table_of(p=text(*cells * 10), x=np.sin(np.arange(30.0)), y=text(*"ab" * 15))
    first = "x" if "x" in cells else next(cell for cell in cells if not cell.isdigit())
    with pytest.warns(
        TableWarning, match=r"column 'p' is read as text, although .*look like numbers: row . holds"
    ) as seen:
        encoded(table, "y")
    assert repr(first) in str(seen[0].message)
    encoded(table, "y", drop=["p"])


def test_numbers_that_a_frame_holds_as_text_cause_a_warning():
    table = table_of(p=text(*(str(k / 4) for k in range(60))), x=np.sin(np.arange(60.0)), y=text(*"ab" * 30))
    with pytest.warns(
        TableWarning, match="column 'p' is read as text, although 60 of its 60 .*; convert them to numbers"
    ):
        encoded(table, "y")


@pytest.mark.parametrize(
    "cells",
    [
        *(["18-25", "26-40"], ["3rd", "1st"], ["1-2-10", "1-3-11"], ["A1", "B2"], ["<18", "18-25"], ["0", "12A"]),
        *(
            [f"192.168.{k}.7" for k in range(20)],
            [f"1.{k}.2" for k in range(20)],
            [f"{k % 5}{'ABC'[k % 3]}" for k in range(20)],
        ),
    ],
    ids=lambda cells: cells[0],
)
def test_text_that_is_no_number_stays_text(cells):
    n = 20 * len(cells)  # a warning would be an error
    column_choice = encoded(table_of(p=text(*cells * 20), y=text(*"aabb" * (n // 4))), "y")
    assert (column_choice.features, column_choice.left_out) == (("p",), {})


def test_infinite_cells_are_named_by_row_and_column():
    frame = mixed_frame()
    frame.loc[[4, 9], "dose"] = np.inf, -np.inf
    frame.loc[7, "age"] = np.inf
    frame.loc[:1, "outcome"] = None
    with pytest.raises(TableError, match=r"infinite values in 'age' \(row 8\), 'dose' \(rows 5, 10\)"):
        encoded(as_table(frame), "outcome")


def test_an_infinite_target_is_no_class():
    with pytest.raises(TableError, match=r"infinite values in 'y' \(row 2\)"):
        encoded(table_of(x=[1.0, 2.0, 3.0], y=[0.0, np.inf, 1.0]), "y")


def test_unseen_categories_are_counted():
    encoder = TableEncoder().fit(table_of(x=[1.0, 2.0, 3.0], t=text("a", "b", "a")))
    assert encoder.unseen(table_of(x=[1.0] * 4, t=text("b", "c", None, "c"))) == {"t": {"c": 2}}
    assert encoder.unseen(table_of(x=[1.0], t=text("a"))) == {}
    many = TableEncoder(max_levels=2).fit(table_of(t=text("a", "b", "c")))
    # The unknown level might be one of the rare levels that were not stored.
    assert many.unseen(table_of(t=text("d"))) == {}


def test_cells_that_are_missing_for_the_first_time_are_counted():
    encoder = TableEncoder(missing="impute").fit(
        table_of(x=[1.0, 2.0, 4.0], y=[1.0, np.nan, 2.0], t=text("a", "b", "a"))
    )
    assert encoder.describe_unseen(table_of(x=[np.nan, 2.0], y=[np.nan, 1.0], t=text(None, None))) == [
        "column 'x' is empty in 1 of 2 rows, and was in none in training; the median 2 stands in",
        "column 't' is empty in 2 of 2 rows, and was in none in training; the most frequent value 'a' stands in",
    ]


def test_empty_targets_and_only_targets():
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [None, None]})
    with pytest.raises(TableError, match="the target 'y' is missing in every row"):
        encoded(as_table(frame), "y")
    with pytest.raises(TableError, match="the target is the only column"):
        encoded(as_table(frame[["x"]]), "x")
    frame = pd.DataFrame({"x": [1.0, None], "z": [None, 1.0], "y": ["a", "b"]})
    with pytest.raises(TableError, match="no row is left: every row has a missing cell"):
        encoded(as_table(frame), "y", missing="drop")
    with pytest.raises(ValueError, match="task must be one of 'auto', 'classification', 'regression', got 'x'"):
        encoded(as_table(frame), "y", task="x")
    smallest = mixed_frame()["dose"].min()
    assert encoded(as_table(mixed_frame()), "dose", task="classification").truth.names[0] == f"{smallest}"
