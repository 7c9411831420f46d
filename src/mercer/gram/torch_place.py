"""Namespaces of array-api-compat, and the devices of torch: only this module imports them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def namespace(library: str = "torch") -> Any:
    """Return a library, torch or cupy, in the names of the array API standard.

    Raises
    ------
    ImportError
        If the library or array-api-compat is not installed.
    """
    try:
        return import_module(f"array_api_compat.{library}")
    except ImportError as error:
        extra = "mercer[torch]" if library == "torch" else "array-api-compat"
        raise ImportError(
            f"arrays of {library} and devices need a package that is not installed ({error}): pip install '{extra}'."
        ) from error


def device_of(name: str) -> Any:
    """Return a device of torch by its name, such as "cuda"; see :func:`mercer.gram.places.to_device`."""
    xp = namespace()
    try:
        device = xp.device(name)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device must be the name of a device of torch, such as 'cpu' or 'cuda', got {name!r}."
        ) from error
    try:
        xp.zeros(1, dtype=xp.float64, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={name!r} cannot compute in float64 on this machine ({reason}). Nothing was computed elsewhere "
            "instead: take device='cpu', or a machine that has this device and a torch that was built for it."
        ) from error
    return device
