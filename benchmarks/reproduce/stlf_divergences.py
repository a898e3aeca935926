"""Paper 003, Algorithm 1 and its rivals: how well divergences tell what a model loses on its way.

Also the order of magnitude of ``as_error``, which stands for half a divergence in eq. 18.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from silot import LocalFederation, Measure
from silot.learning import ModelSpec, initial, probabilities, train
from silot.protocols.divergences import divergences

from .common import Array, Claim, Context, Labels, Report, Table, verdict
from .networks import Network, Pools, device_network

SKEWED = ("M", "U")
MIXED = ("M//MM", "M//U", "MM//U")
SIZES = (200, 500)
CNN = ModelSpec("cnn", (28, 28), 10)
LINEAR = ModelSpec("logistic", (784,), 2)
_TRAINING: dict[str, Any] = {"iterations": 300, "rate": 0.01, "batch": 10, "momentum": 0.9}
_PUBLIC = 600


@dataclass(frozen=True)
class Way:
    """A divergence with options; slow ones see the first seeds only."""

    name: str
    method: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    seeds: int = 1000


ALGORITHM = "Algorithm 1 (CNN)"
CENTRED = "Algorithm 1 (CNN), best threshold"
LINE = "linear classifier, best threshold"
WAYS = (
    Way(ALGORITHM, "classifier", {"model": CNN, "rounds": 6, "iterations": 5, "threshold": "half"}),
    Way(CENTRED, "classifier", {"model": CNN, "rounds": 6, "iterations": 5}),
    Way(LINE, "classifier", {"model": LINEAR, "rounds": 6, "iterations": 5}),
    Way("MMD", "mmd"),
    Way("sliced W2", "sliced"),
    Way("W2, sketched (epsilon 4)", "sketch", {"privacy_epsilon": 4.0}),
    Way("W2, exact (pooled)", "direct"),
    Way("W2, TriangleWad", "trianglewad", {"support": 60}, seeds=1),
    Way("W2, FedWaD", "fedwad", {"support": 60, "rounds": 2}, seeds=1),
)


@dataclass
class Found:
    """What one divergence did on one network."""

    order: float
    cost_order: float
    alike: float
    other: float
    seconds: float
    megabytes: float


Runs = dict[tuple[str, str], list[Found]]
"""By divergence and setting."""


def run(context: Context) -> Report:
    """Compare divergences on networks of ten devices."""
    seeds = 10 if context.full else 5
    pools = Pools(context)
    runs: Runs = {}
    truth: dict[str, list[tuple[float, float]]] = {}
    for setting in (*SKEWED, *MIXED):
        for seed in range(seeds):
            context.say(f"{setting}, seed {seed}")
            network = device_network(setting, seed, pools, sizes=SIZES)
            errors, own = transfer_errors(network)
            alike, other = _masks(network)
            excess = errors - own[:, None]
            truth.setdefault(setting, []).append((_mean(excess, alike), _mean(excess, other)))
            for way in WAYS:
                if seed < way.seeds:
                    public = _public(setting, pools, network)
                    found = _compare(way, network, errors, own, public)
                    runs.setdefault((way.name, setting), []).append(found)
    return Report(
        title="Paper 003, Algorithm 1: divergences against transfer errors",
        about="Ten devices hold parts of MNIST (M), USPS (U) or MNIST-M (MM). The first five have "
        "labels and train the paper's CNN; its error on every other device's records is what a "
        "divergence is meant to foretell, from records without labels.",
        setup=[
            f"{seeds} networks a setting of 10 devices with {SIZES[0]} to {SIZES[1]} records, "
            "labels by a Dirichlet law (concentration 1) over 4 classes of the device's own for M "
            "and U, over all 10 else; a share of 0.2 to 1 of the records labelled on the first "
            "five devices. Images of 28 x 28 grey pixels.",
            "Transfer error: CNN of the paper, one start, 300 steps of 10 records, rate .01, "
            "momentum .9 (its 100 steps without momentum hardly leave chance). Own error of a "
            "source: that of a model of one half of its labelled records on the other.",
            "Order: Spearman correlation of the divergence with the transfer error over 45 links "
            "from five sources to the other devices. Cost: of own error plus as_error, the part "
            "of eq. 18 that depends on the pair. Medians over seeds, worst in brackets.",
            "Algorithm 1: 6 rounds of 5 steps, rate .01, batches of 10, as Divergences of silot. "
            "Half-way threshold is the paper's; the best threshold is that of least error, from "
            "quantiles of scores.",
            f"Sketches: {_PUBLIC} images of the same sets that no device has are public. "
            "TriangleWad and FedWaD (2 rounds of 60 atoms) on one seed a setting, for their time.",
        ],
        claims=_claims(runs),
        tables=[
            _orders(runs, "Order: correlation with the transfer error.", lambda k: k.order),
            _orders(runs, "Cost: correlation of own error + as_error.", lambda k: k.cost_order),
            _bill(runs),
            _levels(runs, truth),
        ],
    )


def transfer_errors(network: Network) -> tuple[Array, Array]:
    """Errors (N, N) of source i's model on device j, NaN without labels, and own errors (N,)."""
    size = len(network.devices)
    errors, own = np.full((size, size), np.nan), np.full(size, np.nan)
    start = initial(CNN, network.seed)
    for i, source in enumerate(network.devices):
        if not source.labelled.any():
            continue
        x, y = source.points[source.labelled], source.truth[source.labelled]
        model = train(CNN, start, x, y, seed=i, **_TRAINING)
        for j, device in enumerate(network.devices):
            errors[i, j] = _wrong(model, device.points, device.truth).mean()
        own[i] = _held_out(start, x, y, i)
    return errors, own


