"""What README and docs say to type: it runs, and prints what they say it prints."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml

import silot
from evidence.__main__ import figures
from examples import clinics
from examples.hospital_data import write
from silot import Measure
from silot.cli.app import app
from silot.data.reading import Schema
from silot.federation import Policy
from silot.federation.addresses import Addresses
from tests.lazily import package

pl = package("polars")

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Made by commands that take minutes; only that these exist is checked here.
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
PARSER, RUNNER = doctest.DocTestParser(), doctest.DocTestRunner()
# What snippets find in the folder.
PRELUDES = {
    "distillation.md": (
        "python -m examples.distill_data again",
        "silot train distill again/distill.yml --save model.npz",
    )
}
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
# Commands of the README that other tests run, or the test-suite is.
_ELSEWHERE = ("make test", "make bench", "make reproduce")


@dataclass(frozen=True)
class Fence:
    """A block of a page."""

    page: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fences(page: Path) -> Iterator[Fence]:
    kind, start, lines = None, 0, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif kind is None:
            kind, start, lines = line[3:].strip(), number, []
        else:
            yield Fence(page.name, start, kind, "\n".join(lines))
            kind = None


FENCES = [fence for page in PAGES for fence in fences(page)]
CODE = [fence for fence in FENCES if fence.kind == "python"]
LISTS = [
    (fence, line)
    for fence in FENCES
    for line in fence.text.splitlines()
    if fence.kind == "" and re.match(r"(silot|python -m|make) ", line)
]
# Commands on two machines, named by the fence, have a test of their own.
MACHINES = ("text hospitals", "text coordinator")
SESSIONS = [fence for fence in FENCES if fence.text.startswith("$ ") and fence.kind not in MACHINES]
# Lines in a row of what `silot demo` prints.
DEMO = [fence for fence in FENCES if fence.kind == "text demo"]
# Lines in a row of what another command prints, which the fence names.
EXCERPTS = [fence for fence in FENCES if fence.kind.startswith("text silot ")]

# With whom a site, or an asker, computes.
LINKS = [fence for fence in FENCES if fence.kind == "yaml" and "listen:" in fence.text]


def drawn(rng: np.random.Generator, n: int, shift: float = 0.0) -> Measure:
    """Records of two classes in four features."""
    kinds = rng.integers(2, size=n)
    points = rng.normal(size=(n, 4)) + shift
    points[:, 0] += 4.0 * kinds
    return Measure(points, labels=np.array(["sick", "well"])[kinds])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that pages name."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(11)
    names = ("north", "south", "west", "s1", "s2", "s3", "seller1", "seller2", "mine", "p")
    for k, name in enumerate(names):
        # A sketch counts with noise: some 200 records are needed, and twice as many are enough.
        measure = drawn(rng, 400, 0.1 * k)
        np.savez(folder / f"{name}.npz", X=measure.points, y=measure.labels)
        table = pl.DataFrame(measure.points, schema=list("abcd"))
        table = table.with_columns(diagnosis=pl.Series(np.asarray(measure.labels)))
        table.write_csv(folder / f"{name}.csv")
        table.write_parquet(folder / f"{name}.parquet")
    shutil.copytree(ROOT / "examples", folder / "examples")
    write(folder / "hospitals")
    clinics.main(folder / "clinics")
    (folder / "policy.yml").write_text(policies()[0].text)
    (folder / "open.yml").write_text("level: record\n")
    columns = {name: {"kind": "number", "range": [-10, 20]} for name in "abcd"}
    label = {"column": "diagnosis", "classes": ["sick", "well"]}
    Schema.of({"columns": columns, "label": label}).save(folder / "schema.yml")
    return folder


def policies() -> list[Fence]:
    return [fence for fence in FENCES if fence.text.startswith("level: ")]


def at_desk(desk: Path, command: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command, comments=True)
    program = {"silot": ["-c", "from silot.cli import main; main()"], "python": []}[words[0]]
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    settings = {"COLUMNS": "80", "NO_COLOR": "1", "MPLBACKEND": "agg", "PYTHONPATH": paths}
    return subprocess.run(
        [sys.executable, *program, *words[1:]],
        capture_output=True,
        text=True,
        cwd=desk,
        env={**os.environ, **settings},
        timeout=2400,
        check=False,
    )


def assert_alike(printed: str, stated: str) -> None:
    """The same words, and numbers within the digits that are stated.

    Neither seconds nor errors of rounding are compared.
    """
    masked = [
        re.sub(r"\d+\.\d+(?= s\b| record$)|\d+ s\b", "SECONDS", text, flags=re.MULTILINE)
        for text in (printed, stated)
    ]
    masked = [re.sub(r"\d(\.\d+)?e-1[4-9]\b", "ROUNDING", text) for text in masked]
    lines = [[" ".join(line.split()) for line in text.strip().splitlines()] for text in masked]
    assert len(lines[0]) == len(lines[1]), printed
    for found, told in zip(*lines, strict=True):
        assert _NUMBER.sub("#", found) == _NUMBER.sub("#", told), (found, told)
        for number, expected in zip(_NUMBER.findall(found), _NUMBER.findall(told), strict=True):
            digits = len(expected.partition(".")[2])
            room = max(1.5 * 10.0**-digits, 0.01 * abs(float(expected)))
            # Whole numbers are counts, but for bytes with a unit behind them.
            room = room if digits else 0.02 * abs(float(expected))
            assert abs(float(number) - float(expected)) <= room, (found, told)


def test_alike_tells_other_words_other_numbers_and_other_counts_apart() -> None:
    assert_alike("a  1.50 in 3.2 s", "a 1.51 in 9.9 s")
    for printed in ("b 1.50", "a 1.60", "a 1.50\nmore", "a 1.50 2"):
        with pytest.raises(AssertionError):
            assert_alike(printed, "a 1.50")
    with pytest.raises(AssertionError):
        assert_alike("7 rounds", "8 rounds")


def test_the_pages_have_what_is_looked_for() -> None:
    assert len(CODE) >= 10 and len(LISTS) >= 18 and len(SESSIONS) >= 9 and len(policies()) == 1
    # Every other block is a tree of the house, the demo's output or a policy.
    seen = {*CODE, *SESSIONS, *DEMO, *EXCERPTS, *LINKS, *(listed for listed, _ in LISTS)}
    others = [fence for fence in FENCES if fence not in seen]
    # Commands over sites have tests of their own, on sites in this process and on real ones.
    elsewhere = {"architecture.md", "privacy.md", "releases.md", "sites.md", "deploy.md"}
    assert {fence.page for fence in others} <= elsewhere


@pytest.mark.parametrize("fence", LINKS, ids=str)
def test_addresses_of_the_pages_are_some(fence: Fence) -> None:
    body = yaml.safe_load(fence.text)
    assert Addresses(**body) if "listen" in body else Policy(**body).secure


def test_a_stranger_reads_the_readme_to_its_end() -> None:
    assert len(PAGES[0].read_text().splitlines()) <= 90
    assert all(picture.stat().st_size < 120_000 for picture in (ROOT / "docs/images").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({fence.page for fence in CODE}))
def test_snippets_run_one_after_the_other(
    page: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setenv("MPLBACKEND", "agg")
    measures = {name: silot.Measure(*_arrays(desk / f"{name}.npz")) for name in ("s1", "s2", "s3")}
    known: dict[str, Any] = {name: _arrays(desk / f"{file}.npz")[0] for name, file in _ARRAYS}
    known |= measures | {"mine": silot.Measure(*_arrays(desk / "mine.npz"))}
    known |= {name: pl.read_csv(desk / f"{name}.csv") for name in ("north", "south")}
    for command in PRELUDES.get(page, ()):
        assert at_desk(desk, command).returncode == 0, command
    for fence in CODE:
        if fence.page == page:
            if ">>>" in fence.text:
                test = PARSER.get_doctest(fence.text, known, str(fence), str(fence), fence.line)
                assert test.examples
                assert RUNNER.run(test, clear_globs=False).failed == 0
                known |= test.globs
            else:
                exec(compile("\n" * fence.line + fence.text, str(fence), "exec"), known)


_ARRAYS = (("x", "north"), ("y", "south"), ("z", "west"), ("p", "p"))


def _arrays(path: Path) -> tuple[Any, None, Any]:
    with np.load(path) as stored:
        return stored["X"], None, stored["y"]


@pytest.mark.slow
@pytest.mark.parametrize(("fence", "command"), LISTS, ids=[command for _, command in LISTS])
def test_commands_end_well(fence: Fence, command: str, desk: Path) -> None:
    if command.startswith("make "):
        assert command.split("#")[0].strip() in ("make demo", "make test", "make slow")
        return
    if "--method secure" in command and find_spec("spu") is None:
        pytest.skip("secure distances are run where their engine is installed")
    # What an earlier command of the list leaves behind.
    for made, by in (
        ("run.transcript", "--transcript"),
        ("ledgers/north.ledger", "--public p.npz --ledgers"),
        ("public.npz", "schema apply"),
        ("compare/schema.west.site.yml", "silot compare hospitals/north.csv"),
    ):
        if made in command and by not in command and not (desk / made).exists():
            at_desk(desk, next(line for _, line in LISTS if by in line))
    done = at_desk(desk, command)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fence", SESSIONS, ids=str)
def test_sessions_print_what_they_show(fence: Fence, desk: Path) -> None:
    parts = re.split(r"^\$ (.*)$", fence.text, flags=re.MULTILINE)[1:]
    for command, stated in zip(parts[::2], parts[1::2], strict=True):
        done = at_desk(desk, command)
        assert done.returncode == 0, done.stdout + done.stderr
        if stated.strip():
            assert_alike(done.stdout, stated)


@pytest.mark.slow
def test_the_demo_prints_what_the_pages_show(desk: Path) -> None:
    printed = at_desk(desk, "silot demo").stdout.splitlines()
    assert len(DEMO) >= 3
    for fence in DEMO:
        assert_within(printed, fence)


@pytest.mark.slow
@pytest.mark.parametrize("fence", EXCERPTS, ids=str)
def test_commands_print_what_the_pages_show_of_them(fence: Fence, desk: Path) -> None:
    done = at_desk(desk, fence.kind.removeprefix("text "))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_within(done.stdout.splitlines(), fence)


def assert_within(printed: list[str], fence: Fence) -> None:
    lines = fence.text.splitlines()
    starts = [k for k, line in enumerate(printed) if line.split() == lines[0].split()]
    assert starts, (str(fence), printed)
    assert_alike("\n".join(printed[starts[0] :][: len(lines)]), fence.text)


def test_the_policy_shown_is_the_default_one_with_its_level() -> None:
    told = yaml.safe_load(policies()[0].text)
    assert Policy(**told) == Policy(level=told["level"])
    assert set(told) == set(Policy.model_fields)


# What pages name within their sentences.


def spans() -> set[tuple[str, str]]:
    pages = [*PAGES, *RESULTS]
    return {
        (page.name, span.replace("\\|", "|"))
        for page in pages
        for span in re.findall(
            r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
        )
    }


def commands() -> dict[str, set[str]]:
    """Options of every command of the command line, groups' commands by both words."""
    listed: dict[str, set[str]] = {}

    def walk(command: Any, name: str) -> None:
        options = {word for item in command.params for word in (*item.opts, *item.secondary_opts)}
        listed[name] = options | {"--help", "--help-all", "--version"}
        for word, child in getattr(command, "commands", {}).items():
            walk(child, f"{name} {word}")

    walk(typer.main.get_command(app), "silot")
    return listed


