"""What a report says, in which form, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import silot
from silot.api.report import render, write
from silot.distances.figures import classical_scaling
from silot.errors import FileError, InputError
from tests.lazily import package
from tests.render.factory import (
    contents_of,
    contributions,
    distance,
    many,
    matrix_of,
    record_scores,
)

matplotlib = package("matplotlib")

NAMES = ["north", "south", "west", "east", "centre"]
VOID = {"meta", "link", "img", "br", "source", "input"}


class Page(HTMLParser):
    """Tags of a page, with a check that they are nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open and "script" not in self._open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def sections(self) -> list[str]:
        return [str(attributes["id"]) for attributes in self.all("section")]


def svgs(page: Page) -> list[str]:
    kind = "data:image/svg+xml,"
    sources = [str(image["src"]) for image in page.all("img")]
    return [
        unquote(source.removeprefix(kind)).replace("'", '"')
        for source in sources
        if source.startswith(kind)
    ]


def full(**options: Any) -> Page:
    scores, truth = record_scores("north", 200)
    other, _ = record_scores("south", 150, seed=1, published=True)
    found = contributions(NAMES, missing={"far": "policy-level", "odd": "some-code"})
    given = {"contributions": found, "records": [scores, other], "truth": {"north": truth}}
    given |= options
    return Page(render(given.pop("contributions"), **given))


@pytest.mark.heavy
def test_every_section_is_there_when_its_data_are() -> None:
    page = full()
    assert page.sections == [
        "ranking-of-the-holders",
        "distances-between-holders",
        "map-of-the-holders",
        "suspect-records",
        "records-1",
        "records-2",
        "holders-that-took-no-part",
        "cost",
        "what-was-disclosed",
    ]
    linked = {str(a["href"]) for a in page.all("a")}
    assert linked == {f"#{name}" for name in page.sections if not name.startswith("records-")}


@pytest.mark.heavy
def test_sections_without_data_are_left_out() -> None:
    assert full(records=None, truth=None).sections == [
        "ranking-of-the-holders", "distances-between-holders", "map-of-the-holders",
        "holders-that-took-no-part", "cost", "what-was-disclosed",
    ]  # fmt: skip
    alone = contributions(NAMES, between=False)
    assert Page(render(alone)).sections == ["ranking-of-the-holders", "cost", "what-was-disclosed"]
    scores, _ = record_scores("north")
    assert Page(render(scores)).sections == [
        "suspect-records", "records-1", "cost", "what-was-disclosed",
    ]  # fmt: skip


@pytest.mark.heavy
def test_the_summary_names_the_closest_and_whether_bounds_prove_it() -> None:
    found = contributions(NAMES)
    ranked = found.ranking
    text = full().text
    assert f"Of 5 holders, {ranked[0].holder} is closest to the validation data" in text
    assert f"{ranked[-1].holder} is farthest" in text
    assert "2 holders took no part." in text
    overlapping = contributions(NAMES[:2], holders=tuple(
        type(ranked[0])(
            holder=name, distance=distance(value, 0.5), share=0.5, explained=0.5,
            fedbary_share=0.5, rank=rank, records=9,
        )
        for name, value, rank in (("near", 1.0, 1), ("next", 1.1, 2))
    ), between=False)  # fmt: skip
    text = Page(render(overlapping)).text
    assert "The bounds leave open whether next may be closer." in text


def test_holders_of_equal_rank_share_the_first_place() -> None:
    first = contributions(NAMES).holders[0]
    holders = tuple(
        type(first)(
            holder=name, distance=distance(value), share=0.3, explained=0.0,
            fedbary_share=0.3, rank=rank, records=9,
        )
        for name, value, rank in (("a", 1.0, 1), ("b", 1.0, 1), ("c", 2.0, 3))
    )  # fmt: skip
    found = contributions(["a", "b", "c"], holders=holders, between=False)
    text = Page(render(found)).text
    assert "a and b are equally close to the validation data and closest" in text
    assert "The bounds prove that no other holder is closer." in text


