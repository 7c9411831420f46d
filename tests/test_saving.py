"""Fitted machines, pipelines and searches in model files, without their training rows."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_classif
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

import mercer
from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
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
    NuSVR,
    OneClassSVM,
    ParzenClassifier,
    PegasosSVC,
    QuantileSVR,
    RandomFourier,
    RBFNetworkClassifier,
    as_model,
    load_libsvm_model,
    load_model,
    save_libsvm_model,
    save_model,
)
from mercer.data import cell_text
from mercer.studies.models import Model, ModelFileError, verify
from mercer.studies.models.plain_state import CLASSES, read, written

X, y = load_iris(return_X_y=True)
NAMED = pd.DataFrame(X, columns=list("abcd"))
TEXTS = ["red apple", "green apple", "red car", "blue car", "green tree", "red tree"] * 4
KINDS = ["fruit", "fruit", "car", "car", "tree", "tree"] * 4

CLASSIFIERS = [
    SVC(),
    SVC(multi_class="ovr", loss="squared_hinge"),
    SVC(multi_class="joint", C=0.5),
    SVC(probability=True),
    SVC(class_weight="balanced", kernel="linear"),
    NuSVC(nu=0.3),
    KernelLogisticRegression(),
    LeastSquaresSVC(),
    GradientKernelSVC(),
    KernelPerceptron(),
    ParzenClassifier(),
    KernelNeighborsClassifier(),
    LogisticRegression(),
    LeastSquaresClassifier(),
    LinearSVC(),
    PegasosSVC(alpha=1.0),
    RBFNetworkClassifier(n_components=8),
]
REGRESSORS = [SVR(), NuSVR(), QuantileSVR(), KernelRidge(), LinearSVR(), KernelNeighborsRegressor()]
ids = [repr(machine) for machine in CLASSIFIERS]


def saved(model, folder):
    save_model(folder / "model.mercer", model)
    return load_model(folder / "model.mercer")


@pytest.mark.parametrize("machine", CLASSIFIERS, ids=ids)
def test_a_classifier_alone(machine, tmp_path):
    machine.fit(X[::2], y[::2])
    loaded = saved(machine, tmp_path)
    assert isinstance(loaded, Model)
    assert (loaded.predict(X) == machine.predict(X)).all()
    assert loaded.classes_.tolist() == machine.classes_.tolist()
    if hasattr(machine, "decision_function") and not isinstance(machine, SVC):
        values = machine.decision_function(X)
        np.testing.assert_allclose(loaded.decision_function(X), values, atol=1e-9 * np.abs(values).max())
    if getattr(machine, "probability", False):
        np.testing.assert_allclose(loaded.predict_proba(X), machine.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("machine", REGRESSORS, ids=[type(one).__name__ for one in REGRESSORS])
def test_a_regressor_alone(machine, tmp_path):
    machine.fit(NAMED[list("abc")], X[:, 3])
    loaded = saved(machine, tmp_path)
    np.testing.assert_allclose(loaded.predict(NAMED), machine.predict(NAMED[list("abc")]), atol=1e-10)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    assert loaded.certificate == (as_model(machine, NAMED[list("abc")], X[:, 3]).certificate)


@pytest.mark.parametrize("machine", [OneClassSVM(nu=0.2), SVDD()], ids=repr)
def test_a_novelty_detector_alone(machine, tmp_path):
    machine.fit(X)
    assert (saved(machine, tmp_path).predict(X) == machine.predict(X)).all()


@pytest.mark.parametrize("machine", [SVC(kernel="rbf"), LinearSVC(), LogisticRegression(), KernelRidge()], ids=repr)
def test_sparse_rows_and_weights(machine, tmp_path):
    rows, weights = sparse.csr_array(X), np.arange(150) % 3
    machine.fit(rows, y, sample_weight=weights)
    loaded = saved(machine, tmp_path)
    for given in (rows, X):
        np.testing.assert_allclose(loaded.predict(given).astype(float), machine.predict(rows), atol=1e-10)


def test_a_model_without_a_table_is_what_a_model_with_it_is():
    weights = np.arange(150) % 3
    machine = SVC(class_weight="balanced").fit(X, y, sample_weight=weights)
    alone, with_table = as_model(machine), as_model(machine, X, y, weights)
    np.testing.assert_array_equal(alone.decision_values(X), with_table.decision_values(X))
    assert alone.certificate == with_table.certificate
    np.testing.assert_array_equal(alone.training.sample_weight, with_table.training.sample_weight)
    verification = verify(alone, X)
    assert not verification.ok
    assert "saved from a fitted machine alone" in verification.findings[0]
    assert alone.training.n_rows == 100


def test_labels_of_every_kind(tmp_path):
    for labels in (y == 1, np.array(["9", "10", "11"])[y], y + 2.0, y - 7):
        machine = SVC().fit(X, labels)
        loaded = saved(machine, tmp_path)
        assert [cell_text(one) for one in loaded.predict(X)] == [cell_text(one) for one in machine.predict(X)]


METHOD = {"quantile_method": "averaged_inverted_cdf"} if "quantile_method" in KBinsDiscretizer().get_params() else {}


def as_array(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


def steps_of_numbers():
    """Transformers of tables of numbers; some cells are missing."""
    return [
        StandardScaler(),
        MinMaxScaler(clip=True),
        RobustScaler(),
        PowerTransformer(),
        QuantileTransformer(n_quantiles=20, random_state=0),
        PCA(2),
        TruncatedSVD(2, random_state=0),
        PolynomialFeatures(2),
        KBinsDiscretizer(3, **METHOD),
        VarianceThreshold(0.1),
        SelectKBest(f_classif, k=2),
        FunctionTransformer(np.log1p),
        FunctionTransformer(),
        FeatureUnion([("one", StandardScaler()), ("two", PCA(1))]),
        TargetEncoder(),
        make_pipeline(StandardScaler(), PCA(3)),
        RandomFourier(n_frequencies=20, random_state=0),
    ]


@pytest.mark.parametrize("step", steps_of_numbers(), ids=repr)
def test_a_pipeline_of_numbers(step, tmp_path):
    pipeline = make_pipeline(step, SVC()).fit(X, y)
    loaded = saved(pipeline, tmp_path)
    assert isinstance(loaded, Pipeline)
    assert (loaded.predict(X) == pipeline.predict(X)).all()
    assert loaded.score(X, y) == pipeline.score(X, y)
    again, once = (one[:-1].transform(X) for one in (loaded, pipeline))
    np.testing.assert_array_equal(as_array(again), as_array(once))


@pytest.mark.parametrize("step", [SimpleImputer(add_indicator=True), KNNImputer(), MissingIndicator()], ids=repr)
def test_missing_cells(step, tmp_path):
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    pipeline = make_pipeline(step, LinearSVC()).fit(rows, y)
    assert (saved(pipeline, tmp_path).predict(rows) == pipeline.predict(rows)).all()


@pytest.mark.parametrize(
    "step",
    [
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        CountVectorizer(binary=True),
        make_pipeline(CountVectorizer(), TfidfTransformer()),
        HashingVectorizer(n_features=32),
    ],
    ids=repr,
)
@pytest.mark.parametrize("machine", [LinearSVC(), SVC()], ids=["linear", "kernel"])
def test_texts(step, machine, tmp_path):
    pipeline = make_pipeline(step, machine).fit(TEXTS, KINDS)
    loaded = saved(pipeline, tmp_path)
    assert (loaded.predict(TEXTS) == pipeline.predict(TEXTS)).all()
    assert loaded.classes_.tolist() == ["car", "fruit", "tree"]


def test_columns_of_a_data_frame(tmp_path):
    frame = NAMED.assign(kind=np.array(["x", "y", None], dtype=object)[np.arange(150) % 3], size=["s", "m", "l"] * 50)
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
            ("kinds", OneHotEncoder(handle_unknown="ignore", min_frequency=2, drop="if_binary"), ["kind"]),
            ("sizes", OrdinalEncoder(categories=[["s", "m", "l"]]), ["size"]),
        ],
        remainder="drop",
    )
    pipeline = Pipeline([("columns", columns), ("machine", SVC(kernel=RBF(gamma=0.1)))]).fit(frame, y)
    loaded = saved(pipeline, tmp_path)
    assert (loaded.predict(frame) == pipeline.predict(frame)).all()
    names = loaded[:-1].get_feature_names_out().tolist()
    assert names == pipeline[:-1].get_feature_names_out().tolist()


def test_searches(tmp_path):
    by_kernel = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.1]).fit(X, y)
    by_grid = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0]}).fit(X, y)
    for search in (by_kernel, by_grid):
        assert (saved(search, tmp_path).predict(X) == search.predict(X)).all()
    with pytest.raises(NotFittedError, match="refit=True"):
        save_model(tmp_path / "m", GridSearchCV(SVC(), {"C": [1.0]}, refit=False).fit(X, y))
    save_libsvm_model(tmp_path / "svm", by_kernel)
    assert (load_libsvm_model(tmp_path / "svm").predict(X) == by_kernel.predict(X)).all()


def secret(text):
    return text


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: KNeighborsClassifier().fit(X, y), "models are made of the machines 'SVC', .* machine is KNeighbors"),
        (lambda: make_pipeline(StandardScaler(), Ridge()).fit(X, y), "machine is Ridge"),
        (
            lambda: make_pipeline(TfidfVectorizer(preprocessor=secret), LinearSVC()).fit(TEXTS, KINDS),
            "the step 'tfidfvectorizer' .* its TfidfVectorizer holds the function secret as preprocessor",
        ),
        (lambda: make_pipeline(FunctionTransformer(secret), SVC()).fit(X, y), "holds the function secret as func"),
        (lambda: make_pipeline(FeatureUnion([("f", Odd())]), SVC()).fit(X, y), "holds a Odd"),
        (lambda: X, "machine is ndarray"),
    ],
)
def test_what_cannot_be_saved_is_named(model, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        save_model(tmp_path / "m", model())
    assert not any(tmp_path.iterdir())


class Odd(StandardScaler):
    """A transformer of nobody's library."""


