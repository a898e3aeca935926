# %% [markdown]
# # 1. A first distance, from your own table
#
# You have a table, somebody else has one, and you want to know how far apart they are. This tutorial
# goes from two data frames to a distance that means something: what silot takes, what it refuses,
# what it says of columns it does not know, and how a schema settles what they mean. The tables here
# are two halves of scikit-learn's diabetes data; put your own in their place.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import silot

table = load_diabetes(as_frame=True, scaled=False).data
table = table.rename(columns={"bp": "pressure", "s6": "glucose"})
table = table[["age", "sex", "bmi", "pressure", "glucose"]]
table["sex"] = np.where(table["sex"] == 1, "f", "m")
table["patient"] = [f"P{k:04d}" for k in range(len(table))]
order = np.random.default_rng(0).permutation(len(table))
north = table.iloc[order[:200]].reset_index(drop=True)
south = table.iloc[order[200:]].reset_index(drop=True)
north.head(3)

# %% [markdown]
# ## What is refused, and how it is said
#
# Distances are of numbers. A column of texts is not guessed at: the error has a code, says what
# arrived and what to do. Every code has the same words everywhere.

# %%
try:
    silot.distance(north, south)
except silot.SilotError as error:
    print(error)
    assert error.code == "measure-dtype"

# %% [markdown]
# ## Numbers alone
#
# Take the columns that are numbers. A result shows itself at the end of a cell: the value, its
# certified bounds, the verdict of a test of both samples, and what was disclosed.

# %%
numbers = ["age", "bmi", "pressure", "glucose"]
first = silot.distance(north[numbers], south[numbers])
first

# %%
print(f"{first.value:.3f}, proven between {first.lower:.6f} and {first.upper:.6f}")
verdict = first.verdict
print(f"{verdict.verdict}, p = {verdict.p_value:.3f}")
print(f"a shift of {verdict.detectable:.2f} standard deviations would have been detected")
assert first.lower <= first.value <= first.upper
assert first.indistinct

# %% [markdown]
# The test does not tell the two halves apart, which is right: they were drawn at random. The
# distance is not 0 all the same, because no two samples are equal. The last line says what the test
# can see at these sizes: a shift of one column that large is detected in 80 % of cases.
#
# Columns are matched by name, whatever their order:

# %%
again = silot.distance(north[numbers], south[numbers[::-1]])
assert abs(again.value - first.value) < 1e-9
try:
    silot.distance(north[numbers], south[["age", "bmi"]])
except silot.SilotError as error:
    print(error)
    assert error.code == "columns-mismatch"

# %% [markdown]
# ## What the numbers do not say
#
# Which unit? Is -999 a measurement? silot looks at tables that come without a schema, and says what
# is odd on every result. Suppose the south writes -999 where glucose was not measured:

# %%
coded = south[numbers].copy()
coded.loc[::20, "glucose"] = -999
odd = silot.distance(north[numbers], coded)
print(f"distance {odd.value:.1f}")
for flag in odd.preflight.flags:
    print(f"{flag.kind}: {flag.sentence}")
assert [flag.kind for flag in odd.preflight.flags] == ["sentinel"]
assert "look at 'glucose'" in odd.status

# %% [markdown]
# The distance is exact, and it is of the codes. No flag is no proof that a table is sound; a schema
# is what says what columns mean.
#
# ## A schema
#
# All sites agree on one file, from public knowledge. `draft_schema` proposes one from your records,
# and names every entry that it read off them, for these may tell about the records:

# %%
draft = silot.draft_schema(north, identifiers=["patient"], name="ward")
draft

# %% [markdown]
# A person corrects it. Here is what that may look like: ranges from textbooks, `spread` for the size
# of difference that counts as one, a code for missing values, and a name behind it.

# %%
schema = silot.Schema.of(
    {
        "name": "ward",
        "columns": {
            "patient": {"kind": "identifier"},
            "age": {"kind": "integer", "unit": "a", "range": [0, 120], "spread": 15},
            "sex": {"kind": "category", "categories": ["f", "m"]},
            "bmi": {"kind": "number", "unit": "kg/m2", "range": [10, 70], "spread": 5},
            "pressure": {"kind": "number", "unit": "mm[Hg]", "range": [30, 200], "spread": 15},
            "glucose": {
                "kind": "number",
                "unit": "mg/dL",
                "substance": "glucose",
                "range": [20, 800],
                "spread": 15,
                "sentinels": [-999],
                "missing": {"value": 90},
            },
        },
        "confirmed_by": "the authors of this tutorial",
    }
)
broken = south.copy()
broken.loc[::20, "glucose"] = -999
silot.check_schema(broken, schema)

# %% [markdown]
# Read by the schema, a record becomes numbers by itself, no other record having a say; texts that
# are categories count, identifiers do not, and a missing value is a coordinate of its own.

# %%
read_north, read_south = schema.measure(north), schema.measure(broken)
print(read_north.columns)
result = silot.distance(read_north, read_south, why=True)
result

# %%
shares = result.parts.columns
for column, share in sorted(shares.items(), key=lambda item: -item[1]):
    print(f"{column:22s} {share:6.1%} of the squared distance")
assert abs(sum(shares.values()) - 1) < 1e-6
assert max(shares.values()) < 0.5

# %% alt="Bars of the share of each coordinate in the squared distance."
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
names = sorted(shares, key=shares.get)
ax.barh(names, [shares[name] for name in names], color="#0072b2")
ax.set(xlabel="share of the squared distance")
plt.show()

# %% [markdown]
# ## From files, and from the shell
#
# `silot.load_measure("north.csv", schema=schema)` reads a file the same way, and the commands do too:
# `silot distance north.csv south.csv --schema ward.yml`.
#
# ## What you learnt
#
# - Give data frames, arrays or files; columns go by name; what cannot be read is refused with a code.
# - A result has a value, bounds, a verdict, a status in words, a bill, and says what was disclosed.
# - Without a schema look at `preflight`; with one, units, codes and missing values are settled.
#
# **More**: [how far apart](../distance.md), [preflight](../preflight.md), [schemas](../schema.md).
# **Next**: [bounds and statuses](02_bounds.py).
