"""Every script in examples/ runs without a warning and prints something."""

import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

SCRIPTS = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))

ARGUMENTS = {"out_of_core": ["--size", "2MB", "--memory", "20MB"]}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs(script, tmp_path, monkeypatch, capsys):
    arguments = ARGUMENTS.get(script.stem, [str(tmp_path / "table.csv")])  # only the table's script reads the latter
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_readme_of_the_examples_lists_every_script():
    page = (SCRIPTS[0].parent / "README.md").read_text()
    assert all(f"]({script.name})" in page for script in SCRIPTS)
