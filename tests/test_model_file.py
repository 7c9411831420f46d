"""Model files: whole or refused, and verified against the table that they came from."""

import io
import json
import os
import stat
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from generated import mixed_frame, three_classes, with_missing
from mercer import RBF, SVC, Linear
from mercer.io.model_file import ModelFileError, load_model, save_model
from mercer.model import as_model, fit_model
from mercer.status import Status
from mercer.table import Table, TableError, as_table
from mercer.verification import verify


def sparse_table():
    block = sparse.random_array((60, 90), density=0.1, format="csr", random_state=0)
    labels = np.where(block[:, :45].sum(axis=1) > block[:, 45:].sum(axis=1), "left", "right")
    return Table(("label",), (labels.astype(object),), block)


def separable():
    X, y = make_blobs(30, centers=2, random_state=0, cluster_std=0.5)
    return pd.DataFrame(X, columns=["u", "v"]).assign(y=y)


MODELS = {
    "mixed columns": (with_missing(mixed_frame(80)), "outcome", SVC(C=2.0)),
    "three classes": (three_classes(60), "kind", SVC(C=10.0, kernel="poly", degree=2, coef0=1.0)),
    "one against the rest": (three_classes(60), "kind", SVC(kernel="linear", multi_class="ovr")),
    "sparse": (sparse_table(), "label", SVC(C=5.0)),
    "hard margin": (separable(), "y", SVC(C=np.inf, kernel="linear")),
    "composite kernel": (three_classes(60), "kind", SVC(kernel=RBF(gamma=0.5) + 0.1 * Linear() ** 2)),
    "class weights": (mixed_frame(80), "outcome", SVC(class_weight="balanced", tol_gap=1e-6)),
}


def fitted(case):
    frame, target, machine = MODELS[case]
    return as_table(frame), fit_model(frame, target, machine, missing="impute")


@pytest.fixture
def saved(tmp_path):
    table, model = fitted("mixed columns")
    path = tmp_path / "m.mercer"
    save_model(path, model)
    return path, table, model


@pytest.mark.parametrize("case", MODELS)
def test_a_model_comes_back_as_it_was(case, tmp_path):
    table, model = fitted(case)
    path = tmp_path / "m.mercer"
    save_model(path, model)
    loaded = load_model(path)
    np.testing.assert_array_equal(loaded.decision_values(table), model.decision_values(table))
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert loaded.kernel == model.kernel
    assert loaded.classes.dtype == model.classes.dtype
    assert replace(loaded.certificate, evidence=None) == replace(model.certificate, evidence=None)
    assert verify(loaded, table).findings == ()
    save_model(tmp_path / "again.mercer", loaded)
    assert (tmp_path / "again.mercer").read_bytes() == path.read_bytes()


def test_weights_of_a_machine_fitted_on_arrays(tmp_path):
    frame = three_classes(60)
    X, y = frame[["u", "v"]], frame["kind"]
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 60)
    weights[:5] = 0.0
    machine = SVC(C=3.0).fit(X, y, sample_weight=weights)
    model = as_model(machine, X, y, weights)
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    np.testing.assert_array_equal(loaded.predict(X), machine.predict(X))
    np.testing.assert_allclose(loaded.scores(X), machine.decision_function(X), rtol=1e-12)
    assert verify(loaded, X.assign(y=y)).ok
    with pytest.raises(ValueError, match="must be what the machine was fitted on, but numbers of rows differ"):
        as_model(machine, X, y)


def test_a_machine_fitted_on_plain_or_sparse_arrays():
    X, y = make_blobs(40, centers=3, n_features=5, random_state=1)
    for data in (X, sparse.csr_array(X)):
        machine = SVC().fit(data, y)
        model = as_model(machine, data, y)
        np.testing.assert_array_equal(model.predict(data), machine.predict(data))
        assert model.classes.tolist() == [0, 1, 2]


def test_another_table_is_recognised(saved):
    path, table, _ = saved
    model = load_model(path)
    reordered = verify(model, table.take(np.arange(table.n_rows)[::-1]))
    assert not reordered.same_table
    assert reordered.recomputed is None
    assert reordered.findings == (
        "this is not the table that the model was trained on: the cells of its training rows differ",
    )
    assert (
        "was trained on rows up to number 80, this table has 50" in verify(model, table.take(np.arange(50))).findings[0]
    )
    assert "there is no column 'age'" in verify(model, table.without(["age"])).findings[0]
    column = table["dose"].copy()
    column[3] = np.nextafter(column[3], 2)
    columns = tuple(column if name == "dose" else table[name] for name in table.names)
    assert not verify(model, Table(table.names, columns)).same_table


def test_more_columns_and_rows_do_not_make_it_another_table(saved):
    path, _, _ = saved
    longer = as_table(
        pd.concat([with_missing(mixed_frame(80)), mixed_frame(20)], ignore_index=True).assign(extra=np.arange(100.0))
    )
    assert verify(load_model(path), longer).ok


