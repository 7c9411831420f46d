"""LIBSVM's files: data and models are read and written, and invalid files are refused."""

import bz2
import gzip
import importlib.util
import json
import pickle
import random
import re
import warnings
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC as Theirs  # noqa: N811

from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    IndefiniteKernelWarning,
    KernelRidge,
    LibsvmFileError,
    Linear,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    QuantileSVR,
    load_libsvm_data,
    load_libsvm_model,
    save_libsvm_data,
    save_libsvm_model,
)
from mercer.studies.files import libsvm_data
from mercer.studies.files.libsvm_data import line_fault, parse_lines
from mercer.studies.models import as_model
from mercer.studies.models.libsvm_text import read_model
from pairs import every_pair

FOLDER = Path(__file__).parent / "libsvm_models"
"""Models that svm-train 3.37 wrote, and what LIBSVM predicts with them for every third row of the iris from 1 on."""

PREDICTIONS = json.loads((FOLDER / "predictions.json").read_text())


def iris():
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(axis=0)).round(3), y


def written(folder, data, name="f.svm"):
    path = folder / name
    path.write_bytes(data)
    return path


# Data


TABLES = {
    "numbers": np.array([[0.1, 0.0, -2.5], [0.0, 0.0, 0.0], [1e-300, 1 / 3, 0.0]]),
    "float32": np.array([[0.1, 7.0]], dtype=np.float32),
    "integers": np.array([[1, 0], [0, 123456789]]),
    "digits": load_digits().data[:40],
}
STORED = {
    "dense": lambda X: X,
    "csr_matrix": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "64-bit indices": lambda X: (
        lambda A: sparse.csr_array((A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64)), A.shape)
    )(sparse.csr_array(X)),
    "csc_array": sparse.csc_array,
}


@every_pair(stored=STORED, zero_based=[False, True], table=TABLES)
def test_data_are_read_back_exactly(tmp_path, table, stored, zero_based):
    X, y = TABLES[table], np.linspace(-1, 1, len(TABLES[table])) / 3
    save_libsvm_data(STORED[stored](X), y, tmp_path / "f.svm", zero_based=zero_based)
    rows, target = load_libsvm_data(tmp_path / "f.svm", n_features=X.shape[1], zero_based=zero_based)
    np.testing.assert_array_equal(rows.toarray(), X)
    np.testing.assert_array_equal(target, y)
    assert rows.format == "csr"


def test_data_are_written_in_libsvms_format(tmp_path):
    save_libsvm_data([[0.5, 0.0, 2.0], [0.0, 0.0, 0.0]], [1, -1], tmp_path / "f.svm")
    assert (tmp_path / "f.svm").read_text() == "1 1:0.5 3:2\n-1\n"
    save_libsvm_data([[0.5, 0.0], [0.0, 1.0]], [0.25, 1e22], tmp_path / "f.svm", precomputed=True)
    assert (tmp_path / "f.svm").read_text() == "0.25 0:1 1:0.5 2:0\n1e+22 0:2 1:0 2:1\n"


def test_kernel_values_train_and_predict_from_files(tmp_path):
    X, y = iris()
    K = X @ X.T
    save_libsvm_data(sparse.csr_array(K), y, tmp_path / "fit.svm", precomputed=True)
    save_libsvm_data(K[:7], y[:7], tmp_path / "new.svm", precomputed=True)
    rows, target = load_libsvm_data(tmp_path / "fit.svm", precomputed=True)
    np.testing.assert_array_equal(rows, K)
    machine = SVC(kernel="precomputed").fit(rows, target)
    new, _ = load_libsvm_data(tmp_path / "new.svm", precomputed=True)
    np.testing.assert_array_equal(machine.predict(new), SVC(kernel="precomputed").fit(K, y).predict(K[:7]))


