"""Pages for one browser on this machine: who may open them, their forms and their layout.

A page is served on the loopback of the machine alone. It loads nothing from elsewhere and runs no
script.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from ..errors import ExtraError, FileError, InputError, SilotError
from ..render import Paragraph, Text
from ..render.html import environment, fragment
from .kit import Kit

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
COOKIE = "silot"

_POLICY = b"content-security-policy"


@dataclass(frozen=True, kw_only=True)
class Field:
    """What a person writes or chooses in a form."""

    name: str
    label: str
    kind: Literal["text", "checkbox", "select"] = "text"
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a page lets a person do: one button, after fields and a choice if there are any.

    A choice is of ``choices``, each a value with its words in bold and in plain letters; ``name``
    is what the form calls it, and ``chosen`` the value that is chosen before.
    """

    target: str
    button: str
    hidden: tuple[tuple[str, str], ...] = ()
    groups: tuple[tuple[str, tuple[Field, ...]], ...] = ()
    name: str = "decision"
    value: str = ""
    legend: str = ""
    choices: tuple[tuple[str, tuple[str, str]], ...] = ()
    chosen: str = ""
    method: Literal["get", "post"] = "post"


@dataclass(frozen=True, kw_only=True)
class Card:
    """A thing that a person may look at, or decide on."""

    id: str
    title: Text
    lines: tuple[Text, ...]
    button: str
    target: str


@dataclass(frozen=True, kw_only=True)
class Cards:
    """Cards below a heading, or the words that there are none."""

    anchor: str
    title: str
    cards: tuple[Card, ...]
    empty: str = "None."


@dataclass(frozen=True, kw_only=True)
class View:
    """What a page shows; ``refresh`` are the seconds after which a browser reads it again.

    Lines of ``text`` are shown as a terminal has them.
    """

    title: str
    state: str = ""
    waiting: int = 0
    sections: tuple[Cards, ...] = ()
    content: Markup | str = ""
    text: str = ""
    form: Form | None = None
    links: tuple[tuple[str, str], ...] = ()
    refresh: int = 0
    status: int = 200


Answer: TypeAlias = "View | Response"

CLOSED = View(
    title="This page is closed",
    content=Markup("<p>The link was already used, or does not belong to this page. Start the "
                   "command again: it prints a new link.</p>"),
    status=403,
)  # fmt: skip
STALE = View(
    title="Nothing was changed",
    content=Markup("<p>The form does not belong to the page that is open now. Go back, open the "
                   "form again and send it.</p>"),
    status=403,
)  # fmt: skip
MISSING = View(
    title="There is no such page", content=Markup("<p>Nothing was changed.</p>"), status=404
)
FAILED = View(
    title="This page failed",
    content=Markup("<p>The terminal in which the command runs says more.</p>"),
    status=500,
)


