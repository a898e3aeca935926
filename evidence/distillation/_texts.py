"""Labelled texts in the layout of Confident Sinkhorns: sentiment, emotion, inference.

Texts are read once, made unique over a whole task, and split by group (a dialogue, a premise)
with fixed seeds, so that nothing a model is tested on was in front of it, not even unlabelled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evidence.common import Array, Context, Labels, stream
from silot.distillation import LabelSpace
from silot.distillation.text import PAIR

DOMAINS = ("books", "dvd", "electronics", "kitchen")

_MELD = {"anger": 0, "joy": 1, "neutral": 2, "sadness": 3, "surprise": 4}
_DAILY = {"1": 0, "4": 1, "0": 2, "5": 3, "6": 4}
_INFERENCE = ("entailment", "neutral", "contradiction")
_STARS = {"1": 0, "2": 1, "4": 3, "5": 4}


@dataclass(frozen=True, eq=False)
class Texts:
    """Labelled texts.

    ``name``: data set, or part of one. ``inputs``: n texts; pairs have a tab between them.
    ``codes``: shape (n,): labels, as places in the task's label space. ``groups``: shape (n,):
    texts of one group stay on one side of a split. ``official``: shape (n,): ``"train"``,
    ``"dev"`` or ``"test"`` where the data set says so, else empty. ``vectors``: shape (n, 384):
    MiniLM sentence vectors of norm 1, where there are any.
    """

    name: str
    inputs: list[str] = field(repr=False)
    codes: Labels = field(repr=False)
    groups: Labels = field(repr=False)
    official: list[str] = field(repr=False)
    vectors: Array | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, rows: Labels, name: str = "") -> Texts:
        """Some of the texts."""
        return Texts(
            name or self.name,
            [self.inputs[row] for row in rows],
            self.codes[rows],
            self.groups[rows],
            [self.official[row] for row in rows],
            None if self.vectors is None else self.vectors[rows],
        )

    def joined(self, *others: Texts, name: str) -> Texts:
        """These texts and others; vectors if all have them."""
        parts = (self, *others)
        vectors = [part.vectors for part in parts if part.vectors is not None]
        return Texts(
            name,
            [text for part in parts for text in part.inputs],
            np.concatenate([part.codes for part in parts]),
            # Groups of different sets have nothing to do with one another.
            np.concatenate([part.groups + i * 10**9 for i, part in enumerate(parts)]),
            [mark for part in parts for mark in part.official],
            np.concatenate(vectors) if len(vectors) == len(parts) else None,
        )


@dataclass(frozen=True, eq=False)
class Split:
    """One party's texts: to train on, to choose an epoch by, to be tested on."""

    train: Texts
    validation: Texts
    test: Texts

    @property
    def name(self) -> str:
        """Name of the party."""
        return self.train.name


@dataclass(frozen=True, eq=False)
class Task:
    """A task of the paper.

    ``name``: ``"sentiment"``, ``"emotion"`` or ``"nli"``. ``space``: the paper's label space.
    ``own``: what the global model was trained on before. ``local``: what the teachers have.
    ``transfer``: texts whose labels nobody looks at. ``pairs``: whether inputs are pairs of
    texts.
    """

    name: str
    space: LabelSpace
    own: Split
    local: tuple[Split, ...]
    transfer: Texts
    pairs: bool = False


def sentiment(context: Context, seed: int, *, transfer: Sequence[str] = ("kitchen",)) -> Task:
    """SST-5 for the global model; Amazon domains for teachers, but those of the transfer set.

    Reviews have 1, 2, 4 or 5 stars: no teacher knows the neutral class.
    """
    seen: set[str] = set()
    own = split(unique(sst5(context), seen), seed)
    domains = [unique(part, seen) for part in amazon(context)]
    asked = [part for part in domains if part.name in transfer]
    local = [split(part, seed) for part in domains if part.name not in transfer]
    space = LabelSpace.preset("sentiment-5")
    together = asked[0].joined(*asked[1:], name="+".join(part.name for part in asked))
    return Task("sentiment", space, own, tuple(local), together)


def emotion(context: Context, seed: int) -> Task:
    """Quarters of DailyDialog, by dialogue, and MELD: five emotions.

    Quarter 0 is the global model's, 1 and 2 and MELD are teachers', 3 is the transfer set.
    """
    seen: set[str] = set()
    meld_split = split(unique(meld(context), seen), seed)
    quarters = parts(unique(dailydialog(context), seen), 4, seed)
    local = (meld_split, split(quarters[1], seed), split(quarters[2], seed))
    space = LabelSpace.preset("emotion")
    return Task("emotion", space, split(quarters[0], seed), local, quarters[3])


def nli(context: Context, seed: int, *, concentration: float = 1.0) -> Task:
    """SNLI for the global model; SICK in quarters of unlike labels, one of them to transfer."""
    seen: set[str] = set()
    own = split(unique(snli(context), seen), seed)
    quarters = skewed(unique(sick(context), seen), 4, concentration, seed)
    local = tuple(split(part, seed) for part in quarters[:3])
    return Task("nli", LabelSpace.preset("nli"), own, local, quarters[3], pairs=True)


TASKS = {"sentiment": sentiment, "emotion": emotion, "nli": nli}


def sst5(context: Context) -> Texts:
    """Stanford Sentiment Treebank, sentences, five classes, with sentence vectors."""
    rows = context.table("sst5")
    return _texts(
        "sst5",
        [row["text"] for row in rows],
        [int(row["label"]) for row in rows],
        official=[row["split"] for row in rows],
        vectors=context.sentences("sst5"),
    )


