"""The fault proxy: forwards, cuts, freezes, delays."""

import asyncio
import contextlib
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kafka_zk.base.operating_system.tcp_sockets import local_ports
from kafka_zk.embedded.proxy import TcpProxy

pytestmark = pytest.mark.integration


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(4096):
            self.request.sendall(data)


@pytest.fixture
def proxy(make_proxy: Callable[[str, int], TcpProxy]) -> Iterator[TcpProxy]:
    """A proxy in front of an echo server."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield make_proxy("127.0.0.1", server.server_address[1])
        server.shutdown()


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), 5)


def test_bytes_pass_in_both_directions(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"there and back")
        assert client.recv(100) == b"there and back"
        assert proxy.connection_count() == 1


def test_cut_resets_connections_and_refuses_new_ones_until_restored(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        proxy.cut()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
    proxy.restore()
    with connect(proxy) as client:
        client.sendall(b"y")
        assert client.recv(1) == b"y"


def test_a_connection_that_is_being_made_ends_with_the_proxy(
    proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its socket would stay open until the garbage collector warns of it."""
    connecting, stopping, open_connection = threading.Event(), threading.Event(), asyncio.open_connection

    async def open_late(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connecting.set()
        while not stopping.is_set():
            await asyncio.sleep(0)
        return await open_connection(host, port)

    monkeypatch.setattr(asyncio, "open_connection", open_late)
    close_all = proxy._close_all

    async def close_all_and_connect() -> None:
        await close_all()
        stopping.set()

    monkeypatch.setattr(proxy, "_close_all", close_all_and_connect)
    with connect(proxy) as client:
        assert connecting.wait(5)
        proxy.stop()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_frozen_connection_stays_open_and_flows_again(proxy: TcpProxy) -> None:
    with connect(proxy) as client:
        proxy.freeze()
        client.sendall(b"later")
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.recv(5)
        proxy.restore()
        client.settimeout(5)
        assert client.recv(5) == b"later"


def test_a_delay_holds_both_directions_back(proxy: TcpProxy) -> None:
    proxy.delay_s = 0.03
    with connect(proxy) as client:
        started = time.monotonic()
        client.sendall(b"slow")
        assert client.recv(4) == b"slow"
        assert time.monotonic() - started >= 0.06


def test_the_first_chunk_of_a_connection_can_be_changed(proxy: TcpProxy) -> None:
    proxy.on_first_chunk = bytes.upper
    with connect(proxy) as client:
        for sent, received in ((b"first", b"FIRST"), (b"second", b"second")):
            client.sendall(sent)
            assert client.recv(10) == received


def test_connections_of_one_process_are_reset_and_refused(proxy: TcpProxy) -> None:
    with connect(proxy) as client, connect(proxy) as other:
        for each in (client, other):
            each.sendall(b"x")
            assert each.recv(1) == b"x"
        port = client.getsockname()[1]
        assert {port, other.getsockname()[1]} <= local_ports(os.getpid())
        proxy.drop_connections_from({port})
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        other.sendall(b"y")
        assert other.recv(1) == b"y"
    proxy.refuses = lambda port: port in local_ports(os.getpid())
    with connect(proxy) as client, contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""
