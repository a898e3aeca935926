"""FedBary, figures 2 and 5; TriangleWad, figure 10: which records are broken, by gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.metrics import roc_auc_score

import silot
from evidence.common import Context, Numbers, mean, means, stream
from evidence.fedbary._baselines import knn_shapley, lava_published
from evidence.fedbary._data import TABLES, Pool, digits, embedded, pixels, with_fault
from evidence.report import Claim, Judged, Report, Table, every, pick, spread, verdict
from silot import Measure
from silot.federation import Own

TENTH = Claim(
    "images: first 10 % inspected hold all noisy features (TriangleWad, figure 10)", "100 %"
)
GRADIENTS = Claim(
    "as many positive gradients as noisy records (figure 2, feature noise)", "the same number"
)
SIDES = Claim("both sides detect alike (TriangleWad, sec. 3.5.2)", "yes")
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
# As in the papers a tenth of the records is noisy; kind of fault, and its share.
FAULTS = {
    "wrong labels, 15%": ("labels", 0.15),
    "noise, 10%": ("features", 0.10),
    "strong noise, 10%": ("strong features", 0.10),
}

PEERS = ("paper, holder", "LAVA", "KNN-Shapley")
FORMS = {
    **dict.fromkeys(("paper, holder", "paper, coordinator", "LAVA", "KNN-Shapley", "silot"), ".3f"),
    **dict.fromkeys(("first", "first, coordinator", "positive", "found"), ".2f"),
}
IMAGES = ("digits", "mnist", "cifar10")
POOLS: tuple[Callable[[Context], Pool], ...] = (
    lambda context: digits(),
    lambda context: pixels(context, "mnist"),
    lambda context: pixels(context, "cifar10", halved=not context.full),
    lambda context: embedded(context, "cifar10"),
    *(TABLES[name] for name in ("adult", "credit default", "banknote", "german", "pima",
                                "wine quality", "wisconsin")),
)  # fmt: skip
QUICK = {"SEEDS": (1,), "POOLS": POOLS[::5]}


def run(context: Context) -> Report:
    seeds = range(context.size(SEEDS))
    found: dict[tuple[str, str], Numbers] = {}
    for make in POOLS:
        pool = make(context)
        for fault in FAULTS:
            found[fault, pool.name] = means([_scored(pool, fault, seed) for seed in seeds])
        context.say(f"{pool.name} done")
    rows = [
        [name, fault, *(f"{values[key]:{form}}" for key, form in FORMS.items())]
        for (fault, name), values in sorted(
            found.items(), key=lambda k: list(FAULTS).index(k[0][0])
        )
    ]
    compared = Table(
        f"The papers' settings, {RECORDS} records: AUC of the paper's gradients from both sides "
        "and of others on the same records; of as many records inspected as are noisy, those "
        "of the largest gradients of the holder or the coordinator first, the share that is; the "
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
            "from a random reference of the data's scale (TriangleWad has deviation 100, and 20 "
            "atoms), exact potentials; silot: `value_records(..., labels=True)` as it is by "
            "default. Coordinator: TriangleWad's gradients, between both interpolants.",
            "LAVA (Just et al., 2023) as published: geomloss, blur² = .1, not debiased, class-wise "
            "cost. KNN-Shapley with k = 10 (Jia et al., 2019, theorem 1). pyDVL, which has both, "
            "needs numpy below 2 and is no dependency; KNN-Shapley is equal to its to rounding.",
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
        "silot": silot.value_records(mine, own, labels=True, fdr=0.15, seed=seed).scores,
    }
    first, theirs = (
        np.argsort(-each, kind="stable")[: int(bad.sum())]
        for each in (paper.scores, paper.coordinator)
    )
    return {
        **{name: float(roc_auc_score(bad, each)) for name, each in scores.items()},
        "first": float(bad[first].mean()),
        "first, coordinator": float(bad[theirs].mean()),
        "positive": float(paper.flagged.sum() / bad.sum()),
        "found": float(paper.flagged[bad == 1].mean()),
    }


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge what the papers say, by the rows of the table of their settings."""
    rows = pick(tables, "paper, holder", "first, coordinator")

    def of(fault: str, column: str) -> list[float]:
        return [float(row[column]) for row in rows if row["fault"] == fault]

    labels, noise, strong = FAULTS
    found, auc = of(labels, "found"), of(labels, "paper, holder")
    by_sign, positive, standard = (
        of(strong, "found"), of(strong, "positive"), of(noise, "positive"),
    )  # fmt: skip
    tenth = [
        float(row["first, coordinator"]) for row in rows
        if row["fault"] == strong and row["data"].split(",")[0] in IMAGES
    ]  # fmt: skip
    sides = zip(of(strong, "paper, holder"), of(strong, "paper, coordinator"), strict=True)
    gap = [holder - coordinator for holder, coordinator in sides]

    def against(claim: Claim, peer: str, *faults: str) -> Judged:
        ours = [value for fault in faults for value in of(fault, "paper, holder")]
        peers = [value for fault in faults for value in of(fault, peer)]
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
            f"strong noise: found {spread(by_sign, '.0%')}; positive for each noisy one "
            f"{spread(positive, '.2f')}",
            verdict(
                min(by_sign) > 0.995 and max(positive) < 1.02, partly=np.median(by_sign) > 0.995
            ),
            "Strong noise is the paper's. In the order of gradients, inspected first: "
            f"{spread(of(strong, 'first'), '.0%')}.",
        ),
        TENTH.judged(
            f"strong noise, TriangleWad's gradients: {spread(tenth, '.0%')}",
            verdict(min(tenth) > 0.995, partly=max(tenth) > 0.995),
            "The paper's text has 15 % noisy, of which 10 % can hold two thirds: here a tenth is.",
        ),
        GRADIENTS.judged(
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
        SIDES.judged(
            f"strong noise, the holder's AUC higher by {spread(gap, '+.2f')}",
            verdict(max(map(abs, gap)) <= 0.05, partly=abs(mean(gap)) <= 0.05),
            "Within .05 counts as alike. FedBary's section 11.3 says the opposite of its own "
            "server's gradients, which have no rows here.",
        ),
        against(AS_LAVA, "LAVA", labels),
        against(AS_SHAPLEY, "KNN-Shapley", labels),
        against(NOISE_AS_LAVA, "LAVA", strong),
        instead(INSTEAD, labels),
        instead(NOISE_INSTEAD, noise, strong),
    ]
