"""The pipe by which a process reports its ZooKeeper sessions to its supervisor. End of file on the pipe means that the
process is dead.

See docs/decisions/0016-sessions-of-the-dead-are-closed.md.

    KAFKA_ZK_SESSION_PIPE=7:123456        descriptor and inode of the write end, in the child's environment
    4711 0x100018ebc8b0002 5f3c…\\n        pid, session id and password: a line for each new session

Each start of a process has its own pipe, so all lines come from that process or its children.
"""

import contextlib
import os
import stat
from collections.abc import Callable, MutableMapping
from typing import NamedTuple, Protocol, Self

from kafka_zk.registry.client.client import SessionState

VARIABLE = "KAFKA_ZK_SESSION_PIPE"


class ReportedSession(NamedTuple):
    """A session, with the values needed to close it."""

    pid: int
    session_id: int
    password: bytes

    def line(self) -> bytes:
        return f"{self.pid} {self.session_id:#x} {self.password.hex()}\n".encode()


def last_session(lines: bytes) -> ReportedSession | None:
    """The session in the last complete line; None if invalid."""
    whole = lines.split(b"\n")[:-1]
    try:
        pid, session_id, password = whole[-1].decode("ascii").split(" ")
        return ReportedSession(int(pid), int(session_id, 16), bytes.fromhex(password))
    except (IndexError, ValueError):
        return None


def described(descriptor: int) -> str:
    """The variable's value for a child that inherits this descriptor."""
    return f"{descriptor}:{os.fstat(descriptor).st_ino}"


class _Sessions(Protocol):
    """The client's methods that are used to report sessions."""

    @property
    def session_id(self) -> int | None: ...

    @property
    def session_password(self) -> bytes: ...

    @property
    def state(self) -> SessionState: ...

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]: ...


class SessionPipe:
    """The child's end of the pipe. The child survives its supervisor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        """Helpers that write the process's files inherit it, so while they live, the process counts as alive."""
        self._reported_id: int | None = None
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)

    @classmethod
    def inherited(cls, environ: MutableMapping[str, str] = os.environ) -> Self | None:
        """The pipe named by the environment variable, which is removed. None if there is no supervisor.

        A descriptor that is not this pipe is ignored.
        """
        number, _, inode = environ.pop(VARIABLE, "").partition(":")
        with contextlib.suppress(OSError, ValueError, OverflowError):
            status = os.fstat(int(number))
            if stat.S_ISFIFO(status.st_mode) and status.st_ino == int(inode):
                return cls(int(number))
        return None

    def follow(self, client: _Sessions) -> None:
        """Report this client's new sessions, before listeners that are added later are called."""

        def changed(state: SessionState) -> None:
            session_id = client.session_id
            if state is SessionState.CONNECTED and session_id is not None and session_id != self._reported_id:
                self._reported_id = session_id
                self._send(ReportedSession(os.getpid(), session_id, client.session_password))

        client.add_session_listener(changed)
        changed(client.state)

    def _send(self, session: ReportedSession) -> None:
        """Write a line, which is short enough to be atomic. It is lost if the supervisor is dead or does not read."""
        with contextlib.suppress(OSError):
            os.write(self.descriptor, session.line())
