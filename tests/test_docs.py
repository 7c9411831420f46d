"""Every example in the documentation and in docstrings runs."""

import doctest
import importlib
import importlib.util
import pkgutil
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

import mercer

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src/mercer"
PACKAGES = [*vars(mercer)["_MODULES"], "studies", "studies.models", "studies.tables"]  # whose names are public
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)\)")
ENTRY = re.compile(r"^(?:-|\d+\.) \[([^\]]+)\]\(([^)#:]+\.md)\)", re.MULTILINE)
OPTIONAL = ("onnx", "onnxruntime", "skl2onnx", "skops")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
WITH_OUTPUT = re.compile(BLOCK.pattern + r"(?:\n\n```text\n(.*?)^```)?", BLOCK.flags)
PRINTED = ("course", "howto")  # folders of pages that show what their programs print
MODULES = [m.name for m in pkgutil.walk_packages(mercer.__path__, "mercer.") if not m.name.endswith("._core")]


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name)
def test_examples_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    """A block of text after a program is its output in PRINTED; "..." stands for what differs between runs."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page.stem}
    same = doctest.OutputChecker().check_output
    for block, output in WITH_OUTPUT.findall(page.read_text()):
        try:
            exec(compile(block, str(page), "exec"), namespace)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"no {error.name}")
        printed = capsys.readouterr().out
        if output and page.parent.name in PRINTED:
            assert same(output, printed, doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS), printed
    assert len(namespace) > 1


@pytest.mark.parametrize("package", sorted({name.split(".")[1] for name in MODULES}))
def test_examples_in_docstrings_run(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    absent = importlib.util.find_spec("skl2onnx") is None
    failed = []
    for name in (name for name in MODULES if name.split(".")[1] == package and not (absent and ".onnx_" in name)):
        failed += [name] * doctest.testmod(importlib.import_module(name), optionflags=flags).failed
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    assert not failed


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert re.match(r"https?:", target) or (page.parent / target).exists(), target


def test_every_page_stands_in_one_index_by_its_title():
    """The site's tables of contents are the bullets of index pages that begin with a link (docs/conf.py)."""
    entries = []
    for index in (ROOT / "docs").rglob("index.md"):
        for title, target in ENTRY.findall(index.read_text()):
            page = (index.parent / target).resolve()
            entries.append(page)
            assert re.sub(r"^\d+\\?\. ", "", page.read_text().splitlines()[0].removeprefix("# ")) == title
    assert len(entries) == len(set(entries))
    assert set((ROOT / "docs").resolve().rglob("*.md")) - set(entries) == {(ROOT / "docs/index.md").resolve()}


@pytest.fixture
def reference(tmp_path, monkeypatch):
    """The pages of the reference by package, as docs/api_pages.py writes them."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    importlib.import_module("api_pages").write(tmp_path)
    return {page.stem: page.read_text() for page in tmp_path.glob("*.rst")}


def test_the_reference_has_every_public_name(reference):
    names = {f"mercer.{name}" for name in mercer.__all__}
    for package in PACKAGES:
        module = importlib.import_module(f"mercer.{package}")
        public = getattr(module, "__all__", None) or re.findall(
            r"import (\w+) as \1$", Path(module.__file__).read_text(), re.M
        )
        assert public
        names |= {f"{module.__name__}.{name}" for name in public}
    for name in names:
        package, _, short = name.rpartition(".")
        entry = rf"^(   (mercer\.(\w+\.)*)?|\.\. py:data:: ){short}$"
        assert re.search(entry, reference[package], re.MULTILINE), name


def test_every_public_name_says_what_it_is(reference):
    for page in reference.values():
        for name, text in re.findall(r"^\.\. py:data:: (\w+)\n\n((?:   .*\n|\n)*)", page, re.MULTILINE):
            assert text.strip(), name
    for package in ("mercer", *(f"mercer.{name}" for name in PACKAGES)):
        module = importlib.import_module(package)
        for name in re.findall(r"^   (?:mercer\.(?:\w+\.)*)?(\w+)$", reference[package], re.MULTILINE):
            assert (getattr(module, name).__doc__ or "").strip(), f"{package}.{name}"


@pytest.fixture
def course_pictures():
    """The module that draws the pictures of the course."""
    spec = importlib.util.spec_from_file_location("course_pictures", ROOT / "docs/pictures/course.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_of_the_course_are_up_to_date_and_shown(course_pictures):
    image = pytest.importorskip("PIL.Image")
    stored = {}
    for path in course_pictures.FOLDER.glob("*.png"):
        with image.open(path) as opened:
            stored[path.stem] = opened.info["Description"]
    expected = {name: course_pictures.description(draw) for name, draw in course_pictures.PICTURES.items()}
    assert stored == expected, "run: python docs/pictures/course.py"
    pages = "".join(page.read_text() for page in (ROOT / "docs/course").glob("*.md"))
    assert all(f"](../pictures/course/{name}.png)" in pages for name in stored)


@pytest.mark.slow
def test_the_pictures_of_the_course_can_be_drawn(course_pictures):
    for draw in course_pictures.PICTURES.values():
        draw().canvas.draw()


def test_every_chapter_of_the_course_has_code_and_three_exercises_with_solutions():
    chapters = sorted((ROOT / "docs/course").glob("[0-9]*.md"))
    assert [page.read_text().splitlines()[0].split()[1] for page in chapters] == [f"{i}." for i in range(1, 11)]
    for page in chapters:
        text = page.read_text()
        exercises = text.split("## Exercises")[1]
        assert len(re.findall(r"^\*\*[123]\.\*\* ", exercises, re.MULTILINE)) == 3
        assert exercises.count("<summary>Solution</summary>") == exercises.count("</details>") == 3
        assert all(BLOCK.search(part) for part in text.split("## Exercises"))


def test_the_logo_is_what_its_script_draws():
    script = ROOT / "docs/pictures/logo.py"
    assert runpy.run_path(str(script))["logo"]() == script.with_suffix(".svg").read_text()


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_lines_of_the_front_pages_fit(page):
    long = [number for number, line in enumerate((ROOT / page).read_text().splitlines(), 1) if len(line) > 120]
    assert not long


def folders(root):
    return {f"{path.parent.relative_to(root)}/" for path in root.rglob("*.*") if path.suffix in {".py", ".hpp", ".cpp"}}


def test_the_map_of_the_package_has_every_folder():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    mapped = re.findall(r"^\| `([a-z_/]+/)` \|", page, re.MULTILINE)
    assert len(mapped) == len(set(mapped))
    native = {f"native/{folder}" for folder in folders(ROOT / "native")}
    assert set(mapped) == (folders(SOURCES) | native) - {"./"}


def test_the_map_of_the_package_is_in_the_order_of_its_layers():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    mapped = [name for name in re.findall(r"^\| `([a-z_]+)/` \|", page, re.MULTILINE) if name != "native"]
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    levels = {name: level for level, names in enumerate(layers) for name in re.findall(r"\((\w+)\)", names)}
    assert [levels[name] for name in mapped] == sorted(levels[name] for name in mapped)


def test_every_module_says_what_is_in_it():
    for path in SOURCES.rglob("*.py"):
        assert path.read_text().startswith('"""'), path
