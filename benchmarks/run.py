"""Time to a certified optimum, against scikit-learn and scikit-learn-intelex.

Run from the root of the repository: `make bench`, `make bench-full`, or

    python -m benchmarks.run [--full] [--only REGEX] [--peers NAMES] [--threads N] [--limit SECONDS] [--again]

Real data sets come from the folder in the environment variable MERCER_DATA; without it only scikit-learn's bundled
sets and generated ones are run. Every race is stored in `benchmarks/results` as soon as it is over; `--full` goes on
where an earlier run of the same build on the same machine ended.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import machine, problems, report
from .peers import INTELEX
from .problems import GROUPS, Problem
from .race import Rules, first_calls, race

HERE = Path(__file__).parent
PEERS = ("scikit-learn", "intelex32", "intelex64", "intelex32 dense", "libsvm")
_LIMITS = {"S": 60.0, "full": 1800.0}


def main() -> None:
    """Measure and print; write the table to a file unless it is a part only."""
    options = _options()
    size = "full" if options.full else "S"
    rules = Rules(size, options.threads, options.limit or _LIMITS[size])
    chosen = problems.choose(size, options.only)
    if not chosen:
        raise SystemExit(f"no problem matches {options.only!r}; there are:\n" + "\n".join(_names(size)))
    peers = PEERS if options.peers is None else tuple(options.peers.split(","))
    if unknown := set(peers) - set(PEERS):
        raise SystemExit(f"--peers must name some of {', '.join(PEERS)}, got {', '.join(sorted(unknown))}.")
    run = Run(rules, ("mercer", *peers), machine.describe(rules.threads), len(chosen))
    target = None if options.only or options.peers is not None else _target(size)
    began = time.perf_counter()
    for number, problem in enumerate(chosen):
        record = None if options.again or not options.full else run.earlier(problem)
        if record is None:
            record = run.measure(problem)
        print(f"[{number + 1}/{len(chosen)}] {_line(record)}", flush=True)
        run.records.append(record)
        if target is not None and (problem is chosen[-1] or chosen[number + 1].group != problem.group):
            target.write_text(run.document(options), encoding="utf-8")
    print(f"\n{run.document(options)}\nMeasured in {time.perf_counter() - began:.0f} s.")
    print(f"Written to benchmarks/{target.name}." if target else "A part of the table only, so not written to a file.")


class Run:
    """The races of one run, and where they are stored."""

    def __init__(self, rules: Rules, contenders: Sequence[str], facts: dict[str, Any], n_problems: int) -> None:
        self.rules, self.facts, self.n_problems = rules, facts, n_problems
        self.records: list[report.Record] = []
        self._contenders = contenders
        self._folder = HERE / "results" / rules.size
        self._first_calls: dict[str, float] | None = None

    def measure(self, problem: Problem) -> report.Record:
        """Run a race and store it."""
        contenders = self._chosen(problem)
        record = race(problem, contenders, self.rules)
        record |= {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": self.facts}
        record |= {"limit": self.rules.limit}
        self._folder.mkdir(parents=True, exist_ok=True)
        new_file = self._file(problem).with_suffix(".new")  # a file under its final name is complete, also after Ctrl-C
        new_file.write_text(json.dumps(record, indent=1), encoding="utf-8")
        new_file.replace(self._file(problem))
        return record

    def earlier(self, problem: Problem) -> report.Record | None:
        """Return what an earlier run has stored, if it was of the same build, machine, versions and contenders."""
        if not self._file(problem).exists():
            return None
        record: report.Record = json.loads(self._file(problem).read_text(encoding="utf-8"))
        same = record["machine"] == self.facts and record.get("limit") == self.rules.limit
        return record if same and set(self._chosen(problem)) == set(record["results"]) else None

    def _chosen(self, problem: Problem) -> list[str]:
        return [name for name in problem.contenders if name in self._contenders or name.startswith("mercer")]

    def document(self, options: argparse.Namespace) -> str:
        """Return everything measured so far, in Markdown."""
        command = "make bench-full" if options.full else "make bench"
        parts = [f"# {command}: time to a certified optimum", self._circumstances(options), report.LEGEND]
        overview = report.summary(self.records)
        parts += ["## Summary", overview] if overview else []
        parts.append("## Problems")
        for key in GROUPS:
            mine = [one for one in self.records if problems.find(one["problem"]).group == key]
            if mine:
                parts.append(report.group_tables(key, mine))
        return "\n\n".join(parts) + "\n"

    def _circumstances(self, options: argparse.Namespace) -> str:
        if self._first_calls is None:
            contenders = [name for name in self._contenders if name != "intelex32 dense"]
            self._first_calls = first_calls(contenders, problems.find("small-fit/wdbc C=1 γ=1/p"), self.rules)
        facts, dates = self.facts, sorted(one["date"] for one in self.records)
        others = [one["others_busy"] for one in self.records if one["others_busy"] is not None]
        absent = sorted({one.source for one in problems.missing(self.rules.size, options.only)})
        idle = (
            f"Beside the races other processes kept {sum(others) / len(others):.2f} processors busy on average, at "
            f"most {max(others):.2f} during one race."
            if others
            else "How busy the machine was otherwise could not be seen."
        )
        lines = [
            f"{len(self.records)} of {self.n_problems} problems, {dates[0]} to {dates[-1]}, {self.rules.threads} "
            f"threads, at most {self.rules.limit:g} s for one fit.",
            f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}; mercer used "
            f"{facts['isa']}.",
            ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
            + f"; {machine.described_build(facts)}.",
            f"Load average before a race: at most {max(one['load_average'] for one in self.records):.2f}, the races "
            f"before included. {idle}",
            "Import (beside NumPy, SciPy and scikit-learn) and first call, not part of any time below: "
            + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self._first_calls.items())
            + ".",
        ]
        if absent:
            lines.append("Not run, for want of data (see MERCER_DATA): " + ", ".join(absent) + ".")
        return "\n".join(f"- {line}" for line in lines)

    def _file(self, problem: Problem) -> Path:
        return self._folder / (re.sub(r"[^A-Za-z0-9=.-]+", "_", problem.name) + ".json")


def _line(record: report.Record) -> str:
    ours = report.show_seconds(report.time_of(record, ["mercer"]))
    certified = "" if report.is_certified(record) else " NOT CERTIFIED"
    peers = [
        f"{name} {report.show_seconds(report.time_of(record, names))} (× {report.show_ratio(ratio)})"
        for name, names in (("scikit-learn", ("scikit-learn",)), ("intelex", INTELEX))
        if (ratio := report.ratio(record, names)) is not None
    ]
    return "  ".join([f"{record['problem']}: mercer {ours}{certified}", *peers])


def _target(size: str) -> Path:
    return HERE / ("RESULTS-full.md" if size == "full" else "RESULTS.md")


def _names(size: str) -> list[str]:
    return [problem.name for problem in problems.choose(size)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="everything, at full size; goes on where it ended")
    parser.add_argument("--only", default="", metavar="REGEX", help="problems whose name matches")
    parser.add_argument("--peers", help=f"of {', '.join(PEERS)} (default: all)")
    parser.add_argument("--threads", type=int, default=2, help="default 2")
    parser.add_argument("--limit", type=float, help="seconds for one fit, default 60, with --full 1800")
    parser.add_argument("--again", action="store_true", help="measure again what --full has measured before")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; what was measured is in benchmarks/results") from None
