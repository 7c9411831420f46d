"""Displays: what they draw, for which machines and tables, that drawing computes nothing, and what they refuse."""

import builtins
import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import svm
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    KernelNeighborsClassifier,
    KernelSearchCV,
    LeastSquaresSVC,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    OneClassSVM,
    Spectrum,
    plot,
)
from mercer.plot import DecisionRegionDisplay as Regions

pyplot = pytest.importorskip("matplotlib.pyplot")

X, y = make_moons(60, noise=0.3, random_state=0)
IRIS = load_iris(as_frame=True)
FLOWERS, KINDS = IRIS.data, IRIS.target_names[IRIS.target]
LINE = np.linspace(0.0, 6.0, 40)[:, None]
WAVE = np.sin(LINE[:, 0]) + np.random.default_rng(0).normal(0.0, 0.3, 40)
SMALL = {"grid_resolution": 21}


def displays():
    """A display of each kind, made from machines."""
    machine, linear = SVC(probability=True).fit(X, y), LinearSVC().fit(X, y)
    tube = SVR(epsilon=0.3).fit(LINE, WAVE)
    search = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.1, 1.0], cv=2).fit(X, y)
    yield Regions.from_estimator(machine, X, y, **SMALL)
    yield plot.MarginDisplay.from_estimator(machine, X, y)
    yield plot.ConfusionMatrixDisplay.from_estimator(machine, X, y)
    yield plot.RocCurveDisplay.from_estimator(machine, X, y)
    yield plot.PrecisionRecallDisplay.from_estimator(machine, X, y)
    yield plot.ThresholdDisplay.from_estimator(machine, X, y)
    yield plot.CalibrationDisplay.from_estimator(machine, X, y, n_groups=4)
    yield plot.PredictionErrorDisplay.from_estimator(tube, LINE, WAVE)
    yield plot.TubeDisplay.from_estimator(tube, LINE, WAVE)
    yield plot.WeightsDisplay.from_estimator(linear)
    yield plot.ImportanceDisplay.from_estimator(linear, X, y, n_repeats=2)
    yield plot.DependenceDisplay.from_estimator(linear, X, 0, grid_resolution=5)
    yield plot.LearningCurveDisplay.from_estimator(linear, X, y, train_sizes=[10, 30], cv=2)
    yield plot.TimeDisplay.from_estimator(linear, X, y, train_sizes=[20, 40], n_repeats=1)
    yield plot.SearchDisplay.from_estimator(search)
    yield plot.GapDisplay.from_estimator(linear)
    yield plot.KernelDisplay.from_kernels(RBF(gamma=1.0), **SMALL)
    yield plot.KernelMatrixDisplay.from_estimator(machine, X, y)
    yield plot.LossDisplay.of_margins()
    yield plot.VoronoiDisplay.from_rows(X, y)
    yield plot.PathDisplay.from_function(lambda x: (x**2).sum(axis=1), [[1.0, 1.0], [0.0, 1.0]], **SMALL)


DISPLAYS = {name: one for name, one in vars(plot).items() if name.endswith("Display") and name != "Display"}


def test_every_display_draws_again_without_computing_and_names_its_artists(monkeypatch):
    drawn = {}
    with pyplot.rc_context({"figure.max_open_warning": 0}):
        for display in displays():
            drawn[type(display).__name__] = display
            data = {name: value for name, value in vars(display).items() if not name.endswith("_")}
            figure, axes = pyplot.subplots(1, len(display.axes_), squeeze=False)
            assert display.plot(axes if len(display.axes_) > 1 else axes[0, 0]) is display
            assert display.figure_ is figure
            assert display.ax_ is axes[0, 0]
            assert {name: value for name, value in vars(display).items() if not name.endswith("_")} == data
            artists = [name for name in vars(display) if name.endswith("_")]
            assert len(artists) >= 4, "ax_, axes_, figure_ and artists"
            assert all(f"{name}" in inspect.getdoc(type(display)) for name in artists if name not in ("axes_", "ax_"))
            figure.canvas.draw()
            pyplot.close("all")
    assert drawn.keys() == DISPLAYS.keys()


