"""The client protocol of all registries, and its vocabulary.

Three clients implement it: kazoo with Twisted (``kazoo_twisted``), blocking kazoo (``kazoo_blocking``) and the
in-memory ZooKeeper in ``kafka_zk/sim``. A method sends its request immediately and returns an awaitable result. Callers
pipeline requests by calling many methods before they await::

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
    NONE = "none"  # the connection or session changed, which drops the watch; read again when connected


class WatchedEvent(NamedTuple):
    """The event of a one-shot watch. It contains no data: read the znode again."""

    type: EventType
    path: str


class ZnodeStat(NamedTuple):
    """ZooKeeper's Stat. Times are ms since the epoch; ``ephemeral_owner`` is a session id or 0."""

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
    """Creates a znode. ``data`` None is null. Use it for znodes without content, because Kafka parses any other
    data."""

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
    """Checks a version. ANY_VERSION only checks that the znode exists."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Watch = Callable[[WatchedEvent], None]


def data_size(operation: Operation) -> int:
    """Number of data bytes in the operation."""
    return len(operation.data or b"") if isinstance(operation, Create | SetData) else 0


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the connection broke; the session may survive
    LOST = "lost"  # the session ended; a new one follows


class RegistryClient(Protocol):
    """The registries' view of ZooKeeper. Callbacks run on the thread of the client's owner (the reactor thread)."""

    @property
    def session_id(self) -> int | None: ...

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that the server granted."""

    @property
    def state(self) -> SessionState: ...

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call ``listener`` on every change of state. Returns a function that removes it."""

    def connected(self) -> Awaitable[None]:
        """Fires when the client is connected, immediately if it already is.

        Fails with SessionLost if the session ends or the client is closed. In the blocking client, it fails with
        ConnectionTimeout after the connection timeout.
        """

    def lease_held(self) -> bool:
        """True if the session is certain to be alive: less than 2/3 of the session timeout has passed since the client
        sent the last request that ZooKeeper's leader answered (a write or a heartbeat). Any thread may call this."""

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Callable[[], None]:
        """Call ``work`` after ``delay_s`` on the callbacks' thread. Returns a function that cancels it."""

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[bytes | None, ZnodeStat]]:
        """Data and stat. Raises NoNode and sets no watch if the znode does not exist; to watch its creation, use
        ``exists``."""

    def get_all(self, paths: Sequence[str]) -> Awaitable[list[tuple[bytes | None, ZnodeStat] | NoAuth | None]]:
        """Data and stat of each path in one request; None for absent znodes, NoAuth for znodes that an ACL hides.

        Raises Unimplemented if the server is older than ZooKeeper 3.6 (see ``pipeline.read_all``).
        """

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[ZnodeStat | None]: ...

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[list[str], ZnodeStat]]:
        """Names (not paths) of the children, sorted. Raises NoNode."""

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Awaitable[str]:
        """Create a znode and return its path. ``data`` None is null, not empty. Raises NodeExists, or NoNode if the
        parent does not exist."""

    def set(self, path: str, data: bytes, version: int = -1) -> Awaitable[ZnodeStat]:
        """Write the data if the version matches (-1: any). Raises NoNode, BadVersion."""

    def delete(self, path: str, version: int = -1) -> Awaitable[None]:
        """Delete the znode if the version matches (-1: any). Raises NoNode, BadVersion, NotEmpty."""

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[str | ZnodeStat | None]]:
        """Run the operations atomically. Returns the path for each create, the stat for each set, else None. Raises
        MultiFailed."""

    def sync(self) -> Awaitable[None]:
        """Send a request that has no effect. The leader answers it, which renews the lease."""

    def close(self) -> Awaitable[None]:
        """End the session. ZooKeeper deletes its ephemerals immediately."""
