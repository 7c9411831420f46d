"""Kernel machines that are exact, fast and certified."""

import re as _re
from importlib import import_module as _import_module
from pathlib import Path as _Path

# The stub lists every public name once. A name is imported when it is first used: `mercer --help` does not wait for
# NumPy, SciPy and scikit-learn.
_STUB = _Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: home for home, name in _re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, _re.MULTILINE)}
_MODULES = tuple(name for name, home in _HOMES.items() if home == "mercer")
__all__ = [name for name in _HOMES if name not in _MODULES]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _import_module(f"mercer.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}{_whereabouts(name)}")
    value = globals()[name] = getattr(_import_module(_HOMES[name]), name)
    return value


def _whereabouts(name: str) -> str:
    """Return where a name is that `mercer.kernels` has and `mercer` has not, as the end of a sentence."""
    if name.startswith("_") or name not in _import_module("mercer.kernels").__all__:
        return ""
    return f": it is in mercer.kernels (from mercer.kernels import {name})"


def __dir__() -> list[str]:
    return sorted(__all__)
