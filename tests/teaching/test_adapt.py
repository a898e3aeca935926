"""The whole pipeline on small devices: who may teach, who is left out, and what comes of it."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import silot
from silot.data.measure import Measure
from silot.errors import HolderError, InputError, MismatchError, RefusedError
from silot.federation import Answer, Failure, Holder, LocalFederation, Policy, Question
from silot.federation.answer import decode_reply, encode_reply
from silot.federation.question import decode_question
from silot.privacy import Ledger
from silot.teaching.adapt import Adapt
from silot.teaching.costs import NoEligibleSource
from silot.teaching.federated import Model, ModelSpec
from silot.teaching.plan import evaluate
from silot.teaching.questions import ClassFeatures, CountLabelled, ScoreModels, TrainModel
from silot.teaching.result import Adaptation

NAMES = ("d0", "d1", "d2", "d3", "d4", "d5")
QUICK: dict[str, Any] = {
    "iterations": 150, "passes": 0, "rate": 0.05, "divergence": "none",
    "classes": [str(k) for k in range(10)],
}  # fmt: skip
SPEC = ModelSpec("mlp", (64,), 10, hidden=(32,), centre=8.0, scale=8.0)


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return data.data, data.target.astype(str)


@cache
def records() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Records, truth and labels: d0 to d2 know some digits each, d3 a few labels, others none."""
    x, y = digits()
    rng = np.random.default_rng(0)
    digit = y.astype(int)
    kinds = {
        "d0": range(5), "d1": range(5, 10), "d2": (0, 2, 4, 6, 8), "d3": range(10),
        "d4": (0, 1, 2, 3), "d5": range(10),
    }  # fmt: skip
    found = {}
    for name, classes in kinds.items():
        rows = rng.choice(np.flatnonzero(np.isin(digit, list(classes))), 200, replace=False)
        truth = y[rows]
        labelled = {"d3": 2, "d4": 0, "d5": 0}.get(name, 150)
        found[name] = (x[rows], truth, np.where(np.arange(200) < labelled, truth, ""))
    return found


def holder(name: str, policy: Policy | None = None) -> Holder:
    x, truth, labels = records()[name]
    return Holder(
        Measure(x, labels=labels), policy or Policy.open(), Ledger(), Measure(x, labels=truth)
    )


class Broken(Holder):
    """Answers as another holder does, except to some questions."""

    def __init__(self, inner: Holder, kind: type[Question], change: Any = None) -> None:
        self.__dict__.update(inner.__dict__)
        self.kind, self.change = kind, change

    def reply(self, message: bytes, asker: str = "coordinator") -> bytes:
        if not isinstance(decode_question(message), self.kind):
            return super().reply(message, asker)
        if self.change is None:
            raise RuntimeError("the device lost power")
        answer = decode_reply(super().reply(message, asker))
        assert isinstance(answer, Answer)
        return encode_reply(self.change(answer))


def run(
    holders: dict[str, Any] | None = None, order: tuple[str, ...] = NAMES, **options: Any
) -> Adaptation:
    devices = {name: holder(name) for name in NAMES} | (holders or {})
    fed = LocalFederation({name: devices[name] for name in order})
    return fed.run(Adapt(model=SPEC, **(QUICK | options)).protocol(order))


@cache
def plain() -> Adaptation:
    return run(prior="source")


def test_targets_learn_what_no_single_source_knows() -> None:
    found = plain()
    assert found.plan.sources == ("d0", "d1", "d2")
    assert set(found.plan.targets) >= {"d3", "d4", "d5"}
    assert found.excluded == {"d3": "labels-few"}
    assert found.missing == found.unevaluated == {} and found.contrary == ()
    # Together they know all digits, and nobody knows them alone.
    linked = {i for i, target, _ in found.plan.links if target == "d5"}
    assert linked == {"d0", "d1", "d2"}
    assert found.accuracies["d5"] is not None and found.accuracies["d5"] > 0.6
    assert found.accuracies.keys() == set(NAMES)
    values = [value for value in found.accuracies.values() if value is not None]
    assert found.accuracy == pytest.approx(np.mean(values))
    assert "these scores are estimates, off by" in found.plan.status


