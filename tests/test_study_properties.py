"""Properties of a study that hold for every table: what must not change a figure, and that noise stays noise."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from generated import mixed_frame, with_missing
from mercer.data.frames import as_table
from mercer.model_selection import equal_rows
from mercer.studies.examination import Kind, Weight, examine
from mercer.studies.models.verification import verify
from mercer.studies.protocol import study
from mercer.studies.tables import read_target

QUICK = {"n_folds": 3, "kernel": ["linear", "rbf"]}


def frame():
    """Numbers, categories, missing cells and two classes."""
    return with_missing(mixed_frame(100)).drop(columns=["row", "unit"])


@pytest.fixture(scope="module")
def studied():
    return study(frame(), "outcome", **QUICK)


def figures(studied, names=None):
    """All figures of a study; `names` are the classes in the order in which the figures name them."""
    label_names = studied.column_choice.truth.names
    order = [label_names.index(name) for name in names or label_names]
    judged = [one.test for one in studied.contenders[:3]]
    return {
        "rows": studied.test_rows.tolist(),
        "search": [(cell.setting, cell.errors) for cell in studied.search.cells],
        "settings": [(one.setting, one.errors) for one in studied.contenders],
        "confusion": [one.confusion[np.ix_(order, order)].tolist() for one in judged],
        "accuracy": [(one.accuracy.low, one.accuracy.value, one.accuracy.high) for one in judged],
        "area": [round(one.auc, 12) for one in judged],
    }


def reversed_columns(table):
    return table[table.columns[::-1]], None


def renamed_columns(table):
    return table.rename(columns={name: f"z{9 - j}" for j, name in enumerate(table.columns.drop("outcome"))}), None


def renamed_classes(table):
    return table.assign(outcome=table["outcome"].map({"ill": "no", "well": "maybe"})), ["no", "maybe"]


@pytest.mark.parametrize("change", [reversed_columns, renamed_columns, renamed_classes])
def test_names_and_the_order_of_names_and_columns_change_no_figure(studied, change):
    changed, names = change(frame())
    assert figures(study(changed, "outcome", **QUICK), names) == figures(studied, ["ill", "well"])


def test_another_order_of_the_rows_is_another_split_of_the_same_table(studied):
    changed = frame().sample(frac=1, random_state=3, ignore_index=True)
    other = study(changed, "outcome", **QUICK)
    assert other.column_choice.left_out == studied.column_choice.left_out
    assert other.search.best.choice.name == studied.search.best.choice.name
    for one, same in zip(studied.contenders, other.contenders, strict=True):
        assert one.test.accuracy.low <= same.test.accuracy.high
        assert same.test.accuracy.low <= one.test.accuracy.high
    assert other.certificate.status == "optimal"
    assert verify(other.model, as_table(changed)).ok


def noise(rng, n=40, n_classes=2):
    """Numbers and categories that do not depend on the classes, which are equally frequent."""
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n).round(3)})
    table["town"] = rng.choice(["São Paulo", "New York", "Rome"], n)
    return table.assign(t=rng.permutation(np.arange(n) % n_classes).astype(str))


def rounded_again(table):
    return table.assign(a=(table["a"] * 3) / 3, b=(table["b"] + 10) - 10)


def written_with_fewer_digits(table):
    return table.assign(a=[float(f"{value:.14g}") for value in table["a"]])


def in_other_letters(table):
    return table.assign(town=table["town"].str.upper())


def with_other_spaces(table):
    return table.assign(town=" " + table["town"].str.replace(" ", "\u00a0") + "  ")


@pytest.mark.parametrize(
    "altered", [rounded_again, written_with_fewer_digits, in_other_letters, with_other_spaces], ids=lambda f: f.__name__
)
def test_copies_whose_cells_are_written_in_another_way_are_copies(altered):
    table = noise(np.random.default_rng(4))
    copies = pd.concat([table, altered(table)]).sample(frac=1, random_state=1, ignore_index=True)
    assert (copies.drop_duplicates().shape[0]) > 60  # which a comparison of cells does not see
    equal = equal_rows(copies.drop(columns="t"))
    assert equal.n_repeated == 40
    studied = study(copies, "t", n_folds=2, kernel=["rbf"])
    assert not set(equal.groups[studied.test_rows]) & set(equal.groups[studied.column_choice.rows[studied.sealed.rest]])
    assert studied.svm.test.accuracy.low < 0.5


def test_numbers_of_many_digits_are_told_apart():
    codes = 1234567890123456 + np.arange(4.0)
    assert equal_rows(codes[:, None]).n_repeated == 0
    assert equal_rows(np.array([[0.1], [0.1 + 1e-12], [0.1 + 1e-10]])).n_repeated == 0
    assert equal_rows(np.array([[0.3], [0.1 + 0.2]])).n_repeated == 1


def doubts(table):
    """What is said before the headline of a study of the table."""
    truth = read_target(as_table(table), "t")
    return [str(one) for one in examine(as_table(table), truth, [*table.columns.drop("t")]).with_weight(Weight.DOUBT)]


@pytest.mark.parametrize("apart", ["number", "clock"])
def test_a_column_of_other_values_hides_no_copies(apart):
    rng = np.random.default_rng(11)
    copies = pd.concat([noise(rng)] * 3).sample(frac=1, random_state=1, ignore_index=True)
    values = rng.normal(size=120) if apart == "number" else np.cumsum(rng.exponential(size=120))
    assert f"nearly equal in all numbers but '{apart}'" in doubts(copies.assign(**{apart: values}))[0]
    assert doubts(copies.assign(**{apart: values, "t": rng.permutation(copies["t"])})) == []  # no answer is known
    assert doubts(noise(rng, 120).assign(**{apart: values})) == []


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_rounded_numbers_are_no_groups(seed):
    if seed is None:
        table = load_iris(as_frame=True).frame.rename(columns={"target": "t"})
    else:
        rng = np.random.default_rng(seed)
        table = pd.DataFrame((rng.normal(size=(150, 1)) + rng.normal(size=(150, 3)) / 2).round(1), columns=list("abc"))
        table["t"] = np.where(table["a"] + rng.normal(size=150) / 2 > 0, "up", "down")
    assert doubts(table) == []
    assert study(table, "t", n_folds=2, kernel=["linear"]).arranged.near is None


def series(rng, n=160):
    """Numbers and a class that change slowly, and do not depend on each other."""
    walks = np.cumsum(rng.normal(size=(3, n)), axis=1) - np.arange(n) * rng.normal() / 10
    table = pd.DataFrame({"a": walks[0], "b": walks[1]})
    return table.assign(t=np.where(np.sin(walks[2]) > 0, "x", "y"), y=walks[2])


def in_order(table, target="t"):
    truth = read_target(as_table(table), target)
    names = [name for name in table if name not in ("t", "y")]
    examination = examine(as_table(table), truth, names, kinds={"day": "dmy"} if "day" in table else {})
    return [one for one in examination.findings if one.kind is Kind.ORDER]


@pytest.mark.parametrize("target", ["t", "y"])
def test_rows_in_the_order_of_time_are_told_from_others(target):
    rng = np.random.default_rng(3)
    table = series(rng)
    (finding,) = in_order(table, target)
    assert finding.weight is Weight.DOUBT
    assert finding.columns == ()
    assert {"t": "have the same class more often than chance explains, and", "y": "close (their ranks correlate by"}[
        target
    ] in finding.sentence
    timed = table.assign(sec=np.cumsum(rng.exponential(size=160)))
    assert "--time sec" in in_order(timed, target)[0].remedy
    days = table.assign(day=pd.date_range("2024-01-01", periods=160).strftime("%Y-%m-%d"))
    shuffled = days.sample(frac=1, random_state=0, ignore_index=True)
    assert "--time day" in in_order(shuffled, target)[0].remedy
    assert in_order(shuffled.drop(columns="day"), target) == []
    assert in_order(days.assign(**{target: rng.permutation(table[target])}), target) == []


def test_a_table_that_is_sorted_is_no_series():
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=300))
    table = pd.DataFrame({"x": x, "z": rng.normal(size=300), "y": np.sin(2 * x) + rng.normal(size=300) / 5})
    table["t"] = np.where(x + rng.normal(size=300) / 2 > 0, "up", "down")
    assert in_order(table) == []
    assert in_order(table, "y") == []
    assert in_order(table.drop(columns="x").sort_values("t", ignore_index=True)) == []


@pytest.mark.parametrize("seed", range(4))
def test_shares_of_the_target_are_found(seed):
    rng = np.random.default_rng(seed)
    table, level = noise(rng, 100), rng.integers(0, 30, 100)
    is_class = (table["t"] == "1").to_numpy().astype(float)
    encoded = pd.Series(is_class).groupby(level).transform("mean")
    for share in (encoded, encoded.round(3), 100 * encoded):
        assert "'e' looks like shares of '1'" in doubts(table.assign(e=share))[-1]
    score = np.clip(0.5 + 0.2 * (is_class - 0.5) + 0.2 * rng.normal(size=100), 0, 1)
    for honest in (score.round(1), score.round(2), score, rng.permutation(encoded)):
        assert doubts(table.assign(e=honest)) == []


def plain(rng):
    return noise(rng, 80)


def copied(rng):
    table = noise(rng)
    return pd.concat([table, rounded_again(table), in_other_letters(table)]).sample(
        frac=1, random_state=int(rng.integers(10**6)), ignore_index=True
    )


def nearly_copied(rng):
    table = pd.concat([noise(rng)] * 3, ignore_index=True)
    table["a"] += 0.01 * rng.normal(size=120)
    return table.assign(b=table["b"] + 0.01 * rng.normal(size=120)).sample(frac=1, random_state=1, ignore_index=True)


def with_identifiers(rng):
    table = noise(rng, 80).sort_values("t", ignore_index=True)
    table["id"] = np.sort(rng.permutation(10_000)[:80])
    table["row"] = np.arange(80)
    return table.assign(key=[f"k{k}" for k in rng.permutation(80)])


def of_words(rng):
    words = np.array([f"w{k}x" for k in range(60)])
    table = noise(rng, 80).assign(level=[f"c{k}" for k in rng.integers(0, 40, 80)])
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 80), unit="D")
    return table.assign(text=[" ".join(rng.choice(words, 8)) for _ in range(80)], day=days.strftime("%Y-%m-%d"))


def with_holes(rng):
    table = noise(rng, 80)
    return table.mask(rng.random(table.shape) < [0.3, 0.3, 0.3, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("disguise", [plain, copied, nearly_copied, with_identifiers, of_words, with_holes])
def test_noise_is_seldom_above_chance(disguise):
    above, n_tables = 0, 40
    for seed in range(n_tables):
        studied = study(disguise(np.random.default_rng([seed, 1])), "t", n_folds=2, kernel=["linear", "rbf"], seed=seed)
        chance = studied.contenders[-1].test.accuracy.value
        above += studied.svm.test.accuracy.low > chance and not studied.examination.with_weight(Weight.DOUBT)
    assert above <= 4  # 2.5% of the tables are one of 40; more than 4 have a probability of 0.3%
