"""Conversion of a model to the manifest and arrays of a model file, and back, with checks of every entry."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any, cast, get_args

import numpy as np
from scipy import sparse

from mercer._version import __version__
from mercer.approximate import WAYS, Way
from mercer.data import CSR, Data, Limits, Reading, Vectors, as_data, check_choice
from mercer.kernels import Kernel, from_dict, plain_rows, read_rows
from mercer.model_selection import Seal
from mercer.multiclass import FITTED_ON, JOINT, SCHEMES, Calibration
from mercer.specs import ApproximateSpec, ForOneClassSVM, ForSVC, ForSVR, MachineSpec
from mercer.specs import from_dict as from_recipe
from mercer.studies.models.archive import ARRAYS, CELL_ARRAYS, DTYPES, FORMAT, MANIFEST, SPARSE_ONLY, read_array
from mercer.studies.models.calibrations import calibration_dict, read_calibration
from mercer.studies.models.cell_layout import CellLayout
from mercer.studies.models.claims import claim_dict, claim_of_version_4, number_of, read_claim
from mercer.studies.models.model import Model, Part, Training
from mercer.studies.models.refusals import check_vector, real, refuse, text
from mercer.studies.models.row_reader import KIND, RowReader, is_read_by_kernel
from mercer.studies.models.seal_record import read_seal, seal_dict
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.tables.number_text import in_order
from mercer.studies.tables.prediction_kind import Classes, Membership, PredictionKind, Quantity
from mercer.studies.tables.target_numbers import MAX_TARGET

VERSION = 6
"""Version that is written.

