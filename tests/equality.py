"""Whether a rebuilt silot computes the same, bit by bit.

Over 200 runs of all protocols, commands, reports and errors, through what users call::

    OLD/.venv/bin/python -m tests.equality record old.json
    python -m tests.equality record new.json
    python -m tests.equality compare old.json new.json

Seconds, versions and folders are left out of what is compared, all else must be equal. Numbers are
compared as they print: on one machine, with one set of libraries and one thread.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import silot
from silot.errors import SilotError

Case = tuple[str, Callable[[], Any]]

# Of a clock, or of the machine.
_CLOCKS = {"seconds", "version", "moment", "created", "elapsed"}
_SECONDS = re.compile(r"\b\d+(\.\d+)?(e-?\d+)? ?(ms|s)\b(?=[\s,;.<)|]|$)")
# Seconds of pairs in a table, and of single answers.
_TIMES = re.compile(r"(?<=kB) +\d+\.\d\d(?= +\w)|(?<=answers took) [\d.e-]+ to")
_DRAWN = re.compile(
    r"(<svg.*?</svg>|<style.*?</style>|<script.*?</script>|data:image[^\"')]*)", re.S
)
_VERSION = re.compile(r"silot \d+(\.\w+)+|\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?")


# What is compared.


def cloud(seed: int, size: int, d: int = 3, shift: float = 0.0) -> np.ndarray:
    """Records of a normal law, moved along the diagonal."""
    return np.random.default_rng(seed).normal(size=(size, d)) + shift


def kinds(x: np.ndarray) -> np.ndarray:
    """Two classes, by the first feature."""
    return np.where(x[:, 0] > np.median(x[:, 0]), "high", "low")


def labelled(seed: int, size: int, d: int = 3, shift: float = 0.0) -> silot.Measure:
    x = cloud(seed, size, d, shift)
    return silot.Measure(x, labels=kinds(x))


def weighted(seed: int, size: int, d: int = 3, shift: float = 0.0) -> silot.Measure:
    x = cloud(seed, size, d, shift)
    return silot.Measure(x, np.random.default_rng(seed + 1).dirichlet(np.ones(size)))


def pairs() -> dict[str, tuple[Any, Any]]:
    x = cloud(1, 24)
    return {
        "plain": (x, cloud(2, 24, shift=1.0)),
        "sizes": (cloud(3, 17), cloud(4, 29, shift=0.5)),
        "weighted": (weighted(5, 14), weighted(6, 19, shift=2.0)),
        "line": (cloud(7, 15, 1), cloud(8, 21, 1, 1.0)),
        "same": (x, x),
        "point": (np.zeros((1, 2)), np.full((3, 2), 2.0)),
    }


def distances() -> Iterator[Case]:
    ways: dict[str, dict[str, Any]] = {
        "direct": {},
        "direct p=1": {"p": 1},
        "fedwad": {"method": "fedwad", "support": 12, "rounds": 6},
        "fedwad p=1": {"method": "fedwad", "support": 12, "rounds": 4, "p": 1},
        "fedwad exact": {
            "method": "fedwad", "support": 9, "rounds": 4, "interpolation": "exact", "t": 0.4,
        },
        "fedwad reference": {"method": "fedwad", "reference_mean": 2.0, "reference_scale": 0.5,
                             "support": 10, "rounds": 5, "seed": 3, "tol": 0.01},
        "trianglewad": {"method": "trianglewad"},
        "trianglewad exact": {"method": "trianglewad", "interpolation": "exact", "t": 0.7},
        "trianglewad p=1": {"method": "trianglewad", "p": 1, "support": 11, "seed": 5},
    }  # fmt: skip
    for case, (x, y) in pairs().items():
        for way, options in ways.items():
            yield f"distance {way}, {case}", lambda x=x, y=y, o=options: silot.distance(x, y, **o)
    a, b = labelled(9, 20), labelled(10, 26, shift=1.0)
    for covariance in ("diagonal", "diagonal-of-root", "full"):
        for method in ("direct", "fedwad", "trianglewad"):
            options = {"rounds": 4, "support": 9} if method == "fedwad" else {}
            yield (
                f"distance {method}, labels {covariance}",
                lambda m=method, c=covariance, o=options: silot.distance(
                    a, b, method=m, labels=True, covariance=c, **o
                ),
            )
    for labels in (False, True):
        yield f"distance why, {labels}", lambda q=labels: silot.distance(a, b, labels=q, why=True)
    market = {"b": cloud(11, 12), "a": weighted(12, 9), "c": cloud(13, 15, shift=2.0)}
    for way in ("direct", "trianglewad", "fedwad p=1"):
        yield f"matrix {way}", lambda o=ways[way]: silot.distance_matrix(market, **o)
    buyer = cloud(14, 20)
    for options in (
        {}, {"hidden": True}, {"shares": "weights"}, {"shares": {"a": 1, "b": 2, "c": 3}},
        {"p": 1}, {"interpolation": "exact", "t": 0.3}, {"support": 8, "seed": 4},
    ):  # fmt: skip
        yield f"pooled {options}", lambda o=options: silot.pooled_distance(market, buyer, **o)


def secure() -> Iterator[Case]:
    if find_spec("spu") is None:
        return
    x, y = cloud(15, 12), cloud(16, 10, shift=1.0)
    for options in ({}, {"accuracy": "fast"}, {"two_party": True}):
        yield (
            f"secure {options}",
            lambda o=options: silot.distance(x, y, method="secure", scale=3.0, **o),
        )


def sketches() -> Iterator[Case]:
    public = labelled(17, 600, 2)
    holders = {k: labelled(18 + n, 1500, 2, n / 2) for n, k in enumerate("abc")}
    own = labelled(30, 200, 2)
    for labels in (False, True):
        options: dict[str, Any] = {"public": public, "labels": labels}
        x, y = holders["a"], holders["b"]
        yield (
            f"sketch distance {labels}",
            lambda x=x, y=y, o=options: silot.distance(x, y, method="sketch", **o),
        )
        yield (
            f"sketch matrix {labels}",
            lambda o=options: silot.distance_matrix(holders, method="sketch", **o),
        )
        yield (
            f"sketch barycenter {labels}",
            lambda o=options: silot.barycenter(holders, method="sketch", support=20, **o),
        )
        for aim in (own, None):
            yield (
                f"sketch values {labels} {aim is None}",
                lambda o=options, v=aim: silot.value_holders(
                    holders, v, method="sketch", map="sketch", why=True, shapley=True, **o
                ),
            )
    yield "sketches", lambda: silot.api.sketches(holders, own, public=public)
    yield (
        "sketches without public records",
        lambda: silot.api.sketches(holders, public_mean=[0.0, 0.0], public_scale=2.0).matrix(),
    )
    yield "clusters", lambda: silot.cluster(silot.api.sketches(holders, public=public), k=2)


def values() -> Iterator[Case]:
    market = {k: labelled(40 + n, 20 + 6 * n, 3, n / 3) for n, k in enumerate(["n", "s", "e"])}
    own = labelled(50, 25)
    for options in (
        {}, {"labels": True}, {"labels": True, "label_metric": "vectors"}, {"why": True},
        {"labels": True, "why": True}, {"map": "direct"}, {"shapley": True},
        {"intervals": False}, {"labels": True, "class_tolerance": 0.0},
        {"method": "fedbary", "support": 9, "rounds": 4}, {"method": "trianglewad"},
        {"method": "direct"}, {"method": "direct", "why": True, "shapley": True},
        {"method": "direct", "labels": True, "label_metric": "vectors"},
    ):  # fmt: skip
        yield f"value {options}", lambda o=options: silot.value_holders(market, own, **o)
    for options in (
        {}, {"labels": True}, {"map": "direct"}, {"why": True, "labels": True}, {"shapley": True},
    ):  # fmt: skip
        yield (
            f"value without validation {options}",
            lambda o=options: silot.value_holders(market, support=9, rounds=5, **o),
        )
    for options in (
        {}, {"labels": True}, {"weights": {"n": 1.0, "s": 2.0, "e": 1.0}},
        {"support": 4, "seed": 7},
    ):  # fmt: skip
        yield f"barycenter {options}", lambda o=options: silot.barycenter(market, rounds=6, **o)
    trusted, some = labelled(51, 90), labelled(52, 70)
    names = np.array(some.labels)
    names[:6] = np.where(names[:6] == "high", "low", "high")
    wrong = silot.Measure(np.vstack([some.points[:60], some.points[60:] * 8.0]), labels=names)
    for options in (
        {}, {"labels": True}, {"labels": True, "fdr": 0.3}, {"fdr": 0}, {"method": "published"},
        {"method": "published", "labels": True, "support": 20, "t": 0.6},
    ):  # fmt: skip
        yield f"records {options}", lambda o=options: silot.value_records(wrong, trusted, **o)
    public, many = labelled(53, 400), labelled(54, 800)
    yield (
        "records counted",
        lambda: silot.count_broken({"a": many}, public, public=labelled(55, 500), labels=True),
    )


def teaching() -> Iterator[Case]:
    x = cloud(60, 260, 4)
    truth = np.where(x[:, 0] + x[:, 1] > 0, "up", "down")
    blocks = {f"d{k}": slice(60 * k, 60 * k + 60) for k in range(4)}
    devices = {
        name: silot.Measure(x[rows], labels=truth[rows] if name < "d2" else None)
        for name, rows in blocks.items()
    }
    tests = {n: silot.Measure(x[rows], labels=truth[rows]) for n, rows in blocks.items()}
    base: dict[str, Any] = {"model": "logistic", "iterations": 60}
    for options in (
        {}, {"model": "mlp"},
        {"method": "gp", "objective": "bound"}, {"method": "st-lf"},
        {"objective": "bound", "divergence": "classifier"},
        {"divergence": "fedwad"},
        {"prior": "source"}, {"budget": 0.4, "seed": 2},
    ):  # fmt: skip
        yield (
            f"adapt {options}",
            lambda o=options: silot.adapt(devices, evaluation=tests, **{**base, **o}),
        )
    rng = np.random.default_rng(61)
    n = 7
    costs = silot.teaching.LinkCosts(
        source=rng.uniform(0.1, 1.0, n),
        transfer=rng.uniform(0.1, 2.0, (n, n)),
        energy=rng.uniform(0.0, 0.3, (n, n)),
        eligible=np.arange(n) < 5,
    )
    for options in ({}, {"method": "gp"}, {"allow_unserved": 0.3}):
        yield f"links {options}", lambda o=options: silot.teaching.links(costs, **o)


def audits() -> Iterator[Case]:
    x, y = cloud(70, 14), cloud(71, 14, shift=1.0)
    for options in (
        {"method": "direct"}, {"method": "fedwad", "support": 14, "rounds": 5},
        {"method": "trianglewad"}, {"method": "trianglewad", "interpolation": "exact"},
    ):  # fmt: skip
        for who in ("coordinator", "x", "eavesdropper"):

            def case(o: dict[str, Any] = options, who: str = who) -> Any:
                run = silot.distance(x, y, **o)
                truth = {"x": x, "y": y}
                return silot.audit(
                    run.transcript, who, {k: v for k, v in truth.items() if k != who}
                )

            yield f"audit {options} as {who}", case
    holder = silot.Measure(cloud(72, 40), labels=kinds(cloud(72, 40)))
    yield "audit of a policy", lambda: silot.audits.audit_policy(silot.Policy(), holder, draws=50)
    yield (
        "audit of an open policy",
        lambda: silot.audits.audit_policy(silot.Policy.open(), holder, draws=50),
    )


def distillation() -> Iterator[Case]:
    if find_spec("torch") is None:
        return
    import torch

    x = cloud(80, 120, 4)
    space = silot.distillation.LabelSpace.preset("sentiment-5")
    size = len(space.names)

    def teacher(column: int) -> Callable[[Any], Any]:
        def predict(points: Any) -> Any:
            scores = -np.abs(np.asarray(points)[:, [column]] - np.linspace(-1.5, 1.5, size))
            odds = np.exp(2.0 * scores)
            return odds / odds.sum(axis=1, keepdims=True)

        return predict

    for options in (
        {}, {"loss": "entropy"}, {"epsilon": 0.1}, {"robust": True}, {"weights": "uniform"},
        {"decimals": 2, "temperature": 2.0},
        {"memory": False},
    ):  # fmt: skip

        def case(o: dict[str, Any] = options) -> Any:
            torch.manual_seed(0)
            model = torch.nn.Linear(4, size)
            teachers = {"a": teacher(0), "b": teacher(1)}
            return silot.distill(model, teachers, x, labels=space, epochs=2, **o)

        yield f"distill {options}", case


def faults() -> Iterator[Case]:
    x = cloud(90, 8)
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "distance": (silot.distance, (x, x)),
        "matrix": (silot.distance_matrix, ({"a": x, "b": x},)),
        "pooled": (silot.pooled_distance, ({"a": x}, x)),
        "value": (silot.value_holders, ({"a": x}, x)),
        "barycenter": (silot.barycenter, ({"a": x, "b": x},)),
        "records": (silot.value_records, (x, x)),
        "adapt": (silot.adapt, ({"a": x, "b": x},)),
        "sketches": (silot.api.sketches, ({"a": x, "b": x},)),
    }
    wrong: tuple[dict[str, Any], ...] = (
        {"seed": -1}, {"seed": 0.5}, {"p": 3}, {"support": 0}, {"rounds": 0}, {"method": "nope"},
        {"nope": 1}, {"t": 2.0, "method": "trianglewad"}, {"labels": True}, {"tol": -1.0},
        {"method": "fedwad", "rounds": True}, {"privacy_epsilon": -1.0}, {"why": 1},
    )  # fmt: skip
    for name, (call, arguments) in calls.items():
        for options in wrong:
            yield f"fault {name} {options}", lambda c=call, a=arguments, o=options: c(*a, **o)
    odd: dict[str, Any] = {
        "nan": np.full((3, 3), np.nan), "empty": np.zeros((0, 3)), "other d": np.zeros((3, 2)),
        "texts": [["a"]], "ragged": [[1.0], [1.0, 2.0]], "flat": np.zeros(4),
    }  # fmt: skip
    for case, data in odd.items():
        yield f"fault data {case}", lambda d=data: silot.distance(x, d)


# Commands.

_COMMANDS = """
distance a.csv b.csv --columns f0,f1
distance a.npz b.npz
distance a.npz b.npz -m fedwad --rounds 5 --support 20
distance a.npz b.npz -m trianglewad --t 0.4 --json
distance a.npz b.npz --labels --why
distance a.npz b.npz -m sketch --public p.npz --json
distance a.npz missing.npz
distance a.npz b.npz -m nope
distance a.npz b.npz --support 3
distance a.npz b.npz -m fedwad --rounds 3 --transcript t.silot
distance matrix a.npz b.npz c.npz
distance matrix a.npz b.npz c.npz -m trianglewad --json
distance matrix a.npz b.npz c.npz -m sketch --public p.npz
distance pooled a.npz b.npz --buyer c.npz
distance pooled a.npz b.npz --buyer c.npz --hidden --json
distance pooled a.npz b.npz --buyer c.npz --shares weights --p 1
value a.npz b.npz c.npz --validation v.npz --report r.html
value a.npz b.npz c.npz --validation v.npz --labels --why --map direct --shapley --report r.html
value a.npz b.npz c.npz --support 20 --rounds 5 --json
value a.npz b.npz c.npz --validation v.npz --records --labels --sheet f.csv --report r.html
value a.npz b.npz --validation v.npz -m sketch --public p.npz --map sketch --report r.html
value a.npz --fdr 0.2
records a.npz --validation v.npz --labels --sheet f.csv --report r.html
records a.npz --validation v.npz --json
records a.npz --validation v.npz -m published --t 0.5 --report r.html
records a.npz --validation v.npz -m private --public p.npz --labels
records a.npz --validation a.npz
distance barycenter a.npz b.npz c.npz --support 15 --rounds 4 --out q.npz
distance barycenter a.npz b.npz -m sketch --public p.npz --json
privacy methods
privacy audit t.silot --truth a.npz --truth b.npz --report r.html
privacy audit t.silot --as a --truth b.npz --json
privacy audit --policy policy.yml --data a.npz --draws 50 --report r.html
privacy policy policy.yml
train links network.yml
train links network.yml --report r.html
train links network.yml --method gp
train adapt d0.npz d1.npz d2.npz --model logistic --iterations 40 --report r.html
train adapt d0.npz d1.npz d2.npz --model logistic --iterations 40 --json
distance a.csv b.csv --columns f0,f1 --weight-column f2
distance matrix a.csv b.csv c.csv --columns f0,f1,f2
distance a.npz b.npz -m sketch --public p.npz --ledgers ledgers
privacy ledger show ledgers/a.ledger
privacy ledger verify ledgers/a.ledger
--help
distance --help
distance pair --help
distance matrix --help
distance pooled --help
value --help
records --help
distance barycenter --help
privacy audit --help
train links --help
train adapt --help
train distill --help
privacy ledger --help
privacy policy --help
distance secure --help
distance secure-keys --help
--version
"""


def prepared(folder: Path) -> None:
    """Files that commands read."""
    import polars as pl

    for n, name in enumerate("abc"):
        x = cloud(100 + n, 300, 3, n / 3)
        np.savez(folder / f"{name}.npz", X=x, y=kinds(x))
        columns = {f"f{k}": np.abs(x[:40, k]) for k in range(3)}
        frame = pl.DataFrame({"id": [f"r{k}" for k in range(40)], **columns})
        (frame if name < "c" else frame.drop("id")).write_csv(folder / f"{name}.csv")
    for seed, name, size in ((110, "v", 120), (111, "p", 600)):
        x = cloud(seed, size)
        np.savez(folder / f"{name}.npz", X=x, y=kinds(x))
    x = cloud(112, 240, 4)
    y = np.where(x[:, 0] > 0, "up", "down")
    for k in range(3):
        rows = slice(80 * k, 80 * k + 80)
        np.savez(folder / f"d{k}.npz", X=x[rows], y=np.where(k < 2, y[rows], ""))
    (folder / "policy.yml").write_text("level: statistics\nquestions: [moments]\n")
    (folder / "network.yml").write_text(_NETWORK)


_NETWORK = """
devices:
  - {name: A, labelled: 30, unlabelled: 4970, error: 0.30}
  - {name: B, labelled: 3800, unlabelled: 200, error: 0.04}
  - {name: C, labelled: 4800, unlabelled: 200, error: 0.04}
  - {name: D, labelled: 4700, unlabelled: 300, error: 0.03}
  - {name: E, labelled: 0, unlabelled: 5000}
