"""Model files: an uncompressed zip archive of plain numbers; loading an untrusted file is safe.

The format is described in ``docs/reference/model-file.md``. Nothing in a file is executed. Arrays are read as plain
bytes, and everything else is JSON. A file that does not match its checksums or the format is refused.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

from mercer.data import listing
from mercer.data.files import NotOwnFileError, check_kind
from mercer.studies.files.file_formats import similar_names
from mercer.studies.models import archive
from mercer.studies.models.manifest import arrays_of, manifest_of, model_of, parsed
from mercer.studies.models.model import Model
from mercer.studies.models.pipeline_steps import PIPELINE, described, parts_to_save, pipeline_of, steps_of
from mercer.studies.models.refusals import ModelFileError as ModelFileError


def save_model(path: str | Path, model: Any) -> None:
    """Write what was trained to a file; the file is complete or not written at all.

    Parameters
    ----------
    path : str or Path
        An existing file is replaced when the new one is complete.
    model : Model, fitted machine, pipeline or search
        A model of a study or of `fit_model`; a fitted machine of mercer, such as an `SVC`; a fitted `Pipeline` of
        scikit-learn of known transformers (scalers, encoders, imputers, vectorizers of text, a `ColumnTransformer` of
        these, ...: see docs/reference/model-file.md) that ends with such a machine; or a fitted search, whose
        `best_estimator_` is written. Training rows are not needed. With those of `fit_model`, or of
        ``as_model(machine, X, y)``, `mercer verify` can check the file with their table.

    Raises
    ------
    ValueError
        If the kernel (a Python function), a row or a machine cannot be written, the manifest would be too large to
        read, or the file could not be loaded. This is tested in memory first.
    TypeError
        If `model` is of another kind, or a step of a pipeline is not a known transformer.
    NotFittedError
        If the machine is not fitted.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> from mercer import SVC, load_model, save_model
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    >>> save_model("iris.mercer", pipeline)
    >>> bool((load_model("iris.mercer").predict(X) == pipeline.predict(X)).all())
    True
    """
    if not isinstance(path, str | Path):
        raise TypeError(f"path must be the name of a file, got {type(path).__name__}: write save_model(path, model)")
    steps, model = parts_to_save(model)
    manifest = manifest_of(model) | ({PIPELINE: described(steps)} if steps else {})
    text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    members = {archive.MANIFEST: text.encode()} | {
        f"{name}.npy": archive.npy(array) for name, array in arrays_of(model).items()
    }
    if len(members[archive.MANIFEST]) > archive.MAX_MANIFEST_BYTES:
        raise ValueError(
            f"the manifest of this model would be larger than {archive.MAX_MANIFEST_BYTES >> 20} MiB, the most that is "
            f"ever read: it has {len(model.parts)} machines, {model.encoder.n_features_} features and "
            f"{model.support_vectors.n} support vectors, and lists those that are not numbers, and the rows that a "
            "kernel is centred on. Keep it by pickle, or train it on fewer rows"
        )
    try:
        _content(dict(members))
    except Exception as error:
        raise ModelFileError(f"this model cannot be written, as its file could not be read again: {error}") from error
    archive.write_members(path, members)


def load_model(path: str | Path) -> Any:
    """Read a model file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Model or Pipeline
        A fitted estimator of scikit-learn, with `predict`, `score` and, for classes, `decision_function`, `classes_`
        and (if it has probabilities) `predict_proba`. A file of a pipeline is a `Pipeline` of scikit-learn whose last
        step is a `Model`.

    Raises
    ------
    ModelFileError
        If the file does not exist, is not a model file, has another version, is truncated, damaged, edited, compressed
        or inconsistent, or has numbers that are not finite.

    Warns
    -----
    UserWarning
        If a pipeline was written with another version of scikit-learn.
    """
    steps, model = _read(path)
    return pipeline_of(steps, model) if steps else model


def load_table_model(path: str | Path) -> Model:
    """Read a model file that holds no pipeline, but a model of the columns of a table.

    Raises
    ------
    ModelFileError
        As `load_model`; also for a pipeline.
    """
    steps, model = _read(path)
    if steps:
        names = listing([type(step).__name__ for _, step in steps])
        raise ModelFileError(
            f"{path} holds a pipeline with {names}, which Python reads by mercer.load_model; commands take models of "
            "tables, such as those of mercer study and mercer fit"
        )
    return model


def _content(members: dict[str, bytes]) -> tuple[list[tuple[str, Any]], Model]:
    """Return the transformers and the model that the members of a file describe."""
    manifest, arrays = parsed(members)
    steps = steps_of(manifest.pop(PIPELINE)) if PIPELINE in manifest else []
    return steps, model_of(manifest, arrays)


def _read(path: str | Path) -> tuple[list[tuple[str, Any]], Model]:
    try:
        check_kind(os.stat(path).st_mode, path)  # opening a pipe would wait
        with zipfile.ZipFile(path) as file:
            return _content(archive.read_members(file, os.path.getsize(path)))
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except NotOwnFileError as error:
        raise ModelFileError(f"{path} is not a model file: {error.strerror}") from None
    except IsADirectoryError:
        inside = Path(path) / "model.mercer"
        hint = f"; did you mean {inside}?" if inside.exists() else ""
        raise ModelFileError(f"{path} is a folder, not a model file{hint}") from None
    except FileNotFoundError:
        near = similar_names(Path(path))
        raise ModelFileError(f"{path} does not exist" + (f"; {near}" if near else "")) from None
    except zipfile.BadZipFile as error:
        raise ModelFileError(
            f"{path} is not a model file, or is truncated or damaged ({error}): copy it again, or save the model again"
        ) from error
    except Exception as error:
        # Damage can cause almost any exception in zipfile, json or NumPy; the caller gets one type of error.
        raise ModelFileError(f"{path} is not a model file, or is damaged: {type(error).__name__}: {error}") from error
