"""Whether worth follows wrong labels, noisy features and the accuracy of a model of the records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import silot
from evidence.common import Array, Context, Labels, stream
from evidence.fedbary._baselines import knn_shapley
from evidence.fedbary._data import TABLES, Pool, noisy_features, wrong_labels
from evidence.report import Claim, Report, Table, verdict
from silot import Measure

SEEDS = (5, 10)  # as usual, and with --full
_NOISE = np.array([0.0, 0.05, 0.1, 0.15, 0.2])
_MIXED = np.array([1.0, 0.8, 0.6, 0.45, 0.3])
_LARGEST, _TEST = 200, 1500
PEERS = ("data-OOB", "forest on validation", "kNN-Shapley")
OURS = ("rank", "share of wrong labels", "distance")
KINDS = ("labels, equal sizes", "labels, mixed sizes", "features, equal sizes")
NAMES = (
    "german", "pima", "wisconsin", "wine quality", "adult", "credit default", "digits",
)  # fmt: skip
QUICK = {"NAMES": NAMES[:1], "SEEDS": (1,)}


def run(context: Context) -> Report:
    by_table: dict[str, Array] = {}
    for k, name in enumerate(NAMES):
        pool = TABLES[name](context).coded()
        runs = [
            [_order(pool, kind, stream(96, k, i, seed)) for i, kind in enumerate(KINDS)]
            for seed in range(context.size(SEEDS))
        ]
        by_table[pool.name] = np.mean(runs, axis=0)
        context.say(f"{pool.name}: {by_table[pool.name].round(2).tolist()}")
    means = np.mean(list(by_table.values()), axis=0)
    best = means[:, len(OURS) :].max(axis=1)
    of_labels, of_mixed, of_features = means[:, 0, 0]
    accurate = means[:2, 0, 1] - best[:2, 1]
    return Report(
        title="Worth, faulty records and accuracy",
        about="Five holders, of whose labels or features 0, 5, 10, 15 and 20 % are wrong: how far "
        "the order by worth follows, and how far it follows the accuracy of models.",
        setup=[
            f"Validation and holders: {_LARGEST} records at most, or a fifth of small tables; "
            f"mixed sizes are {', '.join(f'{x:.0%}' for x in _MIXED)} of it in random order; "
            f"{context.size(SEEDS)} seeds. Labels of other classes at random; normal noise of one "
            "standard deviation on all features.",
            "Accuracy: mean of a forest and a logistic regression of the holder's records on up to "
            f"{_TEST} others. Data-OOB: out-of-bag accuracy of a forest of the holder's records; "
            "forest on validation: accuracy of a forest of the validation records on the "
            "holder's; kNN-Shapley: mean over the holder's records.",
        ],
        claims=[
            Claim("ranks follow the share of wrong labels", "Spearman of .85").judged(
                f"{of_labels:.2f} with equal sizes, {of_mixed:.2f} with mixed ones (best peer "
                f"{best[0, 0]:.2f}, {best[1, 0]:.2f})",
                verdict(min(of_labels, of_mixed) >= 0.85, partly=of_labels >= 0.85),
                "Sizes count for usefulness too. The share of wrong labels alone: "
                f"{means[0, 1, 0]:.2f}, {means[1, 1, 0]:.2f}.",
            ),
            Claim("ranks follow feature noise", "Spearman of the best peer - .03").judged(
                f"{of_features:.2f} (best peer {best[2, 0]:.2f})",
                verdict(of_features >= best[2, 0] - 0.03),
            ),
            Claim("ranks follow the accuracy of models", "Spearman of the best peer - .03").judged(
                f"{means[0, 0, 1]:.2f} and {means[1, 0, 1]:.2f} (best peer {best[0, 1]:.2f}, "
                f"{best[1, 1]:.2f})",
                verdict(accurate.min() >= -0.03, partly=accurate.mean() >= -0.03),
            ),
        ],
        tables=[
            Table(
                f"{kind}: mean Spearman with the share of faults / with accuracy.",
                ["table", *OURS, *PEERS],
                [
                    [name, *(f"{a:.2f} / {b:.2f}" for a, b in rows[i])]
                    for name, rows in [*by_table.items(), ("mean", means)]
                ],
            )
            for i, kind in enumerate(KINDS)
        ],
    )


def _order(pool: Pool, kind: str, rng: np.random.Generator) -> Array:
    """Spearman of every score (6, 2) with the share of sound records, and with accuracy."""
    held = min(len(pool.x) // 5, _LARGEST)
    size = min((len(pool.x) - held - 100) // 5, _LARGEST)
    shares = rng.permutation(_MIXED) if "mixed" in kind else np.ones(5)
    sizes = (size * shares).astype(int).tolist()
    test = min(len(pool.x) - held - 5 * size, _TEST)
    *parts, (vx, vy), (tx, ty) = pool.draw(rng, *sizes, held, test)
    noisy: Callable[[Array, Labels, float], tuple[Array, Labels]] = (
        (lambda x, y, share: (x, wrong_labels(rng, y, share)[0]))
        if "labels" in kind
        else (lambda x, y, share: (noisy_features(rng, x, share)[0], y))
    )
    data = [noisy(x, y, share) for (x, y), share in zip(parts, _NOISE.tolist(), strict=True)]
    worth = silot.value_holders(
        {f"h{k}": Measure(x, labels=y) for k, (x, y) in enumerate(data)},
        Measure(vx, labels=vy), labels=True,
    ).holders  # fmt: skip
    forests = [
        RandomForestClassifier(100, oob_score=True, random_state=0).fit(*one) for one in data
    ]
    accuracy = [
        forest.score(tx, ty) + LogisticRegression(C=0.3, max_iter=300).fit(x, y).score(tx, ty)
        for forest, (x, y) in zip(forests, data, strict=True)
    ]
    trusted = RandomForestClassifier(200, random_state=0).fit(vx, vy)
    every = np.concatenate([x for x, _ in data]), np.concatenate([y for _, y in data])
    values = np.split(knn_shapley(*every, vx, vy), np.cumsum(sizes)[:-1])
    scores = [
        [-item.rank for item in worth],
        [-item.utility.faulty["label"][0] if item.utility else 0.0 for item in worth],
        [-item.distance.value for item in worth],
        [forest.oob_score_ for forest in forests],
        [trusted.score(x, y) for x, y in data],
        [float(value.mean()) for value in values],
    ]
    aims = (-_NOISE, accuracy)
    return np.nan_to_num([[spearmanr(score, aim)[0] for aim in aims] for score in scores])
