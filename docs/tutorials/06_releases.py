# %% [markdown]
# # 6. Releases: compare without a connection
#
# Three hospitals write one file each. Whoever has the files computes distances, worth and groups, and
# asks nobody. Each file is differentially private, signed and charged to its hospital's ledger. This
# tutorial plays all four parties in one process; between hospitals the files go by mail.
# Needs `pip install 'silot[privacy]'`.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import silot

rng = np.random.default_rng(0)


def ward(patients: int, older: float, sweeter: float) -> pd.DataFrame:
    """Patients whose ages and glucose are drawn."""
    return pd.DataFrame(
        {
            "age": np.clip(rng.normal(60 + older, 12, patients), 18, 99).round(),
            "glucose": (rng.lognormal(4.65, 0.25, patients) * (1 + sweeter)).round(1),
            "smoker": np.where(rng.random(patients) < 0.25, "yes", "no"),
        }
    )


hospitals = {"north": ward(2500, 0, 0), "south": ward(2000, 2, 0.05), "coast": ward(1800, 14, 0.3)}

# %% [markdown]
# ## Before: what all agree on
#
# A schema, from public knowledge, and public records: of such patients, and of none of these
# hospitals.

# %%
schema = silot.Schema.of(
    {
        "name": "ward",
        "columns": {
            "age": {"kind": "number", "unit": "a", "range": [0, 110], "spread": 15},
            "glucose": {
                "kind": "number",
                "unit": "mg/dL",
                "substance": "glucose",
                "range": [20, 800],
                "transform": "log",
                "spread": 1.3,
            },
            "smoker": {"kind": "yes/no"},
        },
        "confirmed_by": "the authors of this tutorial",
    }
)
public = schema.measure(pd.concat([ward(50, older, 0.02 * older) for older in (0, 7, 14)]))
folder = Path(tempfile.mkdtemp())
# A budget belongs to people: without a state of its own, this page would be refused the second time.
os.environ["SILOT_STATE"] = str(folder / "state")

# %% [markdown]
# ## At each hospital
#
# One call. The ledger and a signing key are made where there are none; the key's other half,
# `NAME.pub`, is for the readers.

# %%
for name, table in hospitals.items():
    (folder / name).mkdir()
    release = silot.release(
        table,
        folder / f"{name}.release",
        name=name,
        ledger=folder / name / f"{name}.ledger",
        schema=schema,
        public=public,
        privacy_epsilon=1.0,
    )
    print(f"{name}: {release.size:,} bytes, key {release.fingerprint[:19]}")
release

# %% [markdown]
# The same question gets the stored answer; it is free, and the noise cannot be averaged away. With the
# default budget of epsilon 1 another question is refused:

# %%
try:
    silot.release(
        hospitals["coast"],
        folder / "again.release",
        name="coast",
        ledger=folder / "coast" / "coast.ledger",
        schema=schema,
        public=public,
        period="next month",
    )
except silot.SilotError as error:
    print(error)
    assert error.code == "ledger-budget"

# %% [markdown]
# ## At the reader's
#
# The files, the public records, and for worth some validation records of one's own. No hospital is
# asked.

# %%
files = [folder / f"{name}.release" for name in hospitals]
validation = schema.measure(ward(1000, 0, 0))
combined = silot.combine(files, public, validation)
matrix = combined.matrix()
matrix

# %%
worth = combined.values("validation")
for each in worth.ranking:
    print(f"{each.place:3s} {each.holder:6s} {each.distance.value:.3f}, share {each.share:.1%}")
groups = silot.cluster(combined)
print(groups.status)
print(groups.groups)
assert worth.ranking[-1].holder == "coast"
assert groups.assignment["coast"] not in (groups.assignment["north"], groups.assignment["south"])

# %% [markdown]
# How good are they? Here the truth is at hand, as it never is for a reader:

# %%
exact = silot.distance_matrix({name: schema.measure(each) for name, each in hospitals.items()})
pairs = list(exact.pairs)
for pair in pairs:
    estimate = combined.distance(*pair)
    low, high = estimate.interval
    print(
        f"{' - '.join(pair)}: {estimate.value:.3f} [{low:.3f}, {high:.3f}], exact {exact.pairs[pair].value:.3f}"
    )
far = max(pairs, key=lambda pair: exact.pairs[pair].value)
assert abs(combined.distance(*far).value / exact.pairs[far].value - 1) < 0.25

# %% alt="Estimated distances of three pairs with intervals, beside the exact ones."
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
found = [combined.distance(*pair) for pair in pairs]
values = np.array([each.value for each in found])
low, high = np.array([each.interval for each in found]).T
ax.errorbar(
    values,
    range(3),
    xerr=(values - low, high - values),
    fmt="o",
    color="#0072b2",
    label="from releases",
)
ax.plot([exact.pairs[pair].value for pair in pairs], range(3), "D", color="#d55e00", label="exact")
ax.set_yticks(range(3), [" - ".join(pair) for pair in pairs])
ax.set(xlabel="distance", xlim=(0, None))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## A file that was touched
#
# The signature is over every byte.

# %%
content = bytearray(files[0].read_bytes())
content[-1] ^= 1
touched = folder / "touched.release"
touched.write_bytes(content)
try:
    silot.combine([touched, *files[1:]], public)
except silot.SilotError as error:
    print(error)
    assert error.code == "sealed-signature"

# %% [markdown]
# It proves that a file is as its signer wrote it; whose key it is, you learn from the site. And it does
# not prove that the numbers come from data.
#
# ## What you learnt
#
# - A release is made of public things and noise, charged once, and answers many questions.
# - What follows from releases are estimates with intervals; no bound holds.
#
# **More**: [releases](../releases.md), [five hospitals with the commands](../tutorial.md).
# **Next**: [better models](07_models.py).