@pytest.mark.heavy
def test_missing_holders_have_a_reason_in_words() -> None:
    text = full().text
    assert "its policy does not allow this disclosure level" in text and "policy-level" in text
    assert "it could not answer" in text and "some-code" in text
    only = contributions([], holders=(), missing={"far": "holder-timeout"}, between=False)
    page = Page(render(only))
    assert page.sections == ["holders-that-took-no-part", "cost", "what-was-disclosed"]
    assert "1 holder took no part." in page.text


@pytest.mark.heavy
def test_the_cost_of_one_run_is_paid_once() -> None:
    transcript: Any = object()
    scores = [record_scores(name, 20, transcript=transcript)[0] for name in NAMES[:3]]
    text = Page(render(scores)).text
    assert "records of north, records of south and records of west" in text
    assert "all together" not in text
    text = Page(render(scores, contributions=contributions(NAMES))).text
    assert "all together 5 160 kB 430 kB 1.65 s" in text


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("public", "Nothing about records."),
        ("private", "noise was added before they left"),
        ("statistics", "Exact statistics. Whoever reads them can test who is in the data"),
        ("record", "Everybody who reads the messages can reconstruct every record."),
        ("", "does not come from a run"),
    ],
)
def test_disclosure_is_stated_in_sentences(level: str, words: str) -> None:
    page = Page(render(contributions(NAMES, disclosure=level)))
    assert words in page.text


@pytest.mark.heavy
def test_names_are_text_and_nothing_else() -> None:
    names = ["<script>alert(1)</script>", "$x_1$", '" onload="x', "東京", "a\x00\u202eb", "x" * 500]
    scores = [record_scores(name, 40, seed=k)[0] for k, name in enumerate(names)]
    images = {name: np.zeros((40, 4, 4)) for name in names}
    found = contributions(names, missing={"<img src=x>": "<b>"})
    text = render(found, records=scores, images=images, title="<i>title</i>")
    page = Page(text)
    # One script, which is the house's own.
    assert page.all("script") == [{}] and page.all("i") == [] and page.all("b") == []
    assert not any("onload" in attributes for _, attributes in page.tags)
    assert "<script>alert(1)</script>" in page.text and "<i>title</i>" in page.text
    assert "\x00" not in text and "\u202e" not in text
    drawn = "".join(svgs(page))
    assert "$x_1$" in drawn and "東京" in drawn and "<script" not in drawn


@pytest.mark.heavy
def test_names_written_from_right_to_left_do_not_turn_a_sentence() -> None:
    names = ["north", "\u05d0\u05d1 7", "\u0645\u0633"]
    page = Page(render(contributions(names)))
    for name in names[1:]:
        assert f"\u2068{name}\u2069" in page.text
    assert "\u2068north" not in page.text


def addresses(text: str) -> list[str]:
    """Addresses in a page; what names the language of a drawing, or a part of it, is none."""
    plain = unquote(text).replace("http://www.w3.org/", "").replace("url(#", "")
    return re.findall(r"https?:.{20}|url\(.{20}", plain)


@pytest.mark.heavy
def test_nothing_is_loaded_from_anywhere() -> None:
    scores, _ = record_scores("north", 50)
    text = render(contributions(NAMES), records=scores, images={"north": np.ones((50, 3, 3))})
    assert not addresses(text)
    page = Page(text)
    for tag, attributes in page.tags:
        for key in ("src", "srcset", "action", "data", "poster"):
            assert (attributes.get(key) or "data:").startswith("data:"), tag
        href = attributes.get("href") or "#"
        assert href.startswith("#") or (tag == "link" and href == "data:,")
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert str(policy).startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    script = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in str(policy)
    assert "unsafe-inline" not in str(policy).split("script-src")[1]