def test_a_plan_keeps_its_rules_and_its_budget() -> None:
    found, free = run(budget=0.3), run()
    links = found.plan.alpha * (1.0 - np.eye(6))
    assert found.energy == pytest.approx(found.link_energy[links > 0].sum())
    possible = found.link_energy[:3].sum()
    assert found.energy <= 0.3 * possible + 1e-9 < free.energy
    sums = found.plan.alpha.sum(axis=0)
    np.testing.assert_allclose(sums, found.plan.psi, atol=1e-12)
    assert found.plan.lower_bound <= free.plan.lower_bound + 1e-9 <= found.plan.objective + 1.0
    # 24 dBm at 74 Mbit/s for the model as it travels, or for the bits of an option.
    assert found.link_energy[0, 1] == pytest.approx(10**-0.6 * 64 * SPEC.size / 74e6)
    heavy = run(budget=0.3, model_bits=1e9)
    assert heavy.link_energy[0, 1] == pytest.approx(10**-0.6 * 1e9 / 74e6)
    assert heavy.plan.links == found.plan.links


def test_accuracies_are_those_of_the_models_that_are_returned() -> None:
    found = plain()
    for name, accuracy in found.accuracies.items():
        x, truth, _ = records()[name]
        assert accuracy == pytest.approx((found.predict(name, x) == truth).mean())
        weights = found.plan.alpha[:, NAMES.index(name)]
        weights = weights if weights.any() else np.eye(6)[NAMES.index(name)]
        used = np.flatnonzero(weights)
        own = np.stack([found.parameters[NAMES[k]] for k in used])
        mixed = Model(spec=SPEC, classes=found.classes, parameters=own, weights=weights[used])
        expected = mixed.predict_proba(x)
        np.testing.assert_allclose(found.predict_proba(name, x), expected)
    x, truth, _ = records()["d0"]
    assert (found.predict("d0", x) == truth).mean() > 0.9
    with pytest.raises(InputError) as caught:
        found.predict("nobody", x)
    assert caught.value.code == "device-model"


def test_the_order_of_devices_does_not_matter() -> None:
    names = ("d4", "d1", "d5", "d0", "d3", "d2")
    other, found = run(order=names, prior="source"), plain()
    assert other.names == found.names == NAMES
    for name, own in found.parameters.items():
        np.testing.assert_array_equal(other.parameters[name], own)
    np.testing.assert_array_equal(other.plan.alpha, found.plan.alpha)
    assert other.accuracies == found.accuracies
    first, second = ({**r.to_dict(), "seconds": 0, "plan": 0} for r in (found, other))
    assert first == second


def test_rates_follow_their_devices_when_the_order_changes() -> None:
    rates = np.random.default_rng(0).uniform(60, 90, (6, 6))
    order = [4, 1, 5, 0, 3, 2]
    names = tuple(NAMES[k] for k in order)
    powers = {name: 20.0 + k for k, name in enumerate(NAMES)}
    first = run(rates=rates, powers=powers)
    second = run(order=names, rates=rates[np.ix_(order, order)], powers=powers)
    np.testing.assert_array_equal(first.link_energy, second.link_energy)
    joule = 10 ** ((21 - 30) / 10) * 64e-6 * SPEC.size / rates[1, 2]
    assert first.link_energy[1, 2] == pytest.approx(joule)


def test_a_device_that_dies_in_training_still_receives() -> None:
    found = run({"d1": Broken(holder("d1"), TrainModel)})
    assert found.excluded == {"d1": "holder-raised", "d3": "labels-few"}
    assert "d1" in found.plan.targets
    assert "d1" not in found.parameters
    assert "d1 (holder-raised)" in found.status


@pytest.mark.parametrize("kind", [CountLabelled, ClassFeatures])
def test_a_device_that_dies_before_is_missing(kind: type[Question]) -> None:
    found = run({"d1": Broken(holder("d1"), kind)})
    assert found.missing == {"d1": "holder-raised"}
    assert "d1" not in found.names
    assert "d1 (holder-raised)" in found.status


