"""Files and frames are read as what they hold: labels as they stand, exact integers."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mercer import SVC, KernelLogisticRegression
from mercer.persistence import as_model, fit_model, load_model, save_model, verify
from mercer.persistence.table_files import read_table
from mercer.tables import as_table, read_target
from mercer.tables.table import TableWarning


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
    numbers = {"0": np.int64(2**60) + np.arange(5), "1": np.int64(2**60) - 256 * np.arange(5)}
    with pytest.warns(
        TableWarning, match="column '0' holds whole numbers beyond 2\\*\\*53, such as 115292150460684697"
    ):
        table = as_table(FRAMES[library](numbers))
    assert table["0"].tolist() == [str(2**60 + k) for k in range(5)]
    assert table["1"].tolist() == [2.0**60 - 256 * k for k in range(5)]
