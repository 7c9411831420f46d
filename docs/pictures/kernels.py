"""Write docs/concepts/kernels.md and its pictures from the table ``ROWS``, which has a row for each kernel.

Run it when a kernel, its docstring or its row changes: ``python docs/pictures/kernels.py``. A test fails until then.
"""

from __future__ import annotations

import inspect
import io
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_moons

from mercer import SVC, IndefiniteKernelWarning, kernels
from mercer.data import as_data
from mercer.kernels import (
    RBF,
    Bilinear,
    Callable,
    ChiSquared,
    Cosine,
    Dice,
    EditDistance,
    FeatureKernel,
    GappedKmer,
    GeneralizedGaussian,
    Hamming,
    HistogramIntersection,
    Jaccard,
    Kernel,
    Laplacian,
    Linear,
    LocalAlignment,
    Matern,
    Mismatch,
    Polynomial,
    RationalQuadratic,
    SetIntersection,
    Sigmoid,
    Spectrum,
    Subsequence,
    Tanimoto,
    WeightedDegree,
    center,
    exp,
    normalize,
)
from mercer.plot import DecisionRegionDisplay, KernelDisplay, KernelMatrixDisplay, house_style, new_figure

PAGE = Path(__file__).parent.parent / "concepts" / "kernels.md"
PICTURES = Path(__file__).parent / "kernels"

WORDS = ["statistics", "static", "computation", "computing", "commuting", "mutation"]


def periodic(A: Any, B: Any) -> Any:
    """Return a product over columns, each periodic in the difference with period 6."""
    return np.exp(-2.0 * np.sin(np.pi / 6.0 * (A[:, None] - B)) ** 2).prod(axis=-1)


def largest_difference(A: Any, B: Any) -> Any:
    """Return the largest absolute difference of a column, for each pair of rows."""
    return abs(A[:, None] - B).max(axis=-1)


def products(rows: Any) -> Any:
    """Return the columns and, as one more column, the product of the first and the last."""
    return np.column_stack([rows, rows[:, 0] * rows[:, -1]])


class Row(NamedTuple):
    """What the page says about a kernel in addition to its docstring."""

    when: str
    drawn: Sequence[Kernel]
    """Kernels in the picture: the first one in one and two dimensions and as a machine, the others in one dimension."""
    positive: bool = False
    """Whether the kernel refuses negative numbers."""
    pairs: bool = False
    """Whether the kernel needs rows of two columns; in one dimension the second column is then 0."""