def test_figures_for_pages_are_independent_of_pyplot():
    display = plot.LossDisplay.of_margins()
    pyplot.close("all")
    figure = display.to_figure()
    assert figure.axes[0].lines
    assert not pyplot.get_fignums()


def test_a_missing_matplotlib_is_one_line_that_says_what_to_install(monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for draw in (lambda: plot.LossDisplay.of_margins(), lambda: plot.effect(SVC(), X, y, {"C": [1.0]})):
        with pytest.raises(ImportError, match=r"^drawing needs matplotlib .*pip install 'mercer\[plot\]'$") as caught:
            draw()
        assert "\n" not in str(caught.value)


def test_options_that_a_display_does_not_have_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'width'"):
        plot.LossDisplay.of_margins().plot(width=2)


def test_a_wrong_number_of_axes_is_refused():
    display = plot.KernelDisplay.from_kernels(RBF(gamma=1.0), **SMALL)
    with pytest.raises(
        ValueError, match=r"ax must hold 2 axes for KernelDisplay, got 1: make them with plt.subplots\(1, 2"
    ):
        display.plot(pyplot.subplots()[1])


# Regions


def test_margins_and_support_vectors_of_two_classes_are_those_of_the_certificate():
    machine = SVC(C=1.0).fit(X, y)
    display = Regions.from_estimator(machine, X, y, slacks=True)
    examples = machine.certificate_.examples()
    for category, chosen in {
        "free support vectors": (examples.alpha > 0.0) & (examples.alpha < examples.C),
        "support vectors at the bound": examples.alpha >= examples.C,
    }.items():
        np.testing.assert_array_equal(display.support_[category].get_offsets(), X[chosen])
    assert display.boundary_.levels.tolist() == [0.0]
    assert display.margins_.levels.tolist() == [-1.0, 1.0]
    corner = machine.decision_function([[display.xx0[3], display.xx1[7]]])[0]
    assert display.response[7, 3] == pytest.approx(corner)
    with_slack = np.isfinite(display.ends).all(axis=1)
    assert with_slack.sum() == len(display.slacks_.get_segments())
    assert not with_slack[examples.slack < 1e-3].any()
    signs = np.where(y == 1, 1.0, -1.0)
    at_margin = signs[with_slack] * machine.decision_function(display.ends[with_slack])
    np.testing.assert_allclose(at_margin, 1.0, atol=0.01)


def test_slacks_of_a_linear_machine_are_perpendicular_to_its_margin():
    machine = SVC(kernel="linear", C=1.0).fit(X, y)
    display = Regions.from_estimator(machine, X, y, slacks=True, **SMALL)
    rows = np.isfinite(display.ends).all(axis=1)
    lengths = np.linalg.norm(display.ends[rows] - X[rows], axis=1)
    w = machine.coef_.ravel()
    np.testing.assert_allclose(lengths, machine.certificate_.examples().slack[rows] / np.linalg.norm(w), rtol=1e-3)


MACHINES = {
    "joint": (SVC(multi_class="joint"), FLOWERS, KINDS, "classes"),
    "one_versus_one": (SVC(), FLOWERS, KINDS, "classes"),
    "neighbours": (KernelNeighborsClassifier(), FLOWERS, KINDS, "classes"),
    "linear": (LinearSVC(loss="hinge"), FLOWERS, KINDS == "virginica", "two classes"),
    "logistic": (LogisticRegression(), FLOWERS, KINDS == "virginica", "two classes"),
    "one_class": (OneClassSVM(nu=0.2), FLOWERS, None, "one class"),
    "ball": (SVDD(C=0.1), FLOWERS, None, "one class"),
    "tube": (SVR(), FLOWERS, FLOWERS["sepal length (cm)"], "regression"),
    "linear_tube": (LinearSVR(epsilon=0.1), FLOWERS, FLOWERS["sepal length (cm)"], "regression"),
    "peer": (svm.SVC(), FLOWERS, KINDS, "classes"),
}


@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize("name", MACHINES)
def test_regions_of_every_kind_of_machine_in_frames_and_pipelines(name, in_pipeline):
    machine, table, target, kind = MACHINES[name]
    pipeline = make_pipeline(StandardScaler(), machine) if in_pipeline else machine
    fitted = pipeline.fit(table, target)
    features = ("petal length (cm)", "petal width (cm)")
    display = Regions.from_estimator(fitted, table, target, features=features, **SMALL)
    assert display.kind == kind
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == features
    assert display.ax_.get_title(loc="left") == "at sepal length (cm) = 5.8, sepal width (cm) = 3"
    assert (display.margins_ is not None) == (name == "linear")
    n_points = sum(len(points.get_offsets()) for points in display.points_)
    assert n_points == len(table)
    expected = set() if name in ("neighbours", "logistic") else {"support vectors"} if name == "peer" else None
    if expected is None:
        assert display.support_.keys() <= {"free support vectors", "support vectors at the bound"} != set()
        assert display.support_
    else:
        assert display.support_.keys() == expected
    with pytest.raises(ValueError, match=r"training rows|no support vectors"):
        Regions.from_estimator(fitted, table.iloc[::-1], None, features=features, support=True, **SMALL)


def test_other_features_are_fixed_at_the_values_that_are_said():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(40, 3))
    machine = SVC(kernel="linear").fit(table, table[:, 2] + 0.2 * table[:, 0] > 0.0)
    display = Regions.from_estimator(machine, table, features=(0, 1), values={2: 5.0}, **SMALL)
    assert display.ax_.get_title(loc="left") == "at x₃ = 5"
    assert display.response.min() > 0.0
    point = [[display.xx0[0], display.xx1[1], 5.0]]
    assert display.response[1, 0] == pytest.approx(machine.decision_function(point)[0])
    display = Regions.from_estimator(machine, table, features=(0, 1), **SMALL)
    assert display.ax_.get_title(loc="left") == f"at x₃ = {np.median(table[:, 2]):.3g}"