@pytest.mark.heavy
@pytest.mark.parametrize(
    "change",
    [
        lambda a: Answer({**a.arrays, "parameters": a.arrays["parameters"][:-1]}, a.scalars),
        lambda a: Answer({**a.arrays, "parameters": a.arrays["parameters"] * np.nan}, a.scalars),
        lambda a: Answer({}, a.scalars),
        lambda a: Answer(a.arrays, {**a.scalars, "held_out": 1.5}),
        lambda a: Answer(a.arrays, {**a.scalars, "error": "none"}),
        lambda _: Answer(),
    ],
    ids=["short", "nan", "no-parameters", "error-above-1", "error-text", "empty"],
)
def test_a_model_that_is_none_is_not_used(change: Any) -> None:
    found = run({"d1": Broken(holder("d1"), TrainModel, change)})
    assert found.excluded["d1"] == "answer-malformed"
    assert "d1" in found.plan.targets


@pytest.mark.heavy
@pytest.mark.parametrize(
    "change",
    [
        lambda a: Answer({**a.arrays, "mean": a.arrays["mean"][:-2]}, a.scalars),
        lambda a: Answer({**a.arrays, "counts": -a.arrays["counts"]}, a.scalars),
        lambda a: Answer({**a.arrays, "counts": a.arrays["counts"][1:]}, a.scalars),
        lambda a: Answer({**a.arrays, "means": a.arrays["means"] * np.inf}, a.scalars),
    ],
    ids=["short", "negative", "few", "inf"],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_means_that_are_none_leave_a_device_out(change: Any) -> None:
    found = run({"d1": Broken(holder("d1"), ClassFeatures, change)})
    assert found.missing == {"d1": "answer-malformed"}


@pytest.mark.parametrize(
    "change",
    [
        None,
        lambda a: Answer({**a.arrays, "apart": a.arrays["apart"][:, 1:]}, a.scalars),
        lambda a: Answer({**a.arrays, "errors": a.arrays["errors"] - 9.0}, a.scalars),
        lambda a: Answer({**a.arrays, "counts": a.arrays["counts"] * 1.0}, a.scalars),
        lambda _: Answer(),
    ],
    ids=["dead", "short", "negative", "floats", "empty"],
)
@pytest.mark.parametrize("name", ["d1", "d5"])
def test_who_does_not_score_models_gets_a_mixture_all_the_same(name: str, change: Any) -> None:
    found = run({name: Broken(holder(name), ScoreModels, change)})
    assert f"no scores from {name} (" in found.status
    assert name in found.models
    assert found.accuracies["d5"] is not None and found.accuracies["d5"] > 0.5


def test_a_policy_against_records_makes_a_device_a_target() -> None:
    kinds = frozenset({"count-labelled", "mean-features"})
    found = run({"d1": holder("d1", Policy(level="statistics", questions=kinds))})
    assert found.excluded["d1"] == "policy-question"
    assert "d1" in found.plan.targets
    # It received models all the same, and does not tell how good they are.
    assert "d1" in found.models
    assert found.unevaluated["d1"] == "policy-question"


def test_without_any_labels_nobody_can_teach() -> None:
    bare = {name: Measure(records()[name][0]) for name in NAMES}
    with pytest.raises(NoEligibleSource) as caught:
        run(bare)
    assert caught.value.code == "no-eligible-source"


def test_without_anybody_who_may_train_nobody_can_teach() -> None:
    rules = Policy(level="statistics", questions=frozenset({"count-labelled", "mean-features"}))
    with pytest.raises(NoEligibleSource) as caught:
        run({name: holder(name, rules) for name in NAMES})
    assert "policy-question" in str(caught.value)


def test_the_default_policy_lets_nobody_adapt() -> None:
    with pytest.raises(RefusedError, match="policy-level"):
        run({name: holder(name, Policy()) for name in NAMES})


def test_without_evaluation_records_there_is_a_plan_and_no_accuracy() -> None:
    x, _, labels = records()["d4"]
    found = run({"d4": Measure(x, labels=labels)})
    assert found.accuracies["d4"] is None
    assert found.unevaluated == {"d4": "evaluation-absent"}
    assert found.accuracy is not None


def test_other_markers_and_classes_as_devices_name_them() -> None:
    devices = {}
    for name in NAMES:
        x, truth, labels = records()[name]
        marked = np.where(labels == "", "-1", labels)
        devices[name] = Holder(
            Measure(x, labels=marked), Policy.open(), evaluation=Measure(x, labels=truth)
        )
    found = run(devices, unlabelled="-1", classes=None, prior="source")
    assert found.labelled == plain().labelled
    assert found.accuracies == plain().accuracies


def test_the_cost_has_the_models_and_the_disclosure_their_level() -> None:
    found = plain()
    assert found.disclosure == "record"
    models = 8 * SPEC.size
    assert found.bytes_received > 3 * models
    assert found.bytes_sent > len(found.plan.links) * models
    body = json.loads(found.to_json())
    assert body["accuracy"] == found.accuracy
    assert body["energy_share"] == found.energy_share
    assert body["plan"]["sources"] == ["d0", "d1", "d2"]
    assert "parameters" not in body


@pytest.mark.heavy
def test_errors_on_the_training_records_are_below_those_on_records_held_out() -> None:
    out, within = run(folds=3), run(folds=0)
    assert all(within.errors[name] < out.errors[name] for name in ("d0", "d1", "d2"))


def test_a_device_with_fewer_labels_than_asked_for_is_no_source() -> None:
    assert plain().excluded == {"d3": "labels-few"}
    assert run(minimum_labelled=2).excluded == {}
    with pytest.raises(NoEligibleSource):
        run(minimum_labelled=151)


def test_adjusting_to_the_proportions_of_a_target_uses_them() -> None:
    found = run(prior="matched")
    assert found.shares is not None
    truth = np.array([(records()["d4"][1] == str(k)).mean() for k in range(10)])
    np.testing.assert_allclose(found.shares[NAMES.index("d4")], truth, atol=0.1)
    senders = [name for name, target, _ in found.plan.links if target == "d4"]
    labels = [records()[name][2] for name in senders]
    counts = np.array([[(names == str(k)).sum() for k in range(10)] for names in labels])
    trained = (counts + 0.1) / (counts.sum(axis=1, keepdims=True) + 1.0)
    model = found.models["d4"]
    assert isinstance(model, Model)
    assert model.factors is not None
    # Five records of the senders' shares on top of 200.
    every = np.array([[(records()[k][2] == str(c)).sum() for c in range(10)] for k in NAMES[:3]])
    prior = ((every + 0.1) / (every.sum(axis=1, keepdims=True) + 1.0)).mean(axis=0)
    own = (200.0 * found.shares[NAMES.index("d4")] + 5.0 * prior) / 205.0
    np.testing.assert_allclose(model.factors, np.minimum(np.maximum(own, 1e-3) / trained, 20.0))
    assert found.accuracies["d4"] is not None
    assert found.accuracies["d4"] > 0.9


def test_divergences_come_along() -> None:
    found = run(divergence="mmd", divergence_options={"features": 64}, prior="source")
    assert found.divergences is not None
    assert found.divergences.names == NAMES
    assert found.plan.links == plain().plan.links


@pytest.mark.heavy
def test_the_objective_of_the_paper() -> None:
    found = run(
        objective="bound", divergence="mmd", phi=(1.0, 5.0, 0.01),
        divergence_options={"features": 64}, gap=1e-3,
    )  # fmt: skip
    assert set(found.plan.sources) <= {"d0", "d1", "d2"}
    assert found.accuracy is not None


def test_the_objective_is_that_of_its_costs() -> None:
    for found in (plain(), run(budget=0.3)):
        assert evaluate(found.plan, found.costs) == pytest.approx(found.plan.objective)
        assert found.plan.terms.total == pytest.approx(found.plan.objective)


def test_models_of_tables_are_scaled_by_what_devices_tell() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 3))
    # A column that hardly varies decides, and one that is large does not.
    units, middle = np.array([1e-3, 1e6, 50.0]), np.array([0.0, -1e7, 1e4])
    x = middle + units * z
    y = np.where(z[:, 0] > 0, "yes", "no")
    devices = {"a": Measure(x[:100], labels=y[:100]), "b": Measure(x[100:200], labels=y[100:200])}
    fed = LocalFederation({**devices, "c": Measure(x[200:])})
    found = fed.run(Adapt(model="logistic", divergence="none").protocol(["a", "b", "c"]))
    np.testing.assert_allclose(found.spec.centre, x.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.spec.scale, x.std(axis=0), rtol=1e-9)
    assert (found.predict("c", x[200:]) == y[200:]).mean() > 0.9
    assert "excluded" not in found.status


