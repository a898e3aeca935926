"""FedBary, figures 2 and 5; TriangleWad, figure 10: which records are broken, by gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.metrics import roc_auc_score

import silot
from evidence.common import Array, Context, Numbers, mean, means, stream
from evidence.fedbary._baselines import knn_shapley, lava_published, leave_one_out
from evidence.fedbary._data import TABLES, Pool, digits, embedded, pixels, with_fault
from evidence.report import Claim, Judged, Report, Table, every, pick, shown, spread, verdict
from silot import Measure
from silot.distances.questions import LabelledRecords
from silot.federation import Own
from silot_transport import Frame, calibrated_gradient, exact_plan, interpolate

SERVER = Claim(
    "the holder's gradients detect better than the server's (sections 11.3, 11.5)",
    "100 % against 76 %",
)
AS_LAVA = Claim("wrong labels: as good as LAVA, which pools the data (figure 5 c)", "overlapping")
AS_SHAPLEY = Claim(
    "wrong labels: as good as KNN-Shapley, which pools the data (figure 5 c)", "similar"
)
NOISE_AS_LAVA = Claim(
    "noisy features: as good as LAVA, which pools the data (figure 5 a)", "overlapping"
)
INSTEAD = Claim("wrong labels: silot's screening is as good as the best of the three", "a wish")
NOISE_INSTEAD = Claim(
    "noisy features: silot's screening is as good as the best of the three", "a wish"
)
SEEDS = (3, 5)  # as usual, and with --full
RECORDS = 200
# Kind of fault, and its share. In figure 2 and TriangleWad a tenth of the records is noisy.
FAULTS = {
    "wrong labels, 15%": ("labels", 0.15),
    "noise, 10%": ("features", 0.10),
    "strong noise, 10%": ("strong features", 0.10),
    "strong noise, 5%": ("strong features", 0.05),
    "strong noise, 30%": ("strong features", 0.30),
}

PEERS = ("paper, holder", "LAVA", "KNN-Shapley")
# Shares of noise that only the papers' gradients and their peers are compared on.
MORE = (0.05, 0.30)
# Atoms of the reference, and rounds; TriangleWad's widest reference: its atoms and deviation.
ATOMS, ROUNDS, WIDE = 100, 10, (20, 100.0)
FORMS = {
    **dict.fromkeys(
        ("paper, holder", "paper, coordinator", "reference", "server, reference", "all data",
         "LAVA", "KNN-Shapley", "leave-one-out", "influence", "silot"), ".3f"
    ),
    **dict.fromkeys(("first", "first, coordinator", "first, wide", "positive", "found"), ".2f"),
}  # fmt: skip
IMAGES = ("digits", "mnist", "cifar10")
POOLS: tuple[Callable[[Context], Pool], ...] = (
    lambda context: digits(),
    lambda context: pixels(context, "mnist"),
    lambda context: pixels(context, "cifar10", halved=not context.full),
    lambda context: embedded(context, "cifar10"),
    *(TABLES[name] for name in ("adult", "credit default", "banknote", "german", "pima",
                                "wine quality", "wisconsin")),
)  # fmt: skip
QUICK = {"SEEDS": (1,), "POOLS": POOLS[::8], "RECORDS": 100}


def run(context: Context) -> Report:
    seeds = range(context.size(SEEDS))
    found: dict[tuple[str, str], Numbers] = {}
    for make in POOLS:
        pool = make(context)
        for fault in FAULTS:
            found[fault, pool.name] = means([_scored(pool, fault, seed) for seed in seeds])
        context.say(f"{pool.name} done")
    rows = [
        [name, fault, *(shown(values[key], form) for key, form in FORMS.items())]
        for (fault, name), values in sorted(
            found.items(), key=lambda k: list(FAULTS).index(k[0][0])
        )
    ]
    compared = Table(
        f"The papers' settings, {RECORDS} records: AUC of the papers' gradients "
        "and of others on the same records; of as many records inspected as are noisy, those "
        "of the largest gradients of the holder, the coordinator and the coordinator with a wide "
        "reference first, the share that is; the "
        "holder's positive gradients for each noisy record; the share of noisy records with one.",
        ["data", "fault", *FORMS],
        rows,
    )
    return Report(
        title="FedBary, figures 2 and 5; TriangleWad, figure 10: broken records",
        about="A holder's records, some with noise in their features or with wrong labels, scored "
        "against clean validation records by the papers' gradients. Higher AUC is better; .5 is "
        "chance. [Faulty records](records-screening.md) compares silot's own screening with the "
        "peers of today.",
        setup=[
            f"{RECORDS} records of the holder and as many for validation, disjoint, means over "
            f"seeds 0 to {seeds[-1]}; a tenth with noisy features, as in the papers.",
            "Wrong labels: another class, drawn evenly. Noise: N(0, 1) added to all features of a "
            "record; strong: N(0, 4^2), which is what N(0, 1) is on pixels from 0 to 1. Images "
            "are standardised over all pixels, tables by column; both papers leave scales open.",
            "Half size: CIFAR-10's pixels averaged 2 by 2 (--full: all 3072). PCA-64: principal "
            "components of test images used for nothing else, where the papers have features of a "
            "network. Wine quality: poor, middling, good. Wisconsin: without records that miss "
            "values. The papers' stock data are not here.",
            'Paper: `value_records(..., labels=True, method="published")`: ten rounds of FedBary '
            "from a random reference of the data's scale, exact potentials; silot: "
            "`value_records(..., labels=True)` as it is by default, of three kinds of faults. "
            "Coordinator: TriangleWad's gradients, between both interpolants (FedBary's "
            f"servereta); wide: after one round from {WIDE[0]} atoms of deviation {WIDE[1]:.0f}. "
            "Reference: towards the last reference, the holder's (gamma) and the server's "
            "(servergamma); all data: records to records.",
            "LAVA (Just et al., 2023) as published: geomloss, blur² = .1, not debiased, class-wise "
            "cost. KNN-Shapley with k = 10 (Jia et al., 2019, theorem 1). pyDVL, which has both, "
            "needs numpy below 2 and is no dependency; KNN-Shapley is equal to its to rounding. "
            "Leave-one-out and influence functions: of a least-squares classifier.",
        ],
        claims=judged([compared]),
        tables=[compared],
    )


def _scored(pool: Pool, fault: str, seed: int) -> Numbers:
    """Compare the paper's gradients with others on the same records."""
    rng = stream(22, seed, list(FAULTS).index(fault))
    kind, share = FAULTS[fault]
    (x, y), (other, labels) = pool.draw(rng, RECORDS, RECORDS)
    x, y, bad = with_fault(rng, kind, x, y, share)
    mine, own = Measure(x, labels=y), Own(Measure(other, labels=labels))
    paper = silot.value_records(mine, own, labels=True, method="published", seed=seed)
    if paper.coordinator is None:
        raise RuntimeError("the holder sent no interpolant")
    scores = {
        "paper, holder": paper.scores,
        "paper, coordinator": paper.coordinator,
        "LAVA": lava_published(x, y, other, labels),
        "KNN-Shapley": -knn_shapley(x, y, other, labels),
        "leave-one-out": leave_one_out(x, y, other, labels),
        "influence": leave_one_out(x, y, other, labels, influence=True),
    }
    if share not in MORE:
        scores["silot"] = silot.value_records(mine, own, labels=True, fdr=0.15, seed=seed).scores
    more = _more_gradients(mine, own, seed)
    wide = more.pop("wide")
    ordered = {"first": paper.scores, "first, coordinator": paper.coordinator, "first, wide": wide}
    first = {
        name: float(bad[np.argsort(-each, kind="stable")[: int(bad.sum())]].mean())
        for name, each in ordered.items()
    }
    return {
        "silot": float("nan"),
        **{name: float(roc_auc_score(bad, each)) for name, each in (scores | more).items()},
        **first,
        "positive": float(paper.flagged.sum() / bad.sum()),
        "found": float(paper.flagged[bad == 1].mean()),
    }