@pytest.mark.parametrize("library", [pd, pl])
def test_cells_that_are_no_numbers_are_fixed_at_the_most_frequent_one(library):
    table = library.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": ["n"] * 40 + ["s"] * 20})

    class Machine:
        __sklearn_tags__ = SVC().__sklearn_tags__
        classes_ = np.array([0, 1])

        def fit(self, rows, y): ...

        def __sklearn_is_fitted__(self):
            return True

        def predict(self, rows):
            return (np.asarray(rows["a"]) > 0.0).astype(int)

        def decision_function(self, rows):
            assert type(rows) is type(table)
            assert list(rows.columns) == ["a", "b", "site"]
            self.sites = set(rows["site"].to_list())
            return np.asarray(rows["a"])

    machine = Machine()
    Regions.from_estimator(machine, table, y, features=("a", 1), **SMALL)
    assert machine.sites == {"n"}
    Regions.from_estimator(machine, table, y, features=("a", "b"), values={"site": "s"}, **SMALL)
    assert machine.sites == {"s"}
    with pytest.raises(ValueError, match="values must fix 'site' at one of its cells, such as 'n', got 'x'"):
        Regions.from_estimator(machine, table, y, features=("a", "b"), values={"site": "x"}, **SMALL)
    with pytest.raises(ValueError, match="features must be columns of numbers"):
        Regions.from_estimator(machine, table, y, features=("a", "site"), **SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"the table has 4 features, and a picture shows two: say which, as in features=\('sepal length"),
        ({"features": (0, 0)}, "two different features"),
        ({"features": (0, "width")}, "unknown feature 'width'; the features are 'sepal length"),
        ({"features": (0, "petal width")}, r"did you mean 'petal width \(cm\)'.*\? The features are 'sepal length"),
        ({"features": (0, 1), "values": {0: 1.0}}, "values must fix other features than the two that are drawn"),
        ({"features": (0, 1), "slacks": True}, "slacks=True needs y, and a machine of two classes with margins"),
    ],
)
def test_what_regions_cannot_show_is_refused_with_a_remedy(options, message):
    machine = SVC().fit(FLOWERS, KINDS)
    with pytest.raises(ValueError, match=message):
        Regions.from_estimator(machine, FLOWERS, KINDS, **SMALL, **options)


