"""The examination of a table: what is found, and that ordinary tables raise no alarm."""

import numpy as np
import pandas as pd
import pytest

from generated import mixed_frame, quantities, three_classes, with_missing
from mercer import NuSVC
from mercer.data import Table, TableError, as_table
from mercer.model_selection import check_class_counts
from mercer.studies.arranged import Arranger
from mercer.studies.examination import Kind, Weight, diagnose, examine
from mercer.studies.examination.columns import column_of
from mercer.studies.examination.histograms import histogram
from mercer.studies.examination.machines import infeasible_nu
from mercer.studies.examination.single_column_rules import class_rules, number_rules
from mercer.studies.protocol import study
from mercer.studies.report.arrangement import grouped_rows
from mercer.studies.report.examination import caption
from mercer.studies.tables import read_target

N = 200


def examined(frame, target="y", task="auto", features=None):
    table = as_table(frame)
    truth = read_target(table, target, task)
    return examine(table, truth, features or [name for name in table.names if name != target])


def kinds(examination, weight=None):
    return {finding.kind for finding in examination.findings if weight in (None, finding.weight)}


def plain(n=N, seed=0, classes=2):
    """Two columns of noise, and a target that has nothing to do with them."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.choice(list("uvw"), n), "y": rng.permutation(np.arange(n) % classes)}
    )


def classes(frame):
    return frame.assign(y=np.array(["no", "yes", "maybe"])[frame["y"]])


def numbers(frame, seed=1):
    return frame.assign(y=np.random.default_rng(seed).lognormal(size=len(frame)))


def code(y):
    return pd.factorize(y)[0]


LEAKS_OF_CLASSES = {
    "copy": lambda y, rng: (y, Kind.COPY),
    "other names": lambda y, rng: (np.char.add("is ", y.to_numpy(str)), Kind.PREDICTS_ALONE),
    "several levels a class": lambda y, rng: (y + rng.choice(list("pqrst"), len(y)), Kind.PREDICTS_ALONE),
    "codes": lambda y, rng: (np.array([7, 3, 5])[code(y)], Kind.PREDICTS_ALONE),
    "many codes": lambda y, rng: (3 * rng.integers(0, 12, len(y)) + code(y), Kind.PREDICTS_ALONE),
    "a range each": lambda y, rng: (code(y) + 0.9 * rng.random(len(y)), Kind.PREDICTS_ALONE),
    "identifier": lambda y, rng: (np.argsort(np.argsort(y, kind="stable")) * 3 + 17, Kind.PREDICTS_ALONE),
    "name of a file": lambda y, rng: ([f"{c}_{j}.jpg" for j, c in enumerate(y)], Kind.PREDICTS_ALONE),
    "text that sorts it": lambda y, rng: (
        [f"case {j + 5}" for j in np.argsort(np.argsort(y, kind="stable"))],
        Kind.PREDICTS_ALONE,
    ),
    "missing": lambda y, rng: (
        np.where((y == "no") != (rng.random(len(y)) < 0.02), np.nan, rng.normal(size=len(y))),
        Kind.MISSING_PREDICTS,
    ),
    "a few errors": lambda y, rng: (np.where(np.arange(len(y)) % 150 == 0, "no", y), Kind.PREDICTS_ALONE),
}


@pytest.mark.parametrize(
    ("disguise", "n_classes"),
    [(name, k) for name in LEAKS_OF_CLASSES for k in (2, 3) if (name, k) != ("missing", 3)],
)
def test_a_column_that_alone_predicts_the_class_is_found(disguise, n_classes):
    frame = classes(plain(classes=n_classes))
    leak, kind = LEAKS_OF_CLASSES[disguise](frame["y"], np.random.default_rng(3))
    (finding,) = examined(frame.assign(leak=leak)).with_weight(Weight.DOUBT)
    assert (finding.kind, finding.columns) == (kind, ("leak",))
    assert "--drop leak" in finding.remedy


def test_missing_cells_that_tell_one_of_several_classes_are_found():
    frame = classes(plain(classes=3))
    frame["died"] = np.where(frame["y"] == "no", np.arange(N), np.nan)
    (finding,) = examined(frame).with_weight(Weight.DOUBT)
    assert (finding.kind, finding.columns) == (Kind.MISSING_PREDICTS, ("died",))
    assert finding.sentence.startswith("Column 'died' alone tells one class from the others in 100% of the rows")
    frame["died"] = frame["died"].sample(frac=1, random_state=0).to_numpy()
    assert kinds(examined(frame), Weight.DOUBT) == set()


LEAKS_OF_NUMBERS = {
    "copy": lambda y, rng: (y, Kind.COPY),
    "other unit": lambda y, rng: ((1.1 * y).round(3), Kind.PREDICTS_ALONE),
    "monotone": lambda y, rng: (-np.log(y), Kind.PREDICTS_ALONE),
    "parabola": lambda y, rng: (np.where(rng.random(len(y)) < 0.5, -1, 1) * y, Kind.PREDICTS_ALONE),
    "nearly": lambda y, rng: (y * (1 + 0.01 * rng.normal(size=len(y))), Kind.PREDICTS_ALONE),
    "date": lambda y, rng: (
        (pd.Timestamp("2001-01-01") + pd.to_timedelta(np.argsort(np.argsort(y)), "D")).strftime("%Y-%m-%d"),
        Kind.PREDICTS_ALONE,
    ),
    "rank": lambda y, rng: (np.argsort(np.argsort(y)), Kind.PREDICTS_ALONE),
    "some missing": lambda y, rng: (np.where(y == y.max(), np.nan, y), Kind.PREDICTS_ALONE),
}


@pytest.mark.parametrize("disguise", LEAKS_OF_NUMBERS)
def test_a_column_that_alone_predicts_the_number_is_found(disguise):
    frame = numbers(plain())
    leak, kind = LEAKS_OF_NUMBERS[disguise](frame["y"].to_numpy(), np.random.default_rng(3))
    (finding,) = examined(frame.assign(leak=leak)).with_weight(Weight.DOUBT)
    assert (finding.kind, finding.columns) == (kind, ("leak",))


def test_a_target_that_is_computed_from_columns_is_found():
    rng = np.random.default_rng(4)
    parts = pd.DataFrame(rng.exponential(size=(N, 3)).round(2), columns=["casual", "registered", "other"])
    frame = numbers(plain()).assign(**parts, y=parts["casual"] + 2 * parts["registered"] + 7)
    (finding,) = examined(frame).with_weight(Weight.DOUBT)
    assert (finding.kind, finding.columns) == (Kind.FORMULA, ("registered", "casual"))
    assert "+2·'registered' +1·'casual'" in finding.sentence
    noisy = frame.assign(y=frame["y"] + 0.1 * rng.normal(size=N))
    assert kinds(examined(noisy), Weight.DOUBT) == set()


@pytest.mark.parametrize("make", [classes, numbers])
def test_a_copy_of_the_target_is_found_in_a_small_table(make):
    frame = make(plain(8)).assign(leak=lambda one: one["y"])
    (finding,) = examined(frame, task="classification" if make is classes else "regression").with_weight(Weight.DOUBT)
    assert (finding.kind, finding.columns) == (Kind.COPY, ("leak",))


def test_a_text_with_one_number_each_is_found():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 20, N)
    frame = plain().assign(y=rng.normal(size=20)[level] + 0.001 * rng.normal(size=N), leak=level.astype(str))
    (finding,) = examined(frame).with_weight(Weight.DOUBT)
    assert finding.columns == ("leak",)


@pytest.mark.parametrize("n", [24, 60, 400])
@pytest.mark.parametrize("make", [classes, numbers])
def test_noise_predicts_nothing(make, n):
    frame = make(plain(n))
    rng = np.random.default_rng(n)
    noise = {f"x{j}": rng.normal(size=n) for j in range(60)}
    noise |= {f"t{j}": rng.integers(0, n // 3, n).astype(str) for j in range(20)}
    examination = examined(pd.concat([frame, pd.DataFrame(noise)], axis=1))
    assert kinds(examination, Weight.DOUBT) == set()
    assert Kind.STRONG not in kinds(examination)


@pytest.mark.parametrize(
    ("frame", "target"),
    [
        (with_missing(mixed_frame(160)).drop(columns="row"), "outcome"),
        (three_classes(120), "kind"),
        (quantities(), "pay"),
    ],
)
def test_ordinary_tables_raise_no_alarm(frame, target):
    examination = examined(frame, target)
    assert kinds(examination) <= {Kind.CONSTANT, Kind.SKEWED}
    assert kinds(examination, Weight.REMARK) == kinds(examination)


def test_copies_of_rows_do_not_look_like_leaks():
    frame = classes(plain(12))
    examination = examined(pd.concat([frame] * 10, ignore_index=True))
    assert examination.n_examined == 12
    assert kinds(examination, Weight.DOUBT) == set()


def test_a_word_that_alone_predicts_the_class_is_found():
    rng = np.random.default_rng(8)
    vocabulary = [f"word{chr(97 + j)}" for j in range(26)]
    frame = classes(plain())
    texts = [" ".join(rng.choice(vocabulary, 12)) + (" approved" if y == "yes" else "") for y in frame["y"]]
    table = as_table(frame.assign(note=texts, day=[f"{1 + j % 28}.{1 + j % 12}.2024" for j in range(N)]))
    diagnosis = diagnose(table, read_target(table, "y"))
    (finding,) = (one for one in diagnosis if one.weight is Weight.DOUBT)
    assert finding.sentence.startswith("The word 'approved' in column 'note' alone predicts the target in 100%")
    assert "--drop note" in finding.remedy
    assert Kind.IDENTIFYING not in {one.kind for one in diagnosis}


def test_dates_are_examined_as_days():
    rng = np.random.default_rng(8)
    days = pd.Timestamp("1999-12-01") + pd.to_timedelta(rng.permutation(N) * 5, "D")
    frame = plain().assign(y=np.where(days < pd.Timestamp("2001-01-01"), "old", "new"), day=days.strftime("%d.%m.%Y"))
    table = as_table(frame)
    examination = examine(table, read_target(table, "y"), ["a", "b", "day"], kinds={"day": "dmy"})
    (finding,) = examination.with_weight(Weight.DOUBT)
    assert (finding.columns, finding.sentence.endswith("each class has a range of its own.")) == (("day",), True)
    assert caption(examination.histograms[2]) == f"1999-12-01 to {days.max():%Y-%m-%d}"


def near_copies(n_groups, size, columns=3, seed=0):
    """Groups of nearly equal rows, each with a class of its own, and a column that names the group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(rng.permutation(n_groups), size)
    centres = rng.normal(size=(n_groups, columns))
    points = centres[group] + 0.01 * rng.normal(size=(len(group), columns))
    frame = pd.DataFrame(points, columns=[f"x{j}" for j in range(columns)])
    return frame.assign(owner=[f"p{g}" for g in group], y=np.array(["no", "yes"])[rng.integers(0, 2, n_groups)][group])


