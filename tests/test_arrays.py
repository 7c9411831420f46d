"""Arrays of other libraries: results are where the array is, equal those of NumPy, and nothing leaves the device."""

from inspect import isclass, signature

import array_api_strict as strict
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.datasets import load_iris, make_regression

import mercer
from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    Landmarks,
    Linear,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    Nystroem,
    OneClassSVM,
    Polynomial,
    Sigmoid,
    Spectrum,
    Tanimoto,
)
from mercer.gram.array_kernel import ArrayKernel
from mercer.gram.places import Place, is_on_host, place_of
from mercer.kernels import ChiSquared, HistogramIntersection, Laplacian

AWAY = strict.Device("device1")  # NumPy cannot read its arrays: a transfer that was not asked for raises
X, y = load_iris(return_X_y=True)
T = make_regression(150, 4, noise=5.0, random_state=0)[1]
TWO = y > 0


def to_torch(device):
    def put(table):
        torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[torch]'")
        pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
        if device == "cuda" and not torch.cuda.is_available():
            pytest.skip("this machine has no CUDA device")
        return mercer.to_device(table, device)

    return put


PLACES = [
    pytest.param(lambda table: strict.asarray(table, device=AWAY), id="strict"),
    pytest.param(to_torch("cpu"), id="torch"),
    pytest.param(to_torch("cuda"), id="cuda", marks=pytest.mark.gpu),
]

MACHINES = {
    "rbf": (SVC(), y),
    "pairs": (SVC(decision_function_shape="ovo"), y),
    "rest": (SVC(multi_class="ovr", kernel=Polynomial(degree=2, gamma=0.1, coef0=1.0)), y),
    "two classes": (SVC(kernel="sigmoid", gamma=0.01), TWO),
    "gamma from the data": (SVC(kernel=Polynomial(degree=2)), y),
    "SVR": (SVR(kernel=Laplacian(gamma=0.3)), T),
    "OneClassSVM": (OneClassSVM(nu=0.2), None),
    "landmarks": (SVC(approximation=Landmarks(n_landmarks=20)), y),
    "KernelRidge": (mercer.KernelRidge(kernel="rbf"), np.column_stack([T, -T])),
    "LeastSquaresSVC": (mercer.LeastSquaresSVC(), y),
    "KernelLogisticRegression": (mercer.KernelLogisticRegression(), y),
    "perceptron": (mercer.KernelPerceptron(kernel=RBF(gamma=0.5)), y),
    "LinearSVC": (LinearSVC(), y),
    "LinearSVR": (LinearSVR(), T),
    "LogisticRegression": (LogisticRegression(), TWO),
    "LeastSquaresClassifier": (mercer.LeastSquaresClassifier(), y),
}


@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.filterwarnings("ignore:.*positive semidefinite")
def test_machines_predict_where_the_array_is(name, put):
    machine, target = MACHINES[name]
    fitted = mercer_fit(machine, target)
    rows = X[::3]
    array = put(rows)
    for method in ("decision_function", "predict", "score_samples"):
        if not hasattr(fitted, method):
            continue
        expected, result = getattr(fitted, method)(rows), getattr(fitted, method)(array)
        assert type(result) is type(array)
        assert result.device == array.device
        values = mercer.to_host(result)
        assert values.shape == expected.shape
        assert values.dtype == expected.dtype
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def mercer_fit(machine, target):
    return machine.fit(X) if target is None else machine.fit(X, target)


B = (np.random.default_rng(0).random((60, 40)) < 0.3) * 1.0
COUNTS = np.random.default_rng(1).poisson(1.0, (60, 7)) * 1.0
WITH_ZEROS = np.vstack([COUNTS, np.zeros((1, 7))])
KERNELS = {
    "linear": (Linear(), X),
    "rbf": (RBF(gamma=0.5), X),
    "rbf far from 0": (RBF(gamma=0.5), X + 1e6),
    "rbf of close rows": (RBF(gamma=1e9), 1e-4 * X + 1e3 * (np.arange(150) % 2)[:, None]),
    "laplacian": (Laplacian(gamma=0.5), X),
    "sigmoid": (Sigmoid(gamma=0.1, coef0=-1.0), X),
    "cosine": (mercer.kernels.Cosine(), WITH_ZEROS),
    "sum": (0.5 * RBF(gamma=0.1) + 2.0 * Linear() ** 2, X),
    "constant part": (RBF(gamma=0.1) + 1.0, X),
    "columns": (RBF(gamma=0.1).on([0, 2]) * Linear().on([1, 3]), X),
    "tanimoto of bits": (Tanimoto(), B),
    "tanimoto": (Tanimoto(), WITH_ZEROS),
    "chi2": (ChiSquared(gamma=0.2), WITH_ZEROS),
    "intersection": (HistogramIntersection(), COUNTS),
}


