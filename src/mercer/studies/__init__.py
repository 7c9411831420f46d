"""A whole study on a table: its protocol, search, report and command line; what `mercer.study` and `doctor` return."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

# Imported when they are first used: the commands import this package, and `mercer --help` does not wait for studies.
if TYPE_CHECKING:
    from mercer.studies.doctor import TableReport as TableReport
    from mercer.studies.result import Study as Study
    from mercer.studies.sealed_study import SealedStudy as SealedStudy
else:
    _HOMES = {"TableReport": "doctor", "Study": "result", "SealedStudy": "sealed_study"}

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'mercer.studies' has no attribute {name!r}")
        return getattr(_import_module(f"mercer.studies.{_HOMES[name]}"), name)
