"""A project whose kits are on the disk and whose sites answer in this process, by the wire."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from silot.federation.exchange import Unreached
from silot.sites import kit as kits
from silot.sites.authority import Authority, Role
from silot.sites.configuration import SiteConfiguration, open_site
from silot.sites.kit import Kit, begin_kit, complete_kit, provision
from silot.sites.project import Project, sign
from silot.sites.site import Site

from .project import authority, private

ASKER = "uni@example.org"


def project_in(folder: Path, rows: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Kit:
    """Kits for a site for each of the records, and the asker's, which is returned."""
    numbers = count()
    with pytest.MonkeyPatch.context() as patch:
        # A private key takes half a second, so tests share those that this process generated.
        patch.setattr(kits, "create_key", lambda: private(f"kit{next(numbers)}"))
        patch.setattr(Authority, "new", authority)
        return _project_in(folder, rows)


def _project_in(folder: Path, rows: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Kit:
    names = list(rows)
    project = Project(name="wards", host="localhost", sites=tuple(names), askers=(ASKER,))
    made, _ = provision(project, folder / "coordinator")
    for name, (points, labels) in rows.items():
        kit = complete_kit(
            folder / "kits" / name,
            sign(made, project, begin_kit(folder / "kits" / name, name, Role.SITE)),
        )
        np.savez(folder / f"{name}.npz", X=points, y=labels)
        policy = folder / f"{name}.yml"
        policy.write_text("level: record\nprivacy_epsilon: 10\n")
        ledger = folder / f"{name}.ledger"
        SiteConfiguration(data=folder / f"{name}.npz", ledger=ledger, policy=policy).save(kit)
    place = folder / "kits" / "asker"
    return complete_kit(place, sign(made, project, begin_kit(place, ASKER, Role.ASKER)))


@functools.cache
def site_at(folder: Path, name: str) -> Site:
    return open_site(Kit.load(folder / "kits" / name))


def wire_of(folder: Path, *, gone: tuple[str, ...] = ()) -> Callable[[str, bytes, float], bytes]:
    """A wire to the sites of a folder, each started when it is asked first."""

    def carried(name: str, data: bytes, seconds: float) -> bytes:
        if name in gone:
            raise Unreached
        return site_at(folder, name).handle(data)

    return carried
