"""The evidence: every figure is found, and every page of results is made by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.__main__ import figures, main, summary

PAGES = Path(__file__).parents[1] / "docs" / "results"
FIGURES = [(paper, figure) for paper, files in figures().items() for figure in files]


def test_every_page_of_results_is_made_by_a_figure_that_is_there() -> None:
    made = {f"{paper}-{figure}" for paper, figure in FIGURES if paper != "speed"}
    assert {page.stem for page in PAGES.glob("*.md")} == {*made, "index"}
    for paper, figure in FIGURES:
        if paper != "speed":
            text = (PAGES / f"{paper}-{figure}.md").read_text()
            assert f"`python -m evidence {paper} {figure}" in text, (paper, figure)


@pytest.mark.parametrize(("paper", "figure"), FIGURES)
def test_every_figure_says_what_it_is_and_runs_by_one_function(paper: str, figure: str) -> None:
    path = figures()[paper][figure]
    assert summary(path).endswith(".")
    assert "\ndef run(context: Context) -> " in path.read_text()


def test_papers_and_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(paper in listed and figure in listed for paper, figure in FIGURES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "there is no paper 'nope'; there are distillation, "),
        (["fedwad", "figure-9"], "fedwad has no figure 'figure-9'; it has coreset, "),
        (["all", "figure-2"], "all takes no figure"),
    ],
)
def test_a_name_that_is_not_there_is_an_error(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert said in " ".join(capsys.readouterr().err.split())