@pytest.mark.parametrize(("n_groups", "size"), [(30, 10), (20, 4), (150, 2)])
def test_groups_of_nearly_equal_rows_are_found(n_groups, size):
    frame = near_copies(n_groups, size)
    findings = {finding.kind: finding for finding in examined(frame).with_weight(Weight.DOUBT)}
    assert findings[Kind.GROUPS].columns == ("owner",)
    assert "--groups owner" in findings[Kind.GROUPS].remedy
    assert "--groups owner" in findings[Kind.PREDICTS_ALONE].remedy
    assert findings[Kind.GROUPS].numbers["size"] == size
    (finding,) = examined(frame.drop(columns="owner")).with_weight(Weight.DOUBT)
    assert (finding.kind, finding.columns) == (Kind.GROUPS, ())


@pytest.mark.parametrize("named", [True, False])
def test_groups_of_nearly_equal_rows_stay_together(named):
    frame = near_copies(30, 5, columns=6)
    group = pd.factorize(frame["owner"])[0]
    frame = pd.concat([frame, frame.head(3)], ignore_index=True)
    group = np.append(group, group[:3])
    table = as_table(frame if named else frame.drop(columns="owner"))
    truth = read_target(table, "y")
    columns = [f"x{j}" for j in range(6)]
    arranged = Arranger(table, truth, None, None, "together").by(columns)
    assert (arranged.near.size, arranged.near.column) == (5, "owner" if named else "")
    assert (pd.factorize(arranged.arrangement.groups)[0] == group).all()
    assert Arranger(table, truth, None, None, "apart").by(columns).near is None
    if named:
        assert Arranger(table, truth, "owner", None, "together").by(columns).near is None


