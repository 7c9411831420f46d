"""
Which words speak for which class
=================================

A linear machine on texts has a weight for each word. The largest ones say what it has learnt.
"""

# %%
# Short messages of two kinds.
import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from mercer import LinearSVC
from mercer.plot import WeightsDisplay

spam = """win a free prize now
claim your free cash prize
urgent: you have won a prize
free entry, text now to win
cash offer, call now
your free ringtone, reply now
win cash today, call this number
free prize, claim today""".splitlines()
ham = """see you at lunch
the meeting is at noon
call me when you are home
are you at home tonight
lunch tomorrow with the team
I am at the station
the meeting moved to monday
see you tonight at home""".splitlines()
machine = make_pipeline(TfidfVectorizer(stop_words="english"), LinearSVC()).fit(spam + ham, ["spam"] * 8 + ["ham"] * 8)
display = WeightsDisplay.from_estimator(machine, n_top=8)
print("for spam:", *[display.names[j] for j in display.shown[:5]])
print("for ham:", *[display.names[j] for j in display.shown[-5:]])
plt.show()
