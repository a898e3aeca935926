"""``silot doctor`` and ``silot privacy methods``: about silot itself."""

from __future__ import annotations

from dataclasses import asdict

from ..errors import NATURES, explain
from ..render import Facts, Paragraph
from .console import print_json, show_blocks
from .generate import argument, command, flag
from .options import JsonOption


@command()
def methods_command(json: JsonOption = False) -> None:
    """List what each method sends, needs, guarantees and discloses."""
    from ..api._methods import METHODS

    methods = [
        {
            "name": method.name,
            "disclosure": str(method.disclosure),
            **{name: getattr(method, name) for name in ("sends", "needs", "guarantees", "privacy")},
            "options": list(method.options),
        }
        for method in METHODS.values()
    ]
    if json:
        print_json(methods)
        return
    for method in methods:
        rows = [(name, str(words)) for name, words in method.items() if name != "options"]
        show_blocks([Facts(rows), Paragraph("")])


@command(calls=("silot doctor", "silot doctor measure-nan", "silot doctor --n 20000 --dim 64"))
def doctor_command(
    code: str | None = argument(
        "Error code to explain, from the brackets of a message: measure-nan.", default=None
    ),
    *,
    n: int | None = flag("Records of one holder."),
    m: int | None = flag("Records of the other holder. Default: as many as --n."),
    dim: int = flag("Features.", default=64),
    json: JsonOption = False,
) -> None:
    """Show what is installed and what a problem needs, or explain an error code.

    Without a code: which kernels, libraries and extras are installed. With a code: its meaning,
    its exit status, and its page in the documentation.
    """
    if code is not None:
        _explain(code, is_json=json)
        return
    from ..sites.installation import checkup

    result = checkup(n, m, dim)
    if json:
        print_json(result.to_dict())
    else:
        show_blocks(result.sections())


def _explain(code: str, *, is_json: bool) -> None:
    entry = explain(code.strip("[]"))
    if is_json:
        print_json({**asdict(entry), "page": entry.page})
        return
    status = "none: a finding" if entry.exit_status is None else f"{entry.exit_status}"
    facts = {"code": entry.code, "means": entry.words, "kind": entry.kind, "exit status": status,
             "ends": NATURES[entry.nature]}  # fmt: skip
    show_blocks([Facts([*facts.items(), ("page", entry.page)])])
