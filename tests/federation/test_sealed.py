"""Files that travel: what is signed is what is read, and nothing else is."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot.errors import FileError, SilotError
from silot.federation.keys import Key, Keyring, PublicKey
from silot.federation.message import pack
from silot.federation.sealed import LARGEST_RELEASE, MAGIC, Sealed, read_sealed, write_sealed

pytestmark = pytest.mark.all_cases

KEY = Key.new()
NAMES = st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable() and text.strip())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)  # fmt: skip


def example(**changes: object) -> Sealed:
    values = {"kind": "release", "author": "north", "question": b"asked", "reply": b"told"}
    return Sealed(**{**values, **changes})  # type: ignore[arg-type]


@given(
    st.sampled_from(["question", "answer", "release"]),
    NAMES,
    st.binary(max_size=64),
    st.dictionaries(st.text(max_size=5), JSON, max_size=4),
    st.integers(0, 2**31 - 1),
)
def test_what_is_sealed_is_what_is_read(
    kind: str, author: str, reply: bytes, facts: dict[str, object], round_: int
) -> None:
    sealed = example(kind=kind, author=author, reply=reply, facts=facts, round=round_)
    back = Sealed.of_bytes(sealed.to_bytes(KEY))
    assert (back.kind, back.author, back.reply, back.round) == (kind, author, reply, round_)
    assert back.facts == facts and back.written == sealed.written
    assert back.signer == KEY.public.signing


def test_the_order_of_a_schemas_columns_survives() -> None:
    body = {"columns": {"weight": 1, "age": 2, "b": 3, "a": 4}}
    back = Sealed.of_bytes(example(schema=body).to_bytes(KEY))
    assert back.schema is not None
    assert list(back.schema["columns"]) == ["weight", "age", "b", "a"]


@given(st.data())
def test_one_changed_byte_is_refused(data: st.DataObject) -> None:
    whole = bytearray(example().to_bytes(KEY))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FileError) as caught:
        Sealed.of_bytes(bytes(whole))
    assert caught.value.code in ("sealed-signature", "sealed-format")


@pytest.mark.parametrize("kept", [0, 5, len(MAGIC), 60, 110, -1])
def test_a_file_that_was_cut_off_is_refused(kept: int) -> None:
    with pytest.raises(FileError) as caught:
        Sealed.of_bytes(example().to_bytes(KEY)[:kept])
    assert caught.value.code in ("sealed-signature", "sealed-format")


def signed(body: bytes) -> bytes:
    """Whatever bytes, signed well: a signature says nothing of what was signed."""
    head = MAGIC + KEY.public.signing
    return head + KEY.sign(head + hashlib.sha256(body).digest()) + body


FIELDS = {
    "version": 1, "kind": "release", "author": "north", "written": "2026-11-23T00:00:00+00:00",
    "run": "", "round": 0, "discloses": "", "schema": "", "facts": "{}", "question": b"",
    "reply": b"",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version": 2}, "sealed-version"),
        ({"version": True}, "sealed-format"),
        ({"kind": "letter"}, "sealed-format"),
        ({"author": ""}, "sealed-format"),
        ({"author": "a\x1b[2J"}, "sealed-format"),
        ({"author": "a" * 201}, "sealed-format"),
        ({"round": -1}, "sealed-format"),
        ({"round": 1.0}, "sealed-format"),
        ({"written": "yesterday"}, "sealed-format"),
        ({"written": "2026-11-23T00:00:00"}, "sealed-format"),
        ({"facts": "[]"}, "sealed-format"),
        ({"facts": '{"a": NaN}'}, "sealed-format"),
        ({"facts": '{"a": 1e999}'}, "sealed-format"),
        ({"facts": '{"a":' + "[" * 100_000}, "sealed-format"),
        ({"facts": '{"a":' + "9" * 10_000 + "}"}, "sealed-format"),
        ({"schema": "x"}, "sealed-format"),
        ({"question": "text"}, "sealed-format"),
        ({"more": 1}, "sealed-format"),
    ],
)
def test_what_is_signed_and_odd_has_a_code(changes: dict[str, object], code: str) -> None:
    assert Sealed.of_bytes(signed(pack(FIELDS))).author == "north"
    with pytest.raises(FileError) as caught:
        Sealed.of_bytes(signed(pack({**FIELDS, **changes})))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xdd\x00\xff\xff\xff" * 2000, pack(3)]
)
def test_a_signed_body_that_is_no_map_takes_no_memory_and_has_a_code(body: bytes) -> None:
    with pytest.raises(FileError) as caught:
        Sealed.of_bytes(signed(body))
    assert caught.value.code == "sealed-format"


def test_mutated_files_have_codes() -> None:
    rng = random.Random(17)
    whole = example(facts={"a": [1, 2]}, schema={"b": {}}).to_bytes(KEY)
    for _ in range(500):
        body = bytearray(whole[len(MAGIC) + 96 :])
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(body) + 1)
            way = rng.randrange(3)
            if way == 0:
                del body[place : place + rng.randint(1, 9)]
            elif way == 1:
                body[place:place] = rng.randbytes(rng.randint(1, 9))
            else:
                body[place : place + 1] = rng.randbytes(1)
        try:
            Sealed.of_bytes(signed(bytes(body)))
        except SilotError as error:
            assert error.code.startswith("sealed-")


def test_kinds_sizes_and_locks(tmp_path: Path) -> None:
    path = tmp_path / "north.release"
    write_sealed(path, example(), KEY)
    assert read_sealed(path).author == "north"
    answer = tmp_path / "north.answer"
    write_sealed(answer, example(kind="answer"), KEY)
    for way, code in (
        (lambda: read_sealed(answer), "sealed-kind"),
        (lambda: read_sealed(tmp_path / "none"), "file-missing"),
        (lambda: read_sealed(tmp_path), "file-missing"),
    ):
        with pytest.raises(FileError) as caught:
            way()
        assert caught.value.code == code
    reader, other = Key.new(), Key.new()
    write_sealed(path, example(), KEY, reader.public)
    assert b"north" not in path.read_bytes()
    assert read_sealed(path, key=reader).author == "north"
    for key in (None, other):
        with pytest.raises(FileError) as caught:
            read_sealed(path, key=key)
        assert caught.value.code == "sealed-locked"
    with path.open("wb") as file:
        file.truncate(LARGEST_RELEASE + 1)
    with pytest.raises(FileError) as caught:
        read_sealed(path)
    assert caught.value.code == "sealed-size"


def test_a_trusted_folder_of_keys_tells_who_signed(tmp_path: Path) -> None:
    north, south = Key.new(), Key.new()
    for name, key in (("north", north), ("south", south)):
        (tmp_path / name).mkdir()
        key.save(tmp_path / name / f"{name}.key")
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in ("north", "south"):
        (tmp_path / name / f"{name}.pub").rename(keys / f"{name}.pub")
    ring = Keyring.load(keys)
    path = tmp_path / "a.release"
    write_sealed(path, example(), north)
    assert ring.name_of(read_sealed(path, keys=ring).signer) == "north"
    for sealed, key, code in (
        (example(), south, "key-mismatch"),
        (example(author="west"), north, "key-unknown"),
    ):
        write_sealed(path, sealed, key)
        with pytest.raises(SilotError) as caught:
            read_sealed(path, keys=ring)
        assert caught.value.code == code


def test_keys_are_kept_private_and_never_written_over(tmp_path: Path) -> None:
    kept, shared = Key.new().save(tmp_path / "north.key")
    assert kept.stat().st_mode & 0o777 == 0o600
    key = Key.load(kept)
    assert PublicKey.load(shared).fingerprint == key.public.fingerprint
    with pytest.raises(FileError) as caught:
        Key.new().save(kept)
    assert caught.value.code == "key-exists"
    kept.chmod(0o644)
    with pytest.raises(FileError) as caught:
        Key.load(kept)
    assert caught.value.code == "key-open"
    for text in (b"", b"silot-key-1", b"silot-key-1 AAAA x", b"\xff\xfe"):
        shared.write_bytes(text)
        with pytest.raises(FileError) as caught:
            PublicKey.load(shared)
        assert caught.value.code == "key-format"
    kept.chmod(0o600)
    kept.write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(FileError) as caught:
        Key.load(kept)
    assert caught.value.code == "key-format"
    with pytest.raises(FileError) as caught:
        Keyring.load(tmp_path / "nothing")
    assert caught.value.code == "key-none"
