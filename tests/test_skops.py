"""Machines in skops files: all types that a reader must trust are of one family, and predictions are the same."""

import numpy as np
import pytest

from export_cases import CASES, THREE, TWO, X, expected, fitted, rows
from mercer import SVC, compact
from mercer.kernels import FeatureKernel

io = pytest.importorskip("skops.io")
NEW = rows(25, seed=1)
OTHERS = {  # what is of other libraries
    "svc_sparse": "scipy.sparse.",
    "sparsified": "scipy.sparse.",
    "product_map": "scipy.sparse.",
    "columns": "numpy.dtype",
    "search": "sklearn.",
    "kernel_centered": "numpy.dtype",  # of the rows that the kernel is centred on
    "kernel_normalized_centered": "numpy.dtype",
}


def doubled(rows):
    return 2.0 * rows


@pytest.mark.parametrize("name", sorted(CASES))
def test_machines_come_back_from_a_file_of_trusted_types(name):
    data = io.dumps(fitted(name))
    types = io.get_untrusted_types(data=data)
    assert all(one.startswith(("mercer.", OTHERS.get(name, "mercer."))) for one in types)
    again = io.loads(data, trusted=types)
    for mine, theirs in zip(expected(fitted(name), NEW), expected(again, NEW), strict=True):
        assert (mine is None) == (theirs is None)
        assert mine is None or np.array_equal(mine, theirs)


def test_certificates_and_compact_machines_come_back():
    machine = SVC(C=2.0).fit(X, TWO)
    for one in (machine, compact(machine, 0.1)):
        data = io.dumps(one)
        again = io.loads(data, trusted=io.get_untrusted_types(data=data))
        assert np.array_equal(again.decision_function(X), one.decision_function(X))
    again = io.loads(io.dumps(machine), trusted=io.get_untrusted_types(data=io.dumps(machine)))
    assert again.certificate_.status == "optimal"
    assert again.certificate_.dual == machine.certificate_.dual


def test_functions_of_a_user_are_of_no_trusted_family():
    machine = SVC(kernel=FeatureKernel(doubled)).fit(X, THREE)
    types = io.get_untrusted_types(data=io.dumps(machine))
    assert [one for one in types if not one.startswith("mercer.")] == [f"{doubled.__module__}.doubled"]
