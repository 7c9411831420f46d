"""Leave-one-out
=============

Leave-one-out: the error of a machine that is trained n times without one row, at the price of a few fits.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from mercer import SVC, leave_one_out

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
machine = SVC(C=10.0, gamma=0.01, tol=1e-6)

loo = leave_one_out(machine, X, y)
print(f"{len(y)} rows, {loo.wrong.sum()} of them predicted wrongly by the machine without them: {loo.error:.4f}")
print(f"Training error of the machine with all rows: {1 - machine.fit(X, y).score(X, y):.4f}")
print("How the values were found:")
for rule, count in loo.counts.items():
    print(f"  {rule}: {count} rows")

# Some rows the slow way: train without the row, and ask for its decision value.
for row in np.flatnonzero(loo.wrong)[:3]:
    others = np.arange(len(y)) != row
    refitted = machine.fit(X[others], y[others]).decision_function(X[[row]])[0]
    print(f"Row {row}: {loo.decision[row]:.6f} by leave_one_out, {refitted:.6f} by training again")
    assert abs(loo.decision[row] - refitted) < 1e-4
