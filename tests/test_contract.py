"""scikit-learn's own checks of an estimator, all of them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import SVC

EXPECTED_FAILURES: dict[str, str] = {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [SVC(), SVC(kernel="linear"), SVC(multi_class="ovr"), SVC(class_weight="balanced")],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
