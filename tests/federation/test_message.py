import contextlib
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from silot.distances.questions import (
    ClassSizes,
    CostParts,
    Describe,
    DistanceTo,
    DistanceWithError,
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    InterpolateByClass,
    LabelledDistanceTo,
    LabelledDistanceWithError,
    LabelledRecords,
    Moments,
    Records,
)
from silot.distances.sketches.questions import (
    CountRecords,
    SketchPeriod,
    SketchRecords,
    SketchTree,
    SummarizeRecords,
)
from silot.distillation.questions import (
    DescribeTeacher,
    Predict,
    PredictNoise,
    ReleasePredictions,
    encode_texts,
)
from silot.errors import WireError
from silot.federation import Answer, Failure, Question
from silot.federation.answer import decode_reply, encode_reply
from silot.federation.message import Message, decode, encode, pack, pack_parts, unpack
from silot.federation.question import decode_question, encode_question, question_kinds
from silot.records.questions.judge import JudgeRecords
from silot.records.questions.scores import ScoreRecords, ScreenRecords
from silot.records.questions.suspects import CountSuspects
from silot.records.screen import Screen
from silot.sites.secure.options import SecureOptions
from silot.sites.secure.questions import SecureDistance
from silot.teaching.federated import ModelSpec
from silot.teaching.questions import (
    DomainErrors,
    DomainScores,
    MeanFeatures,
    Spread,
    TrainAlone,
    TrainDomain,
    TrainRound,
)
from tests.teaching.test_models import QUESTIONS as ABOUT_MODELS

pytestmark = pytest.mark.all_cases

CLOUD = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.5]])
MASS = np.array([0.5, 0.25, 0.25])
WITH_REFERENCE = {"reference": CLOUD, "reference_weights": MASS}
WITH_TARGET = {**WITH_REFERENCE, "target": CLOUD, "target_weights": MASS, "t": 0.25}
CLASSES = '["a","b"]'
LABELLED = {
    "target": CLOUD,
    "target_weights": MASS,
    "target_codes": np.array([0, 1, 1]),
    "classes": CLASSES,
}
METRIC = {
    "class_distances": np.array([[0.0, 2.0], [2.0, 0.0]]),
    "class_slack": np.array([0.0, 0.5]),
    "label_weight": 0.5,
}
SCREEN = ScreenRecords(
    points=CLOUD, point_weights=MASS, classes=CLASSES, codes=np.array([0, 1, 1]),
    shares=np.zeros((3, 2)), feature=np.array([0, -1, -1]), right=np.array([2, 0, 0]),
    threshold=np.zeros(3), leaves=np.full((3, 2), 128, np.uint8), roots=np.zeros(1, np.int64),
    centres=CLOUD, pull=np.zeros((3, 2)), base=np.full(2, 0.5), width=1.0,
    slopes=np.zeros((2, 2)), heights=np.zeros(2), pool=np.full(4, 0.25), broken=np.zeros(4),
    broken_height=0.0, sound=np.zeros(3), nearness=np.zeros(3), dimension=2.0, least=0.1, fdr=0.1,
    seed=0,
)  # fmt: skip
DOMAINS: dict[str, Any] = {
    "model": "{}",
    "parameters": np.zeros((2, 3)),
    "sides": np.arange(2),
    "centre": np.zeros(2),
    "scale": np.ones(2),
}
MODELS, _ = Screen.fit(
    np.random.default_rng(3).normal(size=(40, 2)), np.full(40, 0.025), None, 0, 0
)
TRAINING = {"model": ModelSpec("logistic", (2,), 2).to_text(), "classes": CLASSES}
ALL: list[Question] = [
    Describe(),
    SecureDistance.of(SecureOptions(), {"a": "north", "b": "south", "third": "uni"}, "1"),
    Records(embedding="full"),
    Moments(),
    DistanceTo(**WITH_REFERENCE, p=1),
    Interpolate(**WITH_REFERENCE, t=0.5, interpolation="exact", on_reference=True),
    InterpolantDistance(**WITH_TARGET),
    InterpolantCosts(**WITH_TARGET, scalars=False),
    ClassSizes(classes=CLASSES),
    LabelledRecords(classes=CLASSES, embedding="diagonal"),
    InterpolateByClass(**LABELLED, t=0.75),
    LabelledDistanceTo(**LABELLED, **METRIC),
    CostParts(**LABELLED, **METRIC),
    DistanceWithError(**WITH_REFERENCE, tested=False),
    LabelledDistanceWithError(**LABELLED, **METRIC, tested=False),
    ScoreRecords(target=CLOUD, target_weights=MASS),
    SCREEN,
    JudgeRecords(**vars(SCREEN)),
    CountRecords(privacy_mu=0.1, mass_limit=2.0),
    SketchRecords(privacy_mu=0.5, centres=CLOUD, radius=1.0, radius2=2.0, classes=CLASSES),
    CountSuspects.of(
        MODELS, "", feature_edges=np.arange(3.0), label_edges=np.zeros(0), privacy_mu=0.5
    ),
    SketchPeriod(privacy_mu=0.5, centres=CLOUD, radius=1.0, radius2=2.0, period="2026-10"),
    SketchTree(privacy_mu=0.5, low=CLOUD[0], high=CLOUD[1], depth=3),
    SummarizeRecords(
        privacy_mu=0.5,
        target=CLOUD,
        target_weights=np.ones(len(CLOUD)),
        reaches=np.ones(1),
        shares=np.ones(3),
    ),
    Spread(),
    MeanFeatures(features=8, bandwidth=1.0, seed=0),
    TrainDomain(**DOMAINS, seeds=np.arange(2), iterations=3, batch=2, rate=0.1),
    DomainScores(**DOMAINS, quantiles=3),
    DomainErrors(**DOMAINS, thresholds=np.zeros(2)),
    DescribeTeacher(),
    Predict(labels=3, texts=encode_texts(["good", "né"]), temperature=2.0, decimals=3),
    PredictNoise(labels=3, vectors=CLOUD),
    ReleasePredictions(labels=3, indices=np.arange(3), shared="ab", privacy_mu=0.1, mean=True),
    TrainRound(**TRAINING, start=np.zeros(3, np.float32), algorithm="fedrep", batch=4),
    TrainAlone(**TRAINING, passes=0.5, flagged=np.array([1, 4]), held_out=0.2, split=3),
    *ABOUT_MODELS,
]