@pytest.mark.heavy
def test_a_report_can_be_read_without_seeing_it() -> None:
    page = full()
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("title")) == len(page.all("h1")) == 1
    assert all(image["alt"] for image in page.all("img"))
    assert all(head.get("scope") in ("col", "row") for head in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert len(page.all("figcaption")) == len(page.all("figure"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


@pytest.mark.heavy
def test_the_same_results_make_the_same_bytes() -> None:
    found, scores = contributions(NAMES), record_scores("north", 80)[0]
    images = {"north": np.random.default_rng(0).random((80, 5, 5, 3))}
    once = render(found, records=scores, images=images)
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9}):
        again = render(found, records=scores, images=images)
        assert matplotlib.rcParams["font.size"] == 30
    assert once == again


@pytest.mark.heavy
def test_records_come_as_one_as_many_or_by_name() -> None:
    scores, _ = record_scores("north", 60)
    one = render(scores)
    assert one == render([scores]) == render({"north": scores})
    assert "Records of <bdi>mine</bdi>" in render({"mine": scores})


@pytest.mark.heavy
def test_truth_adds_precision_and_recall() -> None:
    page = full()
    assert "precision" in page.text and "recall" in page.text
    assert any("share of faulty records found" in drawn for drawn in svgs(page))
    without = full(truth=None)
    assert "precision" not in without.text
    assert not any("share of faulty records found" in drawn for drawn in svgs(without))


@pytest.mark.heavy
@pytest.mark.parametrize("value", [False, True])
@pytest.mark.parametrize("published", [False, True])
def test_truth_of_one_kind_only_is_no_obstacle(value: bool, published: bool) -> None:
    scores, _ = record_scores("north", 30, published=published)
    page = Page(render(scores, truth={"north": np.full(30, value)}))
    assert "nan" not in page.text.lower()


def test_the_sentence_about_records_is_that_of_the_result() -> None:
    scores, _ = record_scores("north", 60)
    assert f"{scores.summary}." in Page(render(scores)).text
    bare, _ = record_scores("north", 60, published=True)
    text = Page(render(bare)).text
    assert f"{bare.summary}." in text and "calibrated gradient" in text
    assert "suggested label" not in text and "copy of" not in text and "faulty" in text


def test_every_suspect_record_is_listed_with_what_is_wrong_with_it() -> None:
    scores, _ = record_scores("north", 300, broken=0.2)
    contents = contents_of(scores, [f"p-{k}" for k in range(300)])
    listed = scores.suspects(contents)
    text = Page(render(scores, contents={"north": contents})).text
    assert {each.kinds for each in listed} >= {("label",), ("features",), ("copy",)}
    for each in listed:
        row = f"{each.record} {each.identifier} "
        assert row in text
        assert each.columns == () or "; ".join(map(str, each.columns)) in text
    assert " expected" in text and "copy of p-0" not in text
    assert "This report contains raw records. It shows values of suspect records." in text


def test_identifiers_are_text_and_nothing_else() -> None:
    scores, _ = record_scores("north", 60, broken=0.5)
    odd = ["<script>alert(1)</script>", "=1+1", "", "p", "p", "a\x00\u202eb", "x" * 500]
    contents = contents_of(scores, (odd * 9)[:60])
    text = render(scores, contents={"north": contents})
    page = Page(text)
    assert len(page.all("script")) == 1 and "<script>alert(1)</script>" in page.text
    assert "\x00" not in text and "\u202e" not in text and "x" * 100 not in text


def test_kinds_of_records_can_be_chosen_where_there_are_several() -> None:
    scores, _ = record_scores("north", 100)
    text = render(scores)
    assert re.findall(r"<option>(.*?)</option>", text) == ["copy", "features", "label"]
    assert len(re.findall("<tr data-kinds=", text)) == len(scores.suspects())
    bare, _ = record_scores("north", 100, published=True)
    assert "<select" not in render(bare)


@pytest.mark.heavy
def test_five_thousand_suspect_records_are_all_there_and_the_file_is_small() -> None:
    scores, _ = record_scores("north", 10_000, broken=0.5)
    text = render(scores, contents={"north": contents_of(scores)})
    assert text.count("<tr data-kinds=") == len(scores.suspects()) > 4_000
    assert len(text) < 4_000_000


@pytest.mark.heavy
def test_more_suspect_records_than_a_page_holds_are_counted() -> None:
    scores = np.full(20_000, 2.0)
    found, _ = record_scores("north", 20_000, scores=scores)
    text = render(found)
    assert text.count("<tr data-kinds=") == 12_000 and "12,000 of 20,000" in text


def test_values_of_records_are_for_their_owner_alone(tmp_path: Path) -> None:
    scores, _ = record_scores("north", 40)
    path = tmp_path / "raw.html"
    write(path, scores, contents={"north": contents_of(scores)})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.heavy
def test_images_bring_a_warning_and_a_private_file(tmp_path: Path) -> None:
    scores, _ = record_scores("north", 40)
    images = {"north": np.random.default_rng(0).random((40, 6, 6))}
    page = Page(render(scores, images=images))
    assert "This report contains raw records." in page.text
    assert len(page.all("li")) == 24 + len(page.all("a"))
    assert "raw records" not in Page(render(scores)).text.lower()
    write(tmp_path / "raw.html", scores, images=images)
    write(tmp_path / "plain.html", scores)
    assert stat.S_IMODE((tmp_path / "raw.html").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "plain.html").stat().st_mode) == 0o644


