"""Machines as C99 and JavaScript: compiled without warnings, run, and compared with the machines to 1e-12."""

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from sklearn import svm
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder

import mercer
from export_cases import CASES, TABLES, TEXT, THREE, TWO, X, close, expected, fitted, rows
from mercer import RBF, SVC, to_c, to_javascript
from mercer.export import NotExportableError
from mercer.kernels import FeatureKernel

CC = shutil.which("cc")
NODE = shutil.which("node")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
NEW = rows(25, seed=1)
NAMES = sorted([*CASES, *TABLES])


def run(command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, **more).stdout


def c_calls(name, machine):
    """Statements of C that print the answers of a machine for the row x, in the order of `expected`."""
    decision, probabilities, predicted = expected(machine, NEW)
    lines = []
    for what, values in (("decision", decision), ("probabilities", probabilities)):
        if values is not None:
            n = values.shape[1]
            lines += [f"{{ double v[{n}]; {name}_{what}(x, v); for (int i = 0; i < {n}; ++i) show(v[i]); }}"]
    if predicted.dtype.kind in "USO":
        lines += [f"text({name}_predict(x));"]
    elif predicted.ndim == 2:
        n = predicted.shape[1]
        lines += [f"{{ double v[{n}]; {name}_predict(x, v); for (int i = 0; i < {n}; ++i) show(v[i]); }}"]
    else:
        lines += [f"show((double){name}_predict(x));"]
    return lines


def answers(values, machine):
    """The same answers as `expected`, from the numbers that a program has printed for each row."""
    decision, probabilities, _ = expected(machine, NEW)
    widths = [0 if one is None else one.shape[1] for one in (decision, probabilities)]
    edges = np.cumsum(widths)
    return (
        [row[: edges[0]] for row in values],
        [row[edges[0] : edges[1]] for row in values],
        [row[edges[1] :] for row in values],
    )


def compare(values, machine):
    decision, probabilities, predicted = expected(machine, NEW)
    actual = answers(values, machine)
    for wanted, numbers in ((decision, actual[0]), (probabilities, actual[1])):
        if wanted is not None:
            assert close(np.array(numbers, dtype=np.float64), wanted)
    if predicted.dtype.kind in "USO":
        assert [one[0] for one in actual[2]] == predicted.tolist()
    elif hasattr(machine, "classes_") or predicted.dtype.kind in "ib":
        assert [one[0] for one in actual[2]] == predicted.astype(np.float64).tolist()
    else:
        assert close(np.array(actual[2], dtype=np.float64), predicted.reshape(len(NEW), -1))


@pytest.fixture(scope="module")
def c_results(tmp_path_factory):
    """What one program of all machines prints."""
    folder = tmp_path_factory.mktemp("c")
    sources = [to_c(fitted(name), name=name) for name in NAMES]
    table = ", ".join(repr(float(one)) for one in NEW.ravel())
    main = [
        "#include <stdio.h>",
        f"static const double rows[] = {{{table}}};",
        'static void show(double value) { printf("%.17g,", value); }',
        'static void text(const char *label) { putchar(34); for (; *label; ++label) printf("%02x", *label & 255);',
        'printf("\\","); }',
        "int main(void) {",
        f"    for (int r = 0; r < {len(NEW)}; ++r) {{",
        f"        const double *x = rows + {NEW.shape[1]} * r;",
    ]
    for name in NAMES:
        main += [f'        printf("{name} ");']
        main += [f"        {line}" for line in c_calls(name, fitted(name))]
        main += ["        putchar(10);"]
    main += ["    }", "    return 0;", "}"]
    (folder / "all.c").write_text("\n".join([*sources, *main]))
    run([CC, *FLAGS, "all.c", "-o", "all", "-lm"], cwd=folder)
    actual = {}
    for line in run([folder / "all"]).splitlines():
        name, numbers = line.split(" ")
        values = json.loads(f"[{numbers[:-1]}]")
        actual.setdefault(name, []).append(
            [bytes.fromhex(one).decode() if isinstance(one, str) else one for one in values]
        )
    return actual


