"""Damaged files and messages, for every reader of foreign bytes.

``python -m tests.mutating COUNT SEED [READER...]`` changes a good input of each reader in turn, and
prints as JSON how many were read, how many had which code, and what was raised without a code.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import serialization

import silot
from silot import Measure, Policy, Schema
from silot.distances.questions import DistanceTo
from silot.errors import SilotError
from silot.federation import Holder, LocalFederation
from silot.federation.answer import Answer, decode_reply
from silot.federation.keys import Key, PublicKey
from silot.federation.message import decode, encode
from silot.federation.question import encode_question
from silot.federation.sealed import Sealed, read_sealed, write_sealed
from silot.federation.transcript import Transcript
from silot.privacy import Ledger

# Seconds, and bytes beyond those that are used, that one input may take.
PATIENCE, MEMORY = 60, 4 << 30
WORDS: tuple[bytes, ...] = (
    b"", b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"9" * 400, b"[]", b"{}", b'""', b"[[]]",
    b'"\\ud800"', b'"\\u0000"', b"\xff\xfe", b"*a", b"&a", b"!!binary x", b"- ", b": ",
    b"2026-13-45", b"../x", b"/", b"\0", b"#", b"%", b"~", b"'", b'"', b"\n", b"\t", b"[" * 2000,
)  # fmt: skip


def mutate(whole: bytes, rng: random.Random) -> bytes:
    """Cut, insert, flip, or put in place of a word another one."""
    changed = bytearray(whole)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        # The heads of large files matter more than their numbers.
        place = rng.randrange((len(changed) if rng.random() < 0.6 else min(600, len(changed))) + 1)
        way = rng.randrange(6)
        if way == 0:
            del changed[place : place + rng.randint(1, 40)]
        elif way == 1:
            changed[place:place] = rng.randbytes(rng.randint(1, 40))
        elif way == 2:
            changed[place : place + 1] = bytes([rng.choice((0, 1, 0x80, 0xC1, 0xDB, 0xDF, 0xFF))])
        elif way == 3:
            end = place + rng.randint(0, 12)
            changed[place:end] = rng.choice(WORDS)
        elif way == 4:
            start = rng.randrange(len(changed) + 1)
            changed[place:place] = changed[start : start + rng.randint(1, 200)]
        elif place < len(changed):
            changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed if rng.random() > 0.05 else changed[: rng.randrange(len(changed) + 1)])


def mutate_members(whole: bytes, rng: random.Random) -> bytes:
    """Change the container, or what is inside of one that is whole."""
    if rng.random() < 0.4:
        return mutate(whole, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as before, zipfile.ZipFile(out, "w") as after:
        names = before.namelist()
        chosen = rng.choice(names)
        for name in names:
            data = before.read(name)
            after.writestr(name, mutate(data, rng) if name == chosen else data)
    return out.getvalue()


def mutate_packed(whole: bytes, rng: random.Random) -> bytes:
    """Change the compressed bytes, or those that were compressed."""
    if rng.random() < 0.4:
        return mutate(whole, rng)
    return gzip.compress(mutate(gzip.decompress(whole), rng), 1)


def mutate_answer(whole: bytes, rng: random.Random) -> bytes:
    """Change a value of a message that stays one."""
    if rng.random() < 0.3:
        return mutate(whole, rng)
    message = decode(whole)
    arrays, scalars = dict(message.arrays), dict(message.scalars)
    odd = [np.nan, np.inf, -1.0, 0.0, 1e308, 1e-320, 2**53, -(2**62), True, "", "x" * 300, "[]"]
    for _ in range(rng.choice((1, 1, 2))):
        if arrays and rng.random() < 0.6:
            name = rng.choice(sorted(arrays))
            array = np.array(arrays[name])
            way = rng.randrange(5)
            if way == 0 and array.size and array.dtype.kind in "fiu":
                with np.errstate(all="ignore"):
                    array.flat[rng.randrange(array.size)] = np.array(
                        rng.choice(odd[:6])
                    ).astype(array.dtype)  # fmt: skip
            elif way == 1:
                array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
            elif way == 2:
                array = array.astype(rng.choice(("f8", "f4", "i8", "u1", "?")), copy=True)
            elif way == 3:
                array = array[None] if rng.random() < 0.5 else array.ravel()
            else:
                array = np.zeros((0, 3))
            arrays[name] = array
        elif scalars:
            name = rng.choice(sorted(scalars))
            scalars[name] = rng.choice(odd)
        if rng.random() < 0.1:
            (arrays if rng.random() < 0.5 else scalars).clear()
    return encode(replace(message, arrays=arrays, scalars=scalars))


class Reader:
    """A good input, how it is changed, and who reads it."""

    def __init__(
        self,
        whole: bytes,
        read: Callable[[bytes], Any],
        change: Callable[[bytes, random.Random], bytes] = mutate,
    ) -> None:
        self.whole, self.read, self.change = whole, read, change


def tables(folder: Path) -> Iterable[tuple[str, Reader]]:
    rng = np.random.default_rng(0)
    rows = {
        "age": rng.integers(20, 90, 40), "dose": rng.uniform(1, 9, 40).round(2),
        "sex": np.resize(["f", "m"], 40), "seen": np.resize(["2026-01-05", "2026-02-17"], 40),
        "ward": np.resize(["a", "b", "c"], 40),
    }  # fmt: skip
    schema = folder / "ward.yml"
    schema.write_text(
        "silot: schema\nversion: 1\nname: ward\ncolumns:\n  age: {kind: integer, range: [0, 120]}\n"
        "  dose: {kind: number, range: [0, 30], unit: mg}\n"
        "  sex: {kind: category, categories: [f, m]}\n"
        "  seen: {kind: date, range: [2025-01-01, 2027-01-01]}\n"
        "label: {column: ward, classes: [a, b, c]}\n"
    )
    site = folder / "site.yml"
    site.write_text(
        "columns:\n  age: {from: AGE, factor: 1}\n  dose: {from: dose, sentinels: ['-']}\n"
    )
    plain = "\n".join(
        [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
    )
    numbers = folder / "numbers.csv"

    def table(name: str, whole: bytes, change: Any = mutate, **options: Any) -> Reader:
        path = folder / name

        def read(data: bytes) -> Any:
            path.write_bytes(data)
            return silot.load_measure(path, **options)

        return Reader(whole, read, change)

    labelled = {"label_column": "ward", "columns": ["age", "dose"]}
    yield "csv", table("t.csv", plain.encode(), **labelled)
    yield "csv by schema", table("s.csv", plain.encode(), schema=schema)
    yield "gz", table("t.csv.gz", gzip.compress(plain.encode()), mutate_packed, **labelled)
    held = io.BytesIO()
    np.savez(held, X=rng.normal(size=(30, 3)), y=np.resize(["a", "b"], 30), w=np.ones(30))
    yield "npz", table("t.npz", held.getvalue(), mutate_members)
    if find_spec("polars"):
        import polars as pl

        frame = pl.DataFrame({key: list(value) for key, value in rows.items()})
        for name, write in (("parquet", frame.write_parquet), ("arrow", frame.write_ipc)):
            held = io.BytesIO()
            write(held)
            yield name, table(f"t.{name}", held.getvalue(), **labelled)
            yield f"{name} by schema", table(f"s.{name}", held.getvalue(), schema=schema)
        with suppress(ImportError):
            held = io.BytesIO()
            frame.write_excel(held)
            yield "xlsx", table("t.xlsx", held.getvalue(), mutate_members, **labelled)
    import sqlite3

    database = folder / "whole.sqlite"
    with sqlite3.connect(database) as line:
        line.execute("create table t (age, dose, ward)")
        line.executemany(
            "insert into t values (?, ?, ?)",
            zip(*(rows[key].tolist() for key in ("age", "dose", "ward")), strict=True),
        )
    line.close()
    yield "sqlite", table("t.sqlite", database.read_bytes(), **labelled)

    def contract(data: bytes) -> Any:
        path = folder / "c.yml"
        path.write_bytes(data)
        return Schema.load(path)

    def writing(data: bytes) -> Any:
        path = folder / "w.yml"
        path.write_bytes(data)
        numbers.write_text(plain.replace("age,", "AGE,", 1))
        return silot.load_measure(numbers, schema=schema, site=path)

    yield "schema", Reader(schema.read_bytes(), contract)
    yield "site file", Reader(site.read_bytes(), writing)


def stored(folder: Path) -> Iterable[tuple[str, Reader]]:
    from silot.sites import kit as kits
    from silot.sites.authority import Authority, Role, read_revocations
    from silot.sites.configuration import SiteConfiguration
    from silot.sites.deployment import Deployment
    from silot.sites.journal import Journal
    from silot.sites.kit import Kit
    from silot.sites.project import Project, Signed, sign
    from silot.sites.trail import export_trail, verify_trail

    from .sites.project import authority, private, serial

    def file(name: str, whole: bytes, read: Callable[[Path], Any], change: Any = mutate) -> Reader:
        path = folder / name

        def written(data: bytes) -> Any:
            path.write_bytes(data)
            path.chmod(0o600)
            return read(path)

        return Reader(whole, written, change)

    policy = b"level: record\nprivacy_epsilon: 3\nask: [record]\nprediction_decimals: 3\n"
    yield "policy", file("p.yml", policy, Policy.load)
    plan = b"name: wards\nhost: server.example\nport: 8102\nsites: [north, south]\naskers: [uni]\n"
    yield "project", file("project.yml", plan, Project.load)
    key = Key.new()
    key.save(folder / "own.key")
    (folder / "own.pub").write_text(key.public.text)
    yield "key", file("k.key", (folder / "own.key").read_bytes(), Key.load)
    yield "public key", file("k.pub", (folder / "own.pub").read_bytes(), PublicKey.load)
    network = (
        b"devices: [{name: a, labelled: 9, error: 0.1}, {name: b, labelled: 0, unlabelled: 9}]\n"
        b"divergence: {a: {b: 0.6}}\nrates_mbit: 10\n"
    )
    from silot.teaching.network import Network

    yield "network", file("n.yml", network, Network.load)
    # A ledger and a trail of a site.
    kits.create_key = lambda: private("kit")
    Authority.new = authority  # type: ignore[method-assign]
    project = Project(name="wards", host="localhost", sites=("north",), askers=("uni",))
    (folder / "plan.yml").write_text(project.model_dump_json())
    deployment = Deployment.new(folder / "plan.yml", folder / "coordinator")
    made = deployment.authority
    request = kits.begin_kit(folder / "north", "north", Role.SITE)
    signed = sign(made, project, request)
    kit = kits.complete_kit(folder / "north", signed)
    np.savez(folder / "north.npz", X=np.random.default_rng(0).normal(size=(60, 2)))
    ledger_file = folder / "north.ledger"
    SiteConfiguration(data=folder / "north.npz", ledger=ledger_file).save(kit)
    with Ledger(ledger_file) as ledger:
        holder = Holder(silot.load_measure(folder / "north.npz"), Policy(level="record"), ledger)
        silot.distance("north", "south", federation=LocalFederation(
            {"north": holder, "south": Measure(np.zeros((5, 2)))}, asker="uni"
        ))  # fmt: skip
        for _ in range(5):
            ledger.log_question({"asker": "uni", "run": "r", "round": 0, "question": "records",
                                 "level": "record", "bytes": 10, "mu": 0.0})  # fmt: skip
        ledger.hold("a" * 64, question="records", level="record", asker="uni")
        export_trail(ledger, kit, folder / "trail.json", "json", 0, ledger.size - 1)

    def account(path: Path) -> Any:
        for rest in ("-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
        with Ledger(path, readonly=True, state=folder) as again:
            again.verify()
            return [*again.entries(), *again.read_latest(last=9)], again.spent, again.waiting

    yield "ledger", file("copy.ledger", ledger_file.read_bytes(), account)
    trail = (folder / "trail.json").read_bytes()
    yield "trail", file("trail.copy.json", trail, verify_trail)
    yield "signed", file("n.signed", signed.model_dump_json().encode(), Signed.read)
    yield "request", Reader(request, lambda data: made.sign(data, project.members))
    from .sites.project import identity

    crl = made.revoke({serial(identity("x"))})
    yield "revocations", Reader(crl, lambda data: read_revocations(data, made.certificate))
    for name in ("silot/member.json", "silot/project.json", "silot/site.json", "silot/signing.key",
                 "startup/client.crt", "startup/client.key", "startup/rootCA.pem"):  # fmt: skip
        place = kit.folder / name
        if not place.exists():
            raise LookupError(name)

        def kept(data: bytes, place: Path = place) -> Any:
            whole = place.read_bytes()
            place.write_bytes(data)
            try:
                again = Kit.load(kit.folder)
                return again.identity().member(), SiteConfiguration.load(again).read_policy()
            finally:
                place.write_bytes(whole)

        yield f"kit {name}", Reader(place.read_bytes(), kept)
    for place in sorted(deployment.folder.rglob("*")):
        if place.is_dir() or "server" in place.relative_to(deployment.folder).parts[:1]:
            continue

        def coordinated(data: bytes, place: Path = place) -> Any:
            whole = place.read_bytes()
            place.write_bytes(data)
            try:
                again = Deployment.load(deployment.folder)
                return again.issued, sign(again.authority, again.project, request)
            finally:
                place.write_bytes(whole)

        yield f"coordinator {place.name}", Reader(place.read_bytes(), coordinated)
    journal = Journal(folder / "j", key)
    for k in range(4):
        journal.keep("north", bytes([k]), bytes(50))
    journal.close()

    def resumed(path: Path) -> Any:
        again = Journal(path, key)
        try:
            return [again.find("north", bytes([k])) for k in range(4)]
        finally:
            again.close()

    yield "journal", file("journal", (folder / "j").read_bytes(), resumed)
    sealed = Sealed(kind="release", author="north", question=b"q", reply=b"r", facts={"a": [1]})
    write_sealed(folder / "whole.release", sealed, key)
    release = (folder / "whole.release").read_bytes()
    yield "sealed", file("a.release", release, read_sealed)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    found = silot.distance(x, y, method="fedwad", support=5, rounds=2)
    assert found.transcript is not None
    found.transcript.save(folder / "whole.transcript")
    transcript = (folder / "whole.transcript").read_bytes()
    yield "transcript", file("a.transcript", transcript, Transcript.load)
    labels = np.resize(["a", "b"], 40)
    trained = silot.train(
        {"n": Measure(x, labels=labels), "s": Measure(x + 1, labels=labels)},
        model="logistic", rounds=2,
    )  # fmt: skip
    trained.model("n").save(folder / "whole.npz")
    model = (folder / "whole.npz").read_bytes()

    def predicted(path: Path) -> Any:
        return silot.teaching.federated.Model.load(path).predict(x)

    yield "model", file("m.npz", model, predicted, mutate_members)


def messages(folder: Path) -> Iterable[tuple[str, Reader]]:
    from silot.sites.credential import write_presence
    from silot.sites.site import Site, make_hello, read_credential

    from .sites.project import asker, identity

    rng = np.random.default_rng(2)
    points, labels = rng.normal(size=(50, 3)), np.resize(["a", "b"], 50)
    party = Holder(Measure(points, labels=labels), Policy(level="record"), Ledger())
    question = encode_question(
        DistanceTo(reference=rng.normal(size=(9, 3)), reference_weights=np.full(9, 1 / 9))
    )

    def answered(data: bytes) -> Any:
        reply = decode_reply(party.reply(data, "uni", "run"))
        if getattr(reply, "code", "") == "holder-raised":
            raise RuntimeError(f"holder-raised {reply}")
        return reply

    yield "question", Reader(question, answered, mutate_answer)
    member = identity("north")
    site = Site(party, member)

    def handled(data: bytes) -> Any:
        from silot.sites.site import read_refusal

        reply = site.handle(data)
        if read_refusal(reply) == "site-raised":
            raise RuntimeError("site-raised")
        return reply

    who = asker()
    credential = read_credential(site.handle(make_hello()))
    sealed = Sealed(
        kind="question", author=who.member().name, question=question, facts={"holder": "north"},
        run="r", round=0,
    )  # fmt: skip
    yield "sealed question", Reader(who.write(sealed, credential.key), handled)
    yield "hello", Reader(make_hello(), handled)
    yield "credential", Reader(site.handle(make_hello()), read_credential)
    from silot.sites.credential import read_presence

    presence = write_presence(member, b"copy")
    yield "presence", Reader(presence, lambda data: read_presence(data, member))
    reply = site.handle(who.write(sealed, credential.key))
    yield "sealed answer", Reader(reply, lambda data: who.read(data, ["answer"]))
    del folder


class Lying(Holder):
    """Answers a question of a run, and all after it, with a changed answer."""

    change: Callable[[bytes], bytes] = staticmethod(lambda data: data)

    def reply(self, message: bytes, asker: str = "", run: str = "") -> bytes:
        reply = super().reply(message, asker, run)
        return self.change(reply) if isinstance(decode_reply(reply), Answer) else reply


def protocols(folder: Path) -> Iterable[tuple[str, Reader]]:
    rng = np.random.default_rng(3)
    labels = np.resize(["a", "b"], 60)
    clouds = [Measure(rng.normal(size=(60, 2)) + k, labels=labels) for k in range(3)]
    own = Measure(rng.normal(size=(80, 2)), labels=np.resize(["a", "b"], 80))
    rules = Policy(level="record", privacy_epsilon=1e9)
    runs: dict[str, Callable[[Any], Any]] = {
        method: lambda fed, method=method: silot.distance("n", "s", method=method, federation=fed)
        for method in ("direct", "trianglewad")
    }
    runs |= {
        "fedwad": lambda fed: silot.distance(
            "n", "s", method="fedwad", support=6, rounds=2, federation=fed
        ),
        "sketch": lambda fed: silot.distance(
            "n", "s", method="sketch", public=own, privacy_epsilon=30.0, federation=fed
        ),
        "value": lambda fed: silot.value_holders(fed, own, method="fedwad", support=5, rounds=2),
        "records": lambda fed: silot.value_records(fed, own, name="s"),
        "train": lambda fed: silot.train(fed, model="logistic", rounds=2),
        "barycenter": lambda fed: silot.barycenter(fed, support=4, rounds=2),
        "adapt": lambda fed: silot.adapt(fed, model="logistic", iterations=5),
    }  # fmt: skip
    for name, run in runs.items():

        def asked(data: bytes, run: Callable[[Any], Any] = run) -> Any:
            chance = random.Random(data)
            liar = Lying(clouds[1], rules, Ledger())
            first = chance.randrange(6) if data else 1 << 20

            def change(reply: bytes) -> bytes:
                nonlocal first
                first -= 1
                return reply if first >= 0 else mutate_answer(reply, chance)

            liar.change = change  # type: ignore[assignment]
            holders = {"n": Holder(clouds[0], rules, Ledger()), "s": liar}
            return run(LocalFederation(holders, asker="uni"))

        yield f"answers of {name}", Reader(b"", asked, lambda _, rng: rng.randbytes(8))
    del folder


def main() -> None:
    # To prove the primes of a key again takes longer than all else, and the key is the same.
    serialization.load_pem_private_key = lru_cache(serialization.load_pem_private_key)
    count, seed, wanted = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        os.environ["SILOT_STATE"] = name
        folder = Path(name)
        readers = dict[str, Reader]()
        for part in (tables, stored, messages, protocols):
            place = folder / part.__name__
            place.mkdir()
            readers |= dict(part(place))
        readers = {key: each for key, each in readers.items() if not wanted or key in wanted}
        report = {key: _try(reader, key, count, rng) for key, reader in readers.items()}
    print(json.dumps(report))


def _try(reader: Reader, name: str, count: int, rng: random.Random) -> dict[str, Any]:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _late)
    reader.read(reader.whole)
    began = time.perf_counter()
    codes, faults, kept = Counter[str](), Counter[str](), dict[str, str]()
    # Protocols compute, and what polars does not read at once it tries in a process of its own.
    is_slow = name.startswith(("answers", "parquet", "arrow"))
    share = max(1, count // 10) if is_slow else count
    for _ in range(share):
        data = reader.change(reader.whole, rng)
        # A crash of native code leaves nothing but this.
        print(name, data[:2000].hex(), file=sys.stderr, flush=True) if os.environ.get(
            "SILOT_SHOW"
        ) else None
        signal.alarm(PATIENCE)
        try:
            reader.read(data)
            codes["read"] += 1
        except SilotError as error:
            codes[error.code] += 1
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            faults[key] += 1
            if key not in kept:
                kept[key] = data[:4000].hex()
                traceback.print_exc()
        finally:
            signal.alarm(0)
    took = time.perf_counter() - began
    print(
        f"{name}: {share} inputs in {took:.0f} s, {sum(faults.values())} without a code",
        file=sys.stderr,
    )
    return {"inputs": share, "codes": dict(codes), "faults": dict(faults), "kept": kept}


def _late(*_: object) -> None:
    raise TimeoutError("an input takes too long")


if __name__ == "__main__":
    main()
