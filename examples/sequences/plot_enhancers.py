"""
Bound regions: words with gaps
==============================

Regions of DNA to which a protein binds, as a ChIP-seq experiment finds them, against other regions. The site is a
short, blurred motif, anywhere in the region and on either strand.
"""

# %%
# Made data. A bound region has one or two sites of 12 letters, drawn from probabilities of letters; half of them are
# on the other strand. All regions have the same share of G and C, so that this share tells nothing.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from mercer import SVC, GappedKmer
from mercer.plot import INK, SERIES, house_style

rng = np.random.default_rng(0)
signs = LinearSegmentedColormap.from_list("signs", [SERIES[1], "white", SERIES[0]])
LETTERS, LENGTH = "ACGT", 120
MOTIF, BLUR = "CCACCAGGGGGC", 0.05  # the core of the motif of CTCF; probability of each other letter


def other_strand(text):
    """Return the reverse complement."""
    return text[::-1].translate(str.maketrans("ACGT", "TGCA"))


def region(is_bound):
    """Return the letters of a region, and where its sites are."""
    letters = rng.choice(list(LETTERS), size=LENGTH, p=[0.27, 0.23, 0.23, 0.27])
    sites = []
    for start in rng.choice(LENGTH // 20, rng.integers(1, 3), replace=False) * 20 if is_bound else []:
        probabilities = [[1 - 3 * BLUR if letter == one else BLUR for letter in LETTERS] for one in MOTIF]
        site = "".join(rng.choice(list(LETTERS), p=p) for p in probabilities)
        letters[start : start + len(MOTIF)] = list(site if rng.random() < 0.5 else other_strand(site))
        sites.append(int(start))
    return "".join(letters), sorted(sites)


y = np.arange(600) % 2
rows, sites = zip(*(region(label) for label in y), strict=True)
train, test, y_train, y_test = rows[:400], rows[400:], y[:400], y[400:]

# %%
# Words of ten letters, compared at any six of them, on both strands.
kernel = GappedKmer(10, 6, alphabet=LETTERS, reverse_complement=True)
machine = SVC(kernel=kernel, C=10.0).fit(train, y_train)
print(f"{machine.certificate_.status}, accuracy on new regions {machine.score(test, y_test):.1%}")

# %%
# The weights of all 4^10 words, and those with the largest: pieces of the motif and of its other strand.
weights = machine.word_weights_
top = weights.largest(8)
for word, weight in top:
    print(f"{word} {weight:+.4f}")

# %%
# What each change of a letter does to the decision value of one new region: the site is where changes lower it.
number = next(i for i in range(400, 600) if y[i] and len(sites[i]) == 2)
row = rows[number]
variants = [(0, at, letter) for letter in LETTERS for at in range(LENGTH)]
effects = machine.score_variants([row], variants).reshape(4, LENGTH)
worst = np.sort(np.argsort(effects.min(axis=0))[:8]).tolist()
print(f"sites at {sites[number]}; the changes that lower the value most are at {worst}")

values = np.asarray(weights.values).ravel()
with house_style():
    figure, (above, below) = plt.subplots(2, 1, figsize=(10, 5), layout="constrained")
    above.hist(values, bins=120, log=True, color=SERIES[0])
    (first, weight), (second, _) = top[:2]
    above.annotate(
        f"{first}\nand {second}", (weight, 6), (weight, 3e3), ha="right", arrowprops={"arrowstyle": "-", "color": INK}
    )
    above.set_xlabel("weight of a word")
    above.set_ylabel("words")
    largest = np.abs(effects).max()
    image = below.imshow(effects, cmap=signs, vmin=-largest, vmax=largest, aspect="auto")
    for start in sites[number]:
        below.axvspan(start - 0.5, start + len(MOTIF) - 0.5, fill=False, linewidth=1.5)
    below.set_yticks(range(4), list(LETTERS))
    below.set_xlabel("position in a new region; frames: its sites")
    below.set_title("change of the decision value if the letter stands there")
    figure.colorbar(image, ax=below)
plt.show()