@pytest.fixture(scope="module")
def javascript_results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("js")
    parts = [to_javascript(fitted(name), name=name) for name in NAMES]
    calls = f"""
const rows = {json.dumps(NEW.tolist())}, found = {{}};
for (const [name, model] of Object.entries({{{", ".join(NAMES)}}})) {{
    found[name] = rows.map((x) => [model.decision, model.probabilities, model.predict].flatMap((f) => f ? f(x) : []));
}}
console.log(JSON.stringify(found));
"""
    (folder / "all.js").write_text("\n".join([*parts, calls]))
    return json.loads(run([NODE, folder / "all.js"]))


@pytest.mark.skipif(CC is None, reason="no C compiler")
@pytest.mark.parametrize("name", NAMES)
def test_c_gives_the_same_answers(c_results, name):
    compare(c_results[name], fitted(name))


@pytest.mark.skipif(NODE is None, reason="no Node.js")
@pytest.mark.parametrize("name", NAMES)
def test_javascript_gives_the_same_answers(javascript_results, name):
    compare(javascript_results[name], fitted(name))


def test_what_cannot_be_written_is_named():
    with pytest.raises(NotExportableError, match=r"Spectrum.*kernels of rows of numbers have a formula: RBF"):
        to_c(SVC(kernel=mercer.Spectrum(2)).fit(["ab", "ba", "bb", "aa"], [0, 1, 0, 1]))
    with pytest.raises(NotExportableError, match=r"calls a Python function"):
        to_c(SVC(kernel=FeatureKernel(np.sin) * RBF(1.0)).fit(X, TWO))
    with pytest.raises(NotExportableError, match=r"Precomputed.*has no formula"):
        to_c(SVC(kernel="precomputed").fit(X @ X.T, TWO))
    with pytest.raises(NotExportableError, match=r"Normalizer has no formula here.*StandardScaler.*skl2onnx"):
        to_javascript(make_pipeline(Normalizer(), SVC()).fit(X, TWO))
    with pytest.raises(NotExportableError, match=r"OneHotEncoder has a formula for categories that are numbers"):
        to_c(make_pipeline(OneHotEncoder(), SVC()).fit(TEXT[THREE][:, None], TWO))
    with pytest.raises(NotExportableError, match=r"SVC has no formula; the classifiers"):
        to_c(svm.SVC().fit(X, TWO))
    with pytest.raises(NotFittedError):
        to_c(SVC())


@pytest.mark.parametrize("name", ["", "1st", "a-b", "double", "with space", "é", "Math", "undefined"])
def test_names_are_identifiers(name):
    for write in (to_c, to_javascript):
        with pytest.raises(ValueError, match="identifier"):
            write(fitted("svr"), name=name)


def test_labels_without_an_exact_type_are_refused():
    large = SVC().fit(X, np.array([0, 2**60])[TWO])
    assert "1152921504606846976LL" in to_c(large)
    with pytest.raises(NotExportableError, match="53 bits"):
        to_javascript(large)
    with pytest.raises(NotExportableError, match="half a character"):
        to_c(SVC().fit(X, np.array(["a", "\ud800"], dtype=object)[TWO]))
    with pytest.raises(NotExportableError, match="zero byte"):
        to_c(SVC().fit(X, np.array(["a", "b\0c"], dtype=object)[TWO]))


def test_comments_do_not_end_early():
    table = pd.DataFrame(X, columns=["a */ b", "??/", "é\nx", "d"])
    for source in (to_c(SVC().fit(table, TWO)), to_javascript(SVC().fit(table, TWO))):
        comment, _, code = source.partition("*/")
        assert "x[0] is a * / b" in comment
        assert "*/" not in code
        assert source.isascii()