@pytest.mark.parametrize("ending", [".svm", ".svm.gz", ".svm.bz2"])
def test_comments_empty_lines_and_rows_of_zeros(tmp_path, ending):
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(ending[4:], bytes)
    data = b"# made by hand_1\n+1 1:2 3:4 # first\r\n\n-1\n2.5 qid:3 2:1\n"
    X, y = load_libsvm_data(written(tmp_path, pack(data), "f" + ending))
    np.testing.assert_array_equal(X.toarray(), [[2, 0, 4], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(y, [1.0, -1.0, 2.5])


BAD_DATA = {
    "empty": (b"# nothing\n", {}, "holds no rows"),
    "label": (b"1 1:1\nx 1:1\n", {}, "line 2: the target 'x' is no number"),
    "NaN label": (b"1 1:1\n\nnan 1:1\n", {}, "line 3: the target is NaN or infinite"),
    "no colon": (b"1 1:1\n1 2\n", {}, "line 2: '2' is no number:value"),
    "two colons": (b"1 1:1:1\n", {}, "line 1: '1:1:1' is no number:value"),
    "underscore": (b"1 1_0:1\n", {}, "line 1: '1_0:1' is no number:value"),
    "long": (b"1 " + b"9" * 5000 + b":1\n", {}, "is no number:value"),
    "control": (b"1 \x1b[2J:1\n", {}, r"'\x1b[2J:1' is no number:value"),
    "NaN": (b"# c\n1 1:1 2:nan\n", {}, "line 2: a value is NaN or infinite"),
    "overflow": (b"1 1:1e999\n", {}, "line 1: a value is NaN or infinite"),
    "zero": (b"1 0:1\n", {}, "line 1: feature number '0' is below 1 (a file that counts from 0 takes zero_based=True)"),
    "negative": (b"1 -1:1\n", {"zero_based": True}, "line 1: feature number '-1' is below 0"),
    "falling": (b"1 3:1 2:1\n", {}, "line 1: feature number '2' follows 3, but numbers must rise"),
    "twice": (b"1 3:1 3:1\n", {}, "line 1: feature number '3' follows 3"),
    "32 bits": (b"1 2147483648:1\n", {}, "feature number '2147483648' is larger than 2147483647"),
    "n_features": (b"1 1:1\n\n1 5:1\n", {"n_features": 3}, "line 3: there is a feature beyond number 3, the last one"),
    "serial": (b"1 1:1 2:2\n", {"precomputed": True}, "line 1: it must hold 0:serial and 2 kernel values"),
    "gap": (b"1 0:1 1:1 2:1\n1 0:2 2:1\n", {"precomputed": True}, "line 2: it must hold 0:serial and 2 kernel values"),
    "order": (b"1 0:2 1:1 2:1\n1 0:1 1:1 2:1\n", {"precomputed": True}, "line 1: serial numbers of a square matrix"),
    "no values": (b"1 0:1\n", {"precomputed": True}, "holds no kernel values"),
    "targets alone": (b"1\n", {"precomputed": True}, "holds no kernel values"),
    "others": (b"1 0:1 2:1 3:1\n", {"precomputed": True, "n_features": 2}, "numbers other than 1 to 2"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_are_one_clear_line(tmp_path, case):
    data, options, message = BAD_DATA[case]
    with pytest.raises(LibsvmFileError, match=re.escape(message)) as caught:
        load_libsvm_data(written(tmp_path, data), **options)
    assert str(tmp_path / "f.svm") in str(caught.value)
    assert "\n" not in str(caught.value)


NUMBERS = [
    *(
        "nan",
        "-inf",
        "Infinity",
        "+1",
        ".5",
        "5.",
        "1e999",
        "1e-999",
        "-0",
        "00012",
        "1e22",
        "1e-23",
        "4.9e-324",
        "1e+3",
    ),
    *("9007199254740993", "123456789012345678901234567890", "1." + "0" * 120 + "1", "0." + "0" * 30 + "1", "0.1E1"),
    *("", ".", "1e", "nan(1)", "0x10", "1_0", "+-1", "1e--5", "\xff"),
]


def lines_in_python(text, first):
    """The rows before the first line that is not of the form, and the first byte of that line or -1."""
    rows, at = [], 0
    for line in text.split(b"\n"):
        cells = line.partition(b"#")[0].split()
        features = [cell.partition(b":") for cell in cells[1:] if not cell.startswith(b"qid:")]
        if line_fault(line, first) or not all(number.isdigit() for number, _, _ in features):
            return rows, at
        if cells:
            rows.append((float(cells[0]), [(int(number) - first, float(value)) for number, _, value in features]))
        at += len(line) + 1
    return rows, -1


def test_native_lines_are_those_of_python():
    rng = random.Random(0)
    n_valid = 0
    for turn in range(1500):
        first, number = turn % 2, turn % 2 - 1
        numbers = [
            repr(rng.uniform(-10, 10)),
            f"{rng.gauss(0, 1):.3g}",
            f"{rng.random() * 10.0 ** rng.randint(-99, 99):e}",
        ]
        words = [rng.choice(numbers) if rng.random() < 0.8 else rng.choice(NUMBERS)]
        for _ in range(rng.randrange(5)):
            number += rng.choice([1, 2, 1000]) if rng.random() < 0.97 else 0
            words.append(f"{number}:{rng.choice(numbers) if rng.random() < 0.8 else rng.choice(NUMBERS)}")
        line = rng.choice([" ", "  ", "\t"]).join(words).encode("latin-1") + rng.choice(
            [b"", b"\r", b" qid:3", b"#c 1:2"]
        )
        text = b"1 2:3\n# c\n\n" + (line if turn % 4 else rng.randbytes(rng.randrange(30))) + b"\n0"
        parsed, (rows, fault) = parse_lines(text, first), lines_in_python(text, first)
        assert parsed.fault == fault, text
        values = np.array([value for _, entries in rows for _, value in entries])
        np.testing.assert_array_equal(parsed.targets, [target for target, _ in rows])
        np.testing.assert_array_equal(parsed.matrix.data[: values.size].astype(np.float64), values)
        np.testing.assert_array_equal(np.signbit(parsed.matrix.data[: values.size]), np.signbit(values))
        assert parsed.matrix.indices[: values.size].tolist() == [column for _, entries in rows for column, _ in entries]
        n_valid += fault < 0
    assert 250 < n_valid < 1250


def test_lines_that_are_longer_than_a_piece_are_read(tmp_path, monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(20, 30)), np.arange(20.0)
    save_libsvm_data(X, y, tmp_path / "f.svm")
    monkeypatch.setattr(libsvm_data, "_CHUNK_BYTES", 100)
    rows, target = load_libsvm_data(tmp_path / "f.svm")
    np.testing.assert_array_equal(rows.toarray(), X)
    np.testing.assert_array_equal(target, y)
    with open(tmp_path / "f.svm", "ab") as file:
        file.write(b"1 2:x")
    with pytest.raises(LibsvmFileError, match=r"line 21: '2:x' is no number:value"):
        load_libsvm_data(tmp_path / "f.svm")


def test_a_cut_archive(tmp_path):
    with pytest.raises(LibsvmFileError, match="cannot be read: Compressed file ended"):
        load_libsvm_data(written(tmp_path, gzip.compress(b"1 1:1\n" * 100)[:-9], "f.svm.gz"))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0, np.nan]], [1], "X must be finite, but 1 of the entries is NaN or infinity"),
        ([[1.0]], [np.inf], "y must hold finite numbers, got inf in row 0"),
        ([[1.0]], ["a"], "y must hold one number a row"),
        ([[1.0]], [1, 2], "y must hold one number for each of the 1 rows of X, got 2"),
        (
            sparse.csr_array(([1.0], ([0], [2**31]))),
            [1],
            "a feature of number 2147483649, and 2147483647 is the largest",
        ),
    ],
)
def test_data_that_cannot_be_written_leave_no_file(tmp_path, X, y, message):
    with pytest.raises(ValueError, match=message):
        save_libsvm_data(X, y, tmp_path / "f.svm")
    assert not list(tmp_path.iterdir())


