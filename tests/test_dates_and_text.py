"""Columns of dates and of free text: how they are recognised, encoded, said, and kept in a model file."""

import json
import random
import unicodedata
import warnings
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from generated import mixed_frame
from mercer import SVC
from mercer.data.frames import as_table
from mercer.data.table import Table, TableError, TableWarning
from mercer.studies.models import fit_model, load_model, save_model, verify
from mercer.studies.protocol import study
from mercer.studies.tables.columns import choose_columns
from mercer.studies.tables.dates import read_date
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.free_text import WORD, TextRule
from mercer.studies.tables.kinds import find_kinds
from mercer.studies.tables.target import read_target
from mercer.studies.tables.times import times_of

WORDS = [
    *("the", "cheap", "offer", "free", "call", "now", "please", "bring", "milk", "home", "tonight", "dear", "prize"),
    *("winner", "claim", "lunch"),
]


def text(*cells):
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def chosen(cells, **options):
    """The choice of columns of a table of one column x beside a target of two classes."""
    table = Table(("x", "y"), (text(*cells), text(*("ab" * len(cells))[: len(cells)])))
    return choose_columns(table, read_target(table, "y"), **options)


def texts(n, seed=0):
    """Different texts of four to nine words."""
    rng = random.Random(seed)
    made = {" ".join(rng.choices(WORDS, k=rng.randint(4, 9))) for _ in range(2 * n)}
    return sorted(made)[:n]


DATES = {
    "2024-01-31": date(2024, 1, 31),
    "2024/1/31": date(2024, 1, 31),
    "31.01.2024": date(2024, 1, 31),
    "1/31/24": date(2024, 1, 31),
    "1/31/1969 11:59 PM": datetime(1969, 1, 31, 23, 59),
    "31 Jan 2024": date(2024, 1, 31),
    "31-january-99": date(1999, 1, 31),
    "January 31, 2024": date(2024, 1, 31),
    "Wed, 31 Jan 2024 08:00:00 +0130": datetime(2024, 1, 31, 6, 30),
    "2024-01-31T12:30:15.25Z": datetime(2024, 1, 31, 12, 30, 15, 250000),
    "2024-01-31 12:30": datetime(2024, 1, 31, 12, 30),
    "2024-02": date(2024, 2, 1),
    "20240131": date(2024, 1, 31),
    "Feb 2024": date(2024, 2, 1),
    "4:30 pm": time(16, 30, tzinfo=UTC),
    "31.01.24": date(2024, 1, 31),
    "31-01-99": date(1999, 1, 31),
    "31. J\u00e4nner 2024": date(2024, 1, 31),
    "Mittwoch, 6. M\u00e4rz 2024": date(2024, 3, 6),
    "1er ao\u00fbt 2024": date(2024, 8, 1),
    "3 de diciembre de 2024": date(2024, 12, 3),
    "15 gennaio 2024": date(2024, 1, 15),
    "2 de mar\u00e7o de 2024": date(2024, 3, 2),
    "17 mei 2024": date(2024, 5, 17),
    "5 pa\u017adziernika 2024": date(2024, 10, 5),
    "15MAR2024": date(2024, 3, 15),
    "2025Q3": date(2025, 7, 1),
    "Q1 2024": date(2024, 1, 1),
    "2024-W05": date(2024, 1, 29),
}


@pytest.mark.parametrize("cell", DATES)
def test_dates_are_read(cell):
    order = "mdy" if "/31/" in cell else "dmy"
    moment = read_date(f" {cell} ", order)
    if isinstance(moment, datetime):
        moment = (moment - moment.utcoffset()).replace(tzinfo=None)
    assert moment == DATES[cell]


@pytest.mark.parametrize(
    "cell",
    [
        "2024-02-30",
        "2024-13-01",
        "1-2-100",
        "quarter 1",
        "2024Q5",
        "31 Foo 2024",
        "Version 2024-01-31",
        "31.01.2024 25:00",
        "2024-01-31 13:00 pm",
        "20240132",
        "21240131",
        "",
        "3024-01",
        "31:45",
    ],
)
def test_cells_that_are_no_dates(cell):
    assert read_date(cell, "dmy") is None


