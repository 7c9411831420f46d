"""Write scikit-learn's breast-cancer table as CSV: 569 rows, 30 measurements, and the column ``diagnosis``."""

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_breast_cancer

path = Path(sys.argv[1])
table = load_breast_cancer()
path.parent.mkdir(parents=True, exist_ok=True)
with path.open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow([*table.feature_names, "diagnosis"])
    for row, code in zip(table.data.tolist(), table.target, strict=True):
        writer.writerow([*row, table.target_names[code]])
print(f"Wrote {len(table.data)} rows to {path}")