divergence:
  A: {B: 1.60, C: 0.20, D: 0.20, E: 0.90}
  B: {C: 1.60, D: 1.50, E: 0.60}
  C: {D: 0.10, E: 0.80}
  D: {E: 0.60}
rates_mbit: 74
phi: [1, 2, 0.01]
"""


def command(line: str) -> dict[str, Any]:
    """Status, texts, and files of a command, in the current folder."""
    from silot.cli import main

    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    out, faults = io.StringIO(), io.StringIO()
    status: Any = 0
    kept = sys.argv
    sys.argv = ["silot", *line.split()]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(faults):
            main()
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv = kept
    texts: dict[str, Any] = {"out": out.getvalue(), "err": faults.getvalue()}
    if "--json" in line and status == 0:
        texts["out"] = json.loads(texts["out"])
    elif "ledgers" in line:
        # Noise of a durable ledger is drawn anew: the words stay.
        texts["out"] = re.sub(r"[0-9a-f]*\d[\w.:+-]*", "N", texts["out"])
    for path in sorted(Path().rglob("*")):
        fresh = before.get(path) != path.stat().st_mtime_ns
        if fresh and path.suffix in (".html", ".csv", ".yml"):
            texts[str(path)] = path.read_text()
    return {"status": status, **texts}


# Recording.


def drawn_alike() -> None:
    """Draw the noise of releases by what is released: opendp's own has no seed.

    Holders answer in threads, whose order must not matter.
    """
    if find_spec("opendp") is None:
        return
    from opendp.mod import Measurement

    def release(_: Any, values: Any) -> Any:
        rng = np.random.default_rng(crc32(np.asarray(values).tobytes()))
        noise = rng.normal(size=np.size(values)) * 200.0
        moved = np.asarray(values) + np.rint(noise).astype(np.int64)
        return moved.tolist() if np.ndim(values) else int(moved[0])

    Measurement.__call__ = release


def plain(value: Any) -> Any:
    """A result as JSON knows it, without what a clock said."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items() if k not in _CLOCKS}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, str):
        # What a page shows; its style is another matter.
        text = re.sub(r"<[^>]+>", " ", _DRAWN.sub("", value)) if "<!DOCTYPE" in value else value
        text = _VERSION.sub("VERSION", _SECONDS.sub("TIME", _TIMES.sub(" TIME", text)))
        return re.sub(r"[ \t]+", " ", text)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def recorded(run: Callable[[], Any]) -> Any:
    try:
        return plain(run())
    except SilotError as error:
        return {"code": error.code, "message": plain(str(error)), "kind": type(error).__name__}
    except Exception as error:  # noqa: BLE001
        # An accident of either side must show as a difference, with its kind.
        return {"accident": type(error).__name__, "message": plain(str(error))}


