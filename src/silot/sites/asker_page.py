"""An asker's page: runs over sites, and a form that starts a comparison of sites."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from markupsafe import Markup

from ..distances.methods import Pairwise, check_method_options, find_method
from ..distances.sketches.release_options import Private
from ..errors import FileError, InputError, MismatchError, SilotError
from ..federation.holder_files import FLAGS, HolderFiles
from ..options import Declared, declared, name_flag, read_texts, write_flags
from ..render import Facts, Paragraph
from ..render.html import fragment
from ..render.words import level_in_words
from .kit import Kit
from .page import Answer, Field, Form, View
from .runs import Run, RunRequest, all_runs, hash_files
from .runs_page import BACK, RunsPage

if TYPE_CHECKING:
    from starlette.requests import Request

# Files of this machine that a comparison may read, by the flags that name them.
_FILES = ("schema", "public")
_SITE = "site-"


class AskerPage(RunsPage):
    """The page of an asker, who need not live in a terminal."""

    first_links: ClassVar = (("compare", "Compare sites"),)

    def __init__(self, kit: Kit, methods: Iterable[type[Pairwise]], *, port: int = 0) -> None:
        """Show an asker's kit; sites are compared by one of these ``methods``."""
        self._methods = tuple(methods)
        super().__init__(kit, port=port)

    def pages(self) -> Mapping[str, Callable[[Request], Answer]]:
        return {**super().pages(), "/compare": self._show_compare}

    def actions(self) -> Mapping[str, Callable[[Request, Mapping[str, str]], str | View]]:
        return {**super().actions(), "/compare": self._compare}

    def _show_compare(self, request: Request) -> View:
        texts = dict(request.query_params)
        if "method" not in texts:
            return self._ask_for_sites(texts)
        try:
            self._read_sites(texts)
            self._find(texts)
        except SilotError as error:
            return self._ask_for_sites(texts, error)
        return self._ask_for_options(texts)

    def _ask_for_sites(self, texts: Mapping[str, str], error: SilotError | None = None) -> View:
        sites = tuple(
            Field(name=f"{_SITE}{name}", label=name, kind="checkbox",
                  value=texts.get(f"{_SITE}{name}", ""))
            for name in self._kit.project.sites
        )  # fmt: skip
        methods = tuple(
            (kind.name, (kind.name, f"Sends {kind.sends}. Needs {kind.needs}. Guarantees: "
                                    f"{kind.guarantees}. Privacy: {kind.privacy}."))
            for kind in self._methods
        )  # fmt: skip
        return View(
            title="Compare sites", content=_warn(error), links=(BACK,),
            status=400 if error else 200,
            form=Form(
                target="compare", method="get", button="Next: options",
                groups=(("Sites, two or more", sites),),
                legend="Method", name="method", choices=methods, chosen=texts.get("method", ""),
            ),
        )  # fmt: skip

    def _ask_for_options(self, texts: Mapping[str, str], error: SilotError | None = None) -> View:
        kind, sites = self._find(texts), self._read_sites(texts)
        options = tuple(
            _field(item, texts) for item in declared(kind) if item.flag
        )  # fmt: skip
        files = _FILES if issubclass(kind, Private) else _FILES[:1]
        data = (
            Field(name="labels", label=FLAGS["labels"], kind="checkbox",
                  value=texts.get("labels", "")),
            *(Field(name=name, label=FLAGS[name], value=texts.get(name, ""),
                    hint=f"--{name}: a file of this machine, by its absolute path.")
              for name in files),
        )  # fmt: skip
        hidden = [
            self.secret, ("run", texts.get("run") or os.urandom(6).hex()),
            ("method", kind.name), *((f"{_SITE}{name}", "yes") for name in sites),
        ]  # fmt: skip
        again = urlencode({f"{_SITE}{name}": "yes" for name in sites})
        what = [
            Facts([("Sites", ", ".join(sites)), ("Method", kind.name), ("Sends", kind.sends),
                   ("Discloses", level_in_words(str(kind.disclosure)))]),
            Paragraph("An empty option has its default value."),
        ]  # fmt: skip
        return View(
            title="Options of the comparison", content=_warn(error) + Markup(fragment(what)),
            links=((f"compare?{again}", "Choose other sites or another method"), BACK),
            status=400 if error else 200,
            form=Form(
                target="compare", hidden=tuple(hidden), button="Start the comparison",
                groups=((f"Options of {kind.name}", options), ("Data", data)),
            ),
        )  # fmt: skip

    def _compare(self, request: Request, form: Mapping[str, str]) -> str | View:
        try:
            words, files = self._read_comparison(form)
        except SilotError as error:
            try:
                return self._ask_for_options(form, error)
            except SilotError:
                return self._ask_for_sites(form, error)
        name = form.get("run", "")
        if not re.fullmatch("[0-9a-f]{12}", name):
            raise InputError("the form is not complete. Open it again.", code="form-choice")
        with self.starting:
            # A form that is sent twice starts one run.
            if not any(run.request.run == name for run in all_runs()):
                computation = "matrix" if words[1] == "matrix" else "distance"
                request_ = RunRequest(
                    run=name, computation=computation, words=tuple(words), folder=Path.cwd(),
                    kit=self._kit.folder, names=self._read_sites(form), files=hash_files(files),
                    began=datetime.now(UTC),
                )  # fmt: skip
                self.workers.start(Run.begin(request_))
        return f"run/{name}?watch=1"

    def _read_comparison(self, form: Mapping[str, str]) -> tuple[list[str], list[Path]]:
        """Return the words of the command that a form stands for, and the files it names.

        Raises what the command would raise of its options.
        """
        sites, kind = self._read_sites(form), self._find(form)
        options = read_texts(kind, form)
        files = {name: Path(text) for name in _FILES if (text := form.get(name))}
        for name, file in files.items():
            if not file.is_absolute():
                raise FileError(
                    f"{name}: {str(file)[:200]} is not an absolute path. Start it at the root of "
                    "this machine.",
                    code="file-missing",
                )
        labels, public = bool(form.get("labels")), files.get("public")
        tables = HolderFiles(schema=files.get("schema"), labels=labels, notify=_notify)
        tables.load_schema()
        check_method_options(kind, options)
        records: dict[str, Any] = (
            {} if public is None else {"public": tables.measure(public, weights=False)}
        )
        kind(**options, **records)
        return [
            "distance", "pair" if len(sites) == 2 else "matrix", *sites,
            f"--sites={self._kit.folder}", f"--method={kind.name}", *write_flags(options | files),
            *(["--labels"] if labels else []),
        ], [*files.values()]  # fmt: skip

    def _find(self, form: Mapping[str, str]) -> type[Pairwise]:
        kind = find_method(form.get("method", ""))
        if kind not in self._methods:
            raise InputError(
                f"method {kind.name!r} compares a site with data of your own, by the command line.",
                code="option-method",
            )
        return kind

    def _read_sites(self, form: Mapping[str, str]) -> tuple[str, ...]:
        chosen = [name.removeprefix(_SITE) for name in form if name.startswith(_SITE)]
        unknown = [name for name in chosen if name not in self._kit.project.sites]
        if unknown:
            raise MismatchError(
                f"the project has no site {unknown[0][:60]!r}.", code="holder-unknown"
            )
        if len(chosen) < 2:
            raise InputError("choose two sites or more.", code="holder-names")
        return tuple(name for name in self._kit.project.sites if name in chosen)


def _field(item: Declared, texts: Mapping[str, str]) -> Field:
    """Return the field of a form for a declared option, as it was filled in before or not."""
    kind, value, hint = item.check.kind, texts.get(item.name, ""), f"--{name_flag(item.name)}"
    empty = Field(name=item.name, label=item.brief.rstrip("."), value=value, hint=hint)
    if kind is bool:
        # A form that was sent has no unchecked boxes.
        is_checked = value or (item.default and "token" not in texts)
        return replace(empty, kind="checkbox", value="yes" if is_checked else "")
    if isinstance(kind, tuple):
        return replace(empty, kind="select", choices=kind, value=value or str(item.default))
    default = "" if item.default is None else f" Default: {item.default}."
    words = item.check.words.removesuffix(", or None")
    words = re.sub("^float", "number", re.sub("^int", "whole number", words))
    return replace(empty, hint=f"{hint}: {words}.{default}")


def _notify(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _warn(error: SilotError | None) -> Markup:
    return Markup("" if error is None else fragment([Paragraph(str(error), "warning")]))