TAMPERINGS = {
    "a coefficient": (
        lambda model: {"parts": (replace(model.parts[0], beta=model.parts[0].beta * 1.01),)},
        "the dual objective is",
    ),
    "the bias": (lambda model: {"parts": (replace(model.parts[0], bias=model.parts[0].bias + 0.1),)}, "a bias is"),
    "C": (lambda model: {"training": replace(model.training, C=1.0)}, "the dual infeasibility is"),
    "a claim": (
        lambda model: {
            "parts": (replace(model.parts[0], certificate=replace(model.parts[0].certificate, primal=1.0)),)
        },
        "the primal objective is 1 in the file",
    ),
    "a support vector": (
        lambda model: {"support_vectors": model.support_vectors.rows(np.roll(np.arange(model.support_vectors.n), 1))},
        "the support vectors in the file are not the training rows",
    ),
}


@pytest.mark.parametrize("case", TAMPERINGS)
def test_verifying_finds_what_was_tampered_with(case, tmp_path):
    table, model = fitted("mixed columns")
    change, finding = TAMPERINGS[case]
    save_model(tmp_path / "m.mercer", replace(model, **change(model)))
    verification = verify(load_model(tmp_path / "m.mercer"), table)
    assert verification.same_table
    assert not verification.ok
    assert any(finding in sentence for sentence in verification.findings), verification.findings


def test_a_machine_stopped_early_is_verified_as_what_it_is(tmp_path):
    frame = three_classes(60)
    with pytest.warns(UserWarning, match="ended as"):
        model = fit_model(frame, "kind", SVC(C=1e4, max_iter=3))
    save_model(tmp_path / "m.mercer", model)
    loaded = load_model(tmp_path / "m.mercer")
    assert loaded.certificate.status == "max_iter"
    assert verify(loaded, frame).ok
    optimal = [replace(part.certificate, status=Status.OPTIMAL) for part in loaded.parts]
    parts = tuple(replace(part, certificate=claim) for part, claim in zip(loaded.parts, optimal, strict=True))
    findings = verify(replace(loaded, parts=parts), frame).findings
    assert "the file says `optimal`, recomputing says `stalled`" in findings


