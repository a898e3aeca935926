"""Figures 2, 3, 5 and 6 of the TriangleWad paper, beside what an audit recovers.

``python -m examples.privacy_figures [--data DIR] [--out DIR]`` writes PNG files. The data folder
holds one folder a dataset; ``python -m evidence trianglewad figure-2`` prints the
numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from evidence.common import DEFAULT_DATA, Array, Context
from evidence.trianglewad import figure_2 as privacy

_SHOWN = 8


def main(arguments: list[str] | None = None) -> None:
    """Draw all figures."""
    parser = argparse.ArgumentParser(prog="python -m examples.privacy_figures")
    parser.add_argument("--data", type=Path, default=Path(DEFAULT_DATA))
    parser.add_argument("--out", type=Path, default=Path("privacy-figures"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    context = Context("trianglewad", "figure-2", options.data, full=False)
    draw = {
        "figure-2.png": lambda: figure_2(privacy.images(context)),
        "figure-3.png": lambda: figure_3(privacy.texts(context, pairs=2)),
        "figure-5.png": lambda: figure_5(privacy.ball(context), privacy.perturbed()),
        "figure-6.png": lambda: figure_6([privacy.ball(context, seed=k) for k in (1, 2)]),
    }
    for name, make in draw.items():
        make().savefig(options.out / name, dpi=130)
        print(options.out / name)


def figure_2(runs: privacy.Pictures) -> Figure:
    """What travels looks like noise, and what the audit makes of it."""
    rows = {
        "holder A": runs.a,
        "holder B": runs.b,
        "FedWaD iterate": runs.walk,
        "TriangleWad, A's message": runs.local,
        "TriangleWad, B's message": runs.server,
        "reference": runs.reference,
        "attack of the paper": runs.attack,
        "audit of A's message": runs.recovered,
        "audit of FedWaD": _matched(runs.recovered_walk, runs.a),
    }
    figure = Figure(figsize=(11, 1.05 * len(rows)), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[3, 1])
    grid(left, rows)
    panels = right.subplots(3, 1)
    for axes, name in zip(panels, ("holder A", "FedWaD iterate", "TriangleWad, A's message"),
                          strict=True):  # fmt: skip
        axes.hist(rows[name].ravel(), bins=60, density=True, color="0.4")
        axes.set_title(f"values: {name}", fontsize=8)
        axes.tick_params(labelsize=7)
    return figure


def figure_3(documents: Sequence[privacy.Text]) -> Figure:
    """Words that each message gives away."""
    figure = Figure(figsize=(10, 2.2 * len(documents)), layout="constrained")
    for axes, item in zip(figure.subplots(len(documents), 1), documents, strict=True):
        axes.set_axis_off()
        lines = [("documents", item.words), ("FedWaD iterate", item.from_walk),
                 ("TriangleWad message", item.from_local),
                 ("the same, inverted", item.from_audit)]  # fmt: skip
        for k, (name, words) in enumerate(lines):
            rate = "" if name == "documents" else f" ({100 * item.rate(words):.0f} %)"
            text = f"{name}{rate}: {' '.join(words[:14])}"
            axes.text(0.0, 0.85 - 0.25 * k, text, fontsize=8, family="monospace", wrap=True)
    return figure


def figure_5(found: privacy.Ball, gaps: Sequence[tuple[float, float]]) -> Figure:
    """The distributional attack step by step, and the price of local noise."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    first, second = figure.subplots(1, 2)
    first.plot(found.history)
    first.set(xlabel="step", ylabel="W to the other holder", ylim=(0, None))
    second.loglog([gap[0] for gap in gaps], [gap[1] for gap in gaps], marker="o")
    second.set(xlabel="epsilon of local noise", ylabel="gap of W")
    return figure


def figure_6(found: Sequence[privacy.Ball]) -> Figure:
    """More of the distributional attack."""
    rows = {}
    for k, item in enumerate(found, start=1):
        rows |= {
            f"{k}: FedWaD iterate": item.walk,
            f"{k}: attack": _matched(item.attack, item.truth),
            f"{k}: other holder": item.truth,
        }
    figure = Figure(figsize=(8, 1.05 * len(rows)), layout="constrained")
    grid(figure, rows)
    return figure


def _matched(points: Array, truth: Array) -> Array:
    """The nearest row for each true one, for showing."""
    squared = ((truth[:, None] - points[None]) ** 2).sum(axis=2)
    return points[squared.argmin(axis=1)]


def grid(figure, rows: dict[str, Array]) -> None:
    """Images in rows, each row scaled for itself."""
    axes = figure.subplots(len(rows), _SHOWN)
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        low, high = np.quantile(images[:_SHOWN], [0.01, 0.99])
        for k, cell in enumerate(line):
            shown = np.clip((images[k].reshape(32, 32, 3) - low) / (high - low), 0, 1)
            cell.imshow(shown)
            cell.set_xticks([])
            cell.set_yticks([])
        line[0].set_ylabel(name, fontsize=7, rotation=0, ha="right", va="center")


if __name__ == "__main__":
    main()
