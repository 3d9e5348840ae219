"""The watches of processes without traces, from ZooKeeper's ``wchc`` command, where it is allowed.

Each server knows only the watches of its own clients, so all servers are polled. Servers report data watches but not
child watches.
Source: ZooKeeper Administrator's Guide 3.9; DataTree.java: dumpWatches.
"""

from collections.abc import Callable, Iterable, Iterator

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.events import Event
from kafka_zk.embedded.health import NoAnswer, NotAllowed, ask
from kafka_zk.embedded.ports import AnswerTooLong
from kafka_zk.recorder.recording.session_names import signed
from kafka_zk.recorder.timeline.cluster_events import WatchGone, WatchSeen
from kafka_zk.registry.client import connect_string

WORD = "wchc"
CAUSE = "reported by ZooKeeper"
MOST_WATCHES = 20_000
"""Maximum number of watches. Polling stops if there are more, or if the response is too long, because a poll would cost
the server too much."""

Watches = frozenset[tuple[int, str]]
"""A session (as a signed number) and a path that it watches."""


class WatchTable:
    """``look`` blocks and may run on any thread, ``tell`` runs on the recorder's.

    Args:
        zookeeper: a connection string.
        ours: the recorder's own session, which watches everything and is ignored.
    """

    def __init__(self, zookeeper: str, ours: Callable[[], int | None]) -> None:
        self._servers, self._chroot = connect_string.parse(zookeeper)
        self._ours = ours
        self._our_sessions: set[int | None] = set()
        self._too_many = False
        self._known: dict[tuple[int, str], str] = {}
        self.misses = ""

    def look(self) -> Watches | None:
        """All current watches of the servers that respond; None if unknown (see ``misses``)."""
        if self._too_many:
            return None
        found: set[tuple[int, str]] = set()
        silent: list[str] = []
        for host, port in self._servers:
            try:
                found.update(parse(ask(WORD, port, host)))
            except NoAnswer as error:
                silent.append(str(error))
            except NotAllowed as error:
                self.misses = f"who watches what ({error})"
                return None
            except AnswerTooLong as error:
                self._give_up(str(error))
                return None
        if len(silent) == len(self._servers):
            self.misses = f"who watches what ({'; '.join(silent)})"
            return None
        self._our_sessions.add(self._ours())  # keeps earlier ones, which ZooKeeper may still list
        others = [(session, path) for session, path in found if session not in self._our_sessions]
        if len(others) > MOST_WATCHES:
            self._give_up(f"there are {len(others)} watches")
            return None
        told = "; ".join(silent)
        self.misses = told and f"the watches of clients of unresponsive servers ({told})"
        return frozenset((session, inside) for session, path in others if (inside := self._inside(path)) is not None)

    def tell(self, watches: Watches, name: Callable[[int], str]) -> list[Event]:
        """Report changes since the last call. ``name``: returns the process of a session. A process with two sessions
        watches a path while either does.
        """
        now_ms, before = wall_ms(), self._known
        self._known = {each: name(each[0]) for each in watches}
        gone = sorted(_by_path(before.items()) - _by_path(self._known.items()))
        new = sorted(_by_path(self._known.items() - before.items()))
        return [
            *(WatchGone(now_ms, actor, CAUSE, 0, path) for path, actor in gone),
            *(WatchSeen(now_ms, actor, CAUSE, 0, path) for path, actor in new),
        ]

    def _give_up(self, why: str) -> None:
        self._too_many = True
        self.misses = f"who watches what ({why}; ZooKeeper is no longer asked)"

    def _inside(self, path: str) -> str | None:
        if not self._chroot:
            return path
        return path[len(self._chroot) :] if path.startswith(f"{self._chroot}/") else None


def _by_path(known: Iterable[tuple[tuple[int, str], str]]) -> set[tuple[str, str]]:
    return {(path, actor) for (_, path), actor in known}


def parse(answer: str) -> Iterator[tuple[int, str]]:
    """Yield (session, path). A session is a hexadecimal line, followed by a tab-indented line for each path."""
    session = 0
    for line in answer.splitlines():
        if line.startswith("\t"):
            yield session, line[1:]
        elif line.startswith("0x"):
            session = signed(int(line, 16))
