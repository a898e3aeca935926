"""Measure again: ``python -m evidence [PAPER [FIGURE ...]] [--data DIR] [--full | --quick]``.

Without a paper, papers and their figures are listed. ``python -m evidence fedwad`` runs all of a
paper, ``python -m evidence fedwad figure-2`` one of its figures, ``python -m evidence all``
everything but ``speed``. What is compared with a paper is written to ``docs/results``.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
import time
from pathlib import Path

from evidence.common import DATA_VARIABLE, DEFAULT_DATA, RESULTS, Context, MissingError

HOUSE = Path(__file__).parent
# Folders of what figures share: they have no figure of their own.
SHARED = {"attacks"}


def figures() -> dict[str, dict[str, Path]]:
    """Files of every paper, by the names the command has for them; helpers start with ``_``."""
    return {
        folder.name: {path.stem.replace("_", "-"): path for path in sorted(folder.glob("[!_]*.py"))}
        for folder in sorted(HOUSE.iterdir())
        if (folder / "__init__.py").is_file() and folder.name not in SHARED
    }


def summary(path: Path) -> str:
    """First line of a file's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def main(arguments: list[str] | None = None) -> int:
    """List what there is, or run what is named and write its pages."""
    there = figures()
    parser = argparse.ArgumentParser(prog="python -m evidence", description=__doc__)
    parser.add_argument("paper", nargs="?", help=f"one of {', '.join(there)}; or all")
    parser.add_argument("figures", nargs="*", metavar="figure", help="all when none is named")
    parser.add_argument("--data", help=f"data folder (else ${DATA_VARIABLE}, else {DEFAULT_DATA})")
    parser.add_argument("--full", action="store_true", help="the papers' sizes; takes hours")
    parser.add_argument(
        "--quick", action="store_true", help="a look, where a figure has one; no page is written"
    )
    options = parser.parse_args(arguments)
    if options.paper is None:
        _list(there)
        return 0
    if options.paper == "all" and options.figures:
        parser.error("all takes no figure: all of every paper is run")
    if options.paper == "all":
        papers = [paper for paper in there if paper != "speed"]
    elif options.paper in there:
        papers = [options.paper]
    else:
        parser.error(f"there is no paper {options.paper!r}; there are {', '.join(there)}, and all")
    data = Path(options.data or os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)
    for paper in papers:
        for figure in options.figures:
            if figure not in there[paper]:
                known = ", ".join(there[paper])
                parser.error(f"{paper} has no figure {figure!r}; it has {known}")
        for figure in options.figures or there[paper]:
            _run(Context(paper, figure, data, options.full, options.quick))
    return 0


def _list(there: dict[str, dict[str, Path]]) -> None:
    for paper, files in there.items():
        print(f"{paper}: {summary(HOUSE / paper / '__init__.py')}")
        for figure, path in files.items():
            print(f"  {figure:<20} {summary(path)}")


def _run(context: Context) -> None:
    module = importlib.import_module(f"evidence.{context.paper}.{context.figure.replace('-', '_')}")
    begun = time.monotonic()
    try:
        report = module.run(context)
    except MissingError as missing:
        print(f"{context.name}: skipped, {missing}")
        return
    seconds = time.monotonic() - begun
    if report is not None:
        text = report.markdown(context, seconds)
        if not context.quick:
            (RESULTS / f"{context.name}.md").write_text(text, encoding="utf-8")
        print(text, flush=True)
    context.say(f"done in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
