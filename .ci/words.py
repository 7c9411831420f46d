"""Check that the project's texts avoid phrases that readers with English as a second language stumble over.

Run by ``make check``: ``python .ci/words.py``. Each rule has the reason and what to write instead.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_PEOPLE = ["people", "person", "user", "users", "reader", "readers", "those", "anyone", "someone", "everyone"]
_PEOPLE += ["contributors", "students", "teachers"]
_NOT_OF_PEOPLE = "".join(rf"(?<!\b{word} who)" for word in _PEOPLE)

RULES = {
    rf"\bwho\b{_NOT_OF_PEOPLE}": "things are not people: write 'that' or 'which', or name the thing",
    r"\bwho(?:ever|mever|m)\b|\b(?:no|some|every|any)body\b": "things are not people: name the thing, or say 'nothing'",
    r"\banew\b": "write 'again'",
    r"\bastray\b": "write 'diverges'",
    r"\bdear(?:er|est)?\b": "write 'expensive'",
    r"\bthere (?:is|was) room for\b|\bhas room for\b|\bhave room for\b": "write 'fits' or 'fit'",
    r"\bwhere (?:that|this|it) pays\b": "write 'if faster'",
    r"(?-i:\b(?:is|are|was|were|has|have) none\b(?! %))": "repeat the noun: 'is not a ...', 'has no ...'",
    r"\bas many as there are\b|\bas many as have\b": "name the number",
    r"\bof such(?=[,.;:)])|\bnor of (?:these|those)\b": "repeat the noun",
    r"\bthat settles? nothing\b|\bsettles? (?:it|them|that)\b": "write 'decides' or 'proves', with its object",
    r"\bleft out\b(?=[^.]*\bvariables?\b)": "variables are 'shrunken'; rows of leave-one-out are 'removed'",
}

_SUFFIXES = {".py", ".pyi", ".md", ".hpp", ".cpp", ".j2", ".toml", ".yml", ".cff"}
_NOT_CHECKED = (".ci/words.py", "tests/")  # the rules themselves, and tests, which quote input and output


def findings(path: Path) -> list[str]:
    """Return a line of text for each phrase in the file that a rule bans."""
    text = path.read_text(encoding="utf-8")
    broken = [rule for rule in RULES if re.search(rule, text, re.IGNORECASE)]  # whole files are searched fastest
    if not broken:
        return []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for rule, advice in RULES.items():
            if match := re.search(rule, line, re.IGNORECASE):
                found.append(f"{path}:{number}: {match.group(0)!r}: {advice}")
    return found


def main() -> int:
    """Print what is found in the tracked files, and return the exit status."""
    names = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [Path(name) for name in names if Path(name).suffix in _SUFFIXES and not name.startswith(_NOT_CHECKED)]
    lines = [line for path in paths if path.exists() for line in findings(path)]
    print("\n".join(lines) if lines else f"plain words: {len(paths)} files, no banned phrase")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
