"""Documents from a web server: one of a bounded size, and only from the requested address."""

import socket
import ssl
import threading
import urllib.error
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import Request

import pytest

from kafka_zk.security.https import MAX_RESPONSE_BYTES, fetch
from kafka_zk.security.tls_settings import TlsSettings
from tests.secure_broker import Files, make_files, server_context

Serve = Callable[..., str]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        size = {"/whole": MAX_RESPONSE_BYTES, "/more": MAX_RESPONSE_BYTES + 1}.get(self.path, 0)
        self.send_response(302 if self.path == "/away" else 200)
        self.send_header("Location", "/whole")
        self.end_headers()
        self.wfile.write(b"x" * size)

    def log_message(self, format: str, *arguments: object) -> None:
        return None


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers = []

    def start(context: ssl.SSLContext | None = None) -> str:
        server = HTTPServer(("127.0.0.1", 0), _Handler)
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_document_has_a_bounded_size_and_is_not_elsewhere(serve: Serve) -> None:
    url = serve()
    assert len(fetch(Request(f"{url}/whole"), TlsSettings())) == MAX_RESPONSE_BYTES
    with pytest.raises(ValueError, match="more than"):
        fetch(Request(f"{url}/more"), TlsSettings())
    with pytest.raises(urllib.error.HTTPError):
        fetch(Request(f"{url}/away"), TlsSettings())


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", b"SSH-2.0-x\r\n"]
)
def test_an_answer_that_is_not_whole_is_none(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_once() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(10_000)
                peer.sendall(answer)

        threading.Thread(target=serve_once, daemon=True).start()
        with pytest.raises(OSError, match="not whole"):
            fetch(Request(f"http://127.0.0.1:{server.getsockname()[1]}"), TlsSettings())


def test_the_servers_certificate_is_checked(serve: Serve, tmp_path: Path) -> None:
    files: Files = make_files(tmp_path)
    url = serve(server_context(files))
    assert fetch(Request(f"{url}/"), TlsSettings(files.authority.read_text())) == b""
    for authorities in (files.other_authority.read_text(), None):
        with pytest.raises(OSError):
            fetch(Request(f"{url}/"), TlsSettings(authorities))
