"""A site's configuration: the files of its data, rules and account, as its admin named them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.files import check_whole
from ..data.loading import load_measure
from ..data.measure import Measure
from ..data.reading import Schema
from ..data.site import Site as Writing
from ..errors import FileError, InputError
from ..federation.party import Holder, Party
from ..federation.policy import Policy
from ..privacy.ledger import Account, Ledger
from .endpoint import Endpoint
from .kit import SITE, Kit
from .project import StoredModel
from .secure_holder import SecureHolder
from .site import Site
from .teacher import TeacherFiles, TeachingHolder


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
    def of_flags(cls, fields: Mapping[str, Any], *, teaches: bool) -> SiteConfiguration:
        """Build the configuration of a site that ``teaches`` or not from what was named for it."""
        missing = [f"--{name}" for name in ("data", "ledger") if name not in fields]
        if missing and not (teaches and missing == ["--data"]):
            raise InputError(
                f"a site needs data and a ledger. Give {' and '.join(missing)}.", code="join-data"
            )
        if "writing" in fields and "schema_file" not in fields:
            raise InputError("--site goes with --schema.", code="schema-options")
        return cls(**fields)

    @classmethod
    def load(cls, kit: Kit) -> SiteConfiguration:
        """Read the configuration in a kit.

        Raises a ``FileError`` if the site did not join yet (``kit-format``).
        """
        file = kit.own / SITE
        if not file.exists():
            raise FileError(
                f"{kit.folder} has no data yet: name them with `silot site join`.",
                code="kit-format",
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
        return load_measure(
            path, schema=self.read_schema(), site=writing, label_column=self.label_column,
            weight_column=self.weight_column,
        )  # fmt: skip

    def open_ledger(self, *, readonly: bool = False, walk: bool = True) -> Ledger:
        """Open the account."""
        return Ledger(self.ledger, create=not readonly, readonly=readonly, walk=walk)

    def open_account(self) -> Account:
        """Create the ledger if there is none, and return the account it shares with others."""
        with self.open_ledger() as ledger:
            if self.data is not None:
                records = self.read_measure(self.data)
                ledger.register(records.points, records.columns)
            return ledger.account

    def build_holder(self, ledger: Ledger) -> Holder | None:
        """Build the holder that answers about records, if the site has any."""
        return None if self.data is None else Holder(*self._holder_parts(self.data, ledger))

    def check(self) -> None:
        """Load everything as the site will; nothing is written."""
        if not self.ledger.exists():
            check_whole(self.ledger)
            ledger = Ledger()
        else:
            # Opened for writing, so that read-only files and broken chains show now.
            ledger = self.open_ledger()
        try:
            holder = self.build_holder(ledger)
            _ = self.read_policy() if holder is None else holder.policy
        finally:
            ledger.close()

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

    party = configuration.build_party(ledger, kit)
    return Site(party, kit.identity(), fresh=fresh, note=ledger.log_question, facts=facts)


def _file_state(path: Path | None) -> tuple[int, int] | None:
    """Return what changes when a file is changed, or ``None`` where it cannot be looked up."""
    if path is None:
        return None
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