@pytest.mark.heavy
@pytest.mark.parametrize("records", [1, 2, 13, 20_000])
def test_few_and_many_records_of_one_holder(records: int) -> None:
    scores, truth = record_scores("north", records, broken=0.5)
    images = np.zeros((records, 2, 2))
    text = render(scores, images={"north": images}, truth={"north": truth})
    assert Page(text).text.count("most suspect record") >= 1
    assert len(text) < 300_000 + 500 * len(scores.suspects())


@pytest.mark.heavy
def test_scores_that_are_flagged_nowhere_infinite_or_wild() -> None:
    quiet, _ = record_scores("quiet", 30, broken=0.0)
    wild = np.array([np.inf, 1e12, 3.0, -1e9])
    scores = record_scores("wild", 4, scores=wild)[0]
    flat = record_scores("flat", 3, scores=np.zeros(3))[0]
    text = Page(render([quiet, scores, flat])).text
    assert "0 of 30 flagged" in text and "∞" in text
    only = Page(render(flat)).text
    assert (
        "None of 3 scored records is flagged as faulty at this level; the most suspect ones are "
        "listed." in only
    )


@pytest.mark.heavy
@pytest.mark.parametrize("holders", [1, 2, 3])
def test_few_holders(holders: int) -> None:
    page = Page(render(contributions(NAMES[:holders])))
    assert (
        ("distances-between-holders" in page.sections)
        == ("map-of-the-holders" in page.sections)
        == (holders > 1)
    )


def test_bounds_and_distances_that_are_not_known() -> None:
    first = contributions(NAMES[:1]).holders[0]
    holders = tuple(
        type(first)(
            holder=name, distance=distance(value, upper=np.inf), share=0.5, explained=0.0,
            fedbary_share=0.5, rank=k + 1, records=9,
        )
        for k, (name, value) in enumerate((("a", 0.0), ("b", 2.0), ("c", 3.0)))
    )  # fmt: skip
    unknown = np.array([[0.0, 1.0, np.nan], [1.0, 0.0, 1.0], [np.nan, 1.0, 0.0]])
    found = contributions(["a", "b", "c"], holders=holders, between=unknown)
    page = Page(render(found))
    assert "∞" in page.text and "An arrow marks an end that is not known." in page.text
    assert (
        "distances-between-holders" in page.sections and "map-of-the-holders" not in page.sections
    )


@pytest.mark.heavy
def test_identical_holders_have_a_map() -> None:
    found = contributions(NAMES)
    same = contributions(NAMES, between=np.zeros((5, 5)), holders=found.holders)
    page = Page(render(same))
    assert "map-of-the-holders" in page.sections
    assert "All distances are drawn as they are" in page.text


