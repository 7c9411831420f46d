"""A table with faults
===================

Write scikit-learn's breast-cancer table as CSV, with the faults that real tables have.

There are 569 rows, 30 measurements, and the column ``diagnosis``. The faults are added here: a row number, a hospital
(a category that says nothing), empty cells, 25 rows that were entered twice, and a column ``treatment``. The treatment
is decided after the diagnosis, so it gives the diagnosis away.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

path = Path(sys.argv[1])
table = load_breast_cancer()
rng = np.random.default_rng(0)
hospitals = rng.choice(["north", "south", "university"], len(table.data))
treatments = np.where(table.target == 0, "surgery", rng.choice(["none", "check-up"], len(table.data)))
is_empty = rng.random(table.data.shape) < 0.02
is_empty[:, ::3] = False
entered_twice = rng.choice(len(table.data), 25, replace=False)

path.parent.mkdir(parents=True, exist_ok=True)
with path.open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["row", *table.feature_names, "hospital", "treatment", "diagnosis"])
    for number, row in enumerate([*range(len(table.data)), *entered_twice], start=1):
        cells = ["" if empty else cell for cell, empty in zip(table.data[row].tolist(), is_empty[row], strict=True)]
        writer.writerow([number, *cells, hospitals[row], treatments[row], table.target_names[table.target[row]]])
print(f"Wrote {len(table.data) + len(entered_twice)} rows to {path}")
