"""From what was measured to tables in Markdown, which read well in a terminal too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from .peers import INTELEX
from .problems import GROUPS, Group, find
from .race import TOL, TRUE_ENOUGH

Record = dict[str, Any]

_RIVALS = {"scikit-learn": ("scikit-learn",), "intelex": INTELEX}
"""The libraries that ratios are taken against, in the order of :attr:`benchmarks.problems.Group.must`."""

_SAME = 1e-9  # coefficients may be outside their box by so much of C, and dual objectives differ by this share


@dataclass(frozen=True)
class Seconds:
    """A time, or a lower bound of one where a contender was stopped or never delivered."""

    value: float
    at_least: bool = False

    def over(self, other: Seconds) -> Seconds:
        """Return how many times longer this is than `other`."""
        return Seconds(self.value / other.value, self.at_least)


def time_of(record: Record, names: Sequence[str], *, true: bool = False) -> Seconds | None:
    """Return the time of the fastest of `names`; with `true`, at the tolerance at which its result was true."""
    times = [time for name in names if (time := _time_of(record["results"].get(name), true=true)) is not None]
    exact = [one for one in times if not one.at_least]
    return min(exact or times, key=lambda one: one.value, default=None)


def _time_of(result: Record | None, *, true: bool) -> Seconds | None:
    if result is None:
        return None
    if result["failure"] is not None:
        stopped = result["failure"].startswith("> ")
        return Seconds(float(result["failure"].split()[1]), True) if stopped else None
    typical = median(seconds for turn in result["turns"] for seconds in turn)
    if not true or result["violation"] is None or result["violation"] <= TRUE_ENOUGH:
        return Seconds(typical)
    tightened = result["true"]
    if tightened is None:
        return Seconds(typical, True)
    missed = tightened["violation"] is None or tightened["violation"] > TRUE_ENOUGH
    return Seconds(tightened["seconds"], missed)


def ratio(record: Record, names: Sequence[str], *, true: bool = False) -> Seconds | None:
    """Return how many times longer the fastest of `names` took than mercer."""
    ours, theirs = time_of(record, ["mercer"]), time_of(record, names, true=true)
    return None if ours is None or theirs is None or ours.at_least else theirs.over(ours)


def is_certified(record: Record) -> bool:
    """Whether mercer's result is feasible, claimed to be optimal and is so, and its certificate says what is true.

    Both computations round: mercer's by what it says itself, which must be less than TOL, the one here by far less
    than a millionth of TOL. Predictions have no truth of this kind.
    """
    return _is_certified(record["results"]["mercer"])


def _is_certified(result: Record) -> bool:
    claims, violation = result["claims"], result["violation"]
    if result["failure"] is not None or claims.get("status") != "optimal":
        return False
    if violation is None:
        return True
    reported, rounding = claims["violation"], claims["rounding"]
    slack = 4.0 * rounding + 1e-6 * TOL
    agrees = abs(claims["dual"] - result["dual"]) <= _SAME * max(1.0, abs(result["dual"]))
    is_small = reported <= TOL and rounding <= TOL  # False for NaN
    return is_small and violation <= reported + slack and result["infeasibility"] <= _SAME and agrees


# --- Numbers as text.


def show_seconds(time: Seconds | None) -> str:
    """Return a time with its unit."""
    if time is None:
        return "-"
    value, unit = (time.value, "s") if time.value >= 1.0 else (1e3 * time.value, "ms")
    return f"{'> ' if time.at_least else ''}{_three_digits(value)} {unit}"


def show_ratio(seconds: Seconds | None) -> str:
    """Return a ratio; lower bounds are marked."""
    return "-" if seconds is None else f"{'> ' if seconds.at_least else ''}{_two_digits(seconds.value)}"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _show(value: float | None, form: str = ".1e") -> str:
    return "-" if value is None else format(value, form)


def mean_ratio(ratios: Iterable[Seconds | None]) -> Seconds | None:
    """Return the geometric mean, a lower bound where one of the ratios is one."""
    measured = [one for one in ratios if one is not None]
    if not measured:
        return None
    mean = math.exp(sum(math.log(one.value) for one in measured) / len(measured))
    return Seconds(mean, any(one.at_least for one in measured))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    lines = [
        "| " + " | ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])]) + " |"
        for cells in (columns, *rows)
    ]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


# --- The tables.


def summary(records: Sequence[Record]) -> str:
    """One row for each workload that is about ratios."""
    rows = []
    for key, group in GROUPS.items():
        mine = [one for one in records if find(one["problem"]).group == key]
        if group.figure != "ratio" or not mine:
            continue
        predicts = find(mine[0]["problem"]).task == "predict"
        cells = [group.title, "-" if predicts else f"{sum(map(is_certified, mine))}/{len(mine)}"]
        for which, names in enumerate(_RIVALS.values()):
            must = None if group.must is None else group.must[which]
            cells += [
                *_mean_and_worst(mine, names, must),
                show_ratio(mean_ratio(ratio(one, names, true=True) for one in mine)),
                "-" if must is None else f"{must:g}",
            ]
        cells += _mean_and_worst(mine, ["libsvm"])
        limit = mean_ratio(times_limit(one) for one in mine)
        rows.append([*cells, show_ratio(limit), _goal_times_limit(group, mine, limit)])
    columns = ["workload", "certified"]
    for peer in _RIVALS:
        columns += [f"× {peer}", "worst", "both true", "goal"]
    return table([*columns, "× libsvm", "worst", "× limit", "goal"], rows) if rows else ""


def _mean_and_worst(records: Sequence[Record], names: Sequence[str], must: float | None = None) -> list[str]:
    measured = [ratio(one, names) for one in records]
    worst = min((one.value for one in measured if one is not None), default=None)
    if worst is None:
        return [show_ratio(mean_ratio(measured)), "-"]
    return [show_ratio(mean_ratio(measured)), _two_digits(worst) + (" < ½" if must and worst < 0.5 * must else "")]


def _goal_times_limit(group: Group, records: Sequence[Record], limit: Seconds | None) -> str:
    """Show what `× limit` would be where the harder of the group's goals is reached."""
    if group.must is None:
        return "-" if group.must_limit is None else f"{group.must_limit:g}"
    means = [mean_ratio(ratio(one, names) for one in records) for names in _RIVALS.values()]
    shares = [mean.value / must for mean, must in zip(means, group.must, strict=True) if mean is not None]
    return "-" if limit is None or not shares else _two_digits(limit.value * min(shares))


