"""The layers of the text models."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..errors import MismatchError
from .text import PAD, SEPARATOR


class Words(nn.Module):
    """A vector of ``width`` for every number; through a linear map where vectors are given."""

    def __init__(self, size: int, width: int, vectors: npt.ArrayLike | None) -> None:
        super().__init__()
        given = None if vectors is None else np.asarray(vectors, dtype=np.float32)
        if given is not None and (given.ndim != 2 or len(given) != size or not given.shape[1]):
            raise MismatchError(
                f"vectors of shape {given.shape} arrived for a vocabulary of {size} numbers. Give "
                f"what Vocabulary.vectors returns.",
                code="vocabulary-vectors",
            )
        inner = width if given is None else given.shape[1]
        self.table = nn.Embedding(size, inner, padding_idx=PAD)
        spread = inner**-0.5
        with torch.no_grad():
            self.table.weight.normal_(0.0, spread)
            if given is not None:
                known = np.isfinite(given).all(axis=1)
                if known.any():
                    # Vectors as long as those drawn, on average.
                    length = float(np.linalg.norm(given[known], axis=1).mean())
                    rows = torch.from_numpy(given[known] / (length or 1.0))
                    self.table.weight[torch.from_numpy(known)] = rows
            self.table.weight[PAD] = 0.0
        self.map = nn.Identity() if inner == width else nn.Linear(inner, width, bias=False)

    def forward(self, numbers: Tensor) -> Tensor:
        return self.map(self.table(numbers))


class Encoder(nn.Module):
    """Rows of numbers to a vector each, by self-attention; read at the first place.

    A word that is in both texts of a pair is marked, so that attention need not learn first what
    it is to be the same word.
    """

    def __init__(
        self,
        size: int,
        width: int,
        layers: int,
        heads: int,
        length: int,
        dropout: float,
        vectors: npt.ArrayLike | None,
    ) -> None:
        super().__init__()
        self.words = Words(size, width, vectors)
        self.places = nn.Parameter(torch.randn(length, width) * width**-0.5)
        # By part of a pair and by being in both: 2 x 2.
        self.marks = nn.Parameter(torch.randn(4, width) * width**-0.5)
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(
            layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False
        )
        for parameter in self.layers.parameters():
            # The layers are copies of one: drawn anew, each for itself.
            if parameter.ndim == 2:
                nn.init.xavier_uniform_(parameter)

    def forward(self, numbers: Tensor) -> Tensor:
        second, both = marks(numbers)
        found = self.words(numbers) * math.sqrt(self.places.shape[1])
        found = found + self.places[: numbers.shape[1]] + self.marks[2 * both + second]
        found = self.layers(self.dropout(found), src_key_padding_mask=numbers == PAD)
        return found[:, 0]


def marks(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Which places are in the second text of a pair, and which words are in both; 0 or 1.

    Examples
    --------
    >>> second, both = marks(torch.tensor([[2, 7, 8, 3, 8, 9, 0]]))
    >>> second.tolist(), both.tolist()
    ([[0, 0, 0, 0, 1, 1, 1]], [[0, 0, 1, 0, 1, 0, 0]])
    """
    divider = numbers == SEPARATOR
    second = (divider.cumsum(1) > 0) & ~divider
    words = numbers > SEPARATOR
    same = (numbers[:, :, None] == numbers[:, None]) & (second[:, :, None] != second[:, None])
    both = (same & words[:, None]).any(2) & words
    return second.long(), both.long()
