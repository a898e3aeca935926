"""A site's page: what was asked and disclosed, what is left, and decisions on questions that wait.

It is for a browser on the machine of the site alone, and works on the ledger that the site uses:
what is decided here holds for the running site at once. No data file is opened.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from ..errors import ExtraError, FileError, InputError, SilotError
from ..privacy.ledger import Allowed, Waiting
from ..render import Heading, Paragraph
from ..render.html import environment, fragment
from .descriptions import describe_level, describe_question
from .kit import Kit
from .overview import SiteReader, describe_waiting, format_time

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
COOKIE = "silot"

_LONGEST_FORM = 4096
_SPANS = {"once": None, "hour": timedelta(hours=1), "day": timedelta(days=1)}
_STATUS = {"approval-unknown": 404, "approval-expired": 409, "approval-decided": 409,
           "form-choice": 400}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a page lets a person do: one button, after a choice if there is one."""

    target: str
    secret: tuple[str, str]
    button: str
    value: str = ""
    legend: str = ""
    choices: tuple[tuple[str, tuple[str, str]], ...] = ()


@dataclass(frozen=True, kw_only=True)
class View:
    """A page."""

    title: str
    state: str = ""
    cards: list[dict[str, str]] | None = None
    approvals: list[dict[str, str]] | None = None
    content: Markup | str = ""
    form: Form | None = None
    links: tuple[tuple[str, str], ...] = ()
    refresh: bool = False
    status: int = 200


DECIDED = {
    "waiting": "It waits for your decision. Nothing was told.",
    "approved": "It was approved. When it is asked again, it is answered as far as the rules "
    "allow.",
    "denied": "It was denied, for good. Nothing was told.",
    "expired": "It lapsed, because nobody decided in time. Nothing was told. Asked again, it waits "
    "again.",
}
PAUSED = "Paused: nothing is told to anybody."
BACK = (("", "Back to all questions"),)

CLOSED = View(
    title="This page is closed",
    content=Markup("<p>The link was used before, or is not the one of this page. Start the command "
                   "again where the site runs: it prints a new link.</p>"),
    status=403,
)  # fmt: skip
STALE = View(
    title="Nothing was changed",
    content=Markup("<p>The form was not one of this page as it is now open. Go back, open the "
                   "question anew and decide again.</p>"),
    links=BACK, status=403,
)  # fmt: skip
MISSING = View(
    title="There is no such page", content=Markup("<p>Nothing was changed.</p>"), status=404
)
FAILED = View(
    title="This page failed",
    content=Markup("<p>The terminal in which the command runs says more.</p>"),
    status=500,
)


