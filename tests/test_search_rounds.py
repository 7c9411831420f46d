"""The search of a study in rounds: all candidates on few rows, the better ones on more rows."""

import html
import io
import signal
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from generated import mixed_frame, render, three_classes
from mercer.data.frames import as_table
from mercer.model_selection import Round
from mercer.model_selection.search.row_rules import n_survivors, round_sizes, rows_in_time
from mercer.model_selection.splits import stratified_folds
from mercer.solvers import USUAL_EXPONENT, Interruption, ProgressBar
from mercer.studies.candidates import KERNELS, Candidate, Cell, KernelChoice
from mercer.studies.class_rivals import SameClass
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import Fold, encoded_folds, part_of, thinned
from mercer.studies.plan import SearchPlan, plan_search
from mercer.studies.protocol import study
from mercer.studies.refinement import neighbours
from mercer.studies.regression import ToEstimate
from mercer.studies.report import search_prose
from mercer.studies.report.heat_map import search_display
from mercer.studies.rivals import choose_rivals
from mercer.studies.search import SearchResult, search
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.time_budget import TimeBudget

SIZES = (40, 120, 300)


@cache
def bent(target):
    """Folds and goal of 450 rows whose classes or numbers depend on three columns in a curved way."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((450, 3))
    score = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.4 * rng.standard_normal(450)
    codes = (score > 0).astype(np.int64)
    table, splits = as_table(pd.DataFrame(X, columns=list("abc"))), stratified_folds(codes, 3, 0)
    if target == "classes":
        return encoded_folds(table, codes, splits, TableEncoder()), ToClassify(["no", "yes"], 450)
    return encoded_folds(table, score, splits, TableEncoder()), ToEstimate("score", score)


@cache
def bent_in_rounds(target):
    return search(*bent(target), sizes=SIZES)


@pytest.fixture(params=["classes", "numbers"])
def searched(request):
    return *bent(request.param), bent_in_rounds(request.param)


def test_every_candidate_has_its_turn_and_the_best_ones_see_all_rows(searched):
    search_result = searched[2]
    assert [one.n_rows for one in search_result.rounds] == list(SIZES)
    assert all(one.n_judged == one.n_planned for one in search_result.rounds)
    assert {(cell.choice, cell.C) for cell in search_result.cells} >= {
        (choice, 10.0**power) for choice in KERNELS for power in range(-2, 4)
    }
    assert (
        len(search_result.cells) == search_result.n_planned >= search_result.rounds[0].n_judged
    )  # more beyond the edges of the grid
    assert (
        search_result.rounds[0].n_judged > 2 * search_result.rounds[1].n_judged > 2 * search_result.rounds[2].n_judged
    )
    assert search_result.best.n_rows == SIZES[-1]
    assert sum(cell.n_rows == SIZES[-1] for cell in search_result.cells) == search_result.rounds[-1].n_judged


def test_rounds_choose_as_well_as_a_search_on_all_rows(searched):
    folds, goal, search_result = searched
    full_search = search(folds, goal)
    assert len(full_search.rounds) == 1
    assert search_result.best.figure >= full_search.best.figure - 0.005
    same = [cell for cell in full_search.cells if cell.candidate == search_result.best.candidate]
    assert [cell.figure for cell in same] == [pytest.approx(search_result.best.figure, abs=0.005)]


def test_a_search_in_rounds_is_deterministic(searched):
    folds, goal, search_result = searched
    again = search(folds, goal, sizes=SIZES)
    assert [replace(cell, seconds=0.0) for cell in again.cells] == [
        replace(cell, seconds=0.0) for cell in search_result.cells
    ]
    assert (again.rounds, again.extended) == (search_result.rounds, search_result.extended)


def stopped_at(n_reports, folds, goal, **options):
    """The result of a search that is stopped when so many machines are trained."""
    interruption = Interruption()

    def stop(progress):
        if progress.done >= n_reports:
            interruption.request()

    return search(folds, goal, interruption=interruption, progress=stop, **options)


@pytest.mark.parametrize("n_reports", [20, 130, 160])
def test_a_stop_leaves_the_best_candidate_of_the_rounds_so_far(n_reports):
    full_search = bent_in_rounds("classes")
    search_result = stopped_at(n_reports, *bent("classes"), sizes=SIZES)
    assert search_result.stopped == "interrupted"
    assert len(search_result.cells) >= n_reports / 3 or len(search_result.rounds) > 1
    if n_reports > 20:
        assert {cell.choice.family for cell in search_result.cells} == {"linear", "polynomial", "rbf"}
    n_rounds = len(search_result.rounds)
    assert [one.n_judged for one in search_result.rounds[:-1]] == [
        one.n_judged for one in full_search.rounds[: n_rounds - 1]
    ]
    assert search_result.rounds[-1].n_judged < full_search.rounds[n_rounds - 1].n_planned
    # The leader is judged first in the next round, so that others are compared with it.
    judged = [cell for cell in search_result.cells if cell.n_rows == search_result.best.n_rows]
    assert search_result.best.errors == min(judged, key=lambda cell: cell.rank).errors
    said = search_prose.ended_early(search_result)
    judged = f"all {search_result.n_planned} candidates had been judged"
    how_far = [f"{len(search_result.cells)} of 36 candidates", f"{judged}, none of them on all rows"]
    last = search_result.rounds[-1]
    how_far += [f"{judged}, {last.n_judged} of the best {last.n_planned} on all rows"]
    assert f"interrupted after {how_far[n_rounds - 1]}" in said


def fold_of(truth):
    rows = np.arange(len(truth))
    return Fold(np.zeros((len(truth), 1)), truth, rows[rows % 4 != 0], rows[rows % 4 == 0])


def test_a_part_of_the_rows_has_every_class_in_its_share():
    codes = np.random.default_rng(1).permutation(np.repeat([0, 1, 2, 3], [3000, 960, 32, 8]))
    fold = fold_of(codes)
    part = thinned(fold, 500)
    assert np.isin(part.train, fold.train).all()
    assert len(np.unique(part.train)) == len(part.train) <= 500 + 8
    np.testing.assert_array_equal(part.validation, fold.validation)
    np.testing.assert_array_equal(part.train, thinned(fold, 500).train)
    counts = np.bincount(codes[part.train])
    of_all = np.bincount(codes[fold.train])
    np.testing.assert_allclose(counts[:2], 500 * of_all[:2] / of_all.sum(), atol=1)
    assert (counts[2:] >= np.minimum(4, of_all[2:])).all()
    assert thinned(fold, len(fold.train)).train is fold.train


def test_errors_on_a_part_of_the_validation_rows_stand_for_all_of_them(monkeypatch):
    folds, goal = bent("classes")
    options = dict(kernels=KERNELS[:1], C_grid=[1.0], sizes=(40, 300))
    (full_cell,) = stopped_at(3, folds, goal, **options).cells  # the first round has three machines
    monkeypatch.setattr("mercer.model_selection.search.row_rules._FEWEST_VALIDATION", 75)
    monkeypatch.setattr("mercer.model_selection.search.row_rules._VALIDATION", 1)
    fold = part_of(folds[0], 40)
    assert (len(fold.train), len(fold.validation), len(folds[0].validation)) == (40, 75, 150)
    for rows, of_all in [(fold.train, folds[0].train), (fold.validation, folds[0].validation)]:
        same = (fold.X[rows][:, None] == folds[0].X[of_all]).all(axis=2)
        assert (same.sum(axis=1) == 1).all()
        np.testing.assert_array_equal(fold.truth[rows], folds[0].truth[of_all][same.argmax(axis=1)])
    assert len(fold.X) == 115
    (cell,) = stopped_at(3, folds, goal, **options).cells
    assert cell.n_rows == full_cell.n_rows == 40
    assert all(error % 2 == 0 for error in cell.errors)  # each wrong one stands for two rows
    assert cell.errors != full_cell.errors
    assert cell.figure == pytest.approx(full_cell.figure, abs=0.06)


def test_a_part_of_the_rows_covers_the_numbers():
    numbers = np.random.default_rng(2).standard_normal(4000)
    part = thinned(fold_of(numbers), 200)
    assert len(part.train) == 200
    shares = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(np.quantile(numbers[part.train], shares), np.quantile(numbers, shares), atol=0.05)


def cell(family, C, errors, n_rows=100):
    choice = KernelChoice(family, degree=2 if family == "polynomial" else 1)
    return Cell(choice, C, errors, 1.0 - sum(errors) / 400, 0.0, n_rows=n_rows)


def test_the_sizes_of_rounds():
    assert round_sizes(2000) == (2000,)
    assert round_sizes(2001) == (500, 2001)
    assert round_sizes(400_000) == (1562, 6250, 25_000, 100_000, 400_000)
    assert [n_survivors(36, place) for place in range(5)] == [36, 12, 4, 3, 3]
    assert n_survivors(2, 3) == 2


@pytest.mark.parametrize(
    ("needed", "left", "rows"),
    [
        (1.0, 8.01, 4000),
        (1.0, 99.0, 4000),
        (1.0, 3.0**USUAL_EXPONENT + 1e-9, 3000),
        (1.0, 3.3**USUAL_EXPONENT, 4000),
        (4.0, 1.0, 2000),
        (0.0, 0.0, 4000),
    ],
)
def test_a_round_has_fewer_rows_if_time_is_short(needed, left, rows):
    assert rows_in_time(1000, 4000, needed, left) == rows
    assert rows_in_time(1000, 1500, needed, left) == 1500


def test_neighbours_differ_by_one_step_of_one_parameter():
    grid = [Candidate(choice, C) for choice in KERNELS for C in (0.1, 1.0, 10.0)]
    best = Candidate(KernelChoice("rbf", 4.0), 1.0)
    expected = {
        Candidate(KernelChoice("rbf", 4.0), 0.1),
        Candidate(KernelChoice("rbf", 4.0), 10.0),
        Candidate(KernelChoice("rbf", 1.0), 1.0),
    }
    assert set(neighbours(best, grid, [best])) == expected
    assert set(neighbours(best, grid, [best, *expected])) == set()
    assert {one.C for one in neighbours(Candidate(KernelChoice("linear"), 0.1), grid, [])} == {0.1, 1.0}


def test_rounds_in_words(searched):
    search_result = searched[2]
    assert search_prose.rounds(replace(search_result, rounds=(Round(300, 36, 36),))) == ""
    early = replace(
        search_result, rounds=(Round(40, 36, 36), Round(120, 12, 12), Round(300, 7, 2)), stopped="time limit"
    )
    assert search_prose.rounds(early) == (
        "To save time, candidates were judged in rounds, and the better ones went on to more rows: all 36 with 40 "
        "training rows a fold, 12 with 120 and 2 of 7 with all 300."
    )
    assert search_prose.ended_early(early).startswith("The search was ended by its time limit after all")
    assert "the linear machines and 2 of the best 7 on all rows" in search_prose.ended_early(
        replace(early, n_linear_first=6)
    )
    assert search_prose.ended_early(search_result) == ""


def test_the_plan_in_words():
    plan = SearchPlan((1695, 6783, 27132), (36, 12, 4), 5, 300.0, None)
    rounds = "36 candidates in 5 folds with 1,695 training rows each, then about 12 with 6,783, then about 4 with "
    assert str(plan) == f"{rounds}27,132; about 5 min"
    assert str(replace(plan, max_seconds=90.0)).endswith(
        "; about 5 min to the end, and the search may take 90 s at most"
    )
    assert str(replace(plan, max_seconds=900.0)).endswith("; about 5 min")


def test_the_plan_has_a_smaller_first_round_if_the_time_is_short(monkeypatch):
    monkeypatch.setattr("mercer.studies.plan.FEWEST_ROWS", 20)
    monkeypatch.setattr("mercer.studies.plan._probe", lambda *arguments: (1.0, True))
    folds, goal = bent("numbers")
    assert plan_search(folds, goal) == SearchPlan((300,), (48,), 3, 3.0 * 3 * 48, None)
    assert plan_search(folds, goal, max_seconds=4 * 3.0 * 3 * 48).sizes == (300,)
    for max_seconds in (400.0, 1.0):  # one step down would be too few rows for another one
        plan = plan_search(folds, goal, max_seconds=max_seconds)
        assert (plan.sizes, plan.n_candidates) == ((75, 300), (48, 12))
    assert plan.seconds == pytest.approx(3.0 * 3 * (48 / 4**USUAL_EXPONENT + 12))


def test_only_linear_machines_are_tried_if_a_kernel_takes_too_long(monkeypatch):
    folds, goal = bent("numbers")
    growth = (600 / 300) ** USUAL_EXPONENT
    for seconds, is_whole, kernels, left_out in [
        (1.0, True, KERNELS, False),
        (2.0, True, KERNELS, True),
        (1.0, False, KERNELS, True),
        (2.0, True, KERNELS[:1], False),
    ]:
        monkeypatch.setattr(
            "mercer.studies.plan._probe",
            lambda fold, goal, choice, *rest, probed=(seconds, is_whole): (1e-3, True) if choice.is_linear else probed,
        )
        plan = plan_search(folds, goal, kernels=kernels, max_seconds=1e3, n_rows=600, fit_seconds=1.5 * growth)
        assert plan.kernels == (tuple(one for one in kernels if one.is_linear) if left_out else kernels)
        assert bool(plan.why_linear) is left_out
        if left_out:
            assert "to fit on all 600 rows, and the time limit leaves 4.5 s for it" in str(plan)
            assert plan.seconds == pytest.approx(3.0 * 3 * 18 * 1e-3)
            assert plan.n_candidates[0] == 18  # six values of C, and two more of epsilon


def test_a_study_says_why_it_tries_linear_machines_alone(monkeypatch):
    monkeypatch.setattr("mercer.studies.plan.growth", lambda n_rows, larger, is_linear=False: 1.0 if is_linear else 1e9)
    studied = study(three_classes(90), "kind", n_folds=2, max_seconds=60.0)
    assert {cell.choice.family for cell in studied.search.cells} == {"linear"}
    assert studied.cuts[0].startswith("Only linear machines were tried: a machine with a kernel would take about")
    text = render(studied)
    assert html.escape(studied.cuts[0]) in text
    assert "Gamma says" not in text


def test_the_plan_is_printed_before_the_search():
    stream = io.StringIO()
    with ProgressBar(Console(file=stream, width=300)) as progress:
        study(three_classes(), "kind", n_folds=2, max_seconds=60.0, progress=progress)
    first = stream.getvalue().splitlines()[0]
    assert first.startswith("search: 36 candidates in 2 folds with 33 training rows each; about ")


RIVALS = "logistic regression and nearest neighbours"
AND_FITTED = "training rows a fold, too; all final fits have all rows."


@pytest.mark.parametrize(("n_rows", "words"), [(12, "12 of 30"), (30, "")])
def test_rivals_are_chosen_with_as_many_rows_as_the_machine(n_rows, words):
    folds, goal = bent("classes")
    seen = []

    class Seeing(SameClass):
        def errors(self, fold, settings, deadline):
            seen.append(len(fold.train))
            return super().errors(fold, settings, deadline)

    best = cell("rbf", 1.0, (0, 0, 0), n_rows)
    search_result = SearchResult((best,), 1, "", (), 0.0, (Round(n_rows, 1, 1),), 30)
    assert len(choose_rivals(folds, [Seeing(goal)], n_rows, 30, TimeBudget(None))) == 1
    assert set(seen) == ({n_rows} if words else {300})
    said = search_prose.rivals(search_result, ["logistic regression", "nearest neighbours"])
    assert said == (words and f"The settings of {RIVALS} were chosen with {words} {AND_FITTED}")


def test_a_search_under_a_time_limit_comes_before_the_rivals():
    stages = []
    study(three_classes(), "kind", n_folds=2, max_seconds=60.0, progress=lambda state: stages.append(state.stage))
    order = list(dict.fromkeys(stages))
    assert order.index("search") < order.index("plan") < order.index("comparison with simpler methods")


def test_figures_of_fewer_rows_are_in_italics(searched):
    search_result = searched[2]
    figure = search_display(search_result, "{:.3f}".format).to_figure()
    last = {(cell.choice, cell.C) for cell in search_result.cells if cell.n_rows == search_result.n_rows}
    upright = [text for axes in figure.axes for text in axes.texts if text.get_style() == "normal"]
    assert len(upright) == len(last) < len({(cell.choice, cell.C) for cell in search_result.cells})


def test_a_study_that_is_stopped_before_the_last_round_is_reported_as_such(monkeypatch):
    monkeypatch.setattr("mercer.model_selection.search.row_rules._FEWEST_VALIDATION", 30)
    monkeypatch.setattr("mercer.studies.plan.round_sizes", lambda n_rows: (20, n_rows))
    pressed = []

    def progress(state):
        if state.stage == "search" and state.done == 36 * 2 and not pressed:  # the last one on few rows
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    studied = study(mixed_frame(160).drop(columns="row"), "outcome", n_folds=2, progress=progress)
    assert (studied.search.best.n_rows, studied.search.n_rows) == (20, 60)
    page = " ".join(render(studied).split())
    for text in (
        "had been judged, none of them on all rows; a full one may find a better machine.",
        "The chosen one was judged with 20 of 60.",
        "The settings of logistic regression, nearest neighbours and gradient boosting were chosen with 20 of 60 "
        f"{AND_FITTED}",
    ):
        assert text in page