def test_what_was_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(tmp_path / "m", SVC())
    with pytest.raises(NotFittedError):
        save_model(tmp_path / "m", make_pipeline(StandardScaler(), SVC()))
    with pytest.raises(TypeError, match="write save_model"):
        save_model(SVC().fit(X, y), tmp_path / "m")
    with pytest.raises(TypeError, match=r"write save_libsvm_model\(path, machine\)"):
        save_libsvm_model(SVC().fit(X, y), tmp_path / "m")
    with pytest.raises(TypeError, match="hold no transformers"):
        save_libsvm_model(tmp_path / "m", make_pipeline(StandardScaler(), SVC()).fit(X, y))


def test_commands_name_the_way_to_read_a_pipeline(tmp_path, capsys):
    save_model(tmp_path / "p.mercer", make_pipeline(StandardScaler(), SVC()).fit(X, y))
    NAMED.to_csv(tmp_path / "t.csv", index=False)
    from mercer.studies.cli import run

    assert run(["predict", str(tmp_path / "p.mercer"), str(tmp_path / "t.csv")]) == 1
    assert "mercer.load_model" in capsys.readouterr().err
    save_model(tmp_path / "m.mercer", SVC().fit(NAMED, y))
    assert run(["predict", str(tmp_path / "m.mercer"), str(tmp_path / "t.csv")]) == 0


