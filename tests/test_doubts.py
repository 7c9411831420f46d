"""Doubts of a leak: none on tables without one, and one on tables with a planted leak."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mercer.data import as_table

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1])
    from benchmarks.doubts import (
        N_MADE,
        PLANTED,
        SEEDS,
        TARGET,
        data_folder,
        doubts,
        is_found,
        made,
        of_leaks,
        real_tables,
    )


@pytest.mark.parametrize("seed", range(6))
def test_counts_and_ratings_are_no_shares(seed):
    rng = np.random.default_rng(seed)
    days = 1 + rng.poisson(4, 400)
    yes = rng.random(400) < 1.0 / (1.0 + np.exp(4 - 0.15 * days))
    assert of_leaks(as_table(pd.DataFrame({"days": days, TARGET: np.where(yes, "yes", "no")}))) == []


@pytest.mark.parametrize("seed", [0, 5, 10, 15])
def test_tables_without_a_leak_raise_no_doubt(seed):
    assert doubts(as_table(made(seed))) == []


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_leak_is_found(kind):
    assert is_found(PLANTED[kind](3))


def test_shares_rounded_to_whole_percent_are_found_if_they_are_the_shares():
    rng = np.random.default_rng(0)
    yes, group = rng.random(300) < 0.4, rng.integers(0, 12, 300)
    share = (100 * pd.Series(yes.astype(float)).groupby(group).transform("mean")).round()
    frame = pd.DataFrame({"share": share, "noise": rng.normal(size=300), TARGET: np.where(yes, "yes", "no")})
    assert [one.columns for one in of_leaks(as_table(frame))] == [("share",)]
    assert of_leaks(as_table(frame.assign(share=share + 1))) == []


def test_points_that_are_a_sum_of_columns_are_found_though_they_look_like_classes():
    rng = np.random.default_rng(1)
    items = pd.DataFrame(rng.integers(0, 2, (200, 3)), columns=["one", "two", "three"])
    frame = items.assign(noise=rng.normal(size=200), **{TARGET: items.sum(axis=1)})
    assert [set(one.columns) for one in of_leaks(as_table(frame))] == [{"one", "two", "three"}]


def group_sums(values, group):
    grouped = pd.Series(values.astype(float)).groupby(group)
    return grouped.transform("sum"), grouped.transform("count")


def smoothed(frame, values, rng):
    total, n = group_sums(values, rng.integers(0, 40, len(values)))
    return frame.assign(leak=(total + 10 * values.mean()) / (n + 10))


def partly_missing(frame, values, rng):
    return frame.assign(leak=np.where(rng.random(len(values)) < 0.2, np.nan, values.astype(float)))


def incomplete_sum(frame, values, rng):
    part = values * rng.random(len(values))
    return frame.assign(first=np.where(rng.random(len(values)) < 0.1, np.nan, part), second=values - part)


def product(frame, values, rng):
    factor = rng.lognormal(size=len(values))
    return frame.assign(first=factor, second=values / factor)


def missing_above(frame, values, rng):
    return frame.assign(leak=np.where(values > np.median(values), np.nan, rng.normal(size=len(values))))


@pytest.mark.parametrize("plant", [smoothed, partly_missing, incomplete_sum, product, missing_above])
def test_a_leak_in_disguise_is_found(plant):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"noise": rng.normal(size=600), "count": rng.poisson(4, 600)})
    numbers = np.round(rng.lognormal(1.0, 0.6, 600), 3)
    classes = rng.random(600) < 0.3
    for values in [numbers, classes] if plant in (smoothed, partly_missing) else [numbers]:
        target = np.where(values, "yes", "no") if values is classes else values
        assert is_found(plant(frame, values, rng).assign(**{TARGET: target}))
        assert of_leaks(as_table(plant(frame, values, rng).assign(**{TARGET: rng.permutation(target)}))) == []


@pytest.mark.parametrize("target", ["classes", "numbers"])
def test_means_of_the_other_rows_of_a_category_are_found(target):
    rng = np.random.default_rng(2)
    city, noise = rng.integers(0, 40, 600), rng.normal(size=600)
    values = rng.random(600) < 0.2 + 0.1 * (city % 7) if target == "classes" else rng.normal(size=600) + city % 7
    total, n = group_sums(values, city)
    names = np.where(values, "yes", "no") if target == "classes" else values
    frame = pd.DataFrame({"city": [f"c{one}" for one in city], "noise": noise, TARGET: names})
    leak = ((total - values) / (n - 1)).round(4)
    assert [one.columns for one in of_leaks(as_table(frame.assign(leak=leak)))] == [("leak",)]
    assert of_leaks(as_table(frame.assign(leak=rng.permutation(leak)))) == []


def test_classes_that_are_the_sign_of_a_difference_are_found():
    rng = np.random.default_rng(3)
    home, away, noise = rng.normal(50.0, 10.0, (3, 400)).round(1)
    frame = pd.DataFrame({"home": home, "noise": noise, "away": away})
    of = [of_leaks(as_table(frame.assign(**{TARGET: np.where(home + off > away, "win", "no")}))) for off in (0.0, 5.0)]
    assert [[set(one.columns) for one in findings] for findings in of] == [[{"home", "away"}], []]


@pytest.mark.slow
def test_no_doubt_is_false_and_hardly_a_leak_is_missed():
    assert [seed for seed in range(N_MADE) if doubts(as_table(made(seed)))] == []
    for kind, plant in PLANTED.items():
        assert sum(not is_found(plant(seed)) for seed in range(SEEDS)) <= SEEDS // 20, kind


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* rows were left out because the target")
def test_real_tables_raise_no_doubt_of_a_leak():
    folder = data_folder()
    if folder is None:
        pytest.skip("needs data sets in MERCER_DATA")
    for name, table, target, task in real_tables(folder):
        assert of_leaks(table, target, task) == [], name
