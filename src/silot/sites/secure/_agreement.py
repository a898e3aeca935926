"""What parties tell each other before any secret is sent, and where they must not differ."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any, cast

from ...errors import HolderError, MismatchError
from ._program import Program
from .options import Role, SecureOptions


def agreed(said: dict[str, Any], own: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what all parties say of themselves, or raise where they differ from this one."""
    told = {peer: _statement(words) for peer, words in said.items()}
    for peer, other in told.items():
        if other["role"] != peer:
            raise MismatchError(
                f"the party at the address of {peer!r} says it is another one. Give every party "
                "its role and the same peers.yml.",
                code="secure-role",
            )
        for name in ("silot", "engine"):
            if other[name] != own[name]:
                raise MismatchError(
                    f"{peer!r} runs another version of {name}. Install the same everywhere.",
                    code="secure-version",
                )
        if other["digest"] != own["digest"]:
            theirs = other["options"]
            names = sorted(
                name for name, value in own["options"].items() if theirs.get(name) != value
            )
            raise MismatchError(
                f"{peer!r} runs with other options: {', '.join(names) or 'unknown ones'}. Agree "
                "on all of them.",
                code="secure-options",
            )
    return told


def _statement(said: Any) -> dict[str, Any]:
    """What a party says of itself, checked to be that."""
    expected = {
        "role": str, "silot": str, "engine": str, "digest": str, "options": dict,
        "nonce": str, "records": int, "dimension": int,
    }  # fmt: skip
    words = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    if not all(isinstance(words.get(name), kind) for name, kind in expected.items()):
        raise HolderError(
            "a party said something that is not silot's. Install the same version everywhere.",
            code="secure-version",
        )
    return words


def program_of(
    told: dict[str, dict[str, Any]], options: SecureOptions
) -> tuple[Program, tuple[Role, ...]]:
    """Return the program for the sizes told, and who owns its inputs."""
    owners = tuple(role for role in ("a", "third", "b") if role in told and told[role]["records"])
    if "a" not in owners or "b" not in owners:
        raise MismatchError("'a' and 'b' need data; one of them has none.", code="secure-data")
    widths = {int(told[role]["dimension"]) for role in owners}
    if len(widths) > 1:
        raise MismatchError(
            f"the parties have {' and '.join(map(str, sorted(widths)))} features. Give all the "
            "same features in the same order.",
            code="dimension-mismatch",
        )
    sizes = tuple(int(told[role]["records"]) for role in owners)
    return options.program(sizes, len(owners) - 1, widths.pop()), cast("tuple[Role, ...]", owners)


def version() -> str:
    """Version of silot: all parties must run the same."""
    try:
        return installed("silot")
    except PackageNotFoundError:
        return "0"
