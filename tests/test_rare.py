"""Classes of few rows that are merged or left out."""

import numpy as np
import pytest

from mercer import SVC
from mercer.data.table import TableError
from mercer.study import cli
from mercer.study.files.table_files import read_table
from mercer.study.models import fit_model, load_model, save_model, verify
from mercer.study.tables import read_target, without_rare


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
    with pytest.raises(TableError, match="have 3 rows together, too few for a class"):
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