def test_dates_become_their_parts():
    days = [f"{2019 + k % 4}-{1 + k % 12:02d}-{1 + k % 28:02d} {k % 24}:30" for k in range(200)] + [None]
    choice = chosen([*days, "1970-01-02"])
    assert choice.kinds == {"x": "ymd"}
    table = Table(("x",), (text(*days, "1970-01-02"),))
    encoder = choice.encoder().fit(table)
    assert encoder.feature_names_ == (
        "x: days", "x: year", "x: day", "x: month (sine)", "x: month (cosine)", "x: weekday (sine)",
        "x: weekday (cosine)", "x: hour (sine)", "x: hour (cosine)",
    )  # fmt: skip
    encoded = encoder.transform(table)
    np.testing.assert_allclose(encoded[:200, :3].mean(axis=0), 0.0, atol=0.2)
    np.testing.assert_allclose(np.hypot(encoded[:200, 3::2], encoded[:200, 4::2]), 1.0)
    np.testing.assert_array_equal(encoded[200], 0.0)
    parts = {part.part: part for part in encoder.rules_[0].parts}
    assert encoded[201, 0] * parts["days"].scale + parts["days"].mean == pytest.approx(1.0)
    assert encoded[201, 1] * parts["year"].scale + parts["year"].mean == pytest.approx(1970.0)
    np.testing.assert_allclose(encoded[201, 3:5], [0.0, 1.0], atol=1e-12)  # January
    np.testing.assert_allclose(encoded[201, 5:7], [np.sin(8 * np.pi / 7), np.cos(8 * np.pi / 7)])  # Friday
    np.testing.assert_array_equal(encoded[201, 7:], 0.0)  # no time of day


def test_parts_that_do_not_vary_are_left_out():
    encoder = TableEncoder(kinds={"x": "dmy"}).fit(Table(("x",), (text("2024-01-01", "2024-01-02"),)))
    assert [part.part for part in encoder.rules_[0].parts] == ["days", "day", "weekday"]
    encoder = TableEncoder(kinds={"x": "dmy"}).fit(Table(("x",), (text("06:00", "11:30 pm"),)))
    np.testing.assert_allclose(encoder.transform(Table(("x",), (text("18:00"),))), [[-1.0, 0.0]], atol=1e-12)
    encoder = TableEncoder(kinds={"x": "dmy"}).fit(Table(("x",), (text("2024-01-01", "2024-01-02"),)))
    with pytest.raises(TableError, match="column 'x' must hold dates, as it did in training, but row 2 holds 'soon'"):
        encoder.transform(Table(("x",), (text("2024-01-09", "soon"),)))


ORDERS = {
    "day first": (["3/4/2024", "30/4/2024"], None, "dmy", None),
    "month first": (["3/4/2024", "4/30/2024"], None, "mdy", None),
    "slashes": (
        ["3/4/2024", "5/4/2024"],
        None,
        "mdy",
        "dates such as '3/4/2024', which were read with the month first",
    ),
    "points": (["3.4.2024", "5.4.2024"], None, "dmy", "dates such as '3.4.2024', which were read with the day first"),
    "asked": (["3/4/2024", "5/4/2024"], "dmy", "dmy", None),
    "no choice": (["3/3/2024", "2024-03-05"], None, "ymd", None),
    "two digits of the year": (["03.04.24", "25.04.24"], None, "dmy", None),
}


@pytest.mark.parametrize("case", ORDERS)
def test_the_order_of_day_and_month_is_one_for_the_column_and_a_guess_is_said(case):
    cells, asked, order, said = ORDERS[case]
    choice = chosen([cell for cell in cells for _ in range(10)], date_order=asked)
    assert choice.kinds == {"x": order}
    notes = " ".join(map(str, choice.notes))
    assert notes.startswith(
        "Column 'x' holds dates or times: parts of them are used, such as year, weekday and hour; categorical=x"
    )
    assert ("date_order" in notes) == (said is not None)
    assert said is None or said in notes


def test_dates_that_contradict_each_other_or_are_none_are_refused_by_row():
    with pytest.raises(
        TableError, match="day first, such as '31/1/2024', and dates with the month first, such as '1/31/"
    ):
        chosen(["31/1/2024", "1/31/2024"] * 10)
    days = [f"2024-01-{1 + k % 28:02d}" for k in range(40)]
    days[7] = "unknown"
    with pytest.raises(
        TableError, match="column 'x' holds dates in 39 of 40 cells, but row 8 holds 'unknown'"
    ) as caught:
        chosen(days)
    assert "categorical=x" in caught.value.hint
    choice = chosen(days, categorical=["x"])
    assert (choice.kinds, choice.features) == ({"x": "categories"}, ("x",))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_types_of_time_in_a_data_frame(library):
    moments = [datetime(2024, 1, 1, 5, 30) + timedelta(hours=31 * k) for k in range(40)]
    columns = {"day": [one.date() for one in moments], "moment": moments, "clock": [one.time() for one in moments]}
    columns["duration"] = [*(one - moments[0] for one in moments[:39]), None]
    table = as_table(library(columns))
    assert find_kinds(table)[0] == dict.fromkeys(("day", "moment", "clock"), "ymd")
    np.testing.assert_array_equal(table["duration"], [*(31 * 3600.0 * k for k in range(39)), np.nan])


