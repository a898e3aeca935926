"""Releases in files: together they are the run between their sites, number by number."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.api.combine import combine, read_releases
from silot.api.release import release
from silot.data.reading import Schema
from silot.distances.sketches.drift import LEVEL, compare_sketches
from silot.distances.sketches.result import Combined
from silot.distances.sketches.sketch import Sketching
from silot.errors import SilotError
from silot.federation import Holder, Key, LocalFederation
from silot.federation.sealed import Sealed, read_sealed, write_sealed
from silot.privacy import Ledger
from silot_transport import _threads
from tests.lazily import package

pl = package("polars")

RNG = np.random.default_rng(5)
PUBLIC = RNG.normal(size=(400, 3))
SITES = {name: RNG.normal(size=(1500, 3)) + 0.4 * k for k, name in enumerate("abc")}
BODY = {
    "columns": {
        "weight": {"kind": "number", "range": [0, 200], "unit": "kg"},
        "age": {"kind": "number", "range": [0, 110], "unit": "a"},
        "sex": {"kind": "category", "categories": ["f", "m"]},
    },
    "label": {"column": "ill", "classes": ["yes", "no"]},
}
SCHEMA = Schema.of(BODY)


def frame(rng: np.random.Generator, n: int, shift: float = 0.0) -> pl.DataFrame:
    """A ward, its columns in another order than the schema's."""
    return pl.DataFrame({
        "age": np.clip(rng.normal(50 + shift, 15, n), 0, 110),
        "ill": rng.choice(["yes", "no"], n),
        "sex": rng.choice(["f", "m"], n),
        "weight": np.clip(rng.normal(80, 15, n), 0, 200),
    })  # fmt: skip


def write(folder: Path, name: str, data: Any = None, **options: Any) -> Path:
    path = folder / f"{name}.release"
    told = {"public": PUBLIC, "ledger": folder / f"{name}.ledger", **options}
    release(SITES.get(name) if data is None else data, path, name=name, **told)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name in SITES:
        write(folder, name)
    return folder


def code_of(call: Any) -> str:
    with pytest.raises(SilotError) as caught:
        call()
    return caught.value.code


def assert_same(one: Any, two: Any) -> None:
    """All fields but the cost's and whatever points to messages."""
    left, right = (json.loads(json.dumps(found.to_dict(), default=str)) for found in (one, two))

    def without(body: Any) -> Any:
        if isinstance(body, dict):
            cost = ("seconds", "bytes_sent", "bytes_received", "privacy_mu", "status")
            cost += ("releases", "preflight")
            return {k: without(v) for k, v in body.items() if k not in cost}
        return [without(each) for each in body] if isinstance(body, list) else body

    assert without(left) == without(right)


@pytest.mark.heavy
def test_combined_they_are_the_run_between_the_sites_number_by_number(files: Path) -> None:
    found = combine([files / f"{name}.release" for name in SITES], PUBLIC, SITES["a"] + 0.1)
    cells = found.releases[0].terms.cells
    rules = Policy(level="private", privacy_epsilon=1.0)
    holders = {
        name: Holder(Measure(x), rules, Ledger(files / f"{name}.ledger"))
        for name, x in SITES.items()
    }
    protocol = Sketching(public=PUBLIC, cells=cells).among(
        list(SITES), silot.federation.Own(Measure(SITES["a"] + 0.1))
    )
    here = LocalFederation(holders).run(protocol)
    assert_same(found, here)
    assert np.array_equal(found.matrix().values, here.matrix().values)
    assert_same(found.values(), here.values())
    assert_same(found.values("barycenter", shapley=True), here.values("barycenter", shapley=True))
    assert_same(found.barycenter(), here.barycenter())
    assert silot.cluster(found).assignment == silot.cluster(here).assignment
    assert found.matrix()["a", "b"].interval is not None


