"""Files beside the package say the same as the package: versions, formatters, make targets."""

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