def test_a_date_of_two_readings_is_refused_if_no_date_of_training_tells():
    days = text(*(f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(60)), "0000-00-00")
    encoder = chosen(days).encoder().fit(Table(("x",), (days,)))
    assert np.isfinite(encoder.transform(Table(("x",), (text("25/1/2025", "0000-00-00"),)))).all()
    with pytest.raises(TableError, match="'1/5/2025' in row 2, which may be 2025-05-01 or 2025-01-05: no date of"):
        encoder.transform(Table(("x",), (text("2025-01-05", "1/5/2025"),)))


def test_versions_are_no_dates_unless_asked():
    versions = [f"{1 + k % 9}.{1 + k % 7}.{10 + k % 9}" for k in range(60)]
    assert chosen(versions * 3).kinds == {}
    assert chosen(versions * 3, dates=["x"]).kinds == {"x": "dmy"}


def test_numbers_that_may_be_dates_are_said_and_are_dates_if_asked():
    days = np.array([20240100.0 + k % 28 + 1 for k in range(40)])
    table = Table(("day 1", "y"), (days, text(*"ab" * 20)))
    choice = choose_columns(table, read_target(table, "y"))
    assert list(map(str, choice.notes)) == [
        "Column 'day 1' holds numbers such as 20240101, which may be dates: they were taken for numbers; dates='day 1' "
        "takes them for dates"
    ]
    table = table.as_text("day 1")
    choice = choose_columns(table, read_target(table, "y"), dates=["day 1"])
    assert (choice.kinds, choice.notes) == ({"day 1": "ymd"}, [])
    with pytest.raises(TableError, match="column 'x' holds dates in 0 of 40 cells, but row 1 holds 'soon'"):
        chosen(["soon", "later"] * 20, dates=["x"])


def test_the_order_of_rows_in_time_is_that_of_their_dates():
    cells = ["31.12.2023", "1.2.2024 08:00", "2024-01-01", "1 Feb 2024"]
    table = Table(("t",), (text(*cells),))
    assert np.argsort(times_of(table, "t")).tolist() == [0, 2, 3, 1]
    table = Table(("t",), (text("3/4/2024", "2/5/2024"),))
    assert np.argsort(times_of(table, "t", "dmy")).tolist() == [0, 1]
    assert np.argsort(times_of(table, "t", "mdy")).tolist() == [1, 0]
    with pytest.raises(TableError, match="such as '3/4/2024', whose day and month cannot be told apart"):
        times_of(table, "t")


@pytest.mark.parametrize("sealed", [0, 39])
def test_a_sealed_date_that_cannot_be_read_is_refused_and_decides_nothing(sealed):
    days = [f"{1 + k % 12}/{1 + k % 12}/2024" for k in range(40)]
    rows = np.delete(np.arange(40), sealed)
    days[sealed] = "30/4/2024"
    with pytest.raises(TableError, match=f"39 of 40 cells, but row {sealed + 1} holds '30/4/2024'"):
        chosen(["2/3/2024" if k == 5 else day for k, day in enumerate(days)], open_rows=rows)


def test_what_columns_hold_does_not_depend_on_the_order_of_rows_on_copies_or_on_names():
    days = [f"{1 + k % 12}/{1 + k % 9}/2024" for k in range(60)]
    columns = {
        "a": text(*texts(60)),
        "b": text(*days),
        "c": text(*(f"id {k}" for k in range(60))),
        "d": text(*"xyz" * 20),
    }
    table = Table(tuple(columns), tuple(columns.values()))
    kinds, notes = find_kinds(table)
    assert kinds == {"a": "text", "b": "mdy"}
    order = np.random.default_rng(0).permutation(60)
    for rows in (order, np.concatenate([order, np.arange(60)])):
        assert find_kinds(table.take(rows))[0] == kinds
    renamed = Table(("d", "b", "id", "text"), table.columns)
    assert find_kinds(renamed)[0] == {"d": "text", "b": "mdy"}
    assert len(notes) == 3


