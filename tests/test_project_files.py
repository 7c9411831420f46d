"""Files beside the package say the same as the package: versions, formatters, make targets."""

import importlib.util
import re
import tomllib
from pathlib import Path

import mercer

ROOT = Path(__file__).parent.parent


def test_the_citation_has_the_version():
    assert f"\nversion: {mercer.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_pre_commit_has_the_formatters_of_the_tools():
    pinned = re.findall(r'additional_dependencies: \["(.+)"\]', (ROOT / ".pre-commit-config.yaml").read_text())
    assert pinned
    assert set(pinned) <= set(tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["tools"])


def test_names_in_code_are_checked_word_by_word(tmp_path):
    spec = importlib.util.spec_from_file_location("words", ROOT / ".ci" / "words.py")
    words = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(words)
    source = tmp_path / "source.py"
    source.write_text(
        '"""held\n"""\nrows_kept = "told"  # taken\nuntold = found.held_out\n\ndef test_rows_are_kept(): pass\n'
    )
    native = tmp_path / "source.cpp"
    native.write_text('// held\nint n = KeptRows("kept").size;\n')
    (python,), (cpp,) = words.name_findings(source), words.name_findings(native)
    assert python.startswith(f"{source}:3: rows_kept: write 'cached'")
    assert cpp.startswith(f"{native}:2: KeptRows: write 'cached'")
