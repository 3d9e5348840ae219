"""The ports of a process, found with /proc and with lsof."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kafka_zk.base.operating_system import tcp_sockets
from kafka_zk.base.operating_system.tcp_sockets import TcpSocket, listens, local_ports

LOCALHOST = "127.0.0.1"


def test_who_listens_on_a_port() -> None:
    for address in (LOCALHOST, "::"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with closing(socket.create_server((address, 0), family=family)) as server:
            port = server.getsockname()[1]
            assert listens(os.getpid(), port)
            assert not listens(os.getppid(), port)
        assert not listens(os.getpid(), port)


def test_whoever_is_connected_does_not_listen() -> None:
    with closing(socket.create_server((LOCALHOST, 0))) as server, socket.create_connection(server.getsockname()) as one:
        assert not listens(os.getpid(), one.getsockname()[1])


def test_a_process_that_has_ended_does_not_listen() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert not listens(process.pid, 2181)


def test_both_ends_of_a_connection_have_local_ports() -> None:
    with closing(socket.create_server((LOCALHOST, 0))) as server, socket.create_connection(server.getsockname()) as one:
        assert {server.getsockname()[1], one.getsockname()[1]} <= local_ports(os.getpid())
    assert local_ports(2**22 + 1) == set()


def test_without_proc_lsof_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The lines are those of lsof 4.95 for an IPv4 and an IPv6 server, a connection, and an unbound socket."""
    fields = [
        "p4751", "n127.0.0.1:41707", "TST=LISTEN", "TQR=1", "n[::1]:45751", "TST=LISTEN", "n*:*", "TST=CLOSED",
        "n127.0.0.1:56740->127.0.0.1:41707", "TST=ESTABLISHED", "TQS=0",
    ]  # fmt: skip
    program = tmp_path / "lsof"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{field}'\n" for field in fields))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(tcp_sockets, "_TABLE", tmp_path / "none")
    assert tcp_sockets.tcp_sockets(4751) == [TcpSocket(41707, True), TcpSocket(45751, True), TcpSocket(56740, False)]
    assert listens(4751, 45751) and not listens(4751, 56740)
    assert local_ports(4751) == {41707, 45751, 56740}


def test_without_proc_and_lsof_the_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tcp_sockets, "_TABLE", tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="lsof"):
        local_ports(os.getpid())
