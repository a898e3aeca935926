# %% [markdown]
# # 7. Better models from many holders
#
# Five clinics have few records each. Should they train one model together? This tutorial finds out that
# they should not, why, and what does better: groups, and looking at the records. It ends with
# models of different kinds that teach one. Needs `pip install 'silot[torch]'`.
#
# Clinics are drawn: three see adults, two children, and who comes back follows another rule for
# each. In the south one outcome in five was entered wrongly.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import silot

COLUMNS = ["age", "glucose", "pressure", "stay"]


def clinic(size: int, seed: int, children: bool = False, wrong: float = 0.0) -> silot.Measure:
    """Patients, and who of them came back."""
    rng = np.random.default_rng(seed)
    glucose, pressure, stay = rng.normal(size=(3, size))
    odds = -3 * glucose + 2 * stay if children else 3 * glucose + 2 * pressure
    back = rng.random(size) < 1 / (1 + np.exp(-2 * odds))
    age = rng.normal(-2 if children else 1, 0.5, size)
    back ^= rng.random(size) < wrong
    points = np.column_stack([age, glucose, pressure, stay])
    return silot.Measure(points, labels=np.where(back, "yes", "no"), columns=COLUMNS)


clinics = {
    "north": clinic(160, 1),
    "south": clinic(240, 2, wrong=0.2),
    "east": clinic(140, 3),
    "west": clinic(150, 4, children=True),
    "coast": clinic(130, 7, children=True),
}
adults = {name: clinics[name] for name in ("north", "south", "east")}
registry, test = clinic(200, 9), clinic(500, 10)

# %% [markdown]
# ## One model of all
#
# Federated averaging: clinics train, parameters travel, records do not. Each holds a fifth of its records
# out to measure on, and trains alone for comparison.

# %%
everybody = silot.train(clinics, model="logistic", rounds=10)
everybody

# %%
print(f"together {everybody.accuracy:.1%}, alone {everybody.accuracy_alone:.1%}")
assert everybody.accuracy < everybody.accuracy_alone

# %% [markdown]
# ## Whose data are alike?
#
# The tests also see the wrong outcomes: the south stands apart from the other adults.

# %%
groups = silot.cluster(clinics, labels=True)
print(*groups.groups, sep="\n")
print(groups.status)
assert groups.groups == (("coast", "west"), ("east", "north"), ("south",))

# %%
grouped = silot.train(clinics, model="logistic", rounds=10, groups=groups)
grouped

# %%
print(f"in groups {grouped.accuracy:.1%}, alone {grouped.accuracy_alone:.1%}")
assert grouped.accuracy > grouped.accuracy_alone > everybody.accuracy

# %% alt="Accuracy of five clinics by a model alone, of all together, and of their group. Together is far worse for the children's clinics."
fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
places = np.arange(len(clinics))
kinds = {
    "alone": ("#999999", grouped.accuracies_alone),
    "all together": ("#d55e00", everybody.accuracies),
    "in groups": ("#0072b2", grouped.accuracies),
}
for k, (name, (colour, shares)) in enumerate(kinds.items()):
    ax.bar(
        places + 0.27 * (k - 1), [shares[each] for each in clinics], 0.25, color=colour, label=name
    )
ax.set_xticks(places, list(clinics))
ax.set(ylabel="accuracy, records held out", ylim=(0, 1.25))
ax.legend(frameon=False, ncols=3, loc="upper center")
plt.show()

# %% [markdown]
# ## What would help most?
#
# With trusted records of adults `silot.plan` looks at pooling, leaving out and repairing, and says which of
# it is sure.

# %%
plan = silot.plan(adults, registry, labels=True)
plan

# %%
assert any("south" in advice.holders for advice in plan.advice)

# %% [markdown]
# ## Does leaving the flagged records out help?
#
# The registry has 500 more records that nobody trained on.

# %%
before = silot.train(adults, model="logistic", rounds=10, test=test, alone=False)
after = silot.train(
    adults, registry, model="logistic", rounds=10, test=test, alone=False, drop_flagged=True
)
shares = {"all records": before.accuracy_of[0], "without flagged": after.accuracy_of[0]}
for name, share in shares.items():
    low, high = (
        share - 1.96 * np.sqrt(share * (1 - share) / 500),
        share + 1.96 * np.sqrt(share * (1 - share) / 500),
    )
    print(f"{name:15s} {share:.1%} ({low:.1%} to {high:.1%})")
print("left out:", after.left_out)
assert (
    after.left_out["south"] > 30 and abs(shares["all records"] - shares["without flagged"]) < 0.03
)

# %% [markdown]
# The wrong outcomes were found, and the model is the same within what 500 records can tell: a
# linear model of four numbers averages random mistakes out. Repairing the records still matters for whoever
# reads them.
#
# ## Models of different kinds
#
# Distillation needs no common parameters: each clinic says what it thinks of public inputs, and one
# student learns from all.

# %%
models = {
    "north": RandomForestClassifier(random_state=0),
    "east": LogisticRegression(),
    "south": LogisticRegression(C=0.1),
}
for name, model in models.items():
    model.fit(adults[name].points, adults[name].labels)
labels = silot.LabelSpace.one_hot(["no", "yes"])
torch.manual_seed(0)
student = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
public = clinic(400, 20).points
distilled = silot.distill(
    student,
    silot.LocalFederation(
        {
            name: silot.Teacher(model.predict_proba, labels=list(model.classes_))
            for name, model in models.items()
        }
    ),
    public,
    labels=labels,
    memory=False,
    loss="entropy",
    epochs=30,
    rate=0.02,
    test=(test.points, test.labels),
)
distilled

# %%
for name, model in models.items():
    print(f"{name:7s} {model.score(test.points, test.labels):.1%}")
print(f"student {distilled.after['test'].accuracy:.1%}")
assert distilled.after["test"].accuracy > 0.85

# %% [markdown]
# Where one teacher is good everywhere the student is no better than it. Distillation pays where
# teachers know different things ([gallery](../gallery/08_distillation.py)).
#
# ## What you learnt
#
# - Compare with training alone, on records held out: one model of all may be worse for everybody.
# - Group holders before you average them.
# - Parameters and predictions are level `record`: they may give records away.
#
# **More**: [a better model](../better-model.md), [training](../training.md), [groups](../groups.md),
# [distillation](../distillation.md). **Next**: [losses in torch](08_losses.py).
