"""A study whose seal stays closed, its repetitions on other splits, and what to do after a study."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from generated import mixed_frame, quantities, render
from mercer.certificates.status import Status
from mercer.studies import cli
from mercer.studies.candidates import KernelChoice
from mercer.studies.ledger import LEDGER, SEALED_MODEL
from mercer.studies.protocol import study
from mercer.studies.report import next_steps, prose, sealed


def table(n=160):
    return mixed_frame(n).drop(columns=["row", "unit"])


@pytest.fixture(scope="module")
def sealed_study():
    return study(table(), "outcome", n_folds=3, kernel="linear", keep_sealed=True, repeats=2)


def test_the_seal_stays_closed_until_it_is_opened_once(sealed_study):
    assert sealed_study.sealed.openings == ()
    assert sealed_study.model.seal.openings == ()
    opened = sealed_study.open()
    assert opened.opening.clean
    studied = study(table(), "outcome", n_folds=3, kernel="linear")
    assert opened.svm.cv == studied.svm.cv == sealed_study.cross_validated["support vector machine"]
    assert opened.svm.test.accuracy == studied.svm.test.accuracy
    assert np.array_equal(opened.test_rows, studied.test_rows)
    assert not sealed_study.open().opening.clean


def test_what_is_said_before_the_seal_is_opened_needs_no_sealed_row(sealed_study):
    said = " ".join(sealed.paragraphs(sealed_study))
    assert "The 40 sealed rows were not opened." in said
    assert "Thresholds on the decision value to predict" in said
    changed = table()
    sealed_rows = np.setdiff1d(np.arange(160), sealed_study.rows.rest_rows)
    changed.loc[sealed_rows, "age"] = changed.loc[sealed_rows, "age"] * 3.0 + 7.0
    other = study(changed, "outcome", n_folds=3, kernel="linear", keep_sealed=True, repeats=2)
    assert " ".join(sealed.paragraphs(other)) == said
    assert sealed.machines(other) == sealed.machines(sealed_study)


@pytest.mark.parametrize(("frame", "target"), [(table(), "outcome"), (quantities(120), "pay")])
def test_the_choice_is_repeated_on_other_splits(frame, target):
    opened = study(frame, target, n_folds=2, kernel="linear", repeats=3)
    assert len(set(opened.repeats)) > 1
    assert abs(np.median(opened.repeats) - opened.svm.cv) < 0.2
    assert "The whole choice was repeated on 3 other splits" in " ".join(prose.summary(opened))
    assert opened.opening.clean


def test_a_difference_between_folds_and_sealed_rows_is_told_if_chance_does_not_explain_it(sealed_study):
    opened, phrasing = sealed_study.open(), prose.phrasing_of(sealed_study.open())
    assert next_steps.against_folds(opened, phrasing) == ""
    for error, cv, test, words in (
        (
            4.0,
            0.9,
            opened.baseline.test,
            "worse than in cross-validation (90.0%): chance alone makes such a difference",
        ),
        (30.0, 0.25, opened.svm.test, "better than in cross-validation (25.0%): chance alone makes such a difference"),
    ):
        svm = replace(opened.svm, errors=(error,) * 3, cv=cv, test=test)
        text = next_steps.against_folds(replace(opened, contenders=(svm, *opened.contenders[1:]), repeats=()), phrasing)
        assert f"{words} with p < 0.001" in text
        assert ("The final machine learnt from more rows than those of the folds" in text) is (cv == 0.25)
        assert text.endswith("--repeats 10 shows how much the split matters.")
    svm = replace(opened.svm, errors=(4.0,) * 3, cv=0.9, test=opened.baseline.test)
    opened = replace(opened, contenders=(svm, *opened.contenders[1:]))
    alone = replace(opened, search=replace(opened.search, cells=opened.search.cells[:1]))
    assert "best of several" in next_steps.against_folds(opened, phrasing)
    assert "< 0.001. The sealed rows differ." in next_steps.against_folds(alone, phrasing)
    (part,) = opened.model.parts
    late = replace(part, certificate=replace(part.certificate, status=Status.TIME_LIMIT))
    cut = replace(opened, model=replace(opened.model, parts=(late,)))
    assert "The final fit ended before its optimum; or the sealed" in next_steps.against_folds(cut, phrasing)


def test_the_commands_of_what_to_do_next_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table().to_csv("t.csv", index=False)
    table().drop(columns="outcome").to_csv("NEW_TABLE.csv", index=False)
    command = ["study", "t.csv", "--target", "outcome", "--kernel", "linear", "--folds", "3"]
    assert cli.run([*command, "--keep-sealed"]) == 0
    assert "The same command without --keep-sealed opens the seal" in " ".join(capsys.readouterr().out.split())
    assert Path("t-study", SEALED_MODEL).exists()
    assert not Path("t-study", LEDGER).exists()
    assert not Path(LEDGER).exists()
    assert cli.run(command) == 0
    out, err = capsys.readouterr()
    assert "look at these rows" not in err
    commands = [shlex.split(line)[1:] for line in out.splitlines() if line.startswith("  mercer ")]
    assert {one[0] for one in commands} >= {"predict", "verify", "study"}
    for one in commands:
        assert cli.run(one) == 0, one
    page = Path("t-study", "report.html").read_text()
    assert "What to do next" in page


def test_the_simpler_machine_is_fitted_to_the_columns_and_weights_of_the_study(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = table()
    frame["patient"] = [f"P{row // 2}" for row in range(len(frame))]
    frame.to_csv("t.csv", index=False, sep=";")
    options = ["--sep", ";", "--drop=age", "--groups", "patient", "--scoring", "balanced_accuracy"]
    opened = study(
        frame, "outcome", n_folds=2, kernel="rbf", drop=["age"], groups="patient", scoring="balanced_accuracy"
    )
    linear = replace(opened.search, chosen=replace(opened.search.best, choice=KernelChoice("linear")))
    monkeypatch.setattr(type(opened), "sign", lambda self, one, other: int(other.name == self.baseline.name))
    said = next_steps.steps(opened, source="t.csv", command=shlex.join(["mercer", "study", "t.csv", *options]))
    assert "is not shown to be worse and is simpler" in said[0][0]
    command = shlex.split(said[0][1])
    assert command[-7:] == ["--sep", ";", "--drop=age", "--drop", "patient", "--class-weight", "balanced"]
    assert cli.run(command[1:]) == 0
    capsys.readouterr()
    monkeypatch.setattr(opened.goal, "implied", "")
    assert next_steps.steps(opened, source="t.csv")[0][1].endswith("--out simple.mercer --drop patient")
    assert not any("simpler" in one for one, _ in next_steps.steps(replace(opened, search=linear)))


def test_without_use_the_next_step_is_to_look_at_the_table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=80), "y": np.arange(80) % 2})
    opened = study(frame, "y", n_folds=2, kernel="linear")
    said = next_steps.steps(opened, source="t.csv")
    assert said[0][1] == "mercer doctor t.csv --target y"
    assert all("predict" not in command for _, command in said)
    assert "mercer doctor t.csv" in render(opened, source="t.csv", command="mercer study t.csv --target y")
    assert "mercer.doctor(table, target=&#39;y&#39;)" in render(opened)
