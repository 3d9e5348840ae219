"""The server's half of the simulated ZooKeeper: sessions, watches, and client connections.

``ClientHalf`` is its interface to a client; the tree is in ``znode_tree``.
"""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.registry.client.client import EventType, Watch, WatchedEvent
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.sim.zookeeper.znode_tree import Backup, ZnodeTree

Answer = Any  # a result, or the RegistryError of a request that failed

_FIRST_SESSION_ID = 0x1000_0000_0001
_RESTORED_TIMEOUT_MS = 6_000


@dataclass(eq=False, slots=True)
class Request:
    """A client's request. ``run``: carries it out on the server. ``waiting``: fires with the response; None if the
    client does not wait. ``watch``: the watch that the request sets, if any."""

    kind: str
    path: str
    sent_ms: float
    run: "Callable[[Server, Session], Any]"
    waiting: "Deferred[Any] | None" = None
    watch: Watch | None = None
    zxid: int = 0  # the server's last transaction when it responded

    def apply(self, server: "Server", session: "Session") -> Answer:
        try:
            return self.run(server, session)
        except RegistryError as error:
            return error


class ClientHalf(Protocol):
    @property
    def session_timeout_ms(self) -> int: ...

    def receive(self, message: Callable[[], None]) -> None:
        """Call ``message`` in the client's process."""

    def answered(self, request: Request, answer: Answer) -> None: ...

    def fired(self, event: WatchedEvent) -> None: ...

    def disconnect(self) -> None:
        """The connection is gone."""


@dataclass(slots=True)
class Session:
    """A session on the server. ``link``: None while it has no connection."""

    session_id: int
    timeout_ms: int
    last_seen_ms: float
    link: "Link | None" = None


class Link:
    """Two pipes that preserve order and take a random time per message."""

    def __init__(self, server: "Server", client: ClientHalf) -> None:
        self.server = server
        self.client = client
        self.open = True  # False: closed and forgotten by both sides
        self.silent = False  # True: nothing passes, but neither side has noticed
        self.inbound: deque[Request] = deque()  # queues: arrival times may be equal, or differ by rounding
        self._outbound: deque[Callable[[], None]] = deque()
        self._arrives_at = 0.0
        self._delivered_at = 0.0

    def send(self, request: Request) -> None:
        self.inbound.append(request)
        self._arrives_at = max(self._arrives_at, self.server.later())
        self.server.call_at(self._arrives_at, self._arrive)

    def deliver(self, message: Callable[[], None]) -> None:
        """``message`` calls a method of the client's half."""
        self._outbound.append(message)
        self._delivered_at = max(self._delivered_at, self.server.later())
        self.server.call_at(self._delivered_at, self._reach_client)

    def break_off(self) -> None:
        """Break the connection. The server still applies a random number of pending requests."""
        if not self.open:
            return
        if not self.silent:
            for _ in range(self.server.random.randint(0, len(self.inbound))):
                self._arrive()
        self.open = False
        self.server.forget(self)

    def _arrive(self) -> None:
        if self.open and not self.silent and self.inbound:
            self.server.process(self, self.inbound.popleft())

    def _reach_client(self) -> None:
        message = self._outbound.popleft()
        if self.open and not self.silent:
            self.client.receive(message)


class ServerBackup(NamedTuple):
    """``sessions``: ids of the open ones."""

    tree: Backup
    sessions: frozenset[int]