def amazon(context: Context) -> tuple[Texts, ...]:
    """Reviews by domain; stars 1, 2, 4 and 5 of five, with sentence vectors."""
    rows = context.table("amazon_multidomain")
    whole = _texts(
        "amazon",
        [f"{row['title']}. {row['text']}" for row in rows],
        [_STARS[row["rating"]] for row in rows],
        vectors=context.sentences("amazon_multidomain"),
    )
    domains = np.array([row["domain"] for row in rows])
    return tuple(whole.take(np.flatnonzero(domains == name), name) for name in DOMAINS)


def meld(context: Context) -> Texts:
    """Utterances of a TV series; disgust and fear left out."""
    rows = [row for row in context.table("meld") if row["Emotion"] in _MELD]
    return _texts(
        "meld",
        [row["Utterance"] for row in rows],
        [_MELD[row["Emotion"]] for row in rows],
        keys=[f"{row['split']} {row['Dialogue_ID']}" for row in rows],
        official=[row["split"] for row in rows],
    )


def dailydialog(context: Context) -> Texts:
    """Utterances of everyday dialogues; disgust and fear left out. Its parts are made here."""
    rows = [row for row in context.table("dailydialog") if row["emotion"] in _DAILY]
    return _texts(
        "dailydialog",
        [row["utterance"] for row in rows],
        [_DAILY[row["emotion"]] for row in rows],
        keys=[f"{row['split']} {row['dialog']}" for row in rows],
    )


def snli(context: Context) -> Texts:
    """An excerpt of SNLI, grouped by premise."""
    return _pairs("snli", context.table("snli"), "gold_label")


def sick(context: Context) -> Texts:
    """SICK, grouped by premise."""
    return _pairs("sick", context.table("sick_nli"), "label")


def unique(texts: Texts, seen: set[str]) -> Texts:
    """Texts that are not in ``seen``, the first of those alike; adds them to it."""
    places = {text.lower(): row for row, text in reversed(list(enumerate(texts.inputs)))}
    kept = sorted(row for text, row in places.items() if text not in seen)
    seen.update(places)
    return texts.take(np.array(kept))


def split(texts: Texts, seed: int, *, shares: tuple[float, float] = (0.1, 0.2)) -> Split:
    """As the data set says, or at random: shares to validate and to test, whole groups each."""
    official = np.array(texts.official)
    if (official != "").all():
        where = [np.flatnonzero(official == name) for name in ("train", "dev", "test")]
    else:
        bounds = (1.0 - sum(shares), 1.0 - shares[1])
        where = _by_group(texts, bounds, stream(4001, seed))
    return Split(*(texts.take(rows) for rows in where))


def parts(texts: Texts, count: int, seed: int) -> list[Texts]:
    """Parts of about equal size, whole groups each."""
    bounds = tuple((i + 1) / count for i in range(count - 1))
    rows = _by_group(texts, bounds, stream(4002, seed))
    return [texts.take(found, f"{texts.name}-{i}") for i, found in enumerate(rows)]


def skewed(texts: Texts, count: int, concentration: float, seed: int) -> list[Texts]:
    """Parts with unlike shares of labels: each class is dealt by a Dirichlet draw.

    The last part, which others are asked about, is dealt the same share of every class. Groups
    are not kept together: with few labels that would undo the shares.
    """
    rng = stream(4003, seed)
    rows: list[list[int]] = [[] for _ in range(count)]
    for code in np.unique(texts.codes):
        order = rng.permutation(np.flatnonzero(texts.codes == code))
        drawn = rng.dirichlet(np.full(count - 1, concentration)) * (1.0 - 1.0 / count)
        cuts = np.rint(np.cumsum(drawn) * len(order)).astype(int)
        for part, found in zip(rows, np.split(order, cuts), strict=True):
            part.extend(found.tolist())
    return [texts.take(np.sort(part), f"{texts.name}-{i}") for i, part in enumerate(rows)]


def _by_group(texts: Texts, bounds: tuple[float, ...], rng: np.random.Generator) -> list[Labels]:
    names, place, sizes = np.unique(texts.groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    before = np.cumsum(sizes[order]) - sizes[order]
    side = np.empty(len(names), dtype=np.int64)
    side[order] = np.searchsorted(np.array(bounds) * len(texts), before, side="right")
    return [np.flatnonzero(side[place] == i) for i in range(len(bounds) + 1)]


def _pairs(name: str, rows: Sequence[dict[str, str]], column: str) -> Texts:
    return _texts(
        name,
        [PAIR.join((_plain(row["premise"]), _plain(row["hypothesis"]))) for row in rows],
        [_INFERENCE.index(row[column].lower()) for row in rows],
        keys=[row["premise"] for row in rows],
        plain=True,
    )


def _texts(
    name: str,
    texts: Sequence[str],
    codes: Sequence[int],
    *,
    keys: Sequence[str] | None = None,
    official: Sequence[str] | None = None,
    vectors: Array | None = None,
    plain: bool = False,
) -> Texts:
    groups = (
        np.arange(len(texts))
        if keys is None
        else np.unique(np.array(keys), return_inverse=True)[1].astype(np.int64)
    )
    return Texts(
        name,
        list(texts) if plain else [_plain(text) for text in texts],
        np.array(codes, dtype=np.int64),
        groups,
        list(official or [""] * len(texts)),
        vectors,
    )


def _plain(text: str) -> str:
    # A tab would make a pair of it.
    return re.sub(r"\s+", " ", text).strip()
