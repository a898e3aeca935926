"""Federated training: against known answers, with holders of every kind, from files to a page."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import silot
import silot.api.report
from silot import Measure, Policy
from silot.errors import HolderError, InputError, MismatchError, RefusedError
from silot.federation import Holder, LocalFederation
from silot.federation.answer import Answer, encode_reply
from silot.federation.result import accuracy_interval
from silot.render import Table
from silot.teaching.federated import ModelSpec, initial, train
from silot.teaching.federated.federated import FederatedTraining
from silot.teaching.federated.federated_result import FederatedModels
from silot.teaching.federated.training import (
    InRound,
    head_size,
    network,
    perceptron_probabilities,
    personal,
    shared_size,
    train_perceptron,
)
from silot.teaching.questions import TrainAlone, TrainRound, described, singles

CLASSES = np.array(["blue", "green", "red"])
SPEC = ModelSpec("mlp", (4,), 3, hidden=(8,))


def records(seed: int, size: int = 60, *, classes: int = 3, shift: float = 0.0) -> Measure:
    """Records whose class is the place of their largest number, of the first few."""
    x = np.random.default_rng(seed).normal(size=(size, 4)) + shift
    return Measure(x, labels=CLASSES[x[:, :classes].argmax(axis=1)])


HOLDERS = {"north": records(1), "south": records(2, 90), "west": records(3, 40)}


def federated(holders: Mapping[str, Any] = HOLDERS, **options: Any) -> FederatedModels:
    fed = LocalFederation(dict(holders))
    chosen = {"rounds": 3, "seed": 5, **options}
    return fed.run(FederatedTraining(**chosen).among(list(holders)))


def test_one_step_of_all_records_is_the_step_of_the_pooled_records() -> None:
    """An independent oracle: scikit-learn trains on the pool."""
    found = federated(
        model=SPEC, rounds=1, batch=1000, momentum=0.0, rate=0.3, held_out=0.0, alone=False
    )
    points = np.concatenate([each.points for each in HOLDERS.values()])
    names = np.concatenate([each.names for each in HOLDERS.values()])
    codes = np.searchsorted(CLASSES, names)
    pooled = train(SPEC, initial(SPEC, 5), points, codes, iterations=1, batch=len(points), rate=0.3)
    assert np.abs(found.parameters[0] - pooled).max() < 1e-6
    assert np.abs(pooled - initial(SPEC, 5)).max() > 1e-3


def test_weights_take_the_place_of_numbers_of_records() -> None:
    options: dict[str, Any] = {"model": SPEC, "rounds": 1, "held_out": 0.0}
    alone = {name: federated({name: each, "x": each}, **options, weights={name: 1, "x": 0})
             for name, each in HOLDERS.items()}  # fmt: skip
    weights = {"north": 1.0, "south": 0.0, "west": 3.0}
    found = federated(**options, weights=weights)
    expected = sum(w * alone[name].parameters[0] for name, w in weights.items()) / 4.0
    assert np.abs(found.parameters[0] - expected).max() < 1e-12
    assert found.weights == weights


def renamed(measure: Measure) -> Measure:
    """The same records under other names of their classes."""
    assert measure.names is not None
    codes = np.searchsorted(CLASSES, measure.names)
    return Measure(measure.points, labels=np.roll(CLASSES, 1)[codes])


@pytest.mark.parametrize("algorithm", ["fedavg", "fedper", "fedrep"])
def test_a_holder_that_never_took_part_gets_the_model_of_the_group_it_is_like(
    algorithm: str,
) -> None:
    holders = {"a": records(1, 200), "b": records(2, 200), "other": renamed(records(3, 400))}
    groups = {"a": 2, "b": 2, "other": 5}
    # Names of classes are for heads to learn, which are a holder's own: then either group will do.
    found = federated(holders, algorithm=algorithm, groups=groups, rounds=15, rate=0.1)
    new, test = records(7, 80), records(8, 300)
    if algorithm == "fedavg":
        assert found.nearest_group(new) == 2 and found.nearest_group(renamed(new)) == 5
        assert found.model(None, renamed(new)).accuracy(renamed(test)) > 0.75
        assert found.model(None, renamed(new)).accuracy(test) < 0.25
    assert found.nearest_group(new) in found.parameters
    assert found.model(None, new).accuracy(test) > 0.75
    with pytest.raises(InputError, match="holder-names"):
        found.model()


@pytest.mark.heavy
@pytest.mark.parametrize("active", [None, 1])
@pytest.mark.parametrize("algorithm", ["fedavg", "fedper", "fedrep"])
def test_a_group_is_a_run_of_its_own(algorithm: str, active: int | None) -> None:
    options: dict[str, Any] = {"model": SPEC, "algorithm": algorithm, "active": active}
    groups = {"north": 4, "south": 4, "west": 7}
    found = federated(**options, groups=groups)
    two = federated({name: HOLDERS[name] for name in ("south", "north")}, **options)
    assert found.groups == (("north", "south"), ("west",))
    assert np.array_equal(found.parameters[4], two.parameters[0])
    assert not np.array_equal(found.parameters[7], found.parameters[4])
    assert {name: found.right[name] for name in two.names} == two.right
    # Nor does the order of holders matter.
    other = federated(dict(reversed(list(HOLDERS.items()))), **options, groups=groups)
    assert np.array_equal(found.parameters[7], other.parameters[7])
    assert other.names == ("west", "south", "north") and other.right == found.right


def test_flagged_records_are_as_if_they_were_not_there() -> None:
    flags = np.arange(60) % 7 == 0
    found = federated(model=SPEC, held_out=0.0, flagged={"north": flags})
    kept = Measure(HOLDERS["north"].points[~flags], labels=HOLDERS["north"].names[~flags])
    without = federated({**HOLDERS, "north": kept}, model=SPEC, held_out=0.0)
    assert np.array_equal(found.parameters[0], without.parameters[0])
    assert found.left_out == {"north": 9, "south": 0, "west": 0}
    assert found.records["north"] == 51
    most = federated(model=SPEC, held_out=0.0, flagged={"north": np.arange(60) < 40})
    assert "most records of north are flagged" in most.status and "flagged" not in found.status


def test_records_that_are_held_out_are_tested_on_and_never_trained_on() -> None:
    held = np.random.default_rng([5, 7]).permutation(60)[:12]
    names = np.array(HOLDERS["north"].names)
    names[held] = np.roll(names[held], 1)
    x = HOLDERS["north"].points.copy()
    x[held] += 0.5
    options: dict[str, Any] = {"model": SPEC, "algorithm": "fedrep", "rounds": 4}
    found, other = (
        federated({**HOLDERS, "north": each}, **options)
        for each in (HOLDERS["north"], Measure(x, labels=names))
    )
    assert np.array_equal(found.parameters[0], other.parameters[0])
    assert found.tests == {"north": 12, "south": 18, "west": 8}
    assert found.right["north"] != other.right["north"]
    assert found.right["south"] == other.right["south"]
    # Flags take records out of the training, not out of the test.
    everything = np.zeros(60, dtype=bool)
    everything[held] = True
    assert np.array_equal(
        federated(**options, flagged={"north": everything}).parameters[0], found.parameters[0]
    )


@pytest.mark.parametrize("spec", [SPEC, ModelSpec("cnn", (16, 16), 2, hidden=(6,))])
def test_a_body_moves_as_with_its_head_and_the_head_stays(spec: ModelSpec) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, spec.inputs)), rng.integers(0, spec.classes, 30)
    start, batch = initial(spec, 1), np.arange(30)[None]
    both = network(spec).train(start, x, y, batch, 0.1, 0.0)
    body = network(spec).train(start, x, y, batch, 0.1, 0.0, fixed=1)
    cut = spec.size - head_size(spec)
    assert np.array_equal(body[:cut], both[:cut])
    assert np.array_equal(body[cut:], start[cut:].astype(np.float32).astype(float))
    assert np.abs(both[cut:] - body[cut:]).max() > 1e-4


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_a_head_is_the_logistic_model_of_what_the_body_makes(kind: Any, classes: int) -> None:
    shape = (16, 16) if kind == "cnn" else (5,)
    spec = ModelSpec(kind, shape, classes, hidden=(7,))
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(50, spec.inputs)), rng.integers(0, classes, 50)
    body = initial(spec, 0)[: shared_size(spec, "fedper")]
    how = InRound(passes=1.0, head_passes=6.0, batch=5, rate=0.1, momentum=0.0, seed=3)
    whole = personal(spec, body, x, y, how)
    inner = network(spec).body_outputs(whole, x)
    head = ModelSpec("logistic", (7,), classes)
    found = train(head, np.zeros(head.size), inner, y, iterations=60, batch=5, rate=0.1, seed=3)
    expected = silot.teaching.federated.probabilities(head, found, inner)
    assert np.abs(silot.teaching.federated.probabilities(spec, whole, x) - expected).max() < 1e-5
    assert np.array_equal(whole[: len(body)], body)


def test_passes_of_heads_count_where_heads_are_trained() -> None:
    options: dict[str, Any] = {"model": SPEC, "rounds": 1, "held_out": 0.0, "alone": False}
    for algorithm, equal in (("fedavg", True), ("fedrep", False)):
        few, many = (
            federated(**options, algorithm=algorithm, head_passes=passes).parameters[0]
            for passes in (1.0, 9.0)
        )
        assert np.array_equal(few, many) == equal


def test_two_classes_have_one_unit_and_the_same_probabilities() -> None:
    spec = ModelSpec("mlp", (4,), 2, hidden=(8,))
    x = np.random.default_rng(0).normal(size=(40, 4))
    y = (x[:, 0] > 0).astype(np.int64)
    batches = np.arange(40).reshape(4, 10)
    ours = network(spec).train(initial(spec, 0), x, y, batches, 0.1, 0.5)
    theirs = train_perceptron(spec, initial(spec, 0), x, y, batches, 0.1, 0.5)
    assert np.abs(ours - theirs).max() < 1e-6
    outputs = network(spec).probabilities(ours, x)
    assert np.abs(outputs - perceptron_probabilities(spec, ours, x)).max() < 1e-6


def opposite(seed: int) -> dict[str, Measure]:
    """Two groups whose labels say the opposite of the same records."""
    found: dict[str, Measure] = {}
    for k in range(6):
        x = np.random.default_rng([seed, k]).normal(size=(100, 4))
        sign = 1.0 if k < 3 else -1.0
        found[f"h{k}"] = Measure(x, labels=np.where(sign * x[:, 0] > 0, "yes", "no"))
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(5))
def test_groups_and_heads_of_ones_own_help_where_holders_disagree(seed: int) -> None:
    holders = opposite(seed)
    groups = {name: int(name > "h2") for name in holders}
    one = federated(holders, rounds=8, seed=seed)
    assert one.accuracy is not None and one.accuracy < 0.75
    for options in ({"groups": groups}, {"algorithm": "fedper"}, {"algorithm": "fedrep"}):
        found = federated(holders, rounds=8, seed=seed, alone=False, **options)
        assert found.accuracy is not None and found.accuracy > 0.85
        assert found.accuracy > one.accuracy + 0.2
    assert one.accuracy_alone is not None and one.accuracy_alone > 0.85


def test_a_few_holders_a_round_are_asked_in_turn() -> None:
    found = federated(model=SPEC, rounds=6, active=1, alone=False)
    assert found.transcript is not None
    asked = [
        each.holder
        for each in found.transcript.entries
        if each.direction == "sent" and b"train-round" in each.payload
    ]
    assert sorted(asked[:3]) == sorted(asked[3:6]) == ["north", "south", "west"]
    # All tell how good the last model is.
    assert sorted(asked[6:]) == ["north", "south", "west"]


@pytest.mark.heavy
def test_models_predict_and_are_tested_on_records_of_ones_own() -> None:
    found = silot.train(HOLDERS, rounds=10, test=records(9, 80))
    assert found.tested_on == 80 and found.accuracy_of[0] > 0.7
    mine = records(9, 80)
    right = found.predict("north", mine.points) == mine.names
    assert right.mean() == found.accuracy_of[0]
    own = silot.train(HOLDERS, rounds=10, algorithm="fedrep")
    with pytest.raises(InputError, match="model-head"):
        own.predict("north", mine.points)
    # A holder that never took part gets a head in the same way.
    assert (own.predict("north", mine.points, records(8, 90)) == mine.names).mean() > 0.7
    with pytest.raises(InputError, match="holder-names"):
        found.predict("nobody", mine.points)
    with pytest.raises(MismatchError, match="dimension-mismatch"):
        found.tested(Measure(np.ones((4, 3)), labels=["red"] * 4))


@pytest.mark.heavy
def test_groups_worth_and_flags_are_found_and_on_the_cost() -> None:
    holders = {name: records(k, 80, shift=0.7 * (k > 1)) for k, name in enumerate("abcd")}
    wrong = np.array(holders["b"].names)
    wrong[:20] = np.roll(CLASSES, 1)[np.searchsorted(CLASSES, wrong[:20])]
    holders["b"] = Measure(holders["b"].points, labels=wrong)
    validation = records(9, 90)
    plain = silot.train(holders, rounds=2, alone=False)
    found = silot.train(
        holders, validation, rounds=2, alone=False, groups=2, weights="worth", drop_flagged=True
    )
    assert found.clustering is not None and found.clustering.k == 2
    assert found.weights == silot.value_holders(holders, validation, labels=True).shares
    assert found.cost.rounds > plain.cost.rounds + 6
    assert found.left_out["b"] > 10
    again = silot.train(
        holders, rounds=2, alone=False, groups=found.clustering,
        weights=silot.value_holders(holders, validation, labels=True),
        drop_flagged={name: silot.value_records(each, validation, labels=True, name=name)
                      for name, each in holders.items()},
    )  # fmt: skip
    assert all(np.array_equal(again.parameters[k], v) for k, v in found.parameters.items())


@pytest.mark.heavy
def test_the_cost_of_a_report_adds_up_to_that_of_the_result() -> None:
    holders = {name: records(k, 80, shift=0.7 * (k > 1)) for k, name in enumerate("abcd")}
    found = silot.train(holders, rounds=2, alone=False, groups="auto")
    assert found.clustering is not None and found.clustering.test is not None
    cost = next(each for each in silot.api.report.page(found)
                if isinstance(each, Table) and each.columns[0].title == "run")  # fmt: skip
    (_, together, *_), *runs = [[cell.text for cell in row] for row in cost.rows]
    assert [run for run, *_ in runs] == ["training", "groups"]
    assert int(together) == sum(int(rounds) for _, rounds, *_ in runs) == found.cost.rounds


def test_records_of_one_class_few_records_and_the_same_records_are_trained_on() -> None:
    one = Measure(np.ones((30, 4)), labels=["red"] * 30)
    holders = {"one": one, "single": records(4, 1), "few": records(5, 3), "same": one,
               "north": HOLDERS["north"]}  # fmt: skip
    for algorithm in ("fedavg", "fedper", "fedrep"):
        found = federated(holders, algorithm=algorithm)
        assert found.tests == {"one": 6, "single": 0, "few": 0, "same": 6, "north": 12}
        assert found.accuracies["single"] is None and found.accuracies["one"] is not None
    nothing = federated(holders, held_out=0.0)
    assert nothing.accuracy is None and nothing.interval is None and nothing.history == ()
    assert nothing.sections() and silot.api.report.render(nothing)


def test_intervals_are_those_of_wilson() -> None:
    assert accuracy_interval(0, 0) is None
    low, high = accuracy_interval(8, 10) or (0.0, 0.0)
    assert (round(low, 4), round(high, 4)) == (0.4902, 0.9433)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"algorithm": "fedsgd"}, "option-algorithm"),
        ({"rounds": 0}, "option-rounds"),
        ({"rate": 0.0}, "option-rate"),
        ({"momentum": 1.0}, "option-training"),
        ({"held_out": 1.0}, "option-held-out"),
        ({"passes": 0.0}, "option-passes"),
        ({"model": "logistic", "algorithm": "fedper"}, "model-head"),
        ({"model": "tree"}, "model-kind"),
        ({"model": "cnn"}, "model-kind"),
        ({"groups": {"north": 0}}, "option-groups"),
        ({"groups": {"north": 0, "south": 1, "west": "a"}}, "option-groups"),
        ({"groups": dict.fromkeys([*HOLDERS, "x"], 0)}, "option-groups"),
        ({"groups": "none"}, "option-groups"),
        ({"weights": {"north": 1.0}}, "option-weights"),
        ({"weights": dict.fromkeys(HOLDERS, 0.0)}, "option-weights"),
        ({"weights": dict.fromkeys(HOLDERS, -1.0)}, "option-weights"),
        ({"weights": dict.fromkeys(HOLDERS, np.nan)}, "option-weights"),
        ({"weights": "best"}, "option-weights"),
        ({"weights": "worth"}, "validation-absent"),
        ({"drop_flagged": True}, "validation-absent"),
        ({"drop_flagged": {"north": np.ones(60)}}, "option-flagged"),
        ({"drop_flagged": {"x": np.ones(60, dtype=bool)}}, "option-flagged"),
        ({"labels": False}, "labels-absent"),
        ({"quorum": 4}, "option-quorum"),
        ({"algorithm": "fedper", "test": records(1)}, "model-head"),
        ({"unknown": 1}, "option-unknown"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_before_anybody_is_asked(options: Any, code: str) -> None:
    asked: list[Any] = []
    with pytest.raises((InputError, MismatchError)) as raised:
        silot.train(HOLDERS, progress=asked.append, **options)
    assert (raised.value.code, asked) == (code, [])


@pytest.mark.parametrize(
    ("holders", "code"),
    [
        ({"a": records(1), "b": Measure(np.ones((9, 4)))}, "labels-absent"),
        ({"a": records(1), "b": Measure(np.ones((9, 3)), labels=["red"] * 9)},
         "dimension-mismatch"),
        ({k: Measure(np.ones((9, 4)), labels=["red"] * 9) for k in "ab"}, "classes-few"),
        ({"a": records(1)}, "holder-names"),
    ],
)  # fmt: skip
def test_holders_that_do_not_fit_have_codes(holders: Any, code: str) -> None:
    with pytest.raises((InputError, MismatchError, HolderError)) as raised:
        silot.train(holders)
    assert raised.value.code == code


def test_all_records_of_a_holder_flagged_says_so() -> None:
    flags = {"west": np.ones(40, dtype=bool)}
    with pytest.raises(HolderError) as raised:
        federated(flagged=flags)
    assert raised.value.code == "records-flagged"
    found = federated(flagged=flags, quorum=2)
    assert found.names == ("north", "south") and found.missing == {"west": "records-flagged"}
    assert "without west" in found.status
    beyond = np.zeros(90, dtype=bool)
    beyond[80] = True
    with pytest.raises(HolderError, match="question-fields"):
        federated(flagged={"north": beyond})


def test_a_rate_that_is_too_large_says_so() -> None:
    with pytest.raises(HolderError) as raised:
        federated(rate=1e9, batch=1)
    assert raised.value.code in ("training-diverged", "answer-malformed")


def test_a_policy_that_tells_no_records_refuses_and_tells_nothing() -> None:
    closed = Holder(HOLDERS["north"], Policy())
    parties = {**{n: Holder(m, Policy.open()) for n, m in HOLDERS.items()}, "north": closed}
    fed = LocalFederation(parties)
    with pytest.raises(RefusedError):
        fed.run(FederatedTraining().among(list(HOLDERS)))


class Liar(Holder):
    """Answers with what it was given to say."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__(HOLDERS["north"], Policy.open())
        self._told = told

    def reply(self, message: bytes, asker: str = "coordinator", run: str = "") -> bytes:
        if b"train-round" not in message:
            return super().reply(message, asker, run)
        arrays = {"parameters": self._told.get("parameters", np.zeros(SPEC.size))}
        numbers = {"records": 48, "right": 3, "tests": 12}
        return encode_reply(Answer(arrays, {k: self._told.get(k, v) for k, v in numbers.items()}))


