"""Bad input of the valuing calls is a coded error, before any question is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import silot
from silot import Measure
from silot.errors import InputError, MismatchError, SilotError
from silot.federation import LocalFederation
from tests.problems import SECRET, SECRET_TEXT

X = np.random.default_rng(0).normal(size=(24, 2))
KINDS = ["a", "b"] * 12
LABELLED = Measure(X, labels=KINDS)
NAN = np.where(np.arange(24)[:, None] == 3, np.nan, SECRET) * np.ones(2)

Call = Callable[..., Any]


def holders(data: object, **options: object) -> object:
    return silot.value_holders({"h": data, "o": X}, X, **options)  # type: ignore[dict-item, arg-type]


def validation(data: object, **options: object) -> object:
    return silot.value_holders({"h": X}, data, **options)  # type: ignore[arg-type]


def alone(data: object, **options: object) -> object:
    return silot.value_holders({"h": data, "o": X}, **options)  # type: ignore[dict-item, arg-type]


def middle(data: object, **options: object) -> object:
    return silot.barycenter({"h": data, "o": X}, **options)  # type: ignore[dict-item, arg-type]


def scored(data: object, **options: object) -> object:
    return silot.value_records(data, X, **options)  # type: ignore[arg-type]


def trusted(data: object, **options: object) -> object:
    return silot.value_records(X, data, **options)  # type: ignore[arg-type]


CALLS: list[Call] = [holders, validation, alone, middle, scored, trusted]


@pytest.fixture(autouse=True)
def no_question(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Fail when a question leaves, unless the test says it may."""
    if "works" in request.node.name:
        return

    def refuse(*_: object) -> None:
        raise AssertionError("a question was sent")

    monkeypatch.setattr(LocalFederation, "exchange", refuse)


def assert_coded(call: Call, kind: type[SilotError], code: str) -> None:
    with pytest.raises(SilotError) as caught:
        call()
    assert type(caught.value) is kind, caught.value
    assert caught.value.code == code
    assert len(caught.value.message) > 20
    assert SECRET_TEXT not in str(caught.value)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("data", "kind", "code"),
    [
        (NAN, InputError, "measure-nan"),
        (np.full((3, 2), np.inf), InputError, "measure-infinite"),
        (np.full((3, 2), 1e200), InputError, "measure-magnitude"),
        (np.empty((0, 2)), InputError, "measure-empty"),
        (np.empty((2, 0)), InputError, "measure-empty"),
        (X[:, 0], InputError, "measure-shape"),
        ([[1.0, 2.0], [1.0]], InputError, "measure-shape"),
        (np.array([["a", "b"]]), InputError, "measure-dtype"),
        (np.zeros((3, 2), complex), InputError, "measure-dtype"),
        (None, InputError, "measure-dtype"),
        (np.zeros((4, 3)), MismatchError, "dimension-mismatch"),
    ],
    ids=str,
)
def test_data_that_are_no_measure_or_do_not_fit_are_refused(
    call: Call, data: object, kind: type[SilotError], code: str
) -> None:
    if data is None and call is validation:
        return  # No validation data: the target is the barycenter.
    assert_coded(lambda: call(data), kind, code)


@pytest.mark.parametrize(
    "call",
    [
        lambda: silot.value_holders({"p": LABELLED, "q": X}, LABELLED, labels=True),
        lambda: silot.value_holders({"p": LABELLED}, X, labels=True),
        lambda: silot.value_holders({"p": LABELLED, "q": X}, labels=True),
        lambda: silot.value_holders([X], LABELLED, labels=True, label_metric="vectors"),
        lambda: silot.barycenter([LABELLED, X], labels=True),
        lambda: silot.value_records(X, LABELLED, labels=True),
        lambda: silot.value_records(LABELLED, X, labels=True),
    ],
)
def test_missing_labels_are_refused(call: Call) -> None:
    assert_coded(call, InputError, "labels-absent")


