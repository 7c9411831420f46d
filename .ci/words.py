"""Check that texts avoid phrases, and names in code words, that readers with English as a second language stumble over.

Run by ``make check``: ``python .ci/words.py``. Each rule has the reason and what to write instead.
"""

from __future__ import annotations

import functools
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

NAMES = {  # words that identifiers do not contain, and what to write instead
    "anew": "say what is done",
    "astray": "write 'diverged'",
    "covers": "write 'has_all', or name what is complete",
    "dear": "write 'expensive'",
    "drags": "write 'smo_slow'",
    "folded": "write 'deduplicated'",
    "held": "write 'in_memory', 'fixed', or name the thing",
    "kept": "write 'cached', 'remaining', or name the thing",
    "nearby": "write 'incremental', or 'similar'",
    "patience": "name the limit of idle steps",
    "piece": "write 'chunk'",
    "pieces": "write 'chunks'",
    "reach": "write 'c_times_kmax', 'largest_abs', or name the quantity",
    "recipes": "write 'specs'",
    "settle": "write 'refine' or 'decide'",
    "settled": "write 'screened' or 'decided'",
    "settles": "write 'determines'",
    "taken": "write 'used', 'reserved', or name the thing",
    "tell": "write 'report'",
    "tells": "write 'reports'",
    "told": "write 'reported', or name the thing",
    "travelled": "write 'update_sum'",
    "walk": "write 'schedule', or name the thing",
    "watch": "write 'monitor'",
    "who": "things are not people: name the thing",
}
ALONE = {  # words that are no identifier by themselves, but may be a part of one
    "found": "name the thing that was found",
    "keep": "name what is kept, or where",
    "known": "name what is known: 'is_present', 'cached', 'conditions'",
    "own": "name whose it is: 'is_true_class', 'part_beta'",
    "whole": "name the whole: 'full_gram', 'stacked', 'full_search'",
}
ALLOWED_NAMES = {  # names, attributes with their dot, and the files in which they are allowed: each with its reason
    "held": r"leave_one_out\.py$",  # field of the result: what is the same without a row
    ".held": r"leave_one_out\.py$",
    "held_out": r"studies/",  # the field's term for rows that a model has not seen
    ".held_out": "",
    "_held_out": r"studies/",
    "kept_columns": r"studies/cli/",  # columns that the option --keep-columns names
    "keep": r"studies/|test_(dates_and_text|encoding|model_file|table_faults)",  # public option: columns that are used
    ".keep": r"studies/",
    "known": r"leave_one_out\.py$|optimisers/base\.py$",  # public fields
    ".known": r"leave_one_out\.py$|optimisers",
    "whole": r"certificates/certificate\.py$|data/(precomputed|structured)\.py$",  # public parameter and attributes
    ".whole": r"data/|in_memory|certificates/solution\.py$|shared_fits|tests/test_changing_rows",
    ".tell": "",  # method of Python's files
    ".walk": "",  # function of Python's ast
    ".walk_packages": "",  # function of Python's pkgutil
}

_STRING = r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
_NO_CODE = {  # comments and strings; names in strings of nanobind are those of its functions in C++
    ".py": re.compile(rf"#[^\n]*|{_STRING}", re.DOTALL),
    ".pyi": re.compile(rf"#[^\n]*|{_STRING}", re.DOTALL),
    ".cpp": re.compile(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\""),
    ".hpp": re.compile(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\""),
}
_NAME = re.compile(r"\.?[A-Za-z_]\w*")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


@functools.cache
def _advice(name: str) -> str:
    """Return what to write instead of the words in an identifier that `NAMES` lists."""
    if name.startswith("test_"):  # names of tests are sentences
        return ""
    if (alone := name.strip("._")) in ALONE:
        return ALONE[alone]
    return "; ".join(NAMES[word] for word in map(str.lower, _PART.findall(name)) if word in NAMES)


def _is_allowed(name: str, path: Path) -> bool:
    return name in ALLOWED_NAMES and re.search(ALLOWED_NAMES[name], path.as_posix()) is not None


def _blank(match: re.Match[str]) -> str:
    return "\n" * match.group(0).count("\n")


def name_findings(path: Path) -> list[str]:
    """Return a line of text for each identifier in the code of the file that contains a word of `NAMES`."""
    code = _NO_CODE[path.suffix].sub(_blank, path.read_text(encoding="utf-8"))
    bad = {name for name in set(_NAME.findall(code)) if _advice(name) and not _is_allowed(name, path)}
    if not bad:
        return []
    lines = enumerate(code.split("\n"), 1)
    return [
        f"{path}:{number}: {name}: {_advice(name)}"
        for number, line in lines
        for name in _NAME.findall(line)
        if name in bad
    ]


def findings(path: Path) -> list[str]:
    """Return a line of text for each phrase in the file that a rule bans."""
    text = path.read_text(encoding="utf-8")
    broken = [rule for rule in RULES if re.search(rule, text, re.IGNORECASE)]  # whole files are searched fastest
    if not broken:
        return []
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        for rule, advice in RULES.items():
            if match := re.search(rule, line, re.IGNORECASE):
                lines.append(f"{path}:{number}: {match.group(0)!r}: {advice}")
    return lines


def main() -> int:
    """Print what is found in the tracked files, and return the exit status."""
    names = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [Path(name) for name in names if Path(name).suffix in _SUFFIXES and not name.startswith(_NOT_CHECKED)]
    lines = [line for path in paths if path.exists() for line in findings(path)]
    code = [Path(name) for name in names if Path(name).suffix in _NO_CODE]
    lines += [line for path in code if path.exists() for line in name_findings(path)]
    print("\n".join(lines) if lines else f"plain words: {len(paths)} files, no banned phrase")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