@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_on_a_device_equal_those_on_the_host(name, put):
    kernel, table = KERNELS[name]
    gram = mercer.gram_matrix(kernel, table[:40], table[:30])
    array, vectors = put(table[:40]), mercer.data.as_data(table[:30])
    resolved = kernel.resolve(vectors)
    weights = np.linspace(-1.0, 1.0, 60).reshape(30, 2)
    products = ArrayKernel(resolved, vectors, place_of(array)).times(array, weights)
    np.testing.assert_allclose(mercer.to_host(products), gram @ weights, rtol=1e-9, atol=1e-9 * np.abs(gram).max())


@pytest.mark.parametrize("put", PLACES)
def test_features_of_landmarks_are_where_the_array_is(put):
    features = Nystroem(n_components=20, random_state=0).fit(X)
    array = put(X)
    values = features.transform(array)
    assert values.device == array.device
    np.testing.assert_allclose(mercer.to_host(values), features.transform(X), atol=1e-8)


def test_tiles_keep_to_the_memory_limit():
    vectors = mercer.data.as_data(X)
    few = ArrayKernel(RBF(gamma=1.0), vectors, Place(strict, AWAY), memory_limit=8 * 4 * 150 * 10)
    tiles = list(few.tiles(strict.asarray(X, device=AWAY)))
    assert len(tiles) == 15
    assert {values.shape for _, values in tiles} == {(10, 150)}


def test_float32_and_integers_become_float64():
    machine = SVC().fit(X, y)
    for dtype, rows in ((strict.float32, X), (strict.int64, X.astype(int))):
        result = machine.decision_function(strict.asarray(rows, dtype=dtype, device=AWAY))
        assert result.dtype == strict.float64
        expected = machine.decision_function(rows.astype(np.float32).astype(np.float64))
        np.testing.assert_allclose(mercer.to_host(result), expected, atol=1e-9)


def away(table):
    return strict.asarray(np.asarray(table, dtype=np.float64), device=AWAY)


def with_nan():
    table = X.copy()
    table[3, 1] = np.nan
    return table


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (lambda: away(X[:, :3]), ValueError, r"the 4 columns of fit.*\(150, 3\)"),
        (lambda: away(X[0]), ValueError, "the 4 columns of fit"),
        (lambda: away(X[:0]), ValueError, "0 sample"),
        (lambda: away(with_nan()), ValueError, "NaN or infinity"),
        (lambda: strict.asarray(X + 0j, device=AWAY), TypeError, "real numbers"),
    ],
)
def test_wrong_arrays_are_refused(table, error, message):
    for machine in (SVC().fit(X, y), LinearSVC().fit(X, y)):
        with pytest.raises(error, match=message):
            machine.predict(table())


def sparse_machine():
    from scipy.sparse import csr_array

    return SVC().fit(csr_array(X), y)


