"""Pages of results say what made them, of which code, and judge by their own rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from evidence.__main__ import figures, main, module
from evidence.common import RESULTS, Context
from evidence.pages import (
    ROOT,
    Page,
    _digest,  # pyright: ignore[reportPrivateUsage]
    is_ours,
    listing,
    loaded_code,
    papers,
    read_pages,
    summarised,
    write_code,
)
from evidence.report import Claim, Report, Table, verdict

PAGES = read_pages()
WORDS = {f"**{word}**" for word in ("matched", "partly", "not matched", "not testable here")}
JUDGED = [
    name
    for paper, files in figures().items()
    for figure, path in files.items()
    if (name := f"{paper}-{figure}") in PAGES
    and re.search(r'^def judged\(|"judged"', path.read_text(), re.M)
]


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
def test_every_verdict_is_one_of_four_and_has_a_reason_where_it_is_not_matched(page: Page) -> None:
    for row in page.verdicts:
        assert row[3] in WORDS, row
        assert row[4] or row[3] in ("**matched**", "**partly**"), row


@pytest.mark.parametrize("name", JUDGED)
def test_verdicts_of_a_page_follow_from_its_rows(name: str) -> None:
    judge = module(*name.split("-", 1)).judged
    computed = [one.row for one in judge(PAGES[name].tables)]
    assert computed
    assert [row for row in computed if row not in PAGES[name].verdicts] == []


def _page(folder: Path, code: dict[str, str]) -> Page:
    table = Table("Seconds.", ["way", "seconds"], [["slow", "2"], ["fast", "1"]])
    judged = [
        Claim("fast is faster", "yes").judged("2 to 1", verdict(True)),
        Claim("slow is faster", "a wish").judged("1 to 2", verdict(False), "It is slow."),
    ]
    report = Report("A page", "About.", ["Set up."], judged, [table])
    text = report.markdown(Context("fedwad", "figure-9", Path(), False), 12.4, write_code(code))
    path = folder / "fedwad-figure-9.md"
    path.write_text(text, encoding="utf-8")
    return Page.read(path)


def test_a_page_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    page = _page(tmp_path, {"src/a/b.py": "12ab34", "src/a/c.py": "56cd78", "d.py": "90ef12"})
    assert (page.title, page.command, page.seconds) == ("A page", "fedwad figure-9", 12)
    assert page.code == {"src/a/b.py": "12ab34", "src/a/c.py": "56cd78", "./d.py": "90ef12"}
    assert [row[0] for row in page.of_paper] == ["fast is faster"]
    assert [list(row) for row in page.tables[0].rows] == [["slow", "2"], ["fast", "1"]]
    assert not is_ours("yes") and is_ours("5 % (a wish)") and is_ours("")


def test_a_change_of_the_code_that_a_page_measures_is_noticed(tmp_path: Path) -> None:
    code = loaded_code()
    names = ("evidence/common.py", "src/silot/__init__.py")
    assert set(names) <= set(code)
    # What only reads and writes pages is no part of what is measured.
    assert not {"evidence/pages.py", "evidence/__main__.py"} & set(code)
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    page = _page(tmp_path, {name: code[name] for name in names})
    assert page.changed(tmp_path) == []
    assert page.state(tmp_path).endswith(", 12 s")
    with (tmp_path / names[0]).open("a") as file:
        file.write('\n# No number changes by words.\n"""Nor by these."""\n')
    assert page.changed(tmp_path) == []
    with (tmp_path / names[0]).open("a") as file:
        file.write("def judged():\n    return 1\n")
    # The rule of a page is held against its rows by a test of its own.
    assert page.changed(tmp_path) == []
    with (tmp_path / names[0]).open("a") as file:
        file.write("class Other:\n    def judged(self):\n        return 1\n")
    assert page.changed(tmp_path) == [names[0]]
    assert "stale: common.py changed since" in page.state(tmp_path)
    (tmp_path / names[1]).unlink()
    assert page.changed(tmp_path) == list(names)
    assert "code unknown" in _page(tmp_path, {}).state(tmp_path)


def test_a_page_whose_quick_numbers_are_those_of_before_is_of_the_code_of_now(
    tmp_path: Path,
) -> None:
    def quick(rows: list[list[str]], code: str) -> str:
        table = Table("Errors.", ["way", "error", "time, s"], rows)
        context = Context("fedwad", "figure-9", Path(), False, True)
        return Report("A page", "About.", ["Set up."], [], [table]).markdown(context, 1.0, code)

    measured = tmp_path / "src" / "a.py"
    measured.parent.mkdir()
    measured.write_text("ONE = 1\n")
    page = _page(tmp_path, {"src/a.py": "none"})
    before = quick([["slow", "0.5", "2"]], "")
    # Nobody knows what the older code said.
    assert page.changed(tmp_path) and page.confirmed(before, "2026-11-29", tmp_path) == ""

    def confirmed(rows: list[list[str]]) -> Page | None:
        text = page.confirmed(quick(rows, ""), "2999-11-30", tmp_path)
        path = tmp_path / "fedwad-figure-9.md"
        path.write_text(text or page.text, encoding="utf-8")
        return Page.read(path) if text else None

    code = {"src/a.py": _digest(measured)}
    page = _page(tmp_path, code)
    page = confirmed([["slow", "0.5", "2"]])
    assert page and page.quick[0] and page.changed(tmp_path) == []
    measured.write_text("TWO = 2\n")
    assert page.changed(tmp_path) == ["src/a.py"]
    assert confirmed([["slow", "0.6", "2"]]) is None
    # Seconds alone say nothing of what was measured, and differ every time.
    assert confirmed([["slow", "", "2"]]) is None
    page = confirmed([["slow", "0.5", "3"]])
    assert page and page.changed(tmp_path) == []
    assert page.text.count("<!-- quick") == page.text.count("<!-- code") == 1
    assert page.state(tmp_path).endswith("the same with --quick on 2999-11-30")
    assert [row[3] for row in page.verdicts] == ["**matched**", "**not matched**"]


@pytest.mark.nightly
@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
def test_no_page_is_older_than_the_code_it_measures(page: Page) -> None:
    assert page.code and not page.changed(), f"{page.name}: {page.state()}"


def test_verdicts_are_written_anew_and_other_wishes_stay(tmp_path: Path) -> None:
    page = _page(tmp_path, {"a/b.py": "12ab34"})
    anew = [Claim("fast is faster", "yes").judged("1 to 1", verdict(False), "Equal.")]
    path = tmp_path / "again.md"
    path.write_text(page.rejudged(anew), encoding="utf-8")
    again = Page.read(path)
    assert [(row[0], row[3]) for row in again.verdicts] == [
        ("fast is faster", "**not matched**"),
        ("slow is faster", "**not matched**"),
    ]
    assert (again.code, again.tables, again.seconds) == (page.code, page.tables, page.seconds)


def test_every_page_that_an_item_names_is_one_that_a_figure_makes() -> None:
    made = {f"{paper}-{figure}" for paper, files in figures().items() for figure in files}
    assert len(papers()) == 5
    for paper in papers():
        assert paper.folder in figures()
        for item in paper.items:
            assert set(item.pages) <= made, item
            assert not (item.illustration and item.pages), item


def test_the_list_has_every_item_with_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    for paper in papers():
        assert paper.title in listed
        for item in paper.items:
            assert item.about in listed
    gone = listing({}, [])
    drawn = sum(item.illustration for paper in papers() for item in paper.items)
    assert sum(line.endswith("illustration") for line in gone) == drawn
    items = sum(len(paper.items) for paper in papers())
    assert sum(line.endswith("missing") for line in gone) == items - drawn


def test_the_summary_is_what_the_pages_say() -> None:
    text = (RESULTS / "index.md").read_text(encoding="utf-8")
    assert text == summarised(PAGES), "run `python -m evidence index`"
    assert all(f"]({name}.md)" in text for name in PAGES)
