"""The whole study protocol on tables with known answers."""

import html
import signal
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, make_circles

from generated import mixed_frame, quantities, render, three_classes, with_missing
from mercer import load_libsvm_model, save_libsvm_model
from mercer.certificates import Status
from mercer.data.frames import as_table
from mercer.data.table import Table, TableError
from mercer.kernels import Linear
from mercer.model_selection.metrics import wilson_interval
from mercer.model_selection.seal import SealedTest
from mercer.specs import ForLinearSVC, ForLinearSVR
from mercer.studies.candidates import Candidate, KernelChoice
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import Fold
from mercer.studies.files.table_files import read_table
from mercer.studies.goal import MANY_ROWS
from mercer.studies.judging import SVM
from mercer.studies.machines import LinearMachine
from mercer.studies.models import load_model, save_model
from mercer.studies.models.verification import verify
from mercer.studies.protocol import study
from mercer.studies.regression import ToEstimate
from mercer.studies.report import prose, weights
from mercer.studies.search import NO_TIME, SearchStopped
from mercer.studies.time_budget import SEARCH, TimeBudget


@pytest.fixture(scope="module")
def mixed():
    return study(with_missing(mixed_frame(160)), "outcome", n_folds=3)


def test_a_study_of_a_mixed_table(mixed):
    assert [contender.name for contender in mixed.contenders] == [
        SVM,
        "logistic regression",
        "nearest neighbours",
        "gradient boosting",
        "majority class",
    ]
    assert mixed.svm.test.accuracy.value > 0.75
    assert mixed.column_choice.left_out == {"row": "looks like a row identifier: it counts 1, 2, 3, ... down the table"}
    assert mixed.model.encoder.constant_ == ("unit",)
    assert mixed.certificate.status == "optimal"
    assert mixed.certificate.tol_gap == 1e-8  # of a linear machine, so that the signs of its weights are proved
    assert mixed.opening.clean
    assert len(mixed.sealed.openings) == 1
    assert len(mixed.svm.test.codes) == 40
    assert len(mixed.model.training.rows) == 120
    assert "optimal" in repr(mixed)
    assert set(mixed.versions) == {"python", "mercer", "numpy", "scipy", "scikit-learn"}


def test_figures_agree_with_the_model(mixed):
    table = as_table(with_missing(mixed_frame(160)))
    rows = mixed.sealed.open(lambda rows: rows, "check the figures").value
    truth = table["outcome"][mixed.column_choice.rows[rows]]
    predicted = mixed.model.predict(table.take(mixed.column_choice.rows[rows]))
    right = int(np.sum(truth == predicted))
    assert mixed.svm.test.accuracy == wilson_interval(right, 40)
    assert np.sum(mixed.svm.test.margins > 0) == right
    assert np.diag(mixed.svm.test.confusion).sum() == right
    assert verify(mixed.model, table).ok


def sealed_frame():
    """Identifiers, numbers, text, missing cells, and a column that is missing in nearly all rows."""
    frame = with_missing(mixed_frame(120))
    frame["patient_id"] = np.random.default_rng(2).permutation(120)
    frame["note"] = [f"note {k}" for k in range(120)]
    frame["empty"] = pd.Series([None] * 120, dtype=object)
    return frame


def sealed_rows(frame):
    """Indices of the rows that a study of the frame seals."""
    codes = np.unique(frame["outcome"].to_numpy(dtype=str), return_inverse=True)[1]
    return SealedTest.stratified(codes, test_size=0.25, seed=0).open(lambda rows: rows, "peek").value


def chosen(studied):
    """All choices and fitted values of a study."""
    return (
        [(cell.setting, cell.errors) for cell in studied.search.cells],
        [(one.setting, one.errors) for one in studied.contenders],
        studied.model.encoder.to_dict(),
        repr(studied.model.kernel),
        studied.model.training.checksum,
        [(part.beta.tolist(), part.bias) for part in studied.model.parts],
        studied.column_choice.left_out,
    )


def setting(**cells):
    """A change of the frame that writes these cells into the sealed rows."""

    def change(frame, rows):
        for name, value in cells.items():
            column = frame[name].astype(object)
            column.iloc[rows] = value
            frame[name] = column.infer_objects()

    return change