def body(**changes: object) -> dict[str, object]:
    plain: dict[str, object] = {
        "version": 1,
        "type": "answer",
        "kind": "answer",
        "scalars": {},
        "arrays": {},
    }
    return {**plain, **changes}


def packed(**changes: object) -> bytes:
    return msgpack.packb(body(**changes))


scalars = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63),
        st.floats(allow_nan=False),
        st.text(max_size=50),
    ),
    max_size=5,
)
arrays = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    max_size=4,
)


@given(scalars, arrays)
def test_a_message_survives_the_wire(
    numbers: dict[str, object], clouds: dict[str, np.ndarray]
) -> None:
    back = decode(encode(Message("answer", "answer", numbers, clouds)))  # type: ignore[arg-type]
    assert back.scalars == numbers
    assert set(back.arrays) == set(clouds)
    for name, array in clouds.items():
        assert back.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(back.arrays[name], array)


def test_a_fortran_ordered_or_big_endian_array_arrives_the_same() -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3)).astype(">f8")
    back = decode(encode(Message("answer", "answer", {}, {"a": array}))).arrays["a"]
    np.testing.assert_array_equal(back, array)
    assert back.dtype == np.float64


@pytest.mark.parametrize("question", ALL, ids=lambda q: q.kind)
def test_every_question_survives_the_wire(question: Question) -> None:
    back = decode_question(encode_question(question))
    assert type(back) is type(question)
    for name, value in vars(question).items():
        np.testing.assert_array_equal(getattr(back, name), value)


def test_the_list_above_has_every_kind_of_question() -> None:
    # Other tests add kinds of their own.
    shipped = {
        name for name, kind in question_kinds().items() if kind.__module__.startswith("silot.")
    }
    assert {question.kind for question in ALL} == shipped