@pytest.mark.parametrize(
    ("machine", "method", "message"),
    [
        (
            lambda: SVC(kernel=Spectrum(2)).fit(["ab", "ba", "aa", "bb"], [0, 1, 0, 1]),
            "predict",
            "predict of this SVC.*no table of numbers",
        ),
        (lambda: SVC(kernel=lambda a, b: a @ b.T).fit(X, TWO), "predict", "sums and products of columns"),
        (sparse_machine, "predict", "CSR rows.*dense rows"),
        (lambda: SVDD().fit(X), "predict", "predict of .* computes on the host"),
        (lambda: SVC(approximation="cells").fit(X, TWO), "predict", "predict of .* computes on the host"),
        (lambda: LogisticRegression().fit(X, TWO), "predict_proba", "computes on the host.*to_host"),
        (lambda: SVC().fit(X, np.array(["a", "b", "c"])[y]), "predict", "classes are <U1.*decision_function"),
        (lambda: mercer.KernelNeighborsClassifier().fit(X, y), "predict", "predict of .* computes on the host"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*not known to be positive semidefinite")
def test_what_a_device_cannot_do_is_refused(machine, method, message):
    fitted = machine()
    with pytest.raises(TypeError, match=message):
        getattr(fitted, method)(away(X))


@pytest.mark.parametrize("machine", [SVC(), mercer.LeastSquaresClassifier(), mercer.KernelRidge()])
def test_training_asks_for_rows_on_the_host(machine):
    with pytest.raises(TypeError, match=r"fit of .* computes on the host.*device1.*to_host"):
        machine.fit(away(X), y)
    assert machine.fit(mercer.to_host(away(X)), y).predict(X).shape == (150,)


def test_negative_entries_are_refused_where_the_kernel_forbids_them():
    machine = SVC(kernel=ChiSquared(gamma=0.2)).fit(X, y)
    with pytest.raises(ValueError, match="negative entries"):
        machine.predict(away(-X))


def test_to_host_returns_numpy():
    assert mercer.to_host(X) is X
    np.testing.assert_array_equal(mercer.to_host(away(X)), X)
    with pytest.raises(TypeError, match="array API standard"):
        mercer.to_host([1.0])


def test_a_device_that_is_not_there_is_an_error(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[torch]'")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"device='cuda' cannot compute .* on this machine"):
            mercer.to_device(X, "cuda")
    with pytest.raises(ValueError, match="name of a device of torch"):
        mercer.to_device(X, "toaster")


def test_without_torch_a_device_is_an_error(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "array_api_compat.torch", None)
    with pytest.raises(ImportError, match=r"pip install 'mercer\[torch\]'"):
        mercer.to_device(X, "cuda")


@pytest.mark.parametrize(
    ("table", "message"), [(np.array([["a"]]), "tables of numbers"), ([["a"]], "tables of numbers")]
)
def test_text_stays_on_the_host(table, message, monkeypatch):
    with pytest.raises(TypeError, match=message):
        mercer.to_device(table, "cpu")


def test_sparse_rows_stay_on_the_host():
    from scipy.sparse import csr_array

    with pytest.raises(TypeError, match="sparse"):
        mercer.to_device(csr_array(X), "cpu")


def names_of_methods(machine):
    """Return the public methods whose first argument is X; `score_variants` takes texts alone."""
    names = [name for name in dir(machine) if not name.startswith(("_", "set_", "get_")) and not name.endswith("_")]
    methods = {name: getattr(machine, name, None) for name in names}  # what is not offered raises AttributeError
    have_X = [name for name, one in methods.items() if callable(one) and "X" in [*signature(one).parameters][:1]]
    return [name for name in have_X if name != "score_variants"]


def estimators():
    for name in dir(mercer):
        kind = getattr(mercer, name)
        if isclass(kind) and issubclass(kind, BaseEstimator):
            wraps = "estimator" in signature(kind).parameters
            machine = kind(SVC(), C=[1.0], cv=2) if wraps else kind()
            yield pytest.param(machine, id=name)
    yield pytest.param(SVC(approximation="cells"), id="cells")
    yield pytest.param(SVC(approximation="landmarks"), id="landmarks")


TRAINED = ("LinearSVC", "LinearSVR", "LogisticRegression", "Nystroem")
INNER = {"fit_predict": "fit", "fit_transform": "fit", "path": "fit", "score": "predict"}
"""Methods that call others, which messages may name."""


@pytest.mark.parametrize("machine", [*estimators()])
@pytest.mark.filterwarnings("ignore")
def test_every_method_is_right_on_a_device_or_names_itself_and_the_remedy(machine):
    rows, target = X[::3], X[::3, 2] if is_regressor(machine) else (y[::3] > 0) * 1
    if "probability" in machine.get_params(deep=False):
        machine.set_params(probability=True)
    fitted = machine.fit(rows, target)
    for name in names_of_methods(fitted):
        trains = name in ("fit", "path", "C_path", "fit_transform")
        if trains and type(machine).__name__ in TRAINED:
            continue
        given = [target] if "y" in [*signature(getattr(fitted, name)).parameters][1:2] else []
        given += [[1.0]] if name == "path" else []
        method = getattr(clone(machine) if trains else fitted, name)
        message = ""
        try:
            result = method(away(rows), *given)
        except (TypeError, ValueError) as error:
            message = str(error)
        if message:
            assert name in message or INNER[name] in message
            assert "to_host(X)" in message or "approximation=None" in message
            continue
        expected = method(rows, *given)
        if name == "score":
            assert result == pytest.approx(expected, abs=1e-9)
            continue
        assert result.device == AWAY
        np.testing.assert_allclose(mercer.to_host(result), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("machine", [one for one in estimators() if hasattr(one.values[0], "predict")])
def test_targets_and_weights_on_a_device_are_read_or_refused_by_their_name(machine):
    rows, target = X[::3], (X[::3, 2] if is_regressor(machine) else (y[::3] > 0) * 1.0)
    for name, values in (("y", away(target)), ("sample_weight", away(target + 1.0))):
        if name not in signature(machine.fit).parameters:
            continue
        message = ""
        try:
            clone(machine).fit(rows, **({"y": target} | {name: values}))
        except TypeError as error:
            message = str(error)
        assert not message or message.startswith(f"{name} is on the device ")


def test_functions_of_rows_ask_for_the_host():
    with pytest.raises(TypeError, match=r"X is on the device .*device1.*computes on the host: give mercer.to_host"):
        mercer.gram_matrix(RBF(gamma=1.0), away(X))


def test_targets_and_weights_of_a_score_may_be_on_a_device():
    machine, weights = SVC().fit(X, y), np.linspace(0.0, 1.0, 150)
    for rows in (X, away(X)):
        assert machine.score(rows, away(y), away(weights)) == machine.score(X, y, weights)
    assert SVR().fit(X, T).score(away(X), T) == pytest.approx(SVR().fit(X, T).score(X, T))


def array_of(package, device, **methods):
    """Return an array whose type a package defines, and which says that it is on this device of DLPack."""
    named = type("Array", (), {"__module__": package, "device": "its own", "__dlpack_device__": device} | methods)
    return named()


def raises(error):
    def device(self):
        raise error

    return device


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (array_of("jaxlib._jax", lambda self: (1, 0)), True),
        (array_of("jaxlib._jax", lambda self: (2, 0)), False),  # though it may be the default device of JAX
        (array_of("cupy", lambda self: (2, 0)), False),
        (array_of("cupy", lambda self: (3, 0)), True),  # memory of the host that is pinned
        (array_of("torch", raises(ValueError("Unknown device type meta"))), False),
        (strict.asarray(X), True),
        (strict.asarray(X, device=AWAY), False),
    ],
)
def test_the_device_of_an_array_decides_whether_it_is_on_the_host(array, expected):
    assert is_on_host(array) == expected


def test_each_library_copies_to_the_host_in_its_own_way():
    def no_device(self, *args, **about):
        raise BufferError("no copies between devices")

    there = {"__array_namespace__": lambda self: strict}
    assert mercer.to_host(array_of("cupy._core", None, get=lambda self: X, **there)) is X
    assert mercer.to_host(array_of("jaxlib._jax", None, __array__=lambda self, **about: X, **there)) is X
    np.testing.assert_array_equal(
        mercer.to_host(
            array_of("other", lambda self: (1, 0), __dlpack__=lambda self, **about: X.__dlpack__(), **there)
        ),
        X,
    )
    with pytest.raises(
        TypeError, match=r"cannot be copied to the host .*no copies between devices.*by its own library"
    ):
        mercer.to_host(array_of("other", lambda self: (2, 0), __dlpack__=no_device, **there))


def test_numpy_computes_other_methods_for_arrays_in_the_memory_of_the_host():
    near = strict.asarray(X)
    for machine, method in (
        (SVC(probability=True), "predict_proba"),
        (mercer.KernelNeighborsClassifier(), "predict"),
        (mercer.RandomFourier(random_state=0), "transform"),
    ):
        fitted = machine.fit(X, y)
        result = getattr(fitted, method)(near)
        assert isinstance(result, type(near))
        np.testing.assert_array_equal(np.asarray(result), getattr(fitted, method)(X))
    text = mercer.KernelNeighborsClassifier().fit(X, np.array(["a", "b", "c"])[y])
    with pytest.raises(TypeError, match="classes are <U1"):
        text.predict(near)
