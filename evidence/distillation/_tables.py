"""Tables 2 to 4 of Confident Sinkhorns: eight algorithms of distillation on three tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats

from evidence.common import Array, Context, MissingError
from evidence.distillation import _setting as at
from evidence.distillation._setting import ALL, BEST, CHOSEN, LOOK, SETTINGS
from evidence.report import Claim, Judged, Report, Table, every, mean_sd, number, pick, verdict
from silot.distillation import LabelSpace

if TYPE_CHECKING:
    from evidence.distillation._runs import Score

OURS = "Sinkhorn-E"
SEEDS = (range(100, 105), range(100, 110))  # as usual, and with --full
QUICK = {"SEEDS": (range(100, 102),), "SETTINGS": LOOK}
LEVEL = 0.05

Rows = list[dict[str, dict[str, "Score"]]]
# Of a seed: scores by row and test set, mean weights and biases of teachers, and what was chosen.
Run = tuple[dict[str, dict[str, "Score"]], dict[str, Array], dict[str, str]]

KEEPS = Claim(f"{OURS} forgets at most .02 of what the global model knew", "not stated")
# Claims, and the rows of which the first is to be better than the second.
BEST_OF = f"{OURS} has the best mean semantic distance of the eight"
ABOVE = "Sinkhorn above Entropy, weighting by weighting"
OVER_UNIFORM = "confidence above uniform weights, by loss"
OVER_OTHERS = "confidence above the other weightings"
SIMPLER = "the student is better than what is simpler"
PAIRS: Mapping[str, Sequence[tuple[str, str]]] = {
    BEST_OF: [(OURS, row) for row in at.ALGORITHMS if row != OURS],
    ABOVE: [(f"Sinkhorn-{w}", f"Entropy-{w}") for w in at.WEIGHTS],
    OVER_UNIFORM: [(f"{loss}-E", f"{loss}-A") for loss in at.LOSSES],
    OVER_OTHERS: [(f"{loss}-E", f"{loss}-{w}") for loss in at.LOSSES for w in "ADU"],
    SIMPLER: [(CHOSEN, row) for row in at.OTHERS],
}


@dataclass(frozen=True)
class Published:
    """A table of the paper.

    ``task, space``: names of the task and of its labels. ``data, models``: what is unlike the
    paper here. ``columns``: local test sets, the global one, all together. ``scores``: by
    algorithm: ``score`` in every column, then semantic distance. ``score``: what is told
    besides semantic distance.
    """

    task: Literal["sentiment", "emotion", "nli"]
    space: Literal["sentiment-5", "emotion", "nli"]
    title: str
    data: str
    models: str
    columns: tuple[str, ...]
    scores: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]
    score: Literal["f1", "accuracy"] = "f1"

    @property
    def word(self) -> str:
        """Name of the score within a sentence."""
        return "accuracy" if self.score == "accuracy" else "macro F1"


def seeds_of(context: Context) -> list[int]:
    """Seeds of the reports; constants were chosen on others."""
    return list(context.size(SEEDS))


@contextmanager
def workers() -> Iterator[ProcessPoolExecutor]:
    """Two processes, each with torch on one core; ``MissingError`` without torch."""
    if find_spec("torch") is None:
        raise MissingError("torch is not installed (pip install 'silot[torch]')")
    with ProcessPoolExecutor(2, initializer=_one_thread) as pool:
        yield pool


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def reproduce(context: Context, paper: Published) -> Report:
    """Run a table's task by seed."""
    seeds = seeds_of(context)
    runs: list[Run] = []
    with workers() as pool:
        for run in pool.map(_seed, [(context, paper.task, seed) for seed in seeds]):
            runs.append(run)
            context.say(f"{len(runs)} of {len(seeds)}: {run[0][OURS][ALL].distance:.4f}")
    found, means, chosen = (list(part) for part in zip(*runs, strict=True))
    columns = list(found[0][OURS])
    shown = [row for row in found[0] if not row.endswith(at.SHARP)]
    sharp = [row for row in found[0] if row.endswith(at.SHARP)]
    averages = {key: np.mean([each[key] for each in means], axis=0) for key in means[0]}
    word, distance = f"{paper.word[0].upper()}{paper.word[1:]}", "Semantic distance"
    tables = [
        score_table(f"{word}, mean ± sd over seeds.", found, shown, columns, paper.score),
        score_table(f"{distance}, mean ± sd over seeds.", found, shown, columns, "distance"),
        score_table(
            f"{distance} where teachers are sharpened (temperature {at.SHARPENED:g}), all else "
            "the same.", found, sharp, columns, "distance",
        ),
        _comparisons(found, paper.score),
        Table(
            "What the semantic distance of validation records, of all parties together, chose.",
            ["seed", "student", "teacher"],
            [[str(k), each[CHOSEN], each[BEST]] for k, each in zip(seeds, chosen, strict=True)],
        ),
        Table(
            "Mean weight of every teacher on the transfer set, and its bias: its mean "
            "prediction of noise. Means over seeds.",
            ["teacher", *(f"weight, {mark}" for mark in at.WEIGHTS),
             *(f"bias, {label}" for label in LabelSpace.preset(paper.space).names)],
            [[teacher, *(f"{averages[mark][k]:.2f}" for mark in at.WEIGHTS),
              *(f"{value:.2f}" for value in averages[at.BIAS][k])]
             for k, teacher in enumerate(columns[:-1])],
        ),
        Table(
            f"The paper's table: {paper.word} / semantic distance.",
            ["", *paper.columns],
            [[row, *(f"{a:.2f} / {b:.2f}" for a, b in zip(*paper.scores[row], strict=True))]
             for row in at.ALGORITHMS],
        ),
    ]  # fmt: skip
    return Report(
        title=paper.title,
        about="One global model learns from teachers' predictions for texts without labels: two "
        "losses (Entropy, Sinkhorn) by four weightings of the teachers (A uniform, D size, U "
        "distance from uniform, E distance from the bias), scored on the teachers' test sets, the "
        "global model's own, and all together. Semantic distance: lower is better.",
        setup=_setup(paper, seeds),
        claims=judged(tables),
        tables=tables,
    )