def test_units_of_columns_change_nothing() -> None:
    x, y = digits()
    rows = np.random.default_rng(3).permutation(len(x))[:300]
    # The last columns have units of their own; more of them than a text of a message holds.
    wide = np.hstack([x[rows]] * 4)
    factor = 10.0 ** np.random.default_rng(4).uniform(-4, 4, wide.shape[1])
    runs: list[Adaptation] = []
    for points in (wide, wide * factor + 3.0):
        devices = {
            "a": Measure(points[:100], labels=y[rows[:100]]),
            "b": Measure(points[100:200], labels=y[rows[100:200]]),
            "c": Measure(points[200:]),
        }
        truth = {"c": Measure(points[200:], labels=y[rows[200:]])}
        runs.append(silot.adapt(devices, evaluation=truth, iterations=100))
    first, second = runs
    assert first.accuracy == second.accuracy
    np.testing.assert_allclose(first.costs.transfer, second.costs.transfer, atol=1e-6)


def test_devices_and_models_must_fit() -> None:
    wrong = replace(SPEC, shape=(63,))
    fed = LocalFederation({name: holder(name) for name in NAMES})
    with pytest.raises(MismatchError) as caught:
        fed.run(Adapt(model=wrong, **QUICK).protocol(NAMES))
    assert caught.value.code == "model-mismatch"
    with pytest.raises(MismatchError) as caught:
        run({"d5": Measure(np.zeros((9, 3)))})
    assert caught.value.code == "dimension-mismatch"