ROWS: dict[str, Row] = {
    "Linear": Row(
        "Many columns, such as words or genes, where a plane separates the classes. The first kernel to try and "
        "the fastest; its coefficients can be read.",
        [Linear()],
    ),
    "Polynomial": Row(
        "Products of a few columns matter: interactions, neighbouring pixels. Use degree 2 or 3, with `coef0=1` "
        "so that lower degrees count too. Scale the columns first: k(x, x) grows with the power 2d of the length "
        "of x.",
        [Polynomial(3, 0.5, 1.0), Polynomial(2, 0.5, 1.0), Polynomial(2, 0.5, 0.0)],
    ),
    "RBF": Row(
        "The default if columns have similar scales and nothing else is known. Small gamma: nearly linear. Large "
        'gamma: every row is similar to itself only. Start from `gamma="scale"`, `"median"` or `"sigest"`, and '
        "search from there in factors of 4.",
        [RBF(gamma=1.0), RBF(gamma=4.0), RBF(gamma=0.1)],
    ),
    "Laplacian": Row(
        "As `RBF`, if rows may be far apart in a few columns: the L1 distance is robust to outliers, and the "
        "function may have kinks.",
        [Laplacian(gamma=1.0), Laplacian(gamma=4.0), Laplacian(gamma=0.25)],
    ),
    "Matern": Row(
        "Functions that are rougher than those of the Gaussian: nu says how often they can be differentiated.",
        [Matern(1.0, 1.5), Matern(1.0, 0.5), Matern(1.0, 2.5)],
    ),
    "RationalQuadratic": Row(
        "Patterns of several widths at once; distant rows count more than with a Gaussian.",
        [RationalQuadratic(1.0, 1.0), RationalQuadratic(1.0, 0.2), RationalQuadratic(1.0, 20.0)],
    ),
    "Hamming": Row(
        "Columns of codes that are equal or different: colours, places, amino acids. Multiply it with a kernel of "
        "numbers: `RBF().on(numbers) * Hamming().on(codes)`.",
        [Hamming(gamma=1.0)],
    ),
    "ChiSquared": Row(
        "Histograms and other counts, scaled to sum 1: a difference counts more if both counts are small.",
        [ChiSquared(gamma=1.0), ChiSquared(gamma=4.0)],
        positive=True,
    ),
    "HistogramIntersection": Row(
        "Histograms. It has no parameter.",
        [HistogramIntersection()],
        positive=True,
    ),
    "Tanimoto": Row(
        "Fingerprints: rows of bits or counts, of which the common part counts ([Predict properties of "
        "molecules](../howto/molecules.md)).",
        [Tanimoto()],
        positive=True,
    ),
    "Dice": Row(
        "As `Tanimoto`; values are larger, and sort the neighbours of a row in the same order.",
        [Dice()],
        positive=True,
    ),
    "Cosine": Row(
        "Texts and baskets of different lengths: only the direction of a row counts.",
        [Cosine()],
    ),
    "Bilinear": Row(
        "Columns with known scales and correlations: with the inverse of a covariance matrix it is Mahalanobis' "
        "inner product.",
        [Bilinear([[1.0, 0.5], [0.5, 1.0]])],
        pairs=True,
    ),
    "FeatureKernel": Row(
        "You know the features that matter. In the picture: two columns and their product, for which XOR is linear.",
        [FeatureKernel(products)],
    ),
    "GeneralizedGaussian": Row(
        "You have a distance. In the picture: the largest difference of a column. `diagnose` tests whether the "
        "result is a kernel.",
        [GeneralizedGaussian(largest_difference, gamma=1.0)],
    ),
    "Sigmoid": Row(
        "To compare with older work. It is not a kernel in general ([why](is_it_a_kernel.md)), and where it "
        "works, `RBF` works as well.",
        [Sigmoid(0.5, 0.0), Sigmoid(0.5, -1.0), Sigmoid(2.0, 1.0)],
    ),
    "Sum": Row(
        "Rows are similar if they are similar in one of several respects: effects add. In the picture: a trend "
        "with bumps.",
        [RBF(gamma=4.0) + 0.3 * Linear(), RBF(gamma=4.0) + RBF(gamma=0.1)],
    ),
    "Product": Row(
        "Rows are similar if they are similar in all of several respects. In the picture: a trend that changes "
        "from place to place.",
        [Linear() * RBF(gamma=0.5), Polynomial(2, 1.0, 1.0) * RBF(gamma=0.5)],
    ),
    "Scale": Row(
        "The weight of a term in a sum. For a whole kernel it acts like another C.",
        [0.5 * RBF(gamma=1.0), 2.0 * RBF(gamma=1.0)],
    ),
    "Shift": Row(
        "The weight of lower degrees in (k + c) ** d. Alone it changes nothing in a machine with a bias.",
        [Linear() + 2.0, RBF(gamma=1.0) + 0.5],
    ),
    "Power": Row(
        "All products of d features of a kernel: polynomials of what the kernel compares.",
        [(0.5 * Linear() + 1.0) ** 4, RBF(gamma=1.0) ** 3],
    ),
    "Exp": Row(
        "All powers of a kernel at once, with decreasing weights.",
        [exp(0.5 * Linear()), exp(RBF(gamma=1.0))],
    ),
    "Normalized": Row(
        "Only directions in the kernel's space count: polynomials of rows of different lengths, strings of "
        "different lengths.",
        [normalize(Polynomial(2, 1.0, 1.0)), normalize(Polynomial(6, 1.0, 1.0))],
    ),
    "Centered": Row(
        "To compare kernels, and for machines without a bias.",
        [center(RBF(gamma=1.0)).resolve(as_data([[-2.0, 0.0], [0.0, 1.0], [2.0, 0.0]]))],
        pairs=True,
    ),
    "On": Row(
        "A table of mixed columns: a kernel for each group of columns, added or multiplied.",
        [RBF(gamma=1.0).on([0])],
    ),
    "Callable": Row(
        "You have a similarity, computed a block at a time. In the picture: periodic columns, such as angles and "
        "times of day. `diagnose` tests whether it is a kernel.",
        [Callable(periodic)],
    ),
    "Precomputed": Row(
        "Similarities from elsewhere: measured, or expensive and stored.",
        [],
    ),
    "Spectrum": Row(
        "Strings, if it matters which short words occur in them and not where. The first kernel to try.",
        [Spectrum(3)],
    ),
    "Mismatch": Row(
        "As `Spectrum`, if words mutate: genes, proteins.",
        [Mismatch(3, 1, alphabet="acegimnopstu")],
    ),
    "GappedKmer": Row(
        "Genes: words in which any letters may change, such as the binding sites of a protein.",
        [GappedKmer(4, 2, alphabet="acegimnopstu")],
    ),
    "WeightedDegree": Row(
        "Aligned strings of one length, such as the surroundings of splice sites.",
        [WeightedDegree(3)],
    ),
    "Subsequence": Row(
        "Strings with interrupted words: inflections, insertions, typing errors.",
        [Subsequence(3, decay=0.7)],
    ),
    "LocalAlignment": Row(
        "Proteins, and other strings with related parts between unrelated ones. With `log=True` it is not a kernel.",
        [LocalAlignment((2.0, -1.0), gap_open=2.0, gap_extend=1.0, beta=0.5)],
    ),
    "EditDistance": Row(
        "Strings that are variants of each other, such as names. It is not a kernel on all strings.",
        [EditDistance(gamma=0.2)],
    ),
    "SetIntersection": Row(
        "Sets of similar sizes: baskets, tags. A string counts as the set of its letters.",
        [SetIntersection()],
    ),
    "Jaccard": Row(
        "Sets of different sizes.",
        [Jaccard()],
    ),
}

