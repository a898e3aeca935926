import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot.distillation import LabelSpace, scores, sinkhorn_loss
from silot.errors import InputError, MismatchError


def test_the_presets_are_the_papers() -> None:
    sentiment = LabelSpace.preset("sentiment-5")
    assert sentiment.line
    assert sentiment.coordinates[:, 0].tolist() == [-2, -1, 0, 1, 2]
    assert sentiment.diameter == 4.0
    emotion = LabelSpace.preset("emotion")
    assert (emotion.size, emotion.dimension, emotion.line) == (5, 2, False)
    assert emotion.coordinates[emotion.names.index("sadness")].tolist() == [-0.9, -0.4]
    nli = LabelSpace.preset("nli")
    cost = nli.cost
    assert cost[0, 2] == pytest.approx(np.sqrt(2)) and cost[0, 1] == pytest.approx(np.sqrt(1.5))


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
@given(
    size=st.integers(2, 8),
    dimension=st.integers(1, 4),
    exponent=st.integers(-200, 200),
    seed=st.integers(0, 2**32 - 1),
)
def test_costs_are_a_metric_at_any_scale(
    metric: str, size: int, dimension: int, exponent: int, seed: int
) -> None:
    placed = np.random.default_rng(seed).normal(size=(size, dimension))
    cost = LabelSpace(placed * 10.0**exponent, metric=metric).cost / 10.0**exponent  # type: ignore[arg-type]
    order = 1 if metric == "cityblock" else 2
    np.testing.assert_allclose(
        cost, np.linalg.norm(placed[:, None] - placed, ord=order, axis=2), rtol=1e-12
    )
    assert (cost == cost.T).all() and not np.diagonal(cost).any()
    assert (cost <= (cost[:, :, None] + cost[None]).min(axis=1) * (1 + 1e-12)).all()


def test_one_hot_labels_are_all_one_apart() -> None:
    space = LabelSpace.one_hot(["a", "b", "c"])
    np.testing.assert_allclose(space.cost, 1.0 - np.eye(3), atol=1e-15)
    assert space.names == ("a", "b", "c")
    assert LabelSpace.one_hot(4).names == ("0", "1", "2", "3")


def test_a_space_comes_back_from_json() -> None:
    space = LabelSpace([[0.1, 2.0], [3.0, 4.0]], ["x", "y"], "cityblock", title="what")
    again = LabelSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space and hash(again) == hash(space)
    assert again != LabelSpace([[0.1, 2.0], [3.0, 4.0]], ["x", "y"], title="what")
    assert LabelSpace([0.0, 1.0]) == LabelSpace([-0.0, 1.0])


def test_nobody_changes_a_space() -> None:
    placed = np.array([[0.0], [1.0]])
    space = LabelSpace(placed)
    placed[0] = 9.0
    assert space.cost[0, 1] == 1.0
    for array in (space.cost, space.coordinates):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0
    with pytest.raises(AttributeError):
        space.names = ("a", "b")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (([[0.0]],), "label-count"),
        (([],), "label-count"),
        (([[0.0], [np.nan]],), "label-coordinates"),
        (([[0.0], [np.inf]],), "label-coordinates"),
        (([["a"], ["b"]],), "label-coordinates"),
        (([[0.0], [1.0, 2.0]],), "label-coordinates"),
        ((np.zeros((2, 0)),), "label-coordinates"),
        (([[-1e308], [1e308]],), "label-coordinates"),
        (([[0.0, 1.0], [2.0, 2.0], [0.0, 1.0]],), "label-coincident"),
        (([0.0, 1.0], ["a", "a"]), "label-duplicate"),
        (([0.0, 1.0], ["a"]), "label-names"),
        (([0.0, 1.0], "ab"), "label-names"),
        (([0.0, 1.0], [1, 2]), "label-names"),
        (([0.0, 1.0], None, "squared"), "label-metric"),
    ],
)
def test_what_is_no_label_space_is_refused(arguments: tuple, code: str) -> None:
    with pytest.raises(InputError) as caught:
        LabelSpace(*arguments)
    assert caught.value.code == code


def test_other_mistakes_have_codes() -> None:
    for wrong, code in [
        (lambda: LabelSpace.preset("stars"), "label-preset"),  # type: ignore[arg-type]
        (lambda: LabelSpace.one_hot(1), "label-count"),
        (lambda: LabelSpace.from_dict({"names": ["a", "b"]}), "label-fields"),
        (lambda: LabelSpace.from_dict({"coordinates": [0, 1], "colour": 1}), "label-fields"),
    ]:
        with pytest.raises(InputError) as caught:
            wrong()
        assert caught.value.code == code
    with pytest.raises(MismatchError):
        LabelSpace.preset("nli").expected([[0.5, 0.5]])


COSTS = [[0.0, 2.0, 4.0], [2.0, 0.0, 4.0], [4.0, 4.0, 0.0]]


def test_costs_and_coordinates_are_told_apart_by_keyword() -> None:
    with pytest.raises(InputError) as caught:
        LabelSpace(COSTS)
    assert caught.value.code == "label-ambiguous"
    by_cost, by_place = LabelSpace(cost=COSTS), LabelSpace(coordinates=COSTS)
    assert by_cost.cost.tolist() == COSTS and by_cost.dimension == 0 and not by_cost.line
    assert by_place.cost.tolist() != COSTS and by_place.dimension == 3
    for space in (by_cost, by_place):
        assert LabelSpace.from_dict(space.to_dict()) == space
        assert hash(LabelSpace.from_dict(space.to_dict())) == hash(space)
    assert by_cost != by_place and "by costs" in repr(by_cost)


def test_a_tree_costs_the_steps_between_its_leaves() -> None:
    tree = {"cat": "pet", "dog": "pet", "cow": "farm", "pet": "", "farm": ""}
    space = LabelSpace(tree=tree)
    assert space.names == ("cat", "dog", "cow") and space.cost.tolist() == COSTS
    # The exact loss of two certain predictions is the cost of their labels.
    certain = np.eye(3)
    torch = pytest.importorskip("torch")
    pairs = [torch.tensor(certain[rows]) for rows in ([0, 0, 1], [1, 2, 2])]
    loss = sinkhorn_loss(*pairs, space, reduction="none")
    np.testing.assert_allclose(np.asarray(loss), [2.0, 4.0, 4.0], atol=1e-9)
    taken = scores(certain[[0, 1, 1]], [0, 1, 2], space)
    assert taken.semantic_distance == pytest.approx(4.0 / 3.0)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "label-coordinates"),
        ({"coordinates": [0.0, 1.0], "cost": COSTS}, "label-coordinates"),
        ({"cost": [[0.0, 1.0]]}, "label-cost"),
        ({"cost": "near"}, "label-cost"),
        ({"cost": [[0.0, 1.0], [2.0, 0.0]]}, "label-cost"),
        ({"cost": [[0.0, 0.0], [0.0, 0.0]]}, "label-cost"),
        ({"cost": [[1.0, 2.0], [2.0, 1.0]]}, "label-cost"),
        ({"tree": {"cat": "pet", "pet": ""}}, "label-tree"),
        ({"tree": {"a": "b", "b": "c", "c": "b", "d": "b"}}, "label-tree"),
    ],
)
def test_what_places_no_labels_is_refused(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        LabelSpace(**arguments)
    assert caught.value.code == code
