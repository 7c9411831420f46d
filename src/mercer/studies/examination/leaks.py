"""Columns that alone predict the target: copies, monotone maps, levels with one class, identifiers that sort it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.data import cell_text, listing
from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight, option
from mercer.studies.examination.rows import Sample
from mercer.studies.examination.single_column_rules import Rule, class_rules, number_rules
from mercer.studies.tables import Labels, Truth

ALONE = 0.02
"""Largest error, as a share of that of a constant prediction, at which a column is said to predict the target alone."""

MOSTLY = 0.1
"""The same for a remark. One column of iris has 0.06 and odor has 0.03 in the mushroom table, where nothing leaks."""

MISSING_ALONE = 0.25
"""The same for the pattern of missing cells, which hardly ever predicts a target unless it was made by it."""

KNOWN = 0.3
"""Smallest share of rows in which a column is known that predicts the target of these rows."""

BY_MISSING = ("missing", "missing of one", "missing of large", "missing of small")
"""Rules that go by which cells are missing."""

EXACT = 1e-9  # error up to which a rule has no exception but for rounding

MIN_COPIED = 5
"""Fewest rows in which a column is called a copy of the target."""

MANY_LEVELS = 10
"""Different values from which a column that predicts the target may rather name groups of rows, such as patients."""

MAX_NAMED = 5
"""Largest number of columns that have a sentence each."""


def leaks(sample: Sample, truth: Truth) -> list[Finding]:
    """Return what there is to say about columns that predict the target alone.

    Columns that are not used cannot spoil a score, so they only get a remark.
    """
    alone: list[tuple[Column, Rule]] = []
    mostly: list[tuple[Column, Rule]] = []
    for column in (*sample.columns, *sample.words):
        best = _best(_rules(column, sample, truth))
        if best is None or best.error > ALONE:
            best = _where_known(column, sample, truth) or best
        if best is None or best.error > (MISSING_ALONE if best.how in BY_MISSING else MOSTLY):
            continue
        (alone if best.how in BY_MISSING or best.error <= ALONE else mostly).append((column, best))
    alone.sort(key=lambda one: one[1].error)
    used = [one for one in alone if one[0].source in sample.features]
    unused = [one for one in alone if one[0].source not in sample.features]
    findings = [_alone(column, rule, sample, truth) for column, rule in used[:MAX_NAMED]]
    if len(used) > MAX_NAMED:
        findings.append(_more(used[MAX_NAMED:]))
    findings += [_unused(column, rule, truth) for column, rule in unused]
    mostly = [one for one in mostly if one[0].source in sample.features]
    return findings + ([_mostly(mostly, truth)] if mostly else [])


def _rules(column: Column, sample: Sample, truth: Truth) -> list[Rule]:
    if isinstance(truth, Labels):
        rules = class_rules(column, sample.target, sample.n_columns)
    else:
        rules = number_rules(column, sample.target)
    if not rules and sample.n_rows >= MIN_COPIED and _is_copy(column, sample, truth):  # in a small table
        rules = [Rule("levels", 0.0, 1.0)]
    return rules


def _where_known(column: Column, sample: Sample, truth: Truth) -> Rule | None:
    """Return the rule that predicts the target of the rows alone whose cell is not missing; None without one."""
    is_present = ~column.missing
    if is_present.all() or is_present.mean() < KNOWN:
        return None
    part = replace(
        column, codes=column.codes[is_present], numbers=None if column.numbers is None else column.numbers[is_present]
    )
    target = sample.target[is_present]
    rule = _best(
        class_rules(part, target, sample.n_columns) if isinstance(truth, Labels) else number_rules(part, target)
    )
    if rule is None or rule.error > ALONE:
        return None
    return replace(rule, share=float(is_present.mean()))


def _best(rules: list[Rule]) -> Rule | None:
    """Return the rule to report: the best one, unless the pattern of missing cells is the stronger sign of a leak."""
    missing = [rule for rule in rules if rule.how in BY_MISSING and rule.error <= MISSING_ALONE]
    others = [rule for rule in rules if rule.how != "missing of one"]  # whose error is not that of the whole target
    if missing and (not others or others[0].error > ALONE):
        return missing[0]
    return others[0] if others else None


_HOW = {
    "intervals": "each class has a range of its own",
    "missing": "its cells are missing in rows of one class and present in the others",
    "missing of one": "its cells are missing in rows of this class and present in the others, or the other way round",
    "missing of large": "its cells are missing in rows with large targets and present in the others",
    "missing of small": "its cells are missing in rows with small targets and present in the others",
    "rising": "it rises with the target from row to row",
    "falling": "it falls from row to row as the target rises",
    "line": "the target is nearly a linear function of it",
    "near": "rows with close values have close targets",
}


def _how(column: Column, rule: Rule, truth: Truth) -> str:
    if column.kind == "word":
        return "rows with it and rows without it have different targets"
    if rule.how == "levels":
        target = "class" if isinstance(truth, Labels) else "target"
        nearly = "" if rule.error < EXACT else "nearly always "
        return f"rows with the same value have {nearly}the same {target} ({column.n_levels:,} values)"
    order = " in alphabetical order" if rule.how == "intervals" and column.numbers is None else ""
    return _HOW[rule.how] + order


def _rate(rule: Rule, truth: Truth) -> str:
    """How good a rule is, in words; percentages are rounded down, so that 100% is perfect."""
    share = f"{np.floor(1000 * rule.right) / 10:.1f}%".replace(".0%", "%")
    of_rows = "the rows" if rule.share == 1.0 else f"the rows in which it is not missing ({100 * rule.share:.0f}%)"
    if rule.how.startswith("missing of ") and not isinstance(truth, Labels):
        return f"up to a threshold (area under ROC {np.floor(1000 * rule.right) / 1000:.3f})"
    if isinstance(truth, Labels):
        return f"in {share} of {of_rows}"
    if rule.share < 1.0:
        return f"in {of_rows} ({share} of the variance there)"
    return f"({share} of its variance)" if rule.how == "line" else f"({share} of the variance of its ranks)"


def _alone(column: Column, rule: Rule, sample: Sample, truth: Truth) -> Finding:
    numbers = {"error": rule.error, "right": rule.right, "rows": sample.n_rows}
    remedy = f"If it is not known when a prediction is made, a test score with it is worthless: {column.way_out}."
    if rule.how == "levels" and column.n_levels >= MANY_LEVELS:
        groups = option("--groups", column.name)
        remedy += f" If rows with the same value belong together, keep them on one side of every split with {groups}."
    if _is_copy(column, sample, truth):
        sentence = f"Column {column.name!r} is a copy of the target {truth.target!r}."
        return Finding(Kind.COPY, Weight.DOUBT, (column.name,), sentence, remedy, numbers)
    kind = Kind.MISSING_PREDICTS if rule.how in BY_MISSING else Kind.PREDICTS_ALONE
    what = "tells one class from the others" if rule.how == "missing of one" else "predicts the target"
    sentence = f"{column.subject} alone {what} {_rate(rule, truth)}: {_how(column, rule, truth)}."
    return Finding(kind, Weight.DOUBT, (column.name,), sentence, remedy, numbers)


def _more(rules: list[tuple[Column, Rule]]) -> Finding:
    names = tuple(column.name for column, _ in rules)
    return Finding(
        Kind.PREDICTS_ALONE,
        Weight.DOUBT,
        names,
        f"So does each of {len(names)} more columns: {listing(names)}.",
        "Leave out with --drop those that are not known when a prediction is made.",
        {"error": max(rule.error for _, rule in rules)},
    )


def _unused(column: Column, rule: Rule, truth: Truth) -> Finding:
    return Finding(
        Kind.PREDICTS_ALONE,
        Weight.REMARK,
        (column.name,),
        f"{column.subject} would predict the target {_rate(rule, truth)}: {_how(column, rule, truth)}.",
        "It is not used; do not ask for it with --keep.",
        {"error": rule.error, "right": rule.right},
    )


def _mostly(rules: list[tuple[Column, Rule]], truth: Truth) -> Finding:
    rules = sorted(rules, key=lambda one: one[1].error)
    names = tuple(column.name for column, _ in rules)
    rates = [f"{column.name!r} {_rate(rule, truth)}" for column, rule in rules[:MAX_NAMED]]
    more = f"; {len(rules) - MAX_NAMED} more columns" if len(rules) > MAX_NAMED else ""
    one = "One column alone predicts" if len(rules) == 1 else f"Each of {len(rules)} columns alone predicts"
    return Finding(
        Kind.STRONG,
        Weight.REMARK,
        names,
        f"{one} the target well: {', '.join(rates)}{more}.",
        "Good news if they are known when a prediction is made; otherwise leave them out with --drop.",
        {"error": rules[0][1].error, "right": rules[0][1].right},
    )


def _is_copy(column: Column, sample: Sample, truth: Truth) -> bool:
    return column.name in sample.table and all(
        cell is not None and cell_text(cell) == cell_text(other)
        for cell, other in zip(sample.table[column.name], sample.table[truth.target], strict=True)
    )
