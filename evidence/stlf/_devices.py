"""Networks of devices with parts of MNIST, USPS and MNIST-M: the nine settings of ST-LF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PIL import Image

from evidence.common import Array, Context, Images, Labels, stream
from silot import Measure

FOLDERS = {"M": "mnist", "U": "usps", "MM": "mnist_m"}
SINGLE = ("M", "U", "MM")
MIXED = ("M+MM", "M+U", "MM+U")
SPLIT = ("M//MM", "M//U", "MM//U")
SETTINGS = (*SINGLE, *MIXED, *SPLIT)

SIDE = 28
UNLABELLED = ""
"""Label of a record whose class its device does not know."""

_CLASSES = 10
# Of the settings with one set of clean digits every device has this many classes.
_SUBSET = 4
_POOL = 20_000


@dataclass(frozen=True, eq=False)
class Device:
    """One device.

    ``name``: ``"d0"`` to ``"d9"``. ``points``: grey images of 28 x 28 pixels as rows, from -1
    to 1. ``truth``: digit of every image: for evaluation alone. ``labelled``: which digits the
    device knows. ``sets``: data set every image is from.
    """

    name: str
    points: Array = field(repr=False)
    truth: Labels = field(repr=False)
    labelled: npt.NDArray[np.bool_] = field(repr=False)
    sets: npt.NDArray[np.str_] = field(repr=False)

    @property
    def measure(self) -> Measure:
        """What the device has: records, those it cannot name labelled ``UNLABELLED``."""
        names = np.where(self.labelled, self.truth.astype(str), UNLABELLED)
        return Measure(self.points, labels=names)

    @property
    def evaluation(self) -> Measure:
        """The same records with all labels."""
        return Measure(self.points, labels=self.truth)


@dataclass(frozen=True, eq=False)
class Network:
    """Devices and their radio.

    ``setting, seed``: what it was drawn by. ``devices``: the first half has some labels, the
    other none. ``power``: shape (N,): transmission power in dBm. ``rate``: shape (N, N),
    symmetric: transmission rate in Mbit/s.
    """

    setting: str
    seed: int
    devices: tuple[Device, ...]
    power: Array
    rate: Array

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the devices."""
        return tuple(device.name for device in self.devices)

    def energy(self, bits: float = 1e9) -> Array:
        """Joules to send a model from row to column; zero diagonal."""
        watts = 10.0 ** (self.power / 10.0) / 1000.0
        joules = bits / (self.rate * 1e6) * watts[:, None]
        np.fill_diagonal(joules, 0.0)
        return joules


class Pools:
    """Images of the three sets by class, read once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pools: dict[str, tuple[Array, Labels]] = {}

    def __getitem__(self, name: str) -> tuple[Array, Labels]:
        if name not in self._pools:
            images, labels = self._context.images(FOLDERS[name])
            if name == "M":
                # Only images that no MNIST-M image was made from.
                blended = self._context.array(FOLDERS["MM"], "src_train")
                rows = np.setdiff1d(np.arange(len(images)), blended)
                images, labels = images[rows], labels[rows]
            self._pools[name] = (_grey(images[:_POOL]), labels[:_POOL])
        return self._pools[name]


def device_network(
    setting: str,
    seed: int,
    pools: Pools,
    *,
    devices: int = 10,
    sizes: tuple[int, int] = (200, 800),
    concentration: float = 1.0,
    labelled: tuple[float, float] = (0.2, 1.0),
) -> Network:
    """Draw a network."""
    rng = stream(30, SETTINGS.index(setting), seed)
    sets = setting.replace("//", "+").split("+")
    homes = _homes(rng, sets, devices) if "//" in setting else [sets] * devices
    stock = {name: _Stock(pools[name], rng) for name in sets}
    found: list[Device] = []
    for k in range(devices):
        size = int(rng.integers(sizes[0], sizes[1] + 1))
        law = np.zeros(_CLASSES)
        few = setting in ("M", "U")
        classes = rng.choice(_CLASSES, _SUBSET, replace=False) if few else np.arange(_CLASSES)
        law[classes] = rng.dirichlet([concentration] * len(classes))
        truth = rng.choice(_CLASSES, size, p=law)
        origin = rng.choice(homes[k], size)
        points = np.array([stock[s].take(c) for s, c in zip(origin, truth.tolist(), strict=True)])
        known = np.zeros(size, dtype=bool)
        if k < devices // 2:
            share = rng.uniform(*labelled)
            known[rng.permutation(size)[: max(20, round(size * share))]] = True
        found.append(Device(f"d{k}", points, truth.astype(np.int64), known, origin))
    rate = rng.uniform(63.0, 85.0, (devices, devices))
    rate = np.triu(rate, 1) + np.triu(rate, 1).T + np.diag(np.diag(rate))
    return Network(setting, seed, tuple(found), rng.uniform(23.0, 25.0, devices), rate)


class _Stock:
    """Images handed out once each, class by class; from the start again when there are no more."""

    def __init__(self, pool: tuple[Array, Labels], rng: np.random.Generator) -> None:
        self._points, labels = pool
        order = rng.permutation(len(labels))
        self._rows: Mapping[int, npt.NDArray[np.int64]] = {
            code: order[labels[order] == code] for code in range(_CLASSES)
        }
        self._taken = dict.fromkeys(range(_CLASSES), 0)

    def take(self, code: int) -> Array:
        rows = self._rows[code]
        self._taken[code] += 1
        return self._points[rows[(self._taken[code] - 1) % len(rows)]]


def _homes(rng: np.random.Generator, sets: list[str], devices: int) -> list[list[str]]:
    """A set for every device: both among the labelled devices, and both among the others."""
    found: list[list[str]] = []
    half = devices // 2
    for size in (half, devices - half):
        part = [sets[0]] * (size // 2) + [sets[1]] * (size // 2)
        part += [str(rng.choice(sets)) for _ in range(size % 2)]
        found += [[str(name)] for name in rng.permutation(part)]
    return found


def _grey(images: Images) -> Array:
    """Rows of 28 x 28 pixels from -1 to 1."""
    if images.ndim == 4:
        images = images.astype(np.float64).mean(axis=3).round().astype(np.uint8)
    if images.shape[1:] != (SIDE, SIDE):
        size = (SIDE, SIDE)
        images = np.array(
            [np.asarray(Image.fromarray(k).resize(size, Image.Resampling.BILINEAR)) for k in images]
        )
    return images.reshape(len(images), -1) / 127.5 - 1.0