def test_noise_in_groups_of_nearly_equal_rows_is_not_predicted():
    frame = near_copies(40, 4, columns=6, seed=2)
    studied = study(frame.drop(columns="owner"), "y", n_folds=3)
    accuracy = studied.svm.test.accuracy
    assert accuracy.low < 0.5 < accuracy.high
    assert studied.examination.with_weight(Weight.DOUBT) == []
    assert "The 40 groups that were found stayed together" in " ".join(grouped_rows(studied))


def test_one_cell_far_outside_makes_no_groups():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 2)), columns=["a", "b"])
    frame.loc[7, "a"] = 1e300
    table = as_table(frame.assign(y=np.arange(120) % 2))
    assert Arranger(table, read_target(table, "y"), None, None, "together").by(["a", "b"]).near is None


def test_few_groups_are_not_kept_together_but_named():
    frame = near_copies(12, 10)
    table = as_table(frame)
    assert Arranger(table, read_target(table, "y"), None, None, "together").by(["x0", "x1", "x2"]).near is None
    assert Kind.GROUPS in kinds(examined(frame), Weight.DOUBT)


def test_classes_that_are_far_apart_are_no_groups():
    frame = near_copies(20, 15).drop(columns="y").rename(columns={"owner": "y"})
    assert Kind.GROUPS not in kinds(examined(frame))


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("values", [3, 40, 10**6])
def test_independent_columns_have_no_groups(columns, values):
    rng = np.random.default_rng(columns)
    frame = pd.DataFrame({f"x{j}": rng.integers(0, values, 300) for j in range(columns)})
    frame = frame.assign(t=rng.choice(list("abc"), 300), y=rng.choice(["no", "yes"], 300))
    assert Kind.GROUPS not in kinds(examined(frame))


