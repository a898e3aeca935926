# %% [markdown]
# # Mislabelled images
#
# **A tenth of 300 handwritten digits have a wrong label: which ones?** With 600 trusted
# images of other digits silot flags about as many as were changed, finds nearly all, and says which
# digit each should be; the counts are printed below.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import silot

x, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(x))
trusted, rest = order[:600], order[600:900]
labels = y[rest].copy()
wrong = rng.choice(300, 30, replace=False)
labels[wrong] = (labels[wrong] + rng.integers(1, 10, 30)) % 10

scores = silot.value_records(
    silot.Measure(x[rest] / 16, labels=labels),
    silot.Measure(x[trusted] / 16, labels=y[trusted]),
    labels=True,
)
scores

# %%
found = np.flatnonzero(scores.flagged)
hits = np.isin(found, wrong)
suggested = scores.parts.suggested[found[hits]].astype(int)
right = suggested == y[rest][found[hits]]
print(f"{len(found)} flagged, {hits.sum()} of the 30 wrong ones among them")
print(f"{right.sum()} of these are given the digit that was there before")
assert hits.sum() >= 28 and len(found) <= 36 and right.mean() > 0.9

# %% alt="Twelve most suspect digits, each under its label and the suggestion."
fig, axes = plt.subplots(2, 6, figsize=(8, 3.4), layout="constrained")
for ax, k in zip(axes.flat, scores.worst[:12], strict=True):
    ax.imshow(x[rest][k].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{labels[k]} → {scores.parts.suggested[k]}", fontsize=10)
    ax.set_axis_off()
fig.suptitle("most suspect: label → suggested", fontsize=11)
plt.show()

# %% [markdown]
# ## What was flagged although its label is right?
#
# `fdr=0.1` allows about a tenth of the flagged records to be clean. These are clean by
# construction, and unusual:

# %% alt="Flagged digits whose labels are right; they are written in an unusual way."
sound = found[~hits]
print(f"{len(sound)} of {len(found)} flagged are clean")
assert len(sound) <= 0.25 * len(found)
fig, axes = plt.subplots(1, max(len(sound), 2), figsize=(6, 1.9), layout="constrained")
for ax in axes:
    ax.set_axis_off()
for ax, k in zip(axes, sound, strict=False):
    ax.imshow(x[rest][k].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{labels[k]} → {scores.parts.suggested[k]}", fontsize=10)
plt.show()

# %% alt="Scores of clean and of changed records: the two hardly overlap."
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
bins = np.linspace(scores.scores.min(), scores.scores.max(), 40)
changed = np.isin(np.arange(300), wrong)
ax.hist(scores.scores[~changed], bins, color="#0072b2", label="clean")
ax.hist(scores.scores[changed], bins, color="#d55e00", label="label changed")
ax.set(xlabel="score", ylabel="records", yscale="log")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# **Disclosed.** The coordinator receives some 16 numbers about every record (level `record`), and
# the site receives the trusted records. `silot.count_broken` discloses noisy counts and nothing else.
#
# **Do not use it** with trusted records of another distribution than the site's, or fewer than 50.
#
# **More**: [which records are faulty](../records.md), [estimators](../estimators.md).
# **Next**: [a market of sellers](02_market.py).