# Models


X, Y = iris()
K = X @ X.T
TWO = Y < 2
DIGITS = load_digits()
FITTED = {
    "two classes": lambda: (SVC(C=10.0).fit(X[TWO], Y[TWO]), X),
    "labels -1 and 1": lambda: (SVC(kernel="poly", coef0=1.0).fit(X[TWO], 2 * Y[TWO] - 1), X),
    "float labels": lambda: (SVC(kernel="sigmoid", gamma=0.01).fit(X[TWO], 5.0 - Y[TWO]), X),
    "hard margin": lambda: (SVC(C=np.inf, kernel="linear").fit(X[TWO], Y[TWO]), X),
    "squared hinge without bias": lambda: (SVC(loss="squared_hinge", fit_intercept=False).fit(X, Y), X),
    "three classes": lambda: (SVC().fit(X, Y), X),
    "ten classes, sparse": lambda: (
        SVC(kernel="poly", degree=2).fit(sparse.csr_array(DIGITS.data[:300]), DIGITS.target[:300]),
        DIGITS.data[300:600],
    ),
    "two classes against the rest": lambda: (SVC(multi_class="ovr").fit(X[TWO], Y[TWO]), X),
    "nu-SVC": lambda: (NuSVC(nu=0.2).fit(X, Y), X),
    "SVR": lambda: (SVR().fit(X[:, :3], X[:, 3]), X[:, :3]),
    "float32": lambda: (SVR().fit(X[:, :3].astype(np.float32), X[:, 3]), X[:, :3]),
    "NuSVR": lambda: (NuSVR(kernel="linear").fit(X[:, :3], X[:, 3]), X[:, :3]),
    "quantile": lambda: (QuantileSVR(quantile=0.9).fit(X[:, :3], X[:, 3]), X[:, :3]),
    "one class": lambda: (OneClassSVM(nu=0.2).fit(X), X),
    "one class, with contamination": lambda: (OneClassSVM(contamination=0.1).fit(X), X),
    "kernel values": lambda: (SVC(kernel="precomputed").fit(K, Y), K[::2]),
    "kernel values, two classes": lambda: (NuSVC(kernel="precomputed", nu=0.2).fit(K[:100, :100], Y[:100]), K[:, :100]),
    "kernel values, SVR": lambda: (SVR(kernel="precomputed").fit(K, Y), K),
}
"""A machine of each kind and kernel, and the rows to predict."""


