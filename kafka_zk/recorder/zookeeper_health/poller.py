"""Polls the servers of a connection string with four-letter words, all at once and each with a deadline."""

import socket
from collections.abc import Callable, Mapping
from functools import partial
from threading import Event, Thread
from typing import Any, NamedTuple

from kafka_zk.base.clock import monotonic_s, wall_ms
from kafka_zk.recorder.zookeeper_health.answers import NO_ANSWER, WORDS, Reading, is_refusal, parse
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.client import SessionState

DEADLINE_S = 2.0
"""Time limit for one server: to resolve its name, to connect to one of its addresses, and to receive its response."""
_GRACE_S = 0.5
_LATE_S = 2 * DEADLINE_S
"""A round that took longer says nothing about the servers: this process itself was paused or starved."""
_LAST_LOOK_S = 0.05
_MOST_ANSWER_BYTES = 64 * 1024
_NOT_RESOLVED = Reading(NO_ANSWER, "its name is not resolved")

_Addresses = list[tuple[int, int, int, str, Any]]
"""The result of ``socket.getaddrinfo``."""


class Round(NamedTuple):
    """``readings``: by server. ``asked_ms``: wall clock. ``session``: see ``EnsembleHealth.step``."""

    readings: Mapping[str, Reading]
    asked_ms: int
    session: SessionState | None


class _Question:
    """A poll of one server, on a thread that does not keep the process alive."""

    def __init__(self, ask: Callable[[], Reading]) -> None:
        self._ask = ask
        self._done = Event()
        self._reading: Reading | None = None
        Thread(target=self._run, name="zookeeper-health", daemon=True).start()

    def reading(self, wait_s: float) -> Reading | None:
        """The poll's result; None if it takes longer than ``wait_s``."""
        self._done.wait(max(0.0, wait_s))
        return self._reading

    def _run(self) -> None:
        self._reading = self._ask()
        self._done.set()


class HealthPoller:
    """``look`` blocks for little more than DEADLINE_S, and may run on any thread, one call at a time.

    Args:
        zookeeper: a connection string; all its servers are polled.
        session: returns the state of this process's own session; None if it has none.
    """

    def __init__(self, zookeeper: str, session: Callable[[], SessionState | None] = lambda: None) -> None:
        servers = connect_string.parse(zookeeper)
        self._servers = dict(zip(servers.hosts.split(","), servers.servers, strict=True))
        self._session = session
        self._words: dict[str, tuple[str, ...]] = {}  # the word that a server allows, or the last one
        self._asked: dict[str, _Question] = {}

    def look(self) -> Round | None:
        """Poll all servers once; None if the round says nothing about them."""
        asked_ms, began_s = wall_ms(), monotonic_s()
        for name in self._servers.keys() - self._asked.keys():
            self._asked[name] = _Question(partial(self._ask, name))
        end_s = began_s + DEADLINE_S + _GRACE_S
        readings = {name: self._reading(name, end_s - monotonic_s()) for name in self._servers}
        if monotonic_s() - began_s > _LATE_S:
            return None
        return Round(readings, asked_ms, self._session())

    def _reading(self, name: str, wait_s: float) -> Reading:
        found = self._asked[name].reading(wait_s)
        if found is None:  # only a name server can take this long; the next rounds keep waiting for this poll
            return _NOT_RESOLVED
        del self._asked[name]
        return found

    def _ask(self, name: str) -> Reading:
        end_s = monotonic_s() + DEADLINE_S
        words = self._words.get(name, WORDS)
        try:
            addresses: _Addresses = list(socket.getaddrinfo(*self._servers[name], type=socket.SOCK_STREAM))
            if monotonic_s() > end_s:
                return _NOT_RESOLVED
            for word in words:
                began_s = monotonic_s()
                answer = _exchange(word, addresses, end_s)
                if not is_refusal(answer):
                    break
            self._words[name] = (word,)
        except TimeoutError:
            return Reading(NO_ANSWER, f"no response within {DEADLINE_S:g} s")
        except OSError as error:
            self._words.pop(name, None)  # the server may allow other words after its restart
            return Reading(NO_ANSWER, (error.strerror or str(error)).lower())
        except UnicodeError:
            return Reading(NO_ANSWER, "its name is not valid")
        return parse(answer, int((monotonic_s() - began_s) * 1000))


def _exchange(word: str, addresses: _Addresses, end_s: float) -> str:
    """Raises: OSError, TimeoutError."""
    with _connected(addresses, end_s) as connection:
        connection.settimeout(_left_s(end_s))
        connection.sendall(word.encode())
        answer = bytearray()
        while len(answer) < _MOST_ANSWER_BYTES:
            connection.settimeout(_left_s(end_s))
            chunk = connection.recv(_MOST_ANSWER_BYTES)
            if not chunk:
                break
            answer += chunk
        return answer.decode(errors="replace")


def _connected(addresses: _Addresses, end_s: float) -> socket.socket:
    """The first address that accepts; each one gets its share of the time that is left. Raises: OSError."""
    failure = OSError("it has no address")
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        connection = None
        try:
            connection = socket.socket(family, kind, protocol)
            connection.settimeout(_left_s(end_s) / (len(addresses) - index))
            connection.connect(address)
        except OSError as error:
            failure = error
            if connection is not None:
                connection.close()
        else:
            return connection
    raise failure


def _left_s(end_s: float) -> float:
    """Seconds until the deadline. Just after it, a short time for one last read, because a response may have arrived
    while this process was not running. Raises: TimeoutError.
    """
    left_s = end_s - monotonic_s()
    if left_s < -_LAST_LOOK_S:
        raise TimeoutError
    return max(_LAST_LOOK_S, left_s)
