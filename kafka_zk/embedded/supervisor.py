"""Closes the ZooKeeper sessions of dead child processes, so that the cluster need not wait for their expiry.

A process is certainly dead when it has been reaped and its session pipe is at end of file: then neither its threads nor
its helpers can act again. Only then is its last reported session closed. A paused or disconnected process is not dead,
so its session must expire.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Self

from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.close_session import close_session
from kafka_zk.registry.client.security_keys import zookeeper_security
from kafka_zk.registry.client.session_pipe import VARIABLE, ReportedSession, described, last_session
from kafka_zk.registry.client.tls import client_context

CHUNK_BYTES = 4096

Close = Callable[[int, bytes], object]
"""Called with a session's id and password; takes at most a second."""


class Supervisor:
    def __init__(self, close: Close) -> None:
        self._close = close

    @classmethod
    def on(cls, zookeeper_connect: str, properties: Mapping[str, str]) -> Self:
        """``properties``: a broker's, for TLS.

        Raises: InvalidConnectString, InvalidSecurity.
        """
        tls = zookeeper_security(properties).tls
        context = client_context(tls) if tls else None
        return cls(partial(close_session, connect_string.parse(zookeeper_connect).servers, tls=context))

    def new_life(self) -> "Life":
        """Prepare one start of a process. Raises OSError without free descriptors."""
        return Life(self._close)


class Life:
    """A process's pipe, from before the start until the end."""

    def __init__(self, close: Close) -> None:
        self._close = close
        self._read_end, self.descriptor = os.pipe()  # neither is inherited by default
        self.environ = {VARIABLE: described(self.descriptor)}

    def begin(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for the process's end on a thread."""
        threading.Thread(target=self._wait, args=(process,), name=f"session of {process.pid}", daemon=True).start()
        os.close(self.descriptor)

    def abandon(self) -> None:
        """Clean up when nothing was started."""
        os.close(self.descriptor)
        os.close(self._read_end)

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        told = self._read_to_the_end()
        process.wait()
        session = session_to_close(told, process.pid)
        if session is not None:
            self._close(session.session_id, session.password)

    def _read_to_the_end(self) -> bytes:
        """Return the last lines; a process can report any number of sessions."""
        told = b""
        with open(self._read_end, "rb", buffering=0) as pipe:
            while chunk := pipe.read(CHUNK_BYTES):
                told = (told + chunk)[-CHUNK_BYTES:]
        return told


def session_to_close(told: bytes, reaped_pid: int) -> ReportedSession | None:
    """The last session, if the reaped process itself reported it: the death of a wrapper proves nothing."""
    session = last_session(told)
    return session if session is not None and session.pid == reaped_pid else None
