"""Every script in examples/ runs without a warning and prints something."""

import ast
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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_has_a_title(script):
    """sphinx-gallery makes a page of each script; its docstring begins with the page's title."""
    title, line = ast.get_docstring(ast.parse(script.read_text())).splitlines()[:2]
    assert line == "=" * len(title)
