"""Model files: one uncompressed zip archive of plain numbers, safe to load from a stranger.

The format is described in ``docs/reference/model-file.md``. Nothing in a file is ever executed: arrays are read as
plain bytes, everything else is JSON, and whatever does not fit its checksum or the format exactly is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from mercer import __version__
from mercer.calibration import Calibration
from mercer.certificate import Certificate
from mercer.data import CSR, as_data
from mercer.encoding import TableEncoder
from mercer.io.calibrations import calibration_dict, read_calibration
from mercer.io.seals import read_seal, seal_dict
from mercer.io.whole import written_whole
from mercer.kernels import Kernel, from_dict
from mercer.machines.certificate import LossCertificate
from mercer.machines.perceptron import Separation
from mercer.model import Model, Part, Training
from mercer.multiclass import JOINT, SCHEMES, check_scheme
from mercer.outcome import MAX_TARGET, Classes, Membership, Outcome, Quantity
from mercer.recipes import Recipe
from mercer.recipes import from_dict as from_recipe
from mercer.selection.sealed import Seal
from mercer.status import Status
from mercer.table import listing

FORMAT = "mercer model"
VERSION = 3
"""What is written. Versions 1, of classifiers of one kind alone, and 2, of box problems alone, are read too."""

MAX_MANIFEST_BYTES = 64 << 20

MAX_COEFFICIENTS = 1 << 31
"""Most support vectors times machines: their coefficients are one table in predicting, here of 16 GiB."""

_MANIFEST = "manifest.json"
_CHECKSUMS = "SHA256SUMS"
_TEXT, _INTEGER = "text", "integer"
_DTYPES = {"<f8": np.dtype("<f8"), "<i8": np.dtype("<i8")}
_ARRAYS = {
    "training_rows": "<i8",
    "support_rows": "<i8",
    "part_starts": "<i8",
    "part_support": "<i8",
    "part_beta": "<f8",
    "part_multipliers": "<f8",
    "support_data": "<f8",
    "support_indices": "<i8",
    "support_indptr": "<i8",
    "class_weight": "<f8",
    "sample_weight": "<f8",
}
_SPARSE_ONLY = {"support_indices", "support_indptr"}
_OPTIONAL = _SPARSE_ONLY | {"class_weight", "sample_weight", "part_multipliers"}
_ALLOWED = {_CHECKSUMS, _MANIFEST, *(f"{name}.npy" for name in _ARRAYS)}
_REQUIRED = _ALLOWED - {f"{name}.npy" for name in _OPTIONAL}
_UNBOUNDED = {"primal", "gap", "relative_gap"}  # of a machine that does not separate, with C = inf
_UNBOUNDED_LOSS = _UNBOUNDED | {"dual", "violation"}  # without a penalty, nothing bounds them
_NOT_NEGATIVE = (
    *("kkt_violation", "violation", "dual_infeasibility", "rounding", "seconds", "criterion"),
    *("tol", "tol_gap"),
)
_NOT_IN_FILES = ("parts", "evidence")


class ModelFileError(ValueError):
    """A file that is not a whole, undamaged model file of a version that this program reads."""


def save_model(path: str | Path, model: Model) -> None:
    """Write a model to a file, all of it or nothing.

    Parameters
    ----------
    path : str or Path
        An existing file is replaced, once the new one is complete.
    model : Model
        Its kernel must not hold a Python function.

    Raises
    ------
    ValueError
        If the kernel cannot be written, the manifest would be too large to be read again, or the file would be refused:
        what is to be written is read back from memory first.
    TypeError
        If `model` is a machine, or anything else that is no Model.
    OSError
        If the file cannot be written.
    """
    if not isinstance(model, Model):
        raise TypeError(
            f"model must be a Model, got {type(model).__name__}: as_model(machine, X, y) makes one of a fitted "
            "machine, and save_model(path, model) writes it"
        )
    if model.kernel.is_structured:
        raise ValueError(
            f"a machine with {model.kernel!r} cannot be written to a model file, which holds support vectors of "
            "numbers and no strings or sets: keep it by pickle"
        )
    text = json.dumps(_manifest_of(model), indent=1, ensure_ascii=False, allow_nan=False)
    members = {_MANIFEST: text.encode()} | {f"{name}.npy": _npy(array) for name, array in _arrays_of(model).items()}
    if len(members[_MANIFEST]) > MAX_MANIFEST_BYTES:
        raise ValueError(
            f"the manifest of this model would be larger than {MAX_MANIFEST_BYTES >> 20} MiB, the most that is ever "
            f"read: it has {len(model.parts)} machines and {model.encoder.n_features_} features"
        )
    try:
        _model_of(*_parsed(dict(members)))
    except Exception as error:
        raise ModelFileError(f"this model cannot be written, as its file could not be read again: {error}") from error
    members[_CHECKSUMS] = _checksums(members)
    with written_whole(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(_member(name), data)


def load_model(path: str | Path) -> Model:
    """Read a model file.

    Raises
    ------
    ModelFileError
        If it does not exist, is no model file, is of another version, truncated, damaged, edited, compressed,
        inconsistent or holds numbers that are not finite.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _model_of(*_read(archive, os.path.getsize(path)))
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except IsADirectoryError:
        inside = Path(path) / "model.mercer"
        hint = f"; did you mean {inside}?" if inside.exists() else ""
        raise ModelFileError(f"{path} is a folder, not a model file{hint}") from None
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist") from None
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"{path} is not a model file, or is truncated or damaged: {error}") from error
    except Exception as error:
        # Damage can surface as almost anything in zipfile, json or NumPy; to the caller it is always the same thing.
        raise ModelFileError(f"{path} is not a model file, or is damaged: {type(error).__name__}: {error}") from error


