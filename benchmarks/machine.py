"""What the figures were measured with: versions and machine, without its name."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("mercer", "scikit-learn", "scikit-learn-intelex", "daal", "libsvm-official", "numpy", "scipy")


def describe(threads: int) -> dict[str, Any]:
    """Return versions, processor, memory, instruction set and a hash of mercer as it is installed."""
    from mercer.backends.native import select_isa

    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "isa": select_isa(),
        "threads": threads,
        "build": _build(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if not listing.exists():
        return platform.processor() or "unknown"
    facts: dict[str, str] = {}
    for line in listing.read_text().splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", "unknown")
    if "cpu family" in facts:  # virtual machines often hide the model behind a bare brand
        name += f" (family {facts['cpu family']}, model {facts.get('model', '?')})"
    return name


def _build() -> str:
    """A hash of the installed package, so that results of different builds are never mixed."""
    import mercer

    digest = hashlib.sha256()
    root = Path(mercer.__file__).parent
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".so"):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
