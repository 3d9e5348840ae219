"""Silent sessions, according to ZooKeeper's ``cons`` command, where it is allowed.

An idle client pings its server three times per session timeout. A session is *silent* if the server has received
nothing for half of the timeout. Its client is paused, cut off, or connecting to another server.
Source: ZooKeeper Administrator's Guide 3.9; ServerCnxn.java: dumpConnectionInfo.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafka_zk.embedded.health import NoAnswer, NotAllowed, ask
from kafka_zk.embedded.ports import AnswerTooLong
from kafka_zk.recorder.recording.session_names import signed
from kafka_zk.registry.client import connect_string

WORD = "cons"
HEARD_OF = "heard "
MOST_CONNECTIONS = 1_000
"""Maximum number of connections. Polling stops if there are more, because a poll would cost the server too much."""
HEARD, SILENT = 1, 0
SILENT_SHARE = 0.5
"""A session is silent if the server received nothing for this share of its timeout."""
_FORGOTTEN_MS = 60_000
"""A session that had no connection for this time is forgotten; if it returns, it counts as a new one."""
_CONNECTION = re.compile(r"\brecved=(\d+),.*\bsid=0x([0-9a-f]+),.*\bto=(\d+),")


class SessionConnection(NamedTuple):
    """``session``: as a signed number. ``received``: number of packets received over the connection."""

    session: int
    received: int
    timeout_ms: int


class _Known(NamedTuple):
    """``received``: packet counts of the session's connections; two while the session moves to another server.
    ``listed_ms``: when ZooKeeper last listed a connection of the session. ``said_ms``: when a count last changed, or
    when the session was first seen. ``has_spoken``: a count has changed at least once.
    """

    received: frozenset[int]
    timeout_ms: int
    listed_ms: int
    said_ms: int
    has_spoken: bool


class Heartbeats:
    """``look`` blocks and may run on any thread, ``tell`` runs on the recorder's.

    Args:
        zookeeper: a connection string; all its servers are polled.
    """

    def __init__(self, zookeeper: str) -> None:
        self._servers = connect_string.parse(zookeeper).servers
        self._known: dict[int, _Known] = {}
        self._told: set[str] = set()  # series that had a value in the last call
        self._too_many = False

    def look(self) -> list[SessionConnection] | None:
        """The connections of all servers; None if a server does not respond or does not allow the command."""
        if self._too_many:
            return None
        found: list[SessionConnection] = []
        try:
            for host, port in self._servers:
                found += parse(ask(WORD, port, host))
        except (NotAllowed, NoAnswer):
            return None
        except AnswerTooLong:
            self._too_many = True
            return None
        self._too_many = len(found) > MOST_CONNECTIONS
        return None if self._too_many else found

    def tell(self, connections: list[SessionConnection] | None, now_ms: int) -> Mapping[str, int | None]:
        """The value of each session's series: HEARD, SILENT, or None once when the session is no longer known.

        Args:
            connections: the result of ``look``. None ends all series but keeps the sessions' states.
        """
        states: dict[str, int | None] = {}
        if connections is not None:
            self._compare(connections, now_ms)
            states = {series(session): _state(known, now_ms) for session, known in self._known.items()}
        told: dict[str, int | None] = {**dict.fromkeys(self._told - states.keys()), **states}
        self._told = {name for name, state in states.items() if state is not None}
        return told

    def _compare(self, connections: list[SessionConnection], now_ms: int) -> None:
        by_session: dict[int, list[SessionConnection]] = defaultdict(list)
        for each in connections:
            by_session[each.session].append(each)
        for session, listed in by_session.items():
            received, timeout_ms = frozenset(each.received for each in listed), listed[0].timeout_ms
            before = self._known.get(session)
            has_spoken = before is not None and not received <= before.received
            self._known[session] = _Known(
                received,
                timeout_ms,
                listed_ms=now_ms,
                said_ms=now_ms if before is None or has_spoken else before.said_ms,
                has_spoken=before is not None and (has_spoken or before.has_spoken),
            )
        self._known = {
            session: known for session, known in self._known.items() if now_ms - known.listed_ms < _FORGOTTEN_MS
        }


def series(session: int) -> str:
    """Session ids are written as in the cluster's documents."""
    return f"{HEARD_OF}{session:#x}"


def parse(answer: str) -> Iterator[SessionConnection]:
    """The connections in a response to ``cons``, except those without a session, such as the poller's own."""
    for line in answer.splitlines():
        if found := _CONNECTION.search(line):
            yield SessionConnection(signed(int(found[2], 16)), int(found[1]), int(found[3]))


def _state(known: _Known, now_ms: int) -> int | None:
    if now_ms - known.said_ms > SILENT_SHARE * known.timeout_ms:
        return SILENT
    return HEARD if known.has_spoken else None
