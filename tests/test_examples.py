"""Every script in examples/ runs without a warning and prints something, and every notebook runs."""

import ast
import runpy
import sys
from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.docs

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.rglob("*.py"))

ARGUMENTS = {"out_of_core": ["--size", "2MB", "--memory", "20MB"]}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs(script, tmp_path, monkeypatch, capsys):
    arguments = ARGUMENTS.get(script.stem, [str(tmp_path / "table.csv")])  # only the table's script reads the latter
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    if script.stem.startswith("plot_"):
        monkeypatch.setattr(pytest.importorskip("matplotlib.pyplot"), "show", lambda: None)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert not script.stem.startswith("plot_") or sys.modules["matplotlib.pyplot"].get_fignums()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_has_a_title(script):
    """sphinx-gallery makes a page of each script; its docstring begins with the page's title."""
    title, line = ast.get_docstring(ast.parse(script.read_text())).splitlines()[:2]
    assert line == "=" * len(title)


def test_every_folder_of_scripts_has_a_title():
    for folder in {script.parent for script in SCRIPTS} - {FOLDER}:
        title, line = (folder / "GALLERY_HEADER.rst").read_text().splitlines()[:2]
        assert line == "=" * len(title)


NOTEBOOKS = sorted((FOLDER / "notebooks").glob("*.ipynb"))


@pytest.mark.slow  # five and three seconds, of which a kernel takes two to start
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any(output.output_type in {"stream", "execute_result"} for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[0].source.startswith("# ")
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]
