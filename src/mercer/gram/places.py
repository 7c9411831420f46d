"""Where arrays are: a library that follows the array API standard, and one of its devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Place:
    """A namespace of arrays and one of its devices, on which results are computed.

    Attributes
    ----------
    xp : module
        The namespace, by the array API standard.
    device : object
        One of its devices.
    """

    xp: Any
    device: Any

    @property
    def name(self) -> str:
        """The library and the device, for messages."""
        return f"{self.xp.__name__.removeprefix('array_api_compat.')}, device {str(self.device)!r}"

    def put(self, values: Any) -> Any:
        """Return a copy of a NumPy array here: float64, or int64 for whole numbers, or bool."""
        kind = np.asarray(values).dtype.kind
        name = {"i": "int64", "u": "int64", "b": "bool"}.get(kind, "float64")
        copied = np.array(values, dtype=name, order="C")
        return self.xp.asarray(copied, dtype=getattr(self.xp, name), device=self.device)


def place_of(array: Any) -> Place:
    """Return where an array is.

    Raises
    ------
    TypeError
        If the library of the array does not follow the array API standard.
    """
    library = library_of(array)
    if library in _BY_ANOTHER_PACKAGE:
        from mercer.gram.torch_place import namespace

        return Place(namespace(library), array.device)
    if not hasattr(array, "__array_namespace__"):
        raise TypeError(
            f"a {type(array).__name__} does not follow the array API standard: give a NumPy array, or an array of a "
            "library that does, such as a torch tensor."
        )
    return Place(array.__array_namespace__(), array.device)


def library_of(array: Any) -> str:
    """Return the package that defines the type of an array, such as "torch"; it is not imported for the answer."""
    return type(array).__module__.partition(".")[0]


def to_device(X: Any, device: str) -> Any:
    """Copy a table of numbers to a device, as a torch tensor: machines then predict there.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Numbers; float64 on the device.
    device : str
        A device of torch: "cpu", "cuda", or "cuda:1" for the second one.

    Returns
    -------
    torch.Tensor of shape (n, p)

    Raises
    ------
    ImportError
        If torch is not installed: ``pip install 'mercer[torch]'``.
    ValueError
        If `device` is not the name of a device, or this machine has no such device. No other one is used instead.
    TypeError
        If `X` is sparse, or holds text or sets.
    """
    values = X if isinstance(X, np.ndarray) else _table(X)
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"a device computes with tables of numbers, but X has the type {values.dtype}: strings, sets and other "
            "objects stay on the host."
        )
    from mercer.gram.torch_place import device_of, namespace

    return Place(namespace(), device_of(device)).put(values.astype(np.float64, copy=False))


def _table(X: Any) -> Any:
    if hasattr(X, "tocsr"):
        raise TypeError("a device computes with dense rows, but X is sparse: give X.toarray(), or stay on the host.")
    return np.asarray(X)


def to_host(array: Any) -> npt.NDArray[Any]:
    """Copy an array from its device to the host, as a NumPy array.

    Parameters
    ----------
    array : array of a library that follows the array API standard, or torch.Tensor

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError
        If `array` is no such array, or its library cannot copy it to the host.
    """
    if isinstance(array, np.ndarray):
        return array
    copy = _TO_HOST.get(library_of(array))
    if copy is not None:
        return np.asarray(copy(array))
    place = place_of(array)
    try:
        return np.asarray(np.from_dlpack(array, device="cpu"))
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"an array of {place.name} cannot be copied to the host ({error}): copy it by its own library, and give a "
            "NumPy array."
        ) from error


def is_on_host(array: Any) -> bool:
    """Whether an array of another library is in the memory of the host, so that NumPy can read it.

    It is asked for its device by the DLPack protocol. The default device of its library does not matter.
    """
    if library_of(array) == _PRETENDS:
        return bool(array.device == _default_device(array))
    try:
        return int(array.__dlpack_device__()[0]) in _HOST_MEMORY
    except AttributeError:  # an array before DLPack
        return str(getattr(array, "device", "cpu")) == "cpu"
    except (BufferError, RuntimeError, TypeError, ValueError):  # a device that DLPack does not know, or several
        return False


def _default_device(array: Any) -> Any:
    return array.__array_namespace__().__array_namespace_info__().default_device()


_BY_ANOTHER_PACKAGE = ("torch", "cupy")
"""Libraries whose names in the array API standard array-api-compat gives."""

_PRETENDS = "array_api_strict"
"""Its devices are all in the memory of the host, but NumPy can read arrays of the default one alone."""

_HOST_MEMORY = (1, 3, 11)  # DLPack's kDLCPU, kDLCUDAHost and kDLROCMHost

_TO_HOST: dict[str, Callable[[Any], Any]] = {
    "torch": lambda array: array.detach().cpu().numpy(),
    "cupy": lambda array: array.get(),
    "jaxlib": np.asarray,  # a transfer, in JAX, that need not be asked for
    "jax": np.asarray,
    _PRETENDS: lambda array: array.to_device(_default_device(array)),
}
"""Copies of arrays to the host, by library."""
