"""Classes of few rows that are merged or left out."""

import warnings

import numpy as np
import pandas as pd
import pytest

from mercer import SVC
from mercer.data.frames import as_table
from mercer.data.table import TableError, TableWarning
from mercer.model_selection import check_class_counts
from mercer.studies import cli
from mercer.studies.files.table_files import read_table
from mercer.studies.models import fit_model, load_model, save_model, verify
from mercer.studies.tables import choose_columns, read_target, without_rare


def written(folder):
    rng = np.random.default_rng(0)
    labels = ["x", "y"] * 40 + ["p"] * 3 + ["q"] * 7 + ["other"] * 10
    rows = [f"{rng.normal() + 'xypqo'.index(label[0]):.3f},{label}" for label in labels]
    (folder / "t.csv").write_text("\n".join(["a,y", *rows]) + "\n")
    return folder / "t.csv"


def test_rare_classes_are_merged_or_left_out_and_verified_on_the_file(tmp_path):
    table = read_table(written(tmp_path))
    merged, note = without_rare(table, "y", "merge", 8)
    assert str(note).startswith(
        "Classes of fewer than 8 rows, 'q' (7), 'p' (3), were merged into the class 'other classes'"
    )
    truth = read_target(merged, "y")
    assert dict(zip(truth.names, truth.counts.tolist(), strict=True)) == {
        "other": 10,
        "other classes": 10,
        "x": 40,
        "y": 40,
    }
    dropped, _ = without_rare(table, "y", "drop", 8)
    assert dropped.n_rows == 100
    assert dropped.missing("y").sum() == 10
    save_model(tmp_path / "m.mercer", fit_model(merged, "y", SVC()))
    model = load_model(tmp_path / "m.mercer")
    assert verify(model, table).same_table
    assert model.prediction_kind.truth(model.with_classes(table))[80:90].tolist() == [1] * 10
    assert without_rare(table, "y", "merge", 2) == (table, None)
    with pytest.raises(TableError, match="have 3 rows together, too few for a class\nrare=drop"):
        without_rare(table, "y", "merge", 5)
    with pytest.raises(TableError, match="every class of 'y' has fewer than 50 rows"):
        without_rare(table, "y", "drop", 50)


def test_classes_that_are_numbers_can_be_rare(tmp_path):
    path = tmp_path / "n.csv"
    path.write_text("a,y\n" + "".join(f"{k % 7},{5 if k == 3 else k % 2}\n" for k in range(40)))
    dropped, _ = without_rare(read_table(path), "y", "drop", 8)
    assert read_target(dropped, "y").names == ["0", "1"]


@pytest.mark.parametrize("rare", ["merge", "drop"])
def test_the_command_line_says_which_classes_were_rare(tmp_path, capsys, rare):
    path, model = str(written(tmp_path)), str(tmp_path / "m.mercer")
    assert cli.run(["fit", path, "--target", "y", "--rare", rare, "--out", model]) == 0
    said = capsys.readouterr().err
    assert "note: Classes of fewer than 8 rows, 'q' (7), 'p' (3), were" in said
    assert cli.run(["verify", model, path]) == 0


@pytest.mark.parametrize(
    ("counts", "ways"),
    [
        ([40, 40, 3, 7], "rare=drop leaves the rare classes out, rare=merge makes one of them; or change"),
        ([40, 40, 3], "rare=drop leaves the rare classes out; or change"),
        ([40, 5, 3], "rare=merge makes one class of the rare ones; or change"),
        ([40, 3], "change"),
        ([6, 6], "change"),
    ],
)
def test_only_options_that_this_table_allows_are_recommended(counts, ways):
    labels = [f"c{k}" for k in range(len(counts))]
    with pytest.raises(TableError) as refused:
        check_class_counts(labels, np.array(counts), 0.25, 5)
    assert refused.value.hint == f"{ways} n_folds or test_size"
    column = np.repeat(np.array(labels, dtype=object), counts)
    table = as_table(pd.DataFrame({"a": np.arange(column.size, dtype=float), "y": column}))
    for how in ("merge", "drop"):
        try:
            left = read_target(without_rare(table, "y", how, 8)[0], "y")
            is_possible = len(left.names) > 1 and left.counts.min() >= 8
        except TableError:
            is_possible = False
        assert (f"rare={how}" in ways) == is_possible


def test_rows_of_rare_classes_are_not_called_missing():
    column = ["x", "y"] * 20 + ["p"] * 3
    table, _ = without_rare(as_table(pd.DataFrame({"a": np.arange(43) % 7.0, "y": column})), "y", "drop", 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice = choose_columns(table, read_target(table, "y"))
    assert choice.rows_dropped == {"classes of 'y' with too few rows": 3}
    gaps = pd.DataFrame({"a": np.arange(43) % 7.0, "y": [None, *column[1:]]})
    table, _ = without_rare(as_table(gaps), "y", "drop", 8)
    with pytest.warns(TableWarning, match=r"4 of 43 rows .* missing there or its class has too few rows \(3 rows\)"):
        choice = choose_columns(table, read_target(table, "y"))
    assert choice.rows_dropped == {"classes of 'y' with too few rows": 3, "target 'y' missing": 1}