def _more_gradients(mine: Measure, own: Own, seed: int) -> dict[str, Array]:
    """Gradients that `value_records` does not have: towards the reference, and of all data."""
    points, other = (
        each.answer(LabelledRecords(embedding="diagonal")).array("points", ndim=2)
        for each in (Own(mine), own)
    )
    frame = Frame.of(other, np.full(len(other), 1.0 / len(other)))
    draw, width = stream(22, seed, 6).standard_normal, points.shape[1]
    reference, theirs, _ = _walked(
        points, other, frame.mean + frame.scale * draw((ATOMS, width)), ROUNDS
    )
    _, wide, ends = _walked(points, other, WIDE[1] * draw((WIDE[0], width)), 1)
    pairs = {
        "reference": (points, reference), "server, reference": (theirs, reference),
        "all data": (points, other), "wide": (wide, ends),
    }  # fmt: skip
    return {
        name: calibrated_gradient(exact_plan(a, b).potentials[0], np.full(len(a), 1.0 / len(a)))
        for name, (a, b) in pairs.items()
    }


def _walked(x: Array, y: Array, reference: Array, rounds: int) -> tuple[Array, Array, Array]:
    """Interpolate both towards what lies between the last two: the reference, and both."""
    ends = x, y
    for turn in range(rounds):
        if turn:
            reference = interpolate(*ends, t=0.5).atoms
        ends = interpolate(x, reference, t=0.5).atoms, interpolate(y, reference, t=0.5).atoms
    return reference, *ends


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge what the papers say, by the rows of the table of their settings."""
    rows = pick(tables, "paper, holder", "first, coordinator")

    def of(column: str, *faults: str) -> list[float]:
        return [float(row[column]) for row in rows if row["fault"] in faults]

    labels, noise, strong, *shares = FAULTS
    found, auc = of("found", labels), of("paper, holder", labels)
    by_sign, positive = (of(column, strong, *shares) for column in ("found", "positive"))
    standard = of("positive", noise)
    tenth, wide = (
        [float(row[column]) for row in rows
         if row["fault"] == strong and row["data"].split(",")[0] in IMAGES]
        for column in ("first, coordinator", "first, wide")
    )  # fmt: skip

    def gaps(column: str, *faults: str) -> list[float]:
        sides = zip(of("paper, holder", *faults), of(column, *faults), strict=True)
        return [holder - other for holder, other in sides]

    gap = gaps("paper, coordinator", strong)
    server = gaps("paper, coordinator", noise), gaps("server, reference", noise)
    pooled = gaps("all data", labels), gaps("all data", noise, strong)
    theirs = of("paper, coordinator", noise, strong)
    seeing = {
        name: of(name, noise, strong) for name in ("KNN-Shapley", "influence", "leave-one-out")
    }

    def against(claim: Claim, peer: str, *faults: str) -> Judged:
        ours, peers = of("paper, holder", *faults), of(peer, *faults)
        level = sum(a >= b - 0.005 for a, b in zip(ours, peers, strict=True))
        return claim.judged(
            f"the paper's holder: AUC {spread(ours, '.2f')}, {mean(ours):.3f} in the mean; {peer} "
            f"{spread(peers, '.2f')}, {mean(peers):.3f}; at least equal on {level} of {len(ours)}",
            verdict(level == len(ours), partly=mean(ours) >= mean(peers) - 0.02),
            "The same records; AUC within .005 counts as equal, means within .02 as partly. "
            "Labels as vectors hide a wrong one."
            if peer == "LAVA" and faults == (labels,)
            else "The same records.",
        )

    def instead(claim: Claim, *faults: str) -> Judged:
        chosen = [row for row in rows if row["fault"] in faults]
        leads = [float(row["silot"]) - max(float(row[name]) for name in PEERS) for row in chosen]
        level = sum(lead >= -0.005 for lead in leads)
        return claim.judged(
            f"AUC against the best of them {spread(leads, '+.2f')}; at least equal on {level} of "
            f"{len(leads)}",
            verdict(level == len(leads), partly=mean(leads) >= 0),
            "`value_records` as it is by default: not the paper's method.",
        )

    return [
        Claim("noisy features: all found by the sign, nothing else (figure 5 a)", "100 %").judged(
            f"strong noise in 5 to 30 %: found {spread(by_sign, '.0%')}; positive for each noisy "
            f"one {spread(positive, '.2f')}",
            verdict(
                min(by_sign) > 0.995 and max(positive) < 1.02, partly=np.median(by_sign) > 0.995
            ),
            "Strong noise is the paper's. In the order of gradients, inspected first: "
            f"{spread(of('first', strong, *shares), '.0%')}.",
        ),
        Claim(
            "images: first 10 % inspected hold all noisy features (TriangleWad, figure 10)", "100 %"
        ).judged(
            f"strong noise, TriangleWad's gradients: {spread(tenth, '.0%')}; with the wide "
            f"reference {spread(wide, '.0%')}",
            verdict(min(tenth + wide) > 0.995, partly=max(tenth + wide) > 0.995),
            "The paper's text has 15 % noisy, of which 10 % can hold two thirds: here a tenth is.",
        ),
        Claim(
            "as many positive gradients as noisy records (figure 2, feature noise)",
            "the same number",
        ).judged(
            f"times as many, strong noise {spread(positive, '.2f')}, standard noise "
            f"{spread(standard, '.2f')}",
            every(0.98 < value < 1.02 for value in positive),
            "Gradients sum to zero. The sign separates only when noise moves records further than "
            "they lie apart.",
        ),
        Claim("wrong labels are found poorly (45 %)", ".45 by sign").judged(
            f"{spread(found, '.2f')} by sign, AUC {spread(auc, '.2f')}",
            verdict(float(np.median(found)) < 0.6),
            "Two to three times as many records have a positive gradient as are wrong.",
        ),
        Claim("both sides detect alike (TriangleWad, sec. 3.5.2)", "yes").judged(
            f"strong noise, the holder's AUC higher by {spread(gap, '+.2f')}",
            verdict(max(map(abs, gap)) <= 0.05, partly=abs(mean(gap)) <= 0.05),
            "Within .05 counts as alike; with weaker noise they are not, see the next row.",
        ),
        SERVER.judged(
            f"standard noise, AUC higher by {spread(server[0], '+.2f')} than towards the other "
            f"interpolant, {spread(server[1], '+.2f')} towards the reference",
            every(value > 0.05 for values in server for value in values),
            "More than .05 counts.",
        ),
        Claim(
            "gradients of the pooled records detect hardly more (figure 2, section 11.3)",
            "wrong labels 47 % against 45 %",
        ).judged(
            f"AUC of the holder's less that of all data: wrong labels {spread(pooled[0], '+.2f')}, "
            f"noise {spread(pooled[1], '+.2f')}",
            verdict(min(pooled[0] + pooled[1]) > -0.05, partly=mean(pooled[0] + pooled[1]) > -0.05),
            "Less than .05 counts as hardly.",
        ),
        Claim(
            "noisy features: TriangleWad finds more than peers that see the records (figure 10)",
            "yes",
        ).judged(
            f"AUC {spread(theirs, '.2f')}, {mean(theirs):.3f} in the mean; "
            + ", ".join(f"{name} {mean(values):.3f}" for name, values in seeing.items()),
            verdict(
                all(a >= max(b) for a, *b in zip(theirs, *seeing.values(), strict=True)),
                partly=all(mean(theirs) > mean(values) for values in seeing.values()),
            ),
            "TriangleWad's gradients, between both interpolants.",
        ),
        against(AS_LAVA, "LAVA", labels),
        against(AS_SHAPLEY, "KNN-Shapley", labels),
        against(NOISE_AS_LAVA, "LAVA", strong),
        instead(INSTEAD, labels),
        instead(NOISE_INSTEAD, noise, strong),
    ]