def _arrays_of(model: Model) -> dict[str, np.ndarray]:
    support = model.support_vectors
    arrays = {
        "training_rows": model.training.rows,
        "support_rows": model.support_rows,
        "part_starts": np.cumsum([0, *(len(part.support) for part in model.parts)]),
        "part_support": np.concatenate([part.support for part in model.parts]),
        "part_beta": np.concatenate([part.beta for part in model.parts]),
    }
    if model.recipe.has_multipliers:
        arrays["part_multipliers"] = np.concatenate([np.zeros(0), *(part.multipliers for part in model.parts)])
    for name in ("class_weight", "sample_weight"):
        weights = getattr(model.training, name)
        if weights is not None:
            arrays[name] = weights
    if isinstance(support, CSR):
        matrix = support.matrix
        arrays |= {"support_data": matrix.data, "support_indices": matrix.indices, "support_indptr": matrix.indptr}
    else:
        arrays["support_data"] = support.float64()
    return {name: np.ascontiguousarray(array, dtype=_DTYPES[_ARRAYS[name]]) for name, array in arrays.items()}


def _manifest_of(model: Model) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"mercer {__version__}",
        "outcome": _outcome_dict(model.outcome),
        "machine": {
            name: _number(value) if isinstance(value, float) else value
            for name, value in model.recipe.to_dict().items()
        },
        "encoder": model.encoder.to_dict(),
        "kernel": model.kernel.to_dict(),
        "n_features": model.support_vectors.p,
        "checksum": model.training.checksum,
        "parts": [
            {"bias": part.bias, "half_width": part.half_width, "certificate": _claim_dict(part.certificate)}
            for part in model.parts
        ],
        "calibration": None if model.calibration is None else calibration_dict(model.calibration),
        "seal": None if model.seal is None else seal_dict(model.seal),
    }


def _outcome_dict(outcome: Outcome) -> dict[str, Any]:
    if not isinstance(outcome, Classes):
        return {"kind": outcome.kind} | asdict(outcome)  # type: ignore[call-overload]
    return {
        "kind": outcome.kind,
        "column": outcome.column,
        "labels": {"kind": _TEXT if outcome.labels.dtype == object else _INTEGER, "values": outcome.labels.tolist()},
        "scheme": outcome.scheme,
    }


def _claim_dict(claim: Any) -> dict[str, Any] | None:
    if claim is None:
        return None
    values = {one.name: getattr(claim, one.name) for one in fields(claim) if one.name not in _NOT_IN_FILES}
    return {name: _number(value) if isinstance(value, float) else value for name, value in values.items()}


