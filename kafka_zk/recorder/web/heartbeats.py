"""Which sessions ZooKeeper has heard of lately, where it allows to be asked (``cons``): what the page's hearts beat by.

A client that has nothing to say pings its server three times in a session's timeout. One that the server has heard
nothing of for half of the timeout is *silent*: it stands still, is cut off, or looks for another server.
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
"""What the names of all series begin with."""
MOST_CONNECTIONS = 1_000
"""Where there are more nobody is asked again: that costs the server too much."""
HEARD, SILENT = 1, 0
SILENT_SHARE = 0.5
"""Of a session's timeout."""
_FORGOTTEN_MS = 60_000
"""A session that had no connection for so long is over, or comes as a new one."""
_CONNECTION = re.compile(r"\brecved=(\d+),.*\bsid=0x([0-9a-f]+),.*\bto=(\d+),")


class Connection(NamedTuple):
    """``session``: as a signed number. ``received``: how many packets came over it."""

    session: int
    received: int
    timeout_ms: int


class _Known(NamedTuple):
    """What is known of a session.

    Attributes:
        received: the counts of its connections; it has two while it moves to another server.
        listed_ms: when ZooKeeper had a connection of it last.
        said_ms: since then it has said nothing: when its count changed last, or it was seen for the first time.
        has_spoken: the count has changed.
    """

    received: frozenset[int]
    timeout_ms: int
    listed_ms: int
    said_ms: int
    has_spoken: bool


class Heartbeats:
    """Asks and compares with the time before. ``look`` blocks and may run in any thread, ``tell`` in the recorder's.

    Args:
        zookeeper: a connection string; all its servers are asked.
    """

    def __init__(self, zookeeper: str) -> None:
        self._servers = connect_string.parse(zookeeper).servers
        self._known: dict[int, _Known] = {}
        self._told: set[str] = set()  # the series of which something was known the last time
        self._too_many = False

    def look(self) -> list[Connection] | None:
        """All connections; None: a server does not answer, or may not, so that nothing can be said of any."""
        if self._too_many:
            return None
        found: list[Connection] = []
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

    def tell(self, connections: list[Connection] | None, now_ms: int) -> Mapping[str, int | None]:
        """By ``heard`` and session: HEARD, SILENT, or None where nobody knows; None once for what is known no more.

        Args:
            connections: what ``look`` found. None is told of all sessions, and what is known of them waits.
        """
        states: dict[str, int | None] = {}
        if connections is not None:
            self._compare(connections, now_ms)
            states = {series(session): _state(known, now_ms) for session, known in self._known.items()}
        told: dict[str, int | None] = {**dict.fromkeys(self._told - states.keys()), **states}
        self._told = {name for name, state in states.items() if state is not None}
        return told

    def _compare(self, connections: list[Connection], now_ms: int) -> None:
        by_session: dict[int, list[Connection]] = defaultdict(list)
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
    """As ``samples`` names it; sessions are written as the cluster's documents have them."""
    return f"{HEARD_OF}{session:#x}"


def parse(answer: str) -> Iterator[Connection]:
    """Connections without a session, such as that of who asks, are left out."""
    for line in answer.splitlines():
        if found := _CONNECTION.search(line):
            yield Connection(signed(int(found[2], 16)), int(found[1]), int(found[3]))


def _state(known: _Known, now_ms: int) -> int | None:
    if now_ms - known.said_ms > SILENT_SHARE * known.timeout_ms:
        return SILENT
    return HEARD if known.has_spoken else None
