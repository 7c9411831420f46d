"""The report: one page, complete, without scripts, and with the numbers of the study."""

import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from generated import mixed_frame, quantities, three_classes, with_missing
from mercer import RBF, SVR, Polynomial, plot
from mercer.certificates.status import Status
from mercer.model_selection.metrics import Interval, roc
from mercer.studies.boosting import BOOSTING
from mercer.studies.candidates import KernelChoice
from mercer.studies.cli.output import print_study
from mercer.studies.models import fit_model
from mercer.studies.protocol import study
from mercer.studies.report import classification, insight, numbers, prose, search_prose, words
from mercer.studies.report.heat_map import search_display
from mercer.studies.report.page import render

pytestmark = pytest.mark.full  # each test takes about a second

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects what the tests inspect, and checks that elements are nested correctly."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.attributes, self.words = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attributes]
        self.ids += [value for name, value in attributes if name == "id"]
        self.words.append("" if tag == "a" else " ")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.words.append("" if tag == "a" else " ")

    def handle_data(self, data):
        if not {"style", "svg"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


CONTROLS = "\u202e\u2066\x1b\x07"

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def mixed():
    frame = with_missing(mixed_frame(160)).rename(columns={"dose": HOSTILE})
    frame["site"] = frame["site"].replace("south", HOSTILE + "&amp;")
    return study(frame, "outcome", missing="impute", n_folds=3, kernel=["rbf", "poly"])


@pytest.fixture(scope="module")
def three():
    frame = three_classes(120).rename(columns={"kind": HOSTILE})
    frame[HOSTILE] = frame[HOSTILE].replace("a", "<b>&")
    return study(frame, HOSTILE, n_folds=3)


@pytest.fixture(params=["mixed", "three"])
def studied(request):
    return request.getfixturevalue(request.param)


_pages = {}


def page_of(studied):
    """The page of a study that several tests read, drawn once."""
    if id(studied) not in _pages:
        _pages[id(studied)] = studied, render(studied, source="t.csv", command="mercer study t.csv --target outcome")
    return _pages[id(studied)][1]


def test_the_page_is_self_contained_and_without_scripts(studied):
    text = page_of(studied)
    page = Page(text)
    assert "script" not in page.tags
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    for _, name, value in page.attributes:
        assert name not in ("src", "srcset", "onclick", "onload")
        if name.endswith("href"):
            assert value.startswith("#")
        assert not name.startswith("xmlns") or value.startswith("http://www.w3.org/")
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text


def test_ids_are_unique_and_references_lead_somewhere(studied):
    page = Page(page_of(studied))
    assert len(set(page.ids)) == len(page.ids)
    for _, name, value in page.attributes:
        if name.endswith("href"):
            assert value[1:] in page.ids
        if name == "aria-labelledby":
            assert value in page.ids
        for reference in re.findall(r"url\(#([^)]+)\)", value or ""):
            assert reference in page.ids


def test_what_the_table_says_is_escaped(studied):
    text = render(studied, source=HOSTILE, command=f"mercer study '{HOSTILE}'")
    assert "<script" not in text
    assert "<b>&" not in text
    assert HOSTILE in Page(text).text


def test_every_picture_has_a_description(studied):
    page = Page(page_of(studied))
    labels = [value for tag, name, value in page.attributes if tag == "svg" and name == "aria-label"]
    # the search has a picture, too
    n_pictures = 1 + len(prose.phrasing_of(studied).pictures(studied)) + len(insight.pictures(studied))
    assert len(labels) == page.tags.count("svg") == n_pictures + len(studied.examination.histograms)
    assert all(len(label) > 20 for label in labels)


def test_the_page_says_what_the_study_found(mixed):
    text = Page(page_of(mixed)).text
    for sentence in prose.summary(mixed):
        assert " ".join(sentence.split()) in text
    for name in ("age", "site", "smoker"):
        assert name in text
    assert "row : looks like a row identifier: it counts 1, 2, 3, ... down the table" in text
    assert "unit : one value only in the training rows" in text
    assert "5, taken as the median" in text
    assert "mercer study t.csv --target outcome" in text
    assert mixed.model.training.checksum in text
    assert (
        "the sealed rows were opened for the first time (final estimate of the study). Nothing had been chosen with "
        "knowledge of them."
    ) in text
    assert f"gamma = {mixed.model.kernel.gamma:.3g} is " in text
    assert prose.support(mixed.model) in text
    assert f"{mixed.certificate.n_free} on the margin" in text
    assert "None" not in text
    assert "nan" not in text.split()


def test_the_page_of_several_classes_lists_each_machine(three):
    text = Page(page_of(three)).text
    assert "3 machines, one for each pair of classes" in text
    assert "b against c" in text
    assert "mean over classes" in text
    assert "The area is the mean over classes, each against the rest, for which no interval is known." in text
    assert "There are 3 machines: objectives are their sums, the violation is the largest." in text
    assert prose.support(three.model) in text
    assert classification.margins(three) in text
    assert f"{three.certificate.n_support} over" not in text


def test_a_later_opening_is_reported_as_not_clean():
    studied = study(three_classes(), "kind", n_folds=3)
    studied.sealed.open(len, "curiosity")
    assert (
        "the sealed rows were looked at once more, for look number 2 (curiosity). They had been seen before, so what "
        "came of this look is no clean test."
    ) in Page(render(studied)).text


def test_colours_come_from_the_page(studied):
    text = page_of(studied)
    svg = text[text.index("<svg") :]
    assert "var(--ink)" in svg
    assert "var(--series-0)" in svg
    assert re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", svg) == []
    assert "font-family" not in svg
    for variable in set(re.findall(r"var\((--[\w-]+)\)", text)):
        assert f"{variable}:" in text


def test_a_leak_stands_before_the_headline_and_the_table_is_pictured(mixed):
    frame = mixed_frame(160).assign(code=lambda one: one["outcome"].str[:1])
    studied = study(frame, "outcome", n_folds=3)
    page = Page(render(studied)).text
    words = "Column 'code' alone predicts the target in 100% of the rows"
    assert page.index(words) < page.index("sealed away before anything was learnt")
    assert [finding.columns for finding in prose.doubts(studied)] == [("code",)]
    assert prose.doubts(mixed) == []
    assert "Before you read the figures" not in page_of(mixed)
    box = page[page.index("What the table looks like") : page.index("The data")]
    assert words in box
    for name in ("age", "dose", "site", "smoker", "code"):
        assert f" {name} " in box
    assert "2 values, mostly “" in box


def test_sealed_rows_have_no_part_in_the_examination():
    frame = mixed_frame(160)
    studied = study(frame, "outcome", n_folds=3)
    frame.loc[studied.test_rows, "dose"] = 1e6
    again = study(frame, "outcome", n_folds=3)
    assert [str(finding) for finding in again.examination.findings] == [
        str(finding) for finding in studied.examination.findings
    ]
    assert [one.high for one in again.examination.histograms] == [one.high for one in studied.examination.histograms]


def test_cautions(mixed, three):
    notes = " ".join(prose.cautions(mixed))
    assert "The sealed part is small" in notes
    assert "of one class" not in notes
    frame = mixed_frame(200)
    frame = frame[(frame["outcome"] == "ill") | (np.arange(200) % 8 == 0)]
    assert "of the rows are of one class" in " ".join(prose.cautions(study(frame, "outcome", n_folds=3)))


def test_support_vectors_are_counted_once(mixed, three):
    assert len(mixed.model.support_rows) == mixed.certificate.n_support
    n_rows = len(mixed.model.training.rows)
    assert prose.support(mixed.model) == (
        f"{mixed.certificate.n_support} of {n_rows} training rows "
        f"({prose.percent(mixed.certificate.n_support / n_rows)}) are support vectors; the others could be deleted "
        "without changing the machine."
    )
    rows = three.model.support_rows
    n_support = sorted(part.certificate.n_support for part in three.model.parts)
    assert len(rows) < sum(n_support)
    text = prose.support(three.model)
    assert text.startswith(f"{len(rows)} of 90 training rows")
    assert (
        f"support vectors of at least one of the 3 machines, which have {n_support[0]} to {n_support[-1]} each;" in text
    )


def test_non_support_vectors_are_called_deletable_only_if_optimal(mixed):
    model = mixed.model
    all_support = replace(model, support_rows=np.arange(len(model.training.rows)))
    assert prose.support(all_support) == "120 of 120 training rows (100.0%) are support vectors."
    part = replace(model.parts[0], certificate=replace(mixed.certificate, status=Status.TIME_LIMIT))
    assert prose.support(replace(model, parts=(part,))).endswith(" are support vectors.")


def right_in(contender, right):
    """The contender, with answers that are correct for these rows."""
    codes = contender.test.codes
    return replace(contender, test=replace(contender.test, predicted=np.where(right, codes, 1 - codes)))


WORTH = {
    "noise": (
        (12, 14, 13, 12),
        "That is not shown: neither it nor logistic regression nor nearest neighbours did better than always answering "
        "“ill” beyond what chance explains. Whether it is better than always answering “ill” cannot be told from these",
    ),
    "others": (
        (12, 40, 13, 12),
        "No: logistic regression did better than always answering “ill” beyond what chance explains, and for the "
        "support vector machine this is not shown.",
    ),
    "beaten": ((30, 40, 13, 12), "No: logistic regression did better, beyond what chance explains. "),
    "same": (
        (40, 39, 40, 12),
        "points, and logistic regression is the simpler machine. (Rows that only one of two got right: "
        "1 to 0 against logistic regression",
    ),
}


@pytest.mark.parametrize("case", WORTH)
def test_the_report_says_if_the_machine_beats_simpler_models(mixed, case):
    counts, sentence = WORTH[case]
    some = [one for one in mixed.contenders if one.name != BOOSTING]
    contenders = [right_in(one, np.arange(40) < n) for one, n in zip(some, counts, strict=True)]
    usual = mixed.column_choice.truth.names[contenders[-1].test.predicted[0]]
    assert sentence.replace("“ill”", f"“{usual}”") in prose.worth(replace(mixed, contenders=tuple(contenders)))


def test_margins_are_described_for_what_they_are(mixed, three):
    wrong = 1 - mixed.svm.test.accuracy.value
    text = classification.margins(mixed)
    assert f"a row is misclassified: {prose.percent(1 - mixed.svm.train.accuracy.value)} of the training rows" in text
    assert f"and {prose.percent(wrong)} of the sealed rows" in text
    below = prose.percent(np.mean(three.svm.train.margins < 0))
    text = classification.margins(three)
    assert "misclassified" not in text
    assert f"at least one pair decides against the row: {below} of the training rows and " in text
    legend = prose.phrasing_of(three).pictures(three)["margins"][0].axes[0].get_legend()
    sizes = (three.svm.train.n, three.svm.test.n)
    names = [f"{name}, {n} rows" for name, n in zip(("training", "sealed"), sizes, strict=True)]
    assert [text.get_text() for text in legend.get_texts()] == names


def test_losses_are_compared_where_one_machine_decides(mixed, three):
    page = Page(page_of(mixed)).text
    for name, train, test in classification.losses(mixed):
        assert f"{name} {train:.4f} {test:.4f}" in page
    names, train, test = zip(*classification.losses(mixed), strict=True)
    assert names == ("0/1", "hinge", "squared", "cross-entropy")
    assert test[1] == pytest.approx(np.mean(np.maximum(0.0, 1.0 - mixed.svm.test.margins)))
    assert train[1] >= train[0] == pytest.approx(1 - mixed.svm.train.accuracy.value)
    assert classification.losses(three) == []
    assert "cross-entropy" not in page_of(three)


def test_long_names_of_classes_are_shortened_in_pictures(three):
    labels = ["a name that goes on and on", "b", "c"]
    curves = [replace(curve, label=label) for curve, label in zip(three.svm.test.curves, labels, strict=True)]
    legend = plot.RocCurveDisplay({"sealed": curves}).to_figure().axes[0].get_legend()
    assert [text.get_text().split(", area")[0] for text in legend.get_texts()] == ["a name that g…", "b", "c"]
    ticks = plot.ConfusionMatrixDisplay(three.svm.test.confusion, labels).to_figure().axes[0].get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["a name that g…", "b", "c"]
    assert {tick.get_rotation() for tick in ticks} == {0.0}


def test_rows_on_the_edge_of_the_margin_are_not_inside(mixed):
    svm = replace(
        mixed.svm,
        train=replace(mixed.svm.train, margins=np.array([-0.5, 0.5, 1 - 1e-6, 2.0])),
        test=replace(mixed.svm.test, margins=np.array([0.1, 0.2])),
    )
    studied = replace(mixed, contenders=(svm, *mixed.contenders[1:]))
    text = classification.margins(studied)
    assert "misclassified: 25.0% of the training rows and 0.0% of the sealed rows." in text
    assert text.endswith("inside the margin: 25.0% of the training rows and 100.0% of the sealed rows.")


@pytest.mark.parametrize(
    ("kernel", "choice", "sentence"),
    [
        (RBF(gamma=0.0123456), KernelChoice("rbf", gamma_factor=1 / 16), "gamma = 0.0123 is 1/16 of the usual value"),
        (RBF(gamma=0.5), KernelChoice("rbf", gamma_factor=4.0), "gamma = 0.5 is 4 times the usual value"),
        (
            Polynomial(degree=2, gamma=0.25, coef0=1.0),
            KernelChoice("polynomial", degree=2),
            "gamma = 0.25 is the usual value",
        ),
    ],
)
def test_gamma_is_reported_as_a_number_and_in_words(mixed, kernel, choice, sentence):
    best = replace(mixed.search.best, choice=choice, errors=(0.0,))
    studied = replace(
        mixed,
        model=replace(mixed.model, kernel=kernel),
        search=replace(mixed.search, cells=(best, *mixed.search.cells)),
    )
    assert f"{choice.name} with C = {best.C:g} and gamma = {kernel.gamma:.3g} had" in prose.choice(studied)
    assert sentence in Page(render(studied)).text


@pytest.mark.parametrize(
    ("n_ties", "sentence"),
    [
        (1, " Another candidate did equally well; the simpler of the two was taken."),
        (2, " 2 others did equally well; the simplest of them all was taken."),
    ],
)
def test_ties(mixed, n_ties, sentence):
    cells = mixed.search.cells
    best = mixed.search.best
    others = [cell for cell in cells if cell.error > best.error]
    equal = [replace(best, C=best.C * 2**power) for power in range(n_ties + 1)]
    studied = replace(mixed, search=replace(mixed.search, cells=(*others, *equal)))
    assert prose.choice(studied).endswith(sentence)


@pytest.mark.parametrize(
    ("n_stopped", "note"),
    [
        (1, "1 candidate was not trained to the end and was judged as it stood: {0} ({1})."),
        (2, "2 candidates were not trained to the end and were judged as they stood: {0} ({1}); {2} ({1})."),
    ],
)
def test_candidates_that_did_not_reach_the_optimum(mixed, n_stopped, note):
    ended = (Status.MAX_ITER, Status.STALLED, Status.MAX_ITER)
    cells = tuple(replace(cell, unfinished=ended * (j < n_stopped)) for j, cell in enumerate(mixed.search.cells))
    studied = replace(mixed, search=replace(mixed.search, cells=cells))
    how = "2 machines took too long, 1 machine could not be improved because of rounding errors"
    (said,) = [caution for caution in prose.cautions(studied) if caution.startswith(note[:20])]
    chosen = studied.search.best in cells[:n_stopped]
    end = "One of them was chosen: a smaller C may be as good." if chosen else "None was chosen."
    assert said == f"{note.format(cells[0].place, how, cells[1].place)} {end}"
    assert "max_iter" not in said
    shown = [
        text.get_text()
        for axes in search_display(studied.search, partial(prose.phrasing_of(studied).short_figure, studied.goal))
        .to_figure()
        .axes
        for text in axes.texts
    ]
    assert sum(text.endswith("*") for text in shown) == n_stopped
    star = "a star marks those that were not trained to the end"
    assert (star in Page(render(studied)).text, star in Page(page_of(mixed)).text) == (True, False)


def test_of_many_candidates_that_did_not_reach_the_optimum_some_are_named(mixed):
    cells = tuple(replace(cell, unfinished=(Status.STALLED,)) for cell in mixed.search.cells)
    note = prose.cautions(replace(mixed, search=replace(mixed.search, cells=cells)))
    assert any(f"; and {len(cells) - search_prose.MAX_UNFINISHED} more. One of them was chosen" in one for one in note)


def test_an_extended_grid_is_reported(mixed):
    studied = replace(mixed, search=replace(mixed.search, extended=("C", "gamma")))
    assert (
        "The best candidate lay at the end of the values planned for C and gamma, so one more value was tried there, "
        "and none beyond it."
    ) in prose.cautions(studied)


def certified(model, **changes):
    """The model with changed claims in its certificate."""
    part = replace(model.parts[0], certificate=replace(model.certificate, tol=1e-4, **changes))
    return replace(model, parts=(part,))


def test_what_is_certified_and_what_is_not(mixed):
    assert prose.certainty(certified(mixed.model, relative_gap=3e-5)) == (
        "The machine is certified optimal: no other machine with this kernel and this C can lower its training "
        "objective by more than 3.0·10⁻³ percent."
    )
    assert prose.certainty(certified(mixed.model, relative_gap=1e-15)).endswith("at all, to within rounding.")
    model = certified(mixed.model, relative_gap=0.98, kkt_violation=5e-5)
    assert prose.certainty(model) == (
        "The machine is certified to meet the optimality conditions: no training row breaks them by more than "
        "5.0·10⁻⁵, and 1.0·10⁻⁴ was allowed. That its training objective is the lowest is not certified: the relative "
        "duality gap is 0.98, so another machine with this kernel and this C may have one that is lower by up to 98 "
        "percent. A smaller C, or a "
        "tolerance for the gap (tol_gap of mercer.SVC, --tol-gap of mercer fit), makes it small, too."
    )
    assert "is not certified optimal (relative duality gap" in prose.certainty(
        certified(mixed.model, status=Status.TIME_LIMIT)
    )
    page = Page(render(replace(mixed, model=model))).text
    assert "That its training objective is the lowest is not certified" in page


def test_epsilon_is_a_part_of_what_is_certified():
    model = certified(fit_model(quantities(), "pay", SVR(C=5.0)), relative_gap=3e-5)
    assert "no other machine with this kernel, this C and this epsilon can lower" in prose.certainty(model)
    text = prose.certainty(certified(model, relative_gap=0.98))
    assert "another machine with this kernel, this C and this epsilon may" in text
    assert "a tolerance for the gap (tol_gap of mercer.SVR, --tol-gap of mercer fit)," in text


STALLED = {
    "above": (
        dict(kkt_violation=0.5, decision_error=1e-9),
        "Rounding in float64 lets the violation come no further down towards the 1.0·10⁻⁴ allowed.",
    ),
    "within": (
        dict(kkt_violation=5e-5, decision_error=0.25),
        "The violation is within the 1.0·10⁻⁴ allowed as far as it can be told, but rounding in float64 may hide as "
        "much as 0.25.",
    ),
    "gap": (
        dict(kkt_violation=5e-5, tol_gap=1e-5, relative_gap=0.02),
        "but rounding in float64 lets the gap come no further down towards the 1.0·10⁻⁵ allowed.",
    ),
}


@pytest.mark.parametrize("case", STALLED)
def test_why_a_fit_stalled(mixed, case):
    changes, sentence = STALLED[case]
    text = prose.certainty(certified(mixed.model, status=Status.STALLED, **changes))
    assert text.startswith("The machine is not certified optimal (relative")
    assert sentence in text


def test_a_gap_within_rounding_is_reported_as_0(mixed):
    none = certified(mixed.model, gap=-2.66e-15, relative_gap=-1e-16)
    assert "duality gap 0 (relative 0)," in prose.numbers(none)
    some = certified(mixed.model, gap=1e-3, relative_gap=1e-4)
    assert "duality gap 0.001 (relative 0.0001)," in prose.numbers(some)


def test_counts_have_separators(mixed):
    rows = np.arange(1200)
    training = replace(mixed.model.training, rows=rows)
    assert "1,200 support vectors of 1,200 training rows." in prose.numbers(
        replace(mixed.model, training=training, support_rows=rows)
    )


def test_names_in_tables_are_not_broken_to_save_space(mixed):
    assert "overflow-wrap: anywhere" not in re.search(r"tbody th \{.*?\}", page_of(mixed))[0]


def test_the_comparison_names_gamma(mixed):
    gamma = f"gamma\u00a0=\u00a0{mixed.model.kernel.gamma:.3g}"
    assert mixed.svm.setting == f"{mixed.search.best.setting}, {gamma}"
    assert gamma in page_of(mixed)


def test_tables_can_be_read_on_a_narrow_screen(mixed):
    page = Page(page_of(mixed))
    labels = {value for tag, name, value in page.attributes if name == "data-label"}
    assert {"Cross-validation", "Accuracy on sealed rows", "Balanced accuracy", "Area under ROC", "Time"} <= labels
    assert {"Kind", "Encoding", "Missing cells"} <= labels
    scrolling = [value for tag, name, value in page.attributes if tag == "div" and (name, value) == ("class", "scroll")]
    assert len(scrolling) == page.tags.count("table")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.5, "1.5"), (1.23e-5, "1.2·10⁻⁵"), (-4e-10, "-4.0·10⁻¹⁰"), (float("inf"), "inf"), (0.25, "0.25")],
)
def test_small_numbers(value, text):
    assert prose.small(value) == text