def times_limit(record: Record) -> Seconds | None:
    """Return mercer's time as a multiple of the time to evaluate K[:, SV] once."""
    ours = time_of(record, ["mercer"])
    if ours is None or record["limit_seconds"] is None:
        return None
    return ours.over(Seconds(record["limit_seconds"]))


def group_tables(key: str, records: Sequence[Record]) -> str:
    """Title, times and truth of one workload's problems."""
    parts = [f"### {GROUPS[key].title}"]
    extra = {"ratio": _times, "variant": _variants, "exponent": _growth, "spread": _spread, "memory": _memory}[
        GROUPS[key].figure
    ]
    parts.append(extra(records))
    parts.append(_predictions(records) if find(records[0]["problem"]).task == "predict" else _truths(records))
    failures = [
        f"- {find(one['problem']).label}: {name}: {result['failure']}"
        for one in records
        for name, result in one["results"].items()
        if result["failure"] is not None
    ]
    return "\n\n".join(part for part in [*parts, "\n".join(failures)] if part)


def _times(records: Sequence[Record]) -> str:
    names = _present(records)
    peers = [name for name in names if name != "mercer"]
    compared = {name: those for name, those in _RIVALS.items() if set(those) & set(peers)}
    rows = []
    for one in records:
        certified = "" if is_certified(one) else " (not certified)"
        cells = [find(one["problem"]).label, f"{one['n']:,} × {one['p']:,}"]
        cells += [show_seconds(time_of(one, ["mercer"])) + certified]
        cells += [show_seconds(time_of(one, [name])) for name in peers]
        for those in compared.values():
            cells += [show_ratio(ratio(one, those)), show_ratio(ratio(one, those, true=True))]
        rows.append([*cells, show_ratio(times_limit(one))])
    columns = ["time", "n × p", "mercer", *peers]
    for name in compared:
        columns += [f"× {name}", "both true"]
    return table([*columns, "× limit"], rows)


def _truths(records: Sequence[Record]) -> str:
    """True violations, dual objectives relative to the best, and memory."""
    names = _present(records)
    rows = []
    for one in records:
        results = one["results"]
        duals = [result["dual"] for result in results.values() if result["dual"] is not None]
        best = max(duals, default=None)
        ours = results["mercer"]
        cells = [find(one["problem"]).label, _show(ours["n_support"], ",")]
        cells.append(_show(ours["claims"].get("violation")))
        cells.append(show_seconds(Seconds(ours["turns"][0][0]) if ours["turns"] else None))
        cells += _cells(one, names, lambda result: _show(result["violation"]))
        cells += _cells(one, names, lambda result, best=best: _shortfall(result["dual"], best))  # type: ignore[misc]
        cells += _cells(one, names, lambda result: _show(_megabytes(result["peak_bytes"]), ".0f"))
        rows.append(cells)
    columns = ["truth", "SV", "certificate", "first mercer"]
    columns += [f"{what} {name}" for what in ("violation", "dual", "MB") for name in names]
    return table(columns, rows)


def _predictions(records: Sequence[Record]) -> str:
    names = _present(records)
    rows = [
        [
            find(one["problem"]).label,
            *_cells(one, names, lambda result: _show(result["decision_error"])),
            *_cells(one, names, lambda result: _show(result["n_other_classes"], ",")),
            *_cells(one, names, lambda result: _show(_megabytes(result["peak_bytes"]), ".0f")),
        ]
        for one in records
    ]
    return table(["truth", *(f"{what} {name}" for what in ("error", "other classes", "MB") for name in names)], rows)


