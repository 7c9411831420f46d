"""Predictions with the least expected cost, from probabilities of classes and a matrix of costs."""

from __future__ import annotations

from mercer._typing import FloatArray, IndexArray


def least_expected_cost(probabilities: FloatArray, costs: FloatArray) -> IndexArray:
    """Return the class with the least expected cost for each row; among equal ones the first.

    Parameters
    ----------
    probabilities : ndarray of shape (n, K)
        Probability of each class.
    costs : ndarray of shape (K, K)
        Cost of predicting each class (second axis) for a row of each class (first axis).

    References
    ----------
    Elkan (2001), The foundations of cost-sensitive learning, equation (1).

    Examples
    --------
    >>> import numpy as np
    >>> least_expected_cost(np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([[0.0, 1.0], [5.0, 0.0]]))
    array([0, 1])
    """
    expected: FloatArray = probabilities @ costs
    return expected.argmin(axis=1)
