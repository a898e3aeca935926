"""Combine releases of several sites, and measure the drift of one site from its releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..data.matching import check_schemas, match_columns
from ..data.measure import Data, Measure
from ..data.preflight import Preflight
from ..distances.sketches.drift import Drift, measure_drift
from ..distances.sketches.release_file import ReleaseFile, check_alike, digest_public_records
from ..distances.sketches.release_question import build_question, read_data
from ..distances.sketches.result import Sketches
from ..errors import InputError, MismatchError
from ..federation.keys import Key, Keyring
from ..federation.parties import MINE, PUBLIC
from ..federation.party import Own
from ..federation.recorded import Records, Unanswered, differing
from ..federation.run import Progress, run
from ..federation.sealed import read_sealed


def combine(
    paths: Sequence[str | Path | ReleaseFile],
    public: Data | None = None,
    validation: Data | None = None,
    *,
    keys: str | Path | Keyring | None = None,
    key: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sketches:
    """Compute all results that follow from releases of several sites.

    Parameters
    ----------
    paths
        Release files, or what ``read_releases`` made of them, one for each site.
    public
        The public records that the sites released with.
    validation
        Data of one's own, to value the sites by; no noise is added to them.
    keys
        Folder with the public keys of the sites, ``NAME.pub``: each file must be signed by the key
        of its name. Without, a signature shows that a file is as its signer wrote it, and not who
        that was: compare fingerprints.
    key
        One's own ``.key``, for files that were encrypted for it.
    progress
        Called after every exchange.

    Returns
    -------
    Sketches
        As of ``silot.api.sketches`` between the holders themselves, with ``releases``.

    Raises
    ------
    FileError
        A file that is not a release, or was changed since it was signed.
    MismatchError
        ``release-twice``, ``schema-mismatch``, ``public-mismatch``, ``release-mismatch``: files
        that do not go together; ``key-mismatch``, ``key-unknown``.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from silot import release
    >>> rng = np.random.default_rng(0)
    >>> public, folder = rng.normal(size=(150, 2)), tempfile.mkdtemp()
    >>> for name in ("north", "south"):
    ...     x = rng.normal(size=(3000, 2)) + (name == "south")
    ...     _ = release(x, f"{folder}/{name}.release", name=name, ledger=f"{folder}/{name}.ledger",
    ...                 public=public)
    >>> found = combine([f"{folder}/north.release", f"{folder}/south.release"], public)
    >>> 1.2 < found.distance("north", "south").value < 1.6
    True
    """
    by_name = index_by_site(read_releases(paths, keys=keys, key=key))
    check_alike(by_name)
    return run_releases(by_name, public, validation, progress=progress)


def read_releases(
    paths: Sequence[str | Path | ReleaseFile],
    *,
    keys: str | Path | Keyring | None = None,
    key: str | Path | None = None,
) -> list[ReleaseFile]:
    """Read releases and check their signatures; what was read before stays as it is."""
    ring = keys if isinstance(keys, Keyring) or keys is None else Keyring.load(keys)
    own = None if key is None else Key.load(key)
    releases: list[ReleaseFile] = []
    for path in paths:
        if isinstance(path, ReleaseFile):
            releases.append(path)
            continue
        sealed = read_sealed(path, key=own, keys=ring)
        trusted = "" if ring is None else ring.name_of(sealed.signer)
        releases.append(ReleaseFile.of(sealed, trusted, Path(path).stat().st_size))
    return releases


def index_by_site(releases: Sequence[ReleaseFile]) -> dict[str, ReleaseFile]:
    """Return releases by the names of their sites, one each.

    Raises
    ------
    MismatchError
        ``release-twice``: two of one name, of one key, or with the same noisy numbers.
    """
    if not releases:
        raise InputError("no release is given; one or more are needed.", code="holder-names")
    by_mark: dict[tuple[str, object], ReleaseFile] = {}
    for release in releases:
        marks = (
            ("name", release.name),
            ("key", release.sealed.signer),
            ("noise", release.numbers.tobytes()),
        )
        for mark in marks:
            other = by_mark.setdefault(mark, release)
            if other is not release:
                what = {"name": f"are both of {release.name!r}", "key": "were signed by one key"}
                raise MismatchError(
                    f"{other.file} and {release.file} "
                    f"{what.get(mark[0], 'hold the same noisy numbers: one is a copy')}. Give one "
                    "release a site; `silot release watch` compares several of one.",
                    code="release-twice",
                )
    return {release.name: release for release in releases}


def run_releases(
    releases: Mapping[str, ReleaseFile],
    public: Data | None,
    validation: Data | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> Sketches:
    """Repeat the run whose answers the releases are; they fit together."""
    first = next(iter(releases.values()))
    sample = public_records(first, public)
    own = None
    if validation is not None:
        mine = read_data(validation, first.schema, "validation", first.terms.classes is not None)
        check_schemas({"the releases": first.schema, "validation": mine.schema})
        if mine.columns is not None and first.terms.columns is not None:
            both = {PUBLIC: _build_head(first), "validation": mine}
            mine = match_columns(both, ["validation"])["validation"]
        own = Own(mine)
    periods = {name: release.terms.period for name, release in releases.items()}
    named = {name: period for name, period in periods.items() if period is not None}
    protocol = build_question(first.terms, sample, named or None).among(list(releases), own)
    records = Records([release.recorded(name) for name, release in releases.items()])
    try:
        sketches = run(protocol, records, progress=progress)
    except Unanswered as unanswered:
        raise _find_difference(unanswered, releases) from None
    warnings = dict.fromkeys(text for release in releases.values() for text in release.warnings)
    tables = {PUBLIC: sample, MINE: None if own is None else own.measure}
    looked = {name: table for name, table in tables.items() if table is not None}
    schemaless = Preflight.of(looked, list(releases)) if first.schema is None else None
    sketches = sketches.with_preflight(schemaless)
    return replace(
        sketches,
        columns=first.schema or (tuple(first.terms.columns) if first.terms.columns else None),
        status="; ".join([sketches.status, *(text.rstrip(".") for text in warnings)]),
        releases=tuple(releases.values()),
    )


def public_records(release: ReleaseFile, public: Data | None) -> Measure | None:
    """Read the public records of a release, which must be those it was made with."""
    terms = release.terms
    if public is None and not terms.public:
        return None
    if public is None:
        raise InputError(
            f"{release.file} was made with {terms.public_records} public records. Give the same "
            "file (--public).",
            code="public-absent",
        )
    records = read_data(public, release.schema, PUBLIC, False)
    if release.schema is not None:
        check_schemas({release.file: release.schema, PUBLIC: records.schema})
    if records.columns is not None and terms.columns is not None:
        if sorted(records.columns) != sorted(terms.columns):
            raise _other_public_error(release)
        records = records.ordered(tuple(terms.columns))
    if digest_public_records(records, terms.classes is not None) != terms.public:
        raise _other_public_error(release)
    return records


def _other_public_error(release: ReleaseFile) -> MismatchError:
    return MismatchError(
        f"{release.file} was made with other public records than those given (digest "
        f"{release.terms.public[:16] or 'none'}). Give the file that the sites had.",
        code="public-mismatch",
    )


def _find_difference(unanswered: Unanswered, releases: Mapping[str, ReleaseFile]) -> MismatchError:
    """Return an error that names the release that answers another question."""
    for name, message in unanswered.messages.items():
        release = releases[name]
        if release.sealed.question != message:
            names = ", ".join(differing(message, release.sealed.question))
            return MismatchError(
                f"{release.file} answers another question than the same public records and options "
                f"make here; they differ in {names or 'their form'}. The site runs another "
                "version of silot or of its libraries: make all releases with the same versions.",
                code="release-question",
            )
    raise unanswered


def _build_head(release: ReleaseFile) -> Measure:
    columns = release.terms.columns or []
    return Measure([[0.0] * len(columns)], columns=columns, schema=release.schema)


def watch(
    paths: Sequence[str | Path | ReleaseFile],
    public: Data | None = None,
    *,
    keys: str | Path | Keyring | None = None,
    key: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Drift:
    """Test the last release of a site against earlier ones, and say which columns changed.

    Parameters
    ----------
    paths
        Releases of one site, of different periods, the oldest first. They are made with
        ``period=``: without, a ledger repeats the first one for ever.
    public
        The public records that they were made with.
    keys, key
        As of ``combine``.
    progress
        Called with comparisons done and of all.

    Returns
    -------
    Drift

    Raises
    ------
    InputError
        Fewer than two releases (``release-few``).
    MismatchError
        ``release-site``: of two sites, or signed by two keys; ``release-twice``: one release twice,
        or two of one period; and as of ``combine``.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from silot import release
    >>> rng = np.random.default_rng(0)
    >>> public, folder = rng.normal(size=(400, 2)), tempfile.mkdtemp()
    >>> for k, month in enumerate(("2026-09", "2026-10", "2026-11")):
    ...     x = rng.normal(size=(3000, 2)) + [0.3 * (k == 2), 0.0]
    ...     _ = release(x, f"{folder}/{month}", name="north", ledger=f"{folder}/north.ledger",
    ...                 public=public, period=month, budget_epsilon=3)
    >>> found = watch([f"{folder}/2026-{k}" for k in ("09", "10", "11")], public)
    >>> [each.drifted for each in found.since], "column 0" in found.since[0].test.drivers
    ([True, True], True)
    """
    releases = read_releases(paths, keys=keys, key=key)
    if len(releases) < 2:
        raise InputError(
            f"{len(releases)} release(s) given; two or more of one site are needed.",
            code="release-few",
        )
    by_period = _index_by_period(releases)
    check_alike(by_period)
    first = releases[0]
    sketches = run_releases(by_period, public)
    return measure_drift(first.name, sketches, progress=progress)


def _index_by_period(releases: Sequence[ReleaseFile]) -> dict[str, ReleaseFile]:
    """Return releases by their periods, or by their files where they name none."""
    first, by_period = releases[0], dict[str, ReleaseFile]()
    for release in releases:
        if release.name != first.name or release.sealed.signer != first.sealed.signer:
            raise MismatchError(
                f"{first.file} and {release.file} come from two sites, or were signed by two "
                "keys. Drift is about one site; `silot release combine` compares several.",
                code="release-site",
            )
        period = release.terms.period or release.file
        copied = any((release.numbers == other.numbers).all() for other in by_period.values())
        if period in by_period or copied:
            raise MismatchError(
                f"{release.file} is given twice, or has the same numbers as another file, "
                "because a ledger repeats its answer to the same question. Release newer "
                "records with another --period.",
                code="release-twice",
            )
        by_period[period] = release
    return by_period