def rewritten(path, change_manifest=None, change_members=None, compression=zipfile.ZIP_STORED):
    """The file with its manifest or members changed, everything else kept."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    if change_manifest is not None:
        change_manifest(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    if change_members is not None:
        change_members(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def array_bytes(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def with_array(name, array):
    """Replace an array, with a hash that fits."""

    def change(manifest):
        from hashlib import sha256

        manifest["arrays"][name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "sha256": sha256(array_bytes(array)).hexdigest(),
        }

    return dict(change_manifest=change, change_members=lambda m: m.__setitem__(f"{name}.npy", array_bytes(array)))


def setting(**changes):
    return dict(change_manifest=lambda manifest: manifest.update(changes))


def nested(first, second, value):
    return dict(change_manifest=lambda manifest: manifest[first].__setitem__(second, value))


DAMAGED = {
    "version": (setting(version=2), "it is of version 2, this program reads version 1"),
    "format": (setting(format="a pickle"), "does not say that it is a 'mercer model' file"),
    "compressed": (dict(compression=zipfile.ZIP_DEFLATED), "its members are compressed"),
    "stranger": (dict(change_members=lambda m: m.__setitem__("evil.py", b"")), "its members are not those of a model"),
    "path": (dict(change_members=lambda m: m.__setitem__("../beta.npy", b"")), "its members are not those of a model"),
    "lost array": (dict(change_members=lambda m: m.pop("part_beta.npy")), "lists other arrays than it holds"),
    "hash": (dict(change_members=lambda m: m.__setitem__("part_beta.npy", m["part_beta.npy"][:-1] + b"x")), "its hash"),
    "NaN": (with_array("class_weight", np.array([np.nan, 1.0])), "'class_weight' holds NaN or infinity"),
    "objects": (with_array("class_weight", np.array([1.0, 1.0], dtype="<f4")), "not of the type and shape"),
    "class weights": (with_array("class_weight", np.array([1.0, -1.0])), "class weights must be positive"),
    "sample weights": (with_array("sample_weight", np.ones(3)), "sample weights must not be negative, one a training"),
    "support rows": (with_array("support_rows", np.array([0, 10**9])), "'support_rows' does not hold indices from 0"),
    "twice": (with_array("support_rows", np.zeros(5, dtype=np.int64)), "'support_rows' does not rise"),
    "support": (with_array("support_data", np.ones((2, 2))), "its support vectors have shape (2, 2)"),
    "starts": (with_array("part_starts", np.array([0, 1])), "it should hold 1 machines"),
    "training rows": (with_array("training_rows", np.array([-1, 2])), "'training_rows' does not hold indices"),
    "kernel": (setting(kernel={"type": "os.system"}), "kernel.type must be"),
    "scheme": (setting(scheme="all"), "scheme must be one of"),
    "classes": (setting(classes={"kind": "text", "labels": ["a", "a"]}), "not at least two different labels"),
    "class kind": (setting(classes={"kind": "pickle", "labels": ["a", "b"]}), "damaged: KeyError"),
    "no parts": (setting(parts=[]), "it should hold 1 machines"),
    "C": (setting(C=-1.0), "C and the class weights must be positive"),
    "C as text": (setting(C="1"), "its C is '1', which is no number"),
    "target": (setting(target=3), "its target is not text"),
    "features": (setting(n_features=3), "differ in the number of features"),
    "huge": (nested("encoder", "sparse", {"n_columns": 10**15, "scale": 1.0}), "a sparse block must have 1 to"),
    "not JSON": (dict(change_members=lambda m: m.__setitem__("manifest.json", b"{")), "damaged: JSONDecodeError"),
    "infinity": (
        dict(change_members=lambda m: m.__setitem__("manifest.json", b'{"C": Infinity}')),
        "its manifest holds Infinity",
    ),
    "deep": (dict(change_members=lambda m: m.__setitem__("manifest.json", b"[" * 100_000)), "damaged: RecursionError"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_file_that_does_not_fit_the_format_is_refused(saved, case):
    path, _, _ = saved
    changes, message = DAMAGED[case]
    rewritten(path, **changes)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_array_header_may_not_promise_more_than_there_is(saved):
    path, _, _ = saved
    header = array_bytes(np.ones(2)).replace(b"(2,), ", b"(10**9,)"[:6])
    for data in (header, array_bytes(np.ones(2)).replace(b"(2,)", b"(9,)"), b"\x93NUMPY\x09\x00" + b"x" * 64):

        def change(manifest, data=data):
            from hashlib import sha256

            manifest["arrays"]["class_weight"] = {"dtype": "<f8", "shape": [9], "sha256": sha256(data).hexdigest()}

        with_data = dict(change_members=lambda m, data=data: m.__setitem__("class_weight.npy", data))
        rewritten(path, change_manifest=change, **with_data)
        with pytest.raises(ModelFileError):
            load_model(path)


def test_not_model_files(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        load_model(tmp_path / "none.mercer")
    with pytest.raises(ModelFileError, match="is not a model file"):
        load_model(tmp_path)
    path = tmp_path / "m.mercer"
    for data in (b"", b"PK", b"\x80\x04K\x01."):
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match="is not a model file, or is truncated"):
            load_model(path)


def test_random_damage_never_gets_through(saved):
    path, table, model = saved
    whole = path.read_bytes()
    expected = model.decision_values(table)
    rng = np.random.default_rng(0)
    n_refused = 0
    for trial in range(600):
        data = bytearray(whole)
        if trial % 3 == 0:
            data = data[: rng.integers(len(data))]
        else:
            for place in rng.integers(len(data), size=rng.integers(1, 4)):
                data[place] = rng.integers(256)
        path.write_bytes(data)
        try:
            loaded = load_model(path)
        except ModelFileError:
            n_refused += 1
        else:  # the damage was to bytes that mean nothing, such as a date
            np.testing.assert_array_equal(loaded.decision_values(table), expected)
    assert n_refused > 570


def test_a_kernel_that_is_python_cannot_be_saved(tmp_path):
    frame = separable()
    model = fit_model(frame, "y", SVC(kernel=lambda A, B: A @ B.T))
    with pytest.raises(ValueError, match="cannot be written to a model file"):
        save_model(tmp_path / "m.mercer", model)
    assert os.listdir(tmp_path) == []


def test_saving_replaces_a_file_whole_or_not_at_all(saved, monkeypatch):
    path, _, model = saved
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_model(path, model)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert not path.stat().st_mode & stat.S_IXUSR


def test_a_model_says_what_is_wrong_with_a_table(saved):
    path, table, _ = saved
    model = load_model(path)
    with pytest.raises(TableError, match="the table lacks 1 of the 5 columns that the model needs: 'site'"):
        model.predict(table.without(["site"]))
    with pytest.raises(TableError, match=r"column 'age' must hold numbers, .* but row 1 holds 'old'"):
        model.predict(as_table(mixed_frame(3).assign(age="old")))


def test_fitting_refuses_what_it_cannot_use():
    frame = mixed_frame(40)
    with pytest.raises(TableError, match="the target 'unit' must have at least two classes, but is 'mg' in every row"):
        fit_model(frame, "unit", SVC())
    with pytest.raises(TableError, match="the target 'outcome' has missing values in the training rows"):
        fit_model(with_missing(frame, ("outcome",)), "outcome", SVC())
    with pytest.raises(ValueError, match="C must be a number > 0"):
        fit_model(frame, "outcome", SVC(C=-1.0))