def test_a_column_that_is_not_used_gets_a_remark_only():
    frame = classes(plain())
    examination = examined(frame.assign(leak=frame["y"]), features=["a", "b"])
    assert kinds(examination, Weight.DOUBT) == set()
    (finding,) = (one for one in examination.findings if one.kind is Kind.PREDICTS_ALONE)
    assert "not used" in finding.remedy


def test_findings_do_not_depend_on_names_labels_or_the_order_of_rows():
    frame = classes(plain(classes=3)).assign(c=lambda one: code(one["y"]) + np.linspace(0, 0.99, N))
    other = frame.sample(frac=1, random_state=0).rename(columns={"a": "z", "c": "q q"}).replace({"y": {"no": "zz"}})
    one, two = (examined(this) for this in (frame, other))
    assert [finding.numbers for finding in one.findings] == [finding.numbers for finding in two.findings]
    assert "--drop 'q q'" in two.findings[0].remedy


@pytest.mark.parametrize("end", [Kind.CEILING, Kind.FLOOR])
def test_a_target_that_was_cut_off_is_found(end):
    frame = plain()
    y = np.random.default_rng(2).normal(size=N).round(3)
    y = np.minimum(y, np.quantile(y, 0.95)) if end is Kind.CEILING else np.maximum(y, np.quantile(y, 0.05))
    (finding,) = (one for one in examined(frame.assign(y=y)).findings if one.weight is Weight.CAUTION)
    assert finding.kind is end
    assert finding.numbers["rows"] == 10
    assert f"10 of {N} rows (5.0%)" in finding.sentence


