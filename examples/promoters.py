"""Find the words of a binding site
================================

Train a machine on DNA with a gapped k-mer kernel, see which words decide, and score single changes of a letter.
"""

import numpy as np

from mercer import SVC, GappedKmer

rng = np.random.default_rng(0)
LETTERS, SITE = "ACGT", "GTCACGTGAC"  # the E-box, and what is around it


def promoter(is_bound):
    """Return 100 random letters, and if asked the site on one of both strands, with one letter changed."""
    letters = rng.choice(list(LETTERS), size=100)
    if is_bound:
        site = np.array(list(SITE))
        site[rng.integers(site.size)] = rng.choice(list(LETTERS))
        if rng.random() < 0.5:
            site = np.array([LETTERS[3 - LETTERS.index(letter)] for letter in site[::-1]])
        at = rng.integers(letters.size - site.size)
        letters[at : at + site.size] = site
    return "".join(letters)


y = np.arange(600) % 2
rows = [promoter(label) for label in y]

# %%
# Words of eight letters are compared at any six of them, on both strands.
kernel = GappedKmer(8, 6, alphabet=LETTERS, reverse_complement=True)
machine = SVC(kernel=kernel, C=10.0).fit(rows[:400], y[:400])
score = machine.score(rows[400:], y[400:])
print(f"{machine.certificate_.status}, accuracy on new rows {score:.1%}")

# %%
# The weights of all 65,536 words; those of the site are the largest.
weights = machine.word_weights_
for word, weight in weights.largest(6):
    print(f"{word} {weight:+.3f}")

# %%
# What a change of each letter of a row with the site does to its decision value: the site is where changes hurt.
row = "A" * 20 + SITE + "A" * 20
places = range(len(row))
changes = machine.score_variants([row], [(0, at, "T" if row[at] != "T" else "A") for at in places])
hurt = sorted(np.argsort(changes)[:6].tolist())
print(f"the six changes that lower the value most are at {hurt}; the site is at 20 to 29")
