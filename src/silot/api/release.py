"""Releases as files: one site writes one alone, and whoever has several combines them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack
from urllib.parse import quote

from ..data.files import check_whole
from ..data.measure import Data
from ..data.reading import Schema
from ..distances.sketches.release_file import ReleaseFile
from ..distances.sketches.release_question import Prepared, prepare, read_data
from ..distances.sketches.sketch import Sketching
from ..errors import InputError
from ..federation.accounts import BUDGET, budget_policy
from ..federation.answer import Failure, decode_reply
from ..federation.keys import Key, PublicKey
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.protocol import failure_error
from ..federation.sealed import Sealed, is_name, write_sealed
from ..options import Options, anything, check_known, none_or, number, option, taking, truth
from ..privacy.ledger import Ledger

if TYPE_CHECKING:
    from ..keywords import ReleaseKeywords

ASKER = "release"
"""Name under which a ledger keeps what a site released by itself."""


class Sending(Options):
    """Options of a release beside its question."""

    labels: bool = option("Release every class separately.", truth(), default=False, flag=False)
    period: str | None = option(
        "Public name of the period of the records, such as 2026-10. A release of "
        "another period is a new one, and is charged.",
        anything("text, or None", str),
        default=None,
    )
    budget_epsilon: float | None = option(
        "Epsilon of all releases in the ledger together, by default 1.",
        none_or(number(above=0)),
        default=None,
        code="option-budget",
    )
    policy: Policy | None = option(
        "Rules of the holder, instead of a budget.", anything("Policy, or None"), default=None
    )
    to: PublicKey | None = option(
        "Encrypt the file for the owner of this key.", anything("PublicKey, or None"), default=None
    )

    def fit(self) -> None:
        if self.policy is not None and self.budget_epsilon is not None:
            raise InputError(
                "a policy has its own budget, privacy_epsilon. Write the budget there, and "
                "leave budget_epsilon out.",
                code="option-budget",
            )


@taking(Sending, Sketching, without=("embedding",))
def release(
    data: Data,
    path: str | Path,
    *,
    name: str,
    ledger: str | Path,
    schema: Schema | str | Path | None = None,
    public: Data | None = None,
    key: str | Path | None = None,
    **options: Unpack[ReleaseKeywords],
) -> ReleaseFile:
    r"""Write one differentially private sketch of a site's records to a file that may travel.

    The question is made of public things alone: nothing in it, nor the size of the file, depends
    on the records. It is answered by a ``Holder`` against the durable ledger, as in any other run,
    so that the same question gets the same answer whoever asks: combined with those of other
    sites it gives, number by number, what a run between them would have given.

    Parameters
    ----------
    data
        The records: a measure, an array, or with ``schema`` a data frame.
    path
        The file to write, by custom ``NAME.release``.
    name
        What the site is called.
    ledger
        The site's ledger, a file; made when absent.
    schema
        The public contract of the table, or its file, where ``data`` is not a measure that was
        read by
        it.
    public
        Public records, the same file at all sites. Without them the box of the schema, or
        ``public_mean`` and ``public_scale``, stand for a normal distribution, without intervals.
    key
        ``NAME.key``; by default the one of that name beside the ledger, made when absent.

    Returns
    -------
    ReleaseFile
        Made for 2,000 records at the least where ``size`` is not given.

    Raises
    ------
    RefusedError
        The policy or the ledger does not allow it; nothing is written.
    InputError, MismatchError
        Options out of range, or public records that do not fit.
    FileError
        A file cannot be written, or a key or a ledger cannot be read.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(400, 2)), rng.normal(size=(3000, 2))
    >>> folder = tempfile.mkdtemp()
    >>> found = release(
    ...     x, f"{folder}/n.release", name="north", ledger=f"{folder}/north.ledger", public=public
    ... )
    >>> found.name, found.width, found.fresh
    ('north', 48, True)
    """
    check_known(Sketching, options, "release", own=Sending.options)
    sending, others = Sending.split(options)
    if not is_name(name):
        raise InputError(
            "a site needs a name: a short printable text. Give name=.", code="holder-names"
        )
    file = Path(path)
    check_whole(file)
    records = read_data(data, Schema.coerce(schema), name, sending.labels)
    prepared = prepare(
        name, records, public, labels=sending.labels, period=sending.period, **others
    )
    place = Path(ledger).with_name(f"{quote(name, safe='')}.key") if key is None else Path(key)
    fresh = key is None and not place.exists()
    signer = Key.new() if fresh else Key.load(place)
    reply = _answer(name, prepared, sending, ledger)
    if fresh:
        # Where nothing was released, nothing was written.
        signer.save(place)
    sealed = Sealed(
        kind="release",
        author=name,
        question=prepared.question,
        reply=reply,
        discloses=prepared.discloses,
        schema=None if prepared.records.schema is None else prepared.records.schema.body(),
        facts=prepared.terms.model_dump(),
    )
    write_sealed(file, sealed, signer, sending.to)
    read = replace(sealed, signer=signer.public.signing, file=file.name)
    return ReleaseFile.of(read, size=file.stat().st_size)


def _answer(name: str, prepared: Prepared, sending: Sending, ledger: str | Path) -> bytes:
    """Return the holder's answer, charged to its ledger."""
    delta = prepared.terms.privacy_delta
    policy = sending.policy or budget_policy(sending.budget_epsilon or BUDGET, delta)
    with Ledger(ledger) as account:
        reply = Holder(prepared.records, policy, account).reply(prepared.question, ASKER)
    answer = decode_reply(reply)
    if isinstance(answer, Failure):
        raise failure_error(name, answer)
    return reply
