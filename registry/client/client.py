"""The client protocol of all registries.

It is implemented for kazoo with Twisted (``kazoo_twisted``), for blocking kazoo (``kazoo_blocking``), and by the
in-memory ZooKeeper in ``kafka_zk/sim``. A method sends its request immediately and returns an awaitable result, so
callers can pipeline requests::

    pending = [client.get(path) for path in paths]
    answers = [await answer for answer in pending]

Paths are relative to the connection string's chroot and start with ``/``.
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
    NONE = "none"  # the connection or session changed, and the watch is gone: read again when connected


class WatchedEvent(NamedTuple):
    """A one-shot watch has fired; read the znode again."""

    type: EventType
    path: str


class ZnodeStat(NamedTuple):
    """ZooKeeper's Stat. Times: ms since the epoch; ``ephemeral_owner``: a session id or 0."""

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
    """``data``: None means null data. Use it for znodes without content, since Kafka parses any other data."""

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
    """Checks a version, or with ANY_VERSION that the znode exists."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Watch = Callable[[WatchedEvent], None]


def data_size(operation: Operation) -> int:
    return len(operation.data or b"") if isinstance(operation, Create | SetData) else 0


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the connection broke; the session may survive
    LOST = "lost"  # the session ended; a new one follows


class RegistryClient(Protocol):
    """The registries' view of ZooKeeper. Callbacks run on the owner's (reactor) thread."""

    @property
    def session_id(self) -> int | None: ...

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that the server granted."""

    @property
    def state(self) -> SessionState: ...

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call ``listener`` on every change. Returns a function that removes it."""

    def connected(self) -> Awaitable[None]:
        """Fires when the client is connected, immediately if it already is.

        Fails with SessionLost if the session ends or the client is closed; in the blocking client, with
        ConnectionTimeout.
        """

    def lease_held(self) -> bool:
        """True if the session is certainly alive: the client sent the last request that ZooKeeper's leader answered (a
        write or a heartbeat) less than 2/3 of the session timeout ago. Any thread may call this."""

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Callable[[], None]:
        """Call ``work`` on the callbacks' thread. Returns a function that cancels it."""

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[bytes | None, ZnodeStat]]:
        """Data and stat. Raises NoNode and sets no watch if the znode is absent; to watch its creation, use
        ``exists``."""

    def get_all(self, paths: Sequence[str]) -> Awaitable[list[tuple[bytes | None, ZnodeStat] | NoAuth | None]]:
        """Data and stat of each path in one request; None if absent, NoAuth if an ACL hides it.

        Raises Unimplemented before ZooKeeper 3.6 (see ``pipeline.read_all``).
        """

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[ZnodeStat | None]: ...

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[list[str], ZnodeStat]]:
        """Names (not paths) of the children, sorted. Raises NoNode."""

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Awaitable[str]:
        """Returns the path. ``data`` None is null, not empty. Raises NodeExists; NoNode without a parent."""

    def set(self, path: str, data: bytes, version: int = -1) -> Awaitable[ZnodeStat]:
        """Write at this version (-1: any). Raises NoNode, BadVersion."""

    def delete(self, path: str, version: int = -1) -> Awaitable[None]:
        """Delete at this version (-1: any). Raises NoNode, BadVersion, NotEmpty."""

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[str | ZnodeStat | None]]:
        """Run atomically. Returns each create's path and each set's stat, else None. Raises MultiFailed."""

    def sync(self) -> Awaitable[None]:
        """Renew the lease with a request that the leader answers and that has no other effect."""

    def close(self) -> Awaitable[None]:
        """End the session; ZooKeeper deletes its ephemerals immediately."""