class Server:
    """One server with a Twisted ``clock``, usually ``Scheduler.clock``, and a seed.

    Args:
        delay_ms: minimum and maximum transit time of a message.
        loss_probability: probability that a request breaks the connection, before or after it is applied.
    """

    def __init__(
        self,
        clock: Clock,
        seed: int = 0,
        *,
        delay_ms: tuple[float, float] = (0.1, 2.0),
        loss_probability: float = 0.0,
    ) -> None:
        self.clock = clock
        self.random = random.Random(seed)
        self.delay_ms = delay_ms
        self.loss_probability = loss_probability
        self.tree = ZnodeTree()
        self.running = True
        self.sessions: dict[int, Session] = {}
        self.counts: Counter[str] = Counter()  # requests processed, by kind
        self.reads: Counter[str] = Counter()  # reads of a znode or of its children, by path
        self._data_watches: defaultdict[str, dict[Link, None]] = defaultdict(dict)
        self._child_watches: defaultdict[str, dict[Link, None]] = defaultdict(dict)
        self._last_session_id = _FIRST_SESSION_ID

    # Faults

    def stop(self) -> None:
        """Stop the server: all connections break, and no session expires."""
        self.running = False
        for session in list(self.sessions.values()):
            if session.link is not None:
                session.link.client.disconnect()

    def start(self) -> None:
        """Start the server again with its data; every session's timeout starts again, as after a real restart."""
        self.running = True
        for session in self.sessions.values():
            session.last_seen_ms = self.now_ms
            self._watch_timeout(session)

    def backup(self) -> "ServerBackup":
        """The content of a copy of the data directory: the znodes and the sessions."""
        return ServerBackup(self.tree.backup(), frozenset(self.sessions))

    def restore(self, backup: "ServerBackup") -> None:
        """Restart with an older copy of the data directory. Sessions that it does not have are unknown."""
        self.stop()
        self.tree.restore(backup.tree)
        for session in list(self.sessions.values()):
            if session.session_id not in backup.sessions:
                del self.sessions[session.session_id]
        for session_id in sorted(backup.sessions - self.sessions.keys()):
            self.sessions[session_id] = Session(session_id, _RESTORED_TIMEOUT_MS, self.now_ms)
        self.start()

    # Interface of the two halves of a connection

    @property
    def now_ms(self) -> float:
        return self.clock.seconds() * 1000

    def later(self) -> float:
        """The time (ms) at which a message sent now arrives."""
        return self.now_ms + self.random.uniform(*self.delay_ms)

    def call_at(self, time_ms: float, call: Callable[[], None]) -> None:
        self.clock.callLater(max(0.0, (time_ms - self.now_ms) / 1000), call)

    def open_session(self, client: ClientHalf) -> tuple[Link, int]:
        self._last_session_id += 1
        self.tree.next_zxid()
        link = Link(self, client)
        session = Session(self._last_session_id, client.session_timeout_ms, self.now_ms, link)
        self.sessions[session.session_id] = session
        self._watch_timeout(session)
        return link, session.session_id

    def has_seen(self, zxid: int) -> bool:
        """False if the server's last transaction is older than ``zxid``. A real server then refuses the client."""
        return self.tree.zxid >= zxid

    def resume_session(self, client: ClientHalf, session_id: int) -> Link | None:
        """Connect the session again; None if it has expired."""
        session = self.sessions.get(session_id)
        if session is None:
            return None
        if session.link is not None:
            session.link.break_off()
        session.link = Link(self, client)
        session.last_seen_ms = self.now_ms
        return session.link

    def process(self, link: Link, request: Request) -> None:
        """Process a request; its response takes the same connection."""
        session = self.session_of(link)
        if session is None:
            return
        session.last_seen_ms = self.now_ms
        self.counts[request.kind] += 1
        if request.kind in ("get", "children"):
            self.reads[request.path] += 1
        if self.random.random() < self.loss_probability:
            if self.random.random() < 0.5:
                request.apply(self, session)
            link.client.disconnect()
            return
        answer = request.apply(self, session)
        request.zxid = self.tree.zxid
        link.deliver(lambda: link.client.answered(request, answer))

    def session_of(self, link: Link) -> Session | None:
        return next((session for session in self.sessions.values() if session.link is link), None)

    def watch_data(self, path: str, link: Link | None) -> None:
        if link is not None:
            self._data_watches[path][link] = None

    def watch_children(self, path: str, link: Link | None) -> None:
        if link is not None:
            self._child_watches[path][link] = None

    def end_session(self, session: Session, *, expired: bool) -> None:
        """End a closed or expired session: delete its ephemerals and close its connection."""
        del self.sessions[session.session_id]
        self.fire(self.tree.end_session(session.session_id, expired=expired))
        link = session.link
        if link is not None:
            self.forget(link)
            link.deliver(link.client.disconnect)

    def forget(self, link: Link) -> None:
        """Forget a connection and the watches that were set over it."""
        for watches in (self._data_watches, self._child_watches):
            for links in watches.values():
                links.pop(link, None)
        for session in self.sessions.values():
            if session.link is link:
                session.link = None

    def _watch_timeout(self, session: Session) -> None:
        def check() -> None:
            if self.sessions.get(session.session_id) is not session or not self.running:
                return
            if self.now_ms >= session.last_seen_ms + session.timeout_ms:
                self.end_session(session, expired=True)
            else:
                self.call_at(session.last_seen_ms + session.timeout_ms + 0.001, check)

        self.call_at(session.last_seen_ms + session.timeout_ms + 0.001, check)

    def fire(self, events: list[WatchedEvent]) -> None:
        for event in events:
            links: dict[Link, None] = {}
            if event.type is not EventType.CHILD:
                links.update(self._data_watches.pop(event.path, {}))
            if event.type in (EventType.CHILD, EventType.DELETED):
                links.update(self._child_watches.pop(event.path, {}))
            for link in links:
                link.deliver(partial(link.client.fired, event))
