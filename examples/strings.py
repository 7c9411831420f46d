"""Classify strings
================

Classify strings directly: no columns are made by hand.
"""

import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split

from mercer import SVC, Mismatch, Spectrum, Subsequence

rng = np.random.default_rng(0)


def gene(has_motif):
    """Return 30 to 49 random letters, with the motif "gattaca" in it if asked; one letter of the motif may change."""
    letters = rng.choice(list("acgt"), size=rng.integers(30, 50))
    if has_motif:
        motif = np.array(list("gattaca"))
        motif[rng.integers(motif.size)] = rng.choice(list("acgt"))
        at = rng.integers(letters.size - motif.size)
        letters[at : at + motif.size] = motif
    return "".join(letters)


y = np.arange(300) % 2
genes = [gene(label) for label in y]
print(f"A gene with the motif: {genes[1]}")
train, test, y_train, y_test = train_test_split(genes, y, test_size=100, random_state=0, stratify=y)

# Spectrum counts words, Mismatch forgives letters in them, Subsequence forgives gaps.
kernels = [Spectrum(4), Mismatch(5, 1), Subsequence(3, decay=0.5, max_span=6), Spectrum(3) + Mismatch(5, 1)]
search = GridSearchCV(SVC(), {"kernel": kernels, "C": [1.0, 10.0]}, cv=3).fit(train, y_train)
for settings, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{score:.3f}  C={settings['C']:<4g} {settings['kernel']}")
print(
    f"Chosen: {search.best_params_['kernel']}; accuracy on {len(y_test)} other genes: {search.score(test, y_test):.2f}"
)
assert search.score(test, y_test) > 0.6
