"""Measure the drift of one site from its releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..data.measure import Data
from ..distances.sketches.drift import Drift, measure_drift
from ..distances.sketches.release_file import ReleaseFile, check_alike
from ..errors import InputError, MismatchError
from ..federation.keys import Keyring
from .combine import read_releases, run_releases


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
    >>> [each.drifted for each in found.since], found.since[0].test.drivers
    ([True, True], ('column 0',))
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
