"""Models that others trained, through the library transformers (extra ``silot[text]``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..data.label_names import label_name
from ..errors import ExtraError, FileError, InputError, MismatchError
from ._batches import seeded
from .labels import LabelSpace
from .text import PAIR


class Pretrained(nn.Module):
    """A sequence classification model and its tokenizer; made by ``pretrained``.

    ``encode`` gives whole numbers (B, F, T): the tokens, whether they are there (attention mask)
    and, if the model has them, token types.
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
        """Numbers of the tokens, (B, F, T); a pair goes in as two texts."""
        first, second = _sides(inputs)
        if not first:
            return torch.zeros((0, len(self.fields), 1), dtype=torch.long)
        found = self.tokenizer(
            first,
            second or None,
            padding=True,
            truncation=True,
            max_length=self.length,
            return_tensors="pt",
            return_attention_mask=True,
            return_token_type_ids=len(self.fields) == 3,
        )
        return torch.stack([found[field] for field in self.fields], dim=1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, (B, L), in the order of the label space."""
        given = {field: tokens[:, place] for place, field in enumerate(self.fields)}
        told: Tensor = self.model(**given).logits
        return told if self.order is None else told[:, self.order]


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
    count = _count(labels)
    if length < 4:
        raise InputError("length must be 4 or more.", code="option-length")
    library = _transformers()
    options: dict[str, Any] = {
        "local_files_only": local_files_only,
        "revision": revision or "main",
        "trust_remote_code": False,
    }
    place = str(name)
    try:
        config = library.AutoConfig.from_pretrained(place, **options)
        order = None if new_head else _own_order(config, labels, count)
        config.num_labels = count
        tokenizer = library.AutoTokenizer.from_pretrained(place, **options)
        with seeded(seed):
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
    room = getattr(config, "max_position_embeddings", None) or length
    return Pretrained(
        model.float().eval(),
        tokenizer,
        types="token_type_ids" in tokenizer.model_input_names,
        length=min(length, room),
        order=order,
    )


def _count(labels: int | LabelSpace) -> int:
    count = labels.size if isinstance(labels, LabelSpace) else labels
    if isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise InputError("a model tells two labels or more apart.", code="label-count")
    return count


def _own_order(config: Any, labels: int | LabelSpace, count: int) -> list[int] | None:
    """The order of a model's own last layer, which must be of as many labels, if it has one."""
    if not any("SequenceClassification" in kind for kind in config.architectures or ()):
        return None
    if config.num_labels != count:
        raise MismatchError(
            f"the model tells {config.num_labels} labels apart, not {count}. Give "
            f"new_head=True to replace its last layer, and fit it.",
            code="model-labels",
        )
    return _order(config, labels)


def _sides(inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """First texts, and the second ones where inputs are pairs."""
    if isinstance(inputs, str) or not all(isinstance(text, str) for text in inputs):
        raise InputError(
            "inputs are not a sequence of texts. Give a list of strings.", code="text-kind"
        )
    parts = [text.split(PAIR, 1) for text in inputs]
    pairs = [part for part in parts if len(part) == 2]
    if pairs and len(pairs) < len(parts):
        raise InputError(
            f"{len(pairs)} of {len(parts)} inputs are pairs of texts. Give pairs only, or none.",
            code="text-pairs",
        )
    return [part[0] for part in parts], [part[1] for part in pairs]


def _order(config: Any, labels: int | LabelSpace) -> list[int] | None:
    """Which output of a model is which label of the space, where both have names."""
    named = cast("dict[int, str]", config.id2label or {})
    own = [str(named.get(k, "")) for k in range(config.num_labels)]
    if not isinstance(labels, LabelSpace) or own == [f"LABEL_{k}" for k in range(len(own))]:
        return None
    places = {label_name(name).casefold(): k for k, name in enumerate(own)}
    order = [places.get(label_name(name).casefold(), -1) for name in labels.names]
    if -1 in order:
        if labels.names == tuple(map(str, range(labels.size))):
            return None
        raise MismatchError(
            f"the model's labels are {', '.join(own[:12])}, and those of the label space "
            f"{', '.join(labels.names[:12])}. Name the label space as the model does, or give "
            "new_head=True and fit it.",
            code="model-labels",
        )
    return order


def _transformers() -> ModuleType:
    try:
        import transformers
    except ImportError:
        raise ExtraError(
            "a pretrained model needs transformers. Run: pip install 'silot[text]'.",
            code="extra-text",
        ) from None
    return transformers
