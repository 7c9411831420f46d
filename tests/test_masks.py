"""Masked arrays that hide entries are refused as rows, targets and weights."""

from __future__ import annotations

import numpy as np
import pytest

import mercer

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("machine", [mercer.SVC, mercer.SVR, mercer.KernelRidge])
def test_masked_entries_are_refused_by_place(machine):
    table, targets, weights = (np.ma.masked_array(a.astype(float), mask=np.zeros(a.shape)) for a in (X, Y, Y + 1))
    machine().fit(table, targets)  # a mask that hides nothing
    table[3, 1] = targets[5] = weights[7] = np.ma.masked
    with pytest.raises(ValueError, match=r"X must be known .* row 3, column 1 .* masked.* Impute"):
        machine().fit(table, Y)
    with pytest.raises(ValueError, match=r"y must be known .* row 5 .* masked"):
        machine().fit(X, targets)
    with pytest.raises(ValueError, match=r"sample_weight must be known .* row 7 .* masked"):
        machine().fit(X, Y, sample_weight=weights)
    with pytest.raises(ValueError, match=r"X must be known .* row 3, column 1"):
        machine().fit(X, Y).predict(table)
