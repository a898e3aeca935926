"""``silot demo``: five holders, every method, their worth, and a report."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..api.distances import distance_matrix
from ..api.records import value_records
from ..api.report import write
from ..api.value import value_holders
from ..audits.result import Audit
from ..audits.run import audit
from ..data.files import make_folder, write_whole
from ..data.measure import Measure
from ..distances.result import DistanceMatrix
from ..distances.worth.result import Contributions
from ..distances.worth.view import worth_table
from ..federation.party import Own
from ..render import Column, Table, plain_table, texts, written
from ..render.figure import can_draw
from ..render.words import first_word, format_bytes, short_bounds, short_number
from .console import OUT, progress_bar, save_figure, show_blocks
from .generate import command, flag
from .options import JsonOption, SeedOption


def _draw_digits(seed: int) -> tuple[dict[str, Measure], Measure]:
    """Draw five holders of handwritten digits (scikit-learn, 8 x 8 pixels scaled to 0..1).

    ``iid-a`` and ``iid-b`` are draws from the same images; ``skewed`` holds digits 0 to 2 only;
    ``noisy`` has normal noise of standard deviation .25 on every pixel; ``inverted`` has black
    and white exchanged. No image is in two holders, and their numbers differ. The second value
    has 300 clean digits of no holder: what a coordinator might trust.
    """
    rng = np.random.default_rng(seed)
    # Slow to import, and needed for the demonstration only.
    from sklearn.datasets import load_digits

    pixels, labels = (np.asarray(array) for array in load_digits(return_X_y=True))
    images = pixels / 16.0
    order = rng.permutation(len(images))
    # Those of some digits only are drawn last: all others have the shares of all images.
    a, b, noisy, inverted, clean, others = np.split(order, [200, 400, 640, 840, 1140])
    low = others[labels[others] <= 2][:160]
    noise = rng.normal(scale=0.25, size=images[noisy].shape)
    pictures = {
        "iid-a": (a, images[a]),
        "iid-b": (b, images[b]),
        "skewed": (low, images[low]),
        "noisy": (noisy, images[noisy] + noise),
        "inverted": (inverted, 1.0 - images[inverted]),
    }
    holders = {name: Measure(x, labels=labels[rows]) for name, (rows, x) in pictures.items()}
    return holders, Measure(images[clean], labels=labels[clean])


# Pixels lie between 0 and 1, which everybody knows: a reference of that size.
_OPTIONS: dict[str, dict[str, Any]] = {
    "direct": {},
    "fedwad": {"support": 200, "rounds": 20, "reference_mean": 0.4, "reference_scale": 0.4},
    "trianglewad": {"t": 0.5, "reference_mean": 0.4, "reference_scale": 0.4},
}


@command(checked=False)
def demo_command(
    out: Path = flag("Folder for the picture and the JSON file.", default=Path("silot-demo")),
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Five holders of digits: distances by every method, what their data are worth, a report."""
    make_folder(out, "Give another --out.")
    holders, validation = _draw_digits(seed)
    pairs = len(holders) * (len(holders) - 1) // 2
    with progress_bar("silot demo") as bar:
        task = bar.add_task("pairs", total=pairs * len(_OPTIONS))

        def step(*_: object) -> None:
            bar.advance(task)

        results = [
            distance_matrix(holders, method=name, seed=seed, progress=step, **options)
            for name, options in _OPTIONS.items()
        ]
    picture, record, page = out / "distances.png", out / "distances.json", out / "report.html"
    if can_draw():
        save_figure(_draw_distances(results), picture)
    text = jsonlib.dumps([result.body for result in results], allow_nan=False)
    write_whole(record, text.encode())
    worth = _value(holders, validation, page, seed)
    broken = out / "audit.html"
    audited = _audit(results[-1], holders, broken, seed)
    if json:
        typer.echo(text)
        return
    show_blocks([_table(results)])
    OUT.print(
        "value: W2 in units of pixel brightness; bounds are certified. level: what was\n"
        "disclosed: from `record` messages every record can be reconstructed.",
        highlight=False,
    )
    OUT.print("\nWhat the holders' data are worth for 300 other digits, labels included:")
    show_blocks(written(worth_table(worth), "terminal")[:2])
    OUT.print(f"\nAudit of trianglewad's messages, {' and '.join(audited.targets)}:")
    OUT.print(audited.verdict, highlight=False, markup=False)
    maps = picture if can_draw() else "not drawn without matplotlib: pip install 'silot[plot]'"
    typer.echo(f"\nreport:    {page}\naudit:     {broken}\nheat maps: {maps}\nresults:   {record}")


def _value(
    holders: dict[str, Measure], validation: Measure, page: Path, seed: int
) -> Contributions:
    """Value the holders and their records, and write the report."""
    worth = value_holders(holders, validation, labels=True, map="direct", seed=seed)
    trusted = Own(validation)
    scored = {
        name: value_records(measure, trusted, labels=True, seed=seed, name=name)
        for name, measure in holders.items()
    }
    write(
        page,
        worth,
        records=scored,
        images={name: measure.points.reshape(-1, 8, 8) for name, measure in holders.items()},
        title="Five holders of digits",
    )
    return worth


def _audit(result: DistanceMatrix, holders: dict[str, Measure], page: Path, seed: int) -> Audit:
    """Audit what a reader of one pair's messages computes from them, and write the report."""
    a, b = next(iter(result.pairs))
    transcript = result[a, b].transcript
    assert transcript is not None
    finding = audit(transcript, truth={a: holders[a], b: holders[b]}, image_shape=(8, 8), seed=seed)
    write(page, finding)
    return finding


def _table(results: list[DistanceMatrix]) -> Table:
    columns = [*(texts(title, wrap="cut") for title in ("pair", "method"))]
    columns += map(Column, ("value", "bounds"))
    columns += [texts("status", wrap="cut"), *map(Column, ("rounds", "bytes", "s"))]
    rows: list[list[str]] = []
    for couple in results[0].pairs:
        for k, result in enumerate(results):
            pair = result.pairs[couple]
            rows.append(
                [
                    (f"{couple[0]} -".ljust(8), couple[1], "")[k],
                    result.method,
                    short_number(pair.value),
                    short_bounds(*pair.bounds),
                    first_word(pair.status),
                    str(pair.rounds),
                    format_bytes(pair.bytes_sent + pair.bytes_received),
                    f"{pair.seconds:.2f}",
                    pair.disclosure,
                ]
            )
    return plain_table([*columns, texts("level", wrap="cut")], rows)


def _draw_distances(results: list[DistanceMatrix]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(results), 4.5), layout="constrained")
    # One scale of colours, so that the panels can be compared.
    largest = max(float(result.values.max()) for result in results)
    for place, result in enumerate(results):
        result.plot(figure.add_subplot(1, len(results), place + 1), vmax=largest)
    return figure
