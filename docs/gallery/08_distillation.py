# %% [markdown]
# # Distillation of three teachers
#
# **Three laboratories read handwritten digits. Each knows five of the ten, with a model of its
# own kind. Can one model learn all ten from what the three say, without a record or a parameter of
# theirs?** Largely: the student, which saw no label, is right far more often than any teacher, and
# more often than the mean of the three (accuracies below). Needs `pip install 'silot[torch]'`.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import silot

x, y = load_digits(return_X_y=True)
x = x / 16
order = np.random.default_rng(0).permutation(len(x))
test, public, private = order[:400], order[400:1000], order[1000:]
known = {"north": [0, 1, 2, 3, 4], "south": [3, 4, 5, 6, 7], "west": [6, 7, 8, 9, 0]}
models = {
    "north": RandomForestClassifier(random_state=0),
    "south": LogisticRegression(max_iter=500),
    "west": KNeighborsClassifier(5),
}
for k, (name, model) in enumerate(models.items()):
    own = private[k::3]
    own = own[np.isin(y[own], known[name])]
    model.fit(x[own], y[own])
    print(f"{name}: {type(model).__name__} of {len(own)} images of {known[name]}")

# %% [markdown]
# ## One student
#
# Each teacher is asked once for its probabilities of 600 images without labels, and of noise hidden
# among them. A teacher that says the same of noise counts less where it says that: it speaks of
# what it does not know. Labels are matched by name.

# %%
labels = silot.LabelSpace.one_hot([str(digit) for digit in range(10)])
teachers = silot.LocalFederation(
    {
        name: silot.Teacher(model.predict_proba, labels=[str(digit) for digit in model.classes_])
        for name, model in models.items()
    }
)
torch.manual_seed(0)
student = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
found = silot.distill(
    student,
    teachers,
    x[public],
    labels=labels,
    loss="entropy",
    memory=False,
    epochs=40,
    rate=0.01,
    test=(x[test], labels.coded(y[test])),
)
found

# %%
accuracy = {name: model.score(x[test], y[test]) for name, model in models.items()}
mean = np.zeros((len(test), 10))
for model in models.values():
    mean[:, model.classes_] += model.predict_proba(x[test])
accuracy["mean of the three"] = float((mean.argmax(axis=1) == y[test]).mean())
accuracy["student"] = found.after["test"].accuracy
for name, share in accuracy.items():
    print(f"{name:18s} {share:.1%}")
assert accuracy["student"] > accuracy["mean of the three"] > max(accuracy[name] for name in models)

# %% alt="Left, accuracy of three teachers, their mean and the student; the student is best. Right, accuracy of the student by digit."
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.barh(
    list(accuracy)[::-1],
    list(accuracy.values())[::-1],
    color=["#d55e00", "#999999", "#0072b2", "#0072b2", "#0072b2"],
)
left.set(xlim=(0, 1), xlabel="accuracy on 400 images of all digits")
predicted = found.predict(x[test]).astype(int)
by_digit = [float((predicted[y[test] == digit] == digit).mean()) for digit in range(10)]
right.bar(range(10), by_digit, color="#d55e00")
right.set(ylim=(0, 1), xlabel="digit", ylabel="accuracy of the student")
right.set_xticks(range(10))
plt.show()

# %% [markdown]
# A model fitted on true labels of the 600 images would be better still:

# %%
ideal = LogisticRegression(max_iter=500).fit(x[public], y[public]).score(x[test], y[test])
print(f"with the true labels: {ideal:.1%}")
assert ideal > accuracy["student"]

# %% [markdown]
# **Disclosed.** Predictions (level `record`): from them one may infer whether a record was among a
# teacher's. With `privacy_epsilon` and teachers of many parts they are differentially private.
#
# **When not**: where one teacher is good everywhere, ask that one; see
# [how good it is](../distillation.md).
#
# **Next**: [groups of holders](09_groups.py).
