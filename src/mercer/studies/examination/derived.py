"""Targets that two columns give away: the sign of their difference, and averages of the target of the other rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight
from mercer.studies.examination.rows import Sample
from mercer.studies.examination.single_column_rules import class_rules
from mercer.studies.tables import Labels, Truth

MAX_NUMBERS, MAX_CATEGORIES = 200, 30
"""Most columns of numbers, and of categories, that are compared in pairs."""

FEWEST_ROWS = 100
"""Rows from which the sign of a difference is looked for: among few rows, some pair of columns fits by chance."""

ALONE = 0.02
"""Largest error, as a share of that of a constant prediction, of the sign of a difference."""

EACH = 0.3
"""Smallest error, in the same unit, of each of the two columns alone: else the better one is what tells the classes."""

_FIRST = 500  # rows on which all pairs are judged; pairs that are good there are judged on all rows

MIN_GROUPS, MIN_OF_GROUP, MIN_IN_GROUPS = 5, 4, 50
"""Fewest groups whose targets differ, rows of such a group, and rows of all such groups."""

_FIRST_GROUPS, _OF_FIRST = 10, 30  # categories, and rows of each, on which all columns are judged first

ON_A_LINE = 1e-3
"""Largest unexplained share of the variance of an average within a group; what remains is rounding of the cells."""

NEARLY_ALL = 0.95
"""Smallest share of the rows, in groups of this kind, for which this holds."""


def derived(sample: Sample, truth: Truth) -> list[Finding]:
    """Return what there is to say about pairs of columns that give the target away."""
    findings = _left_out_means(sample, truth)
    return findings or _sign_of_difference(sample, truth)


def _sign_of_difference(sample: Sample, truth: Truth) -> list[Finding]:
    """Return the finding that two classes are told apart by which of two columns is larger."""
    columns = [one for one in sample.used if one.kind in ("numbers", "dates") and not one.missing.any()]
    columns = [one for one in columns if one.n_levels > 2]
    if not isinstance(truth, Labels) or len(truth.names) != 2 or not 2 <= len(columns) <= MAX_NUMBERS:
        return []
    y, n = sample.target == 1, sample.n_rows
    most = ALONE * min(y.mean(), 1.0 - y.mean())
    if n < FEWEST_ROWS or most == 0.0:
        return []
    X, some = np.column_stack([one.present for one in columns]), np.arange(0, n, max(1, n // _FIRST))
    for j in range(len(columns) - 1):
        near = _wrong_by_sign(X[some, j][:, None], X[some, j + 1 :], y[some])
        for k in j + 1 + np.flatnonzero(near <= 2.0 * most + 1.0 / some.size):
            wrong = float(_wrong_by_sign(X[:, j][:, None], X[:, [k]], y)[0])
            pair = columns[j], columns[k]
            if wrong > most or any(_error(one, sample) < EACH for one in pair):
                continue
            share = f"{np.floor(1000 * (1.0 - wrong)) / 10:.1f}%".replace(".0%", "%")
            names = tuple(one.name for one in pair)
            sentence = (
                f"Which of the columns {names[0]!r} and {names[1]!r} is larger tells the target in {share} of the rows."
            )
            remedy = (
                "If one of them is not known when a prediction is made, a test score with it is worthless: leave it "
                "out with --drop."
            )
            return [Finding(Kind.FORMULA, Weight.DOUBT, names, sentence, remedy, {"error": wrong, "columns": 2})]
    return []


def _wrong_by_sign(
    a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], y: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the share of rows whose class the sign of a - b does not tell, for each column of b."""
    shares = np.array([np.mean((a > b) != y[:, None], axis=0), np.mean((a < b) != y[:, None], axis=0)])
    return np.minimum(shares, 1.0 - shares).min(axis=0)


def _error(column: Column, sample: Sample) -> float:
    """Return the error of the best rule by one column, as a share of that of a constant prediction."""
    return min((rule.error for rule in class_rules(column, sample.target, sample.n_columns)), default=1.0)