@pytest.mark.parametrize(
    "y",
    [
        np.arange(N) % 7 + 0.0,
        np.random.default_rng(0).normal(size=N).round(1),
        np.random.default_rng(0).random(N).round(2),
        np.random.default_rng(0).poisson(20, N) + 0.0,
    ],
    ids=["scale", "normal", "uniform", "counts"],
)
def test_ordinary_numbers_have_no_ceiling(y):
    assert kinds(examined(plain().assign(y=y), task="regression"), Weight.CAUTION) == set()


def test_equal_rows_with_other_targets():
    frame = pd.DataFrame({"a": [1.0, 1.0, 1.0, 2.0, 2.0] * 20, "b": ["u"] * 3 * 20 + ["v"] * 2 * 20})
    frame["y"] = np.where(np.arange(100) % 2, "no", "yes")
    (finding,) = (one for one in examined(frame).findings if one.kind is Kind.CONTRADICTION)
    _, group = np.unique(frame[["a", "b"]].astype(str).agg(" ".join, axis=1), return_inverse=True)
    best = sum(max(np.bincount(code(frame["y"])[group == g])) for g in range(group.max() + 1))
    assert finding.weight is Weight.CAUTION
    assert finding.numbers == {"rows": 100, "share_right": best / 100}
    examination = examined(frame.assign(y=np.random.default_rng(0).normal(size=100)))
    (finding,) = (one for one in examination.findings if one.kind is Kind.CONTRADICTION)
    assert 0.0 < finding.numbers["largest_r2"] < 0.3


def test_shapes_of_columns():
    rng = np.random.default_rng(9)
    frame = classes(plain()).assign(
        same=1.0,
        rare=np.where(rng.random(N) < 0.7, np.nan, rng.normal(size=N)),
        money=rng.lognormal(0, 2, N),
        typo=np.where(np.arange(N) == 7, 1e6, rng.normal(size=N)),
        place=[f"place {j}" for j in rng.permutation(N) % 150],
        account=rng.permutation(10**9 + 997 * np.arange(N)) + 0.0,
        double=lambda one: 2 * one["a"] + 1e-3 * rng.normal(size=N),
        letter=lambda one: one["b"].str.upper(),
    )
    findings = {finding.kind: finding for finding in examined(frame).findings}
    assert findings[Kind.CONSTANT].columns == ("same",)
    assert findings[Kind.MISSING].columns == ("rare",)
    assert findings[Kind.SKEWED].columns == ("money",)
    assert findings[Kind.OUTLYING].columns[0] == "typo"
    assert findings[Kind.IDENTIFYING].columns == ("place", "account")
    assert set(findings[Kind.CORRELATED].columns) == {"a", "double", "b", "letter"}
    assert findings[Kind.CORRELATED].numbers["pairs"] == 2


@pytest.mark.parametrize("spelt", [("Yes", "YES"), ("yes", "yes "), ("of us", "Of  us"), ("yes", "\uff39es")])
def test_classes_that_differ_in_case_or_spaces_only_are_said_first(spelt):
    rng = np.random.default_rng(0)
    y = [*rng.choice(spelt, 60), *["no"] * 60]
    examination = examined(pd.DataFrame({"x": rng.normal(size=120), "y": y}))
    (doubt,) = (one for one in examination.with_weight(Weight.DOUBT) if one.kind is Kind.ALIKE_CLASSES)
    assert all(f"{name!r} ({y.count(name)})" in doubt.sentence for name in spelt)
    assert "'no'" not in doubt.sentence
    with pytest.raises(TableError) as refused:
        check_class_counts(["Yes", "yes ", "no"], np.array([40, 3, 40]), 0.25, 5)
    assert "write 'Yes' and 'yes ' in one way if they are one" in refused.value.hint


