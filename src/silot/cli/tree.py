"""All commands: their groups, the file that each is in, and calls that are typical of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Commands: TypeAlias = Mapping[str, "str | Group"]


@dataclass(frozen=True)
class Group:
    """Commands in the order of the help: each is in a file of this package, or a group itself.

    The file has the command as a function: ``matrix_command`` is ``matrix``.
    """

    words: str
    commands: Commands
    calls: tuple[str, ...] = ()
    default: str = ""
    """The command that is called where the first word names none."""


def name_function(command: str) -> str:
    """Return what the function of a command is called in its file."""
    return f"{command.replace('-', '_')}_command"


def _of(file: str, names: str) -> Commands:
    return dict.fromkeys(names.split(), file)


TREE = Group(
    "Optimal transport across data silos.",
    {
        "compare": "compare",
        "distance": Group(
            "Distances between sites: of a pair, of all pairs, of groups.",
            {
                **_of("distances", "pair matrix pooled"),
                "groups": "cluster",
                "barycenter": "barycenter",
                **_of("secure", "secure secure-keys"),
            },
            (
                "silot distance north.csv south.csv --why",
                "silot distance matrix north.csv south.csv west.csv --plot map.png",
                "silot distance groups --sites KIT",
            ),
            default="pair",
        ),
        "value": "valuation",
        "records": "records",
        "train": Group(
            "Train models of several sites: one common model, or models that teach one another.",
            {
                "model": "train",
                **_of("devices", "links adapt"),
                "distill": "distill",
                "coreset": "barycenter",
            },
            (
                "silot train north.csv south.csv --label-column diagnosis",
                "silot train adapt phone.npz watch.npz tablet.npz --save models.npz",
                "silot train distill distill.yml --report report.html",
            ),
            default="model",
        ),
        "release": Group(
            "Private sketches of sites as signed files, and results that are computed from them.",
            _of("release", "make show combine watch keys"),
            (
                "silot release north.csv --public public.csv --ledger north.ledger",
                "silot release show north.release",
                "silot release combine north.release south.release --public public.csv",
            ),
            default="make",
        ),
        "schema": Group(
            "The public description of a table: draft one, check tables against it, apply it.",
            _of("schema", "draft confirm check show diff json apply"),
            (
                "silot schema draft north.csv south.csv -o schema.yml",
                "silot schema check south.csv --schema schema.yml",
                "silot schema diff schema.yml other.yml",
            ),
        ),
        "privacy": Group(
            "What policies and messages disclose, and how much of the privacy budget is spent.",
            {
                **_of("audit", "policy audit"),
                "ledger": Group(
                    "What a site has disclosed and released, and how much of its budget it has "
                    "spent.",
                    _of("ledger", "show verify backup trust forget separate"),
                    (
                        "silot privacy ledger show north.ledger",
                        "silot privacy ledger verify north.ledger --head HASH",
                        "silot privacy ledger backup north.ledger copy.ledger",
                    ),
                ),
                "methods": "about",
            },
            (
                "silot privacy policy policy.yml",
                "silot privacy audit run.transcript --truth north.npz",
                "silot privacy ledger show north.ledger",
            ),
        ),
        "site": Group(
            "Set up, run and watch one site of a project, or set up the kit of an asker.",
            _of(
                "site",
                "request join run unit check status log export rotate verify console inbox "
                "approve deny pause resume revoke leave",
            ),
        ),
        "project": Group(
            "A project of several sites: its server, its certificates, and an asker's runs.",
            _of(
                "project",
                "init provision sign renew revoke serve check runs resume cancel console",
            ),
            (
                "silot project init project.yml",
                "silot project provision project.yml",
                "silot project check KIT",
            ),
        ),
        "doctor": "about",
        "demo": "demo",
    },
    (
        "silot compare north.csv south.csv --validation mine.csv",
        "silot distance north.csv south.csv --report report.html",
        "silot value north.csv south.csv --validation mine.csv",
    ),
)


def name_call(words: Sequence[str]) -> str:
    """Return the command that words call; the group where it is the default of one."""
    name = ""
    item: str | Group = TREE
    for word in words:
        if isinstance(item, str) or word not in item.commands or word == item.default:
            break
        name, item = word, item.commands[word]
    return name
