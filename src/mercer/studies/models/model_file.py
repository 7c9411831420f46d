"""Model files: an uncompressed zip archive of plain numbers; loading an untrusted file is safe.

The format is described in ``docs/reference/model-file.md``. Nothing in a file is executed. Arrays are read as plain
bytes, and everything else is JSON. A file that does not match its checksums or the format is refused.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

from mercer.studies.files.file_formats import similar_names
from mercer.studies.files.own_files import NotOwnFileError, check_kind
from mercer.studies.models import archive
from mercer.studies.models.manifest import arrays_of, manifest_of, model_of, parsed
from mercer.studies.models.model import Model
from mercer.studies.models.refusals import ModelFileError as ModelFileError


def save_model(path: str | Path, model: Model) -> None:
    """Write a model to a file; the file is complete or not written at all.

    Parameters
    ----------
    path : str or Path
        An existing file is replaced when the new one is complete.
    model : Model
        Its kernel must not contain a Python function.

    Raises
    ------
    ValueError
        If the kernel cannot be written, the manifest would be too large to read, or the file could not be loaded. This
        is tested in memory first.
    TypeError
        If `model` is not a Model, for instance a machine.
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
    text = json.dumps(manifest_of(model), indent=1, ensure_ascii=False, allow_nan=False)
    members = {archive.MANIFEST: text.encode()} | {
        f"{name}.npy": archive.npy(array) for name, array in arrays_of(model).items()
    }
    if len(members[archive.MANIFEST]) > archive.MAX_MANIFEST_BYTES:
        raise ValueError(
            f"the manifest of this model would be larger than {archive.MAX_MANIFEST_BYTES >> 20} MiB, the most that is "
            f"ever read: it has {len(model.parts)} machines and {model.encoder.n_features_} features"
        )
    try:
        model_of(*parsed(dict(members)))
    except Exception as error:
        raise ModelFileError(f"this model cannot be written, as its file could not be read again: {error}") from error
    archive.write_members(path, members)


def load_model(path: str | Path) -> Model:
    """Read a model file.

    Raises
    ------
    ModelFileError
        If the file does not exist, is not a model file, has another version, is truncated, damaged, edited, compressed
        or inconsistent, or has numbers that are not finite.
    """
    try:
        check_kind(os.stat(path).st_mode, path)  # opening a pipe would wait
        with zipfile.ZipFile(path) as file:
            return model_of(*parsed(archive.read_members(file, os.path.getsize(path))))
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
