"""What a site answers with: its data, rules and account, as the admin of the site named them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ..data.files import write_whole
from ..data.loading import load_measure
from ..data.measure import Measure
from ..data.reading import Schema
from ..data.site import Site as Writing
from ..errors import FileError
from ..federation.party import Holder, Party
from ..federation.policy import Policy
from ..privacy.ledger import Ledger
from .kit import OWN, SITE, Kit, _checked, _json
from .seat import Seat
from .site import Note, Site
from .taking import Taking
from .teaching import Taught, TeachingHolder

LOG = "questions.log"


class Joined(BaseModel):
    """Files of a site, by absolute path; they never leave its machine.

    Attributes
    ----------
    data
        Its records; ``None`` of a site that teaches alone.
    policy
        Its rules; by default no records are told.
    ledger
        Its account.
    schema_file, writing
        The public contract of its table, and how the site writes it.
    evaluation
        Records with true labels, for questions that evaluate models.
    teacher
        What it teaches with.
    label_column, weight_column
        Of a table without a schema.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path | None = None
    ledger: Path
    policy: Path | None = None
    schema_file: Path | None = None
    writing: Path | None = None
    evaluation: Path | None = None
    teacher: Taught | None = None
    label_column: str | None = None
    weight_column: str | None = None

    @classmethod
    def load(cls, kit: Kit) -> Joined:
        """What was said when the site joined.

        Raises
        ------
        FileError
            It did not join yet (``kit-format``).
        """
        file = kit.folder / OWN / SITE
        if not file.exists():
            raise FileError(
                f"{kit.folder} knows no data yet: `silot site join` names them.", code="kit-format"
            )
        return _checked(cls, _json(file), file)

    def save(self, kit: Kit) -> None:
        """Keep it in the kit."""
        write_whole(kit.folder / OWN / SITE, f"{self.model_dump_json(indent=2)}\n".encode())

    def rules(self) -> Policy:
        """The policy."""
        return Policy() if self.policy is None else Policy.load(self.policy)

    def contract(self) -> Schema | None:
        """The schema."""
        return None if self.schema_file is None else Schema.load(self.schema_file)

    def measure(self, path: Path) -> Measure:
        """Records of a file."""
        writing = None if self.writing is None else Writing.load(self.writing)
        options: dict[str, Any] = {}
        if self.schema_file is None:
            options = {"label_column": self.label_column, "weight_column": self.weight_column}
            options = {name: value for name, value in options.items() if value is not None}
        return load_measure(path, schema=self.contract(), site=writing, **options)

    def account(self, *, readonly: bool = False, walk: bool = True) -> Ledger:
        """The ledger."""
        return Ledger(self.ledger, create=not readonly, readonly=readonly, walk=walk)

    def holder(self, ledger: Ledger | None = None) -> Holder | None:
        """Who answers about records, if there are any."""
        if self.data is None:
            return None
        return Holder(*self._own(self.data, self.account() if ledger is None else ledger))

    def party(self, ledger: Ledger, kit: Kit) -> Party:
        """Who answers, and computes with the others of the project."""
        rules = self.rules()
        teacher = None if self.teacher is None else self.teacher.teacher(rules, ledger)
        if self.data is None:
            if teacher is None:
                raise FileError("the site has neither data nor a teacher.", code="kit-format")
            return teacher
        own = *self._own(self.data, ledger), Seat.of(kit, rules.secure)
        return Taking(*own) if teacher is None else TeachingHolder(teacher, *own)

    def _own(self, data: Path, ledger: Ledger) -> tuple[Measure, Policy, Ledger, Measure | None]:
        evaluation = None if self.evaluation is None else self.measure(self.evaluation)
        return self.measure(data), self.rules(), ledger, evaluation


def site_of(kit: Kit) -> Site:
    """The site of a kit, ready to answer."""
    joined = Joined.load(kit)
    seen = _seen(joined.data)
    contract = joined.contract()
    known = {} if contract is None else {"schema": contract.hash, "schema_name": contract.name}
    ledger = joined.account()

    def fresh() -> str:
        return "" if _seen(joined.data) == seen else "data-changed"

    def facts() -> dict[str, Any]:
        return {**known, "paused": ledger.paused, "stopped": fresh()}

    note = Log(kit.folder / OWN / LOG).note
    return Site(joined.party(ledger, kit), kit.identity(), fresh=fresh, note=note, facts=facts)


class Log:
    """Who asked what, one line of JSON a question; a line is written before its answer leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def note(self, facts: Mapping[str, Any]) -> None:
        """Write a line.

        Raises
        ------
        FileError
            It cannot be written: nothing may be told (``log-unwritable``).
        """
        line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **facts}
        data = f"{json.dumps(line, sort_keys=True)}\n".encode()
        try:
            with self._lock:
                handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    if os.write(handle, data) != len(data):
                        raise OSError
                finally:
                    os.close(handle)
        except OSError as error:
            raise FileError(
                f"{self.path} cannot be written ({type(error).__name__}): nothing is told until "
                "it can.",
                code="log-unwritable",
            ) from None

    def lines(self, *, most: int | None = None) -> list[dict[str, Any]]:
        """All lines that can be read, or those among the last ``most`` bytes.

        Raises
        ------
        FileError
            It is there and cannot be read (``file-missing``).
        """
        try:
            with self.path.open("rb") as file:
                file.seek(0 if most is None else max(self.path.stat().st_size - most, 0))
                text = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FileError(
                f"{self.path} cannot be read ({type(error).__name__}). Check its rights.",
                code="file-missing",
            ) from None
        found: list[dict[str, Any]] = []
        for line in text.splitlines():
            try:
                body = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(body, dict):
                found.append(body)
        return found


def _seen(path: Path | None) -> tuple[int, int] | None:
    """What tells that a file was changed."""
    if path is None:
        return None
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


__all__ = ["Joined", "Log", "Note", "site_of"]
