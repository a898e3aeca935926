"""A site's configuration: the files of its data, rules and account, as its admin named them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..data.foreign import parse_json
from ..data.loading import load_measure
from ..data.measure import Measure
from ..data.reading import Schema
from ..data.site import Site as Writing
from ..errors import FileError
from ..federation.party import Holder, Party
from ..federation.policy import Policy
from ..privacy.ledger import Ledger
from .endpoint import Endpoint
from .kit import SITE, Kit
from .project import StoredModel
from .secure_holder import SecureHolder
from .site import Site
from .teacher import TeacherFiles, TeachingHolder

LOG = "questions.log"


class SiteConfiguration(StoredModel):
    """Files of a site, by absolute path; they never leave its machine.

    Attributes
    ----------
    data
        Its records; ``None`` of a site that teaches alone.
    policy
        Its rules; by default no records are disclosed.
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

    data: Path | None = None
    ledger: Path
    policy: Path | None = None
    schema_file: Path | None = None
    writing: Path | None = None
    evaluation: Path | None = None
    teacher: TeacherFiles | None = None
    label_column: str | None = None
    weight_column: str | None = None

    @classmethod
    def load(cls, kit: Kit) -> SiteConfiguration:
        """Read the configuration in a kit.

        Raises a ``FileError`` if the site did not join yet (``kit-format``).
        """
        file = kit.own / SITE
        if not file.exists():
            raise FileError(
                f"{kit.folder} knows no data yet: `silot site join` names them.", code="kit-format"
            )
        return cls.read(file)

    def save(self, kit: Kit) -> None:
        """Write the configuration to a kit."""
        self.write(kit.own / SITE)

    def read_policy(self) -> Policy:
        """Read the rules."""
        return Policy() if self.policy is None else Policy.load(self.policy)

    def read_schema(self) -> Schema | None:
        """Read the schema, if the site has one."""
        return None if self.schema_file is None else Schema.load(self.schema_file)

    def read_measure(self, path: Path) -> Measure:
        """Read the records of a file."""
        writing = None if self.writing is None else Writing.load(self.writing)
        columns: dict[str, Any] = {}
        if self.schema_file is None:
            columns = {"label_column": self.label_column, "weight_column": self.weight_column}
            columns = {name: value for name, value in columns.items() if value is not None}
        return load_measure(path, schema=self.read_schema(), site=writing, **columns)

    def open_ledger(self, *, readonly: bool = False, walk: bool = True) -> Ledger:
        """Open the account."""
        return Ledger(self.ledger, create=not readonly, readonly=readonly, walk=walk)

    def build_holder(self, ledger: Ledger) -> Holder | None:
        """Build the holder that answers about records, if the site has any."""
        return None if self.data is None else Holder(*self._holder_parts(self.data, ledger))

    def build_party(self, ledger: Ledger, kit: Kit) -> Party:
        """Build the party that answers, and computes with the others of the project."""
        rules = self.read_policy()
        teacher = None if self.teacher is None else self.teacher.build(rules, ledger)
        if self.data is None:
            if teacher is None:
                raise FileError("the site has neither data nor a teacher.", code="kit-format")
            return teacher
        own = *self._holder_parts(self.data, ledger), Endpoint.of(kit, rules.secure)
        return SecureHolder(*own) if teacher is None else TeachingHolder(teacher, *own)

    def _holder_parts(
        self, data: Path, ledger: Ledger
    ) -> tuple[Measure, Policy, Ledger, Measure | None]:
        evaluation = None if self.evaluation is None else self.read_measure(self.evaluation)
        return self.read_measure(data), self.read_policy(), ledger, evaluation


def open_site(kit: Kit) -> Site:
    """Load everything a site answers with, so that it is ready to answer."""
    configuration = SiteConfiguration.load(kit)
    state = _file_state(configuration.data)
    schema = configuration.read_schema()
    names = {} if schema is None else {"schema": schema.hash, "schema_name": schema.name}
    ledger = configuration.open_ledger()

    def fresh() -> str:
        return "" if _file_state(configuration.data) == state else "data-changed"

    def facts() -> dict[str, Any]:
        return {**names, "paused": ledger.paused, "stopped": fresh()}

    party, note = configuration.build_party(ledger, kit), QuestionLog(kit.own / LOG).note
    return Site(party, kit.identity(), fresh=fresh, note=note, facts=facts)


class QuestionLog:
    """Who asked what, one line of JSON a question; a line is written before its answer leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def note(self, facts: Mapping[str, Any]) -> None:
        """Write a line.

        Raises a ``FileError`` if it cannot be written (``log-unwritable``): then nothing may be
        answered.
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

    def read_lines(self, *, most: int | None = None) -> list[dict[str, Any]]:
        """Return all lines that can be read, or those among the last ``most`` bytes.

        Raises a ``FileError`` if the log exists and cannot be read (``file-missing``).
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
        lines: list[dict[str, Any]] = []
        for line in text.splitlines():
            with suppress(FileError):
                body = parse_json(line, _fail_line)
                if isinstance(body, dict):
                    lines.append(body)
        return lines


def _fail_line(why: str) -> FileError:
    return FileError(f"a line of the log cannot be read ({why}).", code="file-unreadable")


def _file_state(path: Path | None) -> tuple[int, int] | None:
    """Return what changes when a file is changed, or ``None`` where it cannot be looked up."""
    if path is None:
        return None
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