@cache
def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndefiniteKernelWarning)  # the sigmoid is indefinite
        return FITTED[name]()


@pytest.mark.parametrize("name", FITTED)
def test_a_model_is_read_back_exactly(tmp_path, name):
    machine, rows = fitted(name)
    save_libsvm_model(tmp_path / "f.model", machine)
    loaded = load_libsvm_model(tmp_path / "f.model", n_features=rows.shape[1])
    assert type(loaded) is (SVR if isinstance(machine, QuantileSVR) else type(machine))
    for attribute in ("dual_coef_", "intercept_", "n_support_", "classes_", "offset_", "n_features_in_"):
        assert hasattr(loaded, attribute) == hasattr(machine, attribute)
        if hasattr(machine, attribute):
            ours, theirs = (getattr(one, attribute) for one in (loaded, machine))
            assert sparse.issparse(ours) == sparse.issparse(theirs)
            np.testing.assert_array_equal(*(one.toarray() if sparse.issparse(one) else one for one in (ours, theirs)))
    assert loaded.kernel_ == machine.kernel_
    np.testing.assert_array_equal(loaded.predict(rows), machine.predict(rows))
    if hasattr(machine, "decision_function"):
        np.testing.assert_allclose(
            loaded.decision_function(rows), machine.decision_function(rows), rtol=1e-12, atol=1e-12
        )
    save_libsvm_model(tmp_path / "again.model", loaded)
    assert (tmp_path / "again.model").read_bytes() == (tmp_path / "f.model").read_bytes()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded)).predict(rows), machine.predict(rows))


