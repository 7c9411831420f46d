"""Doubts that the examination of a table raises: over tables without a leak, and over tables with a planted one.

``python -m benchmarks.doubts`` counts them over the tables of the folder in MERCER_DATA, over 40 made tables without a
leak, and over ten kinds of planted leaks with 20 seeds each. It prints a line for each doubt and for each missed leak.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse as sp

from benchmarks.datasets import data_folder
from mercer.data import Table, as_table
from mercer.studies.examination import Finding, Kind, Weight, diagnose
from mercer.studies.models import read_table
from mercer.studies.tables import Task, read_target

LEAKS = {Kind.COPY, Kind.PREDICTS_ALONE, Kind.ENCODED, Kind.MISSING_PREDICTS, Kind.FORMULA}
"""What a doubt of a leak is about."""

TARGET = "target"

N_MADE = 40  # tables without a leak
SEEDS = 20  # of each kind of leak

Rng = np.random.Generator
Array = npt.NDArray[Any]


def doubts(table: Table, target: str = TARGET, task: Task = "auto") -> list[Finding]:
    """Return the doubts that `mercer doctor` prints."""
    diagnosis = diagnose(table, read_target(table, target, task))
    return [finding for finding in diagnosis if finding.weight is Weight.DOUBT]


def of_leaks(table: Table, target: str = TARGET, task: Task = "auto") -> list[Finding]:
    """Return the doubts of a leak."""
    return [finding for finding in doubts(table, target, task) if finding.kind in LEAKS]


# --- Tables without a leak.


def _people(n: int, rng: Rng) -> dict[str, Array]:
    """Counts, ratings, shares, amounts and places, some of which have a say in the target."""
    return {
        "days": 1 + rng.poisson(4, n),
        "age": rng.integers(18, 95, n),
        "rating": rng.integers(1, 6, n),
        "share": np.round(rng.beta(2, 5, n), 2),
        "percent": np.round(100 * rng.beta(2, 5, n)),
        "pay": np.round(rng.lognormal(8, 1, n), 2),
        "words": rng.negative_binomial(3, 0.05, n),
        "place": rng.choice(["north", "south", "east", "west"], n),
        "score": rng.normal(size=n),
    }


def made(seed: int) -> pd.DataFrame:
    """Return a table without a leak; the seed decides its size, its task and how much the columns say."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([120, 400, 1500]))
    columns = _people(n, rng)
    rare = float(rng.choice([0.0, 2.0, 4.0]))  # how rare the class is
    logit = 0.15 * columns["days"] + 0.02 * (columns["age"] - 50) + 2.0 * columns["share"] - rare
    logit = logit + rng.choice([0.0, 1.0]) * columns["score"] + (columns["place"] == "north")
    kind = seed % 4
    if kind == 0:
        target: Array = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-logit)), "yes", "no")
    elif kind == 1:
        target = np.digitize(logit + rng.logistic(size=n), [0.0, 2.0]).astype(str)
        target = np.char.add("class ", target)
    elif kind == 2:
        target = np.round(10.0 * logit + rng.normal(scale=8.0, size=n), 1)
    else:
        target = np.round(np.exp(0.4 * logit + 0.5 * rng.normal(size=n)), 2)
    frame = pd.DataFrame(columns)
    # A risk that is known beforehand, from a table of another year: it is right on average, and leaks nothing.
    frame["known risk"] = np.round(1.0 / (1.0 + np.exp(-np.round(logit, 1))), 3)
    for name in ("age", "pay"):
        frame.loc[rng.random(n) < 0.05, name] = np.nan
    return frame.assign(**{TARGET: target})


# --- Planted leaks.


def _classes(seed: int) -> tuple[pd.DataFrame, Array, Rng]:
    frame = made(4 * seed + seed % 2)
    return frame, (frame[TARGET] == frame[TARGET].iloc[0]).to_numpy(), np.random.default_rng([seed, 1])


def _numbers(seed: int) -> tuple[pd.DataFrame, Array, Rng]:
    frame = made(4 * seed + 2 + seed % 2)
    return frame, frame[TARGET].to_numpy(dtype=float), np.random.default_rng([seed, 1])


