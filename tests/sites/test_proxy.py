"""Checks of the server from where a proxy is the only way out."""

import socket
import threading
from collections.abc import Iterator

import pytest

from silot.sites.checks import _open_line


@pytest.fixture
def greeting() -> Iterator[int]:
    """A server that says one byte to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                line.sendall(b"!")
                line.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.fixture
def proxy(greeting: int) -> Iterator[tuple[int, list[str]]]:
    """A proxy that connects whoever asks for it to the server, and notes what was asked."""
    requests: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                head = b""
                while b"\r\n\r\n" not in head:
                    head += line.recv(4096)
                requests.append(head.decode())
                if b"forbidden" in head:
                    line.sendall(b"HTTP/1.1 403 no\r\n\r\n")
                else:
                    line.sendall(b"HTTP/1.1 200 ok\r\n\r\n")
                    # As in TLS, the client speaks first.
                    line.recv(1)
                    line.sendall(b"!")
                line.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], requests


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_the_proxy_of_the_environment_is_used_as_the_engine_does(
    proxy: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, requests = proxy
    monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{port}")
    with _open_line("server.hospital.example", 8102) as line:
        line.sendall(b"?")
        assert line.recv(1) == b"!"
    assert requests[0].startswith("CONNECT server.hospital.example:8102 HTTP/1.")
    assert "Proxy-Authorization: Basic bWU6cEBzcw==" in requests[0]
    with pytest.raises(OSError, match="403"):
        _open_line("forbidden.example", 8102)


def test_an_address_of_ipv6_has_its_brackets_once(
    proxy: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, requests = proxy
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    _open_line("2001:db8::5", 8102).close()
    assert requests[0].startswith("CONNECT [2001:db8::5]:8102 HTTP/1.")


def test_hosts_past_the_proxy_are_reached_without_it(
    greeting: int, proxy: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, requests = proxy
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    with _open_line("127.0.0.1", greeting) as line:
        assert line.recv(1) == b"!"
    assert requests == []