def _seed(work: tuple[Context, str, int]) -> Run:
    from evidence.distillation._runs import one_seed

    context, name, seed = work
    return one_seed(context, name, seed, SETTINGS[name])


def values(found: Rows, row: str, column: str, of: str) -> Array:
    """Scores of a row by seed; of all test sets the mean of their distances, as in the paper."""
    if column == ALL and of == "distance":
        sets = [name for name in found[0][row] if name != ALL]
        return np.mean([values(found, row, name, of) for name in sets], axis=0)
    return np.array([getattr(each[row][column], of) for each in found])


def against(ours: Array, theirs: Array) -> tuple[str, str, float]:
    """Paired difference (mean ± standard error), seeds on which ours is lower, p of a t test."""
    difference = ours - theirs
    error = float(difference.std(ddof=1) / len(difference) ** 0.5)
    p = float(stats.ttest_rel(ours, theirs).pvalue) if error else 1.0
    told = f"{difference.mean():+.4f} ± {error:.4f}"
    return told, f"{int((difference < 0).sum())}/{len(difference)}", p


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values."""
    order = np.argsort(p)
    scaled = np.asarray(p)[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted.tolist()


def score_table(
    caption: str, found: Rows, rows: Sequence[str], columns: Sequence[str], of: str
) -> Table:
    """Mean ± sd over seeds, by row and test set."""
    form = ".4f" if of == "distance" else ".3f"
    cells = [[mean_sd(values(found, row, name, of), form) for name in columns] for row in rows]
    return Table(caption, ["", *columns], [[row, *k] for row, k in zip(rows, cells, strict=True)])


def _comparisons(found: Rows, score: str) -> Table:
    """Pairs of rows of each claim, and p of paired tests after Holm's adjustment within it."""
    rows: list[list[str]] = []
    for claim, pairs in PAIRS.items():
        tests, others = (
            [against(*(values(found, row, ALL, of) for row in pair)) for pair in pairs]
            for of in ("distance", score)
        )
        clear, other = (holm([p for *_, p in each]) for each in (tests, others))
        rows += [
            [claim, *pair, difference, won, f"{clear[k]:.3g}", f"{other[k]:.3g}"]
            for k, (pair, (difference, won, _)) in enumerate(zip(pairs, tests, strict=True))
        ]
    return Table(
        f"Semantic distance on {ALL} of one row against another, paired by seed: difference (mean "
        "± standard error; negative is better), seeds won, and p of two-sided t tests after Holm's "
        "adjustment within a claim, of the distance and of the other score. Seeds share the data: "
        "p is about splits and starts, not about other data.",
        ["claim", "row", "against", "difference", "seeds won", "p", "p of the other score"],
        rows,
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by means over seeds on all test records, and by p of paired tests."""
    scores, distances, sharp, *_, printed = (
        {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
        for table in tables
    )
    pairs = pick(tables, "claim", "row", "against", "p", "p of the other score")
    word = tables[0].caption[0].lower() + tables[0].caption[1:].partition(",")[0]
    local = [c for c in distances[OURS] if c not in ("", at.MEMORY, ALL)]

    def score(row: str, column: str = ALL) -> float:
        return number(scores[row][column])

    def distance(row: str, column: str = ALL) -> float:
        return number(distances[row][column])

    def paper(row: str) -> tuple[float, float]:
        higher, lower = printed[row][ALL].split(" / ")
        return number(higher), number(lower)

    def tested(claim: str) -> tuple[list[bool], list[bool], int, int]:
        """Of every pair whether the first is nearer, and higher; and how many are beyond chance."""
        rows = [row for row in pairs if row["claim"] == claim]
        nearer = [distance(row["row"]) < distance(row["against"]) for row in rows]
        higher = [score(row["row"]) > score(row["against"]) for row in rows]
        clear = sum(k and number(row["p"]) < LEVEL for k, row in zip(nearer, rows, strict=True))
        other = sum(k and number(row["p of the other score"]) < LEVEL
                    for k, row in zip(higher, rows, strict=True))  # fmt: skip
        return nearer, higher, clear, other

    def compared(claim: str) -> Judged:
        nearer, higher, clear, other = tested(claim)
        near, high, total = sum(nearer), sum(higher), len(nearer)
        theirs = [(paper(a), paper(b)) for a, b in PAIRS[claim]]
        most = sum(a[1] < b[1] for a, b in theirs), sum(a[0] > b[0] for a, b in theirs)
        cell = f"in general better: {most[0]} and {most[1]} of {total} in its table"
        often = near >= most[0], high >= most[1]
        return Claim(claim, cell).judged(
            f"semantic distance {near} of {total} ({clear} at p < {LEVEL}), {word} {high} of "
            f"{total} ({other})",
            every(often),
            f"As often as in the paper's table in both scores, or in one (partly). Means on {ALL}; "
            "paired t tests, adjusted within the claim.",
        )

    ranked = sorted(at.ALGORITHMS, key=distance)
    place = ranked.index(OURS) + 1
    by_sharp = sorted(at.ALGORITHMS, key=lambda row: number(sharp[row + at.SHARP][ALL]))
    on_global = [
        min(at.ALGORITHMS, key=lambda row: distance(row, at.MEMORY)),
        max(at.ALGORITHMS, key=lambda row: score(row, at.MEMORY)),
    ]
    a, b = ([number(printed[row][c]) for c in list(printed[row])[1 : len(local) + 1]]
            for row in ("Sinkhorn-A", "Entropy-A"))  # fmt: skip
    most = sum(x > y for x, y in zip(a, b, strict=True))
    higher = [score("Sinkhorn-A", c) > score("Entropy-A", c) for c in local]
    better = [distance(OURS, c) < distance(at.BEFORE, c) for c in local]
    before, after = ((score(row, at.MEMORY), distance(row, at.MEMORY)) for row in (at.BEFORE, OURS))
    simpler = tested(SIMPLER)
    wins = sum(near and high for near, high in zip(*simpler[:2], strict=True))
    return [
        Claim(BEST_OF, f"{paper(OURS)[1]:.2f}, best").judged(
            f"{distance(OURS):.4f}, "
            + (
                f"best (next: {ranked[1]} {distance(ranked[1]):.4f})"
                if place == 1
                else f"place {place} (best: {ranked[0]} {distance(ranked[0]):.4f})"
            ),
            verdict(place == 1),
            f"Better than {tested(BEST_OF)[2]} of 7 at p < {LEVEL} after Holm's adjustment; with "
            f"sharpened teachers, place {by_sharp.index(OURS) + 1}.",
        ),
        *(compared(claim) for claim in (ABOVE, OVER_UNIFORM, OVER_OTHERS)),
        Claim("Sinkhorn-D is best on the global model's own set", "yes, for sentiment").judged(
            f"best in semantic distance: {on_global[0]}; in {word}: {on_global[1]}",
            every(row == "Sinkhorn-D" for row in on_global),
            "Of the eight. It weights teachers by size.",
        ),
        Claim(
            f"Sinkhorn-A has the higher {word} than Entropy-A on local sets",
            f"on {most} of {len(local)} in its table",
        ).judged(
            f"on {sum(higher)} of {len(local)}",
            verdict(sum(higher) >= most, partly=any(higher)),
            "Means over seeds.",
        ),
        Claim(f"{OURS} gains on the teachers' test sets", "not stated").judged(
            f"semantic distance falls on {sum(better)} of {len(local)}; {ALL} "
            f"{distance(at.BEFORE):.3f} to {distance(OURS):.3f}",
            every(better),
            "Against the global model before distillation.",
        ),
        KEEPS.judged(
            f"on its own test set {word} {before[0]:.3f} to {after[0]:.3f}, semantic distance "
            f"{before[1]:.3f} to {after[1]:.3f}",
            every([after[0] > before[0] - 0.02, after[1] < before[1] + 0.02]),
            "The transfer set is of the teachers' kind, and the global model one teacher of "
            f"{len(local) + 1}.",
        ),
        Claim(SIMPLER, "not compared").judged(
            f"semantic distance / {word}: "
            + "; ".join(f"{row} {distance(row):.3f} / {score(row):.3f}"
                        for row in (CHOSEN, *at.OTHERS)),
            verdict(wins == len(at.OTHERS), partly=wins > 0),
            f"In both scores better than {wins} of {len(at.OTHERS)}; in semantic distance, at p < "
            f"{LEVEL}, Holm-adjusted, than {simpler[2]}.",
        ),
    ]  # fmt: skip


def _setup(paper: Published, seeds: list[int]) -> list[str]:
    setting = SETTINGS[paper.task]
    balanced = "every label counting the same" if setting.balanced else "without weights of labels"
    return [
        paper.data,
        f"{paper.models} The paper fine-tunes BERT-Tiny. Global model and teachers: "
        f"cross-entropy, {balanced}, {setting.fitting[0]} epochs, the best by validation records.",
        f"Distillation: {setting.epochs} epochs of AdamW at {setting.rate:g}, batches of "
        f"{setting.batch}, exact transport; the same for all eight. Epochs (5, 10, 20), rate "
        "(.001, .003) and whether labels count the same (tried with .003) were chosen on seeds 0 "
        "to 2, by the mean semantic distance of validation records over both losses with A and E. "
        "Teachers are not tempered, as in the paper: to sharpen them lowers semantic distances by "
        "itself (a table below).",
        f"Seeds {seeds[0]} to {seeds[-1]}: splits, starts, order and noise. Official splits where "
        "there are any; else 70, 10 and 20 %, whole dialogues or premises each. No text is in two "
        "parts.",
        f"{CHOSEN.capitalize()}: of the eight, and of Sinkhorn-A and -E with an epsilon of "
        f"{' and '.join(f'{share:g}' for share in at.OFFERED)} of the largest distance of two "
        "labels, the one with the least semantic distance of this seed's validation records. "
        f"{at.CAPPED}: no teacher counts for more than {at.CAP:g} even shares in the mean, as in "
        "`silot.distill`. FedDF: Kullback-Leibler of the softmax of the mean of all logits, from "
        "the same start. FedAvg: parameters averaged by size, from one start that nobody has "
        f"trained; once, after as many epochs as the teachers, or {at.ROUNDS} times after one. It "
        "sends parameters, and needs one architecture.",
        "The global model's own predictions are one more teacher ('global'), its weight by size "
        f"that of its training records. {ALL}: all test records together; semantic distance "
        "is the mean over classes, and over test sets, as in the paper.",
        "The paper trains with an epsilon of .001, and estimates a teacher's bias by how often "
        "each label is its prediction for 100,000 texts; here transport is exact, and the bias is "
        "the mean prediction for 2,000.",
    ]
