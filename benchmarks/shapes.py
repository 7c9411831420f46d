"""Linear machines on tables of many shapes, against their peers: is any fit stalled, or slower than the best peer?

Run from the root of the repository: `make bench-shapes`, or

    python -m benchmarks.shapes [--only REGEX] [--minutes N] [--threads N] [--clock wall|processor] [--out FILE]

The cells are chosen from rows × columns × kind of table × classes × loss × penalty × C, such that every two values of
different factors that go together occur in some cell; cells that were slow or wrong once are added. All tables are made
from a seed. A cell is judged as in `make bench-linear`: time until the primal objective, computed again from w in
float64, is within 1e-4 of the best of all. mercer runs until it certifies a gap of 1e-4, and peers climb a ladder of
tolerances. A run ends after 10 s; that of a peer also after 1 s if it has taken three times as long as mercer. The time
of mercer is too long if it is above 0.3 s and above 1.5 times that of the best peer.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from . import machine, shape_tables
from .linear import CLOCKS, HERE, SHAPES, Rules, Seats, race, speedup, table
from .linear_peers import contenders_of
from .linear_problems import Workload
from .shape_tables import CLASSES, COLUMNS, KINDS, MANY_ENTRIES, ROWS, fits, table_name

LIMIT = 10.0  # seconds of a fit
RULES = Rules(limit=LIMIT, grace=10.0, peer_seconds=1.0, reference=None)
SLOWER, ABSOLUTE = 1.5, 0.3  # times the best peer, and seconds, above both of which a fit is too slow
MOST_WORK = 3e8  # values of a table times machines
LEFT_OUT = ("snapml", "celer")

CLASSIFIERS = [("hinge", "l2"), ("squared_hinge", "l2"), ("logistic", "l2"), ("softmax", "l2")]
CLASSIFIERS += [("hinge", "l1"), ("squared_hinge", "l1"), ("logistic", "l1")]
REGRESSIONS = [(f"{square}epsilon_insensitive", penalty) for square in ("", "squared_") for penalty in ("l2", "l1")]
CHARGES = (0.01, 1.0, 100.0)

ONCE_BAD: list[tuple[str, str, str, float]] = [
    (table_name("dense", 200, 220, 2), "logistic", "l1", 10.0),
    (table_name("dense", 200, 300, 2), "logistic", "l1", 100.0),
    (table_name("dense", 200, 300, 2), "hinge", "l1", 1.0),
    (table_name("dense", 20, 45, 2), "squared_hinge", "l1", 622.0),
    (table_name("dense", 60, 1_500, 2), "logistic", "l2", 1.0),
    (table_name("dense", 60, 1_500, 3), "softmax", "l2", 1.0),
    (table_name("dense", 60, 2_500, 3), "softmax", "l2", 1.0),
    (table_name("dense", 400, 1_500, 2), "squared_hinge", "l2", 1.0),
    (table_name("dense", 60_000, 100, 10), "softmax", "l2", 1.0),
    (table_name("sparse", 50_000, 300, 2), "squared_hinge", "l2", 1.0),
    (table_name("sparse", 50_000, 300, 2), "logistic", "l2", 1.0),
    (table_name("one-hot", 30_000, 120, 2), "squared_hinge", "l2", 1.0),
    (table_name("one-hot", 30_000, 120, 2), "hinge", "l2", 1.0),
    (table_name("one-hot", 30_000, 120, 2), "logistic", "l1", 1.0),
    (table_name("text", 400, 10_017, 2), "hinge", "l1", 10.0),
    (table_name("text", 7_400, 50_000, 23), "squared_hinge", "l2", 1.0),
    (table_name("text", 7_400, 50_000, 23), "softmax", "l2", 1.0),
    (MANY_ENTRIES, "hinge", "l2", 10.0),
]
ONCE_BAD += [
    (table_name("text", 5_000, 50_000, 2), loss, "l2", C) for loss in ("hinge", "squared_hinge") for C in CHARGES
]

Cell = tuple[int, int, str, int, tuple[str, str], float]


def cells() -> list[Cell]:
    """Return all cells: rows, columns, kind of table, classes, loss with penalty, C."""
    listed = []
    for n, p, kind, n_classes in product(ROWS, COLUMNS, KINDS, CLASSES):
        if not fits(kind, n, p, n_classes):
            continue
        values = n * (p if kind == "dense" else shape_tables.WORDS)
        for (loss, penalty), C in product(CLASSIFIERS if n_classes else REGRESSIONS, CHARGES):
            if (loss == "softmax" and n_classes == 2) or values * (n_classes or 1) > MOST_WORK:
                continue
            listed.append((n, p, kind, n_classes, (loss, penalty), C))
    return listed


def covering(rows: Sequence[Cell], seed: int = 0) -> list[Cell]:
    """Return few of the rows such that every two values of different factors that any row has are in one of them."""
    order = [rows[k] for k in np.random.default_rng(seed).permutation(len(rows))]
    bits: dict[tuple[Any, ...], int] = {}  # the number of each pair
    pairs = [0] * len(order)
    for number, row in enumerate(order):
        for j, k in combinations(range(len(row)), 2):
            pairs[number] |= 1 << bits.setdefault((j, row[j], k, row[k]), len(bits))
    missing, chosen = (1 << len(bits)) - 1, []
    while missing:
        best = max(range(len(order)), key=lambda k: (pairs[k] & missing).bit_count())
        chosen.append(order[best])
        missing &= ~pairs[best]
    return chosen


def workloads() -> list[Workload]:
    """Return all problems: those that were bad once, and then the covering ones."""
    problems = {}
    for name, loss, penalty, C in ONCE_BAD:
        problems[name, loss, penalty, C] = Workload(SHAPES, name, loss, C, penalty)
    for n, p, kind, n_classes, (loss, penalty), C in covering(cells()):
        name = table_name(kind, n, p, n_classes)
        problems[name, loss, penalty, C] = Workload(SHAPES, name, loss, C, penalty)
    return list(problems.values())


def finding_of(record: dict[str, Any]) -> str:
    """Return what is wrong with a fit: "stalled" or another status, "wrong", "slow"; "" if nothing is."""
    mercer_result = record["results"]["mercer"]
    if not mercer_result.runs:
        return mercer_result.failure or "no result"
    status = mercer_result.claims.get("status", "")
    if status != "optimal":
        return str(status)
    if mercer_result.seconds is None:
        return "wrong"
    ratio = speedup(record)
    too_slow = ratio is not None and not ratio[1] and SLOWER * ratio[0] < 1.0 and mercer_result.seconds > ABSOLUTE
    return "slow" if too_slow else ""


def page(records: Sequence[dict[str, Any]], cuts: Sequence[str], facts: str) -> str:
    """Return the page in Markdown."""
    parts = ["# Linear machines on tables of many shapes", facts, (__doc__ or "").split("\n\n", 3)[3].strip()]
    parts += ["\n".join(summary(records)), "\n".join(table(HEADS, list(_lines(records))))]
    if cuts:
        parts.append("## Cut\n\n" + "\n".join(f"- {cut}" for cut in cuts))
    return "\n\n".join(parts) + "\n"


def summary(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines that count the cells by what is wrong with them, and name the worst."""
    findings = [finding_of(record) for record in records]
    lines = [f"- cells: {len(records)}"]
    lines += [f"- {kind}: {findings.count(kind)}" for kind in sorted({*findings, "stalled", "slow"} - {""})]
    ratios = [(1.0 / speed[0], record) for record in records if (speed := speedup(record)) and not speed[1]]
    late = [(ratio, one) for ratio, one in ratios if one["results"]["mercer"].seconds > ABSOLUTE]
    if ratios:
        faster = sum(ratio <= 1.0 for ratio, _ in ratios)
        lines.append(f"- mercer is at least as fast as every peer that arrives: {faster} of {len(ratios)} cells")
    if late:
        ratio, worst = max(late, key=lambda pair: pair[0])
        lines.append(f"- worst above {ABSOLUTE} s: {ratio:.2f} times the best peer ({worst['workload'].name})")
    return lines