def _number(value: float) -> float | str:
    """Infinity (C of a hard margin, the gap of a machine that does not separate) has no number in JSON."""
    return value if math.isfinite(value) else str(value)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    """A member with a fixed date, so that the same model gives the same bytes."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _checksums(members: dict[str, bytes]) -> bytes:
    """A line for each member, as `sha256sum` writes and checks them."""
    return "".join(f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members)).encode()


def _refuse(reason: str) -> NoReturn:
    raise ModelFileError(reason)


def _read(archive: zipfile.ZipFile, file_bytes: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays, every one checked against its size, its checksum and its type."""
    infos = {info.filename: info for info in archive.infolist()}
    if len(infos) != len(archive.infolist()) or not _REQUIRED <= infos.keys() <= _ALLOWED:
        _refuse("its members are not those of a model file")
    if any(info.compress_type != zipfile.ZIP_STORED for info in infos.values()):
        _refuse("its members are compressed, which model files never are")
    if sum(info.file_size for info in infos.values()) > file_bytes:
        _refuse("its members claim to be larger than the file")
    if infos[_MANIFEST].file_size > MAX_MANIFEST_BYTES:
        _refuse(f"its manifest is larger than {MAX_MANIFEST_BYTES >> 20} MiB")
    members = {name: archive.read(name) for name in infos}
    _check_sums(members.pop(_CHECKSUMS), members)
    return _parsed(members)


