r"""Texts as numbers of a public vocabulary, and noise that shows what a model predicts of nothing.

A text is a string; a pair of texts, such as a premise and a hypothesis, is one string with a tab
between them. Numpy only: no model is needed to prepare the inputs of one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from silot_transport._check import integer

from ..errors import InputError, MismatchError

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

PAIR = "\t"
"""What stands between the two texts of a pair."""

PAD, UNKNOWN, SEPARATOR = range(3)
SPECIAL = ("[PAD]", "[UNK]", "[SEP]")
"""Names of the first three numbers of every vocabulary."""

# Words with their inner apostrophes, numbers, and every other mark by itself.
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[^\w\s]|_")


def tokens(text: str) -> list[str]:
    """Split a text into lower-case words and marks.

    Examples
    --------
    >>> tokens("It's the Chef's 2nd-best dish!")
    ["it's", 'the', "chef's", '2nd', '-', 'best', 'dish', '!']
    """
    return _TOKEN.findall(text.replace("\u2019", "'").lower())


@dataclass(frozen=True)
class Vocabulary:
    r"""Words and their numbers; unknown words share ``buckets`` numbers by their hash.

    Numbers 0 to 2 are ``[PAD]``, ``[UNK]`` and ``[SEP]``, then come the words, then the buckets.
    The hash is CRC-32: the same in every process and on every machine.

    Parameters
    ----------
    words
        Different words, each as ``tokens`` would write it. They are public: whoever has a model
        has its vocabulary.
    buckets
        Numbers for other words; with 0 all of them are ``[UNK]``.

    Raises
    ------
    InputError
        Words that are not tokens, or appear twice; a negative number of buckets.

    Examples
    --------
    >>> vocabulary = Vocabulary(("good", "bad"), buckets=2)
    >>> vocabulary.size
    7
    >>> vocabulary.encode(["Bad, good", "good"]).tolist()
    [[4, 5, 3], [3, 0, 0]]
    """

    words: tuple[str, ...]
    buckets: int = 1024

    def __post_init__(self) -> None:
        if isinstance(self.words, str) or not all(isinstance(word, str) for word in self.words):
            raise InputError("words are not a sequence of texts.", code="vocabulary-words")
        object.__setattr__(self, "words", tuple(self.words))
        wrong = [i for i, word in enumerate(self.words) if tokens(word) != [word]]
        if wrong:
            raise InputError(
                f"{len(wrong)} words are not lower-case tokens, first word {wrong[0]}. "
                f"Build the vocabulary from texts, or pass words through tokens().",
                code="vocabulary-words",
            )
        if len(set(self.words)) != len(self.words):
            raise InputError("a word is in the vocabulary twice.", code="vocabulary-words")
        integer(self.buckets, "buckets", "option-buckets", least=0)

    @classmethod
    def build(cls, texts: Iterable[str], *, size: int = 10_000, buckets: int = 1024) -> Vocabulary:
        """Take the most frequent words of public texts; ties in the order of the alphabet.

        The words of a vocabulary can be read by everybody who gets it: build it from texts that
        are public, such as the transfer set, or from a public list of words. It has ``size`` words
        at most.

        Examples
        --------
        >>> Vocabulary.build(["a b c", "b c", "c"], size=2).words
        ('c', 'b')
        """
        if size < 1:
            raise InputError("size must be 1 or more.", code="option-vocabulary")
        counts = Counter(token for text in check_texts(texts) for token in tokens(text))
        often = sorted((-n, word) for word, n in counts.items())
        return cls(tuple(word for _, word in often[:size]), buckets)

    @property
    def size(self) -> int:
        """Number of numbers: special ones, words and buckets."""
        return len(SPECIAL) + len(self.words) + self.buckets

    def number(self, token: str) -> int:
        """Return the number of a token.

        Examples
        --------
        >>> Vocabulary(("good",), buckets=0).number("good"), Vocabulary((), 0).number("good")
        (3, 1)
        """
        if token in self._numbers:
            return self._numbers[token]
        if self.buckets == 0:
            return UNKNOWN
        # Lone surrogates have no bytes in UTF-8 otherwise.
        mixed = crc32(token.encode("utf-8", "surrogatepass"))
        return len(SPECIAL) + len(self.words) + mixed % self.buckets

    def encode(self, texts: Sequence[str], *, length: int = 128) -> Codes:
        r"""Write n texts as rows of numbers (n, T) below ``size``, padded to the longest of them.

        Parameters
        ----------
        texts
            In a pair the tab becomes ``[SEP]``.
        length
            Numbers at most, T; what is too long loses its end, of a pair the longer text first.

        Raises
        ------
        InputError
            Anything else than texts; a length without room for a word.

        Examples
        --------
        >>> Vocabulary(("a", "b"), 0).encode(["a\tb", "b"]).tolist()
        [[3, 2, 4], [4, 0, 0]]
        """
        if length < 4:
            raise InputError("length must be 4 or more.", code="option-length")
        rows = [self._encode_one(text, length) for text in check_texts(texts)]
        table = np.full((len(rows), max(map(len, rows), default=1) or 1), PAD, dtype=np.int64)
        for row, numbers in zip(table, rows, strict=True):
            row[: len(numbers)] = numbers
        return table

    def vectors(self, words: Sequence[str], vectors: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Lay out public vectors (m, d) of m words by number: row i belongs to number i.

        The result (size, d), float32, is what ``BagOfWords`` takes as ``vectors``; NaN in rows no
        word has a vector for.

        Raises
        ------
        MismatchError
            Another number of vectors than of words, or vectors that are not finite.

        Examples
        --------
        >>> Vocabulary(("a", "b"), 0).vectors(["b"], [[1.0, 2.0]])[3:]
        array([[nan, nan],
               [ 1.,  2.]], dtype=float32)
        """
        rows = np.asarray(vectors, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(words) or not np.isfinite(rows).all():
            raise MismatchError(
                f"vectors of shape {rows.shape} arrived for {len(words)} words. Give one row of "
                f"finite numbers per word.",
                code="vocabulary-vectors",
            )
        table = np.full((self.size, rows.shape[1]), np.nan, dtype=np.float32)
        for word, row in zip(words, rows, strict=True):
            if word in self._numbers:
                table[self._numbers[word]] = row
        return table

    def to_dict(self) -> dict[str, Any]:
        """Turn into plain values, for JSON.

        Examples
        --------
        >>> Vocabulary.from_dict(Vocabulary(("a", "b")).to_dict()) == Vocabulary(("a", "b"))
        True
        """
        return {"words": list(self.words), "buckets": self.buckets}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Vocabulary:
        """Read what ``to_dict`` wrote, or raise an ``InputError`` where it is not a vocabulary."""
        if set(values) != {"words", "buckets"} or not isinstance(values["words"], list | tuple):
            raise InputError("a vocabulary has words and buckets.", code="vocabulary-fields")
        return cls(tuple(values["words"]), values["buckets"])

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: len(SPECIAL) + i for i, word in enumerate(self.words)}

    def _encode_one(self, text: str, room: int) -> list[int]:
        parts = [[self.number(token) for token in tokens(part)] for part in text.split(PAIR)]
        over = sum(map(len, parts)) + len(parts) - 1 - room
        while over > 0 and (longest := max(parts, key=len)):
            # At once down to the next longest; of equal ones a word at a time.
            others = [len(part) for part in parts if part is not longest]
            drop = min(over, max(1, len(longest) - max(others, default=0)))
            del longest[len(longest) - drop :]
            over -= drop
        numbers: list[int] = []
        for place, part in enumerate(parts):
            numbers += [SEPARATOR, *part] if place else part
        return numbers[:room]


