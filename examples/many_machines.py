"""Many machines
=============

Train machines on rows that the workers of a Dask cluster hold, and spread a search over them.

The cluster is two threads of this process here; with ``Client("tcp://ADDRESS:8786")`` it is any number of machines.
The weights are the same to the last bit for every number of partitions.
"""

import tempfile
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from mercer import SVC, Cells, KernelSearchCV, Landmarks, LinearSVC, save_model

rng = np.random.default_rng(0)
X = rng.normal(size=(50_000, 10)).astype(np.float32)
y = X @ np.arange(10.0) + 5.0 * rng.normal(size=50_000) > 0.0

options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
with LocalCluster(**options) as cluster, Client(cluster) as client:
    machines = []
    for n_parts in (1, 2, 5):
        rows = da.from_array(X, chunks=(-(-len(X) // n_parts), 10))
        machines.append(LinearSVC().fit(rows, y))
        print(
            f"{n_parts} partitions: {machines[-1].certificate_.status}, objective {machines[-1].certificate_.primal!r}"
        )
    assert all(np.array_equal(one.coef_, machines[0].coef_) for one in machines)

    rows = da.from_array(X[:5_000], chunks=(2_500, 10))
    for way in (Landmarks(n_landmarks=100), Cells(cell_rows=1_000)):
        machine = SVC(approximation=way).fit(rows, y[:5_000])
        print(machine.certificate_)
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder) / "cells.mercer", machine)

    search = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.01, 0.1], cv=3, cluster=client.scheduler.address)
    search.fit(X[:1_000], y[:1_000])
    print(f"The best setting is {search.best_params_}, with {search.best_score_:.3f} of the rows right.")
