"""The options of `mercer fit` that set a machine; `machines.py` says which machine has which of them."""

from __future__ import annotations

from typing import Any

import click

from mercer.studies.cli.kernel_option import KERNELS, KernelText
from mercer.studies.cli.machines import MACHINES, STREAMED
from mercer.studies.cli.options import (
    AnyNumber,
    Approximation,
    Command,
    Integer,
    Number,
    class_weight_option,
    cost_option,
    positive,
)


class _Penalty(click.ParamType):
    """The name of a norm, or a positive number."""

    name = "l1|l2|number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name or the number."""
        if value in ("l1", "l2"):
            return value
        try:
            return positive.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither l1 nor l2 nor a number > 0.", param, ctx)


_OPTIONS = (
    click.option(
        "--machine",
        metavar="NAME",
        type=click.Choice(list(MACHINES)),
        help=f"What to train: {', '.join(MACHINES)}. The last two need no --target.  [default: svc or svr, by the "
        "task; with --linear linear-svc or linear-svr]",
    ),
    click.option(
        "--linear",
        is_flag=True,
        help="Train a linear machine on a TABLE that may be larger than memory: CSV, Parquet or svmlight. It is "
        f"{', '.join(STREAMED)}.",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="Train on a TABLE that may be larger than memory, with so much memory for the fit: a linear machine with "
        "--linear  [default: 500MB], and otherwise svc, svr or one-class, whose support vectors must fit, unless they "
        "are landmarks.",
    ),
    click.option(
        "--cache",
        metavar="FOLDER",
        help="With --linear or --memory: folder for the parsed table  [default: TABLE.blocks, it is kept]",
    ),
    click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Train a linear machine (see --linear) on the workers of the Dask scheduler at this address, such as "
        "tcp://10.0.0.1:8786. TABLEs and folders of blocks must be on a disk that all workers share.",
    ),
    click.option(
        "--scale/--no-scale",
        default=None,
        help="With --linear or --memory: standardise columns of numbers, or use them as they are  [default: --scale; "
        "svmlight is never scaled]. All other machines standardise them.",
    ),
    click.option(
        "--kernel",
        type=KernelText(KERNELS),
        default="rbf",
        show_default=True,
        help='Its name, or a text such as "Spectrum(3) on seq + RBF on rest": kernels of the library with their '
        "arguments, the columns that each one reads, and signs between them.",
    ),
    click.option(
        "--C", "C", type=Number(min=0, min_open=True), help="Penalty; inf is the maximal margin  [default: 1]"
    ),
    click.option(
        "--nu",
        type=Number(0, 1, min_open=True),
        default=0.5,
        show_default=True,
        help="Of the nu machines and one-class: about the share of support vectors.",
    ),
    click.option(
        "--epsilon",
        type=Number(min=0),
        default=0.1,
        show_default=True,
        help="Regression: half of the tube's width, in standard deviations of the target, as is the unit of --C.",
    ),
    click.option(
        "--quantile",
        type=Number(0, 1, min_open=True, max_open=True),
        default=0.5,
        show_default=True,
        help="The share of rows below the predicted number.",
    ),
    click.option(
        "--contamination",
        type=Number(0, 0.5, min_open=True),
        help="One-class: the share of training rows to leave outside, instead of --nu.",
    ),
    click.option("--alpha", type=Number(min=0), help="Penalty of ridge [default: 1] and least-squares [default: 0]."),
    click.option(
        "--prior-variance",
        type=positive,
        help="Of the logistic machines: larger is freer; linear-logistic has --C as another name.  [default: 1]",
    ),
    click.option(
        "--loss",
        type=click.Choice(["hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive"]),
        help="Of linear-svc [default: squared_hinge] and linear-svr [default: epsilon_insensitive].",
    ),
    click.option(
        "--penalty",
        type=_Penalty(),
        help="Of the linear machines: l2, or l1, which makes many weights exactly 0  [default: l2]. Of gradient-svc: a "
        "number  [default: 1]",
    ),
    click.option(
        "--bias",
        type=click.Choice(["penalised", "free", "none"]),
        help="Whether the penalty of a linear machine counts its bias; none: it has no bias  [default: penalised; "
        "linear-logistic: free]",
    ),
    click.option(
        "--intercept-scaling",
        type=positive,
        help="A larger one penalises a penalised bias less.  [default: 1]",
    ),
    click.option("--neighbors", type=Integer(min=1), default=5, show_default=True, help="How many rows vote."),
    click.option("--components", type=Integer(min=1), default=100, show_default=True, help="Centres of rbf-network."),
    click.option(
        "--passes", type=Integer(min=1), default=1000, show_default=True, help="Most passes of the perceptron."
    ),
    click.option(
        "--gamma", default="scale", show_default=True, help="A number, scale or auto; for rbf, median or sigest."
    ),
    click.option("--degree", type=Integer(min=1), default=3, show_default=True, help="Of the polynomial kernel."),
    click.option(
        "--coef0", type=AnyNumber(), default=0.0, show_default=True, help="Of the polynomial and sigmoid kernels."
    ),
    click.option(
        "--multi-class",
        type=click.Choice(["ovo", "ovr", "joint"]),
        help="Of several classes: a machine for each pair, one for each against the rest, or one for all (svc and the "
        "linear machines)  [default: ovo; linear-svc and --linear: ovr; linear-logistic: joint]",
    ),
    click.option(
        "--approximation",
        type=Approximation(),
        help="Of svc, svr and one-class: train an approximate machine. landmarks is a sum over 1000 rows, or over this "
        "number of them, and says how far it is from the exact machine. cells divides the rows into cells of "
        "neighbours, of at most this number of rows, each with an exact machine. auto chooses by a pilot whether it is "
        "exact.",
    ),
    class_weight_option,
    cost_option,
    click.option("--probability", is_flag=True, help="Classification: know the probability of each class, too."),
    click.option("--weights", metavar="COLUMN", help="Column that says how often each row counts; 0 leaves a row out."),
    click.option(
        "--tol",
        type=positive,
        help="Largest KKT violation  [default: 0.001, less for the logistic machines]. Of linear-svc, linear-svr and "
        "with --linear another name of --tol-gap.",
    ),
    click.option(
        "--tol-gap",
        type=positive,
        help="Largest relative duality gap  [default: 0.0001 for linear machines, else whatever --tol leaves]",
    ),
)


def machine_options(command: Command) -> Command:
    """Add the options that set a machine."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