HARMLESS = {
    "numbers": setting(age=1e6, dose=-3.5),
    "levels": setting(site="nowhere", unit="kg"),
    "many levels": lambda frame, rows: setting(site=[f"site {k}" for k in range(len(rows))])(frame, rows),
    "an identifier twice": setting(patient_id=7, row=3, note="note 0"),
    "identifiers missing": setting(patient_id=None, row=None, note=None),
    "missing": lambda frame, rows: setting(age=None, site=None, dose=None)(frame, rows[::2]),
    "missing in every column": lambda frame, rows: setting(**dict.fromkeys(frame.columns.drop("outcome")))(
        frame, rows[6:]
    ),
    "not empty": setting(empty="full"),
    "empty but numbers": setting(empty=4.5),
    "text that is numbers": setting(site="12", unit="5"),
}


@pytest.fixture(scope="module")
def untouched(request):
    return study(sealed_frame(), "outcome", missing=request.param, n_folds=2, copies="apart")


WHERE_ROWS_ARE_DROPPED = ("numbers", "an identifier twice", "missing", "missing in every column")


@pytest.mark.parametrize(
    ("untouched", "case"),
    [*(("impute", case) for case in HARMLESS), *(("drop", case) for case in WHERE_ROWS_ARE_DROPPED)],
    indirect=["untouched"],
)
def test_the_sealed_rows_have_no_part_in_any_choice(untouched, case):
    frame = sealed_frame()
    HARMLESS[case](frame, sealed_rows(frame))
    policy = untouched.column_choice.missing
    changed = study(frame, "outcome", missing=policy, n_folds=2, copies="apart")  # some cases make rows equal
    assert chosen(changed) == chosen(untouched)
    assert {"patient_id", "row", "note", "empty"} <= set(changed.column_choice.left_out)


def test_the_sealed_rows_of_an_svmlight_table_have_no_part_in_any_choice():
    rng = np.random.default_rng(0)
    dense = rng.random((80, 60)) * (rng.random((80, 60)) < 0.1)
    target = np.where(dense[:, :30].sum(axis=1) > dense[:, 30:].sum(axis=1), 1.0, -1.0)
    rows = SealedTest.stratified((target > 0).astype(int), test_size=0.25, seed=0).open(lambda rows: rows, "peek").value
    changed = np.hstack([dense, np.zeros((80, 400))])
    changed[rows] = rng.random((len(rows), 460))
    first, second = (
        study(Table(("label",), (target,), sparse.csr_array(block)), "label", n_folds=2) for block in (dense, changed)
    )
    assert chosen(first) == chosen(second)


REFUSED_CELLS = {
    "infinite": ("dose", np.inf, "infinite values in 'dose' (row {})"),
    "text": ("dose", "abc", "column 'dose' holds numbers in 119 of 120 cells, but row {} holds 'abc'"),
    "huge": ("dose", 1e308, "column 'dose' holds 1e+308 in row {}, which is too large to compute with"),
    "missing": ("dose", None, "missing values in 'dose' (1)"),
}


@pytest.mark.parametrize("case", REFUSED_CELLS)
@pytest.mark.parametrize("which", [0, -1])
def test_a_sealed_cell_that_cannot_be_used_is_refused_at_the_start(case, which):
    name, value, message = REFUSED_CELLS[case]
    frame = mixed_frame(120)
    row = sealed_rows(frame)[which]
    setting(**{name: value})(frame, [row])
    stages = []
    with pytest.raises(TableError) as caught:
        study(frame, "outcome", missing="error", n_folds=2, progress=lambda state: stages.append(state.stage))
    assert message.format(row + 1) in str(caught.value)
    assert stages == []


def test_a_sealed_part_that_turns_to_text_is_refused():
    frame = mixed_frame(120)
    rows = sealed_rows(frame)
    setting(dose="much")(frame, rows)
    with pytest.raises(TableError, match=f"numbers in 90 of 120 cells, but row {rows[0] + 1} holds 'much'"):
        study(frame, "outcome", n_folds=2, copies="apart")


def test_decimal_commas_are_numbers_in_the_sealed_part_too(tmp_path):
    frame = mixed_frame(120)
    cells = frame["dose"].map(lambda value: str(value).replace(".", ","))
    cells[sealed_rows(frame)] = "much"
    frame.assign(dose=cells).to_csv(tmp_path / "t.csv", sep=";", index=False)
    with pytest.raises(TableError, match="column 'dose' holds numbers in 90 of 120 cells"):
        study(read_table(tmp_path / "t.csv"), "outcome", n_folds=2, copies="apart")


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308])
def test_a_sealed_entry_of_a_sparse_block_is_refused_by_the_number_of_its_row(value):
    rng = np.random.default_rng(0)
    block = rng.random((80, 60)) * (rng.random((80, 60)) < 0.1)
    target = np.repeat([0.0, 1.0], 40)
    row = SealedTest.stratified(target.astype(int), test_size=0.25, seed=0).open(lambda rows: rows, "peek").value[-1]
    block[row, 3] = value
    with pytest.raises(TableError, match=rf"in row {row + 1}\b"):
        study(Table(("label",), (target,), sparse.csr_array(block)), "label", n_folds=2, progress=never)


