"""What an audit recovers from each method: the table behind docs/privacy.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import silot
from silot import LocalFederation, Measure, Own
from silot.federation import Interpolate
from silot.protocols import contributions, fedbary, pooled, records
from silot.transport import exact_plan

from .common import Array, Claim, Context, Report, Table, Verdict, stream

Run = Callable[[Array, Array], silot.results.Billed]


@dataclass(frozen=True)
class Case:
    """A method, and how to run it on two holders' records."""

    name: str
    disclosure: str
    run: Run
    viewpoint: str = "coordinator"


def _federation(a: Array, b: Array) -> LocalFederation:
    return LocalFederation({"x": a, "y": b})


def _pooled(a: Array, b: Array, hidden: bool) -> silot.results.Billed:
    buyer = Own(Measure(0.5 * (a + b)))
    return _federation(a, b).run(pooled(["x", "y"], own=buyer, hidden=hidden, seed=3))


def _target(a: Array, b: Array) -> silot.results.Billed:
    return LocalFederation({"x": a}).run(contributions(["x"], own=Own(Measure(b))))


def _records(a: Array, b: Array) -> silot.results.Billed:
    return LocalFederation({"x": a}).run(records("x", own=Own(Measure(b))))


def _sketch(a: Array, b: Array) -> silot.results.Billed:
    # Another draw of the same law as public sample would do; here a shifted, noisy copy.
    rng = stream(1, 72)
    public = np.vstack([a, b]) + rng.normal(scale=0.5 * np.vstack([a, b]).std(axis=0))
    return silot.distance(a, b, method="sketch", public=public, privacy_epsilon=4.0)