def noise(
    vocabulary: Vocabulary, count: int, length: int = 200, *, seed: int, parts: int = 1
) -> list[str]:
    r"""Draw texts that mean nothing: words drawn uniformly from a vocabulary.

    A model's mean prediction over them is its probability bias :math:`B_k` (paper 004, section
    5.1, with 100 000 texts of 200 words).

    Parameters
    ----------
    vocabulary
        Its words are drawn, special tokens and buckets are not.
    count
        Number of texts.
    length
        Words of a text; of all its parts together.
    seed
        Same seed, same texts.
    parts
        2 for models of pairs: texts with a tab in the middle.

    Raises
    ------
    InputError
        A vocabulary without words, or numbers out of range.

    Examples
    --------
    >>> noise(Vocabulary(("good", "bad")), 2, 3, seed=0)
    ['bad bad bad', 'good good good']
    """
    if not vocabulary.words:
        raise InputError(
            "the vocabulary has no words to draw from. Build it from texts.",
            code="vocabulary-empty",
        )
    if count < 1 or parts < 1 or length < parts:
        raise InputError(
            "count and parts must be 1 or more, length no less than parts.", code="option-noise"
        )
    drawn = np.random.default_rng(seed).integers(0, len(vocabulary.words), (count, length))
    cuts = np.linspace(0, length, parts + 1).astype(int)
    return [
        PAIR.join(" ".join(vocabulary.words[i] for i in row[a:b]) for a, b in pairwise(cuts))
        for row in drawn
    ]