def _variants(records: Sequence[Record]) -> str:
    """Mercer otherwise, as a multiple of mercer."""
    rows = []
    for one in records:
        (other,) = (name for name in one["results"] if name != "mercer")
        cells = [find(one["problem"]).label, f"{one['n']:,} × {one['p']:,}"]
        for name in ("mercer", other):
            certified = _is_certified(one["results"][name])
            cells.append(show_seconds(time_of(one, [name])) + ("" if certified else " (not certified)"))
        rows.append([*cells, show_ratio(ratio(one, [other]))])
    return table(["time", "n × p", "mercer", other, "ratio"], rows)


def _growth(records: Sequence[Record]) -> str:
    times = [(one["n"], time_of(one, ["mercer"])) for one in records]
    measured = [(n, time.value) for n, time in times if time is not None and not time.at_least]
    lines = [_times(records)]
    if len(measured) > 1:
        slope = np.polyfit(np.log([n for n, _ in measured]), np.log([seconds for _, seconds in measured]), 1)[0]
        lines.append(f"Fitted: time grows as n^{slope:.2f} from {measured[0][0]:,} to {measured[-1][0]:,} rows.")
    return "\n\n".join(lines)


def _spread(records: Sequence[Record]) -> str:
    """Slowest and median time over the cells of a grid, by table."""
    rows = []
    for source in dict.fromkeys(find(one["problem"]).source for one in records):
        cells = [one for one in records if find(one["problem"]).source == source]
        row = [source, f"{sum(map(is_certified, cells))}/{len(cells)}"]
        for name in ("mercer", "scikit-learn"):
            times = [time for one in cells if (time := time_of(one, [name])) is not None]
            if times:
                slowest = max(times, key=lambda time: time.value)
                middle = Seconds(median(time.value for time in times))
                row += [show_seconds(middle), show_seconds(slowest), show_ratio(slowest.over(middle))]
            else:
                row += ["-"] * 3
        rows.append(row)
    columns = ["grid", "certified"]
    columns += [f"{what} {name}" for name in ("mercer", "scikit-learn") for what in ("median", "slowest", "ratio")]
    return table(columns, rows)


def _memory(records: Sequence[Record]) -> str:
    """Peak memory beyond the input as the system and as the certificate have it, in millions of bytes."""
    rows = []
    for one in records:
        problem, result = find(one["problem"]), one["results"]["mercer"]
        most = (150.0 if problem.C <= 10.0 else 450.0) + 2e-6 * one["input_bytes"]
        peak, engine_bytes = result["peak_bytes"], result["claims"].get("engine_bytes")
        numbers = (1e-6 * one["input_bytes"], most, *(None if n is None else 1e-6 * n for n in (peak, engine_bytes)))
        rows.append([problem.label, f"{one['n']:,} × {one['p']:,}", *(_show(number, ".0f") for number in numbers)])
    return table(["memory, in 10⁶ bytes", "n × p", "input", "goal", "peak", "certificate's"], rows)


def _present(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for one in records for name in one["results"]))


def _cells(record: Record, names: Sequence[str], show: Callable[[Record], str]) -> list[str]:
    return [show(record["results"][name]) if name in record["results"] else "-" for name in names]


def _shortfall(dual: float | None, best: float | None) -> str:
    """Return by how much a dual objective is below the best one, as a share of it."""
    return "-" if dual is None or best is None else f"{(dual - best) / max(1.0, abs(best)):.0e}"


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 2**20


LEGEND = f"""\
A time is the median over at least three runs, or the first one alone where that is above 5 s (60 s with --full);
contenders take turns, each in a process of its own that has made a first call before. Every contender solves the
same problem (the same float32 rows, C, γ, bias, tolerance {TOL:g}); mercer's time includes its certificate and the
first look at it (`certificate_`), which completes the objectives. Memory stays with a process from fit to fit where
its library keeps it, as mercer does: *first mercer* is the first run alone. *× peer*: how many times longer the
peer takes than mercer (of scikit-learn-intelex the faster of its types of input); of several problems the geometric
mean, and *worst* the smallest (< ½: of its goal); libsvm is LIBSVM's own Python module. *Both true*: the same,
against the peer at a tolerance tightened (/10, /100) until its true violation is at most {TRUE_ENOUGH:g}. *Goal*:
what the project has set itself. *× limit*: mercer's time by the time to evaluate K[:, SV] once with its own tiles,
in single precision; the goal beside it is the factor at which the harder of the two goals is met (a fit at 1 takes
no longer than one look at its result). *Certified*: mercer's status is `optimal`, its point feasible, and what its
certificate says of violation and dual objective true. *Violation* and *dual* (relative to the best of the row):
recomputed from each result over all training rows, in float64, in NumPy; *certificate*: the violation that mercer
reports. *Error*: the largest of the decision values of new rows, by the largest of these, and *other classes* the
rows to which `predict`, which is what is timed, gives another class than they speak for. *MB*: peak memory of the
first run beyond what its process used before, which held the rows. "> " marks lower bounds: a run was stopped at
the most that a fit may take, which is run once, or never came within {TRUE_ENOUGH:g}."""