def test_a_study_learns_from_a_weekday(tmp_path):
    days = pd.date_range("2023-01-01", periods=240)
    frame = pd.DataFrame({"seen": days, "y": np.where(days.day_of_week >= 5, "busy", "quiet")})
    studied = study(frame, "y", n_folds=3)
    assert studied.svm.test.accuracy.value == 1.0
    save_model(tmp_path / "m.mercer", studied.model)
    loaded = load_model(tmp_path / "m.mercer")
    assert verify(loaded, frame).findings == ()
    later = pd.DataFrame({"seen": ["2024-06-01", "2024-06-03"]})
    assert loaded.predict(later).tolist() == ["busy", "quiet"]


FREE = {
    "messages": texts(200),
    "few messages": texts(30),
    "names with titles": [f"{title} {first} of {town}xy{k}" for k in range(40)
                          for title, first, town in [(["Mr", "Mrs", "Dr"][k % 3], "Kim", ["York", "Bath"][k % 2])]],
    "twice": texts(100) * 2,
    "Japanese": ["".join(random.Random(k).choices("今日天気良悪雨晴風強弱", k=7)) for k in range(60)],
}  # fmt: skip
NOT_FREE = {
    "identifiers": [f"patient {k} of ward {k % 7}" for k in range(60)],
    "codes": [f"code-{k % 60}" for k in range(120)],
    "few values": ["a long name of a value", "another long name of a value", "no long name here"] * 20,
    "repeated": texts(60) * 6,
    "uuid": [f"{random.Random(k).getrandbits(128):032x}" for k in range(80)],
    "surnames": [f"{chr(65 + k % 26)}{'aeiou'[k % 5]}lm{k}, Ann" for k in range(80)],
}


@pytest.mark.parametrize("case", [*FREE, *NOT_FREE])
def test_free_text_is_told_from_categories_and_identifiers(case):
    cells = (FREE | NOT_FREE)[case]
    choice = chosen(cells, keep=["x"])
    assert choice.kinds == ({"x": "text"} if case in FREE else {})
    assert ("free text" in " ".join(map(str, choice.notes))) == (case in FREE)
    assert chosen(cells, keep=["x"], text=["x"]).kinds == {"x": "text"}
    assert chosen(cells, categorical=["x"]).kinds == {"x": "categories"}


VOWELS = {
    "Hindi": "यह मुफ़्त पुरस्कार की कॉल",
    "Tamil": "மலிவான சலுகை இலவசம் பரிசு",
    "Khmer": "ការផ្តល់ ឥតគិតថ្លៃ រង្វាន់ លុយ",
    "Burmese": "ဈေးပေါ ကမ်းလှမ်း အနိုင်ရ ငွေ",
    "pointed Hebrew": "זוֹל הַצָּעָה חִנָּם פְּרָס",
    "pointed Arabic": "رَخِيصٌ عَرْضٌ مَجَّانِيٌّ جَائِزَةٌ",
    "decomposed": "cafe\u0301 nai\u0308ve re\u0301sume\u0301",
}


@pytest.mark.parametrize("language", VOWELS)
def test_marks_of_letters_belong_to_words(language):
    words = VOWELS[language].split()
    rule = TextRule.learn(Table(("t",), (text(VOWELS[language], "x"),)), "t")
    assert {*rule.words} == {unicodedata.normalize("NFC", word) for word in [*words, "x"]}
    other = unicodedata.normalize("NFD", VOWELS[language])
    np.testing.assert_array_equal(
        *(rule.apply(Table(("t",), (text(one),))).toarray() for one in (other, VOWELS[language]))
    )


def test_a_long_phrase_without_spaces_is_cut_at_its_letters():
    rule = TextRule.learn(Table(("t",), (text("ถูกข้อเสนอฟรีรางวัลผู้ชนะเรียกร้อง", "x"),)), "t")
    assert {"ข้", "ผู้", "ถู"} <= {*rule.words}


def test_free_text_is_encoded_as_by_scikit_learn():
    cells = texts(60)
    encoder = TableEncoder(kinds={"x": "text"}).fit(Table(("x",), (text(*cells[:40]),)))
    theirs = TfidfVectorizer(token_pattern=WORD).fit(cells[:40])
    new = [*cells[40:], "", "words that nobody knows", "Cheap OFFER 1 cheap"]
    encoded = encoder.transform(Table(("x",), (text(*new),)))
    assert sparse.issparse(encoded)
    np.testing.assert_allclose(encoded.toarray(), theirs.transform(new).toarray(), atol=1e-15)
    assert encoder.feature_names_[0] == f"x: {theirs.get_feature_names_out()[0]}"
    assert encoder.describe_unseen(Table(("x",), (text(*new),))) == [
        "column 'x' has no word that the model knows from training in 1 of 23 rows"
    ]


