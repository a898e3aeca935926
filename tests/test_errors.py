"""Every code has its words once, and no words are without a code."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from silot import errors
from silot.cli.app import build
from silot.errors import InputError, SilotError, explain, explanations

from .codes import codes

pytestmark = pytest.mark.all_cases

RUNNER = CliRunner()
KINDS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, SilotError)
}


@pytest.fixture(scope="module")
def raised() -> dict[str, set[str]]:
    return codes()


def test_the_table_has_the_codes_of_the_source_and_no_others(raised: dict[str, set[str]]) -> None:
    assert set(raised) - set(explanations()) == set(), "no words in errors.toml"
    assert set(explanations()) - set(raised) == set(), "words without a code"


def test_the_walk_finds_codes_however_they_are_made(raised: dict[str, set[str]]) -> None:
    literal, failure, chosen = "measure-shape", "holder-silent", "measure-nan"
    formed, parameter, declared = "extra-torch", "option-t", "option-fdr"
    returned, table = "policy-exact", "ledger-full"
    every = {literal, failure, chosen, formed, parameter, declared, returned, table}
    assert every <= set(raised)
    assert "InputError" in raised[literal] and "Failure" in raised[failure]


def test_a_code_stands_under_the_exception_it_is_raised_with(raised: dict[str, set[str]]) -> None:
    for code, said in explanations().items():
        assert said.kind in (*KINDS, "Finding"), code
        seen = raised[code] & set(KINDS)
        assert not seen or said.kind in seen or said.kind in ("RefusedError", "WaitingError"), (
            code,
            seen,
        )


def test_each_code_has_one_nature_and_no_other_is_listed() -> None:
    listed = [code for codes in errors._table()["nature"].values() for code in codes]
    assert len(set(listed)) == len(listed) and set(listed) <= set(explanations())
    assert {said.nature for said in explanations().values()} == set(errors.NATURES)
    # Whoever refuses or waits for a person is not asked again by itself.
    for said in explanations().values():
        assert said.nature != "passes" or said.kind not in ("RefusedError", "WaitingError")


def test_words_say_what_it_is_and_what_to_do() -> None:
    for code, said in explanations().items():
        assert re.search(r"[.:;,] .*\.$", said.words), code
        assert 20 <= len(said.words) <= 300, code


def test_help_prints_the_words_the_status_and_the_page() -> None:
    done = RUNNER.invoke(build("doctor"), ["doctor", "measure-nan"])
    assert done.exit_code == 0
    printed = " ".join(done.output.split())
    assert explain("measure-nan").words in printed
    assert re.search(r"exit status 3\b", printed)
    assert "reference/errors/measure-nan.html" in printed


def test_an_unknown_code_is_told_the_nearest() -> None:
    with pytest.raises(InputError, match="measure-nan") as caught:
        explain("measure-nam")
    assert caught.value.code == "code-unknown"
