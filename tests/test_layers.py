"""The modules of the package: no import cycles, no ambiguous names, and one list of public names."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mercer

SOURCES = Path(__file__).parents[1] / "src"
FILES = [file for ending in ("py", "pyi") for file in sorted((SOURCES / "mercer").rglob(f"*.{ending}"))]


def module_of(file):
    parts = file.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file) for file in FILES}


def imported(source, modules):
    """The modules that a source imports anywhere: at its top, in functions, or only for type checkers."""
    imports = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imports |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            members = {f"{node.module}.{one.name}" for one in node.names}
            imports |= members & modules
            if not members <= modules:
                imports.add(node.module)
    return imports & modules


def circle(graph):
    """An import cycle as the list of its modules, or an empty list."""
    done, path = set(), []

    def visit(module):
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        path.append(module)
        for other in sorted(graph.get(module, ())):
            if cycle := visit(other):
                return cycle
        done.add(path.pop())
        return []

    return next(filter(None, map(visit, sorted(graph))), [])


@pytest.mark.full
def test_no_modules_import_each_other():
    graph = {}
    for file in FILES:
        name = module_of(file)
        graph[name] = graph.get(name, set()) | imported(file.read_text(encoding="utf-8"), MODULES) - {name}
    # `fit_file` is the study's, and imported when it is called; so are names of `mercer`, which the study itself uses.
    for module in ("mercer.estimators._from_file", "mercer"):
        graph[module] -= {name for name in graph[module] if name.startswith("mercer.studies.")}
    assert len(graph) > 200
    assert sum(map(len, graph.values())) > 1000
    assert circle(graph) == []


@pytest.mark.parametrize(
    "back",
    [
        "import m.a",
        "from m.a import f",
        "from m import a",
        "def g():\n    from m.a import f",
        "if TYPE_CHECKING:\n    from m.a import f",
    ],
)
def test_circles_are_found_wherever_imports_are(back):
    modules = {"m", "m.a", "m.b", "m.c"}
    sources = {"m": "", "m.a": "from m.b import f", "m.b": "from m.c import f", "m.c": "import re"}
    graph = {name: imported(source, modules) for name, source in sources.items()}
    assert circle(graph) == []
    assert circle(graph | {"m.c": imported(back, modules)}) == ["m.a", "m.b", "m.c"]


def names_in(source, modules):
    """Names in a package that refer to something other than a module."""
    bound_names = set()
    body = ast.parse(source).body
    body += [one for node in body if isinstance(node, ast.If) for one in node.body + node.orelse]
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound_names.add(node.name)
        elif isinstance(node, ast.Assign):
            bound_names |= {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            bound_names |= {one.asname or one.name for one in node.names if f"{node.module}.{one.name}" not in modules}
    return bound_names


def test_no_module_is_shadowed():
    """If a package has a module and a function of the same name, the order of imports would decide between them."""
    packages = [file for file in FILES if file.stem == "__init__"]
    assert len(packages) > 20
    for file in packages:
        package = module_of(file)
        names = {f"{package}.{name}" for name in names_in(file.read_text(encoding="utf-8"), MODULES)}
        assert names & MODULES == set()


@pytest.mark.parametrize(
    "shadow",
    ["from m.a import a", "from m.b import f as a", "def a(): pass", "a, b = 1, 2", "if x:\n    from m.a import a"],
)
def test_shadowed_modules_are_found(shadow):
    assert "a" in names_in(shadow, {"m", "m.a"})
    assert names_in("from m import a as a", {"m", "m.a"}) == set()


def test_only_what_is_public_is_listed():
    assert sorted(mercer.__all__) == dir(mercer)
    lines = (SOURCES / "mercer" / "__init__.pyi").read_text(encoding="utf-8").count("\nfrom ")
    assert len(dir(mercer)) + len(mercer._MODULES) == lines
    for name in dir(mercer):
        value = getattr(mercer, name)
        assert name == "__version__" or value.__module__.startswith("mercer."), name
    assert all(inspect.ismodule(getattr(mercer, name)) for name in mercer._MODULES)


def test_listing_the_public_names_imports_nothing():
    program = "import sys, mercer; dir(mercer); print(*(name for name in sys.modules if name.startswith('mercer.')))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_a_machine_is_imported_without_the_parts_of_scikit_learn_that_few_machines_need():
    """They are most of what an import would take longer than an import of scikit-learn."""
    heavy = "cluster", "isotonic", "metrics", "model_selection", "neighbors", "linear_model"
    program = (
        f"import sys; from mercer import SVC; print(*({{f'sklearn.{{x}}' for x in {heavy}}} & sys.modules.keys()))"
    )
    imported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert imported.split() == []


def faces():
    """The names that another distribution may import, by module: `mercer` and its public packages."""
    public = {"mercer": {*dir(mercer), *mercer._MODULES}}
    for package in mercer._MODULES:
        for file in sorted((SOURCES / "mercer" / package).rglob("__init__.py")):
            names = names_in(file.read_text(encoding="utf-8"), MODULES)
            public[module_of(file)] = {name for name in names if not name.startswith("_")}
    return public


def beyond(source, public, package="mercer.studies"):
    """The imports of a source from mercer that are not public: modules within packages, or names."""
    private, bound = set(), {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "mercer" and not f"{one.name}.".startswith(f"{package}."):
                    bound[one.asname or "mercer"] = one.name if one.asname else "mercer"
                    private |= {one.name} - public.keys()
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "mercer":
            if f"{node.module}.".startswith(f"{package}."):
                continue
            names = {one.name for one in node.names}
            private |= {f"{node.module}.{name}" for name in names - public.get(node.module, set())}
            bound |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = target_of(node.value, bound)
            if module in public and node.attr not in public[module]:
                private.add(f"{module}.{node.attr}")
    return private


def target_of(node, bound):
    """The dotted name that an expression such as `mercer.gram` stands for; None for other expressions."""
    if isinstance(node, ast.Name):
        return bound.get(node.id)
    if isinstance(node, ast.Attribute) and (base := target_of(node.value, bound)) is not None:
        return f"{base}.{node.attr}"
    return None


FRIENDS = {  # private modules that a module of the study may import, each for one reason
    "mercer.studies.files.libsvm_data": ("mercer._core",),  # the parser of svmlight text is native
    "mercer.studies.fit_file": ("mercer.estimators",),  # it trains a machine in the place of its method `fit_file`
    "mercer.studies.models.liblinear_model": ("mercer.estimators",),  # it makes fitted machines of LIBLINEAR's files
    "mercer.studies.models.libsvm_model": ("mercer.estimators",),  # it makes fitted machines of LIBSVM's files
    "mercer.studies.models.manifest": ("mercer._version",),  # the version is written into model files
}


def test_the_study_uses_public_names_only():
    public = faces()
    files = [*sorted((SOURCES / "mercer" / "studies").rglob("*.py")), SOURCES / "mercer" / "__main__.py"]
    assert len(files) > 15
    sources = {module_of(file): file.read_text(encoding="utf-8") for file in files}
    private_imports = {
        name: {one for one in beyond(source, public) if not one.startswith(("mercer._typing.", *FRIENDS.get(name, ())))}
        for name, source in sources.items()
    }
    assert {name: private for name, private in private_imports.items() if private} == {}


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("from mercer.gram.matrix import Gram", "mercer.gram.matrix.Gram"),
        ("def f():\n    from mercer.gram.matrix import Gram", "mercer.gram.matrix.Gram"),
        ("if TYPE_CHECKING:\n    from mercer.gram import matrix", "mercer.gram.matrix"),
        ("import mercer.gram.matrix", "mercer.gram.matrix"),
        ("import mercer.gram.matrix as m", "mercer.gram.matrix"),
        ("from mercer import _core", "mercer._core"),
        ("from mercer import nothing", "mercer.nothing"),
        ("from mercer.gram import _hidden", "mercer.gram._hidden"),
        ("import mercer\nmercer._MODULES", "mercer._MODULES"),
        ("from mercer import gram as g\ng.matrix.Gram", "mercer.gram.matrix"),
        ("import mercer\nmercer.gram.matrix.Gram", "mercer.gram.matrix"),
        ("import mercer.gram\nmercer.gram._hidden", "mercer.gram._hidden"),
    ],
)
def test_imports_of_private_names_are_found(source, imported):
    public = {"mercer": {"gram", "SVC"}, "mercer.gram": {"Gram"}}
    assert beyond(source, public) == {imported}
    allowed = (
        "import mercer\nfrom mercer import SVC, gram\nfrom mercer.gram import Gram\nfrom mercer.studies.x import _y\n"
    )
    assert beyond(f"{allowed}mercer.SVC, gram.Gram, SVC.fit", public) == set()
