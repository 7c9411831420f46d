"""One self-contained HTML page about a study; needs the extra ``mercer[study]``."""

from mercer.report.page import render, write_report

__all__ = ["render", "write_report"]