@pytest.mark.heavy
def test_a_map_says_in_words_how_far_it_is_from_the_truth() -> None:
    line = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    text = Page(render(contributions(NAMES, between=line))).text
    assert "All distances are drawn as they are" in text and "Largest error" not in text
    simplex = 1.0 - np.eye(5)
    text = Page(render(contributions(NAMES, between=simplex))).text
    assert "this map is misleading: read distances in the heat map" in text
    assert "Largest error:" in text and "apart, in truth 1.000." in text
    points, _ = classical_scaling(simplex)
    drawn = np.linalg.norm(points[:, None] - points[None], axis=2)
    first, second = np.triu_indices(5, 1)
    known = float(np.sqrt(np.mean((drawn - simplex)[first, second] ** 2)))
    assert f"wrong by {100 * known:.1f} % (stress" in text


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("method", "level", "words"),
    [
        ("direct", "record", "Exact, computed from the records of all holders"),
        ("sketch", "private", "Estimated from one differentially private sketch"),
        ("secure", "statistics", "Computed on secret shares"),
    ],
)
def test_distances_between_holders_say_how_they_were_found_and_what_that_disclosed(
    method: str, level: str, words: str
) -> None:
    apart = 1.0 - np.eye(4)
    interval = (0.5, 1.5) if method == "sketch" else None
    pairs = {
        pair: replace(found, method=method, disclosure=level, interval=interval)
        for pair, found in matrix_of([*NAMES[:3], "coordinator"], apart).pairs.items()
    }
    matrix = matrix_of([*NAMES[:3], "coordinator"], apart, method=method, pairs=pairs)
    found = contributions(NAMES[:3], between=False)
    found = replace(found, between=matrix, labels="classes", disclosure=level)
    text = Page(render(found)).text
    assert words in text and f"Level of this map: {level}." in text
    assert "wrong labels have less effect here" in text
    assert ("likely intervals (95 %), which are not certified" in text) == (method == "sketch")
    assert ("1.000 [0.5000, 1.500]" in text) == (method == "sketch")
    without = replace(found, between=matrix_of(NAMES[:3], apart[:3, :3]))
    assert "between holders, not to the validation data." in Page(render(without)).text


@pytest.mark.heavy
@pytest.mark.parametrize("rows", [7, 8, 201])
def test_a_table_has_controls_where_it_is_long_and_is_whole_without_them(rows: int) -> None:
    page = Page(render(contributions([f"h{k}" for k in range(rows)])))
    # Holders are many from eight on, and so are pairs of more than four.
    tables = (rows >= 8) + 1
    assert len([a for a in page.all("input") if a["type"] == "search"]) == tables
    controls = [attrs for _, attrs in page.tags if attrs.get("class") == "controls"]
    assert all("hidden" in attrs for attrs in controls) and len(controls) == tables
    assert all(page.text.count(f" h{k} ") >= 1 for k in range(rows))
    assert len([a for a in page.all("tr") if "data-flag" in a]) == (rows >= 8)


@pytest.mark.heavy
def test_a_result_that_did_not_converge_says_so() -> None:
    found = contributions(NAMES, converged=False, status="2 of 5 did not converge; raise rounds")
    page = Page(render(found))
    assert "Not everything converged: 2 of 5 did not converge; raise rounds" in page.text
    assert any(cell.get("class") == "warn" for cell in page.all("td"))


@pytest.fixture(scope="module")
def large() -> str:
    found, scores = many()
    return render(found, records=scores)


@pytest.mark.heavy
def test_a_hundred_holders_of_five_hundred_records_make_a_small_file(large: str) -> None:
    assert len(large.encode()) < 3_000_000
    page = Page(large)
    assert [name for name in page.sections if name.startswith("records-")] == [
        f"records-{k}" for k in range(1, 7)
    ]
    flagged = sum(int(item.flagged.sum()) for item in many()[1])
    assert f"{flagged:,} of 50,000 scored records of 100 holders" in page.text
    assert "The other" not in page.text.rpartition("The cost")[0]
    for k in range(100):
        assert f"hospital {k:03d}" in page.text


