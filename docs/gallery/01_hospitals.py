# %% [markdown]
# # Hospitals with another unit
#
# **Which hospital's patients are like those of a registry, if one of them measures blood sugar in
# other units?** As the tables are given, the west is far away and the distance proves nothing
# about its patients; silot names the column and the factor, and once a schema knows the unit, no
# hospital can be told from the registry.
#
# The patients are the 442 of scikit-learn's diabetes data, dealt out at random: whatever difference
# is found between hospitals is sampling noise, or made by how they write their tables.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import silot

table = load_diabetes(as_frame=True, scaled=False).data
table = table.rename(columns={"bp": "pressure", "s6": "glucose"})
table = table[["age", "bmi", "pressure", "glucose"]]
order = np.random.default_rng(0).permutation(len(table))
names = ["registry", "north", "south", "west"]
tables = {
    name: table.iloc[rows].reset_index(drop=True)
    for name, rows in zip(names, np.array_split(order, 4), strict=True)
}
# The west's laboratory reports mmol/L.
tables["west"]["glucose"] = (tables["west"]["glucose"] / 18.016).round(2)
registry, hospitals = tables["registry"], {name: tables[name] for name in names[1:]}

# %% [markdown]
# ## As the tables are given

# %%
raw = silot.value_holders(hospitals, registry)
raw

# %%
(flag,) = raw.preflight.flags
print(flag.sentence)
distances_raw = {each.holder: each.distance for each in raw.holders}
assert flag.kind == "unit" and flag.holders == ("west",)
assert min(distances_raw, key=lambda name: -distances_raw[name].value) == "west"

# %% [markdown]
# The bounds are exact, and of no use: they are bounds for the numbers as they were given. The flag
# says so on every result, and `status` repeats it.
#
# ## With a schema
#
# A schema is what all sites agree on: names, units, ranges. A site keeps a file of its own for
# what it writes otherwise, here one line. Distances are then in units of the schema.

# %%
schema = silot.Schema.of(
    {
        "name": "ward",
        "columns": {
            "age": {"kind": "number", "unit": "a", "range": [0, 110], "spread": 15},
            "bmi": {"kind": "number", "unit": "kg/m2", "range": [10, 70], "spread": 5},
            "pressure": {"kind": "number", "unit": "mm[Hg]", "range": [40, 200], "spread": 15},
            "glucose": {
                "kind": "number",
                "unit": "mg/dL",
                "substance": "glucose",
                "range": [20, 800],
                "spread": 15,
            },
        },
        "confirmed_by": "the authors of this example",
    }
)
west = silot.Site.of({"columns": {"glucose": {"unit": "mmol/L"}}})
read = {
    name: schema.measure(rows, west if name == "west" else None) for name, rows in hospitals.items()
}
worth = silot.value_holders(read, schema.measure(registry))
worth

# %%
distances = {each.holder: each.distance for each in worth.holders}
for name, each in distances.items():
    print(f"{name}: {each.value:.3f}, {each.verdict.verdict}, p = {each.verdict.p_value:.3f}")
assert all(each.indistinct for each in distances.values())

# %% alt="Bars of distances to the registry: as given the west towers over the others; with a schema all are alike and none can be told from the registry."
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for ax, found, title in zip(
    axes, (distances_raw, distances), ("as given", "with a schema"), strict=True
):
    ax.bar(list(found), [each.value for each in found.values()], color="#0072b2", width=0.6)
    for k, each in enumerate(found.values()):
        ax.text(k, each.value, f"p = {each.verdict.p_value:.3g}", ha="center", va="bottom")
    ax.margins(y=0.12)
    ax.set(title=title, ylabel="distance to the registry")
plt.show()

# %% [markdown]
# Left: numbers as given. Right: in units of the schema. p says how often samples from
# the registry's distribution would differ as clearly; up to .05 a hospital counts as different.
#
# **Disclosed.** A holder sends exact distances, means and the like (level `statistics`), and each
# hospital saw the registry's records.
#
# **More**: [what the preflight looks for](../preflight.md), [schemas](../schema.md),
# [worth](../value.md). **Next**: [a market of sellers](02_market.py).