# Options of evidence, and of programs of others.
_OF_OTHERS = {"--full", "--quick", "--data", "--processes", "--build-arg", "--set"}


def test_commands_and_options_named_in_sentences_exist() -> None:
    known = commands()
    options = set().union(*known.values())
    for page, span in sorted(spans()):
        words = span.split()
        if span.startswith("python -m evidence "):
            paper, *named = [word for word in words[3:] if not word.startswith("--")]
            known_figures = figures() | {key: {} for key in ("list", "index")}
            assert set(named) <= set(known_figures[paper]), (page, span)
        elif span.startswith("python -m "):
            assert find_spec(words[2]) is not None, (page, span)
            continue
        elif not span.startswith(("--", "silot ")):
            continue
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", span):
            assert option in options | _OF_OTHERS, (page, span)


def calls() -> Iterator[tuple[str, str]]:
    """What the repository says to type: by file, the words after `silot`."""
    folders = ("src", "docs", "examples", "deploy", "reference", "evidence")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    kinds = {".md", ".py", ".toml", ".yml", ".yaml", ".tpl", ".jinja", ".json", ".txt"}
    for path in [*sorted(ROOT.glob("*.md")), *files]:
        if path.suffix not in kinds or path.name == "CHANGELOG.md":
            continue
        file = path.relative_to(ROOT).as_posix()
        # A text of Python may go on in the next literal.
        text = re.sub(r"(?<=\S) ?\"\n\s*f?\"", " ", path.read_text(encoding="utf-8"))
        # What a command prints as the next one to type begins a text, or follows a colon.
        is_printing = file.startswith(("src/silot/cli/", "src/silot/api/", "examples/"))
        before = r"`|\$ |: |\"" if is_printing else r"`|\$ "
        found = re.findall(rf"(?:{before})silot ([a-z][^`\n]*)", text)
        if path.suffix == ".md":
            blocks = "\n".join(fence.text for fence in fences(path))
            found += re.findall(r"^ *silot (.*)", blocks, re.M)
        for call in found:
            yield file, call.replace("\\|", "|")


