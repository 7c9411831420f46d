"""Tables to measure on: scikit-learn's bundled ones, generated ones, and real ones from the folder in MERCER_DATA.

Every table is float32 (or CSR of float32), rounded once, here: contenders that compute in float64 are given the same
numbers in float64, so that all of them solve the same problem.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn import datasets as bundled
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Rows and their classes.

    Attributes
    ----------
    X : ndarray of float32 or csr_matrix of float32, of shape (n, p)
    y : ndarray of shape (n,)
        Classes 0 .. k-1, int64; or targets of mean 0 and deviation 1, float64.
    X_new : as X
        Rows to predict; no rows where there is nothing to predict.
    """

    X: Any
    y: npt.NDArray[Any]
    X_new: Any

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 where there are targets."""
        return 0 if self.y.dtype == np.float64 else int(self.y.max()) + 1


@dataclass(frozen=True)
class Source:
    """Where a table comes from: `make(n)` returns X and labels, with at most n rows where n is given.

    `files` names what must be in the data folder. Tables with `scaled=False`, which come scaled, are taken as they
    are; the others are standardised, column by column, on the rows that were chosen. With `targets`, what make(n)
    returns beside X are no classes.
    """

    make: Callable[[int | None], tuple[Any, Any]]
    files: tuple[str, ...] = ()
    scaled: bool = True
    targets: bool = False

    @property
    def is_available(self) -> bool:
        folder = data_folder()
        return not self.files or (folder is not None and all((folder / name).exists() for name in self.files))


def data_folder() -> Path | None:
    """Return the folder in MERCER_DATA; None where the variable is not set.

    Raises
    ------
    SystemExit
        If it is set and there is no such folder.
    """
    name = os.environ.get("MERCER_DATA")
    if not name:
        return None
    if not Path(name).is_dir():
        raise SystemExit(f"MERCER_DATA must name a folder with data sets, but there is no folder {name!r}.")
    return Path(name)


def load(name: str, n: int | None = None, n_new: int = 0) -> Table:
    """Return n rows (all by default) of a table, and n_new further ones."""
    source = SOURCES[name]
    X, labels = source.make(None if n is None else n + n_new)
    wanted = X.shape[0] if n is None else min(X.shape[0], n + n_new)
    if wanted < X.shape[0]:
        chosen = np.random.default_rng(0).permutation(X.shape[0])[:wanted]
        X, labels = X[chosen], labels[chosen]
    if source.scaled:
        X = standardised(X)
    X = sp.csr_matrix(X, dtype=np.float32) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float32)
    if source.targets:
        y = standardised(labels)
        return Table(X[: wanted - n_new], y[: wanted - n_new], X[wanted - n_new :])
    classes, y = np.unique(labels, return_inverse=True)
    assert classes.size > 1, f"{name} has one class only"
    return Table(X[: wanted - n_new], y.astype(np.int64)[: wanted - n_new], X[wanted - n_new :])


def standardised(X: Any) -> FloatArray:
    values = np.asarray(X, dtype=np.float64)
    deviation = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)


# --- Generated tables. Their names end in -like where they imitate the shape of a real one.


def _overlapping(p: int, n: int | None) -> tuple[Any, Any]:
    """Gaussian clusters that overlap: about two thirds of the rows become support vectors."""
    return bundled.make_classification(
        n or 10_000,
        p,
        n_informative=max(2, p // 2),
        n_redundant=p // 4,
        n_clusters_per_class=6,
        class_sep=0.6,
        flip_y=0.1,
        random_state=0,
    )


def _noise(p: int, n: int | None) -> tuple[Any, Any]:
    """Labels that have nothing to do with the rows, so that every row becomes a support vector."""
    rng = np.random.default_rng(1)
    rows = n or 10_000
    return rng.standard_normal((rows, p)), rng.integers(0, 2, rows)


def _magic_like(n: int | None) -> tuple[Any, Any]:
    """Ten skewed, correlated measurements of two kinds of event, a third of them of the rarer kind."""
    rng = np.random.default_rng(2)
    rows = n or 19_020
    y = (rng.random(rows) < 0.35).astype(np.int64)
    latent = rng.standard_normal((rows, 10)) @ rng.standard_normal((10, 10)) / np.sqrt(10.0)
    latent[:, :4] += 0.6 * y[:, None]
    latent[:, 4] *= 1.0 + 1.5 * y
    return np.hstack([np.exp(0.6 * latent[:, :5]), latent[:, 5:]]), y


def _susy_like(n: int | None) -> tuple[Any, Any]:
    """Eight momenta and angles and ten quantities derived from them, for signal and background."""
    rng = np.random.default_rng(3)
    rows = n or 30_000
    y = rng.integers(0, 2, rows)
    momenta = rng.exponential(1.0 + 0.7 * y[:, None], (rows, 4))
    angles = rng.uniform(-np.pi, np.pi, (rows, 4))
    transverse = momenta * np.cos(angles)
    derived = [
        transverse,
        momenta * np.sin(angles),
        transverse.sum(axis=1, keepdims=True),
        momenta.max(axis=1)[:, None],
    ]
    return np.hstack([momenta, angles, *derived]), y


def _strokes(n: int | None) -> tuple[Any, Any]:
    """784 pixels in [0, 1], mostly 0, that vary in twenty directions: handwriting-like, one class against nine."""
    rng = np.random.default_rng(4)
    rows = n or 10_000
    kind = rng.integers(0, 10, rows)
    latent = 1.2 * rng.standard_normal((10, 20))[kind] + rng.standard_normal((rows, 20))
    image = np.tanh(latent @ rng.standard_normal((20, 784)) / np.sqrt(20.0) - 0.8)
    return np.clip(image, 0.0, 1.0), (kind == 8).astype(np.int64)


def _topics(n: int | None) -> tuple[Any, Any]:
    """Tf-idf of documents of some 80 words, drawn from two mixtures over a vocabulary with Zipf's law."""
    rng = np.random.default_rng(5)
    rows, words = n or 6_000, 20_000
    y = rng.integers(0, 2, rows)
    usual = 1.0 / np.arange(1.0, words + 1.0)
    preference = np.exp(0.7 * rng.standard_normal((2, words)))
    counts = sp.lil_matrix((rows, words))
    for kind in (0, 1):
        odds = usual * preference[kind]
        for row in np.flatnonzero(y == kind):
            word, times = np.unique(rng.choice(words, rng.poisson(80) + 5, p=odds / odds.sum()), return_counts=True)
            counts[row, word] = times
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts.tocsr()), y