@pytest.mark.parametrize(
    "told",
    [
        {"parameters": np.zeros(3)},
        {"parameters": np.full(SPEC.size, 1e9)},
        {"parameters": np.zeros((SPEC.size, 1))},
        {"right": 13},
        {"right": 2.5},
        {"records": 0},
        {"tests": -1},
    ],
)
def test_answers_that_are_none_stop_the_run_or_are_left_out(told: Any) -> None:
    parties = {n: Holder(m, Policy.open()) for n, m in HOLDERS.items()} | {"north": Liar(told)}
    with pytest.raises(HolderError):
        LocalFederation(parties).run(
            FederatedTraining(model=SPEC, alone=False).among(list(HOLDERS))
        )
    found = LocalFederation(parties).run(
        FederatedTraining(model=SPEC, alone=False, quorum=2, rounds=2).among(list(HOLDERS))
    )
    assert found.names == ("south", "west") and set(found.missing) == {"north"}


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "fedsgd"},
        {"passes": -1.0},
        {"passes": 1e9},
        {"held_out": 1.0},
        {"held_out": float("nan")},
        {"batch": 0},
        {"rate": 0.0},
        {"momentum": 1.0},
        {"start": np.zeros(3)},
        {"flagged": np.array([99])},
        {"flagged": np.array([-1])},
        {"flagged": np.zeros((2, 2), dtype=np.int64)},
        {"seed": -1},
    ],
)
def test_questions_nobody_of_silot_asks_are_refused(change: Any) -> None:
    sound = TrainRound(
        **described(SPEC), start=singles(initial(SPEC, 0)), classes='["blue","green","red"]'
    )
    holder = Holder(HOLDERS["north"], Policy.open())
    assert isinstance(holder.answer(sound), Answer)
    failure = holder.answer(replace(sound, **change))
    assert not isinstance(failure, Answer) and failure.code == "question-fields"


def test_a_model_of_ones_own_tells_how_good_it_is_and_no_more() -> None:
    holder = Holder(HOLDERS["north"], Policy.open())
    question = TrainAlone(
        **described(SPEC), classes='["blue","green","red"]', held_out=0.5, passes=40.0, rate=0.1
    )
    answer = holder.answer(question)
    assert isinstance(answer, Answer) and answer.arrays == {}
    assert set(answer.scalars) == {"records", "right", "tests", "loss"}
    assert answer.number("right") > 20