def test_holders_with_the_most_flagged_records_come_first(large: str) -> None:
    _, scores = many()
    shares = {item.name: item.flagged.mean() for item in scores}
    shown = re.findall(r"<h3>Records of <bdi>(.*?)</bdi></h3>", large)
    assert min(shares[name] for name in shown) >= sorted(shares.values())[-6]


@pytest.mark.heavy
def test_a_report_is_written_whole(tmp_path: Path) -> None:
    found = contributions(NAMES)
    path = tmp_path / "report.html"
    path.write_text("before")
    write(str(path), found)
    assert path.read_text(encoding="utf-8") == render(found)
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(FileError, match="file-unwritable"):
        write(tmp_path / "nowhere" / "report.html", found)


@pytest.mark.heavy
def test_results_of_real_runs_make_a_report() -> None:
    rng = np.random.default_rng(0)
    data = {name: rng.normal(k, 1.0, size=(40, 2)) for k, name in enumerate(NAMES[:3])}
    found = silot.value_holders(data, rng.normal(size=(60, 2)), map="direct")
    data["south"][3] += 30.0
    scores = silot.value_records(data["south"], rng.normal(1.0, 1.0, size=(60, 2)), name="south")
    page = Page(render(found, records=scores))
    assert page.sections == [
        "ranking-of-the-holders", "distances-between-holders", "map-of-the-holders",
        "suspect-records", "records-1", "cost", "what-was-disclosed",
    ]  # fmt: skip
    assert "north is closest to the validation data" in page.text
    assert "worth of the holders" in page.text and "records of south" in page.text


SCORES, OTHER = record_scores("north", 10)[0], record_scores("north", 11)[0]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "report-empty"),
        ({"records": []}, "report-empty"),
        ({"records": {}, "contributions": contributions([], holders=())}, "report-empty"),
        ({"records": [SCORES, SCORES]}, "report-records"),
        ({"records": [None]}, "report-records"),
        ({"records": {"north": "scores"}}, "report-records"),
        ({"records": {3: SCORES}}, "report-records"),
        ({"records": SCORES, "images": {"north": np.zeros((9, 4, 4))}}, "report-images"),
        ({"records": SCORES, "images": {"north": np.zeros((10, 4))}}, "report-images"),
        ({"records": SCORES, "images": {"north": np.zeros((10, 4, 4, 4))}}, "report-images"),
        ({"records": SCORES, "images": {"north": np.zeros((10, 0, 4))}}, "report-images"),
        ({"records": SCORES, "images": {"north": np.zeros((10, 4, 4), complex)}}, "report-images"),
        ({"records": SCORES, "images": {"north": [[[1.0]], [[1.0, 2.0]]]}}, "report-images"),
        ({"records": SCORES, "images": {"south": np.zeros((10, 4, 4))}}, "report-images"),
        ({"images": {"north": np.zeros((10, 4, 4))}}, "report-images"),
        ({"records": SCORES, "contents": {"south": contents_of(SCORES)}}, "report-contents"),
        ({"records": SCORES, "contents": {"north": contents_of(OTHER)}}, "records-contents"),
        ({"records": SCORES, "truth": {"north": np.zeros(9, bool)}}, "report-truth"),
        ({"records": SCORES, "truth": {"north": np.zeros((10, 1), bool)}}, "report-truth"),
        ({"records": SCORES, "truth": {"north": np.arange(10)}}, "report-truth"),
        ({"records": SCORES, "truth": {"north": np.zeros(10)}}, "report-truth"),
        ({"records": SCORES, "truth": {"south": np.zeros(10, bool)}}, "report-truth"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    options: dict[str, Any], code: str, tmp_path: Path
) -> None:
    beside = dict(options)
    result = beside.pop("contributions" if "contributions" in beside else "records", None)
    with pytest.raises(InputError) as caught:
        write(tmp_path / "report.html", result, **beside)
    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []
