"""scikit-learn's own checks of every estimator, all of them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, QuantileSVR

EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "NuSVC": {"check_class_weight_classifiers": "with its weights of 1000 and 0.0001 no nu above 2e-7 is feasible"}
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        SVC(),
        SVC(kernel="linear"),
        SVC(multi_class="ovr"),
        SVC(class_weight="balanced"),
        SVC(loss="squared_hinge"),
        SVC(fit_intercept=False),
        NuSVC(nu=0.1),  # some of the data have classes so unequal that the default is infeasible
        NuSVC(nu=0.1, multi_class="ovr"),
        SVR(),
        SVR(epsilon=0.0),
        SVR(loss="squared_epsilon_insensitive"),
        NuSVR(),
        QuantileSVR(),
        OneClassSVM(),
        SVDD(C=0.1),  # with the default, no row of the training data is an outlier
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
