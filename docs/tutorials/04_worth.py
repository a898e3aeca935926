# %% [markdown]
# # 4. What holders are worth
#
# You have records that you trust, and several holders offer theirs. This tutorial ranks them, says how
# sure the ranks are, why a holder is far, and what their data are worth together. Data: the
# wines of scikit-learn, dealt out to four growers.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import silot

wine = load_wine(as_frame=True)
columns = ["alcohol", "malic_acid", "ash", "magnesium", "flavanoids", "hue"]
x = wine.data[columns]
x = ((x - x.mean()) / x.std()).to_numpy()
y = wine.target.to_numpy()
rng = np.random.default_rng(0)
order = rng.permutation(len(x))


def measure(rows: np.ndarray, points: np.ndarray = x) -> silot.Measure:
    """Records with their cultivars as labels."""
    return silot.Measure(points[rows], labels=y[rows], columns=columns)


mine, *parts = np.array_split(order[:170], 5)
hazy = x.copy()
hazy[:, 1] += 2.0
growers = {
    "valley": measure(parts[0]),
    "hill": measure(parts[1]),
    # Acid is measured by another method there.
    "coast": measure(parts[2], hazy),
    # One cultivar alone.
    "estate": measure(np.flatnonzero(y == 0)[:34]),
}

# %% [markdown]
# ## Distances to what you trust
#
# Labels count: `labels=True` adds how far classes are apart. Each grower tells exact distances, and
# sees your records.

# %%
worth = silot.value_holders(growers, measure(mine), labels=True)
worth

# %%
for each in worth.ranking:
    low, high = each.interval
    print(
        f"{each.place:3s} {each.holder:7s} corrected {each.corrected:.2f} [{low:.2f}, {high:.2f}], "
        f"explains {each.explained:.0%}"
    )
by_name = {each.holder: each for each in worth.holders}
assert by_name["valley"].ranks[0] == by_name["hill"].ranks[0] == 1
assert worth.ranking[-1].holder in ("coast", "estate")

# %% [markdown]
# How to read it:
#
# - `distance` is of the records at hand, with certified bounds. Small samples are
#   further off because of sampling noise; `corrected` takes that out, with an interval of 95 %.
# - A rank is a range where sampling noise leaves the order open.
# - `explained` is the part of the target's spread that a holder explains: 1 for a copy, 0 for data no
#   better than one point. It is each holder's own. Shares divide a sum, and change with who
#   takes part.

# %% alt="Corrected distances of four growers with intervals; valley and hill are near, coast and estate further."
ranked = worth.ranking[::-1]
values = np.array([each.corrected for each in ranked])
low, high = np.array([each.interval for each in ranked]).T
fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
ax.errorbar(values, range(4), xerr=(values - low, high - values), fmt="o", color="#0072b2")
ax.set_yticks(range(4), [each.holder for each in ranked])
ax.set(xlabel="corrected distance, 95 %", xlim=(0, None))
plt.show()

# %% [markdown]
# ## Why is a grower far?
#
# A distance can be taken apart by column. This asks for records (level `record`), so it is
# for data that you may see.

# %%
why = silot.distance(
    silot.Measure(growers["coast"].points, columns=columns),
    silot.Measure(measure(mine).points, columns=columns),
    why=True,
)
parts_of = dict(sorted(why.parts.columns.items(), key=lambda item: -item[1]))
for column, share in parts_of.items():
    print(f"{column:12s} {share:5.1%}")
assert next(iter(parts_of)) == "malic_acid"

# %% [markdown]
# ## Without records of your own
#
# The target is then the holders' barycenter: what is nearest to all. It rewards being like the
# others, which need not be right.

# %%
among = silot.value_holders(growers, labels=True)
among

# %% [markdown]
# Its messages give records away (level `record`): `disclosed` said so.

# %%
print(among.disclosure, "instead of", worth.disclosure)
assert (among.disclosure, worth.disclosure) == ("record", "statistics")

# %% [markdown]
# ## Together
#
# Shapley values say what a holder adds to the others, on average over all orders. Growers whose wines
# replace one another share.

# %%
together = silot.value_holders(growers, measure(mine), labels=True, shapley=True)
total = sum(each.shapley for each in together.holders)
for each in together.ranking:
    print(
        f"{each.holder:7s} adds {each.shapley:6.1%} of the target, explains {each.explained:.0%} alone"
    )
print(f"together {total:.1%}")
assert 0 < total <= 1

# %% [markdown]
# ## What you learnt
#
# - Rank by `corrected` with its interval; read ranges of ranks as they stand.
# - `why=True` names the columns; Shapley values are for what holders add to one another. Both ask for
#   records.
# - Under a budget of privacy use `method="sketch"` with some hundred records a holder.
#
# **More**: [worth](../value.md), [gallery: a market of sellers](../gallery/02_market.py).
# **Next**: [finding faulty records](05_records.py).