@pytest.mark.slow
def test_one_core_and_four_give_the_same_bits(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, pools = [files / f"{name}.release" for name in SITES], list[int]()

    class Pool(_threads.ThreadPoolExecutor):
        def __init__(self, workers: int) -> None:
            pools.append(workers)
            super().__init__(workers)

    def told(cores: int) -> Any:
        monkeypatch.setattr(_threads, "cores", lambda: cores)
        return combine(paths, PUBLIC).matrix()

    monkeypatch.setattr(_threads, "ThreadPoolExecutor", Pool)
    one = told(1)
    assert pools == []
    four = told(4)
    assert set(pools) == {4}
    assert_same(one, four)
    assert one.values.tobytes() == four.values.tobytes()
    assert one["a", "b"].interval == four["a", "b"].interval


@pytest.mark.slow
def test_another_process_in_another_folder_gets_the_same_bits(files: Path, tmp_path: Path) -> None:
    for name in SITES:
        shutil.copy(files / f"{name}.release", tmp_path)
    np.save(tmp_path / "public.npy", PUBLIC)
    program = (
        "import sys, numpy, silot, pathlib\n"
        "found = silot.combine(sorted(pathlib.Path('.').glob('*.release')),"
        " numpy.load('public.npy'))\n"
        "sys.stdout.write(found.matrix().values.tobytes().hex())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = combine([files / f"{name}.release" for name in SITES], PUBLIC)
    assert done.stdout == found.matrix().values.tobytes().hex()


def test_a_second_release_of_one_question_is_the_stored_one_and_costs_nothing(
    tmp_path: Path,
) -> None:
    first = read_releases([write(tmp_path, "a")])[0]
    again = read_releases([write(tmp_path, "a", SITES["a"] + 5.0)])[0]
    assert (first.fresh, again.fresh) == (True, False)
    assert np.array_equal(first.numbers, again.numbers)
    assert Ledger(tmp_path / "a.ledger").spent == pytest.approx(first.mu)
    # Another period is another question: charged, and over this budget.
    path = tmp_path / "a.release"
    before = path.read_bytes()
    assert code_of(lambda: write(tmp_path, "a", period="2026-10")) == "ledger-budget"
    assert path.read_bytes() == before
    other = read_releases([write(tmp_path, "a", period="2026-10", budget_epsilon=2.0)])[0]
    assert other.fresh and not np.array_equal(first.numbers, other.numbers)


def test_where_nothing_may_be_released_nothing_is_written(tmp_path: Path) -> None:
    rules = Policy(level="statistics", questions=frozenset({"distance-to"}))
    assert code_of(lambda: write(tmp_path, "a", policy=rules)) == "policy-question"
    # A budget beside rules would be ignored.
    assert code_of(lambda: write(tmp_path, "a", policy=rules, budget_epsilon=3)) == "option-budget"
    assert {path.suffix for path in tmp_path.iterdir()} == {".ledger"}
    assert code_of(lambda: write(tmp_path / "none", "a")) == "file-unwritable"


def test_question_and_size_of_a_file_depend_on_no_record(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sizes, questions = set(), set()
    for k, (n, scale) in enumerate([(50, 1.0), (1500, 1.0), (20_000, 100.0)]):
        (tmp_path / str(k)).mkdir()
        path = write(tmp_path / str(k), "a", scale * rng.normal(size=(n, 3)))
        sizes.add(path.stat().st_size)
        questions.add(read_sealed(path).question)
    assert len(sizes) == len(questions) == 1


def test_files_that_do_not_go_together_are_refused_by_code(files: Path, tmp_path: Path) -> None:
    a, b = files / "a.release", files / "b.release"
    other = write(tmp_path, "c", public=PUBLIC + 1e-9)
    assert code_of(lambda: combine([a, other], PUBLIC)) == "public-mismatch"
    assert code_of(lambda: combine([a, b], PUBLIC + 1e-9)) == "public-mismatch"
    assert code_of(lambda: combine([a, b])) == "public-absent"
    assert code_of(lambda: combine([a, b], PUBLIC[:, :2])) == "public-mismatch"
    assert code_of(lambda: combine([a, a], PUBLIC)) == "release-twice"
    assert code_of(lambda: combine([], PUBLIC)) == "holder-names"
    for k, options in enumerate(({"privacy_epsilon": 0.5}, {"cells": 20}, {"seed": 3})):
        # Other people each time, because the budget of the same ones is spent by then.
        path = write(tmp_path, f"d{k}", SITES["a"] + k + 1.0, **options)
        with pytest.raises(SilotError) as caught:
            combine([a, path], PUBLIC)
        assert caught.value.code == "release-mismatch"
        assert next(iter(options)) in caught.value.message
    copied = tmp_path / "renamed.release"
    shutil.copy(a, copied)
    assert code_of(lambda: combine([a, copied], PUBLIC)) == "release-twice"
    whole = a.read_bytes()
    for data, code in (
        (whole[:-1], "sealed-signature"),
        (whole[:50], "sealed-format"),
        (whole.replace(b"north", b"south") + b"x", "sealed-signature"),
        (b"", "sealed-format"),
    ):
        copied.write_bytes(data)
        assert code_of(lambda: combine([copied, b], PUBLIC)) == code
    question = Sealed(kind="question", author="q", question=b"")
    write_sealed(copied, question, Key.new())
    assert code_of(lambda: combine([copied, b], PUBLIC)) == "sealed-kind"


def signed_anew(path: Path, out: Path, key: Key | None = None, **changes: Any) -> Path:
    """What somebody could write who has a release, or makes one up."""
    sealed = read_sealed(path)
    facts = {**sealed.facts, **changes.pop("facts", {})}
    write_sealed(out, dataclasses.replace(sealed, facts=facts, **changes), key or Key.new())
    return out


def test_a_copy_under_another_name_is_known_by_its_noise(files: Path, tmp_path: Path) -> None:
    forged = signed_anew(files / "a.release", tmp_path / "z.release", author="z")
    with pytest.raises(SilotError) as caught:
        combine([files / "a.release", forged], PUBLIC)
    assert caught.value.code == "release-twice" and "copy" in caught.value.message
    one = Key.new()
    ways = [
        signed_anew(files / f"{name}.release", tmp_path / f"{name}.release", one) for name in "ab"
    ]
    assert code_of(lambda: combine(ways, PUBLIC)) == "release-twice"


@pytest.mark.parametrize(
    "facts",
    [
        {"privacy_epsilon": 0.1},
        {"privacy_epsilon": -1.0},
        {"privacy_delta": 0.5},
        {"cells": 3},
        {"cells": 10**9},
        {"seed": -1},
        {"period": "2026-10"},
        {"period": "\x1b[2J"},
        {"classes": ["x"]},
        {"columns": ["one"]},
        {"mass_limit": 2.0},
        {"schema_hash": "00"},
        {"privacy_epsilon": "1"},
        {"unknown": 1},
        {"public_mean": [None]},
    ],
)
def test_a_signed_file_that_says_what_it_is_not_is_refused(
    files: Path, tmp_path: Path, facts: dict[str, Any]
) -> None:
    path = signed_anew(files / "a.release", tmp_path / "a.release", facts=facts)
    assert code_of(lambda: read_releases([path])) == "release-format"


def test_questions_and_replies_of_others_are_refused(files: Path, tmp_path: Path) -> None:
    from silot.distances.sketches.questions import CountRecords
    from silot.federation.answer import Answer, Failure, encode_reply
    from silot.federation.question import encode_question

    a, out = files / "a.release", tmp_path / "a.release"
    count = encode_question(CountRecords(privacy_mu=0.1))
    width = read_releases([a])[0].width
    for changes in (
        {"question": count},
        {"question": b""},
        {"question": b"\xc1"},
        {"reply": b""},
        {"reply": encode_reply(Failure("policy-level", "refused"))},
        {"reply": encode_reply(Answer({"sketch": np.zeros(3, np.int64)}))},
        {"reply": encode_reply(Answer({"sketch": np.zeros(width)}))},
        {"reply": encode_reply(Answer({"sketch": np.full(width, 2**60)}))},
        {"schema": {"columns": {}}},
    ):
        path = signed_anew(a, out, **changes)
        assert code_of(lambda path=path: read_releases([path])) == "release-format", changes


def test_other_cells_of_the_same_public_records_are_said_to_be_so(
    files: Path, tmp_path: Path
) -> None:
    from silot.federation.question import decode_question, encode_question

    sealed = read_sealed(files / "a.release")
    question: Any = decode_question(sealed.question)
    moved = encode_question(dataclasses.replace(question, centres=question.centres * 1.001))
    path = signed_anew(files / "a.release", tmp_path / "a.release", question=moved)
    with pytest.raises(SilotError) as caught:
        combine([path, files / "b.release"], PUBLIC)
    assert caught.value.code == "release-question" and "centres" in caught.value.message


@pytest.mark.heavy
def test_a_schema_travels_and_two_are_refused_by_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    known = SCHEMA.measure(frame(rng, 400))
    off = Schema.of({**BODY, "read_off": ["age.range"]})
    paths = [
        write(tmp_path, name, frame(rng, 1500, 25.0 * k), schema=schema, public=known, labels=True)
        for k, (name, schema) in enumerate([("north", SCHEMA), ("south", off)])
    ]
    found = combine(paths, known, frame(rng, 300))
    assert found.columns.features == SCHEMA.features == ("weight", "age", "sex=f", "sex=m")
    assert set(found.measures["north"].names.tolist()) == {"yes", "no", "other"}  # type: ignore[union-attr]
    assert "read off" in found.status
    assert found.releases[0].warnings == () and "age.range" in found.releases[1].warnings[0]
    assert [each.holder for each in found.values().ranking] == ["north", "south"]
    columns = {**BODY["columns"], "age": {"kind": "number", "range": [0, 120], "unit": "a"}}
    other = Schema.of({**BODY, "columns": columns})
    path = write(tmp_path, "west", frame(rng, 1500), schema=other,
                 public=other.measure(frame(rng, 400)), labels=True)  # fmt: skip
    with pytest.raises(SilotError) as caught:
        combine([*paths, path], known)
    assert caught.value.code == "schema-mismatch" and "'age'" in caught.value.message
    plain = write(tmp_path, "plain", SITES["a"])
    assert code_of(lambda: combine([paths[0], plain], known)) == "schema-mismatch"
    assert code_of(lambda: combine([plain], known)) == "schema-mismatch"


def test_without_public_records_the_box_of_the_schema_stands_for_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    paths = [
        write(tmp_path, name, frame(rng, 1500, 20.0 * k), schema=SCHEMA, public=None)
        for k, name in enumerate(("north", "south"))
    ]
    found = combine(paths)
    distance = found.distance("north", "south")
    assert distance.interval is None
    assert distance.value == pytest.approx(20 / 110, rel=0.4)
    assert "no interval" in found.status
    given = combine(paths)
    assert given.distance("north", "south").value == distance.value


def test_a_file_holds_no_value_and_no_exact_count(tmp_path: Path) -> None:
    table = pl.DataFrame({
        "age": [61.234567] * 977, "ill": ["yes"] * 977, "sex": ["f"] * 977,
        "weight": [81.345678] * 977,
    })  # fmt: skip
    known = SCHEMA.measure(frame(np.random.default_rng(0), 400))
    path = write(tmp_path, "north", table, schema=SCHEMA, public=known, labels=True)
    found = read_releases([path])[0]
    whole = path.read_bytes() + json.dumps(found.to_dict()).encode()
    measure = SCHEMA.measure(table)
    for value in (61.234567, 81.345678, 977.0, *measure.arrays()[0][0, :2].tolist()):
        assert np.float64(value).tobytes() not in whole
        assert value == 977 or repr(value).encode() not in whole
    numbers = re.findall(r"(?<![0-9a-f.-])\d+(?![0-9a-f.])", json.dumps(found.to_dict()))
    assert "977" not in numbers and "400" in numbers


def test_labels_must_be_there(tmp_path: Path) -> None:
    assert code_of(lambda: write(tmp_path, "a", labels=True)) == "labels-absent"
    assert code_of(lambda: write(tmp_path, "a", np.zeros((50, 2)))) == "dimension-mismatch"
    assert code_of(lambda: write(tmp_path, "a", public=None)) == "public-absent"
    assert code_of(lambda: write(tmp_path, "a", unknown=1)) == "option-unknown"
    assert code_of(lambda: write(tmp_path, "a", period="\n")) == "option-period"
    weighted = Measure(SITES["a"], np.arange(1500.0) + 1)
    assert code_of(lambda: write(tmp_path, "a", weighted)) == "sketch-weights"


@pytest.mark.heavy
def test_columns_take_the_order_of_the_public_ones(tmp_path: Path) -> None:
    names = ["x", "y", "z"]
    public = pl.DataFrame(PUBLIC, schema=names)
    one = write(tmp_path, "a", pl.DataFrame(SITES["a"], schema=names), public=public)
    turned = pl.DataFrame(SITES["b"], schema=names).select("z", "x", "y")
    two = write(tmp_path, "b", turned, public=public)
    found = combine([one, two], public.select("y", "z", "x"))
    assert found.columns == ("x", "y", "z")
    assert found.distance("a", "b").value == pytest.approx(0.4 * 3**0.5, rel=0.3)


@pytest.mark.heavy
def test_all_results_are_shown(files: Path) -> None:
    from silot.api import report

    sketches = combine([files / f"{name}.release" for name in SITES], PUBLIC)
    found = Combined.of(sketches, compare_sketches(sketches, LEVEL))
    page = report.render(found)
    assert (
        "Groups" in page
        and "Ranking" in page
        and found.sketches.releases[0].fingerprint[:9] in page
    )
    body = json.loads(found.to_json())
    assert len(body["matrix"]["pairs"]) == 3
    assert sorted(name for group in body["groups"] for name in group) == list("abc")
    assert found.test is not None and found.test.k == len(body["groups"])
    assert body["test"]["p_value"] == found.test.p_value
    one = found.sketches.releases[0]
    text = report.render(one)
    assert one.fingerprint in text and "73 %" in text and "no schema" in text
    alone = Combined.of(combine([files / "a.release"], PUBLIC), None)
    assert alone.values.between is None and report.render(alone)
    assert alone.groups == (("a",),)


MUTATIONS = """
import hashlib
import random, resource, sys
from pathlib import Path
from silot.api.combine import read_releases
from silot.errors import SilotError
from silot.federation.keys import Key
from silot.federation.sealed import MAGIC

rng, key, whole = random.Random(17), Key.new(), Path(sys.argv[1]).read_bytes()
head, body, out = len(MAGIC) + 96, whole[len(MAGIC) + 96 :], Path("mutated.release")
read_releases([sys.argv[1]])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
codes, read = set(), 0
for k in range(int(sys.argv[2])):
    changed = bytearray(whole if k % 4 == 0 else body)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        # Most of the file are numbers, of which any is as good as another: aim at the rest too.
        place = rng.randrange(len(changed) if rng.random() < 0.5 else min(900, len(changed)))
        way = rng.randrange(4)
        if way == 0:
            del changed[place : place + rng.randint(1, 40)]
        elif way == 1:
            changed[place:place] = rng.randbytes(rng.randint(1, 40))
        elif way == 2:
            changed[place] = rng.choice((0, 1, 0x80, 0xC1, 0xDB, 0xDD, 0xDF, 0xFF))
        else:
            changed[place] ^= 1 << rng.randrange(8)
    data = bytes(changed)
    if k % 4:
        # By somebody who signs well whatever there is.
        public = MAGIC + key.public.signing
        data = public + key.sign(public + hashlib.sha256(data).digest()) + data
    out.write_bytes(data)
    try:
        read_releases([out])[0].to_dict()
        read += 1
    except SilotError as error:
        codes.add(error.code)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert all(code.startswith(("sealed-", "release-", "file-")) for code in codes), codes
print(len(codes), read, (after - before) // 1024, after // 1024)
"""


@pytest.mark.slow
def test_mutated_files_have_codes_and_take_little_memory(files: Path, tmp_path: Path) -> None:
    path = signed_anew(files / "a.release", tmp_path / "a.release")
    words = [sys.executable, "-c", MUTATIONS, str(path), "2000"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    codes, read, more, _ = map(int, done.stdout.split())
    # Noisy numbers may be any; and what was read was not all.
    assert codes >= 3 and 0 < read < 1800 and more <= 50
