# %% [markdown]
# # 2. Bounds and statuses
#
# No number of silot comes alone. This tutorial shows where bounds come from, what each status
# means, and what to do about it. You need nothing but numpy to follow.

# %%
import matplotlib.pyplot as plt
import numpy as np

import silot

rng = np.random.default_rng(0)
x = rng.normal(size=(80, 2))
y = rng.normal(size=(120, 2)) + [1.0, 0.5]

# %% [markdown]
# ## Exact, and proven
#
# `direct` pools the records and solves the transport problem. A coupling is a way to move the mass:
# its cost is an upper bound. Potentials are prices that no move undercuts: their value is a lower
# bound. Where both meet, the value is proven.

# %%
exact = silot.distance(x, y)
print(exact.status)
print(f"[{exact.lower:.9f}, {exact.upper:.9f}]")
assert exact.converged and exact.upper - exact.lower < 1e-8

# %% [markdown]
# ## Where nobody pools
#
# `fedwad` never has both sides at once. It sends interpolants to and fro, and each round improves the
# bounds. Stopped early it says so, and what to change:

# %%
early = silot.distance(x, y, method="fedwad", rounds=3)
print(early.status)
print(f"value {early.value:.4f}, bounds [{early.lower:.4f}, {early.upper:.4f}]")
assert not early.converged and "raise rounds" in early.status
assert early.lower <= exact.value <= early.upper

# %%
late = silot.distance(x, y, method="fedwad")
print(late.status)
print(f"value {late.value:.4f}, bounds [{late.lower:.4f}, {late.upper:.4f}]")
assert late.converged and late.lower <= exact.value <= late.upper

# %% alt="Upper and lower bounds by round close in on the exact distance, drawn as a line."
history = late.history
rounds = [each["round"] for each in history]
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.fill_between(
    rounds,
    [each["lower"] for each in history],
    [each["upper"] for each in history],
    color="#0072b2",
    alpha=0.35,
    label="certified bounds",
)
ax.axhline(exact.value, color="#d55e00", label="exact distance")
ax.set(xlabel="round", ylabel="distance")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Certified is not converged
#
# `trianglewad` takes one round. Its value is an upper bound, and its status says how far below the
# truth may be. `converged` is false: the value need not be near.

# %%
quick = silot.distance(x, y, method="trianglewad")
print(quick.status)
print(f"value {quick.value:.4f}, bounds [{quick.lower:.4f}, {quick.upper:.4f}], {quick.converged=}")
assert quick.lower <= exact.value <= quick.upper and not quick.converged

# %% [markdown]
# | status begins with | what holds | what to do |
# |---|---|---|
# | `converged` | the value is close to W: `direct` within rounding, `fedwad` within 2 % | nothing |
# | `certified` | W is between the bounds, and may be far from the value | read the bounds |
# | `stopped` | the same, and more effort helps | what it says, such as `raise rounds` |
# | `estimate` | no bound; an interval from simulations | see [releases](06_releases.py) |
#
# ## A verdict is not a bound
#
# Two samples from the same distribution are apart, too. Bounds are about *these records*; `verdict` is
# about the distributions behind them. It comes from a permutation test: how often do samples from
# one distribution differ as clearly? Both samples here come from the same distribution:

# %%
same = silot.distance(rng.normal(size=(80, 2)), rng.normal(size=(120, 2)))
for name, found in (("same", same), ("x and y", exact)):
    verdict = found.verdict
    print(f"{name}: value {found.value:.3f}, {verdict.verdict}, p = {verdict.p_value:.3f}")
print(f"a shift of {same.verdict.detectable:.2f} standard deviations would have been detected")
assert same.indistinct and not exact.indistinct

# %% [markdown]
# ## Bounds on your own arrays
#
# `silot.transport` is the mathematics alone. The proof is yours to check: potentials f and g with
# f(i) + g(j) no larger than the cost of any pair.

# %%
plan = silot.transport.exact_plan(x, y)
f, g = plan.potentials
costs = ((x[:, None] - y[None]) ** 2).sum(axis=-1)
print(f"least slack {(costs - f[:, None] - g).min():.1e}")
print(f"dual {f.mean() + g.mean():.9f}, primal {plan.cost:.9f}")
assert (costs - f[:, None] - g).min() > -1e-9
assert abs(f.mean() + g.mean() - plan.cost) < 1e-9

# %% [markdown]
# ## What you learnt
#
# - Read `bounds` before `value`, and `status` before both.
# - `converged` means close; `certified` means bracketed.
# - `verdict` says whether distributions differ, by which columns, and which shift would have been
#   detected.
#
# **More**: [where bounds come from](../distance.md#where-bounds-come-from).
# **Next**: [disclosure and policies](03_disclosure.py).
