# %% [markdown]
# # 5. Finding faulty records
#
# Some records are trusted, others may have wrong labels or faulty values. This tutorial finds them with
# `silot.value_records`, then inside a scikit-learn pipeline with `silot.estimators`, where nothing is
# sent at all.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import silot
from silot.estimators import CleanedClassifier, RecordScreener

data = load_breast_cancer(as_frame=True)
x, y = data.data.iloc[:, :10], data.target.to_numpy()
order = np.random.default_rng(0).permutation(len(x))
x, y = x.iloc[order].reset_index(drop=True), y[order]
trusted = np.arange(len(x)) < 150
ours, test = np.arange(150, 400), np.arange(400, len(x))

# Every fifth label is wrong, and a few sizes were entered in other units.
given = y.copy()
given[ours[::5]] = 1 - given[ours[::5]]
values = x.copy()
shifted = ours[7::50]
values.loc[shifted, "mean area"] *= 10

# %% [markdown]
# ## Scores, kinds, reasons
#
# Each record gets a score; those above a level are flagged, with the kind of what is wrong.

# %%
scale = StandardScaler().fit(x[trusted])


def measure(rows: np.ndarray) -> silot.Measure:
    """Records on the scale of the trusted ones."""
    return silot.Measure(
        scale.transform(values.iloc[rows]), labels=given[rows], columns=list(x.columns)
    )


scores = silot.value_records(measure(ours), measure(np.flatnonzero(trusted)), labels=True)
scores

# %%
flagged = ours[scores.flagged]
wrong = ours[::5]
print(f"{len(flagged)} flagged")
print(f"{np.isin(flagged, wrong).sum()} of {len(wrong)} wrong labels among them")
print(f"{np.isin(flagged, shifted).sum()} of {len(shifted)} broken values among them")
assert np.isin(flagged, wrong).sum() > 0.6 * len(wrong)
assert np.isin(shifted, flagged).all()
print(
    f"{(~np.isin(flagged, [*wrong, *shifted])).sum()} others: about a tenth are to be, on average"
)
assert np.isin(flagged, [*wrong, *shifted]).mean() > 0.75

# %%
for suspect in [each for each in scores.suspects() if each.kind == "features"][:3]:
    print(suspect.record, suspect.kind, suspect.why)
print(scores.parts.broken["label"])

# %% [markdown]
# The last line is an estimate of how many labels are wrong, flagged or not, with an interval.
#
# ## In a pipeline
#
# Where the data are your own, nothing needs to be sent. `CleanedClassifier` takes a mask of the trusted
# records, screens the others by them, and fits on what is kept.

# %%
fit = np.arange(400)
plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
plain.fit(values.iloc[fit], given[fit])
cleaned = make_pipeline(StandardScaler(), CleanedClassifier(LogisticRegression(max_iter=1000)))
cleaned.fit(values.iloc[fit], given[fit], cleanedclassifier__trusted=trusted[fit])
few = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
few.fit(values[trusted], given[trusted])
results = {
    "all records": plain.score(x.iloc[test], y[test]),
    "cleaned": cleaned.score(x.iloc[test], y[test]),
    "trusted alone": few.score(x.iloc[test], y[test]),
}
for name, share in results.items():
    print(f"{name:14s} {share:.1%} of {len(test)} test records")
print(f"{(~cleaned[-1].kept_).sum()} records left out")
assert results["cleaned"] > results["all records"]

# %% [markdown]
# Try the trusted records alone first: where they are enough, cleaning adds little
# ([results](../estimators.md) say when).
#
# ## Broken values before a prediction
#
# `RecordScreener` is fitted on trusted records. As the first step it repairs what it calls faulty,
# before every prediction:

# %%
screener = RecordScreener().set_output(transform="pandas").fit(x[trusted])
repaired = screener.transform(values.iloc[shifted])
area = "mean area"
for k in shifted[:3]:
    print(
        f"true {x.loc[k, area]:7.1f}   given {values.loc[k, area]:7.1f}   repaired {repaired.loc[k, area]:7.1f}"
    )
error = np.abs(repaired[area] / x.loc[shifted, area] - 1)
assert error.max() < 0.5 and (screener.predict(values.iloc[shifted]) == -1).all()

# %% alt="Scores of sound records, wrong labels and faulty values."
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
kinds = {
    "sound": ~np.isin(ours, [*wrong, *shifted]),
    "wrong label": np.isin(ours, wrong),
    "broken value": np.isin(ours, shifted),
}
for colour, (name, mask) in zip(("#0072b2", "#d55e00", "#009e73"), kinds.items(), strict=True):
    ax.hist(
        np.clip(scores.scores[mask], -8, 12),
        np.linspace(-8, 12, 41),
        label=name,
        color=colour,
        alpha=0.8,
    )
ax.set(xlabel="score (cut at 12)", ylabel="records", yscale="log")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## It is an estimator like others
#
# Parameters can be searched, and cross-validation cuts the mask with the records. Scores are of
# records that may be wrong themselves, so compare them, and do not believe their level.

# %%
found = cross_val_score(
    clone(cleaned),
    values.iloc[fit],
    given[fit],
    cv=StratifiedKFold(3, shuffle=True, random_state=0),
    params={"cleanedclassifier__trusted": trusted[fit]},
)
print("three folds:", found.round(3))
assert np.isfinite(found).all()

# %% [markdown]
# ## What you learnt
#
# - `value_records` says which records, of what kind and why; it is level `record`.
# - `CleanedClassifier` and `RecordScreener` do it in place. A fitted one contains the trusted records.
#
# **More**: [faulty records](../records.md), [estimators](../estimators.md).
# **Next**: [releases](06_releases.py).