@pytest.mark.parametrize(
    "cells", [texts(9), [f"2024-01-{k + 1:02d} 10:00" for k in range(9)], [f"v{k}" for k in range(60)]]
)
def test_no_rows_are_encoded_as_no_rows(cells):
    table = Table(("x", "y"), (text(*cells), text(*("ab" * len(cells))[: len(cells)])))
    choice = choose_columns(table, read_target(table, "y"), keep=["x"])
    encoder = choice.encoder().fit(table.select(["x"]))
    assert encoder.transform(table.select(["x"]).take(np.zeros(0, dtype=int))).shape == (0, encoder.n_features_)


def test_text_stands_beside_columns_as_one_of_them_and_missing_text_has_no_words():
    rng = np.random.default_rng(0)
    table = Table(("x", "u"), (text(*texts(59), None), rng.normal(size=60)))
    encoded = TableEncoder(kinds={"x": "text"}, missing="impute").fit(table).transform(table)
    assert encoded[[59], :-1].nnz == 0
    assert "taken as texts without words" in str(chosen([*texts(59), None]).notes[-1])
    lengths = sparse.linalg.norm(encoded[:59, :-1], axis=1)
    np.testing.assert_allclose(lengths, 1.0)


@pytest.mark.parametrize("change", ["count", "words", "number of texts", "twice"])
def test_what_a_file_says_of_words_is_checked(change):
    encoder = TableEncoder(kinds={"x": "text"}).fit(Table(("x",), (text(*texts(20)),)))
    entry = json.loads(json.dumps(encoder.to_dict()))
    assert TableEncoder.from_dict(entry).to_dict() == entry
    (rule,) = entry["texts"]
    if change == "count":
        rule["counts"][0] = 21
    elif change == "words":
        rule["words"].pop()
    elif change == "number of texts":
        rule["n_texts"] = 1
    else:
        rule["words"][1] = rule["words"][0]
    with pytest.raises(ValueError, match=r"the words of column 'x'|column 'x' has words in"):
        TableEncoder.from_dict(entry)


def test_a_model_of_text_and_dates_is_verified_and_its_encoding_cannot_be_forged(tmp_path):
    frame = mixed_frame(80).drop(columns="row")
    frame["note"] = texts(80)
    frame["seen"] = [f"{1 + k % 12}/{1 + k % 28}/2021" for k in range(80)]
    with pytest.warns(TableWarning, match=r"Column '.*' holds (dates|free text)"):
        model = fit_model(frame, "outcome", SVC())
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    assert verify(loaded, frame).findings == ()
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    entry = model.encoder.to_dict()
    entry["texts"][0]["counts"][3] += 1
    entry["dates"][0]["parts"][0]["mean"] += 1.0
    forged = replace(loaded, encoder=TableEncoder.from_dict(entry))
    findings = verify(forged, frame).findings
    assert sum("the encoding of column" in finding for finding in findings) == 2


def test_a_study_of_one_column_of_text(tmp_path):
    rng = random.Random(0)
    cells = [f"{rng.choice(['cheap', 'free', 'prize'])} {one}" for one in texts(80)]
    calm = [f"{rng.choice(['thanks', 'later', 'ok'])} {one}" for one in texts(80, seed=1)]
    frame = pd.DataFrame({"message": cells + calm, "y": ["spam"] * 80 + ["ham"] * 80})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        studied = study(frame, "y", n_folds=3)
    assert studied.svm.test.accuracy.value >= 0.9
    assert "Column 'message' holds free text: the weights (TF-IDF) of" in str(studied.column_choice.notes[0])
    save_model(tmp_path / "m.mercer", studied.model)
    assert verify(load_model(tmp_path / "m.mercer"), as_table(frame)).findings == ()


def test_codes_that_decide_the_label_are_learnt_however_many_there_are():
    rng = random.Random(0)
    rows = [(f"c{c}", rng.choice("xy")) for c in range(120)]
    rows = [row for row in rows for _ in range(4)]
    rng.shuffle(rows)
    frame = pd.DataFrame(rows, columns=["code", "t"]).assign(a=np.random.default_rng(0).normal(size=480).round(3))
    studied = study(frame, "t", n_folds=3)
    assert studied.svm.test.accuracy.value > 0.95
    (note,) = studied.column_choice.notes
    assert str(note) == (
        "Column 'code' holds many different values (119): each has an indicator of its own; max_levels=50 keeps only "
        "the most frequent 50"
    )
    (note,) = study(frame, "t", n_folds=3, max_levels=60).column_choice.notes
    assert str(note) == (
        "Column 'code' holds many different values (119): the 60 most frequent have an indicator each, and the others "
        "none; max_levels=119 keeps all"
    )