def test_one_device_left_is_none() -> None:
    dead = {name: Broken(holder(name), CountLabelled) for name in NAMES[1:]}
    with pytest.raises(HolderError) as caught:
        run(dead)
    assert caught.value.code == "holder-raised"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"model": "forest"}, "model-kind"),
        ({"model": "cnn"}, "model-kind"),
        ({"classes": ["a"]}, "option-classes"),
        ({"classes": ["a", "a"]}, "option-classes"),
        ({"classes": "ab"}, "option-classes"),
        ({"unlabelled": 3}, "option-unlabelled"),
        ({"shape": (8, 8)}, "model-kind"),
        ({"model": "cnn"}, "model-kind"),
        ({"iterations": 0}, "option-iterations"),
        ({"rate": 0.0}, "option-training"),
        ({"momentum": 1.0}, "option-training"),
        ({"folds": 1}, "option-folds"),
        ({"minimum_labelled": 0}, "option-labelled"),
        ({"divergence": "hearsay"}, "option-method"),
        ({"divergence": "mmd", "divergence_options": {"colour": 1}}, "option-unknown"),
        ({"divergence_options": {"features": 64}}, "option-divergence"),
        ({"objective": "luck"}, "option-objective"),
        ({"objective": "bound", "divergence": "none"}, "option-divergence"),
        ({"mixing": "variance"}, "option-unknown"),
        ({"phi": (1.0, 1.0, 1.0)}, "option-objective"),
        ({"objective": "coverage"}, "option-objective"),
        ({"objective": "bound", "method": "guess"}, "option-method"),
        ({"phi": (1.0, 1.0)}, "costs-shape"),
        ({"phi": (1.0, -1.0, 1.0)}, "costs-negative"),
        ({"budget": 0.0}, "option-budget"),
        ({"allow_unserved": 3.0}, "option-objective"),
        ({"objective": "bound", "constants": "pi"}, "network-field"),
        ({"objective": "bound", "delta": 0.0}, "network-field"),
        ({"delta": 0.2}, "option-objective"),
        ({"method": "gp"}, "option-objective"),
        ({"objective": "bound", "budget": 0.5}, "option-objective"),
        ({"features": 1}, "option-features"),
        ({"bandwidth": 0.0}, "option-bandwidth"),
        ({"rates": [[1.0]]}, "costs-shape"),
        ({"rates": 0.0}, "option-rates"),
        ({"powers": {"a": 1.0}}, "device-names"),
        ({"model_bits": 0.0}, "option-model-bits"),
        ({"rule": "vote"}, "option-rule"),
        ({"prior": "mine"}, "option-prior"),
        ({"budget": "much"}, "option-budget"),
        ({"prior": "matched", "objective": "bound"}, "option-objective"),
        ({"rule": "parameter"}, "option-objective"),
        ({"time_limit": 0.0}, "option-time-limit"),
        ({"seed": -1}, "option-seed"),
    ],
)
def test_options_are_checked_before_any_question(options: dict[str, Any], code: str) -> None:
    with pytest.raises((InputError, MismatchError)) as caught:
        Adapt(**options).protocol(["a", "b"])
    assert caught.value.code == code


