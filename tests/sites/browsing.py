"""A browser without a browser, for pages that this process serves."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode, urlsplit

from silot.sites.page import Page


@dataclass
class Browser:
    """What a browser does, without one."""

    console: Page
    cookie: str = ""
    answers: list[Any] = field(default_factory=list)

    @property
    def base(self) -> str:
        return urlsplit(self.console.url).path.split("/enter")[0]

    def send(self, method: str, path: str, form: Any = None, **headers: str | None) -> Any:
        sent: dict[str, str | None] = {"Host": self.console.host, "Cookie": self.cookie or None}
        body = None
        if form is not None:
            body = form if isinstance(form, bytes) else urlencode(form).encode()
            sent |= {"Origin": f"http://{self.console.host}", "Content-Length": str(len(body)),
                     "Content-Type": "application/x-www-form-urlencoded"}  # fmt: skip
        sent |= {name.capitalize(): value for name, value in headers.items()}
        host, port = self.console.host.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=300)
        connection.putrequest(method, path, skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        told = {name.lower(): value for name, value in answer.getheaders()}
        answered = SimpleNamespace(status=answer.status, text=text, headers=told)
        self.answers.append(answered)
        return answered

    def get(self, path: str = "/", **headers: str | None) -> Any:
        return self.send("GET", self.base + path, **headers)

    def post(self, path: str, **form: str) -> Any:
        return self.send("POST", self.base + path, form)

    def enter(self) -> Any:
        link = urlsplit(self.console.url).path.rsplit("/", 1)[1]
        answer = self.post("/enter", link=link)
        self.cookie = answer.headers.get("set-cookie", "").split(";")[0]
        return answer

    def token(self, path: str = "/pause") -> str:
        found = re.search(r'name="token" value="([^"]+)"', self.get(path).text)
        assert found is not None
        return found[1]


@contextmanager
def serving(page: Page) -> Iterator[Browser]:
    """Serve a page until the end, and check what every answer must say, whatever it was."""
    servers: list[Any] = []
    thread = threading.Thread(target=lambda: page.serve(started=servers.append))
    thread.start()
    browser = Browser(page)
    try:
        # Answered once it runs.
        assert browser.send("GET", "/").status == 404
        yield browser
    finally:
        servers[0].should_exit = True
        thread.join(30)
    assert not thread.is_alive()
    for answer in browser.answers:
        if answer.text == "Invalid HTTP request received.":
            assert answer.status == 400
            continue
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        if policy.startswith("sandbox"):
            assert "same-origin" not in policy and "form-action 'none'" in policy
        else:
            assert "script" not in policy and "form-action 'self'" in policy
            assert "<script" not in answer.text
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
