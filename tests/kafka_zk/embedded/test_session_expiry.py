"""Ending a session whose owner reconnects, against a simulated server."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kafka_zk.embedded.session_expiry import SessionUnknown, expire_session

SESSION_ID = 0x1234
LOST, CLOSED, UNKNOWN = "lost", "closed", "unknown"
SILENT, SILENT_THEN = "silent", "silent when it is to close"


class Server:
    """A server that handles each connection as the script says; the last entry repeats."""

    def __init__(self, *script: str) -> None:
        self._script = list(script)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            what = self._script.pop(0) if len(self._script) > 1 else self._script[0]
            self.connections += 1
            with connection:
                connection.recv(1024)
                if what == SILENT:
                    connection.recv(1024)
                    continue
                granted_id = 0 if what == UNKNOWN else SESSION_ID
                connection.sendall(struct.pack(">iiiq", 16, 0, 10_000, granted_id))
                if what in (CLOSED, SILENT_THEN):
                    connection.recv(1024)
                if what == SILENT_THEN:
                    connection.recv(1024)  # until the client gives up
                if what == CLOSED:
                    connection.sendall(struct.pack(">i", 0))

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    made = Server(*request.param)
    yield made
    made.close()


@pytest.mark.parametrize("server", [(LOST, LOST, CLOSED)], indirect=True)
def test_it_is_taken_again_until_it_is_closed(server: Server) -> None:
    expire_session("127.0.0.1", server.port, SESSION_ID)
    assert server.connections == 3


@pytest.mark.parametrize("server", [(LOST, UNKNOWN)], indirect=True)
def test_a_lost_answer_is_no_failure(server: Server) -> None:
    expire_session("127.0.0.1", server.port, SESSION_ID)


@pytest.mark.parametrize("server", [(UNKNOWN,), (LOST,)], indirect=True)
def test_a_session_that_cannot_be_ended_is_told(server: Server) -> None:
    with pytest.raises(SessionUnknown):
        expire_session("127.0.0.1", server.port, SESSION_ID, timeout_s=0.2)


@pytest.mark.parametrize("server", [(SILENT_THEN, UNKNOWN), (SILENT, CLOSED)], indirect=True)
def test_silence_of_zookeeper_is_no_failure_as_long_as_there_is_time(server: Server) -> None:
    """The server may be silent while another client closes the session."""
    expire_session("127.0.0.1", server.port, SESSION_ID, timeout_s=1)


@pytest.mark.parametrize("server", [(SILENT,)], indirect=True)
def test_lasting_silence_is_told(server: Server) -> None:
    with pytest.raises(TimeoutError, match=rf"ZooKeeper at 127.0.0.1:{server.port} did not respond about a session"):
        expire_session("127.0.0.1", server.port, SESSION_ID, timeout_s=0.2)