def test_options_left_to_others_are_chosen_anew_in_a_copy() -> None:
    ours = Adapt()
    assert (ours.settled.objective, ours.settled.prior) == ("transfer", "auto")
    assert ours.chosen() == {} and ours.settled.settled is ours.settled
    bound = ours.having(objective="bound").settled
    assert (bound.divergence, bound.prior, bound.rule) == ("mmd", "source", "output")
    named = Adapt(objective="bound").protocol(["a", "b"])
    assert named.parameters == bound.protocol(["a", "b"]).parameters
    with pytest.raises(InputError) as caught:
        ours.having(objective="bound", divergence_options={"colour": 1})
    assert caught.value.code == "option-unknown"
    text = Adapt.__doc__ or ""
    assert all(f"\n{name} : " in text for name in Adapt.options)


def test_a_failure_keeps_its_code() -> None:
    refusing = Broken(holder("d1"), TrainModel, lambda _: Failure("holder-busy"))
    assert run({"d1": refusing}).excluded["d1"] == "holder-busy"


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3))
def test_models_are_left_where_classes_themselves_look_different(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def cloud(size: int, share: float, moved: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        y = (rng.uniform(size=size) < share).astype(int)
        return rng.normal(size=(size, 4)) + 1.2 * y[:, None] + moved, y.astype(str)

    places = {"same": (0.5, 0.0), "skewed": (0.92, 0.0), "moved": (0.5, 1.5)}
    devices, truth = {}, {}
    for name in ("a", "b"):
        x, y = cloud(300, 0.5)
        devices[name] = Measure(x, labels=y)
    for name, (share, moved) in places.items():
        x, y = cloud(300, share, moved)
        devices[name], truth[name] = Measure(x), Measure(x, labels=y)
    found = silot.adapt(devices, evaluation=truth, model="logistic")
    left = silot.adapt(devices, evaluation=truth, model="logistic", prior="source")
    forced = silot.adapt(devices, evaluation=truth, model="logistic", prior="matched")
    told, was, would = found.accuracies, left.accuracies, forced.accuracies
    assert found.models["moved"].factors is None
    assert found.models["skewed"].factors is not None
    assert told["skewed"] > was["skewed"]
    assert told["moved"] == was["moved"] > would["moved"]
    assert told["same"] >= was["same"] - 0.01
    assert "models adjusted to class shares at" in found.status


def test_a_status_says_what_is_not_there() -> None:
    x = np.random.default_rng(0).normal(size=(200, 2))
    y = (x[:, 0] > 0).astype(str)
    full = {"a": Measure(x[:100], labels=y[:100]), "b": Measure(x[100:], labels=y[100:])}
    some = {"a": full["a"], "c": Measure(x[100:])}
    assert "no target has evaluation records" in silot.adapt(some, model="logistic").status
    known = silot.adapt(some, model="logistic", evaluation={"c": full["b"]}).status
    assert "evaluation" not in known
    assert "these scores are estimates" in known


def test_a_source_that_only_guesses_is_named() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    y = (x[:, 0] > 0).astype(str)
    noise = rng.permutation(y[100:200])
    devices = {
        "good": Measure(x[:100], labels=y[:100]),
        "noise": Measure(x[100:200], labels=noise),
        "one": Measure(x[200:300], labels=np.full(100, "True")),
        "new": Measure(x[300:]),
    }
    status = silot.adapt(devices, model="logistic").status
    assert "no better than always predicting its largest class: noise." in status


@pytest.mark.heavy
def test_the_paper_as_published_is_one_method() -> None:
    pytest.importorskip("cvxpy")
    found = run(method="st-lf", divergence=None, rule=None)
    assert found.rule == "parameter"
    assert found.plan.method == "st-lf"
    assert found.divergences is not None
    assert found.divergences.method == "classifier"
    assert found.shares is None
    asked = run(method="st-lf", divergence="mmd", rule="output", constants="none")
    assert asked.rule == "output"


def _clouds(seed: int, sizes: list[int], flip: tuple[int, ...] = ()) -> list[Measure]:
    """Clouds of one concept; those of the places in ``flip`` have opposite labels."""
    rng = np.random.default_rng(seed)
    found = []
    for k, size in enumerate(sizes):
        x = rng.normal(size=(size, 6))
        y = x[:, 0] + 0.5 * x[:, 1] + 0.3 * rng.normal(size=size) > 0
        found.append(Measure(x, labels=np.where(y != (k in flip), "yes", "no")))
    return found


def _partly(measure: Measure, labels: int) -> Measure:
    assert measure.labels is not None
    kept = np.where(np.arange(len(measure.points)) < labels, measure.labels, "")
    return Measure(measure.points, labels=kept)


@pytest.mark.parametrize("seed", range(3))
def test_a_source_that_contradicts_the_others_is_named_and_not_used(seed: int) -> None:
    *sources, target = _clouds(seed, [200, 200, 200, 300], flip=(2,))
    devices = dict(zip("abc", sources, strict=True)) | {"t": Measure(target.points)}
    found = silot.adapt(devices, evaluation={"t": target}, model="logistic", seed=seed)
    assert found.contrary == ("c",)
    assert {i for i, target, _ in found.plan.links if target == "t"} == {"a", "b"}
    assert found.accuracy is not None and found.accuracy > 0.85
    assert "worse than guessing, and not used by others: c" in found.status
    # What the others say of its classes is not what it says of them.
    own = found.models["c"].predict_proba(sources[2].points).argmax(axis=1)
    assert (np.array(found.classes)[own] == sources[2].labels).mean() > 0.85


@pytest.mark.parametrize("labels", [4, 8, 16])
def test_a_device_with_few_labels_gets_what_its_neighbours_know(labels: int) -> None:
    for seed in range(2):
        *sources, target = _clouds(seed, [300, 300, 300, 300])
        devices = dict(zip("abc", sources, strict=True)) | {"t": _partly(target, labels)}
        found = silot.adapt(devices, evaluation={"t": target}, model="logistic", seed=seed)
        assert found.accuracies["t"] is not None and found.accuracies["t"] > 0.87


def test_a_device_of_another_concept_keeps_its_own_model() -> None:
    *sources, target = _clouds(0, [200, 200, 200, 400], flip=(3,))
    assert target.labels is not None
    devices = dict(zip("abc", sources, strict=True)) | {"t": _partly(target, 60)}
    rest = Measure(target.points[60:], labels=target.labels[60:])
    found = silot.adapt(devices, evaluation={"t": rest}, model="logistic")
    assert found.accuracies["t"] is not None and found.accuracies["t"] > 0.85
    assert found.contrary == ("t",)


@pytest.mark.parametrize("labels", [6, 8, 20])
def test_where_most_sources_are_contrary_the_labels_of_a_device_decide_for_it(labels: int) -> None:
    *sources, target = _clouds(labels, [200, 200, 200, 400], flip=(1, 2))
    devices = dict(zip("abc", sources, strict=True)) | {"t": _partly(target, labels)}
    found = silot.adapt(devices, evaluation={"t": target}, model="logistic")
    assert {i for i, device, _ in found.plan.links if device == "t"} <= {"a", "t"}
    assert found.accuracies["t"] is not None and found.accuracies["t"] > 0.87
    assert "sources that contradict its labels are not used at a, t" in found.status
    assert found.contrary == ()
    # Without labels the vote of the sources is all there is.
    found = silot.adapt(devices | {"t": Measure(target.points)}, model="logistic")
    assert found.contrary == ("a",)


def test_columns_in_another_unit_are_moved_to_those_of_the_sources() -> None:
    *sources, target = _clouds(1, [300, 300, 300, 300])
    moved = Measure(target.points * 3.0 + 5.0, labels=target.labels)
    devices = dict(zip("abc", sources, strict=True)) | {"t": Measure(moved.points)}
    found = silot.adapt(devices, evaluation={"t": moved}, model="logistic")
    assert found.models["t"].move is not None
    assert found.accuracy is not None and found.accuracy > 0.87
    assert "columns moved to those of the sources at t" in found.status


def test_one_far_record_at_one_device_does_not_flatten_its_column_for_all() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3, 200, 3))
    kinds = (points[..., 0] > 0).astype(int)
    points[0, 7, 0] = 1e6
    devices = {
        "a": Measure(points[0], labels=kinds[0]),
        "b": Measure(points[1], labels=kinds[1]),
        "c": Measure(points[2]),
    }
    truth = {"c": Measure(points[2], labels=kinds[2])}
    found = silot.adapt(devices, evaluation=truth, model="logistic")
    # Five times what the devices have in the median, not the thousands that the record makes.
    assert max(found.spec.scale) < 6.0
    assert found.accuracy is not None and found.accuracy > 0.8


