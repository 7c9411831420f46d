"""All of scikit-learn's estimator checks, for every public estimator, with no expected failure."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import (
    SVC,
    SVR,
    GaussianBasis,
    GradientKernelSVC,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPerceptron,
    KernelRidge,
    KernelSearchCV,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    Nystroem,
    OneClassSVM,
    ParzenClassifier,
    PegasosSVC,
    PolynomialBasis,
    PolynomialMap,
    RandomFourier,
    RBFNetworkClassifier,
)
from mercer.geometry.landmarks import SCHEMES

_PUBLIC = [public for public in map(mercer.__getattr__, mercer.__all__) if inspect.isclass(public)]
ESTIMATORS = [
    KernelSearchCV(SVC(), C=[0.1, 1.0], cv=2) if kind is KernelSearchCV else kind()
    for kind in _PUBLIC
    if issubclass(kind, BaseEstimator)
]
"""Every public estimator with its default parameters; a search needs a machine and values."""

STEPS_ARE_NOT_COPIES = "a row of weight 2 is one step, and its copies are two"
INFEASIBLE = "nu=0.5 is infeasible with the weights of this check, which is an error, as in scikit-learn"
FAILING = {
    NuSVC: {f"check_sample_weight_equivalence_on_{kind}_data": INFEASIBLE for kind in ("dense", "sparse")},
    PegasosSVC: {
        **{f"check_sample_weight_equivalence_on_{kind}_data": STEPS_ARE_NOT_COPIES for kind in ("dense", "sparse")},
        "check_class_weight_classifiers": "weights of 1,000 need a thousand times more steps than alpha=1e-4 does",
    },
}
"""Checks that fail for default parameters, and why."""

WITH_OTHER_CODE = [
    NuSVC(nu=0.35),  # weighted, the smallest class in the data of one check allows nu up to 0.352941
    SVC(kernel="linear"),
    SVC(multi_class="ovr"),
    SVC(multi_class="joint"),
    SVC(loss="squared_hinge"),
    SVC(fit_intercept=False),
    NuSVC(nu=0.3, class_weight="balanced"),
    SVR(loss="squared_epsilon_insensitive"),
    OneClassSVM(contamination=0.1),
    LeastSquaresClassifier(1.0),
    LogisticRegression(l1_ratio=0.5, tol=1e-9),
    LinearSVC(loss="hinge"),
    LinearSVR(loss="squared_epsilon_insensitive"),
    KernelPerceptron(5, form="primal", multi_class="ovr"),
    GradientKernelSVC(solver="descent", max_iter=200),
    # Of 3 voters in overlapping classes all are of one class too often for the check of class weights.
    KernelNeighborsClassifier(kernel="poly", coef0=1.0, prototypes="support_vectors"),
    KernelSearchCV(SVR(), C=[0.1, 1.0], cv=2),
    PolynomialMap(degree=2, coef0=1.0, basis="harmonic"),
    RandomFourier(orthogonal=True),
    Nystroem(landmarks="kmeans++"),
]
"""Configurations that run code of their own."""

WITH_THE_SAME_CODE = [
    SVC(class_weight="balanced"),
    NuSVC(nu=0.1, multi_class="ovr"),
    SVR(epsilon=0.0),
    KernelRidge(kernel="rbf"),
    LeastSquaresSVC(class_weight="balanced"),
    KernelLogisticRegression(class_weight="balanced"),
    LogisticRegression(multi_class="ovr"),
    KernelPerceptron(50, form="primal", multi_class="ovr"),
    KernelPerceptron(class_weight="balanced"),
    KernelPerceptron(50, kernel="rbf"),
    ParzenClassifier(class_weight="balanced"),
    KernelNeighborsClassifier(class_weight="balanced"),
    KernelNeighborsRegressor(weights="distance", kernel="linear"),
    RBFNetworkClassifier(class_weight="balanced"),
    PolynomialMap(degree=2, basis="ordered"),
    PolynomialBasis(interaction_only=True),
    GaussianBasis(centers="random"),
    *[Nystroem(landmarks=scheme) for scheme in SCHEMES],
    Nystroem(kernel="poly"),
]
"""Configurations whose code the others run too."""

WITH_PROBABILITIES = [
    ParzenClassifier(probability=True),
    LeastSquaresSVC(probability=True),
    LeastSquaresClassifier(1.0, probability=True),
    KernelPerceptron(max_passes=20, probability=True),
]
WEIGHTS_ARE_NOT_COPIES = {
    f"check_sample_weight_equivalence_on_{storage}_data": "where one of two copies is left out, the other one stays"
    for storage in ("dense", "sparse")
}
quiet = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:nu=.* is infeasible with this class_weight:UserWarning"),
]


def contract(estimators, failing=None):
    """Parametrise a test by scikit-learn's checks of the estimators, without warnings of difficult data."""

    def expected(estimator):
        return FAILING.get(type(estimator), {}) if failing is None else failing

    def mark(test):
        for filtered in quiet:
            test = filtered(test)
        checks = parametrize_with_checks(estimators, expected_failed_checks=expected).mark
        # A list: pytest refuses the generator of scikit-learn before 1.9.
        return pytest.mark.parametrize(checks.args[0], list(checks.args[1]), **checks.kwargs)(test)

    return mark


@contract(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.full
@contract(WITH_OTHER_CODE, {})
def test_scikit_learn_contract_of_other_code(estimator, check):
    check(estimator)


@pytest.mark.full
@contract(WITH_PROBABILITIES, WEIGHTS_ARE_NOT_COPIES)
def test_scikit_learn_contract_with_probabilities(estimator, check):
    check(estimator)


@pytest.mark.slow
@contract(WITH_THE_SAME_CODE, {})
def test_scikit_learn_contract_of_the_same_code(estimator, check):
    check(estimator)


@pytest.mark.slow
@contract([LinearSVC(loss="hinge", penalty="l1", bias="free", tol=1e-9)], {})
def test_scikit_learn_contract_of_the_l1_penalty_with_hinge_loss(estimator, check):
    check(estimator)


@pytest.mark.slow
@contract([SVC(multi_class="joint", probability=True)], WEIGHTS_ARE_NOT_COPIES)
def test_scikit_learn_contract_of_a_joint_machine_with_probabilities(estimator, check):
    check(estimator)


def test_few_checks_are_expected_to_fail():
    assert {kind.__name__: len(checks) for kind, checks in FAILING.items()} == {"NuSVC": 2, "PegasosSVC": 3}
    assert len(ESTIMATORS) >= 26


def test_all_public_names_exist_in_a_new_process_without_extras():
    program = "import sys; sys.modules |= dict.fromkeys(('pyarrow', 'matplotlib', 'jinja2')); import mercer; "
    program += "print(*(f'{name}={getattr(mercer, name).__name__}' for name in mercer._MODULES))"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert modules
    for name, module in (one.split("=") for one in modules):
        assert module == f"mercer.{name}"
        public = [name for name in vars(import_module(module)) if not name.startswith("_")]
        assert [name for name in public if not inspect.ismodule(getattr(import_module(module), name))]
    assert set(mercer._MODULES).isdisjoint(dir(mercer))


def test_the_error_says_where_a_kernel_is_imported_from():
    with pytest.raises(AttributeError, match=r"no attribute 'Laplacian': it is in mercer\.kernels \(from mercer\.kern"):
        _ = mercer.Laplacian
    for nothing in ("Laplace", "algebra"):
        with pytest.raises(AttributeError, match=rf"no attribute '{nothing}'$"):
            getattr(mercer, nothing)
