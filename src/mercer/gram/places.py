"""Where arrays are: a library that follows the array API standard, and one of its devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import FloatArray


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
        return f"{self.xp.__name__.rpartition('.')[2]}, device {str(self.device)!r}"

    def put(self, values: Any) -> Any:
        """Return a copy of a NumPy array here: float64, or int64 for whole numbers."""
        kind = np.int64 if np.asarray(values).dtype.kind in "iu" else np.float64
        copied = np.array(values, dtype=kind, order="C")
        return self.xp.asarray(copied, dtype=self._type(copied), device=self.device)

    def _type(self, values: Any) -> Any:
        return self.xp.int64 if values.dtype == np.int64 else self.xp.float64


def place_of(array: Any) -> Place:
    """Return where an array is.

    Raises
    ------
    TypeError
        If the library of the array does not follow the array API standard.
    """
    if is_tensor(array):
        from mercer.gram.torch_place import namespace

        return Place(namespace(), array.device)
    if not hasattr(array, "__array_namespace__"):
        raise TypeError(
            f"a {type(array).__name__} does not follow the array API standard: give a NumPy array, or an array of a "
            "library that does, such as a torch tensor."
        )
    return Place(array.__array_namespace__(), array.device)


def is_tensor(array: Any) -> bool:
    """Whether an array is of torch, which is not imported for the answer."""
    return type(array).__module__.partition(".")[0] == "torch"


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


def to_host(array: Any) -> FloatArray:
    """Copy an array from its device to the host, as a NumPy array.

    Parameters
    ----------
    array : array of a library that follows the array API standard, or torch.Tensor

    Returns
    -------
    ndarray
    """
    if isinstance(array, np.ndarray):
        return array
    place = place_of(array)
    if is_tensor(array):
        return array.detach().cpu().numpy()
    return np.asarray(array.to_device(place.xp.__array_namespace_info__().default_device()))


def is_on_host(array: Any) -> bool:
    """Whether an array of another library is in the memory of the host, so that NumPy can read it."""
    if is_tensor(array):
        return bool(array.device.type == "cpu")
    return bool(array.device == place_of(array).xp.__array_namespace_info__().default_device())
