"""Texts as numbers: nothing is lost, nothing depends on the process, noise is what it says."""

import json
import string
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot.distillation.text import (
    PAD,
    PAIR,
    SEPARATOR,
    UNKNOWN,
    Vocabulary,
    noise,
    noise_vectors,
    tokens,
)
from silot.errors import InputError, MismatchError, SilotError

WORDS = Vocabulary(("good", "bad", "film", "!"), buckets=8)


@given(st.text())
def test_a_token_is_its_own_only_token(text: str) -> None:
    for token in tokens(text):
        assert tokens(token) == [token]


@given(st.text(alphabet=string.printable))
def test_tokens_lose_nothing_but_case_and_space(text: str) -> None:
    assert "".join(tokens(text)) == "".join(text.lower().split())


@given(st.lists(st.text()), st.integers(1, 20), st.integers(0, 5))
def test_a_vocabulary_is_the_most_frequent_words_and_survives_json(
    texts: list[str], size: int, buckets: int
) -> None:
    built = Vocabulary.build(texts, size=size, buckets=buckets)
    counts = {word: sum(tokens(text).count(word) for text in texts) for word in built.words}
    everything = {token for text in texts for token in tokens(text)}
    assert len(built.words) == min(size, len(everything))
    left_out = [sum(tokens(t).count(w) for t in texts) for w in everything - set(built.words)]
    assert max(left_out, default=0) <= min(counts.values(), default=0) or not built.words
    assert built == Vocabulary.build(list(reversed(texts)), size=size, buckets=buckets)
    again = Vocabulary.from_dict(json.loads(json.dumps(built.to_dict())))
    assert again == built
    assert np.array_equal(again.encode(texts), built.encode(texts))


@given(st.lists(st.text(), min_size=1), st.integers(4, 12))
def test_rows_have_their_words_then_padding(texts: list[str], length: int) -> None:
    found = WORDS.encode(texts, length=length)
    assert found.dtype == np.int64
    assert 1 <= found.shape[1] <= length
    assert ((found >= 0) & (found < WORDS.size)).all()
    for text, row in zip(texts, found, strict=True):
        words = row[row != PAD]
        assert (row[len(words) :] == PAD).all()
        if PAIR not in text:
            assert words.tolist() == [WORDS.number(t) for t in tokens(text)][:length]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(4, 12))
def test_a_pair_that_is_too_long_loses_words_of_the_longer_text(m: int, n: int, room: int) -> None:
    text = " ".join(["good"] * m) + PAIR + " ".join(["bad"] * n)
    row = WORDS.encode([text], length=room)[0].tolist()
    kept = row.count(WORDS.number("good")), row.count(WORDS.number("bad"))
    assert row.count(SEPARATOR) == 1
    assert sum(kept) == min(m + n, room - 1)
    for mine, all_of_it, other in ((kept[0], m, kept[1]), (kept[1], n, kept[0])):
        # A text lost words only if it is no shorter now than the other, give or take one.
        assert mine == all_of_it or mine >= other - 1


def test_numbers_are_the_same_in_another_process_which_needs_no_torch() -> None:
    code = (
        "import sys; from silot.distillation.text import Vocabulary;"
        "print([Vocabulary((), 1000).number(w) for w in ('alpha', 'beta', 'été')]);"
        "print('torch' in sys.modules)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    own = [Vocabulary((), 1000).number(word) for word in ("alpha", "beta", "été")]
    assert other.stdout.split("\n")[:2] == [str(own), "False"]
    assert len(set(own)) == 3


def test_unknown_words_without_buckets_are_one() -> None:
    assert Vocabulary(("a",), 0).encode(["b c a"]).tolist() == [[UNKNOWN, UNKNOWN, 3]]


@given(st.integers(1, 20), st.integers(2, 30), st.integers(0, 99), st.sampled_from([1, 2]))
def test_noise_has_the_words_asked_for(count: int, length: int, seed: int, parts: int) -> None:
    texts = noise(WORDS, count, length, seed=seed, parts=parts)
    assert len(texts) == count
    assert texts == noise(WORDS, count, length, seed=seed, parts=parts)
    for text in texts:
        assert text.count(PAIR) == parts - 1
        assert len(tokens(text)) == length
        assert set(tokens(text)) <= set(WORDS.words)


def test_noise_is_uniform_over_the_words() -> None:
    found = " ".join(noise(WORDS, 200, 200, seed=1)).split(" ")
    counts = np.array([found.count(word) for word in WORDS.words])
    expected = len(found) / len(WORDS.words)
    # Chi-square with 3 degrees of freedom: above 16.3 once in a thousand.
    assert ((counts - expected) ** 2 / expected).sum() < 16.3


def test_noise_vectors_have_the_mean_and_the_scale() -> None:
    mean, scale = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    points = noise_vectors(40_000, 2, mean=mean, scale=scale, seed=3)
    assert np.allclose(points.mean(0), mean, atol=0.06)
    assert np.allclose(points.std(0), scale, rtol=0.02)
    assert np.array_equal(points, noise_vectors(40_000, 2, mean=mean, scale=scale, seed=3))
    ball = noise_vectors(1000, 5, unit=True, seed=4)
    assert np.allclose(np.linalg.norm(ball, axis=1), 1.0)


@pytest.mark.parametrize(
    ("call", "kind", "code"),
    [
        (lambda: Vocabulary(("a", "a")), InputError, "vocabulary-words"),
        (lambda: Vocabulary(("Two words",)), InputError, "vocabulary-words"),
        (lambda: Vocabulary("words"), InputError, "vocabulary-words"),  # type: ignore[arg-type]
        (lambda: Vocabulary(("a",), -1), InputError, "option-buckets"),
        (lambda: Vocabulary.from_dict({"words": ["a"]}), InputError, "vocabulary-fields"),
        (lambda: Vocabulary.build("one text"), InputError, "text-kind"),
        (lambda: Vocabulary.build(["a"], size=0), InputError, "option-vocabulary"),
        (lambda: WORDS.encode(["a", 3]), InputError, "text-kind"),  # type: ignore[list-item]
        (lambda: WORDS.encode(["a"], length=3), InputError, "option-length"),
        (lambda: WORDS.vectors(["a"], [[1.0], [2.0]]), MismatchError, "vocabulary-vectors"),
        (lambda: WORDS.vectors(["a"], [[np.nan]]), MismatchError, "vocabulary-vectors"),
        (lambda: noise(Vocabulary(()), 1, seed=0), InputError, "vocabulary-empty"),
        (lambda: noise(WORDS, 0, seed=0), InputError, "option-noise"),
        (lambda: noise(WORDS, 1, 1, seed=0, parts=2), InputError, "option-noise"),
        (lambda: noise_vectors(0, 1, seed=0), InputError, "option-noise"),
        (lambda: noise_vectors(1, 1, scale=-1.0, seed=0), InputError, "option-noise"),
        (lambda: noise_vectors(1, 1, mean=np.nan, seed=0), InputError, "option-noise"),
        (lambda: noise_vectors(1, 2, scale=0, unit=True, seed=0), InputError, "option-noise"),
        (lambda: noise_vectors(1, 2, mean=[1.0] * 3, seed=0), MismatchError, "noise-dimension"),
    ],
)
def test_what_cannot_be_is_said(call, kind: type[SilotError], code: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code == code