def _held_out(start: Array, x: Array, y: Labels, seed: int) -> float:
    order = np.random.default_rng([31, seed]).permutation(len(x))
    out, rest = order[::2], order[1::2]
    model = train(CNN, start, x[rest], y[rest], seed=seed, **_TRAINING)
    return float(_wrong(model, x[out], y[out]).mean())


def _wrong(model: Array, x: Array, y: Labels) -> npt.NDArray[np.bool_]:
    return probabilities(CNN, model, x).argmax(axis=1) != y


def _masks(network: Network) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Links from labelled devices, between devices of the same set and of different ones."""
    homes = np.array([device.sets[0] for device in network.devices])
    labelled = np.array([device.labelled.any() for device in network.devices])
    links = labelled[:, None] & ~np.eye(len(homes), dtype=bool)
    same = homes[:, None] == homes[None, :]
    return links & same, links & ~same


def _public(setting: str, pools: Pools, network: Network) -> Array:
    """Images of the sets of a setting that no device has."""
    sets = setting.replace("//", "+").split("+")
    held = {row.tobytes() for device in network.devices for row in device.points}
    parts: list[Array] = []
    for name in sets:
        rows = pools[name][0][::-1]
        free = [row for row in rows[: 4 * _PUBLIC] if row.tobytes() not in held]
        parts.append(np.array(free[: _PUBLIC // len(sets)]))
    return np.concatenate(parts)


def _compare(way: Way, network: Network, errors: Array, own: Array, public: Array) -> Found:
    options = dict(way.options)
    if way.method == "sketch":
        options["public"] = public
    federation = LocalFederation(
        {device.name: Measure(device.points) for device in network.devices}
    )
    began = time.perf_counter()
    result = federation.run(divergences(network.names, method=way.method, **options))
    seconds = time.perf_counter() - began
    alike, other = _masks(network)
    links = alike | other
    read = result.as_error()
    return Found(
        order=_spearman(result.values[links], errors[links]),
        cost_order=_spearman((read + own[:, None])[links], errors[links]),
        alike=_mean(read, alike),
        other=_mean(read, other),
        seconds=seconds,
        megabytes=(result.bytes_sent + result.bytes_received) / 1e6,
    )


def _spearman(x: Array, y: Array) -> float:
    return 0.0 if np.ptp(x) == 0 or np.ptp(y) == 0 else float(spearmanr(x, y).statistic)


def _mean(table: Array, mask: npt.NDArray[np.bool_]) -> float:
    return float(table[mask].mean()) if mask.any() else float("nan")


def _settings(runs: Runs) -> list[str]:
    return list(dict.fromkeys(setting for _, setting in runs))


def _orders(runs: Runs, caption: str, read: Callable[[Found], float]) -> Table:
    settings = _settings(runs)
    rows = [
        [way.name, *(_told([read(k) for k in runs[way.name, setting]]) for setting in settings)]
        for way in WAYS
    ]
    return Table(caption, ["divergence", *settings], rows)


def _bill(runs: Runs) -> Table:
    rows: list[list[str]] = []
    for way in WAYS:
        found = [k for setting in _settings(runs) for k in runs[way.name, setting]]
        seconds = float(np.median([k.seconds for k in found]))
        size = float(np.median([k.megabytes for k in found]))
        rows.append([way.name, f"{seconds:.1f}", f"{size:.2f}"])
    return Table("Bill of one network, medians.", ["divergence", "seconds", "MB"], rows)


def _levels(runs: Runs, truth: dict[str, list[tuple[float, float]]]) -> Table:
    settings = _settings(runs)
    rows = [["what the model loses", *(_two(truth[setting]) for setting in settings)]]
    rows += [
        [way.name, *(_two([(k.alike, k.other) for k in runs[way.name, s]]) for s in settings)]
        for way in WAYS
    ]
    return Table(
        "as_error on average, against transfer error less own error: between devices of the same "
        "set / of different sets.",
        ["divergence", *settings],
        rows,
    )


def _two(values: Sequence[tuple[float, float]]) -> str:
    alike, other = (float(np.mean(column)) for column in zip(*values, strict=True))
    return f"{alike:.2f}" if np.isnan(other) else f"{alike:.2f} / {other:.2f}"


def _told(values: list[float]) -> str:
    return f"{np.median(values):.2f} ({min(values):.2f})"


def _claims(runs: Runs) -> list[Claim]:
    def middle(name: str, settings: Sequence[str]) -> float:
        return float(np.median([k.order for setting in settings for k in runs[name, setting]]))

    def cost(name: str) -> tuple[float, float]:
        found = [k for setting in _settings(runs) for k in runs[name, setting]]
        return (
            float(np.median([k.seconds for k in found])),
            float(np.median([k.megabytes for k in found])),
        )

    slow, fast = cost(ALGORITHM), cost("MMD")
    names = (ALGORITHM, CENTRED, LINE, "MMD", "sliced W2", "W2, exact (pooled)")
    skewed = {name: middle(name, SKEWED) for name in names}
    mixed = {name: middle(name, MIXED) for name in names}

    def listed(found: dict[str, float]) -> str:
        return "; ".join(f"{name} {value:.2f}" for name, value in found.items())

    return [
        Claim(
            "a domain classifier trained by exchange tells how far devices are apart",
            "used for all results, correlation not given",
            f"label skew: {listed(skewed)}",
            verdict(skewed[ALGORITHM] > 0.5, partly=skewed[CENTRED] > 0.5),
            "Each device trains on one label. The average's bias drifts, and both devices are "
            "often taken for one side: an error of ½, which reads as no divergence. Another "
            "threshold for the same classifier mends that.",
        ),
        Claim(
            "the same on mixed domains",
            "used for all results, correlation not given",
            listed(mixed),
            verdict(mixed[ALGORITHM] > 0.5, partly=mixed[CENTRED] > 0.3),
            "The error of a model depends on the source more than on the way; a divergence is "
            "symmetric and knows nothing of it.",
        ),
        Claim(
            "Algorithm 1 is cheap",
            "exchanges hypotheses only",
            f"{slow[0]:.0f} s and {slow[1]:.0f} MB; MMD {fast[0]:.1f} s and {fast[1]:.1f} MB",
            verdict(slow[1] < fast[1]),
        ),
    ]
