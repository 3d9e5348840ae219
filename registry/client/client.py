"""The client protocol that every registry is written against, and its vocabulary.

Three clients implement it: kazoo + Twisted (``kazoo_twisted``), kazoo blocking (``kazoo_blocking``) and the in-memory
ZooKeeper of ``kafka_zk/sim``. Every operation is sent when the method is called and returns an awaitable of its
outcome, so that a caller pipelines by calling many and awaiting them afterwards::

    pending = [client.get(path) for path in paths]
    answers = [await answer for answer in pending]

Paths are relative to the chroot of the connection string and start with ``/``.
"""

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from kafka_zk.registry.client.errors import NoAuth


class EventType(enum.Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILD = "child"
    NONE = "none"  # the session changed: the watch is gone, re-read once connected


class WatchedEvent(NamedTuple):
    """What a one-shot watch says: a hint to re-read, never data."""

    type: EventType
    path: str


class ZnodeStat(NamedTuple):
    """ZooKeeper's Stat; times in ms since the epoch, ``ephemeral_owner`` is a session id or 0."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Create(NamedTuple):
    """A znode that only is a parent, or that only has to be there, holds null: Kafka parses what is not null."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    path: str
    data: bytes
    version: int = -1


class Delete(NamedTuple):
    path: str
    version: int = -1


ANY_VERSION = -1


class Check(NamedTuple):
    """ANY_VERSION: the znode is there."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Watch = Callable[[WatchedEvent], None]


def data_size(operation: Operation) -> int:
    """How many bytes of data the operation writes."""
    return len(operation.data or b"") if isinstance(operation, Create | SetData) else 0


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the connection broke, the session may survive
    LOST = "lost"  # the session is over; a new one follows


class RegistryClient(Protocol):
    """ZooKeeper as the registries need it. Callbacks run where the client's owner lives (the reactor thread)."""

    @property
    def session_id(self) -> int | None: ...

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that the server granted."""

    @property
    def state(self) -> SessionState: ...

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call ``listener`` on every change of state; returns a function that removes it."""

    def connected(self) -> Awaitable[None]:
        """Fires at once when the client is connected, else when it is connected again in the same session.

        Fails with SessionLost if the session ends instead (also when the client is closed), and the blocking client's
        with ConnectionTimeout after its connection timeout.
        """

    def lease_held(self) -> bool:
        """Whether the session is certain to be alive: the last request that ZooKeeper's leader answered (a write, a
        heartbeat) was sent less than 2/3 of the session timeout ago, on the monotonic clock (design: ownership is a
        lease). Any thread may ask."""

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Callable[[], None]:
        """Call ``work`` after a time, where callbacks run; returns a function that cancels it, also when it is over."""

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[bytes | None, ZnodeStat]]:
        """Data and stat. Raises NoNode (no watch is left then; use ``exists`` to watch an absent znode)."""

    def get_all(self, paths: Sequence[str]) -> Awaitable[list[tuple[bytes | None, ZnodeStat] | NoAuth | None]]:
        """Data and stat of each in one request; None where nothing is, NoAuth in the place of what an ACL hides.

        Raises Unimplemented (a server before ZooKeeper 3.6: see ``pipeline.read_all``)."""

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[ZnodeStat | None]: ...

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[list[str], ZnodeStat]]:
        """Names (not paths) of the children, sorted. Raises NoNode."""

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Awaitable[str]:
        """Returns the path made. ``data`` None is null, which is not zero-length data. Raises NodeExists, NoNode (no
        parent)."""

    def set(self, path: str, data: bytes, version: int = -1) -> Awaitable[ZnodeStat]:
        """Raises NoNode, BadVersion."""

    def delete(self, path: str, version: int = -1) -> Awaitable[None]:
        """Raises NoNode, BadVersion, NotEmpty."""

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[str | ZnodeStat | None]]:
        """All or nothing: for each create the path, for each set the stat, else None. Raises MultiFailed."""

    def sync(self) -> Awaitable[None]:
        """A request that the leader answers and that changes nothing: it renews the lease."""

    def close(self) -> Awaitable[None]:
        """End the session; its ephemerals vanish at once."""