def test_numbers_in_words():
    assert [prose.duration(s) for s in (0.01, 3.14, 42, 150, 9000)] == ["< 0.1 s", "3.1 s", "42 s", "2 min", "2.5 h"]
    assert prose.count(1, "row") == "1 row"
    assert prose.count(12000, "row") == "12,000 rows"
    assert prose.interval(Interval(0.5, 0.25, 0.75)) == "25.0% to 75.0%"
    assert [numbers.rounded(x) for x in (-2e-4, 0.99961, -0.5)] == ["0.000", "1.000", "-0.500"]
    assert numbers.interval(Interval(0.0, -3e-4, 0.1), 3) == "0.000 to 0.100"
    assert [numbers.decimals_of(Interval(0.0, -w, w)) for w in (0.0, 0.2, 2e-4)] == [3, 3, 5]
    assert [numbers.p_value(p) for p in (1e-5, 0.0123, 0.5)] == ["< 0.001", "= 0.012", "= 0.50"]


def test_the_picture_of_a_search_has_the_figure_of_every_cell(three):
    assert all(isinstance(figure, Figure) for figure, _ in prose.phrasing_of(three).pictures(three).values())
    display = search_display(three.search, partial(prose.phrasing_of(three).short_figure, three.goal))
    assert sorted(cell.text for cell in display.cells) == sorted(
        f"{100 * cell.figure:.1f}" for cell in three.search.cells
    )
    assert display.best.score == max(cell.score for cell in display.cells)


