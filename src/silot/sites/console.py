"""A site's page: what was asked and told, what is left, and decisions on questions that wait.

It is for a browser on the machine of the site alone, and works on the ledger that the site uses:
what is decided here holds there at once. No data file is opened.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ..errors import FileError, InputError, SilotError
from ..privacy.ledger import Allowed, Waiting
from ..render import Heading, Paragraph
from ..render.html import fragment
from .joined import LOG, Joined
from .kit import OWN, Kit
from .loopback import HOST, absent, bound, headers, load, plain, read_form, same
from .pages import (
    BACK,
    CLOSED,
    DECIDED,
    FAILED,
    MISSING,
    PAUSED,
    STALE,
    Form,
    View,
    about,
    render,
    style,
)
from .standing import Books, moment
from .words import asked_for, level_words

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

COOKIE = "silot"

_SPANS = {"once": None, "hour": timedelta(hours=1), "day": timedelta(days=1)}
_STATUS = {"approval-unknown": 404, "approval-expired": 409, "approval-decided": 409,
           "form-choice": 400}  # fmt: skip


class Console:
    """The page of a site, as an ASGI application that answers one browser.

    Whoever has the link that ``url`` gives can open the page once: it is then known by a cookie.
    Every form has a token of its session, and must come from the page itself. What is addressed
    to another host, or comes from another origin, gets nothing.

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
        self._kit, self._joined = kit, Joined.load(kit)
        self._books = Books(self._joined, kit.folder / OWN / LOG)
        # Cookies are sent to every port of a host: the path keeps them from those of others.
        self._base = f"/{secrets.token_hex(8)}"
        self._link, self._session, self._token = secrets.token_urlsafe(32), "", ""
        self._entering = threading.Lock()
        self._app = self._routes()
        self._socket = bound(port)
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
            Is given the server before it runs: ``should_exit`` ends it.
        """
        uvicorn = load()
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
        """Give the port and the ledger back."""
        self._socket.close()
        self._books.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, with headers that every answer has."""
        if scope["type"] != "http":
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                said = headers(style())
                own = {name for name, _ in said}
                kept = [item for item in message.get("headers", []) if item[0].lower() not in own]
                message = {**message, "headers": [*kept, *said]}
            await send(message)

        app = self._app if self._is_own(scope) else plain(421, "Open the page by its own link.")
        await app(scope, receive, guarded)

    def _is_own(self, scope: Any) -> bool:
        """Whether a request is for this page and, where it may change something, from it."""
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        origins = [value for name, value in headers if name == b"origin"]
        if hosts != [self.host.encode()]:
            return False
        own = [f"http://{self.host}".encode()]
        return origins == own or (not origins and scope["method"] in ("GET", "HEAD"))

    def _routes(self) -> Starlette:
        try:
            from starlette.applications import Starlette
            from starlette.routing import Route
        except ModuleNotFoundError:
            raise absent() from None
        load()
        base = self._base
        routes = [
            Route(f"{base}/enter/{{link}}", self._door, methods=["GET"]),
            Route(f"{base}/enter", self._enter, methods=["POST"]),
            Route(f"{base}/", self._reading(self._overview), methods=["GET"]),
            Route(f"{base}/question/{{id}}", self._reading(self._question), methods=["GET"]),
            Route(f"{base}/question/{{id}}", self._writing(self._decide), methods=["POST"]),
            Route(f"{base}/approval/{{id}}", self._reading(self._approval), methods=["GET"]),
            Route(f"{base}/approval/{{id}}", self._writing(self._end), methods=["POST"]),
            Route(f"{base}/pause", self._reading(self._pausing), methods=["GET"]),
            Route(f"{base}/pause", self._writing(self._pause), methods=["POST"]),
        ]

        def missing(request: Request, error: Exception) -> Response:
            return self._page(MISSING)

        def failed(request: Request, error: Exception) -> Response:
            return self._page(FAILED)

        return Starlette(routes=routes, exception_handlers={404: missing, 405: missing,
                                                            Exception: failed})  # fmt: skip

    def _door(self, request: Request) -> Response:
        """Nothing happens by following a link: programs follow those too."""
        if not self._link or not same(request.path_params["link"], self._link):
            return self._page(CLOSED)
        form = Form(target="enter", secret=("link", self._link), button="Open the page")
        return self._page(View(title=f"The page of {self._kit.name}", form=form))

    async def _enter(self, request: Request) -> Response:
        form = await read_form(request)
        with self._entering:
            if not self._link or not same(form.get("link", ""), self._link):
                return self._page(CLOSED)
            self._link, self._session = "", secrets.token_urlsafe(32)
            self._token = secrets.token_urlsafe(32)
        response = self._to("")
        response.set_cookie(
            COOKIE, self._session, path=f"{self._base}/", httponly=True, samesite="strict"
        )
        return response

    def _reading(self, view: Callable[[Request], View]) -> Callable[[Request], Response]:
        """A page for whoever has the cookie."""

        def answer(request: Request) -> Response:
            return self._page(self._checked(view, request) if self._known(request) else CLOSED)

        return answer

    def _writing(
        self, act: Callable[[Request, Mapping[str, str]], str]
    ) -> Callable[[Request], Any]:
        """What a form does, for whoever has the cookie and the form; it names the next page."""

        async def answer(request: Request) -> Response:
            from starlette.concurrency import run_in_threadpool

            if not self._known(request):
                return self._page(CLOSED)
            form = await read_form(request)
            if not same(form.get("token", ""), self._token):
                return self._page(STALE)

            def acted(request: Request) -> str:
                return act(request, form)

            done = await run_in_threadpool(self._checked, acted, request)
            return self._page(done) if isinstance(done, View) else self._to(done)

        return answer

    def _known(self, request: Request) -> bool:
        return bool(self._session) and same(request.cookies.get(COOKIE, ""), self._session)

    def _checked(self, act: Callable[[Request], Any], request: Request) -> Any:
        """What an action returns, or a page that says why it failed."""
        try:
            return act(request)
        except SilotError as error:
            if isinstance(error, FileError):
                self._books.close()
            words = [Paragraph(str(error), "warning")]
            return View(
                title="This cannot be done", content=Markup(fragment(words)), links=BACK,
                status=_STATUS.get(error.code, 503),
            )  # fmt: skip

    def _overview(self, request: Request) -> View:
        standing, paused = self._books.standing(), self._books.ledger().paused
        refresh = request.query_params.get("watch") == "1"
        cards = [
            {"id": each.id, "asker": each.asker, "what": asked_for(each.question),
             "level": level_words(each.level), "since": moment(each.since),
             "until": moment(each.until), "run": each.run}
            for each in standing.undecided
        ]  # fmt: skip
        approvals = [
            {"id": each.id, "asker": each.asker, "level": level_words(each.level),
             "until": moment(each.until), "by": each.by}
            for each in self._books.ledger().allowed
        ]  # fmt: skip
        blocks = standing.blocks()
        watch = ("", "Stop refreshing") if refresh else ("?watch=1", "Refresh every minute")
        return View(
            title=f"What {self._kit.name} was asked and told",
            state=PAUSED if paused else "Not paused: while the site runs, it answers what its "
            "rules allow.",
            cards=cards, approvals=approvals, content=Markup(fragment(blocks)), refresh=refresh,
            links=(("pause", "Go on" if paused else "Pause"), watch, *(
                (f"{'?watch=1' if refresh else ''}#{each.anchor}", each.link)
                for each in blocks if isinstance(each, Heading) and each.link
            )),
        )  # fmt: skip

    def _question(self, request: Request) -> View:
        asked = self._asked(request)
        form = self._deciding(asked) if asked.state == "waiting" else None
        return View(
            title=f"A question of {asked.asker}", state=DECIDED[asked.state],
            content=Markup(fragment(about(asked))), form=form, links=BACK,
        )  # fmt: skip

    def _deciding(self, asked: Waiting) -> Form:
        longer = (
            f"And every other question of level {asked.level} of this asker from now on, without "
            "asking you again. You can end that before; what was told by then stays told."
        )
        choices = (
            ("deny", ("Deny this question", "For good. The asker is told that it was denied.")),
            ("once", ("Approve this question", "For good, and no other.")),
            ("hour", ("Approve for 1 hour", longer)),
            ("day", ("Approve for 1 day", longer)),
        )
        return Form(
            target=f"question/{asked.id}", secret=("token", self._token),
            legend="Your decision", choices=choices, button="Save the decision",
        )  # fmt: skip

    def _decide(self, request: Request, form: Mapping[str, str]) -> str:
        asked, decision = self._asked(request), form.get("decision", "")
        if decision != "deny" and decision not in _SPANS:
            raise InputError("no decision was chosen. Go back and choose one.", code="form-choice")
        if asked.state != "waiting" and decision in ("hour", "day"):
            # Sent twice, a form must not begin the hour anew.
            return f"question/{asked.id}"
        self._books.ledger().decide(
            asked.id, approved=decision != "deny", span=_SPANS.get(decision)
        )
        return f"question/{asked.id}"

    def _approval(self, request: Request) -> View:
        allowed = self._allowed(request)
        words = (
            "Every question of this asker is answered without asking you, if it is of level "
            f"{level_words(allowed.level)}. Once you end that, such questions wait for a decision "
            "again. What was told by then stays told, and a question that was itself approved "
            "stays approved."
        )
        return View(
            title=f"An approval for {allowed.asker}", state=f"It lasts until "
            f"{moment(allowed.until)}. It was given by {allowed.by}, {moment(allowed.since)}.",
            content=Markup(fragment([Paragraph(words)])), links=BACK,
            form=Form(target=f"approval/{allowed.id}", secret=("token", self._token), value="end",
                      button="End it now"),
        )  # fmt: skip

    def _end(self, request: Request, form: Mapping[str, str]) -> str:
        allowed = self._allowed(request)
        if form.get("decision") != "end":
            raise InputError("no decision was chosen. Go back and choose one.", code="form-choice")
        self._books.ledger().end(allowed.id)
        return ""

    def _allowed(self, request: Request) -> Allowed:
        name = request.path_params["id"]
        named = [each for each in self._books.ledger().allowed if each.id == name]
        if len(named) != 1:
            raise InputError("there is no such approval now.", code="approval-unknown")
        return named[0]

    def _pausing(self, request: Request) -> View:
        paused = self._books.ledger().paused
        words = (
            "Questions are answered again, as far as the rules allow." if paused
            else "No question is answered any more, whoever asks and whatever was approved, until "
            "somebody here lets the site go on. Askers are told that it is paused."
        )  # fmt: skip
        form = Form(
            target="pause", secret=("token", self._token), value="go-on" if paused else "pause",
            button="Go on" if paused else "Pause the site",
        )  # fmt: skip
        return View(
            title="Go on" if paused else "Pause", state=PAUSED if paused else "",
            content=Markup(fragment([Paragraph(words)])), form=form, links=BACK,
        )  # fmt: skip

    def _pause(self, request: Request, form: Mapping[str, str]) -> str:
        wanted = form.get("decision", "")
        if wanted not in ("pause", "go-on"):
            raise InputError("no decision was chosen. Go back and choose one.", code="form-choice")
        self._books.ledger().pause(wanted == "pause")
        return ""

    def _asked(self, request: Request) -> Waiting:
        name = request.path_params["id"]
        named = [each for each in self._books.ledger().waiting if each.id == name]
        if not re.fullmatch("[0-9a-f]{12}", name) or len(named) != 1:
            raise InputError("there is no such question.", code="approval-unknown")
        return named[0]

    def _page(self, view: View) -> Response:
        from starlette.responses import HTMLResponse

        text = render(view, site=self._kit.name, project=self._kit.project.name, base=self._base)
        return HTMLResponse(text, status_code=view.status)

    def _to(self, target: str) -> Response:
        from starlette.responses import RedirectResponse

        return RedirectResponse(f"{self._base}/{target}", status_code=303)


__all__ = ["Console"]