def test_a_boundary_that_is_not_at_0_is_drawn_by_predicted_classes():
    tuned = TunedThresholdClassifierCV(SVC(), scoring="recall", cv=2).fit(X, y)
    display = Regions.from_estimator(tuned, X, y, **SMALL)
    assert display.kind == "classes"
    points = np.stack(np.meshgrid(display.xx0, display.xx1), axis=-1).reshape(-1, 2)
    np.testing.assert_array_equal(display.response.ravel(), tuned.predict(points))


def test_what_is_no_table_of_features_is_refused():
    kernel_values = X @ X.T
    with pytest.raises(ValueError, match="kernel values, not features"):
        Regions.from_estimator(SVC(kernel="precomputed").fit(kernel_values, y), kernel_values, y, features=(0, 1))
    with pytest.raises(ValueError, match="X must be a table of numbers, or a data frame"):
        Regions.from_estimator(SVC(kernel=Spectrum(2)).fit(["abc", "abd"], [0, 1]), [["abc", "abd"]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Regions.from_estimator(SVC().fit(X, y), X, y[:9])
    with pytest.raises(NotFittedError):
        Regions.from_estimator(SVC(), X, y)
    with pytest.raises(ValueError, match="n_groups must lie between 1 and the number of rows, 5, got 10"):
        plot.CalibrationDisplay.from_predictions(y[:5], X[:5, 0])
    with pytest.raises(ValueError, match="one number a row"):
        plot.PredictionErrorDisplay.from_predictions(X, X)


def test_labels_that_the_machine_does_not_know_and_too_many_classes_are_refused():
    with pytest.raises(ValueError, match=r"y has the label 2, which is not a class of the machine: \[0, 1\]"):
        Regions.from_estimator(SVC().fit(X, y), X, y + 1, **SMALL)
    with pytest.raises(ValueError, match="at most 8 classes, and the machine has 9"):
        Regions.from_estimator(SVC().fit(X[:54], np.arange(54) % 9), X, **SMALL)


def test_classes_and_curves_differ_without_colours():
    display = Regions.from_estimator(SVC().fit(FLOWERS, KINDS), FLOWERS, KINDS, features=(2, 3), **SMALL)
    assert len(set(display.surface_.hatches)) == 3
    markers = {tuple(points.get_paths()[0].vertices.ravel()) for points in display.points_}
    assert len(markers) == 3
    for lines in (plot.LossDisplay.of_margins().lines_, plot.ThresholdDisplay.from_predictions(y, X[:, 0]).lines_):
        looks = [(line.get_linestyle(), str(line._dash_pattern), line.get_color()) for line in lines]
        assert len(set(looks)) == len(lines)


def test_the_first_colours_differ_for_every_colour_blindness():
    """Distances in CIELAB after the matrices of Machado et al. (2009) for severity 1."""
    kinds = [
        np.eye(3),
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ]
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    srgb = np.array([[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in plot.SERIES[:6]])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    for matrix in kinds:
        xyz = np.clip(linear @ np.transpose(matrix), 0.0, 1.0) @ to_xyz.T / [0.9505, 1.0, 1.089]
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        lab = np.column_stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])])
        distances = np.linalg.norm(lab[:, None] - lab, axis=2)[np.triu_indices(6, 1)]
        assert distances.min() > 20.0


