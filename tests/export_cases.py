"""Fitted machines of every kind, with labels of every kind, for the tests of exports."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

import mercer
from mercer import RBF, SVC, Linear, Polynomial
from mercer import kernels as k

P = 4

KERNELS = {
    "linear": Linear(),
    "polynomial": Polynomial(3, 0.4, 1.0),
    "rbf": RBF(0.3),
    "sigmoid": mercer.Sigmoid(0.1, -0.2),
    "laplacian": k.Laplacian(0.2),
    "chi_squared": k.ChiSquared(0.3),
    "hamming": k.Hamming(0.5),
    "matern": k.Matern(2.0, 1.5),
    "matern_half": k.Matern(2.0, 0.5),
    "rational": k.RationalQuadratic(1.5),
    "cosine": k.Cosine(),
    "intersection": k.HistogramIntersection(),
    "tanimoto": k.Tanimoto(),
    "dice": k.Dice() * RBF(0.1),
    "bilinear": k.Bilinear(np.eye(P) + 0.3),
    "sum": RBF(0.3) + 0.2 * Linear() * k.Laplacian(0.1) + 1.0,
    "power": (Linear() + 1.0) ** 3,
    "exp": k.exp(0.1 * Linear()),
    "columns": RBF(0.3).on([0, 2]) + k.Cosine().on([1, 3]) * Polynomial(2, 0.5, 1.0).on(slice(0, 3)),
    "normalized": k.normalize(Polynomial(2, 0.3, 1.0)),
    "centered": k.center(RBF(0.3)),
    "normalized_centered": k.normalize(k.center(Polynomial(2, 0.3, 0.0) + k.exp(0.05 * Linear()))),
}


def rows(n, seed=0):
    """Counts with some equal cells and a row of zeros, so that no kernel meets easy rows only."""
    X = np.random.default_rng(seed).poisson(2.0, size=(n, P)) / 2.0
    X[3] = 0.0
    return X


def labels(X, n_classes, seed=0):
    noisy = X @ np.arange(1.0, P + 1) + np.random.default_rng(seed + 7).normal(size=len(X))
    return np.searchsorted(np.quantile(noisy, np.arange(1, n_classes) / n_classes), noisy)


TEXT = np.array(["ash", 'b"é\\?', "oak\n"])
BINARY = np.array([False, True])


X = rows(60)
TWO, THREE, FIVE = (labels(X, n) for n in (2, 3, 5))
SPREAD = X + 0.01 * np.random.default_rng(5).normal(size=X.shape)  # without ties of distances
NUMBERS = X @ [1.0, -2.0, 0.5, 0.1] + np.sin(X[:, 0])
SCALED = make_pipeline(StandardScaler(), MaxAbsScaler(), SVC(probability=True))
RANGED = make_pipeline(MinMaxScaler(clip=True), RobustScaler(), mercer.LinearSVC())
FOURIER = make_pipeline(mercer.RandomFourier(random_state=0, n_frequencies=9), mercer.LinearSVC())
LANDMARKS = make_pipeline(mercer.Nystroem(n_components=8, random_state=0), mercer.LinearSVC())
BASIS = make_pipeline(mercer.GaussianBasis(n_components=5, random_state=0), mercer.LinearSVC())
PRODUCTS = make_pipeline(mercer.PolynomialBasis(2), mercer.LogisticRegression())
COLUMNS = make_pipeline(
    ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0, 2]),
            ("levels", OneHotEncoder(handle_unknown="ignore", drop="first"), [1]),
            ("nothing", "drop", [2]),
        ],
        remainder="passthrough",
    ),
    PCA(3, whiten=True),
    SVC(probability=True),
)
HARMONIC = make_pipeline(mercer.PolynomialMap(2, coef0=1.0, basis="harmonic"), SVC(kernel="linear"))

CASES = {f"kernel_{name}": (SVC(kernel=kernel, C=2.0), X, TWO) for name, kernel in KERNELS.items()} | {
    "svc_text": (SVC(C=3.0, probability=True), X, TEXT[THREE]),
    "svc_two_free": (SVC(C=3.0, probability=True, calibration="free"), X, BINARY[TWO]),
    "svc_two_isotonic": (SVC(C=3.0, probability=True, calibration="isotonic"), X, 2.0 * TWO - 1.0),
    "svc_five": (SVC(kernel="poly", coef0=1.0, decision_function_shape="ovo"), X, FIVE * 10**12),
    "svc_isotonic": (SVC(probability=True, calibration="free_isotonic"), X, THREE),
    "svc_bound_isotonic": (SVC(probability=True, calibration="isotonic"), X, THREE),
    "svc_rest": (SVC(multi_class="ovr", probability=True), X, THREE),
    "svc_joint": (SVC(multi_class="joint", probability=True), X, THREE),
    "svc_joint_two": (SVC(multi_class="joint"), X, TWO),
    "svc_weights": (SVC(class_weight="balanced", probability=True), X, np.minimum(FIVE, 1)),
    "svc_sparse": (SVC(), sp.csr_array(X), THREE),
    "svc_of_no_step": (SVC(max_iter=0), X, THREE),
    "svr_of_no_vector": (mercer.SVR(epsilon=100.0), X, NUMBERS),
    "one_column": (SVC(C=3.0), X[:, [0, 0, 0, 0]] * [1.0, 0.0, 0.0, 0.0], TWO),
    "nu_svc": (mercer.NuSVC(nu=0.3, probability=True), X, THREE),
    "linear_svc": (mercer.LinearSVC(), X, THREE),
    "linear_svc_joint": (mercer.LinearSVC(multi_class="crammer_singer"), X, TWO),
    "logistic_two": (mercer.LogisticRegression(), X, TEXT[TWO]),
    "logistic": (mercer.LogisticRegression(), X, THREE),
    "logistic_rest": (mercer.LogisticRegression(multi_class="ovr"), X, THREE),
    "pegasos": (mercer.PegasosSVC(random_state=0, max_iter=5), X, THREE),
    "least_squares": (mercer.LeastSquaresClassifier(probability=True), X, THREE),
    "least_squares_two": (mercer.LeastSquaresClassifier(probability=True), X, TWO),
    "least_squares_svc": (mercer.LeastSquaresSVC(probability=True), X, THREE),
    "kernel_logistic": (mercer.KernelLogisticRegression(), X, THREE),
    "kernel_logistic_two": (mercer.KernelLogisticRegression(), X, TWO),
    "gradient": (mercer.GradientKernelSVC(max_iter=100), X, THREE),
    "perceptron": (mercer.KernelPerceptron(), X, THREE),
    "parzen": (mercer.ParzenClassifier(probability=True), X, THREE),
    "neighbours": (mercer.KernelNeighborsClassifier(n_neighbors=4, kernel="rbf"), SPREAD, THREE),
    "neighbours_poly": (mercer.KernelNeighborsClassifier(n_neighbors=3, kernel="poly", coef0=1.0), SPREAD, TWO),
    "neighbours_mean": (mercer.KernelNeighborsRegressor(n_neighbors=3), SPREAD, NUMBERS),
    "network": (mercer.RBFNetworkClassifier(n_components=6, random_state=0), X, THREE),
    "scaled": (SCALED, X, TEXT[THREE]),
    "ranged": (RANGED, X, TWO),
    "fourier": (FOURIER, X, THREE),
    "landmarks": (LANDMARKS, X, TWO),
    "basis": (BASIS, X, TWO),
    "products": (PRODUCTS, X, THREE),
    "columns": (COLUMNS, X, THREE),
    "product_map": (HARMONIC, X, TWO),
    "search": (GridSearchCV(SVC(), {"C": [1.0, 10.0]}, cv=2), X, THREE),
    "svr": (mercer.SVR(), X, NUMBERS),
    "nu_svr": (mercer.NuSVR(), X, NUMBERS),
    "quantile": (mercer.QuantileSVR(), X, NUMBERS),
    "linear_svr": (mercer.LinearSVR(), X, NUMBERS),
    "ridge": (mercer.KernelRidge(kernel="rbf"), X, NUMBERS),
    "ridge_two": (mercer.KernelRidge(kernel="laplacian"), X, np.column_stack([NUMBERS, X[:, 0]])),
    "scaled_svr": (make_pipeline(StandardScaler(), mercer.SVR(C=10.0)), X, NUMBERS),
    "one_class": (mercer.OneClassSVM(nu=0.2), X, None),
    "ball": (mercer.SVDD(C=0.2, kernel="poly", coef0=1.0), X, None),
}
"""Machines that are not fitted yet, with rows and targets."""


TABLES = {
    "table_svc": (SVC(probability=True), "classes"),
    "table_pairs": (SVC(C=3.0), "three"),
    "table_logistic": (mercer.LogisticRegression(), "three"),
    "table_linear": (mercer.LinearSVC(), "classes"),
    "table_svr": (mercer.SVR(), "numbers"),
    "table_ridge": (mercer.KernelRidge(kernel="rbf"), "numbers"),
    "table_ball": (mercer.SVDD(C=0.1), None),
    "table_inside": (mercer.OneClassSVM(nu=0.2), None),
    "table_costs": (SVC(probability=True), "three"),
}
"""Machines of models of tables, and their targets."""


def table_of(codes, levels=("q", "r", "s", "t", "u")):
    """A table of numbers and one column of categories, from rows of numbers and numbers of levels."""
    names = {float(place): level for place, level in enumerate(levels)}
    category = [names.get(code, "another") if code == code else None for code in codes[:, 1]]
    return pd.DataFrame({"a": codes[:, 0], "b": category, "c": codes[:, 2], "d": codes[:, 3]})


def trained_model(name):
    """A model of a table; some of its cells are missing."""
    machine, target = TABLES[name]
    table = table_of(np.column_stack([X[:, 0], np.floor(X[:, 1]), X[:, 2:]]))
    table.loc[5:9, "a"], table.loc[20, "d"], table.loc[3:7, "b"] = np.nan, np.nan, None
    targets = {"classes": TEXT[TWO], "three": THREE, "numbers": NUMBERS}
    if target is not None:
        table[target] = targets[target]
    model = mercer.fit_model(table, target, machine, missing="impute")
    return replace(model, costs=1.0 - np.eye(3) + np.tri(3)) if name == "table_costs" else model


@cache
def fitted(name):
    """A fitted machine, or a model of a table."""
    if name in TABLES:
        return trained_model(name)
    machine, rows_of_fit, y = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine.fit(rows_of_fit, y)


def expected(machine, X):
    """What a machine answers: decision values, probabilities and predictions, None where it has no such answer."""
    if hasattr(machine, "encoder"):
        levels = next(rule.levels for rule in machine.encoder.rules_ if rule.name == "b")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mercer.data.TableWarning)
            table = table_of(X, levels)
            is_number = machine.prediction_kind.kind == "quantity"
            scores = None if is_number else machine.scores(table).reshape(len(X), -1)
            return scores, machine.probabilities(table) if machine.has_probabilities else None, machine.predict(table)
    decision = getattr(machine, "decision_function", None)
    probabilities = getattr(machine, "predict_proba", None)
    return (
        None if decision is None else np.asarray(decision(X)).reshape(len(X), -1),
        None if probabilities is None else probabilities(X),
        machine.predict(X),
    )


def close(actual, wanted):
    """Whether numbers are equal to 1e-12 of the largest of their column."""
    wanted = np.asarray(wanted, dtype=np.float64).reshape(np.shape(actual))
    scale = np.maximum(1.0, np.abs(wanted).max(axis=0))
    return bool((np.abs(actual - wanted) <= 1e-12 * scale).all())
