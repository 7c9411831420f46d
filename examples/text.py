"""Classify texts
==============

Classify short texts: sparse rows of word counts, weighed by scikit-learn, in a pipeline with a kernel machine.
"""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from mercer import SVC

TOPICS = {
    "kitchen": "bread butter cheese cook dish flour kitchen meal oven pepper pot recipe salt sauce soup spoon",
    "garden": "bee bloom earth flower garden grass leaf plant rain root rose seed spring sun tree water",
    "office": "boss call chair clerk copy desk letter lunch mail meeting office paper pen phone report table",
}
COMMON = "a all and at for in is it new of old on one our the this to two we with"
rng = np.random.default_rng(0)


def text(topic):
    """Return a text of 7 to 13 words: two of its own topic, one of another topic, the others common."""
    other = rng.choice([name for name in TOPICS if name != topic])
    words = [*rng.choice(TOPICS[topic].split(), 2), *rng.choice(TOPICS[other].split(), 1)]
    words += [*rng.choice(COMMON.split(), rng.integers(4, 11))]
    return " ".join(rng.permutation(words))


topics = np.array(sorted(TOPICS))[np.arange(450) % 3]
texts = [text(topic) for topic in topics]
print(f"A text about the {topics[0]}: {texts[0]}")
train, test, y_train, y_test = train_test_split(texts, topics, random_state=0, stratify=topics)

# The machine takes sparse rows as they are; a linear kernel of weighed counts is the usual choice for text.
machine = make_pipeline(TfidfVectorizer(sublinear_tf=True), SVC(kernel="linear", C=1.0)).fit(train, y_train)
print(f"Accuracy on {len(test)} other texts: {machine.score(test, y_test):.3f}")
assert machine.score(test, y_test) > 0.9

new = ["the rose and the seed on our table", "salt the soup and call it a meal"]
for words, topic in zip(new, machine.predict(new), strict=True):
    print(f"{topic}: {words}")
print(machine[-1].certificate_.status)