def edited(path, change):
    """Write a model file again with a changed description of its pipeline, and checksums that fit."""
    from mercer.studies.models import archive

    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist() if name != archive.CHECKSUMS}
    manifest = json.loads(members[archive.MANIFEST])
    change(manifest["pipeline"])
    members[archive.MANIFEST] = json.dumps(manifest, indent=1).encode()
    archive.write_members(path, members)


def entry(pipeline):
    return pipeline["steps"][0][1]


@pytest.mark.parametrize(
    "change",
    [
        lambda one: entry(one).update({"class": "Popen"}),
        lambda one: entry(one).update({"class": "os.system"}),
        lambda one: entry(one)["state"].update({"__class__": "x"}),
        lambda one: entry(one)["state"].update({"transform": {"is": "function", "name": "eval"}}),
        lambda one: entry(one)["state"].update({"mean_": {"is": "array", "dtype": "O8", "shape": [1], "data": ""}}),
        lambda one: entry(one)["state"]["mean_"].update({"shape": [10**9, 10**9]}),
        lambda one: entry(one)["state"].update({"mean_": {"is": "type", "name": "eval"}}),
        lambda one: entry(one).update({"state": []}),
        lambda one: one.update({"steps": [["a", {"is": "float", "value": "nan"}]]}),
        lambda one: one.update({"steps": 3}),
        lambda one: one.update({"more": 3}),
        lambda one: one.pop("scikit_learn"),
    ],
)
def test_edited_pipelines_are_refused(change, tmp_path):
    path = tmp_path / "p.mercer"
    save_model(path, make_pipeline(StandardScaler(), SVC()).fit(X, y))
    edited(path, change)
    with pytest.raises(ModelFileError):
        load_model(path)


def test_columns_of_words_are_checked(tmp_path):
    path = tmp_path / "p.mercer"
    save_model(path, make_pipeline(CountVectorizer(), LinearSVC()).fit(TEXTS, KINDS))
    edited(path, lambda one: entry(one)["state"]["vocabulary_"]["items"][0].__setitem__(1, 10**9))
    with pytest.raises(ModelFileError, match="words without a column"):
        load_model(path)


def test_another_version_of_scikit_learn_is_told(tmp_path):
    path = tmp_path / "p.mercer"
    save_model(path, make_pipeline(StandardScaler(), SVC()).fit(X, y))
    edited(path, lambda one: one.update({"scikit_learn": "0.24.1"}))
    with pytest.warns(UserWarning, match=r"written with scikit-learn 0\.24\.1"):
        assert load_model(path).score(X, y) > 0.9


def test_known_classes_are_classes():
    from importlib import import_module

    assert all(isinstance(getattr(import_module(module), name), type) for name, module in CLASSES.items())


VALUES = [
    None,
    True,
    3,
    1.5,
    float("inf"),
    "text",
    [1, [2]],
    (1, (2,)),
    {"a": {1: (2, 3)}},
    {1, 2},
    slice(1, None),
    np.log,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values(value):
    again = read(json.loads(json.dumps(written(value))))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.5, np.nan], [np.inf, -0.0]]),
        np.array([True, False]),
        np.array(["a", "bcd"]),
        np.array([["a", None], [1.5, True]], dtype=object),
        np.zeros((0, 3), dtype=np.float32),
        np.float64(0.1),
        np.int64(3),
    ],
    ids=repr,
)
def test_plain_arrays(array):
    again = read(json.loads(json.dumps(written(array))))
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


def test_the_deepest_lists_are_refused():
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(ModelFileError, match="levels deep"):
        read(value)
    assert mercer.load_model is load_model