Also read: version 1 (only C-SVC), version 2 (only box-constrained problems), version 3 (no dates and no free text),
version 4 (no elastic net, other logistic machines, and certificates whose fields differed from machine to machine) and
version 5 (only rows of numbers, and no centred kernels).
"""

MAX_COEFFICIENTS = 1 << 31
"""Largest number of support vectors times machines; prediction needs their coefficients as one table, here 16 GiB."""

_TEXT, _INTEGER, _BOOLEAN = "text", "integer", "boolean"

_BY_REST = "LogisticByRest"  # logistic regression of two classes, or of each class against the rest, in version 4
_OF_VERSION_1 = {"classes", "target", "scheme", "C"}
"""Entries of version 1 that later versions store elsewhere."""


def arrays_of(model: Model) -> dict[str, np.ndarray]:
    """Return the arrays of a model file, by name."""
    support = model.support_vectors if isinstance(model.support_vectors, Vectors) else as_data(np.zeros((0, 0)))
    arrays = {
        "training_rows": model.training.rows,
        "support_rows": model.support_rows,
        "part_starts": np.cumsum([0, *(len(part.support) for part in model.parts)]),
        "part_support": np.concatenate([np.zeros(0, dtype=np.int64), *(part.support for part in model.parts)]),
        "part_beta": np.concatenate([np.zeros(0), *(part.beta for part in model.parts)]),
    }
    if model.cells is not None:
        arrays |= model.cells.arrays()
    if model.machine_spec.has_multipliers:
        arrays["part_multipliers"] = np.concatenate([np.zeros(0), *(part.multipliers for part in model.parts)])
    if model.parts and all(part.duals is not None for part in model.parts):
        arrays["part_duals"] = np.array([part.duals for part in model.parts])
    for name in ("class_weight", "sample_weight"):
        weights = getattr(model.training, name)
        if weights is not None:
            arrays[name] = weights
    if isinstance(support, CSR):
        matrix = support.matrix
        arrays |= {"support_data": matrix.data, "support_indices": matrix.indices, "support_indptr": matrix.indptr}
    else:
        assert isinstance(support, Vectors)
        arrays["support_data"] = support.float64()
    return {name: np.ascontiguousarray(array, dtype=DTYPES[ARRAYS[name]]) for name, array in arrays.items()}


def manifest_of(model: Model) -> dict[str, Any]:
    """Return the content of a model file except the arrays, as JSON values."""
    column, support = model.training.weight_column, model.support_vectors
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"mercer {__version__}",
        "outcome": _outcome_dict(model.prediction_kind),
        "machine": {
            name: number_of(value) if isinstance(value, float) else value
            for name, value in model.machine_spec.to_dict().items()
        },
        "encoder": model.encoder.to_dict(),
        "kernel": model.kernel.to_dict(),
        "n_features": model.encoder.n_features_,
        "checksum": model.training.checksum,
        "parts": [
            {"bias": part.bias, "half_width": part.half_width, "certificate": claim_dict(part.certificate)}
            for part in model.parts
        ],
        "calibration": None if model.calibration is None else calibration_dict(model.calibration),
        "seal": None if model.seal is None else seal_dict(model.seal),
        "reading": _reading_dict(model.reading),
        **({} if column is None else {"weight_column": column}),
        **({} if model.training.n_streamed is None else {"n_streamed": model.training.n_streamed}),
        **({} if model.costs is None else {"costs": model.costs.tolist()}),
        **({} if model.cells is None else {"cells": model.cells.entry()}),
        **(
            {}
            if model.way is None or model.calibration is None
            else {"approximation": {"name": model.way.name, **asdict(model.way)}}
        ),
        **({} if isinstance(support, Vectors) else {"support": plain_rows(support)}),
    }


def _outcome_dict(prediction_kind: PredictionKind) -> dict[str, Any]:
    if not isinstance(prediction_kind, Classes):
        return {"kind": prediction_kind.kind} | asdict(prediction_kind)  # type: ignore[call-overload]
    return {
        "kind": prediction_kind.kind,
        "column": prediction_kind.column,
        "labels": {
            "kind": _BOOLEAN
            if prediction_kind.are_booleans
            else _TEXT
            if prediction_kind.labels.dtype == object
            else _INTEGER,
            "values": prediction_kind.labels.tolist(),
        },
        "scheme": prediction_kind.scheme,
    }


def parsed(members: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the manifest and the arrays from the members of a file; a member is removed from `members` when read."""
    manifest = json.loads(members.pop(MANIFEST), parse_constant=lambda name: refuse(f"its manifest holds {name}"))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        refuse(f"its manifest does not say that it is a {FORMAT!r} file")
    version = manifest.get("version")
    if type(version) is not int or version not in range(1, VERSION + 1):
        refuse(f"it is of version {version!r}, this program reads versions 1 to {VERSION}")
    if version == 1:
        manifest = _from_version_1(manifest)
    if version < 3:  # probabilities were left behind
        manifest = manifest | {"calibration": None, "seal": None}
    if version < 4:
        manifest = manifest | {"encoder": _encoder_of_version_3(manifest["encoder"])}
    if version < 5:
        machine = _machine_of_version_4(manifest["machine"], len(manifest["parts"]))
        parts = [
            part | {"certificate": claim_of_version_4(part["certificate"], manifest["machine"])}
            for part in manifest["parts"]
        ]
        manifest = manifest | {"machine": machine, "parts": parts}
    manifest = {"reading": {"decimal": None, "na": []}} | manifest  # older files have no such entry
    names = [name for name in ARRAYS if f"{name}.npy" in members]
    return manifest, {name: read_array(name, members.pop(f"{name}.npy")) for name in names}