def never(state):
    raise AssertionError("the study went on")


def test_rows_left_out_of_a_class_may_leave_too_few():
    frame = mixed_frame(120)
    rows = np.setdiff1d(np.flatnonzero(frame["outcome"] == "ill"), sealed_rows(frame))
    frame.loc[rows[1:], "age"] = None
    with pytest.raises(TableError, match="missing=drop leaves the class 'ill' with 1 rows to choose from") as caught:
        study(frame, "outcome", missing="drop", n_folds=2, copies="apart")  # without their ages, rows are equal
    assert "missing=impute" in caught.value.hint


@pytest.mark.full
def test_the_same_seed_gives_the_same_study():
    frame = three_classes()
    first, second = study(frame, "kind", n_folds=3), study(frame, "kind", n_folds=3)
    np.testing.assert_array_equal(first.svm.test.predicted, second.svm.test.predicted)
    assert first.search.best.errors == second.search.best.errors
    other = study(frame, "kind", n_folds=3, seed=1)
    assert not np.array_equal(first.sealed.rest, other.sealed.rest)


def test_margins_of_three_classes_are_positive_where_the_prediction_is_right():
    studied = study(three_classes(), "kind", n_folds=3)
    assert len(studied.model.parts) == 3
    won_all = studied.svm.test.margins > 0
    assert np.all(studied.svm.test.right[won_all])
    assert studied.svm.test.auc_interval is None
    assert len(studied.svm.test.curves) == 3
    assert studied.svm.test.scores is studied.svm.test.probabilities  # votes would rank rows more coarsely


@pytest.mark.full
def test_breast_cancer():
    frame = load_breast_cancer(as_frame=True).frame
    studied = study(frame, "target")
    assert studied.svm.test.accuracy.value > 0.94
    assert studied.svm.test.auc > 0.98
    assert studied.baseline.test.accuracy.value == pytest.approx(0.63, abs=0.01)


def test_a_nonlinear_problem_is_won_against_logistic_regression():
    X, y = make_circles(300, noise=0.15, factor=0.5, random_state=0)
    studied = study(pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "ring": y}), "ring")
    test = studied.against(studied.contenders[1])
    assert test.only_first > test.only_second
    assert test.p_value < 0.05
    assert not studied.search.best.choice.is_linear
    assert studied.search.linear_as_good is None


