"""Sparse rows with far more columns than entries: memory depends on entries, and empty columns change no result."""

from __future__ import annotations

import resource
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import (
    SVC,
    SVDD,
    SVR,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelRidge,
    LogisticRegression,
    Nystroem,
    ParzenClassifier,
    leave_one_out,
)
from mercer.kernels import RBF, On
from mercer.studies.files.libsvm_data import load_libsvm_data

P = 2**31 - 2  # number of columns, the largest in an svmlight file
N, ROW = 160, 15  # rows, and entries of each


def wide():
    """Rows and classes, the same rows without empty columns, and new rows with columns that no other row has."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(P // 8, (N, ROW)) * 8 + 1, axis=1)
    columns[:, :5] = np.arange(5)
    columns[:, -1] = P - 1
    values = rng.uniform(0.1, 1.0, columns.shape)
    rows = sp.csr_array((values.ravel(), columns.ravel(), np.arange(0, columns.size + 1, ROW)), shape=(N, P))
    filled, numbers = np.unique(columns, return_inverse=True)
    narrow = sp.csr_array((values.ravel(), numbers.ravel(), rows.indptr), shape=(N, filled.size))
    return rows, narrow, (values[:, 0] + values[:, -1] > 1.1).astype(int)


@contextmanager
def little_memory(n_bytes=2**30):
    """Limit the growth of the address space to `n_bytes`; one number for each column would need 16 GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


MACHINES = {
    "SVC": SVC(gamma=0.3),
    "SVC, linear": SVC(kernel="linear"),
    "SVC, polynomial": SVC(kernel="poly", gamma=0.5),
    "SVC, Laplacian": SVC(kernel="laplacian", gamma=0.1),
    "SVC, chi-squared": SVC(kernel="chi2", gamma=0.1),
    "SVC, cosine": SVC(kernel="cosine"),
    "SVC, median": SVC(gamma="median"),
    "SVC, columns": SVC(kernel=On(RBF(1.0), [0, 3, P - 1])),
    "SVC, with probabilities": SVC(gamma=0.3, probability=True),
    "SVR": SVR(gamma=0.3),
    "SVDD": SVDD(C=0.5, gamma=0.3),
    "KernelRidge": KernelRidge(kernel="rbf", gamma=0.3),
    "KernelLogisticRegression": KernelLogisticRegression(gamma=0.3),
    "ParzenClassifier": ParzenClassifier(gamma=0.3),
    "KernelNeighborsClassifier": KernelNeighborsClassifier(gamma=0.3),
}


@pytest.mark.parametrize("name", MACHINES)
def test_wide_rows_train_the_machine_that_their_filled_columns_train(name):
    rows, narrow, y = wide()
    fitted = []
    for table in (rows, narrow):
        machine = clone(MACHINES[name])
        if name == "SVC, columns" and table is narrow:
            machine.set_params(kernel=On(RBF(1.0), [0, 3, narrow.shape[1] - 1]))
        with little_memory():
            machine.fit(table[:100], y[:100])
            certificate = getattr(machine, "certificate_", None)
            values = getattr(machine, "decision_function", machine.predict)(table)
            verified = certificate.verify() if hasattr(certificate, "verify") else None
        fitted.append(values)
        if certificate is not None:
            assert certificate.peak_memory_bytes < 2**26
            assert verified is None or verified.status == certificate.status
    np.testing.assert_allclose(fitted[0], fitted[1], atol=1e-12)


def test_the_variance_of_gamma_counts_empty_columns_and_other_uses_need_no_more_memory(tmp_path):
    rows, _, y = wide()
    with little_memory():
        machine = SVC().fit(rows, y)
        assert machine.kernel_.gamma == pytest.approx(
            1.0 / (np.sum(rows.data**2) - np.sum(rows.data) ** 2 / (N * P)) * N
        )
        assert 0.0 <= leave_one_out(SVC(gamma=0.3), rows, y).error < 1.0
        assert Nystroem(gamma=0.3, n_components=10).fit_transform(rows).shape == (N, 10)
        machine.set_params(gamma=0.3).fit(rows[:100], y[:100]).forget([0]).partial_fit(rows[100:], y[100:])
        path = tmp_path / "wide.svm"
        path.write_text("".join(f"{i % 2} {i + 1}:1 2147483646:{1 + i % 2}\n" for i in range(10)))
        loaded, labels = load_libsvm_data(path)[:2]
        assert SVC(gamma=1.0).fit(loaded, labels).score(loaded, labels) == 1.0


def test_logistic_regression_says_at_once_what_it_would_need():
    rows, _, y = wide()
    with little_memory(), pytest.raises(MemoryError, match=r"[0-9] bytes .* the operating system .* Leave out"):
        LogisticRegression().fit(rows, y)
