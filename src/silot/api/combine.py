"""Combine releases of several sites, and measure the drift of one site from its releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..data.measure import Data
from ..distances.sketches.combination import Combination, index_by_period, index_by_site
from ..distances.sketches.drift import Drift, measure_drift
from ..distances.sketches.release_file import ReleaseFile, check_alike
from ..distances.sketches.result import Sketches
from ..errors import InputError
from ..federation.keys import Key, Keyring
from ..federation.party import Own
from ..federation.recorded import Unanswered
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
    return _run_releases(by_name, public, validation, progress=progress)


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


def _run_releases(
    releases: Mapping[str, ReleaseFile],
    public: Data | None,
    validation: Data | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> Sketches:
    """Repeat the run whose answers the releases are."""
    check_alike(releases)
    combination = Combination.of(releases, public, validation)
    own = None if combination.mine is None else Own(combination.mine)
    try:
        sketches = run(combination.protocol(own), combination.records(), progress=progress)
    except Unanswered as unanswered:
        raise combination.explain(unanswered) from None
    return combination.finish(sketches)


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
    sketches = _run_releases(index_by_period(releases), public)
    return measure_drift(releases[0].name, sketches, progress=progress)