def _parsed(members: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays of what a file holds besides checksums; each is taken out as it is read."""
    manifest = json.loads(members.pop(_MANIFEST), parse_constant=lambda name: _refuse(f"its manifest holds {name}"))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        _refuse(f"its manifest does not say that it is a {FORMAT!r} file")
    version = manifest.get("version")
    if type(version) is not int or version not in range(1, VERSION + 1):
        _refuse(f"it is of version {version!r}, this program reads versions 1 to {VERSION}")
    if version == 1:
        manifest = _from_version_1(manifest)
    if version < 3:  # probabilities were left behind
        manifest = manifest | {"calibration": None, "seal": None}
    names = [name for name in _ARRAYS if f"{name}.npy" in members]
    return manifest, {name: _read_array(name, members.pop(f"{name}.npy")) for name in names}


def _check_sums(recorded: bytes, members: dict[str, bytes]) -> None:
    if recorded == _checksums(members):
        return
    lines = set(recorded.splitlines())
    changed = [name for name in sorted(members) if _checksums({name: members[name]}).strip() not in lines]
    _refuse(f"the file was damaged or edited: checksums do not fit {listing(changed or [_CHECKSUMS])}")


def _read_array(name: str, data: bytes) -> np.ndarray:
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        _refuse(f"array {name!r} is of an unknown .npy version")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer, max_header_size=4096)
    if dtype.str != _ARRAYS[name] or fortran or len(shape) > 2:
        _refuse(f"array {name!r} is not of the type that it should be")
    if len(data) - buffer.tell() != math.prod(shape) * dtype.itemsize:
        _refuse(f"array {name!r} does not have as many numbers as its shape says")
    array = np.frombuffer(data, dtype, offset=buffer.tell()).reshape(shape).astype(dtype.newbyteorder("="))
    if not np.isfinite(array).all():
        _refuse(f"array {name!r} holds NaN or infinity")
    return array


def _from_version_1(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest as this version writes it: C-SVC with hinge loss and bias was all that there was."""
    classes = manifest["classes"]
    return manifest | {
        "outcome": {
            "kind": Classes.kind,
            "column": manifest["target"],
            "labels": {"kind": classes["kind"], "values": classes["labels"]},
            "scheme": manifest["scheme"],
        },
        "machine": {"type": "SVC", "C": manifest["C"], "squared": False, "bias": True},
        "parts": [{"half_width": None} | part for part in manifest["parts"]],
    }


def _model_of(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    outcome, recipe = _outcome(manifest["outcome"]), from_recipe(manifest["machine"])
    if recipe.answers != outcome.kind:
        _refuse(f"its machine is {recipe.machine!r}, which does not answer with {outcome.kind}")
    if isinstance(outcome, Classes) and outcome.scheme not in recipe.schemes:
        _refuse(f"its machine is {recipe.machine!r}, which does not tell classes apart by {outcome.scheme!r}")
    rows, support_rows = arrays["training_rows"], arrays["support_rows"]
    _check_vector(rows, "training_rows", 0, np.iinfo(np.int64).max, at_least=2 if outcome.column else 1)
    _check_vector(support_rows, "support_rows", 0, len(rows))
    if (np.diff(support_rows) <= 0).any():
        _refuse("array 'support_rows' does not rise")
    encoder = _encoder(manifest["encoder"])
    n_features = encoder.n_features_
    if manifest["n_features"] != n_features or not n_features:
        _refuse("its encoder and its support vectors differ in the number of features")
    kernel = _kernel(manifest["kernel"])
    if recipe.own_vectors is not None and type(kernel) is not recipe.own_vectors:
        _refuse(f"its kernel is {kernel!r}, which a {recipe.machine} does not have")
    n_support = len(support_rows) if recipe.own_vectors is None else _n_vectors(arrays)
    return Model(
        encoder=encoder,
        outcome=outcome,
        recipe=recipe,
        kernel=kernel,
        support_rows=support_rows,
        support_vectors=as_data(_support(arrays, n_support, n_features)),
        parts=tuple(_parts(manifest["parts"], arrays, outcome, recipe, n_support)),
        training=_training(manifest, arrays, outcome, recipe),
        calibration=None if manifest["calibration"] is None else _calibration(manifest["calibration"], outcome, recipe),
        seal=None if manifest["seal"] is None else _seal(manifest["seal"]),
    )


def _outcome(entry: dict[str, Any]) -> Outcome:
    kind = entry["kind"]
    if kind == Classes.kind:
        check_scheme("scheme", entry["scheme"], (*SCHEMES, JOINT))
        return Classes(_text(entry["column"], "target"), _labels(entry["labels"]), entry["scheme"])
    if kind == Quantity.kind:
        centre, scale = _real(entry["centre"], "centre", True), _real(entry["scale"], "scale", True)
        if not (scale > 0.0 and max(abs(centre), scale) <= MAX_TARGET):
            _refuse(f"its target's centre and scale are {centre!r} and {scale!r}, which cannot be")
        return Quantity(_text(entry["column"], "target"), centre, scale)
    if kind == Membership.kind:
        norm = entry["squared_norm"]
        norm = None if norm is None else _real(norm, "squared_norm", True)
        return Membership(_real(entry["offset"], "offset", True), norm)
    _refuse(f"its outcome is {kind!r}, which is none")


def _kernel(entry: object) -> Kernel:
    kernel = from_dict(entry)
    if kernel.is_structured:
        _refuse(f"its kernel {kernel!r} takes strings or sets, and its support vectors are numbers")
    return kernel


def _labels(entry: dict[str, Any]) -> np.ndarray:
    wanted: type = {_TEXT: str, _INTEGER: int}[entry["kind"]]
    labels = entry["values"]
    if not all(type(label) is wanted for label in labels) or len(labels) < 2 or labels != sorted(set(labels)):
        _refuse("its classes are not at least two different labels in order")
    return np.array(labels, dtype=object if wanted is str else np.int64)


def _encoder(entry: dict[str, Any]) -> TableEncoder:
    encoder = TableEncoder.from_dict(entry)
    names = {rule.name for rule in encoder.rules_} | set(encoder.constant_)
    if len(names) != len(encoder.rules_) + len(encoder.constant_):
        _refuse("its encoder lists a column twice")
    # A block that is counted from 1 has no feature 0, which is neither used nor listed among those left out.
    if encoder.dense_block_ is not None and encoder.dense_block_ > len(names | {"0"}):
        _refuse("its encoder has a block of more columns than it lists")
    if encoder.sparse_ is not None and not 0 < encoder.sparse_.scale < math.inf:
        _refuse(f"its encoder's scale is {encoder.sparse_.scale!r}, which is no positive number")
    return encoder


def _n_vectors(arrays: dict[str, np.ndarray]) -> int:
    """Number of support vectors that are no training rows, of which the file has no list."""
    if len(arrays["support_rows"]):
        _refuse("its support vectors are no training rows, but it names some")
    return len(arrays["support_indptr"]) - 1 if "support_indptr" in arrays else len(arrays["support_data"])


def _seal(entry: Any) -> Seal:
    try:
        return read_seal(entry)
    except (ValueError, TypeError, KeyError) as error:
        _refuse(f"its record of a test part is none: {type(error).__name__}: {error}")


def _calibration(entry: Any, outcome: Outcome, recipe: Recipe) -> Calibration:
    calibrated = isinstance(outcome, Classes) and recipe.claims is Certificate and outcome.scheme in SCHEMES
    if not calibrated:
        _refuse(f"it has probabilities of decision values, which a {recipe.machine} has not")
    assert isinstance(outcome, Classes)
    try:
        return read_calibration(entry, outcome.scheme, len(outcome.labels), outcome.n_parts)
    except (ValueError, TypeError, KeyError) as error:
        _refuse(f"its calibration is none: {type(error).__name__}: {error}")


def _support(arrays: dict[str, np.ndarray], n: int, p: int) -> np.ndarray | sparse.csr_array:
    data = arrays["support_data"]
    if not _SPARSE_ONLY & arrays.keys():
        if data.shape != (n, p):
            _refuse(f"its support vectors have shape {data.shape}, which should be {(n, p)}")
        return data
    indices, indptr = arrays["support_indices"], arrays["support_indptr"]
    _check_vector(indices, "support_indices", 0, p)
    rising = indptr.shape == (n + 1,) and indptr[0] == 0 and indptr[-1] == len(data) and (np.diff(indptr) >= 0).all()
    if data.ndim != 1 or len(indices) != len(data) or not rising:
        _refuse("its sparse support vectors are inconsistent")
    matrix = sparse.csr_array((data, indices, indptr), shape=(n, p))
    if not matrix.has_canonical_format:
        _refuse("its sparse support vectors are not sorted")
    return matrix


def _parts(
    entries: list[dict[str, Any]], arrays: dict[str, np.ndarray], outcome: Outcome, recipe: Recipe, n_support: int
) -> list[Part]:
    # Read before anything is made for each pair of classes, so that a short file cannot ask for very many.
    machines = [
        (
            _real(entry["bias"], "bias", True),
            _half_width(entry["half_width"], recipe),
            _claim(entry["certificate"], recipe.claims if number == 0 or not recipe.is_whole else None),
        )
        for number, entry in enumerate(entries)
    ]
    n_machines = outcome.n_parts
    starts, support, beta = arrays["part_starts"], arrays["part_support"], arrays["part_beta"]
    multipliers = arrays.get("part_multipliers")
    if (multipliers is not None) is not recipe.has_multipliers:
        _refuse(f"it has multipliers, or has none, which does not fit a {recipe.machine}")
    if multipliers is not None and multipliers.shape != beta.shape:
        _refuse("its multipliers are not as many as its coefficients")
    rising = starts.shape == (n_machines + 1,) and starts[0] == 0 and starts[-1] == len(beta)
    if len(machines) != n_machines or not rising or (np.diff(starts) < 0).any() or support.shape != beta.shape:
        _refuse(f"it should hold {n_machines} machines, one for each pair of classes or each class")
    if n_support * n_machines > MAX_COEFFICIENTS:
        _refuse(f"it has {n_support} support vectors of {n_machines} machines, more than can be computed with")
    _check_vector(support, "part_support", 0, n_support)
    asked_for = [(claim.tol, getattr(claim, "tol_gap", None)) for *_, claim in machines if hasattr(claim, "tol")]
    if len(set(asked_for)) > 1:
        _refuse("its machines claim to have been solved to different tolerances")
    parts = []
    for number, machine in enumerate(machines):
        own = slice(starts[number], starts[number + 1])
        _check_variables(support[own], beta[own], recipe)
        part = Part(support[own], beta[own], *machine, None if multipliers is None else multipliers[own])
        if not max(abs(part.bias), *np.abs(part.beta), 0.0) / (part.divisor if recipe.is_scaled else 1.0) < MAX_TARGET:
            _refuse(
                "a machine has a coefficient or a bias too large to compute with, or a margin too small to divide by"
            )
        parts.append(part)
    return parts


def _half_width(value: object, recipe: Recipe) -> float | None:
    if (value is None) is recipe.has_width:
        _refuse(f"its half_width is {value!r}, which does not fit a {recipe.machine}")
    return None if value is None else _real(value, "half_width", True)


def _check_variables(support: np.ndarray, beta: np.ndarray, recipe: Recipe) -> None:
    """Rising rows; where a row has two variables, those of the positive ones, and then those of the negative ones."""
    sides = [support[beta > 0.0], support[beta <= 0.0]] if recipe.is_two_sided else [support]
    if any((np.diff(side) <= 0).any() for side in sides):
        _refuse("a machine lists a support vector twice")


def _training(manifest: dict[str, Any], arrays: dict[str, np.ndarray], outcome: Outcome, recipe: Recipe) -> Training:
    class_weight, sample_weight = arrays.get("class_weight"), arrays.get("sample_weight")
    if (class_weight is None) is isinstance(outcome, Classes):
        _refuse("it should hold class weights where there are classes, and none where there are none")
    n_classes = len(outcome.labels) if isinstance(outcome, Classes) else 0
    if class_weight is not None and (class_weight.shape != (n_classes,) or not (class_weight > 0).all()):
        _refuse("the class weights must be positive, one weight a class")
    n = len(arrays["training_rows"])
    if sample_weight is not None and (sample_weight.shape != (n,) or not (sample_weight > 0).all()):
        _refuse("the sample weights must be positive, one a training row")
    C = getattr(recipe, "C", 1.0)
    largest = max(1.0, C) if math.isfinite(C) else 1.0
    for weights in (class_weight, sample_weight):
        largest *= 1.0 if weights is None else float(weights.max())
    if not math.isfinite(2.0 * n * largest):
        _refuse("C times the weights, of all rows together, is beyond what float64 can hold")
    return Training(arrays["training_rows"], _text(manifest["checksum"], "checksum"), class_weight, sample_weight)


def _claim(entry: Any, kind: type | None) -> Any:
    """What a machine claims: a value of this type, all of whose fields are in the file."""
    if kind is None:
        if entry is not None:
            _refuse("a machine has a certificate, and should have none")
        return None
    assert issubclass(kind, Certificate | LossCertificate | Separation)
    wanted = {field.name: field.type for field in fields(kind) if field.name not in _NOT_IN_FILES}
    values = {name: _claimed(entry[name], name, str(of_type), kind) for name, of_type in wanted.items()}
    for name in _NOT_NEGATIVE:
        value = values.get(name)
        if value is not None and (value < 0.0 or (value == 0.0 and name.startswith("tol"))):
            _refuse(f"its certificate's {name} is {value!r}, which cannot be")
    return kind(**values)


def _claimed(value: Any, name: str, of_type: str, kind: type) -> Any:
    if of_type == "Status":
        return Status(value)
    if of_type == "int":
        if type(value) is not int or not 0 <= value < 2**63:
            _refuse(f"its certificate's {name} is {value!r}, which is no count")
        return value
    if of_type == "bool":
        if not isinstance(value, bool):
            _refuse(f"its certificate's {name} is {value!r}, which is neither true nor false")
        return value
    if value is None and of_type.endswith("None"):
        return None
    unbounded = _UNBOUNDED if kind is Certificate else _UNBOUNDED_LOSS if kind is LossCertificate else ()
    return _real(value, name, name not in unbounded)


def _real(value: object, name: str, finite: bool) -> float:
    if value in ("inf", "-inf") and not finite and (value == "inf" or name == "dual"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        _refuse(f"its {name} is {value!r}, which is no number")
    return float(value)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        _refuse(f"its {name} is not text")
    return value


def _check_vector(values: np.ndarray, name: str, low: int, high: int, at_least: int = 0) -> None:
    """Indices from `low` to below `high`."""
    if values.ndim != 1 or len(values) < at_least or (values.size and (values.min() < low or values.max() >= high)):
        _refuse(f"array {name!r} does not hold indices from {low} to {high - 1}")