HEAD = """\
# The kernels

<!-- Written by docs/pictures/kernels.py from the docstrings and the rows there: change those, and run it. -->

After this page you can choose a kernel, set its width and combine kernels.

A kernel says which rows are similar, and so what a machine can learn. Kernels are objects that can be added,
multiplied and raised to powers. A kernel prints as the formula that makes it, and knows whether it is proved to be
a kernel. All kernels except Python functions run natively. All are in `mercer.kernels`; the most common ones are in
`mercer` too.

```python
from sklearn.datasets import load_iris
from mercer import RBF, SVC, Linear, diagnose

X, y = load_iris(return_X_y=True)
kernel = RBF(gamma="median") + 0.1 * Linear()
machine = SVC(kernel=kernel).fit(X, y)
print(machine.kernel_, *machine.kernel_.reasons, sep="\\n")
assert diagnose(machine.kernel_, X).verdict == "proved"
```

| situation | start with |
|---|---|
| a table of numbers | `StandardScaler` and `RBF()`; compare with `Linear()` |
| more columns than rows; sparse text | `Linear()` |
| products of columns are expected to matter | `Polynomial(2, coef0=1)` |
| columns of several kinds | a sum or product of kernels, each restricted to its columns by `.on` |
| histograms, counts | `ChiSquared()`, `HistogramIntersection()` |
| fingerprints: bits or counts | `Tanimoto()` |
| strings | `Spectrum(3)` |
| sets, baskets, tags | `Jaccard()` |
| a similarity of your own | a function of two blocks of rows, and `diagnose` |

## The width of a Gaussian

Give exactly one of `RBF(gamma=)`, `RBF(sigma=)` with gamma = 1/(2 sigma²), and `RBF(width=)` with gamma = 1/width².
A rule estimates gamma from the training rows, once, at `fit`. The fitted kernel then has the number, and `reasons`
says how it was found.

| `gamma=` | value | |
|---|---|---|
| `"scale"` | 1/(p · variance of all entries) | the default, as in scikit-learn; for standardised columns |
| `"auto"` | 1/p | the same as `"scale"` if the variance is 1 |
| `"median"` | 1/(median squared distance of different rows) | k > 1/e for half of the pairs |
| `"sigest"` | mean of 1/q₁₀ and 1/q₉₀ of squared distances | narrower, because it uses close pairs too (kernlab) |

A row of weight k counts as k rows, and a row of weight 0 does not count: exactly, in any order, dense or sparse.
With more than 362 different rows, the last two rules use 65,536 pairs, always the same ones for the same rows. The
rules give starting points for a search.

```python
import numpy as np
from mercer.data import as_data

weights = np.arange(150) % 3
by_weight = RBF(gamma="median").resolve(as_data(X), weights)
copies = np.repeat(X, weights, axis=0)[::-1]
assert by_weight == RBF(gamma="median").resolve(as_data(copies))
print(*by_weight.reasons)
```

## What they look like

Each picture has three parts. Left: k(x, 1) as a function of x on the line. Middle: k(x, z) in the plane for z = (1,
½), the cross, for the first kernel, with positive values in blue and negative values in orange. Right: a machine
with this kernel (C = 10), its boundary, its margins (dashed), its free support vectors (circles) and those at the
bound (squares). For strings and sets the picture is the matrix of six words.
`mercer.plot` draws such pictures for your own kernels and rows: `KernelDisplay`, `DecisionRegionDisplay` and
`KernelMatrixDisplay`.
"""


