"""What the figures were measured with, without the machine's name, and what else it was busy with."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = (
    *("mercer", "scikit-learn", "scikit-learn-intelex", "daal", "libsvm-official", "numpy", "scipy"),
    *("liblinear-official", "snapml", "skglm", "celer", "rdkit"),
)


def describe(threads: int) -> dict[str, Any]:
    """Return versions, processor, memory, instruction set and a hash of mercer as it is installed."""
    from mercer.kernels.instruction_set import select_isa

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


def described(facts: dict[str, Any]) -> str:
    """Return processor, cores and versions as a line of a page has them."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return f"{facts['processor']}, {facts['cores']} cores; {versions}"


def described_build(facts: dict[str, Any]) -> str:
    """Return the hash of the installed package, and that it is one: it looks like a commit."""
    return f"files of the package: {facts['build']} (a hash of them, no commit)"


def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


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


class ProgressMonitor:
    """Notices what else the machine does while a race is on."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._began = time.perf_counter()
        self._busy, self._ours = _busy_seconds(), _our_seconds()

    def report(self) -> dict[str, Any]:
        """Return the load average at the start, and the processors that others kept busy on average since."""
        seconds = time.perf_counter() - self._began
        others = None
        if self._busy is not None:
            busy = _busy_seconds()
            assert busy is not None
            others = max(0.0, busy - self._busy - (_our_seconds() - self._ours)) / seconds
        return {"load_average": self._load, "others_busy": others, "race_seconds": seconds}


def _busy_seconds() -> float | None:
    """Processor time that the machine has spent on anything, time stolen by its host included; None if unknown."""
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return None
    ticks = [int(word) for word in statistics.read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _waiting, irq, soft_irq, steal = ticks
    return (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")


def _our_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
