"""Codes for missing cells, and spellings of categories, in the examination of a table."""

import numpy as np
import pandas as pd
import pytest

from mercer import LinearSVC
from mercer.data.table import Table
from mercer.studies.examination.codes import codes
from mercer.studies.examination.columns import column_of
from mercer.studies.examination.spellings import spellings
from mercer.studies.files.table_files import read_table

RNG = np.random.default_rng(0)
AGES = RNG.integers(18, 91, 500).astype(np.float64)
NORMAL = RNG.normal(size=500).round(3)
RATINGS = RNG.integers(1, 6, 500).astype(np.float64)


def text(*cells):
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def with_code(values, code, share):
    cells = values.copy()
    cells[: max(1, round(share * len(cells)))] = code
    return cells


def codes_in(cells, kind=None):
    return codes(Table(("x",), (cells,)), [column_of("x", cells, kind)])


@pytest.mark.parametrize("share", [0.002, 0.03, 0.1, 0.6])
@pytest.mark.parametrize(
    ("values", "code"), [(AGES, -999.0), (AGES, 9999.0), (NORMAL, -99.0), (NORMAL, 999.0), (100 * AGES, -9999.0)]
)
def test_codes_are_found_in_any_share_of_a_column(values, code, share):
    (finding,) = codes_in(with_code(values, code, share))
    assert f"{code:.0f}; then" in finding.remedy
    assert "--na" in finding.remedy
    assert finding.numbers["rows"] == max(1, round(share * 500))


@pytest.mark.parametrize(
    ("values", "code"), [(AGES, 0.0), (AGES, -1.0), (RATINGS, 9.0), (RATINGS, -9.0), (RATINGS, 99.0)]
)
def test_small_codes_are_found_if_no_other_number_is_near(values, code):
    (finding,) = codes_in(with_code(values, code, 0.04))
    assert finding.remedy.startswith(f"If it is one, say --na x={code:.0f};")


def test_a_date_far_from_all_others_is_a_code():
    days = [f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(100)]
    (finding,) = codes_in(text(*days, "9999-12-31", "9999-12-31"), "ymd")
    assert finding.sentence.startswith("'9999-12-31' in 2 rows of column 'x' looks like a code")
    assert "--na 9999-12-31" in finding.remedy
    assert codes_in(text(*days), "ymd") == []


ORDINARY = {
    "counts": RNG.poisson(2.0, 500).astype(np.float64),
    "counts with a large one": np.append(RNG.poisson(1.0, 500), 9.0).astype(np.float64),
    "amounts that are often 0": np.where(RNG.random(500) < 0.3, 0.0, np.exp(RNG.normal(7.0, 1.5, 500)).round() + 10.0),
    "up to 1000": RNG.integers(0, 1000, 5000).astype(np.float64),
    "differences": RNG.normal(0.0, 2000.0, 500).round(),
    "scores up to 99": RNG.integers(0, 100, 500).astype(np.float64),
    "two values": RNG.integers(0, 2, 500) * 2.0 - 1.0,
    "doses": RNG.choice([0.0, 50.0, 100.0], 500),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_numbers_are_no_codes(case):
    assert codes_in(ORDINARY[case]) == []


def test_spellings_of_categories_are_named_with_the_option_that_merges_them():
    cells = text(*["M"] * 20, *["m"] * 3, *["F"] * 20)
    (finding,) = spellings(Table(("sex",), (cells,)), [column_of("sex", cells)])
    assert "'M' (20); 'm' (3)" in finding.sentence
    assert "--merge sex makes" in finding.remedy
    assert spellings(Table(("sex",), (cells[20:],)), [column_of("sex", cells[20:])]) == []


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_word_for_missing_can_be_for_one_column(ending, tmp_path):
    path = tmp_path / f"t.{ending}"
    frame = pd.DataFrame({"bp": [0, 80, 90] * 20, "n": [0, 1, 2] * 20, "s": ["x", "y", "z"] * 20, "y": [0, 1, 1] * 20})
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    table = read_table(path, na=["bp=0", "s=x"])
    assert [int(table.missing(name).sum()) for name in ("bp", "n", "s")] == [20, 0, 20]
    machine = LinearSVC().fit_file(path, target="y", na=["bp=0", "s=x"])
    assert {rule.name: rule.n_missing for rule in machine.encoder_.rules_} == {"bp": 20, "n": 0, "s": 20}