class Page(ABC):
    """A page of a member of a project, as an ASGI application that answers one browser.

    Whoever has the link that ``url`` gives can open the page once: a cookie then identifies the
    browser. Every form has a token of its session, and must come from the page itself. Requests
    that are addressed to another host, or come from another origin, get nothing.

    Parameters
    ----------
    kit
        Of the member.
    port
        On ``127.0.0.1``; 0 for any that is free.

    Raises
    ------
    FileError
        The port is another's (``port-taken``).
    ExtraError
        ``extra-console``: Starlette or Uvicorn is not installed.
    """

    back: ClassVar[str]
    """Words of the link to the first page."""
    statuses: ClassVar[Mapping[str, int]]
    """Status of the answer to a request that fails with a code; 503 for others."""
    longest_form: ClassVar[int] = 4096
    most_fields: ClassVar[int] = 10

    def __init__(self, kit: Kit, *, port: int = 0) -> None:
        self._kit = kit
        # Browsers send a cookie to every port of a host: the path keeps ours from other programs.
        self._base = f"/{secrets.token_hex(8)}"
        self._link, self._session, self._token = secrets.token_urlsafe(32), "", ""
        self._entering = threading.Lock()
        self._app = self._build_routes()
        self._socket = _bind(port)
        self.host = f"{HOST}:{self._socket.getsockname()[1]}"

    @abstractmethod
    def pages(self) -> Mapping[str, Callable[[Request], Answer]]:
        """Return what shows a page, by its path."""

    @abstractmethod
    def actions(self) -> Mapping[str, Callable[[Request, Mapping[str, str]], str | View]]:
        """Return by path what does as a form says, and returns the next page or its path."""

    def close(self) -> None:
        """Release the port."""
        self._socket.close()

    def recover(self, error: SilotError) -> None:  # noqa: B027 - most pages hold nothing open
        """Do what must be done after a request failed."""

    @property
    def url(self) -> str:
        """Where the page is opened, once."""
        return f"http://{self.host}{self._base}/enter/{self._link}"

    @property
    def secret(self) -> tuple[str, str]:
        """What a form of the session must hold."""
        return "token", self._token

    def serve(self, *, started: Callable[[Any], None] = lambda _: None) -> None:
        """Answer until the process is interrupted.

        Parameters
        ----------
        started
            Called with the server before it runs: ``should_exit`` ends it.
        """
        uvicorn = _import_uvicorn()
        config = uvicorn.Config(
            self, http="h11", ws="none", lifespan="off", log_level="error", access_log=False,
            server_header=False, proxy_headers=False,
        )  # fmt: skip
        server = uvicorn.Server(config)
        started(server)
        try:
            server.run(sockets=[self._socket])
        finally:
            self.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, with headers that every answer has."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower(), value) for name, value in message.get("headers", [])]
                headers = dict(_security_headers(_read_style()))
                # A report of a run has a policy of its own.
                kept = [(name, value) for name, value in own if name == _POLICY]
                others = [(name, value) for name, value in own if name not in headers]
                guards = [*(headers | dict(kept)).items()]
                message = {**message, "headers": [*others, *guards]}
            await send(message)

        if self._is_own(scope):
            await self._app(scope, receive, send_guarded)
        else:
            from starlette.responses import PlainTextResponse

            refusal = PlainTextResponse("Open the page with its own link.", status_code=421)
            await refusal(scope, receive, send_guarded)

    def _is_own(self, scope: Any) -> bool:
        """Return whether a request is for this page and, if it may change something, from it."""
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        origins = [value for name, value in headers if name == b"origin"]
        if hosts != [self.host.encode()]:
            return False
        own = [f"http://{self.host}".encode()]
        return origins == own or (not origins and scope["method"] in ("GET", "HEAD"))

    def _build_routes(self) -> Starlette:
        try:
            from starlette.applications import Starlette
            from starlette.routing import Route
        except ModuleNotFoundError:
            raise _missing_extra() from None
        _import_uvicorn()
        base = self._base
        routes = [
            Route(f"{base}/enter/{{link}}", self._show_door, methods=["GET"]),
            Route(f"{base}/enter", self._enter, methods=["POST"]),
            *(Route(base + path, self._reading(view), methods=["GET"])
              for path, view in self.pages().items()),
            *(Route(base + path, self._writing(act), methods=["POST"])
              for path, act in self.actions().items()),
        ]  # fmt: skip

        def show_missing(request: Request, error: Exception) -> Response:
            return self._respond(MISSING)

        def show_failed(request: Request, error: Exception) -> Response:
            return self._respond(FAILED)

        handlers: Any = {404: show_missing, 405: show_missing, Exception: show_failed}
        return Starlette(routes=routes, exception_handlers=handlers)

    def _show_door(self, request: Request) -> Response:
        """Show a button: following the link must not open the page, since programs do that too."""
        if not self._link or not _is_same(request.path_params["link"], self._link):
            return self._respond(CLOSED)
        form = Form(target="enter", hidden=(("link", self._link),), button="Open the page")
        return self._respond(View(title=f"The page of {self._kit.name}", form=form))

    async def _enter(self, request: Request) -> Response:
        form = await self._read_form(request)
        with self._entering:
            if not self._link or not _is_same(form.get("link", ""), self._link):
                return self._respond(CLOSED)
            self._link, self._session = "", secrets.token_urlsafe(32)
            self._token = secrets.token_urlsafe(32)
        response = self._redirect("")
        response.set_cookie(
            COOKIE, self._session, path=f"{self._base}/", httponly=True, samesite="strict"
        )
        return response

    def _reading(self, view: Callable[[Request], Answer]) -> Callable[[Request], Response]:
        """Show a page to whoever has the cookie."""

        def answer(request: Request) -> Response:
            if not self._has_session(request):
                return self._respond(CLOSED)
            shown = self._try(lambda: view(request))
            return self._respond(shown) if isinstance(shown, View) else shown

        return answer

    def _writing(
        self, act: Callable[[Request, Mapping[str, str]], str | View]
    ) -> Callable[[Request], Any]:
        """Do what a form says, for whoever has the cookie and the form; it names the next page."""

        async def answer(request: Request) -> Response:
            from starlette.concurrency import run_in_threadpool

            if not self._has_session(request):
                return self._respond(CLOSED)
            form = await self._read_form(request)
            if not _is_same(form.get("token", ""), self._token):
                return self._respond(replace(STALE, links=(("", self.back),)))
            target = await run_in_threadpool(self._try, lambda: act(request, form))
            return self._respond(target) if isinstance(target, View) else self._redirect(target)

        return answer

    def _has_session(self, request: Request) -> bool:
        return bool(self._session) and _is_same(request.cookies.get(COOKIE, ""), self._session)

    def _try(self, act: Callable[[], Any]) -> Any:
        """Return what an action returns, or a page that says why it failed."""
        try:
            return act()
        except SilotError as error:
            self.recover(error)
            words = [Paragraph(str(error), "warning")]
            return View(
                title="This cannot be done", content=Markup(fragment(words)),
                links=(("", self.back),), status=self.statuses.get(error.code, 503),
            )  # fmt: skip

    async def _read_form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form; none where it is too long, or no form."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > self.longest_form:
                return {}
        try:
            return dict(parse_qsl(body.decode("ascii"), max_num_fields=self.most_fields))
        except ValueError:
            return {}

    def _respond(self, view: View) -> Response:
        from starlette.responses import HTMLResponse

        text = _load_templates().get_template("page.html.jinja").render(
            view=view, member=f"{self._kit.role}".capitalize(), name=self._kit.name,
            project=self._kit.project.name, base=self._base, style=Markup(_read_style()),
        )  # fmt: skip
        return HTMLResponse(text, status_code=view.status)

    def _redirect(self, target: str) -> Response:
        from starlette.responses import RedirectResponse

        return RedirectResponse(f"{self._base}/{target}", status_code=303)


