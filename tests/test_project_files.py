"""Files beside the package say the same as the package: versions, formatters, make targets."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mercer

ROOT = Path(__file__).parent.parent


def test_the_citation_has_the_version():
    assert f"\nversion: {mercer.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_and_the_classifiers_have_what_is_built():
    """The version, and Python from the lowest to the newest for which wheels are built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## {re.escape(mercer.__version__)} \((unreleased|\d{{4}}-\d\d-\d\d)\)$"
    assert re.search(heading, changes, re.MULTILINE)
    assert (ROOT / "docs" / "releases" / f"{mercer.__version__}.md").is_file()
    lowest, abi = project["project"]["requires-python"].removeprefix(">="), project["tool"]["scikit-build"]["wheel"]
    built = project["tool"]["cibuildwheel"]["build"].split()
    assert f"cp{lowest.replace('.', '')}-*" in built
    assert f"{abi['py-api']}-*" in built
    assert f"Programming Language :: Python :: {lowest}" in project["project"]["classifiers"]
    assert "${SKBUILD_SABI_COMPONENT}" in (ROOT / "CMakeLists.txt").read_text()  # without it, no stable ABI


CMAKE = shutil.which("cmake", path=Path(sys.executable).parent)


@pytest.mark.skipif(CMAKE is None, reason="cmake is not installed beside Python")
def test_a_build_without_a_compiler_says_in_one_line_what_to_install(tmp_path):
    command = [CMAKE, "-S", ROOT, "-B", tmp_path / "build", "-G", "Unix Makefiles"]
    command.append(f"-DCMAKE_MAKE_PROGRAM={shutil.which('true')}")
    environment = {name: value for name, value in os.environ.items() if name not in {"CXX", "CC"}} | {
        "PATH": str(tmp_path)
    }
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode
    (line,) = [line for line in run.stderr.splitlines() if "compiler" in line]
    assert line.strip().startswith("mercer needs a C++20 compiler: GCC 11, Clang 14")
    assert "apt install g++" in line


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
        '"""held\n"""\nrows_kept = "told"  # taken\nuntold = fits.held_out\n\ndef test_rows_are_kept(): known = 1\n'
    )
    native = tmp_path / "source.cpp"
    native.write_text('// held\nint n = KeptRows("kept").size;\n')
    (python, alone), (cpp,) = words.name_findings(source), words.name_findings(native)
    assert python.startswith(f"{source}:3: rows_kept: write 'cached'")
    assert alone.startswith(f"{source}:6: known: name what")
    assert cpp.startswith(f"{native}:2: KeptRows: write 'cached'")