HEADS = ["cell", "mercer", "status, gap", "best peer", "time / best peer", "finding"]


def _lines(records: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    for record in sorted(records, key=lambda one: (finding_of(one) == "", -_ratio(one))):
        mercer_result = record["results"]["mercer"]
        gap = mercer_result.claims.get("relative_gap")
        seconds = (
            mercer_result.seconds
            if mercer_result.seconds is not None
            else max((run.seconds for run in mercer_result.runs), default=None)
        )
        speed = speedup(record)
        ratio = "-" if speed is None else f"{'< ' if speed[1] else ''}{1.0 / speed[0]:.2f}"
        yield [
            record["workload"].name,
            "-" if seconds is None else f"{seconds:.3g} s",
            "-" if gap is None else f"{mercer_result.claims['status']}, {gap:.0e}",
            _best_peer(record),
            ratio,
            finding_of(record) or "-",
        ]


def _ratio(record: dict[str, Any]) -> float:
    ratio = speedup(record)
    return 0.0 if ratio is None else 1.0 / ratio[0]


def _best_peer(record: dict[str, Any]) -> str:
    peers = {name: one for name, one in record["results"].items() if name != "mercer"}
    arrived = {name: one.seconds for name, one in peers.items() if one.seconds is not None}
    if arrived:
        name = min(arrived, key=lambda one: arrived[one])
        return f"{name} {arrived[name]:.3g} s"
    return "none arrives" if peers else "no peer"


def main() -> None:
    """Race, print the page and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cells, by a regular expression")
    parser.add_argument("--minutes", type=float, default=14.5, help="of the whole run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="processor: for a busy machine")
    parser.add_argument("--out", type=Path, help="the page  [default: benchmarks/SHAPES.md if everything is run]")
    options = parser.parse_args()
    chosen = [one for one in workloads() if re.search(options.only, one.name)]
    if not chosen:
        raise SystemExit(f"no cell matches {options.only!r}; there are: {'; '.join(one.name for one in workloads())}")
    ends_at, monitor = time.perf_counter() + 60.0 * options.minutes, machine.ProgressMonitor()
    records, cuts, seats = [], list[str](), Seats(options.threads, LIMIT, options.clock)
    for place, workload in enumerate(chosen):
        left = ends_at - time.perf_counter()
        if left <= 0.0:
            cuts += [f"{one.name}: no time was left" for one in chosen[place:]]
            break
        names = [name for name in contenders_of(workload) if name not in LEFT_OUT]
        share = min(left, 3.0 * left / (len(chosen) - place))
        records.append(race(workload, names, seats, seconds=share, rules=RULES))
        [row] = _lines(records[-1:])
        print(f"{place + 1}/{len(chosen)} | {' | '.join(row)}", flush=True)
    seats.close()
    load = monitor.report()
    facts = (
        f"{datetime.now(UTC):%Y-%m-%d}. {machine.described(machine.describe(options.threads))}; {options.threads} "
        f"threads, {options.clock} time; load at the start {load['load_average']:.2f}, others busy "
        f"{load['others_busy'] or 0.0:.2f} cores, {load['race_seconds'] / 60.0:.1f} minutes."
    )
    text = page(records, cuts, facts)
    print("\n".join(summary(records)))
    out = options.out or (None if options.only else HERE / "SHAPES.md")
    if out is not None:
        out.write_text(text, encoding="utf-8")
        print(f"Written to {out}.")


if __name__ == "__main__":
    main()
