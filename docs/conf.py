"""How Sphinx builds the site: `make docs`.

The folder of the sources is the repository, so that links between pages work on the site and in a checkout.
"""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.util.logging import getLogger

sys.path.insert(0, str(Path(__file__).parent))

import api_pages

import mercer
from mercer.studies.report.words import glossary

ROOT = Path(__file__).parent.parent

project = "mercer"
author = "The mercer developers"
copyright = author
version = release = mercer.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
root_doc = "docs/index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
include_patterns = ["docs/**", "benchmarks/*.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [".*", "build", "dist", "examples", "native", "src", "tests", "docs/_templates"]
templates_path = [str(ROOT / "docs/_templates")]  # absolute: autosummary takes it from the sources, Sphinx from here
default_role = "py:obj"
language = "en"

myst_heading_anchors = 4

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings give the types
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True

FOLDERS = ("basics", "margins", "kernels", "sequences", "optimisation", "evaluation")
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"/(?!out_of_core|breast_cancer_table)\w+\.py$",  # these two take arguments
    "subsection_order": [
        f"examples/{one}" for one in ("basics", "margins", "kernels", "sequences", "optimisation", "evaluation")
    ],
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "run_stale_examples": True,  # the library may have changed, and with it what an example draws
    "download_all_examples": False,
    "min_reported_time": 10,
    "backreferences_dir": "docs/gallery/backreferences",
    "doc_module": ("mercer",),
    "default_thumb_file": str(ROOT / "docs/pictures/logo.svg"),
    "show_memory": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_logo = html_favicon = "pictures/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"docs/glossary": []}
toc_object_entries_show_parents = "hide"  # the column of a page's contents is narrow
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "mercer"},
    "show_prev_next": True,
    "show_toc_level": 2,  # methods
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
}

ENTRY = re.compile(r"^(?:-|\d+\.) \[[^\]]+\]\(([^)#:]+)\.(?:md|rst)\)", re.MULTILINE)
WRITTEN = {  # pages that are written while the site is built: a heading, and bullets
    "docs/index": lambda: ("", ["[Examples](gallery/index.rst): scripts that run, with what they print and draw."]),
    "docs/reference/index": lambda: ("## Public names\n", api_pages.index("../api")),
}


def list_pages(app, name, source):
    """Add the written pages to an index page, and make its bullets that begin with a link its table of contents."""
    if name.startswith("docs/") and name.endswith("/index") and not name.startswith("docs/gallery"):
        heading, entries = WRITTEN.get(name, lambda: ("", []))()
        added = "\n".join([heading, *(f"- {entry}" for entry in entries)])
        source[0] = re.sub(r"(?=^## |\Z)", f"{added}\n\n", source[0], count=1, flags=re.MULTILINE)
        toctree = "\n".join(ENTRY.findall(source[0]))
        source[0] += f"\n```{{toctree}}\n:hidden:\n{toctree}\n```\n"


PLACES = api_pages.places()


def escape_gallery(app, name, source):
    """Let the prose of examples have bars, as docstrings may."""
    if name.startswith("docs/gallery/"):
        lines = source[0].splitlines()
        api_pages.escape_marks(lines)
        source[0] = "\n".join(lines)


def write_front_door(app, exception):
    """Write the page that a visitor of the site's root gets."""
    target = f"{root_doc}.html"
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">mercer</a>\n'
    (Path(app.outdir) / "index.html").write_text(page)


def setup(app):
    app.connect("config-inited", lambda app, config: api_pages.write(ROOT / "docs/api"), priority=100)
    app.connect("autodoc-process-docstring", api_pages.keep_formulas, priority=100)
    app.connect("autodoc-process-docstring", lambda *event: api_pages.escape_marks(event[-1]), priority=900)
    app.connect("autodoc-skip-member", api_pages.is_of_others)
    app.connect("env-check-consistency", check_reference)
    app.connect("doctree-read", anchor_terms)
    app.connect("doctree-resolved", link_names)
    app.connect("source-read", list_pages)
    app.connect("source-read", escape_gallery)
    app.connect("build-finished", write_front_door)


def link_names(app, doctree, page):
    """Link names in code type, such as `SVC`, to the reference; the pages themselves stay plain Markdown."""
    for node in list(doctree.findall(nodes.literal)):
        name = node.astext().removesuffix("()")
        target = PLACES.get(name)
        if target and not isinstance(node.parent, (nodes.reference, nodes.title)):
            uri = app.builder.get_relative_uri(page, f"docs/api/names/{target}")
            node.replace_self(nodes.reference("", "", node.deepcopy(), refuri=uri))


def anchor_terms(app, doctree):
    """Give each term of the glossary an anchor of its own, such as glossary.html#word-margin."""
    if app.env.docname == "docs/glossary":
        for item, word in zip(doctree.findall(nodes.list_item), glossary(), strict=True):
            item["ids"].append(word.anchor)


def check_reference(app, env):
    """Warn, which fails a strict build, about public names that the built reference does not have."""
    documented = env.get_domain("py").objects
    for name in api_pages.canonical_names():
        if name not in documented:
            getLogger(__name__).warning("the reference does not have the public name %s", name)