@pytest.mark.parametrize("dtype", [object, "U4", "S4", complex, "M8[s]"])
def test_an_array_of_another_dtype_is_not_sent(dtype: object) -> None:
    array = np.zeros(2, dtype=dtype)  # type: ignore[call-overload]
    with pytest.raises(WireError) as caught:
        encode(Message("answer", "answer", {}, {"a": array}))
    assert caught.value.code == "wire-dtype"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "wire-format"),
        (b"\xc1", "wire-format"),
        (b"\x93\x01\x02\x03", "wire-format"),
        (msgpack.packb(7), "wire-format"),
        (b"\x91" * 3000, "wire-format"),
        (packed() + b"\x00", "wire-format"),
        (packed()[:-1], "wire-format"),
        (packed(version=2), "wire-version"),
        (packed(type=3), "wire-format"),
        (packed(scalars=[1]), "wire-format"),
        (packed(scalars={"Bad Name": 1}), "wire-format"),
        (packed(scalars={"a": [1]}), "wire-format"),
        (packed(scalars={"a": "x" * 5000}), "wire-size"),
        (packed(scalars={f"k{i}": 1 for i in range(65)}), "wire-format"),
        (packed(arrays={"a": ["<f8", [2], b"\0" * 8]}), "wire-shape"),
        (packed(arrays={"a": ["<f8", [1 << 40, 1 << 40], b""]}), "wire-shape"),
        (packed(arrays={"a": ["<f8", [-1, -1], b"\0" * 8]}), "wire-shape"),
        (packed(arrays={"a": ["<f8", [True], b"\0" * 8]}), "wire-shape"),
        (packed(arrays={"a": ["<f8", [1] * 5, b"\0" * 8]}), "wire-shape"),
        (packed(arrays={"a": ["<f8", 1, b"\0" * 8]}), "wire-shape"),
        (packed(arrays={"a": ["|O", [1], b"\0" * 8]}), "wire-dtype"),
        (packed(arrays={"a": ["<f8", [1], "text"]}), "wire-shape"),
        (packed(arrays={"a": ["<f8", [1]]}), "wire-format"),
        (packed(arrays={"a": "<f8"}), "wire-format"),
    ],
)
def test_bytes_that_are_no_message_are_refused(data: bytes, code: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(data)
    assert caught.value.code == code


@given(st.binary(max_size=200))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_is_a_message_or_a_wire_error(place: int, value: int) -> None:
    data = bytearray(encode_question(ALL[4]))
    data[place % len(data)] = value
    with contextlib.suppress(WireError):
        decode_question(bytes(data))


def test_a_message_over_the_limit_is_refused_before_it_is_read() -> None:
    data = encode(Message("answer", "answer", {}, {"a": np.zeros(1000)}))
    with pytest.raises(WireError) as caught:
        decode(data, largest=1000)
    assert caught.value.code == "wire-size"


def test_decoded_arrays_are_views_that_cannot_be_written() -> None:
    back = decode(encode(Message("answer", "answer", {}, {"a": np.zeros(3)}))).arrays["a"]
    assert not back.flags.writeable


@pytest.mark.parametrize(
    ("kind", "numbers", "clouds", "code"),
    [
        ("steal", {}, {}, "question-unknown"),
        ("describe", {}, {}, "question-fields"),
        ("describe", {"embedding": "none", "more": 1}, {}, "question-fields"),
        ("describe", {"embedding": 3}, {}, "question-fields"),
        (
            "distance-to",
            {"embedding": "none", "p": "2"},
            {"reference": CLOUD, "reference_weights": MASS},
            "question-fields",
        ),
        (
            "distance-to",
            {"embedding": "none", "p": 2},
            {"reference": CLOUD.astype(np.float32), "reference_weights": MASS},
            "question-fields",
        ),
    ],
)
def test_a_question_that_does_not_fit_is_refused(
    kind: str, numbers: dict[str, object], clouds: dict[str, np.ndarray], code: str
) -> None:
    data = encode(Message("question", kind, numbers, clouds))  # type: ignore[arg-type]
    with pytest.raises(WireError) as caught:
        decode_question(data)
    assert caught.value.code == code


def test_replies_survive_the_wire() -> None:
    failure = Failure("policy-level", "refused", "")
    assert decode_reply(encode_reply(failure)) == failure
    answer = decode_reply(encode_reply(Answer({"atoms": CLOUD}, {"distance": 1.5})))
    assert isinstance(answer, Answer)
    assert answer.number("distance") == 1.5
    np.testing.assert_array_equal(answer.array("atoms", ndim=2, columns=2), CLOUD)


@pytest.mark.parametrize(
    "read",
    [
        lambda a: a.array("absent", ndim=2),
        lambda a: a.array("atoms", ndim=1),
        lambda a: a.array("atoms", ndim=2, columns=3),
        lambda a: a.array("whole", ndim=1),
        lambda a: a.array("broken", ndim=1),
        lambda a: a.array("nothing", ndim=1),
        lambda a: a.number("negative"),
        lambda a: a.number("nan"),
        lambda a: a.number("text"),
        lambda a: a.number("flag"),
        lambda a: a.flag("negative"),
    ],
)
def test_an_answer_that_does_not_hold_what_it_should_is_malformed(read: object) -> None:
    answer = Answer(
        {
            "atoms": CLOUD,
            "whole": np.arange(3),
            "broken": np.array([np.nan]),
            "nothing": np.zeros(0),
        },
        {"negative": -1.0, "nan": float("nan"), "text": "1", "flag": True},
    )
    with pytest.raises(WireError) as caught:
        read(answer)  # type: ignore[operator]
    assert caught.value.code == "answer-malformed"


@pytest.mark.parametrize("size", [0, 1 << 16, (1 << 16) + 1, 1 << 18])
def test_large_bytes_are_packed_and_read_without_a_copy(size: int) -> None:
    large = bytes(size)
    body = {"a": [1, None, large, "x"], "b": {"c": large, "d": 0.5}, "e": [], "f": b"small"}
    data = pack(body)
    assert b"".join(pack_parts(body)) == data
    assert any(part is large for part in pack_parts(body)) == (size > 1 << 16)
    read: Any = unpack(data, views=True)
    assert read == body == unpack(data)
    assert isinstance(read["b"]["c"], memoryview if size > 1 << 16 else bytes)


@pytest.mark.parametrize("code", [b"\xd6\x00\x00\x00\x00\x00", b"\xd4\x00\x00"])
def test_a_message_has_no_place_of_large_bytes_of_its_own(code: bytes) -> None:
    with pytest.raises(WireError):
        unpack(b"\x92" + code + pack(bytes(1 << 17)), views=True)


@pytest.mark.parametrize("length", range(1, 9))
def test_arrays_lie_as_numbers_have_to(length: int) -> None:
    array = np.arange(20_000.0)
    read = decode(encode(Message("answer", "k" * length, {}, {"x": array}))).arrays["x"]
    assert read.flags.aligned and not read.flags.writeable
    np.testing.assert_array_equal(read, array)
