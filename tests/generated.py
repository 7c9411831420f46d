"""Small generated tables with mixed columns, for tests of tables, studies and the command line; pages of studies."""

import re

import numpy as np
import pandas as pd

from mercer.studies.report import page


def mixed_frame(n: int = 120, seed: int = 0) -> pd.DataFrame:
    """Numbers, text, booleans, a row number and a constant; `prediction_kind` depends on two of them."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 80, n)
    dose = rng.lognormal(0.0, 1.0, n)
    site = rng.choice(["north", "south", "east"], n)
    score = (age - 50) / 15 + np.where(site == "north", 1.0, -0.5) + 0.4 * rng.standard_normal(n)
    return pd.DataFrame(
        {
            "row": np.arange(1, n + 1),
            "age": age.round(1),
            "dose": dose.round(3),
            "site": site,
            "smoker": rng.random(n) < 0.3,
            "unit": "mg",
            "outcome": np.where(score > 0, "ill", "well"),
        }
    )


def with_missing(frame: pd.DataFrame, columns: tuple[str, ...] = ("age", "site"), seed: int = 1) -> pd.DataFrame:
    """The frame with some cells of the given columns missing."""
    rng = np.random.default_rng(seed)
    frame = frame.copy()
    for name in columns:
        frame.loc[rng.choice(len(frame), 5, replace=False), name] = None
    return frame


def three_classes(n: int = 90, seed: int = 0) -> pd.DataFrame:
    """Three overlapping clouds in the plane."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 3
    centres = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])
    points = centres[kind] + rng.standard_normal((n, 2))
    return pd.DataFrame({"u": points[:, 0], "v": points[:, 1], "kind": np.array(["a", "b", "c"])[kind]})


def quantities(n: int = 80, seed: int = 3) -> pd.DataFrame:
    """Numbers, text and booleans; `pay` depends nonlinearly on two of them, on its own scale."""
    frame = mixed_frame(n).drop(columns=["row", "unit", "outcome"])
    noise = np.random.default_rng(seed).standard_normal(n)
    pay = 40_000.0 + 9.0 * (frame["age"] - 40.0) ** 2 - 9_000.0 * (frame["site"] == "north") + 1500.0 * noise
    return frame.assign(pay=pay.round(2))


def rare_class(n: int = 600, share: float = 0.05, seed: int = 0) -> pd.DataFrame:
    """Two clouds, of which one has few rows; a linear score tells them apart with an area under ROC of about 0.91."""
    rng = np.random.default_rng(seed)
    sick = np.zeros(n, dtype=bool)
    sick[rng.choice(n, round(share * n), replace=False)] = True
    points = rng.standard_normal((n, 4)) + sick[:, None] * np.array([1.4, 1.2, 0.0, 0.0])
    return pd.DataFrame(points, columns=list("abcd")).assign(state=np.where(sick, "sick", "well"))


def render(study, **options):
    """The page of a study, without the links of words to their definitions."""
    return re.sub(r'<a class="word"[^>]*>(.*?)</a>', r"\1", page.render(study, **options), flags=re.DOTALL)