def by_the_book(path, X):
    """LIBSVM's rule `svm_predict_values`: decision values of pairs, and predicted labels or values."""
    libsvm_model = read_model(path, n_features=X.shape[1], zero_based=False)
    if isinstance(libsvm_model.support, np.ndarray):
        K = X[:, libsvm_model.support]
    else:
        S = libsvm_model.support.float64()
        S = S.toarray() if sparse.issparse(S) else S
        products = X @ S.T
        squared = (X**2).sum(axis=1)[:, None] + (S**2).sum(axis=1) - 2 * products
        k = libsvm_model.kernel
        K = {
            "Linear": lambda: products,
            "Polynomial": lambda: (k.gamma * products + k.coef0) ** k.degree,
            "RBF": lambda: np.exp(-k.gamma * squared),
            "Sigmoid": lambda: np.tanh(k.gamma * products + k.coef0),
        }[type(k).__name__]()
    if not libsvm_model.labels.size:
        values = K @ libsvm_model.coefficients[:, 0] - libsvm_model.rho[0]
        return values, np.where(values > 0, 1, -1) if libsvm_model.kind == "one_class" else values
    starts = np.cumsum([0, *libsvm_model.n_support])
    columns, votes = [], np.zeros((len(X), libsvm_model.labels.size), dtype=int)
    for column, (p, q) in enumerate(combinations(range(libsvm_model.labels.size), 2)):
        first_rows, other = slice(starts[p], starts[p + 1]), slice(starts[q], starts[q + 1])
        value = (
            K[:, first_rows] @ libsvm_model.coefficients[first_rows, q - 1]
            + K[:, other] @ libsvm_model.coefficients[other, p]
            - libsvm_model.rho[column]
        )
        columns.append(value)
        votes[value > 0, p] += 1
        votes[value <= 0, q] += 1
    return np.column_stack(columns), np.where(
        (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1, -999, libsvm_model.labels[votes.argmax(axis=1)]
    )


@pytest.mark.parametrize("name", FITTED)
def test_libsvms_rule_gives_our_predictions_from_our_file(tmp_path, name):
    machine, rows = fitted(name)
    save_libsvm_model(tmp_path / "f.model", machine)
    values, predicted = by_the_book(tmp_path / "f.model", rows)
    ours = machine.predict(rows)
    if isinstance(machine, OneClassSVM):  # rounding decides at the boundary
        inner = np.abs(values) > 1e-12
        assert inner.mean() > 0.9
        np.testing.assert_array_equal(predicted[inner], ours[inner])
    elif hasattr(machine, "classes_"):
        untied = predicted != -999
        assert untied.mean() > 0.9
        np.testing.assert_array_equal(predicted[untied], ours[untied])
    else:
        np.testing.assert_allclose(predicted, ours, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(),
        LinearSVC(penalty="l1", C=0.1),
        LinearSVC(multi_class="crammer_singer", fit_intercept=False),
        LogisticRegression(),
        LinearSVR(),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_machines_predict_alike_by_libsvms_rule(tmp_path, machine, n_classes):
    used = n_classes > Y
    machine.fit(X[used], Y[used])
    if isinstance(machine, LinearSVC) and machine.penalty == "l1":
        machine.sparsify()
    save_libsvm_model(tmp_path / "f.model", machine)
    _, predicted = by_the_book(tmp_path / "f.model", X)
    np.testing.assert_allclose(predicted, machine.predict(X), rtol=1e-9, atol=1e-9)
    read = load_libsvm_model(tmp_path / "f.model", n_features=4)
    np.testing.assert_allclose(read.predict(X), machine.predict(X), rtol=1e-9, atol=1e-9)
    if n_classes == 2 and hasattr(machine, "decision_function"):
        np.testing.assert_allclose(read.decision_function(X), machine.decision_function(X), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:the probability estimates")
@pytest.mark.parametrize("name", PREDICTIONS)
def test_models_of_svm_train_predict_the_same_here(name):
    X, _ = iris()
    train, new = X[::5], X[1::3]
    rows = (new @ train.T).round(3) if name == "kernel_values" else new[:, :3] if "svr" in name else new
    machine = load_libsvm_model(FOLDER / f"{name}.model", n_features=rows.shape[1])
    expected, values = np.array(PREDICTIONS[name]["predicted"]), np.array(PREDICTIONS[name]["values"])
    if "svr" in name:
        np.testing.assert_allclose(machine.predict(rows), expected, rtol=1e-12, atol=1e-12)
        return
    np.testing.assert_array_equal(machine.predict(rows), expected)
    assert len(set(expected)) > 1
    if hasattr(machine, "classes_"):
        assert machine.classes_.tolist() == sorted(machine.classes_)
        machine.decision_function_shape = "ovo"
    decision = machine.decision_function(rows).reshape(len(rows), -1)
    if (
        decision.shape[1] == 3
    ):  # labels 3, 1, 2 in the file: pairs (3, 1), (3, 2), (1, 2) there, (1, 2), (1, 3), (2, 3) here
        values = values[:, [2, 0, 1]] * [1, -1, -1]
    elif hasattr(
        machine, "classes_"
    ):  # labels in the order that they first appear in; ours are positive for the second
        first = int((FOLDER / f"{name}.model").read_text().split("label ")[1].split()[0])
        values = values if first == machine.classes_[1] else -values
    np.testing.assert_allclose(decision, values, rtol=1e-12, atol=1e-12)


def test_scikit_learns_libsvm_agrees(tmp_path):
    """A machine of scikit-learn's LIBSVM, written to a file by hand, gives the same predictions here."""
    X, y = load_digits(return_X_y=True)
    theirs = Theirs(gamma=1e-3, break_ties=True).fit(X[:500], y[:500])
    ours = load_libsvm_model(_written_by_hand(tmp_path / "f.model", theirs), n_features=64)
    np.testing.assert_array_equal(ours.dual_coef_, theirs.dual_coef_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def _written_by_hand(path, theirs):
    def row(values):
        return " ".join(f"{value:.17g}" for value in values)

    vectors = (" ".join(f"{j + 1}:{v:.17g}" for j, v in enumerate(x) if v) for x in theirs.support_vectors_)
    k = len(theirs.classes_)
    path.write_text(
        f"svm_type c_svc\nkernel_type rbf\ngamma {theirs.gamma:.17g}\nnr_class {k}\ntotal_sv {len(theirs.support_)}\n"
        f"rho {row(-theirs.intercept_)}\nlabel {row(theirs.classes_)}\nnr_sv {row(theirs.n_support_)}\nSV\n"
        + "".join(f"{row(c)} {v}\n" for c, v in zip(theirs.dual_coef_.T, vectors, strict=True))
    )
    return path


def test_a_machine_that_was_read_has_no_certificate(tmp_path):
    X, y = iris()
    save_libsvm_model(tmp_path / "f.model", SVC(kernel="linear").fit(X, y))
    machine = load_libsvm_model(tmp_path / "f.model")
    for attribute in ("certificate_", "solution_"):
        with pytest.raises(AttributeError, match="not trained here: it was read from a file"):
            getattr(machine, attribute)
    for attribute in ("support_", "machines_", "fit_status_", "n_iter_", "C_"):
        assert not hasattr(machine, attribute)
    with pytest.raises(ValueError, match="a model remembers its training rows and certificate"):
        as_model(machine, X, y)
    assert machine.coef_.shape == (3, 4)
    np.testing.assert_allclose(
        np.column_stack([f(X) for f in machine.function_]) + machine.intercept_,
        SVC(kernel="linear", decision_function_shape="ovo").fit(X, y).decision_function(X),
    )
    assert machine.fit(X, y).certificate_.status == "optimal"
    kernel_values = load_libsvm_model(FOLDER / "kernel_values.model")
    with pytest.raises(AttributeError, match="not trained here: it was read from a file"):
        _ = kernel_values.function_


def test_probability_estimates_are_dropped_with_a_message():
    with pytest.warns(UserWarning, match=r"the probability estimates of .* \(probA, probB\) are left behind"):
        load_libsvm_model(FOLDER / "classes_with_probabilities.model")


def test_features_that_no_support_vector_has(tmp_path):
    X = np.hstack([iris()[0], np.zeros((150, 2))])
    save_libsvm_model(tmp_path / "f.model", SVR().fit(X, X[:, 0]))
    assert load_libsvm_model(tmp_path / "f.model").n_features_in_ == 4
    assert load_libsvm_model(tmp_path / "f.model", n_features=6).predict(X).shape == (150,)
    with pytest.raises(LibsvmFileError, match="has a feature of number 4, beyond n_features=3"):
        load_libsvm_model(tmp_path / "f.model", n_features=3)


def test_a_machine_of_a_file_that_counts_from_0(tmp_path):
    text = (FOLDER / "nu_svr.model").read_text()
    counted = re.sub(r"(\d+):", lambda match: f"{int(match[1]) - 1}:", text)
    path = written(tmp_path, counted.encode())
    with pytest.raises(LibsvmFileError, match=r"a file that counts from 0 takes zero_based=True"):
        load_libsvm_model(path)
    X = iris()[0][:, :3]
    np.testing.assert_array_equal(
        load_libsvm_model(path, zero_based=True).predict(X), load_libsvm_model(FOLDER / "nu_svr.model").predict(X)
    )


def unwritable():
    X, y = iris()
    two = y < 2
    names = np.array(["a", "b", "c"])[y]
    return [
        (SVC(), NotFittedError, "not fitted"),
        (SVC(multi_class="ovr").fit(X, y), ValueError, "was fitted with multi_class='ovr': fit with multi_class='ovo'"),
        (SVC().fit(X, names), ValueError, r"labels are integers of 32 bits, and the classes are \['a', 'b', 'c'\]"),
        (SVC().fit(X[two], y[two] == 1), ValueError, "labels are integers of 32 bits, and the classes are .False"),
        (SVC().fit(X[two], y[two] * 2**31), ValueError, "labels are integers of 32 bits"),
        (SVC(kernel=RBF(0.5) + Linear()).fit(X, y), ValueError, "knows the kernels linear, polynomial, rbf, sigmoid"),
        (SVC(kernel=lambda A, B: A @ B.T).fit(X, y), ValueError, "knows the kernels"),
        (KernelRidge().fit(X, y), TypeError, "machine must be one that LIBSVM has .*, got KernelRidge"),
        (SVDD().fit(X), TypeError, "got SVDD"),
    ]


@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
@pytest.mark.parametrize("case", range(9))
def test_machines_without_a_libsvm_format_are_refused(tmp_path, case):
    machine, kind, message = unwritable()[case]
    with pytest.raises(kind, match=message):
        save_libsvm_model(tmp_path / "f.model", machine)
    assert not list(tmp_path.iterdir())


GOOD = (FOLDER / "classes.model").read_text()
LINES = GOOD.splitlines()
N_HEADER = LINES.index("SV") + 1


def edited(old, new):
    assert re.search(old, GOOD)
    return re.sub(old, new, GOOD, count=1)


BAD_MODELS = {
    "empty": ("", "line 0: the file ends before its support vectors"),
    "no SV": (GOOD.split("SV\n")[0], f"line {N_HEADER - 1}: the file ends before its support vectors"),
    "word": (edited("gamma", "gama"), "line 3: 'gama' begins no line of a LIBSVM model file"),
    "type": (edited("c_svc", "svdd"), "line 1: svm_type must be one of c_svc, nu_svc, one_class"),
    "kernel": (edited("rbf", "os.system"), "line 2: kernel_type must be one of linear, polynomial"),
    "twice": (edited("nr_class", "gamma 1\nnr_class"), "line 4: gamma stands here again, after line 3"),
    "missing": (edited("gamma .*\n", ""), "there is no line gamma before this one"),
    "NaN": (edited("gamma .*", "gamma nan"), "line 3: gamma must be followed by finite numbers, got 'nan'"),
    "negative gamma": (edited("gamma .*", "gamma -1"), "line 3: gamma must be >= 0, got -1"),
    "words": (edited("gamma .*", "gamma 1 2"), r"line 3: gamma must be followed by 1 word\(s\), got 2"),
    "text": (edited("gamma .*", "gamma x"), "line 3: gamma must be followed by numbers, got 'x'"),
    "classes": (
        edited("nr_class .*", "nr_class 1"),
        "line 4: nr_class must be followed by integers from 2 to 2147483647, got '1'",
    ),
    "many classes": (edited("nr_class .*", "nr_class 1000000000"), "line 6: rho must be followed by 4999999995"),
    "very many": (
        edited("nr_class .*", "nr_class " + "9" * 4000),
        "line 4: nr_class must be followed by integers from 2 to",
    ),
    "digits": (edited("nr_class .*", "nr_class " + "9" * 9000), "line 4: nr_class must be followed by integers, got"),
    "rho": (edited("rho .*", "rho 1 2"), r"line 6: rho must be followed by 3 word\(s\), got 2"),
    "labels": (edited("label .*", "label 3 1 1"), "line 7: a label stands twice"),
    "large label": (edited("label .*", "label 3 1 2147483648"), "line 7: label must be followed by integers from"),
    "counts": (edited("nr_sv .*", "nr_sv 4 5 6"), "line 8: the counts sum to 15, and total_sv is"),
    "negative": (edited("nr_sv .*", "nr_sv -4 5 6"), "line 8: nr_sv must be followed by integers from 0 to"),
    "underscore": (edited("rho (.*)", r"rho 1_0 2 3"), "line 6: rho must be followed by finite numbers"),
    "short": ("\n".join(LINES[:-1]) + "\n", r"the file ends after \d+ of \d+ support vectors"),
    "long": (GOOD + LINES[-1] + "\n", r"there is more after \d+ support vectors"),
    "total": (edited("total_sv .*", "total_sv 1000000000"), "1000000000 support vectors of 3 classes would take more"),
    "blank": (GOOD.replace("SV\n", "SV\n\n"), f"line {N_HEADER + 1}: a support vector must begin with 2 coeff"),
    "infinite": (GOOD.replace(LINES[-1], "inf 0 1:1"), f"line {len(LINES)}: a number is NaN or infinite"),
    "infinite value": (GOOD.replace(LINES[-1], "1 0 1:1e999"), f"line {len(LINES)}: a number is NaN or infinite"),
    "no pair": (GOOD.replace(LINES[-1], "1 0 1:1 2"), f"line {len(LINES)}: a support vector must be 2 coefficient"),
    "three": (GOOD.replace(LINES[-1], "1 0 1:2:3 4:5"), "and then number:value"),
    "falling": (GOOD.replace(LINES[-1], "1 0 2:1 1:1"), "feature numbers must rise, from 1 to 99999999 at most"),
    "far": (GOOD.replace(LINES[-1], "1 0 100000000:1"), "feature numbers must rise"),
    "farther": (GOOD.replace(LINES[-1], f"1 0 {2**70}:1"), "feature numbers must rise"),
    "an underscore": (GOOD.replace(LINES[-1], "1_0 0 1:1"), "there is an underscore"),
    "serial": (edited("rbf", "precomputed"), "a support vector of kernel values must be 0:serial"),
    "class of one": (edited("c_svc", "one_class"), "line 4: nr_class is 2 in a model of one_class, got 3"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_bad_model_is_one_clear_line(tmp_path, case):
    text, message = BAD_MODELS[case]
    path = written(tmp_path, text.encode())
    with pytest.raises(LibsvmFileError, match=message) as caught:
        load_libsvm_model(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_serial_numbers_and_lines_without_a_place(tmp_path):
    text = (FOLDER / "kernel_values.model").read_text()
    for serial in ("0:0", "0:1.5", "0:2147483648"):
        with pytest.raises(LibsvmFileError, match="serial numbers must be integers from 1 to"):
            load_libsvm_model(written(tmp_path, re.sub("0:[0-9]+", serial, text, count=1).encode()))
    with pytest.raises(LibsvmFileError, match="serial numbers must be integers from 1 to 5"):
        load_libsvm_model(FOLDER / "kernel_values.model", n_features=5)
    text = (FOLDER / "nu_svr.model").read_text().replace("rho", "label 1 2\nrho")
    with pytest.raises(LibsvmFileError, match="line 5: label has no place in a model of nu_svr"):
        load_libsvm_model(written(tmp_path, text.encode()))
    text = "svm_type nu_svr\nkernel_type linear\nnr_class 2\ntotal_sv 0\nrho 1\nSV\n"
    with pytest.raises(LibsvmFileError, match="has no support vector that says how many features there are"):
        load_libsvm_model(written(tmp_path, text.encode()))
    machine = load_libsvm_model(written(tmp_path, text.encode()), n_features=3)
    np.testing.assert_array_equal(machine.predict(np.ones((2, 3))), [-1.0, -1.0])


SCRAPS = [b"nan", b"-1", b"1e999", b"9" * 30, b":", b" ", b"\n", b"SV\n", b"\0", b"\xff", b"_", b"1:1", b"2147483647:1"]


@st.composite
def mutated(draw, texts):
    """A valid file with a few pieces removed, doubled, or replaced by fragments."""
    data = bytearray(draw(st.sampled_from(texts)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 30)))
        data[start:end] = draw(st.sampled_from([b"", bytes(data[start:end]) * 2, *SCRAPS]) | st.binary(max_size=8))
    return bytes(data)


@pytest.mark.filterwarnings("ignore:the probability estimates")
@given(mutated([path.read_bytes() for path in sorted(FOLDER.glob("*.model"))]))
def test_a_mutated_model_is_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "mutated.model"
    path.write_bytes(data)
    try:
        machine = load_libsvm_model(path)
    except LibsvmFileError:
        return
    assert np.isfinite(machine.dual_coef_).all()
    assert machine.support_vectors_.shape[0] <= len(data)


@given(mutated([b"1 1:0.5 3:2 # c\n-1\n2 2:1 5:1e-3\n", b"1 0:1 1:2 2:1\n-1 0:2 1:1 2:2\n"]), st.booleans())
def test_mutated_data_are_read_or_refused(tmp_path_factory, data, precomputed):
    path = tmp_path_factory.getbasetemp() / "mutated.svm"
    path.write_bytes(data)
    try:
        X, y = load_libsvm_data(path, precomputed=precomputed)
    except LibsvmFileError:
        return
    assert np.isfinite(y).all()
    assert X.shape[0] == y.size <= len(data)


@pytest.mark.skipif(importlib.util.find_spec("libsvm") is None, reason="LIBSVM is in the benchmark environment only")
@pytest.mark.parametrize("name", FITTED)
def test_libsvm_itself_gives_our_predictions_from_our_file(tmp_path, name):
    from ctypes import c_double

    from libsvm import svm, svmutil

    machine, rows = fitted(name)
    save_libsvm_model(tmp_path / "f.model", machine)
    theirs = svmutil.svm_load_model(str(tmp_path / "f.model"))
    k = theirs.get_nr_class()
    values = (c_double * (k * (k - 1) // 2))()
    kernel_values = machine.kernel == "precomputed"
    predicted = []
    for x in rows:
        row = dict(enumerate([1.0, *x])) if kernel_values else x
        nodes, _ = svm.gen_svm_nodearray(row, isKernel=kernel_values)
        predicted.append(svm.libsvm.svm_predict_values(theirs, nodes, values))
    decision, by_rule = by_the_book(tmp_path / "f.model", rows)
    if by_rule.dtype == np.float64:
        np.testing.assert_allclose(predicted, machine.predict(rows), rtol=1e-9, atol=1e-9)
        return
    decided = (by_rule != -999) & (np.abs(decision.reshape(len(rows), -1)).min(axis=1) > 1e-12)
    assert decided.mean() > 0.9
    np.testing.assert_array_equal(np.array(predicted)[decided], machine.predict(rows)[decided])
