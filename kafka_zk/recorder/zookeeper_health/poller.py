"""Polls the servers of a connection string with four-letter words, all at once and each with a deadline."""

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from kafka_zk.base.clock import monotonic_s, wall_ms
from kafka_zk.recorder.zookeeper_health.answers import NO_ANSWER, WORDS, Reading, is_refusal, parse
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.client import SessionState

DEADLINE_S = 2.0
"""For one server's response, from the connection on."""
_GRACE_S = 0.5
_LATE_S = 2 * DEADLINE_S
"""A round that took longer says nothing of the servers: this process itself was paused, or starved."""
_LAST_LOOK_S = 0.05
_MOST_ANSWER_BYTES = 64 * 1024


class Round(NamedTuple):
    """``readings``: by server. ``asked_ms``: wall clock. ``session``: see ``EnsembleHealth.step``."""

    readings: Mapping[str, Reading]
    asked_ms: int
    session: SessionState | None


class HealthPoller:
    """``look`` blocks, at most DEADLINE_S and a little, and may run on any thread, one call at a time.

    Args:
        zookeeper: a connection string; all its servers are polled.
        session: the state of a session of our own; None without one.
    """

    def __init__(self, zookeeper: str, session: Callable[[], SessionState | None] = lambda: None) -> None:
        self._servers = {f"{host}:{port}": (host, port) for host, port in connect_string.parse(zookeeper).servers}
        self._session = session
        self._words: dict[str, tuple[str, ...]] = {}  # the word that a server allows, or the last one
        self._threads = ThreadPoolExecutor(len(self._servers), "zookeeper-health")
        self._asked: dict[str, Future[Reading]] = {}

    def look(self) -> Round | None:
        """One round; None if it says nothing."""
        asked_ms, began_s = wall_ms(), monotonic_s()
        for name in self._servers.keys() - self._asked.keys():
            self._asked[name] = self._threads.submit(self._ask, name)
        wait(self._asked.values(), DEADLINE_S + _GRACE_S)
        readings = {name: self._reading(name) for name in self._servers}
        if monotonic_s() - began_s > _LATE_S:
            return None
        return Round(readings, asked_ms, self._session())

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _reading(self, name: str) -> Reading:
        if not self._asked[name].done():  # only a name server can take so long; the next rounds wait for it, too
            return Reading(NO_ANSWER, "its name is not resolved")
        return self._asked.pop(name).result()

    def _ask(self, name: str) -> Reading:
        address, end_s = self._servers[name], monotonic_s() + DEADLINE_S
        words = self._words.get(name, WORDS)
        try:
            for word in words:
                began_s = monotonic_s()
                answer = _exchange(word, address, end_s)
                if not is_refusal(answer):
                    break
            self._words[name] = (word,)
        except TimeoutError:
            return Reading(NO_ANSWER, f"no response within {DEADLINE_S:g} s")
        except OSError as error:
            self._words.pop(name, None)  # it may allow other words after its restart
            return Reading(NO_ANSWER, (error.strerror or str(error)).lower())
        return parse(answer, int((monotonic_s() - began_s) * 1000))


def _exchange(word: str, address: tuple[str, int], end_s: float) -> str:
    """Raises: OSError, TimeoutError."""
    with socket.create_connection(address, _left_s(end_s)) as connection:
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


def _left_s(end_s: float) -> float:
    """At the deadline itself there is one last look, because a response may have arrived while we were not running."""
    left_s = end_s - monotonic_s()
    if left_s < -_LAST_LOOK_S:
        raise TimeoutError
    return max(_LAST_LOOK_S, left_s)
