"""Sending files, with and without the system's own call."""

import os
import runpy
import socket
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_zk.base.operating_system import sockets
from kafka_zk.base.operating_system.sockets import unacknowledged_bytes

CONTENT = bytes(range(256)) * 4_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "records"
    path.write_bytes(CONTENT)
    return path


def _without(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> dict[str, object]:
    monkeypatch.delattr(module, name)
    return runpy.run_path(sockets.__file__)


@pytest.mark.parametrize("send_file", [os.sendfile, sockets._copy_file])
def test_a_part_of_a_file_is_sent_until_the_socket_is_full(
    send_file: Callable[[int, int, int, int], int], file: Path
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, file.open("rb") as source:
        ours.setblocking(False)
        sent = 0
        with pytest.raises(BlockingIOError):
            while sent < len(CONTENT):
                sent += send_file(ours.fileno(), source.fileno(), 100 + sent, 500_000 - sent)
        assert theirs.recv(sent, socket.MSG_WAITALL) == CONTENT[100 : 100 + sent]
        assert send_file(ours.fileno(), source.fileno(), len(CONTENT), 100) == 0
        assert send_file(ours.fileno(), source.fileno(), len(CONTENT) - 7, 100) == 7


def test_the_copy_is_used_where_sendfile_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sockets.send_file is os.sendfile
    found = _without(monkeypatch, os, "sendfile")
    assert found["send_file"] is found["_copy_file"]


def test_no_flag_is_set_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sockets.MORE_FOLLOWS == socket.MSG_MORE
    assert _without(monkeypatch, socket, "MSG_MORE")["MORE_FOLLOWS"] == 0


def test_bytes_that_a_peer_has_not_acknowledged_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        ours.setblocking(False)
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                sent += ours.send(CONTENT)
        assert 0 < unacknowledged_bytes(ours) < sent
        found = _without(monkeypatch, termios, "TIOCOUTQ")
        count = found["unacknowledged_bytes"]
        assert callable(count) and count(ours) == 0
    assert unacknowledged_bytes(ours) == 0