def _either(seed: int) -> tuple[pd.DataFrame, Array, Rng]:
    return _classes(seed // 2) if seed % 2 else _numbers(seed // 2)


def _copy(seed: int) -> pd.DataFrame:
    frame, _, _ = _either(seed)
    return frame.assign(leak=frame[TARGET])


def _noisy_copy(seed: int) -> pd.DataFrame:
    frame, values, rng = _either(seed)
    if values.dtype == bool:
        values = pd.factorize(frame[TARGET])[0].astype(float)
    noise = 0.05 * values.std() * rng.normal(size=len(values))
    return frame.assign(leak=values + noise)


def _monotone(seed: int) -> pd.DataFrame:
    frame, values, rng = _numbers(seed)
    size = values / values.std()
    return frame.assign(leak=[np.exp, np.arctan, lambda x: -x - x**3][int(rng.integers(3))](size))


def _group_share(seed: int) -> pd.DataFrame:
    frame, hits, rng = _classes(seed)
    group = rng.integers(0, max(8, len(hits) // 25), len(hits))
    means = pd.Series(hits.astype(float)).groupby(group).transform("mean")
    return frame.assign(leak=means if seed % 3 else (100 * means).round(1))


def _group_mean(seed: int) -> pd.DataFrame:
    frame, values, rng = _numbers(seed)
    group = rng.integers(0, max(8, len(values) // 25), len(values))
    return frame.assign(leak=pd.Series(values).groupby(group).transform("mean").round(3))


def _code(seed: int) -> pd.DataFrame:
    frame, _, rng = _classes(seed)
    codes = pd.factorize(frame[TARGET])[0]
    return frame.assign(leak=rng.permutation(90)[codes] + 10)


def _sum(seed: int) -> pd.DataFrame:
    frame, values, rng = _numbers(seed)
    part = np.round(values * rng.beta(2, 2, len(values)), 2)
    return frame.assign(first=part, second=np.round(values - part, 2))


def _missing(seed: int) -> pd.DataFrame:
    frame, hits, rng = _classes(seed)
    seen = hits != (rng.random(len(hits)) < 0.01)
    return frame.assign(leak=np.where(seen, rng.normal(size=len(hits)).round(2), np.nan))


def _date_after(seed: int) -> pd.DataFrame:
    """The day on which it ended: after the day of the event in rows of one class, or as many days later as it took."""
    frame, values, rng = _either(seed)
    begin = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 600, len(values)), unit="D")
    if values.dtype == bool:
        end = begin + pd.to_timedelta(rng.integers(2, 30, len(values)), unit="D")
        text = end.strftime("%Y-%m-%d").to_numpy(dtype=object)
        return frame.assign(begin=begin.strftime("%Y-%m-%d"), leak=np.where(values, text, None))
    days = np.round(60 * (values - values.min()) / values.std()).astype(int) + 1
    end = (begin + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d")
    return frame.assign(**{"begin": begin.strftime("%Y-%m-%d"), "leak": end, TARGET: days})


def _identifier(seed: int) -> pd.DataFrame:
    """Numbers of cases that were given class by class, or in the order of the target."""
    frame, _, _ = _either(seed)
    order = frame[TARGET].rank(method="first").astype(int)
    return frame.assign(leak=1000 + 3 * order)


PLANTED: dict[str, Callable[[int], pd.DataFrame]] = {
    "copy": _copy,
    "noisy copy": _noisy_copy,
    "monotone function": _monotone,
    "share of a class in a group": _group_share,
    "mean of a group": _group_mean,
    "code of each class": _code,
    "sum of columns": _sum,
    "missing cells": _missing,
    "date after the event": _date_after,
    "numbers in the order of the target": _identifier,
}
"""Kinds of leaks: each returns a table with one leak from a seed."""


def is_found(frame: pd.DataFrame) -> bool:
    """Return whether a doubt of a leak names a column that leaks."""
    leaking = {"leak", "first", "second"}
    return any(leaking & set(finding.columns) for finding in of_leaks(as_table(frame)))


# --- Real tables.


def _named(X: Array, y: Array) -> Table:
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return as_table(frame.assign(**{TARGET: y if y.dtype.kind == "f" else pd.Series(y).astype(str)}))


def _archive(path: Path) -> Table:
    with np.load(path, allow_pickle=False) as archive:
        if "data" in archive:
            rows = sp.csr_matrix(
                (archive["data"], archive["indices"], archive["indptr"]), shape=tuple(archive["shape"])
            )
            return replace(as_table(pd.DataFrame({TARGET: archive["y"].astype(str)})), sparse=sp.csr_array(rows))
        return _named(archive["X"], archive["y"])


def _texts(path: Path) -> Table:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    labels = [row["label"] if "label" in row else next(iter(row["labels"]), None) for row in rows]
    return as_table(pd.DataFrame({"text": [row["text"] for row in rows], TARGET: labels}))


def real_tables(folder: Path) -> Iterator[tuple[str, Table, str, Task]]:
    """Yield name, table, target and task of each table in a folder."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".npz":
            yield path.name, _archive(path), TARGET, "auto"
        elif path.name.endswith(".jsonl.gz"):
            yield path.name, _texts(path), TARGET, "classification"
        elif path.suffix == ".csv":
            table = read_table(path)
            yield path.name, table, table.names[-1], "auto"


def main() -> None:
    """Count doubts, and print them."""
    folder = data_folder()
    for name, table, target, task in [] if folder is None else real_tables(folder):
        began = time.perf_counter()
        said = doubts(table, target, task)
        print(f"{name}: {len(said)} doubts, {time.perf_counter() - began:.1f} s", flush=True)
        for finding in said:
            print(f"  {finding.kind}: {finding.sentence}", flush=True)
    false = 0
    for seed in range(N_MADE):
        for finding in doubts(as_table(made(seed))):
            false += 1
            print(f"made table {seed}: {finding.kind}: {finding.sentence}")
    print(f"{N_MADE} made tables without a leak: {false} doubts")
    for name, plant in PLANTED.items():
        missed = [seed for seed in range(SEEDS) if not is_found(plant(seed))]
        print(f"{name}: {len(missed)} of {SEEDS} missed {missed or ''}", flush=True)


if __name__ == "__main__":
    main()
