"""The pipe on which a process tells its supervisor of its ZooKeeper sessions, and whose end says that it is dead.

See docs/decisions/0016-sessions-of-the-dead-are-closed.md.

    KAFKA_ZK_SESSION_PIPE=7:123456        the descriptor and the inode of the write end, in the child's environment
    4711 0x100018ebc8b0002 5f3c…\\n        its pid, the session's id and password: a line for each new session

The supervisor makes a pipe for each start of a process, so what it reads is told by that process or by one that it has
started. Tests: tests/registry/client/test_session_pipe.py.
"""

import contextlib
import os
import stat
from collections.abc import Callable, MutableMapping
from typing import NamedTuple, Protocol, Self

from kafka_zk.registry.client.client import SessionState

VARIABLE = "KAFKA_ZK_SESSION_PIPE"


class ToldSession(NamedTuple):
    """Whose session it is, and what closes it."""

    pid: int
    session_id: int
    password: bytes

    def line(self) -> bytes:
        return f"{self.pid} {self.session_id:#x} {self.password.hex()}\n".encode()


def last_told(lines: bytes) -> ToldSession | None:
    """The session of the last whole line; None if there is none, or it is not one of ours."""
    whole = lines.split(b"\n")[:-1]
    try:
        pid, session_id, password = whole[-1].decode("ascii").split(" ")
        return ToldSession(int(pid), int(session_id, 16), bytes.fromhex(password))
    except (IndexError, ValueError):
        return None


def described(descriptor: int) -> str:
    """The variable's value for a child that inherits this descriptor."""
    return f"{descriptor}:{os.fstat(descriptor).st_ino}"


class _Sessions(Protocol):
    """What of a client is told."""

    @property
    def session_id(self) -> int | None: ...

    @property
    def session_password(self) -> bytes: ...

    @property
    def state(self) -> SessionState: ...

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]: ...


class SessionPipe:
    """The child's end. Whatever becomes of the supervisor, the child goes on."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        """Helpers that write what the process is responsible for inherit it: while they live, it is not dead."""
        self._told_id: int | None = None
        os.set_inheritable(descriptor, False)
        os.set_blocking(descriptor, False)

    @classmethod
    def inherited(cls, environ: MutableMapping[str, str] = os.environ) -> Self | None:
        """The pipe that the environment names, which is taken out of it; None without a supervisor.

        A descriptor that is not that pipe, since somebody in between closed it, is left alone.
        """
        number, _, inode = environ.pop(VARIABLE, "").partition(":")
        with contextlib.suppress(OSError, ValueError, OverflowError):
            status = os.fstat(int(number))
            if stat.S_ISFIFO(status.st_mode) and status.st_ino == int(inode):
                return cls(int(number))
        return None

    def follow(self, client: _Sessions) -> None:
        """Tell of every new session of this client, before anybody who listens after us hears of it."""

        def changed(state: SessionState) -> None:
            session_id = client.session_id
            if state is SessionState.CONNECTED and session_id is not None and session_id != self._told_id:
                self._told_id = session_id
                self._tell(ToldSession(os.getpid(), session_id, client.session_password))

        client.add_session_listener(changed)
        changed(client.state)

    def _tell(self, session: ToldSession) -> None:
        """Short lines are written whole or not at all. A supervisor that is gone, or does not read, closes nothing."""
        with contextlib.suppress(OSError):
            os.write(self.descriptor, session.line())
