"""The report: one page, whole, safe, and the same figures as the study."""

import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

from generated import mixed_frame, three_classes, with_missing
from mercer import plot
from mercer.metrics import Interval
from mercer.report import prose
from mercer.report.page import render, write_report
from mercer.study import study

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects what the tests ask about, and checks that elements nest."""

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
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "svg"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


HOSTILE = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def mixed():
    frame = with_missing(mixed_frame(160)).rename(columns={"dose": HOSTILE})
    frame["site"] = frame["site"].replace("south", HOSTILE + "&amp;")
    return study(frame, "outcome", missing="impute", n_folds=3)


@pytest.fixture(scope="module")
def three():
    frame = three_classes(120).rename(columns={"kind": HOSTILE})
    frame[HOSTILE] = frame[HOSTILE].replace("a", "<b>&")
    return study(frame, HOSTILE, n_folds=3)


@pytest.fixture(params=["mixed", "three"])
def found(request):
    return request.getfixturevalue(request.param)


def test_the_page_is_self_contained_and_without_scripts(found):
    text = render(found, source="t.csv", command="mercer study t.csv")
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


def test_ids_are_unique_and_references_lead_somewhere(found):
    page = Page(render(found))
    assert len(set(page.ids)) == len(page.ids)
    for _, name, value in page.attributes:
        if name.endswith("href"):
            assert value[1:] in page.ids
        if name == "aria-labelledby":
            assert value in page.ids
        for reference in re.findall(r"url\(#([^)]+)\)", value or ""):
            assert reference in page.ids


def test_what_the_table_says_is_escaped(found):
    text = render(found, source=HOSTILE, command=f"mercer study '{HOSTILE}'")
    assert "<script" not in text
    assert "<b>&" not in text
    assert HOSTILE in Page(text).text


def test_every_picture_has_a_description(found):
    page = Page(render(found))
    labels = [value for tag, name, value in page.attributes if tag == "svg" and name == "aria-label"]
    assert len(labels) == page.tags.count("svg") == 4
    assert all(len(label) > 20 for label in labels)


def test_the_page_says_what_the_study_found(mixed):
    text = Page(render(mixed, source="t.csv", command="mercer study t.csv --target outcome")).text
    for sentence in prose.summary(mixed):
        assert " ".join(sentence.split()) in text
    for name in ("age", "site", "smoker"):
        assert name in text
    assert "row : looks like a row identifier: it counts 1, 2, 3, ... down the table" in text
    assert "unit : one value only in the training rows" in text
    assert "5 → median" in text
    assert "mercer study t.csv --target outcome" in text
    assert mixed.model.training.checksum in text
    assert "opening 1" in text
    assert "(clean)" in text
    assert f"{mixed.certificate.n_free} on the margin" in text
    assert "None" not in text
    assert "nan" not in text.split()


def test_the_page_of_several_classes_lists_each_machine(three):
    text = Page(render(three)).text
    assert "3 machines, one for each pair of classes" in text
    assert "b against c" in text
    assert "mean over classes" in text


def test_a_later_opening_is_reported_as_not_clean():
    found = study(three_classes(), "kind", n_folds=3)
    found.sealed.open(len, "curiosity")
    assert "curiosity (not clean: the test part had been looked at before)" in Page(render(found)).text


def test_colours_come_from_the_page(found):
    text = render(found)
    svg = text[text.index("<svg") :]
    assert "var(--ink)" in svg
    assert "var(--series-0)" in svg
    assert re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", svg) == []
    assert "font-family" not in svg
    for variable in set(re.findall(r"var\((--[\w-]+)\)", text)):
        assert f"{variable}:" in text


def test_the_file_is_written_whole_or_not_at_all(mixed, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write_report(path, mixed)
    assert path.read_text(encoding="utf-8") == render(mixed)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report(path, mixed)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_cautions(mixed, three):
    notes = " ".join(prose.cautions(mixed))
    assert "The test part is small" in notes
    assert "of one class" not in notes
    frame = mixed_frame(200)
    frame = frame[(frame["outcome"] == "ill") | (np.arange(200) % 8 == 0)]
    assert "of the rows are of one class" in " ".join(prose.cautions(study(frame, "outcome", n_folds=3)))


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
    assert [prose.p_value(p) for p in (1e-5, 0.0123, 0.5)] == ["< 0.001", "= 0.012", "= 0.50"]


def test_pictures_are_figures(three):
    figures = [
        plot.roc_curves(three.svm.test.curves),
        plot.search_heat_map(three.search),
        plot.confusion_matrix(three.svm.test.confusion, three.intake.labels),
        plot.margin_distribution(three.margins_train, three.margins_test),
    ]
    assert all(isinstance(figure, Figure) for figure in figures)
    heat_map = figures[1]
    shown = [text.get_text() for axes in heat_map.axes for text in axes.texts]
    assert sorted(shown) == sorted(f"{100 * cell.accuracy:.1f}" for cell in three.search.cells)
