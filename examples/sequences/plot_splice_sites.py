"""
Splice sites: words at their places
===================================

Is a GT the start of an intron? What counts is which letters stand at which distance from it.
"""

# %%
# Made data. At a splice site, letters near the GT follow the consensus CAG|GTAAGT, each with its own
# probability; at a decoy they are random. Rows are aligned: the GT is at positions 30 and 31.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.metrics import roc_auc_score

from mercer import SVC, Spectrum
from mercer.kernels import WeightedDegree
from mercer.plot import SERIES, RocCurveDisplay, house_style

rng = np.random.default_rng(0)
signs = LinearSegmentedColormap.from_list("signs", [SERIES[1], "white", SERIES[0]])
LETTERS, LENGTH, SITE = "ACGT", 62, 30
CONSENSUS = {-3: ("C", 0.4), -2: ("A", 0.6), -1: ("G", 0.75)}  # letters and their probabilities, by place
CONSENSUS |= {2: ("A", 0.6), 3: ("A", 0.7), 4: ("G", 0.8), 5: ("T", 0.5)}


def window(is_site):
    """Return the letters around a GT."""
    letters = rng.choice(list(LETTERS), size=LENGTH)
    letters[SITE : SITE + 2] = "G", "T"
    for place, (letter, probability) in CONSENSUS.items():
        if is_site and rng.random() < probability:
            letters[SITE + place] = letter
    return "".join(letters)


y = np.arange(900) % 2
rows = [window(label) for label in y]
train, test, y_train, y_test = rows[:600], rows[600:], y[:600], y[600:]

# %%
# `WeightedDegree` compares words at the same position only. `Spectrum` counts words wherever they
# are; it sees the same letters, but not where they stand.
machines = {
    "WeightedDegree(4)": SVC(kernel=WeightedDegree(4), C=1.0).fit(train, y_train),
    "Spectrum(4)": SVC(kernel=Spectrum(4), C=1.0).fit(train, y_train),
}
for name, machine in machines.items():
    area = roc_auc_score(y_test, machine.decision_function(test))
    print(f"{name:<18} {machine.certificate_.status}, ROC area on new rows {area:.3f}")

# %%
# Which letter helps at which place? `score_variants` puts each letter at each position of 20 sites
# and says how the decision value changes. The means are the consensus, seen by the machine.
machine = machines["WeightedDegree(4)"]
sites = [row for row, label in zip(test, y_test, strict=True) if label][:20]
places = range(SITE - 8, SITE + 12)
variants = [(i, at, letter) for letter in LETTERS for at in places for i in range(len(sites))]
effects = machine.score_variants(sites, variants).reshape(len(LETTERS), len(places), len(sites)).mean(axis=2)
effects -= effects.mean(axis=0)
best = "".join(LETTERS[k] for k in effects[:, 5:14].argmax(axis=0))
print(f"best letters from -3 to +5: {best[:3]}|{best[3:]}")

with house_style():
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 3.6), layout="constrained", gridspec_kw={"width_ratios": [1, 2]}
    )
    RocCurveDisplay.from_estimator(machine, test, y_test, ax=left)
    left.set_title("weighted degree, new rows")
    largest = np.abs(effects).max()
    image = right.imshow(effects, cmap=signs, vmin=-largest, vmax=largest, aspect="auto")
    right.set_yticks(range(4), list(LETTERS))
    right.set_xticks(range(0, len(places), 2), [f"{at - SITE:+d}" for at in places][::2])
    right.set_xlabel("position after the start of the intron")
    right.set_title("mean change of the decision value by a letter")
    figure.colorbar(image, ax=right)
plt.show()