def _left_out_means(sample: Sample, truth: Truth) -> list[Finding]:
    """Return the findings of columns that hold means of the target of the other rows with the same category.

    Among the n rows of a category such a mean is (sum - y) / (n - 1): it falls with y, exactly on a line.
    """
    numbers = [one for one in sample.used if one.kind == "numbers" and one.n_levels > MIN_GROUPS]
    categories = [one for one in sample.columns if MIN_GROUPS <= one.n_levels <= sample.n_rows // MIN_OF_GROUP]
    categories = [one for one in categories if one.kind in ("categories", "numbers")][:MAX_CATEGORIES]
    if not isinstance(truth, Labels):
        targets = [sample.target.astype(np.float64)]
    elif len(truth.names) == 2:
        targets = [(sample.target == 1).astype(np.float64)]
    else:
        targets = [(sample.target == code).astype(np.float64) for code in np.unique(sample.target)[:MIN_GROUPS]]
    findings: dict[str, Finding] = {}
    numbers = numbers[:MAX_NUMBERS]
    if not numbers or not categories:
        return []
    cells = np.column_stack([np.nan_to_num(one.numbers, posinf=0.0, neginf=0.0) for one in numbers])  # type: ignore[arg-type]
    for of in categories:
        rows, codes = _first_rows(of)
        for target in targets:
            for j in _falling(codes, cells[rows], target[rows]):
                column = numbers[j]
                if column is of or column.name in findings or not _are_left_out_means(of, column, target):
                    continue
                sentence = (
                    f"Column {column.name!r} looks like means of {truth.target!r} of the other rows with the same "
                    f"{of.name!r}: among these rows it falls as the target rises, exactly on a line. So it holds the "
                    "target of each row itself, and a test score with it is worthless."
                )
                remedy = f"Use {of.name!r}, whose values mercer encodes inside the folds, and {column.way_out}."
                values = {"values": column.n_levels}
                findings[column.name] = Finding(Kind.ENCODED, Weight.DOUBT, (column.name,), sentence, remedy, values)
    return list(findings.values())


def _first_rows(category: Column) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return some rows of the largest categories, and the number of the category of each."""
    largest = np.argsort(-np.bincount(category.codes[~category.missing]), kind="stable")[:_FIRST_GROUPS]
    rows = [np.flatnonzero(category.codes == one)[:_OF_FIRST] for one in largest.tolist()]
    return np.concatenate(rows), np.arange(len(rows)).repeat([one.size for one in rows])


def _falling(codes: npt.NDArray[np.int64], cells: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> list[int]:
    """Return the columns that may fall on a line as y rises in nearly every group."""
    of_group = np.eye(int(codes.max()) + 1)[codes]
    counts = of_group.sum(axis=0)
    y = y - of_group @ (of_group.T @ y / counts)
    cells = cells - of_group @ ((of_group.T @ cells) / counts[:, None])
    yy, oo, oy = of_group.T @ y**2, of_group.T @ cells**2, of_group.T @ (cells * y[:, None])
    judged = ((counts >= MIN_OF_GROUP) & (yy > 0.0))[:, None]
    unexplained = oo - oy**2 / np.where(yy > 0.0, yy, 1.0)[:, None]
    on_line = judged & (oo > 0.0) & (oy < 0.0) & (unexplained <= ON_A_LINE * oo)
    share = (counts @ on_line) / max(1.0, float(counts @ judged[:, 0]))
    return np.flatnonzero(share >= 0.5 * NEARLY_ALL).tolist()


def _are_left_out_means(category: Column, column: Column, target: npt.NDArray[np.float64]) -> bool:
    is_present = ~category.missing & ~column.missing
    assert column.numbers is not None
    share, n_groups, n_rows = _share_on_lines(
        category.codes[is_present], column.numbers[is_present], target[is_present]
    )
    return share >= NEARLY_ALL and n_groups >= MIN_GROUPS and n_rows >= MIN_IN_GROUPS


def _share_on_lines(
    codes: npt.NDArray[np.int64], numbers: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> tuple[float, int, int]:
    """Return the share of rows in groups in which `numbers` falls on a line as y rises, and numbers of groups and rows.

    Only groups of enough rows count whose targets differ.
    """
    counts = np.bincount(codes)
    sizes = np.maximum(counts, 1)
    y = y - (np.bincount(codes, y) / sizes)[codes]
    numbers = numbers - (np.bincount(codes, numbers) / sizes)[codes]
    yy, oo, oy = (np.bincount(codes, one) for one in (y * y, numbers * numbers, numbers * y))
    judged = (counts >= MIN_OF_GROUP) & (yy > 0.0)
    n_rows = int(counts[judged].sum())
    if n_rows == 0:
        return 0.0, 0, 0
    on_line = judged & (oo > 0.0) & (oy < 0.0) & (oo - oy**2 / np.where(yy > 0.0, yy, 1.0) <= ON_A_LINE * oo)
    return float(counts[on_line].sum() / n_rows), int(np.count_nonzero(judged)), n_rows