@pytest.mark.parametrize(
    ("call", "options", "code"),
    [
        (holders, {"method": "magic"}, "option-method"),
        (holders, {"method": None}, "option-method"),
        (holders, {"label_metric": "cosine"}, "option-label-metric"),
        (holders, {"class_tolerance": -0.1}, "option-class-tolerance"),
        (holders, {"class_tolerance": "wide"}, "option-class-tolerance"),
        (holders, {"label_weight": float("inf")}, "option-label-weight"),
        (holders, {"support": 2.5}, "option-support"),
        (holders, {"rounds": True}, "option-rounds"),
        (holders, {"tol": "small"}, "option-tol"),
        (holders, {"seed": 1.5}, "option-seed"),
        (holders, {"seed": None}, "option-seed"),
        (holders, {"quorum": 3}, "option-quorum"),
        (holders, {"quorum": "all"}, "option-quorum"),
        (holders, {"map": "yes"}, "option-map"),
        (holders, {"map": True}, "option-map"),
        (holders, {"map_options": {"scale": 2.0}}, "option-map"),
        (holders, {"map": "direct", "map_options": {"scale": 2.0}}, "option-map"),
        (holders, {"map": "sketch", "map_options": {"publik": 2}}, "option-unknown"),
        (holders, {"map": "secure", "map_options": {"size": 2}}, "option-unknown"),
        (holders, {"map": "secure", "map_options": {"scale": -2.0}}, "option-scale"),
        (holders, {"method": "sketch", "map": "direct"}, "option-map"),
        (holders, {"method": "sketch", "map": "sketch", "map_options": {"size": 2}}, "option-map"),
        (middle, {"support": 0}, "option-support"),
        (middle, {"rounds": -1}, "option-rounds"),
        (middle, {"t": 1.5}, "option-t"),
        (middle, {"t": None}, "option-t"),
        (middle, {"weights": {"h": 1.0, "o": -1.0}}, "option-weights"),
        (middle, {"weights": {"h": "1", "o": 1.0}}, "option-weights"),
        (middle, {"tol": -1e-9}, "option-tol"),
        (middle, {"quorum": 0}, "option-quorum"),
        (scored, {"method": "magic"}, "option-method"),
        (scored, {"method": None}, "option-method"),
        (scored, {"fdr": 1}, "option-fdr"),
        (scored, {"fdr": -0.1}, "option-fdr"),
        (scored, {"fdr": float("nan")}, "option-fdr"),
        (scored, {"fdr": "some"}, "option-fdr"),
        (scored, {"seed": -3}, "option-seed"),
        (scored, {"method": "published", "t": 0}, "option-t"),
        (scored, {"method": "published", "support": 0}, "option-support"),
        (scored, {"method": "published", "seed": -3}, "option-seed"),
        (scored, {}, "validation-few"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_unknown_option_values_are_refused(
    call: Call, options: dict[str, object], code: str
) -> None:
    assert_coded(lambda: call(X, **options), InputError, code)


@pytest.mark.parametrize("covariance", ["round", None, 3, "none"])
@pytest.mark.parametrize(
    "call",
    [
        lambda **options: silot.value_holders(
            [LABELLED], LABELLED, label_metric="vectors", **options
        ),
        lambda **options: silot.value_records(LABELLED, LABELLED, method="published", **options),
    ],
    ids=["holders", "records"],
)
def test_unknown_covariance_is_refused(call: Call, covariance: object) -> None:
    options = {"labels": True, "covariance": covariance}
    assert_coded(lambda: call(**options), InputError, "option-covariance")


@pytest.mark.parametrize("covariance", ["round", None, "none"])
def test_unknown_covariance_is_refused_without_validation_data_too(covariance: object) -> None:
    options = {"labels": True, "label_metric": "vectors", "covariance": covariance}
    assert_coded(
        lambda: silot.value_holders([LABELLED, LABELLED], **options),  # type: ignore[arg-type]
        InputError,
        "option-covariance",
    )


@pytest.mark.parametrize("weights", [{"h": 1.0}, {"h": 1.0, "o": 1.0, "z": 1.0}])
def test_weights_of_other_holders_are_refused(weights: dict[str, float]) -> None:
    assert_coded(lambda: middle(X, weights=weights), MismatchError, "option-weights")
    assert_coded(lambda: alone(X, weights=weights), MismatchError, "option-weights")


@pytest.mark.parametrize("data", [np.zeros((3, 1)), np.zeros((3, 5))])
def test_first_atoms_of_another_dimension_works_out_as_a_mismatch(data: object) -> None:
    assert_coded(lambda: middle(X, reference=data), MismatchError, "dimension-mismatch")


@pytest.mark.parametrize(
    "call",
    [
        lambda: silot.value_holders({"coordinator": X}, X),
        lambda: silot.value_holders({"coordinator": X, "h": X}),
        lambda: silot.value_holders({"coordinator": X, "h": X}, X),
        lambda: silot.value_holders({"": X}, X),
        lambda: silot.value_holders({}, X),
        lambda: silot.value_holders([], X),
        lambda: silot.barycenter({}),
        lambda: silot.barycenter([]),
        lambda: silot.value_records(X, X, name=""),
        lambda: silot.value_records(X, X, name="coordinator"),
    ],
)
def test_names_that_no_holder_may_have_are_refused(call: Call) -> None:
    assert_coded(call, InputError, "holder-names")


def test_a_barycenter_of_the_reserved_name_is_refused() -> None:
    with pytest.raises(SilotError) as caught:
        silot.barycenter({"coordinator": X, "h": X})
    assert caught.value.code == "holder-names"


@pytest.mark.parametrize("call", [holders, middle, scored])
def test_an_option_nobody_knows_is_an_error_that_names_it(call: Call) -> None:
    with pytest.raises(SilotError) as caught:
        call(X, sparkle=3)
    assert caught.value.code == "option-unknown" and "sparkle" in caught.value.message


@pytest.mark.parametrize("data", [X.tolist(), X.astype(np.float32), (X * 10).astype(int), X > 0])
def test_lists_and_other_numbers_works(data: object) -> None:
    first = silot.value_holders([data, X], X)  # type: ignore[list-item]
    assert first.names == ("0", "1") and first.rounds == 2
    steps: list[int] = []
    trusted = np.vstack([X, X + 0.01, X - 0.01])
    silot.value_records(data, trusted, progress=lambda step: steps.append(step.rounds))  # type: ignore[arg-type]
    assert steps == [1, 2]
    assert silot.barycenter([data, X], support=3, rounds=2).points.shape == (3, 2)  # type: ignore[list-item]


@pytest.mark.heavy
def test_labels_written_in_another_way_works_as_an_error_or_is_said() -> None:
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(120, 3)), rng.normal(size=(100, 3))
    names = np.where(x[:, 0] > 0, "I21.4", "I50.1")
    plain = np.char.replace(names, ".", "")
    validation = Measure(v, labels=np.where(v[:, 0] > 0, "I21.4", "I50.1"))
    market = {
        "good": Measure(x, labels=names),
        "half": Measure(x, labels=np.where(np.arange(120) < 60, names, plain)),
        "other": Measure(x, labels=plain),
    }
    for call in (
        lambda: silot.value_holders(market, validation, labels=True),
        lambda: silot.value_records(market["other"], validation, labels=True),
    ):
        with pytest.raises(SilotError, match="labels-disjoint"):
            call()
    found = silot.value_holders(market, validation, labels=True, quorum=2)
    assert found.missing == {"other": "labels-disjoint"}
    assert "classes that the target lacks: half (50%)" in found.status
    # Truth values and 0 and 1 are the same labels.
    flags = Measure(x, labels=x[:, 0] > 0)
    scored = silot.value_records(flags, Measure(v, labels=(v[:, 0] > 0) * 1), labels=True)
    assert scored.flagged.mean() < 0.2


def test_weights_of_sellers_count_where_that_is_asked_for_and_works() -> None:
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 6
    buyer = rng.normal(size=(50, 2))
    sellers = {"near": Measure(near, np.full(40, 10.0)), "far": Measure(far, np.full(40, 0.1))}
    union = Measure(np.vstack([near, far]), np.repeat([10.0, 0.1], 40))
    plain = Measure(np.vstack([near, far]))
    told = {
        shares: silot.pooled_distance(sellers, buyer, shares=shares)
        for shares in ("records", "weights")
    }
    for shares, pooled in (("records", plain), ("weights", union)):
        exact = silot.distance(pooled, buyer).value
        assert told[shares].lower <= exact <= told[shares].upper
    assert told["weights"].upper < told["records"].lower
    given = silot.pooled_distance(sellers, buyer, shares={"near": 400.0, "far": 4.0})
    assert given.value == pytest.approx(told["weights"].value, rel=1e-12)
    for options in ({"shares": "mass"}, {"shares": "weights", "method": "secure"}):
        with pytest.raises(InputError, match="option-shares"):
            silot.pooled_distance(sellers, buyer, **options)  # type: ignore[arg-type]