@pytest.mark.parametrize("size", [1e-300, 1e-12, 1e12, 1e150])
def test_the_unit_of_a_column_does_not_matter(size):
    frame = numbers(plain()).assign(c=lambda one: np.exp(one["a"] ** 2), d=lambda one: 3 * one["y"] - one["c"])
    one, two = examined(frame), examined(frame.assign(a=size * frame["a"], c=size * frame["c"]))
    assert [finding.kind for finding in one.findings] == [finding.kind for finding in two.findings]
    assert Kind.FORMULA in kinds(one)


def test_small_classes_are_named():
    frame = classes(plain())
    frame.loc[:3, "y"] = "rare"
    (finding,) = (one for one in examined(frame).findings if one.kind is Kind.SMALL_CLASS)
    assert "Class 'rare' (4) has fewer than 20 rows" in finding.sentence


def test_a_sparse_block_is_examined():
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    block = sp.random(300, 2000, 0.01, format="lil", random_state=0)
    block[:, 1234] = y[:, None] * rng.random((300, 1))
    table = Table(("label",), (y + 0.0,), sp.csr_array(block))
    examination = examine(table, read_target(table, "label"), [])
    (finding,) = examination.with_weight(Weight.DOUBT)
    assert finding.columns == ("1234",)


def test_histograms_count_every_examined_row():
    frame = with_missing(mixed_frame(160)).drop(columns="row")
    examination = examined(frame, "outcome")
    assert [one.name for one in examination.histograms] == ["age", "dose", "site", "smoker", "unit"]
    for one in examination.histograms:
        assert one.counts.sum() + one.n_missing == examination.n_examined == 160
    site, counted = examination.histograms[2], pd.crosstab(frame["outcome"], frame["site"])
    assert set(site.levels) == set(counted.columns)
    assert examination.classes == tuple(counted.index)
    assert (site.counts == counted[list(site.levels)].to_numpy()).all()
    pay = examined(quantities(), "pay").histograms[0]
    assert (pay.name, pay.counts.shape) == ("pay", (1, 8))
    cells = np.array([str(j) for j in range(30)] * 2 + [None, "7"], dtype=object)
    many = histogram(column_of("t", cells), cells, np.zeros(62, dtype=np.int64), 1)
    assert many.counts.tolist() == [[3, *[2] * 10, 38]]
    assert (many.levels[0], many.n_levels, many.n_missing) == ("7", 30, 1)
    huge = column_of("x", np.array([-1.5e308, 0.0, 1.5e308]))
    assert histogram(huge, huge.numbers, np.zeros(3, dtype=np.int64), 1).counts.tolist() == [[1, 0, 1, 0, 1]]


def test_rules_are_as_good_as_the_best_by_trying_all():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 12, 60) + 0.0, rng.integers(0, 2, 60)
    y[x > 6] = 1
    y[x < 5] = 0
    cuts = [min(np.sum(y != side), np.sum(y == side)) for side in ((x > c).astype(int) for c in range(12))]
    rules = {rule.how: rule for rule in class_rules(column_of("x", x), y, 1)}
    assert round(60 * (1 - rules["intervals"].right)) == min(cuts)
    right = 0
    for i in range(60):
        others = y[(x == x[i]) & (np.arange(60) != i)]
        right += 0 < np.sum(others == y[i]) >= np.sum(others != y[i])
    assert round(60 * rules["levels"].right) == right
    assert number_rules(column_of("x", np.arange(20.0)), np.arange(20.0) ** 3)[0].error == pytest.approx(0.0)


def outliers(n=N):
    """Columns in which one cell is so far outside that all other rows look alike once they are standardised."""
    frame = plain(n).drop(columns="b").assign(c=np.random.default_rng(5).normal(size=n))
    frame.loc[0, ["a", "c"]] = 1e6
    return classes(frame)