REFUSED = {
    "target": (dict(target="outcom"), "there is no column 'outcom'"),
    "missing": (dict(missing="error"), "missing values in 'age' (5), 'site' (5)"),
    "test size": (dict(test_size=1.2), "test_size must lie between 0 and 1, got 1.2"),
    "folds": (dict(n_folds=60), "every class needs 82 rows"),
    "task": (dict(task="regression"), "the target 'outcome' must hold numbers for regression, but row 1 holds '"),
    "tol": (dict(tol=0.0), "tol must be a number > 0"),
    "no tol at all": (dict(tol=np.inf), "tol must be a finite number > 0, got inf"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tables_that_cannot_be_studied_are_refused(case):
    options, message = REFUSED[case]
    options = {"target": "outcome", "n_folds": 3} | options
    with pytest.raises((TableError, ValueError)) as caught:
        study(with_missing(mixed_frame()), **options)
    assert message in str(caught.value)


def test_a_rare_class_is_named():
    frame = mixed_frame()
    frame.loc[0, "outcome"] = "odd"
    with pytest.raises(TableError, match=r"every class needs 8 rows .* but 'odd' \(1\) has fewer"):
        study(frame, "outcome")


def interrupt_at(stage, done):
    """A progress callback that raises Ctrl-C once."""
    pressed = []

    def progress(state):
        if not pressed and state.stage == stage and state.done >= done:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    return progress


def test_ctrl_c_in_the_search_continues_with_the_best_setting_so_far():
    studied = study(three_classes(), "kind", n_folds=3, progress=interrupt_at("search", 10))
    assert studied.search.stopped == "interrupted"
    assert 3 <= len(studied.search.cells) < studied.search.n_planned
    assert studied.certificate.status == "optimal"
    assert studied.svm.test.accuracy.value > 0.5


@pytest.mark.parametrize("stage", ["comparison with simpler methods", "sealed rows"])
def test_ctrl_c_elsewhere_ends_the_study(stage):
    with pytest.raises(KeyboardInterrupt):
        study(three_classes(), "kind", n_folds=3, progress=interrupt_at(stage, 0))


def test_two_ctrl_c_in_the_search_end_the_study():
    pressed = []

    def progress(state):
        if state.stage == "search" and state.done >= 5 and not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        study(three_classes(), "kind", n_folds=3, progress=progress)


@pytest.mark.parametrize(("table", "target"), [(three_classes(), "kind"), (quantities(), "pay")])
def test_without_time_for_a_search_a_linear_machine_is_the_last_resort(table, target):
    studied = study(table, target, n_folds=3, max_seconds=1e-6)
    assert studied.search.stopped == NO_TIME
    assert [(cell.choice.family, cell.C) for cell in studied.search.cells] == [("linear", 1.0)]
    assert studied.certificate.status == "optimal"
    said = " ".join([*prose.summary(studied), *prose.cautions(studied)])
    assert "There was no time for a search: the machine is the last resort" in said
    assert "was the only candidate, with this cross-validated" in said
    assert ", tolerance 1e-08). A study trains its final linear machine" in prose.numbers(studied.model)


def test_a_time_limit_that_is_too_short_is_an_error_without_linear_machines():
    with pytest.raises(SearchStopped, match="time limit"):
        study(three_classes(), "kind", n_folds=3, kernel="rbf", max_seconds=1e-6)


def test_what_there_is_no_time_for_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr("mercer.studies.rivals.FIRST_ROWS", 30)
    monkeypatch.setattr("mercer.studies.rivals.LEAST", 60.0)
    monkeypatch.setattr(
        TimeBudget,
        "share",
        lambda self, share, least=0.0: None if self._ends_at is None else 60.0 if share == SEARCH else least,
    )
    studied = study(three_classes(), "kind", n_folds=3, kernel="linear", max_seconds=60.0)
    said = " ".join(studied.cuts)
    assert "not examined for groups of rows, and an order in time, columns that" in said
    assert "setting of logistic regression was chosen with 30 training rows a fold only" in said
    assert "final fit was ended before its optimum" in said
    assert studied.certificate.status == "time_limit"
    assert "has no probabilities" in said
    assert not studied.model.has_probabilities
    assert "learning curve was left out" in said
    assert "Whether predictions need" in said
    assert studied.insight.columns == ()
    assert [one.search_rows for one in studied.rivals] == [30, 30]
    cautions = prose.cautions(studied)
    assert all(any(cut in caution for caution in cautions) for cut in studied.cuts)
    assert studied.cuts[0] in html.unescape(render(studied))
    assert study(three_classes(), "kind", n_folds=3, kernel="linear").cuts == ()


@pytest.mark.full
def test_a_time_limit_is_for_the_whole_study():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10))
    frame = pd.DataFrame(X).add_prefix("x").assign(y=np.where(X[:, 0] * X[:, 1] + rng.normal(size=4000) > 0, "a", "b"))
    began = time.process_time()
    studied = study(frame, "y", n_folds=3, max_seconds=3.0)
    assert time.process_time() - began < 20.0
    assert studied.cuts or studied.search.stopped


def test_a_few_cells_of_text_among_numbers_are_refused():
    frame = mixed_frame(120)
    frame["dose"] = [str(value) for value in np.random.default_rng(0).normal(size=120).round(2)]
    frame.loc[8, "dose"] = "abc"
    with pytest.raises(TableError, match=r"column 'dose' holds numbers in 119 of 120 cells, but row 9 holds 'abc'"):
        study(frame, "outcome")