def test_the_effect_of_parameters_is_a_table_of_regions():
    table = plot.effect(
        make_pipeline(StandardScaler(), SVC()), X, y, {"svc__C": [0.1, 1.0], "svc__gamma": [0.1, 1.0, 9.0]}
    )
    assert table.shape == (2, 3)
    title = table[1, 2].ax_.get_title(loc="left")
    n_support = make_pipeline(StandardScaler(), SVC(C=1.0, gamma=9.0)).fit(X, y)[-1].support_.size
    assert title == f"C = 1, gamma = 9\n{n_support} support vectors"
    kernels = plot.effect(SVC(), X, y, {"kernel": [RBF(sigma=1.0)]})
    assert kernels[0, 0].ax_.get_title(loc="left").startswith("RBF(gamma=0.5)")
    with pytest.raises(ValueError, match="one or two parameters"):
        plot.effect(SVC(), X, y, {})


# Scores


def test_roc_curves_compare_training_and_test_rows():
    machine = SVC(gamma=20.0).fit(X[:40], y[:40])
    display = plot.RocCurveDisplay.from_estimator(machine, X[40:], y[40:], train=(X[:40], y[:40]))
    test, training = (curves[0] for curves in display.samples.values())
    assert list(display.samples) == ["test", "training"]
    assert [line.get_label() for line in display.lines_] == [
        f"test, area {test.area.value:.3f}",
        f"training, area {training.area.value:.3f}",
    ]
    assert training.area.value > test.area.value
    assert [line.get_linestyle() for line in display.lines_] == ["-", "--"]
    flipped = plot.RocCurveDisplay.from_estimator(machine, X[40:], y[40:], pos_label=0)
    assert flipped.samples["rows"][0].area.value == pytest.approx(test.area.value)


def test_several_classes_have_a_curve_each_or_one_against_the_rest():
    machine = SVC().fit(FLOWERS, KINDS)
    display = plot.RocCurveDisplay.from_estimator(machine, FLOWERS, KINDS)
    assert [curve.label for curve in display.samples["rows"]] == IRIS.target_names.tolist()
    with pytest.raises(
        ValueError, match="there are 3 classes; say which one is positive, against the rest, as in pos_label="
    ):
        plot.PrecisionRecallDisplay.from_estimator(machine, FLOWERS, KINDS)
    display = plot.PrecisionRecallDisplay.from_estimator(machine, FLOWERS, KINDS, pos_label="virginica")
    assert display.samples["rows"].share == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="pos_label must be one of the classes"):
        plot.ThresholdDisplay.from_estimator(machine, FLOWERS, KINDS, pos_label="rose")
    pairs = SVC(decision_function_shape="ovo").fit(X, np.arange(60) % 4)
    with pytest.raises(ValueError, match='decision_function_shape="ovr"'):
        plot.PrecisionRecallDisplay.from_estimator(pairs, X, np.arange(60) % 4, pos_label=1)


def test_scores_need_a_machine_that_gives_them():
    with pytest.raises(TypeError, match="SVR has neither decision_function nor predict_proba"):
        plot.display.scores_of(SVR().fit(X, y), X)
    with pytest.raises(TypeError, match=r"SVC has no probabilities: fit SVC\(probability=True\)"):
        plot.CalibrationDisplay.from_estimator(SVC().fit(X, y), X, y)


def test_margins_and_slacks_of_two_several_and_one_class():
    machine = SVC(kernel="linear").fit(X, y)
    display = plot.MarginDisplay.from_estimator(machine, X, y, train=(X[:30], y[:30]), kind="slack")
    examples = machine.certificate_.examples()
    np.testing.assert_allclose(display.margins["test"], examples.yf, atol=1e-9)
    np.testing.assert_allclose(display.slacks["test"], examples.slack, atol=1e-9)
    heights = display.bars_[1].get_data().values
    assert heights.sum() == pytest.approx(np.mean(display.slacks["test"] > 0.0))
    flowers = plot.MarginDisplay.from_estimator(SVC().fit(FLOWERS, KINDS), FLOWERS, KINDS)
    right = np.mean(SVC().fit(FLOWERS, KINDS).predict(FLOWERS) == KINDS)
    assert np.mean(flowers.margins["rows"] > 0.0) == right
    one = plot.MarginDisplay.from_estimator(OneClassSVM(nu=0.3).fit(X), X)
    assert one.name == "f(x)"
    assert 0.2 < np.mean(one.margins["rows"] < 0.0) < 0.4
    with pytest.raises(ValueError, match='kind must be "margin" or "slack"'):
        display.plot(kind="gap")