@pytest.mark.parametrize(
    ("frame", "options", "kind", "words"),
    [
        (outliers(), {}, Kind.GAMMA, "nearly all rows look alike"),
        (classes(plain()), {"gamma": 1e4}, Kind.GAMMA, "nearly every row is like itself only"),
        (classes(plain()), {"nu": 0.4}, None, ""),
        (classes(plain()), {"gamma": 0.3}, None, ""),
        (classes(plain()).loc[lambda one: (one["y"] == "no") | (one.index < 60)], {}, Kind.NU, "the default 0.5 is"),
        (classes(plain()).assign(c=lambda one: 1e5 * one["a"] ** 3), {}, Kind.UNSCALED, "standard deviation of 'c'"),
        (classes(plain()).assign(id=np.arange(N)), {}, Kind.ASSUMED, "Column 'id' is not used"),
        (classes(plain()).assign(a=lambda one: one["a"].where(one.index != 3)), {}, Kind.ASSUMED, "'a' (1)"),
        (pd.concat([classes(plain(60))] * 3), {}, Kind.COPIES, "120 of 180 rows are copies"),
        (classes(plain())[["y"]], {}, Kind.REFUSED, "the target is the only column"),
        (classes(plain()).assign(a=np.inf), {}, Kind.REFUSED, "infinite values in 'a'"),
        (classes(plain(12)).assign(y=["no"] * 9 + ["yes"] * 3), {}, Kind.REFUSED, "mercer study refuses"),
        (numbers(plain(15)), {}, Kind.REFUSED, "regression needs more than"),
    ],
)  # fmt: skip
def test_trouble_of_machines_is_foreseen(frame, options, kind, words):
    table = as_table(frame)
    diagnosis = diagnose(table, read_target(table, "y", "auto"), **options)
    assert words in " ".join(finding.sentence for finding in diagnosis if finding.kind is kind)
    if kind is None:
        assert {finding.kind for finding in diagnosis} <= {Kind.CONSTANT}


@pytest.mark.parametrize("nu", [0.2, 0.39, 0.41])
def test_the_largest_nu_is_that_of_the_machine(nu):
    y = np.repeat(["a", "b", "c"], [40, 20, 160])
    X = np.random.default_rng(0).normal(size=(220, 2))
    truth = read_target(Table(("y",), (y.astype(object),)), "y")
    foreseen = infeasible_nu(truth, nu)
    if foreseen:
        with pytest.raises(ValueError, match="nu is infeasible"):
            NuSVC(nu=nu).fit(X, y)
    else:
        NuSVC(nu=nu, max_seconds=1).fit(X, y)
    assert bool(foreseen) == (nu > 2 * 20 / 180)


@pytest.mark.parametrize("n_columns", [775, 2500])
def test_many_more_columns_than_rows_are_examined(n_columns):
    X = np.random.default_rng(0).normal(size=(60, n_columns))
    frame = pd.DataFrame(X).rename(columns=str).assign(y=np.arange(60) % 2)
    assert diagnose(as_table(frame), read_target(as_table(frame), "y")) == ()


def repeated(name, cells, n=300, seed=0):
    """Rows of 100 patients, whose targets go with the patient; and the same with targets at random."""
    rng = np.random.default_rng(seed)
    owner, effect = rng.integers(0, 100, n), rng.normal(size=100)
    like = np.where(effect[owner] + 0.5 * rng.normal(size=n) > 0, "ill", "well")
    frame = pd.DataFrame({name: [cells(one) for one in owner], "x": rng.normal(size=n)})
    return frame.assign(y=like), frame.assign(y=rng.permutation(like))


@pytest.mark.parametrize(
    ("name", "cells", "of_like", "of_any"),
    [
        ("patient", "P{:04}".format, True, True),
        ("Pat_Nr", lambda one: one, True, True),
        ("id", "c{}".format, True, False),
        ("patient", lambda one: one % 6, False, False),
        ("device", lambda one: ["phone", "tablet", "desk", "watch", "other"][one % 5], False, False),
        ("x1", "P{:04}".format, False, False),
    ],
)
def test_repeated_patients_are_a_doubt(name, cells, of_like, of_any):
    for frame, is_doubt in zip(repeated(name, cells), (of_like, of_any), strict=True):
        doubts = [one for one in examined(frame).with_weight(Weight.DOUBT) if one.kind is Kind.GROUPS]
        assert [one.columns for one in doubts] == [(name,)] * is_doubt
        assert all(f"--groups {name}" in one.remedy for one in doubts)
