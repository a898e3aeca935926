"""Run reproductions: ``python -m benchmarks.reproduce [NAME ...] [--data DIR] [--full]``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import (
    audits,
    bounds,
    distillation_labels,
    distillation_ordinal,
    distillation_tables,
    fedbary_gaussians,
    fedwad_digits,
    fedwad_rounds,
    fedwad_samples,
    frontier,
    links_figures,
    neighbouring_files,
    private_records,
    records_noise,
    records_removal,
    release_audit,
    sketch_accuracy,
    sketch_intervals,
    stlf_divergences,
    stlf_energy,
    stlf_table,
    stlf_tables,
    triangle_hidden,
    triangle_images,
    triangle_privacy,
    triangle_shift,
    triangle_unbalanced,
    value_clients,
    value_duplication,
    value_time,
    worth_intervals,
)
from .common import DATA_VARIABLE, DEFAULT_DATA, RESULTS, Context, DataMissingError, Report

REPRODUCTIONS: dict[str, Callable[[Context], Report]] = {
    "bounds": bounds.run,
    "fedwad-figure-2": fedwad_samples.run,
    "fedwad-figure-3": fedwad_rounds.run,
    "fedwad-figure-6": fedwad_digits.run,
    "trianglewad-table-1": triangle_images.run,
    "trianglewad-table-3": triangle_shift.run,
    "trianglewad-table-4": triangle_unbalanced.run,
    "trianglewad-figure-8": triangle_hidden.run,
    "records": records_noise.run,
    "contributions": value_clients.run,
    "removal": records_removal.run,
    "duplication": value_duplication.run,
    "barycenter": fedbary_gaussians.run,
    "sketch": sketch_accuracy.run,
    "sketch-intervals": sketch_intervals.run,
    "valuation_time": value_time.run,
    "worth-intervals": worth_intervals.run,
    "trianglewad-privacy": triangle_privacy.run,
    "audits": audits.run,
    "frontier": frontier.run,
    "neighbouring-files": neighbouring_files.run,
    "release-audit": release_audit.run,
    "private-records": private_records.run,
    "stlf-figures-4-5": links_figures.run,
    "stlf-divergences": stlf_divergences.run,
    "stlf-figures-6-7": stlf_energy.run,
    "stlf-table-1": stlf_table.run,
    "stlf-tables": stlf_tables.run,
    "distillation-sentiment": distillation_tables.sentiment,
    "distillation-emotion": distillation_tables.emotion,
    "distillation-nli": distillation_tables.nli,
    "distillation-labels": distillation_labels.run,
    "distillation-ordinal": distillation_ordinal.run,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the named reproductions, or all, and write their reports."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in REPRODUCTIONS:
            parser.error(f"no reproduction is called {name!r}; known: {', '.join(REPRODUCTIONS)}")
    data = Path(options.data or os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)
    start = time.monotonic()
    for name in options.names or REPRODUCTIONS:
        context = Context(name, data, options.full)
        begun = time.monotonic()
        try:
            report = REPRODUCTIONS[name](context)
        except DataMissingError as missing:
            print(f"{name}: skipped, {missing}")
            continue
        text = report.markdown(context, time.monotonic() - begun)
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
        print(text, flush=True)
        context.say(f"done in {time.monotonic() - begun:.0f} s")
    print(f"all done in {time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description=__doc__)
    known = ", ".join(REPRODUCTIONS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all when none given: {known}")
    parser.add_argument("--data", help=f"data folder (else ${DATA_VARIABLE}, else {DEFAULT_DATA})")
    parser.add_argument("--full", action="store_true", help="the paper's sizes; takes hours")
    return parser


if __name__ == "__main__":
    sys.exit(main())