class Console:
    """The page of a site, as an ASGI application that answers one browser.

    Whoever has the link that ``url`` gives can open the page once: a cookie then identifies the
    browser. Every form has a token of its session, and must come from the page itself. Requests
    that are addressed to another host, or come from another origin, get nothing.

    Parameters
    ----------
    kit
        Of the site, which has joined.
    port
        On ``127.0.0.1``; 0 for any that is free.

    Raises
    ------
    FileError
        The site did not join yet (``kit-format``), or the port is another's (``port-taken``).
    ExtraError
        ``extra-console``: Starlette or Uvicorn is not installed.
    """

    def __init__(self, kit: Kit, *, port: int = 0) -> None:
        self._kit, self._reader = kit, SiteReader(kit)
        # Browsers send a cookie to every port of a host: the path keeps ours from other programs.
        self._base = f"/{secrets.token_hex(8)}"
        self._link, self._session, self._token = secrets.token_urlsafe(32), "", ""
        self._entering = threading.Lock()
        self._app = self._build_routes()
        self._socket = _bind(port)
        self.host = f"{HOST}:{self._socket.getsockname()[1]}"

    @property
    def url(self) -> str:
        """Where the page is opened, once."""
        return f"http://{self.host}{self._base}/enter/{self._link}"

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

    def close(self) -> None:
        """Release the port and the ledger."""
        self._socket.close()
        self._reader.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, with headers that every answer has."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = _security_headers(_read_style())
                names = {name for name, _ in headers}
                others = [h for h in message.get("headers", []) if h[0].lower() not in names]
                message = {**message, "headers": [*others, *headers]}
            await send(message)

        if self._is_own(scope):
            await self._app(scope, receive, send_guarded)
        else:
            from starlette.responses import PlainTextResponse

            refusal = PlainTextResponse("Open the page by its own link.", status_code=421)
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
        pages = {
            "/": self._show_overview,
            "/question/{id}": self._show_question,
            "/approval/{id}": self._show_approval,
            "/pause": self._show_pause,
        }
        actions = {
            "/question/{id}": self._decide,
            "/approval/{id}": self._end_approval,
            "/pause": self._pause,
        }
        base = self._base
        routes = [
            Route(f"{base}/enter/{{link}}", self._show_door, methods=["GET"]),
            Route(f"{base}/enter", self._enter, methods=["POST"]),
            *(Route(base + path, self._reading(view), methods=["GET"])
              for path, view in pages.items()),
            *(Route(base + path, self._writing(act), methods=["POST"])
              for path, act in actions.items()),
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
        form = Form(target="enter", secret=("link", self._link), button="Open the page")
        return self._respond(View(title=f"The page of {self._kit.name}", form=form))

    async def _enter(self, request: Request) -> Response:
        form = await _read_form(request)
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

    def _reading(self, view: Callable[[Request], View]) -> Callable[[Request], Response]:
        """Show a page to whoever has the cookie."""

        def answer(request: Request) -> Response:
            if not self._has_session(request):
                return self._respond(CLOSED)
            return self._respond(self._try(lambda: view(request)))

        return answer

    def _writing(
        self, act: Callable[[Request, Mapping[str, str]], str]
    ) -> Callable[[Request], Any]:
        """Do what a form says, for whoever has the cookie and the form; it names the next page."""

        async def answer(request: Request) -> Response:
            from starlette.concurrency import run_in_threadpool

            if not self._has_session(request):
                return self._respond(CLOSED)
            form = await _read_form(request)
            if not _is_same(form.get("token", ""), self._token):
                return self._respond(STALE)
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
            if isinstance(error, FileError):
                self._reader.close()
            words = [Paragraph(str(error), "warning")]
            return View(
                title="This cannot be done", content=Markup(fragment(words)), links=BACK,
                status=_STATUS.get(error.code, 503),
            )  # fmt: skip

    def _show_overview(self, request: Request) -> View:
        overview, ledger = self._reader.read(), self._reader.ledger()
        refreshes = request.query_params.get("watch") == "1"
        cards = [
            {"id": item.id, "asker": item.asker, "what": describe_question(item.question),
             "level": describe_level(item.level), "since": format_time(item.since),
             "until": format_time(item.until), "run": item.run}
            for item in overview.undecided
        ]  # fmt: skip
        approvals = [
            {"id": item.id, "asker": item.asker, "level": describe_level(item.level),
             "until": format_time(item.until), "by": item.by}
            for item in ledger.allowed
        ]  # fmt: skip
        blocks = overview.blocks()
        watch = ("", "Stop refreshing") if refreshes else ("?watch=1", "Refresh every minute")
        return View(
            title=f"What {self._kit.name} was asked and told",
            state=PAUSED if ledger.paused else "Not paused: while the site runs, it answers what "
            "its rules allow.",
            cards=cards, approvals=approvals, content=Markup(fragment(blocks)), refresh=refreshes,
            links=(("pause", "Go on" if ledger.paused else "Pause"), watch, *(
                (f"{'?watch=1' if refreshes else ''}#{block.anchor}", block.link)
                for block in blocks if isinstance(block, Heading) and block.link
            )),
        )  # fmt: skip

    def _show_question(self, request: Request) -> View:
        question = self._find_question(request)
        form = self._decision_form(question) if question.state == "waiting" else None
        return View(
            title=f"A question of {question.asker}", state=DECIDED[question.state],
            content=Markup(fragment(describe_waiting(question))), form=form, links=BACK,
        )  # fmt: skip

    def _decision_form(self, question: Waiting) -> Form:
        longer = (
            f"And every other question of level {question.level} of this asker from now on, "
            "without asking you again. You can end that before; what was told by then stays told."
        )
        choices = (
            ("deny", ("Deny this question", "For good. The asker is told that it was denied.")),
            ("once", ("Approve this question", "For good, and no other.")),
            ("hour", ("Approve for 1 hour", longer)),
            ("day", ("Approve for 1 day", longer)),
        )
        return Form(
            target=f"question/{question.id}", secret=("token", self._token),
            legend="Your decision", choices=choices, button="Save the decision",
        )  # fmt: skip

    def _decide(self, request: Request, form: Mapping[str, str]) -> str:
        question = self._find_question(request)
        decision = _read_decision(form, "deny", *_SPANS)
        # A form that is sent twice must not begin the hour anew.
        if question.state == "waiting" or decision not in ("hour", "day"):
            self._reader.ledger().decide(
                question.id, approved=decision != "deny", span=_SPANS.get(decision)
            )
        return f"question/{question.id}"

    def _show_approval(self, request: Request) -> View:
        approval = self._find_approval(request)
        words = (
            "Every question of this asker is answered without asking you, if it is of level "
            f"{describe_level(approval.level)}. Once you end that, such questions wait for a "
            "decision again. What was told by then stays told, and a question that was itself "
            "approved stays approved."
        )
        return View(
            title=f"An approval for {approval.asker}", state=f"It lasts until "
            f"{format_time(approval.until)}. It was given by {approval.by}, "
            f"{format_time(approval.since)}.",
            content=Markup(fragment([Paragraph(words)])), links=BACK,
            form=Form(target=f"approval/{approval.id}", secret=("token", self._token), value="end",
                      button="End it now"),
        )  # fmt: skip

    def _end_approval(self, request: Request, form: Mapping[str, str]) -> str:
        approval = self._find_approval(request)
        _read_decision(form, "end")
        self._reader.ledger().end(approval.id)
        return ""

    def _find_approval(self, request: Request) -> Allowed:
        name = request.path_params["id"]
        approvals = [item for item in self._reader.ledger().allowed if item.id == name]
        if len(approvals) != 1:
            raise InputError("there is no such approval now.", code="approval-unknown")
        return approvals[0]

    def _find_question(self, request: Request) -> Waiting:
        name = request.path_params["id"]
        questions = [item for item in self._reader.ledger().waiting if item.id == name]
        if not re.fullmatch("[0-9a-f]{12}", name) or len(questions) != 1:
            raise InputError("there is no such question.", code="approval-unknown")
        return questions[0]

    def _show_pause(self, request: Request) -> View:
        is_paused = self._reader.ledger().paused
        words = (
            "Questions are answered again, as far as the rules allow." if is_paused
            else "No question is answered any more, whoever asks and whatever was approved, until "
            "somebody here lets the site go on. Askers are told that it is paused."
        )  # fmt: skip
        form = Form(
            target="pause", secret=("token", self._token),
            value="go-on" if is_paused else "pause",
            button="Go on" if is_paused else "Pause the site",
        )  # fmt: skip
        return View(
            title="Go on" if is_paused else "Pause", state=PAUSED if is_paused else "",
            content=Markup(fragment([Paragraph(words)])), form=form, links=BACK,
        )  # fmt: skip

    def _pause(self, request: Request, form: Mapping[str, str]) -> str:
        self._reader.ledger().pause(_read_decision(form, "pause", "go-on") == "pause")
        return ""

    def _respond(self, view: View) -> Response:
        from starlette.responses import HTMLResponse

        page = _load_templates().get_template("console.html.jinja")
        text = page.render(
            view=view, site=self._kit.name, project=self._kit.project.name, base=self._base,
            style=Markup(_read_style()),
        )  # fmt: skip
        return HTMLResponse(text, status_code=view.status)

    def _redirect(self, target: str) -> Response:
        from starlette.responses import RedirectResponse

        return RedirectResponse(f"{self._base}/{target}", status_code=303)


def _read_decision(form: Mapping[str, str], *choices: str) -> str:
    decision = form.get("decision", "")
    if decision not in choices:
        raise InputError("no decision was chosen. Go back and choose one.", code="form-choice")
    return decision


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; none where it is too long, or no form."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST_FORM:
            return {}
    try:
        return dict(parse_qsl(body.decode("ascii"), max_num_fields=10))
    except ValueError:
        return {}


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
        (b"content-security-policy", policy.encode()),
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
        "a site's page needs starlette and uvicorn. Run: pip install 'silot[console]'.",
        code="extra-console",
    )


@cache
def _read_style() -> str:
    """Return the styles of reports, and of forms."""
    own = files("silot.sites").joinpath("console.css").read_text(encoding="utf-8")
    return files("silot.render").joinpath("page.css").read_text(encoding="utf-8") + own


@cache
def _load_templates() -> Environment:
    return environment().overlay(loader=PackageLoader("silot.sites", ""))