def test_all_roc_curves_are_drawn_and_the_worst_are_named():
    curves = [
        roc(np.arange(20) % 2 == 1, np.arange(20) * (number % 5 - 1.0) % 7, f"class {number}") for number in range(9)
    ]
    (axes,) = plot.RocCurveDisplay({"sealed": curves}).to_figure().axes
    assert len(axes.lines) == 1 + 9  # the diagonal, and a curve for each class
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(named) == plot.MAX_CURVES
    shown = sorted(curve.area.value for curve in curves)[: plot.MAX_CURVES]
    assert sorted(float(name.split()[-1]) for name in named) == pytest.approx(shown, abs=1e-3)


def test_names_of_classes_are_upright():
    names = [f"a long name {number}" for number in range(9)]
    (axes,) = plot.ConfusionMatrixDisplay(np.eye(9, dtype=int), names).to_figure().axes
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0.0}


@pytest.mark.filterwarnings("error:Glyph")
def test_control_characters_of_names_are_spelt_out_on_the_page_and_in_the_terminal(capsys):
    rng = np.random.default_rng(0)
    a = rng.normal(size=100)
    cells = {f"a{CONTROLS}": a, "b": rng.choice([f"n{CONTROLS}", "s"], 100)}
    frame = pd.DataFrame(cells).assign(**{f"t{CONTROLS}": np.where(a > 0, f"yes{CONTROLS}", "no")})
    studied = study(frame, f"t{CONTROLS}", n_folds=2, kernel="linear", scoring="f1")
    page = render(studied, source=f"s{CONTROLS}.csv", command=f"mercer study s{CONTROLS}.csv")
    print_study(studied, "t.csv", "mercer study t.csv", "model.mercer")
    for text in (page, capsys.readouterr().out):
        assert not set(CONTROLS) & set(text)
        assert r"\u202e\u2066\x1b\x07" in text


