# %% [markdown]
# # A map of links
#
# **Six cameras, three of which see dark on light and three light on dark; two have no labels. Who
# should teach them?** silot pairs each with a camera that sees as it does, over two links, and
# the plan is proven to have the least objective at the costs that were estimated, without labels of
# the two. (The pipeline is that of ST-LF, with silot's own costs.)

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import silot

x, y = load_digits(return_X_y=True)
x = x / 16
order = np.random.default_rng(0).permutation(len(x))
devices, truth = {}, {}
for name, rows in zip("ABCDEF", np.array_split(order[:1500], 6), strict=True):
    pixels = x[rows] if name in "ABC" else 1 - x[rows]
    truth[name] = silot.Measure(pixels, labels=y[rows])
    devices[name] = silot.Measure(pixels) if name in "CF" else truth[name]
# B has labels for 60 of its 250 images.
few = np.where(np.arange(250) < 60, y[order[250:500]], -1)
devices["B"] = silot.Measure(x[order[250:500]], labels=few)

# %%
found = silot.adapt(devices, evaluation=truth, model="logistic", unlabelled="-1")
found

# %%
links = {(source, target) for source, target, _ in found.plan.links}
print("links:", links)
print("accuracy:", {name: f"{share:.0%}" for name, share in found.accuracies.items() if share})
print(f"gap of the plan: {found.plan.gap:g}")
assert {("A" < a < "D" or a == "A", "A" <= b < "D") for a, b in links} == {
    (True, True),
    (False, False),
}
assert found.plan.optimal and len(links) == 2

# %% [markdown]
# What would the other choice have cost? `transfer` is the error that silot expected of each source
# at each target, before any label of the target was looked at; beside it the error that there is.

# %%
sources, targets = [*found.plan.sources], ["C", "F"]
place = {name: k for k, name in enumerate(found.names)}
expected = found.transfer[np.ix_([place[s] for s in sources], [place[t] for t in targets])]
for source, row in zip(sources, expected, strict=True):
    print(
        source, {target: round(float(cost), 3) for target, cost in zip(targets, row, strict=True)}
    )
assert found.transfer[place["A"], place["C"]] < found.transfer[place["D"], place["C"]]
assert found.transfer[place["E"], place["F"]] < found.transfer[place["A"], place["F"]]

# %% alt="Left, six devices in a circle with arrows of the two links A or B to C, and D or E to F. Right, expected errors of four sources at two targets; low where both see alike."
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
angle = {name: np.pi / 2 - 2 * np.pi * k / 6 for k, name in enumerate("ABCDEF")}
for name, a in angle.items():
    kind = "target" if name in targets else "source"
    colour = "#d55e00" if kind == "target" else "#0072b2"
    left.scatter(np.cos(a), np.sin(a), s=700, color=colour, zorder=2)
    left.text(np.cos(a), np.sin(a), name, color="white", ha="center", va="center", weight="bold")
for source, target, weight in found.plan.links:
    ends = [np.array([np.cos(angle[each]), np.sin(angle[each])]) for each in (source, target)]
    left.annotate(
        "",
        ends[1],
        ends[0],
        arrowprops={
            "arrowstyle": "-|>",
            "lw": 2.5 * weight,
            "color": "#222222",
            "shrinkA": 15,
            "shrinkB": 15,
        },
    )
left.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal", title="blue: sources; orange: targets")
left.set_axis_off()
drawn = right.imshow(expected, cmap="viridis", vmin=0)
right.set_xticks(range(2), targets)
right.set_yticks(range(len(sources)), sources)
right.set(xlabel="target", ylabel="source", title="expected error")
fig.colorbar(drawn)
plt.show()

# %% [markdown]
# **Bounds.** Optimal means: no plan has a lower objective *at these costs*, which are estimates.
#
# **Disclosed.** Parameters of models travel, so the run says level `record`.
#
# **More**: [who can teach whom](../teaching.md). **Next**:
# [distillation of three teachers](08_distillation.py).
