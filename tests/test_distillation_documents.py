"""Commands and snippets on distillation, as README and docs/distillation.md have them."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
SECTION = "## One model from many"
# Numbers of a trained model differ from one processor to another.
NEAR = 0.03


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("distilling")


def run(folder: Path, command: str) -> str:
    words = command.split()
    start = [sys.executable, *words[1:]]
    if words[0] == "silot":
        start = [sys.executable, "-c", "from silot.cli import main; main()", *words[1:]]
    done = subprocess.run(
        start, cwd=folder, capture_output=True, text=True,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PATH": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def same(told: str, printed: str) -> None:
    """Words alike, numbers near, seconds whatever they are."""
    parts = [re.sub(r"[0-9.]+ s\s*$", "SECONDS\n", text, flags=re.MULTILINE)
             for text in (told, printed)]  # fmt: skip
    assert all("SECONDS" in text for text in parts)
    number = r"\d+\.\d+"
    words = [re.sub(number, "N", text).split() for text in parts]
    assert words[0] == words[1]
    for one, other in zip(*(re.findall(number, text) for text in parts), strict=True):
        assert float(one) == pytest.approx(float(other), rel=0.05, abs=NEAR)


@pytest.mark.slow
def test_the_readme_prints_what_its_commands_print(folder: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").split(SECTION)[1].split("\n## ")[0]
    blocks = re.findall(r"```\n(\$ .*?)```", text, re.DOTALL)
    assert len(blocks) == 1
    lines = blocks[0].splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    assert len(commands) == 2
    printed = [run(folder, command) for command in commands][-1]
    same("\n".join(line for line in lines if not line.startswith("$ ")), printed)


@pytest.mark.slow
def test_snippets_of_the_docs_do_what_they_say(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, "python -m examples.distill_data again")
    run(folder, "silot distill again/distill.yml --save model.npz")
    monkeypatch.chdir(folder)
    text = (ROOT / "docs" / "distillation.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        test = doctest.DocTestParser().get_doctest(block, {}, "docs/distillation.md", None, 0)
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0