WORDS_PAGE = (
    "<h1>Gap</h1><main><p>The gap and the gap of support vectors, F1; “recall”.</p><td>fold</td>"
    '<th scope="row">gamma</th><svg><text>kernel</text></svg><p>The body mass is a margin.</p><!-- words --></main>'
)


def test_the_first_use_of_a_word_leads_to_its_definition():
    page = words.define(WORDS_PAGE, ["body mass"])
    assert page.count("<a") == 4  # gap, support vectors, F1, margin; no name, no cell, no picture, nothing in quotes
    assert 'The <a class="word" href="#word-duality-gap">gap</a> and the gap of' in page
    assert '<dt id="word-support-vector">Support vector</dt><dd>a training row' in page
    assert page.startswith("<h1>Gap</h1>")
    assert page.count("<dt") == 4


def test_a_word_that_is_part_of_a_name_is_left_alone():
    page = words.define(WORDS_PAGE, ["Margin", "F1 of last year", "gap2"])
    assert "word-margin" not in page
    assert "word-f1" not in page
    assert "word-duality-gap" in page


def test_all_words_of_a_page_are_defined_once(studied):
    page = Page(page_of(studied))
    links = [value for tag, name, value in page.attributes if (tag, name) == ("a", "href")]
    definitions = [one for one in page.ids if one.startswith("word-")]
    assert sorted(links) == sorted(f"#{one}" for one in definitions)
    assert len(set(definitions)) == len(definitions) > 20


def test_the_glossary_has_each_spelling_once():
    spellings = [one.lower() for word in words.glossary() for one in word.spellings]
    assert len(spellings) == len(set(spellings)) > 150
    entries = Path(words.__file__).with_name("glossary.md").read_text(encoding="utf-8").count("\n- ")
    assert len(words.glossary()) == entries  # no entry is spelt so that it is not read
    assert len({word.anchor for word in words.glossary()}) == entries
