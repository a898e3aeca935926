# %% [markdown]
# # 3. Disclosure and policies
#
# A holder answers questions; whatever it answers is out. This tutorial shows what each level of
# disclosure tells, how a holder sets its rules, what its ledger remembers, and how to find out what
# an asker could learn. Needs `pip install 'silot[privacy]'` for the part with noise.

# %%
import json
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

# %% [markdown]
# ## Levels
#
# | level | what is told |
# |---|---|
# | `scalar` | a distance, a count |
# | `sketch` | counts with noise, with a guarantee |
# | `aggregate` | means, variances, sums of many records |
# | `record` | records, or what they can be computed from |
#
# Every method says what it sends, and what protects it, before anything is sent:

# %%
for name, method in silot.METHODS.items():
    print(f"{name:12s} sends {method.sends}\n{'':12s} {method.privacy}")

# %% [markdown]
# ## The default policy refuses records
#
# `Policy()` allows up to level `aggregate`. Published distance protocols need `record`, so they are
# refused, at the holder, before anything is computed from it.

# %%
ledger = Ledger(folder / "north.ledger")
federation = LocalFederation(
    {
        "north": Holder(Measure(north), Policy(), ledger),
        "south": Holder(Measure(south), Policy(), Ledger(folder / "south.ledger")),
    }
)
try:
    silot.distance("north", "south", federation=federation, method="fedwad")
except silot.SilotError as error:
    print(error)
    assert error.code == "policy-level"

# %% [markdown]
# ## Chosen numbers are few
#
# A distance to validation records that the *asker* brings is an exact number about inputs the asker
# chose: enough of them determine a record. So they are counted, for ever. Ask again with other
# validation data until the holder stops:

# %%
told = 0
for shift in range(10):
    validation = rng.normal(size=(100, 8)) + 0.1 * shift
    try:
        worth = silot.value_holders(federation, validation)
    except silot.SilotError as error:
        print(f"after {told} numbers: {error}")
        assert error.code == "policy-numbers"
        break
    told += 1
    distance = worth.ranking[0].distance
    print(f"{distance.value:.2f}, bounds [{distance.lower:.2f}, {distance.upper:.2f}]")
assert 1 <= told < 8

# %% [markdown]
# Two things to see. Values are rounded: no number is told finer than one record can move it, and the
# bounds include the step. And there were fewer numbers than the 8 that a record has.
#
# ## The ledger remembers
#
# What was told is on the disk before an answer leaves, and so is what was refused. The moments are
# those that `fedwad` asked for before it was refused: a *named* statistic, which the asker cannot
# shape, is told once. A new process, with the same file, goes on where the last one stopped:

# %%
for row in ledger.entries():
    if row.event in ("count", "refuse"):
        print(f"{row.event:7s} {json.loads(row.parameters)['question']}, asked by {row.asker}")
assert [row.event for row in ledger.entries()].count("told") == told + 1
print("head of the chain:", ledger.verify()[:16], "...")
ledger.close()

reopened = Ledger(folder / "north.ledger")
restarted = LocalFederation({"north": Holder(Measure(north), Policy(), reopened)})
try:
    silot.value_holders(restarted, rng.normal(size=(100, 8)))
except silot.SilotError as error:
    print(f"after a restart: {error.code}")
    assert error.code == "policy-numbers"

# %% [markdown]
# ## Noise is charged
#
# A release is protected by its noise, and what it spends is added up. Over the budget nothing is
# told.

# %%
rules = Policy(level="sketch", privacy_epsilon=1.0)
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
# `silot.audit_policy` plays a malicious coordinator against your policy and records, on your machine.
# What it finds is let out; what it does not find proves nothing.

# %%
audit = silot.audit_policy(Policy(), Measure(north), questions=20)
audit

# %%
print("records recovered:", audit.recovered)
assert audit.recovered == 0
assert silot.audit_policy(Policy(level="record"), Measure(north), questions=5).recovered > 0

# %% [markdown]
# ## What you learnt
#
# - `disclosed` on a result is the finest thing that was told. Levels are the holder's to set.
# - Exact numbers are few and rounded, releases are charged, and the ledger outlives the process.
#
# **More**: [disclosure](../disclosure.md), [a holder's rules](../privacy.md#a-holders-rules).
# **Next**: [what holders are worth](04_worth.py).
