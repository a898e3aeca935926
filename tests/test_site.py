"""The site's reference has all that the package declares; nothing of it is by hand."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

import silot
from reference import pages as made
from reference.links import broken
from reference.notebooks import described, led
from silot._version import RELEASE
from silot.cli.app import build
from silot.data.reading import Schema
from silot.data.site import Site
from silot.errors import ExtraError, explanations
from silot.federation import Policy
from silot.options import declared

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return made.pages()


def test_every_public_name_has_its_place(pages: dict[str, str]) -> None:
    shown = {name for text in pages.values() for name in re.findall(r"^::: (\S+)$", text, re.M)}
    assert {f"silot.{name}" for name in made.public("silot")} <= shown
    packages = set(made.modules())
    named = {"transport", "torch", "estimators", "privacy", "distances", "federation", "records"}
    assert {f"silot.{name}" for name in named} <= packages
    for package in packages:
        home = made.FACES.get(package, package)
        assert {f"{home}.{name}" for name in made.public(package)} <= shown
    for name in set(silot.__all__) - set(made.public("silot")):
        # Modules among public names are packages with pages.
        assert f"silot.{name}" in packages


def test_every_object_that_is_shown_exists(pages: dict[str, str]) -> None:
    for text in pages.values():
        for name in re.findall(r"^::: (\S+)$", text, re.M):
            module, _, attribute = name.rpartition(".")
            try:
                assert hasattr(importlib.import_module(module), attribute), name
            except ExtraError:
                assert attribute in importlib.import_module(module).__all__


def test_names_of_pages_differ_by_more_than_case(pages: dict[str, str]) -> None:
    assert len({place.lower() for place in pages}) == len(pages)


def test_every_command_flag_and_default_is_there(pages: dict[str, str]) -> None:
    def walk(command: object, name: str, text: str) -> None:
        assert re.search(rf"^#+ {re.escape(name)}$", text, re.M), name
        part = re.split(rf"^#+ {re.escape(name)}$", text, flags=re.M)[1]
        for item in command.params:  # type: ignore[attr-defined]
            for flag in (*item.opts, *item.secondary_opts):
                if flag.startswith("-") and not getattr(item, "hidden", False):
                    assert f"`{flag}`" in part, (name, flag)
                    words = (item.help or "").split("|")[0][:40].strip()
                    assert made.cell(words) in text, (name, flag)
        for word, child in getattr(command, "commands", {}).items():
            walk(child, f"{name} {word}", text)

    root = typer.main.get_command(build())
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        walk(command, f"silot {name}", pages[f"reference/commands/{name}.md"])
        assert f"({name}.md)" in pages["reference/commands/index.md"]


def test_every_method_and_its_options_are_there(pages: dict[str, str]) -> None:
    text = pages["reference/methods.md"]
    for name, method in silot.api.METHODS.items():
        assert f"\n## {name}\n" in text
        part = text.split(f"\n## {name}\n")[1]
        assert made.cell(method.sends) in part
        for item in declared(method):
            assert f"| `{item.name}` |" in part


def test_every_field_of_files_is_there(pages: dict[str, str]) -> None:
    for model, page in ((Policy, "policy"), (Schema, "schema"), (Site, "schema")):
        text = pages[f"reference/{page}.md"]
        part = text.split(f"## {model.__name__}\n")[1].split("\n## ")[0]
        for field in model.model_fields:
            assert f"| `{field}` |" in part
    policy = pages["reference/policy.md"].split("## Addresses")[0]
    rows = re.findall(r"^\| `.*$", policy, re.M)
    # Each says what it is for.
    assert all(row.split(" | ")[2].strip() for row in rows)


def test_every_code_has_a_page(pages: dict[str, str]) -> None:
    for code, said in explanations().items():
        assert said.page.replace(".html", ".md") in pages
        cure = said.words.split(". ", 1)[-1]
        assert cure in pages[f"reference/errors/{code}.md"]
        assert f"({code}.md)" in pages["reference/errors/index.md"]


def test_links_of_made_pages_lead_somewhere(pages: dict[str, str]) -> None:
    for place, text in pages.items():
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
            if not target.startswith("http"):
                path = (ROOT / "docs" / place).parent / target
                inside = path.resolve().relative_to(ROOT / "docs").as_posix()
                assert inside in pages or path.resolve().exists(), (place, target)


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = yaml.safe_load(text)["nav"]
    words = str(listed)
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name in words, path.name


def test_the_site_asks_nothing_of_the_network() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert settings["theme"]["font"] is False and settings["strict"] is True
    assert "offline" in settings["plugins"]
    assert all("iframe-worker" in each for each in settings["extra"]["polyfills"])


def test_links_of_notebooks_lead_to_pages() -> None:
    def address(place: str) -> str:
        return place.rpartition(".")[0] + ".html"

    text = '<a href="../value.md#a">1</a><a href="02_b.py">2</a><a href="https://a.b/c.md">3</a>'
    assert re.findall(r'href="([^"]+)"', led(text, address)) == [
        "../value.html#a",
        "02_b.html",
        "https://a.b/c.md",
    ]


def test_every_picture_of_a_notebook_is_described_and_by_its_own_text() -> None:
    picture = '<img alt="No description has been provided for this image" src="a"/>'
    source = '# %% alt="a < b"\nplt.show()\n# %%\n# %% alt="second"\n'
    shown = described(picture + "<p>between</p>" + picture, source)
    assert re.findall(r'alt="([^"]+)"', shown) == ["a &lt; b", "second"]
    for wrong in (picture, picture * 3):
        with pytest.raises(ValueError, match="2 alt texts"):
            described(wrong, source)


def test_links_of_a_built_site_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="a/b.html#c">b</a> <a href="https://example.org">far</a>'
        '<a class="x" href=a/none.html>none</a> <img src="data:image/png;base64,AA">'
    )
    (tmp_path / "a" / "b.html").write_text(
        '<a href="../index.html?q=1">up</a><script src="https://example.org/x.js"></script>'
    )
    assert broken(tmp_path) == [
        "a/b.html loads https://example.org/x.js", "index.html: a/none.html",
    ]  # fmt: skip


def test_versions_are_one() -> None:
    transport = ROOT / "packages" / "silot-transport" / "pyproject.toml"
    version = tomllib.loads(transport.read_text())["project"]["version"]
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert version == RELEASE and f"silot-transport=={version}" in needs
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heading is not None and heading[1] == version


def test_the_conda_recipe_needs_what_the_packages_need() -> None:
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == RELEASE
    folders = {"silot": ROOT, "silot-transport": ROOT / "packages" / "silot-transport"}
    for output in recipe["outputs"]:
        project = tomllib.loads(
            (folders[output["package"]["name"]] / "pyproject.toml").read_text()
        )["project"]
        needs = {f"python{project['requires-python']}", *project["dependencies"]}
        run = {line.replace(" ", "") for line in output["requirements"]["run"]}
        # Its name is another there.
        named = {line.replace("msgpack-python", "msgpack") for line in run}
        assert named == {line.replace(f"=={RELEASE}", "==${{version}}") for line in needs}


def test_a_release_is_checked_before_it_is_published() -> None:
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = flow["jobs"]
    said = " ".join(step.get("run", "") for step in jobs["check"]["steps"])
    assert "twine check --strict" in said and "check-wheel-contents" in said
    assert jobs["publish"]["needs"] == "check" and set(jobs["check"]["needs"]) == {
        "sdist", "wheels",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_beside_the_docs_lead_to_files(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / name).read_text()):
        assert target.startswith("http") or (ROOT / target).exists(), (name, target)