def test_every_command_that_is_named_exists() -> None:
    root: Any = typer.main.get_command(app)
    named = set[str]()
    for file, call in calls():
        item, words = root, call.split()
        while words and hasattr(item, "commands"):
            names = [re.sub(r"[^a-z-]+$", "", word) for word in words[0].split("|")]
            if not all(name in item.commands for name in names):
                # A file for the command of a group that may be left out, an option, or a sign.
                assert item.default or not re.match("[a-z]", words[0]), (file, call)
                item = item.commands.get(item.default)
                break
            item, words = item.commands[names[0]], words[1:]
        options = {word for param in getattr(item, "params", ()) for word in param.opts}
        flags = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", " ".join(words))) - {"--help"}
        assert flags <= options or hasattr(item, "commands") or item is None, (file, call)
        named.add(file.partition("/")[0])
    assert named >= {"README.md", "src", "docs", "examples", "deploy", "reference", "evidence"}


def test_names_in_sentences_exist() -> None:
    for page, span in sorted(spans()):
        found = re.match(r"(silot(?:\.\w+)+)", span)
        if found and not span.endswith((".py", ".yml")):
            assert resolved(found[1]) is not None, (page, span)


def resolved(name: str) -> object:
    words = name.split(".")
    for k in range(len(words), 0, -1):
        if _is_module(".".join(words[:k])):
            thing: object = importlib.import_module(".".join(words[:k]))
            for word in words[k:]:
                thing = getattr(thing, word, None)
            return thing
    return None


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_links_lead_to_files() -> None:
    for page in [*PAGES, *RESULTS]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), (page.name, target)