PARTS = (distances, secure, sketches, values, teaching, audits, distillation, faults)


def record(target: Path) -> int:
    """Write what every case gives."""
    os.environ["COLUMNS"], os.environ["TERM"] = "80", "dumb"
    warnings.simplefilter("ignore")
    drawn_alike()
    results: dict[str, Any] = {}
    for part in PARTS:
        for name, run in part():
            assert name not in results, name
            results[name] = recorded(run)
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            prepared(Path())
            for line in _COMMANDS.strip().splitlines():
                results[f"silot {line}"] = recorded(lambda line=line: command(line))
        finally:
            os.chdir(home)
    target.write_text(json.dumps(results, indent=1, default=str))
    print(f"{len(results)} runs of {silot.__file__} in {target}")
    return 0


def compare(old: Path, new: Path) -> int:
    """Print what differs."""
    first, second = (json.loads(path.read_text()) for path in (old, new))
    differing = 0
    for name in dict.fromkeys([*first, *second]):
        if _worded(first.get(name)) == _worded(second.get(name)):
            continue
        differing += 1
        print(f"- {name}")
        for place, a, b in _apart(first.get(name), second.get(name)):
            print(f"    {place}: {_short(a)} -> {_short(b)}")
    print(f"{differing} of {len(first)} runs differ")
    return 1 if differing else 0


def _worded(value: Any) -> Any:
    """A result with one blank between words: how a page breaks its lines is no matter."""
    if isinstance(value, dict):
        return {key: _worded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_worded(item) for item in value]
    return " ".join(value.split()) if isinstance(value, str) else repr(value)


def _apart(a: Any, b: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            yield from _apart(a.get(key), b.get(key), f"{place}.{key}")
    elif isinstance(a, str) and isinstance(b, str):
        lines = ([w.strip() for w in text.splitlines() if w.strip()] for text in (a, b))
        one, two = lines
        gone, come = [w for w in one if w not in two], [w for w in two if w not in one]
        if gone or come:
            yield place, gone[:6], come[:6]
        elif a != b:
            yield place, "the same lines", "in another order, or blank ones"
    elif a != b:
        yield place, a, b


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 600 else text[:600] + " ..."


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["record"] and len(arguments) == 2:
        return record(Path(arguments[1]).resolve())
    if arguments[:1] == ["compare"] and len(arguments) == 3:
        return compare(Path(arguments[1]), Path(arguments[2]))
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