def noise_vectors(
    count: int,
    dimension: int,
    *,
    mean: npt.ArrayLike = 0.0,
    scale: npt.ArrayLike = 1.0,
    unit: bool = False,
    seed: int,
) -> Array:
    r"""Draw points that mean nothing, for models of vectors: Gaussian around a public mean.

    .. math:: z = m + s \odot g, \quad g \sim N(0, I)

    Of all distributions with these means and scales the Gaussian says least. Both must be public
    (from the transfer set, say): a holder's own would disclose its records to the asker. The
    bias that counts is that on the scale where a model is used: on another scale a model is
    saturated.

    Parameters
    ----------
    count, dimension
        n and d: the result is (n, d).
    mean, scale
        m and s: numbers, or one per column; the scale is no less than 0.
    unit
        Whether to bring every point to norm 1, as sentence vectors are; around mean 0 with one
        scale they are then uniform on the sphere.
    seed
        Same seed, same points.

    Raises
    ------
    InputError
        Numbers out of range or not finite; with ``unit``, points that are all 0.
    MismatchError
        A mean or a scale of another dimension.

    Examples
    --------
    >>> noise_vectors(2, 3, mean=[0.0, 5.0, 0.0], scale=0.0, unit=True, seed=0)
    array([[0., 1., 0.],
           [0., 1., 0.]])
    """
    if count < 1 or dimension < 1:
        raise InputError("count and dimension must be 1 or more.", code="option-noise")
    centre, spread = (np.asarray(value, dtype=np.float64) for value in (mean, scale))
    for name, value in (("mean", centre), ("scale", spread)):
        if value.shape not in ((), (dimension,)):
            raise MismatchError(
                f"{name} has shape {value.shape}; give a number or {dimension} of them.",
                code="noise-dimension",
            )
    if not np.isfinite(centre).all() or not np.isfinite(spread).all() or (spread < 0).any():
        raise InputError(
            "mean and scale must be finite, the scale no less than 0.", code="option-noise"
        )
    points = centre + spread * np.random.default_rng(seed).standard_normal((count, dimension))
    if not unit:
        return points
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    if (norms == 0).any():
        raise InputError("points of norm 0 cannot be brought to norm 1.", code="option-noise")
    return points / norms


def check_texts(texts: Iterable[str]) -> list[str]:
    """List texts; raise ``text-kind`` for one text in place of several, or what is not a text."""
    items = list(texts)
    wrong = [row for row, text in enumerate(items) if not isinstance(text, str)]
    if isinstance(texts, str) or wrong:
        raise InputError(
            "inputs are not a sequence of texts"
            + (f" (row {wrong[0]} is not a text)" if wrong else "")
            + ". Give a list of strings.",
            code="text-kind",
        )
    return items
