r"""Models of texts and of vectors: what teachers train and what learns from them.

Every model is a ``torch.nn.Module``: ``encode`` turns raw inputs into a tensor, ``forward`` turns
the tensor into logits (B, L). Only ``pretrained`` downloads anything (extra ``silot[text]``).
Needs torch: ``pip install 'silot[torch]'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from silot_transport._check import integer

from ..data.label_names import label_name
from ..errors import ExtraError, FileError, InputError, MismatchError
from ..torch import draw_from
from .labels import LabelSpace, count_labels
from .modules import convert_floats
from .text import PAD, PAIR, SEPARATOR, Vocabulary, check_texts


class BagOfWords(nn.Module):
    r"""Classify texts by the mean of their word vectors and a linear map.

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
        count = count_labels(labels)
        _check_sizes(dropout, width=width, length=length)
        self.vocabulary, self.pairs, self.length = vocabulary, pairs, length
        with draw_from(seed):
            self.words = _Words(vocabulary.size, width, vectors)
            self.dropout = nn.Dropout(dropout)
            if pairs:
                hidden = nn.Linear(4 * width + 2, width)
                self.readout = nn.Sequential(hidden, nn.ReLU(), nn.Linear(width, count))
            else:
                self.readout = nn.Linear(width, count)

    def encode(self, inputs: Sequence[str]) -> Tensor:
        """Write texts as numbers of words, (B, T)."""
        return torch.from_numpy(self.vocabulary.encode(inputs, length=max(4, self.length)))

    def forward(self, numbers: Tensor) -> Tensor:
        """Compute logits, (B, L)."""
        words = (numbers != PAD) & (numbers != SEPARATOR)
        if not self.pairs:
            return self.readout(self.dropout(self._average(numbers, words)))
        second, both = _mark_pairs(numbers)
        u, v = (self._average(numbers, words & (second == part)) for part in (0, 1))
        shared = [
            (both * part).sum(1, keepdim=True) / part.sum(1, keepdim=True).clamp(min=1)
            for part in (words & (second == 0), words & (second == 1))
        ]
        # What separates entailment from contradiction is where the two texts differ: (u, v,
        # |u - v|, u * v) as in InferSent, and the words in common.
        read = torch.cat([u, v, (u - v).abs(), u * v, *(s.to(u.dtype) for s in shared)], dim=1)
        return self.readout(self.dropout(read))

    def _average(self, numbers: Tensor, words: Tensor) -> Tensor:
        # Other places become padding, whose vector is 0; a text without words has mean 0.
        vectors = self.words(torch.where(words, numbers, PAD))
        return vectors.sum(1) / words.sum(1, keepdim=True).clamp(min=1)


