"""Pages of results: what they say, when they were made, and of which code."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

from evidence.common import RESULTS
from evidence.report import OURS, Judged, Table, verdicts_table

ROOT = RESULTS.parents[1]
# Where code lies whose change makes a page old.
CODE = ("src", "packages", "evidence")
KERNELS = Path("packages") / "silot-transport"
# What runs items, writes and reads pages, and what only shows results measures nothing.
MACHINERY = {
    Path("evidence") / name for name in ("__init__.py", "__main__.py", "pages.py", "report.py")
}
SHOWING = re.compile(r"/(render|cli)/|view\.py$|/figures\.py$|/(errors|report)\.py$")
# Columns of seconds and of memory: no two runs agree on them.
_TIMED = re.compile(r"(^|, )m?s$|seconds|CPU|^MB$|MiB")
_QUICK = re.compile(r"<!-- quick (\w+) (\S+) -->\n?")
_MADE = re.compile(r"Made by `python -m evidence (.+?)` on (\d{4}-\d\d-\d\d) in (\d+) s")
_DIGITS = 6


@dataclass(frozen=True)
class Page:
    """A page of results, read back.

    ``name, title, text``: its file's stem, its first line and all of it; ``command, date,
    seconds``: what made it, when, and for how long. ``code``: digest of every source file that
    was imported when it was made, by its path in the repository, words and rules of verdicts
    aside; empty for old pages. ``quick``: digest of the numbers of ``--quick``, and the day it was
    last found the same. ``verdicts``: cells of the table of claims. ``tables``: its numbers.
    """

    name: str
    title: str
    text: str
    command: str
    date: str
    seconds: int
    code: dict[str, str]
    quick: tuple[str, str]
    verdicts: list[list[str]]
    tables: list[Table]

    @classmethod
    def read(cls, path: Path) -> Page:
        """Read a page as ``Report.markdown`` wrote it."""
        text = path.read_text(encoding="utf-8")
        made = _MADE.search(text)
        if made is None:
            raise ValueError(f"{path.name} does not say what made it")
        head, _, numbers = text.partition("\n## Numbers\n")
        claims = [table.rows for table in _tables(head) if "verdict" in table.columns]
        return cls(
            name=path.stem,
            title=text.partition("\n")[0].removeprefix("# "),
            text=text,
            command=made[1],
            date=made[2],
            seconds=int(made[3]),
            code=_read_code(text),
            quick=quick.groups() if (quick := _QUICK.search(text)) else ("", ""),
            verdicts=[list(row) for rows in claims for row in rows],
            tables=_tables(numbers),
        )

    @property
    def of_paper(self) -> list[list[str]]:
        """Verdicts on what the paper says, without what is a wish of ours."""
        return [row for row in self.verdicts if not is_ours(row[1])]

    def changed(self, root: Path = ROOT) -> list[str]:
        """Files that are no longer what they were when the page was made, or are gone."""
        return [
            name
            for name, digest in self.code.items()
            if not SHOWING.search(f"/{name}") and Path(name) not in MACHINERY
            and _digest(root / name) != digest
        ]  # fmt: skip

    def state(self, root: Path = ROOT) -> str:
        """When and how long, and whether its code is older than what lies there now."""
        made = f"{self.date}, {self.seconds} s"
        if self.quick[1] > self.date:
            made += f", the same with --quick on {self.quick[1]}"
        if not self.code:
            return f"{made}, code unknown"
        changed = self.changed(root)
        if not changed:
            return made
        names = ", ".join(Path(name).name for name in changed[:2])
        more = f" and {len(changed) - 2} more" if len(changed) > 2 else ""
        return f"{made}, stale: {names}{more} changed since"

    def confirmed(self, text: str, today: str, root: Path = ROOT) -> str:
        """Write the page with the code of now, whose numbers of ``--quick`` are the same ones.

        ``text`` is what ``--quick`` printed; "" is returned where its numbers are others, or only
        seconds. A page that is not older than its code takes them as they are.
        """
        digest = digest_numbers(text)
        if not digest or ((self.changed(root) or not self.code) and digest != self.quick[0]):
            return ""
        names = dict.fromkeys([*self.code, *_read_code(text)])
        code = {name: _digest(root / name) for name in names if (root / name).is_file()}
        before = _QUICK.sub("", self.text.partition("\n<!-- code\n")[0])
        return f"{before}\n{write_code(code)}\n<!-- quick {digest} {today} -->\n"

    def rejudged(self, judged: Sequence[Judged]) -> str:
        """Write the page with verdicts computed anew; wishes that are not among them stay."""
        named = {one.claim.claim for one in judged}
        kept = [row for row in self.verdicts if is_ours(row[1]) and row[0] not in named]
        # Cells as they were: a bar in one is written as an entity.
        rows = [one.row for one in judged] + kept
        before, _, after = self.text.partition("\n## Verdicts\n")
        if not after:
            raise ValueError(f"{self.name} has no verdicts")
        return f"{before}\n{verdicts_table(rows)}\n\n## Set-up{after.partition('## Set-up')[2]}"


def is_ours(paper: str) -> bool:
    """Whether the paper's cell of a claim says that it is not the paper's."""
    return not paper or paper in OURS or "a wish" in paper


def digest_numbers(text: str) -> str:
    """Digest the numbers of a page, columns of seconds aside; "" where there are no others."""
    cells = [
        [cell for name, cell in zip(table.columns, row, strict=False) if not _TIMED.search(name)]
        for table in _tables(text.partition("\n## Numbers\n")[2])
        for row in table.rows
    ]
    if not re.search(r"\d", str([row[1:] for row in cells])):
        return ""
    return hashlib.sha256(repr(cells).encode()).hexdigest()[:_DIGITS]


def loaded_code(root: Path = ROOT) -> dict[str, str]:
    """Digest every source file below ``root`` that this process has imported to compute."""
    folders = tuple(str(root / name) + "/" for name in CODE)
    files = {
        Path(path).relative_to(root)
        for module in list(sys.modules.values())
        if (path := getattr(module, "__file__", None)) and path.startswith(folders)
    }
    compiled = {path for path in files if path.suffix != ".py"}
    if any(path.is_relative_to(KERNELS) for path in files):
        # What compiled modules are made of.
        files |= {
            path.relative_to(root)
            for path in (root / KERNELS).rglob("*")
            if path.suffix in (".cpp", ".hpp", ".h") and "build" not in path.parts
        }
    measured = sorted(files - compiled - MACHINERY)
    return {str(path): _digest(root / path) for path in measured if not SHOWING.search(f"/{path}")}


def write_code(code: dict[str, str]) -> str:
    """Write digests as a comment that a reader of the page does not see, one folder a line."""
    folders: dict[str, list[str]] = {}
    for name, digest in code.items():
        path = Path(name)
        folders.setdefault(str(path.parent), []).append(f"{path.name}={digest}")
    lines = [f"{folder}: {' '.join(files)}" for folder, files in folders.items()]
    return "\n".join(["<!-- code", *lines, "-->"])


def _read_code(text: str) -> dict[str, str]:
    _, _, comment = text.partition("<!-- code\n")
    code: dict[str, str] = {}
    for line in comment.partition("-->")[0].splitlines():
        folder, _, files = line.partition(": ")
        for file in files.split():
            name, _, digest = file.partition("=")
            code[f"{folder}/{name}"] = digest
    return code


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        content = _without_words(content, "evidence" in path.parts)
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


# The same files are behind most pages.
@cache
def _without_words(source: str, rules: bool) -> str:
    """Drop what changes no number: docstrings, comments, empty lines, and ``rules`` of verdicts."""
    lines = source.splitlines()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        # Lines that only hold a string: docstrings of modules, classes, functions and attributes.
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        # A test holds verdicts against the rows of a page.
        is_rule = isinstance(node, ast.FunctionDef) and node.name == "judged"
        if is_text or (rules and is_rule and node in tree.body):
            end = node.end_lineno or node.lineno
            lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _tables(text: str) -> list[Table]:
    """Read the tables of a text, each with the paragraph above it."""
    tables: list[Table] = []
    blocks = text.split("\n\n")
    for caption, block in pairwise(blocks):
        lines = block.strip().splitlines()
        if len(lines) >= 2 and lines[1].startswith("| ---"):
            header, _, *rows = [_cells(line) for line in lines]
            tables.append(Table(caption.strip(), header, rows))
    return tables


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split(" | ")]


@dataclass(frozen=True)
class Item:
    """A numbered figure, table or theorem of a paper, as ``items.toml`` has it."""

    name: str
    about: str
    pages: Sequence[str] = ()
    """Names of the pages that measure it."""
    illustration: bool = False
    """Whether it is a drawing, with nothing to measure."""
    open: str = ""
    """What of it has no row, or waits for a run, and why."""

    def states(self, pages: dict[str, Page]) -> list[str]:
        """Say what there is of it: one line a page."""
        if self.illustration:
            return ["illustration"]
        measured = [name for name in self.pages if name in pages]
        return [f"{name.replace('-', ' ', 1)}: {pages[name].state()}" for name in measured] or [
            "missing"
        ]


@dataclass(frozen=True)
class Paper:
    """One of the five papers: its items, and what to use in place of what does not hold."""

    name: str
    title: str
    folder: str
    instead: str
    items: Sequence[Item]


def papers() -> list[Paper]:
    """Read ``items.toml``."""
    stored = tomllib.loads((Path(__file__).parent / "items.toml").read_text(encoding="utf-8"))
    return [
        Paper(name, **entry | {"items": [Item(k, **line) for k, line in entry["items"].items()]})
        for name, entry in stored.items()
    ]


def read_pages(folder: Path = RESULTS) -> dict[str, Page]:
    """Read every page that an item made, by name."""
    return {
        path.stem: Page.read(path) for path in sorted(folder.glob("*.md")) if path.stem != "index"
    }


def listing(pages: dict[str, Page], others: Iterable[tuple[str, str]]) -> list[str]:
    """List all items of the papers, then the items of ours, each with its state."""
    lines: list[str] = []
    named: set[str] = set()
    for paper in papers():
        lines.append(f"{paper.name}: {paper.title}")
        for item in paper.items:
            states = item.states(pages)
            lines.append(f"  {item.name:<12} {item.about}")
            lines += [f"  {'':<12} - {state}" for state in states]
            lines += [f"  {'':<12} - open: {item.open}"] if item.open else []
            named |= set(item.pages)
    lines.append("silot: what no paper has")
    for name, about in others:
        if name in named:
            continue
        state = pages[name].state() if name in pages else "no page"
        lines += [f"  {name.replace('-', ' ', 1)}: {about}", f"  {'':<12} - {state}"]
    return lines


# Verdicts by how much holds, and the heads of their columns.
_HEADS = {
    "matched": "hold",
    "partly": "hold in part",
    "not matched": "do not hold",
    "not testable here": "cannot be tested here",
}


def summarised(pages: dict[str, Page]) -> str:
    """Write the summary of the papers: what holds, what does not, and what to use in its place."""
    parts = [
        "# What the five papers claim, measured",
        "Made by `python -m evidence index` from the verdicts of the pages; wishes of ours are not "
        "counted. In part: a weaker form holds. `python -m evidence list` shows every figure and "
        "table, when it was measured, and what nobody has measured yet. Do not edit by hand.",
    ]
    folders = {paper.folder for paper in papers()}
    shown: set[str] = set()
    for paper in papers():
        measured = [pages[name] for name in _measuring(paper, folders) if name in pages]
        shown |= {page.name for page in measured}
        rows = [row for page in measured for row in page.of_paper]
        counts = _counts(rows)
        missing = [item.name for item in paper.items if item.states(pages) == ["missing"]]
        said = ", ".join(f"{n} {_HEADS[word]}" for word, n in counts.items())
        absent = f" Not measured yet: {', '.join(missing)}." if missing else ""
        table = Table.of(
            f"{paper.title}. Of {len(rows)} claims {said}.{absent}",
            measured,
            {
                "page": lambda page: (
                    f"[{page.name.partition('-')[2].replace('-', ' ')}]({page.name}.md)"
                ),
                **{_HEADS[word]: partial(_claims_of, word) for word in counts},
            },
        )
        parts += [f"## {paper.name}", table.markdown(), f"**Instead:** {paper.instead.strip()}"]
    others = [page for page in pages.values() if page.name not in shown]
    table = Table.of(
        "What no paper claims.",
        others,
        {
            "page": lambda page: f"[{page.title}]({page.name}.md)",
            "verdicts": lambda page: (
                ", ".join(f"{n} {word}" for word, n in _counts(page.verdicts).items()) or "–"
            ),
        },
    )
    return "\n\n".join([*parts, "## silot itself", table.markdown()]) + "\n"


def _counts(rows: Sequence[Sequence[str]]) -> dict[str, int]:
    """Number of claims by verdict, of those that there are."""
    counts = {word: sum(row[3] == f"**{word}**" for row in rows) for word in _HEADS}
    return {word: count for word, count in counts.items() if count}


def _measuring(paper: Paper, folders: set[str]) -> list[str]:
    """Name the pages of a paper, without those that are another paper's."""
    others = tuple(f"{folder}-" for folder in folders - {paper.folder})
    names = dict.fromkeys(name for item in paper.items for name in item.pages)
    return [name for name in names if not name.startswith(others)]


def _claims_of(word: str, page: Page) -> str:
    claims = [row[0].rstrip(".") for row in page.of_paper if row[3] == f"**{word}**"]
    return "; ".join(claims) or "–"
