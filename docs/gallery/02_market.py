# %% [markdown]
# # A market of sellers
#
# **Six sellers offer records of tumours: whose are worth most to a buyer who has 80 of the right
# kind?** Two honest sellers and one that sells a copy of the first cannot be distinguished at this
# size; noise and missing classes come last. And a copy pays: under every rule that divides a sum
# among sellers, the first and its copy together get more than the first alone (shares below).

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import silot

x, y = load_breast_cancer(return_X_y=True)
x = ((x - x.mean(axis=0)) / x.std(axis=0))[:, :10]
rng = np.random.default_rng(1)
rows = rng.permutation(len(x)).reshape(-1)[:400].reshape(5, 80)
buyer = silot.Measure(x[rows[0]], labels=y[rows[0]])

wrong = y[rows[3]].copy()
wrong[::4] = 1 - wrong[::4]
first = silot.Measure(x[rows[1]], labels=y[rows[1]])
sellers = {
    "first": first,
    "copy": first,
    "second": silot.Measure(x[rows[2]], labels=y[rows[2]]),
    "mislabelled": silot.Measure(x[rows[3]], labels=wrong),
    "noisy": silot.Measure(x[rows[4]] + rng.normal(0, 1, (80, 10)), labels=y[rows[4]]),
    "malignant": silot.Measure(x[y == 0][:80], labels=y[y == 0][:80]),
}

# %%
worth = silot.value_holders(sellers, buyer, labels=True, shapley=True, faults=False)
worth

# %%
by_name = {each.holder: each for each in worth.holders}
for name, each in by_name.items():
    print(f"{name:12s} rank {each.place:4s} Shapley share {each.shapley_share:5.1%}")
assert by_name["first"].distance.value == by_name["copy"].distance.value
assert {each.holder for each in worth.ranking[-2:]} == {"noisy", "malignant"}
assert by_name["first"].ranks[1] >= 3

# %% [markdown]
# `mislabelled` has a quarter of its labels wrong and is not ranked last: 80 records are too few
# for a rank below the honest ones. A rank is a range (`1-4`) where
# sampling noise leaves the order open. [Screening records](01_images.py) finds the wrong labels.
#
# ## Does a copy pay?
#
# The same market without the copy: what does `first` get by each rule?

# %%
alone = silot.value_holders(
    {name: each for name, each in sellers.items() if name != "copy"},
    buyer,
    labels=True,
    shapley=True,
    faults=False,
)
original = {each.holder: each for each in alone.holders}["first"]
rules = {
    "by distance": ("share", original.share),
    "as published": ("fedbary_share", original.fedbary_share),
    "Shapley": ("shapley_share", original.shapley_share),
}
gains = {}
for rule, (field, before) in rules.items():
    both = getattr(by_name["first"], field) + getattr(by_name["copy"], field)
    gains[rule] = (before, both)
    print(f"{rule:12s} alone {before:5.1%}, with its copy {both:5.1%}")
assert all(both > before for before, both in gains.values())
assert min(gains, key=lambda rule: gains[rule][1] / gains[rule][0]) == "Shapley"

# %% alt="Left, distances of six sellers to the buyer with 95 % intervals; noisy and malignant are furthest. Right, what the first seller gets alone and with its copy by three rules."
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
ranked = worth.ranking[::-1]
values = np.array([each.corrected for each in ranked])
low, high = np.array([each.interval for each in ranked]).T
left.errorbar(
    values, range(len(ranked)), xerr=(values - low, high - values), fmt="o", color="#0072b2"
)
left.set_yticks(range(len(ranked)), [each.holder for each in ranked])
left.set(xlabel="corrected distance to the buyer, 95 %")
places = np.arange(len(gains))
right.bar(places - 0.2, [a for a, _ in gains.values()], 0.38, label="alone", color="#0072b2")
right.bar(places + 0.2, [b for _, b in gains.values()], 0.38, label="with a copy", color="#d55e00")
right.set_xticks(places, list(gains))
right.set(ylabel="share of 'first' and 'copy'")
right.legend(frameon=False)
plt.show()

# %% [markdown]
# Shapley shares grow least, because what a seller *adds* to the others shrinks when a copy appears.
# No splitting changes `explained`, each site's own number.

# %%
print(
    f"explained by 'first': {original.explained:.1%} alone, {by_name['first'].explained:.1%} beside a copy"
)
print(
    f"Shapley value of 'first': {original.shapley:.1%} alone, {by_name['first'].shapley:.1%} beside a copy"
)
assert by_name["first"].shapley < original.shapley
assert abs(by_name["first"].explained - original.explained) < 1e-9

# %% [markdown]
# **Disclosed.** Distances alone are level `statistics`, and every seller saw the buyer's records.
# Shapley values request every record of the sellers (level `record`); with `method="sketch"` they
# come from one differentially private release each.
#
# **More**: [what the numbers mean](../value.md). **Next**: [drift of a site](03_drift.py).