def public_kernels() -> list[str]:
    """Return the names of the public kernel classes."""
    classes = {name: getattr(kernels, name) for name in kernels.__all__}
    return [n for n, c in classes.items() if inspect.isclass(c) and issubclass(c, Kernel) and not inspect.isabstract(c)]


def page() -> str:
    """Return the page, made from ``ROWS`` and the docstrings of the kernels."""
    return "\n".join([HEAD, *(_section(name, row) for name, row in ROWS.items())])


def _section(name: str, row: Row) -> str:
    kernel = getattr(kernels, name)
    first_line = inspect.getdoc(kernel).splitlines()[0].replace("``", "`")
    shown = ", ".join(f"`{one!r}`" for one in row.drawn)
    picture = f"![k(x, z)](../pictures/kernels/{name}.png)\n\n{shown}\n\n" if row.drawn else ""
    proved = bool(row.drawn) and bool(row.drawn[0].is_psd)
    definiteness = (
        f"Proved to be a kernel: {kernel.rule}." if proved else 'Whether it is a kernel: "unknown", ask `diagnose`.'
    )
    return f"## {name}\n\n{first_line}\n\n{picture}**When.** {row.when}\n\n{definiteness}\n"


def description(row: Row) -> str:
    """Return the kernels in a picture as text. The picture file stores it, so that a test finds outdated pictures."""
    return "; ".join(map(repr, row.drawn))


def draw() -> None:
    """Draw the picture of every row that has kernels to draw."""
    import matplotlib as mpl

    PICTURES.mkdir(exist_ok=True)
    with house_style(), mpl.rc_context({"savefig.facecolor": "white", "font.size": 8.0, "axes.titlesize": 8.0}):
        for name, row in ROWS.items():
            if row.drawn:
                first = row.drawn[0]
                figure = _matrix(first) if first.is_structured else _plane(row)
                save(figure, PICTURES / f"{name}.png", description(row))


def save(figure: Any, path: Path, what: str) -> None:
    """Write a figure as a small PNG of at most 128 colours, with its description in the file."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    note = PngInfo()
    note.add_itxt("Description", what)
    Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True, pnginfo=note)


def _matrix(kernel: Kernel) -> Any:
    return KernelMatrixDisplay.from_kernel(kernel, WORDS, names=WORDS).figure_


def _plane(row: Row) -> Any:
    figure, (line, plane, machine) = new_figure(8.0, 2.5, 1, 3)
    low = 0.0 if row.positive else -3.0
    KernelDisplay.from_kernels(row.drawn, low=low, of_pairs=row.pairs, ax=[line, plane])
    _machine(machine, row.drawn[0], 3.0 if row.positive else 0.0)
    return figure


def _machine(axes: Any, kernel: Kernel, moved: float) -> None:
    X, y = make_moons(60, noise=0.2, random_state=3)
    X = np.clip((X - X.mean(axis=0)) / X.std(axis=0), -2.3, 2.3) + moved
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndefiniteKernelWarning)
        fitted = SVC(C=10.0, kernel=kernel).fit(X, y)
    DecisionRegionDisplay.from_estimator(fitted, X, y, ax=axes, legend=False)
    axes.set(title=f"{fitted.support_.size} of 60 rows\nare support vectors", aspect="equal")


if __name__ == "__main__":
    missing = [name for name in public_kernels() if name not in ROWS]
    if missing:
        sys.exit(f"docs/pictures/kernels.py has no row for {', '.join(missing)}")
    draw()
    PAGE.write_text(page())
