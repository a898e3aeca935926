"""Draft a schema from the records of one site, and check the tables of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..data.drafts.result import Draft, SchemaCheck
    from ..data.reading import Schema
    from ..data.site import Site


def draft_schema(
    data: Any,
    *others: Any,
    label: str = "",
    weight: str = "",
    identifiers: Sequence[str] = (),
    site: Site | str | Path | None = None,
    name: str = "",
    tell: Callable[[float], None] | None = None,
) -> Draft:
    """Draft a schema from the records of one site, and site files of others, to correct.

    Parameters
    ----------
    data
        A table: the path of a file, or a data frame.
    *others
        Further tables: for each a site file is proposed, of what it writes otherwise.
    label, weight
        Columns with the labels and the weights of records.
    identifiers
        Columns with what the site calls its records: they are left out.
    site
        How this site writes its columns: names, codes, units, days. Or a file that says so.
    name
        Name of the schema.
    tell
        Called with the share of a file that has been read.

    Returns
    -------
    Draft
        ``schema``, whose ``read_off`` names every entry that depended on records, and ``notes``
        on what to look at: record numbers, codes for missing values, heavy tails, columns that
        say the same. Kinds depend on records too. ``sites`` has the site files: no table is read by
        them before a person has confirmed them.

    Raises
    ------
    InputError
        ``schema-columns``: a column is named that is not there, or none can be a feature;
        ``schema-label``: a label column without classes; ``weights-dtype``.
    FileError
        As ``load_measure``.

    Notes
    -----
    Ranges are public limits where the name of the column says what is measured, and otherwise
    those of the records, rounded outwards. Categories of fewer than 10 records are not listed.
    It stays at the site until somebody replaced what it read off.

    Examples
    --------
    >>> import polars
    >>> ages = [30 + k % 40 for k in range(100)]
    >>> draft = draft_schema(polars.DataFrame({"age": ages, "sex": ["f", "m"] * 50}))
    >>> draft.schema.columns["age"].range, draft.schema.columns["sex"].categories
    ((0.0, 120.0), ('f', 'm'))
    >>> draft.schema.read_off
    ('age.typical', 'sex.categories')
    """
    from ..data.drafts.draft import draft
    from ..data.site import Site

    return draft(
        data, others, label=label, weight=weight, identifiers=identifiers, site=Site.coerce(site),
        title=name, tell=tell,
    )  # fmt: skip


def check_schema(
    data: Any,
    schema: Schema | str | Path,
    *,
    site: Site | str | Path | None = None,
    tell: Callable[[float], None] | None = None,
) -> SchemaCheck:
    """Count the values of a table that do not fit a schema, by column.

    Parameters
    ----------
    data
        A table: the path of a file, or a data frame.
    schema, site
        The contract, and how this site writes its columns, or files with these.
    tell
        Called with the share of a file that has been read.

    Returns
    -------
    SchemaCheck
        ``fits``, ``problems`` and ``counts``. Columns that look as if they were in another unit
        are among the problems. ``cure`` is what to write in a site file, as YAML.

    Raises
    ------
    InputError
        ``site-invalid``: a site file that does not go with the schema.
    FileError
        As ``load_measure``.

    Examples
    --------
    >>> import polars, silot
    >>> schema = silot.Schema.of({"columns": {"age": {"kind": "integer", "range": [0, 120]}}})
    >>> check_schema(polars.DataFrame({"age": [70.5, 60.0]}), schema).problems[0].kind
    'fraction'
    """
    from ..data.drafts.check import check
    from ..data.reading import Schema, TableSource
    from ..data.site import Site

    way = Site.coerce(site) or Site()
    return check(TableSource.of(data, way), Schema.coerce(schema), way, tell)