CASES = (
    Case("direct", "record", lambda a, b: silot.distance(a, b)),
    Case("trianglewad, as many atoms as records", "record",
         lambda a, b: silot.distance(a, b, method="trianglewad", support=len(a),
                                     interpolation="barycentric")),
    Case("trianglewad, 1.5 times as many (split rows)", "record",
         lambda a, b: silot.distance(a, b, method="trianglewad", support=3 * len(a) // 2,
                                     interpolation="barycentric")),
    Case("trianglewad, exact interpolation", "record",
         lambda a, b: silot.distance(a, b, method="trianglewad", support=len(a) // 2,
                                     interpolation="exact")),
    Case("pooled, two sellers", "record", lambda a, b: _pooled(a, b, hidden=False)),
    Case("pooled, two sellers, hidden t", "record", lambda a, b: _pooled(a, b, hidden=True)),
    Case("fedwad, as many atoms as records", "record",
         lambda a, b: silot.distance(a, b, method="fedwad", support=len(a))),
    Case("fedwad, seen by the other holder", "record",
         lambda a, b: silot.distance(a, b, method="fedwad", support=len(a)), "y"),
    Case("fedwad, half as many atoms", "record",
         lambda a, b: silot.distance(a, b, method="fedwad", support=len(a) // 2)),
    Case("fedbary", "record",
         lambda a, b: _federation(a, b).run(fedbary(["x", "y"], support=len(a), place=0.5))),
    Case("records", "record", _records),
    Case("value, method target", "scalar", _target),
    Case("sketch, epsilon 4", "sketch", _sketch),
)  # fmt: skip


def _data(size: int) -> dict[str, tuple[Array, Array]]:
    """Two holders of each dataset."""
    wine, cancer, digits = load_wine().data, load_breast_cancer().data, load_digits().data / 16.0
    found = {}
    for k, (name, table) in enumerate({"wine": wine, "cancer": cancer, "digits": digits}.items()):
        scaled = table if name == "digits" else (table - table.mean(axis=0)) / table.std(axis=0)
        rows = stream(k, 71).permutation(len(scaled))[: 2 * min(size, len(scaled) // 2)]
        half = len(rows) // 2
        found[name] = (scaled[rows[:half]], scaled[rows[half:]])
    return found


def run(context: Context) -> Report:
    """Audit every method on three datasets."""
    data = _data(300 if context.full else 80)
    rows = []
    for case in CASES:
        cells = [case.name, case.disclosure]
        for name, (a, b) in data.items():
            context.say(f"{case.name} on {name}")
            result = case.run(a, b)
            audit = silot.audit(result.transcript, case.viewpoint, truth=_truth(result, a, b))
            cells.append(_best(audit))
        rows.append(cells)
    found = {row[0]: row[2:] for row in rows}
    sizes = ", ".join(f"{name} {a.shape[0]} x {a.shape[1]}" for name, (a, _) in data.items())
    columns = ["method", "level", *data]
    report = Report(
        "Audits of every method",
        "Share of holder x's records that the best attack recovers exactly, and in brackets the "
        "share that is re-identified, against its chance level.",
        [f"Sizes: {sizes} records by features a holder, seed 0.",
         "Attacks are those of `silot audit`; what they do not recover is not proven safe."],
        tables=[
            Table("Recovered from one run", columns, rows),
            Table(
                "Records that FedWaD's messages determine, once the plans behind them are guessed",
                ["atoms", *data],
                [[f"1 / {part} of the records",
                  *(_determined(a, b, len(a) // part) for a, b in data.values())]
                 for part in (2, 4)],
            ),
        ],
    )  # fmt: skip
    report.claims = [
        _claim("TriangleWad: without the plan records cannot be found (sec. 4.2.1)",
               found["trianglewad, 1.5 times as many (split rows)"],
               "the inverse is unique: a projection on the plans"),
        _claim("TriangleWad: without t records cannot be found (sec. 4.2.1)",
               found["pooled, two sellers, hidden t"], "the messages tell t"),
        _claim("FedWaD: interpolants keep records hidden (sec. 3)",
               found["fedwad, as many atoms as records"], "one round is enough"),
        _claim("FedBary: interpolants keep records hidden (sec. 4)", found["fedbary"],
               "as FedWaD"),
    ]  # fmt: skip
    return report


def _determined(a: Array, b: Array, support: int) -> str:
    """Share of FedWaD's records that its messages determine, for who guessed the plans.

    Every message is a known matrix of plan entries times the records; a record is determined
    when no change of the records that leaves all messages as they are moves it.
    """
    result = silot.distance(a, b, method="fedwad", support=support)
    assert result.transcript is not None
    asked = [entry.open() for entry in result.transcript.seen_by("x") if entry.direction == "sent"]
    plans = [
        exact_plan(a, question.reference, None, question.reference_weights).plan.T
        for question in asked
        if isinstance(question, Interpolate)
    ]
    stacked = np.vstack([np.asarray(plan.todense()) for plan in plans])
    _, sizes, directions = np.linalg.svd(stacked)
    free = directions[int((sizes > 1e-9 * sizes[0]).sum()) :]
    return f"{100 * np.mean(np.abs(free).max(axis=0, initial=0.0) < 1e-7):.0f} %"


def _claim(text: str, cells: list[str], why: str) -> Claim:
    broken = all(cell == "100 %" for cell in cells)
    verdict: Verdict = "not matched" if broken else "partly"
    return Claim(text, "hidden", f"recovered: {', '.join(cells)}", verdict, why)


def _truth(result: silot.results.Billed, a: Array, b: Array) -> dict[str, Array]:
    assert result.transcript is not None
    names = {entry.holder for entry in result.transcript.entries}
    return {name: data for name, data in (("x", a), ("y", b)) if name in names}


def _best(audit: silot.Audit) -> str:
    tried = [k for k in audit.attacks if k.target == "x" and k.exact_rate is not None]
    if not tried:
        return "no attack applies"
    best = max(tried, key=lambda k: (k.exact_rate or 0.0, k.reidentification_rate or 0.0))
    text = f"{100 * (best.exact_rate or 0.0):.0f} %"
    if best.exact_rate == 1.0 or best.reidentification_rate is None:
        return text
    return f"{text} ({100 * best.reidentification_rate:.0f} %, chance {100 * best.chance:.0f} %)"
