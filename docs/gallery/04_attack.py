# %% [markdown]
# # An attack and its repair
#
# **Published protocols compare data without sending them. Can the coordinator get the records
# back?** Yes: from the messages of TriangleWad and of FedWaD all records of the digits below are
# recovered exactly, up to rounding. A site under the default policy refuses both, and a
# differentially private release leaves none of these attacks anything to work on. Needs
# `pip install 'silot[privacy]'` for the last part.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import silot
from silot.privacy import Ledger

images = load_digits().data / 16
rng = np.random.default_rng(0)
order = rng.permutation(len(images))
north, south = images[order[:60]], images[order[60:120]]
truth = {"north": north, "south": south}


def audited(protocol: silot.distances.Pairwise) -> silot.audits.Audit:
    """Run a protocol between two sites that answer everything, and attack its messages."""
    open_to_all = silot.Policy(level="record")
    federation = silot.federation.LocalFederation(
        {name: silot.federation.Holder(silot.Measure(x), open_to_all) for name, x in truth.items()}
    )
    result = federation.run(protocol)
    return silot.audit(result.transcript, truth=truth)


# %% [markdown]
# ## The attack
#
# The coordinator sees interpolants: each record, moved part of the way to a public reference. It
# knows the reference, so it moves them back.

# %%
triangle = audited(silot.distances.trianglewad("north", "south"))
triangle

# %%
fedwad = audited(silot.distances.fedwad("north", "south", rounds=5))
for name, audit in {"trianglewad": triangle, "fedwad": fedwad}.items():
    print(name, {party: f"{rate:.0%}" for party, rate in audit.exact_rates.items()})
    assert all(rate == 1.0 for rate in audit.exact_rates.values())

# %% alt="Six digits of the north above what the coordinator recovered from the messages: they are the same."
best = triangle.best("north")
recovered = best.recovered
# Recovered rows come in the order of the messages, not of the site's table.
nearest = ((north[:6, None] - recovered[None]) ** 2).sum(axis=-1).argmin(axis=1)
fig, axes = plt.subplots(2, 6, figsize=(7, 2.8), layout="constrained")
for k in range(6):
    for row, image in enumerate((north[k], recovered[nearest[k]])):
        axes[row, k].imshow(image.reshape(8, 8), cmap="gray_r")
        axes[row, k].set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("records")
axes[1, 0].set_ylabel("recovered")
plt.show()
error = np.abs(north[:6] - recovered[nearest]).max()
print(f"largest error of a pixel: {error:.1e}")
assert error < 1e-9

# %% [markdown]
# ## The repair: a policy
#
# A site decides by itself. Under the default policy, level `private`, it sends nothing but
# releases with noise, whatever a protocol requests.

# %%
guarded = silot.federation.LocalFederation(
    {
        name: silot.federation.Holder(silot.Measure(x), silot.Policy(), Ledger())
        for name, x in truth.items()
    }
)
try:
    guarded.run(silot.distances.trianglewad("north", "south"))
except silot.errors.SilotError as error:
    refusal = error
    print(f"{refusal.code}: {refusal}")
assert refusal.code == "policy-level"

# %% [markdown]
# ## The repair: a release
#
# A sketch with noise has a guarantee. The attacks run on its messages too. That they find
# nothing proves nothing; the guarantee is the noise, and the ledger counts it.

# %%
many = {name: rng.normal(size=(2000, 2)) + (name == "south") for name in truth}
rules = silot.Policy(level="private", privacy_epsilon=1)
private = silot.federation.LocalFederation(
    {name: silot.federation.Holder(silot.Measure(x), rules, Ledger()) for name, x in many.items()}
)
sketched = private.run(
    silot.distances.sketches.sketches(["north", "south"], public_mean=[0, 0], public_scale=1.5)
)
audit = silot.audit(sketched.transcript, truth=many)
print(audit.verdict)
assert not any(audit.exact_rates.values())
print(f"distance by the releases: {sketched.distance('north', 'south').value:.2f}")

# %% [markdown]
# **More**: [audits, attacks and policies](../privacy.md#audit-a-run), and the mode
# that reveals one number and nothing else, [secure computation](../secure.md).
# **Next**: [transport beyond memory](05_beyond_memory.py).
