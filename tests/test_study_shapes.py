"""Studies and examinations of tables of many shapes, in small: few rows, many columns, many classes, text, one-hot."""

import numpy as np
import pandas as pd
import pytest

from mercer.data import as_table
from mercer.studies import searching
from mercer.studies.examination import diagnose
from mercer.studies.protocol import study
from mercer.studies.report.page import render
from mercer.studies.tables import read_target

ROWS, COLUMNS, CLASSES = (24, 120), (3, 45, 900), (2, 3, 7)


def frame(n, p, kind, n_classes):
    """A table in which the first columns say something about the target."""
    rng = np.random.default_rng(n + p)
    X = rng.normal(size=(n, p))
    y = np.arange(n) % max(n_classes, 1)
    X[:, 0] += 2.0 * y
    if kind == "one-hot":
        X = (X > 1.0).astype(int)
    columns = pd.DataFrame(X).add_prefix("x")
    if kind == "text":
        words = np.array([f"word{''.join('abcdefghij'[int(d)] for d in str(k))}" for k in range(p)])
        columns = pd.DataFrame({"text": [" ".join([*rng.choice(words, 12), f"topic{'abcdefg'[k]}"]) for k in y]})
    return columns.assign(y=X[:, 0] + rng.normal(size=n) if n_classes == 0 else np.array([*"abcdefg"])[y])


SHAPES = [
    (n, p, kind, k)
    for n in ROWS
    for p in COLUMNS
    for kind in ("numbers", "one-hot", "text")
    for k in (0, *CLASSES)
    if n // 4 >= max(k, 1) * (1 if k else 5) and n >= 8 * k and (kind != "one-hot" or p > 3)
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_is_examined(shape):
    table = as_table(frame(*shape))
    assert isinstance(diagnose(table, read_target(table, "y")), tuple)


@pytest.mark.parametrize(
    "shape",
    [(120, 600, "numbers", 0), (120, 600, "one-hot", 3), (120, 45, "numbers", 7), (120, 900, "text", 7)],
    ids=str,
)
def test_every_shape_is_studied(shape, monkeypatch):
    monkeypatch.setattr(searching, "SECONDS_WITHOUT_LIMIT", 0.0)
    studied = study(frame(*shape), "y", n_folds=2, kernel="linear")
    assert studied.certificate.status == "optimal"
    assert len(studied.rivals) >= 2
    assert render(studied)