class VectorHead(nn.Module):
    r"""Classify vectors, such as sentence vectors of a public model, by fully connected layers.

    Parameters
    ----------
    dimension
        d.
    labels, seed
        As ``BagOfWords``.
    hidden
        Widths of the hidden layers; ``()`` for a linear model.
    mean, scale
        Public numbers, or one per column: the layers see (x - mean) / scale. Sentence vectors of
        norm 1 want ``scale=d ** -0.5``.
    dropout
        Share left out in fitting.

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
        _check_sizes(dropout, **{f"width {i}": width for i, width in enumerate(widths)})
        for name, numbers in (("mean", mean), ("scale", scale)):
            value = convert_floats(np.atleast_1d(numbers))
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
        with draw_from(seed):
            for before, after in pairwise(widths):
                parts += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
            self.layers = nn.Sequential(*parts, nn.Linear(widths[-1], count_labels(labels)))

    def encode(self, inputs: npt.ArrayLike) -> Tensor:
        """Convert an array (B, d) to float32."""
        vectors = convert_floats(inputs)
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise MismatchError(
                f"inputs of shape {tuple(vectors.shape)} arrived at a model of {self.dimension} "
                f"columns.",
                code="input-dimension",
            )
        return vectors

    def forward(self, vectors: Tensor) -> Tensor:
        """Compute logits, (B, L)."""
        return self.layers((vectors - self.mean) / self.scale)


class Pretrained(nn.Module):
    """A sequence classification model and its tokenizer, which ``pretrained`` loads.

    ``encode`` returns whole numbers (B, F, T): the tokens, the attention mask and, if the model
    has them, token types.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        types: bool,
        length: int,
        order: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.order = None if order is None else list(order)
        self.model, self.tokenizer = model, tokenizer
        self.fields = ["input_ids", "attention_mask"] + ["token_type_ids"] * types
        self.length = length

    def encode(self, inputs: Sequence[str]) -> Tensor:
        """Write texts as numbers of tokens, (B, F, T); a pair goes in as two texts."""
        first, second = _split_pairs(inputs)
        if not first:
            return torch.zeros((0, len(self.fields), 1), dtype=torch.long)
        tokens = self.tokenizer(
            first,
            second or None,
            padding=True,
            truncation=True,
            max_length=self.length,
            return_tensors="pt",
            return_attention_mask=True,
            return_token_type_ids=len(self.fields) == 3,
        )
        return torch.stack([tokens[field] for field in self.fields], dim=1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits, (B, L), in the order of the label space."""
        fields = {field: tokens[:, place] for place, field in enumerate(self.fields)}
        logits: Tensor = self.model(**fields).logits
        return logits if self.order is None else logits[:, self.order]


def pretrained(
    name: str | Path,
    labels: int | LabelSpace,
    *,
    length: int = 128,
    local_files_only: bool = False,
    revision: str | None = None,
    new_head: bool = False,
    seed: int = 0,
) -> Pretrained:
    """Load a Hugging Face model to classify texts: by name, or from a folder.

    Only weights in the safetensors format are read, and no code that comes with a model is run:
    a file of weights in the older format can run any code when it is read.

    Parameters
    ----------
    name
        Name on the hub, such as ``"prajjwal1/bert-tiny"``, or a folder with ``config.json``,
        weights and tokenizer.
    labels
        Number of labels, or the label space. A model that names its labels (``id2label``, other
        than LABEL_0, LABEL_1, ...) is matched with the space by name; one that does not has them in
        the caller's order.
    length
        Tokens read of an input.
    local_files_only
        Whether nothing may be downloaded.
    revision
        Commit or tag on the hub; a name alone is whatever is newest.
    new_head
        Whether to replace the last layer of a model that classifies into another number of
        labels.
    seed
        Same seed, same first parameters of a last layer the model does not bring.

    Returns
    -------
    Pretrained
        In float32 on the processor, all parameters trainable.

    Raises
    ------
    ExtraError
        ``silot[text]`` is not installed.
    FileError
        There is no such model, or none in the safetensors format, or it cannot be reached.
    MismatchError
        The model classifies into another number of labels, or names labels that the space lacks.

    Examples
    --------
    >>> model = pretrained("prajjwal1/bert-tiny", 5)  # doctest: +SKIP
    """
    count = count_labels(labels)
    if length < 4:
        raise InputError("length must be 4 or more.", code="option-length")
    library = _import_transformers()
    options: dict[str, Any] = {
        "local_files_only": local_files_only,
        "revision": revision or "main",
        "trust_remote_code": False,
    }
    place = str(name)
    try:
        config = library.AutoConfig.from_pretrained(place, **options)
        order = None if new_head else _match_labels(config, labels, count)
        config.num_labels = count
        tokenizer = library.AutoTokenizer.from_pretrained(place, **options)
        with draw_from(seed):
            model = library.AutoModelForSequenceClassification.from_pretrained(
                place,
                config=config,
                use_safetensors=True,
                ignore_mismatched_sizes=new_head,
                **options,
            )
    except (OSError, ValueError) as error:
        raise FileError(
            f"the model cannot be loaded ({type(error).__name__}). Check its name or folder, that "
            f"it has a tokenizer and weights in the safetensors format, and the connection.",
            code="model-missing",
        ) from error
    if tokenizer.pad_token is None:
        raise InputError("the model's tokenizer has no padding token.", code="model-padding")
    # A model has no places beyond these, and fails on longer inputs.
    room = getattr(config, "max_position_embeddings", None) or length
    return Pretrained(
        model.float().eval(),
        tokenizer,
        types="token_type_ids" in tokenizer.model_input_names,
        length=min(length, room),
        order=order,
    )


def _match_labels(config: Any, labels: int | LabelSpace, count: int) -> list[int] | None:
    """Find which output of a model is which label of the space, where both have names."""
    if not any("SequenceClassification" in kind for kind in config.architectures or ()):
        return None
    if config.num_labels != count:
        raise MismatchError(
            f"the model has {config.num_labels} labels, not {count}. Give "
            f"new_head=True to replace its last layer, and fit it.",
            code="model-labels",
        )
    named = cast("dict[int, str]", config.id2label or {})
    own = [str(named.get(k, "")) for k in range(config.num_labels)]
    if not isinstance(labels, LabelSpace) or own == [f"LABEL_{k}" for k in range(len(own))]:
        return None
    places = {label_name(name).casefold(): k for k, name in enumerate(own)}
    order = [places.get(label_name(name).casefold(), -1) for name in labels.names]
    if -1 not in order:
        return order
    if labels.names == tuple(map(str, range(labels.size))):
        return None
    raise MismatchError(
        f"the model's labels are {', '.join(own[:12])}, and those of the label space "
        f"{', '.join(labels.names[:12])}. Name the label space as the model does, or give "
        "new_head=True and fit it.",
        code="model-labels",
    )


def _split_pairs(inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split inputs into first texts, and the second ones where inputs are pairs."""
    parts = [text.split(PAIR, 1) for text in check_texts(inputs)]
    pairs = [part for part in parts if len(part) == 2]
    if pairs and len(pairs) < len(parts):
        raise InputError(
            f"{len(pairs)} of {len(parts)} inputs are pairs of texts. Give pairs only, or none.",
            code="text-pairs",
        )
    return [part[0] for part in parts], [part[1] for part in pairs]


def _import_transformers() -> ModuleType:
    try:
        import transformers
    except ImportError:
        raise ExtraError(
            "a pretrained model needs transformers. Run: pip install 'silot[text]'.",
            code="extra-text",
        ) from None
    return transformers


class _Words(nn.Module):
    """A vector of ``width`` for every number; through a linear map where ``vectors`` are longer."""

    def __init__(self, size: int, width: int, vectors: npt.ArrayLike | None) -> None:
        super().__init__()
        start = None if vectors is None else np.asarray(vectors, dtype=np.float32)
        if start is not None and (start.ndim != 2 or len(start) != size or not start.shape[1]):
            raise MismatchError(
                f"vectors of shape {start.shape} arrived for a vocabulary of {size} numbers. Give "
                f"what Vocabulary.vectors returns.",
                code="vocabulary-vectors",
            )
        inner = width if start is None else start.shape[1]
        self.table = nn.Embedding(size, inner, padding_idx=PAD)
        with torch.no_grad():
            # Vectors of length 1 on average, whatever their dimension.
            self.table.weight.normal_(0.0, inner**-0.5)
            if start is not None:
                finite = np.isfinite(start).all(axis=1)
                if finite.any():
                    # Vectors as long as those drawn, on average.
                    length = float(np.linalg.norm(start[finite], axis=1).mean())
                    rows = torch.from_numpy(start[finite] / (length or 1.0))
                    self.table.weight[torch.from_numpy(finite)] = rows
            self.table.weight[PAD] = 0.0
        self.map = nn.Identity() if inner == width else nn.Linear(inner, width, bias=False)

    def forward(self, numbers: Tensor) -> Tensor:
        return self.map(self.table(numbers))


def _mark_pairs(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Mark the places of the second text of a pair, and the words that are in both; 0 or 1."""
    divider = numbers == SEPARATOR
    second = (divider.cumsum(1) > 0) & ~divider
    words = numbers > SEPARATOR
    same = (numbers[:, :, None] == numbers[:, None]) & (second[:, :, None] != second[:, None])
    both = (same & words[:, None]).any(2) & words
    return second.long(), both.long()


def _check_sizes(dropout: float, **sizes: int) -> None:
    if not 0 <= dropout < 1:
        raise InputError("dropout must be from 0 to below 1.", code="option-dropout")
    for name, size in sizes.items():
        integer(size, name.replace("_", " "), "option-model")