# Regression


def test_the_tube_and_its_support_vectors_along_one_feature():
    machine = SVR(epsilon=0.3, C=2.0).fit(LINE, WAVE)
    display = plot.TubeDisplay.from_estimator(machine, LINE, WAVE)
    examples = machine.certificate_.examples()
    assert display.epsilon == 0.3
    n_drawn = sum(len(one.get_offsets()) for one in display.support_.values())
    assert n_drawn == np.count_nonzero(examples.alpha)
    assert len(display.slacks_.get_segments()) == np.sum(examples.slack > 1e-3)
    frame = pd.DataFrame({"hour": LINE[:, 0]})
    framed = plot.TubeDisplay.from_estimator(make_pipeline(StandardScaler(), SVR()).fit(frame, WAVE), frame, WAVE)
    assert framed.ax_.get_xlabel() == "hour"
    assert plot.TubeDisplay.from_estimator(LeastSquaresSVC().fit(LINE, WAVE > 0), LINE, WAVE > 0).tube_ is None
    with pytest.raises(ValueError, match=r"one feature, got a table of shape \(60, 2\): draw PredictionErrorDisplay"):
        plot.TubeDisplay.from_estimator(SVR().fit(X, y), X, y)


@pytest.mark.parametrize("kind", ["actual_vs_predicted", "residual_vs_predicted", "residuals"])
def test_errors_of_predictions_are_drawn_in_three_ways(kind):
    machine = SVR(epsilon=0.3).fit(LINE, WAVE)
    display = plot.PredictionErrorDisplay.from_estimator(machine, LINE, WAVE, train=(LINE[:20], WAVE[:20]), kind=kind)
    test = display.samples["test"]
    if kind == "residuals":
        assert [bar.get_label() for bar in display.bars_] == ["test, 40 rows", "training, 20 rows"]
        return
    drawn = np.concatenate([line.get_ydata() for line in display.points_])
    expected = test.truth if kind == "actual_vs_predicted" else test.residuals
    np.testing.assert_allclose(np.sort(drawn), np.sort(expected))
    if kind == "actual_vs_predicted":
        assert len(display.points_[1].get_ydata()) == np.sum(np.abs(test.residuals) > 0.3)


# Columns, growth, searches, kernels, neighbours


def test_weights_of_words_are_named_by_the_steps_before_the_machine():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["cheap prize now", "win a prize", "meeting at noon", "lunch meeting"] * 3
    labels = ["spam", "spam", "ham", "ham"] * 3
    fitted = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(texts, labels)
    display = plot.WeightsDisplay.from_estimator(fitted, n_top=1)
    assert [display.names[j] for j in display.shown] == ["prize", "meeting"]
    assert display.ax_.get_xlabel() == "weight: for ham (−), for spam (+)"
    assert [bar.get_hatch() for bar in display.bars_] == ["", "////"]
    several = LinearSVC().fit(FLOWERS, KINDS)
    with pytest.raises(ValueError, match="3 rows of weights: say whose are drawn, as in pos_label="):
        plot.WeightsDisplay.from_estimator(several)
    display = plot.WeightsDisplay.from_estimator(several, pos_label="setosa")
    np.testing.assert_array_equal(display.weights, several.coef_[0])
    assert display.names == list(FLOWERS.columns)
    with pytest.raises(TypeError, match="SVC has no weights of columns"):
        plot.WeightsDisplay.from_estimator(SVC().fit(X, y))


