"""Who listens on a port."""

import os
import socket
import subprocess
import sys
from contextlib import closing

from kafka_zk.embedded.ports import LOCALHOST, listens


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