def _from_version_1(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest in the current version; version 1 had only C-SVC with hinge loss and bias."""
    classes = manifest["classes"]
    entries = {name: value for name, value in manifest.items() if name not in _OF_VERSION_1}
    return entries | {
        "outcome": {
            "kind": Classes.kind,
            "column": manifest["target"],
            "labels": {"kind": classes["kind"], "values": classes["labels"]},
            "scheme": manifest["scheme"],
        },
        "machine": {"type": "SVC", "C": manifest["C"], "squared": False, "bias": True},
        "parts": [{"half_width": None} | part for part in manifest["parts"]],
    }


def _encoder_of_version_3(encoder: dict[str, Any]) -> dict[str, Any]:
    """Return the encoder in the current version; version 3 had only columns of numbers and of categories."""
    columns = {kind: [{"indicator": False} | column for column in encoder[kind]] for kind in ("numeric", "categorical")}
    return encoder | columns | {"dates": [], "texts": []}


def _machine_of_version_4(machine: dict[str, Any], n_parts: int) -> dict[str, Any]:
    """Return the specification of a machine in the current version; version 4 had no elastic net."""
    rest = dict(machine)
    if rest.get("type") == "LogisticRegression":
        penalty = {"C": rest.pop("prior_variance"), "l1_ratio": 0.0}
        return rest | penalty | {"free": True, "scaling": 1.0, "joint": n_parts > 1}
    if "absolute" not in rest:
        return rest
    fields = {"l1_ratio": float(rest.pop("absolute")), **rest}
    is_logistic = rest.get("type") == _BY_REST
    return fields | {"type": "LogisticRegression", "joint": False, "network": False} if is_logistic else fields


def model_of(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    """Return the model that a manifest and arrays describe."""
    model = _model_of(manifest, arrays)
    if "costs" in manifest:
        model = _with_costs(model, manifest["costs"])
    _refuse_unknown(manifest, manifest_of(model), "its manifest")
    return model


def _model_of(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    prediction_kind, machine_spec = _outcome(manifest["outcome"]), from_recipe(manifest["machine"])
    if machine_spec.answers != prediction_kind.kind:
        refuse(f"its machine is {machine_spec.machine!r}, which does not answer with {prediction_kind.kind}")
    if isinstance(prediction_kind, Classes) and prediction_kind.scheme not in machine_spec.schemes:
        refuse(
            f"its machine is {machine_spec.machine!r}, which does not tell classes apart by {prediction_kind.scheme!r}"
        )
    rows, support_rows = arrays["training_rows"], arrays["support_rows"]
    least = 2 if isinstance(prediction_kind, Classes) else 1
    if "n_streamed" in manifest:
        _check_streamed(manifest, machine_spec, rows, support_rows)
        least = 0
    check_vector(rows, "training_rows", 0, np.iinfo(np.int64).max, at_least=least)
    check_vector(support_rows, "support_rows", 0, len(rows))
    if (np.diff(support_rows) <= 0).any():
        refuse("array 'support_rows' does not rise")
    if machine_spec.uses_all_rows and not len(arrays["part_support"]) == len(support_rows) == len(rows):
        refuse(f"a {machine_spec.machine} uses all {len(rows)} training rows, and it names {len(support_rows)}")
    kernel = from_dict(manifest["kernel"])
    encoder = _encoder(manifest["encoder"], kernel)
    n_features = encoder.n_features_
    if manifest["n_features"] != n_features or not n_features:
        refuse("its encoder and its support vectors differ in the number of features")
    if machine_spec.own_vectors is not None and type(kernel) is not machine_spec.own_vectors:
        refuse(f"its kernel is {kernel!r}, which a {machine_spec.machine} does not have")
    n_support = len(support_rows) if machine_spec.own_vectors is None else _n_vectors(arrays)
    if isinstance(encoder, RowReader):
        support = _support_rows(kernel, manifest, arrays, n_support, encoder)
    elif "support" in manifest:
        refuse("its support vectors are numbers, and it lists others")
    else:
        support = as_data(_support(arrays, n_support, n_features))
        _check_kernel(kernel, support)
    cells, n_machines = _cells(manifest, arrays, prediction_kind, machine_spec, n_support), prediction_kind.n_parts
    if cells is not None:
        n_machines = int(cells.part_edges(prediction_kind)[-1])
    parts = tuple(_parts(manifest["parts"], arrays, n_machines, machine_spec, n_support))
    if cells is not None:
        cells.check_parts(parts, support_rows, prediction_kind)
    return Model(
        encoder=encoder,
        prediction_kind=prediction_kind,
        machine_spec=machine_spec,
        kernel=kernel,
        support_rows=support_rows,
        support_vectors=support,
        parts=parts,
        cells=cells,
        way=_way(manifest, cells),
        training=_training(manifest, arrays, prediction_kind, machine_spec),
        calibration=None
        if manifest["calibration"] is None
        else _calibration(manifest["calibration"], prediction_kind, machine_spec),
        seal=None if manifest["seal"] is None else _seal(manifest["seal"]),
        reading=_reading(manifest["reading"]),
    )


def _cells(
    manifest: dict[str, Any],
    arrays: dict[str, np.ndarray],
    prediction_kind: PredictionKind,
    machine_spec: MachineSpec,
    n_support: int,
) -> CellLayout | None:
    """Return the layout of cells; None for a machine without cells."""
    names = CELL_ARRAYS.keys() & arrays.keys()
    if "cells" not in manifest:
        if names:
            refuse(f"it has the array {min(names)!r}, and no cells")
        return None
    is_joint = isinstance(prediction_kind, Classes) and prediction_kind.scheme not in SCHEMES
    if not isinstance(machine_spec, ForSVC | ForSVR | ForOneClassSVM) or is_joint:
        refuse(f"it has cells, which a {machine_spec.machine} does not have")
    if names != CELL_ARRAYS.keys():
        refuse("it has cells, and lacks arrays of them")
    has_all_rows = "n_streamed" not in manifest
    return CellLayout.of_file(
        manifest["cells"], arrays, prediction_kind, machine_spec, n_support, has_all_rows=has_all_rows
    )


def _way(manifest: dict[str, Any], cells: CellLayout | None) -> Way | None:
    """Return how an approximate machine with probabilities was trained."""
    is_approximate = cells is not None or isinstance(from_recipe(manifest["machine"]), ApproximateSpec)
    if not is_approximate or manifest["calibration"] is None:
        if "approximation" in manifest:
            refuse("it says how its machine was approximated, which is for approximate machines with probabilities")
        return None
    parameters = dict(manifest["approximation"])
    name = parameters.pop("name")
    if name not in WAYS:
        refuse(f"its machine was approximated by {name!r}, which is not known")
    try:
        return WAYS[name](**parameters)
    except (TypeError, ValueError) as error:
        refuse(f"its approximation is invalid: {error}")


def _check_streamed(
    manifest: dict[str, Any], machine_spec: MachineSpec, rows: np.ndarray, support_rows: np.ndarray
) -> None:
    """Refuse a claim that training rows are not in the file, unless the model has no training rows but support vectors.

    Those of cells have the pivots of the tree, too.
    """
    n_rows, kinds = manifest["n_streamed"], (ForSVC, ForSVR, ForOneClassSVM, ApproximateSpec)
    is_possible = not len(rows) if machine_spec.own_vectors is not None else isinstance(machine_spec, kinds)
    others = len(rows) - len(support_rows)  # landmarks whose coefficients are 0
    is_possible &= not others or isinstance(machine_spec, ApproximateSpec)
    if type(n_rows) is not int or not 2 <= n_rows < 1 << 62 or not is_possible or len(rows) > n_rows:
        refuse(f"its number of streamed training rows is {n_rows!r}, which does not fit its machine and its rows")


def _with_costs(model: Model, entry: object) -> Model:
    """Return the model that predicts by these costs."""
    n = len(model.prediction_kind.labels) if isinstance(model.prediction_kind, Classes) else 0
    is_matrix = isinstance(entry, list) and len(entry) == n > 0
    if not is_matrix or not all(isinstance(row, list) and len(row) == n for row in cast(list[Any], entry)):
        refuse("its costs should be a row for each class, with a cost for each class")
    costs = np.array([[real(cost, "cost", True) for cost in row] for row in cast(list[Any], entry)])
    if not ((costs >= 0.0).all() and (np.diag(costs) == 0.0).all() and costs.any()):
        refuse("its costs should not be negative, 0 for the right class, and not all 0")
    if not model.has_probabilities:
        refuse("it has costs, but no probabilities to compute expected costs with")
    return replace(model, costs=costs)


def _refuse_unknown(given: Any, names: Any, place: str) -> None:
    """Refuse unknown entries, because an entry that is not read is not checked."""
    if isinstance(given, dict) and isinstance(names, dict):
        unknown = sorted(given.keys() - names.keys())
        if unknown:
            refuse(f"{place} has an unknown entry {unknown[0]!r}")
        for name, value in given.items():
            _refuse_unknown(value, names[name], f"{name!r} of {place}")
    elif isinstance(given, list) and isinstance(names, list):
        for one, other in zip(given, names, strict=False):
            _refuse_unknown(one, other, place)


def _outcome(entry: dict[str, Any]) -> PredictionKind:
    kind = entry["kind"]
    if kind == Classes.kind:
        check_choice("scheme", entry["scheme"], (*SCHEMES, JOINT))
        classes = Classes(text(entry["column"], "target"), _labels(entry["labels"]), entry["scheme"])
        if entry["labels"]["kind"] == _BOOLEAN:
            classes = classes.as_booleans()
            if not classes.are_booleans:
                refuse("its classes are called booleans, and are not False and True")
        return classes
    if kind == Quantity.kind:
        centre, scale = real(entry["centre"], "centre", True), real(entry["scale"], "scale", True)
        if not (scale > 0.0 and max(abs(centre), scale) <= MAX_TARGET):
            refuse(f"its target's centre and scale are {centre!r} and {scale!r}, which cannot be")
        return Quantity(text(entry["column"], "target"), centre, scale)
    if kind == Membership.kind:
        norm = entry["squared_norm"]
        norm = None if norm is None else real(norm, "squared_norm", True)
        length = entry.get("length")
        length = None if length is None else real(length, "length", True)
        return Membership(real(entry["offset"], "offset", True), norm, length)
    refuse(f"its outcome {kind!r} is unknown")


def _support_rows(
    kernel: Kernel, manifest: dict[str, Any], arrays: dict[str, np.ndarray], n: int, encoder: RowReader
) -> Data:
    """Return support vectors that are no rows of numbers, for which the kernel must have values."""
    if arrays["support_data"].size or SPARSE_ONLY & arrays.keys() or "support" not in manifest:
        refuse("its support vectors are no numbers, and it does not list others, or lists both")
    try:
        support = read_rows(kernel, manifest["support"])
        if not is_read_by_kernel(support) or (encoder.columns is None) is bool(kernel.named_columns):
            refuse(f"its kernel {kernel!r} does not read such support vectors")
        if support.n != n:
            refuse(f"it has {support.n} support vectors, which should be {n}")
        with np.errstate(all="ignore"):
            if not support.has_given_values:
                kernel.diag(support)
            row = support.rows(np.arange(min(1, support.n)))
            if not kernel.takes_values and not support.has_given_values:
                kernel.block(row, row)
    except (ValueError, TypeError, IndexError) as error:
        refuse(f"its kernel {kernel!r} has no values for its support vectors: {error}")
    return support


def _check_kernel(kernel: Kernel, support: Vectors) -> None:
    """Refuse a kernel that has no values for rows like the support vectors."""
    if kernel.is_structured:
        refuse(f"its kernel {kernel!r} takes strings or sets, and its support vectors are numbers")
    if kernel.takes_values:
        refuse(f"its kernel {kernel!r} takes kernel values, and its support vectors are rows of features")
    row = support.rows([0]) if support.n else as_data(sparse.csr_array((1, support.p)))
    try:
        with np.errstate(all="ignore"):
            kernel.resolve(row).diag(row)  # whether it has the columns that it asks for
            kernel.lower()
            kernel.block(row, row)
    except (ValueError, TypeError, IndexError) as error:
        refuse(f"its kernel {kernel!r} has no values for its support vectors: {error}")


def _labels(entry: dict[str, Any]) -> np.ndarray:
    wanted: type = {_TEXT: str, _INTEGER: int, _BOOLEAN: str}[entry["kind"]]
    labels = entry["values"]
    if not all(type(label) is wanted for label in labels) or len(labels) < 2 or not _is_sorted(labels):
        refuse("its classes are not at least two different labels in order")
    return np.array(labels, dtype=object if wanted is str else np.int64)


def _is_sorted(labels: list[Any]) -> bool:
    """Return whether labels are different and sorted: by value, or alphabetically."""
    different = set(labels)
    return labels == sorted(different) or (type(labels[0]) is str and labels == in_order(different))


def _encoder(entry: dict[str, Any], kernel: Kernel) -> TableEncoder | RowReader:
    if entry.get("kind") == KIND:
        return RowReader.from_dict(entry, kernel)
    encoder = TableEncoder.from_dict(entry)
    names = {rule.name for rule in encoder.rules_} | set(encoder.constant_)
    if len(names) != len(encoder.rules_) + len(encoder.constant_):
        refuse("its encoder lists a column twice")
    # A block that is counted from 1 has no feature 0, which is neither used nor listed as constant.
    if encoder.dense_block_ is not None and encoder.dense_block_ > len(names | {"0"}):
        refuse("its encoder has a block of more columns than it lists")
    if encoder.sparse_ is not None and not 0 < encoder.sparse_.scale < math.inf:
        refuse(f"its encoder's scale is {encoder.sparse_.scale!r}, which is not a positive number")
    return encoder


def _n_vectors(arrays: dict[str, np.ndarray]) -> int:
    """Return the number of support vectors that are not training rows; the file does not list them."""
    if len(arrays["support_rows"]):
        refuse("its support vectors are not training rows, but it names some")
    return len(arrays["support_indptr"]) - 1 if "support_indptr" in arrays else len(arrays["support_data"])


def _reading(entry: dict[str, Any]) -> Reading:
    if entry["decimal"] not in (None, ".", ","):
        refuse(f"its decimal mark is {entry['decimal']!r}, which is neither a point nor a comma")
    if entry.get("limits") not in (None, *get_args(Limits)):
        refuse(f"its reading of limits is {entry['limits']!r}, which is neither 'value' nor 'half'")
    units = entry.get("units", {})
    if not isinstance(units, dict):
        refuse(f"its units are {units!r}, which are no units of columns")
    return Reading(
        entry["decimal"],
        tuple(text(word, "word for missing cells") for word in entry["na"]),
        units={name: text(unit, "unit") for name, unit in units.items()},
        limits=entry.get("limits"),
        merged=frozenset(text(name, "name of a column") for name in entry.get("merged", [])),
        rest=text(entry.get("rest", ""), "name of the class of rare ones"),
    )


def _reading_dict(reading: Reading) -> dict[str, Any]:
    """Return how a table was read as plain data; entries that say nothing are left out."""
    others = {"units": dict(reading.units), "limits": reading.limits, "merged": sorted(reading.merged)}
    others["rest"] = reading.rest
    return {"decimal": reading.decimal, "na": list(reading.na)} | {name: one for name, one in others.items() if one}


def _seal(entry: Any) -> Seal:
    try:
        return read_seal(entry)
    except (ValueError, TypeError, KeyError) as error:
        refuse(f"its record of a test part is invalid: {type(error).__name__}: {error}")


def _calibration(entry: Any, prediction_kind: PredictionKind, machine_spec: MachineSpec) -> Calibration:
    calibrated = isinstance(prediction_kind, Classes) and prediction_kind.scheme in SCHEMES
    if not calibrated or not machine_spec.calibrated_on:
        refuse(f"it has probabilities of decision values, which a {machine_spec.machine} does not have")
    assert isinstance(prediction_kind, Classes)
    try:
        calibration = read_calibration(
            entry, prediction_kind.scheme, len(prediction_kind.labels), prediction_kind.n_parts
        )
    except (ValueError, TypeError, KeyError) as error:
        refuse(f"its calibration is invalid: {type(error).__name__}: {error}")
    if calibration.fitted_on not in [FITTED_ON[values] for values in machine_spec.calibrated_on]:
        refuse(f"it has probabilities of {calibration.fitted_on}, which a {machine_spec.machine} does not have")
    return calibration


def _support(arrays: dict[str, np.ndarray], n: int, p: int) -> np.ndarray | sparse.csr_array:
    data = arrays["support_data"]
    if not SPARSE_ONLY & arrays.keys():
        if data.shape != (n, p):
            refuse(f"its support vectors have shape {data.shape}, which should be {(n, p)}")
        return data
    indices, indptr = arrays["support_indices"], arrays["support_indptr"]
    check_vector(indices, "support_indices", 0, p)
    rising = indptr.shape == (n + 1,) and indptr[0] == 0 and indptr[-1] == len(data) and (np.diff(indptr) >= 0).all()
    if data.ndim != 1 or len(indices) != len(data) or not rising:
        refuse("its sparse support vectors are inconsistent")
    matrix = sparse.csr_array((data, indices, indptr), shape=(n, p))
    if not matrix.has_canonical_format:
        refuse("its sparse support vectors are not sorted")
    return matrix


def _parts(
    entries: list[dict[str, Any]],
    arrays: dict[str, np.ndarray],
    n_machines: int,
    machine_spec: MachineSpec,
    n_support: int,
) -> list[Part]:
    # The entries are read before any array per pair of classes is made, so that a short file cannot use much memory.
    machines = [
        (
            real(entry["bias"], "bias", True),
            _half_width(entry["half_width"], machine_spec),
            read_claim(entry["certificate"], machine_spec, has_one=number == 0 or not machine_spec.is_whole),
        )
        for number, entry in enumerate(entries)
    ]
    starts, support, beta = arrays["part_starts"], arrays["part_support"], arrays["part_beta"]
    multipliers = arrays.get("part_multipliers")
    if (multipliers is not None) is not machine_spec.has_multipliers:
        refuse(f"it has multipliers, or lacks them, which does not fit a {machine_spec.machine}")
    if multipliers is not None and multipliers.shape != beta.shape:
        refuse("its multipliers and coefficients differ in number")
    duals = arrays.get("part_duals")
    if (duals is not None) is not machine_spec.has_duals and not (duals is None and machine_spec.derives_duals):
        refuse(f"it has dual coefficients, or lacks them, which does not fit a {machine_spec.machine}")
    if duals is not None and duals.shape != (n_machines, len(arrays["training_rows"])):
        refuse("it should hold a dual coefficient for each machine and training row")
    rising = starts.shape == (n_machines + 1,) and starts[0] == 0 and starts[-1] == len(beta)
    if len(machines) != n_machines or not rising or (np.diff(starts) < 0).any() or support.shape != beta.shape:
        refuse(f"it should hold {n_machines} machines, one for each pair of classes or each class")
    if n_support * n_machines > MAX_COEFFICIENTS:
        refuse(f"it has {n_support} support vectors of {n_machines} machines, more than can be computed with")
    check_vector(support, "part_support", 0, n_support)
    asked_for = [
        (certificate.tol, getattr(certificate, "tol_gap", None))
        for *_, certificate in machines
        if hasattr(certificate, "tol")
    ]
    if len(set(asked_for)) > 1:
        refuse("its machines claim to have been solved to different tolerances")
    parts = []
    for number, machine in enumerate(machines):
        variables = slice(starts[number], starts[number + 1])
        _check_variables(support[variables], beta[variables], machine_spec)
        part = Part(
            support[variables],
            beta[variables],
            *machine,
            None if multipliers is None else multipliers[variables],
            None if duals is None else duals[number],
        )
        if (
            not max(abs(part.bias), *np.abs(part.beta), 0.0) / (part.divisor if machine_spec.is_scaled else 1.0)
            < MAX_TARGET
        ):
            refuse(
                "a machine has a coefficient or a bias too large to compute with, or a margin too small to divide by"
            )
        parts.append(part)
    return parts


def _half_width(value: object, machine_spec: MachineSpec) -> float | None:
    if (value is None) is machine_spec.has_width:
        refuse(f"its half_width is {value!r}, which does not fit a {machine_spec.machine}")
    return None if value is None else real(value, "half_width", True)


def _check_variables(support: np.ndarray, beta: np.ndarray, machine_spec: MachineSpec) -> None:
    """Check that rows ascend; for two-sided machines, rows of positive variables first, then rows of negative ones."""
    sides = [support[beta > 0.0], support[beta <= 0.0]] if machine_spec.is_two_sided else [support]
    if any((np.diff(side) <= 0).any() for side in sides):
        refuse("a machine lists a support vector twice")


def _training(
    manifest: dict[str, Any], arrays: dict[str, np.ndarray], prediction_kind: PredictionKind, machine_spec: MachineSpec
) -> Training:
    class_weight, sample_weight = arrays.get("class_weight"), arrays.get("sample_weight")
    if (class_weight is None) is isinstance(prediction_kind, Classes):
        refuse("it should hold class weights if there are classes, and no class weights otherwise")
    n_classes = len(prediction_kind.labels) if isinstance(prediction_kind, Classes) else 0
    if class_weight is not None and (class_weight.shape != (n_classes,) or not (class_weight > 0).all()):
        refuse("the class weights must be positive, one weight a class")
    n = len(arrays["training_rows"])
    if sample_weight is not None and (sample_weight.shape != (n,) or not (sample_weight > 0).all()):
        refuse("the sample weights must be positive, one a training row")
    C = getattr(machine_spec, "C", 1.0)
    largest = max(1.0, C) if math.isfinite(C) else 1.0
    for weights in (class_weight, sample_weight):
        largest *= 1.0 if weights is None else float(weights.max())
    if not math.isfinite(2.0 * n * largest):
        refuse("C times the weights, of all rows together, is beyond what float64 can hold")
    column = manifest.get("weight_column")  # only there if there is one
    if column is not None and sample_weight is None and "n_streamed" not in manifest:
        refuse(f"its column of weights is {column!r}, which cannot be")
    return Training(
        arrays["training_rows"],
        text(manifest["checksum"], "checksum"),
        class_weight,
        sample_weight,
        None if column is None else text(column, "weight_column"),
        manifest.get("n_streamed"),
    )
