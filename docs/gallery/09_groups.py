# %% [markdown]
# # Groups of holders
#
# **Eight clinics: how many kinds of patients are there, and who belongs together?** Two groups,
# told apart by a permutation test that also names the columns; of eight clinics that are all alike
# silot says that they cannot be distinguished, and how large a difference it would have detected.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import silot

table = load_breast_cancer(as_frame=True)
x = (table.data - table.data.mean()) / table.data.std()
x = x.iloc[:, :6].to_numpy()
benign, malignant = x[table.target == 1], x[table.target == 0]
rng = np.random.default_rng(2)


def clinic(share: float) -> np.ndarray:
    """Fifty patients, of whom such a share have a malignant tumour."""
    many = round(50 * share)
    return np.concatenate(
        [
            rng.choice(malignant, many, replace=False),
            rng.choice(benign, 50 - many, replace=False),
        ]
    )


# Four see patients that were sent to them because of a finding, four screen everybody.
holders = {f"referred {k}": clinic(0.9) for k in range(1, 5)}
holders |= {f"screening {k}": clinic(0.1) for k in range(1, 5)}

# %%
found = silot.cluster(holders)
found

# %%
print(found.k, "groups:", *found.groups, sep="\n  ")
print(
    f"p = {found.verdict.p_value:.3f}, driven by columns {found.verdict.splits[0].change.drivers}"
)
assert found.k == 2 and found.verdict.p_value < 0.05
assert {name.split()[0] for name in found.groups[0]} != {
    name.split()[0] for name in found.groups[1]
}

# %% [markdown]
# ## And where there are none

# %%
alike = {f"clinic {k}": clinic(0.4) for k in range(1, 9)}
none = silot.cluster(alike)
print(none.status)
assert none.k == 1

# %% alt="Two matrices of distances between eight clinics: two dark blocks on the left, no structure on the right."
fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
most = found.matrix.values.max()
for ax, each, title in zip(axes, (found, none), ("two groups", "no groups"), strict=True):
    drawn = ax.imshow(each.matrix.values, vmin=0, vmax=most, cmap="viridis")
    ax.set_xticks(range(8), each.names, rotation=90)
    ax.set_yticks(range(8), each.names)
    ax.set_title(title)
fig.colorbar(drawn, ax=axes, label="distance")
plt.show()

# %% [markdown]
# On the right distances are not 0: samples from the same distribution are apart, too. Groups
# therefore come from a test, not from the size of a distance.
#
# **Bounds.** Distances are exact. The test is exact too: clinics with the same distribution end in
# more than one group in 5 % of cases at most (`level`), however many clinics there are.
#
# **Disclosed.** By `direct` every record. `method="sketch"` finds groups from one private release
# each, if holders have some hundred records and more.
#
# **More**: [groups](../groups.md), [a model for each](../better-model.md).
# **Next**: [transport beyond memory](10_beyond_memory.py).
