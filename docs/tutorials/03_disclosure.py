# %% [markdown]
# # 3. Disclosure and policies
#
# A holder answers questions; whatever it answers is out. This tutorial shows what each level of
# disclosure tells, how a holder sets its rules, what its ledger remembers, and how to find out what
# an asker could learn. Needs `pip install 'silot[privacy]'` for the part with noise.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import silot
from silot import Holder, LocalFederation, Measure, Policy
from silot.privacy import Ledger, epsilon_of

rng = np.random.default_rng(0)
north, south = rng.normal(size=(300, 8)), rng.normal(size=(300, 8)) + 0.3
folder = Path(tempfile.mkdtemp())
# A budget belongs to people: without a state of its own, this page would be refused the second time.
os.environ["SILOT_STATE"] = str(folder / "state")

# %% [markdown]
# ## Levels
#
# | level | what is disclosed |
# |---|---|
# | `private` | releases with noise, with a guarantee |
# | `statistics` | exact distances, means, variances, sizes: trust |
# | `record` | records, or what they can be reconstructed from |
#
# Every method says what it sends, and what protects it, before anything is sent:

# %%
for name, method in silot.METHODS.items():
    print(f"{name:12s} sends {method.sends}\n{'':12s} {method.privacy}")

# %% [markdown]
# ## The default policy releases, and answers nothing else
#
# `Policy()` allows level `private`. Published distance protocols need `record`, and exact distances
# `statistics`, so both are refused, at the holder, before anything is computed from the records.

# %%
ledger = Ledger(folder / "north.ledger")
federation = LocalFederation(
    {
        "north": Holder(Measure(north), Policy(), ledger),
        "south": Holder(Measure(south), Policy(), Ledger(folder / "south.ledger")),
    }
)
validation = rng.normal(size=(100, 8))
for ask in (
    lambda: silot.distance("north", "south", federation=federation, method="fedwad"),
    lambda: silot.value_holders(federation, validation),
):
    try:
        ask()
    except silot.SilotError as error:
        print(error)
        assert error.code == "policy-level"

# %% [markdown]
# A release is answered: here the distance of each holder to validation data, with noise and an
# interval.

# %%
worth = silot.value_holders(federation, validation, method="private")
for holder in worth.ranking:
    low, high = holder.distance.interval
    print(f"{holder.holder}: {holder.distance.value:.2f}, 95 % interval [{low:.2f}, {high:.2f}]")
assert worth.disclosure == "private"

# %% [markdown]
# ## Exact statistics are trust
#
# A policy may name kinds of exact statistics. They are answered to whoever may ask, as often as they
# like. Whoever reads them can test who is in the data: with all other records at hand, one exact
# distance is enough to tell whether the last record is there.

# %%
trusting = Policy(level="statistics", questions=["distance-to", "distance-with-error"])
open_to_some = LocalFederation({"north": Holder(Measure(north), trusting, Ledger())})
without_one = LocalFederation({"north": Holder(Measure(north[1:]), trusting, Ledger())})
exact = [
    silot.value_holders(holders, north[:1]).ranking[0].distance.value
    for holders in (open_to_some, without_one)
]
print("with and without the record:", exact)
assert exact[0] != exact[1]

# %% [markdown]
# ## The ledger remembers
#
# What is released is on the disk before an answer leaves, and so is what was refused. A new process,
# with the same file, goes on where the last one stopped: the same question gets the same answer for
# nothing, and no other fits the budget any more.

# %%
for row in ledger.entries():
    if row.event in ("reserve", "refuse"):
        print(f"{row.event:7s} mu {row.mu:.3f}, asked by {row.asker}")
assert [row.event for row in ledger.entries()].count("commit") == 1
print("head of the chain:", ledger.verify()[:16], "...")
ledger.close()

reopened = Ledger(folder / "north.ledger")
restarted = LocalFederation({"north": Holder(Measure(north), Policy(), reopened)})
again = silot.value_holders(restarted, validation, method="private")
assert again.privacy_mu == 0
try:
    silot.value_holders(restarted, rng.normal(size=(100, 8)), method="private")
except silot.SilotError as error:
    print(f"after a restart: {error.code}")
    assert error.code == "ledger-budget"

# %% [markdown]
# ## Noise is charged
#
# A release is protected by its noise, and what it spends is added up. Over the budget nothing is
# released.

# %%
rules = Policy(level="private", privacy_epsilon=1.0)
account = Ledger()
private = LocalFederation({"north": Holder(Measure(north), rules, account)})
spent = []
for seed in range(6):
    # Other public cells, so another question.
    protocol = silot.distances.sketches.sketches(
        ["north"],
        public_mean=[0.0] * 8,
        public_scale=1.2,
        size=2000,
        privacy_epsilon=0.5,
        seed=seed,
    )
    try:
        private.run(protocol)
    except silot.SilotError as error:
        print(error)
        refused = error.code
        break
    spent.append(epsilon_of(account.spent, 1e-5))
    print(f"spent so far: epsilon {spent[-1]:.3f}")
assert len(spent) == 3 and max(spent) <= 1.0
assert refused == "ledger-budget"

# %% [markdown]
# The same question again gets the stored answer, by whoever asks, and costs nothing:

# %%
private.run(
    silot.distances.sketches.sketches(
        ["north"], public_mean=[0.0] * 8, public_scale=1.2, size=2000, privacy_epsilon=0.5, seed=0
    )
)
print(f"spent so far: epsilon {epsilon_of(account.spent, 1e-5):.3f}")
assert epsilon_of(account.spent, 1e-5) == spent[-1]

# %% alt="Epsilon spent after each release, below the budget of 1."
fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
ax.step(range(1, len(spent) + 1), spent, where="mid", marker="o", color="#0072b2")
ax.axhline(1.0, color="#d55e00", label="budget")
ax.set(xlabel="releases", ylabel="epsilon spent", ylim=(0, 1.1))
ax.set_xticks(range(1, len(spent) + 1))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# Releases add in squares, so two of 0.5 make less than 1.
#
# ## What could an asker learn at most?

# %%
print(Policy().explain())

# %% [markdown]
# `silot.audit_policy` measures on your machine what likelihood-ratio attacks learn about single
# records, beside the figures that no attack exceeds.

# %%
audit = silot.audit_policy(Policy(), Measure(north), draws=100)
audit

# %%
print("records recovered:", audit.recovered)
assert audit.recovered == 0
assert silot.audit_policy(Policy(level="record"), Measure(north), draws=50).recovered == 300

# %% [markdown]
# ## What you learnt
#
# - `disclosed` on a result is the most detailed thing that was sent. Levels are the holder's to set.
# - Releases are charged, exact statistics are trust, and the ledger outlives the process.
#
# **More**: [disclosure](../disclosure.md), [a holder's rules](../privacy.md#a-holders-rules).
# **Next**: [what holders are worth](04_worth.py).
