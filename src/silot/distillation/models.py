r"""Models of texts and of vectors: what teachers train and what learns from them.

Every model is a ``torch.nn.Module``: ``encode`` turns raw inputs into a tensor, ``forward`` turns
the tensor into logits (B, L). Nothing is downloaded, but for ``pretrained`` where it is asked to.
Needs torch: ``pip install 'silot[torch]'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..errors import InputError, MismatchError
from ._batches import Inputs, floats, seeded
from ._pretrained import Pretrained, pretrained
from ._transformer import Encoder, Words, marks
from .fitting import Fitting, fit, module_predict
from .labels import LabelSpace
from .parameters import load_parameters, parameters_of
from .text import PAD, SEPARATOR, Vocabulary

__all__ = [
    "BagOfWords",
    "Fitting",
    "Inputs",
    "Pretrained",
    "Transformer",
    "VectorHead",
    "fit",
    "load_parameters",
    "module_predict",
    "parameters_of",
    "pretrained",
]


class BagOfWords(nn.Module):
    r"""The mean of a text's word vectors, and a linear map: the plainest model of texts.

    .. math:: h(x) = A \bar e(x) + b, \quad
        \bar e(x) = \frac{1}{|x|} \sum_{w \in x} e_w

    Of a pair (u, v) a hidden layer reads :math:`(\bar e_u, \bar e_v, |\bar e_u - \bar e_v|,
    \bar e_u \odot \bar e_v)` and the shares of words that are in the other text too.

    Parameters
    ----------
    vocabulary
        Public words.
    labels
        Number of labels, or the label space.
    width
        Length of a word's vector.
    pairs
        Whether inputs are pairs of texts.
    length
        Words read of an input.
    dropout
        Share of the mean's entries that are left out in fitting.
    vectors
        Shape (vocabulary.size, d): vectors to start from (``Vocabulary.vectors``).
    seed
        Same seed, same first parameters.

    Raises
    ------
    InputError
        Sizes out of range.
    MismatchError
        Vectors that do not fit the vocabulary.

    Examples
    --------
    >>> model = BagOfWords(Vocabulary(("good", "bad")), 2)
    >>> model(model.encode(["good", "bad", ""])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        labels: int | LabelSpace,
        *,
        width: int = 64,
        pairs: bool = False,
        length: int = 256,
        dropout: float = 0.1,
        vectors: npt.ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        count = _labels(labels)
        _sizes(dropout, width=width, length=length)
        self.vocabulary, self.pairs, self.length = vocabulary, pairs, length
        with seeded(seed):
            self.words = Words(vocabulary.size, width, vectors)
            self.dropout = nn.Dropout(dropout)
            if pairs:
                hidden = nn.Linear(4 * width + 2, width)
                self.readout = nn.Sequential(hidden, nn.ReLU(), nn.Linear(width, count))
            else:
                self.readout = nn.Linear(width, count)

    def encode(self, inputs: Sequence[str]) -> Tensor:
        """Numbers of the words, (B, T)."""
        return torch.from_numpy(
            self.vocabulary.encode(inputs, length=max(4, self.length), start=False)
        )

    def forward(self, numbers: Tensor) -> Tensor:
        """Logits, (B, L)."""
        words = (numbers != PAD) & (numbers != SEPARATOR)
        if not self.pairs:
            return self.readout(self.dropout(self._mean(numbers, words)))
        second, both = marks(numbers)
        u, v = (self._mean(numbers, words & (second == part)) for part in (0, 1))
        shared = [
            (both * part).sum(1, keepdim=True) / part.sum(1, keepdim=True).clamp(min=1)
            for part in (words & (second == 0), words & (second == 1))
        ]
        read = torch.cat([u, v, (u - v).abs(), u * v, *(s.to(u.dtype) for s in shared)], dim=1)
        return self.readout(self.dropout(read))

    def _mean(self, numbers: Tensor, words: Tensor) -> Tensor:
        # Other places become padding, whose vector is 0; a text without words has mean 0.
        vectors = self.words(torch.where(words, numbers, PAD))
        return vectors.sum(1) / words.sum(1, keepdim=True).clamp(min=1)


class Transformer(nn.Module):
    r"""A small transformer, trained from scratch: words in their order.

    Word vectors and learned places, ``layers`` of self-attention and a feed-forward part with
    normalisation first (padding is never attended to), read at ``[CLS]`` by a linear map. The
    word vectors of a pair also say which text they are of and whether the other has that word.

    Parameters
    ----------
    vocabulary
        Public words.
    labels
        Number of labels, or the label space.
    width, layers, heads
        Size of the model; ``heads`` divides ``width``.
    length
        Numbers read of an input, ``[CLS]`` and ``[SEP]`` included.
    dropout
        Share left out in fitting.
    vectors
        Shape (vocabulary.size, d): vectors to start from (``Vocabulary.vectors``).
    seed
        Same seed, same first parameters.

    Raises
    ------
    InputError
        Sizes out of range.
    MismatchError
        Heads that do not divide the width; vectors that do not fit the vocabulary.

    Examples
    --------
    >>> model = Transformer(Vocabulary(("good", "bad")), 2, width=8, layers=1, heads=2)
    >>> model(model.encode(["not good", "bad"])).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        labels: int | LabelSpace,
        *,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        length: int = 128,
        dropout: float = 0.1,
        vectors: npt.ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        count = _labels(labels)
        _sizes(dropout, width=width, layers=layers, heads=heads, length=length)
        if width % heads:
            raise MismatchError(
                f"{heads} heads do not divide a width of {width}.", code="option-heads"
            )
        self.vocabulary, self.length = vocabulary, max(4, length)
        with seeded(seed):
            self.encoder = Encoder(
                vocabulary.size, width, layers, heads, self.length, dropout, vectors
            )
            self.readout = nn.Linear(width, count)

    def encode(self, inputs: Sequence[str]) -> Tensor:
        """Numbers of the words after ``[CLS]``, (B, T)."""
        return torch.from_numpy(self.vocabulary.encode(inputs, length=self.length))

    def forward(self, numbers: Tensor) -> Tensor:
        """Logits, (B, L)."""
        return self.readout(self.encoder(numbers))


class VectorHead(nn.Module):
    r"""Fully connected layers over vectors, such as sentence vectors of a public model.

    Parameters
    ----------
    dimension
        d.
    labels
        Number of labels, or the label space.
    hidden
        Widths of the hidden layers; ``()`` for a linear model.
    mean, scale
        Public numbers, or one per column: the layers see (x - mean) / scale. Sentence vectors of
        norm 1 want ``scale=d ** -0.5``.
    dropout
        Share left out in fitting.
    seed
        Same seed, same first parameters.

    Raises
    ------
    InputError
        Sizes out of range; a scale that is not positive.
    MismatchError
        A mean or a scale of another dimension.

    Examples
    --------
    >>> model = VectorHead(3, 2, hidden=(4,))
    >>> model(model.encode([[1.0, 2.0, 3.0]])).shape
    torch.Size([1, 2])
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        dimension: int,
        labels: int | LabelSpace,
        *,
        hidden: Sequence[int] = (64,),
        mean: npt.ArrayLike = 0.0,
        scale: npt.ArrayLike = 1.0,
        dropout: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        widths = [dimension, *hidden]
        _sizes(dropout, **{f"width {i}": width for i, width in enumerate(widths)})
        for name, value in (
            ("mean", floats(np.atleast_1d(mean))),
            ("scale", floats(np.atleast_1d(scale))),
        ):
            if value.shape not in ((1,), (dimension,)):
                raise MismatchError(
                    f"{name} has {len(value)} numbers for {dimension} columns.",
                    code="input-dimension",
                )
            self.register_buffer(name, value)
        if not bool((self.scale > 0).all()):
            raise InputError("the scale must be positive.", code="option-scale")
        self.dimension = dimension
        parts: list[nn.Module] = []
        with seeded(seed):
            for before, after in pairwise(widths):
                parts += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
            self.layers = nn.Sequential(*parts, nn.Linear(widths[-1], _labels(labels)))

    def encode(self, inputs: npt.ArrayLike) -> Tensor:
        """Array (B, d) as float32."""
        found = floats(inputs)
        if found.ndim != 2 or found.shape[1] != self.dimension:
            raise MismatchError(
                f"inputs of shape {tuple(found.shape)} arrived at a model of {self.dimension} "
                f"columns.",
                code="input-dimension",
            )
        return found

    def forward(self, vectors: Tensor) -> Tensor:
        """Logits, (B, L)."""
        return self.layers((vectors - self.mean) / self.scale)


def _labels(labels: int | LabelSpace) -> int:
    count = labels.size if isinstance(labels, LabelSpace) else labels
    if isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise InputError("a model tells two labels or more apart.", code="label-count")
    return count


def _sizes(dropout: float, **sizes: int) -> None:
    if not 0 <= dropout < 1:
        raise InputError("dropout must be from 0 to below 1.", code="option-dropout")
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(
                f"{name.replace('_', ' ')} must be a whole number from 1.", code="option-model"
            )
