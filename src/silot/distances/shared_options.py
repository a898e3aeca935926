"""Options that several protocols have: declared here, worded where they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from ..data.measure import Covariance, Embedding
from ..options import Check, anything, count, none_or, number, option, seed, truth, word


def switch(
    help: str, *, default: bool = False, code: str = "", flag: bool = True, brief: str = ""
) -> bool:
    """Declare an option that is on or off."""
    return option(help, truth(), default=default, code=code, flag=flag, brief=brief)


def seed_option(help: str) -> int:
    """Declare the seed of a protocol; ``help`` says what is drawn with it."""
    return option(help, seed(), default=0, brief="Seed of everything random.")


def quorum_option(
    help: str = "Fewest holders that must take part; ``None`` means all. Others are dropped when "
    "they fail, and named in the result.",
    who: str = "holders",
) -> int | None:
    """Declare how many of the parties must answer."""
    brief = f"Fewest {who} that must answer. Default: all."
    return option(help, none_or(count()), default=None, brief=brief)


def active_option(help: str, who: str = "Holders") -> int | None:
    """Declare how many of the parties a round asks."""
    brief = f"{who} that receive a question in each round; all take turns. Default: all."
    return option(help, none_or(count()), default=None, brief=brief)


def numbers_by_holder(help: str, who: str = "holder") -> Mapping[str, float] | None:
    """Declare numbers by the name of a party, which no flag can give."""
    return option(help, anything(f"numbers by {who}, or None"), default=None)


def rounds_option(help: str = "Most rounds.") -> int:
    """Declare how many rounds a protocol takes at most."""
    return option(help, count(), default=20, brief="Most rounds.")


def tolerance_option(help: str) -> float:
    """Declare the relative gain at which rounds stop, which no flag gives."""
    return option(help, number(least=0), default=1e-4, flag=False)


def training_option(help: str, check: Check, *, default: float) -> float:
    """Declare a number of the training of models, which no flag gives."""
    return option(help, check, default=default, code="option-training", flag=False)


def support_option(help: str) -> int:
    """Declare how many atoms a reference has."""
    return option(help, count(), default=100, brief="Atoms of the reference.")


def embedding_option(help: str = "Label coordinates added to the records.") -> Embedding:
    """Declare how labels become coordinates."""
    return option(help, word(*get_args(Embedding)), default="none", flag=False)


def covariance_option(help: str) -> Covariance:
    """Declare how OTDD vectors hold the covariance of a class."""
    return option(help, word(*get_args(Covariance)), default="diagonal", flag=False)
