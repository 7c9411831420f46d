"""What a study says about its machine: importance of columns, dependence, learning curve, rows that matter."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from generated import render, three_classes
from mercer.data import as_table
from mercer.model_selection.metrics import Interval, mean_interval
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import Fold
from mercer.studies.insight.column_importance import Importance, column_importance, encoded_columns
from mercer.studies.insight.dependence import _cells, partial_dependence
from mercer.studies.insight.kernel_parts import KernelParts
from mercer.studies.insight.learning import LearningCurve, curve_of
from mercer.studies.models import explain, read_table
from mercer.studies.protocol import study
from mercer.studies.report import insight as words
from mercer.studies.report import prose


def frame(n=240, flipped=(), seed=0):
    """Numbers, categories and text that matter, columns of noise, and rows whose class is mistaken."""
    rng = np.random.default_rng(seed)
    a, place, noise = rng.normal(size=n), rng.choice(["north", "south"], n), rng.normal(size=n)
    classes = np.where(a + 1.5 * (place == "north") > 0.7, "up", "down")
    classes[list(flipped)] = np.where(classes[list(flipped)] == "up", "down", "up")
    return pd.DataFrame({"a": a, "noise": noise, "place": place, "t": classes})


@pytest.fixture(scope="module")
def studied():
    return study(frame(), "t", n_folds=3)


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 3))
    table = pd.DataFrame(X, columns=list("abc")).assign(y=np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=150))
    return study(table, "y", task="regression", n_folds=3)


def test_the_column_that_decides_comes_first_and_noise_does_not_matter(studied):
    columns = studied.insight.columns
    assert {one.column for one in columns[:2]} == {"a", "place"}
    assert all(one.matters for one in columns[:2])
    assert not columns[2].matters
    assert studied.insight.dependences[0].column in {"a", "place"}
    sentence = words.columns_that_matter(studied)
    assert "percentage points" in sentence
    assert "Whether 'noise' is needed cannot be told from so few rows" in sentence
    assert sentence in prose.summary(studied)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_shuffled_values_are_those_of_a_shuffled_table(kernel):
    studied = study(frame(90), "t", n_folds=2, kernel=kernel)
    table = as_table(frame()).select(studied.column_choice.features)
    parts = KernelParts(studied.model, studied.model.encoder.transform(table))
    np.testing.assert_allclose(parts.values(), studied.model.decision_values(table), atol=1e-9)
    order = np.random.default_rng(3).permutation(table.n_rows)
    for name, place in encoded_columns(studied.model).items():
        columns = [
            column[order] if column_name == name else column
            for column_name, column in zip(table.names, table.columns, strict=True)
        ]
        wanted = studied.model.decision_values(replace(table, columns=tuple(columns)))
        np.testing.assert_allclose(parts.values_shuffled(place, order[None])[0], wanted, atol=1e-9)


def test_a_budget_takes_fewer_rows_and_the_same_seed_the_same_ones(studied, monkeypatch):
    table = as_table(frame(seed=5)).select(studied.column_choice.features)
    asked = []

    def costs(values, rows):
        asked.append(len(rows))
        return (values[:, 0] > 0).astype(float)

    monkeypatch.setattr("mercer.studies.insight.column_importance.BUDGET", 1.0)
    first = column_importance(studied.model, table, costs)
    assert set(asked) == {100}
    assert [one.increase for one in first] == [one.increase for one in column_importance(studied.model, table, costs)]


def test_dependence_is_the_mean_prediction_with_one_cell_in_all_rows(studied):
    table = as_table(frame()).select(studied.column_choice.features)
    of_place = partial_dependence(studied.model, table, "place")
    assert set(of_place.cells) == {"north", "south"}
    changed = as_table(frame().assign(place="north")).select(studied.column_choice.features)
    wanted = studied.model.decision_values(changed).mean(axis=0)
    np.testing.assert_allclose(of_place.means[list(of_place.cells).index("north")], wanted)
    of_a = partial_dependence(studied.model, table, "a")
    assert (np.diff(of_a.cells) > 0).all()


def test_free_text_has_no_dependence():
    rng = np.random.default_rng(0)
    words_of = {"spam": ["win", "cash", "prize"], "ham": ["home", "lunch", "later"]}
    classes = rng.choice(["spam", "ham"], 120)
    texts = [
        " ".join([*rng.choice(words_of[one], 3), *rng.choice(list("abcdefgh"), rng.integers(3, 9))]) for one in classes
    ]
    result = study(pd.DataFrame({"text": texts, "t": classes}), "t", text=["text"], n_folds=2, kernel="linear")
    assert [one.columns for one in result.insight.columns if one.matters] == [("text",)]
    assert result.insight.dependences == ()
    assert "as simple: both are weighted sums" in prose.worth(result)
    assert "Gradient boosting was not compared" in " ".join(prose.cautions(result))


def test_one_long_cell_needs_memory_only_once():
    table = as_table(pd.DataFrame({"place": ["a", "b", "b"] * 100 + ["c" * 200_000]}))
    tracemalloc.start()
    try:
        assert [len(cell) for cell in _cells(table, "place")] == [1, 1, 200_000]
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_rows_with_a_mistaken_class_are_suspicious():
    flipped = [3, 50, 77, 120, 200]
    result = study(frame(flipped=flipped), "t", n_folds=3)
    free = set(flipped) - set(result.test_rows)
    named = {one.row for one in result.insight.suspicious}
    assert len(named & free) >= len(free) - 1
    assert all(amount.startswith("margin −") for _, _, amount in words.suspicious_rows(result))


def test_values_of_held_out_rows_are_of_machines_that_have_not_learnt_them(studied):
    curve = studied.insight.curve
    assert curve.held_out is not None
    truth = studied.column_choice.truth.values[studied.sealed.rest]
    error = np.mean((curve.held_out[:, 0] > 0) != (truth == 1))
    assert min(error, 1 - error) == pytest.approx(1 - curve.figures[-1])
    assert curve.rows[-1] == 120
    assert curve.figures[-1] == pytest.approx(studied.search.best.figure)


CURVES = {
    "every fold gains": ([(90, 80, 90, 85), (50, 40, 50, 45)], "help: "),
    "folds differ": ([(90, 80, 90, 85), (90, 50, 120, 60)], "cannot be told"),
    "one point": ([(90, 80, 90, 85)], "no time, or there were too few rows"),
    "a dip is no growth": ([(50, 41, 50, 44), (90, 80, 90, 85), (50, 40, 50, 45)], "cannot be told"),
    "flat": ([(50, 40, 50, 45), (50, 41, 50, 45), (50, 40, 51, 45)], "help little"),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_has_three_outcomes(studied, name):
    costs, words_of_it = CURVES[name]
    goal = ToClassify(["x", "y"], 4000)
    folds = [Fold(None, np.zeros(4000), np.arange(3000), np.arange(1000)) for _ in range(4)]
    curve = curve_of(goal, folds, (250, 500, 1000)[: len(costs)], [goal.figure(sum(one)) for one in costs], costs, None)
    study_of_it = replace(studied, goal=goal, insight=replace(studied.insight, curve=curve))
    assert words_of_it in prose.more_rows(study_of_it)
    for one, total in zip(curve.of_folds, curve.figures, strict=True):
        assert np.mean(one) == pytest.approx(total)


def test_folds_that_do_not_differ_show_no_range_of_the_gain(studied):
    curve = replace(studied.insight.curve, rises=False, is_flat=False, gain=Interval(0.0, 0.0, 0.0))
    said = prose.more_rows(replace(studied, insight=replace(studied.insight, curve=curve)))
    assert "the folds do not differ" in said
    assert "anything from" not in said


def importance(low, high):
    return Interval((low + high) / 2, low, high)


def test_not_shown_is_not_said_to_be_dispensable(studied):
    columns = [("sure", 0.1, 0.2), ("wide", -0.1, 0.8), ("little", -0.01, 0.012)]
    insight = replace(studied.insight, columns=tuple(Importance((name,), importance(*ends)) for name, *ends in columns))
    sentence = words.columns_that_matter(replace(studied, insight=insight))
    assert "“sure” by 15.0 percentage points (10.0 to 20.0)" in sentence
    assert (
        "Without 'little' it rises by at most 1.2 percentage points, so little is lost if it is left out." in sentence
    )
    assert "Whether 'wide' is needed cannot be told from so few rows: the rise may be 0, or as much as 80.0" in sentence


def test_a_column_that_one_row_needs_is_not_said_to_be_dispensable():
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    x[:4] *= 30
    table = pd.DataFrame({"x": x, "noise": rng.normal(size=80)}).assign(y=x + rng.normal(size=80))
    result = study(table, "y", task="regression", n_folds=2, kernel="linear")
    (one,) = (one for one in result.insight.columns if one.column == "x")
    assert not one.is_small
    assert "'x' it rises by at most" not in words.columns_that_matter(result)


def test_equal_columns_are_shuffled_together():
    table = frame().assign(a2=lambda one: 1 - 2 * one["a"], code=lambda one: one["place"].map({"north": 7, "south": 3}))
    result = study(table, "t", n_folds=2, kernel="linear")
    sets = {one.columns: one for one in result.insight.columns}
    assert {("a", "a2"), ("place", "code"), ("noise",)} == set(sets)
    assert sets["a", "a2"].matters
    assert "'a' and 'a2' say nearly the same. They were shuffled together" in words.columns_that_matter(result)


def test_no_change_in_few_rows_is_no_proof_that_a_column_is_not_needed(studied):
    table = as_table(frame(seed=5)).select(studied.column_choice.features)
    nothing = column_importance(studied.model, table, lambda values, rows: np.zeros(len(rows)), largest_cost=1.0)
    assert all(one.increase.high == pytest.approx(1 - 0.025 ** (1 / 240)) for one in nothing)
    few = np.arange(240) % 12
    nothing = column_importance(studied.model, table, lambda values, rows: np.zeros(len(rows)), few, largest_cost=1.0)
    assert not any(one.is_small for one in nothing)


def test_rows_that_are_farthest_off_are_ranked_by_margin(studied):
    goal, values = studied.goal, np.array([[-1.0], [-0.5], [-5.5], [2.0], [-2.6]])
    assert goal.worst_rows(studied.model, values, np.array([1, 1, 1, 1, 1]), 3).tolist() == [2, 4, 0]
    assert goal.worst_rows(studied.model, -values, np.array([1, 1, 1, 1, 1]), 3).tolist() == [3]


def test_near_support_vectors_are_near(studied):
    table = as_table(frame())
    for one in studied.insight.wrong:
        assert one.row in studied.test_rows
        assert one.truth != one.predicted
        a, others = table["a"][one.row], table["a"][list(one.nearest)]
        assert np.abs(others - a).mean() < np.abs(table["a"] - a).mean()


def test_influential_rows_are_support_vectors(studied):
    rows = [one.row for one in studied.insight.influential]
    assert set(rows) <= set(studied.model.training.rows[studied.model.support_rows])
    amounts = [one.amount for one in studied.insight.influential]
    assert amounts == sorted(amounts, reverse=True)
    assert sum(amounts) <= 1.0 + 1e-12


def test_numbers_have_all_of_it(numbers):
    assert "<dt>Certificate</dt>" in render(numbers)
    assert numbers.insight.columns[0].column == "a"
    assert not any(one.matters for one in numbers.insight.columns[1:])
    assert "the share of the variance that is not explained" in words.columns_that_matter(numbers)
    page = render(numbers)
    for heading in ("Which columns matter", "Which rows matter", "training row stands out"):
        assert heading in page


@pytest.mark.full
def test_several_classes_have_all_of_it():
    result = study(three_classes(), "kind", n_folds=3)
    assert result.insight.columns
    assert "Which columns matter" in render(result)


def test_many_support_vectors_are_explained(monkeypatch):
    rng = np.random.default_rng(4)
    noise = pd.DataFrame(rng.normal(size=(80, 30))).rename(columns=str).assign(t=rng.choice(list("xy"), 80))
    result = study(noise, "t", n_folds=3, kernel="rbf")
    assert result.insight.columns[0].increase.low < 0.1
    assert not result.is_useful
    assert "<dt>Certificate</dt>" not in render(result)  # an optimum of a useless machine is no headline
    share = len(result.model.support_rows) / len(result.model.training.rows)
    sentence = "Nearly every training row is a support vector"
    for limit, is_said in ((share - 0.01, True), (share + 0.01, False)):
        monkeypatch.setattr("mercer.studies.report.insight.MANY_SUPPORT_VECTORS", limit)
        assert any(sentence in note for note in prose.cautions(result)) is is_said


def test_a_page_may_have_no_curve(studied):
    short = replace(studied, insight=replace(studied.insight, curve=LearningCurve((), (), ()), suspicious=()))
    assert prose.more_rows(short).startswith("There was no time")
    page = render(short)
    assert "Which rows matter" in page
    assert "Rows whose target may be mistaken" not in page


def test_a_mean_has_its_interval_and_copies_do_not_narrow_it():
    numbers = np.random.default_rng(0).normal(size=30)
    single = mean_interval(numbers)
    many = mean_interval(np.repeat(numbers, 4), np.repeat(np.arange(30), 4))
    assert (many.low, many.high) == pytest.approx((single.low, single.high))
    assert mean_interval(numbers[:1]).high == np.inf


def test_rows_are_named_by_line_identifier_and_cells_that_matter(tmp_path):
    table = frame(120, flipped=[3, 50, 77])
    table.insert(0, "key", [f"K{number:04}" for number in range(120)])
    table.to_csv(tmp_path / "t.csv", index=False)
    result = study(read_table(tmp_path / "t.csv"), "t", n_folds=2, kernel="linear")
    cards = result.insight.cards
    assert all(len(cell) <= 10 for card in cards.values() for name, cell in card.cells if name == "a")
    assert set(cards) == result.insight.noted
    for row, card in cards.items():
        assert (card.line, card.identifiers) == (row + 2, (("key", f"K{row:04}"),))
        assert dict(card.cells)["place"] == table["place"][row]
    wanted = explain(result.model, table, reference=table.drop(index=result.test_rows))
    row = next(iter(cards))
    assert cards[row].reasons == tuple(wanted.largest(row, 3))
    page = render(result)
    assert f'<span class="unit">line {row + 2}</span>' in page
    assert f"key K{row:04}" in page
    assert "those of all columns add up to it" in page
