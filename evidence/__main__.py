"""Measure again: ``python -m evidence [PAPER [FIGURE ...]] [--data DIR] [--full | --quick]``.

``python -m evidence fedwad`` runs all of a paper, ``python -m evidence fedwad figure-2`` one of its
figures, ``python -m evidence all`` everything but ``speed`` whose page is missing or older than its
code. What is compared with a paper is written to ``docs/results``.

``list``, or nothing, shows every numbered figure and table of the five papers: when it was made,
how long it took, whether the code it measures has changed since, or that it is missing.
``confirm PAPER FIGURE ...`` runs pages that are older than their code with --quick: where that
gives the numbers of before, a page is of the code of now. ``judge PAPER FIGURE ...`` computes the
verdicts of pages anew from their rows, and ``index`` writes ``docs/results/index.md`` from the
verdicts of all pages.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from types import ModuleType

from evidence.common import DATA_VARIABLE, DEFAULT_DATA, RESULTS, Context, MissingError
from evidence.pages import listing, loaded_code, read_pages, summarised, write_code

HOUSE = Path(__file__).parent


def figures() -> dict[str, dict[str, Path]]:
    """Files of every paper, by the names the command has for them; helpers start with ``_``."""
    return {
        folder.name: {path.stem.replace("_", "-"): path for path in sorted(folder.glob("[!_]*.py"))}
        for folder in sorted(HOUSE.iterdir())
        if (folder / "__init__.py").is_file()
    }


def summary(path: Path) -> str:
    """First line of a file's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def main(arguments: list[str] | None = None) -> int:
    """List what there is, or run what is named and write its pages."""
    there = figures()
    parser = argparse.ArgumentParser(prog="python -m evidence", description=__doc__)
    parser.add_argument(
        "paper",
        nargs="?",
        default="list",
        help=f"{', '.join(there)}; all, list, confirm, judge or index",
    )
    parser.add_argument("figures", nargs="*", metavar="figure", help="all when none is named")
    parser.add_argument("--data", help=f"data folder (else ${DATA_VARIABLE}, else {DEFAULT_DATA})")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_true", help="the papers' sizes; takes hours")
    sizes.add_argument("--quick", action="store_true", help="a minute at most; no page is written")
    options = parser.parse_args(arguments)
    paper, named = options.paper, options.figures
    if paper in ("all", "list", "index") and named:
        parser.error(f"{paper} takes no figure: it is about all of every paper")
    if paper == "list":
        _list(there)
        return 0
    if paper == "index":
        (RESULTS / "index.md").write_text(summarised(read_pages()), encoding="utf-8")
        return 0
    if paper in ("judge", "confirm"):
        if not named:
            parser.error(f"{paper} takes a paper, and figures of it")
        paper, *named = named
    elif paper == "all":
        # What an earlier run has done stays, unless sizes are asked for.
        fresh = {name for name, page in read_pages().items() if page.code and not page.changed()}
        pairs = [
            (each, figure) for each in there if each != "speed" for figure in there[each]
            if _flags(options) or f"{each}-{figure}" not in fresh
        ]  # fmt: skip
        return _run_each(pairs, _flags(options))
    if paper not in there:
        parser.error(f"there is no paper {paper!r}; there are {', '.join(there)}, and all")
    for figure in named:
        if figure not in there[paper]:
            known = ", ".join(there[paper])
            parser.error(f"{paper} has no figure {figure!r}; it has {known}")
    names = named or list(there[paper])
    if options.paper == "judge":
        for figure in names:
            _judge(paper, figure)
        return 0
    if options.paper == "confirm":
        return max([_confirm(paper, figure) for figure in names])
    if len(names) > 1:
        return _run_each([(paper, figure) for figure in names], _flags(options))
    data = Path(options.data or os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)
    _run(Context(paper, names[0], data, options.full, options.quick))
    return 0


def _flags(options: argparse.Namespace) -> list[str]:
    words = [f"--{name}" for name in ("full", "quick") if getattr(options, name)]
    return [*words, *(["--data", options.data] if options.data else [])]


def _run_each(pairs: list[tuple[str, str]], flags: list[str]) -> int:
    """Run each in a process of its own, one a core: a page names the code it alone imported."""
    commands = [[sys.executable, "-m", "evidence", *pair, *flags] for pair in pairs]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return max(pool.map(subprocess.call, commands), default=0)


def module(paper: str, figure: str) -> ModuleType:
    """Import the module of a figure."""
    return importlib.import_module(f"evidence.{paper}.{figure.replace('-', '_')}")


def shrink() -> None:
    """Give constants of what is imported the values that their module's ``QUICK`` has for them."""
    for name, each in list(sys.modules.items()):
        if name.startswith("evidence.") and (quick := getattr(each, "QUICK", None)):
            if unknown := quick.keys() - vars(each).keys():
                raise LookupError(f"{name} has no {', '.join(sorted(unknown))} for its QUICK")
            vars(each).update(quick)


def _list(there: dict[str, dict[str, Path]]) -> None:
    others = [
        (f"{paper}-{figure}", summary(path))
        for paper, files in there.items()
        for figure, path in files.items()
    ]
    print("\n".join(listing(read_pages(), others)))


def _judge(paper: str, figure: str) -> None:
    judged = getattr(module(paper, figure), "judged", None)
    page = read_pages().get(f"{paper}-{figure}")
    if judged is None or page is None:
        print(f"{paper} {figure}: no page whose rows give its verdicts")
        return
    (RESULTS / f"{page.name}.md").write_text(page.rejudged(judged(page.tables)), encoding="utf-8")


def _confirm(paper: str, figure: str) -> int:
    page = read_pages().get(f"{paper}-{figure}")
    if page is None:
        print(f"{paper} {figure}: no page")
        return 1
    command = [sys.executable, "-m", "evidence", paper, figure, "--quick"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if confirmed := page.confirmed(text, date.today().isoformat()):
        (RESULTS / f"{page.name}.md").write_text(confirmed, encoding="utf-8")
        print(f"{paper} {figure}: of the code of now")
        return 0
    print(f"{paper} {figure}: with --quick other numbers than before, or seconds alone: run it")
    return 1


def _run(context: Context) -> None:
    run = module(context.paper, context.figure).run
    if context.quick:
        shrink()
    begun = time.monotonic()
    try:
        report = run(context)
    except MissingError as missing:
        print(f"{context.name}: skipped, {missing}")
        return
    seconds = time.monotonic() - begun
    if report is not None:
        text = report.markdown(context, seconds, write_code(loaded_code()))
        if not context.quick:
            (RESULTS / f"{context.name}.md").write_text(text, encoding="utf-8")
            _confirm(context.paper, context.figure)
        print(text, flush=True)
    context.say(f"done in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
