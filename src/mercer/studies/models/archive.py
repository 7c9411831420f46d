"""The archive format of model files: uncompressed members, checksums, and arrays of plain numbers."""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
from pathlib import Path

import numpy as np

from mercer.data import listing
from mercer.data.files import open_atomically
from mercer.studies.models.refusals import refuse

MAX_MANIFEST_BYTES = 64 << 20  # largest manifest that is read, 64 MiB

MANIFEST = "manifest.json"
FORMAT = "mercer model"
CHECKSUMS = "SHA256SUMS"
DTYPES = {"<f8": np.dtype("<f8"), "<i8": np.dtype("<i8")}
CELL_ARRAYS = {
    "tree_places": "<i8",
    "tree_weights": "<f8",
    "tree_edges": "<i8",
    "tree_thresholds": "<f8",
    "tree_sides": "<i8",
    "cell_home": "<i8",
    "cell_starts": "<i8",
    "cell_rows": "<i8",
    "cell_classes": "<i8",
    "cell_codes": "<i8",
}
"""Arrays of a machine that is approximated by cells, in the order of the fields of its `CellLayout`."""

ARRAYS = {
    "training_rows": "<i8",
    "support_rows": "<i8",
    "part_starts": "<i8",
    "part_support": "<i8",
    "part_beta": "<f8",
    "part_multipliers": "<f8",
    "part_duals": "<f8",
    "support_data": "<f8",
    "support_indices": "<i8",
    "support_indptr": "<i8",
    "class_weight": "<f8",
    "sample_weight": "<f8",
    **CELL_ARRAYS,
}
SPARSE_ONLY = {"support_indices", "support_indptr"}
_OPTIONAL = SPARSE_ONLY | {"class_weight", "sample_weight", "part_multipliers", "part_duals", *CELL_ARRAYS}
_ALLOWED = {CHECKSUMS, MANIFEST, *(f"{name}.npy" for name in ARRAYS)}
_REQUIRED = _ALLOWED - {f"{name}.npy" for name in _OPTIONAL}


def is_model_start(start: bytes) -> bool:
    """Whether these first bytes of a file, at least a few hundred, are those of a model file."""
    return start.startswith(b"PK\x03\x04") and start[30:].startswith(
        f'{MANIFEST}{{\n "format": "{FORMAT}"'.encode()  # the name of the first member begins at byte 30
    )


def write_members(path: str | Path, members: dict[str, bytes]) -> None:
    """Write a file with these members and their checksums; the file is complete or not written at all."""
    with open_atomically(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in (members | {CHECKSUMS: _checksums(members)}).items():
            archive.writestr(_member(name), data)


def npy(array: np.ndarray) -> bytes:
    """Return an array as the bytes of a .npy member."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    """Return a member with a fixed date, so that the same model gives the same bytes."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _checksums(members: dict[str, bytes]) -> bytes:
    """Return the checksum file, one line per member, in the format of `sha256sum`."""
    return "".join(f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members)).encode()


def read_members(archive: zipfile.ZipFile, file_bytes: int) -> dict[str, bytes]:
    """Return all members except the checksums, after checks of their sizes and checksums."""
    infos = {info.filename: info for info in archive.infolist()}
    if len(infos) != len(archive.infolist()) or not _REQUIRED <= infos.keys() <= _ALLOWED:
        refuse("its members are not those of a model file")
    if any(info.compress_type != zipfile.ZIP_STORED for info in infos.values()):
        refuse("its members are compressed, which model files never are")
    if sum(info.file_size for info in infos.values()) > file_bytes:
        refuse("its members claim to be larger than the file")
    if infos[MANIFEST].file_size > MAX_MANIFEST_BYTES:
        refuse(f"its manifest is larger than {MAX_MANIFEST_BYTES >> 20} MiB")
    members = {name: archive.read(name) for name in infos}
    _check_sums(members.pop(CHECKSUMS), members)
    return members


def _check_sums(recorded: bytes, members: dict[str, bytes]) -> None:
    if recorded == _checksums(members):
        return
    lines = set(recorded.splitlines())
    changed = [name for name in sorted(members) if _checksums({name: members[name]}).strip() not in lines]
    refuse(f"the file was damaged or edited: checksums do not fit {listing(changed or [CHECKSUMS])}")


def read_array(name: str, data: bytes) -> np.ndarray:
    """Return the array of a member; refuse it if it does not have the type that belongs to its name."""
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        refuse(f"array {name!r} is of an unknown .npy version")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer, max_header_size=4096)
    if dtype.str != ARRAYS[name] or fortran or len(shape) > 2:
        refuse(f"array {name!r} is not of the type that it should be")
    if len(data) - buffer.tell() != math.prod(shape) * dtype.itemsize:
        refuse(f"array {name!r} does not have as many numbers as its shape says")
    array = np.frombuffer(data, dtype, offset=buffer.tell()).reshape(shape).astype(dtype.newbyteorder("="))
    if not np.isfinite(array).all():
        refuse(f"array {name!r} holds NaN or infinity")
    return array
