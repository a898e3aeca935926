# %% [markdown]
# # Transport beyond memory
#
# **What is the optimal transport cost of two clouds of 12,000 points, if their matrix of costs (1.15 GB)
# must not be held?** It is between the two numbers printed below, which differ by less than 5 %; the
# process needed a small part of that memory, and the bounds hold whatever the solver did.
# Needs the compiled kernels: `silot doctor` says whether they are there.

# %%
import resource
import time

import matplotlib.pyplot as plt
import numpy as np

from silot import transport

n = 12_000
rng = np.random.default_rng(0)
x = rng.normal(size=(n, 3))
y = rng.normal(size=(n, 3)) + 0.5


def peak() -> float:
    """Most memory that this process has had, in MB (Linux counts in kB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


before, start = peak(), time.perf_counter()
found = transport.bounded_plan(x, y, gap=0.05)
seconds, needed = time.perf_counter() - start, peak() - before
matrix = 8 * n * n / 1e6
print(f"cost     between {found.lower_cost:.4f} and {found.cost:.4f}")
print(f"status   {found.status}")
print(f"took     {seconds:.0f} s, {needed:.0f} MB; the matrix alone is {matrix:.0f} MB")
assert found.lower_cost <= found.cost <= 1.05 * found.lower_cost
assert needed < 0.5 * matrix

# %% [markdown]
# ## Why the bounds can be trusted
#
# Above: a coupling is one way to move the mass, so its cost is at least the optimal cost. Its rows and
# columns must sum to the weights, which anyone can check. Below: potentials f and g whose sums are
# nowhere above the cost, so that no coupling costs less than their means. Here both are computed
# again, some rows at a time, from what was returned.

# %%
plan = found.plan
assert np.allclose(np.asarray(plan.sum(axis=1)).ravel(), 1 / n)
assert np.allclose(np.asarray(plan.sum(axis=0)).ravel(), 1 / n)
moved = plan.tocoo()
paid = ((x[moved.row] - y[moved.col]) ** 2).sum(axis=1) @ moved.data
print(f"cost of the coupling, added up again: {paid:.6f}")
assert abs(paid - found.cost) < 1e-9

# %%
f, g = found.potentials
slack = np.inf
for rows in np.array_split(np.arange(n), 48):
    costs = ((x[rows, None] - y[None]) ** 2).sum(axis=-1)
    slack = min(slack, float((costs - f[rows, None] - g[None]).min()))
print(f"value of the potentials: {f.mean() + g.mean():.6f}; least slack {slack:.1e}")
assert slack > -1e-9
assert abs(f.mean() + g.mean() - found.lower_cost) < 1e-6

# %% [markdown]
# ## A plan has few entries
#
# The matrix has 144 million cells, the coupling about as many as there are points.

# %% alt="Left, the two clouds in two of three coordinates with 150 of the moves drawn as lines. Right, histogram of how far points move."
print(f"{plan.nnz:,} entries for {n:,} points")
assert plan.nnz < 3 * n
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
some = rng.choice(moved.nnz, 150, replace=False)
a, b = x[moved.row[some]], y[moved.col[some]]
left.plot([a[:, 0], b[:, 0]], [a[:, 1], b[:, 1]], color="#999999", lw=0.7)
left.plot(a[:, 0], a[:, 1], ".", color="#0072b2")
left.plot(b[:, 0], b[:, 1], ".", color="#d55e00")
left.set(title="150 of the moves", aspect="equal")
lengths = np.linalg.norm(x[moved.row] - y[moved.col], axis=1)
right.hist(lengths, 60, weights=moved.data, color="#0072b2")
right.set(xlabel="how far mass moves", ylabel="share of the mass")
plt.show()

# %% [markdown]
# `gap=0` finds the optimum and takes longer. `silot.distance` does this by itself from
# 12,000 records a side on; it needs the records of both sides (level `record`).
#
# **More**: [arrays](../estimators.md#arrays). **Next**: [transport as a loss](06_losses.py).
