"""The reference of the public names: one page for each package, written from the lists of names in its `__init__`."""

import ast
import inspect
import re
import textwrap
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import click

import mercer
from mercer.studies.cli.commands import cli

HELP_WIDTH = 78  # letters of a line of help; so many fit into a page

TITLES = {
    "estimators": "Machines",
    "approximate": "Approximate machines",
    "cluster": "Many machines",
    "kernels": "Kernels",
    "data": "Rows that are not tables",
    "features": "Feature maps",
    "geometry": "Geometry",
    "gram": "Arrays on a device",
    "export": "Machines in other languages",
    "model_selection": "Choosing and judging machines",
    "multiclass": "Thresholds",
    "solvers": "Leave-one-out bounds",
    "certificates": "Certificates",
    "studies": "Tables, studies and files",
    "_version": "Version",
}
"""Headings of the names that `mercer` itself has, by the package that defines them."""


@cache
def packages():
    """Return the public packages by their full names, `mercer` first."""
    public = [*vars(mercer)["_MODULES"], "studies", "studies.models", "studies.tables"]
    return {"mercer": mercer} | {f"mercer.{name}": import_module(f"mercer.{name}") for name in public}


@cache
def public_names(package):
    """Return the names in `__all__`; without it, those that `__init__` imports under their own names or defines."""
    if hasattr(package, "__all__"):
        return list(package.__all__)
    tree = ast.parse(Path(package.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]  # those for type checkers too
    names = [one.asname for node in imports for one in node.names if one.asname == one.name]
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names += [one.id for one in getattr(node, "targets", [getattr(node, "target", None)])]
    return [name for name in names if not name.startswith("_")]


def canonical(package, name):
    """Return the one full name under which an object is documented: of `mercer`, else of its own package."""
    value = getattr(package, name)
    defining = ".".join(str(getattr(value, "__module__", "")).split(".")[:2])
    for home in ("mercer", defining):
        place = packages().get(home)
        if place and name in public_names(place) and getattr(place, name) is value:
            return f"{home}.{name}"
    return f"{package.__name__}.{name}"


def canonical_names():
    """Return the full names that the reference must have."""
    return sorted({canonical(package, name) for package in packages().values() for name in public_names(package)})


def places():
    """Return the pages of names: by full name, and by the short names that mean nothing else in a page."""
    full = {name: name for name in canonical_names() if _has_page(*name.rsplit(".", 1))}
    short = [name.rpartition(".")[2] for name in full]
    alone = {one for one in short if short.count(one) == 1 and (one[0].isupper() or "_" in one)}
    return full | {one: name for name in full if (one := name.rpartition(".")[2]) in alone}


def _has_page(package, name):
    value = getattr(packages()[package], name)
    return inspect.isclass(value) or inspect.isroutine(value)


def write(folder):
    """Write a page for each package and one for the commands; delete pages of names that are no longer public."""
    folder.mkdir(exist_ok=True)
    names = canonical_names()
    for page in folder.glob("names/*.rst"):
        if page.stem not in names:
            page.unlink()
    for title, package in packages().items():
        _write_if_changed(folder / f"{title}.rst", _page(title, package))
    _write_if_changed(folder / "commands.rst", _commands())


def index(folder):
    """Return a link to each package's page and what the package is, in Markdown."""
    pages = [f"[{title}]({folder}/{title}.rst): {_first_line(package)}" for title, package in packages().items()]
    return [*pages, f"[The commands]({folder}/commands.rst): every option of the program `mercer`."]


def _commands():
    """Return the page of the commands, with what ``--help`` prints."""
    program = click.Context(cli, info_name="mercer", **cli.context_settings)  # click keeps the first help option
    parts = [_heading("The commands", "="), "What ``mercer COMMAND --help`` prints.\n"]
    for name, command in cli.commands.items():
        context = click.Context(command, info_name=name, parent=program, terminal_width=HELP_WIDTH)
        parts += [
            _heading(f"mercer {name}", "-"),
            ".. code-block:: text\n",
            textwrap.indent(context.get_help(), "   ") + "\n",
        ]
    return "\n".join(parts)


def _page(title, package):
    parts = [_heading(title, "="), f".. module:: {title}\n", inspect.getdoc(package) + "\n"]
    names = public_names(package)
    if package is mercer:
        homes = vars(mercer)["_HOMES"]
        for home, heading in TITLES.items():
            parts += [_heading(heading, "-"), *_entries(package, [n for n in names if homes[n].split(".")[1] == home])]
    else:
        parts += _entries(package, names)
    return "\n".join(parts)


def _entries(package, names):
    """Return the summary of classes and functions, each with a page of its own, and the constants in full."""
    documented = sorted((name for name in names if _has_page(package.__name__, name)), key=str.lower)
    here = [name for name in documented if canonical(package, name) == f"{package.__name__}.{name}"]
    elsewhere = [canonical(package, name) for name in documented if name not in here]
    constants = [name for name in names if name not in documented]
    if here:
        yield _summary(here, f".. currentmodule:: {package.__name__}\n\n", "   :toctree: names\n")
    if elsewhere:
        yield "Also here:\n\n" + _summary(elsewhere)
    for name in constants:
        text = textwrap.indent(_docstring_of_constant(package, name), "   ")
        yield f".. py:data:: {name}\n   :no-index-entry:\n\n{text}\n"


def _summary(names, before="", option=""):
    return f"{before}.. autosummary::\n{option}   :nosignatures:\n\n   " + "\n   ".join(names) + "\n"


def _docstring_of_constant(package, name):
    """Return the string literal that stands after the assignment of a constant, and the value if it is short."""
    home, tree = package, ast.parse(Path(package.__file__).read_text())
    while imported := _import_of(tree, name):
        home = import_module(imported)
        tree = ast.parse(Path(home.__file__).read_text())
    text = repr(getattr(package, name))
    value = f"Value: ``{text}``." if len(text) < 80 and " object at " not in text else ""
    for node, after in pairwise([*tree.body, None]):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        is_it = isinstance(node, (ast.Assign, ast.AnnAssign)) and name in [getattr(one, "id", "") for one in targets]
        if is_it and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return f"{inspect.cleandoc(after.value.value)}\n\n{value}"
    return value


def _import_of(tree, name):
    """Return the module from which a module imports a name."""
    return next(
        (n.module for n in tree.body if isinstance(n, ast.ImportFrom) and name in [a.name for a in n.names]), None
    )


def _first_line(package: ModuleType):
    return re.sub(r":\w+:`", "`", inspect.getdoc(package).splitlines()[0])


def _heading(text, mark):
    return f"{text}\n{mark * len(text)}\n\n"


def _write_if_changed(path, text):
    """Leave a file that has this text untouched, so that Sphinx does not read it again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def keep_formulas(app, what, name, obj, options, lines):
    """Make indented lines after a blank line a literal block: docstrings show formulas and programs this way."""
    for number in range(len(lines) - 1, 1, -1):
        line, before = lines[number], next((one for one in reversed(lines[:number]) if one.strip()), "")
        if lines[number - 1].strip() or not line.startswith(_indent(before) + "    ") or not line.strip():
            continue
        if not before.rstrip().endswith("::") and not line.lstrip().startswith((">>>", "- ", "* ", "..")):
            lines[number:number] = [_indent(before) + ".. code-block:: text", ""]


def is_of_others(app, what, name, obj, skip, options):
    """Skip the members that machines inherit from scikit-learn."""
    return skip or str(getattr(obj, "__module__", "")).startswith("sklearn.") or None


def escape_marks(lines):
    """Escape the bars of |x - z| and the last _ of coef_ in prose, which would be substitutions and hyperlinks."""
    literal = None  # indentation of the paragraph that announces the literal block
    is_session = False  # whether the line is of an interpreter session: from >>> to the next blank line
    for number, line in enumerate(lines):
        indent = len(_indent(line))
        is_session = bool(line.strip()) and (is_session or line.lstrip().startswith(">>> "))
        if is_session:
            continue
        if literal is not None and (not line.strip() or indent > literal):
            continue
        literal = indent if line.rstrip().endswith("::") or line.lstrip().startswith(".. ") else None
        spans = re.split(r"(``.+?``|`.+?`)", line)
        lines[number] = "".join(s if s.startswith("`") else re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", s) for s in spans)


def _indent(line):
    return line[: len(line) - len(line.lstrip())]