def a_sum(n=240, seed=0, noise=0.05):
    """A table whose target is a weighted sum and noise, as a number and as two or three classes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, 3)), columns=["u", "v", "w"])
    total = 2.0 * frame["u"] - frame["v"] + noise * rng.standard_normal(n)
    ranks = total.rank(pct=True)
    few = pd.cut(total, [-np.inf, -1.0, 1.0, np.inf], labels=["low", "middle", "high"]).astype(str)
    return frame.assign(number=100.0 + 10.0 * total, two=np.where(ranks > 0.6, "high", "low"), three=few)


@pytest.mark.parametrize(
    ("target", "options", "spec"),
    [
        ("two", {"class_weight": "balanced"}, ForLinearSVC),
        ("three", {"cost": "low:high=3"}, ForLinearSVC),
        ("number", {}, ForLinearSVR),
    ],
)
def test_a_linear_machine_wins_where_the_target_is_a_sum(target, options, spec, tmp_path):
    frame = a_sum()[["u", "v", "w", target]]
    studied = study(frame, target, n_folds=3, kernel=["linear", "rbf"], **options)
    assert {cell.choice.family for cell in studied.search.cells} == {"linear", "rbf"}
    assert isinstance(studied.model.machine_spec, spec)
    assert studied.certificate.status == "optimal"
    assert studied.certificate.relative_gap <= 1e-8  # smaller than --tol, so that signs are proved
    assert studied.search.linear_as_good is None
    save_model(tmp_path / "m.mercer", studied.model)
    loaded = load_model(tmp_path / "m.mercer")
    assert (loaded.predict(frame) == studied.model.predict(frame)).all()
    assert verify(loaded, frame).findings == ()
    save_libsvm_model(tmp_path / "m.model", loaded)
    chosen, rows = loaded.prediction_kind.answers(loaded.scores(frame)), loaded.encoder.transform(frame)
    if target != "number":
        chosen = [loaded.prediction_kind.names.index(label) for label in chosen]
    np.testing.assert_allclose(load_libsvm_model(tmp_path / "m.model").predict(rows), chosen, rtol=1e-9)
    assert (loaded.calibration is None) == (target == "number")
    text = html.unescape(render(studied))
    assert "None: the machine is a weighted sum of the features." in text
    assert "Its weights" in text
    assert "Gamma says" in text
    names = {"two": ["low against high"], "number": ["Change of number"]}.get(
        target, ["high against low", "high against middle", "low against middle"]
    )
    assert sorted(weights.headings(studied)) == sorted(names)
    by_name = {name: [(one.value, one.is_proved) for one in row] for name, row in weights.listed(studied)}
    assert list(by_name)[:2] == ["u", "v"]
    for (u, u_proved), (v, v_proved) in zip(by_name["u"], by_name["v"], strict=True):
        assert u * v < 0.0
        assert u_proved
        assert v_proved
    if target == "number":
        assert by_name["u"][0][0] == pytest.approx(20.0, abs=1.0)


def test_a_linear_machine_that_is_as_good_is_named():
    studied = study(a_sum()[["u", "v", "w", "two"]], "two", n_folds=3, kernel=["linear", "rbf"])
    linear = next(cell for cell in studied.search.cells if cell.choice.is_linear)
    curved = next(cell for cell in studied.search.cells if not cell.choice.is_linear)

    def chosen(*errors):
        cells = replace(linear, errors=errors), replace(curved, errors=(9.0, 9.0, 9.0))
        return replace(studied, search=replace(studied.search, cells=cells))

    said = f"By the rule of one standard error, the folds do not tell the {linear.setting} from it"
    assert said in prose.choice(chosen(9.0, 12.0, 8.0))
    assert said not in prose.choice(chosen(11.0, 12.0, 11.0))
    fewer = replace(chosen(9.0, 12.0, 8.0).search, cells=(replace(linear, n_rows=1, errors=(9.0, 9.0, 9.1)), curved))
    assert fewer.linear_as_good is None


@pytest.mark.parametrize("target", ["three", "number"])
def test_both_solvers_judge_a_linear_machine_alike(target):
    frame = a_sum(noise=0.5)
    X, truth = frame[["u", "v", "w"]].to_numpy(), frame[target].to_numpy()
    if target == "number":
        goal = ToEstimate("t", truth)
    else:
        names, truth = np.unique(truth.astype(str), return_inverse=True)
        goal = ToClassify.asked(names.tolist(), truth, class_weight="low=2")
    fold = Fold(X, truth, np.arange(180), np.arange(180, 240))
    epsilon = goal.epsilons[0]
    targets, _ = goal.learnable(truth, fold.train)
    for C in (0.1, 10.0):
        candidate, values = Candidate(KernelChoice("linear"), C, epsilon), []
        for n_rows in (180, 2 * MANY_ROWS):
            machine = goal.machine(candidate, Linear(), n_rows, tol=1e-7).fit(X[fold.train], targets[fold.train])
            assert isinstance(machine, LinearMachine) is (n_rows > 180)
            assert machine.certificate_.status is Status.OPTIMAL
            values.append(goal.values_of(machine, X[fold.validation]))
        np.testing.assert_allclose(values[1], values[0], atol=1e-3 * np.abs(values[0]).max())
    answers = goal.answers_on(fold, candidate, tol=1e-7)
    np.testing.assert_allclose(answers.values, goal.learnable(truth, fold.train)[1](values[0]), rtol=1e-4)
    assert (answers.scheme, answers.is_whole) == ("ovo", True)
