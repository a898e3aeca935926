# %% [markdown]
# # Transport as a loss
#
# **Can optimal transport be a loss in torch, with gradients that are right?** Yes: this notebook checks
# them, moves points onto a ring, and fits a model to a cloud of samples. Needs `pip install 'silot[torch]'`.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

import silot
import silot.torch as transport

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

# %% [markdown]
# ## A cost and its gradient
#
# Functions return the cost W^p, not its root: it has a gradient where the distance is 0. Two points go
# to two points, each by 2:

# %%
points = torch.tensor([[0.0], [1.0]], requires_grad=True)
cost = transport.wasserstein(points, torch.tensor([[2.0], [3.0]]))
cost.backward()
print(cost.item(), points.grad.flatten().tolist())
assert cost.item() == 4.0 and points.grad.flatten().tolist() == [-2.0, -2.0]

# %% [markdown]
# It is the square of the distance of `silot.distance`:

# %%
x, y = torch.randn(60, 2), torch.randn(90, 2) + 1
assert (
    abs(transport.wasserstein(x, y).item() - silot.distance(x.numpy(), y.numpy()).value ** 2) < 1e-9
)

# %% [markdown]
# ## Is the gradient right?
#
# By the envelope theorem it is that of the optimal plan. torch's own check compares it with finite
# differences:

# %%
few = torch.randn(5, 2, requires_grad=True)
weights = torch.rand(5, requires_grad=True)
other = torch.randn(4, 2)
assert torch.autograd.gradcheck(lambda a: transport.wasserstein(a, other), few)
assert torch.autograd.gradcheck(
    lambda a: transport.sinkhorn_divergence(a, other, epsilon=0.5, tolerance=1e-12), few, atol=1e-5
)
print("gradients agree with finite differences")

# %% [markdown]
# Second derivatives of a plan are not known where the plan jumps, so silot refuses them, and does not
# return zero:

# %%
(slope,) = torch.autograd.grad(transport.wasserstein(few, other), few, create_graph=True)
try:
    slope.sum().backward()
except silot.errors.SilotError as error:
    print(error)
    assert error.code == "second-derivatives"

# %% [markdown]
# ## Move points
#
# Descend on the cost of a cloud against a ring, by three losses. The sliced one is cheapest a step
# and exact transport the most direct.

# %%
angle = torch.rand(200) * 2 * np.pi
ring = 3 * torch.stack([angle.cos(), angle.sin()], dim=1) + 0.1 * torch.randn(200, 2)
directions = torch.Generator().manual_seed(0)
losses = {
    "exact": lambda z: transport.wasserstein(z, ring),
    "Sinkhorn, epsilon 0.1": lambda z: transport.sinkhorn_divergence(
        z, ring, epsilon=0.1, tolerance=1e-4
    ),
    "sliced": lambda z: transport.sliced_wasserstein(z, ring, generator=directions),
}
start = torch.randn(100, 2)
ends = {}
for name, loss in losses.items():
    moved = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([moved], lr=0.2)
    for _ in range(60):
        optimiser.zero_grad()
        loss(moved).backward()
        optimiser.step()
    ends[name] = moved.detach()
first = transport.wasserstein(start, ring).item()
print(f"exact cost at the start {first:.3f}")
for name, end in ends.items():
    print(f"after {name:22s} {transport.wasserstein(end, ring).item():.4f}")
    assert transport.wasserstein(end, ring).item() < 0.1 * first

# %% alt="A ring of target points and where three losses moved a cloud to: on the ring each time."
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharex=True, sharey=True, layout="constrained")
for ax, (name, end) in zip(axes, ends.items(), strict=True):
    ax.plot(*ring.T, ".", color="#bbbbbb")
    ax.plot(*end.T, ".", color="#0072b2")
    ax.set(title=name, aspect="equal")
plt.show()

# %% [markdown]
# ## Fit a model
#
# Only samples are given, of a cloud that was turned and stretched. A linear map is learnt that carries
# noise to it; transport needs no density.

# %%
truth = torch.tensor([[2.0, 0.0], [1.0, 0.5]])
sample = torch.randn(300, 2) @ truth.T + torch.tensor([1.0, -1.0])
model = torch.nn.Linear(2, 2)
optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
history = []
for _ in range(80):
    optimiser.zero_grad()
    loss = transport.wasserstein(model(torch.randn(300, 2)), sample)
    loss.backward()
    optimiser.step()
    history.append(loss.item())
learnt, wanted = model.weight @ model.weight.T, truth @ truth.T
print("covariance learnt", learnt.detach().numpy().round(2).tolist())
print("of the truth     ", wanted.numpy().round(2).tolist())
print("offset learnt    ", model.bias.detach().numpy().round(2).tolist())
assert (learnt - wanted).abs().max() < 0.8 and history[-1] < 0.2 * history[0]

# %% alt="The loss falls over 80 steps and levels off at the distance of two samples from the same distribution."
fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
ax.plot(history, color="#0072b2")
ax.set(xlabel="step", ylabel="cost", yscale="log")
plt.show()

# %% [markdown]
# The loss does not go to 0: two samples from the same distribution are apart.
#
# ## Bounds from potentials
#
# Any potentials give certified bounds, however little was iterated:

# %%
_, g = transport.potentials(x, y, epsilon=0.5)
between = transport.bounds(x, y, g, epsilon=0.5)
exact = transport.wasserstein(x, y).item()
print(f"{between.lower.item():.4f} <= {exact:.4f} <= {between.upper.item():.4f}")
assert between.lower.item() <= exact <= between.upper.item()

# %% [markdown]
# **More**: [which function to use](../estimators.md#transport-as-a-loss). **Back to** [the gallery](index.md).