def test_options_are_given_by_name_or_as_one_object() -> None:
    x = np.random.default_rng(3).normal(size=(60, 2))
    labels = np.where(x[:, 0] > 0, "a", "b")
    devices = {"ward": Measure(x[:30], labels=labels[:30]), "clinic": Measure(x[30:])}
    options = {"model": "logistic", "iterations": 20, "seed": 4}
    named, made = silot.adapt(devices, **options), silot.adapt(devices, Adapt(**options))
    assert named.plan.links == made.plan.links
    assert named.plan.objective == made.plan.objective
    for wrong in ({"how": Adapt(), "seed": 1}, {"how": "exact"}):
        with pytest.raises(InputError) as caught:
            silot.adapt(devices, **wrong)
        assert caught.value.code == "option-object"


def test_a_source_of_noise_is_named_and_not_used() -> None:
    named = 0
    for seed in range(4):
        *sources, target = _clouds(seed, [200, 200, 200, 300])
        rng = np.random.default_rng(seed)
        assert sources[2].labels is not None
        noise = Measure(sources[2].points, labels=rng.permutation(sources[2].labels))
        devices = {"a": sources[0], "b": sources[1], "noise": noise, "t": Measure(target.points)}
        found = silot.adapt(devices, evaluation={"t": target}, model="logistic", seed=seed)
        assert found.accuracy is not None and found.accuracy > 0.85
        named += "not used by others: noise" in found.status
        is_used = "noise" in {i for i, target, _ in found.plan.links if target == "t"}
        assert is_used != ("not used by others: noise" in found.status)
    # Once in a while noise is right by chance, and its model does some good.
    assert named >= 3


def test_barred_links_carry_no_model_and_scores_of_nobody_leave_the_even_mixture() -> None:
    *sources, target = _clouds(0, [200, 200, 300])
    parties = {
        name: Holder(measure, Policy.open(), Ledger())
        for name, measure in zip("abt", [*sources, Measure(target.points)], strict=True)
    }
    rates = np.full((3, 3), 74.0)
    rates[0, 2] = 0.0
    options: dict[str, Any] = {"model": "logistic", "classes": ["no", "yes"]}
    found = LocalFederation(parties).run(Adapt(rates=rates, **options).protocol("abt"))
    assert {i for i, target, _ in found.plan.links if target == "t"} == {"b"}
    assert np.isfinite(found.energy)
    rates[1, 2] = 0.0
    found = LocalFederation(parties).run(Adapt(rates=rates, **options).protocol("abt"))
    assert found.plan.unserved == ("t",) and "t" not in found.models
    silent = {name: Broken(party, ScoreModels) for name, party in parties.items()}
    found = LocalFederation(silent).run(Adapt(**options).protocol("abt"))
    weights = {i: weight for i, target, weight in found.plan.links if target == "t"}
    assert weights == {"a": 0.5, "b": 0.5}