def read_decision(form: Mapping[str, str], *choices: str) -> str:
    """Return what was chosen, or raise an ``InputError`` (``form-choice``)."""
    decision = form.get("decision", "")
    if decision not in choices:
        raise InputError("no decision was selected. Go back and select one.", code="form-choice")
    return decision


def _is_same(one: str, other: str) -> bool:
    """Compare two secrets, in a time that does not depend on where they differ."""
    return secrets.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _security_headers(style: str) -> tuple[tuple[bytes, bytes], ...]:
    """Forbid the browser scripts, frames, copies, and whatever comes from elsewhere."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    return (
        (_POLICY, policy.encode()),
        (b"cache-control", b"no-store"),
        # Not no-referrer: browsers would then send forms without their origin, which is checked.
        (b"referrer-policy", b"same-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    )


def _bind(port: int) -> socket.socket:
    """Return a socket of this machine alone; 0 takes any port that is free.

    Raises a ``FileError`` if another process has the port (``port-taken``).
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        # From now on, so that a browser that comes before the server runs waits for it.
        listener.listen()
    except (OSError, OverflowError):
        listener.close()
        raise FileError(
            f"port {port} of this machine is taken, or not free to use. Give another with --port, "
            "or none.",
            code="port-taken",
        ) from None
    return listener


def _import_uvicorn() -> Any:
    """Import the server's package, or say which extra to install."""
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise _missing_extra() from None
    return uvicorn


def _missing_extra() -> ExtraError:
    return ExtraError(
        "a page for a browser needs starlette and uvicorn. Run: pip install 'silot[console]'.",
        code="extra-console",
    )


@cache
def _read_style() -> str:
    """Return the styles of reports, and of forms."""
    own = files("silot.sites").joinpath("page.css").read_text(encoding="utf-8")
    return files("silot.render").joinpath("page.css").read_text(encoding="utf-8") + own


@cache
def _load_templates() -> Environment:
    return environment().overlay(loader=PackageLoader("silot.sites", ""))
