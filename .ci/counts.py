"""Count what makes the project hard to change, so that a change shows whether it adds or takes away.

``make counts``, or ``python .ci/counts.py [REVISION]``: counts the tracked files of the working tree. With a revision
of git, a second column counts that revision, and a third has the difference.

- Lines: all of ``.py``, ``.pyi``, ``.j2``, ``.hpp`` and ``.cpp`` files, by folder.
- Constants: names in capitals that are bound to an expression with a number at the top of a module of the package or
  of its classes, and native ``const`` or ``constexpr`` names such as ``kName`` whose value has a digit.
- Functions of many parameters: those of the package with 8 or more, without ``self``, ``cls``, ``*args`` and
  ``**kwargs``. Constructors do not count: scikit-learn wants every parameter of an estimator there.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter

MANY = 8  # parameters
_SUFFIXES = (".py", ".pyi", ".j2", ".hpp", ".cpp")
_FOLDERS = ("src/mercer", "native", "tests", "benchmarks", "examples", "docs", ".ci")
_DIVIDED = ("src/mercer", "native")  # their folders are counted one by one
_NATIVE_CONSTANT = re.compile(r"\b(?:const|constexpr)\b[^;(){}=]*?\bk[A-Z]\w*(?:<\w+>)?\s*=[^;]*\d")
_NAME = re.compile(r"_*[A-Z][A-Z0-9_]*")


def texts(revision: str | None) -> dict[str, str]:
    """Return the source files: those of the revision, or the tracked ones of the working tree."""
    listed = ["git", "ls-tree", "-r", "--name-only", revision] if revision else ["git", "ls-files"]
    names = [name for name in _git(listed).splitlines() if name.endswith(_SUFFIXES) and name.startswith(_FOLDERS)]
    if revision is None:
        texts_by_path = {}
        for name in names:
            try:
                with open(name, encoding="utf-8") as file:
                    texts_by_path[name] = file.read()
            except FileNotFoundError:  # deleted, and not yet committed
                continue
        return texts_by_path
    asked = "".join(f"{revision}:{name}\n" for name in names).encode()
    answer = subprocess.run(["git", "cat-file", "--batch"], input=asked, capture_output=True, check=True).stdout
    texts_by_path, at = {}, 0
    for name in names:
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[-1])
        texts_by_path[name] = answer[end + 1 : end + 1 + size].decode()
        at = end + 2 + size
    return texts_by_path


def counts(files: dict[str, str]) -> Counter[str]:
    """Return each count under its label."""
    counter: Counter[str] = Counter()
    for name, text in files.items():
        lines = len(text.splitlines())
        folder = next(folder for folder in _FOLDERS if name.startswith(folder))
        counter[f"lines {folder}"] += lines
        if folder in _DIVIDED:
            counter[f"lines {name.rsplit('/', 1)[0] if name.count('/') < 3 else '/'.join(name.split('/')[:3])}/"] += (
                lines
            )
        if name.endswith(".py") and folder == "src/mercer":
            tree = ast.parse(text)
            counter["constants Python"] += sum(map(_is_constant, _bindings(tree)))
            counter[f"functions of {MANY} parameters or more"] += sum(_has_many(node) for node in ast.walk(tree))
        if folder == "native":
            counter["constants native"] += len(_NATIVE_CONSTANT.findall(text))
    counter["constants"] = counter["constants Python"] + counter["constants native"]
    return counter


def _git(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _bindings(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements at the top of the module and of its classes."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [*tree.body, *(statement for one_class in classes for statement in one_class.body)]


def _is_constant(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        return False
    names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return all(map(_NAME.fullmatch, names)) and any(map(_is_number, ast.walk(statement.value)))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _has_many(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name == "__init__":
        return False
    listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in listed) >= MANY


def main() -> int:
    """Print the counts, and those of a revision beside them."""
    now = counts(texts(None))
    before = counts(texts(sys.argv[1])) if len(sys.argv) > 1 else None
    for label in sorted(now | (before or {})):
        row = f"{label:<52}{now[label]:>8}"
        print(row if before is None else f"{row}{before[label]:>8}{now[label] - before[label]:>+7}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