def test_the_surface_of_a_search_has_a_panel_for_each_kernel():
    search = KernelSearchCV(
        make_pipeline(StandardScaler(), SVC()), kernels=["rbf", "linear"], C=[0.1, 1.0, 9.0], gamma=[0.1, 1.0], cv=2
    ).fit(X, y)
    display = plot.SearchDisplay.from_estimator(search)
    assert display.panels == ["rbf", "linear"]
    assert [len(rows) for rows in display.rows] == [2, 1]
    assert len(display.texts_) == 9
    assert display.best.score == search.best_score_
    assert display.frame_.get_xy()[0] + 0.5 == display.columns.index(search.best_params_["svc__C"])
    peer = GridSearchCV(svm.SVC(), {"C": [1.0, 2.0], "degree": [2, 3]}, cv=2).fit(X, y)
    other = plot.SearchDisplay.from_estimator(peer)
    assert (other.column_name, other.row_name) == ("C", "degree")
    with pytest.raises(
        ValueError, match=r"row must be a parameter that was varied, one of \['C', 'degree'\], got 'gamma'"
    ):
        plot.SearchDisplay.from_estimator(peer, row="gamma")
    with pytest.raises(TypeError, match="SVC is not a fitted search"):
        plot.SearchDisplay.from_estimator(SVC())


def test_the_kernel_matrix_is_sorted_by_class_and_follows_the_pipeline():
    fitted = make_pipeline(StandardScaler(), SVC()).fit(FLOWERS, KINDS)
    order = np.random.default_rng(0).permutation(150)
    display = plot.KernelMatrixDisplay.from_estimator(fitted, FLOWERS.iloc[order], KINDS[order])
    scaled = StandardScaler().fit_transform(FLOWERS)
    rows = np.concatenate([order[KINDS[order] == kind] for kind in IRIS.target_names])
    gamma = fitted[-1].kernel_.gamma
    expected = np.exp(-gamma * ((scaled[rows[:5], None] - scaled[rows]) ** 2).sum(axis=2))
    np.testing.assert_allclose(display.values[:5], expected, atol=1e-6)
    assert display.sizes == [50, 50, 50]
    words = ["static", "statistics", "mutation"]
    small = plot.KernelMatrixDisplay.from_kernel(Spectrum(3), words, names=words)
    assert [text.get_text() for text in small.texts_][:2] == ["1", "0.71"]


def test_cells_of_nearest_neighbours_agree_with_the_machine():
    display = plot.VoronoiDisplay.from_rows(X, y)
    assert len(display.cells) == 60
    machine = KernelNeighborsClassifier(1, kernel="linear").fit(X, y)
    for point, code, cell in zip(display.points, display.codes, display.cells, strict=True):
        inside = np.clip(cell, X.min(axis=0), X.max(axis=0)) * 0.02 + point * 0.98  # near the row, in its cell
        assert (machine.predict(inside) == code).mean() > 0.99
    with pytest.raises(ValueError, match="equal have different classes"):
        plot.VoronoiDisplay.from_rows([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, 0, 1])


def test_seconds_by_rows_have_their_exponent_and_gaps_need_a_trace():
    display = plot.TimeDisplay([10, 100, 1000], {"a": [0.01, 0.1, 1.0]})
    assert display.exponents["a"] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="train_sizes must lie between 2 and the 60 rows"):
        plot.TimeDisplay.from_estimator(SVC(), X, y, train_sizes=[100])
    with pytest.raises(ValueError, match="this LeastSquaresSVC has no trace: its problem was solved in one step"):
        plot.GapDisplay.from_estimator(LeastSquaresSVC().fit(X, y))


def test_learning_curves_have_training_and_validated_scores():
    display = plot.LearningCurveDisplay.from_estimator(SVC(), X, y, train_sizes=[20, 40], cv=3)
    assert display.rows == [20, 40]
    assert display.line_.get_ydata() == pytest.approx(np.mean(display.of_folds, axis=1))
    assert [line.get_label() for line in (display.line_, display.train_line_)] == ["validated", "training"]
    assert len(display.fold_lines_) == 3
