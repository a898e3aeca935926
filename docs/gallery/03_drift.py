# %% [markdown]
# # Drift of a site
#
# **A hospital releases one differentially private sketch a month. Does a reader of these files see
# that a new analyser raised every glucose value by half a standard deviation?** Yes: in the month of
# the analyser the p-value printed below is the least there can be, one in 201, and the column is
# named; a quiet month gives a false alarm once in twenty, by design. Needs
# `pip install 'silot[privacy]'`.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import silot

rng = np.random.default_rng(3)
columns = ["age", "glucose", "pressure"]
public = silot.Measure(rng.normal(size=(300, 3)), columns=columns)


def patients(raised: float) -> silot.Measure:
    """A month's 2,000 patients, in standard deviations of the public records."""
    return silot.Measure(rng.normal(size=(2000, 3)) + [0, raised, 0], columns=columns)


# %% [markdown]
# ## At the hospital
#
# Each file is charged epsilon 1 to the hospital's ledger; the budget of the year is 3. Only the
# files leave.

# %%
folder = Path(tempfile.mkdtemp())
# A budget belongs to people: without a state of its own, this page would be refused the second time.
os.environ["SILOT_STATE"] = str(folder / "state")
months = {"2026-09": 0.0, "2026-10": 0.0, "2026-11": 0.5}
files = {}
for month, raised in months.items():
    files[month] = folder / f"{month}.release"
    silot.release(
        patients(raised),
        files[month],
        name="north",
        ledger=folder / "north.ledger",
        public=public,
        period=month,
        privacy_epsilon=1.0,
        budget_epsilon=3.0,
    )
    print(f"{month}: {files[month].stat().st_size:,} bytes")

# %% [markdown]
# ## At the reader's
#
# `silot.watch` draws 200 pairs of releases from one distribution, with the same numbers of records
# and the same noise, and counts how many of them differ as clearly.

# %%
quiet = silot.watch([files["2026-09"], files["2026-10"]], public)
quiet

# %%
loud = silot.watch([files["2026-10"], files["2026-11"]], public)
loud

# %%
for found in (quiet, loud):
    (since,) = found.since
    print(
        f"{since.period} to {found.period}: distance {since.distance.value:.3f}, "
        f"p = {since.test.p_value:.3f}, drifted: {since.drifted}"
    )
assert loud.drifted and loud.since[0].test.p_value == 1 / 201
print("driven by:", loud.since[0].test.drivers)
assert "glucose" in loud.since[0].test.drivers

# %% [markdown]
# The noise comes from the system and has no seed: your numbers differ from run to run, and by design
# one quiet month in twenty gives an alarm. So this page claims nothing about the quiet comparison.

# %% alt="Shifts of three columns with intervals in a quiet and in a drifting month; glucose shifts in November."
fig, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for ax, found in zip(axes, (quiet, loud), strict=True):
    verdict = found.since[0].test
    for k, column in enumerate(columns):
        low, high = verdict[column].shift_interval
        color = "#d55e00" if column in verdict.drivers else "#0072b2"
        ax.plot([k, k], [low, high], color=color)
        ax.plot(k, verdict[column].shift, "o", color=color)
    ax.axhline(0, color="#bbbbbb", zorder=0)
    ax.set_xticks(range(3), columns)
    ax.set_title(f"{found.since[0].period} to {found.period}")
axes[0].set_ylabel("shift")
plt.show()

# %% [markdown]
# Lines: 95 % intervals of each shift, which include sampling and noise; orange: columns that drive a
# difference. A smaller drift hides in the noise.
#
# **Disclosed.** Three noisy sketches, level `private`: each protects every record with epsilon 1;
# together they spend more, and the ledger adds it up. A patient of all three months is
# protected by the total alone.
#
# **More**: [releases](../releases.md).
# **Next**: [an attack and its repair](04_attack.py).
