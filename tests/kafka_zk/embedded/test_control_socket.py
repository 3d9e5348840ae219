"""The socket of a running ``up``."""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded import control_socket
from kafka_zk.embedded.control_socket import ActionRefused, ControlSocket, NotReached
from kafka_zk.embedded.errors import EmbeddedError

_TIMEOUT_S = 30


class Served:
    """A control socket with a thread that serves it until ``close``."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.control = ControlSocket(data, folder)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            self.control.serve(0.02, _answer)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self.control.close()


def _answer(request: dict[str, Any]) -> Mapping[str, Any]:
    if "why" in request:
        raise EmbeddedError(request["why"])
    return {"echo": request}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def served(tmp_path: Path, folder: Path) -> Iterator[Served]:
    served = Served(tmp_path, folder)
    yield served
    served.close()


def test_a_request_is_answered_and_a_refusal_says_why(served: Served, tmp_path: Path, folder: Path) -> None:
    [path] = control_socket.sockets(folder)
    assert control_socket.socket_of(tmp_path) == path
    assert control_socket.ask(path, {"action": "x"}) == {"echo": {"action": "x"}}
    with pytest.raises(ActionRefused, match="broker 2 is dead"):
        control_socket.ask(path, {"why": "broker 2 is dead"})


@pytest.mark.parametrize("request_bytes", [b"", b"nonsense", b"[1]", b"\xff\xfe", b"[" * 10_000])
def test_what_is_no_request_is_refused_and_the_next_one_is_answered(
    served: Served, folder: Path, request_bytes: bytes
) -> None:
    [path] = control_socket.sockets(folder)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        connection.connect(str(path))
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        assert b"invalid request" in connection.recv(10_000)
    assert control_socket.ask(path, {}) == {"echo": {}}


def test_whoever_goes_away_without_reading_disturbs_nobody(served: Served, folder: Path) -> None:
    [path] = control_socket.sockets(folder)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
    assert control_socket.ask(path, {}) == {"echo": {}}


def test_a_process_with_many_open_files_answers(tmp_path: Path, folder: Path) -> None:
    """``select`` does not support file descriptors above 1,023."""
    with ExitStack() as held:
        for _ in range(1100):
            held.enter_context((tmp_path / "file").open("w"))
        held.enter_context(closing(Served(tmp_path, folder)))
        assert max(int(number) for number in os.listdir("/proc/self/fd")) > 1024
        assert control_socket.ask(control_socket.socket_of(tmp_path), {}) == {"echo": {}}


def test_nothing_is_left_behind(tmp_path: Path, folder: Path) -> None:
    Served(tmp_path, folder).close()
    assert not folder.exists()
    with pytest.raises(NotReached, match="no kafka-zk up cluster is running in"):
        control_socket.socket_of(tmp_path)


def test_a_socket_of_one_that_was_killed_is_not_reached(folder: Path) -> None:
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "1.sock"))
    with pytest.raises(NotReached):
        control_socket.ask(folder / "1.sock", {})


def test_sockets_of_the_dead_are_removed_by_the_next_one(tmp_path: Path, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    dead = folder / f"{2**22 + 1}.sock"
    dead.touch()
    Served(tmp_path, folder).close()
    assert not dead.exists()


def test_only_this_user_can_enter_the_folder(tmp_path: Path, folder: Path) -> None:
    served = Served(tmp_path, folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    served.close()
    folder.mkdir()
    os.chmod(folder, 0o777)
    with pytest.raises(OSError, match="that only you can access"):
        ControlSocket(tmp_path, folder)
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(OSError, match="that only you can access"):
        ControlSocket(tmp_path, folder)
