"""The option --kernel of `mercer fit`: the name of a kernel, or a text such as "Spectrum(3) on seq + RBF on rest"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mercer.studies.cli.imports import ended_by_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer.data import Table
    from mercer.kernels import Kernel

KERNELS = ("linear", "poly", "rbf", "sigmoid")
"""The kernels whose parameters are options."""


class KernelText(click.ParamType):
    """One of some names, or a text that describes a kernel."""

    name = "kernel"

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the names, and that a text is possible."""
        del param, ctx
        return f"[{'|'.join(self.names)}|TEXT]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of the kernel if it is one of these, otherwise the text; refuse a text that is no kernel."""
        text = str(value)
        if text in self.names:
            return text
        with ended_by_ctrl_c():
            from mercer.kernels import as_kernel
        try:
            kernel = as_kernel(text)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        return next((name for name in self.names if as_kernel(name) == kernel), text)


def columns_for(kernel: str, rows: Table, target: str | None, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the options of columns with those that the kernel reads: named ones are used, whatever they look like."""
    asked = _cell_kernel(kernel, rows, target, columns["drop"])
    if asked is None:
        return columns
    from mercer.kernels import as_kernel
    from mercer.studies.models import cell_columns, named_columns

    raw = cell_columns(asked)
    read_by_it = {name for _, names in asked.named_columns for name in names}
    others = [name for name in rows.names if name not in read_by_it and name != target]
    return columns | {
        "drop": tuple(dict.fromkeys([*columns["drop"], *others])),
        "keep": tuple(dict.fromkeys([*columns["keep"], *named_columns(as_kernel(kernel))])),
        "cells": raw,
    }


def only_compared(kernel: str, rows: Table, target: str | None, drop: Sequence[str]) -> set[str]:
    """Return the columns that the kernel only compares, in which missing cells are not filled in."""
    from mercer.studies.models import compared_columns

    asked = _cell_kernel(kernel, rows, target, drop)
    return set() if asked is None else compared_columns(asked)


def _cell_kernel(kernel: str, rows: Table, target: str | None, drop: Sequence[str]) -> Kernel | None:
    if kernel in KERNELS:
        return None
    from mercer.studies.models import cell_kernel

    return cell_kernel(kernel, rows.without([name for name in drop if name in rows]), target)
