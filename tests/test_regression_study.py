"""The whole study protocol with a numeric target."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR as LIBSVM

from generated import mixed_frame, quantities, render, with_missing
from mercer.data.frames import as_table
from mercer.data.table import Table, TableError
from mercer.model_selection.regression_metrics import Deviations
from mercer.model_selection.splits import stratified_folds
from mercer.studies.candidates import KernelChoice
from mercer.studies.cli.output import print_study
from mercer.studies.contenders import encoded_folds
from mercer.studies.models.verification import verify
from mercer.studies.number_rivals import PENALTIES, Mean, NeighbourMeans, RidgeRegression
from mercer.studies.protocol import study
from mercer.studies.regression import ToEstimate
from mercer.studies.report import insight, prose, regression
from mercer.studies.rivals import choose_rivals
from mercer.studies.search import search
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.target import read_target
from mercer.studies.time_budget import TimeBudget


@pytest.fixture(scope="module")
def studied():
    return study(with_missing(quantities(160)), "pay", missing="impute", n_folds=3)


@pytest.mark.full
def test_readers_are_told_no_parameters_of_python(studied, capsys):
    print_study(studied, "t.csv", "mercer study t.csv", "model.mercer")
    shown = " ".join(capsys.readouterr().out.split())
    for text in (shown, render(studied, source="t.csv")):
        assert "If these numbers are names of classes, ask for classification." in text
        assert "task=" not in text
    assert "-0.000" not in shown


def folds_of(frame, n_folds=3):
    table = as_table(frame)
    truth = read_target(table, "pay")
    splits = stratified_folds(truth.strata(n_folds), n_folds, 0)
    return encoded_folds(table.without(["pay"]), truth.values, splits, TableEncoder()), ToEstimate("pay", truth.values)


def test_a_study_of_numbers(studied):
    names = [one.name for one in studied.contenders]
    assert names == ["support vector machine", "ridge regression", "nearest neighbours", "gradient boosting", "mean"]
    assert studied.goal.task == "regression"
    assert studied.certificate.status == "optimal"
    assert studied.svm.test.n == 40
    assert studied.opening.clean
    assert studied.svm.test.r2 > studied.contenders[1].test.r2
    assert studied.svm.test.r2 > 0.7
    against = studied.against(studied.contenders[1])
    assert f"{against.value:+.3f} against ridge regression, 95% interval" in prose.worth(studied)
    assert studied.contenders[-1].test.r2 <= 0.0
    assert f"test R² {studied.svm.test.r2:.3f}" in repr(studied)
    assert len({cell.epsilon for cell in studied.search.cells}) >= 3


def test_a_bent_function_is_won_against_ridge_regression():
    rng = np.random.default_rng(0)
    u, v = rng.uniform(-2.0, 2.0, (2, 200))
    studied = study(
        Table(("u", "v", "y"), (u, v, np.sin(2.0 * u) * v + 0.1 * rng.standard_normal(200))), "y", n_folds=2
    )
    assert studied.goal.sign(studied.against(studied.contenders[1])) == 1
    assert studied.svm.test.r2 > 0.9 > studied.contenders[1].test.r2
    assert prose.worth(studied).startswith(
        "Was a support vector machine worth it? Yes: it did better than ridge regression, "
    )


def test_figures_agree_with_the_model(studied):
    table = as_table(with_missing(quantities(160)))
    rows = studied.test_rows
    assert np.intersect1d(rows, studied.model.training.rows).size == 0
    predicted = studied.model.predict(table.take(rows))
    expected = Deviations(table["pay"][rows], predicted)
    np.testing.assert_allclose(studied.svm.test.residuals, expected.residuals, rtol=1e-9, atol=1e-6)
    assert verify(studied.model, table).findings == ()


def test_the_unit_of_the_target_changes_no_choice(studied):
    frame = with_missing(quantities(160))
    other = study(frame.assign(pay=1e6 + 1e-3 * frame["pay"]), "pay", missing="impute", n_folds=3)
    assert [cell.setting for cell in other.search.cells] == [cell.setting for cell in studied.search.cells]
    assert other.search.best.setting == studied.search.best.setting
    np.testing.assert_allclose(1e3 * other.svm.test.mae, studied.svm.test.mae, rtol=1e-4)
    np.testing.assert_array_equal(other.test_rows, studied.test_rows)


@pytest.mark.parametrize("change", [lambda cells: cells + 1e7, lambda cells: -3.0 * cells], ids=["moved", "turned"])
def test_the_sealed_rows_have_no_part_in_any_choice(studied, change):
    frame = with_missing(quantities(160))
    for name in ("age", "dose"):
        frame.loc[studied.test_rows, name] = change(frame.loc[studied.test_rows, name])
    other = study(frame, "pay", missing="impute", n_folds=3)
    assert [cell.errors for cell in other.search.cells] == [cell.errors for cell in studied.search.cells]
    assert [(one.setting, one.errors) for one in other.contenders] == [
        (one.setting, one.errors) for one in studied.contenders
    ]
    assert other.model.prediction_kind.centre == studied.model.prediction_kind.centre


def test_the_target_is_scaled_by_training_rows_alone(studied):
    pay = as_table(quantities(160))["pay"][studied.model.training.rows]
    np.testing.assert_allclose(
        [studied.model.prediction_kind.centre, studied.model.prediction_kind.scale], [pay.mean(), pay.std()]
    )


@pytest.mark.parametrize("epsilon", [0.03, 0.3])
def test_the_search_adds_up_what_libsvm_adds_up(epsilon):
    folds, goal = folds_of(quantities(90))
    goal.epsilons = (epsilon,)
    search_result = search(folds, goal, kernels=[KernelChoice("rbf", 4.0)], C_grid=[0.1, 10.0], extend=False, tol=1e-8)
    for cell in search_result.cells:
        for fold, error in zip(folds, cell.errors, strict=True):
            X, y = fold.X[fold.train], fold.truth[fold.train]
            gamma = 4.0 / (X.shape[1] * X.var())
            libsvm = LIBSVM(C=cell.C * y.std(), epsilon=epsilon * y.std(), gamma=gamma, tol=1e-8 * y.std()).fit(X, y)
            expected = np.sum((libsvm.predict(fold.X[fold.validation]) - fold.truth[fold.validation]) ** 2)
            np.testing.assert_allclose(error, expected, rtol=1e-4)
        assert cell.figure == pytest.approx(1.0 - sum(cell.errors) / goal.squares)


def test_rivals_are_what_scikit_learn_says():
    folds, goal = folds_of(quantities(90))

    def errors(estimator):
        return tuple(
            np.sum(
                (
                    estimator.fit(fold.X[fold.train], fold.truth[fold.train]).predict(fold.X[fold.validation])
                    - fold.truth[fold.validation]
                )
                ** 2
            )
            for fold in folds
        )

    rivals = [RidgeRegression(goal), NeighbourMeans(goal, 40), Mean(goal)]
    ridge, neighbours, mean = choose_rivals(folds, rivals, 60, 60, TimeBudget(None))
    np.testing.assert_allclose(ridge.errors, errors(ridge.estimator))
    assert sum(ridge.errors) == pytest.approx(min(sum(errors(Ridge(alpha=penalty))) for penalty in PENALTIES))
    np.testing.assert_allclose(neighbours.errors, errors(KNeighborsRegressor(int(neighbours.setting.split()[0]))))
    assert goal.figure(sum(mean.errors)) <= 0.0


READINGS = {
    "many": (np.linspace(0.0, 1.0, 60), "regression", "60 different numbers, such as '0', '0.0169"),
    "few": (
        np.arange(60) % 7,
        "classification",
        "7 different numbers, such as '0', '1' or '2', and was taken for 7 cl",
    ),
    "two": (np.arange(60) % 2, "classification", ""),
    "text": (np.array(["a", "b", "c"] * 20), "classification", ""),
    "fractions": (np.arange(60) % 20 / 7.0, "regression", "20 different numbers"),
    "whole": (np.arange(60) % 31, "regression", "31 different numbers"),
}


@pytest.mark.parametrize("case", READINGS)
def test_the_kind_of_prediction_is_reported(case):
    values, task, words = READINGS[case]
    table = as_table(mixed_frame(60).assign(goal=values))
    truth = read_target(table, "goal")
    assert truth.task == task
    assert words in truth.reading
    assert (truth.reading == "") == (words == "")
    if words:
        other = "regression" if task == "classification" else "classification"
        assert truth.reading.endswith(f"ask for {other}.")
        other_target = read_target(table, "goal", other)
        assert (other_target.task, other_target.reading) == (other, "")


REFUSED = {
    "text": (dict(target="site", task="regression"), "must hold numbers for regression, but row 1 holds '"),
    "constant": (
        dict(target="same", task="regression"),
        "the target 'same' must vary for regression, but is 7 in every",
    ),
    "infinite": (dict(target="endless"), r"infinite values in 'endless' \(row 5\)"),
    "huge": (dict(target="huge"), "the target 'huge' holds -1e\\+300, which is too large to compute with"),
    "tiny": (dict(target="tiny"), "the target 'tiny' varies by 7.9e-199 only, which is too small to compute with"),
    "one row": (
        dict(target="alone", task="regression"),
        "the target 'alone' is 0 in all 20 sealed rows, which no prediction of numbers can be judged by",
    ),
    "missing": (dict(target="gone"), "the target 'gone' is missing in every row"),
    "test size": (dict(target="pay", test_size=0.02), "regression needs more than 250 rows for a test part of 0.02"),
    "folds": (
        dict(target="pay", n_folds=40),
        "regression needs more than 107 rows for a test part of 0.25 and 40 folds",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_regression_targets_are_refused(case):
    options, message = REFUSED[case]
    frame = quantities(80).assign(same=7, endless=np.arange(80.0), huge=np.arange(80.0), gone=np.nan)
    frame = frame.assign(tiny=1e-200 * np.arange(80.0), alone=np.eye(80)[0])
    frame.loc[4, "endless"], frame.loc[4, "huge"] = np.inf, -1e300
    columns = ["age", "dose", "site", "pay", options["target"]]
    with pytest.raises(TableError, match=message):
        study(frame[list(dict.fromkeys(columns))], **options)


def test_metrics_of_one_row():
    with pytest.raises(TableError, match=r"the target 'y' must vary for regression, but is 2\.5 in every row"):
        study(Table(("u", "y"), (np.array([1.0]), np.array([2.5]))), "y", task="regression")


def test_rows_without_a_target_are_left_out():
    frame = quantities(90)
    frame.loc[[3, 8], "pay"] = None
    message = "2 of 90 rows were left out because the target 'pay' is missing there: rows 4, 9"
    with pytest.warns(UserWarning, match=message):
        studied = study(frame, "pay", n_folds=2)
    assert len(studied.model.training.rows) + len(studied.test_rows) == 88


def test_rows_with_missing_cells_may_leave_too_few():
    frame = quantities(90)
    frame.loc[6:, "age"] = None
    message = "missing=drop leaves . rows to choose from and . sealed ones, and regression needs"
    with pytest.raises(TableError, match=message):
        study(frame, "pay", n_folds=2, missing="drop")


@pytest.mark.parametrize(
    ("others", "which"), [(1, "all 20 sealed rows, which"), (5, "all 20 sealed rows but one, which")]
)
def test_a_sealed_part_of_constant_targets_is_refused(others, which):
    frame = quantities(80)
    frame["pay"] = 7.0
    for place in range(others):  # the sealed part contains some of them
        frame.loc[9 * place, "pay"] = 8.0 + place
    with pytest.raises(TableError, match=f"the target 'pay' is 7 in {which} no prediction of numbers can be judged by"):
        study(frame, "pay", task="regression", n_folds=2)


@pytest.mark.full
def test_the_page_and_the_summary(studied):
    text = render(studied, source="t.csv")
    words = " ".join(text.split())
    for sentence in (regression.in_tube(studied), prose.phrasing_of(studied).headline(studied)):
        assert sentence in words
    assert text.count("<svg") == 4 + len(studied.examination.histograms) + len(insight.pictures(studied))
    inside = np.mean(np.abs(studied.svm.test.residuals) <= regression.half_width(studied) * (1 + 1e-6))
    assert f"and {prose.percent(inside)} of the sealed ones lie in the tube" in words
    assert ", which training does not count; a narrow tube holds few rows and is no worse for it." in words
    row, true, predicted, off = regression.largest(studied)[0]
    assert as_table(quantities(160))["pay"][row] == true
    assert off == pytest.approx(true - predicted)
    assert abs(off) == np.abs(studied.svm.test.residuals).max()
    assert "nan" not in words.split()
    assert "class" not in prose.summary(studied)[0]


def test_a_few_unusual_rows_cause_a_caution(studied):
    truth = np.concatenate([np.linspace(0.0, 1.0, 199), [50.0]])
    odd = Deviations(truth, np.linspace(0.1, 1.1, 200))
    changed = replace(studied, contenders=(replace(studied.svm, test=odd), *studied.contenders[1:]))
    notes = " ".join(prose.cautions(changed))
    assert "One row in a hundred makes up" in notes
    assert "was taken for a quantity" in notes
