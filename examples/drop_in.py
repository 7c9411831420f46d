"""mercer's SVC in place of scikit-learn's
=======================================

Replace scikit-learn's SVC by mercer's: the same parameters, the same predictions, and a proof of the optimum.
"""

import numpy as np
import sklearn.svm
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

machines = {}
for module in (sklearn.svm, mercer):
    machine = make_pipeline(StandardScaler(), module.SVC(C=10.0, gamma="scale")).fit(X_train, y_train)
    machines[module.__name__] = machine
    print(f"{module.__name__}: accuracy {machine.score(X_test, y_test):.3f} on {len(y_test)} test rows")

theirs, ours = machines.values()
assert (theirs.predict(X_test) == ours.predict(X_test)).all()
apart = np.abs(theirs.decision_function(X_test) - ours.decision_function(X_test)).max()
print(f"Largest difference of two decision values: {apart:.1e} (both stop at a tolerance of 0.001)")

# Every fitted machine carries a certificate. It is computed in float64, apart from the solver.
certificate = ours[-1].certificate_
print(f"Status: {certificate.status}, violation of the optimality conditions: {certificate.kkt_violation:.1e}")
print(f"Primal objective {certificate.primal:.6f}, dual objective {certificate.dual:.6f}")
