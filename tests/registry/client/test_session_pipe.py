"""How a process reports its sessions to its supervisor, and which reports the supervisor accepts."""

import os
from collections.abc import Callable, Iterator

import pytest

from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.session_pipe import VARIABLE, ReportedSession, SessionPipe, described, last_session

PASSWORD = bytes(range(16))


class Client:
    """The parts of a client that a process reports."""

    def __init__(self) -> None:
        self.session_id: int | None = None
        self.session_password = b""
        self.state = SessionState.LOST
        self._listeners: list[Callable[[SessionState], None]] = []

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def becomes(self, state: SessionState, session_id: int | None) -> None:
        self.state, self.session_id, self.session_password = state, session_id, PASSWORD
        for listener in self._listeners:
            listener(state)


class Ends:
    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)

    def told(self) -> bytes:
        try:
            return os.read(self.read_end, 1 << 20)
        except BlockingIOError:
            return b""


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    for descriptor in (made.read_end, made.write_end):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_each_new_session_is_told_once_with_the_pid_of_who_has_it(ends: Ends) -> None:
    client = Client()
    SessionPipe(ends.write_end).follow(client)
    client.becomes(SessionState.CONNECTED, 7)
    assert last_session(ends.told()) == (os.getpid(), 7, PASSWORD)
    client.becomes(SessionState.SUSPENDED, 7)
    client.becomes(SessionState.CONNECTED, 7)
    assert ends.told() == b"", "the session is the same"
    client.becomes(SessionState.LOST, None)
    client.becomes(SessionState.CONNECTED, -8)
    assert last_session(ends.told()) == (os.getpid(), -8, PASSWORD)


def test_a_client_that_is_connected_already_is_told_of_at_once(ends: Ends) -> None:
    client = Client()
    client.becomes(SessionState.CONNECTED, 7)
    SessionPipe(ends.write_end).follow(client)
    assert last_session(ends.told()) == (os.getpid(), 7, PASSWORD)


def test_a_supervisor_that_does_not_read_or_is_gone_has_no_effect(ends: Ends) -> None:
    client = Client()
    SessionPipe(ends.write_end).follow(client)
    for session_id in range(1, 3000):  # more than the capacity of a pipe
        client.becomes(SessionState.CONNECTED, session_id)
    assert ends.told().count(b"\n") < 2999
    os.close(ends.read_end)
    client.becomes(SessionState.CONNECTED, 1)


@pytest.mark.parametrize(
    "told",
    [b"", b"\n", b"1 0x7 00", b"1 0x7\n", b"1 0x7 0g\n", b"x 0x7 00\n", b"1 session 00\n", b"1 0x7 00 0\n", b"\xff\n"],
)
def test_only_whole_lines_of_ours_are_believed(told: bytes) -> None:
    assert last_session(told) is None


def test_the_last_whole_line_counts() -> None:
    first, last = ReportedSession(1, 7, PASSWORD), ReportedSession(1, -8, PASSWORD)
    assert last_session(first.line() + last.line()) == last
    assert last_session(first.line() + last.line()[:-1]) == first


def test_the_pipe_is_taken_out_of_the_environment_and_not_inherited_further(ends: Ends) -> None:
    os.set_inheritable(ends.write_end, True)
    environ = {VARIABLE: described(ends.write_end), "HOME": "/"}
    pipe = SessionPipe.inherited(environ)
    assert pipe is not None and pipe.descriptor == ends.write_end
    assert environ == {"HOME": "/"}
    assert not os.get_inheritable(ends.write_end)


def test_a_descriptor_that_is_another_file_is_left_alone(ends: Ends) -> None:
    """A process in between may have closed the pipe, so that another file now has its descriptor number."""
    value = described(ends.write_end)
    other_read, other_write = os.pipe()
    os.dup2(other_write, ends.write_end)
    with open(os.devnull, "wb") as file:
        no_pipe = f"{file.fileno()}:{os.fstat(file.fileno()).st_ino}"
        for text in (value, no_pipe, "", "7", "a:b", "99999:1", f"{1 << 70}:1"):
            assert SessionPipe.inherited({VARIABLE: text}) is None
    assert os.get_blocking(other_write)
    os.close(other_read)
    os.close(other_write)