# --- Real tables.


def _bundled(loader: Callable[..., tuple[Any, Any]], positive: int | None, n: int | None) -> tuple[Any, Any]:
    del n
    X, y = loader(return_X_y=True)
    return X, y if positive is None else (y == positive).astype(np.int64)


def _archive(name: str, positive: int | None, divisor: float, n: int | None) -> tuple[Any, Any]:
    """The training rows of a NumPy archive; with `positive`, that class against the rest."""
    del n
    folder = data_folder()
    assert folder is not None
    with np.load(folder / f"{name}.npz") as archive:
        if "indptr" in archive:
            X = sp.csr_matrix((archive["data"], archive["indices"], archive["indptr"]), shape=tuple(archive["shape"]))
        else:
            X = archive["X"].astype(np.float32) / np.float32(divisor)
        y = archive["y"]
        if "complete" in archive:
            X, y = X[archive["complete"]], y[archive["complete"]]
    return X, y if positive is None else (y == positive).astype(np.int64)


def _documents(name: str, is_positive: Callable[[dict[str, Any]], bool], n: int | None) -> tuple[Any, Any]:
    """Tf-idf of the training documents of a collection of texts."""
    del n
    folder = data_folder()
    assert folder is not None
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    chosen = [one for one in documents if one["text"].strip() and one.get("split", "train") in ("train", "all")]
    X = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform([one["text"] for one in chosen])
    return X, np.array([is_positive(one) for one in chosen])


def _real(
    name: str, *, positive: int | None = None, divisor: float = 1.0, scaled: bool = True, targets: bool = False
) -> Source:
    return Source(partial(_archive, name, positive, divisor), (f"{name}.npz",), scaled, targets)


def _text(name: str, is_positive: Callable[[dict[str, Any]], Any]) -> Source:
    return Source(partial(_documents, name, is_positive), (f"{name}.jsonl.gz",), scaled=False)


SOURCES: dict[str, Source] = {
    "iris": Source(partial(_bundled, bundled.load_iris, None)),
    "wdbc": Source(partial(_bundled, bundled.load_breast_cancer, None)),
    "digits": Source(partial(_bundled, bundled.load_digits, None)),
    "digits 8": Source(partial(_bundled, bundled.load_digits, 8)),
    "overlapping 20": Source(partial(_overlapping, 20)),
    "overlapping 54": Source(partial(_overlapping, 54)),
    "overlapping 100": Source(partial(_overlapping, 100)),
    "noise 20": Source(partial(_noise, 20)),
    "noise 784": Source(partial(_noise, 784)),
    "magic-like": Source(_magic_like),
    "susy-like": Source(_susy_like),
    "strokes 8": Source(_strokes, scaled=False),
    "topics": Source(_topics, scaled=False),
    "heart": _real("heart_islr"),
    "svmguide1": _real("svmguide1"),
    "electricity": _real("electricity"),
    "cod_rna": _real("cod_rna_scaled"),
    "covtype 5k": _real("covtype_liquid5000", scaled=False),
    "covtype 2": _real("covtype_ramp93k", positive=2, scaled=False),
    "adult": _real("adult"),
    "usps": _real("usps", scaled=False),
    "usps 8": _real("usps", positive=8, scaled=False),
    "mnist": _real("mnist", divisor=255.0, scaled=False),
    "mnist 8": _real("mnist", positive=8, divisor=255.0, scaled=False),
    "ijcnn1": _real("ijcnn1", scaled=False),
    "skin": _real("skin_nonskin"),
    "a9a": _real("a9a", scaled=False),
    "vowel": _real("vowel"),
    "letter": _real("letter"),
    "segment": _real("segment"),
    "casp": _real("casp_protein", targets=True),
    "cadata": _real("cadata", targets=True),
    "sms_spam": _text("sms_spam", lambda one: one["label"] == "spam"),
    "reuters earn": _text("reuters21578", lambda one: "earn" in one["labels"]),
    "reuters acq": _text("reuters21578", lambda one: "acq" in one["labels"]),
    "webkb course": _text("webkb", lambda one: one["label"] == "course"),
    "webkb student": _text("webkb", lambda one: one["label"] == "student"),
    "20 newsgroups": _text("20newsgroups", lambda one: one["label"]),
    "20news comp": _text("20newsgroups", lambda one: one["label"].startswith("comp.")),
}
