"""What the figures share: data, random streams, and numbers of runs."""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

Array = npt.NDArray[np.float64]
Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Numbers = dict[str, float]
T = TypeVar("T")

# FedWaD as published: holders send means of records, whatever the sizes.
WALK: dict[str, Any] = {"method": "fedwad", "interpolation": "barycentric"}

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
DATA_VARIABLE = "SILOT_DATA"
# Relative to the repository's root, where the command is run.
DEFAULT_DATA = "../shared/data"


class MissingError(Exception):
    """A dataset or a program that a figure needs is not there."""


@dataclass(frozen=True)
class Context:
    """How a figure is run.

    ``paper, figure``: which one, as the command names it. ``data``: folder with one folder a
    dataset. ``full``: whether to use the paper's sizes as far as sensible, instead of minutes
    on two cores. ``quick``: whether seconds must do: constants of a module that its ``QUICK``
    names have the values it has for them. No page is written.
    """

    paper: str
    figure: str
    data: Path
    full: bool
    quick: bool = False

    @property
    def name(self) -> str:
        """Name of the page."""
        return f"{self.paper}-{self.figure}"

    def size(self, sizes: Sequence[T]) -> T:
        """The first of two sizes (or ranges of seeds), the second with ``--full``."""
        return sizes[self.full]

    def say(self, message: str) -> None:
        """Print progress; not to stdout, which carries the page."""
        print(f"[{self.name}] {message}", file=sys.stderr, flush=True)

    def images(self, folder: str, part: str = "train") -> tuple[Images, Labels]:
        """Images and labels of a dataset, as stored; ``MissingError`` if absent."""
        return self.array(folder, f"X_{part}"), self.array(folder, f"y_{part}").astype(np.int64)

    def array(self, folder: str, name: str) -> npt.NDArray[Any]:
        """One array of a dataset, as stored; ``MissingError`` if absent."""
        with np.load(self._path(folder, f"{folder}.npz")) as stored:
            return stored[name]

    def stored(self, folder: str, stem: str) -> Mapping[str, npt.NDArray[Any]]:
        """Arrays of a file, as stored; ``MissingError`` if absent."""
        with np.load(self._path(folder, f"{stem}.npz")) as found:
            return {name: found[name] for name in found.files}

    def sentences(self, folder: str) -> Array:
        """MiniLM sentence vectors (n, 384) of the texts of a table."""
        return self.stored("text_embeddings", f"{folder}_minilm")["X"].astype(np.float64)

    def words(self) -> tuple[list[str], Array]:
        """Words, and their public GloVe vectors (37645, 100)."""
        stored = self.stored("word_vectors", "glove_wink_100d")
        return str(stored["words"]).split("\n"), stored["vectors"].astype(np.float64)

    def _path(self, folder: str, name: str) -> Path:
        path = self.data / folder / name
        if not path.is_file():
            raise MissingError(
                f"{name} is not in the data folder (give --data DIR or set {DATA_VARIABLE})"
            )
        return path

    def table(self, folder: str, stem: str = "") -> list[dict[str, str]]:
        """Rows of a table, as stored; ``MissingError`` if absent."""
        path = self._path(folder, f"{stem or folder}.csv.gz")
        with gzip.open(path, "rt", encoding="utf-8", newline="") as stored:
            return list(csv.DictReader(stored))


def stream(*key: int) -> np.random.Generator:
    """Random numbers of their own for a figure.

    Two numbers or more: silot draws its reference from ``default_rng(seed)``, and data drawn
    from that very stream would be the reference, scaled.
    """
    if len(key) < 2:
        raise ValueError("a stream needs a key of two numbers or more")
    return np.random.default_rng(list(key))


def columns(rows: Sequence[Mapping[str, str]]) -> Array:
    """Features of a table: numbers as they are, texts as one column a value."""
    parts: list[Array] = []
    for name in rows[0]:
        if name == "target":
            continue
        texts = np.array([row[name] for row in rows])
        try:
            parts.append(texts.astype(np.float64))
        except ValueError:
            parts += [(texts == kind) * 1.0 for kind in np.unique(texts)]
    return np.stack(parts, axis=1)


def signed_pixels(images: Images) -> Array:
    """Images as rows, pixels from -1 to 1."""
    return images.reshape(len(images), -1) / 127.5 - 1.0


def mean(values: Iterable[float]) -> float:
    """Mean of the numbers that there are; NaN if there is none."""
    there = [value for value in values if not np.isnan(value)]
    return float(np.mean(there)) if there else float("nan")


def means(runs: Sequence[Numbers]) -> Numbers:
    """Mean of every number over runs."""
    return {key: mean(run[key] for run in runs) for key in runs[0]}


def rank_correlation(x: Array, y: Array) -> float:
    """Spearman's, 0 where one of them does not vary."""
    return 0.0 if np.ptp(x) == 0 or np.ptp(y) == 0 else float(spearmanr(x, y).statistic)
